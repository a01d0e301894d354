"""Which loops stay within one element, so that they can run inside a kernel, each item carrying its own values.

`stays_within_element(loop)`: every path from the carries to the results is elementwise at one index. `element_rank(loop)` is
wider: the element may be a short row (the coordinates of a point, the unknowns of a small system), and what is
counted is the leading axes that every item keeps to itself. Captured arrays may be read anywhere. Asked by the planner and
by lowering. Loops that emit, and bodies that hold library calls, scans or long reductions, never stay.
"""

from __future__ import annotations

from math import prod
from weakref import WeakKeyDictionary

from gla.ir.graph import Graph
from gla.ir.node import Node, topological
from gla.ir.ops.table import is_elementwise

SMALL = 8  # elements of a row, and of a reduction within it
MOST = 32  # values that an item may carry

FREE, UNIFORM, ELEMENT = "free", "uniform", "element"
"""Of a node in a body: independent of the carries; a function of scalar carries; a function of the item's element."""

_HEAVY = frozenset({"matmul", "scatter", "scan"})
_ranks: WeakKeyDictionary[Node, tuple[int | None]] = WeakKeyDictionary()


def stays_within_element(loop: Node) -> bool:
    """Whether the loop or while node can run for each element of its carries alone."""
    rank = element_rank(loop)
    return rank is not None and all(len(shape) in (0, rank) for shape in carried_shapes(loop))


def element_rank(loop: Node) -> int | None:
    """The number of leading axes that items of the loop share out; None when it cannot run inside a kernel.

    A carry of shape P + T, with P of that rank and at most 8 elements in T, is held by the item at its index in P as
    separate values; scalar carries are held by every item. 0: one item runs the whole loop.
    """
    found = _ranks.get(loop)
    if found is None:
        found = _ranks[loop] = (_rank(loop),)
    return found[0]


def carried_shapes(loop: Node) -> list[tuple[int, ...]]:
    """The shapes of a loop's carries."""
    return [operand.shape for operand in _inits(loop)]


GRID = 1 << 14  # cells from which on a loop over a grid counts as one


def steps_over_grid(body: Graph, carries: int) -> bool:
    """Whether the body of a counted loop computes large arrays of one or two axes, all of one shape, cell by cell from cells around."""
    held = body.inputs[1 : 1 + carries]
    shape = held[0].shape if held else ()
    if len(shape) not in (1, 2) or prod(shape) < GRID or any(c.shape != shape for c in held):
        return False
    reached = set(held)
    for node in topological(body.results[:carries], stop=frozenset(held)):
        if any(operand in reached for operand in node.operands) and node not in held:
            if not is_elementwise(node.op) and node.op not in ("shift", "slice", "update"):
                return False
            reached.add(node)
    return True


def _inits(loop: Node) -> tuple[Node, ...]:
    operands = loop.operands[1:] if loop.op == "loop" else loop.operands
    return operands[: loop.attr("carries")]


def _rank(loop: Node) -> int | None:
    if loop.op == "loop" and loop.attr("emits"):
        return None
    arrays = [shape for shape in carried_shapes(loop) if shape]
    for rank in range(min(map(len, arrays), default=0), -1, -1):
        if _is_rank(loop, arrays, rank):
            return rank
    return None


def _is_rank(loop: Node, arrays: list[tuple[int, ...]], rank: int) -> bool:
    if any(shape[:rank] != arrays[0][:rank] or prod(shape[rank:]) > SMALL for shape in arrays):
        return False
    if sum(prod(shape[rank:]) for shape in arrays) > MOST:
        return False
    prefix = arrays[0][:rank] if arrays else ()
    states = [ELEMENT if shape or not rank else UNIFORM for shape in carried_shapes(loop)]
    return _holds(loop, states, [FREE] * (len(loop.operands) - len(states) - (loop.op == "loop")), prefix)


def _holds(loop: Node, carries: list[str], captures: list[str], prefix: tuple[int, ...]) -> bool:
    """Whether a loop with carries and captures of these states leaves its carries in them."""
    inputs = [*([UNIFORM] if loop.op == "loop" else []), *carries, *captures]
    after = _states(loop.attr("body"), inputs, prefix)
    if after is None or any(_order(a) > _order(c) for a, c in zip(after, carries)):
        return False
    if loop.op == "while":
        test = _states(loop.attr("test"), inputs, prefix)
        return test is not None and (test[0] != ELEMENT or not prefix)
    return True


