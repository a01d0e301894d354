"""Products that the matrix library does not compute become a multiplication and a sum, which fuse into one kernel.

These are integers, float16 and bfloat16 (multiplied and added in float32, rounded once), and products over nothing.
"""

from __future__ import annotations

from gla import dtypes
from gla.ir.graph import Graph
from gla.ir.node import Node
from gla.passes import nodes
from gla.passes.rewrite import rewrite

LIBRARY = (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)
HALF = (dtypes.float16, dtypes.bfloat16)


def expand_products(graph: Graph) -> Graph:
    """matmul(a, b) -> sum(a[..., :, None, :] * b.mT[..., None, :, :], axis=-1) where the library has no such product."""
    return rewrite(graph, _expand, frozenset({"matmul"}))


def _expand(node: Node, _: Node) -> Node:
    if node.op != "matmul":
        return node
    a, b = node.operands
    *batch, m, k = a.shape
    n = b.shape[-1]
    if k == 0:
        return nodes.full(0, node.dtype, node.shape)
    if node.dtype in LIBRARY:
        return node
    wide = dtypes.float32 if node.dtype in HALF else node.dtype
    rank = len(batch)
    turned = nodes.transpose(b, (*range(rank), rank + 1, rank))
    left = nodes.broadcast(nodes.reshape(nodes.cast(a, wide), (*batch, m, 1, k)), (*batch, m, n, k))
    right = nodes.broadcast(nodes.reshape(nodes.cast(turned, wide), (*batch, 1, n, k)), (*batch, m, n, k))
    total = nodes.reduce(nodes.elementwise("multiply", left, right), "sum", (rank + 2,))
    return nodes.cast(total, node.dtype)
