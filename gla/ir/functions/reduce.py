"""Reductions and running sums. Their order is fixed by length and dtype alone (ir/ops/order.py).

float16, bfloat16 and float32 accumulate in float32, blocked; bool sums count in int64; means of integers are floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod as product

from gla import dtypes
from gla.dtypes import DType
from gla.errors import DtypeError, ShapeError
from gla.ir.builder import Operand, apply, as_node, cast, constant, default_float
from gla.ir.functions.elementwise import where
from gla.ir.functions.shape import normalise_axes, normalise_axis, permute, reshape
from gla.ir.node import Node, make
from gla.ir.spans import here, labels
from gla.ir.types import Type

Axis = int | Sequence[int] | None
HALF = (dtypes.float16, dtypes.bfloat16)


def _strong(x: Operand) -> Node:
    node = as_node(x)
    return cast(node, node.dtype) if node.type.weak else node


def _reduce(kind: str, x: Node, axes: tuple[int, ...]) -> Node:
    if not axes:
        return x
    shape = tuple(n for k, n in enumerate(x.shape) if k not in axes)
    return make("reduce", (x,), {"kind": kind, "axes": axes}, Type(x.dtype, shape), here)


def _keep(result: Node, x: Node, axes: tuple[int, ...], keepdims: bool) -> Node:
    return reshape(result, tuple(1 if k in axes else n for k, n in enumerate(x.shape))) if keepdims else result


def _accumulated(kind: str, x: Node, axes: tuple[int, ...], dtype: DType) -> Node:
    """The reduction in the dtype that it accumulates in, rounded once to `dtype`."""
    wide = dtypes.float32 if dtype in HALF else dtype
    return cast(_reduce(kind, cast(x, wide), axes), dtype)


def _sum_dtype(x: Node, dtype: DType | None) -> DType:
    """As the Array API: small integers count in int64 or uint64, floats stay."""
    if dtype is not None:
        return dtype
    if x.dtype.kind in "bi":
        return dtypes.int64
    return dtypes.uint64 if x.dtype.kind == "u" else x.dtype


def sum(x: Operand, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False) -> Node:
    """Sum over `axis` (all without). float16/bfloat16/float32 accumulate in float32; the sum of nothing is 0."""
    node = _strong(x)
    axes = normalise_axes(axis, node)
    return _keep(_accumulated("sum", node, axes, _sum_dtype(node, dtype)), node, axes, keepdims)


def prod(x: Operand, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False) -> Node:
    """Product over `axis`; the product of nothing is 1."""
    node = _strong(x)
    axes = normalise_axes(axis, node)
    return _keep(_accumulated("prod", node, axes, _sum_dtype(node, dtype)), node, axes, keepdims)


def _extreme(kind: str, x: Operand, axis: Axis, keepdims: bool) -> Node:
    node = _strong(x)
    axes = normalise_axes(axis, node)
    if node.dtype.kind == "c":
        raise DtypeError(
            "GLA0208",
            f"{kind} is not defined for {node.type}: complex numbers have no order",
            labels=labels("", (str(node.type), node)),
            help=f"take abs(x) or real(x) before {kind}",
        )
    empty = [a for a in axes if node.shape[a] == 0]
    if empty:
        raise ShapeError(
            "GLA0315",
            f"{kind} of {node.type} over axis {empty[0]}, which is empty, has no value",
            labels=labels("", (str(node.type), node)),
            help="reduce over an axis that has elements",
        )
    if node.dtype.kind == "b":
        return _keep(_reduce("any" if kind == "max" else "all", node, axes), node, axes, keepdims)
    if node.dtype in HALF:
        return _keep(cast(_reduce(kind, cast(node, dtypes.float32), axes), node.dtype), node, axes, keepdims)
    return _keep(_reduce(kind, node, axes), node, axes, keepdims)


def max(x: Operand, *, axis: Axis = None, keepdims: bool = False) -> Node:
    """Greatest element; NaN wins. An empty axis is ShapeError."""
    return _extreme("max", x, axis, keepdims)


def min(x: Operand, *, axis: Axis = None, keepdims: bool = False) -> Node:
    """Least element; NaN wins. An empty axis is ShapeError."""
    return _extreme("min", x, axis, keepdims)


def _truth(kind: str, x: Operand, axis: Axis, keepdims: bool) -> Node:
    node = _strong(x)
    if node.dtype.kind != "b":
        node = apply("not_equal", node, constant(0, node.dtype))
    axes = normalise_axes(axis, node)
    return _keep(_reduce(kind, node, axes), node, axes, keepdims)


def any(x: Operand, *, axis: Axis = None, keepdims: bool = False) -> Node:
    """Whether any element is true (non-zero); of nothing, False."""
    return _truth("any", x, axis, keepdims)


def all(x: Operand, *, axis: Axis = None, keepdims: bool = False) -> Node:
    """Whether all elements are true (non-zero); of nothing, True."""
    return _truth("all", x, axis, keepdims)


def _count(x: Node, axes: tuple[int, ...]) -> int:
    return product(x.shape[a] for a in axes)


def _float_dtype(x: Node) -> DType:
    return x.dtype if x.dtype.kind in "fc" else default_float.get()


def mean(x: Operand, *, axis: Axis = None, keepdims: bool = False) -> Node:
    """Arithmetic mean; integers and bool give the default float, float16/bfloat16 are divided before they are rounded."""
    node = _strong(x)
    axes = normalise_axes(axis, node)
    dtype = _float_dtype(node)
    wide = dtypes.float32 if dtype in HALF else dtype
    total = _reduce("sum", cast(node, wide), axes)
    count = constant(_count(node, axes), dtypes.real_of(wide), literal=False)
    return _keep(cast(apply("divide", total, cast(count, wide)), dtype), node, axes, keepdims)


def var(x: Operand, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Node:
    """Mean squared distance from the mean, divided by n - correction; two passes, as NumPy."""
    node = _strong(x)
    axes = normalise_axes(axis, node)
    dtype = _float_dtype(node)
    wide = dtypes.float32 if dtype in HALF else dtype
    values = cast(node, wide)
    distance = apply("subtract", values, mean(values, axis=axes, keepdims=True))
    squares = apply("multiply", distance, distance)
    if wide.kind == "c":
        squares = apply("add", *(apply("multiply", part, part) for part in (apply("real", distance), apply("imag", distance))))
    divisor = constant(float(builtin_max(_count(node, axes) - correction, 0.0)), dtypes.real_of(wide), literal=False)
    result = apply("divide", _reduce("sum", squares, axes), divisor)
    return _keep(cast(result, dtypes.real_of(dtype)), node, axes, keepdims)


def builtin_max(a: float, b: float) -> float:
    return a if a > b else b


def std(x: Operand, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Node:
    """Square root of `var`."""
    return apply("sqrt", var(x, axis=axis, correction=correction, keepdims=keepdims))


def _arg(kind: str, x: Operand, axis: int | None, keepdims: bool) -> Node:
    node = _strong(x)
    if node.dtype.kind == "c":
        raise DtypeError(
            "GLA0208",
            f"{kind} is not defined for {node.type}: complex numbers have no order",
            labels=labels("", (str(node.type), node)),
            help=f"take abs(x) before {kind}",
        )
    source = node
    ndim = len(node.shape)
    if axis is None:
        node, axis = reshape(node, (product(node.shape),)), 0
    else:
        axis = normalise_axis(axis, ndim, node)
    if node.shape[axis] == 0:
        raise ShapeError(
            "GLA0315",
            f"{kind} of {source.type} over an empty axis has no value",
            labels=labels("", (str(source.type), source)),
            help="reduce over an axis that has elements",
        )
    if node.dtype in HALF:
        node = cast(node, dtypes.float32)
    elif node.dtype.kind == "b":
        node = cast(node, dtypes.uint8)
    shape = tuple(n for k, n in enumerate(node.shape) if k != axis)
    result = make("argreduce", (node,), {"kind": kind, "axis": axis}, Type(dtypes.int64, shape), here)
    if not keepdims:
        return result
    return reshape(
        result,
        tuple(1 if (node is not source and len(node.shape) != ndim) or k == axis else n for k, n in enumerate(source.shape)),
    )


def argmax(x: Operand, *, axis: int | None = None, keepdims: bool = False) -> Node:
    """Index of the greatest element as int64: the first of equals, the first NaN; without axis, into the flattened array."""
    return _arg("argmax", x, axis, keepdims)


def argmin(x: Operand, *, axis: int | None = None, keepdims: bool = False) -> Node:
    """Index of the least element as int64: the first of equals, the first NaN; without axis, into the flattened array."""
    return _arg("argmin", x, axis, keepdims)


def count_nonzero(x: Operand, *, axis: Axis = None, keepdims: bool = False) -> Node:
    node = _strong(x)
    flags = node if node.dtype.kind == "b" else apply("not_equal", node, constant(0, node.dtype))
    return sum(flags, axis=axis, keepdims=keepdims)


def _scan(kind: str, x: Operand, axis: int | None, dtype: DType) -> Node:
    node = _strong(x)
    if axis is None:
        if len(node.shape) > 1:
            node = reshape(node, (product(node.shape),))
        elif not node.shape:
            node = reshape(node, (1,))
        axis = 0
    axis = normalise_axis(axis, len(node.shape), node)
    wide = dtypes.float32 if dtype in HALF else dtype
    values = cast(node, wide)
    last = len(node.shape) - 1
    order = [k for k in range(last + 1) if k != axis] + [axis]
    moved = permute(values, order)
    result = make("scan", (moved,), {"kind": kind, "axis": last}, moved.type, here)
    back = [order.index(k) for k in range(last + 1)]
    return cast(permute(result, back), dtype)


def cumulative_sum(x: Operand, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False) -> Node:
    """Running sum along `axis` (flattened without); `include_initial` puts a 0 in front."""
    node = _strong(x)
    result = _scan("sum", node, axis, _sum_dtype(node, dtype))
    return _with_initial(result, axis, 0) if include_initial else result


def cumulative_prod(x: Operand, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False) -> Node:
    """Running product along `axis` (flattened without); `include_initial` puts a 1 in front."""
    node = _strong(x)
    result = _scan("prod", node, axis, _sum_dtype(node, dtype))
    return _with_initial(result, axis, 1) if include_initial else result


def cumulative_max(x: Operand, *, axis: int | None = None) -> Node:
    """Running maximum along `axis` (flattened without); NaN stays once met."""
    node = _strong(x)
    return _scan("max", node, axis, node.dtype)


def cumulative_min(x: Operand, *, axis: int | None = None) -> Node:
    """Running minimum along `axis` (flattened without); NaN stays once met."""
    node = _strong(x)
    return _scan("min", node, axis, node.dtype)


def _with_initial(x: Node, axis: int | None, value: int) -> Node:
    from gla.ir.functions.shape import concat, full_like_constant

    place = normalise_axis(axis or 0, len(x.shape), x)
    first = full_like_constant(value, x.dtype, tuple(1 if k == place else n for k, n in enumerate(x.shape)))
    return concat([first, x], place)


def norm(x: Operand, *, axis: Axis = None, keepdims: bool = False) -> Node:
    """Euclidean length: the square root of the sum of squared magnitudes."""
    node = _strong(x)
    if node.dtype.kind not in "fc":
        node = cast(node, default_float.get())
    magnitude = apply("abs", node) if node.dtype.kind == "c" else node
    return apply("sqrt", sum(apply("multiply", magnitude, magnitude), axis=axis, keepdims=keepdims))


def logsumexp(x: Operand, *, axis: Axis = None, keepdims: bool = False) -> Node:
    """log(sum(exp(x))), shifted by the maximum so that nothing overflows; infinite maxima are not shifted by."""
    node = _strong(x)
    if node.dtype.kind != "f":
        node = cast(node, default_float.get())
    top = max(node, axis=axis, keepdims=True)
    safe = where(apply("isfinite", top), top, constant(0, node.dtype))
    total = apply("log", sum(apply("exp", apply("subtract", node, safe)), axis=axis, keepdims=True))
    result = apply("add", total, safe)
    if keepdims:
        return result
    axes = normalise_axes(axis, node)
    return reshape(result, tuple(n for k, n in enumerate(node.shape) if k not in axes))
