"""Complex arithmetic and functions over (re, im) pairs of float32 or float64 values.

Called by the rows for complex64 and complex128. Division is Smith's, moduli do not overflow, branch cuts and signs of zero
are C99's where NumPy follows them.
"""

from __future__ import annotations

from gla.ir.ops.arcs import atan2
from gla.ir.ops.exponential import exp as real_exp
from gla.ir.ops.hyperbolic import cosh as real_cosh
from gla.ir.ops.hyperbolic import sinh as real_sinh
from gla.ir.ops.logarithmic import log as real_log
from gla.ir.ops.logarithmic import log1p as real_log1p
from gla.ir.ops.pieces import Pair, Value, constants, is_infinite, is_nan, two_product, two_sum
from gla.ir.ops.scalars import Scalars
from gla.ir.ops.special import hypot
from gla.ir.ops.trigonometric import cos as real_cos
from gla.ir.ops.trigonometric import sin as real_sin


def add(s: Scalars, a: Pair, b: Pair) -> Pair:
    return s.add(a[0], b[0]), s.add(a[1], b[1])


def subtract(s: Scalars, a: Pair, b: Pair) -> Pair:
    return s.sub(a[0], b[0]), s.sub(a[1], b[1])


def multiply(s: Scalars, a: Pair, b: Pair) -> Pair:
    """(ac - bd) + i (ad + bc), four roundings of products and two of sums."""
    re = s.sub(s.mul(a[0], b[0]), s.mul(a[1], b[1]))
    return re, s.add(s.mul(a[0], b[1]), s.mul(a[1], b[0]))


def divide(s: Scalars, a: Pair, b: Pair) -> Pair:
    """Smith's quotient, in NumPy's order of operations."""
    c = constants(s, b[0])
    by_real = s.ge(s.abs(b[0]), s.abs(b[1]))
    large, small = s.select(by_real, b[0], b[1]), s.select(by_real, b[1], b[0])
    first, second = s.select(by_real, a[0], a[1]), s.select(by_real, a[1], a[0])
    ratio = s.div(small, large)
    factor = s.div(c(1.0), s.add(large, s.mul(small, ratio)))
    re = s.mul(s.add(first, s.mul(second, ratio)), factor)
    cross = s.mul(first, ratio)
    im = s.mul(s.select(by_real, s.sub(second, cross), s.sub(cross, second)), factor)
    zero = s.eq(large, c(0.0))
    size = s.abs(large)
    return s.select(zero, s.div(a[0], size), re), s.select(zero, s.div(a[1], size), im)


def absolute(s: Scalars, a: Pair) -> Value:
    return hypot(s, a[0], a[1])


def _is_zero(s: Scalars, a: Pair) -> Value:
    zero = constants(s, a[0])(0.0)
    return s.band(s.eq(a[0], zero), s.eq(a[1], zero))


def sign(s: Scalars, a: Pair) -> Pair:
    """z / |z|; 0 for 0; infinite parts count as 1 beside finite ones; NaN if a part is NaN."""
    c = constants(s, a[0])
    infinite = s.bor(is_infinite(s, a[0]), is_infinite(s, a[1]))
    unit = [s.copysign(s.select(is_infinite(s, part), c(1.0), c(0.0)), part) for part in a]
    unit = [s.select(is_nan(s, part), part, one) for part, one in zip(a, unit, strict=True)]
    z = [s.select(infinite, one, part) for part, one in zip(a, unit, strict=True)]
    # A power of two brings tiny parts up, so that the modulus of subnormal numbers keeps its digits.
    tiny = s.lt(absolute(s, (z[0], z[1])), c(2.0**-60))
    z = [s.select(tiny, s.mul(part, c(2.0**100)), part) for part in z]
    size = absolute(s, (z[0], z[1]))
    zero = s.eq(size, c(0.0))
    divisor = s.select(zero, c(1.0), size)
    return s.div(z[0], divisor), s.div(z[1], divisor)


def _endless(s: Scalars, re: Value, cosine: Value) -> Value:
    """The cosine, or 1 where it is NaN beside an infinite real part: that part stays infinite, as in C99."""
    return s.select(s.band(is_infinite(s, re), is_nan(s, cosine)), constants(s, re)(1.0), cosine)


