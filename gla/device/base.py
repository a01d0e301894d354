"""The narrow interface between gla and a device: memory, copies, streams, events, code, launches, graphs, a library.

Both devices (`host`, the software device, and `cuda`) implement it and pass the same contract tests. Addresses and
handles are plain integers or opaque objects; who keeps them alive is the runtime's business, not the device's.
Everything stream-ordered is asynchronous in meaning: the caller may rely on order within a stream and on nothing else.
Errors are GlaErrors that name the call (`GLA05xx`); out of memory is OutOfMemoryError.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from gla.dtypes import DType

Handle = Any


@dataclass(frozen=True, slots=True)
class Properties:
    """What planning and code generation may ask of a device. Bytes, counts; `capability` is (major, minor) or (0, 0)."""

    name: str
    kind: str
    architecture: str
    capability: tuple[int, int] = (0, 0)
    multiprocessors: int = 1
    max_threads_per_block: int = 1024
    shared_bytes: int = 48 << 10
    total_memory: int = 0
    library_workspace: int = 0


@dataclass(frozen=True, slots=True)
class Geometry:
    """How a kernel is spread: CUDA's grid, block and dynamic shared bytes. The host device reads `items`, the number of
    work items, and calls the kernel on ranges of them."""

    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    shared: int = 0
    items: int = 1


class Parameters:
    """Kernel parameters by value: one slot of eight bytes each, little end first, whatever the parameter's dtype.

    The host device hands a kernel the address of the slots; CUDA is given an array of their addresses (`pointers`).
    """

    __slots__ = ("_view", "address", "dtypes", "pointers", "slots")

    def __init__(self, dtypes: Sequence[DType | None]) -> None:
        """`dtypes`: None for a pointer, else the scalar's dtype (never complex, float16 or bfloat16)."""
        self.dtypes = tuple(dtypes)
        self.slots = np.zeros(max(len(self.dtypes), 1), np.uint64)
        self._view = self.slots.view(np.uint8).reshape(-1, 8)
        base = self.address = self.slots.ctypes.data
        self.pointers = np.arange(base, base + 8 * len(self.slots), 8, dtype=np.uint64)

    def set(self, index: int, value: Any) -> None:
        """Store a pointer (an integer address) or a number of the slot's dtype."""
        dtype = self.dtypes[index]
        if dtype is None:
            self.slots[index] = value
        else:
            self._view[index, : dtype.itemsize] = np.frombuffer(np.asarray(value, dtype.numpy).tobytes(), np.uint8)

    def copy(self) -> Parameters:
        other = Parameters(self.dtypes)
        other.slots[:] = self.slots
        return other


@dataclass(frozen=True, slots=True)
class Matmul:
    """C = A @ B for a batch of row-major matrices of one dtype: float16, bfloat16 (added in float32, rounded once), float32, float64,
    complex64 or complex128.

    A is (batch, m, k), B (batch, k, n), C (batch, m, n) row-major and contiguous within a matrix. `lda`, `ldb` count
    elements between rows of the *stored* matrix; `transpose_a` says that A is stored as (k, m). Batch strides count
    elements; 0 repeats one matrix. `batch` may exceed 65,535. `tf32` allows TF32 products.
    """

    dtype: DType
    batch: int
    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int
    stride_a: int = 0
    stride_b: int = 0
    stride_c: int = 0
    transpose_a: bool = False
    transpose_b: bool = False
    tf32: bool = False


@dataclass(slots=True)
class GraphNode:
    """A node of a device graph, as the device gave it. `kind`: kernel, copy, fill, library. `handles`: the driver's nodes
    that it consists of (a library call may be several); `entry` and `exit` are the ones to depend from and on."""

    kind: str
    handles: tuple[Any, ...]
    label: str = ""
    details: dict[str, Any] = field(default_factory=dict)


class Images(Protocol):
    """Kept images: what `make` gives, made once for each text of each compiler."""

    def get(self, compiler: str, name: str, source: str, make: Callable[[], bytes]) -> bytes: ...


