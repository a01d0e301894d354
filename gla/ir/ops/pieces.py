"""Small pieces that several expansions use: polynomials, error-free sums and products, exponent bits.

Called by the op rows only. Everything is written in `Scalars` primitives and is free of branches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gla.dtypes import DType, float64, int32, int64, uint32, uint64
from gla.ir.ops.scalars import Scalars

Value = Any
Pair = tuple[Any, Any]


def constants(s: Scalars, x: Value) -> Callable[[float], Value]:
    """`c(v)` gives the number v in the dtype of `x`."""
    dtype = s.dtype(x)
    return lambda v: s.const(v, dtype)


def bits_of(dtype: DType) -> DType:
    """The signed integer dtype as wide as a float dtype."""
    return int64 if dtype is float64 else int32


def unsigned_of(dtype: DType) -> DType:
    """The unsigned integer dtype as wide as a float dtype."""
    return uint64 if dtype is float64 else uint32


def mantissa_bits(dtype: DType) -> int:
    """Stored bits of the significand: 52 or 23."""
    return 52 if dtype is float64 else 23


def bias(dtype: DType) -> int:
    return 1023 if dtype is float64 else 127


def horner(s: Scalars, x: Value, coefficients: Sequence[float]) -> Value:
    """c[0] + c[1] x + c[2] x^2 + ... by fused multiply-adds."""
    c = constants(s, x)
    result = c(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = s.fma(result, x, c(coefficient))
    return result


def two_sum(s: Scalars, a: Value, b: Value) -> Pair:
    """a + b and its rounding error (Knuth)."""
    total = s.add(a, b)
    part = s.sub(total, a)
    return total, s.add(s.sub(a, s.sub(total, part)), s.sub(b, part))


def fast_two_sum(s: Scalars, a: Value, b: Value) -> Pair:
    """a + b and its rounding error, for |a| >= |b| (Dekker)."""
    total = s.add(a, b)
    return total, s.sub(b, s.sub(total, a))


def two_product(s: Scalars, a: Value, b: Value) -> Pair:
    """a * b and its rounding error."""
    product = s.mul(a, b)
    return product, s.fma(a, b, s.neg(product))


def is_nan(s: Scalars, x: Value) -> Value:
    return s.ne(x, x)


def is_infinite(s: Scalars, x: Value) -> Value:
    return s.eq(s.abs(x), constants(s, x)(float("inf")))


def power_of_two(s: Scalars, n: Value, dtype: DType) -> Value:
    """2**n as a float, for an integer n (int32 for float32, int64 for float64) of the normal range."""
    ints = bits_of(dtype)
    shifted = s.shl(s.add(n, s.const(bias(dtype), ints)), s.const(mantissa_bits(dtype), ints))
    return s.bitcast(shifted, dtype)


def scale(s: Scalars, x: Value, n: Value) -> Value:
    """x * 2**n with one rounding, for |x| in [0.5, 4) or so and n from twice the least to twice the greatest exponent."""
    dtype = s.dtype(x)
    half = s.shr(n, s.const(1, s.dtype(n)))
    return s.mul(s.mul(x, power_of_two(s, half, dtype)), power_of_two(s, s.sub(n, half), dtype))


def sign_mask(s: Scalars, x: Value) -> Value:
    """The sign bit of a float alone, as an unsigned integer."""
    dtype = s.dtype(x)
    ints = unsigned_of(dtype)
    return s.band(s.bitcast(x, ints), s.const(1 << (dtype.bits - 1), ints))


def sign_is_set(s: Scalars, x: Value) -> Value:
    ints = bits_of(s.dtype(x))
    return s.lt(s.bitcast(x, ints), s.const(0, ints))


def rarely(s: Scalars, condition: Value, rare: Sequence[Value], usual: Sequence[Value]) -> tuple[Value, ...]:
    """`rare` where the condition holds, which is for few values, else `usual`: selections by one condition, side by side, so
    that a printer may put the rare work behind a branch."""
    return tuple(s.select(condition, new, old) for new, old in zip(rare, usual, strict=True))


def flip_sign(s: Scalars, x: Value, mask: Value) -> Value:
    """`x` with its bits xored by `mask`, an unsigned integer that holds a sign bit or 0."""
    return s.bitcast(s.bxor(s.bitcast(x, unsigned_of(s.dtype(x))), mask), s.dtype(x))
