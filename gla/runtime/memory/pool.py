"""The pool: blocks by size class over the driver's memory. Freed memory is kept and handed out again, in stream order.

Size classes are powers of two in quarter steps from 512 bytes, in steps of a 32nd from 64 MiB; each is a `Bin`. A block that only one stream has used is
retired to its bin by its finalizer, with one append to a deque, and the next request of that stream takes it from there:
that is all that a loop `u = f(u)` costs. Other blocks go through the gate to the bin's free list. A free chunk goes first to
the stream that used it last, then to one that is ordered after it anyway; a request from another stream takes new memory
before it waits. When the driver has none, everything that can be is reclaimed, once (by the device: see Device.reclaim).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from gla.device.base import Device
from gla.errors import OutOfMemoryError
from gla.runtime.memory.block import Block, Storage
from gla.runtime.memory.gate import Gate
from gla.runtime.stream import Stream

DRAIN = 16  # retired objects that one allocation lets go of
LARGE = 64 << 20  # bytes from which a quarter step would waste too much


class Chunk:
    """One driver allocation. `home` and `others`: the streams that used it last, while it is free."""

    __slots__ = ("address", "bin", "home", "nbytes", "others")

    def __init__(self, address: int, bin: Bin) -> None:
        self.address, self.nbytes, self.bin = address, bin.size, bin
        self.home: Stream | None = None
        self.others: tuple[Stream, ...] = ()

    @property
    def gate(self) -> Gate:
        return self.bin.pool.gate

    def retire(self, home: Stream) -> None:
        """By a finalizer: no lock, no driver."""
        self.home = home
        self.bin.retired.append(self)

    def give_back(self, block: Block) -> None:
        """By the gate: free again, in the order of the streams that used the block."""
        detail = block.details()
        self.home, self.others = detail.writer, tuple(s for s in detail.readers if s is not detail.writer)
        self.bin.pool.freed(self)


class Bin:
    """A size class. `retired`: chunks just let go of, still counted as in use; `free`: cached ones."""

    __slots__ = ("free", "pool", "retired", "size")

    def __init__(self, pool: Pool, size: int) -> None:
        self.pool, self.size = pool, size
        self.retired: deque[Chunk] = deque()
        self.free: list[Chunk] = []

    def take(self, nbytes: int, stream: Stream) -> Storage:
        """Memory of this class for work of `stream`."""
        gate = self.pool.gate
        if self.retired and not gate.captures:
            try:
                chunk = self.retired.pop()
            except IndexError:  # another thread was faster
                return self.pool.take(self, nbytes, stream)
            if chunk.home is stream:
                return Storage(Block(chunk, stream), chunk.address, nbytes)
            self.retired.append(chunk)
        return self.pool.take(self, nbytes, stream)


class _CarefulBin(Bin):
    """The bin of a strict device: memory is filled with the device's poison before it is handed out."""

    __slots__ = ()

    def take(self, nbytes: int, stream: Stream) -> Storage:
        storage = super().take(nbytes, stream)
        self.pool.device.poison(storage.address, self.size)  # type: ignore[attr-defined]
        return storage


class _NoBin:
    """The size class of nothing: no bytes take no memory."""

    __slots__ = ("storage",)

    def __init__(self, gate: Gate) -> None:
        self.storage = Storage(Block(_Outside(gate, 0, 0, None, None), None), 0, 0)

    def take(self, nbytes: int, stream: Stream) -> Storage:
        return Storage(self.storage.block, 0, 0)


class _Outside:
    """Memory that is not the pool's. `end` lets go of it after its last use."""

    __slots__ = ("address", "end", "gate", "nbytes", "owner")

    def __init__(self, gate: Gate, address: int, nbytes: int, owner: Any, end: Callable[[], None] | None) -> None:
        self.gate, self.address, self.nbytes, self.owner, self.end = gate, address, nbytes, owner, end

    def retire(self, home: Stream) -> None:
        self.gate.retired.append(_Last(self, (home,)))

    def give_back(self, block: Block) -> None:
        self.gate.after_use(block.streams(), self.finish)

    def finish(self) -> None:
        self.owner = None
        if self.end is not None:
            self.end()


class _Pinned(_Outside):
    """Host memory."""

    __slots__ = ()
    pinned = True


class _Last:
    """Foreign memory whose block is gone; `streams` used it."""

    __slots__ = ("source", "streams")

    def __init__(self, source: _Outside, streams: tuple[Stream, ...]) -> None:
        self.source, self.streams = source, streams

    def let_go(self) -> None:
        self.source.gate.after_use(self.streams, self.source.finish)


