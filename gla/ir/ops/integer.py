"""Integer division, powers, shifts and bits: the functions that `arithmetic` uses for integers, and the rows of bits.

Nothing here traps: divisors of zero and the overflowing pair are replaced before `idiv`, counts are clamped before shifts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gla.dtypes import DType, integer_range
from gla.ir.ops.pieces import Value
from gla.ir.ops.references import quiet
from gla.ir.ops.row import Elementwise
from gla.ir.ops.scalars import Scalars


def absolute(s: Scalars, dtype: DType, a: Value) -> Value:
    """|a|; the least integer stays, as its negation wraps."""
    if dtype.kind != "i":
        return a
    zero = s.const(0, dtype)
    return s.select(s.lt(a, zero), s.sub(zero, a), a)


def _truncated(s: Scalars, dtype: DType, a: Value, b: Value) -> tuple[Value, Value, Value]:
    """Quotient, remainder and the divisor used: 1 in place of zero and in place of -1 under the least integer."""
    bad = s.eq(b, s.const(0, dtype))
    if dtype.kind == "i":
        least = s.const(integer_range(dtype)[0], dtype)
        bad = s.bor(bad, s.band(s.eq(a, least), s.eq(b, s.const(-1, dtype))))
    safe = s.select(bad, s.const(1, dtype), b)
    quotient = s.idiv(a, safe)
    return quotient, s.sub(a, s.mul(quotient, safe)), safe


def _crosses(s: Scalars, dtype: DType, left: Value, divisor: Value) -> Value:
    """Whether truncation and floor differ: a remainder of the other sign than the divisor."""
    zero = s.const(0, dtype)
    return s.band(s.ne(left, zero), s.lt(s.bxor(left, divisor), zero))


def floor_divide(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    """floor(a / b); 0 by zero; the least integer by -1 is itself."""
    quotient, left, divisor = _truncated(s, dtype, a, b)
    if dtype.kind == "i":
        quotient = s.select(_crosses(s, dtype, left, divisor), s.sub(quotient, s.const(1, dtype)), quotient)
    zero = s.const(0, dtype)
    return s.select(s.eq(b, zero), zero, quotient)


def remainder(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    """a - b floor(a / b); 0 by zero."""
    _, left, divisor = _truncated(s, dtype, a, b)
    return s.select(_crosses(s, dtype, left, divisor), s.add(left, divisor), left) if dtype.kind == "i" else left


def fmod(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    """a - b trunc(a / b); 0 by zero."""
    return _truncated(s, dtype, a, b)[1]


def power(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    """a**b, wrapping, by squaring over every bit of b.

    A negative exponent gives what rounding towards zero gives: 1 for base 1, 1 or -1 for base -1, otherwise 0.
    """
    zero, one = s.const(0, dtype), s.const(1, dtype)
    result, base = one, a
    for bit in range(dtype.bits - (dtype.kind == "i")):
        result = s.select(s.ne(s.band(b, s.const(1 << bit, dtype)), zero), s.mul(result, base), result)
        base = s.mul(base, base)
    if dtype.kind == "u":
        return result
    odd = s.ne(s.band(b, one), zero)
    minus = s.const(-1, dtype)
    inverse = s.select(s.eq(a, one), one, s.select(s.eq(a, minus), s.select(odd, minus, one), zero))
    return s.select(s.lt(b, zero), inverse, result)


def _count(s: Scalars, dtype: DType, b: Value) -> tuple[Value, Value]:
    """Whether the count lies in 0..width-1, and the count, or 0 where it does not, in `dtype`."""
    kind = s.dtype(b)
    fine = s.lt(b, s.const(dtype.bits, kind))
    if kind.kind == "i":
        fine = s.band(fine, s.ge(b, s.const(0, kind)))
    count = s.select(fine, b, s.const(0, kind))
    return fine, count if kind is dtype else s.convert(count, dtype)


def left_shift(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    """a << b; 0 for a count of the width or more, or a negative one."""
    fine, count = _count(s, dtype, b)
    return s.select(fine, s.shl(a, count), s.const(0, dtype))


def right_shift(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    """a >> b, of signed integers with their sign; a count of the width or more, or a negative one, leaves 0 or -1."""
    fine, count = _count(s, dtype, b)
    zero = s.const(0, dtype)
    filled = s.select(s.lt(a, zero), s.const(-1, dtype), zero) if dtype.kind == "i" else zero
    return s.select(fine, s.shr(a, count), filled)


def _bits(name: str) -> Any:
    def expand(s: Scalars, dtype: DType, *values: Value) -> Value:
        return getattr(s, name)(*values)

    return expand


def reference_power(a: Any, b: Any) -> Any:
    """Exact integers, wrapped to the dtype; negative exponents as `power` says."""

    def one(base: int, exponent: int) -> int:
        if exponent < 0:
            return 1 if base == 1 or (base == -1 and exponent % 2 == 0) else -1 if base == -1 else 0
        value = pow(base, exponent, 1 << bits)
        return value - (1 << bits) if signed and value >> (bits - 1) else value

    a, b = np.broadcast_arrays(a, b)
    bits, signed = a.dtype.itemsize * 8, a.dtype.kind == "i"
    values = [one(int(x), int(y)) for x, y in zip(a.ravel(), b.ravel(), strict=True)]
    return np.array(values, a.dtype).reshape(a.shape)


ROWS = (
    Elementwise("bitwise_and", 2, "biu", np.bitwise_and, _bits("band"), "a & b", commutative=True, associative=True),
    Elementwise("bitwise_or", 2, "biu", np.bitwise_or, _bits("bor"), "a | b", commutative=True, associative=True, identity=0),
    Elementwise(
        "bitwise_xor", 2, "biu", np.bitwise_xor, _bits("bxor"), "a ^ b", commutative=True, associative=True, identity=0
    ),
    Elementwise("bitwise_invert", 1, "biu", np.invert, _bits("bnot"), "~a"),
    Elementwise("bitwise_left_shift", 2, "iu", quiet(np.left_shift), left_shift, "a << b, 0 from the width on", cost=4),
    Elementwise(
        "bitwise_right_shift", 2, "iu", quiet(np.right_shift), right_shift, "a >> b, 0 or -1 from the width on", cost=4
    ),
)
