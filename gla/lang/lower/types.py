"""Annotations: what a value must be, dims bound and checked.

A dim name that a size, const or parameter has means that; another is bound where it is first seen and checked afterwards.
Casts that lose nothing are made here (a literal to the declared dtype, f32 to f64); others are refused with both sides.
"""

from __future__ import annotations

from gla import dtypes
from gla.dtypes import DType
from gla.errors import DtypeError, GlaNameError, ShapeError, Span
from gla.ir.builder import cast
from gla.ir.node import Node
from gla.lang import syntax as s
from gla.lang.context import Context, number
from gla.lang.lower.fold import known
from gla.lang.scope import Scope
from gla.lang.values import Builtin, Function, Record, Struct, Value, kind_of

DTYPES = {d.short: d for d in dtypes.ALL}
STATIC = ("size", "const", "dim", "parameter", "let", "loop", "var")


def type_text(node: s.Type | None) -> str:
    """An annotation as it is written."""
    match node:
        case None:
            return ""
        case s.NamedType():
            return node.name
        case s.ArrayType():
            return f"{node.element}[{', '.join(map(dim_text, node.dims))}]"
        case s.FunctionType():
            return f"fn({', '.join(map(type_text, node.params))}) -> {type_text(node.result)}"
        case s.TupleType():
            return f"({', '.join(map(type_text, node.items))})"
    return "?"


def dim_text(dim: s.Expr) -> str:
    match dim:
        case s.Name():
            return dim.id
        case s.Number():
            return dim.text
        case s.Ellipsis():
            return "..."
        case s.Binary():
            return f"{dim_text(dim.left)} {dim.op} {dim_text(dim.right)}"
        case s.Unary():
            return f"{dim.op}{dim_text(dim.operand)}"
    return "(...)"


def dtype_of(ctx: Context, name: str, span: Span) -> DType:
    found = DTYPES.get(name)
    if found is None:
        import difflib

        near = difflib.get_close_matches(name, DTYPES, 1)
        raise ctx.error(
            GlaNameError, "GLA0101", f"no dtype is called `{name}`", (span, ""),
            help=f"write `{near[0]}`" if near else f"dtypes are {', '.join(DTYPES)}",
        )  # fmt: skip
    return found


def rank_of(type_: s.Type | None) -> int | None:
    """The number of axes that an annotation asks for; None: it does not say."""
    if isinstance(type_, s.NamedType):
        return 0 if type_.name in DTYPES else None
    if isinstance(type_, s.ArrayType):
        return None if any(isinstance(d, s.Ellipsis) for d in type_.dims) else len(type_.dims)
    return None


def conform(ctx: Context, scope: Scope, value: Value, type_: s.Type | None, what: str, span: Span) -> Value:
    """`value` as the annotation says; dims are bound in `scope`. `what` names it in errors ("the argument `x` of `f`")."""
    match type_:
        case None:
            return value
        case s.TupleType():
            if not isinstance(value, tuple) or len(value) != len(type_.items):
                raise _mismatch(ctx, value, type_, what, span)
            return tuple(conform(ctx, scope, v, t, what, span) for v, t in zip(value, type_.items))
        case s.FunctionType():
            if not isinstance(value, Function | Builtin):
                raise _mismatch(ctx, value, type_, what, span)
            return value
        case s.NamedType() if type_.name not in DTYPES:
            return _record(ctx, scope, value, type_, what, span)
        case s.NamedType():
            node = _number(ctx, value, type_, what, span)
            if node.shape:
                raise _shape_error(ctx, node, type_, what, span, "one number is declared")
            return _typed(ctx, node, DTYPES[type_.name], type_, what, span)
        case s.ArrayType():
            node = _number(ctx, value, type_, what, span)
            _check_dims(ctx, scope, node, type_, what, span)
            typed = _typed(ctx, node, dtype_of(ctx, type_.element, type_.span), type_, what, span)
            _remember(ctx, scope, typed, type_)
            return typed
    return value


def _number(ctx: Context, value: Value, type_: s.Type, what: str, span: Span) -> Node:
    if not isinstance(value, Node):
        raise _mismatch(ctx, value, type_, what, span)
    return value


def _mismatch(ctx: Context, value: Value, type_: s.Type, what: str, span: Span) -> Exception:
    return ctx.error(
        DtypeError, "GLA0241", f"{what} is {kind_of(value)}, declared {type_text(type_)}",
        (span, kind_of(value)), (type_.span, "declared here"), help="pass what is declared, or change the declaration",
    )  # fmt: skip


def _record(ctx: Context, scope: Scope, value: Value, type_: s.NamedType, what: str, span: Span) -> Value:
    struct = struct_of(ctx, scope, type_)
    if not isinstance(value, Record) or value.struct.item is not struct.item:
        raise _mismatch(ctx, value, type_, what, span)
    return value


def struct_of(ctx: Context, scope: Scope, type_: s.NamedType) -> Struct:
    """The struct that a type names."""
    first, *rest = type_.name.split(".")
    found = scope.find(first)
    value: Value = found.get() if found is not None else None
    for part in rest:
        value = value.find(part) if hasattr(value, "find") else None
    if not isinstance(value, Struct):
        import difflib

        structs = [n for n in scope.all_names() if (b := scope.find(n)) is not None and b.kind == "struct"]
        near = difflib.get_close_matches(type_.name, [*structs, *DTYPES], 1)
        raise ctx.error(
            GlaNameError, "GLA0101", f"no type is called `{type_.name}`", (type_.span, ""),
            help=f"write `{near[0]}`" if near else f"declare it: struct {type_.name} {{ ... }}; dtypes are {', '.join(DTYPES)}",
        )  # fmt: skip
    return value


