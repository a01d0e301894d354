"""Device graphs: nodes added one by one with their dependencies, executables, and parameters set anew.

A call of the matrix library becomes nodes by a capture into the graph, on a private stream, under one lock a device; user
code never runs while a capture is open, and nothing is allocated. When something outside gla invalidates a capture, the
nodes that it left are removed and it is tried again. All edges are full edges.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from gla.device.base import Geometry, GraphNode, Matmul, Parameters
from gla.device.cuda.cublas import Cublas, describe
from gla.device.cuda.driver import Driver
from gla.device.cuda.errors import driver_error
from gla.errors import DeviceError, GlaError, GraphError

ATTEMPTS = 3
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
AUTO_FREE_ON_LAUNCH = 1  # CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH


class CudaGraph:
    """A CUgraph, the addresses of the nodes that are known to be in it, and how many hold it: its owner and its executables.
    `mode`: the capture mode of its library calls. `leftovers`: memory that a library call allocates in each launch and does not
    free; each launch frees what the one before left, and the end of the executable what the last one did."""

    __slots__ = ("handle", "holders", "known", "leftovers", "mode")

    def __init__(self, handle: Any, mode: Any) -> None:
        self.handle, self.mode = handle, mode
        self.holders = 1
        self.known: set[int] = set()
        self.leftovers: list[int] = []


class CudaExecutable:
    """A CUgraphExec, and per node that was set anew the driver's parameter struct, used again and again. Setting parameters
    of one executable from two threads at once is the caller's to exclude."""

    __slots__ = ("graph", "handle", "settings")

    def __init__(self, handle: Any, graph: CudaGraph) -> None:
        self.handle, self.graph = handle, graph
        self.settings: dict[int, Setting] = {}


class Setting:
    """What a node's struct holds now; only what changed is written."""

    __slots__ = ("function", "geometry", "node", "parameters", "params")

    def __init__(self, params: Any, node: GraphNode | None = None) -> None:
        self.params, self.node = params, node  # the node is kept: the setting is found by its identity
        self.function: Any = None
        self.geometry: Geometry | None = None
        self.parameters: Parameters | None = None

    def fill(self, function: Any, geometry: Geometry, parameters: Parameters) -> None:
        params = self.params
        if function is not self.function:
            params.func = self.function = function
        if geometry is not self.geometry:
            params.gridDimX, params.gridDimY, params.gridDimZ = geometry.grid
            params.blockDimX, params.blockDimY, params.blockDimZ = geometry.block
            params.sharedMemBytes = geometry.shared
            self.geometry = geometry
        if parameters is not self.parameters:
            params.kernelParams = parameters.pointers
            self.parameters = parameters