def exp(s: Scalars, a: Pair) -> Pair:
    """e**re (cos im + i sin im)."""
    c = constants(s, a[0])
    re, im = a
    real_axis = s.eq(im, c(0.0))
    cosine, sine = real_cos(s, im), real_sin(s, im)
    vanishes = s.eq(re, c(float("-inf")))
    lost = s.band(vanishes, s.bnot(s.lt(s.abs(im), c(float("inf")))))
    cosine, sine = _endless(s, re, cosine), s.select(lost, s.copysign(c(1.0), im), sine)
    # Just beyond overflow the sine or cosine may bring the product back: the factor is applied in two steps.
    shift = c(700.0 if s.dtype(re).itemsize == 8 else 80.0)
    large = s.band(s.gt(re, shift), s.lt(re, c(float("inf"))))
    factor = real_exp(s, s.select(large, s.sub(re, shift), re))
    rest = s.select(large, real_exp(s, shift), c(1.0))
    out_re, out_im = s.mul(s.mul(factor, cosine), rest), s.mul(s.mul(factor, sine), rest)
    return s.select(real_axis, s.mul(factor, rest), out_re), s.select(real_axis, im, out_im)


def log(s: Scalars, a: Pair) -> Pair:
    """log|z| + i arg z, to full accuracy also where |z| is near 1."""
    return _log_modulus(s, a), atan2(s, a[1], a[0])


def _log_modulus(s: Scalars, a: Pair) -> Value:
    """log|z|; from |z|**2 - 1 as a sum of two numbers where that lies between -1/2 and 1."""
    c = constants(s, a[0])
    square, square_rest = two_product(s, a[0], a[0])
    other, other_rest = two_product(s, a[1], a[1])
    swap = s.gt(other, square)
    square, other = s.select(swap, other, square), s.select(swap, square, other)
    base, base_rest = two_sum(s, square, c(-1.0))
    excess, rest = two_sum(s, base, other)
    excess = s.add(excess, s.add(s.add(rest, base_rest), s.add(square_rest, other_rest)))
    near = s.band(s.gt(excess, c(-0.5)), s.lt(excess, c(1.0)))
    close = s.mul(c(0.5), real_log1p(s, s.select(near, excess, c(0.0))))
    return s.select(near, close, real_log(s, absolute(s, a)))


def sqrt(s: Scalars, a: Pair) -> Pair:
    """The root with a real part >= 0, the sign of the imaginary part kept."""
    c = constants(s, a[0])
    wide = s.dtype(a[0]).itemsize == 8
    re, im = a
    # Scaled by even powers of two, so that |z| neither overflows nor is subnormal.
    biggest = s.select(s.gt(s.abs(re), s.abs(im)), s.abs(re), s.abs(im))
    large = s.gt(biggest, c(2.0**1000 if wide else 2.0**120))
    tiny = s.lt(biggest, c(2.0**-900 if wide else 2.0**-70))
    step = 2.0**100 if wide else 2.0**50
    factor = s.select(large, c(0.25), s.select(tiny, c(step), c(1.0)))
    back = s.select(large, c(2.0), s.select(tiny, c(step**-0.5), c(1.0)))
    x, y = s.mul(re, factor), s.mul(im, factor)
    root = s.sqrt(s.mul(s.add(s.abs(x), hypot(s, x, y)), c(0.5)))
    other = s.div(s.abs(y), s.add(root, root))
    left = s.lt(x, c(0.0))
    out_re = s.mul(s.select(left, other, root), back)
    out_im = s.mul(s.copysign(s.select(left, root, other), im), back)
    zero = _is_zero(s, a)
    out_re, out_im = s.select(zero, c(0.0), out_re), s.select(zero, im, out_im)
    return _sqrt_special(s, a, out_re, out_im)


def _sqrt_special(s: Scalars, a: Pair, out_re: Value, out_im: Value) -> Pair:
    c = constants(s, a[0])
    re, im = a
    infinity, nan = c(float("inf")), c(float("nan"))
    positive, negative = s.eq(re, infinity), s.eq(re, c(float("-inf")))
    flat = s.copysign(c(0.0), im)
    im_nan = is_nan(s, im)
    out_re = s.select(positive, infinity, s.select(negative, s.select(im_nan, nan, c(0.0)), out_re))
    out_im = s.select(positive, s.select(im_nan, nan, flat), s.select(negative, s.copysign(infinity, im), out_im))
    im_infinite = is_infinite(s, im)
    return s.select(im_infinite, infinity, out_re), s.select(im_infinite, im, out_im)


