"""exp, log and their kin over float32 and float64 values."""

from __future__ import annotations

from gla.ir.ops.pieces import Value
from gla.ir.ops.scalars import Scalars


def exp(s: Scalars, x: Value) -> Value:
    return s.call("exp", x)


def exp2(s: Scalars, x: Value) -> Value:
    return s.call("exp2", x)


def expm1(s: Scalars, x: Value) -> Value:
    return s.call("expm1", x)


def log(s: Scalars, x: Value) -> Value:
    return s.call("log", x)


def log2(s: Scalars, x: Value) -> Value:
    return s.call("log2", x)


def log10(s: Scalars, x: Value) -> Value:
    return s.call("log10", x)


def log1p(s: Scalars, x: Value) -> Value:
    return s.call("log1p", x)


def power(s: Scalars, x: Value, y: Value) -> Value:
    return s.call("pow", x, y)
