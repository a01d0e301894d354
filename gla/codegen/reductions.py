"""Handlers of reductions: few elements are joined inline, in order; more become a `Reduce` statement of the item.

Reductions over the same axes that do not wait for each other share one statement. A scan is a loop that stores.
Sums of 16-bit floats add in float32 and round once at the end. Order: gla/ir/ops/order.py.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as combinations
from math import prod
from typing import Any

from gla.codegen.affine import Affine, Index, fixed, product
from gla.codegen.context import HALVES, Env, Lowering, Steps, accumulator, flat
from gla.codegen.extents import SMALL, reduced_axes
from gla.codegen.kernel import Loop, Reduce, Value
from gla.dtypes import DType, bool_, float32, int32, int64, integer_range, real_of
from gla.errors import InternalError
from gla.ir.node import Node, topological
from gla.ir.ops.casts import convert
from gla.ir.ops.order import partials

OPS = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum", "any": "logical_or", "all": "logical_and"}


class Join:
    """How one reduce, argreduce or scan node joins elements: its accumulator (one value or two), identity, combination."""

    def __init__(self, low: Lowering, node: Node) -> None:
        self.low, self.kind, self.node = low, node.attr("kind"), node
        self.source = node.operands[0].dtype
        dtype = accumulator(self.source)
        self.paired = node.op == "argreduce"
        if dtype is bool_ and self.kind in ("max", "min"):
            self.kind = "any" if self.kind == "max" else "all"
        if dtype is bool_ and self.paired:
            dtype = int32
        if dtype.kind == "c" and self.kind not in ("sum", "prod"):
            raise InternalError("GLA9913", f"{self.kind} of {self.source} has no order")
        self.dtype = dtype

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """Of the accumulator's values."""
        if self.paired:
            return (self.dtype, int64)
        return (real_of(self.dtype),) * (2 if self.dtype.kind == "c" else 1)

    def element(self, value: Any, position: Affine) -> tuple[Value, ...]:
        """An element as an accumulator."""
        s = self.low.emitter
        value = convert(s, value, self.source, self.dtype)
        return (value, s.convert(self.low.index_value(position), int64)) if self.paired else flat(value)

    def identity(self) -> tuple[Value, ...]:
        s = self.low.emitter
        if self.paired:
            start = self._extreme("max" if self.kind == "argmax" else "min")
            return (s.const(start, self.dtype), s.const(integer_range(int64)[1], int64))
        if self.kind in ("sum", "prod"):
            start = 1 if self.kind == "prod" else -0.0 if self.dtype.kind in "fc" else 0
            rest = 0.0 if self.kind == "prod" else -0.0
            return tuple(s.const(x, t) for x, t in zip((start, rest), self.dtypes))
        start = self.kind == "all" if self.kind in ("any", "all") else self._extreme(self.kind)
        return (s.const(start, self.dtype),)

    def _extreme(self, kind: str) -> float:
        """What every element is at least (max) or at most (min)."""
        if self.dtype.kind == "f":
            return float("-inf") if kind == "max" else float("inf")
        return integer_range(self.dtype)[kind == "min"]

    def empty(self) -> Any:
        """The result over no elements: a sum is +0."""
        s = self.low.emitter
        start = tuple(s.const(0, t) for t in self.dtypes) if self.kind == "sum" else self.identity()
        return self.result(start)

    def join(self, left: tuple[Value, ...], right: tuple[Value, ...]) -> tuple[Value, ...]:
        if self.paired:
            return self._better(left, right)
        if self.dtype.kind == "c":
            return tuple(self.low.combine(OPS[self.kind], self.dtype, left, right))
        return (self.low.combine(OPS[self.kind], self.dtype, left[0], right[0]),)

    def _better(self, left: tuple[Value, ...], right: tuple[Value, ...]) -> tuple[Value, ...]:
        """NaN before numbers, then the greater (less), then the lower index."""
        s = self.low.emitter
        (a, i), (b, j) = left, right
        wins = s.gt(b, a) if self.kind == "argmax" else s.lt(b, a)
        ties = s.eq(a, b)
        if self.dtype.kind == "f":
            nan_a, nan_b = s.ne(a, a), s.ne(b, b)
            wins = s.bor(wins, s.band(nan_b, s.bnot(nan_a)))
            ties = s.bor(ties, s.band(nan_a, nan_b))
        wins = s.bor(wins, s.band(ties, s.lt(j, i)))
        return (s.select(wins, b, a), s.select(wins, j, i))

    def result(self, values: tuple[Value, ...]) -> Any:
        """An accumulator as an element of the node."""
        if self.paired:
            return values[1]
        if self.node.dtype in HALVES:
            return convert(self.low.emitter, values[0], float32, self.node.dtype)
        return values if self.dtype.kind == "c" else values[0]


def _with_axes(index: Index, axes: tuple[int, ...], inner: Index) -> Index:
    """`index` with the reduced axes put back."""
    kept, put = iter(index), dict(zip(axes, inner))
    return tuple(put[a] if a in put else next(kept) for a in range(len(index) + len(axes)))


