"""Scatter as gather: each element of the result finds, in order, the values that were sent to it. No atomics, one answer.

set:  winner = max over k of (k where index[k] is here, else -1); value[winner] where winner >= 0, else base
add:  base + sum over k, in order, of (value[k] where index[k] is here, else -0.0)
"""

from __future__ import annotations

from math import prod

from gla import dtypes
from gla.ir.graph import Graph
from gla.ir.node import Node, make
from gla.ir.types import Type
from gla.passes import nodes
from gla.passes.rewrite import rewrite


def gather_scatters(graph: Graph) -> Graph:
    """scatter(base, value, *indices) without writes to chosen places. Indices outside of the array go nowhere."""
    return rewrite(graph, _gathered, frozenset({"scatter"}))


def _gathered(node: Node, _: Node) -> Node:
    if node.op != "scatter":
        return node
    base, value, *indices = node.operands
    axes = node.attr("axes")
    rest = tuple(a for a in range(len(base.shape)) if a not in axes)
    count = prod(indices[0].shape)
    if count == 0 or 0 in base.shape:
        return base
    places = tuple(base.shape[a] for a in axes)
    tail = tuple(base.shape[a] for a in rest)
    flat = [nodes.reshape(i, (count,)) for i in indices]
    values = nodes.reshape(value, (count, *tail))
    hit = _hits(flat, places, count)
    order = tuple((*axes, *rest).index(a) for a in range(len(base.shape)))
    if node.attr("mode") == "set":
        return _last_wins(base, values, hit, places, tail, count, order)
    return _added(base, values, hit, places, tail, count, order)


def _hits(flat: list[Node], places: tuple[int, ...], count: int) -> Node:
    """bool (*places, count): whether value k goes to that place."""
    shape = (*places, count)
    hit = None
    for axis, index in enumerate(flat):
        here = make("iota", (), {}, Type(dtypes.int64, (places[axis],)))
        column = nodes.reshape(here, tuple(n if k == axis else 1 for k, n in enumerate(shape)))
        same = nodes.elementwise("equal", nodes.broadcast(index, shape), nodes.broadcast(column, shape), dtype=dtypes.bool_)
        hit = same if hit is None else nodes.elementwise("logical_and", hit, same)
    assert hit is not None
    return hit


def _last_wins(
    base: Node, values: Node, hit: Node, places: tuple[int, ...], tail: tuple[int, ...], count: int, order: tuple[int, ...]
) -> Node:
    numbers = nodes.broadcast(make("iota", (), {}, Type(dtypes.int64, (count,))), hit.shape)
    none = nodes.full(-1, dtypes.int64, hit.shape)
    winner = nodes.reduce(nodes.elementwise("where", hit, numbers, none), "max", (len(places),))
    zero = nodes.full(0, dtypes.int64, places)
    source = nodes.elementwise("maximum", winner, zero)
    taken = make("gather", (values, source), {"axes": (0,)}, Type(values.dtype, (*places, *tail)))
    written = nodes.elementwise("greater_equal", winner, zero, dtype=dtypes.bool_)
    written = nodes.broadcast(nodes.reshape(written, (*places, *(1 for _ in tail))), (*places, *tail))
    return nodes.elementwise("where", nodes.transpose(written, order), nodes.transpose(taken, order), base)


def _added(
    base: Node, values: Node, hit: Node, places: tuple[int, ...], tail: tuple[int, ...], count: int, order: tuple[int, ...]
) -> Node:
    shape = (*places, *tail, count)
    lead = len(places)
    mask = nodes.broadcast(nodes.reshape(hit, (*places, *(1 for _ in tail), count)), shape)
    turned = nodes.transpose(values, (*range(1, len(tail) + 1), 0))
    sent = nodes.broadcast(nodes.reshape(turned, (*(1 for _ in places), *tail, count)), shape)
    nothing = nodes.full(nodes.identity("sum", base.dtype), base.dtype, shape)
    total = nodes.reduce(nodes.elementwise("where", mask, sent, nothing), "sum", (lead + len(tail),))
    return nodes.elementwise("add", base, nodes.transpose(total, order))
