"""Kernels of one device: each is printed, compiled and loaded once, however many plans use it; a known one is not even printed."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from gla.device.base import Device, Handle
from gla.runtime.cache import ImageCache, image_key
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
        self.function = device.function(self.module, name)

    def __del__(self) -> None:
        if hasattr(self, "module"):
            self._gate.retired.append(_Ended(self._device, self._gate, self.module))


class _Ended:
    """A module to unload, after whatever is still running."""

    __slots__ = ("device", "gate", "module")

    def __init__(self, device: Device, gate: Gate, module: Handle) -> None:
        self.device, self.gate, self.module = device, gate, module

    def let_go(self) -> None:
        self.gate.after_use(list(self.gate.streams), lambda: self.device.unload(self.module))


class Kernels:
    """`compiled` and `loaded` count what was really done. Any number of threads may ask at once."""

    def __init__(self, device: Device, gate: Gate, images: ImageCache) -> None:
        self.device, self.gate, self.images = device, gate, images
        self.compiled = self.loaded = 0
        self._known: weakref.WeakValueDictionary[tuple[str, str], LoadedKernel] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def load(self, kernels: Sequence[Wanted]) -> list[LoadedKernel]:
        """The kernels, loaded; new ones are compiled side by side."""
        wanted = {(kernel.name, kernel.key): kernel for kernel in kernels}
        with self._lock:
            found = {key: self._known.get(key) for key in wanted}
        missing = [key for key, kernel in found.items() if kernel is None]
        if len(missing) > 1:
            with ThreadPoolExecutor(min(len(missing), 16)) as workers:
                images = list(workers.map(self._image, [wanted[key] for key in missing]))
        else:
            images = [self._image(wanted[key]) for key in missing]
        for key, image in zip(missing, images):
            found[key] = self._keep(key, image)
        return [kernel for kernel in (found[kernel.name, kernel.key] for kernel in kernels) if kernel is not None]

    def _keep(self, key: tuple[str, str], image: bytes) -> LoadedKernel:
        with self._lock:
            kernel = self._known.get(key)
            if kernel is None:
                kernel = self._known[key] = LoadedKernel(self.device, self.gate, key[0], image)
                self.loaded += 1
            return kernel

    def _image(self, kernel: Wanted) -> bytes:
        key = image_key(self.device.compiler_version(), kernel.name, kernel.key)
        image = self.images.read(key)
        if image is None:
            image = self.device.compile(kernel.text(), kernel.name)
            with self._lock:
                self.compiled += 1
            self.images.write(key, image)
        return image
