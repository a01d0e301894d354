"""What executables may hold between runs: arenas, staging buffers and driver graphs, kept under a budget of bytes.

An executable enters when it instantiates a binding. When the sum is over the limit, those that were used longest ago let go
of what they hold, and make it again when they are next run; nothing on the replay path is counted or ordered. Recency is
a second chance: an executable that has run since it was last looked at goes to the end instead.
"""

from __future__ import annotations

import threading
import weakref
from typing import Protocol


class Holder(Protocol):
    """An executable: how many bytes it holds, how often it has run, and letting go unless it is running."""

    @property
    def held_bytes(self) -> int: ...
    @property
    def runs(self) -> int: ...
    def drop(self) -> bool: ...


class Budget:
    """Holders in the order of entry, the longest unused first. They are not kept alive."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._seen: dict[int, tuple[weakref.ref[Holder], int]] = {}
        self._lock = threading.Lock()

    def enter(self, holder: Holder) -> None:
        """`holder` has taken memory: the others make room for it, if they have to."""
        key, seen = id(holder), self._seen
        seen.pop(key, None)
        seen[key] = (weakref.ref(holder, lambda gone: _forget(seen, key, gone)), holder.runs)
        over = self.total() - self.limit
        if over > 0 and self._lock.acquire(blocking=False):  # one thread makes room at a time
            try:
                self._make_room(over, but=holder)
            finally:
                self._lock.release()

    def _make_room(self, over: int, but: Holder) -> None:
        for mercy in (True, False):
            for key, (entry, runs) in list(self._seen.items()):
                holder = entry()
                if holder is None or holder is but:
                    continue
                if mercy and holder.runs != runs:
                    self._seen.pop(key, None)
                    self._seen[key] = (entry, holder.runs)
                    continue
                over -= self._dropped(key, holder)
                if over <= 0:
                    return

    def _dropped(self, key: int, holder: Holder) -> int:
        nbytes = holder.held_bytes
        if not holder.drop():
            return 0
        self._seen.pop(key, None)
        return nbytes

    def total(self) -> int:
        """Bytes held."""
        return sum(holder.held_bytes for holder in self._holders())

    def drop_all(self) -> int:
        """Let everything go that is not running, the longest unused first. Returns bytes."""
        return sum(self._dropped(id(holder), holder) for holder in self._holders())

    def _holders(self) -> list[Holder]:
        return [holder for holder in (entry() for entry, _ in list(self._seen.values())) if holder is not None]


def _forget(seen: dict[int, tuple[weakref.ref[Holder], int]], key: int, gone: weakref.ref[Holder]) -> None:
    """By a finalizer. Another holder may stand at the same address by now."""
    entry = seen.get(key)
    if entry is not None and entry[0] is gone:
        seen.pop(key, None)
