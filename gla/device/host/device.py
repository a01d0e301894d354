"""`HostDevice`: the device interface on this machine's processors.

Work is done when a call returns; streams, events and graphs behave as a GPU's otherwise. Strict mode (GLA_STRICT, on in
tests) poisons memory, and refuses stale pointers in launches and copies. `fail_after` makes a chosen call fail, for tests.
"""

from __future__ import annotations

import ctypes
import platform
import time
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from gla.config import environment
from gla.device.base import Device, Geometry, GraphNode, Matmul, Parameters, Properties
from gla.device.host import blas
from gla.device.host.graph import Call, Executable, HostGraph, Product, kernel_call, position
from gla.device.host.memory import Memory, physical_memory
from gla.device.host.streams import HostEvent, HostStream, use, waits
from gla.device.host.threads import Pool, cores
from gla.errors import DeviceError, OutOfMemoryError

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
RUNNER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
BYTE_COST = 1 / 16  # primitives that moving a byte is worth


class HostModule:
    """A loaded object file."""

    __slots__ = ("closed", "library")

    def __init__(self, library: Any) -> None:
        self.library, self.closed = library, False


class HostFunction:
    """A compiled kernel: its address, and the same as a ctypes function (slots, begin, end)."""

    __slots__ = ("address", "call", "module", "name")

    def __init__(self, module: HostModule, name: str) -> None:
        self.module, self.name = module, name
        self.address = module.library.address(name)
        self.call = KERNEL(self.address)

    @property
    def closed(self) -> bool:
        return self.module.closed


