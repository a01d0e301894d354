"""Small axes taken apart: a loop over states of shape (n, 3) becomes one over three carries of shape (n,).

    loop(s: (n, 3)) { stack([f(s[:, 0], s[:, 1], s[:, 2]), ...]) }  ->  loop(x, y, z: (n,)) { f(x, y, z), ... }

`component` gives one index of a small axis of a value by asking the value's operands for theirs; a part of a stack is
the part, and elementwise ops are done for each component. It is done where the loop then stays within an element, so
that a kernel can run it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from gla.ir.access import is_elementwise, reads
from gla.ir.graph import Graph, new_input, substitute
from gla.ir.locality import stays_within_element
from gla.ir.node import Node, make
from gla.ir.types import TupleType, Type
from gla.passes import nodes
from gla.passes.rewrite import LOOPS, rewrite

SMALL = 8  # the longest axis that is taken apart
CARRIES = 64  # the most carries that a loop may have afterwards

Request = tuple[Node, int, int]


def scalarise(graph: Graph) -> Graph:
    """Loops whose carries have small axes, taken apart where that keeps them within one element."""

    def change(node: Node, _: Node) -> Node | tuple[Node, ...]:
        if node.op not in ("loop", "while"):
            return node
        split = split_carries(node)
        return node if split is None else split

    return rewrite(graph, change, LOOPS)


def split_carries(node: Node) -> tuple[Node, ...] | None:
    """The loop's items when its carries are taken apart along small axes, or None where that does not help."""
    if stays_within_element(node) or (node.op == "loop" and node.attr("emits")):
        return None
    first = 1 if node.op == "loop" else 0
    inits = node.operands[first : first + node.attr("carries")]
    for choose in (_last_small, _first_small):
        axes = {k: axis for k, init in enumerate(inits) if (axis := choose(init.shape)) is not None}
        if not axes or sum(inits[k].shape[a] for k, a in axes.items()) > CARRIES:
            continue
        made = _split(node, first, axes)
        if stays_within_element(made[0]):
            return made[1]
        again = split_carries(made[0])  # another small axis is left
        if again is not None:
            return _joined(node, axes, again)
    return None


def _last_small(shape: tuple[int, ...]) -> int | None:
    return len(shape) - 1 if shape and 1 <= shape[-1] <= SMALL else None


def _first_small(shape: tuple[int, ...]) -> int | None:
    return 0 if shape and 1 <= shape[0] <= SMALL else None


def _split(node: Node, first: int, axes: dict[int, int]) -> tuple[Node, tuple[Node, ...]]:
    """(the new loop, the values of the old one)."""
    carries, body = node.attr("carries"), node.attr("body")
    captured = node.operands[first + carries :]
    inits: list[Node] = []
    for k, init in enumerate(node.operands[first : first + carries]):
        if k in axes:
            components = Components({})
            inits += [components.get(init, axes[k], index) for index in range(init.shape[axes[k]])]
        else:
            inits.append(init)
    attrs = dict(node.attrs) | {"carries": len(inits)}
    attrs["body"] = _taken_apart(body, first, carries, axes)
    if node.op == "while":
        attrs["test"] = _taken_apart(node.attr("test"), 0, carries, axes, results=False)
    types = TupleType((*(i.type for i in inits), *node.items[carries:]))
    made = make(node.op, (*node.operands[:first], *inits, *captured), attrs, types, node.span)
    return made, _joined(node, axes, tuple(make("item", (made,), {"index": k}, t) for k, t in enumerate(made.items)))


def _joined(node: Node, axes: dict[int, int], items: tuple[Node, ...]) -> tuple[Node, ...]:
    """The old loop's values from the new one's."""
    out, at = [], 0
    for k in range(node.attr("carries")):
        if k in axes:
            extent = node.items[k].shape[axes[k]]
            out.append(nodes.stack(items[at : at + extent], axes[k]))
            at += extent
        else:
            out.append(items[at])
            at += 1
    return (*out, *items[at:])


def _taken_apart(graph: Graph, first: int, carries: int, axes: dict[int, int], results: bool = True) -> Graph:
    """The body with parameters for components, and results in components when they are carries."""
    inputs = list(graph.inputs[:first])
    parts: dict[Node, tuple[int, list[Node]]] = {}
    for k, param in enumerate(graph.inputs[first : first + carries]):
        if k not in axes:
            inputs.append(param)
            continue
        shape = nodes.without(param.shape, axes[k])
        fresh = [new_input(Type(param.dtype, shape), f"{param.attr('name')}{j}") for j in range(param.shape[axes[k]])]
        parts[param] = (axes[k], fresh)
        inputs += fresh
    components = Components(parts)
    out: list[Node] = []
    for k, result in enumerate(graph.results):
        if results and k in axes:
            out += [components.get(result, axes[k], j) for j in range(result.shape[axes[k]])]
        else:
            out.append(components.whole(result))
    return Graph((*inputs, *graph.inputs[first + carries :]), tuple(out))


