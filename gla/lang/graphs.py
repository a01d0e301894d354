"""What a program asks of a device, as graphs, without a device: `gla ir`.

`entry_graphs`: the launches of a run block in order, each over what earlier ones left in memory. A loop is one loop here;
when it runs, the host cuts it into chunks of trips where something is printed or written (gla/lang/drive.py).
`function_graph`: one function on arguments of its declared types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gla import dtypes
from gla.errors import TraceError
from gla.ir.builder import constant_value, is_constant
from gla.ir.graph import Graph
from gla.ir.node import Node, topological
from gla.ir.types import Type
from gla.lang import syntax as s
from gla.lang.context import Context
from gla.lang.engine import DeviceEngine, DryEngine
from gla.lang.host import Host
from gla.lang.lower.calls import Argument, call
from gla.lang.lower.fold import fold
from gla.lang.lower.loops import touched_by
from gla.lang.outputs import Outputs
from gla.lang.program import Program, example
from gla.lang.report import Silent
from gla.lang.scope import Scope
from gla.lang.toplevel import Given, scope_of
from gla.lang.values import Function, Value, leaves


class PlanEngine(DeviceEngine):
    """Settles as a device would, but computes nothing: `graphs` has what would have been launched."""

    dry = True

    def __init__(self) -> None:
        super().__init__(None)
        self.graphs: list[Graph] = []
        self.kept: list[Node] = []  # what the next look computes besides

    def array(self, values: np.ndarray, name: str = "") -> Node:
        return self.adopt(None, Type(dtypes.as_dtype(values.dtype), values.shape), name)

    def settle(self, nodes: Sequence[Node]) -> list[Node]:
        missing = [n for n in dict.fromkeys(nodes) if n.op not in ("input", "constant") and self.leaf_of(n) is n]
        if missing:
            self.graphs.append(self.close(missing)[0])
            for node in missing:
                self._leaf[node] = self.adopt(None, node.type)
        return [self.leaf_of(n) for n in nodes]

    def fetch(self, nodes: Sequence[Node], also: Sequence[Node] = ()) -> list[Any]:
        nodes = [fold(n) for n in nodes]
        self.settle([*nodes, *also, *self.kept])
        return [constant_value(n) if is_constant(n) else None for n in nodes]


class PlanHost(Host):
    """Keeps between launches what a device would keep: the variables of loops, and what later statements use."""

    engine: PlanEngine

    def look(self, nodes: Sequence[Node], scope: Scope | None = None) -> list[Any]:
        self.engine.kept = self._alive(nodes, scope) if scope is not None else []
        return super().look(nodes, scope)

    def loop(self, ctx: Context, scope: Scope, loop: s.For, trips: range, variable: Callable[[Node], Value]) -> Value:
        value = super().loop(ctx, scope, loop, trips, variable)
        self._settle(touched_by(scope, loop.body), [value])
        return value


def entry_graphs(program: Program, entry: str | None, given: Given) -> list[Graph]:
    """The graphs of a run block. Raises what `gla check` finds."""
    engine = PlanEngine()
    ctx = program.context(engine)
    with ctx.lowering():
        scope = scope_of(ctx, program.tree, given)
        ctx.effects = host = PlanHost(ctx, Silent(), Outputs(None, Silent()))
        ctx.block(Scope(scope), program.entry(entry).body)
        host.finish()
    return engine.graphs


def function_graph(program: Program, name: str, given: Given) -> Graph:
    """The graph of the function `name`. Raises TraceError where a parameter has no type of numbers."""
    item = next(f for f in program.items(s.Function) if f.name.id == name)
    untyped = [p.name.id for p in item.params if p.type is None or isinstance(p.type, s.FunctionType)]
    if untyped:
        raise TraceError(
            "GLA0414", f"no graph can be shown of `{name}` alone: {', '.join(untyped)} has no type of numbers",
            help=f"declare it, e.g. {untyped[0]}: f64; functions are inlined, so the run block's graph has it too",
        )  # fmt: skip
    ctx = program.context(DryEngine())
    with ctx.lowering():
        scope = scope_of(ctx, program.tree, given)
        extents: dict[str, int] = {}
        arguments = [Argument(example(ctx, scope, p.type, extents, p.name.id), p.span) for p in item.params]
        result = call(ctx, scope, Function(name, item, scope), arguments, {}, item.span)
    roots = tuple(leaves(result))
    return Graph(tuple(n for n in topological(roots) if n.op == "input"), roots)
