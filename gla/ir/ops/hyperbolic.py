"""sinh, cosh, tanh and their inverses over float32 and float64 values."""

from __future__ import annotations

from gla.ir.ops.pieces import Value
from gla.ir.ops.scalars import Scalars


def sinh(s: Scalars, x: Value) -> Value:
    return s.call("sinh", x)


def cosh(s: Scalars, x: Value) -> Value:
    return s.call("cosh", x)


def tanh(s: Scalars, x: Value) -> Value:
    return s.call("tanh", x)


def asinh(s: Scalars, x: Value) -> Value:
    return s.call("asinh", x)


def acosh(s: Scalars, x: Value) -> Value:
    return s.call("acosh", x)


def atanh(s: Scalars, x: Value) -> Value:
    return s.call("atanh", x)
