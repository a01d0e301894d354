"""Nodes that passes build: views and constants of given nodes, typed, with nothing promoted or checked.

What has no effect is not built: a reshape to the same shape is the node itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from gla import dtypes
from gla.dtypes import DType
from gla.ir.node import Node, make
from gla.ir.types import Type

COUNTER = Type(dtypes.int64, (), True)


def shaped(node: Node, shape: tuple[int, ...]) -> Type:
    """The node's type in another shape."""
    return Type(node.dtype, shape, node.type.weak and not shape)


def number(value: Any, dtype: DType, *, literal: bool, weak: bool = False) -> Node:
    bits = np.asarray(value).astype(dtype.numpy).tobytes()
    return make("constant", (), {"bits": bits, "literal": literal}, Type(dtype, (), weak))


def full(value: Any, dtype: DType, shape: tuple[int, ...]) -> Node:
    """A literal number everywhere."""
    return broadcast(number(value, dtype, literal=True), shape)


def reshape(x: Node, shape: tuple[int, ...]) -> Node:
    if x.shape == shape:
        return x
    if x.op == "reshape":
        return reshape(x.operands[0], shape)
    return make("reshape", (x,), {}, shaped(x, shape), x.span)


def broadcast(x: Node, shape: tuple[int, ...]) -> Node:
    if x.shape == shape:
        return x
    if x.op == "broadcast":
        return broadcast(x.operands[0], shape)
    return make("broadcast", (x,), {}, shaped(x, shape), x.span)


def transpose(x: Node, axes: tuple[int, ...]) -> Node:
    if x.op == "transpose":
        inner = x.operands[0], tuple(x.attr("axes")[a] for a in axes)
        return transpose(*inner)
    if axes == tuple(range(len(axes))):
        return x
    return make("transpose", (x,), {"axes": axes}, shaped(x, tuple(x.shape[a] for a in axes)), x.span)


def cut(x: Node, starts: Sequence[int], steps: Sequence[int], lengths: Sequence[int]) -> Node:
    """A slice; slices of slices are one."""
    starts, steps, lengths = tuple(starts), tuple(steps), tuple(lengths)
    if x.op == "slice":
        base, first, stride = x.operands[0], x.attr("starts"), x.attr("steps")
        starts = tuple(f + s * t for f, s, t in zip(first, starts, stride))
        steps = tuple(s * t for s, t in zip(steps, stride))
        return cut(base, starts, steps, lengths)
    steps = tuple(1 if n <= 1 else s for s, n in zip(steps, lengths))
    if lengths == x.shape and all(s == 0 and t == 1 for s, t in zip(starts, steps)):
        return x
    return make("slice", (x,), {"starts": starts, "steps": steps}, shaped(x, lengths), x.span)


def pick(x: Node, axis: int, k: int) -> Node:
    """The slice at index `k` of `axis`, of extent 1 there."""
    rank = len(x.shape)
    starts = [k if a == axis else 0 for a in range(rank)]
    return cut(x, starts, [1] * rank, [1 if a == axis else n for a, n in enumerate(x.shape)])


def without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def concat(parts: Sequence[Node], axis: int) -> Node:
    if len(parts) == 1:
        return parts[0]
    length = sum(p.shape[axis] for p in parts)
    shape = (*parts[0].shape[:axis], length, *parts[0].shape[axis + 1 :])
    return make("concat", parts, {"axis": axis}, shaped(parts[0], shape))


def stack(parts: Sequence[Node], axis: int) -> Node:
    shape = (*parts[0].shape[:axis], 1, *parts[0].shape[axis:])
    return concat([reshape(p, shape) for p in parts], axis)


def elementwise(name: str, *operands: Node, dtype: DType | None = None) -> Node:
    """An op on operands of one shape; `dtype` of the result, that of the last operand by default."""
    dtype = dtype or operands[-1].dtype
    weak = not operands[0].shape and all(o.type.weak for o in operands) and dtype.kind != "b"
    return make(name, operands, {}, Type(dtype, operands[0].shape, weak), operands[0].span)


def cast(x: Node, dtype: DType) -> Node:
    return x if x.dtype is dtype else make("cast", (x,), {"dtype": dtype}, Type(dtype, x.shape), x.span)


def reduce(x: Node, kind: str, axes: tuple[int, ...]) -> Node:
    if not axes:
        return x
    shape = tuple(n for k, n in enumerate(x.shape) if k not in axes)
    return make("reduce", (x,), {"kind": kind, "axes": axes}, Type(x.dtype, shape), x.span)


def pad(x: Node, axis: int, before: int, after: int, fill: Any) -> Node:
    """`fill` before and after along one axis."""
    if before == after == 0:
        return x
    rank = len(x.shape)
    shape = tuple(n + before + after if k == axis else n for k, n in enumerate(x.shape))
    attrs: dict[str, Hashable] = {
        "before": tuple(before if k == axis else 0 for k in range(rank)),
        "after": tuple(after if k == axis else 0 for k in range(rank)),
        "fill": np.asarray(fill).astype(x.dtype.numpy).tobytes(),
    }
    return make("pad", (x,), attrs, shaped(x, shape), x.span)


def identity(kind: str, dtype: DType) -> Any:
    """The number that a reduction starts from: it leaves every other as it is, bit for bit."""
    if kind == "sum":
        return {"f": -0.0, "c": complex(-0.0, -0.0)}.get(dtype.kind, 0)
    if kind == "prod":
        return 1
    if kind in ("any", "all"):
        return kind == "all"
    if dtype.kind == "b":
        return kind == "min"
    if dtype.kind == "f":
        return -np.inf if kind == "max" else np.inf
    return dtypes.integer_range(dtype)[0 if kind == "max" else 1]
