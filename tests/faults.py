"""Failing the n-th call of a device, and counting what it gave out: the host device does both itself, CUDA through its table."""

from __future__ import annotations

from collections import Counter
from typing import Any

MAKES = {
    "cuMemAlloc": "memory", "cuMemHostAlloc": "pinned", "cuStreamCreate": "stream", "cuEventCreate": "event",
    "cuModuleLoadData": "module", "cuGraphCreate": "graph", "cuGraphInstantiate": "executable",
}  # fmt: skip
ENDS = {
    "cuMemFree": "memory", "cuMemFreeHost": "pinned", "cuStreamDestroy": "stream", "cuEventDestroy": "event",
    "cuModuleUnload": "module", "cuGraphDestroy": "graph", "cuGraphExecDestroy": "executable",
}  # fmt: skip
# what a release consists of: every checked call makes the context current first
RELEASES = {
    "cuCtxSetCurrent", "release", "release_pinned", "destroy_stream", "destroy_event", "unload", "destroy_graph", "destroy_executable", *ENDS,
}  # fmt: skip


# these answer questions about errors, or store a word in the thread
SPARED = ("cuGetErrorName", "cuGetErrorString", "cuThreadExchangeStreamCaptureMode")


class FailingTable:
    """A driver's table in which one call of each kind can be made to fail; `live` counts handles by kind."""

    def __init__(self, table: Any) -> None:
        self._table, self.types = table, table.types
        self.live: Counter[str] = Counter()
        self.left, self.status, self.failed = 0, None, ""
        self.spared: tuple[str, ...] = SPARED
        self.calls: list[str] = []  # what could have failed, since the last fault was ordered

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._table, name)

        def call(*args: Any) -> tuple[Any, ...]:
            if self.left and name not in self.spared:
                self.calls.append(name)
                self.left -= 1
                if not self.left:
                    self.failed = name
                    if name == "cuStreamEndCapture":
                        function(*args)  # the driver ends the capture also when it fails
                    return (self.status, None)
            result = function(*args)
            if not result[0]:
                self.live[MAKES.get(name, "")] += 1
                self.live[ENDS.get(name, "")] -= 1
            return result

        self.__dict__[name] = call
        return call


class HostFaults:
    """The n-th call fails, with `error` or an ordinary failure; `left` is 0 when it has come."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.failed = ""
        self.calls: list[str] = []
        enter = device._enter

        def watched(call: str) -> None:
            before = device._fail_left
            if before:
                self.calls.append(call)
            try:
                enter(call)
            finally:
                if before and not device._fail_left:
                    self.failed = call

        device._enter = watched

    def fail(self, nth: int, out_of_memory: bool) -> None:
        from gla.errors import OutOfMemoryError

        self.failed, self.calls = "", []
        self.device.fail_after(nth, OutOfMemoryError("GLA0520", "injected") if out_of_memory else None)

    def call_off(self) -> bool:
        """Whether the fault has come; later calls succeed either way."""
        came = not self.device.fault_pending
        self.device.fail_after(0)
        return came

    def live(self) -> dict[str, int]:
        return {**{k: v for k, v in self.device.live.items() if v}, "memory": self.device.memory.blocks}


class CudaFaults:
    """The same over a FailingTable."""

    def __init__(self, table: FailingTable) -> None:
        self.table = table

    @property
    def failed(self) -> str:
        return self.table.failed

    @property
    def calls(self) -> list[str]:
        return self.table.calls

    def fail(self, nth: int, out_of_memory: bool) -> None:
        results = self.table.types.CUresult
        self.table.failed = ""
        self.table.spared = (*SPARED, *(("cuCtxSetCurrent",) if out_of_memory else ()))
        self.table.status = results.CUDA_ERROR_OUT_OF_MEMORY if out_of_memory else results.CUDA_ERROR_UNKNOWN
        self.table.left, self.table.calls = nth, []

    def call_off(self) -> bool:
        came = not self.table.left
        self.table.left = 0
        return came

    def live(self) -> dict[str, int]:
        return {kind: count for kind, count in self.table.live.items() if count and kind}


def failing_cuda(table: Any, index: int = 0) -> tuple[Any, CudaFaults]:
    """A CUDA device whose driver calls can be made to fail."""
    from gla.device.cuda.device import CudaDevice
    from gla.device.cuda.driver import Driver

    watched = FailingTable(table)
    return CudaDevice(Driver(watched, index)), CudaFaults(watched)
