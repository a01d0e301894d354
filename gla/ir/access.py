"""How a value's elements are read from the elements of what is computed of it.

An index map says, per axis of the value read, which axis of the reader it follows: an axis number, ONE (the extent is 1), WHOLE
(every index of the axis, by a reduction) or ELSEWHERE (any other index). The planner asks here whether a value may be
computed in the same kernel (it is seen at the item's own index) and whether an array may be written in place.
"""

from __future__ import annotations

from collections.abc import Container

from gla.ir.node import Node

ONE, WHOLE, ELSEWHERE = -1, -2, -3
Map = tuple[int, ...]

VIEWS = frozenset({"broadcast", "reshape", "transpose", "slice", "shift", "pad", "concat"})
REDUCTIONS = frozenset({"reduce", "argreduce"})
CONTROL = frozenset({"loop", "while", "cond"})
STRUCTURAL = (
    VIEWS | REDUCTIONS | CONTROL | {"input", "constant", "iota", "gather", "update", "scatter", "scan", "matmul", "item"}
)


def is_elementwise(node: Node) -> bool:
    return node.op not in STRUCTURAL


def identity(node: Node) -> Map:
    """The map of a value read at the reader's own index."""
    return tuple(ONE if extent == 1 else k for k, extent in enumerate(node.shape))


def reads(node: Node) -> list[tuple[Node, Map]]:
    """Each operand of `node` with the map by which one element of `node` reads it. Tuples (loops) are passed through by
    `item`: the operands of the loop are those of the element's loop."""
    if node.op == "item":
        return _loop_reads(node)
    return [(operand, _clean(operand, _map(node, k, operand))) for k, operand in enumerate(node.operands)]


def accesses(
    root: Node, stop: Container[Node], known: dict[Node, list[tuple[Node, Map]]] | None = None
) -> dict[Node, set[Map]]:
    """Every node that `root` is computed from, with all maps by which it is read; does not look behind nodes in `stop`.

    `known`: what `reads` gave before, for many roots in one graph.
    """
    known = {} if known is None else known
    found: dict[Node, set[Map]] = {}
    start = identity(root)
    work = [(operand, _compose(step, start)) for operand, step in reads(root)]
    while work:
        node, path = work.pop()
        seen = found.setdefault(node, set())
        if path in seen:
            continue
        seen.add(path)
        if node not in stop:
            steps = known.get(node)
            if steps is None:
                steps = known[node] = reads(node)
            work.extend([(operand, _compose(step, path)) for operand, step in steps])
    return found


def _compose(step: Map, path: Map) -> Map:
    return tuple(path[axis] if axis >= 0 else axis for axis in step)


def _clean(operand: Node, step: Map) -> Map:
    return tuple(ONE if extent == 1 else axis for extent, axis in zip(operand.shape, step, strict=True))


def _loop_reads(node: Node) -> list[tuple[Node, Map]]:
    out = []
    for operand in node.operands[0].operands:
        step: Map = tuple(range(len(node.shape))) if operand.shape == node.shape else (ELSEWHERE,) * len(operand.shape)
        out.append((operand, _clean(operand, step)))
    return out


def _map(node: Node, position: int, operand: Node) -> Map:
    rank = len(operand.shape)
    own = tuple(range(rank))
    match node.op:
        case "broadcast":
            lead = len(node.shape) - rank
            return tuple(k + lead for k in own)
        case "reshape":
            return _reshape(operand.shape, node.shape)
        case "transpose":
            axes = node.attr("axes")
            return tuple(axes.index(k) for k in own)
        case "slice":
            starts, steps = node.attr("starts"), node.attr("steps")
            return tuple(k if starts[k] == 0 and steps[k] == 1 else ELSEWHERE for k in own)
        case "shift":
            offsets = node.attr("offsets")
            return tuple(k if offsets[k] == 0 else ELSEWHERE for k in own)
        case "pad":
            before, after = node.attr("before"), node.attr("after")
            return tuple(k if before[k] == after[k] == 0 else ELSEWHERE for k in own)
        case "concat":
            axis = node.attr("axis")
            return tuple(ELSEWHERE if k == axis and len(node.operands) > 1 else k for k in own)
        case "gather":
            return _gather(node, position, rank)
        case "update":
            if position == 0:
                return own
            starts, steps = node.attr("starts"), node.attr("steps")
            return tuple(k if starts[k] == 0 and steps[k] == 1 else ELSEWHERE for k in own)
        case "reduce":
            return _reduced(rank, node.attr("axes"))
        case "argreduce":
            return _reduced(rank, (node.attr("axis"),))
        case "matmul":
            summed = rank - 2 if position else rank - 1
            return tuple(WHOLE if k == summed else k for k in own)
        case "scan":
            axis = node.attr("axis")
            return tuple(ELSEWHERE if k == axis else k for k in own)
    if operand.shape == node.shape:  # elementwise
        return own
    return (ELSEWHERE,) * rank


def _reduced(rank: int, axes: tuple[int, ...]) -> Map:
    kept = iter(range(rank))
    return tuple(WHOLE if k in axes else next(kept) for k in range(rank))


def _gather(node: Node, position: int, rank: int) -> Map:
    if position:
        return tuple(range(rank))
    lead = len(node.operands[1].shape) if len(node.operands) > 1 else 0
    rest = iter(range(lead, len(node.shape)))
    return tuple(ELSEWHERE if k in node.attr("axes") else next(rest) for k in range(rank))


def _reshape(old: tuple[int, ...], new: tuple[int, ...]) -> Map:
    """Axes whose row-major weight and extent agree are the same axis; those of extent 1 do not matter."""
    weights: dict[tuple[int, int], int] = {}
    weight = 1
    for axis in range(len(new) - 1, -1, -1):
        if new[axis] != 1:
            weights[weight, new[axis]] = axis
        weight *= new[axis]
    out, weight = [], 1
    for extent in reversed(old):
        out.append(ONE if extent == 1 else weights.get((weight, extent), ELSEWHERE))
        weight *= extent
    return tuple(reversed(out))
