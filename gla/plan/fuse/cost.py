"""What it costs to compute a value again instead of reading it: about machine operations an element.

Costs depend on structure, never on sizes above SMALL, so that a new size keeps its kernels.
"""

from __future__ import annotations

from math import prod

from gla.ir.access import CONTROL, REDUCTIONS, VIEWS, Map, is_elementwise
from gla.ir.node import Node
from gla.ir.ops.table import elementwise

SMALL = 8  # a reduction of at most that many elements is done by one thread, like an elementwise op
LOOP = 1000  # a loop inside a kernel is never computed twice
CHEAP = 8  # computing a value again at this cost is no slower than reading it from memory


def reduced_length(node: Node) -> int:
    """How many elements one element of the reduction joins."""
    axes = node.attr("axes") if node.op == "reduce" else (node.attr("axis"),)
    return prod(node.operands[0].shape[k] for k in axes)


def is_large_reduction(node: Node) -> bool:
    return node.op in REDUCTIONS and reduced_length(node) > SMALL


def is_view(node: Node) -> bool:
    """Reads its operands at other indices and computes nothing."""
    return node.op in VIEWS or node.op == "gather"


def own_cost(node: Node) -> int:
    """The node alone, its operands at hand."""
    if is_elementwise(node):
        return 1 if node.op == "cast" else elementwise(node.op).cost
    if node.op in REDUCTIONS:
        return min(reduced_length(node), 64)
    if node.op in CONTROL:
        return LOOP
    return 0 if node.op in ("constant", "input", "item") else 1


class Costs:
    """Costs of values given what is stored. Values read at one index are counted once, however often they are used; what is
    seen through a view is counted once a view, for each view reads other elements. Nodes are added operands first."""

    def __init__(self) -> None:
        self.position: dict[Node, int] = {}
        self.order: list[Node] = []
        self.cones: list[int] = []  # per node, as bits, the nodes that are computed at its own index
        self.weights: list[int] = []
        self.reads: dict[Node, list[tuple[Node, Map]]] = {}  # remembered for regions.py
        self._costs: dict[Node, int] = {}

    def add(self, node: Node, stored: bool) -> None:
        """The next node. `stored`: it stands in memory, reading it costs 1."""
        k = self.position[node] = len(self.order)
        self.order.append(node)
        if stored or node.op in ("constant", "input"):
            self.cones.append(0)
            self.weights.append(0)
            return
        cone, weight = 1 << k, own_cost(node)
        apart = is_view(node) or node.op in REDUCTIONS
        times = min(reduced_length(node), 64) if node.op in REDUCTIONS else 1
        for number, operand in enumerate(node.operands):
            if apart and not (node.op == "gather" and number):  # a gather reads its indices at its own index
                weight += self.cost(operand) * times
            else:
                cone |= self.cones[self.position[operand]]
        self.cones.append(cone)
        self.weights.append(weight)

    def size(self, node: Node) -> int:
        """How many nodes are computed at `node`'s own index."""
        return self.cones[self.position[node]].bit_count()

    def members(self, node: Node) -> list[Node]:
        """Those nodes, operands first."""
        bits = bin(self.cones[self.position[node]])[:1:-1]
        out, k = [], bits.find("1")
        while k >= 0:
            out.append(self.order[k])
            k = bits.find("1", k + 1)
        return out

    def cost(self, node: Node) -> int:
        """Operations to compute one element of `node`."""
        known = self._costs.get(node)
        if known is None:
            known = self._costs[node] = sum(self.weights[self.position[member]] for member in self.members(node))
        return known

    def store(self, node: Node) -> None:
        """`node` is stored after all; nodes that are added later read it from memory."""
        self.cones[self.position[node]] = 0
        self._costs[node] = 0
