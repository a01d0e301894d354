"""The walker: which function lowers which expression. `attach` gives a context the way back into it."""

from __future__ import annotations

from collections.abc import Callable

from gla.ir.node import Node
from gla.ir.spans import at
from gla.lang import syntax as s
from gla.lang.context import Context
from gla.lang.lower import calls, comprehension, expressions, loops, operators, statements, stencil
from gla.lang.lower.fold import fold
from gla.lang.scope import Scope
from gla.lang.values import Value

EXPRESSIONS: dict[type, Callable[..., Value]] = {
    s.Name: expressions.name,
    s.Number: expressions.literal,
    s.Boolean: expressions.boolean,
    s.String: expressions.string,
    s.Tuple: expressions.tuple_,
    s.ArrayLiteral: expressions.array,
    s.Range: expressions.range_,
    s.Lambda: expressions.lambda_,
    s.Index: expressions.index,
    s.Attribute: expressions.attribute,
    s.If: expressions.if_,
    s.Block: statements.block,
    s.Unary: operators.unary,
    s.Binary: operators.binary,
    s.Logical: operators.logical,
    s.Compare: operators.compare,
    s.Call: calls.call_expr,
    s.Pipe: calls.pipe,
    s.RecordUpdate: calls.record_update,
    s.Comprehension: comprehension.comprehension,
    s.Stencil: stencil.stencil,
    s.For: loops.for_,
    s.While: loops.while_,
}


def attach(ctx: Context) -> Context:
    """The context, able to lower."""

    def expr(scope: Scope, node: s.Expr) -> Value:
        with at(node.span):
            value = EXPRESSIONS[type(node)](ctx, scope, node)
            return fold(value) if isinstance(value, Node) else value

    ctx.expr = expr
    ctx.block = lambda scope, node: statements.block(ctx, scope, node)
    ctx.call = calls.call
    return ctx
