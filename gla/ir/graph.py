"""`ir.Graph`: a function of the IR: its parameters, what it gives, and which of its inputs it writes.

Graphs are values: equal structure is equality, whatever the identity of their parameters, so that structurally equal
programs hit the same executable. (`gla.Graph`, the device graph that users record, is another thing: runtime/graph.py.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from gla.errors import Span
from gla.ir.node import Node, fresh_id, make, new_node, topological
from gla.ir.types import Type


def new_input(type: Type, name: str = "", *, scalar: bool = False, span: Span | None = None) -> Node:
    """A fresh parameter node. `scalar`: a runtime scalar that is passed by value, not an array."""
    return new_node("input", (), (("id", fresh_id()), ("name", name), ("scalar", scalar)), type, span)


class Graph:
    """Parameters `inputs` (nodes of op "input"), `results` nodes, and `writes`: (input, its new contents) pairs."""

    __slots__ = ("__weakref__", "_key", "_order", "inputs", "results", "writes")

    def __init__(self, inputs: tuple[Node, ...], results: tuple[Node, ...], writes: tuple[tuple[Node, Node], ...] = ()) -> None:
        self.inputs = tuple(inputs)
        self.results = tuple(results)
        self.writes = tuple(writes)
        self._key: tuple[Any, ...] | None = None
        self._order: list[Node] | None = None

    @property
    def roots(self) -> tuple[Node, ...]:
        """Every node whose value leaves the graph."""
        return self.results + tuple(value for _, value in self.writes)

    def nodes(self) -> list[Node]:
        """All nodes, operands first, parameters included even when unused. The list is shared: do not change it."""
        if self._order is None:
            self._order = topological(self.inputs + self.roots)
        return self._order

    def key(self) -> tuple[Hashable, ...]:
        """Structure as a hashable value: equal for graphs that compute the same in the same way. Names and ids do not count."""
        if self._key is None:
            number = {node: k for k, node in enumerate(self.nodes())}
            rows = []
            for node in self.nodes():
                attrs = (("scalar", node.attr("scalar")),) if node.op == "input" else node.attrs
                rows.append((node.op, tuple(number[o] for o in node.operands), attrs, node.type))
            self._key = (
                len(self.inputs),
                tuple(number[i] for i in self.inputs),
                tuple(rows),
                tuple(number[r] for r in self.results),
                tuple((number[i], number[v]) for i, v in self.writes),
            )
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and (self is other or self.key() == other.key())

    def __hash__(self) -> int:
        return hash(self.key())

    def __len__(self) -> int:
        return len(self.nodes())

    def rebuild(self, change: Callable[[Node, tuple[Node, ...]], Node]) -> Graph:
        """The graph with each node replaced by `change(node, new operands)`, operands first. Inputs stay as they are."""
        new: dict[Node, Node] = {}
        for node in self.nodes():
            new[node] = node if node.op == "input" else change(node, tuple(new[o] for o in node.operands))
        return Graph(self.inputs, tuple(new[r] for r in self.results), tuple((i, new[v]) for i, v in self.writes))


def substitute(roots: tuple[Node, ...], replacement: dict[Node, Node]) -> tuple[Node, ...]:
    """`roots` with every node in `replacement` replaced, users rebuilt: how a graph's body is inlined."""
    new = dict(replacement)
    for node in topological(roots, stop=set(replacement)):
        if node in new:
            continue
        operands = tuple(new[o] for o in node.operands)
        new[node] = node if operands == node.operands else make(node.op, operands, dict(node.attrs), node.type, node.span)
    return tuple(new[r] for r in roots)
