"""The pool: blocks by size class over the driver's memory. Freed memory is kept and handed out again, in stream order.

Size classes are powers of two in quarter steps, from 512 bytes. A chunk (one driver allocation) remembers the streams that
used it last. It goes first to a request from the same stream, then to one that is ordered after them anyway; a request from
another stream takes new memory before it waits. When the driver has none, everything that can be is reclaimed, once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from gla.device.base import Device
from gla.errors import OutOfMemoryError
from gla.runtime.memory.block import Block, Storage
from gla.runtime.memory.gate import Gate
from gla.runtime.stream import Stream

DRAIN = 16  # retired objects that one allocation lets go of


class Chunk:
    """One driver allocation. `streams`: who used it last, while it is free."""

    __slots__ = ("address", "home", "nbytes", "others")

    def __init__(self, address: int, nbytes: int) -> None:
        self.address, self.nbytes = address, nbytes
        self.home: Stream | None = None
        self.others: tuple[Stream, ...] = ()


def size_class(nbytes: int) -> int:
    """The bytes that a request of `nbytes` is given."""
    if nbytes <= 512:
        return 512
    step = 1 << ((nbytes - 1).bit_length() - 3)
    return -(-nbytes // step) * step


class Pool:
    """Memory of one device. `in_use` + `cached` = `held`, in bytes of size classes."""

    def __init__(self, device: Device, gate: Gate, reclaim: Callable[[], int]) -> None:
        self.device, self.gate, self._reclaim = device, gate, reclaim
        self.in_use = self.cached = 0
        self._free: dict[int, list[Chunk]] = {}
        self._lock = threading.Lock()
        self._empty = Block(gate, self._forget, 0, 0, None)

    @property
    def held(self) -> int:
        return self.in_use + self.cached

    def allocate(self, nbytes: int, stream: Stream, size: int = 0) -> Storage:
        """Fresh memory for work of `stream`. `size`: the size class, when the caller has it. No bytes take no memory.

        Raises OutOfMemoryError, naming the bytes asked for, held and cached, after everything was reclaimed once.
        """
        if nbytes == 0:
            return Storage(self._empty, 0, 0)
        size = size or size_class(nbytes)
        if self.gate.retired:
            self.gate.drain(DRAIN)
        with self._lock:
            chunks = self._free.get(size)
            chunk = None
            if chunks:
                chunk = chunks.pop() if chunks[-1].home is stream and not chunks[-1].others else _suitable(chunks, stream)
            if chunk is not None:
                self.cached -= size
                self.in_use += size
        if chunk is None:
            chunk = self._new(size, stream)
        return Storage(Block(self.gate, self._back, chunk.address, size, stream, chunk=chunk), 0, nbytes)

    def _new(self, size: int, stream: Stream) -> Chunk:
        try:
            address = self.device.allocate(size)
        except OutOfMemoryError:
            self._reclaim()
            with self._lock:
                chunk = self._any(size, stream)
            if chunk is not None:
                return chunk
            try:
                address = self.device.allocate(size)
            except OutOfMemoryError as error:
                raise self._out_of_memory(size) from error
        with self._lock:
            self.in_use += size
        return Chunk(address, size)

    def _any(self, size: int, stream: Stream) -> Chunk | None:
        """A free chunk of that size from whatever stream, ordered after its users."""
        chunks = self._free.get(size)
        if not chunks:
            return None
        chunk = chunks.pop()
        for other in (chunk.home, *chunk.others):
            if other is not None:
                stream.after(other)
        self.cached -= size
        self.in_use += size
        return chunk

    def _out_of_memory(self, size: int) -> OutOfMemoryError:
        free, total = self.device.memory_info()
        return OutOfMemoryError(
            "GLA0520",
            f"{self.device.name} has no {size:,} bytes left: gla holds {self.held:,} bytes, of them {self.cached:,} cached; "
            f"{free:,} of {total:,} bytes are free",
            help="drop arrays that are no longer needed, work in smaller pieces, or call gla.reclaim() and try again",
        )

    def _back(self, block: Block) -> None:
        """By the gate: the block's memory is free again, in the order of the streams that used it."""
        chunk = block.chunk
        assert chunk is not None
        chunk.home = block.writer
        chunk.others = tuple(stream for stream in block.readers or () if stream is not block.writer)
        with self._lock:
            self._free.setdefault(chunk.nbytes, []).append(chunk)
            self.cached += chunk.nbytes
            self.in_use -= chunk.nbytes

    def _forget(self, block: Block) -> None:
        """Foreign memory: its owner is dropped after the last use."""
        self.gate.after_use(block.streams(), _Drop(block.owner))
        block.owner = None

    def wrap(self, address: int, nbytes: int, owner: Any, stream: Stream) -> Storage:
        """Memory that is not the pool's; `owner` is kept alive until the last use of it has passed."""
        return Storage(Block(self.gate, self._forget, address, nbytes, stream, owner=owner), 0, nbytes)

    def allocate_pinned(self, nbytes: int, stream: Stream) -> Storage:
        """Host memory that the device reads and writes in place."""
        address = self.device.allocate_pinned(nbytes)
        return Storage(Block(self.gate, self._unpin, address, nbytes, stream), 0, nbytes)

    def _unpin(self, block: Block) -> None:
        device, address = self.device, block.address
        self.gate.after_use(block.streams(), lambda: device.release_pinned(address))

    def trim(self) -> int:
        """Give cached chunks back to the driver, each after its last use. Returns bytes."""
        with self._lock:
            chunks = [chunk for free in self._free.values() for chunk in free]
            self._free.clear()
            given = sum(chunk.nbytes for chunk in chunks)
            self.cached -= given
        waited: set[Stream] = set()
        for chunk in chunks:
            for stream in (chunk.home, *chunk.others):
                if stream is not None and stream not in waited:
                    stream.synchronize()
                    waited.add(stream)
            self.device.release(chunk.address)
        return given


def _suitable(chunks: list[Chunk], stream: Stream) -> Chunk | None:
    """A chunk that `stream` may use with nothing to wait for: the latest freed first."""
    for k in range(len(chunks) - 1, -1, -1):
        chunk = chunks[k]
        if (chunk.home is None or stream.has_seen(chunk.home)) and all(stream.has_seen(other) for other in chunk.others):
            return chunks.pop(k)
    return None


class _Drop:
    """Holds an owner until it is called."""

    __slots__ = ("owner",)

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __call__(self) -> None:
        self.owner = None
