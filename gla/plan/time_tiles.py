"""Time tiling: which loops over a grid may run several trips per pass over memory, how many, and their body cell by cell.

`march(...)` is asked by plan/loops.py for every counted loop that the host would drive. A body qualifies when it computes each cell
of its carries from cells at constant offsets: elementwise ops, shifts under any mode, slices, updates of a part; carries are
one- or two-dimensional and of one shape, captured arrays are read anywhere. The body becomes an expression of the cell's
neighbours ("taps") in two versions: `border`, right everywhere, and `inner`, right `margin` cells away from every border, where
no mode and no part's edge matters. Along an axis with periodic reads the grid goes on beyond its borders (cell -1 is cell n - 1),
along another one nothing beyond is used. Everything else stays a loop of single trips: three dimensions, carried scalars,
reductions, complex numbers, grids too small to pay. The choice depends on the graph and the kind of device alone, and changes no bit.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from gla import dtypes
from gla.dtypes import DType
from gla.ir.access import is_elementwise
from gla.ir.graph import new_input
from gla.ir.node import Node, make, topological
from gla.ir.types import TupleType, Type

REACH = 4  # the largest offset of a read
MARGIN = 16  # the largest distance from a border at which it may still matter
NODES = 600  # of a body, in either version
POINTERS = 40
WIDE = 1 << 29  # cells: indices stay 32 bits wide
WORK = 40  # operations a cell and 4 bytes carried, above which a step is bound by arithmetic anyway
CALL = 12  # what an elementary function counts
SLOW = frozenset(
    """sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh exp exp2 expm1 log log1p log2 log10 power cbrt hypot
    erf logaddexp fmod remainder floor_divide philox""".split()
)
FREE = frozenset(
    {"input", "constant", "iota", "broadcast", "reshape", "transpose", "slice", "shift", "pad", "concat", "gather"}
)
COUNTER = Type(dtypes.int64, (), True)


@dataclass(frozen=True, slots=True)
class Rule:
    """How deep a device tiles. `cells`: the least grid that is tiled; `words`: 4-byte words of all levels' rows that a thread may hold, for
    `lane_bytes` of each row; `depth`: most trips a pass."""

    cells: int
    words: int
    lane_bytes: int
    depth: int


RULES = {"cuda": Rule(1 << 18, 80, 16, 10), "host": Rule(1 << 17, 1 << 30, 16, 4)}
"""By kind of device; fitted to an H200 and to two cores of a Xeon (benchmarks/README.md)."""


@dataclass(frozen=True, slots=True)
class Tap:
    """`node` stands for the cell at `offset` from the own one of the carry number `carry`."""

    node: Node
    carry: int
    offset: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Marching:
    """What a region that runs `steps` trips adds to it. The region's outputs are the new carries (the `border` version), its first inputs the old
    ones. `trip`: an input that stands for the trip number, `first`: the number of the first trip. `inner`: the outputs
    again, for cells at least `margin` from the borders; empty where there is no difference. `margin`, `wraps`, `radius`: per axis."""

    steps: int
    trip: Node
    first: Node
    taps: tuple[Tap, ...]
    inner: tuple[Node, ...]
    margin: tuple[int, ...]
    wraps: tuple[bool, ...]
    radius: tuple[int, ...]

    @property
    def roots(self) -> tuple[Node, ...]:
        return (*self.inner, self.first)


@dataclass(frozen=True, slots=True)
class Body:
    """A loop's body cell by cell. `work`: operations of a cell."""

    carries: tuple[Node, ...]
    trip: Node
    taps: tuple[Tap, ...]
    border: tuple[Node, ...]
    inner: tuple[Node, ...]
    margin: tuple[int, ...]
    wraps: tuple[bool, ...]
    radius: tuple[int, ...]
    work: int


class Unfit(Exception):
    """The body does not qualify."""


def analyse(carries: Sequence[Node], counter: Node, results: Sequence[Node], stored: Any) -> Body | None:
    """The body of a loop cell by cell, or None. `stored`: nodes that stand in memory, behind which nothing is looked at."""
    try:
        return _Pointwise(tuple(carries), counter, tuple(results), stored).body()
    except Unfit:
        return None


