"""Asserts: conditions that are computed where they stand, and the text that tells of the first failure.

An assert inside a loop is latched: the loop carries whether it failed, in which trip first, and the numbers of its text
(at most 8). One that is known to fail when the program is planned fails there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from gla.errors import CheckError, DtypeError, Span
from gla.ir.builder import apply
from gla.ir.functions.reduce import all as all_
from gla.ir.functions.reduce import any as any_
from gla.ir.functions.reduce import max as max_
from gla.ir.functions.reduce import min as min_
from gla.ir.node import Node
from gla.lang import syntax as s
from gla.lang.context import Check, Context
from gla.lang.lower.fold import fold, known
from gla.lang.lower.types import dim_text
from gla.lang.scope import Scope
from gla.lang.show import format_parts, show
from gla.lang.values import Text, leaves

SHOWN = 8


def assert_(ctx: Context, scope: Scope, statement: s.Assert) -> None:
    outer = ctx.tolerance
    if statement.tolerance is not None:
        if not _has_close(statement.condition):
            raise ctx.error(
                DtypeError, "GLA0240", "`within` goes with `~=`, which this condition has not", (statement.tolerance.span, ""),
                help="write `assert a ~= b within 1e-9`",
            )  # fmt: skip
        ctx.tolerance = ctx.node(scope, statement.tolerance, "the tolerance")
    try:
        condition = ctx.node(scope, statement.condition, "an assert's condition")
        text, shown = _told(ctx, scope, statement)
    finally:
        ctx.tolerance = outer
    if condition.dtype.kind != "b":
        raise ctx.error(
            DtypeError, "GLA0215", f"an assert's condition must be bool, not {ctx.describe(condition)}", (statement.condition.span, ctx.describe(condition)),
            help="compare it: x != 0",
        )  # fmt: skip
    add(ctx, Check(fold(all_(condition)) if condition.shape else condition, text, shown, statement.span))


def add(ctx: Context, check: Check) -> None:
    """Note the check; when it is known to fail, and is reached for certain, it fails now."""
    if known(check.ok) is not None and not known(check.ok) and not ctx.guards:
        raise ctx.error(CheckError, check.code, check.text([known(n) for n in check.shown]), (check.span, ""), help=check.help)
    if known(check.ok) is None or not known(check.ok):
        ctx.check(check)


def over_lanes(check: Check, ok: Node) -> Check:
    """The check of one element as that of all elements: `ok` for all, its numbers left out."""
    return replace(check, ok=fold(all_(ok)), text=partial(_numberless, check.text), shown=())


def _numberless(text: Callable[[Sequence[Any]], str], values: Sequence[Any]) -> str:
    return text([])


def _has_close(expr: s.Node) -> bool:
    from gla.lang.lower.assigned import children

    return (isinstance(expr, s.Compare) and "~=" in expr.ops) or any(map(_has_close, children(expr)))


def _told(ctx: Context, scope: Scope, statement: s.Assert) -> tuple[Callable[[Sequence[Any]], str], tuple[Node, ...]]:
    """How the failure is told, and the nodes whose values that needs."""
    if statement.text is None:
        return _operands(ctx, scope, statement.condition)
    text = ctx.expr(scope, statement.text)
    if not isinstance(text, Text):
        raise ctx.error(
            DtypeError, "GLA0244", "the text of an assert is a string", (statement.text.span, ""), help='write "text {x}"'
        )
    shown = tuple(n for part in text.parts if isinstance(part, tuple) for n in leaves(part[0]))
    arrays = [n for n in shown if n.shape]
    if arrays and ctx.frame is not None:
        raise ctx.error(
            DtypeError, "GLA0244", f"the text of an assert in a loop shows scalars, not {ctx.describe(arrays[0])}", (statement.text.span, ""),
            help="show a reduction: {max(x)}",
        )  # fmt: skip
    if len(shown) > SHOWN:
        raise ctx.error(
            DtypeError,
            "GLA0243",
            f"the text of an assert shows at most {SHOWN} numbers, not {len(shown)}",
            (statement.text.span, ""),
            help="show fewer",
        )
    return lambda values: format_parts(text.parts, values), shown


def _operands(ctx: Context, scope: Scope, condition: s.Expr) -> tuple[Callable[[Sequence[Any]], str], tuple[Node, ...]]:
    """Without a text: the operands of a comparison of two, or how far they are apart."""
    if isinstance(condition, s.Compare) and len(condition.ops) == 1:
        left, right = (ctx.expr(scope, operand) for operand in condition.operands)
        op = condition.ops[0]
        if isinstance(left, Node) and isinstance(right, Node):
            if not left.shape and not right.shape:
                return (lambda v: f"assert failed: {_shown(v, 0)} {op} {_shown(v, 1)}"), (left, right)
            if (
                op in ("==", "~=")
                and left.dtype.kind in "iufc"
                and right.dtype.kind in "iufc"
                and left.type.size
                and right.type.size
            ):
                apart = max_(apply("abs", apply("subtract", left, right)))
                return (lambda v: f"assert failed: the sides of `{op}` differ by up to {_shown(v, 0)}"), (apart,)
    return (
        lambda _: f"assert failed: {dim_text(condition) if isinstance(condition, s.Name) else 'the condition is false'}"
    ), ()


def _shown(values: Sequence[Any], k: int) -> str:
    return show(values[k]) if k < len(values) and values[k] is not None else "?"


def check_bounds(ctx: Context, node: Node, key: Sequence[Any], expr: s.Index) -> None:
    """Under `--check bounds`: indices that are computed at run time lie on their axes."""
    if "bounds" not in ctx.checking:
        return
    axis, dots = 0, False
    for part in key:
        if part is None:
            continue
        if part is Ellipsis:
            dots = True
        if isinstance(part, Node) and not dots and part.dtype.kind in "iu":
            extent = node.shape[axis]
            low, high = min_(part), max_(part)
            inside = apply("logical_and", apply("greater_equal", low, -extent), apply("less", high, extent))
            place = f"axis {axis} of {ctx.describe(node)}, whose extent is {extent}"
            ctx.check(
                Check(inside, partial(_outside, place), (low, high), expr.span, "GLA0603", "clip it, or test it with where")
            )
        axis += 1


def _outside(place: str, values: Sequence[Any]) -> str:
    return f"an index is out of range for {place}: {_shown(values, 0)} to {_shown(values, 1)}"


def check_nan(ctx: Context, name: str, nodes: Sequence[Node], span: Span) -> None:
    """Under `--check nan`: a value that gets a name has no NaN."""
    if "nan" not in ctx.checking:
        return
    for node in nodes:
        if node.dtype.kind == "f" and known(node) is None:
            ok = apply("logical_not", any_(apply("isnan", node)))
            ctx.check(Check(ok, lambda _: f"`{name}` has a NaN", (), span, "GLA0604", "look at what it is computed from"))
