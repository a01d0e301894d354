"""Calls: functions of the program are inlined with their arguments bound, those of the library are called with nodes.

A function whose parameters have declared ranks maps over further leading axes: its body is built for one element and
then widened to all (lower/batch.py); arguments with different leading axes broadcast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gla.errors import DtypeError, GlaError, GlaNameError, ShapeError, Span, TraceError
from gla.ir.builder import broadcast, broadcast_shapes
from gla.ir.functions.shape import reshape
from gla.ir.graph import new_input
from gla.ir.node import Node
from gla.ir.types import Type
from gla.lang import syntax as s
from gla.lang.context import MAX_CALLS, Check, Context
from gla.lang.lower.batch import batch
from gla.lang.lower.checks import over_lanes
from gla.lang.lower.types import conform, rank_of
from gla.lang.scope import Scope
from gla.lang.values import Builtin, Function, Record, Struct, Value, kind_of, leaves, rebuild


@dataclass(frozen=True, slots=True, eq=False)
class Argument:
    """A value and where it was written; `expr` when it was an expression of the program."""

    value: Value
    span: Span
    expr: s.Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A call of the library: what a builtin needs to complain."""

    ctx: Context
    scope: Scope
    name: str
    span: Span


def call_expr(ctx: Context, scope: Scope, expr: s.Call) -> Value:
    function = _callee(ctx, scope, expr)
    listed = isinstance(function, Builtin) and function.name in LISTS
    positional = [_argument(ctx, scope, a, listed) for a in expr.args]
    named = {k.name.id: _argument(ctx, scope, k.value) for k in expr.kwargs}
    loose = next((a for a in expr.args if isinstance(a, s.Generator)), None)
    if loose is not None and not (isinstance(function, Builtin) and function.generators):
        raise ctx.error(
            DtypeError, "GLA0244", "only a reduction takes elements one by one", (loose.span, ""), help="write [x for ..] for an array of them"
        )  # fmt: skip
    return call(ctx, scope, function, positional, named, expr.span, expr.function.span)


def _callee(ctx: Context, scope: Scope, expr: s.Call) -> Value:
    function = ctx.expr(scope, expr.function)
    if isinstance(function, Function | Builtin | Struct):
        return function
    message, notes = f"{kind_of(function)} cannot be called", []
    labels: list[tuple[Span | None, str]] = [(expr.function.span, kind_of(function))]
    help = "only functions can be called; an element is x[i]"
    if isinstance(expr.function, s.Name):
        name = expr.function.id
        own = scope.find(name)
        outer = own
        probe: Scope | None = scope
        while probe is not None:
            hidden = probe.names.get(name)
            if hidden is not None and hidden is not own and isinstance(hidden.value, Function | Builtin):
                outer = hidden
            probe = probe.parent
        message = f"`{name}` is {kind_of(function)} here, not a function"
        if own is not None and own.span is not None:
            labels.append((own.span, f"the name was taken here, at line {own.span.line}"))
        if outer is not own and own is not None and own.span is not None:
            notes.append(f"`{name}` of line {own.span.line} hides the function of that name")
            help = f"rename the one of line {own.span.line}: {name}_"
    raise ctx.error(DtypeError, "GLA0103", message, *labels, help=help, notes=notes)


def _argument(ctx: Context, scope: Scope, expr: s.Expr, listed: bool = False) -> Argument:
    if listed and isinstance(expr, s.ArrayLiteral):
        return Argument(tuple(ctx.expr(scope, item) for item in expr.items), expr.span, expr)
    return Argument(expr if isinstance(expr, s.Generator) else ctx.expr(scope, expr), expr.span, expr)


# Functions that take several arrays: `stack([a, b])` is not a stack of the array [a, b].
LISTS = frozenset({"stack", "concat"})


def call(
    ctx: Context,
    scope: Scope,
    function: Value,
    positional: Sequence[Argument],
    named: dict[str, Argument],
    span: Span,
    at: Span | None = None,
) -> Value:
    """The value of `function` on these arguments."""
    match function:
        case Builtin():
            return function.call(Site(ctx, scope, function.name, span), positional, named)
        case Struct():
            return _construct(ctx, function, positional, named, span)
        case Function():
            return _user(ctx, function, positional, named, span)
    raise ctx.error(
        DtypeError, "GLA0103", f"{kind_of(function)} cannot be called", (at or span, kind_of(function)), help="pass a function"
    )


