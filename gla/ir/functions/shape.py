"""Shapes: reshape, transpose, joining, rolling. All are views (index maps) that fuse into whatever reads them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from gla.dtypes import DType
from gla.errors import GlaIndexError, ShapeError
from gla.ir.builder import Operand, as_node, broadcast, broadcast_shapes, cast, constant, promote_operands, shape_error
from gla.ir.node import Node, make
from gla.ir.spans import here, labels
from gla.ir.types import Type

MODES = ("periodic", "edge", "reflect", "symmetric", "constant")


def normalise_axis(axis: int, ndim: int, x: Node, name: str = "axis") -> int:
    """`axis` as a number in 0..ndim-1; GlaIndexError naming the axis and the array otherwise."""
    try:
        axis = operator.index(axis)
    except TypeError:
        raise ShapeError("GLA0302", f"{name} must be an integer, not {axis!r}", labels=labels("")) from None
    if not -ndim <= axis < ndim:
        raise AxisError(
            "GLA0303",
            f"{name} {axis} is out of range for {x.type}, which has {ndim} axes",
            labels=labels("", (str(x.type), x)),
            help=f"use {name}=-{ndim}..{ndim - 1}" if ndim else "a 0-d value has no axes",
        )
    return axis % ndim


class AxisError(ShapeError, GlaIndexError):
    """An axis that the array does not have: both a ValueError and an IndexError, as NumPy's."""


def normalise_axes(axes: int | Sequence[int] | None, x: Node) -> tuple[int, ...]:
    """Sorted, distinct axes; None means all."""
    ndim = len(x.shape)
    if axes is None:
        return tuple(range(ndim))
    listed = (axes,) if isinstance(axes, (int, np.integer)) else tuple(axes)
    found = tuple(sorted(normalise_axis(a, ndim, x) for a in listed))
    if len(set(found)) != len(found):
        raise ShapeError(
            "GLA0304", f"axis {axes} names an axis twice", labels=labels("", (str(x.type), x)), help="name each axis once"
        )
    return found


def broadcast_to(x: Operand, shape: tuple[int, ...]) -> Node:
    node = as_node(x)
    if broadcast_shapes(node.shape, shape) != tuple(shape):
        raise ShapeError(
            "GLA0301",
            f"cannot broadcast {node.type} to shape {tuple(shape)}",
            labels=labels("", (str(node.type), node)),
            help="extents must be equal, or 1 in the array; align from the right",
        )
    return broadcast(node, tuple(shape))


def broadcast_arrays(*operands: Operand) -> list[Node]:
    nodes = [as_node(x) for x in operands]
    shape: tuple[int, ...] = ()
    for node in nodes:
        joined = broadcast_shapes(shape, node.shape)
        if joined is None:
            raise shape_error("broadcast_arrays", operands)
        shape = joined
    return [broadcast(node, shape) for node in nodes]


def reshape(x: Operand, shape: int | Sequence[int]) -> Node:
    """The same elements in row-major order. One extent may be -1."""
    node = as_node(x)
    wanted = [operator.index(n) for n in ((shape,) if isinstance(shape, (int, np.integer)) else shape)]
    size = prod(node.shape)
    if wanted.count(-1) == 1:
        rest = prod(n for n in wanted if n != -1)
        if rest and size % rest == 0:
            wanted[wanted.index(-1)] = size // rest
    if any(n < 0 for n in wanted) or prod(wanted) != size:
        raise ShapeError(
            "GLA0335",
            f"cannot reshape {node.type} with {size} elements to {tuple(shape) if not isinstance(shape, int) else shape}",
            labels=labels("", (str(node.type), node)),
            help="the products of the extents must be equal; one extent may be -1",
        )
    if tuple(wanted) == node.shape:
        return node
    return make("reshape", (node,), {}, Type(node.dtype, tuple(wanted), node.type.weak and not wanted), here)