class Device(ABC):
    """A device. All methods may be called from any thread.

    `reclaim` and `images` are set by the runtime. A call that runs out of memory (device memory, or a handle of the driver or
    of a library) is made once more after `reclaim()`; what fails then is raised. `images` keeps code of the device's own.
    """

    reclaim: Callable[[], object] | None = None
    images: Images | None = None

    name: str  # "host", "cuda:0"
    kind: str  # "host", "cuda"
    properties: Properties

    # --- memory: addresses of at least 256-byte alignment
    @abstractmethod
    def allocate(self, nbytes: int) -> int: ...
    @abstractmethod
    def release(self, address: int) -> None: ...
    @abstractmethod
    def allocate_pinned(self, nbytes: int) -> int:
        """Host memory that the device reads and writes in place and asynchronously."""

    @abstractmethod
    def release_pinned(self, address: int) -> None: ...
    @abstractmethod
    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes."""

    @abstractmethod
    def trim(self) -> None:
        """Give back what the driver keeps for graphs that nobody runs."""

    # --- copies and fills, stream-ordered. `copy_in` has read its source when it returns (pageable host memory).
    @abstractmethod
    def copy_in(self, target: int, host_address: int, nbytes: int, stream: Handle) -> None: ...
    @abstractmethod
    def copy_out(self, host_address: int, source: int, nbytes: int, stream: Handle) -> None:
        """Device to host; complete when it returns."""

    @abstractmethod
    def copy(self, target: int, source: int, nbytes: int, stream: Handle) -> None: ...
    @abstractmethod
    def fill(self, target: int, byte: int, nbytes: int, stream: Handle) -> None: ...

    # --- streams and events
    @abstractmethod
    def create_stream(self) -> Handle:
        """A non-blocking stream."""

    @abstractmethod
    def destroy_stream(self, stream: Handle) -> None: ...
    @abstractmethod
    def is_blocking(self, stream: Handle) -> bool:
        """Whether the stream waits for the device's default stream, as one that somebody else made may do."""

    @abstractmethod
    def synchronize(self, stream: Handle) -> None: ...
    @abstractmethod
    def captured_by(self, stream: Handle) -> str:
        """Who records what is submitted to `stream` at present: "" nobody, "gla", or "other": a library in this process."""

    @abstractmethod
    def create_event(self, timing: bool = False) -> Handle: ...
    @abstractmethod
    def destroy_event(self, event: Handle) -> None: ...
    @abstractmethod
    def record(self, event: Handle, stream: Handle) -> None: ...
    @abstractmethod
    def wait(self, stream: Handle, event: Handle) -> None:
        """Work submitted to `stream` later runs after `event`."""

    @abstractmethod
    def query(self, event: Handle) -> bool: ...
    @abstractmethod
    def elapsed_us(self, start: Handle, end: Handle) -> float: ...

    # --- code: source text of this device's language -> image bytes (cacheable) -> module -> function
    @abstractmethod
    def compiler_version(self) -> str:
        """Part of the name under which images are kept: compiler and version, target, flags."""

    def expect_compilation(self) -> None:  # noqa: B027 - most devices have nothing to prepare
        """A kernel will probably be compiled soon. Returns at once."""

    @abstractmethod
    def compile(self, source: str, name: str) -> bytes:
        """Compile one translation unit. The image is position independent and may be kept on disk."""

    @abstractmethod
    def load(self, image: bytes) -> Handle: ...
    @abstractmethod
    def function(self, module: Handle, name: str) -> Handle: ...
    @abstractmethod
    def unload(self, module: Handle) -> None: ...
    @abstractmethod
    def launch(self, function: Handle, geometry: Geometry, parameters: Parameters, stream: Handle) -> None: ...

    # --- the matrix library
    @abstractmethod
    def matmul(self, call: Matmul, a: int, b: int, c: int, workspace: int, stream: Handle) -> None: ...

    # --- graphs
    @abstractmethod
    def create_graph(self, mode: str = "relaxed") -> Handle:
        """`mode`: how library calls are captured into it; relaxed, thread_local or global."""

    @abstractmethod
    def destroy_graph(self, graph: Handle) -> None: ...
    @abstractmethod
    def add_kernel(
        self, graph: Handle, after: Sequence[GraphNode], function: Handle, geometry: Geometry, parameters: Parameters
    ) -> GraphNode: ...
    @abstractmethod
    def add_copy(self, graph: Handle, after: Sequence[GraphNode], target: int, source: int, nbytes: int) -> GraphNode: ...
    @abstractmethod
    def add_fill(self, graph: Handle, after: Sequence[GraphNode], target: int, byte: int, nbytes: int) -> GraphNode: ...
    @abstractmethod
    def add_matmul(
        self, graph: Handle, after: Sequence[GraphNode], call: Matmul, a: int, b: int, c: int, workspace: int
    ) -> GraphNode: ...
    @abstractmethod
    def instantiate(self, graph: Handle) -> Handle: ...
    @abstractmethod
    def destroy_executable(self, executable: Handle) -> None: ...
    @abstractmethod
    def set_kernel(
        self, executable: Handle, node: GraphNode, function: Handle, geometry: Geometry, parameters: Parameters
    ) -> None:
        """Later launches of `executable` run that node with these parameters (copied before the call returns)."""

    @abstractmethod
    def set_copy(self, executable: Handle, node: GraphNode, target: int, source: int, nbytes: int) -> None: ...
    @abstractmethod
    def update(self, executable: Handle, graph: Handle) -> None:
        """Later launches run `graph`, whose nodes are in number, kind and edges those of the executable's own graph, which keeps
        naming them. GraphError when the driver refuses."""

    @abstractmethod
    def upload(self, executable: Handle, stream: Handle) -> None: ...
    @abstractmethod
    def launch_graph(self, executable: Handle, stream: Handle) -> None: ...
