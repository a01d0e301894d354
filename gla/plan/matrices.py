"""Matrix operands as the library reads them: a stored array, an offset and strides, through views that move nothing.

Transposes, slices with positive steps, broadcasts of batches and reshapes that keep strides are free; what cannot be
said in a leading dimension, a transpose flag and one batch stride is stored first.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod

from gla.device.base import Matmul
from gla.ir.node import Node


@dataclass(frozen=True, slots=True)
class Operand:
    """A stack of matrices in `base`. Counts are elements."""

    base: Node
    offset: int
    leading: int
    stride: int
    transposed: bool


def operand(node: Node) -> Operand:
    """How the library reads `node`, (*batch, rows, columns): through views of its base where possible."""
    chain = [node]
    while chain[-1].op in ("transpose", "slice", "broadcast", "reshape"):
        chain.append(chain[-1].operands[0])
    for length in range(len(chain), 0, -1):
        found = _read(chain[:length])
        if found is not None:
            return found
    raise AssertionError("a stored matrix is readable")


def _read(chain: list[Node]) -> Operand | None:
    """`chain`: the matrix first, then what it is a view of, the base last."""
    base = chain[-1]
    offset, strides = 0, _row_major(base.shape)
    for view in reversed(chain[:-1]):
        source = view.operands[0]
        moved = _through(view, source.shape, strides)
        if moved is None:
            return None
        offset, strides = offset + moved[0], moved[1]
    return _matrix(base, offset, chain[0].shape, strides)


def _row_major(shape: tuple[int, ...]) -> list[int]:
    out, step = [], 1
    for extent in reversed(shape):
        out.append(step)
        step *= extent
    return out[::-1]


def _through(view: Node, shape: tuple[int, ...], strides: list[int]) -> tuple[int, list[int]] | None:
    match view.op:
        case "transpose":
            return 0, [strides[axis] for axis in view.attr("axes")]
        case "slice":
            starts, steps = view.attr("starts"), view.attr("steps")
            moved = [stride * step for stride, step in zip(strides, steps)]
            if any(step < 0 for step, extent in zip(steps, view.shape) if extent > 1):
                return None
            return sum(start * stride for start, stride in zip(starts, strides)), moved
        case "broadcast":
            lead = len(view.shape) - len(shape)
            kept = [0 if old != new else stride for old, new, stride in zip(shape, view.shape[lead:], strides)]
            return 0, [0] * lead + kept
        case _:
            cut = _reshaped(shape, strides, view.shape)
            return None if cut is None else (0, cut)


def _reshaped(old: tuple[int, ...], strides: list[int], new: tuple[int, ...]) -> list[int] | None:
    """Strides of the reshaped array without a copy, or None. Runs of axes that lie contiguously are cut anew."""
    if 0 in new:
        return None
    axes = [(n, s) for n, s in zip(old, strides) if n != 1]
    out: list[int] = []
    rest, k = 1, len(axes) - 1
    stride, size = 1, 1
    for extent in reversed(new):
        if extent == 1:
            out.append(0)
            continue
        if rest == 1:
            if k < 0:
                return None
            size, stride = axes[k]
            k -= 1
            rest = size
        while rest % extent or rest < extent:
            if k < 0 or axes[k][1] != stride * size:
                return None
            size *= axes[k][0]
            rest *= axes[k][0]
            k -= 1
        out.append(stride * (size // rest))
        rest //= extent
    return out[::-1] if rest == 1 and k < 0 else None


def _matrix(base: Node, offset: int, shape: tuple[int, ...], strides: list[int]) -> Operand | None:
    *batch, rows, columns = shape
    *batch_strides, row, column = strides
    stride = _batch_stride(batch, batch_strides)
    if stride is None:
        return None
    if (column == 1 or columns == 1) and (rows == 1 or row >= columns):
        leading = row if rows > 1 else max(columns, 1)
        return Operand(base, offset, leading, stride, False)
    if (row == 1 or rows == 1) and (columns == 1 or column >= rows):
        leading = column if columns > 1 else max(rows, 1)
        return Operand(base, offset, leading, stride, True)
    return None


def _batch_stride(extents: list[int], strides: list[int]) -> int | None:
    """The one stride of all batch axes taken as one."""
    axes = [(n, s) for n, s in zip(extents, strides) if n != 1]
    if not axes:
        return 0
    for (_, outer), (n, inner) in pairwise(axes):
        if outer != n * inner:
            return None
    return axes[-1][1]


def call(node: Node, a: Operand, b: Operand) -> Matmul:
    """The library call that computes the matmul node."""
    *batch, m, n = node.shape
    k = node.operands[0].shape[-1]
    return Matmul(
        node.dtype,
        prod(batch),
        m,
        n,
        k,
        a.leading,
        b.leading,
        n,
        a.stride,
        b.stride,
        m * n,
        a.transposed,
        b.transposed,
    )
