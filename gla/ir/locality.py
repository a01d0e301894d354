"""Which loops stay within one element: those a kernel runs for each element on its own, in registers.

Asked by the planner (such a loop joins a region) and by code generation, which relies on it.
"""

from __future__ import annotations

from math import prod

from gla.ir.access import REDUCTIONS, accesses, identity
from gla.ir.graph import Graph
from gla.ir.node import Node

SMALL = 8  # elements of a reduction that one thread does
LIMIT = 1024  # nodes of a body inside a kernel
NEVER = frozenset({"matmul", "scan", "scatter"})


def stays_within_element(node: Node) -> bool:
    """Whether each element of the carries of a loop or while node can be run on its own, in a kernel.

    The carries have one shape or are scalars; the next value of an element reads other elements of no carry, scalars
    read no array that is carried, nothing is kept on the way, and no step of the body is a long reduction, a scan or a
    matrix product. Arrays from outside may be read anywhere.
    """
    work, known = [node], {node}
    while work:
        loop = work.pop()
        found = _inner_loops(loop)
        if found is None or not _elementwise_carries(loop):
            return False
        work += [inner for inner in found if inner not in known]
        known.update(found)
    return True


def _graphs(loop: Node) -> list[Graph]:
    return [loop.attr("body"), loop.attr("test")] if loop.op == "while" else [loop.attr("body")]


def _inner_loops(loop: Node) -> list[Node] | None:
    """Loops in the loop's graphs; None when a node in them rules a kernel out."""
    if loop.op == "cond" or (loop.op == "loop" and loop.attr("emits")):
        return None
    found = []
    for graph in _graphs(loop):
        if len(graph) > LIMIT:
            return None
        for node in graph.nodes():
            if node.op in NEVER or (node.op in REDUCTIONS and _length(node) > SMALL):
                return None
            if node.op in ("loop", "while", "cond"):
                found.append(node)
    return found


def _length(node: Node) -> int:
    axes = node.attr("axes") if node.op == "reduce" else (node.attr("axis"),)
    return prod(node.operands[0].shape[k] for k in axes)


def _elementwise_carries(loop: Node) -> bool:
    first = 1 if loop.op == "loop" else 0
    body: Graph = loop.attr("body")
    count = loop.attr("carries")
    carries = body.inputs[first : first + count]
    shapes = {c.shape for c in carries if c.shape}
    if len(shapes) > 1:
        return False
    pairs = [(result, carries) for result in body.results[:count]]
    if loop.op == "while":
        test: Graph = loop.attr("test")
        pairs.append((test.results[0], test.inputs[:count]))
    return all(_reads_own(result, params) for result, params in pairs)


def _reads_own(result: Node, params: tuple[Node, ...]) -> bool:
    """Whether an element of `result` depends on arrays among `params` at its own index only."""
    reached = accesses(result, frozenset(params))
    for param in params:
        paths = {identity(result)} if param is result else reached.get(param, set())
        if param.shape and any(path != identity(result) or param.shape != result.shape for path in paths):
            return False
    return True
