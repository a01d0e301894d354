"""From an IR graph to a plan: which kernels, library calls, copies and loops, on what memory, in what order.

`plan(graph, options)` is called by the compiler, once a graph. The graph has been through passes/pipeline.py, which leaves
no scatter, no split-worthy reduction and no product that the library does not compute. Everything here depends on the
graph alone: equal graphs give equal plans.
"""

from __future__ import annotations

from gla.config import Options
from gla.ir.graph import Graph
from gla.ir.node import Node
from gla.plan.arena import place, span
from gla.plan.buffers import Buffers
from gla.plan.dependencies import with_dependencies
from gla.plan.scope import Scope
from gla.plan.steps import CopyStep, KernelStep, Plan, Region, Step
from gla.plan.time_tiles import Rule
from gla.plan.writes import Writes


def plan(graph: Graph, options: Options | None = None, *, products: bool = False, tiling: Rule | None = None) -> Plan:
    """The plan of `graph`: buffers, steps with dependencies, arena, and notes that say what was fused and why. `products`: the device has kernels for
    matrix products (tiles.py says for which), with what follows them fused in; else the library computes all. `tiling`: how deep the
    device runs loops over grids in time (time_tiles.py); None: not at all."""
    options = options or Options()
    buffers = Buffers()
    given = {
        node: buffers.add(node.dtype, node.shape, "input", k)
        for k, node in enumerate(i for i in graph.inputs if not i.attr("scalar"))
    }
    outputs = [buffers.add(node.dtype, node.shape, "output", k) for k, node in enumerate(graph.results)]
    writes = Writes(graph, given, buffers)
    notes: list[str] = []
    scope = Scope(
        buffers, given, fuse=options.passes, products=products, tiling=tiling if options.passes else None, notes=notes
    )
    homes, copies = _homes(graph, outputs, given)
    scope.plan(homes, writes)
    before = [CopyStep(given[node], target) for node, target in copies if node in given and buffers[target].nbytes]
    steps: list[Step] = [*writes.snapshots(), *before, *scope.steps]
    for node, target in copies:
        if node not in given and buffers[target].nbytes:
            steps.append(_copy(scope, buffers, node, target))
    steps += writes.put_back(scope.buffer_of)
    placed, arena_bytes = place(steps, buffers)
    return Plan(
        placed,
        with_dependencies(steps, span(placed)),
        tuple(given.values()),
        tuple(outputs),
        tuple((given[target], given[target]) for target, _ in graph.writes),
        tuple(i for i in graph.inputs if i.attr("scalar")),
        arena_bytes,
        notes=tuple(notes),
    )


def _homes(graph: Graph, outputs: list[int], given: dict[Node, int]) -> tuple[dict[Node, int], list[tuple[Node, int]]]:
    """Where results are computed to, and what is copied: results that are inputs, and the second of two equal results."""
    homes: dict[Node, int] = {}
    copies: list[tuple[Node, int]] = []
    for node, target in zip(graph.results, outputs, strict=True):
        if node in given or node in homes:
            copies.append((node, target))
        else:
            homes[node] = target
    return homes, copies


def _copy(scope: Scope, buffers: Buffers, node: Node, target: int) -> Step:
    """Copies a value's buffer, or its first part when the buffer is longer than the value."""
    source = scope.buffer_of(node)
    if buffers[source].shape == node.shape:
        return CopyStep(source, target)
    return KernelStep(Region((node,), (node,), (), node.shape, (), (None,)), (source,), (target,))
