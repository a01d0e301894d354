"""A plan: what to launch, on what memory, after what. Device-neutral; made by planner.py, run by runtime/executable.py.

Inputs are contiguous row-major buffers; every strided access is an index map inside a region. A plan holds concrete
sizes, its kernels' text does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gla.device.base import Matmul
from gla.dtypes import DType
from gla.ir.node import Node
from gla.plan.time_tiles import Marching


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that steps read and write. kind: "input" (index counts the graph's array inputs), "output" (index counts the
    graph's results), "temporary" (at `offset` in the arena; alive from the step `first` to the step `last`)."""

    id: int
    dtype: DType
    shape: tuple[int, ...]
    kind: str
    index: int = -1
    offset: int = 0
    first: int = 0
    last: int = 0

    @property
    def nbytes(self) -> int:
        size = self.dtype.itemsize
        for extent in self.shape:
            size *= extent
        return size


@dataclass(frozen=True, slots=True)
class Target:
    """Where an output goes when it does not fill its buffer: element `idx` of the value is stored at `starts + steps * idx` of a
    buffer of shape `shape`, of the value's rank. A start may be an int64 scalar node (a loop counter: the row of an emit)."""

    shape: tuple[int, ...]
    starts: tuple[int | Node, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the graph that one kernel computes: `outputs` from `inputs` (nodes that stand in buffers) and `scalars`
    (runtime scalars, passed by value); every node between is computed inside, as often as it is asked for.

    `items`: the shape of the item domain, whose elements are independent. An output has shape `items`, or `items + inner`
    with the same `inner` for all that have one; those are mapped by the item's team, or, when `inner` has at most 8
    elements, computed by one thread, all of them before any is stored. Reductions over more than 8
    elements inside have exactly the shape `items` and are seen by their users at the item's index only. A `scan` is
    alone in its region, along its last axis, items being the axes before it.
    `product`: a matmul inside whose elements are seen at the item's index only, when the kernel is that of a matrix product.
    `marching`: for a region that runs several trips of a loop over a grid at once (time_tiles.py).
    `targets`: per output None (fills its buffer) or the part of its buffer that it fills.
    """

    outputs: tuple[Node, ...]
    inputs: tuple[Node, ...]
    scalars: tuple[Node, ...]
    items: tuple[int, ...]
    inner: tuple[int, ...] = ()
    targets: tuple[Target | None, ...] = ()
    product: Node | None = None
    marching: Marching | None = None


@dataclass(frozen=True, slots=True)
class KernelStep:
    """Launch the region's kernel. `reads` and `writes` are buffer ids in the order of region.inputs and region.outputs."""

    region: Region
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MatmulStep:
    """Call the matrix library: writes c = a @ b. Offsets count elements into the buffers."""

    call: Matmul
    a: int
    b: int
    c: int
    a_offset: int = 0
    b_offset: int = 0
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CopyStep:
    """Copy a whole buffer into another of the same size."""

    source: int
    target: int
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LoopStep:
    """A loop driven from the host by replays of its body.

    `count`: trips, or for a while loop the most trips. `counter`: a buffer (int64 scalar) that holds the trip number: the
    runtime zeroes it before and the body's last step increments it; -1 when nobody asks for it. `carries`: (start, current, next) buffers: `start`
    is copied to `current` before the first trip; the body reads `current` and writes `next`; after a trip the roles of
    current and next change. `condition`: for a while loop, a bool buffer that the body's `test` steps compute from
    `current` before each trip; the loop ends when it is false. After the loop the runtime leaves the carries in `current`.
    """

    body: tuple[Step, ...]
    count: int
    counter: int
    carries: tuple[tuple[int, int, int], ...]
    test: tuple[Step, ...] = ()
    condition: int = -1
    after: tuple[int, ...] = ()


Step = KernelStep | MatmulStep | CopyStep | LoopStep


@dataclass(frozen=True, slots=True)
class Plan:
    """`outputs`: per result of the graph, the buffer that holds it. `writes`: per write, (input buffer, buffer that holds the new
    contents; the same when it was written in place)."""

    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    writes: tuple[tuple[int, int], ...]
    scalars: tuple[Node, ...]
    arena_bytes: int = 0
    workspace_bytes: int = 0
    notes: tuple[str, ...] = field(default=())
