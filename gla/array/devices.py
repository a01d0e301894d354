"""Which device new arrays go to: `gla.device("cuda:1")` for a stretch of code, else GLA_DEVICE."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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


@public
def memory(device: str | None = None) -> dict[str, int]:
    """Bytes that gla holds on `device` (the current one if None).

    `held`, from the driver, is the sum of `in_use` (arrays, graphs, compiled functions; each block once, however many views
    it has) and `cached` (free, handed out again). Of those in use, `leased` are kept by graphs and executables. `arenas` are
    what compiled functions hold between calls, at most `budget`. `pinned` is host memory, not among `held`. `executables`
    counts compiled functions. Sizes are those of blocks: an array may take up to a quarter more than its bytes.
    Harmless inside a capture.
    """
    return dict(engine.machine(device or current_device()).memory())


@public
def reclaim(device: str | None = None) -> int:
    """Collect garbage and give memory that nobody uses back to the driver, on `device` (all that were opened if None); gives
    the number of bytes.

    Waits for work that still uses what goes. Compiled functions let go of their arenas, and take them again when they are next
    called. Inside a capture it collects garbage and releases nothing. Running out of memory does this by itself, once.
    """
    from gla.runtime.devices import machines

    scope = current.get()
    if scope is not None and scope.capturing():
        gc.collect()
        return 0
    return sum(machine.reclaim() for machine in ([engine.machine(device)] if device else machines()))


@public
def stream(chosen: Any):  # type: ignore[no-untyped-def]
    """Make a stream this task's current one inside a `with` block."""
    from gla.runtime.stream import using

    return using(chosen)
