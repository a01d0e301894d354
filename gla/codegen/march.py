"""Lowers a region that runs several trips of a loop over a grid in one pass (plan/time_tiles.py) to a `March`, printed by cuda_march.py and llvm_march.py.

A March is a cell's statements, twice: `border`, right everywhere, and `inner`, for cells at least `margin` rows and columns away from every
border, or None where they are the same. Taps are the cells around in the carries as the trip before left them; a printer
keeps those where it likes: registers, rows in the cache. Called by loops.lower.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TypeVar

from gla.codegen.affine import ONE, START, Affine, Poly
from gla.codegen.arguments import Argument, LoweredKernel, Number
from gla.codegen.context import Carried, Handler, Lowering
from gla.codegen.elements import elementwise_op
from gla.codegen.kernel import Compute, Constant, Load, Parameter, Statement, Value
from gla.codegen.naming import kernel_doc, kernel_name
from gla.codegen.prune import prune
from gla.codegen.rare import uses
from gla.dtypes import int64
from gla.ir.node import Node
from gla.plan.steps import Region

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TapValue:
    """`value` is, in the body, the cell `down` rows and `right` columns from the own one of the carry number `carry`."""

    value: Value
    carry: int
    down: int
    right: int


@dataclass(frozen=True, slots=True)
class Cell:
    """What one cell computes in one trip: `results` holds the new carries' values. `uniform` depends on the trip's number alone and
    gives `levels`, which the rest uses."""

    taps: tuple[TapValue, ...]
    uniform: tuple[Statement, ...]
    levels: tuple[Value, ...]
    body: tuple[Statement, ...]
    results: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class March:
    """`steps` trips over a grid of `rows` x `columns` cells, for carries in the first `carries` parameters; new ones go to the
    parameters `outputs`. `row`, `column`: the cell, within the grid; `trip`: the trip's number; `first`: that of the first trip, made
    by `common`, which stands before all. `wraps`: rows, columns go on beyond the borders from the other end; else nothing beyond
    is used. `radius`: the farthest tap in rows and columns. `places`: whether a cell's number, row or column, is used."""

    name: str
    parameters: tuple[Parameter, ...]
    carries: int
    outputs: tuple[int, ...]
    rows: Value | None
    columns: Value
    row: Value
    column: Value
    trip: Value
    first: Value
    common: tuple[Statement, ...]
    border: Cell
    inner: Cell | None
    margin: tuple[int, int]
    wraps: tuple[bool, bool]
    radius: tuple[int, int]
    steps: int
    doc: tuple[str, ...] = field(default=())

    @property
    def cells(self) -> tuple[Cell, ...]:
        return (self.border,) if self.inner is None else (self.border, self.inner)

    @property
    def lanes(self) -> int:
        """Columns that 16 bytes hold of every carry."""
        return 16 // max(4, *(p.dtype.itemsize for p in self.parameters[: self.carries]))


def lower_march(region: Region, handlers: dict[str, Handler], name: str = "") -> LoweredKernel:
    """The march of a region, and what its parameters are."""
    marching = region.marching
    assert marching is not None
    low = Lowering(region, handlers, elementwise_op)
    extents = low.extents.shape(region.outputs[0], region.items)
    counts = [
        low.extent(extent) if extent.constant is None else low.extent_parameter(extent, name)
        for extent, name in zip(extents, ("rows", "columns")[2 - len(extents) :])
    ]
    first = low.evaluate(marching.first, (), low.root)
    row, column, trip = (low.emitter.value(d, 1) for d in (low.index_dtype, low.index_dtype, int64))
    places = (row, column)[2 - len(extents) :]
    index = tuple(_form(low, value, extent) for value, extent in zip(places, extents))
    low.item_index = index
    low.root.bindings[marching.trip] = Carried((), {(): trip})
    carries = len(region.outputs)
    live: set[Value] = {first, *counts}
    border = _cell(low, region.outputs, {row, column}, live)
    inner = _cell(low, marching.inner, {row, column}, live) if marching.inner else None
    common = prune(tuple(low.emitter.scopes[0].statements), live)
    used = [n for n, p in enumerate(low.parameters) if p.value is None or p.value in live]
    offsets = range(len(region.inputs), len(region.inputs) + carries)
    march = March(
        name or f"{kernel_name(region)}_x{marching.steps}", tuple(low.parameters[n] for n in used), carries,
        tuple(used.index(k) for k in offsets), counts[0] if len(counts) > 1 else None, counts[-1], row, column, trip, first,
        common, border, inner, _pair(marching.margin, 0), _pair(marching.wraps, False), _pair(marching.radius, 0), marching.steps,
        kernel_doc(region),
    )  # fmt: skip
    rows, columns = region.items if len(counts) > 1 else (1, region.items[0])
    arguments = tuple(_argument(low, low.arguments[n]) for n in used)
    return LoweredKernel(march, prod(region.items), arguments, (1, rows, columns))


def _pair(values: tuple[T, ...], missing: T) -> tuple[T, T]:
    """Values of two axes, where there is one the last."""
    return (values[0], values[1]) if len(values) == 2 else (missing, values[0])


def _form(low: Lowering, value: Value, extent: Poly) -> Affine:
    return START if extent == ONE else low.indices.value(value, extent)


def _argument(low: Lowering, argument: Argument | Poly) -> Argument:
    return Number(argument.evaluate(low.extents.values), low.index_dtype) if isinstance(argument, Poly) else argument


def _cell(low: Lowering, roots: tuple[Node, ...], places: set[Value], live: set[Value]) -> Cell:
    marching = low.region.marching
    assert marching is not None
    taps = []
    for tap in marching.taps:
        value = low.emitter.value(low.parameters[tap.carry].dtype, 1)
        low.root.bindings[tap.node] = Carried(low.item_index, {(): value})
        taps.append(TapValue(value, tap.carry, *_pair(tap.offset, 0)))
    low.emitter.push("plain")
    results = tuple(low.evaluate(root, low.item_index, low.root) for root in roots)
    statements = low.emitter.pop()
    mine = set(results)
    body = prune(statements, mine)
    live |= mine
    uniform, rest = _uniform(body, places | {tap.value for tap in taps})
    named = uses(rest)
    levels = tuple(s.result for s in uniform if named[s.result.id] or s.result in results)
    return Cell(tuple(tap for tap in taps if tap.value in mine), uniform, levels, rest, results)


def _uniform(body: tuple[Statement, ...], places: set[Value]) -> tuple[tuple[Compute | Load, ...], tuple[Statement, ...]]:
    """What is the same in all cells of a trip, and what is not."""
    varying = set(places)
    uniform: list[Compute | Load] = []
    rest: list[Statement] = []
    for statement in body:
        read: tuple[Value, ...] = statement.args if isinstance(statement, Compute) else ()
        if isinstance(statement, Load):
            read = (statement.index,)
        if isinstance(statement, Compute | Load) and varying.isdisjoint(read):
            uniform.append(statement)
        else:
            rest.append(statement)
            varying.update(_made(statement))
    return tuple(uniform), tuple(rest)


def _made(statement: Statement) -> tuple[Value, ...]:
    """The values that a statement gives."""
    if isinstance(statement, Constant | Compute | Load):
        return (statement.result,)
    return getattr(statement, "results", ())
