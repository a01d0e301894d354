"""Blocks and statements. What prints or writes is handed to `ctx.effects`; where there is none it is refused."""

from __future__ import annotations

from collections.abc import Callable

from gla import dtypes
from gla.errors import DtypeError, TraceError
from gla.ir.builder import cast, default_float
from gla.ir.node import Node
from gla.ir.spans import at as standing
from gla.lang import syntax as s
from gla.lang.context import Context
from gla.lang.lower.assign import assign, let
from gla.lang.lower.assigned import assigned_names
from gla.lang.lower.checks import assert_
from gla.lang.lower.expressions import choose
from gla.lang.lower.fold import known
from gla.lang.scope import Scope
from gla.lang.values import Field, Text, Value, leaves, rebuild


def block(ctx: Context, scope: Scope, expr: s.Block) -> Value:
    """Statements in a scope of their own; the value is that of the last expression."""
    return _rest(ctx, Scope(scope), expr, 0)


def _rest(ctx: Context, scope: Scope, expr: s.Block, first: int) -> Value:
    for k in range(first, len(expr.statements)):
        statement = expr.statements[k]
        if isinstance(statement, s.BreakIf):
            return _break(ctx, scope, expr, statement, k + 1)
        with standing(statement.span):
            STATEMENTS[type(statement)](ctx, scope, statement)
    return None if expr.value is None else ctx.expr(scope, expr.value)


def _break(ctx: Context, scope: Scope, expr: s.Block, statement: s.BreakIf, rest: int) -> None:
    """What follows in this trip is built, and chosen only where the loop goes on."""
    frame = ctx.frame
    if frame is None or frame.body is not expr:
        raise ctx.error(
            TraceError, "GLA0413", "`break if` stands directly in the block of a `for` or `while`", (statement.span, ""),
            help="join the conditions: break if a and b",
        )  # fmt: skip
    condition = ctx.boolean(scope, statement.condition, "the condition of `break if`")
    if frame.kind == "walked":
        if ctx.effects.decide(ctx, condition):
            frame.stopped = True
            return
        _rest(ctx, scope, expr, rest)
        return
    if frame.kind == "unrolled" and known(condition) is None:
        raise ctx.error(
            TraceError,
            "GLA0413",
            "a loop over a list is unrolled: `break if` needs a condition that is known then",
            (statement.span, ""),
            help="loop over a range",
        )
    if known(condition) is not None and not known(condition):
        _rest(ctx, scope, expr, rest)
        return
    if frame.kind == "unrolled":
        frame.stopped = True
        return
    frame.broken = condition if frame.broken is None else ctx.op("logical_or", frame.broken, condition)
    following = s.Block(expr.span, expr.statements[rest:], expr.value)
    touched = [b for n in assigned_names(following) if (b := scope.find(n)) is not None and b.mutable]
    before = [b.get() for b in touched]
    with ctx.guarded(ctx.op("logical_not", condition)):
        _rest(ctx, scope, expr, rest)
    for binding, old in zip(touched, before):
        binding.value = choose(ctx, condition, old, binding.value, statement, f"`{binding.name}`")


def expression(ctx: Context, scope: Scope, statement: s.ExprStmt) -> None:
    ctx.expr(scope, statement.value)


def emit(ctx: Context, scope: Scope, statement: s.Emit) -> None:
    frame = ctx.frame
    if frame is None:
        raise ctx.error(
            TraceError,
            "GLA0413",
            "`emit` stands in a loop",
            (statement.span, ""),
            help="give the value back as the last line of the block",
        )
    if frame.kind == "while":
        raise ctx.error(
            TraceError, "GLA0413", "`emit` in a `while`: the number of rows would depend on values", (statement.span, ""),
            help="use `for` with a fixed number of trips, and where(done, old, new)",
        )  # fmt: skip
    if frame.depth:
        raise ctx.error(
            TraceError, "GLA0413", "`emit` in a branch: the number of rows would depend on values", (statement.span, ""),
            help="emit in the loop's own block: emit where(c, a, b), or emit .. every n",
        )  # fmt: skip
    value = ctx.expr(scope, statement.value)
    if value is None or not list(leaves(value)):
        raise ctx.error(
            DtypeError,
            "GLA0244",
            "there is no value to emit",
            (statement.value.span, ""),
            help="emit a number, an array, a tuple or a record",
        )
    every = 1
    if statement.every is not None:
        every = ctx.integer(ctx.expr(scope, statement.every), statement.every.span, "the `every` of an emit")
        if every < 1:
            raise ctx.error(
                DtypeError,
                "GLA0251",
                f"`every {every}`: the number of trips between rows is 1 or more",
                (statement.every.span, ""),
                help="write every 1",
            )
    frame.emits.append((rebuild(value, iter([strong(n) for n in leaves(value)])), every, statement.span))


def strong(node: Node) -> Node:
    """A weak number as it is stored: the default float, int64, or complex128."""
    if not node.type.weak:
        return node
    return cast(node, {"f": default_float.get(), "c": dtypes.complex128}.get(node.dtype.kind, node.dtype))


def print_(ctx: Context, scope: Scope, statement: s.Print) -> None:
    values = [ctx.expr(scope, v) for v in statement.values]
    parts: list[str | tuple[Value, str]] = []
    for k, value in enumerate(values):
        if k:
            parts.append(" ")
        parts.extend(value.parts if isinstance(value, Text) else [(value.node if isinstance(value, Field) else value, "")])
    effects(ctx, statement, "print").print(ctx, scope, statement, Text(tuple(parts)))


def output(ctx: Context, scope: Scope, statement: s.Output) -> None:
    effects(ctx, statement, "output").output(ctx, scope, statement)


def save(ctx: Context, scope: Scope, statement: s.Save) -> None:
    effects(ctx, statement, "save").save(ctx, scope, statement)


def effects(ctx: Context, statement: s.Stmt, word: str):  # type: ignore[no-untyped-def]
    """Who prints and writes here."""
    if ctx.effects is not None:
        return ctx.effects
    if ctx.calls:
        name, node, _ = ctx.calls[-1]
        raise ctx.error(
            TraceError, "GLA0411", f"`{word}` inside the function `{name}`", (statement.span, ""), (node.span, "this function"),
            help="functions only compute: give the value back, and print or write it in the `run` block",
        )  # fmt: skip
    raise ctx.error(
        TraceError, "GLA0411", f"`{word}` stands where only values are computed", (statement.span, ""),
        help="move it to the `run` block, or into a `for` or `while` that stands there as a statement",
    )  # fmt: skip


STATEMENTS: dict[type, Callable[..., None]] = {
    s.Let: let,
    s.Var: let,
    s.Assign: assign,
    s.Emit: emit,
    s.Assert: assert_,
    s.Output: output,
    s.Save: save,
    s.Print: print_,
    s.ExprStmt: expression,
}