def reduction(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    operand, axes = node.operands[0], reduced_axes(node)
    sizes = tuple(operand.shape[a] for a in axes)
    if 0 in sizes:
        return Join(low, node).empty()
    if prod(sizes) <= SMALL:
        return (yield from _inline(low, node, index, env, sizes))
    group = low.reduce_groups.get(node, (node,)) if env is low.root and index == low.item_index else (node,)
    results = yield from _statement(low, group, index, env)
    for member, result in zip(group, results):
        low.keep((member, index, env), result)
    return results[group.index(node)]


def _inline(low: Lowering, node: Node, index: Index, env: Env, sizes: tuple[int, ...]) -> Steps:
    join = Join(low, node)
    total: tuple[Value, ...] | None = None
    for inner in combinations(*map(range, sizes)):
        place = _with_axes(index, reduced_axes(node), tuple(map(fixed, inner)))
        element = join.element((yield node.operands[0], place, env), fixed(inner[0]))
        total = element if total is None else join.join(total, element)
    assert total is not None
    return join.result(total)


def _statement(low: Lowering, group: tuple[Node, ...], index: Index, env: Env) -> Steps:
    """One `Reduce` for all of `group`, in the scope where the index stands; gives their results."""
    s, first = low.emitter, group[0]
    axes = reduced_axes(first)
    shape = low.extents.of(first.operands[0])
    sizes = tuple(shape[a] for a in axes)
    level = low.level(index, env)
    if any(scope.kind in ("reduce", "foreach") for scope in s.scopes[: level + 1]):
        raise InternalError("GLA9914", f"the reduction {first} of a kernel is asked for at another element than the item's")
    joins = [Join(low, node) for node in group]
    with s.outer(level):
        count = low.extent(product(sizes))
        identity = [join.identity() for join in joins]
        counter = s.value(low.index_dtype, level + 1)
        inner = low.indices.unravel(low.indices.value(counter, product(sizes)), sizes)
        place = _with_axes(index, axes, inner)
        s.push("reduce")
        elements = []
        for join in joins:
            value = yield join.node.operands[0], place, env
            elements.append(join.element(value, inner[0]))
        body = s.pop()
        left, right = (_fresh(low, joins, level + 1) for _ in range(2))
        s.push("reduce")
        joined = [join.join(a, b) for join, a, b in zip(joins, left, right)]
        combine = s.pop()
        results = _fresh(low, joins, level)
        width = partials(prod(first.operands[0].shape[a] for a in axes))
        s.append(
            Reduce(
                _chain(results), count, width, counter, body, _chain(elements), _chain(identity), _chain(left), _chain(right),
                combine, _chain(joined),
            )
        )  # fmt: skip
        return [join.result(values) for join, values in zip(joins, results)]


def _fresh(low: Lowering, joins: list[Join], level: int) -> list[tuple[Value, ...]]:
    return [tuple(low.emitter.value(t, level) for t in join.dtypes) for join in joins]


def _chain(parts: list[tuple[Value, ...]]) -> tuple[Value, ...]:
    return tuple(value for part in parts for value in part)


def grouped(roots: tuple[Node, ...], stop: frozenset[Node], items: tuple[int, ...]) -> dict[Node, tuple[Node, ...]]:
    """For each long reduction of the item: those that share its statement, itself included.

    Reductions over equal axes of equal shapes go together when equally many reductions stand before each of them.
    """
    rank: dict[Node, int] = {}
    groups: dict[object, list[Node]] = {}
    for node in topological(roots, stop):
        rank[node] = max((rank[o] for o in node.operands), default=0) if node not in stop else 0
        if node in stop or node.op not in ("reduce", "argreduce") or node.shape != items:
            continue
        shape, axes = node.operands[0].shape, reduced_axes(node)
        if prod(shape[a] for a in axes) > SMALL:
            rank[node] += 1
            groups.setdefault((rank[node], shape, axes), []).append(node)
    return {node: tuple(group) for group in groups.values() for node in group}


def scan_items(low: Lowering, node: Node, output: int, address: Callable[[Index], Affine]) -> Steps:
    """A scan along the last axis: a loop that stores each running result at `address(index)` of the output."""
    s, join = low.emitter, Join(low, node)
    axis = node.attr("axis")
    extent = low.extents.extent(node, axis, node.shape[axis])
    counter = s.value(low.index_dtype, 1)
    (carried,), (results,) = _fresh(low, [join], 1), _fresh(low, [join], 0)
    place = (*low.item_index, low.indices.value(counter, extent))
    count, identity = low.extent(extent), join.identity()
    s.push("loop")
    value = yield node.operands[0], place, low.root
    total = join.join(carried, join.element(value, place[-1]))
    low.store(output, address(place), join.result(total))
    body = s.pop()
    s.append(Loop(counter, count, carried, identity, body, total, results))
