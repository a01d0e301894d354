"""Rows of arithmetic: sums, products, quotients, remainders, rounding, minima, sign. Exact or rounded once.

Integers wrap; `//` and `%` floor and give 0 by zero; the least integer by -1 wraps. Floats are IEEE and follow NumPy where
C and NumPy differ (floor division, remainder, NaN in minima). Complex values are pairs and go to `complexes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gla.dtypes import DType, bfloat16, bool_, float16, integer_range, real_of, uint16
from gla.ir.ops import integer
from gla.ir.ops.casts import widen
from gla.ir.ops.later import Later
from gla.ir.ops.pieces import Value, bits_of, is_nan
from gla.ir.ops.references import quiet
from gla.ir.ops.row import Elementwise
from gla.ir.ops.scalars import Scalars

complexes = Later("complexes")


def add(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    return complexes.add(s, a, b) if dtype.kind == "c" else s.add(a, b)


def subtract(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    return complexes.subtract(s, a, b) if dtype.kind == "c" else s.sub(a, b)


def multiply(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    return complexes.multiply(s, a, b) if dtype.kind == "c" else s.mul(a, b)


def divide(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    return complexes.divide(s, a, b) if dtype.kind == "c" else s.div(a, b)


def negative(s: Scalars, dtype: DType, a: Value) -> Value:
    if dtype.kind == "c":
        return s.neg(a[0]), s.neg(a[1])
    return s.neg(a) if dtype.kind == "f" else s.sub(s.const(0, dtype), a)


def absolute(s: Scalars, dtype: DType, a: Value) -> Value:
    if dtype.kind == "c":
        return complexes.absolute(s, a)
    if dtype.kind == "f":
        return s.abs(a)
    return integer.absolute(s, dtype, a)


def sign(s: Scalars, dtype: DType, a: Value) -> Value:
    """-1, 0 or 1; NaN stays NaN; of a complex number z / |z|."""
    if dtype.kind == "c":
        return complexes.sign(s, a)
    zero, one = s.const(0, dtype), s.const(1, dtype)
    if dtype.kind == "u":
        return s.select(s.ne(a, zero), one, zero)
    otherwise = s.add(a, zero) if dtype.kind == "f" else zero  # -0.0 + 0.0 is 0.0, NaN stays
    return s.select(s.gt(a, zero), one, s.select(s.lt(a, zero), s.const(-1, dtype), otherwise))


def _divmod(s: Scalars, dtype: DType, a: Value, b: Value) -> tuple[Value, Value]:
    """Floor quotient and remainder of floats, for b != 0, as NumPy's divmod computes them."""
    zero, one = s.const(0.0, dtype), s.const(1.0, dtype)
    left = s.call("fmod", a, b)
    quotient = s.div(s.sub(a, left), b)
    some = s.ne(left, zero)
    crosses = s.band(some, s.ne(s.lt(b, zero), s.lt(left, zero)))
    remainder = s.select(crosses, s.add(left, b), s.select(some, left, s.copysign(zero, b)))
    quotient = s.select(crosses, s.sub(quotient, one), quotient)
    low = s.floor(quotient)
    low = s.select(s.gt(s.sub(quotient, low), s.const(0.5, dtype)), s.add(low, one), low)
    return s.select(s.ne(quotient, zero), low, s.copysign(zero, s.div(a, b))), remainder


