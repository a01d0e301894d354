"""Indexing: reading and replacing parts of an array by integers, slices, `...`, new axes and integer arrays.

Basic indices are views; integer arrays gather. Constant indices out of range are refused here; run-time indices are
brought into memory by the kernels and checked where the user asks for it. Repeated indices in a replacement: the last wins.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from gla import dtypes
from gla.errors import DtypeError, GlaIndexError, TraceError
from gla.ir.builder import (
    Operand,
    apply,
    as_node,
    broadcast,
    broadcast_shapes,
    cast,
    constant,
    constant_value,
    is_constant,
    promote_operands,
)
from gla.ir.functions.shape import concat, permute, reshape, take_slice
from gla.ir.node import Node, make
from gla.ir.spans import here, labels
from gla.ir.types import Type

lift_array: ContextVar[Callable[[np.ndarray], Node] | None] = ContextVar("gla_lift_array", default=None)
"""How a NumPy array becomes a node: set by the front end that has inputs to put it in."""

SMALL = 32


@dataclass(frozen=True, slots=True)
class _Axis:
    """What happens to one axis of the array: a slice (start, step, length), or an index node."""

    start: int = 0
    step: int = 1
    length: int = 0
    index: Node | None = None
    drop: bool = False  # an integer: the axis goes
    new: bool = False  # no axis of the array: a new one of extent 1


def array_node(values: np.ndarray) -> Node:
    """A small integer array as a stack of constants; larger ones go through the front end's inputs."""
    lift = lift_array.get()
    if lift is not None and values.size > SMALL:
        return lift(values)
    dtype = dtypes.as_dtype(values.dtype)
    flat = [reshape(constant(v, dtype), (1,)) for v in values.ravel()]
    if not flat:
        return broadcast(reshape(constant(0, dtype), (1,) * values.ndim), values.shape) if values.ndim else constant(0, dtype)
    return reshape(concat(flat, 0), values.shape)


