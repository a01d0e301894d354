"""Device and pinned memory, and copies between it and the host.

`copy_in` has read its source when it returns: a small source is copied into pinned slots of our own first, so that nobody
waits; a large one is given to the driver, which stages pageable memory itself, and the stream is waited for, since the
source may also be pinned, and then the driver would read it later. No driver allocator works on a stream here: the pool
above caches blocks.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from gla.device.cuda.driver import Driver

SLOT = 128 << 10  # bytes of a staging slot
SLOTS = 8
PORTABLE_AND_MAPPED = 0x01 | 0x02  # CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP


class Memory:
    """Allocations and copies of one device. Sizes are bytes, addresses integers; nothing is done for zero bytes."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._staging: Staging | None = None
        self._lock = threading.Lock()

    def allocate(self, nbytes: int) -> int:
        return int(self.driver.unsafe("cuMemAlloc", max(nbytes, 1), detail=f"{nbytes:,} bytes on cuda:{self.driver.index}"))

    def release(self, address: int) -> None:
        self.driver.unsafe("cuMemFree", address)

    def allocate_pinned(self, nbytes: int) -> int:
        return int(
            self.driver.unsafe(
                "cuMemHostAlloc", max(nbytes, 1), PORTABLE_AND_MAPPED, detail=f"{nbytes:,} bytes of pinned host memory"
            )
        )

    def release_pinned(self, address: int) -> None:
        self.driver.unsafe("cuMemFreeHost", address)

    def copy_in(self, target: int, host_address: int, nbytes: int, stream: Any) -> None:
        if nbytes == 0:
            return
        if nbytes <= SLOT:
            self._stage().copy_in(target, host_address, nbytes, stream)
            return
        self.driver.unsafe("cuMemcpyHtoDAsync", target, host_address, nbytes, stream)
        self.driver.unsafe("cuStreamSynchronize", stream)

    def copy_out(self, host_address: int, source: int, nbytes: int, stream: Any) -> None:
        if nbytes == 0:
            return
        self.driver.unsafe("cuMemcpyDtoHAsync", host_address, source, nbytes, stream)
        self.driver.unsafe("cuStreamSynchronize", stream)

    def _stage(self) -> Staging:
        with self._lock:
            if self._staging is None:
                self._staging = Staging(self)
            return self._staging


class Staging:
    """Pinned slots, used in turn; a slot is free again when the copy out of it has run."""

    def __init__(self, memory: Memory) -> None:
        self.driver = memory.driver
        self._base = memory.allocate_pinned(SLOT * SLOTS)
        timing = self.driver.table.types.CUevent_flags.CU_EVENT_DISABLE_TIMING
        self._events = [self.driver.call("cuEventCreate", int(timing)) for _ in range(SLOTS)]
        self._next = 0
        self._lock = threading.Lock()

    def copy_in(self, target: int, host_address: int, nbytes: int, stream: Any) -> None:
        with self._lock:
            slot, self._next = self._next, (self._next + 1) % SLOTS
            event, address = self._events[slot], self._base + slot * SLOT
            self.driver.unsafe("cuEventSynchronize", event)  # at once, for an event never recorded
            ctypes.memmove(address, host_address, nbytes)
            self.driver.call("cuMemcpyHtoDAsync", target, address, nbytes, stream)
            self.driver.call("cuEventRecord", event, stream)