class Components:
    """Components of values, made once each; `parts` says what parameters became: (axis, components)."""

    def __init__(self, parts: dict[Node, tuple[int, list[Node]]]) -> None:
        self.parts = parts
        self.known: dict[Request, Node] = {}
        self.wholes: dict[Node, Node] = {}

    def get(self, node: Node, axis: int, k: int) -> Node:
        """`node` at index `k` of `axis`, without that axis. Walks with a stack: values may be as deep as they like."""
        work: list[Request] = [(node, axis, k)]
        while work:
            request = work[-1]
            if request in self.known:
                work.pop()
                continue
            missing: list[Request] = []

            def ask(value: Node, along: int, index: int, missing: list[Request] = missing) -> Node:
                found = self.known.get((value, along, index))
                if found is None:
                    missing.append((value, along, index))
                    return value
                return found

            made = self._make(*request, ask)
            if missing:
                work += missing
            else:
                assert made is not None
                self.known[request] = made
                work.pop()
        return self.known[node, axis, k]

    def whole(self, node: Node) -> Node:
        """`node` with parameters that were taken apart as stacks of their components."""
        if not self.parts:
            return node
        if not self.wholes:
            self.wholes = {param: nodes.stack(parts, axis) for param, (axis, parts) in self.parts.items()}
        return substitute((node,), self.wholes)[0]

    def _make(self, node: Node, axis: int, k: int, ask: Callable[[Node, int, int], Node]) -> Node | None:
        """The component when `ask` knows all it needs, else anything: the request comes again."""
        shape = nodes.without(node.shape, axis)
        held = self.parts.get(node)
        if held is not None and held[0] == axis:
            return held[1][k]
        if is_elementwise(node):
            asked = tuple(ask(o, axis, k) for o in node.operands)
            if any(o.shape != shape for o in asked):
                return None
            return make(node.op, asked, dict(node.attrs), Type(node.dtype, shape), node.span)
        rule = getattr(self, f"_{node.op}", None)
        found = rule(node, axis, k, shape, ask) if rule is not None else None
        if found is None:
            found = nodes.reshape(nodes.pick(self.whole(node), axis, k), shape)
        return found

    def _broadcast(self, node: Node, axis: int, k: int, shape: tuple[int, ...], ask: Callable[..., Node]) -> Node | None:
        source = node.operands[0]
        along = axis - (len(node.shape) - len(source.shape))
        if along < 0:
            return nodes.broadcast(self.whole(source), shape)
        part = ask(source, along, 0 if source.shape[along] == 1 else k)
        return nodes.broadcast(part, shape) if part is not source else node

    def _reshape(self, node: Node, axis: int, k: int, shape: tuple[int, ...], ask: Callable[..., Node]) -> Node | None:
        source = node.operands[0]
        if node.shape[axis] == 1:
            return nodes.reshape(self.whole(source), shape)
        path = reads(node)[0][1]
        if axis not in path:
            return None
        part = ask(source, path.index(axis), k)
        return nodes.reshape(part, shape) if part is not source else node

    def _concat(self, node: Node, axis: int, k: int, shape: tuple[int, ...], ask: Callable[..., Node]) -> Node | None:
        along = node.attr("axis")
        if along == axis:
            for part in node.operands:
                if k < part.shape[axis]:
                    return ask(part, axis, k)
                k -= part.shape[axis]
        asked = [ask(p, axis, k) for p in node.operands]
        if any(a is p for a, p in zip(asked, node.operands)):
            return node
        return nodes.concat(asked, along - (along > axis))

    def _transpose(self, node: Node, axis: int, k: int, shape: tuple[int, ...], ask: Callable[..., Node]) -> Node | None:
        axes = node.attr("axes")
        source = axes[axis]
        part = ask(node.operands[0], source, k)
        rest = tuple(a - (a > source) for a in axes if a != source)
        return nodes.transpose(part, rest) if part is not node.operands[0] else node

    def _slice(self, node: Node, axis: int, k: int, shape: tuple[int, ...], ask: Callable[..., Node]) -> Node | None:
        starts, steps = node.attr("starts"), node.attr("steps")
        if node.operands[0].shape[axis] > SMALL:
            return None
        part = ask(node.operands[0], axis, starts[axis] + steps[axis] * k)
        if part is node.operands[0]:
            return node
        return nodes.cut(part, nodes.without(starts, axis), nodes.without(steps, axis), shape)

    def _reduce(self, node: Node, axis: int, k: int, shape: tuple[int, ...], ask: Callable[..., Node]) -> Node | None:
        source, axes = node.operands[0], node.attr("axes")
        along = [a for a in range(len(source.shape)) if a not in axes][axis]
        part = ask(source, along, k)
        if part is source:
            return node
        return nodes.reduce(part, node.attr("kind"), tuple(a - (a > along) for a in axes))

    def _shift(self, node: Node, axis: int, k: int, shape: tuple[int, ...], ask: Callable[..., Node]) -> Node | None:
        if node.attr("offsets")[axis]:
            return None
        part = ask(node.operands[0], axis, k)
        if part is node.operands[0]:
            return node
        attrs = {name: nodes.without(node.attr(name), axis) for name in ("offsets", "modes")}
        return make("shift", (part,), attrs | {"fill": node.attr("fill")}, Type(node.dtype, shape), node.span)

    def _update(self, node: Node, axis: int, k: int, shape: tuple[int, ...], ask: Callable[..., Node]) -> Node | None:
        base, value = node.operands
        starts, steps = node.attr("starts"), node.attr("steps")
        index, left = divmod(k - starts[axis], steps[axis])
        under = ask(base, axis, k)
        if left or not 0 <= index < value.shape[axis]:
            return under
        over = ask(value, axis, index)
        if under is base or over is value:
            return node
        attrs: dict[str, Hashable] = {"starts": nodes.without(starts, axis), "steps": nodes.without(steps, axis)}
        return make("update", (under, over), attrs, Type(node.dtype, shape), node.span)

    def _iota(self, node: Node, axis: int, k: int, shape: tuple[int, ...], ask: Callable[..., Node]) -> Node | None:
        return nodes.number(k, node.dtype, literal=True)
