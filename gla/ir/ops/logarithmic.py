"""Logarithms and real powers over float32 and float64 values, in primitives.

x = 2**k m with m in [sqrt(1/2), sqrt(2)). log m comes as f - f**2/2 + ... with f = m - 1, exact; where more digits are needed
(powers, other bases) as 2 artanh(f / (2 + f)) in sums of two numbers.
"""

from __future__ import annotations

from gla.dtypes import float32, float64
from gla.ir.ops.exponential import LOG2_E, clamp, exponential
from gla.ir.ops.pieces import (
    Pair,
    Value,
    bits_of,
    constants,
    fast_two_sum,
    horner,
    mantissa_bits,
    scale,
    sign_is_set,
    two_product,
)
from gla.ir.ops.scalars import Scalars

# (log(1 + f) - f + f**2/2) / f**3
LOG32 = (
    *(0.333333105, -0.25000006, 0.200023204, -0.166683987, 0.142154425),
    *(-0.123951897, 0.119098403, -0.117518097, 0.0679121464),
)
# (2 artanh(s)/s - 2) / s**2 in s**2
LOG64 = (
    *(0.6666666666666745, 0.39999999999338964, 0.285714287606861, 0.22222196560095459),
    *(0.18183675382021178, 0.15311057407713205, 0.14827308106099618),
)
# ((2 artanh(s)/s - 2) / s**2 - 2/3) / s**2 in s**2
LOG64_REST = (
    *(0.400000000000026, 0.28571428569927937, 0.22222222551737056, 0.18181781492682958),
    *(0.15386893425729395, 0.1325357286319824, 0.13227068522460378),
)
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # 32 bits and the rest
LN2_HIGH_32, LN2_LOW_32 = 0.693145751953125, 1.4286068203094173e-06  # 15 bits and the rest
LOG2_E_REST = 2.0355273740931033e-17
LOG10_E, LOG10_E_REST = 0.4342944819032518, 1.098319650216765e-17
LOG10_2_HIGH, LOG10_2_LOW = 0.3010299955494702, 1.1451100898021838e-10


def split(s: Scalars, x: Value, subnormal: bool = True) -> Pair:
    """k (a float) and m with x = 2**k m, m in [sqrt(1/2), sqrt(2)), for positive finite x."""
    c = constants(s, x)
    dtype = s.dtype(x)
    ints, stored = bits_of(dtype), s.const(mantissa_bits(dtype), bits_of(dtype))
    if subnormal:
        tiny = s.lt(x, c(2.0**-1022 if dtype is float64 else 2.0**-126))
        x = s.select(tiny, s.mul(x, c(2.0**60)), x)
    bits = s.bitcast(x, ints)
    k = s.shr(s.sub(bits, s.bitcast(c(0.7071067811865476), ints)), stored)
    m = s.bitcast(s.sub(bits, s.shl(k, stored)), dtype)
    k = s.convert(k, dtype)
    return (s.select(tiny, s.sub(k, c(60.0)), k) if subnormal else k), m


def _special(s: Scalars, x: Value, result: Value, pole: float = 0.0) -> Value:
    """-inf at the pole, NaN below it, x itself where it is inf or NaN, else `result`."""
    c = constants(s, x)
    proper = s.band(s.gt(x, c(pole)), s.lt(x, c(float("inf"))))
    below = s.select(s.eq(x, c(pole)), c(float("-inf")), s.select(s.lt(x, c(pole)), c(float("nan")), x))
    return s.select(proper, result, below)


def _join32(s: Scalars, k: Value, f: Value, small: Value | None) -> Value:
    """k ln 2 + log(1 + f + small) for float32."""
    c = constants(s, f)
    square = s.mul(f, f)
    rest = s.mul(k, c(LN2_LOW_32)) if small is None else s.fma(k, c(LN2_LOW_32), small)
    tail = s.fma(s.mul(f, square), horner(s, f, LOG32), rest)
    top, lost = fast_two_sum(s, f, s.mul(square, c(-0.5)))
    top, more = fast_two_sum(s, s.mul(k, c(LN2_HIGH_32)), top)
    return s.add(top, s.add(more, s.add(lost, tail)))


