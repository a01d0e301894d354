"""Stencils: inside the block an index of a listed array is an offset from the cell at hand.

Modes name what lies beyond an edge, per axis (np.pad's words): periodic, edge, reflect, symmetric, zero, constant(v);
`interior` computes only cells whose whole halo lies inside and leaves the others as they were. The halo of an axis is the
largest offset that the block uses on it; an array thinner than its halo is refused (GLA0320).
"""

from __future__ import annotations

from typing import Any

from gla.errors import DtypeError, GlaNameError, ShapeError, TraceError
from gla.ir.builder import broadcast, broadcast_shapes, cast, promote_operands
from gla.ir.functions.shape import shift, take_slice
from gla.ir.node import Node, make
from gla.ir.spans import here
from gla.ir.types import Type
from gla.lang import syntax as s
from gla.lang.context import Context
from gla.lang.lower.fold import known
from gla.lang.scope import Scope
from gla.lang.values import Field, Value, kind_of

MODES = ("periodic", "edge", "reflect", "symmetric", "zero", "constant", "interior")


def stencil(ctx: Context, scope: Scope, expr: s.Stencil) -> Value:
    inner = Scope(scope)
    fields = []
    for listed in expr.fields:
        field = _field(ctx, scope, listed)
        fields.append((listed, field))
        inner.bind(listed.name.id, "field", field, listed.name.span)
    first_listed, first = fields[0]
    for listed, field in fields[1:]:
        if field.node.shape != first.node.shape:
            raise ctx.error(
                ShapeError, "GLA0332", f"the arrays of a stencil have one shape, not {ctx.describe(first.node)} and {ctx.describe(field.node)}",
                (listed.name.span, ctx.facts(field.node)), (first_listed.name.span, ctx.facts(first.node)),
                help="give both arrays one shape, or use one stencil for each",
            )  # fmt: skip
    result = ctx.as_node(ctx.block(inner, expr.body), expr.body.span, "the value of a stencil")
    if broadcast_shapes(result.shape, first.node.shape) != first.node.shape:
        raise ctx.error(
            ShapeError, "GLA0332", f"the value of this stencil is {ctx.describe(result)}, its arrays are {ctx.describe(first.node)}",
            (expr.body.span, ctx.describe(result)), (first_listed.name.span, ctx.facts(first.node)),
            help="the block gives the new value of one cell: use offsets u[-1, 0], not slices",
        )  # fmt: skip
    return _inside(broadcast(result, first.node.shape), [field for _, field in fields])


def _field(ctx: Context, scope: Scope, listed: s.StencilField) -> Field:
    found = scope.find(listed.name.id)
    if found is None:
        from gla.lang.names import unknown_name

        raise unknown_name(ctx, listed.name, scope.all_names())
    value = found.get()
    if isinstance(value, Field):
        value = value.node
    if not isinstance(value, Node) or not value.shape:
        raise ctx.error(
            DtypeError,
            "GLA0244",
            f"a stencil reads an array, `{listed.name.id}` is {kind_of(value)}",
            (listed.name.span, ""),
            help="list arrays of at least one axis",
        )
    rank = len(value.shape)
    modes = listed.modes if listed.per_axis else listed.modes * rank
    if len(modes) != rank:
        raise ctx.error(
            ShapeError, "GLA0333", f"`{listed.name.id}` is {ctx.describe(value)} with {rank} axes, {len(modes)} modes are given",
            (listed.modes[0].span, ""), (listed.name.span, ctx.facts(value)), help="give one mode for all axes, or one for each",
        )  # fmt: skip
    for mode in modes:
        if mode.name.id not in MODES:
            import difflib

            near = difflib.get_close_matches(mode.name.id, MODES, 1)
            raise ctx.error(
                GlaNameError, "GLA0101", f"no boundary mode is called `{mode.name.id}`", (mode.span, ""),
                help=f"write `{near[0]}`" if near else f"modes are {', '.join(MODES)}",
            )  # fmt: skip
    fills = tuple(_fill(ctx, scope, mode, value) for mode in modes)
    return Field(listed.name.id, value, tuple(mode.name.id for mode in modes), fills)


def _fill(ctx: Context, scope: Scope, mode: s.Mode, value: Node) -> Any:
    if mode.name.id != "constant":
        return 0
    if mode.value is None:
        raise ctx.error(
            DtypeError, "GLA0243", "`constant` needs its value", (mode.span, ""), help="write constant(0.0), or zero"
        )
    number = known(ctx.node(scope, mode.value, "the value of `constant`"))
    if number is None:
        raise ctx.error(
            TraceError,
            "GLA0410",
            "the value of `constant` must be known when the program is planned",
            (mode.value.span, ""),
            help="use a number, a size or a const",
        )
    return number


def read_field(ctx: Context, scope: Scope, field: Field, expr: s.Index) -> Node:
    """`u[-1, 0]`: the neighbour at that offset."""
    rank = len(field.node.shape)
    if len(expr.indices) != rank or any(isinstance(i, s.Slice | s.Ellipsis | s.NewAxis) for i in expr.indices):
        raise ctx.error(
            ShapeError, "GLA0333", f"`{field.name}` is {ctx.describe(field.node)} with {rank} axes, {len(expr.indices)} offsets are given",
            (expr.span, ""), help=f"inside a stencil write one offset for each axis: {field.name}[{', '.join('0' * rank)}]",
        )  # fmt: skip
    offsets = tuple(ctx.integer(ctx.expr(scope, i), i.span, "an offset") for i in expr.indices)
    for axis, (offset, extent, mode) in enumerate(zip(offsets, field.node.shape, field.modes)):
        if abs(offset) > extent - (mode == "reflect" and extent > 1 and abs(offset) > 0):
            raise ctx.error(
                ShapeError, "GLA0320",
                f"`{field.name}` is {ctx.describe(field.node)}: axis {axis} has {extent} cells, the offset {offset} needs a halo of {abs(offset)} ({mode})",
                (expr.span, f"offset {offset} on axis {axis}"), help=f"use offsets within -{extent}..{extent}, or a larger array",
            )  # fmt: skip
    field.reads.append((offsets, expr.span))
    result = field.node
    # Axis by axis, since each has its own fill value; a shift of none is the array itself.
    for axis, (offset, mode, fill) in enumerate(zip(offsets, field.modes, field.fills)):
        if offset:
            alone = [offset if k == axis else 0 for k in range(rank)]
            word = {"zero": "constant", "interior": "edge"}.get(mode, mode)
            result = shift(result, alone, [word] * rank, fill)
    return result


def _inside(result: Node, fields: list[Field]) -> Node:
    """Cells outside the interior keep the value of the first array that says `interior`."""
    keeper = next((f for f in fields if "interior" in f.modes), None)
    if keeper is None:
        return result
    halo = [0] * len(result.shape)
    for field in fields:
        for offsets, _ in field.reads:
            for axis, (offset, mode) in enumerate(zip(offsets, field.modes)):
                if mode == "interior":
                    halo[axis] = max(halo[axis], abs(offset))
    if not any(halo):
        return result
    dtype, _ = promote_operands("where", (result, keeper.node))
    base, value = cast(keeper.node, dtype), cast(result, dtype)
    lengths = [max(0, n - 2 * h) for n, h in zip(result.shape, halo)]
    if 0 in lengths:
        return base
    ones = (1,) * len(halo)
    inner = take_slice(value, halo, ones, lengths)
    return make("update", (base, inner), {"starts": tuple(halo), "steps": ones}, Type(dtype, base.shape), here())
