"""One function of a program as a graph: `gla ir --fn NAME`. Its parameters have their declared types."""

from __future__ import annotations

from gla.errors import TraceError
from gla.ir.graph import Graph
from gla.ir.node import topological
from gla.lang import syntax as s
from gla.lang.engine import DryEngine
from gla.lang.lower.calls import Argument, call
from gla.lang.program import Program
from gla.lang.program import _example as example
from gla.lang.toplevel import Given, scope_of
from gla.lang.values import Function, leaves


def function_graph(program: Program, name: str, given: Given) -> Graph:
    """The graph of the function `name` on arguments of its declared types. Raises TraceError where one has none."""
    item = next(f for f in program.items(s.Function) if f.name.id == name)
    untyped = [p.name.id for p in item.params if p.type is None or isinstance(p.type, s.FunctionType)]
    if untyped:
        raise TraceError(
            "GLA0413", f"the parameters {', '.join(untyped)} of `{name}` have no type of numbers, so that no graph can be shown of it",
            help=f"declare them, e.g. {untyped[0]}: f64; functions are inlined: the run block's graph has it",
        )  # fmt: skip
    ctx = program.context(DryEngine())
    with ctx.lowering():
        scope = scope_of(ctx, program.tree, given)
        extents: dict[str, int] = {}
        arguments = [Argument(example(ctx, scope, p.type, extents, p.name.id), p.span) for p in item.params]
        result = call(ctx, scope, Function(name, item, scope), arguments, {}, item.span)
    roots = tuple(leaves(result))
    return Graph(tuple(n for n in topological(roots) if n.op == "input"), roots)
