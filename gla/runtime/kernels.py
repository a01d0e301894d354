"""Kernels of one device: each is printed, compiled and loaded once, however many plans use it; a known one is not even printed."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gla.device.base import Device, Handle
from gla.runtime.cache import ImageCache
from gla.runtime.memory.gate import Gate


@dataclass(frozen=True, slots=True)
class Wanted:
    """A kernel to be loaded. `key` is equal for kernels of equal text; `text` prints it, when it has to be compiled."""

    name: str
    key: str
    text: Callable[[], str]


class LoadedKernel:
    """A function of a loaded module. The module is unloaded when nobody needs it and all launches have passed."""

    __slots__ = ("__weakref__", "_device", "_gate", "function", "module", "name")

    def __init__(self, device: Device, gate: Gate, name: str, image: bytes) -> None:
        self.name, self._device, self._gate = name, device, gate
        self.module = device.load(image)
        self.function = device.function(self.module, name)  # when it fails, __del__ sees to the module

    def __del__(self) -> None:
        if hasattr(self, "module"):
            self._gate.retired.append(_Ended(self._device, self._gate, self.module))


class _Ended:
    """A module to unload, after whatever is still running."""

    __slots__ = ("device", "gate", "module")

    def __init__(self, device: Device, gate: Gate, module: Handle) -> None:
        self.device, self.gate, self.module = device, gate, module

    def let_go(self) -> None:
        self.gate.after_use(self.gate.streams, lambda: self.device.unload(self.module))


class _Making:
    """A kernel that one thread is making; others that want it wait for `done` and look again."""

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done = threading.Event()


Key = tuple[str, str]


class Kernels:
    """`compiled` and `loaded` count what was really done. Any number of threads may ask at once: a kernel is made by one of them."""

    def __init__(self, device: Device, gate: Gate, images: ImageCache) -> None:
        self.device, self.gate, self.images = device, gate, images
        self.compiled = self.loaded = 0
        self._known: weakref.WeakValueDictionary[Key, LoadedKernel] = weakref.WeakValueDictionary()
        self._making: dict[Key, _Making] = {}
        self._lock = threading.Lock()

    def load(self, kernels: Sequence[Wanted]) -> list[LoadedKernel]:
        """The kernels, loaded; new ones are compiled side by side. A failure is of this call alone: whoever waits tries anew."""
        wanted = {(kernel.name, kernel.key): kernel for kernel in kernels}
        found: dict[Key, LoadedKernel] = {}
        while missing := [key for key in wanted if key not in found]:
            mine, others = self._claim(missing, found)
            if mine:
                try:
                    found |= self._make([wanted[key] for key in mine], mine)
                finally:
                    self._release(mine)
            for making in others:
                making.done.wait()
        return [found[kernel.name, kernel.key] for kernel in kernels]

    def _claim(self, missing: Sequence[Key], found: dict[Key, LoadedKernel]) -> tuple[list[Key], list[_Making]]:
        """(keys that this thread is to make, what other threads are making); known ones are put into `found`."""
        mine, others = [], []
        with self._lock:
            for key in missing:
                known = self._known.get(key)
                if known is not None:
                    found[key] = known
                elif key in self._making:
                    others.append(self._making[key])
                else:
                    self._making[key] = _Making()
                    mine.append(key)
        return mine, others

    def _release(self, keys: Sequence[Key]) -> None:
        with self._lock:
            made = [self._making.pop(key) for key in keys]
        for making in made:
            making.done.set()

    def _make(self, kernels: Sequence[Wanted], keys: Sequence[Key]) -> dict[Key, LoadedKernel]:
        if len(kernels) > 1:
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(min(len(kernels), 16)) as workers:
                images = list(workers.map(self._image, kernels))
        else:
            images = [self._image(kernels[0])]
        made = {}
        for key, image in zip(keys, images):
            made[key] = LoadedKernel(self.device, self.gate, key[0], image)
            with self._lock:
                self._known[key] = made[key]
                self.loaded += 1
        return made

    def _image(self, kernel: Wanted) -> bytes:
        def make() -> bytes:
            image = self.device.compile(kernel.text(), kernel.name)
            with self._lock:
                self.compiled += 1
            return image

        return self.images.get(self.device.compiler_version(), kernel.name, kernel.key, make)
