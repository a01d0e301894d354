"""cbrt, hypot, erf and logaddexp over float32 and float64 values, in primitives."""

from __future__ import annotations

from gla.dtypes import float32, float64, uint32, uint64
from gla.ir.ops.exponential import exp, exponential
from gla.ir.ops.logarithmic import log1p
from gla.ir.ops.pieces import Value, constants, horner, power_of_two
from gla.ir.ops.scalars import Scalars

# 1 / cbrt(r) for r in [0.86, 1.17]
CBRT = (1.995576158942317, -2.4842422187144244, 2.8207897480898354, -1.95715594446907, 0.744363429418593, -0.11933113295444547)
# erf(x)/x in x**2 for |x| <= 0.9; erfc(x) exp(x**2) in (x - 3)/(x + 3) for 0.87 <= x <= 6, fitted with weight exp(-x**2)
ERF = (
    1.1283791670955126,
    -0.3761263890318373,
    0.1128379167095382,
    -0.02686617064482882,
    0.005223977621820572,
    -0.000854832676735515,
    0.0001205532148611339,
    -1.4925309923357528e-05,
    1.6455364093780596e-06,
    -1.627685161579122e-07,
    1.4053170480317343e-08,
    -8.497784841792478e-10,
)
ERFC = (
    0.17900115118139012,
    -0.32623356004303383,
    0.24560380171222934,
    -0.15011593650329613,
    0.07166583718790152,
    -0.024392499170962607,
    0.004269138054655189,
    0.0007077521415041121,
    -0.000597075199221384,
    4.5068212411805473e-05,
    6.328048072582651e-05,
    -1.4677527173060708e-05,
    -1.0567473456402092e-05,
    1.244375165007222e-08,
    5.948680167910464e-07,
)
# the same less 1 for |x| <= 1.02, and -log(erfc(x)) in x for 0.9 <= x <= 3.95, for float32
ERF32 = (0.128379166, -0.376126379, 0.112837806, -0.0268653017, 0.00522062741, -0.000847767515, 0.000112160764, -9.51551738e-06)
ERFC32 = (-0.00017075846, 1.12949669, 0.63338238, 0.108242661, -0.0250962488, 0.00416263891, -0.000432797155, 2.09567315e-05)


def cbrt(s: Scalars, x: Value) -> Value:
    """Within 0.7 ULP."""
    if s.dtype(x) is float32:
        return s.convert(cbrt(s, s.convert(x, float64)), float32)
    c = constants(s, x)
    size = s.abs(x)
    tiny = s.lt(size, c(2.0**-1000))
    size = s.select(tiny, s.mul(size, c(2.0**108)), size)
    # A third of the exponent's bits is a root to 5 %; the polynomial makes it 23 bits, one Newton step the rest.
    upper = s.convert(s.shr(s.bitcast(size, uint64), s.const(32, uint64)), uint32)
    third = s.add(s.idiv(upper, s.const(3, uint32)), s.const(715094163, uint32))
    root = s.bitcast(s.shl(s.convert(third, uint64), s.const(32, uint64)), float64)
    ratio = s.mul(s.mul(root, root), s.div(root, size))
    root = s.mul(root, horner(s, ratio, CBRT))
    mask = s.const(0xFFFFFFFFC0000000, uint64)
    root = s.bitcast(s.band(s.add(s.bitcast(root, uint64), s.const(0x20000000, uint64)), mask), float64)
    quotient = s.div(size, s.mul(root, root))
    step = s.div(s.sub(quotient, root), s.add(s.add(root, root), quotient))
    root = s.fma(root, step, root)
    root = s.select(tiny, s.mul(root, c(2.0**-36)), root)
    proper = s.band(s.lt(size, c(float("inf"))), s.gt(size, c(0.0)))
    return s.select(proper, s.copysign(root, x), x)


