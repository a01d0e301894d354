"""sin, cos, tan over float32 and float64 values."""

from __future__ import annotations

from gla.dtypes import float32, float64, uint64
from gla.ir.ops.angles import reduce_angle, turns32
from gla.ir.ops.pieces import Value, constants, flip_sign, horner, unsigned_of
from gla.ir.ops.scalars import Scalars

# sin r = r + r**3 P(r**2), cos r = 1 - r**2/2 + r**4 Q(r**2) for |r| <= 0.79 (float32: 0.81); minimax fits.
SIN32 = (-0.166666523, 0.00833202712, -0.00019496851)
COS32 = (0.0416666418, -0.00138871686, 2.44155326e-05)
SIN64 = (
    *(-0.1666666666666663, 0.00833333333332177, -0.00019841269829270084),
    *(2.755731349846011e-06, -2.5050726839672958e-08, 1.5894930325342417e-10),
)
COS64 = (
    *(0.041666666666666595, -0.0013888888888873264, 2.480158728891965e-05),
    *(-2.75573141832987e-07, 2.0875699487857142e-09, -1.1358377743566582e-11),
)


def _sin_and_cos(s: Scalars, hi: Value, lo: Value) -> tuple[Value, Value]:
    """sin and cos of hi + lo, for |hi| up to about pi/4."""
    c = constants(s, hi)
    wide = s.dtype(hi) is float64
    z = s.mul(hi, hi)
    half = s.mul(z, c(0.5))
    slope = s.fma(s.neg(half), lo, lo) if wide else lo  # lo cos(hi), near enough
    sine = s.add(hi, s.fma(s.mul(hi, z), horner(s, z, SIN64 if wide else SIN32), slope))
    top = s.sub(c(1.0), half)
    lost = s.sub(s.sub(c(1.0), top), half)
    tail = s.fma(s.mul(z, z), horner(s, z, COS64 if wide else COS32), lost)
    return sine, s.add(top, s.fma(s.neg(hi), lo, tail))


def _by_quadrant(s: Scalars, quadrant: Value, even: Value, odd: Value) -> Value:
    """`even` or `odd` by the last bit of the quadrant, negated by its second."""
    ints = unsigned_of(s.dtype(even))
    chosen = s.select(s.ne(s.band(quadrant, s.const(1, ints)), s.const(0, ints)), odd, even)
    mask = s.shl(s.band(quadrant, s.const(2, ints)), s.const(ints.bits - 2, ints))
    return flip_sign(s, chosen, mask)


def sin(s: Scalars, x: Value) -> Value:
    """Within 0.8 ULP (float32: 0.95) for every number."""
    hi, lo, quadrant = reduce_angle(s, x)
    sine, cosine = _sin_and_cos(s, hi, lo)
    # The last sum of a reduced -0.0 would give +0.0.
    return s.select(s.eq(x, constants(s, x)(0.0)), x, _by_quadrant(s, quadrant, sine, cosine))


def cos(s: Scalars, x: Value) -> Value:
    """Within 0.8 ULP (float32: 0.95) for every number."""
    hi, lo, quadrant = reduce_angle(s, x)
    sine, cosine = _sin_and_cos(s, hi, lo)
    ints = unsigned_of(s.dtype(x))
    return _by_quadrant(s, s.add(quadrant, s.const(1, ints)), sine, cosine)


def tan(s: Scalars, x: Value) -> Value:
    """Within 2.1 ULP for float64, 0.6 for float32, for every number."""
    narrow = s.dtype(x) is float32
    if narrow:
        turns, quadrant = turns32(s, s.convert(x, float64))
        hi, lo = s.mul(turns, s.const(6.283185307179586, float64)), s.const(0.0, float64)
    else:
        hi, lo, quadrant = reduce_angle(s, x)
    sine, cosine = _sin_and_cos(s, hi, lo)
    odd = s.ne(s.band(quadrant, s.const(1, uint64)), s.const(0, uint64))
    result = s.div(s.select(odd, s.neg(cosine), sine), s.select(odd, sine, cosine))
    if narrow:
        result = s.convert(result, float32)
    return s.select(s.eq(x, constants(s, x)(0.0)), x, result)