class HostDevice(Device):
    """`limit`: bytes that may be allocated (settable, None: no limit). `threads`: 0 means GLA_THREADS, or all processors."""

    kind = "host"

    def __init__(self, *, strict: bool | None = None, limit: int | None = None, threads: int = 0, name: str = "host") -> None:
        self.name = name
        self.strict = environment().strict if strict is None else strict
        self.memory = Memory(self.strict, limit)
        self.pool = Pool(threads or environment().threads or cores())
        self.properties = Properties(
            name=platform.processor() or platform.machine() or "host",
            kind="host",
            architecture=platform.machine(),
            multiprocessors=self.pool.size,
            total_memory=limit if limit is not None else physical_memory(),
        )
        self.live: Counter[str] = Counter()  # handles given out and not destroyed, by kind
        self._fail_left = 0
        self._fail_names: frozenset[str] = frozenset()
        self._fail_error: Exception | None = None

    # --- faults, limits
    @property
    def limit(self) -> int | None:
        return self.memory.limit

    @limit.setter
    def limit(self, nbytes: int | None) -> None:
        self.memory.limit = nbytes

    def fail_after(self, n: int, error: Exception | None = None, *calls: str) -> None:
        """Make the n-th device call from now (of those named, if any are) raise `error`, once. 0 calls that off."""
        self._fail_left, self._fail_names = n, frozenset(calls)
        self._fail_error = error

    @property
    def fault_pending(self) -> bool:
        """Whether the fault asked for has not come yet."""
        return self._fail_left > 0

    def _enter(self, call: str) -> None:
        """Every public call passes here."""
        if self._fail_left and (not self._fail_names or call in self._fail_names):
            self._fail_left -= 1
            if not self._fail_left:
                self._retry_after(self._fail_error or DeviceError("GLA0519", f"{call} failed (asked for by fail_after)"))

    def _retry_after(self, error: Exception) -> None:
        """Out of memory: give memory back, and return so that the call is made once more. Anything else is raised."""
        if not isinstance(error, OutOfMemoryError) or self.reclaim is None:
            raise error
        self.reclaim()

    def _allocate(self, nbytes: int, pinned: bool) -> int:
        try:
            return self.memory.allocate(nbytes, pinned)
        except OutOfMemoryError as error:
            self._retry_after(error)
        return self.memory.allocate(nbytes, pinned)

    # --- memory
    def allocate(self, nbytes: int) -> int:
        self._enter("allocate")
        return self._allocate(nbytes, pinned=False)

    def release(self, address: int) -> None:
        self._enter("release")
        self.memory.release(address)

    def allocate_pinned(self, nbytes: int) -> int:
        self._enter("allocate_pinned")
        return self._allocate(nbytes, pinned=True)

    def release_pinned(self, address: int) -> None:
        self._enter("release_pinned")
        self.memory.release(address, pinned=True)

    def memory_info(self) -> tuple[int, int]:
        self._enter("memory_info")
        return self.memory.info()

    def trim(self) -> None:
        self._enter("trim")

    def poison(self, address: int, nbytes: int) -> None:
        """For pools: in strict mode, fill memory that nobody owns at present."""
        self.memory.poison(address, nbytes)

    # --- copies and fills
    def copy_in(self, target: int, host_address: int, nbytes: int, stream: HostStream) -> None:
        self._enter("copy_in")
        waits(stream, "copy_in")
        self._move(target, host_address, nbytes, stream, "copy_in")

    def copy_out(self, host_address: int, source: int, nbytes: int, stream: HostStream) -> None:
        self._enter("copy_out")
        waits(stream, "copy_out")
        self._move(host_address, source, nbytes, stream, "copy_out")

    def copy(self, target: int, source: int, nbytes: int, stream: HostStream) -> None:
        self._enter("copy")
        use(stream, HostStream, "copy")
        self._move(target, source, nbytes, stream, "copy")

    def _move(self, target: int, source: int, nbytes: int, stream: HostStream, call: str) -> None:
        self._check(target, nbytes, call)
        self._check(source, nbytes, call)
        with stream.lock:
            if nbytes * BYTE_COST >= 1 << 18:
                self._spread(self._bytes_call("gla_copy", target, source, nbytes))
            else:
                ctypes.memmove(target, source, nbytes)

    def fill(self, target: int, byte: int, nbytes: int, stream: HostStream) -> None:
        self._enter("fill")
        use(stream, HostStream, "fill")
        self._check(target, nbytes, "fill")
        with stream.lock:
            ctypes.memset(target, byte, nbytes)

    def _check(self, address: int, nbytes: int, call: str) -> None:
        if self.strict:
            self.memory.check(address, nbytes, call)

    # --- streams and events
    def create_stream(self) -> HostStream:
        self._enter("create_stream")
        self.live["stream"] += 1
        return HostStream()

    def destroy_stream(self, stream: HostStream) -> None:
        self._enter("destroy_stream")
        use(stream, HostStream, "destroy_stream")
        stream.closed = True
        self.live["stream"] -= 1

    def is_blocking(self, stream: HostStream) -> bool:
        self._enter("is_blocking")
        use(stream, HostStream, "is_blocking")
        return stream.blocking

    def synchronize(self, stream: HostStream) -> None:
        self._enter("synchronize")
        waits(stream, "synchronize")
        with stream.lock:
            pass  # whoever is submitting to it is done

    def captured_by(self, stream: HostStream) -> str:
        self._enter("captured_by")
        use(stream, HostStream, "captured_by")
        return stream.owner if stream.capturing else ""

    def create_event(self, timing: bool = False) -> HostEvent:
        self._enter("create_event")
        self.live["event"] += 1
        return HostEvent(timing)

    def destroy_event(self, event: HostEvent) -> None:
        self._enter("destroy_event")
        use(event, HostEvent, "destroy_event")
        event.closed = True
        self.live["event"] -= 1

    def record(self, event: HostEvent, stream: HostStream) -> None:
        self._enter("record")
        use(event, HostEvent, "record")
        use(stream, HostStream, "record")
        with stream.lock:
            event.moment = time.perf_counter_ns()

    def wait(self, stream: HostStream, event: HostEvent) -> None:
        self._enter("wait")
        use(stream, HostStream, "wait")
        use(event, HostEvent, "wait")

    def query(self, event: HostEvent) -> bool:
        self._enter("query")
        use(event, HostEvent, "query")
        return True

    def elapsed_us(self, start: HostEvent, end: HostEvent) -> float:
        self._enter("elapsed_us")
        for event in (start, end):
            use(event, HostEvent, "elapsed_us")
            if not event.timing or not event.moment:
                why = "was made without timing" if not event.timing else "has not been recorded"
                raise DeviceError("GLA0521", f"elapsed_us: an event {why}", help="create_event(timing=True), then record it")
        return (end.moment - start.moment) / 1000

    # --- code
    def compiler_version(self) -> str:
        self._enter("compiler_version")
        from gla.device.host import jit

        return jit.version()

    def compile(self, source: str, name: str) -> bytes:
        self._enter("compile")
        from gla.device.host import jit

        return jit.emit_object(source, name)

    def load(self, image: bytes) -> HostModule:
        self._enter("load")
        from gla.device.host import jit

        module = HostModule(jit.Library(image))
        self.live["module"] += 1
        return module

    def function(self, module: HostModule, name: str) -> HostFunction:
        self._enter("function")
        use(module, HostModule, "function")
        return HostFunction(module, name)

    def unload(self, module: HostModule) -> None:
        self._enter("unload")
        use(module, HostModule, "unload")
        module.closed = True
        self.live["module"] -= 1
        module.library.close()

    @cached_property
    def _runner(self) -> HostModule:
        from gla.device.host import jit
        from gla.device.host.runner import SOURCE

        name = "gla_runner"
        if self.images is None:
            return HostModule(jit.Library(jit.emit_object(SOURCE, name)))
        return HostModule(jit.Library(self.images.get(jit.version(), name, SOURCE, lambda: jit.emit_object(SOURCE, name))))

    @cached_property
    def _run(self) -> Any:
        return RUNNER(self._runner.library.address("gla_run"))

    @cached_property
    def _gla_copy(self) -> HostFunction:
        return HostFunction(self._runner, "gla_copy")

    @cached_property
    def _gla_fill(self) -> HostFunction:
        return HostFunction(self._runner, "gla_fill")

    def _bytes_call(self, name: str, target: int, second: int, nbytes: int) -> Call:
        """A copy (`second`: the source) or a fill (`second`: the byte) in the form of a kernel."""
        from gla.dtypes import uint8

        parameters = Parameters((None, None if name == "gla_copy" else uint8))
        parameters.set(0, target)
        parameters.set(1, second)
        return Call(self._gla_copy if name == "gla_copy" else self._gla_fill, parameters, nbytes, BYTE_COST)

    # --- launches
    def launch(self, function: HostFunction, geometry: Geometry, parameters: Parameters, stream: HostStream) -> None:
        self._enter("launch")
        use(stream, HostStream, "launch")
        use(function, HostFunction, "launch")
        self._check_pointers(parameters, "launch of " + function.name)
        items = geometry.items
        with stream.lock:
            call = Call(function, parameters, items, geometry.block[0])
            if call.heavy:
                self._spread(call)
            else:
                function.call(parameters.address, 0, items)

    def _spread(self, call: Call) -> None:
        self.pool.run(call.function.call, call.parameters.address, call.items)

    def _check_pointers(self, parameters: Parameters, call: str) -> None:
        if self.strict:
            for dtype, word in zip(parameters.dtypes, parameters.slots.tolist()):
                if dtype is None and word:
                    self.memory.check(word, 0, call)

    def matmul(self, call: Matmul, a: int, b: int, c: int, workspace: int, stream: HostStream) -> None:
        self._enter("matmul")
        use(stream, HostStream, "matmul")
        for address in (a, b, c):
            self._check(address, 0, "matmul")
        with stream.lock:
            blas.prepared(call, a, b, c)()

    # --- graphs
    def create_graph(self, mode: str = "relaxed") -> HostGraph:
        self._enter("create_graph")
        self.live["graph"] += 1
        return HostGraph()

    def destroy_graph(self, graph: HostGraph) -> None:
        self._enter("destroy_graph")
        use(graph, HostGraph, "destroy_graph")
        graph.closed = True
        self.live["graph"] -= 1

    def _add(self, graph: HostGraph, after: Sequence[GraphNode], work: Call | Product, kind: str) -> GraphNode:
        use(graph, HostGraph, f"add_{kind}")
        return graph.add(after, work, kind)

    def add_kernel(
        self, graph: HostGraph, after: Sequence[GraphNode], function: HostFunction, geometry: Geometry, parameters: Parameters
    ) -> GraphNode:
        self._enter("add_kernel")
        use(function, HostFunction, "add_kernel")
        return self._add(graph, after, kernel_call(function, geometry, parameters), "kernel")

    def add_copy(self, graph: HostGraph, after: Sequence[GraphNode], target: int, source: int, nbytes: int) -> GraphNode:
        self._enter("add_copy")
        return self._add(graph, after, self._bytes_call("gla_copy", target, source, nbytes), "copy")

    def add_fill(self, graph: HostGraph, after: Sequence[GraphNode], target: int, byte: int, nbytes: int) -> GraphNode:
        self._enter("add_fill")
        return self._add(graph, after, self._bytes_call("gla_fill", target, byte, nbytes), "fill")

    def add_matmul(
        self, graph: HostGraph, after: Sequence[GraphNode], call: Matmul, a: int, b: int, c: int, workspace: int
    ) -> GraphNode:
        self._enter("add_matmul")
        return self._add(graph, after, Product(call, a, b, c), "library")

    def instantiate(self, graph: HostGraph) -> Executable:
        self._enter("instantiate")
        use(graph, HostGraph, "instantiate")
        self.live["executable"] += 1
        return Executable(graph, lambda: self._run, self._spread if self.pool.size > 1 else None)

    def destroy_executable(self, executable: Executable) -> None:
        self._enter("destroy_executable")
        use(executable, Executable, "destroy_executable")
        executable.closed = True
        self.live["executable"] -= 1

    def set_kernel(
        self, executable: Executable, node: GraphNode, function: HostFunction, geometry: Geometry, parameters: Parameters
    ) -> None:
        self._enter("set_kernel")
        use(executable, Executable, "set_kernel")
        use(function, HostFunction, "set_kernel")
        number = position(executable.graph, node)
        executable.replace(number, function, geometry.items, geometry.block[0], parameters)

    def set_copy(self, executable: Executable, node: GraphNode, target: int, source: int, nbytes: int) -> None:
        self._enter("set_copy")
        use(executable, Executable, "set_copy")
        call = self._bytes_call("gla_copy", target, source, nbytes)
        executable.replace(position(executable.graph, node), call.function, nbytes, BYTE_COST, call.parameters)

    def update(self, executable: Executable, graph: HostGraph) -> None:
        self._enter("update")
        use(executable, Executable, "update")
        use(graph, HostGraph, "update")
        executable.replace_all(graph)

    def upload(self, executable: Executable, stream: HostStream) -> None:
        self._enter("upload")
        use(executable, Executable, "upload")
        use(stream, HostStream, "upload")

    def launch_graph(self, executable: Executable, stream: HostStream) -> None:
        self._enter("launch_graph")
        use(executable, Executable, "launch_graph")
        use(stream, HostStream, "launch_graph")
        if self.strict:
            self._check_graph(executable)
        with stream.lock:
            executable.run()

    def _check_graph(self, executable: Executable) -> None:
        for work in executable.work:
            if isinstance(work, Product):
                for address in (work.a, work.b, work.c):
                    self._check(address, 0, "launch_graph")
                continue
            use(work.function, HostFunction, "launch_graph")
            copies = work.cost == BYTE_COST
            for dtype, word in zip(work.parameters.dtypes, work.parameters.slots.tolist()):
                if dtype is None and word:
                    self.memory.check(word, work.items if copies else 0, "launch_graph: " + work.function.name)


def open_device() -> HostDevice:
    """The host device as the environment describes it."""
    return HostDevice()