class Graphs:
    """Building graphs on one device."""

    def __init__(self, driver: Driver, library: Callable[[], Cublas], lock: threading.Lock, workspace: int) -> None:
        self.driver, self._library, self._lock, self._workspace = driver, library, lock, workspace
        self._holding = threading.Lock()
        self.stream: Any = None  # private: library calls are captured on it
        self.capturing = False
        self._warm: set[tuple[object, ...]] = set()
        self._types = driver.table.types

    def create(self, mode: str = "relaxed") -> CudaGraph:
        kind = getattr(self._types.CUstreamCaptureMode, f"CU_STREAM_CAPTURE_MODE_{mode.upper()}")
        return CudaGraph(self.driver.call("cuGraphCreate", 0), kind)

    def update(self, executable: CudaExecutable, graph: CudaGraph) -> None:
        """Give the executable the parameters of `graph`; its nodes go by the handles of its own graph as before."""
        driver, types = self.driver, self._types
        with driver.relaxed():
            status, info = driver.table.cuGraphExecUpdate(executable.handle, graph.handle)
        if status == types.CUresult.CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE:
            name = info.result.name if info is not None else "its nodes are others"
            why = name.removeprefix("CU_GRAPH_EXEC_UPDATE_ERROR_").replace("_", " ").lower()
            raise GraphError("GLA0923", f"the driver refuses to update the executable: {why}")
        if status:
            raise driver_error(status, "cuGraphExecUpdate", driver.table)

    def instantiate(self, graph: CudaGraph) -> CudaExecutable:
        flags = AUTO_FREE_ON_LAUNCH if graph.leftovers else 0
        handle = self.driver.unsafe("cuGraphInstantiate", graph.handle, flags, detail=f"a graph of {len(graph.known)} nodes")
        with self._holding:
            graph.holders += 1
        return CudaExecutable(handle, graph)

    def free_leftovers(self, graph: CudaGraph) -> None:
        """After the last launch of the graph's executable. Where there was none the driver knows no such memory."""
        table = self.driver.table
        for address in graph.leftovers:
            with self.driver.relaxed():
                status = table.cuMemFree(address)[0]
            if status and status != table.types.CUresult.CUDA_ERROR_INVALID_VALUE:
                raise driver_error(status, "cuMemFree", table, "memory that a library call left")

    def _leftovers(self, nodes: Sequence[Any]) -> list[int]:
        """Addresses that the nodes allocate and do not free."""
        kinds, allocated = self._types.CUgraphNodeType, {}
        for node in nodes:
            kind = self.driver.call("cuGraphNodeGetType", node)
            if kind == kinds.CU_GRAPH_NODE_TYPE_MEM_ALLOC:
                allocated[int(self.driver.call("cuGraphMemAllocNodeGetParams", node).dptr)] = node
        for node in nodes if allocated else ():
            if self.driver.call("cuGraphNodeGetType", node) == kinds.CU_GRAPH_NODE_TYPE_MEM_FREE:
                allocated.pop(int(self.driver.call("cuGraphMemFreeNodeGetParams", node)), None)
        return list(allocated)

    def let_go(self, graph: CudaGraph) -> None:
        """One holder less; the last one destroys the graph."""
        with self._holding:
            graph.holders -= 1
            last = graph.holders == 0
        if last:
            self.driver.unsafe("cuGraphDestroy", graph.handle)

    def add(self, kind: str, call: str, graph: CudaGraph, after: Sequence[GraphNode], *args: Any) -> GraphNode:
        """A node of one driver handle, by the driver function `call`."""
        before = dependencies(graph, after)
        handle = self.driver.call(call, graph.handle, before, len(before), *args)
        graph.known.add(int(handle))
        return GraphNode(kind, (handle,))

    def add_kernel(
        self, graph: CudaGraph, after: Sequence[GraphNode], function: Any, geometry: Geometry, parameters: Parameters
    ) -> GraphNode:
        params = self._types.CUDA_KERNEL_NODE_PARAMS()
        Setting(params).fill(function, geometry, parameters)
        return self.add("kernel", "cuGraphAddKernelNode", graph, after, params)

    def add_copy(self, graph: CudaGraph, after: Sequence[GraphNode], target: int, source: int, nbytes: int) -> GraphNode:
        if nbytes == 0:
            return self.add("copy", "cuGraphAddEmptyNode", graph, after)
        params = self.copy_params(target, source, nbytes)
        return self.add("copy", "cuGraphAddMemcpyNode", graph, after, params, self.driver.context)

    def setting(self, executable: CudaExecutable, node: GraphNode) -> Setting:
        """A new struct for a kernel node of the executable."""
        if int(node.handles[0]) not in executable.graph.known:
            raise GraphError("GLA0921", "the node belongs to another graph than the executable was made of")
        setting = executable.settings[id(node)] = Setting(self._types.CUDA_KERNEL_NODE_PARAMS(), node)
        return setting

    def copy_params(self, target: int, source: int, nbytes: int) -> Any:
        """A copy of one row. The memory type is left to the driver, so that either end may be pinned host memory."""
        params = self._types.CUDA_MEMCPY3D()
        params.srcMemoryType = params.dstMemoryType = self._types.CUmemorytype.CU_MEMORYTYPE_UNIFIED
        params.srcDevice, params.dstDevice = source, target
        params.WidthInBytes, params.Height, params.Depth = nbytes, 1, 1
        return params

    def add_fill(self, graph: CudaGraph, after: Sequence[GraphNode], target: int, byte: int, nbytes: int) -> GraphNode:
        if nbytes == 0:
            return self.add("fill", "cuGraphAddEmptyNode", graph, after)
        params = self._types.CUDA_MEMSET_NODE_PARAMS()
        params.dst, params.value, params.elementSize = target, byte, 1
        params.width, params.height, params.pitch = nbytes, 1, 0
        return self.add("fill", "cuGraphAddMemsetNode", graph, after, params, self.driver.context)

    # --- library calls
    def add_matmul(
        self, graph: CudaGraph, after: Sequence[GraphNode], call: Matmul, a: int, b: int, c: int, workspace: int
    ) -> GraphNode:
        if not call.m * call.n * call.batch:
            return self.add("library", "cuGraphAddEmptyNode", graph, after)
        if not call.k:
            return self.add_fill(graph, after, c, 0, call.batch * call.m * call.n * call.dtype.itemsize)
        with self._lock, self.driver.relaxed():
            library = self._library()
            if self.stream is None:
                self.stream = self.driver.call("cuStreamCreate", NON_BLOCKING)
            library.use(int(self.stream), workspace, self._workspace)
            key = (call.dtype, call.transpose_a, call.transpose_b, call.tf32, call.batch > 1)
            if key not in self._warm:
                self._warm_up(library, call, a, b, c)
                self._warm.add(key)
            before = dependencies(graph, after)
            nodes, last = self._captured(graph, before, lambda: library.matmul(call, a, b, c), describe(call))
        return GraphNode("library", nodes, describe(call), {"exit": last})

    def _warm_up(self, library: Cublas, call: Matmul, a: int, b: int, c: int) -> None:
        """The first call of a routine loads kernels and may allocate: that happens in a graph that is thrown away."""
        scratch = self.create()
        try:
            self._captured(scratch, [], lambda: library.matmul(call, a, b, c), describe(call))
        finally:
            self.driver.call("cuGraphDestroy", scratch.handle)

    def _captured(
        self, graph: CudaGraph, before: list[Any], submit: Callable[[], None], what: str
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """(new nodes, those to depend on) of what `submit` puts on the private stream, after the nodes `before`."""
        return self.driver.retried(lambda: self._attempts(graph, before, submit, what))

    def _attempts(
        self, graph: CudaGraph, before: list[Any], submit: Callable[[], None], what: str
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        for attempt in range(ATTEMPTS):
            last, failure, invalidated = self._capture_once(graph, before, submit, what)
            if failure is None and (nodes := self._between(graph, last)):
                graph.leftovers += self._leftovers(nodes)
                graph.known.update(map(int, nodes))
                return tuple(nodes), tuple(last)
            failure = failure or DeviceError(
                "GLA0560", f"{what}: the library recorded nothing", help="`gla doctor` shows its version"
            )
            self._remove_new(graph)
            if not invalidated or attempt == ATTEMPTS - 1:
                raise failure
        raise AssertionError("the last attempt returns or raises")

    def _capture_once(
        self, graph: CudaGraph, before: list[Any], submit: Callable[[], None], what: str
    ) -> tuple[list[Any], GlaError | None, bool]:
        """(the capture's last nodes, what went wrong, whether it was invalidated). The capture is closed either way."""
        driver, types = self.driver, self._types
        failure: GlaError | None = None
        last: list[Any] = []
        driver.call("cuStreamBeginCaptureToGraph", self.stream, graph.handle, before, None, len(before), graph.mode)
        self.capturing = True
        try:
            submit()
            status, _, _, found, _, _ = driver.call("capture_info", self.stream)
            if status == types.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE:  # else its handles mean nothing
                last = found
        except GlaError as error:
            failure = error
        finally:
            ended = driver.table.cuStreamEndCapture(self.stream)[0]
            self.capturing = False
        invalidated = ended == types.CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
        if ended:
            failure = failure or driver_error(ended, "cuStreamEndCapture", driver.table, what)
        return last, failure, invalidated

    def _between(self, graph: CudaGraph, last: list[Any]) -> list[Any]:
        """The nodes that the capture added: back from its last ones to those that were there, in no order."""
        found: dict[int, Any] = {}
        todo = list(last)
        while todo:
            node = todo.pop()
            if int(node) in graph.known or int(node) in found:
                continue
            found[int(node)] = node
            _, _, count = self.driver.call("node_dependencies", node)
            if count:
                todo += self.driver.call("node_dependencies", node, count)[0]
        return list(found.values())

    def _remove_new(self, graph: CudaGraph) -> None:
        """Take out what a failed capture left: every node that nobody was given."""
        _, count = self.driver.call("cuGraphGetNodes", graph.handle)
        for node in self.driver.call("cuGraphGetNodes", graph.handle, count)[0] if count else ():
            if int(node) not in graph.known:
                self.driver.call("cuGraphDestroyNode", node)


def dependencies(graph: CudaGraph, after: Sequence[GraphNode]) -> list[Any]:
    """The driver's nodes to wait for, each once (the driver refuses a node twice). GraphError for one of another graph."""
    handles = {int(handle): handle for node in after for handle in node.details.get("exit", node.handles)}
    if not handles.keys() <= graph.known:
        raise GraphError("GLA0920", "a node of another graph cannot come before one of this graph")
    return list(handles.values())
