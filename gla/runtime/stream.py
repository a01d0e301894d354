"""Streams and their order: work of one stream runs in the order of submission, streams are ordered only where data asks.

A stream counts its submissions (`submitted`). A consumer on another stream calls `after`, which records an event on the
producer's stream then and there and waits for it; nothing is recorded while all work stays on one stream, so a launch
costs one counter. Whoever submits work to a stream sets `submitted = next(ticks)` *after* the driver's call: a mark that a
consumer has seen is then never newer than the event that it waits for.

Which stream is current is a matter of the task (a context variable); so is the capture that a task is in.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from gla.device.base import Device, Handle
from gla.errors import CaptureError, DeviceError
from gla.runtime.others import refuse_foreign_capture

if TYPE_CHECKING:
    from gla.runtime.memory.gate import Gate

_numbers = itertools.count()
_entered: ContextVar[tuple[Stream, ...]] = ContextVar("gla_stream", default=())


class Capturing(Protocol):
    """An open capture, as streams see it."""

    def within(self, other: Any) -> bool:
        """Whether it is `other` or lies inside it."""


recording: ContextVar[Capturing | None] = ContextVar("gla_capture", default=None)
"""The innermost capture of this task."""


class Stream:
    """A non-blocking stream of `device`. `owned`: gla made it, and destroys it when the object goes.

    `with stream:` makes it current for this task. `capturing`: the capture that records on it. `closed`: the driver's stream is
    gone, and all its work is done. Free memory may still name a closed stream as its last user.
    """

    __slots__ = (
        "__weakref__", "_event", "_gate", "_lock", "_seen", "capturing", "closed", "device", "handle", "number", "owned", "submitted", "ticks",
    )  # fmt: skip

    def __init__(self, device: Device, gate: Gate, handle: Handle = None, *, owned: bool = True) -> None:
        self.device, self.owned, self.closed = device, owned, False
        self.handle = device.create_stream() if handle is None else handle
        self.number = next(_numbers)
        self.ticks = itertools.count(1)
        self.submitted = 0
        self.capturing: Capturing | None = None
        self._seen: dict[int, int] = {}
        self._event: Handle = None
        self._lock = threading.Lock()
        self._gate = gate  # from here on the finalizer has something to destroy
        gate.enter(self)

    # --- order
    def after(self, other: Stream, mark: int | None = None) -> None:
        """Work submitted to this stream from now on runs after what `other` was given up to `mark` (so far, if None).

        A number is drawn after the launch that it stands for: an event recorded when `submitted` was read covers every
        launch with a number up to that.
        """
        if other is self or other.closed:
            return
        now = other.submitted
        seen = self._seen.get(other.number, 0)
        if seen >= (now if mark is None else mark):
            return
        other.order(self)
        self._seen[other.number] = max(seen, now)
        self.submitted = next(self.ticks)  # whoever waits for this stream waits for the other as well

    def order(self, consumer: Stream) -> None:
        """Record this stream's event and let `consumer` wait for it."""
        if consumer.device is not self.device:
            raise DeviceError("GLA0510", f"a stream of {consumer.device.name} cannot wait for one of {self.device.name}")
        with self._lock:
            if self.closed:
                return
            if self._event is None:
                self._event = self.device.create_event()
            self.device.record(self._event, self.handle)
            consumer.device.wait(consumer.handle, self._event)

    def has_seen(self, other: Stream) -> bool:
        """Whether work submitted here now is ordered after everything submitted to `other`, with nothing to wait for."""
        return other is self or other.closed or self._seen.get(other.number, 0) >= other.submitted

    def synchronize(self) -> None:
        """Wait until everything submitted so far is done."""
        if not self.closed:
            self.device.synchronize(self.handle)

    def close(self) -> None:
        """By the gate, when nobody can submit to the stream any more and its work is done."""
        with self._lock:
            self.closed = True
            event, self._event = self._event, None
        if event is not None:
            self.device.destroy_event(event)
        if self.owned:
            self.device.destroy_stream(self.handle)

    def query(self) -> bool:
        """Whether everything submitted so far is done."""
        event = self.device.create_event()
        try:
            self.device.record(event, self.handle)
            return self.device.query(event)
        finally:
            self.device.destroy_event(event)

    async def passed(self) -> None:
        """`synchronize` for an event loop, which goes on meanwhile."""
        import asyncio

        event, pause = self.device.create_event(), 20e-6
        try:
            self.device.record(event, self.handle)
            while not self.device.query(event):
                await asyncio.sleep(pause)
                pause = min(2 * pause, 2e-3)
        finally:
            self.device.destroy_event(event)

    # --- captures
    def check(self) -> None:
        """CaptureError when another capture than this task's own records on this stream, another library's included."""
        if not self.owned:
            refuse_foreign_capture(self.device, self.handle)
        holder, mine = self.capturing, recording.get()
        if holder is not None and (mine is None or not mine.within(holder)):
            raise CaptureError(
                "GLA0914",
                f"{self!r} is recorded by another capture",
                help="use a stream of your own: with gla.Stream(): ...",
            )

    # --- the current stream
    def __enter__(self) -> Stream:
        self.check()
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        # The entry is taken out wherever it stands: a generator may leave its block after the caller has entered another.
        entered = _entered.get()
        for k in range(len(entered) - 1, -1, -1):
            if entered[k] is self:
                _entered.set((*entered[:k], *entered[k + 1 :]))
                return

    def __del__(self) -> None:
        gate = getattr(self, "_gate", None)
        if gate is not None:
            gate.retired.append(_Ended(self, gate))

    def __repr__(self) -> str:
        return f"<gla.Stream {self.number} of {self.device.name}>"


class _Ended:
    """A stream that nobody can submit to any more. It lives until its work is done, as the last user of memory that was let go of."""

    __slots__ = ("gate", "stream")

    def __init__(self, stream: Stream, gate: Gate) -> None:
        self.stream, self.gate = stream, gate

    def let_go(self) -> None:
        self.gate.enter(self.stream)  # so that whoever waits for all streams waits for this one
        self.gate.after_use((self.stream,), self.stream.close)


def chosen_stream() -> Stream | None:
    """The stream that this task made current, or None: the device's own."""
    entered = _entered.get()
    if not entered:
        return None
    stream = entered[-1]
    if stream.capturing is not None or not stream.owned:
        stream.check()
    return stream


@contextmanager
def using(stream: Stream) -> Iterator[Stream]:
    """Make `stream` current for this task inside the block."""
    with stream:
        yield stream


def current_or(default: Stream, given: Any = None) -> Stream:
    """`given`, or the task's current stream when it is on the device of `default`, or `default`."""
    stream = given if given is not None else chosen_stream()
    if stream is None or (given is None and stream.device is not default.device):
        return default
    if stream.device is not default.device:
        raise DeviceError("GLA0510", f"{stream!r} is not a stream of {default.device.name}")
    if stream.capturing is not None or not stream.owned:
        stream.check()
    return stream
