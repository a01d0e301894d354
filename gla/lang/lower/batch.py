"""A computation for one element made one for a whole grid of elements: nodes get leading axes.

`batch(roots, lanes, shape)` replaces each placeholder in `lanes` by a node with `shape` in front of the placeholder's own,
and rebuilds what depends on it, op by op; what does not depend stays as it is and is stretched at the end. Used by
comprehensions and by calls that map over extra axes. A `while` over lanes runs until the last lane is done, the others
keep what they had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gla import dtypes
from gla.ir.builder import broadcast
from gla.ir.functions.control import item
from gla.ir.functions.create import iota
from gla.ir.functions.reduce import any as any_
from gla.ir.functions.shape import permute, reshape
from gla.ir.graph import Graph, new_input
from gla.ir.node import Node, make, topological
from gla.ir.ops.table import is_elementwise
from gla.ir.types import TupleType, Type

Shape = tuple[int, ...]


def batch(roots: Sequence[Node], lanes: Mapping[Node, Node], shape: Shape) -> list[Node]:
    """`roots` with `shape` in front of theirs. Every lane has `shape` in front of its placeholder's shape."""
    grid = _Grid(shape, lanes)
    for node in topological(roots, stop=set(lanes)):
        if node not in grid.values and any(grid.depends(o) for o in node.operands):
            grid.values[node] = grid.build(node)
    return [grid.lifted(root) for root in roots]


