"""The kernel form: what a fused region becomes, and what the two printers (cuda.py, llvm.py) print.

A kernel runs its body once for every *item*, items being numbered from 0. A team of `team` threads serves one item on
CUDA; the host runs the team as a vector loop. All shapes reach it as scalar parameters ("extents"): the text holds no
number that came from a size. Values are scalars: bool, int8-64, uint8-64, float32, float64 (float16/bfloat16 are uint16
bits, complex numbers are pairs). `index` values have dtype int32, or int64 when `wide`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gla.dtypes import DType
from gla.plan.tiles import Tile


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A scalar of one item (or one thread of its team). Compared by identity; `id` is unique in its kernel."""

    id: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter. kind "pointer": to elements of `dtype` (bool is stored as uint8, complex64 as pairs of float32:
    dtype is then float32); `writable` if the kernel stores to it. kind "scalar": a runtime scalar by value.
    kind "extent": an integer of index dtype. `value` is what the body calls it (None for a pointer)."""

    name: str
    kind: str
    dtype: DType
    value: Value | None = None
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Constant:
    """result = a number that the program wrote as a literal."""

    result: Value
    value: Any


@dataclass(frozen=True, slots=True)
class Compute:
    """result = primitive(args). `op` is a method name of `Scalars` (add, fma, select, convert, bitcast, ...), or "call" with
    the C function's double name in `name`, or "apply" with the name of one of the kernel's functions."""

    result: Value
    op: str
    args: tuple[Value, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Function:
    """What a kernel computes in many places, written once: `result` from `parameters`, by constants and computations alone.
    Its values are its own, numbered from 0. Applying it gives the bits that its body in place would give."""

    name: str
    parameters: tuple[Value, ...]
    body: tuple[Constant | Compute, ...]
    result: Value


@dataclass(frozen=True, slots=True)
class Load:
    """result = parameter[index], counted in elements of the pointer's dtype; bool memory gives `!= 0`."""

    result: Value
    pointer: int
    index: Value


@dataclass(frozen=True, slots=True)
class Store:
    """parameter[index] = value. In a team, one thread stores unless `each` (inside ForEach every thread stores its own)."""

    pointer: int
    index: Value
    value: Value


@dataclass(frozen=True, slots=True)
class If:
    """Runs `body` where `condition` holds; for effects (stores), gives nothing."""

    condition: Value
    body: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """for counter in 0..count: carries = next(carries); afterwards `results` hold the carries.

    `carried` are the values of an iteration's start, `inits` those of the first. `until`: when given, a value computed by
    the body from the carries *before* the iteration's other work; the loop ends, keeping the carries, when it is false
    (while loops: `guard` statements compute it).
    """

    counter: Value
    count: Value
    carried: tuple[Value, ...]
    inits: tuple[Value, ...]
    body: tuple[Any, ...]
    next: tuple[Value, ...]
    results: tuple[Value, ...]
    guard: tuple[Any, ...] = ()
    until: Value | None = None


@dataclass(frozen=True, slots=True)
class Reduce:
    """results = the elements of 0..count joined by `combine`, in an order fixed by count and `partials` alone.

    Partial p (0 <= p < partials) starts from `identity` and takes the elements p, p + partials, p + 2 partials, ... in that
    order: acc = combine(acc, element). Then for s = partials/2, partials/4, ..., 1: acc[p] = combine(acc[p], acc[p + s]) for
    p < s. `body` computes `element` from `index`. In a team the partials are spread over the threads; every thread gets
    the results. `left`, `right`: the two operands inside `combine`, `joined` its results.
    """

    results: tuple[Value, ...]
    count: Value
    partials: int
    index: Value
    body: tuple[Any, ...]
    element: tuple[Value, ...]
    identity: tuple[Value, ...]
    left: tuple[Value, ...]
    right: tuple[Value, ...]
    combine: tuple[Any, ...]
    joined: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class ForEach:
    """for index in 0..count: body; the threads of the team share the indices. Bodies store and are independent."""

    index: Value
    count: Value
    body: tuple[Any, ...]


Statement = Constant | Compute | Load | Store | If | Loop | Reduce | ForEach


@dataclass(frozen=True, slots=True)
class Kernel:
    """`item` is the item's number, `items` the extent parameter that says how many there are.

    team: threads that serve one item on CUDA: 1, or a divisor of every Reduce's `partials`.
    across: how a team lies in a block: False: neighbouring threads are one team (the reduced axis is contiguous);
    True: neighbouring threads are neighbouring items (the items' axis is contiguous, as in a sum over columns).
    functions: those that the body applies.
    held: (the extent of its rows, bytes an element) where rows are held in shared memory on CUDA, see hold.py.
    """

    name: str
    parameters: tuple[Parameter, ...]
    item: Value
    items: Value
    body: tuple[Statement, ...]
    wide: bool = False
    team: int = 1
    across: bool = False
    doc: tuple[str, ...] = field(default=())
    functions: tuple[Function, ...] = ()
    held: tuple[Value, int] | None = None


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product with what comes before and after it: CUDA only, the host has its library.

    For batch, row, column below batches, rows, columns: total = sum over depth below depths of left_value * right_value, with fused
    multiply-adds, in an order that `tile` and `depths` fix; then `body` runs, which stores. `left` computes left_value from batch,
    row and depth, `right` right_value from batch, depth and column. `common` stands before all. `left_deep`, `right_deep`: depth
    runs over neighbouring elements there.
    """

    name: str
    parameters: tuple[Parameter, ...]
    batch: Value
    row: Value
    column: Value
    depth: Value
    batches: Value
    rows: Value
    columns: Value
    depths: Value
    common: tuple[Statement, ...]
    left: tuple[Statement, ...]
    left_value: Value
    right: tuple[Statement, ...]
    right_value: Value
    total: Value
    body: tuple[Statement, ...]
    tile: Tile
    left_deep: bool = True
    right_deep: bool = False
    wide: bool = False
    doc: tuple[str, ...] = field(default=())
