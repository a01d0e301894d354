"""sinh, cosh, tanh and their inverses over float32 and float64 values, in primitives.

All stand on expm1 and log1p, so that nothing cancels near 0. float32 goes through float64, which leaves half an ULP.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gla.dtypes import float32, float64
from gla.ir.ops.exponential import clamp, expm1_pair, expm1_part
from gla.ir.ops.logarithmic import log1p
from gla.ir.ops.pieces import Value, constants, two_sum
from gla.ir.ops.scalars import Scalars

Function = Callable[[Scalars, Any], Any]


def _through_float64(function: Function) -> Function:
    def expansion(s: Scalars, x: Value) -> Value:
        if s.dtype(x) is float32:
            return s.convert(function(s, s.convert(x, float64)), float32)
        return function(s, x)

    expansion.__doc__ = function.__doc__
    return expansion


def _half_expm1(s: Scalars, size: Value) -> Value:
    """(exp(size) - 1) / 2 for size >= 0; infinite only where sinh is."""
    part = expm1_part(s, clamp(s, size, 0.0, 710.6), 2)
    return s.add(part, part)


@_through_float64
def sinh(s: Scalars, x: Value) -> Value:
    """Within 2 ULP."""
    c = constants(s, x)
    size = s.abs(x)
    half = _half_expm1(s, size)
    result = s.add(half, s.div(half, s.add(s.add(half, half), c(1.0))))
    result = s.select(s.lt(half, c(2.0**60)), result, half)
    return s.copysign(s.select(s.lt(size, c(2.0**-28)), size, result), x)


@_through_float64
def cosh(s: Scalars, x: Value) -> Value:
    """Within 1.5 ULP."""
    c = constants(s, x)
    half = s.add(_half_expm1(s, s.abs(x)), c(0.5))
    return s.add(half, s.div(c(0.25), half))


def tanh(s: Scalars, x: Value) -> Value:
    """Within 0.7 ULP (float32: 0.95)."""
    c = constants(s, x)
    size = s.abs(x)
    wide = s.dtype(x) is float64
    # E / (E + 2) with E = exp(2 |x|) - 1, numerator and denominator as sums of two numbers
    top, rest = expm1_pair(s, clamp(s, s.add(size, size), 0.0, 44.0 if wide else 20.0), 0)
    below, missing = two_sum(s, top, c(2.0))
    missing = s.add(missing, rest)
    inverse = s.div(c(1.0), below)
    ratio = s.mul(top, inverse)
    left = s.add(s.fma(s.neg(ratio), below, top), s.fma(s.neg(ratio), missing, rest))
    result = s.fma(left, inverse, ratio)
    return s.copysign(s.select(s.lt(size, c(2.0**-28 if wide else 2.0**-13)), size, result), x)


@_through_float64
def asinh(s: Scalars, x: Value) -> Value:
    """Within 2 ULP."""
    c = constants(s, x)
    one = c(1.0)
    size = s.abs(x)
    large = s.gt(size, c(2.0**60))
    bounded = s.select(large, one, size)
    square = s.mul(bounded, bounded)
    inside = s.add(bounded, s.div(square, s.add(one, s.sqrt(s.add(square, one)))))
    result = log1p(s, s.select(large, size, inside))
    result = s.select(large, s.add(result, c(0.6931471805599453)), result)
    return s.copysign(s.select(s.lt(size, c(2.0**-28)), size, result), x)


@_through_float64
def acosh(s: Scalars, x: Value) -> Value:
    """Within 2 ULP; NaN below 1."""
    c = constants(s, x)
    large = s.gt(x, c(2.0**60))
    over = s.sub(s.select(large, c(2.0), x), c(1.0))
    inside = s.add(over, s.sqrt(s.fma(over, over, s.add(over, over))))
    result = log1p(s, s.select(large, x, inside))
    result = s.select(large, s.add(result, c(0.6931471805599453)), result)
    return s.select(s.lt(x, c(1.0)), c(float("nan")), result)


@_through_float64
def atanh(s: Scalars, x: Value) -> Value:
    """Within 2 ULP; NaN beyond [-1, 1]."""
    c = constants(s, x)
    size = s.abs(x)
    result = s.mul(log1p(s, s.div(s.add(size, size), s.sub(c(1.0), size))), c(0.5))
    return s.copysign(s.select(s.lt(size, c(2.0**-28)), size, result), x)
