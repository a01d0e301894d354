"""How passes walk a graph: operands first, loops' graphs included, each node offered to a `change`.

`change(node, original)` gets the node with its new operands and gives its replacement; for a loop it may give a tuple of
nodes, one for each of the loop's values. A replacement of another type is refused quietly: the node stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gla.ir.graph import Graph
from gla.ir.node import Node, make

Change = Callable[[Node, Node], Node | tuple[Node, ...]]
LOOPS = frozenset({"loop", "while"})


def remade(node: Node, operands: tuple[Node, ...], **attrs: Any) -> Node:
    """`node` with other operands or attributes."""
    return make(node.op, operands, {**dict(node.attrs), **attrs}, node.type, node.span)


def rewrite(graph: Graph, change: Change, ops: frozenset[str] | None = None) -> Graph:
    """The graph with every node changed, the graphs of loops before the loops themselves. `ops`: those that `change` looks
    at; a graph that has none of them, and no loop, is left as it is."""
    if ops is not None and not any(node.op in ops or node.op in LOOPS for node in graph.nodes()):
        return graph
    new: dict[Node, Node | tuple[Node, ...]] = {}
    for node in graph.nodes():
        if node.op == "input":
            new[node] = node
            continue
        if node.op == "item":
            source = new[node.operands[0]]
            if isinstance(source, tuple):
                new[node] = source[node.attr("index")]
                continue
        here = node
        operands = tuple([new[o] for o in node.operands])
        if operands != node.operands:
            here = remade(node, tuple(_single(o) for o in operands))
        if node.op in LOOPS:
            here = _inside(here, change, ops)
        elif ops is not None and node.op not in ops:
            new[node] = here
            continue
        found = change(here, node)
        if isinstance(found, tuple):
            assert tuple(n.type for n in found) == node.items, (node, found)
        elif found.type != node.type:
            found = here
        new[node] = found
    results = tuple(_single(new[r]) for r in graph.results)
    writes = tuple((array, _single(new[value])) for array, value in graph.writes)
    if results == graph.results and writes == graph.writes:
        return graph
    return Graph(graph.inputs, results, writes)


def _inside(node: Node, change: Change, ops: frozenset[str] | None) -> Node:
    """The loop with its graphs rewritten."""
    graphs = {name: value for name, value in node.attrs if isinstance(value, Graph)}
    changed = {name: rewrite(graph, change, ops) for name, graph in graphs.items()}
    if all(changed[name] is graphs[name] for name in graphs):
        return node
    return remade(node, node.operands, **changed)


def _single(node: Node | tuple[Node, ...]) -> Node:
    assert isinstance(node, Node)
    return node
