"""Which extents of a region are the same by the structure of its graph, and the integers that its kernel takes as arguments.

Two axes that an op ties together (both operands of an add, an array and its transpose) have one symbol, whatever
their sizes; axes that merely happen to be equally long do not. So a region with other sizes gets the same kernel text.
Extents of 1 are structure. Axes of at most 8 that the region reduces, concatenates or picks from are compiled in.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from math import prod

from gla.codegen.affine import ONE, ZERO, Poly, number, product, symbol
from gla.ir.graph import Graph
from gla.ir.locality import carried_shapes, element_rank
from gla.ir.node import Node, topological
from gla.ir.types import TupleType
from gla.plan.steps import Region

SMALL = 8  # axes this short may be compiled in

Axis = tuple[Hashable, int]  # (node, axis), ("items", axis), ("inner", axis), (("target", k), axis)
Group = tuple[tuple[int, ...], tuple[int, ...]]


def subgraphs(node: Node) -> tuple[Graph, ...]:
    """The graphs that a control node holds."""
    if node.op == "loop":
        return (node.attr("body"),)
    if node.op == "while":
        return (node.attr("test"), node.attr("body"))
    if node.op == "cond":
        return (node.attr("then"), node.attr("otherwise"))
    return ()


def region_nodes(region: Region) -> Iterator[Node]:
    """Every node of the region, those of nested graphs included, operands before users."""
    stop = frozenset(region.inputs)
    targets = tuple(s for t in region.targets if t is not None for s in t.starts if isinstance(s, Node))
    marched = region.marching.roots if region.marching is not None else ()
    pending: list[tuple[Node, ...]] = [region.outputs + targets + marched]
    seen: set[Node] = set()
    while pending:
        for node in topological(pending.pop(), stop):
            if node in seen:
                continue
            seen.add(node)
            yield node
            if node not in stop:
                pending.extend(graph.inputs + graph.results for graph in subgraphs(node))


def reshape_groups(source: tuple[int, ...], target: tuple[int, ...]) -> list[Group] | None:
    """Runs of axes of both shapes with equal products, extents of 1 left out; None for empty arrays."""
    if 0 in source:
        return None
    left = [a for a, n in enumerate(source) if n != 1]
    right = [a for a, n in enumerate(target) if n != 1]
    groups: list[Group] = []
    i = j = 0
    while i < len(left):
        first, second = i, j
        m, n = source[left[i]], target[right[j]]
        i, j = i + 1, j + 1
        while m != n:
            if m < n:
                m, i = m * source[left[i]], i + 1
            else:
                n, j = n * target[right[j]], j + 1
        groups.append((tuple(left[first:i]), tuple(right[second:j])))
    return groups


def is_whole(start: object, step: int, length: int, extent: int) -> bool:
    """Whether start, start + step, ... (`length` of them) is all of an axis, in order."""
    return start == 0 and step == 1 and length == extent


class Extents:
    """The extents of a region as polynomials, and the numbers behind their symbols."""

    def __init__(self, region: Region) -> None:
        self._parent: dict[Axis, Axis] = {}
        self._whole: dict[Axis, tuple[Axis, ...]] = {}  # an axis that merges others
        self._small: set[Axis] = set()
        self._polys: dict[Axis, Poly] = {}
        self._keys: dict[Hashable, Poly] = {}
        self.values: list[int] = []
        self._merged: list[tuple[Axis, tuple[Axis, ...]]] = []
        self._marked: list[Axis] = []
        stored = frozenset(region.inputs)
        for node in region_nodes(region):
            _tie_node(self, node, node in stored)
        self._tie_region(region)
        for axis, parts in self._merged:
            self._whole.setdefault(self.root(axis), parts)
        self._small = {self.root(axis) for axis in self._marked}

    # --- building

    def root(self, axis: Axis) -> Axis:
        parent = self._parent
        while axis in parent:
            up = parent[axis]
            if up in parent:
                parent[axis] = parent[up]
            axis = up
        return axis

    def tie(self, a: Axis, b: Axis) -> None:
        a, b = self.root(a), self.root(b)
        if a != b:
            self._parent[b] = a

    def tie_shapes(self, a: Hashable, b: Hashable, rank: int) -> None:
        for axis in range(rank):
            self.tie((a, axis), (b, axis))

    def merge(self, axis: Axis, parts: tuple[Axis, ...]) -> None:
        self._merged.append((axis, parts))

    def mark(self, axis: Axis, extent: int) -> None:
        """Compile the axis in, if it is short."""
        if extent <= SMALL:
            self._marked.append(axis)

    def _tie_region(self, region: Region) -> None:
        for k, output in enumerate(region.outputs):
            for axis in range(len(output.shape)):
                domain = ("items", axis) if axis < len(region.items) else ("inner", axis - len(region.items))
                self.tie((output, axis), domain)
            target = region.targets[k] if region.targets else None
            if target is not None:
                for axis, extent in enumerate(target.shape):
                    if is_whole(target.starts[axis], target.steps[axis], output.shape[axis], extent):
                        self.tie((output, axis), (("target", k), axis))
        if prod(region.inner) <= SMALL:
            for axis, extent in enumerate(region.inner):
                self.mark(("inner", axis), extent)

    # --- asking

    def extent(self, owner: Hashable, axis: int, size: int) -> Poly:
        """The extent `size` of an axis."""
        if size == 1:
            return ONE
        root = self.root((owner, axis))
        found = self._polys.get(root)
        if found is None:
            found = self._polys[root] = self._resolve(root, size)
        return found

    def shape(self, owner: Hashable, sizes: tuple[int, ...]) -> tuple[Poly, ...]:
        return tuple(self.extent(owner, axis, size) for axis, size in enumerate(sizes))

    def of(self, node: Node) -> tuple[Poly, ...]:
        return self.shape(node, node.shape)

    def _resolve(self, root: Axis, size: int) -> Poly:
        if root in self._small:
            return number(size)
        parts = self._whole.pop(root, None)  # popped: an axis is never a part of itself
        if parts is not None:
            return product(self.extent(owner, axis, _size(owner, axis)) for owner, axis in parts)
        return self._new(size)

    def symbol(self, value: int, key: Hashable) -> Poly:
        """An integer argument; equal keys are one argument."""
        found = self._keys.get(key)
        if found is None:
            found = self._keys[key] = self._new(value)
        return found

    def near(self, value: int, extent: int, of: Poly) -> Poly:
        """An integer that a program gave for an axis (a start, an offset), shared by all that name the same place of it.

        It is counted from the end that is nearer, so that `x[1:-1]` is the same at any size. Zero is structure; on an axis
        that is compiled in, every number is.
        """
        if value == 0:
            return ZERO
        if of.constant is not None:
            return number(value)
        return self.symbol(value, ("start", of, value) if 2 * value <= extent else ("end", of, extent - value))

    def step(self, step: int, of: Poly) -> Poly:
        """A step along an axis; 1 and -1 are structure."""
        return number(step) if abs(step) == 1 or of.constant is not None else self.symbol(step, ("step", of, step))

    def _new(self, value: int) -> Poly:
        self.values.append(value)
        return symbol(len(self.values) - 1)


def _size(owner: Hashable, axis: int) -> int:
    assert isinstance(owner, Node)
    return owner.shape[axis]


# --- which axes each op ties


def _tie_node(extents: Extents, node: Node, stored: bool) -> None:
    if stored or node.op in ("input", "constant", "iota"):
        return
    rule = _RULES.get(node.op)
    if rule is not None:
        rule(extents, node)
    else:  # elementwise: one shape
        for operand in node.operands:
            extents.tie_shapes(node, operand, len(operand.shape))


def _broadcast(extents: Extents, node: Node) -> None:
    operand = node.operands[0]
    lead = len(node.shape) - len(operand.shape)
    for axis, extent in enumerate(operand.shape):
        if extent != 1 and extent == node.shape[lead + axis]:
            extents.tie((operand, axis), (node, lead + axis))


def _reshape(extents: Extents, node: Node) -> None:
    operand = node.operands[0]
    for left, right in reshape_groups(operand.shape, node.shape) or ():
        if len(left) == len(right) == 1:
            extents.tie((operand, left[0]), (node, right[0]))
        elif len(left) == 1:
            extents.merge((operand, left[0]), tuple((node, a) for a in right))
        elif len(right) == 1:
            extents.merge((node, right[0]), tuple((operand, a) for a in left))


def _transpose(extents: Extents, node: Node) -> None:
    for axis, source in enumerate(node.attr("axes")):
        extents.tie((node.operands[0], source), (node, axis))


def _slice(extents: Extents, node: Node) -> None:
    operand = node.operands[0]
    for axis, (start, step) in enumerate(zip(node.attr("starts"), node.attr("steps"))):
        if is_whole(start, step, node.shape[axis], operand.shape[axis]):
            extents.tie((operand, axis), (node, axis))
        elif node.shape[axis] == 1:
            extents.mark((operand, axis), operand.shape[axis])


def _shift(extents: Extents, node: Node) -> None:
    extents.tie_shapes(node, node.operands[0], len(node.shape))


def _pad(extents: Extents, node: Node) -> None:
    for axis, (before, after) in enumerate(zip(node.attr("before"), node.attr("after"))):
        if before == after == 0:
            extents.tie((node.operands[0], axis), (node, axis))


def _concat(extents: Extents, node: Node) -> None:
    along = node.attr("axis")
    extents.mark((node, along), node.shape[along])
    for operand in node.operands:
        for axis, extent in enumerate(operand.shape):
            if axis != along:
                extents.tie((operand, axis), (node, axis))
            elif node.shape[along] <= SMALL:
                extents.mark((operand, axis), extent)


def _gather(extents: Extents, node: Node) -> None:
    x, *indices = node.operands
    lead = len(indices[0].shape)
    for index in indices:
        for axis in range(lead):
            extents.tie((index, axis), (node, axis))
    rest = [a for a in range(len(x.shape)) if a not in node.attr("axes")]
    for k, axis in enumerate(rest):
        extents.tie((x, axis), (node, lead + k))


def _update(extents: Extents, node: Node) -> None:
    base, value = node.operands
    extents.tie_shapes(node, base, len(node.shape))
    for axis, (start, step) in enumerate(zip(node.attr("starts"), node.attr("steps"))):
        if is_whole(start, step, value.shape[axis], base.shape[axis]):
            extents.tie((value, axis), (node, axis))


def reduced_axes(node: Node) -> tuple[int, ...]:
    """The axes that a reduce or argreduce node drops."""
    return node.attr("axes") if node.op == "reduce" else (node.attr("axis"),)


def _reduce(extents: Extents, node: Node) -> None:
    operand = node.operands[0]
    axes = reduced_axes(node)
    kept = [a for a in range(len(operand.shape)) if a not in axes]
    for k, axis in enumerate(kept):
        extents.tie((operand, axis), (node, k))
    if prod(operand.shape[a] for a in axes) <= SMALL:
        for axis in axes:
            extents.mark((operand, axis), operand.shape[axis])


def _matmul(extents: Extents, node: Node) -> None:
    a, b = node.operands
    lead = len(node.shape) - 2
    for axis in range(lead + 1):
        extents.tie((a, axis), (node, axis))
    for axis in (*range(lead), lead + 1):
        extents.tie((b, axis), (node, axis))
    extents.tie((a, lead + 1), (b, lead))


def _bind(extents: Extents, inputs: tuple[Node, ...], values: tuple[Node, ...]) -> None:
    for a, b in zip(inputs, values):
        extents.tie_shapes(a, b, len(a.shape))


def _loop(extents: Extents, node: Node) -> None:
    carries, body = node.attr("carries"), node.attr("body")
    operands = node.operands[1:] if node.op == "loop" else node.operands
    inputs = body.inputs[1:] if node.op == "loop" else body.inputs
    _bind(extents, inputs, operands)
    _bind(extents, inputs[:carries], body.results[:carries])
    if node.op == "while":
        _bind(extents, node.attr("test").inputs, operands)
    for k in range(carries):
        extents.tie_shapes(inputs[k], ("part", node, k), len(inputs[k].shape))
    _mark_rows(extents, node)


def _mark_rows(extents: Extents, node: Node) -> None:
    """Where an item carries a short row, the axes of rows are compiled in."""
    rank = element_rank(node)
    arrays = [shape for shape in carried_shapes(node) if shape]
    if rank is None or all(len(shape) == rank for shape in arrays):
        return
    for graph in subgraphs(node):
        for inner in graph.nodes():
            if not isinstance(inner.type, TupleType) and inner.shape[:rank] == arrays[0][:rank]:
                for axis in range(rank, len(inner.shape)):
                    extents.mark((inner, axis), inner.shape[axis])


def _cond(extents: Extents, node: Node) -> None:
    for graph in subgraphs(node):
        _bind(extents, graph.inputs, node.operands[1:])
        for k, result in enumerate(graph.results):
            extents.tie_shapes(result, ("part", node, k), len(result.shape))


def _item(extents: Extents, node: Node) -> None:
    extents.tie_shapes(node, ("part", node.operands[0], node.attr("index")), len(node.shape))


_RULES = {
    "broadcast": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "shift": _shift,
    "pad": _pad,
    "concat": _concat,
    "gather": _gather,
    "update": _update,
    "matmul": _matmul,
    "reduce": _reduce,
    "argreduce": _reduce,
    "scan": _shift,
    "loop": _loop,
    "while": _loop,
    "cond": _cond,
    "item": _item,
}
