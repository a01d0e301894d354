"""Short rows by component: values of shape (..., 3) that are made of stacks, or that sum dear terms for each component.

Such a result becomes a stack of its components, and a component that is picked from such a value is computed as itself:
then one item computes a row, and what its components share once (a system's right-hand side, forces between all pairs).
"""

from __future__ import annotations

from math import prod

from gla.ir.access import is_elementwise
from gla.ir.graph import Graph
from gla.ir.node import Node, topological
from gla.ir.types import Type
from gla.passes import nodes
from gla.passes.rewrite import LOOPS, remade, rewrite
from gla.passes.scalarise import SMALL, Components


def split_rows(graph: Graph) -> Graph:
    """The results of the graph and of its loops' bodies by component where that saves work."""

    def change(node: Node, _: Node) -> Node:
        if node.op not in LOOPS:
            return node
        body: Graph = node.attr("body")
        results = _apart(body.results)
        return node if results == body.results else remade(node, node.operands, body=Graph(body.inputs, results))

    graph = rewrite(graph, change, LOOPS)
    apart = _apart(graph.roots)
    if apart == graph.roots:
        return graph
    count = len(graph.results)
    writes = tuple((array, value) for (array, _), value in zip(graph.writes, apart[count:]))
    return Graph(graph.inputs, apart[:count], writes)


def _apart(roots: tuple[Node, ...]) -> tuple[Node, ...]:
    order = topological(roots)
    split = _by_component(order)
    if not split:
        return roots
    wanted, components = set(roots) & split, Components({})
    new: dict[Node, Node] = {}
    for node in order:
        operands = tuple([new[o] for o in node.operands])
        here = node if operands == node.operands else remade(node, operands)
        last = len(node.shape) - 1 if isinstance(node.type, Type) else -1
        if node in wanted:
            here = nodes.stack([components.get(here, last, k) for k in range(node.shape[-1])], last)
        elif node.op == "slice" and node.operands[0] in split and _picks_one(node):
            here = nodes.reshape(components.get(operands[0], last, node.attr("starts")[-1]), node.shape)
        new[node] = here
    return tuple(new[r] for r in roots)


def _picks_one(node: Node) -> bool:
    """Whether the slice is one index of the last axis and everything of the others."""
    starts, steps, source = node.attr("starts"), node.attr("steps"), node.operands[0].shape
    whole = node.shape[:-1] == source[:-1] and not any(starts[:-1]) and all(s == 1 for s in steps[:-1])
    return whole and node.shape[-1] == 1


def _by_component(order: list[Node]) -> set[Node]:
    """Values with a short last axis that are elementwise in a stack of computed components, or in a long reduction that
    keeps that axis, of terms that are the same along it."""
    found: set[Node] = set()
    for node in order:
        if not isinstance(node.type, Type) or not node.shape or not 2 <= node.shape[-1] <= SMALL:
            continue
        if is_elementwise(node):
            if any(o in found for o in node.operands):
                found.add(node)
        elif node.op == "concat":
            if node.attr("axis") == len(node.shape) - 1 and _has_computed_parts(node):
                found.add(node)
        elif node.op == "reduce" and _is_long(node) and _same_along_last(node.operands[0]):
            found.add(node)
    return found


def _has_computed_parts(stack: Node) -> bool:
    parts = [p.operands[0] if p.op == "reshape" else p for p in stack.operands]
    return len(parts) == stack.shape[-1] and any(is_elementwise(p) for p in parts)


def _is_long(node: Node) -> bool:
    """A reduction of more than SMALL elements that keeps the operand's last axis."""
    x, axes = node.operands[0], node.attr("axes")
    return len(x.shape) - 1 not in axes and prod(x.shape[a] for a in axes) > SMALL


def _same_along_last(terms: Node) -> bool:
    """Whether a division, root or function in `terms` is broadcast along the last axis."""
    work, seen = [terms], {terms}
    while work:
        node = work.pop()
        if node.op == "broadcast" and node.operands[0].shape and node.operands[0].shape[-1] == 1:
            inner = node.operands[0]
            while inner.op == "reshape":
                inner = inner.operands[0]
            if is_elementwise(inner) and inner.op not in ("add", "subtract", "multiply", "cast"):
                return True
        if is_elementwise(node):
            work += [o for o in node.operands if o not in seen]
            seen.update(node.operands)
    return False