def depth(body: Body, count: int, rule: Rule) -> int:
    """How many trips a pass takes; 1: tiling does not pay."""
    shape = body.border[0].shape
    sizes = [c.dtype.itemsize for c in body.carries]
    if prod(shape) < rule.cells or body.work > WORK * sum(s / 4 for s in sizes):
        return 1
    lanes = rule.lane_bytes // max(4, *sizes)
    rows = 2 * body.radius[0] if len(shape) > 1 else 0
    words = sum(max(rows, 1) * lanes * max(s // 4, 1) for s in sizes)
    if body.radius[-1] > lanes:
        return 1
    halo = 32 * lanes // 5 // max(body.radius[-1], 1)
    return max(1, min(count, rule.words // words, rule.depth, halo))


Steps = Generator[tuple[Node, tuple[int, ...], bool], Node, Node]


class _Pointwise:
    """Rewrites a body. A node is asked for at an offset `delta`: its element at (cell + delta), counted in its own indices."""

    def __init__(self, carries: tuple[Node, ...], counter: Node, results: tuple[Node, ...], stored: Any) -> None:
        self.carries, self.counter, self.results, self.stored = carries, counter, results, stored
        self.shape = carries[0].shape if carries else ()
        self.rank = len(self.shape)
        self.number = {c: k for k, c in enumerate(carries)}
        self.taps: dict[tuple[int, tuple[int, ...]], Tap] = {}
        self.kept: dict[tuple[Node, tuple[int, ...], bool], Node] = {}
        self.margin = [0] * self.rank
        self.dependent: set[Node] = set()
        self.wraps = [False] * self.rank

    def body(self) -> Body:
        order = topological(self.results, stop={*self.carries, *self.stored})
        self._check(order)
        zero = (0,) * self.rank
        border = tuple(self._run(root, zero, False) for root in self.results)
        inner = tuple(self._run(root, zero, True) for root in self.results)
        radius = tuple(max((abs(t.offset[a]) for t in self.taps.values()), default=0) for a in range(self.rank))
        if not any(radius):
            raise Unfit
        if inner == border:
            inner, self.margin = (), [0] * self.rank
        if max(self.margin) > MARGIN or any(m and n < 4 * max(m, r) for n, m, r in zip(self.shape, self.margin, radius)):
            raise Unfit
        reached = topological((*border, *inner))
        if len(reached) > NODES:
            raise Unfit
        work = sum(_weight(node) for node in topological(inner or border) if node.shape == self.shape)
        taps = tuple(self.taps[key] for key in sorted(self.taps))
        return Body(self.carries, self.counter, taps, border, inner, tuple(self.margin), tuple(self.wraps), radius, work)

    def _check(self, order: list[Node]) -> None:
        if self.rank not in (1, 2) or 0 in self.shape or prod(self.shape) >= WIDE or len(self.carries) > 8:
            raise Unfit
        for carry, result in zip(self.carries, self.results, strict=True):
            if carry.shape != self.shape or carry.dtype.kind in "cb" or result.type != carry.type:
                raise Unfit
        for node in order:
            if isinstance(node.type, TupleType) or (node.shape and node.dtype.kind == "c"):
                raise Unfit
            if node in self.number or any(o in self.dependent for o in node.operands):
                self.dependent.add(node)
            elif node not in self.stored and node.op not in FREE and not is_elementwise(node):
                raise Unfit
        for node in self.dependent:
            if node.op == "shift" and node not in self.number:
                for axis, (offset, mode) in enumerate(zip(node.attr("offsets"), node.attr("modes"))):
                    if offset and mode == "periodic":
                        self.wraps[axis] = True

    def _run(self, root: Node, delta: tuple[int, ...], inner: bool) -> Node:
        """Drives `_at` with an explicit stack: a body may be as deep as it likes."""
        stack = [(self._at(root, delta, inner), (root, delta, inner))]
        answer: Any = None
        while stack:
            try:
                request = stack[-1][0].send(answer)
            except StopIteration as stop:
                answer = stop.value
                self.kept[stack.pop()[1]] = answer
                continue
            answer = self.kept.get(request)
            if answer is None:
                if len(self.kept) > 4 * NODES:
                    raise Unfit
                stack.append((self._at(*request), request))
        return answer

    def _at(self, node: Node, delta: tuple[int, ...], inner: bool) -> Steps:
        if node in self.number:
            yield from ()
            return self._tap(self.number[node], delta)
        if node not in self.dependent:
            return (yield from self._lifted(node, delta, inner))
        if is_elementwise(node):
            return (yield from self._elementwise(node, delta, inner))
        if node.op == "shift":
            return (yield from self._shift(node, delta, inner))
        if node.op == "slice" and set(node.attr("steps")) == {1}:
            return (yield node.operands[0], _plus(delta, node.attr("starts")), inner)
        if node.op == "update" and set(node.attr("steps")) == {1}:
            return (yield from self._update(node, delta, inner))
        if node.op in ("broadcast", "reshape") and node.shape == node.operands[0].shape:
            return (yield node.operands[0], delta, inner)
        raise Unfit

    def _tap(self, carry: int, delta: tuple[int, ...]) -> Node:
        if any(abs(d) > REACH for d in delta):
            raise Unfit
        tap = self.taps.get((carry, delta))
        if tap is None:
            node = new_input(self.carries[carry].type, "tap")
            tap = self.taps[carry, delta] = Tap(node, carry, delta)
        return tap.node

    def _elementwise(self, node: Node, delta: tuple[int, ...], inner: bool) -> Steps:
        operands = []
        for operand in node.operands:
            if operand.shape != node.shape:
                raise Unfit
            operands.append((yield operand, delta, inner))
        return make(node.op, operands, dict(node.attrs), Type(node.dtype, self.shape), node.span)

    # --- what does not depend on the carries

    def _lifted(self, node: Node, delta: tuple[int, ...], inner: bool) -> Steps:
        """A value that the loop does not change, read at an offset: as an array of the grid's shape."""
        if node.shape == self.shape and not any(delta):
            return node
        if node not in self.stored:
            if node.op == "broadcast" and not node.operands[0].shape:
                return make("broadcast", node.operands, {}, Type(node.dtype, self.shape), node.span)
            if is_elementwise(node) and node.shape and all(o.shape == node.shape for o in node.operands):
                return (yield from self._elementwise(node, delta, inner))
        if len(node.shape) != self.rank:
            raise Unfit
        return self._moved(node, delta)

    def _moved(self, node: Node, delta: tuple[int, ...]) -> Node:
        """Elements cell + delta of an array; anything at all where there is none."""
        offsets, before, after = [], [], []
        for d, m, n, wraps in zip(delta, node.shape, self.shape, self.wraps):
            whole = m == n
            if not whole and (wraps or d > 0 or n - m + d < 0):
                raise Unfit
            offsets.append(d if whole else 0)
            before.append(0 if whole else -d)
            after.append(0 if whole else n - m + d)
        if any(offsets):
            modes = tuple(("periodic" if w else "edge") if o else "edge" for o, w in zip(offsets, self.wraps))
            fill = bytes(node.dtype.itemsize)
            attrs: dict[str, Hashable] = {"offsets": tuple(offsets), "modes": modes, "fill": fill}
            node = make("shift", (node,), attrs, Type(node.dtype, node.shape), node.span)
        if any(before) or any(after):
            attrs = {"before": tuple(before), "after": tuple(after), "fill": bytes(node.dtype.itemsize)}
            node = make("pad", (node,), attrs, Type(node.dtype, self.shape), node.span)
        return node

    # --- shifts

    def _shift(self, node: Node, delta: tuple[int, ...], inner: bool) -> Steps:
        """Cells where the mode matters, one by one along each axis; the others read at a constant offset."""
        operand = node.operands[0]
        axes = [a for a, o in enumerate(node.attr("offsets")) if o]
        plain = list(delta)
        cases: list[tuple[int, int, int | None]] = []  # (axis, cell, the offset that the operand is read at; None: the fill)
        for axis in axes:
            offset, mode = node.attr("offsets")[axis], node.attr("modes")[axis]
            n, m = self.shape[axis], node.shape[axis]
            if mode == "periodic":
                if m != n:
                    raise Unfit
                offset %= n
                plain[axis] += offset if 2 * offset <= n else offset - n
                continue
            if abs(offset) > REACH or m <= 2 * abs(offset):
                raise Unfit
            for i in range(-offset) if offset < 0 else range(m - offset, m):
                cell = i - delta[axis]
                if self.wraps[axis]:
                    cell %= n
                if 0 <= cell < n:
                    source = _mapped(i + offset, m, mode)
                    cases.append((axis, cell, None if source is None else source - i + delta[axis]))
                    self.margin[axis] = max(self.margin[axis], 1 + min(cell, n - 1 - cell))
            plain[axis] += offset
        if inner or not cases:
            return (yield operand, tuple(plain), inner)
        return (yield from self._cases(node, plain, delta, cases, inner))

    def _cases(
        self, node: Node, plain: list[int], delta: tuple[int, ...], cases: list[tuple[int, int, int | None]], inner: bool
    ) -> Steps:
        """Selections, axis within axis: in a corner both axes have their own cell."""
        fill = None
        chosen: list[list[tuple[Node | None, int | None]]] = []
        for axis in range(self.rank):
            mine: list[tuple[Node | None, int | None]] = [(None, plain[axis])]
            mine += [(self._is(axis, cell), source) for a, cell, source in cases if a == axis]
            chosen.append(mine)
        result: Node | None = None
        firsts = chosen[0]
        for condition, first in firsts:
            row: Node | None = None
            for also, second in chosen[1] if self.rank > 1 else [(None, None)]:
                place = (first, second) if self.rank > 1 else (first,)
                if first is None or (self.rank > 1 and second is None):
                    fill = fill if fill is not None else self._number(node.attr("fill"), node.dtype)
                    value = fill
                else:
                    value = yield node.operands[0], place, inner  # type: ignore[misc]
                row = value if row is None else _where(also, value, row)
            assert row is not None
            result = row if result is None else _where(condition, row, result)
        assert result is not None
        return result

    # --- parts

    def _update(self, node: Node, delta: tuple[int, ...], inner: bool) -> Steps:
        base, part = node.operands
        starts = node.attr("starts")
        inside: Node | None = None
        for axis, (start, length, m, n) in enumerate(zip(starts, part.shape, base.shape, self.shape)):
            if start == 0 and length == m:
                continue
            if length == 0:
                return (yield base, delta, inner)
            low, high = start, m - start - length  # cells outside the part, before and after it
            reach = max(low, high) + abs(delta[axis]) + (0 if m == n else MARGIN)
            if reach <= MARGIN and n > 4 * reach:
                self.margin[axis] = max(self.margin[axis], reach)
                if inner:
                    continue
            index = self._index(axis, delta[axis], m)
            if low:
                inside = _both(inside, _compare("greater_equal", index, self._count(start, axis)))
            if high:
                inside = _both(inside, _compare("less", index, self._count(start + length, axis)))
        new = yield part, _minus(delta, starts), inner
        return new if inside is None else _where(inside, new, (yield base, delta, inner))

    # --- nodes

    def _index(self, axis: int, delta: int, m: int) -> Node:
        """The number of the cell + delta along an axis, everywhere on the grid."""
        n = self.shape[axis]
        index = self._iota(axis)
        if delta:
            index = _int("add", index, self._count(delta, axis))
            if self.wraps[axis]:
                if m != n:
                    raise Unfit
                zero, size = self._count(0, axis), self._count(n, axis)
                index = _where(_compare("less", index, zero), _int("add", index, size), index)
                index = _where(_compare("greater_equal", index, size), _int("subtract", index, size), index)
        return index

    def _iota(self, axis: int) -> Node:
        n = self.shape[axis]
        # Told apart by axis: in a square grid, too, rows and columns are two extents of the kernel.
        index = make("iota", (), {"axis": axis}, Type(dtypes.int64, (n,)))
        if self.rank == 1:
            return index
        if axis == 0:
            index = make("reshape", (index,), {}, Type(dtypes.int64, (n, 1)))
        return make("broadcast", (index,), {}, Type(dtypes.int64, self.shape))

    def _is(self, axis: int, cell: int) -> Node:
        return _compare("equal", self._iota(axis), self._count(cell, axis))

    def _count(self, number: int, axis: int) -> Node:
        """A number of cells. Equal numbers of two axes are two arguments of the kernel, which is the same for grids of any shape."""
        attrs: dict[str, Hashable] = {"bits": np.int64(number).tobytes(), "literal": False, "axis": axis}
        return make("broadcast", (make("constant", (), attrs, Type(dtypes.int64)),), {}, Type(dtypes.int64, self.shape))

    def _number(self, bits: bytes, dtype: DType) -> Node:
        value = make("constant", (), {"bits": bits, "literal": True}, Type(dtype))
        return make("broadcast", (value,), {}, Type(dtype, self.shape))


def _mapped(index: int, length: int, mode: str) -> int | None:
    """Where an index outside 0..length reads; None: the fill."""
    if mode == "constant":
        return None
    if mode == "edge":
        return min(max(index, 0), length - 1)
    if mode == "reflect":
        return -index if index < 0 else 2 * (length - 1) - index
    return -index - 1 if index < 0 else 2 * length - 1 - index


def _plus(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    return tuple(x + y for x, y in zip(a, b))


def _minus(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    return tuple(x - y for x, y in zip(a, b))


def _where(condition: Node | None, a: Node, b: Node) -> Node:
    assert condition is not None
    return a if a is b else make("where", (condition, a, b), {}, a.type)


def _compare(op: str, a: Node, b: Node) -> Node:
    return make(op, (a, b), {}, Type(dtypes.bool_, a.shape))


def _int(op: str, a: Node, b: Node) -> Node:
    return make(op, (a, b), {}, a.type)


def _both(a: Node | None, b: Node) -> Node:
    return b if a is None else make("logical_and", (a, b), {}, b.type)


def _weight(node: Node) -> int:
    if not is_elementwise(node):
        return 0
    return CALL if node.op in SLOW else 1