def pipe(ctx: Context, scope: Scope, expr: s.Pipe) -> Value:
    """`x |> f` is f(x)."""
    value = Argument(ctx.expr(scope, expr.value), expr.value.span, expr.value)
    function = ctx.expr(scope, expr.function)
    return call(ctx, scope, function, [value], {}, expr.span, expr.function.span)


# ---------------------------------------------------------------- records


def _construct(ctx: Context, struct: Struct, positional: Sequence[Argument], named: dict[str, Argument], span: Span) -> Record:
    wanted = [f.name.id for f in struct.item.fields]
    given = dict(zip(wanted, positional)) | named
    unknown = [n for n in named if n not in wanted]
    missing = [n for n in wanted if n not in given]
    if unknown or missing or len(positional) > len(wanted) or any(n in named for n in wanted[: len(positional)]):
        wrong = (
            f"no field `{unknown[0]}`" if unknown else f"`{missing[0]}` is not given" if missing else "a field is given twice"
        )
        raise ctx.error(
            DtypeError, "GLA0243", f"{struct.name}: {wrong}", (named[unknown[0]].span if unknown else span, ""),
            help=f"write {struct.name}({', '.join(f'{n} = ..' for n in wanted)})",
        )  # fmt: skip
    inner = Scope(struct.scope)
    fields = {
        f.name.id: conform(
            ctx, inner, given[f.name.id].value, f.type, f"the field `{f.name.id}` of {struct.name}", given[f.name.id].span
        )
        for f in struct.item.fields
    }
    return Record(struct, fields)


def record_update(ctx: Context, scope: Scope, expr: s.RecordUpdate) -> Value:
    value = ctx.expr(scope, expr.value)
    if not isinstance(value, Record):
        raise ctx.error(
            DtypeError,
            "GLA0244",
            f"`with` takes a record, not {kind_of(value)}",
            (expr.value.span, kind_of(value)),
            help="use it on a struct's value",
        )
    fields = dict(value.fields)
    inner = Scope(value.struct.scope)
    types = {f.name.id: f.type for f in value.struct.item.fields}
    for keyword in expr.fields:
        name = keyword.name.id
        if name not in fields:
            raise no_field(ctx, value, keyword.name)
        fields[name] = conform(
            ctx,
            inner,
            ctx.expr(scope, keyword.value),
            types[name],
            f"the field `{name}` of {value.struct.name}",
            keyword.value.span,
        )
    return Record(value.struct, fields)


def no_field(ctx: Context, record: Record, name: s.Name) -> GlaError:
    import difflib

    near = difflib.get_close_matches(name.id, record.fields, 1)
    return ctx.error(
        GlaNameError, "GLA0111", f"{record.struct.name} has no field `{name.id}`", (name.span, ""), (record.struct.item.span, "declared here"),
        help=f"write `{near[0]}`" if near else f"its fields are {', '.join(record.fields)}",
    )  # fmt: skip


# ---------------------------------------------------------------- functions of the program


def _user(ctx: Context, function: Function, positional: Sequence[Argument], named: dict[str, Argument], span: Span) -> Value:
    arguments = _bound(ctx, function, positional, named, span)
    leading: tuple[int, ...] | None = ()
    spread: dict[str, int] = {}
    for parameter in function.node.params:
        argument = arguments.get(parameter.name.id)
        rank = rank_of(parameter.type)
        if argument is not None and rank is not None and isinstance(argument.value, Node) and len(argument.value.shape) > rank:
            extra = argument.value.shape[: len(argument.value.shape) - rank]
            spread[parameter.name.id] = len(extra)
            joined = broadcast_shapes(leading or (), extra)
            if joined is None:
                raise ctx.error(
                    ShapeError, "GLA0301", f"`{function.name}` cannot map over leading axes {leading} and {extra}",
                    (argument.span, ctx.facts(argument.value)), help="leading axes of the arguments must be equal, or 1",
                )  # fmt: skip
            leading = joined
    if spread:
        return _mapped(ctx, function, arguments, spread, leading or (), span)
    return _inline(ctx, function, arguments, span)