def _typed(ctx: Context, node: Node, dtype: DType, type_: s.Type, what: str, span: Span) -> Node:
    if node.type.weak:
        fits = "biufc".index(node.dtype.kind) <= "biufc".index(dtype.kind) or (node.dtype.kind == "i" and dtype.kind == "u")
    else:
        fits = node.dtype is dtype or (node.dtype.kind != "b" and _holds(node.dtype, dtype))
    if not fits:
        raise ctx.error(
            DtypeError, "GLA0241", f"{what} is {ctx.describe(node)}, declared {type_text(type_)}",
            (span, ctx.facts(node)), (type_.span, "declared here"),
            help=f"write the cast: cast(x, {dtype.short}), or declare {node.dtype.short}",
        )  # fmt: skip
    return cast(node, dtype)


def _holds(narrow: DType, wide: DType) -> bool:
    try:
        return dtypes.promote(narrow, wide) is wide
    except DtypeError:
        return False


def _check_dims(ctx: Context, scope: Scope, node: Node, type_: s.ArrayType, what: str, span: Span) -> None:
    dims, shape = type_.dims, node.shape
    dots = next((k for k, d in enumerate(dims) if isinstance(d, s.Ellipsis)), None)
    fixed = len(dims) - (dots is not None)
    if len(shape) < fixed or (dots is None and len(shape) != fixed):
        raise _shape_error(ctx, node, type_, what, span, f"{len(shape)} axes against {fixed}")
    pairs = list(zip(dims, shape)) if dots is None else [*zip(dims[:dots], shape), *_from_right(dims[dots + 1 :], shape)]
    for dim, extent in pairs:
        _check_dim(ctx, scope, dim, extent, node, type_, what, span)


def _from_right(dims: tuple[s.Expr, ...], shape: tuple[int, ...]) -> list[tuple[s.Expr, int]]:
    return list(zip(dims, shape[len(shape) - len(dims) :])) if dims else []


def _check_dim(
    ctx: Context, scope: Scope, dim: s.Expr, extent: int, node: Node, type_: s.ArrayType, what: str, span: Span
) -> None:
    if isinstance(dim, s.Name):
        if dim.id == "_":
            return
        found = scope.find(dim.id)
        if found is None or found.kind not in STATIC or known(found.get()) is None:
            scope.bind(dim.id, "dim", number(extent), span)
            return
        expected = ctx.integer(found.get(), dim.span, f"the dim `{dim.id}`")
        if expected != extent:
            kind = "bound" if found.kind == "dim" else f"a {found.kind} declared"
            raise _shape_error(
                ctx,
                node,
                type_,
                what,
                span,
                f"`{dim.id}` is {expected}, here {extent}",
                (found.span, f"`{dim.id}` = {expected}, {kind} here"),
            )
        return
    expected = ctx.integer(ctx.node(scope, dim, "a dim"), dim.span, "a dim")
    if expected != extent:
        raise _shape_error(ctx, node, type_, what, span, f"`{dim_text(dim)}` is {expected}, here {extent}")


def _shape_error(
    ctx: Context, node: Node, type_: s.Type, what: str, span: Span, why: str, *more: tuple[Span | None, str]
) -> Exception:
    return ctx.error(
        ShapeError, "GLA0330", f"{what} is {ctx.describe(node)}, declared {type_text(type_)}: {why}",
        (span, ctx.facts(node)), (type_.span, f"declared {type_text(type_)}"), *more,
        help="give it the declared shape, or change the declaration; `_` takes any extent, `...` any leading axes",
    )  # fmt: skip


def shape_from(ctx: Context, scope: Scope, type_: s.Type, extents: dict[str, int]) -> tuple[DType, tuple[int, ...]]:
    """The dtype and shape that an annotation describes; fresh dims take a small extent each, kept in `extents`."""
    if isinstance(type_, s.NamedType):
        return dtype_of(ctx, type_.name, type_.span), ()
    assert isinstance(type_, s.ArrayType)
    shape = []
    for dim in type_.dims:
        if isinstance(dim, s.Ellipsis):
            continue
        if isinstance(dim, s.Name):
            found = scope.find(dim.id)
            if found is None or found.kind not in STATIC or known(found.get()) is None:
                shape.append(extents.setdefault(dim.id if dim.id != "_" else f"_{len(extents)}", 5 + 2 * len(extents)))
                continue
        shape.append(ctx.integer(ctx.node(scope, dim, "a dim"), dim.span, "a dim"))
    return dtype_of(ctx, type_.element, type_.span), tuple(shape)


def _remember(ctx: Context, scope: Scope, node: Node, type_: s.ArrayType) -> None:
    """The dims' names, for messages."""
    if any(isinstance(d, s.Ellipsis) for d in type_.dims) or node in ctx.names:
        return
    ctx.names[node] = tuple(str(n) if dim_text(d) in ("_", "(...)") else dim_text(d) for d, n in zip(type_.dims, node.shape))
    ctx.places[node] = type_.span