def permute(x: Operand, axes: Sequence[int]) -> Node:
    node = as_node(x)
    order = tuple(normalise_axis(a, len(node.shape), node) for a in axes)
    if sorted(order) != list(range(len(node.shape))):
        raise ShapeError(
            "GLA0306",
            f"axes {tuple(axes)} is no permutation of the {len(node.shape)} axes of {node.type}",
            labels=labels(""),
            help="name every axis once",
        )
    if order == tuple(range(len(order))):
        return node
    return make("transpose", (node,), {"axes": order}, Type(node.dtype, tuple(node.shape[a] for a in order)), here)


def transpose(x: Operand) -> Node:
    """All axes reversed."""
    node = as_node(x)
    return permute(node, tuple(reversed(range(len(node.shape)))))


def matrix_transpose(x: Operand) -> Node:
    node = as_node(x)
    n = len(node.shape)
    if n < 2:
        raise ShapeError(
            "GLA0307",
            f"a matrix transpose needs two axes, {node.type} has {n}",
            labels=labels(""),
            help="use x[:, None] to make a column",
        )
    return permute(node, (*range(n - 2), n - 1, n - 2))


def moveaxis(x: Operand, source: int | Sequence[int], destination: int | Sequence[int]) -> Node:
    node = as_node(x)
    n = len(node.shape)
    src = [normalise_axis(a, n, node) for a in ((source,) if isinstance(source, int) else source)]
    dst = [normalise_axis(a, n, node) for a in ((destination,) if isinstance(destination, int) else destination)]
    if len(src) != len(dst) or len(set(src)) != len(src) or len(set(dst)) != len(dst):
        raise ShapeError(
            "GLA0306",
            f"moveaxis needs as many distinct sources as destinations, not {source} and {destination}",
            labels=labels(""),
        )
    order = [a for a in range(n) if a not in src]
    for d, s in sorted(zip(dst, src)):
        order.insert(d, s)
    return permute(node, order)


def expand_dims(x: Operand, axis: int | Sequence[int] = 0) -> Node:
    node = as_node(x)
    axes = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    n = len(node.shape) + len(axes)
    places = {normalise_axis(a, n, node) for a in axes}
    if len(places) != len(axes):
        raise ShapeError("GLA0304", f"axis {axis} names an axis twice", labels=labels(""))
    rest = iter(node.shape)
    return reshape(node, tuple(1 if k in places else next(rest) for k in range(n)))


def squeeze(x: Operand, axis: int | Sequence[int] | None = None) -> Node:
    node = as_node(x)
    axes = normalise_axes(axis, node) if axis is not None else tuple(k for k, n in enumerate(node.shape) if n == 1)
    for a in axes:
        if node.shape[a] != 1:
            raise ShapeError(
                "GLA0308",
                f"cannot squeeze axis {a} of {node.type}: its extent is {node.shape[a]}, not 1",
                labels=labels("", (str(node.type), node)),
            )
    return reshape(node, tuple(n for k, n in enumerate(node.shape) if k not in axes))


def take_slice(x: Node, starts: Sequence[int], steps: Sequence[int], lengths: Sequence[int]) -> Node:
    """Element start + step * idx along each axis; everything in range by construction."""
    lengths = tuple(lengths)
    if all(s == 0 for s in starts) and all(s == 1 for s in steps) and lengths == x.shape:
        return x
    return make("slice", (x,), {"starts": tuple(starts), "steps": tuple(steps)}, Type(x.dtype, lengths), here)


def flip(x: Operand, axis: int | Sequence[int] | None = None) -> Node:
    node = as_node(x)
    axes = normalise_axes(axis, node)
    starts = [max(n - 1, 0) if k in axes else 0 for k, n in enumerate(node.shape)]
    return take_slice(node, starts, [-1 if k in axes else 1 for k in range(len(node.shape))], node.shape)


def shift(x: Operand, offsets: Sequence[int], modes: Sequence[str], fill: Any = 0) -> Node:
    """Element idx is x[idx + offset], outside by mode: periodic, edge, reflect, symmetric or constant (`fill`, of x's dtype)."""
    node = as_node(x)
    if all(o == 0 for o in offsets) or 0 in node.shape:
        return node
    modes = tuple("edge" if o == 0 else m for o, m in zip(offsets, modes))
    bits = np.asarray(fill).astype(node.dtype.numpy).tobytes()
    return make("shift", (node,), {"offsets": tuple(offsets), "modes": modes, "fill": bits}, Type(node.dtype, node.shape), here)