def floor_divide(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    if dtype.kind in "iu":
        return integer.floor_divide(s, dtype, a, b)
    return s.select(s.eq(b, s.const(0.0, dtype)), s.div(a, b), _divmod(s, dtype, a, b)[0])


def remainder(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    """Takes the divisor's sign; a zero result too. By zero: NaN for floats, 0 for integers."""
    if dtype.kind in "iu":
        return integer.remainder(s, dtype, a, b)
    return s.select(s.eq(b, s.const(0.0, dtype)), s.const(float("nan"), dtype), _divmod(s, dtype, a, b)[1])


def fmod(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    """Takes the dividend's sign; exact."""
    return s.call("fmod", a, b) if dtype.kind == "f" else integer.fmod(s, dtype, a, b)


def maximum(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    """The greater; NaN where either is NaN; the first of equals."""
    if dtype is bool_:
        return s.bor(a, b)
    keep = s.ge(a, b)
    return s.select(s.bor(keep, is_nan(s, a)) if dtype.kind == "f" else keep, a, b)


def minimum(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    """The less; NaN where either is NaN; the first of equals."""
    if dtype is bool_:
        return s.band(a, b)
    keep = s.le(a, b)
    return s.select(s.bor(keep, is_nan(s, a)) if dtype.kind == "f" else keep, a, b)


def _rounding(name: str) -> Any:
    def expand(s: Scalars, dtype: DType, a: Value) -> Value:
        return getattr(s, name)(a) if dtype.kind == "f" else a

    return expand


def copysign(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    return s.copysign(a, b)


def fma(s: Scalars, dtype: DType, a: Value, b: Value, c: Value) -> Value:
    return s.fma(a, b, c) if dtype.kind == "f" else s.add(s.mul(a, b), c)


def nextafter(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    """The next number of `dtype` after a towards b. float16 and bfloat16 are given, and come back, as their uint16 bits."""
    small = dtype in (float16, bfloat16)
    ints = uint16 if small else bits_of(dtype)
    x, y = (widen(s, a, dtype), widen(s, b, dtype)) if small else (a, b)
    bits_a, bits_b = (a, b) if small else (s.bitcast(a, ints), s.bitcast(b, ints))
    zero, one = s.const(0.0, s.dtype(x)), s.const(1, ints)
    away = s.eq(s.gt(y, x), s.gt(x, zero))
    moved = s.select(away, s.add(bits_a, one), s.sub(bits_a, one))
    least, top = integer_range(ints)
    sign_bit = s.const(least if least else (top >> 1) + 1, ints)
    moved = s.select(s.eq(x, zero), s.bor(s.band(bits_b, sign_bit), one), moved)
    moved = s.select(s.eq(x, y), bits_b, moved)
    moved = s.select(is_nan(s, y), bits_b, s.select(is_nan(s, x), bits_a, moved))
    return moved if small else s.bitcast(moved, dtype)


def real(s: Scalars, dtype: DType, a: Value) -> Value:
    return a[0] if dtype.kind == "c" else a


def imag(s: Scalars, dtype: DType, a: Value) -> Value:
    return a[1] if dtype.kind == "c" else s.const(0, real_of(dtype))


def conj(s: Scalars, dtype: DType, a: Value) -> Value:
    return (a[0], s.neg(a[1])) if dtype.kind == "c" else a


def make_complex(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    return a, b


@quiet
def _reference_fma(a: Any, b: Any, c: Any) -> Any:
    """Exact for float32 but for double rounding in rare ties; for float64 in long double."""
    if a.dtype.kind != "f":
        return a * b + c
    wider = np.float64 if a.dtype == np.float32 else np.longdouble
    return (a.astype(wider) * b.astype(wider) + c.astype(wider)).astype(a.dtype)


def _reference_complex(a: Any, b: Any) -> Any:
    result = np.empty(np.shape(a), np.complex64 if a.dtype == np.float32 else np.complex128)
    result.real, result.imag = a, b
    return result


def _keep_integers(function: Any) -> Any:
    return quiet(lambda a: function(a) if a.dtype.kind == "f" else a)


ROWS = (
    Elementwise("add", 2, "iufc", quiet(np.add), add, "a + b", commutative=True, identity=-0.0),
    Elementwise("subtract", 2, "iufc", quiet(np.subtract), subtract, "a - b"),
    Elementwise("multiply", 2, "iufc", quiet(np.multiply), multiply, "a * b", commutative=True, identity=1.0),
    Elementwise("divide", 2, "fc", quiet(np.divide), divide, "a / b, the true quotient", to_float=True, cost=8),
    Elementwise("floor_divide", 2, "iuf", quiet(np.floor_divide), floor_divide, "floor(a / b); integers by 0 give 0", cost=24),
    Elementwise("remainder", 2, "iuf", quiet(np.remainder), remainder, "a - floor(a / b) b, with the sign of b", cost=24),
    Elementwise("fmod", 2, "iuf", quiet(np.fmod), fmod, "a - trunc(a / b) b, with the sign of a", cost=20),
    Elementwise("negative", 1, "iufc", quiet(np.negative), negative, "-a"),
    Elementwise("abs", 1, "iufc", quiet(np.abs), absolute, "|a|; of a complex number its modulus", result="real"),
    Elementwise("sign", 1, "iufc", quiet(np.sign), sign, "-1, 0, 1 or NaN; of a complex number z / |z|", cost=4),
    Elementwise("floor", 1, "iuf", _keep_integers(np.floor), _rounding("floor"), "the greatest integer not above a"),
    Elementwise("ceil", 1, "iuf", _keep_integers(np.ceil), _rounding("ceil"), "the least integer not below a"),
    Elementwise("trunc", 1, "iuf", _keep_integers(np.trunc), _rounding("trunc"), "a without its fraction"),
    Elementwise(
        "round", 1, "iuf", _keep_integers(np.rint), _rounding("rint"), "the nearest integer, ties to even, sign of zero kept"
    ),
    Elementwise("maximum", 2, "biuf", quiet(np.maximum), maximum, "the greater, NaN if either is", associative=True, cost=3),
    Elementwise("minimum", 2, "biuf", quiet(np.minimum), minimum, "the less, NaN if either is", associative=True, cost=3),
    Elementwise("copysign", 2, "f", quiet(np.copysign), copysign, "|a| with the sign of b", to_float=True, cost=2),
    Elementwise(
        "nextafter", 2, "f", quiet(np.nextafter), nextafter, "the next number after a towards b", to_float=True, cost=14
    ),
    Elementwise("fma", 3, "iuf", _reference_fma, fma, "a b + c with one rounding"),
    Elementwise("real", 1, "iufc", quiet(np.real), real, "the real part", result="real"),
    Elementwise("imag", 1, "iufc", quiet(np.imag), imag, "the imaginary part", result="real"),
    Elementwise("conj", 1, "iufc", quiet(np.conjugate), conj, "the conjugate"),
    Elementwise("complex", 2, "f", _reference_complex, make_complex, "a + i b", result="complex", to_float=True),
)
