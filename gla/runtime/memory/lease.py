"""Leases: what keeps memory alive for a graph or an executable, and in order with its launches.

A launch costs nothing per leased block: the holder has one `LastUse`, and whoever uses a leased block in another way looks
into it (`before`) and leaves its stream there for the holder's next launch to wait for.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gla.runtime.memory.block import ordering

if TYPE_CHECKING:
    from gla.runtime.memory.block import Block, Detail
    from gla.runtime.memory.gate import Gate
    from gla.runtime.stream import Stream


class LastUse:
    """`stream`, `mark`: where the holder was launched last, and the number of that launch. `others`: streams that have used
    the leased memory since."""

    __slots__ = ("_lock", "mark", "others", "stream")

    def __init__(self) -> None:
        self.stream: Stream | None = None
        self.mark = 0
        self.others: set[Stream] = set()
        self._lock = threading.Lock()

    def before(self, stream: Stream) -> None:
        """`stream` is about to use memory of this holder: order it after the last launch, and note it for the next."""
        with self._lock:
            if self.stream is not None:
                stream.after(self.stream, self.mark)
            if self.stream is not stream:
                self.others.add(stream)

    def launch(self, stream: Stream) -> None:
        """Order a launch on `stream`: after the last one, and after every use of the memory in between."""
        if self.stream is stream and not self.others:
            return
        with self._lock:
            for other in self.others:
                stream.after(other)
            if self.stream is not None:
                stream.after(self.stream, self.mark)
            self.others.clear()
            self.stream, self.mark = stream, stream.submitted


class Lease:
    """Holds `blocks` until `release` (or until it is collected). `use`: the holder's record, seen by other users of the blocks."""

    __slots__ = ("__weakref__", "_held", "blocks", "gate", "use")

    def __init__(self, gate: Gate, blocks: Iterable[Block], use: LastUse | None = None) -> None:
        self.gate, self.use = gate, use
        self.blocks = tuple({id(block): block for block in blocks if block.nbytes}.values())
        self._held = True
        with gate.lock, ordering:
            for block in self.blocks:
                gate.lease(block)
                if use is not None:
                    self._enter(block.details(), use)

    def _enter(self, detail: Detail, use: LastUse) -> None:
        """Everything that used the block so far comes before the holder's first launch."""
        use.others.update(stream for stream in (detail.writer, *detail.readers) if stream is not None)
        use.others.update(lessee.stream for lessee in detail.lessees if lessee.stream is not None)
        detail.lessees = (*detail.lessees, use)

    def release(self) -> None:
        """End the lease. The holder's last launch becomes a plain use of the blocks, which their next use and their release wait for."""
        with self.gate.lock, ordering:
            if not self._held:
                return
            self._held = False
            for block in self.blocks:
                if self.use is not None:
                    self._leave(block.details(), self.use)
                self.gate.unlease(block)
        self.blocks = ()

    let_go = release

    def _leave(self, detail: Detail, use: LastUse) -> None:
        kept = list(detail.lessees)
        kept.remove(use)  # once: a holder may have several leases of one block
        detail.lessees = tuple(kept)
        if use.stream is not None and use.stream is not detail.writer:
            detail.readers |= {use.stream}

    def __del__(self) -> None:
        if self._held and self.blocks:
            self.gate.retired.append(self)
