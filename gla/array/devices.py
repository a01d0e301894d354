"""Which device new arrays go to: `gla.device("cuda:1")` for a stretch of code, else GLA_DEVICE."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gla.array import engine
from gla.array.boundary import public
from gla.array.scope import current
from gla.errors import CaptureError
from gla.ir.spans import labels


def current_device() -> str:
    """The name of the device that new arrays are made on."""
    return engine.default_device()


@contextmanager
def _within(name: str) -> Iterator[str]:
    from gla.runtime.devices import choose, unchoose

    token = choose(engine.machine(name))
    try:
        yield name
    finally:
        unchoose(token)


@public
def device(name: str):  # type: ignore[no-untyped-def]
    """Make `name` ("host", "cuda", "cuda:1") the device of new arrays inside a `with` block, for this task only."""
    full = engine.device_name(name)
    scope = current.get()
    if scope is not None and scope.device != full:
        raise CaptureError(
            "GLA0903",
            f"the device is switched to {full} inside {scope.name}, which runs on {scope.device}",
            labels=labels(""),
            help="switch before: with gla.device(...): gla.capture(f)",
        )
    return _within(full)


@public
def synchronize() -> None:
    """Wait until everything submitted so far is done, on every device."""
    engine.synchronize()
