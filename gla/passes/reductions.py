"""Long reductions and scans in pieces, so that many teams share them; the pieces depend on length and dtype alone.

A reduction of more than CHUNK elements becomes one of chunks and one of their results, padded with what changes nothing.
A scan becomes scans of blocks, a scan of the blocks' totals, and their join. A reduction of nothing is a constant.
"""

from __future__ import annotations

from math import prod

from gla import dtypes
from gla.ir.graph import Graph
from gla.ir.node import Node, make
from gla.ir.ops.order import CHUNK
from gla.ir.types import Type
from gla.passes import nodes
from gla.passes.rewrite import rewrite

BLOCK = 256  # elements that one thread scans in order
HALF = (dtypes.float16, dtypes.bfloat16)
JOIN = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}


def split_reductions(graph: Graph) -> Graph:
    """reduce(x, n > CHUNK) -> reduce(reduce(chunks of x)); scan likewise in blocks; along the last axis."""
    return rewrite(graph, _split, frozenset({"reduce", "argreduce", "scan"}))


def _split(node: Node, _: Node) -> Node:
    if node.op == "reduce":
        return _reduction(node)
    if node.op == "argreduce":
        return _argument(node)
    if node.op == "scan":
        return _scan_node(node)
    return node


def _reduction(node: Node) -> Node:
    x, kind, axes = node.operands[0], node.attr("kind"), node.attr("axes")
    length = prod(x.shape[a] for a in axes)
    if length == 0:
        empty = {"sum": 0, "prod": 1, "any": False, "all": True}.get(kind)
        return nodes.full(nodes.identity(kind, node.dtype) if empty is None else empty, node.dtype, node.shape)
    if length <= CHUNK:
        return node
    kept = [a for a in range(len(x.shape)) if a not in axes]
    rows = nodes.reshape(nodes.transpose(x, (*kept, *axes)), (*node.shape, length))
    return _rows(rows, kind)


def _rows(x: Node, kind: str) -> Node:
    """Reduces the last axis of `x` in as many levels as it needs."""
    while x.shape[-1] > CHUNK:
        length, rank = x.shape[-1], len(x.shape)
        chunks = -(-length // CHUNK)
        padded = nodes.pad(x, rank - 1, 0, chunks * CHUNK - length, nodes.identity(kind, x.dtype))
        x = nodes.reduce(nodes.reshape(padded, (*x.shape[:-1], chunks, CHUNK)), kind, (rank,))
    return nodes.reduce(x, kind, (len(x.shape) - 1,))


def _argument(node: Node) -> Node:
    """The winner of each chunk, then the first winner among them: exact, so in whatever order."""
    x, axis, kind = node.operands[0], node.attr("axis"), node.attr("kind")
    length = x.shape[axis]
    if length <= CHUNK:
        return node
    rank = len(x.shape)
    rows = nodes.transpose(x, (*(a for a in range(rank) if a != axis), axis))
    chunks = -(-length // CHUNK)
    padded = nodes.pad(rows, rank - 1, 0, chunks * CHUNK - length, nodes.identity(kind[3:], x.dtype))
    pieces = nodes.reshape(padded, (*rows.shape[:-1], chunks, CHUNK))
    within = make("argreduce", (pieces,), {"kind": kind, "axis": rank}, Type(dtypes.int64, pieces.shape[:-1]))
    best = nodes.reduce(pieces, kind[3:], (rank,))
    winner = _argument(make("argreduce", (best,), {"kind": kind, "axis": rank - 1}, node.type))
    step = nodes.broadcast(nodes.number(CHUNK, dtypes.int64, literal=True), node.shape)
    return nodes.elementwise("add", nodes.elementwise("multiply", winner, step), _at(within, winner))


def _at(rows: Node, index: Node) -> Node:
    """rows[..., index[...]] for `rows` of one axis more than `index`."""
    lead = index.shape
    places = [
        nodes.broadcast(
            nodes.reshape(make("iota", (), {}, Type(dtypes.int64, (n,))), tuple(n if a == k else 1 for a in range(len(lead)))),
            lead,
        )
        for k, n in enumerate(lead)
    ]
    axes = tuple(range(len(lead) + 1))
    return make("gather", (rows, *places, index), {"axes": axes}, Type(rows.dtype, lead))


def _scan_node(node: Node) -> Node:
    x, axis, kind = node.operands[0], node.attr("axis"), node.attr("kind")
    if 0 in x.shape:
        return x
    rank = len(x.shape)
    if node.dtype in HALF and kind in ("sum", "prod"):
        wide = make("scan", (nodes.cast(x, dtypes.float32),), {"kind": kind, "axis": axis}, Type(dtypes.float32, x.shape))
        return nodes.cast(_scan_node(wide), node.dtype)
    if axis == rank - 1 and x.shape[axis] <= BLOCK:
        return node
    order = (*(a for a in range(rank) if a != axis), axis)
    back = tuple(order.index(a) for a in range(rank))
    return nodes.transpose(_scanned(nodes.transpose(x, order), kind), back)


def _scan(x: Node, kind: str) -> Node:
    return make("scan", (x,), {"kind": kind, "axis": len(x.shape) - 1}, x.type)


def _scanned(x: Node, kind: str) -> Node:
    """Inclusive scan of the last axis: blocks, the blocks' totals, the join, each level of totals 1/BLOCK as long."""
    levels: list[tuple[Node, int]] = []  # (scanned blocks, length before padding)
    while x.shape[-1] > BLOCK:
        length, rank = x.shape[-1], len(x.shape)
        blocks = -(-length // BLOCK)
        padded = nodes.pad(x, rank - 1, 0, blocks * BLOCK - length, nodes.identity(kind, x.dtype))
        local = _scan(nodes.reshape(padded, (*x.shape[:-1], blocks, BLOCK)), kind)
        levels.append((local, length))
        x = nodes.reshape(nodes.pick(local, rank, BLOCK - 1), (*x.shape[:-1], blocks))
    done = _scan(x, kind)
    for local, length in reversed(levels):
        rank = len(done.shape)
        before = nodes.pad(done, rank - 1, 1, 0, nodes.identity(kind, x.dtype))
        offsets = nodes.cut(before, [0] * rank, [1] * rank, done.shape)
        spread = nodes.broadcast(nodes.reshape(offsets, (*offsets.shape, 1)), local.shape)
        joined = nodes.reshape(nodes.elementwise(JOIN[kind], spread, local), (*local.shape[:-2], local.shape[-2] * BLOCK))
        done = nodes.cut(joined, [0] * rank, [1] * rank, (*joined.shape[:-1], length))
    return done
