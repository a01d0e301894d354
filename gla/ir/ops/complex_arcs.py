"""Complex inverse functions, and exponentials and logarithms near 1, over (re, im) pairs of float32 or float64 values.

The inverse functions are Kahan's ("Branch cuts for complex elementary functions", 1987): cuts and signs of zero as in C99,
no cancellation. Infinite arguments are not treated one by one.
"""

from __future__ import annotations

from gla.ir.ops.arcs import atan2
from gla.ir.ops.complexes import exp, log, multiply, sqrt
from gla.ir.ops.exponential import expm1 as real_expm1
from gla.ir.ops.hyperbolic import asinh as real_asinh
from gla.ir.ops.logarithmic import log1p as real_log1p
from gla.ir.ops.pieces import Pair, Value, constants
from gla.ir.ops.scalars import Scalars
from gla.ir.ops.trigonometric import sin as real_sin


def _scaled(s: Scalars, a: Pair, factor: float) -> Pair:
    c = constants(s, a[0])
    return s.mul(a[0], c(factor)), s.mul(a[1], c(factor))


def log2(s: Scalars, a: Pair) -> Pair:
    return _scaled(s, log(s, a), 1.4426950408889634)


def log10(s: Scalars, a: Pair) -> Pair:
    return _scaled(s, log(s, a), 0.4342944819032518)


def exp2(s: Scalars, a: Pair) -> Pair:
    return exp(s, _scaled(s, a, 0.6931471805599453))


def expm1(s: Scalars, a: Pair) -> Pair:
    """exp(z) - 1: expm1(re) cos im + (cos im - 1), the latter as -2 sin(im / 2)**2."""
    c = constants(s, a[0])
    re, im = exp(s, a)
    half = real_sin(s, s.mul(a[1], c(0.5)))
    versine = s.mul(c(2.0), s.mul(half, half))
    grown = real_expm1(s, a[0])
    near = s.sub(s.mul(grown, s.sub(c(1.0), versine)), versine)
    return s.select(s.lt(s.abs(a[0]), c(1.0)), near, s.sub(re, c(1.0))), im


def log1p(s: Scalars, a: Pair) -> Pair:
    """log(1 + z): for small z its modulus from 2 re + re**2 + im**2."""
    c = constants(s, a[0])
    small = s.band(s.lt(s.abs(a[0]), c(0.5)), s.lt(s.abs(a[1]), c(0.5)))
    re, im = s.select(small, a[0], c(0.0)), s.select(small, a[1], c(0.0))
    excess = s.fma(re, re, s.fma(im, im, s.add(re, re)))
    far = log(s, (s.add(c(1.0), a[0]), a[1]))
    return s.select(small, s.mul(c(0.5), real_log1p(s, excess)), far[0]), far[1]


def _roots(s: Scalars, a: Pair) -> tuple[Pair, Pair]:
    """sqrt(1 - z) and sqrt(1 + z)."""
    one = constants(s, a[0])(1.0)
    return sqrt(s, (s.sub(one, a[0]), s.neg(a[1]))), sqrt(s, (s.add(one, a[0]), a[1]))


def _cross(s: Scalars, a: Pair, b: Pair) -> Value:
    """Im(conj(a) b)."""
    return s.sub(s.mul(a[0], b[1]), s.mul(a[1], b[0]))


def asin(s: Scalars, a: Pair) -> Pair:
    minus, plus = _roots(s, a)
    return atan2(s, a[0], multiply(s, minus, plus)[0]), real_asinh(s, _cross(s, minus, plus))


def acos(s: Scalars, a: Pair) -> Pair:
    minus, plus = _roots(s, a)
    angle = atan2(s, minus[0], plus[0])
    return s.add(angle, angle), real_asinh(s, _cross(s, plus, minus))


def acosh(s: Scalars, a: Pair) -> Pair:
    one = constants(s, a[0])(1.0)
    minus, plus = sqrt(s, (s.sub(a[0], one), a[1])), sqrt(s, (s.add(a[0], one), a[1]))
    dot = s.add(s.mul(minus[0], plus[0]), s.mul(minus[1], plus[1]))
    angle = atan2(s, minus[1], plus[0])
    return real_asinh(s, dot), s.add(angle, angle)


def atanh(s: Scalars, a: Pair) -> Pair:
    """Of |re|, then the signs: log1p(4 x / ((1 - x)**2 + y**2)) / 4 and half the angle of (1 - x)(1 + x) - y**2 + 2 i y."""
    c = constants(s, a[0])
    one = c(1.0)
    limit = c(2.0**500 if s.dtype(a[0]).itemsize == 8 else 2.0**60)
    x, y = s.abs(a[0]), s.abs(a[1])
    big = s.bor(s.gt(x, limit), s.gt(y, limit))
    x, y = s.select(big, one, x), s.select(big, one, y)
    left = s.sub(one, x)
    below = s.fma(left, left, s.mul(y, y))
    re = s.mul(c(0.25), real_log1p(s, s.div(s.mul(c(4.0), x), below)))
    im = s.mul(c(0.5), atan2(s, s.add(y, y), s.sub(s.mul(left, s.add(one, x)), s.mul(y, y))))
    # Far away: re = Re(1 / z), by its larger part, and a quarter turn.
    large = s.select(s.gt(s.abs(a[0]), s.abs(a[1])), s.abs(a[0]), s.abs(a[1]))
    u, v = s.div(s.abs(a[0]), large), s.div(s.abs(a[1]), large)
    inverse = s.div(s.div(u, large), s.fma(u, u, s.mul(v, v)))
    re, im = s.select(big, inverse, re), s.select(big, c(1.5707963267948966), im)
    return s.copysign(re, a[0]), s.copysign(im, a[1])


def asinh(s: Scalars, a: Pair) -> Pair:
    """-i asin(i z)."""
    re, im = asin(s, (s.neg(a[1]), a[0]))
    return im, s.neg(re)


def atan(s: Scalars, a: Pair) -> Pair:
    """-i atanh(i z)."""
    re, im = atanh(s, (s.neg(a[1]), a[0]))
    return im, s.neg(re)
