"""Expressions that are neither operators nor calls nor loops: names, literals, indices, fields, blocks, `if`."""

from __future__ import annotations

from typing import Any

from gla import dtypes
from gla.errors import DtypeError, GlaError, GlaIndexError, GlaNameError, ShapeError
from gla.ir.builder import constant, default_float
from gla.ir.functions import shape as shapes
from gla.ir.functions.elementwise import where
from gla.ir.functions.index import getitem
from gla.ir.node import Node
from gla.lang import syntax as s
from gla.lang.context import Context, number
from gla.lang.lower.assigned import assigned_names
from gla.lang.lower.calls import no_field
from gla.lang.lower.checks import check_bounds
from gla.lang.lower.fold import known
from gla.lang.lower.stencil import read_field
from gla.lang.names import unknown_name
from gla.lang.scope import Binding, Scope
from gla.lang.values import Field, Function, Module, Record, Steps, Text, Value, kind_of, leaves, rebuild, same_form


def name(ctx: Context, scope: Scope, expr: s.Name) -> Value:
    found = scope.find(expr.id)
    if found is None:
        raise unknown_name(ctx, expr, scope.all_names())
    return found.get()


def literal(ctx: Context, scope: Scope, expr: s.Number) -> Node:
    return constant(expr.value, None if expr.dtype is None else dtypes.as_dtype(expr.dtype))


def boolean(ctx: Context, scope: Scope, expr: s.Boolean) -> Node:
    return constant(expr.value)


def string(ctx: Context, scope: Scope, expr: s.String) -> Text:
    return Text(tuple(p if isinstance(p, str) else (ctx.expr(scope, p.value), p.format) for p in expr.parts))


def tuple_(ctx: Context, scope: Scope, expr: s.Tuple) -> Value:
    return tuple(ctx.expr(scope, item) for item in expr.items)


def array(ctx: Context, scope: Scope, expr: s.ArrayLiteral) -> Node:
    """`[a, b]`: the items on a new first axis. Undecorated numbers become the default float, or int64."""
    if not expr.items:
        return shapes.full_like_constant(0, default_float.get(), (0,))
    nodes = [ctx.node(scope, item, "an item of an array") for item in expr.items]
    for item, node in zip(expr.items[1:], nodes[1:]):
        if node.shape != nodes[0].shape:
            raise ctx.error(
                ShapeError, "GLA0313", f"the items of an array have one shape, not {ctx.describe(nodes[0])} and {ctx.describe(node)}",
                (item.span, ctx.facts(node)), (expr.items[0].span, ctx.facts(nodes[0])),
                help="write items of one shape; join pieces of different length with concat((a, b))",
            )  # fmt: skip
    return stacked(nodes)


def stacked(nodes: list[Node], axis: int = 0) -> Node:
    """Nodes of one shape on a new axis; weak numbers take the default float."""
    if all(n.type.weak for n in nodes) and any(n.dtype.kind == "f" for n in nodes):
        from gla.ir.builder import cast

        nodes = [cast(n, default_float.get()) for n in nodes]
    return shapes.stack(nodes, axis)


def range_(ctx: Context, scope: Scope, expr: s.Range) -> Steps:
    start, stop = (ctx.node(scope, e, "a bound of a range") for e in (expr.start, expr.stop))
    step = None if expr.step is None else ctx.node(scope, expr.step, "the step of a range")
    return Steps(start, stop, step, expr.inclusive, expr.span)


def lambda_(ctx: Context, scope: Scope, expr: s.Lambda) -> Function:
    return Function(f"|{', '.join(p.name.id for p in expr.params)}|", expr, scope)


# ---------------------------------------------------------------- indices and fields


def index(ctx: Context, scope: Scope, expr: s.Index) -> Value:
    value = ctx.expr(scope, expr.value)
    if isinstance(value, Field):
        return read_field(ctx, scope, value, expr)
    if isinstance(value, tuple):
        position = ctx.integer(ctx.expr(scope, expr.indices[0]), expr.indices[0].span, "the index of a tuple")
        if len(expr.indices) != 1 or not -len(value) <= position < len(value):
            raise ctx.error(
                GlaIndexError, "GLA0324", f"index {position} is out of range for a tuple of {len(value)}", (expr.indices[0].span, ""),
                help=f"use 0..{len(value) - 1}",
            )  # fmt: skip
        return value[position]
    node = ctx.as_node(value, expr.value.span, "what is indexed")
    key = key_of(ctx, scope, expr, node)
    try:
        found = getitem(node, key)
    except GlaError as error:
        raise index_error(ctx, error, expr, node) from None
    check_bounds(ctx, node, key, expr)
    return found


def key_of(ctx: Context, scope: Scope, expr: s.Index, node: Node) -> tuple[Any, ...]:
    """The indices as getitem and setitem take them."""
    key: list[Any] = []
    for part in expr.indices:
        match part:
            case s.Ellipsis():
                key.append(Ellipsis)
            case s.NewAxis():
                key.append(None)
            case s.Slice():
                bounds = (part.start, part.stop, part.step)
                names = ("the start of a slice", "the end of a slice", "the step of a slice")
                key.append(
                    slice(*(None if b is None else ctx.integer(ctx.expr(scope, b), b.span, w) for b, w in zip(bounds, names)))
                )
            case _:
                key.append(_one_index(ctx, scope, part))
    return tuple(key)


