"""Binding and assignment: patterns take values apart, an assignment to a part is a new value of the whole variable."""

from __future__ import annotations

from gla.errors import DtypeError, GlaError, GlaNameError, ShapeError
from gla.ir.builder import broadcast, broadcast_shapes, cast
from gla.ir.functions.index import check_no_narrowing, getitem, setitem
from gla.ir.node import Node
from gla.ir.spans import at as standing
from gla.lang import syntax as s
from gla.lang.context import Context
from gla.lang.lower.calls import no_field
from gla.lang.lower.checks import check_bounds, check_nan
from gla.lang.lower.expressions import index_error, key_of
from gla.lang.lower.operators import arithmetic
from gla.lang.lower.types import conform
from gla.lang.names import unknown_name
from gla.lang.scope import Binding, Scope
from gla.lang.values import Field, Record, Value, kind_of, leaves, same_form


def let(ctx: Context, scope: Scope, statement: s.Let | s.Var) -> None:
    value = ctx.expr(scope, statement.value)
    if statement.type is not None:
        value = conform(ctx, scope, value, statement.type, "the value", statement.value.span)
    if value is None:
        raise ctx.error(
            DtypeError, "GLA0244", "there is no value to give a name to", (statement.value.span, "nothing"),
            help="a loop has the values that it emits; a block, the value of its last line",
        )  # fmt: skip
    bind(ctx, scope, statement.pattern, value, "var" if isinstance(statement, s.Var) else "let", statement.value)


def bind(ctx: Context, scope: Scope, pattern: s.Pattern, value: Value, kind: str, source: s.Expr) -> None:
    """Give the names of a pattern their parts of the value."""
    if isinstance(pattern, s.NamePattern):
        if isinstance(value, Field):
            value = value.node
        check_nan(ctx, pattern.name.id, list(leaves(value)), source.span)
        scope.bind(pattern.name.id, kind, value, pattern.name.span)
        return
    assert isinstance(pattern, s.TuplePattern | s.ArrayPattern)
    for part, piece in zip(pattern.items, _pieces(ctx, pattern, value, source)):
        bind(ctx, scope, part, piece, kind, source)


def _pieces(ctx: Context, pattern: s.TuplePattern | s.ArrayPattern, value: Value, source: s.Expr) -> list[Value]:
    count = len(pattern.items)
    if isinstance(pattern, s.TuplePattern):
        if isinstance(value, tuple) and len(value) == count:
            return list(value)
        given = f"a tuple of {len(value)}" if isinstance(value, tuple) else ctx.describe(value)
        help = "an array is taken apart by [a, b]" if isinstance(value, Node) else "name each part once"
    else:
        if isinstance(value, Node) and value.shape and value.shape[0] == count:
            return [getitem(value, k) for k in range(count)]
        given = ctx.describe(value) if isinstance(value, Node) else kind_of(value)
        help = "a tuple is taken apart by (a, b)" if isinstance(value, tuple) else "name as many parts as the first axis has"
    raise ctx.error(
        ShapeError, "GLA0334", f"{count} names for {given}", (pattern.span, f"{count} names"), (source.span, given), help=help
    )


def assign(ctx: Context, scope: Scope, statement: s.Assign) -> None:
    if isinstance(statement.target, s.Tuple):
        _assign_tuple(ctx, scope, statement.target, ctx.expr(scope, statement.value), statement)
        return
    if statement.op is not None:
        old = ctx.node(scope, statement.target, "what is assigned to")
        right = ctx.node(scope, statement.value, f"the right side of `{statement.op}=`")
        try:
            with standing(statement.span):
                value: Value = arithmetic(ctx, statement.op, old, right)
        except GlaError as error:
            raise ctx.relabel(error, statement.span, (statement.target.span, old), (statement.value.span, right)) from None
    else:
        value = ctx.expr(scope, statement.value)
    store(ctx, scope, statement.target, value, statement)


def _assign_tuple(ctx: Context, scope: Scope, target: s.Tuple, value: Value, statement: s.Assign) -> None:
    if not isinstance(value, tuple) or len(value) != len(target.items):
        given = f"a tuple of {len(value)}" if isinstance(value, tuple) else ctx.describe(value)
        raise ctx.error(
            ShapeError,
            "GLA0334",
            f"{len(target.items)} targets for {given}",
            (target.span, ""),
            (statement.value.span, given),
            help="name each part once",
        )
    for item, part in zip(target.items, value):
        if isinstance(item, s.Tuple):
            _assign_tuple(ctx, scope, item, part, statement)
        else:
            store(ctx, scope, item, part, statement)


