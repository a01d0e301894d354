"""The host device's memory: aligned blocks with a table of what is live, an optional limit, and strict mode.

In strict mode new and released memory is filled with 0xCB, and released blocks are kept for a while, so that stale reads give
garbage and stale pointers are recognised. Addresses that the device never gave out (memory of other libraries) are let pass.
"""

from __future__ import annotations

import ctypes
import os
import threading
from bisect import bisect_right, insort
from collections import deque
from dataclasses import dataclass

import numpy as np

from gla.errors import DeviceError, OutOfMemoryError

POISON = 0xCB
KEPT_BLOCKS = 256
KEPT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Block:
    """`owner` holds the bytes; `pinned`: taken by allocate_pinned."""

    address: int
    nbytes: int
    owner: np.ndarray
    pinned: bool


class Memory:
    """Every block by address. `limit` bytes at most (None: what the machine gives). May be used from any thread."""

    def __init__(self, strict: bool, limit: int | None = None) -> None:
        self.strict, self.limit = strict, limit
        self.held = 0
        self._live: dict[int, Block] = {}
        self._starts: list[int] = []  # sorted addresses of live blocks, in strict mode
        self._stale: dict[int, Block] = {}
        self._kept: deque[Block] = deque()
        self._kept_bytes = 0
        self._lock = threading.Lock()

    def allocate(self, nbytes: int, pinned: bool = False) -> int:
        align = 4096 if nbytes >= 4096 else 256
        with self._lock:
            if self.limit is not None and self.held + nbytes > self.limit:
                raise self._exhausted(nbytes, f"{self.held:,} of its {self.limit:,} bytes are in use")
            try:
                owner = np.empty(nbytes + align, np.uint8)
            except MemoryError as error:
                raise self._exhausted(nbytes, "the operating system gives no more") from error
            address = -(-owner.ctypes.data // align) * align
            self._live[address] = Block(address, nbytes, owner, pinned)
            self.held += nbytes
            if self.strict:
                insort(self._starts, address)
                ctypes.memset(address, POISON, nbytes)
        return address

    def _exhausted(self, nbytes: int, why: str) -> OutOfMemoryError:
        return OutOfMemoryError(
            "GLA0520",
            f"the host device cannot allocate {nbytes:,} bytes: {why}",
            help="drop arrays that are no longer needed, work in smaller pieces, or call gla.reclaim() and try again",
        )

    def release(self, address: int, pinned: bool = False) -> None:
        with self._lock:
            block = self._live.get(address)
            if block is None or block.pinned != pinned:
                what = "pinned block" if pinned else "block"
                known = " (it was released before)" if address in self._stale else ""
                raise DeviceError("GLA0513", f"{address:#x} is not a live {what} of the host device{known}")
            del self._live[address]
            self.held -= block.nbytes
            if self.strict:
                self._starts.remove(address)
                self._keep(block)

    def _keep(self, block: Block) -> None:
        ctypes.memset(block.address, POISON, block.nbytes)
        self._kept.append(block)
        self._stale[block.address] = block
        self._kept_bytes += block.nbytes
        while self._kept and (len(self._kept) > KEPT_BLOCKS or self._kept_bytes > KEPT_BYTES):
            gone = self._kept.popleft()
            self._stale.pop(gone.address, None)
            self._kept_bytes -= gone.nbytes

    def poison(self, address: int, nbytes: int) -> None:
        """For pools that keep released memory to themselves: fill it, in strict mode."""
        if self.strict:
            ctypes.memset(address, POISON, nbytes)

    def check(self, address: int, nbytes: int, call: str) -> None:
        """Raise DeviceError unless the range lies inside a live block, or in memory that the device never had."""
        with self._lock:
            place = bisect_right(self._starts, address)
            if place:
                block = self._live[self._starts[place - 1]]
                left = block.address + block.nbytes - address
                if left > 0 or (left == 0 and nbytes == 0):
                    if nbytes > left:
                        raise DeviceError(
                            "GLA0515", f"{call}: {nbytes:,} bytes from {address:#x} leave their block, which has {left:,} left"
                        )
                    return
            for block in self._kept:
                if block.address <= address < block.address + block.nbytes:
                    raise DeviceError(
                        "GLA0514",
                        f"{call}: stale pointer {address:#x}, {address - block.address:,} bytes into a block of {block.nbytes:,} "
                        "bytes that was released",
                        help="keep the block leased while work that names it may run",
                    )

    def info(self) -> tuple[int, int]:
        total = self.limit if self.limit is not None else physical_memory()
        return max(0, total - self.held), total

    @property
    def blocks(self) -> int:
        """How many blocks are live."""
        return len(self._live)


def physical_memory() -> int:
    """Bytes of this machine, 0 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
