"""The CUDA device: the interface of gla.device.base over the driver, NVRTC and cuBLAS.

Launches are thin: one call of the bindings, one look at its status. A context is made current once a thread for those, and
each time for everything else, since other libraries change it. Opened by the runtime through `open_device`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from gla.device.base import Device, Geometry, GraphNode, Handle, Matmul, Parameters, Properties
from gla.device.cuda import nvrtc
from gla.device.cuda.cublas import Cublas, workspace_bytes
from gla.device.cuda.driver import Driver, open_driver, thread
from gla.device.cuda.graph import NON_BLOCKING, CudaExecutable, CudaGraph, Graphs
from gla.device.cuda.memory import Memory
from gla.errors import DeviceError

LEAST_CAPABILITY = (7, 5)
DEFAULT_SHARED = 48 << 10  # dynamic shared bytes of a block that need no asking


def open_device(index: int = 0) -> CudaDevice:
    """Device "cuda:<index>". Raises DeviceError that says what is missing and what to install."""
    return CudaDevice(open_driver(index))


class CudaDevice(Device):
    """One NVIDIA GPU. All methods may be called from any thread."""

    kind = "cuda"

    def __init__(self, driver: Driver) -> None:
        self.driver, self.name = driver, f"cuda:{driver.index}"
        self.properties = _properties(driver)
        self._memory = Memory(driver)
        self._library: Cublas | None = None
        self._library_lock = threading.Lock()
        self._graphs = Graphs(driver, self._open_library, self._library_lock, self.properties.library_workspace)
        table = driver.table
        # what a step of a simulation calls, looked up once
        self._launch_kernel, self._graph_launch = table.cuLaunchKernel, table.cuGraphLaunch
        self._exec_set_kernel = table.cuGraphExecKernelNodeSetParams
        self._record, self._wait = table.cuEventRecord, table.cuStreamWaitEvent

    def __repr__(self) -> str:
        return f"<{self.name} {self.properties.name}>"

    @property
    def reclaim(self) -> Callable[[], object] | None:  # type: ignore[override]
        return self.driver.reclaim

    @reclaim.setter
    def reclaim(self, reclaim: Callable[[], object] | None) -> None:
        self.driver.reclaim = reclaim

    # --- memory
    def trim(self) -> None:
        self.driver.unsafe("cuDeviceGraphMemTrim", self.driver.device)

    def allocate(self, nbytes: int) -> int:
        return self._memory.allocate(nbytes)

    def release(self, address: int) -> None:
        self._memory.release(address)

    def allocate_pinned(self, nbytes: int) -> int:
        return self._memory.allocate_pinned(nbytes)

    def release_pinned(self, address: int) -> None:
        self._memory.release_pinned(address)

    def memory_info(self) -> tuple[int, int]:
        free, total = self.driver.call("cuMemGetInfo")
        return int(free), int(total)

    # --- copies and fills
    def copy_in(self, target: int, host_address: int, nbytes: int, stream: Handle) -> None:
        self._memory.copy_in(target, host_address, nbytes, stream)

    def copy_out(self, host_address: int, source: int, nbytes: int, stream: Handle) -> None:
        self._memory.copy_out(host_address, source, nbytes, stream)

    def copy(self, target: int, source: int, nbytes: int, stream: Handle) -> None:
        if nbytes:
            self.driver.call("cuMemcpyAsync", target, source, nbytes, stream)  # either end may be pinned host memory

    def fill(self, target: int, byte: int, nbytes: int, stream: Handle) -> None:
        if nbytes:
            self.driver.call("cuMemsetD8Async", target, byte, nbytes, stream)

    # --- streams and events
    def create_stream(self) -> Handle:
        return self.driver.unsafe("cuStreamCreate", NON_BLOCKING)

    def destroy_stream(self, stream: Handle) -> None:
        self.driver.unsafe("cuStreamDestroy", stream)

    def is_blocking(self, stream: Handle) -> bool:
        return not self.driver.unsafe("cuStreamGetFlags", stream) & NON_BLOCKING

    def synchronize(self, stream: Handle) -> None:
        self.driver.unsafe("cuStreamSynchronize", stream)

    def captured_by(self, stream: Handle) -> str:
        if stream == self._graphs.stream:
            return "gla" if self._graphs.capturing else ""
        with self.driver.relaxed():
            status = self.driver.call("capture_info", stream)[0]
        return "" if status == self.driver.table.types.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE else "other"

    def create_event(self, timing: bool = False) -> Handle:
        flags = self.driver.table.types.CUevent_flags
        return self.driver.call("cuEventCreate", int(flags.CU_EVENT_DEFAULT if timing else flags.CU_EVENT_DISABLE_TIMING))

    def destroy_event(self, event: Handle) -> None:
        self.driver.unsafe("cuEventDestroy", event)

    def record(self, event: Handle, stream: Handle) -> None:
        driver = self.driver
        if thread.current is not driver:
            driver.enter()
        status = self._record(event, stream)[0]
        if status:
            driver.again(status, "cuEventRecord", event, stream)

    def wait(self, stream: Handle, event: Handle) -> None:
        driver = self.driver
        if thread.current is not driver:
            driver.enter()
        status = self._wait(stream, event, 0)[0]
        if status:
            driver.again(status, "cuStreamWaitEvent", stream, event, 0)

    def query(self, event: Handle) -> bool:
        return self.driver.finished(event)

    def elapsed_us(self, start: Handle, end: Handle) -> float:
        """Between two events that have run and were created with `timing`."""
        return 1000.0 * self.driver.unsafe("cuEventElapsedTime", start, end)

    # --- code
    def compiler_version(self) -> str:
        return nvrtc.identity(self.properties.architecture)

    def expect_compilation(self) -> None:
        """Loads the compiler in a thread of its own."""
        if not nvrtc.is_loaded():
            threading.Thread(target=nvrtc.load, name="gla-nvrtc", daemon=True).start()

    def compile(self, source: str, name: str) -> bytes:
        return nvrtc.compile(source, name, self.properties.architecture)

    def load(self, image: bytes) -> Handle:
        return self.driver.unsafe("cuModuleLoadData", image)

    def function(self, module: Handle, name: str) -> Handle:
        """The kernel `name`, allowed all the dynamic shared memory that a block can have beside its static."""
        function = self.driver.unsafe("cuModuleGetFunction", module, name.encode())
        attributes = self.driver.table.types.CUfunction_attribute
        static = self.driver.call("cuFuncGetAttribute", attributes.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function)
        most = self.properties.shared_bytes - static
        if most > DEFAULT_SHARED:
            self.driver.unsafe("cuFuncSetAttribute", function, attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most)
        return function

    def unload(self, module: Handle) -> None:
        self.driver.unsafe("cuModuleUnload", module)

    def launch(self, function: Handle, geometry: Geometry, parameters: Parameters, stream: Handle) -> None:
        driver = self.driver
        if thread.current is not driver:
            driver.enter()
        grid, block = geometry.grid, geometry.block
        arguments = (function, *grid, *block, geometry.shared, stream, parameters.pointers, 0)
        status = self._launch_kernel(*arguments)[0]
        if status:
            driver.again(status, "cuLaunchKernel", *arguments, detail=f"grid {grid}, block {block}")

    # --- the matrix library
    def _open_library(self) -> Cublas:
        """The library's handle. Whoever calls holds the library's lock."""
        if self._library is None:
            with self.driver.relaxed():
                self._library = self.driver.retried(Cublas)
        return self._library

    def matmul(self, call: Matmul, a: int, b: int, c: int, workspace: int, stream: Handle) -> None:
        if not call.m * call.n * call.batch:
            return
        if not call.k:
            self.fill(c, 0, call.batch * call.m * call.n * call.dtype.itemsize, stream)
            return
        with self._library_lock, self.driver.relaxed():
            library = self._open_library()
            library.use(int(stream), workspace, self.properties.library_workspace)
            self.driver.retried(lambda: library.matmul(call, a, b, c))

    # --- graphs
    def create_graph(self, mode: str = "relaxed") -> CudaGraph:
        return self._graphs.create(mode)

    def destroy_graph(self, graph: CudaGraph) -> None:
        """At once, or with the last executable made of it: setting an executable's nodes needs the graph that they are of."""
        self._graphs.let_go(graph)

    def add_kernel(
        self, graph: CudaGraph, after: Sequence[GraphNode], function: Handle, geometry: Geometry, parameters: Parameters
    ) -> GraphNode:
        return self._graphs.add_kernel(graph, after, function, geometry, parameters)

    def add_copy(self, graph: CudaGraph, after: Sequence[GraphNode], target: int, source: int, nbytes: int) -> GraphNode:
        return self._graphs.add_copy(graph, after, target, source, nbytes)

    def add_fill(self, graph: CudaGraph, after: Sequence[GraphNode], target: int, byte: int, nbytes: int) -> GraphNode:
        return self._graphs.add_fill(graph, after, target, byte, nbytes)

    def add_matmul(
        self, graph: CudaGraph, after: Sequence[GraphNode], call: Matmul, a: int, b: int, c: int, workspace: int
    ) -> GraphNode:
        return self._graphs.add_matmul(graph, after, call, a, b, c, workspace)

    def instantiate(self, graph: CudaGraph) -> CudaExecutable:
        return self._graphs.instantiate(graph)

    def destroy_executable(self, executable: CudaExecutable) -> None:
        self.driver.unsafe("cuGraphExecDestroy", executable.handle)
        if executable.graph.leftovers:
            self._graphs.free_leftovers(executable.graph)
        self._graphs.let_go(executable.graph)

    def set_kernel(
        self, executable: CudaExecutable, node: GraphNode, function: Handle, geometry: Geometry, parameters: Parameters
    ) -> None:
        setting = executable.settings.get(id(node)) or self._graphs.setting(executable, node)
        setting.fill(function, geometry, parameters)
        driver = self.driver
        if thread.current is not driver:
            driver.enter()
        status = self._exec_set_kernel(executable.handle, node.handles[0], setting.params)[0]
        if status:
            driver.again(status, "cuGraphExecKernelNodeSetParams", executable.handle, node.handles[0], setting.params)

    def set_copy(self, executable: CudaExecutable, node: GraphNode, target: int, source: int, nbytes: int) -> None:
        if nbytes:
            params = self._graphs.copy_params(target, source, nbytes)
            self.driver.call("cuGraphExecMemcpyNodeSetParams", executable.handle, node.handles[0], params, self.driver.context)

    def update(self, executable: CudaExecutable, graph: CudaGraph) -> None:
        self._graphs.update(executable, graph)

    def upload(self, executable: CudaExecutable, stream: Handle) -> None:
        self.driver.unsafe("cuGraphUpload", executable.handle, stream)

    def launch_graph(self, executable: CudaExecutable, stream: Handle) -> None:
        driver = self.driver
        if thread.current is not driver:
            driver.enter()
        status = self._graph_launch(executable.handle, stream)[0]
        if status:
            driver.again(status, "cuGraphLaunch", executable.handle, stream)


def _properties(driver: Driver) -> Properties:
    """What the driver says of the device. Raises DeviceError for a GPU that is too old."""
    capability = driver.attribute("COMPUTE_CAPABILITY_MAJOR"), driver.attribute("COMPUTE_CAPABILITY_MINOR")
    name = driver.call("cuDeviceGetName", 256, driver.device).split(b"\0")[0].decode(errors="replace")
    if capability < LEAST_CAPABILITY:
        raise DeviceError(
            "GLA0552",
            f"cuda:{driver.index} ({name}) has compute capability {capability[0]}.{capability[1]}; gla needs 7.5 or later",
            help="use a newer GPU, or GLA_DEVICE=host",
        )
    return Properties(
        name=name,
        kind="cuda",
        architecture=f"sm_{capability[0]}{capability[1]}",
        capability=capability,
        multiprocessors=driver.attribute("MULTIPROCESSOR_COUNT"),
        max_threads_per_block=driver.attribute("MAX_THREADS_PER_BLOCK"),
        shared_bytes=driver.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        total_memory=int(driver.call("cuDeviceTotalMem", driver.device)),
        library_workspace=workspace_bytes(capability),
    )