def _parse(x: Node, key: Any) -> list[_Axis]:
    items = list(key) if isinstance(key, tuple) else [key]
    used = sum(1 for k in items if k is not None and k is not Ellipsis)
    ndim = len(x.shape)
    if used > ndim:
        raise GlaIndexError(
            "GLA0336",
            f"{used} indices for {x.type}, which has {ndim} axes",
            labels=labels("", (str(x.type), x)),
            help="drop an index, or add an axis with None (new in .gla)",
        )
    dots = [k for k, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise GlaIndexError("GLA0321", "an index has at most one `...`", labels=labels(""))
    at = dots[0] if dots else len(items)
    items[at : at + 1] = [slice(None)] * (ndim - used)
    parsed, axis = [], 0
    for item in items:
        if item is None:
            parsed.append(_Axis(new=True, length=1))
            continue
        parsed.append(_parse_one(x, item, axis))
        axis += 1
    return parsed


def _parse_one(x: Node, item: Any, axis: int) -> _Axis:
    extent = x.shape[axis]
    if isinstance(item, slice):
        start, stop, step = (_slice_part(p) for p in (item.start, item.stop, item.step))
        if step == 0:
            raise GlaIndexError("GLA0322", "the step of a slice is 0", labels=labels(""), help="use a step of 1 or -1")
        first, last, by = slice(start, stop, step).indices(extent)
        length = len(range(first, last, by))
        return _Axis(first if length else 0, by, length)
    if isinstance(item, Node):
        if item.dtype.kind == "b":
            raise _mask_error(x, item)
        if is_constant(item) and not item.shape:
            item = int(constant_value(item))
        elif item.dtype.kind in "iu":
            return _Axis(index=_within(cast(item, dtypes.int64), extent, x, axis))
        else:
            raise DtypeError(
                "GLA0323",
                f"an index must be an integer, not {item.type}",
                labels=labels("", (str(item.type), item)),
                help="cast it: astype(i, 'int64')",
            )
    if isinstance(item, (bool, np.bool_)):
        raise _mask_error(x, constant(bool(item)))
    if isinstance(item, (list, np.ndarray)):
        values = np.asarray(item)
        if values.dtype.kind == "b":
            raise _mask_error(x, constant(True))
        if values.dtype.kind not in "iu" and values.size:
            raise DtypeError(
                "GLA0323",
                f"an index must be an integer, not an array of {values.dtype}",
                labels=labels(""),
                help="cast it to integers first",
            )
        values = values.astype(np.int64)
        _check_range(x, axis, values)
        return _Axis(index=array_node(np.where(values < 0, values + extent, values)))
    try:
        position = operator.index(item)
    except TypeError:
        raise DtypeError(
            "GLA0323",
            f"cannot index {x.type} with a {type(item).__name__}",
            labels=labels(""),
            help="use integers, slices, `...`, None or integer arrays",
        ) from None
    _check_range(x, axis, np.asarray(position))
    return _Axis(position % extent, 1, 1, drop=True)


def _slice_part(part: Any) -> int | None:
    if part is None:
        return None
    if isinstance(part, Node):
        if is_constant(part):
            return int(constant_value(part))
        raise TraceError(
            "GLA0401",
            "a slice bound is computed at run time: the shape would depend on it",
            labels=labels("", (str(part.type), part)),
            help='make it static: static=("n",), or index with start + arange(length)',
        )
    try:
        return operator.index(part)
    except TypeError:
        raise DtypeError("GLA0323", f"a slice bound must be an integer, not {part!r}", labels=labels("")) from None


def _check_range(x: Node, axis: int, values: np.ndarray) -> None:
    extent = x.shape[axis]
    bad = values[(values < -extent) | (values >= extent)]
    if bad.size:
        raise GlaIndexError(
            "GLA0324",
            f"index {int(bad.ravel()[0])} is out of range for axis {axis} of {x.type}, whose extent is {extent}",
            labels=labels("", (str(x.type), x)),
            help=f"use -{extent}..{extent - 1}",
        )


def _within(index: Node, extent: int, x: Node, axis: int) -> Node:
    """A run-time index with negative values counted from the end; constants inside a small stack are checked now."""
    leaves = index.operands if index.op == "concat" else ()
    values = [
        constant_value(n.operands[0] if n.op == "reshape" else n)
        for n in leaves
        if is_constant(n) or (n.op == "reshape" and is_constant(n.operands[0]))
    ]
    if values and len(values) == len(leaves):
        numbers = np.asarray(values, np.int64)
        _check_range(x, axis, numbers)
        return reshape(array_node(np.where(numbers < 0, numbers + extent, numbers)), index.shape)
    if index.op in ("iota", "argreduce"):
        return index
    return apply("where", apply("less", index, 0), apply("add", index, constant(extent, literal=False)), index)


def _mask_error(x: Node, mask: Node) -> TraceError:
    return TraceError(
        "GLA0402",
        f"the shape of {x.type} indexed by a mask of {mask.type} depends on values",
        labels=labels("", (str(mask.type), mask)),
        help="use where(mask, x, other), or a reduction: sum(where(mask, x, 0))",
    )


def getitem(x: Operand, key: Any) -> Node:
    """`x[key]`."""
    node = as_node(x)
    plan = _parse(node, key)
    basic = _basic(node, plan)
    advanced = [p for p in plan if p.index is not None]
    if not advanced:
        return reshape(basic, _kept_shape(plan))
    inner, axes, place, indices = _advanced(basic, plan)
    shape = indices[0].shape
    rest = [n for k, n in enumerate(inner.shape) if k not in axes]
    picked = make("gather", (inner, *indices), {"axes": axes}, Type(node.dtype, (*shape, *rest)), here)
    if place == 0:
        return picked
    n, s = len(picked.shape), len(shape)
    return permute(picked, (*range(s, s + place), *range(s), *range(s + place, n)))


def _basic(x: Node, plan: list[_Axis]) -> Node:
    """x cut by the slices and integers of the plan (dropped axes stay with extent 1; indexed axes stay whole)."""
    real = [p for p in plan if not p.new]
    starts = [0 if p.index is not None else p.start for p in real]
    steps = [1 if p.index is not None else p.step for p in real]
    lengths = [n if p.index is not None else p.length for p, n in zip(real, x.shape)]
    return take_slice(x, starts, steps, lengths)


def _kept_shape(plan: list[_Axis]) -> tuple[int, ...]:
    return tuple(p.length for p in plan if not p.drop)


def _advanced(basic: Node, plan: list[_Axis]) -> tuple[Node, tuple[int, ...], int, list[Node]]:
    """(array with only kept axes, its indexed axes, where the indices' shape goes, index nodes of one shape).

    As in NumPy, integers beside index arrays count as index arrays, and the result's place is the first of them when
    they stand side by side, else the front.
    """
    has_arrays = any(p.index is not None and p.index.shape for p in plan)
    positions = [k for k, p in enumerate(plan) if p.index is not None or (p.drop and has_arrays)]
    together = positions == list(range(positions[0], positions[0] + len(positions)))
    shape: tuple[int, ...] = ()
    for p in plan:
        if p.index is not None:
            joined = broadcast_shapes(shape, p.index.shape)
            if joined is None:
                raise GlaIndexError(
                    "GLA0325",
                    f"index arrays of shapes {shape} and {p.index.shape} do not broadcast",
                    labels=labels(""),
                    help="give them one shape",
                )
            shape = joined
    kept, axes, indices, place = [], [], [], 0
    real_axis = 0
    for k, p in enumerate(plan):
        if p.new:
            kept.append(1)
        elif p.index is not None:
            axes.append(len(kept))
            kept.append(basic.shape[real_axis])
            indices.append(broadcast(p.index, shape))
        elif not p.drop:
            kept.append(p.length)
        real_axis += not p.new
        if together and k < positions[0] and not p.drop:
            place += 1
    return reshape(basic, tuple(kept)), tuple(axes), place if together else 0, indices


def check_no_narrowing(target: Node, value: Node, what: str) -> Node:
    """`value` in target's dtype; DtypeError when that would narrow it."""
    dtype, weak = promote_operands(what, (target, value))
    if not weak and dtype is not target.dtype:
        raise DtypeError(
            "GLA0209",
            f"cannot {what} {value.type} to {target.type}: it would be narrowed",
            labels=labels("", (str(value.type), value), (str(target.type), target)),
            help=f"cast it: astype(value, '{target.dtype}')",
        )
    return cast(value, target.dtype)


def setitem(x: Node, key: Any, value: Operand, mode: str = "set") -> Node:
    """The array `x` with `x[key]` replaced by `value` (broadcast, never narrowed); mode "add" sums into it, repeated indices too."""
    plan = _parse(x, key)
    value = check_no_narrowing(x, as_node(value), "assign")
    real = [p for p in plan if not p.new]
    starts = tuple(0 if p.index is not None else p.start for p in real)
    steps = tuple(1 if p.index is not None else p.step for p in real)
    basic = _basic(x, plan)
    if any(p.index is not None for p in plan):
        region = reshape(_scattered(x, basic, plan, value, mode), basic.shape)
    else:
        region = reshape(_broadcast_value(x, value, _kept_shape(plan)), basic.shape)
        if mode == "add":
            region = apply("add", basic, region)
    if region.shape == x.shape and all(s == 0 for s in starts) and all(s == 1 for s in steps):
        return region
    return make("update", (x, region), {"starts": starts, "steps": steps}, Type(x.dtype, x.shape), here)


def _scattered(x: Node, basic: Node, plan: list[_Axis], value: Node, mode: str) -> Node:
    inner, axes, place, indices = _advanced(basic, plan)
    shape = indices[0].shape
    rest = [n for k, n in enumerate(inner.shape) if k not in axes]
    selected = (*rest[:place], *shape, *rest[place:])
    value = _broadcast_value(x, value, selected)
    if place:
        s = len(shape)
        value = permute(value, (*range(place, place + s), *range(place), *range(place + s, len(selected))))
    return make("scatter", (inner, value, *indices), {"axes": axes, "mode": mode}, inner.type, here)


def _broadcast_value(x: Node, value: Node, shape: tuple[int, ...]) -> Node:
    while len(value.shape) > len(shape) and value.shape[0] == 1:
        value = reshape(value, value.shape[1:])
    if broadcast_shapes(value.shape, shape) != shape:
        raise _assign_shape_error(x, value, shape)
    return broadcast(value, shape)


def _assign_shape_error(x: Node, value: Node, shape: tuple[int, ...]) -> Exception:
    from gla.errors import ShapeError

    return ShapeError(
        "GLA0314",
        f"cannot assign {value.type} to a part of shape {shape} of {x.type}",
        labels=labels("", (str(value.type), value), (str(x.type), x)),
        help="the value must broadcast to the part",
    )


def take(x: Operand, indices: Any, axis: int | None = None) -> Node:
    """Elements at `indices` along `axis` (flattened without)."""
    from gla.ir.functions.shape import normalise_axis

    node = as_node(x)
    if axis is None:
        node, axis = reshape(node, (-1,)), 0
    axis = normalise_axis(axis, len(node.shape), node)
    return getitem(node, (slice(None),) * axis + (indices,))
