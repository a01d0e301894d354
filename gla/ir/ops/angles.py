"""Reduction of an angle to a quadrant and a remainder of at most about pi/4, for every float32 and float64 number.

Below a threshold: Cody and Waite with fused multiply-adds and three parts of pi/2. Above: Payne and Hanek, that is a product
with the bits of 1/(2 pi) that matter. float32 takes those in 29-bit pieces in float64, where each product is exact; float64
takes a 192-bit window in integers. The remainder comes as an unevaluated sum hi + lo. The bits of 2/pi are those of any
arbitrary-precision library.
"""

from __future__ import annotations

from itertools import pairwise

from gla.dtypes import float32, float64, int64, uint32, uint64
from gla.ir.ops.pieces import Value, constants, fast_two_sum, flip_sign, rarely, sign_mask, two_product, two_sum
from gla.ir.ops.scalars import Scalars

Angle = tuple[Value, Value, Value]  # hi, lo, quadrant (unsigned; only its two lowest bits count)

TURN_PIECES = (0x517CC1B, 0xE4E4415, 0x53F84EA, 0x1F47D4D3, 0xEE06DB1)  # 1/(2 pi), 29 bits each
TURN_REST = float.fromhex("0x1.2b32788720840p-147")  # what follows them
TWO_OVER_PI = (
    *(0x0, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0),
    *(0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4),
    *(0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D),
    *(0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB),
)


def reduce_angle(s: Scalars, x: Value) -> Angle:
    """x = quadrant pi/2 + hi + lo; NaN for what is not finite."""
    return _reduce32(s, x) if s.dtype(x) is float32 else _reduce64(s, x)


def _nearest(s: Scalars, x: Value, factor: float) -> tuple[Value, Value]:
    """x factor rounded to an integer, and the bits of a number whose last bits are that integer's."""
    c = constants(s, x)
    wide = s.dtype(x) is float64
    magic = c(1.5 * 2.0**52 if wide else 1.5 * 2.0**23)
    shifted = s.fma(x, c(factor), magic)
    return s.sub(shifted, magic), s.bitcast(shifted, uint64 if wide else uint32)


def _reduce32(s: Scalars, x: Value) -> Angle:
    c = constants(s, x)
    n, quadrant = _nearest(s, x, 0.6366197723675814)
    first = s.fma(s.neg(n), c(1.5707963705062866), x)  # exact
    product, below = two_product(s, n, c(-4.371138828673793e-08))
    hi, lo = fast_two_sum(s, first, s.neg(product))
    lo = s.fma(s.neg(n), c(-1.7151245100059e-15), s.sub(lo, below))
    large = s.bnot(s.lt(s.abs(x), c(2.0**16)))
    turns, bits = turns32(s, s.convert(x, float64))
    radians = s.mul(turns, s.const(6.283185307179586, float64))
    upper = s.convert(radians, float32)
    wide = upper, s.convert(s.sub(radians, s.convert(upper, float64)), float32), s.convert(bits, uint32)
    hi, lo, quadrant = rarely(s, large, wide, (hi, lo, quadrant))
    return hi, lo, quadrant


def turns32(s: Scalars, x: Value) -> tuple[Value, Value]:
    """A float32 number, given as float64, as quarter turns (last bits of a uint64) and a rest within an eighth of a turn."""
    c = constants(s, x)
    parts = []
    for index, piece in enumerate(TURN_PIECES):
        product = s.mul(x, c(piece * 2.0 ** (-29 * (index + 1))))
        parts.append(s.sub(product, s.rint(product)))
    rough = parts[0]
    for part in parts[1:]:
        rough = s.add(rough, part)
    quarters, bits = _nearest(s, rough, 4.0)
    # From the largest to the smallest: sums that cancel are exact.
    rest = s.fma(quarters, c(-0.25), parts[0])
    for part in parts[1:]:
        rest = s.add(rest, part)
    return s.fma(x, c(TURN_REST), rest), bits


