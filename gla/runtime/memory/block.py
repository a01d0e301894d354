"""Blocks of device memory, and `Storage`, the part of a block that an array stands on.

`Block.home` is the short way: the stream that alone has used the block so far. While a launch comes from that stream there
is nothing to order. It is None as soon as there is more to look at (another stream, a lease, an explicit free, a capture's
output before its first launch); `acquire` then does the ordering.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gla.errors import CaptureError, DeviceError

if TYPE_CHECKING:
    from gla.runtime.memory.gate import Gate
    from gla.runtime.memory.lease import LastUse
    from gla.runtime.memory.pool import Chunk
    from gla.runtime.stream import Stream

_ordering = threading.Lock()


class Block:
    """Device memory with one life: handed out once, let go of exactly once, through the gate.

    `chunk`: the pool's memory under it, None for foreign memory, whose `owner` is kept alive instead and dropped after the
    last use. `put_back(block)` is what the gate does with it. `leases` counts executables and graphs that hold it.
    """

    __slots__ = (
        "__weakref__",
        "address",
        "chunk",
        "freed",
        "gate",
        "home",
        "leases",
        "lessees",
        "nbytes",
        "owner",
        "put_back",
        "readers",
        "released",
        "unready",
        "writer",
    )  # fmt: skip

    def __init__(
        self, gate: Gate, put_back: Callable[[Block], None], address: int, nbytes: int, stream: Stream | None, *,
        chunk: Chunk | None = None, owner: Any = None,
    ) -> None:  # fmt: skip
        self.gate, self.put_back, self.chunk, self.owner = gate, put_back, chunk, owner
        self.address, self.nbytes = address, nbytes
        self.home = self.writer = stream
        self.readers: set[Stream] | None = None
        self.lessees: list[LastUse] | None = None
        self.leases = 0
        self.freed = self.released = False
        self.unready: LastUse | None = None

    def streams(self) -> set[Stream]:
        """Every stream whose work may still use the block."""
        used = set(self.readers or ())
        if self.writer is not None:
            used.add(self.writer)
        return used

    def free(self) -> None:
        """Let go of the memory now, or when the last lease ends; further use through any array is refused."""
        with self.gate.lock:
            if self.freed or self.nbytes == 0:
                return
            self.freed, self.home = True, None
            if self.leases == 0:
                self.gate.retired.append(self)
        self.gate.drain(16)

    def let_go(self) -> None:
        """By the gate, under its lock. The first call releases, any other does nothing."""
        with self.gate.lock:
            if self.released or self.leases:
                return
            self.released, self.home = True, None
        self.put_back(self)

    def __del__(self) -> None:
        if not self.released and self.nbytes:
            self.gate.retired.append(self)

    def __repr__(self) -> str:
        return f"<Block {self.address:#x} of {self.nbytes} bytes>"


class Storage:
    """`nbytes` bytes of `block` from `offset`: what an array stands on. Dropping the last one lets go of the block."""

    __slots__ = ("__weakref__", "address", "block", "nbytes", "offset")

    def __init__(self, block: Block, offset: int, nbytes: int) -> None:
        self.block, self.offset, self.nbytes = block, offset, nbytes
        self.address = block.address + offset

    @property
    def is_freed(self) -> bool:
        """Whether `free()` was called on the memory."""
        return self.block.freed

    def view(self, offset: int, nbytes: int) -> Storage:
        """A part of this storage, on the same block."""
        return Storage(self.block, self.offset + offset, nbytes)

    def check(self) -> None:
        """Raise when the memory was freed."""
        if self.block.freed:
            raise freed_error(self.nbytes)

    def free(self) -> None:
        self.block.free()

    def __repr__(self) -> str:
        return f"<Storage {self.nbytes} bytes at {self.address:#x}>"


def freed_error(nbytes: int) -> DeviceError:
    return DeviceError(
        "GLA0512",
        f"an array of {nbytes} bytes is used after its memory was given back with free()",
        help="call free() after the last use, or let the array go out of scope instead",
    )


def acquire(block: Block, stream: Stream, write: bool) -> None:
    """Order work that `stream` is about to be given after everything that used `block` before.

    Raises DeviceError when the block was freed, CaptureError when it holds a graph's output that no launch has made.
    """
    if block.home is stream or block.nbytes == 0:
        return
    if block.freed:
        raise freed_error(block.nbytes)
    if block.unready is not None:
        if block.unready.stream is None:
            raise CaptureError(
                "GLA0905",
                "the output of a graph is used before the graph's first launch",
                help="launch an executable of the graph first: `exe = graph.instantiate(); exe()`",
            )
        block.unready = None
    with _ordering:
        if block.writer is not None:
            stream.after(block.writer)
        for lessee in block.lessees or ():
            lessee.before(stream)
        if write:
            for reader in block.readers or ():
                stream.after(reader)
            block.readers, block.writer = None, stream
        elif block.writer is None:
            block.writer = stream
        elif stream is not block.writer:
            block.readers = block.readers or set()
            block.readers.add(stream)
        block.home = stream if not block.lessees and not block.readers and block.writer is stream else None