def _join64(s: Scalars, k: Value, f: Value, small: Value | None) -> Value:
    """k ln 2 + log(1 + f + small) for float64."""
    c = constants(s, f)
    half = s.mul(s.mul(f, f), c(0.5))
    ratio = s.div(f, s.add(c(2.0), f))
    z = s.mul(ratio, ratio)
    rest = s.mul(k, c(LN2_LOW)) if small is None else s.fma(k, c(LN2_LOW), small)
    tail = s.fma(ratio, s.fma(z, horner(s, z, LOG64), half), rest)
    top, lost = fast_two_sum(s, f, s.neg(half))
    top, more = fast_two_sum(s, s.mul(k, c(LN2_HIGH)), top)
    return s.add(top, s.add(more, s.add(lost, tail)))


def log(s: Scalars, x: Value) -> Value:
    """Within 0.7 ULP."""
    k, m = split(s, x)
    join = _join64 if s.dtype(x) is float64 else _join32
    return _special(s, x, join(s, k, s.sub(m, constants(s, x)(1.0)), None))


def log1p(s: Scalars, x: Value) -> Value:
    """Within 0.9 ULP."""
    c = constants(s, x)
    one = c(1.0)
    total = s.add(one, x)
    # What the sum lost: of the smaller operand.
    lost = s.select(s.gt(x, one), s.sub(one, s.sub(total, x)), s.sub(x, s.sub(total, one)))
    k, m = split(s, total, subnormal=False)
    whole = s.eq(k, c(0.0))
    f = s.select(whole, x, s.sub(m, one))
    # lost / total = lost 2**-k / m
    small = s.select(whole, c(0.0), s.div(lost, total))
    join = _join64 if s.dtype(x) is float64 else _join32
    result = _special(s, x, join(s, k, f, small), -1.0)
    return s.select(s.lt(s.abs(x), c(2.0**-54 if s.dtype(x) is float64 else 2.0**-25)), x, result)


def log_of_mantissa(s: Scalars, m: Value) -> Pair:
    """log m as hi + lo to about 2**-65, for float64 m in [sqrt(1/2), sqrt(2))."""
    c = constants(s, m)
    f = s.sub(m, c(1.0))
    divisor, missing = fast_two_sum(s, c(2.0), f)
    ratio = s.div(f, divisor)
    # f - ratio (divisor + missing), exact up to the last product
    left = s.fma(s.neg(ratio), missing, s.fma(s.neg(ratio), divisor, f))
    ratio_rest = s.div(left, divisor)
    z, z_rest = two_product(s, ratio, ratio)
    z_rest = s.fma(s.add(ratio, ratio), ratio_rest, z_rest)
    factor, factor_rest = fast_two_sum(s, c(0.6666666666666666), s.mul(z, horner(s, z, LOG64_REST)))
    factor_rest = s.add(factor_rest, c(3.700743415417188e-17))
    cube, cube_rest = two_product(s, ratio, z)
    cube_rest = s.fma(ratio, z_rest, s.fma(ratio_rest, z, cube_rest))
    term, term_rest = two_product(s, cube, factor)
    term_rest = s.fma(cube, factor_rest, s.fma(cube_rest, factor, term_rest))
    hi, lo = fast_two_sum(s, s.add(ratio, ratio), term)
    lo = s.add(lo, s.add(s.add(ratio_rest, ratio_rest), term_rest))
    return fast_two_sum(s, hi, lo)


def _log_pair(s: Scalars, x: Value) -> Pair:
    """log x as hi + lo for positive finite float64 x."""
    c = constants(s, x)
    k, m = split(s, x)
    hi, lo = log_of_mantissa(s, m)
    top, lost = fast_two_sum(s, s.mul(k, c(LN2_HIGH)), hi)
    return fast_two_sum(s, top, s.add(lost, s.fma(k, c(LN2_LOW), lo)))


