"""A driver in Python behind the real bindings' classes: what the layer above it calls, and in which order, without a GPU.

Device memory is the process's own, streams run at once, a graph is a list. `fail(n, name)` makes the n-th call of a function
fail, to see what is left behind. `library` stands for cuBLAS: what it submits while a stream captures becomes nodes.
"""

from __future__ import annotations

import ctypes
import inspect
from collections import Counter
from itertools import count
from typing import Any

from cuda.bindings import driver as types

from gla.device.cuda.bindings import PLAIN, RENAMED, version

INSTALLED_13 = version() >= (13,)
OK = types.CUresult.CUDA_SUCCESS


class FakeTable:
    """Has the functions of `bindings.Table`; `calls` lists (name, arguments)."""

    def __init__(self, devices: int = 1, version: int = 12090) -> None:
        self.types, self.devices, self.version = types, devices, version
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.failures: dict[tuple[str, int], Any] = {}
        self.counted: Counter[str] = Counter()
        self.handles = count(0x1000, 0x10)
        self.blocks: dict[int, Any] = {}
        self.graphs: dict[int, dict[int, tuple[str, list[int], Any]]] = {}
        self.capture: tuple[int, list[int]] | None = None
        self.current: Any = None
        self.launched: list[tuple[Any, ...]] = []
        for name in (*PLAIN, *RENAMED):
            setattr(self, name, self._function(name))

    def fail(self, nth: int, name: str, status: str = "CUDA_ERROR_UNKNOWN") -> None:
        self.failures[name, nth] = getattr(types.CUresult, status)

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def _function(self, name: str) -> Any:
        plain = getattr(self, f"_{name}", None)

        signature = inspect.signature(getattr(types, RENAMED[name][INSTALLED_13] if name in RENAMED else name))

        def function(*args: Any) -> tuple[Any, ...]:
            signature.bind(*args)  # TypeError where the bindings would raise it
            self.calls.append((name, args))
            self.counted[name] += 1
            status = self.failures.get((name, self.counted[name]))
            if status is not None:
                if name == "cuStreamEndCapture":
                    self.capture = None
                return (status, None)
            result = plain(*args) if plain else ()
            return (OK, *result) if isinstance(result, tuple) else (OK, result)

        return function

    # --- device
    def _cuDriverGetVersion(self) -> int:
        return self.version

    def _cuDeviceGetCount(self) -> int:
        return self.devices

    def _cuDeviceGet(self, index: int) -> Any:
        return types.CUdevice(index)

    def _cuDeviceGetName(self, length: int, device: Any) -> bytes:
        return b"Fake GPU\0\0"

    def _cuDeviceGetAttribute(self, attribute: Any, device: Any) -> int:
        return {"MAJOR": 9, "MINOR": 0, "OPTIN": 232448}.get(attribute.name.split("_")[-1], 132)

    def _cuDeviceTotalMem(self, device: Any) -> int:
        return 1 << 37

    def _cuDevicePrimaryCtxRetain(self, device: Any) -> Any:
        return types.CUcontext(next(self.handles))

    def _cuCtxSetCurrent(self, context: Any) -> tuple[()]:
        self.current = context
        return ()

    def _cuCtxGetCurrent(self) -> Any:
        return self.current

    def _cuThreadExchangeStreamCaptureMode(self, mode: Any) -> Any:
        return types.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL

    def _cuGetErrorName(self, status: Any) -> bytes:
        return status.name.encode()

    def _cuGetErrorString(self, status: Any) -> bytes:
        return b"what the driver says"

    # --- memory
    def _cuMemGetInfo(self) -> tuple[int, int]:
        return 1 << 36, 1 << 37

    def _cuMemAlloc(self, nbytes: int) -> Any:
        block = ctypes.create_string_buffer(nbytes)
        self.blocks[ctypes.addressof(block)] = block
        return types.CUdeviceptr(ctypes.addressof(block))

    def _cuMemFree(self, address: int) -> tuple[()]:
        del self.blocks[int(address)]
        return ()

    def _cuMemHostAlloc(self, nbytes: int, flags: int) -> int:
        return int(self._cuMemAlloc(nbytes))

    _cuMemFreeHost = _cuMemFree

    def _cuMemcpyAsync(self, target: int, source: int, nbytes: int, stream: Any) -> tuple[()]:
        ctypes.memmove(target, source, nbytes)
        return ()

    _cuMemcpyHtoDAsync = _cuMemcpyDtoHAsync = _cuMemcpyAsync

    # --- handles
    def _cuStreamCreate(self, flags: int) -> Any:
        return types.CUstream(next(self.handles))

    def _cuEventCreate(self, flags: int) -> Any:
        return types.CUevent(next(self.handles))

    def _cuModuleGetFunction(self, module: Any, name: bytes) -> Any:
        return types.CUfunction(next(self.handles))

    def _cuFuncGetAttribute(self, attribute: Any, function: Any) -> int:
        return 1024

    # --- graphs
    def _cuGraphCreate(self, flags: int) -> Any:
        handle = next(self.handles)
        self.graphs[handle] = {}
        return types.CUgraph(handle)

    def _cuGraphDestroy(self, graph: Any) -> tuple[()]:
        del self.graphs[int(graph)]
        return ()

    def node(self, graph: int, kind: str, before: list[int], what: Any = None) -> Any:
        handle = next(self.handles)
        self.graphs[graph][handle] = (kind, before, what)
        return types.CUgraphNode(handle)

    def _cuGraphAddKernelNode(self, graph: Any, before: list[Any], number: int, params: Any) -> Any:
        return self.node(int(graph), "kernel", [int(b) for b in before], params)

    def _cuGraphAddMemcpyNode(self, graph: Any, before: list[Any], number: int, params: Any, context: Any) -> Any:
        return self.node(int(graph), "copy", [int(b) for b in before], params)

    def _cuGraphAddMemsetNode(self, graph: Any, before: list[Any], number: int, params: Any, context: Any) -> Any:
        return self.node(int(graph), "fill", [int(b) for b in before], params)

    def _cuGraphAddEmptyNode(self, graph: Any, before: list[Any], number: int) -> Any:
        return self.node(int(graph), "empty", [int(b) for b in before])

    def _cuGraphGetNodes(self, graph: Any, number: int = 0) -> tuple[Any, int]:
        nodes = [types.CUgraphNode(handle) for handle in self.graphs[int(graph)]]
        return nodes[:number], len(nodes)

    def _cuGraphDestroyNode(self, node: Any) -> tuple[()]:
        for nodes in self.graphs.values():
            nodes.pop(int(node), None)
        return ()

    def _node_dependencies(self, node: Any, number: int = 0) -> tuple[Any, Any, int]:
        before = next(nodes[int(node)][1] for nodes in self.graphs.values() if int(node) in nodes)
        return [types.CUgraphNode(b) for b in before[:number]], [], len(before)

    def _cuGraphNodeGetType(self, node: Any) -> Any:
        kind = next(nodes[int(node)][0] for nodes in self.graphs.values() if int(node) in nodes)
        known = types.CUgraphNodeType
        return {"alloc": known.CU_GRAPH_NODE_TYPE_MEM_ALLOC, "free": known.CU_GRAPH_NODE_TYPE_MEM_FREE}.get(
            kind, known.CU_GRAPH_NODE_TYPE_KERNEL
        )

    def _cuGraphMemAllocNodeGetParams(self, node: Any) -> Any:
        params = types.CUDA_MEM_ALLOC_NODE_PARAMS()
        params.dptr = next(nodes[int(node)][2] for nodes in self.graphs.values() if int(node) in nodes)
        return params

    def _cuGraphMemFreeNodeGetParams(self, node: Any) -> Any:
        return next(nodes[int(node)][2] for nodes in self.graphs.values() if int(node) in nodes)

    def _cuGraphInstantiate(self, graph: Any, flags: int) -> Any:
        return types.CUgraphExec(next(self.handles))

    def _cuGraphExecUpdate(self, executable: Any, graph: Any) -> Any:
        return types.CUgraphExecUpdateResultInfo()

    def _cuStreamGetFlags(self, stream: Any) -> int:
        return 1

    def _cuGraphLaunch(self, executable: Any, stream: Any) -> tuple[()]:
        self.launched.append((int(executable), int(stream)))
        return ()

    def _cuGraphExecKernelNodeSetParams(self, executable: Any, node: Any, params: Any) -> tuple[()]:
        self.launched.append((int(node), int(params.func), params.gridDimX, params.blockDimX, params.kernelParams))
        return ()

    # --- capture
    def _cuStreamBeginCaptureToGraph(
        self, stream: Any, graph: Any, before: list[Any], data: Any, number: int, mode: Any
    ) -> tuple[()]:
        assert self.capture is None and data is None and number == len(before)
        self.capture = int(graph), [int(b) for b in before]
        return ()

    def submit(self, nodes: int, kind: str = "library", what: Any = None) -> None:
        """What a library does on a capturing stream: that many nodes in a row."""
        assert self.capture is not None
        graph, last = self.capture
        for _ in range(nodes):
            last = [int(self.node(graph, kind, last, what))]
        self.capture = graph, last

    def _capture_info(self, stream: Any) -> tuple[Any, ...]:
        graph, last = self.capture or (0, [])
        known = types.CUstreamCaptureStatus
        status = known.CU_STREAM_CAPTURE_STATUS_ACTIVE if self.capture else known.CU_STREAM_CAPTURE_STATUS_NONE
        return status, 1, types.CUgraph(graph), [types.CUgraphNode(b) for b in last], [], len(last)

    def _cuStreamEndCapture(self, stream: Any) -> Any:
        graph, self.capture = self.capture[0], None  # type: ignore[index]
        return types.CUgraph(graph)


LIBRARY_MEMORY = 0xABC000  # what a library's allocation node gives


class FakeLibrary:
    """cuBLAS as the layer above uses it. `nodes`: how many a product takes; `error`: raised instead."""

    def __init__(self, table: FakeTable, nodes: int = 2) -> None:
        self.table, self.nodes, self.error = table, nodes, None
        self.used: list[tuple[int, int, int]] = []
        self.allocates, self.frees = False, False  # in a capture, beside its kernels

    def use(self, stream: int, workspace: int, nbytes: int) -> None:
        assert self.table.capture is None, "the workspace is set before a capture is open"
        self.used.append((stream, workspace, nbytes))

    def matmul(self, call: Any, a: int, b: int, c: int) -> None:
        if self.error is not None:
            raise self.error
        if self.table.capture is not None:
            if self.allocates:
                self.table.submit(1, "alloc", LIBRARY_MEMORY)
            self.table.submit(self.nodes)
            if self.frees:
                self.table.submit(1, "free", LIBRARY_MEMORY)
