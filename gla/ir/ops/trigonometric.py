"""sin, cos, tan and their inverses over float32 and float64 values."""

from __future__ import annotations

from gla.ir.ops.pieces import Value
from gla.ir.ops.scalars import Scalars


def sin(s: Scalars, x: Value) -> Value:
    return s.call("sin", x)


def cos(s: Scalars, x: Value) -> Value:
    return s.call("cos", x)


def tan(s: Scalars, x: Value) -> Value:
    return s.call("tan", x)


def asin(s: Scalars, x: Value) -> Value:
    return s.call("asin", x)


def acos(s: Scalars, x: Value) -> Value:
    return s.call("acos", x)


def atan(s: Scalars, x: Value) -> Value:
    return s.call("atan", x)


def atan2(s: Scalars, y: Value, x: Value) -> Value:
    return s.call("atan2", y, x)
