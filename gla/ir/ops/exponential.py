"""exp and its kin over float32 and float64 values, in primitives.

x = n ln 2 + r with |r| <= 0.35, exp(r) = 1 + r + r**2 q(r) by a minimax polynomial, and 2**n put into the exponent in two
steps, so that subnormal results are rounded once and overflow is infinite.
"""

from __future__ import annotations

from gla.dtypes import float64
from gla.ir.ops.pieces import Value, bits_of, constants, fast_two_sum, horner, power_of_two, scale, two_product, two_sum
from gla.ir.ops.scalars import Scalars

EXP32 = (0.49999994, 0.166665152, 0.041668456, 0.00836941879, 0.00138131785)
EXP64 = (
    *(0.5, 0.16666666666666685, 0.04166666666666603, 0.008333333333315708, 0.0013888888889134559, 0.0001984126989971862),
    *(2.4801586903159226e-05, 2.7557231489012603e-06, 2.755759292402723e-07, 2.51132243213837e-08, 2.0825478232859057e-09),
)
LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
LN2_REST = 2.3190468138462996e-17
LN2_32 = 0.6931471824645996
LN2_REST_32 = -1.904654299957768e-09

Exponential = tuple[Value, Value, Value]  # n (integer), e, rest of e: 2**n (1 + e)


def clamp(s: Scalars, x: Value, low: float, high: float) -> Value:
    """`x` within [low, high]; NaN stays."""
    c = constants(s, x)
    return s.select(s.gt(x, c(high)), c(high), s.select(s.lt(x, c(low)), c(low), x))


def _round(s: Scalars, x: Value, factor: float) -> tuple[Value, Value]:
    """x factor rounded to an integer, as a float and as an integer."""
    dtype = s.dtype(x)
    ints = bits_of(dtype)
    magic = s.const(1.5 * 2.0**52 if dtype is float64 else 1.5 * 2.0**23, dtype)
    shifted = s.fma(x, s.const(factor, dtype), magic)
    return s.sub(shifted, magic), s.sub(s.bitcast(shifted, ints), s.bitcast(magic, ints))


def _series(s: Scalars, r: Value, rest: Value | None) -> tuple[Value, Value]:
    """exp(r + rest) - 1 as an unevaluated sum."""
    square = s.mul(r, r)
    polynomial = horner(s, r, EXP64 if s.dtype(r) is float64 else EXP32)
    tail = s.mul(square, polynomial) if rest is None else s.fma(square, polynomial, s.fma(r, rest, rest))
    return fast_two_sum(s, r, tail)


def exponential(s: Scalars, x: Value, rest: Value | None = None) -> Exponential:
    """exp(x + rest) = 2**n (1 + e + e_rest), for |x| up to about 1100 (float32: 200) and a `rest` far below x."""
    c = constants(s, x)
    wide = s.dtype(x) is float64
    n, exponent = _round(s, x, LOG2_E)
    minus = s.neg(n)
    r = s.fma(minus, c(LN2 if wide else LN2_32), x)  # exact
    small = c(LN2_REST if wide else LN2_REST_32)
    if rest is None:
        return exponent, *_series(s, s.fma(minus, small, r), None)
    r, rest = two_sum(s, r, s.fma(minus, small, rest))
    return exponent, *_series(s, r, rest)


def exp(s: Scalars, x: Value) -> Value:
    """Within 0.6 ULP (float32: 0.8), 1 where the result is subnormal."""
    wide = s.dtype(x) is float64
    n, e, rest = exponential(s, clamp(s, x, -746.0, 710.0) if wide else clamp(s, x, -104.5, 89.0))
    top, lost = fast_two_sum(s, constants(s, x)(1.0), e)
    return scale(s, s.add(top, s.add(lost, rest)), n)


def exp2(s: Scalars, x: Value) -> Value:
    """Within 0.6 ULP (float32: 0.8), 1 where the result is subnormal; exact for integers."""
    c = constants(s, x)
    wide = s.dtype(x) is float64
    x = clamp(s, x, -1076.0, 1025.0) if wide else clamp(s, x, -151.0, 129.0)
    n, exponent = _round(s, x, 1.0)
    r = s.sub(x, n)
    high, low = two_product(s, r, c(LN2 if wide else LN2_32))
    e, rest = _series(s, high, s.fma(r, c(LN2_REST if wide else LN2_REST_32), low))
    top, lost = fast_two_sum(s, c(1.0), e)
    return scale(s, s.add(top, s.add(lost, rest)), exponent)


def expm1_pair(s: Scalars, x: Value, shift: int) -> tuple[Value, Value]:
    """(exp(x) - 1) 2**-shift as an unevaluated sum, for x from -60 up."""
    c = constants(s, x)
    dtype = s.dtype(x)
    n, e, rest = exponential(s, x, c(0.0))
    power = power_of_two(s, s.sub(n, s.const(shift, bits_of(dtype))), dtype)
    base, less = fast_two_sum(s, power, c(-(2.0**-shift)))
    top, lost = fast_two_sum(s, base, s.mul(power, e))
    return top, s.add(less, s.fma(power, rest, lost))


def expm1_part(s: Scalars, x: Value, shift: int) -> Value:
    """(exp(x) - 1) 2**-shift, for x from -60 up."""
    return s.add(*expm1_pair(s, x, shift))


def expm1(s: Scalars, x: Value) -> Value:
    """Within 1 ULP."""
    c = constants(s, x)
    wide = s.dtype(x) is float64
    part = expm1_part(s, clamp(s, x, -60.0, 710.0 if wide else 89.0), 1)
    return s.select(s.lt(s.abs(x), c(2.0**-54 if wide else 2.0**-25)), x, s.add(part, part))
