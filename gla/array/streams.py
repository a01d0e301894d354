"""`gla.Stream`: a stream as people make one, and the stream that is current.

Order between streams is kept where data asks, so a stream is for work that may overlap; in a capture the capture's own stream
is current, and what is recorded has the order of its data.
"""

from __future__ import annotations

from typing import Any

from gla.array import engine
from gla.array.boundary import public
from gla.array.scope import current
from gla.errors import CaptureError
from gla.ir.spans import labels
from gla.runtime import stream as runtime


class Stream(runtime.Stream):
    """A new stream of a device (the current one). `with stream:` makes it current for this task; `exe.launch(stream)`.

    `handle`: another library's stream (an integer), which stays that library's own. `after(other)`: what is submitted from now
    on runs after everything that `other` was given. `synchronize()` waits, `query()` only asks.
    """

    __slots__ = ()

    def __init__(self, device: str | None = None, *, handle: Any = None) -> None:
        machine = engine.machine(device or engine.default_device())
        super().__init__(machine.device, machine.gate, handle, owned=handle is None)

    @public
    def synchronize(self) -> None:
        """Wait until everything submitted so far is done. CaptureError inside a capture."""
        scope = current.get()
        if scope is not None:
            raise CaptureError(
                "GLA0901",
                f"stream.synchronize() inside {scope.name}, where nothing has run yet",
                labels=labels("here"),
                help="wait after the launch: exe.synchronize()",
            )
        super().synchronize()


@public
def current_stream() -> runtime.Stream:
    """The stream that this task's work goes to; inside a capture, the capture's own."""
    from gla.runtime.capture import current_scope

    scope = current_scope()
    if scope is not None and scope.stream is not None:
        return scope.stream
    return engine.machine(engine.default_device()).current_stream()  # type: ignore[no-any-return]
