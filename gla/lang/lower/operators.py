"""Operators: arithmetic, comparison, logic. Elementwise with broadcasting; errors show both operands under the operator."""

from __future__ import annotations

from itertools import pairwise

from gla.dtypes import DType
from gla.errors import DtypeError, GlaError
from gla.ir.builder import SYMBOLS
from gla.ir.functions.elementwise import isclose_within, positive, power
from gla.ir.functions.linear import matmul
from gla.ir.node import Node
from gla.lang import syntax as s
from gla.lang.context import Context
from gla.lang.lower.fold import fold, known
from gla.lang.scope import Scope
from gla.lang.values import Value

ROWS = {symbol: name for name, symbol in SYMBOLS.items() if name not in ("negative", "bitwise_invert")}


def binary(ctx: Context, scope: Scope, expr: s.Binary) -> Value:
    # A long sum is a deep tree on the left: walked in a loop, so that no stack grows with the length of a formula.
    chain = [expr]
    while isinstance(chain[-1].left, s.Binary):
        chain.append(chain[-1].left)
    left = ctx.node(scope, chain[-1].left, f"the left side of `{chain[-1].op}`")
    for step in reversed(chain):
        right = ctx.node(scope, step.right, f"the right side of `{step.op}`")
        left = operate(ctx, step.op, left, right, step)
    return left


def operate(ctx: Context, op: str, left: Node, right: Node, at: s.Binary) -> Node:
    """`left op right`."""
    from gla.ir.spans import at as standing

    try:
        with standing(at.span):
            return arithmetic(ctx, op, left, right)
    except GlaError as error:
        raise ctx.relabel(error, at.op_span, (at.left.span, left), (at.right.span, right)) from None


def arithmetic(ctx: Context, op: str, left: Node, right: Node) -> Node:
    if op == "**":
        return fold(power(left, right))
    if op == "@":
        return matmul(left, right)
    if op in ("&", "|") and left.dtype.kind == right.dtype.kind == "b":
        return ctx.op({"&": "logical_and", "|": "logical_or"}[op], left, right)
    if op in ("//", "%") and known(right) is not None and known(right) == 0 and right.dtype.kind in "iu":
        ctx.warn("GLA0246", f"`{op}` by the constant 0 gives 0", (left.span, ""), help="divide by something else")
    return ctx.op(ROWS[op], left, right)


def unary(ctx: Context, scope: Scope, expr: s.Unary) -> Value:
    if expr.op == "not":
        value = ctx.node(scope, expr.operand, "the operand of `not`")
        if value.dtype.kind != "b":
            raise ctx.error(
                DtypeError, "GLA0208", f"`not` takes bool, not {ctx.describe(value)}", (expr.operand.span, ctx.facts(value)),
                help="compare first: x == 0",
            )  # fmt: skip
        return ctx.op("logical_not", value)
    value = ctx.node(scope, expr.operand, f"the operand of `{expr.op}`")
    try:
        if expr.op == "+":
            return positive(value)
        if expr.op == "~":
            return ctx.op("logical_not" if value.dtype.kind == "b" else "bitwise_invert", value)
        return ctx.op("negative", value)
    except GlaError as error:
        raise ctx.relabel(error, expr.span, (expr.operand.span, value)) from None


def logical(ctx: Context, scope: Scope, expr: s.Logical) -> Value:
    left = ctx.node(scope, expr.left, f"the left side of `{expr.op}`")
    right = ctx.node(scope, expr.right, f"the right side of `{expr.op}`")
    try:
        return ctx.op(f"logical_{expr.op}", left, right)
    except GlaError as error:
        raise ctx.relabel(error, expr.op_span, (expr.left.span, left), (expr.right.span, right)) from None


def compare(ctx: Context, scope: Scope, expr: s.Compare) -> Value:
    """Neighbours compared, all of them true: `0 < a <= 1`."""
    values = [ctx.expr(scope, operand) for operand in expr.operands]
    if any(isinstance(v, tuple) for v in values):
        values = _spread(ctx, expr, values)
    result: Node | None = None
    for k, (op, op_span) in enumerate(zip(expr.ops, expr.op_spans)):
        if all(isinstance(v, DType) for v in values[k : k + 2]) and op in ("==", "!="):
            from gla.ir.builder import constant

            one: Node = constant((values[k] is values[k + 1]) == (op == "=="))
        else:
            left, right = (ctx.as_node(values[j], expr.operands[j].span, f"a side of `{op}`") for j in (k, k + 1))
            one = _pair(ctx, op, left, right, expr, k, op_span)
        result = one if result is None else ctx.op("logical_and", result, one)
    assert result is not None
    return result


def _spread(ctx: Context, expr: s.Compare, values: list[Value]) -> list[Value]:
    """Tuples of numbers, such as shapes, compared by `==`: as arrays of their items, when they are equally long."""
    if set(expr.ops) <= {"==", "!="} and all(isinstance(v, tuple) and all(isinstance(n, Node) for n in v) for v in values):
        from gla.ir.builder import constant

        if len({len(v) for v in values}) > 1:
            return [constant(k) for k in range(len(values))]
        same: Node = constant(True)
        for left, right in pairwise(values):
            for a, b in zip(left, right):
                same = ctx.op("logical_and", same, ctx.op("equal", a, b))
        return [same, *(constant(True) for _ in values[1:])]
    return values


def _pair(ctx: Context, op: str, left: Node, right: Node, expr: s.Compare, k: int, op_span: object) -> Node:
    places = ((expr.operands[k].span, left), (expr.operands[k + 1].span, right))
    try:
        if op != "~=":
            return ctx.op(ROWS[op], left, right)
        if ctx.tolerance is None:
            raise ctx.error(
                DtypeError, "GLA0240", "`~=` needs a tolerance", (expr.op_spans[k], ""),
                help="in an assert write `assert a ~= b within 1e-9`; elsewhere `abs(a - b) <= 1e-9`",
            )  # fmt: skip
        return fold(isclose_within(left, right, ctx.tolerance))
    except GlaError as error:
        if error.code == "GLA0240":
            raise
        raise ctx.relabel(error, expr.op_spans[k], *places) from None
