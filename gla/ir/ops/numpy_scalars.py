"""`Scalars` over NumPy arrays: runs an expansion at once, elementwise, with the bits that the devices give.

For tests and for folding constants. Values are NumPy arrays or NumPy scalars; IEEE warnings are off inside each primitive.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from gla.dtypes import DType, as_dtype

Array = Any

_C_NAMES = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "atan2": "arctan2",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "pow": "power",
}


class NumpyScalars:
    """The primitives of `gla.ir.ops.scalars.Scalars`, each one a NumPy operation on arrays of the value's dtype."""

    def dtype(self, x: Array) -> DType:
        return as_dtype(np.asarray(x).dtype)

    def const(self, value: Any, dtype: DType) -> Array:
        return dtype.numpy.type(value)

    def __getattr__(self, name: str) -> Any:
        if name not in _SIMPLE:
            raise AttributeError(name)
        function = _SIMPLE[name]

        def primitive(*args: Array) -> Array:
            with np.errstate(all="ignore"):
                return function(*args)

        return primitive

    def fma(self, a: Array, b: Array, c: Array) -> Array:
        with np.errstate(all="ignore"):
            if np.asarray(a).dtype == np.float32:
                return _fma32(*(np.asarray(v, np.float64) for v in (a, b, c)))
            return _fma64(*np.broadcast_arrays(a, b, c))

    def convert(self, x: Array, dtype: DType) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(x).astype(dtype.numpy)

    def bitcast(self, x: Array, dtype: DType) -> Array:
        return np.asarray(x).view(dtype.numpy)

    def call(self, name: str, *args: Array) -> Array:
        with np.errstate(all="ignore"):
            if name == "erf":
                from math import erf

                return np.vectorize(erf, otypes=[np.asarray(args[0]).dtype])(args[0])
            return getattr(np, _C_NAMES.get(name, name))(*args)


def _idiv(a: Array, b: Array) -> Array:
    return (a - np.fmod(a, b)) // b


def _mulhi(a: Array, b: Array) -> Array:
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype == np.uint32:
        return (a.astype(np.uint64) * b.astype(np.uint64) >> np.uint64(32)).astype(np.uint32)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    return a1 * b1 + (middle >> half) + ((middle & low) + a0 * b1 >> half)


_SIMPLE: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "abs": np.abs,
    "copysign": np.copysign,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "idiv": _idiv,
    "irem": np.fmod,
    "mulhi": _mulhi,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
    "bnot": np.invert,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "select": np.where,
}


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _odd_sum(a: Array, b: Array) -> Array:
    """a + b rounded to odd: the float towards the exact sum that has an odd last bit, unless the sum is exact."""
    total, error = _two_sum(a, b)
    even = (np.asarray(total).view(np.int64) & 1) == 0
    wrong = even & (error != 0) & np.isfinite(error)
    return np.where(wrong, np.nextafter(total, np.where(error > 0, np.inf, -np.inf)), total)


def _fma32(a: Array, b: Array, c: Array) -> Array:
    """The product of float32 numbers is exact in float64, and a sum rounded to odd there may be rounded again."""
    return _odd_sum(a * b, c).astype(np.float32)


def _split(a: Array) -> tuple[Array, Array]:
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


def _fma64(a: Array, b: Array, c: Array) -> Array:
    """Boldo and Melquiond's three-term sum where no step can over- or underflow, exact fractions elsewhere."""
    product = a * b
    a1, a0 = _split(a)
    b1, b0 = _split(b)
    error = a0 * b0 - (((product - a1 * b1) - a0 * b1) - a1 * b0)
    upper, lower = _two_sum(c, error)
    total, rest = _two_sum(product, upper)
    result = np.asarray(total + _odd_sum(rest, lower))

    def within(x: Array, low: float, high: float) -> Array:
        return (x == 0) | ((np.abs(x) > low) & (np.abs(x) < high))

    safe = within(a, 2.0**-300, 2.0**300) & within(b, 2.0**-300, 2.0**300) & within(c, 2.0**-900, 2.0**900)
    result = np.where((product == 0) & (c == 0), product + c, result)
    rare = ~np.asarray(safe)
    if rare.any():
        result[rare] = [_fma_exact(x, y, z) for x, y, z in zip(a[rare], b[rare], c[rare], strict=True)]
    return result


def _fma_exact(a: float, b: float, c: float) -> float:
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
        return a * b + c if np.isfinite(c) or np.isnan(c) or not (np.isfinite(a) and np.isfinite(b)) else c
    if a == 0 or b == 0:
        return a * b + c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return 0.0 if c != 0 else a * b + c
    try:
        value = float(exact)
    except OverflowError:
        value = float("inf") if exact > 0 else float("-inf")
    return value if value else float(np.copysign(0.0, float(exact > 0) - 0.5))
