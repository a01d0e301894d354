"""Products of matrices and vectors, with NumPy's batch rules. Multiply-add inside them is fused by definition."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from gla.errors import DtypeError, ShapeError
from gla.ir.builder import Operand, apply, as_node, broadcast, broadcast_shapes, cast, promote_operands
from gla.ir.functions.elementwise import conj
from gla.ir.functions.reduce import sum as sum_
from gla.ir.functions.shape import expand_dims, normalise_axis, permute, reshape
from gla.ir.node import Node, make
from gla.ir.spans import here, labels
from gla.ir.types import Type


def matmul(a: Operand, b: Operand) -> Node:
    """a @ b: (..., m, k) @ (..., k, n) -> (..., m, n); vectors as in NumPy; leading axes broadcast. 0-d operands and bool are refused."""
    x, y = as_node(a), as_node(b)
    if not x.shape or not y.shape:
        raise ShapeError(
            "GLA0316",
            f"matmul takes no 0-d operand: {x.type} @ {y.type}",
            labels=labels("", (str(x.type), x), (str(y.type), y)),
            help="use `*` to scale",
        )
    dtype, _ = promote_operands("matmul", (x, y))
    if dtype.kind == "b":
        raise DtypeError(
            "GLA0207",
            f"`@` is not defined for bool: {x.type} @ {y.type}",
            labels=labels("", (str(x.type), x), (str(y.type), y)),
            help="cast first: astype(x, 'int64') counts, astype(x, 'float32') is fastest",
        )
    inner, outer = x.shape[-1], y.shape[-2] if len(y.shape) > 1 else y.shape[0]
    batch = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    if inner != outer or batch is None:
        what = (
            f"{inner} columns against {outer} rows" if inner != outer else f"batch axes {x.shape[:-2]} against {y.shape[:-2]}"
        )
        raise ShapeError(
            "GLA0317",
            f"cannot multiply {x.type} @ {y.type}: {what}",
            labels=labels(f"{x.type} @ {y.type}", (str(x.type), x), (str(y.type), y)),
            help="the last axis of the left and the second last of the right must be equal; transpose with .T or .mT",
        )
    left = cast(x, dtype) if len(x.shape) > 1 else expand_dims(cast(x, dtype), 0)
    right = cast(y, dtype) if len(y.shape) > 1 else expand_dims(cast(y, dtype), 1)
    left = broadcast(left, (*batch, *left.shape[-2:]))
    right = broadcast(right, (*batch, *right.shape[-2:]))
    shape = (*batch, left.shape[-2], right.shape[-1])
    product = make("matmul", (left, right), {}, Type(dtype, shape), here)
    keep = [*batch, *([left.shape[-2]] if len(x.shape) > 1 else []), *([right.shape[-1]] if len(y.shape) > 1 else [])]
    return reshape(product, keep)


def vecdot(a: Operand, b: Operand, *, axis: int = -1) -> Node:
    """Sum of conj(a) * b over `axis`, leading axes broadcast; multiply-add fused."""
    x, y = as_node(a), as_node(b)
    if not x.shape or not y.shape:
        raise ShapeError("GLA0316", f"vecdot takes no 0-d operand: {x.type} and {y.type}", labels=labels(""), help="use `*`")
    i, j = normalise_axis(axis, len(x.shape), x), normalise_axis(axis, len(y.shape), y)
    x = permute(x, [k for k in range(len(x.shape)) if k != i] + [i])
    y = permute(y, [k for k in range(len(y.shape)) if k != j] + [j])
    if x.shape[-1] != y.shape[-1]:
        raise ShapeError(
            "GLA0317",
            f"vecdot of {x.type} and {y.type}: {x.shape[-1]} against {y.shape[-1]} elements",
            labels=labels("", (str(x.type), x), (str(y.type), y)),
            help="the summed axes must be equal",
        )
    return reshape(matmul(expand_dims(conj(x), -2), expand_dims(y, -1)), broadcast_shapes(x.shape[:-1], y.shape[:-1]) or ())


def dot(a: Operand, b: Operand) -> Node:
    """Inner product of vectors, matrix product of matrices (no conjugation)."""
    return matmul(a, b)


def tensordot(a: Operand, b: Operand, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Node:
    """Sum over pairs of axes: the last `axes` of a with the first of b, or the listed ones."""
    x, y = as_node(a), as_node(b)
    if isinstance(axes, int):
        pairs = (list(range(len(x.shape) - axes, len(x.shape))), list(range(axes)))
    else:
        first, second = axes
        pairs = ([normalise_axis(k, len(x.shape), x) for k in first], [normalise_axis(k, len(y.shape), y) for k in second])
    if [x.shape[k] for k in pairs[0]] != [y.shape[k] for k in pairs[1]]:
        raise ShapeError(
            "GLA0317",
            f"tensordot of {x.type} over axes {pairs[0]} and {y.type} over axes {pairs[1]}: extents differ",
            labels=labels("", (str(x.type), x), (str(y.type), y)),
            help="paired axes must have equal extents",
        )
    free_x = [k for k in range(len(x.shape)) if k not in pairs[0]]
    free_y = [k for k in range(len(y.shape)) if k not in pairs[1]]
    inner = prod(x.shape[k] for k in pairs[0])
    left = reshape(permute(x, free_x + pairs[0]), (prod(x.shape[k] for k in free_x), inner))
    right = reshape(permute(y, pairs[1] + free_y), (inner, prod(y.shape[k] for k in free_y)))
    return reshape(matmul(left, right), [x.shape[k] for k in free_x] + [y.shape[k] for k in free_y])


def outer(a: Operand, b: Operand) -> Node:
    """Products of all pairs of two vectors."""
    x, y = as_node(a), as_node(b)
    return apply("multiply", expand_dims(x, -1), expand_dims(y, 0))


def trace(x: Operand, *, offset: int = 0) -> Node:
    """Sum of the diagonal of the last two axes."""
    return sum_(diagonal(x, offset=offset), axis=-1)


def diagonal(x: Operand, *, offset: int = 0) -> Node:
    """The diagonal of the last two axes, `offset` above the main one."""
    from gla.ir.functions.create import arange
    from gla.ir.functions.index import getitem

    node = as_node(x)
    rows, columns = node.shape[-2:]
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    index = arange(length)
    return getitem(node, (Ellipsis, apply("add", index, max(-offset, 0)), apply("add", index, max(offset, 0))))