def variable(ctx: Context, scope: Scope, name: s.Name) -> Binding:
    """The variable of that name, which must be one that can change here."""
    found = scope.find(name.id)
    if found is None:
        raise unknown_name(
            ctx,
            name,
            scope.all_names(),
            f"`{name.id}` is not declared; an assignment never declares",
            help=f"declare it: var {name.id} = ..",
        )
    found.get()
    if not found.mutable:
        article = "an" if found.kind[0] in "aeiou" else "a"
        raise ctx.error(
            GlaNameError, "GLA0106", f"`{name.id}` is {article} {found.kind} and never changes", (name.span, ""), (found.span, f"{found.kind} declared here"),
            help=f"declare it with `var {name.id}`" if found.kind == "let" else f"take a copy: var {name.id}_ = {name.id}",
        )  # fmt: skip
    if scope.crosses_function(name.id):
        raise ctx.error(
            GlaNameError, "GLA0106", f"`{name.id}` cannot be assigned from inside a function", (name.span, ""), (found.span, f"{found.kind} declared here"),
            help="give the new value back, and assign it where the function is called",
        )  # fmt: skip
    return found


def store(ctx: Context, scope: Scope, target: s.Expr, value: Value, statement: s.Assign) -> None:
    """`target = value` for a name, an element or a field."""
    path: list[s.Index | s.Attribute] = []
    root = target
    while isinstance(root, s.Index | s.Attribute):
        path.append(root)
        root = root.value
    assert isinstance(root, s.Name)
    binding = variable(ctx, scope, root)
    if isinstance(value, Field):
        value = value.node
    binding.value = _replaced(ctx, scope, binding.value, path[::-1], value, statement, binding)
    check_nan(ctx, root.id, list(leaves(binding.value)), statement.span)


def _replaced(
    ctx: Context,
    scope: Scope,
    old: Value,
    path: list[s.Index | s.Attribute],
    value: Value,
    statement: s.Assign,
    binding: Binding,
) -> Value:
    if not path:
        return _whole(ctx, old, value, statement, binding)
    step, *rest = path
    if isinstance(step, s.Attribute):
        if not isinstance(old, Record):
            raise ctx.error(
                DtypeError,
                "GLA0244",
                f"only records have fields, this is {kind_of(old)}",
                (step.span, kind_of(old)),
                help="assign to an element: x[i] = ..",
            )
        if step.name.id not in old.fields:
            raise no_field(ctx, old, step.name)
        new = _replaced(ctx, scope, old.fields[step.name.id], rest, value, statement, binding)
        return Record(old.struct, {**old.fields, step.name.id: new})
    node = ctx.as_node(old, step.value.span, "what is indexed")
    key = key_of(ctx, scope, step, node)
    try:
        if rest:
            value = _replaced(ctx, scope, getitem(node, key), rest, value, statement, binding)
        item = ctx.as_node(value, statement.value.span, "the new value")
        with standing(statement.span):
            new = setitem(node, key, item)
        if isinstance(step, s.Index):
            check_bounds(ctx, node, key, step)
        return new
    except GlaError as error:
        if error.code == "GLA0324":
            raise index_error(ctx, error, step, node) from None
        if error.code in ("GLA0209", "GLA0314"):
            raise ctx.relabel(error, statement.span, (statement.value.span, value), (step.value.span, node)) from None
        raise


def _whole(ctx: Context, old: Value, value: Value, statement: s.Assign, binding: Binding) -> Value:
    """A variable keeps its kind; a declared or state one keeps dtype and shape too."""
    if value is None or not same_form(old, value):
        raise ctx.error(
            DtypeError, "GLA0248", f"`{binding.name}` is {kind_of(old)} and is assigned {kind_of(value)}", (statement.value.span, kind_of(value)),
            (binding.span, kind_of(old)), help="a variable keeps its kind: use another name",
        )  # fmt: skip
    if binding.kind == "state" and isinstance(old, Node):
        node = ctx.as_node(value, statement.value.span)
        try:
            node = cast(check_no_narrowing(old, node, "assign"), old.dtype)
        except GlaError as error:
            raise ctx.relabel(error, statement.span, (statement.value.span, node), (statement.target.span, old)) from None
        if broadcast_shapes(node.shape, old.shape) != old.shape:
            raise ctx.error(
                ShapeError, "GLA0314", f"the state `{binding.name}` is {ctx.describe(old)} and is assigned {ctx.describe(node)}",
                (statement.value.span, ctx.facts(node)), (binding.span, ctx.facts(old)), help="a state keeps its shape",
            )  # fmt: skip
        node = broadcast(node, old.shape)
        if old in ctx.names and node not in ctx.names:
            ctx.names[node] = ctx.names[old]
        return node
    return value
