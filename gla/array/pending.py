"""Which pending values there are, by device: those that a write must see to first. Weak: a dropped value is no reader."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gla.array.value import Array


LIMIT = 2000
"""Pending nodes behind one value before it is realised by itself."""


class _Entry(weakref.ref):  # type: ignore[type-arg]
    __slots__ = ("key", "place")

    key: int
    place: Place


def _gone(entry: _Entry) -> None:
    if entry.place.waiting.get(entry.key) is entry:
        del entry.place.waiting[entry.key]


class Place:
    """A device as realising sees it: one lock, and the values that wait.

    `writes` counts writes begun, `open` those that have not ended; both change under the lock, and are read without it.
    """

    __slots__ = ("device", "lock", "open", "waiting", "writes")

    def __init__(self, device: str) -> None:
        self.device = device
        self.lock = threading.RLock()
        self.waiting: dict[int, _Entry] = {}
        self.writes = self.open = 0

    def begin(self) -> None:
        """A write begins, before it looks who reads what it overwrites: whoever adds a reader from now on notices.

        `open` grows first: who reads `writes` and then finds nothing open sees `writes` grow later.
        """
        self.open += 1
        self.writes += 1

    def end(self) -> None:
        """The write is done, or was given up."""
        self.open -= 1

    def arrays(self) -> list[Array]:
        """Pending values that are alive, oldest first."""
        return [a for a in (entry() for entry in list(self.waiting.values())) if a is not None and a._buffer is None]


_places: dict[str, Place] = {}


def place(device: str) -> Place:
    found = _places.get(device)
    return found if found is not None else _places.setdefault(device, Place(device))


def add(array: Array) -> None:
    """`array` waits from now on."""
    here = place(array._device)
    entry = _Entry(array, _gone)
    entry.key, entry.place = id(array), here
    here.waiting[id(array)] = entry


def discard(array: Array) -> None:
    """`array` waits no longer."""
    place(array._device).waiting.pop(id(array), None)


def _after_fork() -> None:
    """In the child: a lock that another thread of the parent held is held for ever. Nothing can be computed there any more, and
    whoever tries has to get as far as the refusal."""
    for here in _places.values():
        here.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
