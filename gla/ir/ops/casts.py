"""Conversions between all dtypes: the row `cast`, and `convert`, `widen`, `narrow` that lowering calls.

float16 and bfloat16 are uint16 bits here, complex values pairs. Every conversion to a narrower float rounds once, ties to
even. Float to integer truncates, saturates, and takes NaN to 0. complex to real is refused before it comes here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gla.dtypes import DType, bfloat16, bool_, float16, float32, float64, int64, integer_range, real_of, uint16, uint32
from gla.errors import DtypeError
from gla.ir.ops.pieces import Value, is_nan
from gla.ir.ops.row import Elementwise
from gla.ir.ops.scalars import Scalars

HALVES = (float16, bfloat16)


def convert(s: Scalars, value: Value, source: DType, target: DType) -> Value:
    """`value` of dtype `source` as `target`. float16/bfloat16 are uint16 bits on either side, complex numbers pairs.

    Raises DtypeError for complex to real numbers; as bool a complex number says whether it is not zero.
    """
    if source is target:
        return value
    if source.kind == "c":
        return _from_complex(s, value, source, target)
    if target.kind == "c":
        part = real_of(target)
        return convert(s, value, source, part), s.const(0.0, part)
    if target is bool_:
        return _to_bool(s, value, source)
    if target in HALVES:
        return _to_half(s, value, source, target)
    if source in HALVES:
        return convert(s, widen(s, value, source), float32, target)
    if source.kind == "f" and target.kind in "iu":
        return _saturate(s, value, source, target)
    return s.convert(value, target)


def widen(s: Scalars, bits: Value, source: DType) -> Value:
    """float16 or bfloat16 bits (uint16) as float32, exactly."""
    wide = s.convert(bits, uint32)
    if source is bfloat16:
        return s.bitcast(s.shl(wide, s.const(16, uint32)), float32)
    sign = s.shl(s.band(wide, s.const(0x8000, uint32)), s.const(16, uint32))
    rest = s.band(wide, s.const(0x7FFF, uint32))
    moved = s.shl(rest, s.const(13, uint32))
    # Read as float32 the exponent is 112 too small; the product puts it right, and makes subnormals normal, exactly.
    scaled = s.bitcast(s.mul(s.bitcast(moved, float32), s.const(2.0**112, float32)), uint32)
    special = s.ge(rest, s.const(0x7C00, uint32))
    return s.bitcast(s.bor(sign, s.select(special, s.bor(moved, s.const(0x7F800000, uint32)), scaled)), float32)


def narrow(s: Scalars, x: Value, target: DType) -> Value:
    """float32 or float64 as float16 or bfloat16 bits, rounded once."""
    if s.dtype(x) is float64:
        x = _to_odd(s, x)
    return _narrow_bfloat16(s, x) if target is bfloat16 else _narrow_float16(s, x)


def _to_odd(s: Scalars, x: Value) -> Value:
    """float64 as float32, rounded to odd, so that a second rounding to fewer bits is the only one that counts."""
    nearest = s.convert(x, float32)
    back = s.convert(nearest, float64)
    bits = s.bitcast(nearest, uint32)
    above = s.convert(s.gt(s.abs(back), s.abs(x)), uint32)
    inexact = s.convert(s.ne(back, x), uint32)
    return s.bitcast(s.bor(s.sub(bits, above), inexact), float32)


def _narrow_bfloat16(s: Scalars, x: Value) -> Value:
    bits = s.bitcast(x, uint32)
    high = s.shr(bits, s.const(16, uint32))
    bump = s.add(s.const(0x7FFF, uint32), s.band(high, s.const(1, uint32)))
    rounded = s.shr(s.add(bits, bump), s.const(16, uint32))
    return s.convert(s.select(is_nan(s, x), s.bor(high, s.const(0x40, uint32)), rounded), uint16)


def _narrow_float16(s: Scalars, x: Value) -> Value:
    bits = s.bitcast(x, uint32)
    sign = s.band(s.shr(bits, s.const(16, uint32)), s.const(0x8000, uint32))
    size = s.band(bits, s.const(0x7FFFFFFF, uint32))
    thirteen = s.const(13, uint32)
    bump = s.add(s.const(0xFFF, uint32), s.band(s.shr(size, thirteen), s.const(1, uint32)))
    normal = s.shr(s.sub(s.add(size, bump), s.const(112 << 23, uint32)), thirteen)
    # Below 2**-14 the sum with 0.5 rounds to multiples of 2**-24, which are float16's subnormals.
    half = s.const(0.5, float32)
    tiny = s.sub(s.bitcast(s.add(s.bitcast(size, float32), half), uint32), s.bitcast(half, uint32))
    finite = s.select(s.lt(size, s.const(113 << 23, uint32)), tiny, normal)
    infinite = s.const(0x7C00, uint32)
    result = s.select(s.ge(size, s.const(0x477FF000, uint32)), infinite, finite)  # 65520 and above
    nan = s.bor(s.const(0x7E00, uint32), s.band(s.shr(size, thirteen), s.const(0x1FF, uint32)))
    result = s.select(s.gt(size, s.const(0x7F800000, uint32)), nan, result)
    return s.convert(s.bor(sign, result), uint16)


def _to_half(s: Scalars, value: Value, source: DType, target: DType) -> Value:
    if source in HALVES:
        return narrow(s, widen(s, value, source), target)
    if source.kind == "f":
        return narrow(s, value, target)
    if source.itemsize <= 2:
        return narrow(s, s.convert(value, float32), target)
    if source.itemsize == 4:
        return narrow(s, s.convert(value, float64), target)
    # 64 bits: what float64 might lose is gathered into one sticky bit (rounding to odd) far below the result's last.
    sixteen = s.const(16, source)
    lost = s.ne(s.band(value, s.const(0xFFFF, source)), s.const(0, source))
    coarse = s.mul(s.convert(s.bor(s.shr(value, sixteen), s.convert(lost, source)), float64), s.const(65536.0, float64))
    limit = s.const(1 << 52, source)
    small = s.lt(value, limit)
    if source is int64:
        small = s.band(small, s.gt(value, s.const(-(1 << 52), source)))
    return narrow(s, s.select(small, s.convert(value, float64), coarse), target)


def _to_bool(s: Scalars, value: Value, source: DType) -> Value:
    if source in HALVES:
        return s.ne(s.band(value, s.const(0x7FFF, uint16)), s.const(0, uint16))
    return s.ne(value, s.const(0, source))


def _from_complex(s: Scalars, value: Value, source: DType, target: DType) -> Value:
    part = real_of(source)
    if target.kind == "c":
        return convert(s, value[0], part, real_of(target)), convert(s, value[1], part, real_of(target))
    if target is bool_:
        return s.bor(_to_bool(s, value[0], part), _to_bool(s, value[1], part))
    raise DtypeError("GLA0205", f"a {source} value has no {target} value", help="take `real(x)`, `imag(x)` or `abs(x)` first")


def _saturate(s: Scalars, x: Value, source: DType, target: DType) -> Value:
    low, high = integer_range(target)
    whole = s.trunc(x)
    least, beyond = s.const(float(low), source), s.const(float(high + 1), source)
    under, over = s.lt(whole, least), s.ge(whole, beyond)
    fits = s.band(s.ge(whole, least), s.lt(whole, beyond))
    result = s.convert(s.select(fits, whole, s.const(0.0, source)), target)
    return s.select(over, s.const(high, target), s.select(under, s.const(low, target), result))


def expand(s: Scalars, source: DType, value: Value, *, dtype: DType) -> Value:
    return convert(s, value, source, dtype)


def reference(x: Any, *, dtype: DType) -> Any:
    """NumPy's cast, but for what NumPy leaves to the machine (float to integer) or rounds twice (64 bits to bfloat16)."""
    target = dtype.numpy
    with np.errstate(all="ignore"):
        if dtype.kind in "iu" and x.dtype.kind not in "biu":
            low, high = integer_range(dtype)
            whole = np.trunc(x.astype(np.float64))
            under, over = whole < low, whole >= float(high + 1)
            result = np.where(np.isnan(whole) | under | over, 0.0, whole).astype(target)
            return np.where(over, target.type(high), np.where(under, target.type(low), result))
        if dtype is bool_:
            return x != 0
        return x.astype(target)


ROWS = (Elementwise("cast", 1, "biufc", reference, expand, "a as another dtype, rounded once, saturated, NaN to 0", cost=2),)
