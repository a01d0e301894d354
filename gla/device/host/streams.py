"""Streams and events of the host device. Work is done when a call returns, so a stream is a lock that keeps the order of
calls from several threads, and an event is a moment."""

from __future__ import annotations

import threading

from gla.errors import CaptureError, DeviceError


class HostStream:
    """`blocking` is for tests. `capturing`: set by whoever records this stream's work, `owner` ("gla" or "other"); waiting and
    host copies are then refused, as CUDA does."""

    __slots__ = ("blocking", "capturing", "closed", "lock", "owner")

    def __init__(self, blocking: bool = False) -> None:
        self.owner = "other"
        self.lock, self.blocking = threading.RLock(), blocking
        self.closed = self.capturing = False


class HostEvent:
    """`moment`: nanoseconds when it was last recorded, 0 when never."""

    __slots__ = ("closed", "moment", "timing")

    def __init__(self, timing: bool) -> None:
        self.timing, self.closed, self.moment = timing, False, 0


def use(handle: object, kind: type, call: str) -> None:
    """Raise DeviceError unless `handle` is a `kind` that has not been destroyed."""
    if not isinstance(handle, kind):
        raise DeviceError("GLA0516", f"{call}: {type(handle).__name__} is not a {kind.__name__}")
    if handle.closed:  # type: ignore[attr-defined]
        raise DeviceError("GLA0517", f"{call}: this {kind.__name__} has been destroyed")


def waits(stream: HostStream, call: str) -> None:
    """Raise CaptureError when the stream is being recorded: `call` needs the work to be done."""
    use(stream, HostStream, call)
    if stream.capturing:
        raise CaptureError(
            "GLA0922",
            f"{call} on a stream that is being captured: nothing has run yet",
            help="look at values after the capture",
        )