def _in_base(s: Scalars, x: Value, base: tuple[float, float], high: float, low: float) -> Value:
    """k (high + low) + log(m) (base), for float64 x."""
    c = constants(s, x)
    k, m = split(s, x)
    hi, lo = log_of_mantissa(s, m)
    part, rest = two_product(s, hi, c(base[0]))
    rest = s.fma(hi, c(base[1]), s.fma(lo, c(base[0]), rest))
    top, lost = fast_two_sum(s, s.mul(k, c(high)), part)
    return _special(s, x, s.add(top, s.add(lost, s.fma(k, c(low), rest))))


def _narrowly_in_base(s: Scalars, x: Value, factor: float) -> Value:
    """A float32 logarithm by way of float64, whose errors vanish in the rounding."""
    return s.convert(s.mul(log(s, s.convert(x, float64)), s.const(factor, float64)), float32)


def log2(s: Scalars, x: Value) -> Value:
    """Within 0.51 ULP; exact for powers of 2."""
    if s.dtype(x) is float32:
        return _narrowly_in_base(s, x, LOG2_E)
    return _in_base(s, x, (LOG2_E, LOG2_E_REST), 1.0, 0.0)


def log10(s: Scalars, x: Value) -> Value:
    """Within 0.51 ULP; exact for powers of 10."""
    if s.dtype(x) is float32:
        return _narrowly_in_base(s, x, LOG10_E)
    return _in_base(s, x, (LOG10_E, LOG10_E_REST), LOG10_2_HIGH, LOG10_2_LOW)


def _magnitude(s: Scalars, size: Value, y: Value) -> Value:
    """size**y for float64 size >= 0, inf included; meaningless for 0**0, inf**0, 1**inf."""
    c = constants(s, y)
    infinity = c(float("inf"))
    hi, lo = _log_pair(s, size)
    proper = s.band(s.gt(size, c(0.0)), s.lt(size, infinity))
    ends = s.select(s.eq(size, c(0.0)), c(float("-inf")), size)
    hi, lo = s.select(proper, hi, ends), s.select(proper, lo, c(0.0))
    product = s.mul(y, hi)
    rest = s.fma(y, lo, s.fma(y, hi, s.neg(product)))
    bounded = clamp(s, product, -800.0, 800.0)
    rest = s.select(s.lt(s.abs(product), c(800.0)), rest, c(0.0))
    n, e, e_rest = exponential(s, bounded, rest)
    top, lost = fast_two_sum(s, c(1.0), e)
    return scale(s, s.add(top, s.add(lost, e_rest)), n)


def _magnitude32(s: Scalars, size: Value, y: Value) -> Value:
    """The same in float64 for numbers that were float32, where one float64 logarithm is enough."""
    c = constants(s, y)
    n, e, _ = exponential(s, clamp(s, s.mul(y, log(s, size)), -800.0, 800.0))
    return scale(s, s.add(c(1.0), e), n)


def power(s: Scalars, x: Value, y: Value) -> Value:
    """x**y within 0.9 ULP (float32: 0.51), special values as C99's pow."""
    if s.dtype(x) is float32:
        return s.convert(_power(s, s.convert(x, float64), s.convert(y, float64), _magnitude32), float32)
    return _power(s, x, y, _magnitude)


def _power(s: Scalars, x: Value, y: Value, magnitude: object) -> Value:
    c = constants(s, x)
    zero, one, infinity = c(0.0), c(1.0), c(float("inf"))
    size = s.abs(x)
    result = magnitude(s, size, y)  # type: ignore[operator]
    whole = s.eq(y, s.trunc(y))
    half = s.mul(y, c(0.5))
    odd = s.band(s.band(whole, s.ne(half, s.trunc(half))), s.lt(s.abs(y), infinity))
    result = s.select(s.band(odd, sign_is_set(s, x)), s.neg(result), result)
    undefined = s.band(s.band(s.lt(x, zero), s.bnot(whole)), s.lt(size, infinity))
    result = s.select(s.band(undefined, s.eq(y, y)), c(float("nan")), result)
    result = s.select(s.band(s.eq(size, one), s.eq(s.abs(y), infinity)), one, result)
    return s.select(s.bor(s.eq(x, one), s.eq(y, zero)), one, result)
