"""Blocks of device memory, and `Storage`, the part of a block that an array stands on.

`Block.home` is the short way: the stream that alone has used the block so far. While work comes from that stream there is
nothing to order, and the block has no `Detail`. Anything more (another stream, a lease, an explicit free, foreign memory, a
graph's output before the first launch) is written in the detail, `home` is None, and `acquire` does the ordering.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

from gla.errors import CaptureError, DeviceError

if TYPE_CHECKING:
    from gla.runtime.memory.lease import LastUse
    from gla.runtime.stream import Stream

ordering = threading.RLock()
"""Held while a detail is read and changed: `acquire` may take a detail away that nobody needs. Taken after the gate's lock, never before."""


class Detail:
    """What the short way does not know. `writer`, `readers`: streams to wait for. `written`: the number on the writer's stream
    up to which to wait, found when somebody first does. `lessees`: the records of graphs that hold the block; `leases`
    counts holders; `unready`: the record of the graph that has not filled the block yet; `own`: gla's own (an arena), which is
    let go of even while a capture is open; `dropped`: collected, together with what leases it, before the leases ended."""

    __slots__ = ("dropped", "freed", "leases", "lessees", "own", "owner", "readers", "released", "unready", "writer", "written")

    def __init__(self, writer: Stream | None) -> None:
        self.writer = writer
        self.written: int | None = None
        self.readers: frozenset[Stream] = frozenset()
        self.lessees: tuple[LastUse, ...] = ()
        self.leases = 0
        self.freed = self.released = self.own = self.dropped = False
        self.unready: LastUse | None = None
        self.owner: Any = None


class Block:
    """Device memory with one life: handed out once, let go of exactly once, through the gate."""

    __slots__ = ("__weakref__", "chunk", "detail", "home")

    def __init__(self, chunk: Source, home: Stream | None) -> None:
        self.chunk, self.home = chunk, home
        self.detail: Detail | None = None

    @property
    def address(self) -> int:
        return self.chunk.address

    @property
    def nbytes(self) -> int:
        return self.chunk.nbytes

    @property
    def freed(self) -> bool:
        """Whether `free()` was called."""
        return self.detail is not None and self.detail.freed

    def details(self) -> Detail:
        """The block's detail; from now on every use goes the long way."""
        with ordering:
            if self.detail is None:
                self.detail = Detail(self.home)
            self.home = None
            return self.detail

    def streams(self) -> set[Stream]:
        """Every stream whose work may still use the block."""
        detail = self.detail
        used = {self.home} if detail is None else {detail.writer, *detail.readers}
        return {stream for stream in used if stream is not None}

    def free(self) -> None:
        """Let go of the memory now, or when the last lease ends; further use through any array is refused."""
        gate = self.chunk.gate
        with gate.lock, ordering:
            detail = self.details()
            if detail.freed or self.nbytes == 0:
                return
            detail.freed = True
            if detail.leases == 0:
                gate.queue(detail.own).append(self)
        gate.drain(16)

    def let_go(self) -> None:
        """By the gate. The first call without a lease releases, any other does nothing."""
        with self.chunk.gate.lock, ordering:
            detail = self.details()
            if detail.released:
                return
            if detail.leases:
                detail.dropped = True
                return
            detail.released = True
        self.chunk.give_back(self)

    def __del__(self) -> None:
        # Publishes and no more. `home` is set only where nothing has to be waited for: the size class's own list will do.
        home = self.home
        if home is not None:
            self.chunk.retire(home)
        elif self.detail is not None and not self.detail.released:
            self.chunk.gate.queue(self.detail.own).append(self)

    def __repr__(self) -> str:
        return f"<Block {self.address:#x} of {self.nbytes} bytes>"


class Source(Protocol):
    """The memory under a block: a chunk of the pool, pinned or foreign memory."""

    address: int
    nbytes: int

    @property
    def gate(self) -> Any: ...
    def retire(self, home: Stream) -> None: ...
    def give_back(self, block: Block) -> None: ...


class Storage:
    """`nbytes` bytes of `block` from `address`: what an array stands on. Dropping the last one lets go of the block."""

    __slots__ = ("__weakref__", "address", "block", "nbytes")

    def __init__(self, block: Block, address: int, nbytes: int) -> None:
        self.block, self.address, self.nbytes = block, address, nbytes

    @property
    def offset(self) -> int:
        """Bytes from the block's start."""
        return self.address - self.block.address

    @property
    def is_freed(self) -> bool:
        """Whether `free()` was called on the memory."""
        return self.block.freed

    def view(self, offset: int, nbytes: int) -> Storage:
        """A part of this storage, on the same block."""
        return Storage(self.block, self.address + offset, nbytes)

    def check(self) -> None:
        """Raise when the memory was freed."""
        if self.block.freed:
            raise freed_error(self.nbytes)

    def free(self) -> None:
        """Give the memory back now; see Block.free."""
        self.block.free()

    def __repr__(self) -> str:
        return f"<Storage {self.nbytes} bytes at {self.address:#x}>"


def freed_error(nbytes: int) -> DeviceError:
    return DeviceError(
        "GLA0512",
        f"an array of {nbytes} bytes is used after its memory was given back with free()",
        help="call free() after the last use, or let the array go out of scope instead",
    )


def settle(block: Block, write: bool) -> None:
    """The host is about to look at `block` in place (pinned memory), or to write it: wait for what writes it, or for all that uses it.

    Raises DeviceError when the block was freed. Launches that come later are the caller's to keep away.
    """
    home = block.home
    if home is not None:
        home.synchronize()
        return
    with ordering:
        detail = block.details()
        if detail.freed:
            raise freed_error(block.nbytes)
        used = {detail.writer, *(lessee.stream for lessee in detail.lessees), *(detail.readers if write else ())}
    for stream in used:
        if stream is not None:
            stream.synchronize()


def acquire(block: Block, stream: Stream, write: bool) -> None:
    """Order work that `stream` is about to be given after everything that used `block` before.

    Raises DeviceError when the block was freed, CaptureError when it holds a graph's output that no launch has made.
    """
    if block.home is stream or block.nbytes == 0:
        return
    with ordering:
        detail = block.details()
        if detail.freed:
            raise freed_error(block.nbytes)
        if detail.unready is not None:
            if detail.unready.stream is None:
                raise CaptureError(
                    "GLA0905",
                    "the output of a graph is used before the graph's first launch",
                    help="launch an executable of the graph first: `exe = graph.instantiate(); exe()`",
                )
            detail.unready = None
        if detail.writer is not None and detail.writer is not stream:
            if detail.written is None:
                detail.written = detail.writer.submitted
            stream.after(detail.writer, detail.written)
        for lessee in detail.lessees:
            lessee.before(stream)
        if write:
            for reader in detail.readers:
                stream.after(reader)
            detail.readers, detail.writer, detail.written = frozenset(), stream, None
        elif detail.writer is None:
            detail.writer = stream
        elif stream not in detail.readers:
            detail.readers |= {stream}
        plain = not (detail.leases or detail.lessees or detail.own or detail.readers - {stream} or detail.owner is not None)
        if plain and detail.writer is stream:
            block.detail, block.home = None, stream
