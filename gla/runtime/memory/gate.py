"""The one gate through which everything leaves: blocks, graphs, modules, streams.

Finalizers, explicit frees and leases that end append a request to `retired` and do no more: appending to a deque takes no
lock and calls no driver, so it is safe on any thread and at any moment at which Python runs a finalizer. `drain` does the
work, outside finalizers. While a capture is open nothing is let go (guarantees D3); a drain inside a drain does nothing (D5);
a release that fails is logged once and its object kept (D6).
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from gla.device.base import Device, Handle
from gla.errors import GlaError

if TYPE_CHECKING:
    from gla.runtime.memory.block import Block
    from gla.runtime.memory.pool import Bin
    from gla.runtime.stream import Stream

log = logging.getLogger("gla.memory")


class Request(Protocol):
    """Something to let go of. Called by the gate alone, exactly once."""

    def let_go(self) -> None: ...


class _Deferred:
    """An action that waits until the events on the streams that used its object have passed."""

    __slots__ = ("action", "events")

    def __init__(self, events: list[Handle], action: Callable[[], None]) -> None:
        self.events, self.action = events, action


class Gate:
    """`retired`: requests not looked at yet. `failed`: what could not be released, kept for good."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.retired: deque[Request] = deque()
        self.failed: list[object] = []
        self.streams: weakref.WeakSet[Stream] = weakref.WeakSet()
        self.captures = 0
        self.closed = False
        self.leased = 0
        self.lock = threading.RLock()
        self._waiting: deque[_Deferred] = deque()
        self._draining = False
        self.settle: Callable[[Bin | None, int | None], int] = lambda bin, limit: 0  # the pool's

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
                return self._poll() + self._take(limit) + self.settle(bin, limit)
            finally:
                self._draining = False
        finally:
            self.lock.release()

    def _take(self, limit: int | None) -> int:
        done = 0
        while self.retired and (limit is None or done < limit):
            try:
                request = self.retired.popleft()
            except IndexError:
                break
            self._try(request.let_go, request)
            done += 1
        return done

    def _try(self, action: Callable[[], None], kept: object) -> None:
        try:
            action()
        except GlaError as error:
            self.failed.append(kept)
            log.error("could not release %r; it is kept: %s", kept, error)

    def after_use(self, streams: Iterable[Stream], action: Callable[[], None]) -> None:
        """Run `action` in a later drain, once everything submitted to `streams` so far is done."""
        events = []
        for stream in streams:
            event = self.device.create_event()
            self.device.record(event, stream.handle)
            events.append(event)
        with self.lock:
            self._waiting.append(_Deferred(events, action))

    def _poll(self) -> int:
        done = 0
        while self._waiting:
            entry = self._waiting[0]
            while entry.events and self.device.query(entry.events[-1]):
                self.device.destroy_event(entry.events.pop())
            if entry.events:
                break
            self._waiting.popleft()
            self._try(entry.action, entry)
            done += 1
        return done

    def drain_all(self) -> int:
        """Let go of everything retired, waiting for the last uses."""
        done = self.drain()
        with self.lock:
            if self._waiting and not self._draining and not self.captures and not self.closed:
                for stream in list(self.streams):
                    stream.synchronize()
                done += self.drain()
        return done

    # --- leases: counted here, so that a free and the end of the last lease cannot miss each other
    def lease(self, block: Block) -> None:
        with self.lock:
            detail = block.details()
            detail.leases += 1
            if detail.leases == 1:
                self.leased += block.nbytes

    def unlease(self, block: Block) -> None:
        with self.lock:
            detail = block.details()
            detail.leases -= 1
            if detail.leases == 0:
                self.leased -= block.nbytes
                if detail.freed:
                    self.retired.append(block)
