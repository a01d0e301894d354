"""Kernels of one device: text in, loaded function out; each text is compiled once and loaded once, however many plans use it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from gla.device.base import Device, Handle
from gla.runtime.cache import ImageCache, image_key
from gla.runtime.memory.gate import Gate


class LoadedKernel:
    """A function of a loaded module. The module is unloaded when nobody needs it and all launches have passed."""

    __slots__ = ("__weakref__", "_device", "_gate", "function", "module", "name", "source")

    def __init__(self, device: Device, gate: Gate, name: str, source: str, image: bytes) -> None:
        self.name, self.source, self._device, self._gate = name, source, device, gate
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

    def load(self, texts: Sequence[tuple[str, str]]) -> list[LoadedKernel]:
        """The kernels with these (name, source) texts, new ones compiled side by side."""
        with self._lock:
            found = {text: self._known.get(text) for text in texts}
        missing = [text for text, kernel in found.items() if kernel is None]
        if len(missing) > 1:
            with ThreadPoolExecutor(min(len(missing), 16)) as workers:
                images = list(workers.map(self._image, missing))
        else:
            images = [self._image(text) for text in missing]
        for text, image in zip(missing, images):
            found[text] = self._keep(text, image)
        return [kernel for kernel in (found[text] for text in texts) if kernel is not None]

    def _keep(self, text: tuple[str, str], image: bytes) -> LoadedKernel:
        with self._lock:
            kernel = self._known.get(text)
            if kernel is None:
                kernel = self._known[text] = LoadedKernel(self.device, self.gate, *text, image)
                self.loaded += 1
            return kernel

    def _image(self, text: tuple[str, str]) -> bytes:
        name, source = text
        key = image_key(self.device.compiler_version(), name, source)
        image = self.images.read(key)
        if image is None:
            image = self.device.compile(source, name)
            with self._lock:
                self.compiled += 1
            self.images.write(key, image)
        return image
