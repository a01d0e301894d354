"""Products that the matrix library does not compute become a multiplication and a sum, which fuse into one kernel.

These are integers, and products over nothing.
"""

from __future__ import annotations

from gla import dtypes
from gla.ir.graph import Graph
from gla.ir.node import Node
from gla.passes import nodes
from gla.passes.rewrite import rewrite

LIBRARY = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)


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
    rank = len(batch)
    turned = nodes.transpose(b, (*range(rank), rank + 1, rank))
    left = nodes.broadcast(nodes.reshape(a, (*batch, m, 1, k)), (*batch, m, n, k))
    right = nodes.broadcast(nodes.reshape(turned, (*batch, 1, n, k)), (*batch, m, n, k))
    return nodes.reduce(nodes.elementwise("multiply", left, right), "sum", (rank + 2,))
