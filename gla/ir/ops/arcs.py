"""asin, acos, atan, atan2 over float32 and float64 values, in primitives.

float32 goes through float64, which leaves about half an ULP.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gla.dtypes import float32, float64
from gla.ir.ops.pieces import Value, constants, fast_two_sum, horner, is_nan, sign_is_set, two_product, two_sum
from gla.ir.ops.scalars import Scalars

# (atan(r)/r - 1) / r**2 for |r| <= 0.438 and (asin(r)/r - 1) / r**2 for |r| <= 0.5, in r**2; minimax fits
ATAN = (
    -0.3333333333333292,
    0.19999999999873577,
    -0.14285714272235014,
    0.11111110393122935,
    -0.09090886807315963,
    0.07691870880058502,
    -0.06661017659437891,
    0.058332007094979085,
    -0.0497535680047769,
    0.03649629818813664,
    -0.016250604419370367,
)
ASIN = (
    0.16666666666666766,
    0.07499999999969416,
    0.04464285717597167,
    0.03038194264084059,
    0.022372216916681665,
    0.01735157666454291,
    0.013981251993780655,
    0.011395323407232382,
    0.010800679877638029,
    0.0036281192302669947,
    0.02190060131520882,
    -0.02127609161342343,
    0.03280412970366258,
)
# the same for |r| <= 1 and |r| <= 0.5, to 2**-34
ATAN_SHORT = (
    -0.3333333223523341,
    0.19999932194393807,
    -0.1428425082643407,
    0.11095202198100279,
    -0.08988791108360976,
    0.07269381900549593,
    -0.054704448085129705,
    0.034704614059500684,
    -0.016471424252318286,
    0.004999302296651846,
    -0.0007113019077526981,
)
ASIN_SHORT = (
    0.16666667197210558,
    0.07499947507899943,
    0.0446603505278078,
    0.0301077949349558,
    0.024634576739649746,
    0.007416860302261149,
    0.03475843981863148,
)
PI, PI_REST = 3.141592653589793, 1.2246467991473532e-16
HALF_PI, HALF_PI_REST = 1.5707963267948966, 6.123233995736766e-17
ATAN_HALF, ATAN_HALF_REST = 0.4636476090008061, 2.2698777452961687e-17
QUARTER_PI, QUARTER_PI_REST = 0.7853981633974483, 3.061616997868383e-17


def _arc(s: Scalars, x: Value) -> tuple[Value, Value]:
    """asin of |x| <= 1/2 as x + rest."""
    z = s.mul(x, x)
    return x, s.mul(s.mul(x, z), horner(s, z, ASIN))


def _half_arc(s: Scalars, size: Value) -> tuple[Value, Value]:
    """acos(size) / 2 = asin(sqrt((1 - size) / 2)) as hi + lo, for size in [1/2, 1]."""
    c = constants(s, size)
    z = s.mul(s.sub(c(1.0), size), c(0.5))  # exact
    root = s.sqrt(z)
    missing = s.div(s.fma(s.neg(root), root, z), s.add(root, root))
    missing = s.select(s.eq(z, c(0.0)), c(0.0), missing)
    return fast_two_sum(s, root, s.fma(s.mul(root, z), horner(s, z, ASIN), missing))


def _narrowly(s: Scalars, x: Value, function: Callable[[Scalars, Any], Any]) -> Value:
    """A float32 function by way of float64, where a short polynomial and plain rounding are enough."""
    return s.convert(function(s, s.convert(x, float64)), float32)


def _short_arcs(s: Scalars, x: Value) -> tuple[Value, Value, Value]:
    """Whether |x| < 1/2; asin |x| if so, and acos |x| if not."""
    c = constants(s, x)
    size = s.abs(x)
    small = s.lt(size, c(0.5))
    z = s.select(small, s.mul(size, size), s.mul(s.sub(c(1.0), size), c(0.5)))
    root = s.select(small, size, s.sqrt(z))
    arc = s.fma(s.mul(root, z), horner(s, z, ASIN_SHORT), root)
    return small, arc, s.add(arc, arc)


def _short_asin(s: Scalars, x: Value) -> Value:
    small, arc, twice = _short_arcs(s, x)
    return s.copysign(s.select(small, arc, s.sub(constants(s, x)(HALF_PI), twice)), x)


def _short_acos(s: Scalars, x: Value) -> Value:
    c = constants(s, x)
    small, arc, twice = _short_arcs(s, x)
    ends = s.select(s.lt(x, c(0.0)), s.sub(c(PI), twice), twice)
    return s.select(small, s.sub(c(HALF_PI), s.copysign(arc, x)), ends)


def _short_octant(s: Scalars, ratio: Value) -> Value:
    """atan of 0 <= ratio <= 1."""
    z = s.mul(ratio, ratio)
    return s.fma(s.mul(ratio, z), horner(s, z, ATAN_SHORT), ratio)


def _short_atan(s: Scalars, x: Value) -> Value:
    c = constants(s, x)
    size = s.abs(x)
    steep = s.gt(size, c(1.0))
    arc = _short_octant(s, s.select(steep, s.div(c(1.0), size), size))
    return s.copysign(s.select(steep, s.sub(c(HALF_PI), arc), arc), x)


def _short_atan2(s: Scalars, y: Value, x: Value) -> Value:
    c = constants(s, x)
    a, b = s.abs(y), s.abs(x)
    steep = s.gt(a, b)
    low, high = s.select(steep, b, a), s.select(steep, a, b)
    ratio = s.div(low, high)
    ratio = s.select(s.eq(low, high), s.select(s.eq(high, c(0.0)), c(0.0), c(1.0)), ratio)  # 0/0 and inf/inf
    arc = _short_octant(s, ratio)
    behind = sign_is_set(s, x)
    upright = s.sub(c(HALF_PI), s.select(behind, s.neg(arc), arc))
    result = s.copysign(s.select(steep, upright, s.select(behind, s.sub(c(PI), arc), arc)), y)
    return s.select(s.bor(is_nan(s, x), is_nan(s, y)), s.add(x, y), result)


def asin(s: Scalars, x: Value) -> Value:
    """Within 0.7 ULP; NaN beyond [-1, 1]."""
    if s.dtype(x) is float32:
        return _narrowly(s, x, _short_asin)
    c = constants(s, x)
    size = s.abs(x)
    small, rest = _arc(s, size)
    hi, lo = _half_arc(s, size)
    top, lost = fast_two_sum(s, c(HALF_PI), s.mul(hi, c(-2.0)))
    large = s.add(top, s.add(lost, s.fma(lo, c(-2.0), c(HALF_PI_REST))))
    return s.copysign(s.select(s.lt(size, c(0.5)), s.add(small, rest), large), x)


def acos(s: Scalars, x: Value) -> Value:
    """Within 0.7 ULP; NaN beyond [-1, 1]."""
    if s.dtype(x) is float32:
        return _narrowly(s, x, _short_acos)
    c = constants(s, x)
    size = s.abs(x)
    arc, rest = _arc(s, x)
    top, lost = fast_two_sum(s, c(HALF_PI), s.neg(arc))
    middle = s.add(top, s.add(lost, s.sub(c(HALF_PI_REST), rest)))
    hi, lo = _half_arc(s, size)
    hi, lo = s.add(hi, hi), s.add(lo, lo)
    top, lost = fast_two_sum(s, c(PI), s.neg(hi))
    left = s.add(top, s.add(lost, s.sub(c(PI_REST), lo)))
    ends = s.select(s.lt(x, c(0.0)), left, s.add(hi, lo))
    return s.select(s.lt(size, c(0.5)), middle, ends)


def _first_octant(s: Scalars, low: Value, high: Value) -> tuple[Value, Value]:
    """atan(low / high) as hi + lo, for 0 <= low <= high, high normal and below 2**1020."""
    c = constants(s, low)
    middle = s.ge(low, s.mul(high, c(0.4375)))
    outer = s.ge(low, s.mul(high, c(0.6875)))

    def choose(inner: float, between: float, beyond: float) -> Value:
        return s.select(outer, c(beyond), s.select(middle, c(between), c(inner)))

    centre = choose(0.0, 0.5, 1.0)
    over, over_rest = two_product(s, centre, high)
    over, over_lost = two_sum(s, low, s.neg(over))
    over_rest = s.sub(over_lost, over_rest)
    under, under_rest = two_product(s, centre, low)
    under, under_lost = fast_two_sum(s, high, under)
    under_rest = s.add(under_lost, under_rest)
    r = s.div(over, under)
    left = s.fma(s.neg(r), under, over)
    rest = s.div(s.fma(s.neg(r), under_rest, s.add(left, over_rest)), under)
    z = s.mul(r, r)
    tail = s.fma(s.mul(r, z), horner(s, z, ATAN), rest)
    base, base_rest = choose(0.0, ATAN_HALF, QUARTER_PI), choose(0.0, ATAN_HALF_REST, QUARTER_PI_REST)
    top, lost = fast_two_sum(s, base, r)
    return top, s.add(lost, s.add(base_rest, tail))


def _plus(s: Scalars, base: tuple[float, float], hi: Value, lo: Value) -> Value:
    """base + (hi + lo), base the larger, rounded once or nearly so."""
    c = constants(s, hi)
    top, lost = fast_two_sum(s, c(base[0]), hi)
    return s.add(top, s.add(lost, s.add(c(base[1]), lo)))


def atan(s: Scalars, x: Value) -> Value:
    """Within 0.6 ULP."""
    if s.dtype(x) is float32:
        return _narrowly(s, x, _short_atan)
    c = constants(s, x)
    # Beyond 2**60 the arc tangent no longer changes.
    size = s.abs(x)
    size = s.select(s.gt(size, c(2.0**60)), c(2.0**60), size)
    steep = s.gt(size, c(1.0))
    hi, lo = _first_octant(s, s.select(steep, c(1.0), size), s.select(steep, size, c(1.0)))
    result = s.select(steep, _plus(s, (HALF_PI, HALF_PI_REST), s.neg(hi), s.neg(lo)), s.add(hi, lo))
    return s.copysign(result, x)


def atan2(s: Scalars, y: Value, x: Value) -> Value:
    """The angle of (x, y) within 0.6 ULP, with C99's answers for zeros and infinities."""
    if s.dtype(x) is float32:
        return s.convert(_short_atan2(s, s.convert(y, float64), s.convert(x, float64)), float32)
    c = constants(s, x)
    infinity = c(float("inf"))
    a, b = s.abs(y), s.abs(x)
    both = s.band(s.eq(a, infinity), s.eq(b, infinity))
    a, b = s.select(both, c(1.0), a), s.select(both, c(1.0), b)
    steep = s.gt(a, b)
    low, high = s.select(steep, b, a), s.select(steep, a, b)
    # Away from both ends of the exponents: a common factor changes nothing.
    large, tiny = s.gt(high, c(2.0**1020)), s.lt(high, c(2.0**-900))
    factor = s.select(large, c(2.0**-4), s.select(tiny, c(2.0**110), c(1.0)))
    low, high = s.mul(low, factor), s.mul(high, factor)
    high = s.select(s.eq(high, c(0.0)), c(1.0), high)
    endless = s.eq(high, infinity)
    low, high = s.select(endless, c(0.0), low), s.select(endless, c(1.0), high)
    hi, lo = _first_octant(s, low, high)
    behind = sign_is_set(s, x)
    up, down = _plus(s, (HALF_PI, HALF_PI_REST), hi, lo), _plus(s, (HALF_PI, HALF_PI_REST), s.neg(hi), s.neg(lo))
    flat = s.select(behind, _plus(s, (PI, PI_REST), s.neg(hi), s.neg(lo)), s.add(hi, lo))
    result = s.copysign(s.select(steep, s.select(behind, up, down), flat), y)
    return s.select(s.bor(is_nan(s, x), is_nan(s, y)), s.add(x, y), result)
