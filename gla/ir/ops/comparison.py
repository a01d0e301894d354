"""Rows of comparisons, logic, classification and `where`. With a NaN every comparison but `not_equal` is false."""

from __future__ import annotations

from typing import Any

import numpy as np

from gla.dtypes import DType, bool_, real_of
from gla.ir.ops.pieces import Value, is_infinite, is_nan, sign_is_set
from gla.ir.ops.references import quiet
from gla.ir.ops.row import Elementwise
from gla.ir.ops.scalars import Scalars


def equal(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    if dtype.kind == "c":
        return s.band(s.eq(a[0], b[0]), s.eq(a[1], b[1]))
    return s.bnot(s.bxor(a, b)) if dtype is bool_ else s.eq(a, b)


def not_equal(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    if dtype.kind == "c":
        return s.bor(s.ne(a[0], b[0]), s.ne(a[1], b[1]))
    return s.bxor(a, b) if dtype is bool_ else s.ne(a, b)


def less(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    return s.band(s.bnot(a), b) if dtype is bool_ else s.lt(a, b)


def less_equal(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    return s.bor(s.bnot(a), b) if dtype is bool_ else s.le(a, b)


def greater(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    return s.band(a, s.bnot(b)) if dtype is bool_ else s.gt(a, b)


def greater_equal(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    return s.bor(a, s.bnot(b)) if dtype is bool_ else s.ge(a, b)


def logical_and(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    return s.band(a, b)


def logical_or(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    return s.bor(a, b)


def logical_xor(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    return s.bxor(a, b)


def logical_not(s: Scalars, dtype: DType, a: Value) -> Value:
    return s.bnot(a)


def where(s: Scalars, dtype: DType, condition: Value, a: Value, b: Value) -> Value:
    """a where the condition holds, else b; both are computed, neither leaks into the other."""
    if dtype.kind == "c":
        return s.select(condition, a[0], b[0]), s.select(condition, a[1], b[1])
    return s.select(condition, a, b)


def isnan(s: Scalars, dtype: DType, a: Value) -> Value:
    if dtype.kind == "c":
        return s.bor(is_nan(s, a[0]), is_nan(s, a[1]))
    return is_nan(s, a) if dtype.kind == "f" else s.const(False, bool_)


def isinf(s: Scalars, dtype: DType, a: Value) -> Value:
    if dtype.kind == "c":
        return s.bor(is_infinite(s, a[0]), is_infinite(s, a[1]))
    return is_infinite(s, a) if dtype.kind == "f" else s.const(False, bool_)


def isfinite(s: Scalars, dtype: DType, a: Value) -> Value:
    if dtype.kind == "c":
        part = real_of(dtype)
        return s.band(isfinite(s, part, a[0]), isfinite(s, part, a[1]))
    return s.lt(s.abs(a), s.const(float("inf"), dtype)) if dtype.kind == "f" else s.const(True, bool_)


def signbit(s: Scalars, dtype: DType, a: Value) -> Value:
    if dtype.kind == "f":
        return sign_is_set(s, a)
    return s.lt(a, s.const(0, dtype)) if dtype.kind == "i" else s.const(False, bool_)


def _class(function: Any) -> Any:
    return quiet(lambda a: function(a) if a.dtype.kind in "fc" else np.full(a.shape, function(0.0)))


def _reference_signbit(a: Any) -> Any:
    return np.signbit(a) if a.dtype.kind == "f" else a < 0


def _bool(name: str, arity: int, kinds: str, reference: Any, expand: Any, *, doc: str, **more: Any) -> Elementwise:
    return Elementwise(name, arity, kinds, quiet(reference), expand, doc, result="bool", **more)


ROWS = (
    _bool("equal", 2, "biufc", np.equal, equal, doc="a == b", commutative=True),
    _bool("not_equal", 2, "biufc", np.not_equal, not_equal, doc="a != b", commutative=True),
    _bool("less", 2, "biuf", np.less, less, doc="a < b"),
    _bool("less_equal", 2, "biuf", np.less_equal, less_equal, doc="a <= b"),
    _bool("greater", 2, "biuf", np.greater, greater, doc="a > b"),
    _bool("greater_equal", 2, "biuf", np.greater_equal, greater_equal, doc="a >= b"),
    _bool("logical_and", 2, "b", np.logical_and, logical_and, doc="a and b", commutative=True, associative=True, identity=True),
    _bool("logical_or", 2, "b", np.logical_or, logical_or, doc="a or b", commutative=True, associative=True, identity=False),
    _bool(
        "logical_xor", 2, "b", np.logical_xor, logical_xor, doc="a xor b", commutative=True, associative=True, identity=False
    ),
    _bool("logical_not", 1, "b", np.logical_not, logical_not, doc="not a"),
    _bool("isnan", 1, "biufc", _class(np.isnan), isnan, doc="whether a, or a part of it, is NaN"),
    _bool("isinf", 1, "biufc", _class(np.isinf), isinf, doc="whether a, or a part of it, is infinite", cost=2),
    _bool("isfinite", 1, "biufc", _class(np.isfinite), isfinite, doc="whether a is neither NaN nor infinite", cost=2),
    _bool("signbit", 1, "biuf", _reference_signbit, signbit, doc="whether the sign bit of a is set, of -0.0 and NaN too"),
    Elementwise("where", 3, "biufc", np.where, where, "a where the condition holds, else b", mixed=(0,)),
)
