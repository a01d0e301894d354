"""A small bench for contract tests: arrays to a device and back, kernels compiled by the device's own printer."""

from __future__ import annotations

from typing import Any

import numpy as np

from gla.codegen.kernel import Kernel
from gla.device.base import Device, Geometry, Parameters


class Bench:
    """A device with a stream of its own. Everything taken is given back by `close`."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.stream = device.create_stream()
        self._blocks: list[int] = []
        self._modules: list[Any] = []

    def empty(self, nbytes: int) -> int:
        address = self.device.allocate(max(nbytes, 1))
        self._blocks.append(address)
        return address

    def up(self, array: Any) -> int:
        array = np.ascontiguousarray(array)
        address = self.empty(array.nbytes)
        if array.nbytes:
            self.device.copy_in(address, array.ctypes.data, array.nbytes, self.stream)
        return address

    def down(self, address: int, shape: Any, dtype: Any) -> np.ndarray:
        out = np.empty(shape, dtype)
        if out.nbytes:
            self.device.copy_out(out.ctypes.data, address, out.nbytes, self.stream)
        return out

    def function(self, kernel: Kernel) -> Any:
        module = self.device.load(self.device.compile(self.print(kernel), kernel.name))
        self._modules.append(module)
        return self.device.function(module, kernel.name)

    def print(self, kernel: Kernel) -> str:
        if self.device.kind == "host":
            from gla.codegen.llvm import print_llvm

            return print_llvm(kernel)
        from gla.codegen.cuda import print_cuda

        return print_cuda(kernel)

    def geometry(self, kernel: Kernel, items: int) -> Geometry:
        if self.device.kind == "host":
            from gla.codegen.llvm import geometry
        else:
            from gla.codegen.cuda_geometry import geometry
        return geometry(kernel, items, self.device.properties)

    def parameters(self, kernel: Kernel, *values: Any) -> Parameters:
        made = Parameters([None if p.kind == "pointer" else p.dtype for p in kernel.parameters])
        for index, value in enumerate(values):
            made.set(index, value)
        return made

    def launch(self, kernel: Kernel, items: int, *values: Any) -> None:
        self.device.launch(self.function(kernel), self.geometry(kernel, items), self.parameters(kernel, *values), self.stream)

    def close(self) -> None:
        self.device.synchronize(self.stream)
        for module in self._modules:
            self.device.unload(module)
        for block in self._blocks:
            self.device.release(block)
        self.device.destroy_stream(self.stream)
