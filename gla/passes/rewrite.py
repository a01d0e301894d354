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
GRAPHS = ("body", "test")


def remade(node: Node, operands: tuple[Node, ...], **attrs: Any) -> Node:
    """`node` with other operands or attributes."""
    if operands == node.operands and not attrs:
        return node
    return make(node.op, operands, {**dict(node.attrs), **attrs}, node.type, node.span)


def rewrite(graph: Graph, change: Change, *, nested: bool = True) -> Graph:
    """The graph with every node changed. `nested`: the graphs of loops too, before the loop itself is offered."""
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
        operands = tuple(_single(new[o]) for o in node.operands)
        attrs = {name: rewrite(node.attr(name), change) for name in GRAPHS if nested and _has(node, name)}
        if all(attrs[name] is node.attr(name) for name in attrs):
            attrs = {}
        here = remade(node, operands, **attrs)
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


def _single(node: Node | tuple[Node, ...]) -> Node:
    assert isinstance(node, Node)
    return node


def _has(node: Node, name: str) -> bool:
    return node.op in ("loop", "while") and any(key == name for key, _ in node.attrs)