class _Grid:
    def __init__(self, shape: Shape, lanes: Mapping[Node, Node]) -> None:
        self.shape, self.rank = shape, len(shape)
        self.values: dict[Node, Any] = dict(lanes)

    def depends(self, node: Node) -> bool:
        return node in self.values

    def lifted(self, node: Node) -> Node:
        """The node's value with the grid in front, stretched when it is the same everywhere."""
        found = self.values.get(node)
        return found if found is not None else broadcast(node, self.shape + node.shape)

    def type(self, node: Node) -> Type:
        return Type(node.dtype, self.shape + node.shape)

    def build(self, node: Node) -> Any:
        special = getattr(self, f"_{node.op}", None)
        if special is not None:
            return special(node)
        operands = [self.lifted(o) for o in node.operands]
        attrs = dict(node.attrs)
        if not is_elementwise(node.op) and node.op not in ("cast", "matmul", "reshape"):
            attrs = self.moved(attrs)
        return make(node.op, operands, attrs, self.type(node), node.span)

    def moved(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Attributes that count axes, with the grid's axes in front."""
        k = self.rank
        fixed: dict[str, Callable[[Any], Any]] = {
            "axes": lambda v: tuple(a + k for a in v),
            "axis": lambda v: v + k,
            "starts": lambda v: (0,) * k + v,
            "steps": lambda v: (1,) * k + v,
            "offsets": lambda v: (0,) * k + v,
            "modes": lambda v: ("edge",) * k + v,
            "before": lambda v: (0,) * k + v,
            "after": lambda v: (0,) * k + v,
        }
        return {name: fixed[name](value) if name in fixed else value for name, value in attrs.items()}

    def _transpose(self, node: Node) -> Node:
        axes = (*range(self.rank), *(a + self.rank for a in node.attr("axes")))
        return make("transpose", (self.lifted(node.operands[0]),), {"axes": axes}, self.type(node), node.span)

    def _broadcast(self, node: Node) -> Node:
        inner = node.operands[0]
        missing = len(node.shape) - len(inner.shape)
        return broadcast(reshape(self.lifted(inner), (*self.shape, *(1,) * missing, *inner.shape)), self.shape + node.shape)

    def _gather(self, node: Node) -> Node:
        x, *indices = node.operands
        axes = node.attr("axes")
        if not self.depends(x):
            return make("gather", (x, *map(self.lifted, indices)), {"axes": axes}, self.type(node), node.span)
        front, axes = self._addressed(indices, axes)
        return make("gather", (self.lifted(x), *front), {"axes": axes}, self.type(node), node.span)

    def _scatter(self, node: Node) -> Node:
        base, value, *indices = node.operands
        front, axes = self._addressed(indices, node.attr("axes"))
        attrs = {"axes": axes, "mode": node.attr("mode")}
        return make("scatter", (self.lifted(base), self.lifted(value), *front), attrs, self.type(node), node.span)

    def _addressed(self, indices: Sequence[Node], axes: tuple[int, ...]) -> tuple[list[Node], tuple[int, ...]]:
        """Indices that name the lane too."""
        inner = indices[0].shape
        lanes = []
        for axis, extent in enumerate(self.shape):
            alone = tuple(extent if k == axis else 1 for k in range(self.rank))
            lanes.append(broadcast(reshape(iota(extent), (*alone, *(1,) * len(inner))), self.shape + inner))
        return [*lanes, *map(self.lifted, indices)], (*range(self.rank), *(a + self.rank for a in axes))

    # --- loops
    def _item(self, node: Node) -> Node:
        found: Node = self.values[node.operands[0]][node.attr("index")]
        return found

    def _body(
        self, graph: Graph, states: Sequence[Node], captures: Sequence[Node], given: Sequence[Node], first: int
    ) -> tuple[list[Node], dict[Node, Node]]:
        """(fresh parameters for what is captured, placeholder -> lane) of a body whose states are `states`."""
        fresh, lanes = [], dict(zip(graph.inputs[first : first + len(states)], states))
        for inside, outside in zip(given, captures):
            if self.depends(outside):
                lanes[inside] = new_input(self.type(inside), span=inside.span)
                fresh.append(lanes[inside])
            else:
                fresh.append(inside)
        return fresh, lanes

    def _outside(self, captures: Sequence[Node]) -> list[Node]:
        return [self.values.get(c, c) for c in captures]

    def _loop(self, node: Node) -> list[Node]:
        body, carries, emits = node.attr("body"), node.attr("carries"), node.attr("emits")
        count, *rest = node.operands
        inits, captures = rest[:carries], rest[carries:]
        states = [new_input(self.type(p)) for p in body.inputs[1 : 1 + carries]]
        fresh, lanes = self._body(body, states, captures, body.inputs[1 + carries :], 1)
        results = batch(body.results, lanes, self.shape)
        graph = Graph((body.inputs[0], *states, *fresh), tuple(results))
        rows = [Type(t.dtype, (t.shape[0], *self.shape, *t.shape[1:])) for t in node.items[carries:]]
        types = TupleType((*(Type(s.dtype, s.shape) for s in states), *rows))
        attrs = {"body": graph, "carries": carries, "emits": emits}
        made = make("loop", (count, *map(self.lifted, inits), *self._outside(captures)), attrs, types, node.span)
        values = [item(made, k) for k in range(len(types.items))]
        k = self.rank
        return [
            v if j < carries else permute(v, (*range(1, k + 1), 0, *range(k + 1, len(v.shape)))) for j, v in enumerate(values)
        ]

    def _while(self, node: Node) -> list[Node]:
        """Trips are counted lane by lane; a lane whose test has failed keeps its state."""
        body, test, carries = node.attr("body"), node.attr("test"), node.attr("carries")
        inits, captures = node.operands[:carries], node.operands[carries:]
        states = [new_input(self.type(p)) for p in body.inputs[:carries]]
        trips = new_input(Type(dtypes.int64, self.shape))
        fresh, lanes = self._body(body, states, captures, body.inputs[carries:], 0)
        test_lanes = dict(zip(test.inputs, (lanes.get(p, p) for p in body.inputs)))
        fixed = {p: q for p, q in zip(test.inputs, body.inputs) if q not in lanes}
        condition = batch(_renamed(test.results, fixed), test_lanes, self.shape)[0]
        after = [self._choice(condition, new, old) for new, old in zip(batch(body.results, lanes, self.shape), states)]
        one = make("cast", (condition,), {"dtype": dtypes.int64}, trips.type)
        counted = make("add", (trips, one), {}, trips.type)
        inputs = (*states, trips, *fresh)
        attrs = {
            "test": Graph(inputs, (any_(condition),)), "body": Graph(inputs, (*after, counted)),
            "limit": node.attr("limit"), "carries": carries + 1,
        }  # fmt: skip
        types = TupleType((*(s.type for s in states), trips.type, Type(dtypes.int64), Type(dtypes.bool_)))
        start = broadcast(make("constant", (), {"bits": bytes(8), "literal": True}, Type(dtypes.int64)), self.shape)
        made = make("while", (*map(self.lifted, inits), start, *self._outside(captures)), attrs, types, node.span)
        values = [item(made, k) for k in range(carries + 1)]
        still = batch(_renamed(test.results, {p: c for p, c in zip(test.inputs[carries:], captures) if not self.depends(c)}),
                      dict(zip(test.inputs, [*values[:carries], *self._outside(captures)])), self.shape)[0]  # fmt: skip
        return [*values, still]

    def _choice(self, condition: Node, new: Node, old: Node) -> Node:
        missing = len(new.shape) - self.rank
        wide = broadcast(reshape(condition, (*self.shape, *(1,) * missing)), new.shape)
        return make("where", (wide, new, old), {}, new.type)


def _renamed(roots: Sequence[Node], names: Mapping[Node, Node]) -> tuple[Node, ...]:
    from gla.ir.graph import substitute

    return substitute(tuple(roots), dict(names)) if names else tuple(roots)
