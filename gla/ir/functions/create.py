"""Arrays from nothing: constants, ranges, identity. Numbers in them count as sizes: a new one compiles no kernel."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from gla import dtypes
from gla.dtypes import DType
from gla.errors import DtypeError, RangeError, ShapeError
from gla.ir.builder import Operand, apply, as_node, broadcast, cast, constant, constant_value, default_float, is_constant
from gla.ir.node import Node, make
from gla.ir.spans import here, labels
from gla.ir.types import Type


def shape_of(shape: Any) -> tuple[int, ...]:
    """A shape from an integer or a sequence of integers; negative or fractional extents are refused."""
    items = shape if isinstance(shape, (tuple, list)) else (shape,)
    try:
        extents = tuple(operator.index(n) for n in items)
    except TypeError:
        raise ShapeError(
            "GLA0318",
            f"a shape is made of integers, not {shape!r}",
            labels=labels(""),
            help='make run-time sizes static: static=("n",)',
        ) from None
    if any(n < 0 for n in extents):
        raise ShapeError(
            "GLA0319", f"the shape {extents} has a negative extent", labels=labels(""), help="extents are 0 or more"
        )
    return extents


def full(shape: Any, value: Operand, dtype: DType | None = None) -> Node:
    """`value` in every place; without dtype, a Python float gives the default float, an integer int64."""
    node = as_node(value)
    if node.shape:
        raise ShapeError(
            "GLA0318",
            f"full takes a scalar, not {node.type}",
            labels=labels("", (str(node.type), node)),
            help="use broadcast_to(x, shape)",
        )
    if dtype is None:
        dtype = default_float.get() if node.type.weak and node.dtype.kind == "f" else node.dtype
    return broadcast(cast(value if not isinstance(value, Node) else node, dtype), shape_of(shape))


def zeros(shape: Any, dtype: DType | None = None) -> Node:
    return broadcast(constant(0, dtype or default_float.get()), shape_of(shape))


def ones(shape: Any, dtype: DType | None = None) -> Node:
    return broadcast(constant(1, dtype or default_float.get()), shape_of(shape))


def iota(n: int) -> Node:
    """0, 1, ..., n-1 as int64."""
    return make("iota", (), {}, Type(dtypes.int64, (n,)), here)


def range_length(start: Any, stop: Any, step: Any) -> int:
    """ceil((stop - start) / step): exact for integers, as NumPy for floats."""
    if all(isinstance(v, (int, np.integer)) for v in (start, stop, step)):
        return len(range(int(start), int(stop), int(step)))
    return max(0, math.ceil((stop - start) / step))


def _number(value: Any) -> Any:
    if isinstance(value, Node):
        if is_constant(value) and not value.shape:
            return constant_value(value).item()
        raise ShapeError(
            "GLA0318",
            f"the bounds of arange must be known when it is planned, not {value.type}",
            labels=labels("", (str(value.type), value)),
            help="use start + arange(n), or linspace, with a fixed n",
        )
    return value


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: DType | None = None) -> Node:
    """start, start + step, ... below stop. The length is ceil((stop - start) / step), as NumPy's; linspace gives exact ends."""
    start, stop, step = _number(start), _number(stop), _number(step)
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise RangeError("GLA0212", "the step of arange is 0", labels=labels(""), help="use linspace(start, stop, n)")
    length = range_length(start, stop, step)
    whole = all(isinstance(v, (int, np.integer)) for v in (start, stop, step))
    if dtype is None:
        dtype = dtypes.int64 if whole else default_float.get()
    index = cast(iota(length), dtypes.int64 if whole else dtypes.float64)
    if whole:
        values = index
        if step != 1:
            values = apply("multiply", values, constant(int(step), dtypes.int64, literal=False))
        if start != 0:
            values = apply("add", values, constant(int(start), dtypes.int64, literal=False))
        return cast(values, dtype)
    first, by = (constant(float(v), dtypes.float64, literal=False) for v in (start, step))
    return cast(apply("add", first, apply("multiply", index, by)), dtype)


def linspace(start: Operand, stop: Operand, n: int, dtype: DType | None = None, endpoint: bool = True) -> Node:
    """n values from start to stop; the last is `stop` exactly (without `endpoint`, one step before it)."""
    n = shape_of(n)[0]
    a, b = as_node(start), as_node(stop)
    if dtype is None:
        dtype = dtypes.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else default_float.get()
    work = dtypes.complex128 if dtype.kind == "c" else dtypes.float64
    a, b = cast(a, work), cast(b, work)
    parts = max(n - 1, 1) if endpoint else max(n, 1)
    index = iota(n)
    step = apply("divide", apply("subtract", b, a), constant(float(parts), dtypes.float64, literal=False))
    values = apply("add", apply("multiply", cast(index, work), step), a)
    if endpoint and n > 1:
        values = apply("where", apply("equal", index, constant(n - 1, dtypes.int64, literal=False)), b, values)
    return _rounded(values, dtype)


def _rounded(values: Node, dtype: DType) -> Node:
    return cast(apply("floor", values), dtype) if dtype.kind in "iu" else cast(values, dtype)


def eye(n: int, m: int | None = None, k: int = 0, dtype: DType | None = None) -> Node:
    """Ones on the k-th diagonal."""
    rows, columns = shape_of((n, n if m is None else m))
    i = broadcast(make("reshape", (iota(rows),), {}, Type(dtypes.int64, (rows, 1)), here), (rows, columns))
    on = apply("equal", apply("subtract", iota(columns), i), constant(k, dtypes.int64, literal=False))
    return cast(on, dtype or default_float.get())


def triangle(x: Operand, k: int, lower: bool) -> Node:
    """The part of the last two axes on and below (or above) the k-th diagonal, zero elsewhere."""
    node = as_node(x)
    if len(node.shape) < 2:
        raise ShapeError(
            "GLA0307",
            f"tril and triu need two axes, {node.type} has {len(node.shape)}",
            labels=labels("", (str(node.type), node)),
        )
    rows, columns = node.shape[-2:]
    i = make("reshape", (iota(rows),), {}, Type(dtypes.int64, (rows, 1)), here)
    above = apply("subtract", iota(columns), i)
    keep = apply("less_equal" if lower else "greater_equal", above, constant(k, dtypes.int64, literal=False))
    return apply("where", keep, node, constant(0, node.dtype))


def meshgrid(*vectors: Operand, indexing: str = "xy") -> list[Node]:
    """Coordinates of a grid from 1-d vectors."""
    from gla.ir.functions.shape import broadcast_arrays, reshape

    nodes = [as_node(v) for v in vectors]
    for node in nodes:
        if len(node.shape) > 1:
            raise DtypeError("GLA0213", f"meshgrid takes vectors, not {node.type}", labels=labels("", (str(node.type), node)))
    n = len(nodes)
    order = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
    shaped = [reshape(v, tuple(-1 if order[k] == j else 1 for j in range(n))) for k, v in enumerate(nodes)]
    return broadcast_arrays(*shaped)