def _times(s: Scalars, a: Value, b: Value) -> Value:
    """a b, where a zero `a` wins over an infinite or NaN b."""
    return s.select(s.eq(a, constants(s, a)(0.0)), s.copysign(a, s.mul(a, s.copysign(constants(s, a)(1.0), b))), s.mul(a, b))


def sinh(s: Scalars, a: Pair) -> Pair:
    """sinh re cos im + i cosh re sin im."""
    return (
        _times(s, real_sinh(s, a[0]), _endless(s, a[0], real_cos(s, a[1]))),
        _times(s, real_sin(s, a[1]), real_cosh(s, a[0])),
    )


def cosh(s: Scalars, a: Pair) -> Pair:
    """cosh re cos im + i sinh re sin im."""
    im = s.mul(real_sinh(s, a[0]), real_sin(s, a[1]))
    c = constants(s, a[0])
    flat = s.bor(s.eq(a[0], c(0.0)), s.eq(a[1], c(0.0)))
    zero = s.mul(s.copysign(c(0.0), a[0]), s.copysign(c(1.0), a[1]))
    return s.mul(real_cosh(s, a[0]), _endless(s, a[0], real_cos(s, a[1]))), s.select(flat, zero, im)


def tanh(s: Scalars, a: Pair) -> Pair:
    """Kahan's formula, which neither overflows nor cancels."""
    c = constants(s, a[0])
    re, im = a
    far = s.gt(s.abs(re), c(22.0 if s.dtype(re).itemsize == 8 else 11.0))
    x = s.select(far, c(0.0), re)
    sine, cosine = real_sin(s, im), real_cos(s, im)
    tangent = s.div(sine, cosine)
    beta = s.add(c(1.0), s.mul(tangent, tangent))
    height = real_sinh(s, x)
    rho = s.sqrt(s.add(c(1.0), s.mul(height, height)))
    below = s.add(c(1.0), s.mul(s.mul(beta, height), height))
    near_re, near_im = s.div(s.mul(s.mul(beta, rho), height), below), s.div(tangent, below)
    decay = real_exp(s, s.neg(s.abs(re)))
    tail = s.mul(s.mul(s.mul(s.mul(c(4.0), sine), cosine), decay), decay)
    endless = s.band(is_infinite(s, re), s.bnot(s.lt(s.abs(im), c(float("inf")))))
    tail = s.select(endless, s.copysign(c(0.0), im), tail)
    out_re, out_im = s.select(far, s.copysign(c(1.0), re), near_re), s.select(far, tail, near_im)
    return s.select(s.eq(re, c(0.0)), re, out_re), s.select(s.eq(im, c(0.0)), im, out_im)


def sin(s: Scalars, a: Pair) -> Pair:
    """-i sinh(i z)."""
    re, im = sinh(s, (s.neg(a[1]), a[0]))
    return im, s.neg(re)


def cos(s: Scalars, a: Pair) -> Pair:
    """cosh(i z)."""
    return cosh(s, (s.neg(a[1]), a[0]))


def tan(s: Scalars, a: Pair) -> Pair:
    """-i tanh(i z)."""
    re, im = tanh(s, (s.neg(a[1]), a[0]))
    return im, s.neg(re)


def power(s: Scalars, a: Pair, b: Pair) -> Pair:
    """exp(b log a); anything to the 0 is 1; 0 to a power of positive real part is 0, otherwise NaN."""
    c = constants(s, a[0])
    one, zero, nan = c(1.0), c(0.0), c(float("nan"))
    out = exp(s, multiply(s, b, log(s, a)))
    empty, none = _is_zero(s, a), _is_zero(s, b)
    at_zero = s.select(s.gt(b[0], zero), zero, nan)
    re = s.select(none, one, s.select(empty, at_zero, out[0]))
    return re, s.select(none, zero, s.select(empty, at_zero, out[1]))