def _one_index(ctx: Context, scope: Scope, part: s.Expr) -> Any:
    value = ctx.expr(scope, part)
    if isinstance(value, Steps):
        start, stop = (ctx.integer(v, part.span, "a bound of a range") for v in (value.start, value.stop))
        step = 1 if value.step is None else ctx.integer(value.step, part.span, "the step of a range")
        return slice(start, stop + value.inclusive, step)
    node = ctx.as_node(value, part.span, "an index")
    position = known(node)
    if position is not None and position.dtype.kind in "iu":
        return int(position)
    return node


def index_error(ctx: Context, error: GlaError, expr: s.Index, node: Node) -> GlaError:
    """An error of indexing, at the index that is wrong where that can be told."""
    place = expr.span
    used = [p for p in expr.indices if not isinstance(p, s.NewAxis)]
    message = error.diagnostic.message
    for k, part in enumerate(used):
        if f"axis {k} " in message and not any(isinstance(p, s.Ellipsis) for p in used):
            place = part.span
    return ctx.relabel(error, place, (expr.value.span, node))


def attribute(ctx: Context, scope: Scope, expr: s.Attribute) -> Value:
    value = ctx.expr(scope, expr.value)
    field = expr.name.id
    if isinstance(value, Record):
        if field not in value.fields:
            raise no_field(ctx, value, expr.name)
        return value.fields[field]
    if isinstance(value, Module):
        found = value.find(field)
        if found is None:
            raise unknown_name(ctx, expr.name, value.names(), f"`{value.name}` has no name `{field}`", "GLA0109")
        return found
    if isinstance(value, Field):
        value = value.node
    if isinstance(value, Node) and field in ATTRIBUTES:
        return ATTRIBUTES[field](value)
    raise ctx.error(
        GlaNameError, "GLA0111", f"{ctx.describe(value) if isinstance(value, Node) else kind_of(value)} has no field `{field}`", (expr.name.span, ""),
        help=f"an array has {', '.join(ATTRIBUTES)}; a function is called with it: {field}(x)" if isinstance(value, Node) else "fields are those of a struct",
    )  # fmt: skip


ATTRIBUTES = {
    "T": shapes.transpose,
    "mT": shapes.matrix_transpose,
    "shape": lambda x: tuple(number(n) for n in x.shape),
    "ndim": lambda x: constant(len(x.shape)),
    "size": lambda x: number(x.type.size),
    "re": lambda x: _part("real", x),
    "im": lambda x: _part("imag", x),
}


def _part(which: str, x: Node) -> Node:
    from gla.ir.functions.elementwise import imag, real

    return real(x) if which == "real" else imag(x)


# ---------------------------------------------------------------- blocks and branches


def if_(ctx: Context, scope: Scope, expr: s.If) -> Value:
    """A condition known when planned takes its branch now; one at the level of effects is looked at; else both are built."""
    condition = ctx.boolean(scope, expr.condition, "the condition of `if`")
    decided = known(condition)
    if decided is None and ctx.effects is not None and ctx.effects.direct:
        decided = ctx.effects.decide(ctx, condition)
    if decided is not None:
        branch = expr.then if decided else expr.otherwise
        return None if branch is None else ctx.expr(Scope(scope), branch)
    return select_branches(ctx, scope, expr, condition)


def select_branches(ctx: Context, scope: Scope, expr: s.If, condition: Node) -> Value:
    """Both branches built, every variable and the value chosen leaf by leaf."""
    touched = [b for n in assigned_names(expr) if (b := scope.find(n)) is not None and b.mutable]
    before = [b.get() for b in touched]
    opposite = ctx.op("logical_not", condition)
    results, after = [], []
    for test, branch in ((condition, expr.then), (opposite, expr.otherwise)):
        _restore(touched, before)
        with ctx.guarded(test):
            results.append(None if branch is None else _inside(ctx, scope, branch))
        after.append([b.value for b in touched])
    for binding, yes, no in zip(touched, *after):
        binding.value = choose(ctx, condition, yes, no, expr, f"`{binding.name}`")
    if expr.otherwise is None or results[0] is None or results[1] is None:
        return None
    return choose(ctx, condition, results[0], results[1], expr, "the value of `if`")


def _inside(ctx: Context, scope: Scope, branch: s.Expr) -> Value:
    if ctx.frame is not None:
        ctx.frame.depth += 1
    try:
        return ctx.expr(Scope(scope), branch)
    finally:
        if ctx.frame is not None:
            ctx.frame.depth -= 1


def _restore(bindings: list[Binding], values: list[Value]) -> None:
    for binding, value in zip(bindings, values):
        binding.value = value


def choose(ctx: Context, condition: Node, yes: Value, no: Value, expr: s.If | s.BreakIf, what: str) -> Value:
    """`yes` where the scalar condition holds, else `no`, leaf by leaf."""
    if yes is no:
        return yes
    if not same_form(yes, no):
        raise ctx.error(
            DtypeError, "GLA0247", f"{what} is {kind_of(yes)} in one branch and {kind_of(no)} in the other", (expr.span, ""),
            help="give both branches a value of one kind",
        )  # fmt: skip
    chosen = []
    for a, b in zip(leaves(yes), leaves(no)):
        if a is b:
            chosen.append(a)
            continue
        if a.shape != b.shape and a.shape and b.shape:
            raise ctx.error(
                ShapeError, "GLA0331", f"{what} is {ctx.describe(a)} in one branch and {ctx.describe(b)} in the other", (expr.span, ""),
                help="shapes are fixed when the program is planned: give both branches one shape",
            )  # fmt: skip
        chosen.append(where(condition, a, b))
    return rebuild(yes, iter(chosen))
