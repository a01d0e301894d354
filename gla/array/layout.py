"""Repeats, tiles and differences: functions of the namespace that are made of views."""

from __future__ import annotations

from typing import Any

import numpy as np

from gla.array.boundary import public
from gla.array.calls import operate
from gla.array.namespace import array_index
from gla.array.value import Array, fetch
from gla.errors import ShapeError
from gla.ir.builder import apply, broadcast
from gla.ir.functions import shape
from gla.ir.functions.index import getitem
from gla.ir.node import Node
from gla.ir.spans import labels


@public
def tile(x: Any, repetitions: Any, /) -> Any:
    """x laid side by side `repetitions` times along each axis; missing axes are added in front."""
    counts = tuple(array_index(n) for n in (repetitions if isinstance(repetitions, (tuple, list)) else (repetitions,)))

    def build(node: Node) -> Node:
        ndim = max(len(counts), len(node.shape))
        extents = (1,) * (ndim - len(node.shape)) + node.shape
        times = (1,) * (ndim - len(counts)) + counts
        apart = shape.reshape(node, [n for extent in extents for n in (1, extent)])
        wide = broadcast(apart, tuple(n for pair in zip(times, extents) for n in pair))
        return shape.reshape(wide, [t * n for t, n in zip(times, extents)])

    return operate(build, (x,))


@public
def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Each element `repeats` times, one after the other, along `axis` (flattened without). `repeats` may be a list of counts."""
    counts = fetch(repeats, "repeats") if isinstance(repeats, Array) else np.asarray(repeats)

    def build(node: Node) -> Node:
        k = axis
        if k is None:
            node, k = shape.reshape(node, (-1,) if 0 not in node.shape else (0,)), 0
        k = shape.normalise_axis(k, len(node.shape), node)
        if counts.ndim and counts.size != 1:
            if counts.shape != (node.shape[k],):
                raise ShapeError(
                    "GLA0337",
                    f"repeat needs one count for each of the {node.shape[k]} elements of axis {k}, not {counts.size}",
                    labels=labels("", (str(node.type), node)),
                    help="give one number, or as many as the axis is long",
                )
            return getitem(node, (slice(None),) * k + (np.repeat(np.arange(node.shape[k]), counts),))
        times = int(counts.reshape(-1)[0])
        wide = broadcast(shape.expand_dims(node, k + 1), (*node.shape[: k + 1], times, *node.shape[k + 1 :]))
        return shape.reshape(wide, (*node.shape[:k], node.shape[k] * times, *node.shape[k + 1 :]))

    return operate(build, (x,))


@public
def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """x[1:] - x[:-1] along `axis`, `n` times; `prepend` and `append` are joined on first. Of bool: where neighbours differ."""
    parts = [p for p in (prepend, x, append) if p is not None]

    def build(*nodes: Node) -> Node:
        node = shape.concat(list(nodes), axis) if len(nodes) > 1 else nodes[0]
        k = shape.normalise_axis(axis, len(node.shape), node)
        before = (slice(None),) * k
        for _ in range(n):
            high, low = getitem(node, (*before, slice(1, None))), getitem(node, (*before, slice(None, -1)))
            node = apply("not_equal" if node.dtype.kind == "b" else "subtract", high, low)
        return node

    return operate(build, parts)