def _reduce64(s: Scalars, x: Value) -> Angle:
    c = constants(s, x)
    n, quadrant = _nearest(s, x, 0.6366197723675814)
    first = s.fma(s.neg(n), c(1.5707963267948966), x)  # exact
    product, below = two_product(s, n, c(6.123233995736766e-17))
    hi, lo = two_sum(s, first, s.neg(product))
    lo = s.fma(s.neg(n), c(-1.4973849048591833e-33), s.sub(lo, below))
    large = s.bnot(s.lt(s.abs(x), c(2.0**28)))
    hi, lo, quadrant = rarely(s, large, _payne_hanek(s, x), (hi, lo, quadrant))
    return hi, lo, quadrant


def _window(s: Scalars, offset: Value) -> list[Value]:
    """192 bits of `TWO_OVER_PI` from bit `offset` (uint64, at most 1033) on, as three words."""
    words = [s.const(word, uint64) for word in TWO_OVER_PI]
    index = s.shr(offset, s.const(6, uint64))
    for step in (16, 8, 4, 2, 1):
        taken = s.ne(s.band(index, s.const(step, uint64)), s.const(0, uint64))
        # An index beyond 16 does not occur, so that only four words can be reached by the first step.
        moved = [s.select(taken, far, near) for far, near in zip(words[step:], words, strict=False)]
        words = moved + words[4:19] if step == 16 else moved[: step + 3]
    count = s.band(offset, s.const(63, uint64))
    back = s.bxor(count, s.const(63, uint64))
    one = s.const(1, uint64)
    return [s.bor(s.shl(high, count), s.shr(s.shr(low, one), back)) for high, low in pairwise(words)]


def _payne_hanek(s: Scalars, x: Value) -> Angle:
    bits = s.bitcast(s.abs(x), uint64)
    exponent = s.sub(s.shr(bits, s.const(52, uint64)), s.const(1023 - 10, uint64))
    mantissa = s.bor(s.band(bits, s.const((1 << 52) - 1, uint64)), s.const(1 << 52, uint64))
    w0, w1, w2 = _window(s, exponent)
    middle = s.mul(mantissa, w1)
    low = s.add(middle, s.mulhi(mantissa, w2))
    carry = s.convert(s.lt(low, middle), uint64)
    high = s.add(s.add(s.mul(mantissa, w0), s.mulhi(mantissa, w1)), carry)
    quadrant = s.shr(s.add(high, s.const(1 << 61, uint64)), s.const(62, uint64))
    rest = s.bitcast(s.sub(high, s.shl(quadrant, s.const(62, uint64))), int64)
    # rest and low are a signed fraction of a quadrant, in units of 2**-62 and 2**-126
    coarse = s.mul(s.convert(s.shr(rest, s.const(32, int64)), float64), s.const(2.0**32, float64))
    fine = s.convert(s.band(rest, s.const(0xFFFFFFFF, int64)), float64)
    least = s.convert(s.bitcast(s.shr(low, s.const(12, uint64)), int64), float64)
    top, tail = fast_two_sum(s, coarse, fine)
    top, more = fast_two_sum(s, top, s.mul(least, s.const(2.0**-52, float64)))
    tail = s.add(tail, more)
    scale = s.const(1.5707963267948966 * 2.0**-62, float64)
    hi, lo = two_product(s, top, scale)
    lo = s.fma(top, s.const(6.123233995736766e-17 * 2.0**-62, float64), s.fma(tail, scale, lo))
    hi = s.select(s.lt(s.abs(x), s.const(float("inf"), float64)), hi, s.const(float("nan"), float64))
    mask = sign_mask(s, x)
    negative = s.ne(mask, s.const(0, uint64))
    quadrant = s.select(negative, s.sub(s.const(0, uint64), quadrant), quadrant)
    return flip_sign(s, hi, mask), flip_sign(s, lo, mask), quadrant
