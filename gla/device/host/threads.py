"""A pool of threads that share the items of one kernel. Compiled code runs outside the interpreter's lock.

The caller works too and takes pieces until none is left, so a thread that wakes up late costs nothing. One job at a time: a
second caller runs its items by itself.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import count

Run = Callable[[int, int, int], None]
PIECES = 4  # per thread
GRAIN = 64  # items that a piece counts in: whole vectors


def cores() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


class _Job:
    """Pieces of 0..items, handed out and counted by counters whose `next` is one step under the interpreter's lock."""

    __slots__ = ("_finished", "_taken", "done", "items", "pieces", "run", "size", "slots")

    def __init__(self, run: Run, slots: int, items: int, pieces: int) -> None:
        self.run, self.slots, self.items = run, slots, items
        self.size = (items // pieces + GRAIN) // GRAIN * GRAIN
        self.pieces = -(-items // self.size)
        self._taken, self._finished = count(), count(1)
        self.done = threading.Lock()
        self.done.acquire()

    def work(self) -> None:
        while (piece := next(self._taken)) < self.pieces:
            begin = piece * self.size
            self.run(self.slots, begin, min(self.items, begin + self.size))
            if next(self._finished) == self.pieces:
                self.done.release()


class Pool:
    """`size` threads, the caller among them; the others start when they are first needed."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._busy = threading.Lock()
        self._wake: list[threading.Lock] = []  # held while there is nothing to do
        self._job: _Job | None = None

    def run(self, function: Run, slots: int, items: int) -> None:
        """Call `function(slots, begin, end)` for pieces of 0..items, and return when all are done."""
        if self.size == 1 or not self._busy.acquire(blocking=False):
            function(slots, 0, items)
            return
        try:
            if not self._wake:
                self._start()
            job = self._job = _Job(function, slots, items, self.size * PIECES)
            for wake in self._wake:
                if wake.locked():  # else it was woken for an earlier job and has not come round yet
                    wake.release()
            job.work()
            job.done.acquire()
        finally:
            self._job = None
            self._busy.release()

    def _start(self) -> None:
        for number in range(1, self.size):
            wake = threading.Lock()
            wake.acquire()
            self._wake.append(wake)
            threading.Thread(target=self._serve, args=(wake,), name=f"gla-{number}", daemon=True).start()

    def _serve(self, wake: threading.Lock) -> None:
        while True:
            wake.acquire()
            job = self._job
            if job is not None:
                job.work()