def _bound(
    ctx: Context, function: Function, positional: Sequence[Argument], named: dict[str, Argument], span: Span
) -> dict[str, Argument]:
    params = function.node.params
    names = [p.name.id for p in params]
    given = dict(zip(names, positional)) | named
    unknown = [n for n in named if n not in names]
    missing = [p.name.id for p in params if p.name.id not in given and p.default is None]
    twice = [n for n in names[: len(positional)] if n in named]
    if len(positional) > len(names) or unknown or missing or twice:
        wrong = (
            f"has no parameter `{unknown[0]}`" if unknown
            else f"is given `{twice[0]}` twice" if twice
            else f"takes {len(names)} arguments, {len(positional)} given" if len(positional) > len(names)
            else f"needs `{missing[0]}`"
        )  # fmt: skip
        raise ctx.error(
            DtypeError, "GLA0243", f"`{function.name}` {wrong}", (named[unknown[0]].span if unknown else span, ""),
            (function.node.span, "declared here"), help=f"call it as {function.name}({', '.join(names)})",
        )  # fmt: skip
    return given


def _inline(ctx: Context, function: Function, arguments: dict[str, Argument], span: Span) -> Value:
    node = function.node
    ctx.inlined.add(node)
    if len(ctx.calls) >= MAX_CALLS:
        chain = " -> ".join(name for name, _, _ in ctx.calls[-6:])
        raise ctx.error(
            TraceError,
            "GLA0404",
            f"calls nest deeper than {MAX_CALLS}: ... {chain}",
            (span, ""),
            help="functions are inlined; use a loop",
        )
    scope = Scope(function.scope, function=True)
    frame, tolerance, places = ctx.frame, ctx.tolerance, []
    ctx.frame, ctx.tolerance = None, None
    ctx.calls.append((function.name, node, span))
    try:
        with ctx.pure():
            for parameter in node.params:
                argument = arguments.get(parameter.name.id)
                if argument is None:
                    assert parameter.default is not None
                    argument = Argument(ctx.expr(scope, parameter.default), parameter.default.span)
                what = f"the argument `{parameter.name.id}` of `{function.name}`"
                value = conform(ctx, scope, argument.value, parameter.type, what, argument.span)
                places.append((parameter, value))
                scope.bind(parameter.name.id, "parameter", value, parameter.name.span)
            if isinstance(node, s.Function) and node.where is not None:
                _where(ctx, scope, function, node.where)
            result = ctx.expr(scope, node.body)
            if isinstance(node, s.Function) and node.result is not None:
                result = conform(ctx, scope, result, node.result, f"the result of `{function.name}`", node.body.span)
            return result
    finally:
        ctx.calls.pop()
        ctx.frame, ctx.tolerance = frame, tolerance


def _where(ctx: Context, scope: Scope, function: Function, where: s.Expr) -> None:
    ok = ctx.boolean(scope, where, f"the condition of `{function.name}`")
    ctx.check(
        Check(
            ok,
            lambda _: f"the condition of `{function.name}` does not hold",
            (),
            where.span,
            help="call it with arguments that fulfil its `where`",
        )
    )


def _mapped(
    ctx: Context, function: Function, arguments: dict[str, Argument], spread: dict[str, int], shape: tuple[int, ...], span: Span
) -> Value:
    """One element's body, widened to the grid of leading axes."""
    lanes: dict[Node, Node] = {}
    inner: dict[str, Argument] = {}
    for name, argument in arguments.items():
        if name not in spread:
            inner[name] = argument
            continue
        value = argument.value
        own = value.shape[spread[name] :]
        placeholder = new_input(Type(value.dtype, own), name, span=argument.span)
        dims = ctx.dims_of(value)
        if dims is not None:
            ctx.names[placeholder] = dims[spread[name] :]
        padded = reshape(value, (*(1,) * (len(shape) - spread[name]), *value.shape))
        lanes[placeholder] = broadcast(padded, shape + own)
        inner[name] = replace(argument, value=placeholder)
    checks, ctx.checks = ctx.checks, []
    guards, ctx.guards = ctx.guards, []
    try:
        result = _inline(ctx, function, inner, span)
        found = ctx.checks
    finally:
        ctx.checks, ctx.guards = checks, guards
    for check in found:
        ctx.check(over_lanes(check, batch([check.ok], lanes, shape)[0]))
    return rebuild(result, iter(batch(list(leaves(result)), lanes, shape)))