def hypot(s: Scalars, x: Value, y: Value) -> Value:
    """sqrt(x x + y y) within 0.6 ULP, no overflow or underflow on the way; inf wins over NaN. After Borges (2019)."""
    if s.dtype(x) is float32:
        a, b = s.convert(x, float64), s.convert(y, float64)
        root = s.convert(s.sqrt(s.add(s.mul(a, a), s.mul(b, b))), float32)
        return _infinite_wins(s, x, y, root)
    c = constants(s, x)
    a, b = s.abs(x), s.abs(y)
    swap = s.gt(b, a)
    a, b = s.select(swap, b, a), s.select(swap, a, b)
    large, tiny = s.gt(a, c(2.0**500)), s.lt(a, c(2.0**-400))
    factor = s.select(large, c(2.0**-600), s.select(tiny, c(2.0**600), c(1.0)))
    back = s.select(large, c(2.0**600), s.select(tiny, c(2.0**-600), c(1.0)))
    a, b = s.mul(a, factor), s.mul(b, factor)
    root = s.sqrt(s.fma(a, a, s.mul(b, b)))
    square, whole = s.mul(a, a), s.mul(root, root)
    excess = s.fma(s.neg(b), b, s.sub(whole, square))
    excess = s.sub(s.add(excess, s.fma(root, root, s.neg(whole))), s.fma(a, a, s.neg(square)))
    # Where the smaller operand does not count, its square may have been lost: nothing to correct.
    root = s.select(s.gt(a, s.mul(b, c(2.0**60))), a, s.sub(root, s.div(excess, s.add(root, root))))
    root = s.select(s.eq(a, c(0.0)), c(0.0), root)
    root = s.select(s.band(s.eq(x, x), s.eq(y, y)), s.mul(root, back), s.add(x, y))
    return _infinite_wins(s, x, y, root)


def _infinite_wins(s: Scalars, x: Value, y: Value, otherwise: Value) -> Value:
    infinity = constants(s, x)(float("inf"))
    return s.select(s.bor(s.eq(s.abs(x), infinity), s.eq(s.abs(y), infinity)), infinity, otherwise)


def erf(s: Scalars, x: Value) -> Value:
    """Within 1.2 ULP (float32: 1)."""
    c = constants(s, x)
    size = s.abs(x)
    square = s.mul(size, size)
    if s.dtype(x) is float32:
        near = s.fma(size, horner(s, square, ERF32), size)
        bounded = s.select(s.gt(size, c(4.0)), c(4.0), size)
        slope = s.neg(horner(s, bounded, ERFC32[1:]))
        # The exponent and what its rounding lost; then 1 - 2**n (1 + e) with the exact difference 1 - 2**n.
        exponent = s.fma(slope, bounded, c(-ERFC32[0]))
        n, e, rest = exponential(s, exponent, s.add(s.fma(slope, bounded, s.neg(exponent)), c(-ERFC32[0])))
        power = power_of_two(s, n, float32)
        beyond = s.sub(s.sub(c(1.0), power), s.mul(power, s.add(e, rest)))
        return s.copysign(s.select(s.lt(size, c(0.92)), near, beyond), x)
    near = s.fma(size, horner(s, square, (ERF[0] - 1.0, *ERF[1:])), size)
    bounded = s.select(s.gt(size, c(6.0)), c(6.0), size)
    u = s.div(s.sub(bounded, c(3.0)), s.add(bounded, c(3.0)))
    beyond = s.fma(s.neg(exp(s, s.neg(s.mul(bounded, bounded)))), horner(s, u, ERFC), c(1.0))
    return s.copysign(s.select(s.lt(size, c(0.88)), near, beyond), x)


def logaddexp(s: Scalars, x: Value, y: Value) -> Value:
    """log(exp(x) + exp(y)) = max + log1p(exp(-|x - y|)); equal infinities stay."""
    c = constants(s, x)
    greater = s.select(s.gt(x, y), x, y)
    correction = log1p(s, exp(s, s.neg(s.abs(s.sub(x, y)))))
    return s.select(s.eq(x, y), s.add(x, c(0.6931471805599453)), s.add(greater, correction))
