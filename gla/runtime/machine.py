"""A device and everything that gla keeps about it: memory, the gate, streams, kernels, executables."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from gla.device.base import Device, Handle
from gla.runtime.budget import Budget
from gla.runtime.cache import ImageCache
from gla.runtime.capture import is_capturing, refuse_look
from gla.runtime.kernels import Kernels
from gla.runtime.memory.block import Storage, acquire, settle
from gla.runtime.memory.gate import Gate
from gla.runtime.memory.pool import Pool
from gla.runtime.stream import Stream, current_or

if TYPE_CHECKING:
    from gla.runtime.executable import Executable

EXPRESSIONS, FUNCTIONS = 2048, 64  # executables that are kept though nobody holds them, per device
LEAST_MEMORY = 4 << 30  # bytes taken for the device's when it does not say


class Machine:
    """One per device. `device` is the driver's side; `stream` the stream that work goes to when the task chose none."""

    def __init__(self, device: Device, images: ImageCache | None = None) -> None:
        self.device = device
        self.name, self.kind, self.properties = device.name, device.kind, device.properties
        self.gate = Gate(device)
        self.pool = Pool(device, self.gate)
        self.executables = Executables()
        self.budget = Budget((device.properties.total_memory or LEAST_MEMORY) // 4)
        self._reclaiming = threading.Lock()
        device.reclaim = _weakly(self)
        images = images or ImageCache()
        device.images = images
        self.stream = Stream(device, self.gate)
        self.kernels = Kernels(device, self.gate, images)
        # Held from the ordering of work on shared memory to its submission: what is ordered in between would miss it.
        self.shared = threading.RLock()
        self.launched: weakref.WeakSet[Any] = weakref.WeakSet()  # whatever has a launch lock

    def new_stream(self, handle: Handle = None) -> Stream:
        """A new non-blocking stream, or the wrapper of a driver's stream that somebody else owns."""
        return Stream(self.device, self.gate, handle, owned=handle is None)

    def current_stream(self) -> Stream:
        return current_or(self.stream)

    # --- memory
    def allocate(self, nbytes: int, stream: Stream | None = None) -> Storage:
        """Memory with undefined contents."""
        return self.pool.allocate(nbytes, stream or self.current_stream())

    def upload(self, array: np.ndarray, stream: Stream | None = None) -> Storage:
        """A copy of `array` (made contiguous, row-major) on the device. The array has been read when this returns."""
        array = np.ascontiguousarray(array)
        stream = stream or self.current_stream()
        storage = self.pool.allocate(array.nbytes, stream)
        if array.nbytes:
            self.device.copy_in(storage.address, array.ctypes.data, array.nbytes, stream.handle)
            stream.submitted = next(stream.ticks)
        return storage

    def download(self, storage: Storage, dtype: Any, shape: tuple[int, ...], stream: Stream | None = None) -> np.ndarray:
        """The contents as a new NumPy array, after everything that writes them. `dtype`: a NumPy dtype.

        Raises CaptureError inside a capture: nothing that was recorded has run.
        """
        if is_capturing():
            refuse_look("copying an array to the host")
        out = np.empty(shape, dtype)
        if out.nbytes:
            stream = stream or self.current_stream()
            with self.shared if storage.block.home is not stream else nullcontext():
                acquire(storage.block, stream, False)
                self.device.copy_out(out.ctypes.data, storage.address, out.nbytes, stream.handle)
                stream.submitted = next(stream.ticks)
        return out

    def write(self, storage: Storage, array: np.ndarray, stream: Stream | None = None) -> None:
        """Overwrite `storage` with the bytes of `array`, after everything that uses it."""
        array = np.ascontiguousarray(array)
        if array.nbytes:
            stream = stream or self.current_stream()
            with self.shared:
                acquire(storage.block, stream, True)
                self.device.copy_in(storage.address, array.ctypes.data, array.nbytes, stream.handle)
                stream.submitted = next(stream.ticks)

    def settle(self, storage: Storage, write: bool = False) -> None:
        """Wait until the host may read (`write`: change) pinned memory in place: until what was submitted so far, and writes it
        (`write`: uses it), is done. CaptureError inside a capture."""
        if is_capturing():
            refuse_look("waiting for pinned memory")
        settle(storage.block, write)

    def memory(self) -> dict[str, int]:
        """Bytes. `in_use` + `cached` = `held` from the driver; `leased`: of those in use, by graphs and executables; `arenas`: what
        kept executables hold, at most `budget`; `pinned`: host memory, apart from the rest. `executables`: how many are kept."""
        self.gate.drain()
        pool = self.pool
        return {
            "in_use": pool.in_use, "cached": pool.cached, "held": pool.held, "leased": self.gate.leased,
            "arenas": self.budget.total(), "budget": self.budget.limit, "pinned": pool.pinned, "executables": len(self.executables),
        }  # fmt: skip

    def reclaim(self) -> int:
        """Collect garbage and give back to the driver what nobody uses: retired blocks, arenas and bindings of executables that
        are not running (they are made again when needed), cached blocks. Returns bytes. Inside a capture only garbage is collected."""
        if is_capturing():
            gc.collect()
            return 0
        return self._reclaim()

    def _reclaim(self) -> int:
        """Also what the device calls when memory runs out, on whatever thread. Never waits for a capture: of what was retired
        since one was opened nothing is let go. A reclaim inside a reclaim, or beside another, does nothing."""
        if not self._reclaiming.acquire(blocking=False):
            return 0
        try:
            gc.collect()
            self.gate.drain_all()
            self.budget.drop_all()
            self.gate.drain_all()
            given = self.pool.trim()
            self.gate.drain_all()  # streams that only cached memory named
            self.device.trim()
            return given
        finally:
            self._reclaiming.release()

    def stats(self) -> dict[str, int]:
        """What was done so far: plans made and found again, kernels compiled and loaded, and the sums over kept executables."""
        kept = [executable.stats for executable in self.executables.values()]
        sums = {name: sum(getattr(s, name) for s in kept) for name in ("runs", "hits", "instantiations", "updates", "launches")}
        return {
            "plans": self.executables.plans, "plan_hits": self.executables.hits,
            "kernels_compiled": self.kernels.compiled, "kernels_loaded": self.kernels.loaded, **sums,
        }  # fmt: skip

    def synchronize(self) -> None:
        """Wait for every stream of gla's on this device."""
        for stream in self.gate.streams:
            stream.synchronize()

    def __repr__(self) -> str:
        return f"<Machine {self.name}>"


def _weakly(machine: Machine) -> Callable[[], int]:
    """The machine's reclaim, as its device keeps it."""
    found = weakref.ref(machine)

    def reclaim() -> int:
        machine = found()
        return 0 if machine is None else machine._reclaim()

    return reclaim


class Executables:
    """Executables by what they compute. Two threads that want the same one make it once: the second waits.

    Whoever uses an executable holds it; of those that nobody holds, the last few are kept: EXPRESSIONS of eager
    expressions, which nobody holds between two uses, and FUNCTIONS of functions, which hold theirs, for one that is made again.
    """

    def __init__(self, expressions: int = EXPRESSIONS, functions: int = FUNCTIONS) -> None:
        self.limits = (expressions, functions)
        self.hits = self.plans = 0
        self._known: weakref.WeakValueDictionary[Hashable, Executable] = weakref.WeakValueDictionary()
        self._kept: tuple[OrderedDict[Hashable, Executable], ...] = (OrderedDict(), OrderedDict())
        self._making: dict[Hashable, _Making] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Executable], held: bool = False) -> Executable:
        """The executable of `key`, made by `make` if there is none. `held`: the caller keeps it. The lock is free while it is made."""
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self.hits += 1
                self._keep(key, found, held)
                return found
            making = self._making.get(key)
            mine = making is None
            if making is None:
                making = self._making[key] = _Making()
        if not mine:
            return making.wait() or self.get(key, make, held)
        try:
            making.result = make()
        finally:
            with self._lock:
                del self._making[key]
                if making.result is not None:
                    self.plans += 1
                    self._known[key] = making.result
                    self._keep(key, making.result, held)
            making.done.set()
        return making.result

    def knows(self, key: Hashable) -> bool:
        """Whether `get` would find it."""
        with self._lock:
            return key in self._known

    def _keep(self, key: Hashable, executable: Executable, held: bool) -> None:
        kept = self._kept[held]
        kept[key] = executable
        kept.move_to_end(key)
        while len(kept) > self.limits[held]:
            kept.popitem(last=False)

    def values(self) -> list[Executable]:
        """All that somebody holds or that are kept."""
        with self._lock:
            return list(self._known.values())

    def clear(self) -> None:
        """Keep none any longer."""
        with self._lock:
            for kept in self._kept:
                kept.clear()

    def __len__(self) -> int:
        return len(self._known)


class _Making:
    """An executable being made. `wait` gives it, or None when making it failed."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.result: Executable | None = None

    def wait(self) -> Executable | None:
        self.done.wait()
        return self.result
