"""Comprehensions and generators: an array from an expression over ranges, one axis a clause.

A clause over a range is built for one element and widened to the whole axis (lower/batch.py); where the element needs the
number itself, as in a slice bound, the axis is unrolled. A clause over a literal list is unrolled; its items are known
when the program is planned and may bound loops. A clause over an array takes its first axis apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gla import dtypes
from gla.errors import DtypeError, GlaError, ShapeError, TraceError
from gla.ir.builder import apply, broadcast, cast, constant, default_float
from gla.ir.functions.create import iota
from gla.ir.functions.elementwise import where
from gla.ir.functions.index import getitem
from gla.ir.functions.shape import stack
from gla.ir.graph import new_input
from gla.ir.node import Node
from gla.lang import syntax as s
from gla.lang.context import Context, number
from gla.lang.lower.batch import batch
from gla.lang.lower.checks import over_lanes
from gla.lang.lower.fold import known
from gla.lang.lower.loops import COUNTER, range_of, variable_of
from gla.lang.scope import Scope
from gla.lang.values import Steps, Value

UNROLL = 4096
NEEDS_NUMBER = ("GLA0410", "GLA0401")


def comprehension(ctx: Context, scope: Scope, expr: s.Comprehension) -> Node:
    if expr.condition is not None:
        raise ctx.error(
            TraceError, "GLA0402", "a comprehension with `if` would have a shape that depends on values", (expr.condition.span, ""),
            help="use where(c, x, other), or a reduction: sum(x for .. if c)",
        )  # fmt: skip
    with ctx.pure():
        return _strong(
            _build(ctx, scope, expr.clauses, lambda inner: ctx.node(inner, expr.element, "the element of a comprehension"))
        )


def _strong(node: Node) -> Node:
    return cast(node, default_float.get() if node.dtype.kind == "f" else node.dtype) if node.type.weak else node


def _build(ctx: Context, scope: Scope, clauses: Sequence[s.Clause], element: Callable[[Scope], Node]) -> Node:
    """The value of the element over the clauses, outermost first: an axis each, in front."""
    if not clauses:
        return element(scope)
    clause, *rest = clauses
    items = _items(ctx, scope, clause)
    if isinstance(items, list):
        return _unrolled(ctx, scope, clause, rest, items, element)
    count, variable = items
    checks = len(ctx.checks)
    try:
        return _widened(ctx, scope, clause, rest, count, variable, element)
    except GlaError as error:
        del ctx.checks[checks:]
        if error.code not in NEEDS_NUMBER or count > UNROLL:
            raise
    return _unrolled(ctx, scope, clause, rest, [variable(number(k)) for k in range(count)], element)


def _items(ctx: Context, scope: Scope, clause: s.Clause) -> list[Value] | tuple[int, Callable[[Node], Value]]:
    if isinstance(clause.iterable, s.ArrayLiteral):
        return [ctx.expr(scope, item) for item in clause.iterable.items]
    iterable = ctx.expr(scope, clause.iterable)
    if isinstance(iterable, tuple):
        return list(iterable)
    if isinstance(iterable, Steps):
        trips = range_of(ctx, iterable, clause.iterable.span)
        return len(trips), variable_of(ctx, trips)
    if isinstance(iterable, Node) and iterable.shape:
        return iterable.shape[0], lambda k: getitem(iterable, k)
    raise ctx.error(
        DtypeError, "GLA0244", f"a clause goes over a range, a list or an array, not {ctx.describe(iterable)}", (clause.iterable.span, ""),
        help="write for i in 0..n",
    )  # fmt: skip


def _unrolled(
    ctx: Context,
    scope: Scope,
    clause: s.Clause,
    rest: Sequence[s.Clause],
    items: Sequence[Value],
    element: Callable[[Scope], Node],
) -> Node:
    rows = []
    for item in items:
        inner = Scope(scope)
        inner.bind(clause.variable.id, "loop", item, clause.variable.span)
        rows.append(_strong(_build(ctx, inner, rest, element)))
    if not rows:
        return broadcast(constant(0, default_float.get()), (0,))
    for row in rows[1:]:
        if row.shape != rows[0].shape:
            raise ctx.error(
                ShapeError, "GLA0313", f"the elements of a comprehension have one shape, not {ctx.describe(rows[0])} and {ctx.describe(row)}",
                (clause.span, ""), help="make each element one shape",
            )  # fmt: skip
    return stack(rows, 0)


def _widened(
    ctx: Context,
    scope: Scope,
    clause: s.Clause,
    rest: Sequence[s.Clause],
    count: int,
    variable: Callable[[Node], Value],
    element: Callable[[Scope], Node],
) -> Node:
    place = new_input(COUNTER, clause.variable.id)
    inner = Scope(scope)
    inner.bind(clause.variable.id, "loop", variable(place), clause.variable.span)
    outer, ctx.checks = ctx.checks, []
    guards, ctx.guards = ctx.guards, []
    try:
        value = _build(ctx, inner, rest, element)
        found = ctx.checks
    finally:
        ctx.checks, ctx.guards = outer, guards
    weak = value.type.weak and value.dtype.kind == "f"
    lane = {place: iota(count)}
    result = batch([value], lane, (count,))[0]
    for check in found:
        ctx.check(over_lanes(check, batch([check.ok], lane, (count,))[0]))
    return cast(result, default_float.get()) if weak else result


# ---------------------------------------------------------------- reductions of generators


def generated(ctx: Context, scope: Scope, expr: s.Generator, kind: str) -> tuple[Node, tuple[int, ...]]:
    """(the elements, the axes to reduce) of a generator under the reduction `kind`; what `if` leaves out is its identity."""

    def element(inner: Scope) -> Node:
        value = _strong(ctx.node(inner, expr.element, "the element of a generator"))
        if expr.condition is None:
            return value
        keep = ctx.boolean(inner, expr.condition, "the condition of a generator")
        if known(keep) is not None and known(keep):
            return value
        return where(keep, value, _identity(ctx, kind, value, expr))

    with ctx.pure():
        node = _build(ctx, scope, expr.clauses, element)
    return node, tuple(range(len(expr.clauses)))


def _identity(ctx: Context, kind: str, value: Node, expr: s.Generator) -> Node:
    dtype = value.dtype
    whole = dtypes.integer_range(dtype) if dtype.kind in "iu" else (0, 0)
    identities: dict[str, Any] = {
        "sum": 0, "prod": 1, "any": False, "all": True,
        "max": -float("inf") if dtype.kind == "f" else whole[0], "min": float("inf") if dtype.kind == "f" else whole[1],
    }  # fmt: skip
    if kind not in identities:
        assert expr.condition is not None
        raise ctx.error(
            DtypeError, "GLA0244", f"`{kind}` of a generator with `if` is not defined", (expr.condition.span, ""),
            help="divide sums: sum(x for .. if c) / sum(1 for .. if c)" if kind == "mean" else "use sum, prod, max, min, any or all",
        )  # fmt: skip
    return constant(identities[kind], dtype)


def folded(name: str, nodes: Sequence[Node]) -> Node:
    """An elementwise op over several operands, from the left."""
    result = nodes[0]
    for node in nodes[1:]:
        result = apply(name, result, node)
    return result