def _order(state: str) -> int:
    return (FREE, UNIFORM, ELEMENT).index(state)


def _states(graph: Graph, inputs: list[str], prefix: tuple[int, ...]) -> list[str] | None:
    """The states of a graph's results, or None when it leaves the element."""
    states = dict(zip(graph.inputs, inputs))
    for node in topological(graph.results):
        if node in states:
            continue
        state = _state(node, states, prefix)
        if state is None:
            return None
        states[node] = state
    return [states[result] for result in graph.results]


def _state(node: Node, states: dict[Node, str], prefix: tuple[int, ...]) -> str | None:
    worst = max((states[o] for o in node.operands), key=_order, default=FREE)
    if node.op in _HEAVY or (node.op in ("reduce", "argreduce") and _reduced(node) > SMALL):
        return None
    if node.op in ("loop", "while"):
        return _nested(node, states, worst, prefix)
    if node.op == "cond":
        return _branches(node, states, worst, prefix)
    if worst != ELEMENT or node.op == "item":
        return worst
    if node.shape[: len(prefix)] != prefix:
        return None
    return ELEMENT if all(_keeps(node, o, len(prefix), prefix) for o in node.operands if states[o] == ELEMENT) else None


def _reduced(node: Node) -> int:
    return prod(node.operands[0].shape[a] for a in _axes(node))


def _axes(node: Node) -> tuple[int, ...]:
    return node.attr("axes") if node.op == "reduce" else (node.attr("axis"),)


def _nested(node: Node, states: dict[Node, str], worst: str, prefix: tuple[int, ...]) -> str | None:
    """A loop in the body: it must stay within its own element, and that element within ours."""
    rank = element_rank(node)
    if rank is None:
        return None
    if worst != ELEMENT:
        return worst
    count = [] if node.op == "while" else [states[node.operands[0]]]
    if ELEMENT in count and prefix:
        return None
    start = len(count)
    carries = node.attr("carries")
    held = [ELEMENT if shape or not prefix else UNIFORM for shape in carried_shapes(node)]
    if any(shape[: len(prefix)] != prefix for shape in carried_shapes(node) if shape):
        return None
    if any(_order(states[o]) > _order(h) for o, h in zip(node.operands[start : start + carries], held)):
        return None
    return ELEMENT if _holds(node, held, [states[o] for o in node.operands[start + carries :]], prefix) else None


def _branches(node: Node, states: dict[Node, str], worst: str, prefix: tuple[int, ...]) -> str | None:
    if states[node.operands[0]] == ELEMENT and prefix:
        return None
    inputs = [states[o] for o in node.operands[1:]]
    for name in ("then", "otherwise"):
        if _states(node.attr(name), inputs, prefix) is None:
            return None
    return worst


def _keeps(node: Node, operand: Node, rank: int, prefix: tuple[int, ...]) -> bool:
    """Whether each element of `node` asks its operand only for elements with the same leading `rank` indices."""
    if is_elementwise(node.op):
        return True
    if operand.shape[:rank] != prefix:
        return False
    if node.op in ("reduce", "argreduce"):
        return all(axis >= rank for axis in _axes(node))
    if node.op == "broadcast":
        return not rank or len(node.shape) == len(operand.shape)
    if node.op == "reshape":
        return True
    if node.op == "transpose":
        return node.attr("axes")[:rank] == tuple(range(rank))
    if node.op == "concat":
        return node.attr("axis") >= rank
    if node.op == "gather":
        return operand is not node.operands[0]
    return node.op in _STILL and all(_STILL[node.op](node, axis) for axis in range(rank))


def _whole(node: Node, axis: int) -> bool:
    region = node.operands[-1] if node.op == "update" else node
    of = node.operands[0]
    return node.attr("starts")[axis] == 0 and node.attr("steps")[axis] == 1 and region.shape[axis] == of.shape[axis]


_STILL = {
    "slice": _whole,
    "update": _whole,
    "shift": lambda node, axis: node.attr("offsets")[axis] == 0,
    "pad": lambda node, axis: node.attr("before")[axis] == node.attr("after")[axis] == 0,
}
