"""The rows that are not elementwise: what each is, and NumPy's meaning of it (the reference's). Types are set by ir/functions, checked by ir/verify."""

from __future__ import annotations

from typing import Any

import numpy as np

from gla.ir.ops.row import Structural

NUMPY_PAD = {"periodic": "wrap", "edge": "edge", "reflect": "reflect", "symmetric": "symmetric", "constant": "constant"}


def _shift(node: Any, x: Any) -> Any:
    """Read x at idx + offset: pad by np.pad, then cut."""
    for axis, (offset, mode) in enumerate(zip(node.attr("offsets"), node.attr("modes"))):
        if offset == 0:
            continue
        n = x.shape[axis]
        if mode == "periodic":
            x = np.roll(x, -offset, axis)
            continue
        width = [(0, 0)] * x.ndim
        width[axis] = (abs(offset), abs(offset))
        if mode == "constant":
            fill = np.frombuffer(node.attr("fill"), x.dtype)[0]
            padded = np.pad(x, width, mode="constant", constant_values=fill)
        else:
            padded = np.pad(x, width, mode=NUMPY_PAD[mode])  # type: ignore[call-overload]
        start = abs(offset) + offset
        x = np.take(padded, np.arange(start, start + n), axis)
    return x


def _slice(node: Any, x: Any) -> Any:
    picks = [np.arange(n) * step + start for start, step, n in zip(node.attr("starts"), node.attr("steps"), node.shape)]
    return x[np.ix_(*picks)] if picks else x


def _pad(node: Any, x: Any) -> Any:
    fill = np.frombuffer(node.attr("fill"), x.dtype)[0]
    return np.pad(x, list(zip(node.attr("before"), node.attr("after"))), constant_values=fill)


def _gather(node: Any, x: Any, *indices: Any) -> Any:
    axes = node.attr("axes")
    rest = [a for a in range(x.ndim) if a not in axes]
    clipped = tuple(np.clip(i, 0, x.shape[a] - 1) for a, i in zip(axes, indices))
    return np.transpose(x, (*axes, *rest))[clipped]


def _update(node: Any, base: Any, value: Any) -> Any:
    out = np.array(base)
    picks = [np.arange(n) * step + start for start, step, n in zip(node.attr("starts"), node.attr("steps"), value.shape)]
    out[np.ix_(*picks)] = value
    return out


def _scatter(node: Any, base: Any, value: Any, *indices: Any) -> Any:
    axes = node.attr("axes")
    rest = [a for a in range(base.ndim) if a not in axes]
    out = np.transpose(np.array(base), (*axes, *rest)).copy()
    flat = [np.ravel(i) for i in indices]
    values = np.reshape(value, (-1, *out.shape[len(axes) :]))
    for k in range(len(values)):
        where = tuple(int(f[k]) for f in flat)
        if all(0 <= w < n for w, n in zip(where, out.shape)):
            out[where] = values[k] if node.attr("mode") == "set" else out[where] + values[k]
    return np.transpose(out, np.argsort((*axes, *rest)))


def _reduce(node: Any, x: Any) -> Any:
    kind, axes = node.attr("kind"), node.attr("axes")
    if kind in ("sum", "prod") and x.dtype.kind == "f" and x.dtype.itemsize < 8:
        return getattr(np, kind)(x.astype(np.float64), axis=axes).astype(x.dtype)
    if kind in ("sum", "prod"):
        return getattr(np, kind)(x, axis=axes, dtype=x.dtype)
    return getattr(np, kind)(x, axis=axes)


def _scan(node: Any, x: Any) -> Any:
    ufunc = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[node.attr("kind")]
    if x.dtype.kind == "f" and x.dtype.itemsize < 8 and node.attr("kind") in ("sum", "prod"):
        return ufunc.accumulate(x.astype(np.float64), axis=node.attr("axis")).astype(x.dtype)
    return ufunc.accumulate(x, axis=node.attr("axis"), dtype=x.dtype)


ROWS = (
    Structural("iota", "source", lambda node: np.arange(node.shape[0], dtype=np.int64), "0, 1, 2, ..."),
    Structural(
        "broadcast", "view", lambda node, x: np.broadcast_to(x, node.shape), "stretch extents of 1 and add leading axes"
    ),
    Structural("reshape", "view", lambda node, x: np.reshape(x, node.shape), "the same elements, row-major, in another shape"),
    Structural("transpose", "view", lambda node, x: np.transpose(x, node.attr("axes")), "permute axes"),
    Structural("slice", "view", _slice, "start + step * index along each axis"),
    Structural("shift", "view", _shift, "neighbours at an offset, boundaries by mode"),
    Structural("pad", "view", _pad, "constant border"),
    Structural("concat", "view", lambda node, *xs: np.concatenate(xs, node.attr("axis")), "arrays end to end along an axis"),
    Structural("gather", "index", _gather, "elements at integer indices"),
    Structural("update", "index", _update, "a region replaced"),
    Structural("scatter", "index", _scatter, "elements at integer indices replaced (the last wins) or added to"),
    Structural("reduce", "reduce", _reduce, "elements joined along axes"),
    Structural(
        "argreduce",
        "reduce",
        lambda node, x: getattr(np, node.attr("kind"))(x, axis=node.attr("axis")).astype(np.int64),
        "index of the greatest or least, the first of equals, NaN first",
    ),
    Structural("scan", "reduce", _scan, "running sum, product, maximum or minimum"),
    Structural("matmul", "library", lambda node, a, b: np.matmul(a, b), "matrix product, batched"),
)
