"""The one gate through which everything leaves: blocks, graphs, modules, streams.

Finalizers, explicit frees and leases that end append a request to `retired` and do no more: appending to a deque takes no
lock and calls no driver, so it is safe on any thread and at any moment at which Python runs a finalizer. `drain` does the
work, outside finalizers. Nothing that was retired while a capture is open is let go before the last one ends (guarantees
D3); `own` has what gla itself gives up to make room, which no capture can need (D9). A drain inside a drain does nothing
(D5); a release that fails is logged once and its object kept (D6).
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from gla.device.base import Device, Handle
from gla.errors import GlaError
from gla.runtime.memory.block import ordering

if TYPE_CHECKING:
    from gla.runtime.memory.block import Block
    from gla.runtime.memory.pool import Bin
    from gla.runtime.stream import Stream


def report(text: str, *about: object) -> None:
    """An error of the driver in a place where nobody can be told otherwise."""
    import logging

    logging.getLogger("gla.memory").error(text, *about)


class Request(Protocol):
    """Something to let go of. Called by the gate alone, exactly once."""

    def let_go(self) -> None: ...


class _Deferred:
    """An action that waits until the events on the streams that used its object have passed."""

    __slots__ = ("action", "events", "warned")

    def __init__(self, events: list[Handle], action: Callable[[], None]) -> None:
        self.events, self.action, self.warned = events, action, False


class Gate:
    """`retired`, `own`: requests not looked at yet. `failed`: what could not be released, kept for good."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.retired: deque[Request] = deque()
        self.own: deque[Request] = deque()
        self.failed: list[object] = []
        self.captures = 0
        self.closed = False
        self.leased = 0
        self.lock = threading.RLock()
        self._streams: dict[int, weakref.ref[Stream]] = {}
        self._waiting: deque[_Deferred] = deque()
        self._draining = False
        self.settle: Callable[[Bin | None, int | None], int] = lambda bin, limit: 0  # the pool's

    def queue(self, own: bool) -> deque[Request]:
        """Where a request goes."""
        return self.own if own else self.retired

    # --- streams
    @property
    def streams(self) -> list[Stream]:
        """Every stream of gla's on this device that may have work."""
        alive = (entry() for entry in list(self._streams.values()))
        return [stream for stream in alive if stream is not None and not stream.closed]

    def enter(self, stream: Stream) -> None:
        """A new stream. It leaves by itself when it is collected: one step, without a lock."""
        number, streams = stream.number, self._streams
        streams[number] = weakref.ref(stream, lambda _: streams.pop(number, None))

    # --- captures
    def begin_capture(self) -> None:
        """From now on what is retired stays; what was retired before is let go of first."""
        with self.lock:
            if not self.captures:
                self.drain()
            self.captures += 1

    def end_capture(self) -> None:
        """With the last capture, what was held back is let go of."""
        with self.lock:
            self.captures -= 1
            self.drain()

    # --- drains
    def drain(self, limit: int | None = None, bin: Bin | None = None) -> int:
        """Let go of at most `limit` retired objects (all when None), of as many of `bin`, and of those whose last use has passed.

        Returns how many were let go. With a limit it never waits: when another thread drains, it does nothing.
        """
        if self.closed or not self.lock.acquire(blocking=limit is None):
            return 0
        try:
            if self._draining or self.captures:
                return 0
            self._draining = True
            try:
                done = self._poll() + self._take(self.own, limit) + self._take(self.retired, limit)
                return done + self.settle(bin, limit)
            finally:
                self._draining = False
        finally:
            self.lock.release()

    def drain_all(self) -> int:
        """Let go of everything that may go, waiting for the last uses. While a capture is open: of what was retired before
        it, and of what gla itself gave up."""
        total = 0
        with self.lock:
            if self._draining or self.closed:
                return 0
            self._draining = True
            try:
                while True:
                    done = self._take(self.own, None)
                    if not self.captures:
                        done += self._take(self.retired, None) + self.settle(None, None)
                    if self._waiting:
                        for stream in self.streams:
                            stream.synchronize()
                        done += self._poll()
                    total += done
                    if not done:
                        return total
            finally:
                self._draining = False

    def _take(self, queue: deque[Request], limit: int | None) -> int:
        done = 0
        while queue and (limit is None or done < limit):
            try:
                request = queue.popleft()
            except IndexError:
                break
            self.attempt(request.let_go, request)
            done += 1
        return done

    def attempt(self, action: Callable[[], None], kept: object) -> bool:
        """Do a release. When it fails it is logged, and `kept` stays alive: nothing that may be in use is let go of."""
        try:
            action()
        except GlaError as error:
            self.failed.append(kept)
            report("could not release %r; it is kept: %s", kept, error)
            return False
        except BaseException:  # an interrupt: half a release is never done again
            self.failed.append(kept)
            raise
        return True

    def after_use(self, streams: Iterable[Stream], action: Callable[[], None]) -> None:
        """Run `action` in a later drain, once everything submitted to `streams` so far is done. Without an event (the driver
        may be out of them) it is waited for here."""
        streams, events = [stream for stream in streams if not stream.closed], []
        try:
            for stream in streams:
                events.append(self.device.create_event())
                self.device.record(events[-1], stream.handle)
        except GlaError:
            for event in events:
                self._destroy(event)
            for stream in streams:
                stream.synchronize()
            action()
            return
        with self.lock:
            self._waiting.append(_Deferred(events, action))

    def _destroy(self, event: Handle) -> None:
        self.attempt(lambda: self.device.destroy_event(event), event)

    def _poll(self) -> int:
        done = 0
        while self._waiting:
            entry = self._waiting[0]
            while entry.events and self._passed(entry):
                self._destroy(entry.events.pop())
            if entry.events:
                break
            self._waiting.popleft()
            self.attempt(entry.action, entry)
            done += 1
        return done

    def _passed(self, entry: _Deferred) -> bool:
        """Whether an entry's last event has passed. A question that fails is asked again by a later drain, and logged once."""
        try:
            return self.device.query(entry.events[-1])
        except GlaError as error:
            if not entry.warned:
                entry.warned = True
                report("could not ask whether %r is still in use: %s", entry.action, error)
            return False

    # --- leases: counted here, so that a free and the end of the last lease cannot miss each other
    def lease(self, block: Block) -> None:
        with self.lock, ordering:
            detail = block.details()
            detail.leases += 1
            if detail.leases == 1:
                self.leased += block.nbytes

    def unlease(self, block: Block) -> None:
        with self.lock, ordering:
            detail = block.details()
            detail.leases -= 1
            if detail.leases == 0:
                self.leased -= block.nbytes
                if detail.freed or detail.dropped:
                    self.queue(detail.own).append(block)