def roll(x: Operand, shift_by: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Node:
    """Elements moved `shift_by` places along the axes, the last coming round to the front; without axis, in row-major order."""
    node = as_node(x)
    if axis is None:
        return reshape(roll(reshape(node, (-1,) if prod(node.shape) else (0,)), shift_by, 0), node.shape)
    axes = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    shifts = (shift_by,) * len(axes) if isinstance(shift_by, (int, np.integer)) else tuple(shift_by)
    if len(axes) != len(shifts):
        raise ShapeError("GLA0309", f"roll needs one shift per axis, not {shift_by} for axis {axis}", labels=labels(""))
    offsets = [0] * len(node.shape)
    for a, s in zip(axes, shifts):
        offsets[normalise_axis(a, len(node.shape), node)] -= int(s)
    offsets = [(o % n if n else 0) for o, n in zip(offsets, node.shape)]
    return shift(node, offsets, ["periodic"] * len(offsets))


def pad(x: Node, before: Sequence[int], after: Sequence[int], fill: Any = 0) -> Node:
    """A constant border of `fill`, in x's dtype."""
    bits = np.asarray(fill).astype(x.dtype.numpy).tobytes()
    shape = tuple(n + b + a for n, b, a in zip(x.shape, before, after))
    if shape == x.shape:
        return x
    return make("pad", (x,), {"before": tuple(before), "after": tuple(after), "fill": bits}, Type(x.dtype, shape), here)


def _common(name: str, operands: Sequence[Operand], dtype: DType | None = None) -> list[Node]:
    if not operands:
        raise ShapeError("GLA0310", f"{name} needs at least one array", labels=labels(""))
    if dtype is None:
        dtype, _ = promote_operands(name, tuple(operands))
    return [cast(x, dtype) for x in operands]


def concat(operands: Sequence[Operand], axis: int | None = 0) -> Node:
    """Arrays end to end along `axis`; None flattens them first."""
    nodes = _common("concat", operands)
    if axis is None:
        nodes, axis = [reshape(n, (prod(n.shape),)) for n in nodes], 0
    first = nodes[0]
    if not first.shape:
        raise ShapeError(
            "GLA0311",
            f"concat needs arrays of at least one axis, not {first.type}",
            labels=labels(""),
            help="use stack for scalars",
        )
    axis = normalise_axis(axis, len(first.shape), first)
    for other in nodes[1:]:
        if len(other.shape) != len(first.shape) or any(
            m != n for k, (m, n) in enumerate(zip(first.shape, other.shape)) if k != axis
        ):
            raise ShapeError(
                "GLA0312",
                f"cannot concat {first.type} and {other.type} along axis {axis}",
                labels=labels("", (str(first.type), first), (str(other.type), other)),
                help="all other extents must be equal",
            )
    if len(nodes) == 1:
        return nodes[0]
    shape = tuple(sum(n.shape[axis] for n in nodes) if k == axis else extent for k, extent in enumerate(first.shape))
    return make("concat", nodes, {"axis": axis}, Type(first.dtype, shape), here)


def stack(operands: Sequence[Operand], axis: int = 0) -> Node:
    """Arrays of one shape side by side along a new axis. Scalars broadcast to the others' shape only when all are 0-d."""
    nodes = _common("stack", operands)
    first = nodes[0]
    for other in nodes[1:]:
        if other.shape != first.shape:
            raise ShapeError(
                "GLA0313",
                f"cannot stack {first.type} and {other.type}",
                labels=labels("", (str(first.type), first), (str(other.type), other)),
                help="all arrays of a stack have one shape; broadcast_to(x, shape) makes it",
            )
    place = normalise_axis(axis, len(first.shape) + 1, first)
    return concat([expand_dims(n, place) for n in nodes], place)


def full_like_constant(value: Any, dtype: DType, shape: tuple[int, ...]) -> Node:
    """A constant of `dtype` in every place."""
    return broadcast(constant(value, dtype), shape)