def size_class(nbytes: int) -> int:
    """The bytes that a request of `nbytes` is given."""
    if nbytes <= 512:
        return 512
    step = 1 << ((nbytes - 1).bit_length() - (3 if nbytes <= LARGE else 6))
    return -(-nbytes // step) * step


class Pool:
    """Memory of one device. `in_use` + `cached` = `held`, in bytes of size classes; `pinned`: bytes of host memory, not among them."""

    def __init__(self, device: Device, gate: Gate) -> None:
        self.device, self.gate = device, gate
        self.in_use = self.cached = self.pinned = 0
        self._bins: dict[int, Bin] = {}
        self._lock = threading.Lock()
        self._nothing = _NoBin(gate)
        self._bin_class = _CarefulBin if getattr(device, "strict", False) else Bin
        gate.settle = self.settle

    @property
    def held(self) -> int:
        return self.in_use + self.cached

    def bin(self, nbytes: int) -> Bin | _NoBin:
        """The size class of `nbytes`."""
        if nbytes == 0:
            return self._nothing
        size = size_class(nbytes)
        found = self._bins.get(size)
        return found if found is not None else self._bins.setdefault(size, self._bin_class(self, size))

    def allocate(self, nbytes: int, stream: Stream) -> Storage:
        """Fresh memory for work of `stream`; no bytes take no memory.

        Raises OutOfMemoryError, naming the bytes asked for, held and cached, after everything was reclaimed once.
        """
        return self.bin(nbytes).take(nbytes, stream)

    def take(self, bin: Bin, nbytes: int, stream: Stream) -> Storage:
        """The long way of Bin.take: from the cache, or from the driver."""
        if self.gate.retired or self.gate.own or bin.retired:
            self.gate.drain(DRAIN, bin)
        with self._lock:
            chunk = _suitable(bin.free, stream)
            if chunk is not None:
                self.cached -= bin.size
                self.in_use += bin.size
        if chunk is None:
            chunk = self._new(bin, nbytes)
        chunk.others = ()
        return Storage(Block(chunk, stream), chunk.address, nbytes)

    def _new(self, bin: Bin, nbytes: int) -> Chunk:
        try:
            address = self.device.allocate(bin.size)
        except OutOfMemoryError as error:
            raise self._out_of_memory(nbytes, bin.size) from error
        with self._lock:
            self.in_use += bin.size
        return Chunk(address, bin)

    def _out_of_memory(self, nbytes: int, size: int) -> OutOfMemoryError:
        free, total = self.device.memory_info()
        return OutOfMemoryError(
            "GLA0520",
            f"{self.device.name} has no {nbytes:,} bytes left (a block of {size:,}): gla holds {self.held:,} bytes, of them "
            f"{self.cached:,} cached; {free:,} of {total:,} bytes are free",
            help="drop arrays that are no longer needed, work in smaller pieces, or call gla.reclaim() and try again",
        )

    def freed(self, chunk: Chunk) -> None:
        """By the gate: the chunk is free."""
        with self._lock:
            chunk.bin.free.append(chunk)
            self.cached += chunk.nbytes
            self.in_use -= chunk.nbytes

    def settle(self, bin: Bin | None, limit: int | None) -> int:
        """By the gate: move retired chunks (of one bin, or of all) to the free lists, oldest first."""
        done = 0
        for entry in (bin,) if bin is not None else tuple(self._bins.values()):
            while entry.retired and (limit is None or done < limit):
                try:
                    self.freed(entry.retired.popleft())
                except IndexError:
                    break
                done += 1
        return done

    def wrap(self, address: int, nbytes: int, owner: Any, stream: Stream) -> Storage:
        """Memory that is not the pool's; `owner` is kept alive until the last use of it has passed."""
        return Storage(Block(_Outside(self.gate, address, nbytes, owner, None), stream), address, nbytes)

    def allocate_pinned(self, nbytes: int, stream: Stream) -> Storage:
        """Host memory that the device reads and writes in place."""
        address, device = self.device.allocate_pinned(nbytes), self.device

        def end() -> None:
            device.release_pinned(address)
            with self._lock:
                self.pinned -= nbytes

        with self._lock:
            self.pinned += nbytes
        return Storage(Block(_Pinned(self.gate, address, nbytes, None, end), stream), address, nbytes)

    def trim(self) -> int:
        """Give cached chunks back to the driver, each after its last use. Returns bytes."""
        with self._lock:
            bins = tuple(self._bins.values())
            chunks = [chunk for bin in bins for chunk in bin.free]
            for bin in bins:
                bin.free.clear()
            self.cached -= sum(chunk.nbytes for chunk in chunks)
        try:
            for stream in {s for chunk in chunks for s in (chunk.home, *chunk.others) if s is not None}:
                stream.synchronize()
        except BaseException:
            with self._lock:
                for chunk in chunks:
                    chunk.bin.free.append(chunk)
                    self.cached += chunk.nbytes
            raise
        given = [c.nbytes for c in chunks if self.gate.attempt(lambda c=c: self.device.release(c.address), c)]  # type: ignore[misc]
        return sum(given)


def _suitable(chunks: list[Chunk], stream: Stream) -> Chunk | None:
    """A chunk that `stream` may use with nothing to wait for: the latest freed first."""
    for k in range(len(chunks) - 1, -1, -1):
        chunk = chunks[k]
        if (chunk.home is None or stream.has_seen(chunk.home)) and all(stream.has_seen(other) for other in chunk.others):
            return chunks.pop(k)
    return None
