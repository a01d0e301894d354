"""cbrt, hypot, erf and logaddexp over float32 and float64 values."""

from __future__ import annotations

from gla.ir.ops.exponential import exp
from gla.ir.ops.logarithmic import log1p
from gla.ir.ops.pieces import Value, constants
from gla.ir.ops.scalars import Scalars


def cbrt(s: Scalars, x: Value) -> Value:
    return s.call("cbrt", x)


def hypot(s: Scalars, x: Value, y: Value) -> Value:
    return s.call("hypot", x, y)


def erf(s: Scalars, x: Value) -> Value:
    return s.call("erf", x)


def logaddexp(s: Scalars, x: Value, y: Value) -> Value:
    """log(exp(x) + exp(y)) = max + log1p(exp(-|x - y|)); equal infinities stay."""
    c = constants(s, x)
    greater = s.select(s.gt(x, y), x, y)
    correction = log1p(s, exp(s, s.neg(s.abs(s.sub(x, y)))))
    return s.select(s.eq(x, y), s.add(x, c(0.6931471805599453)), s.add(greater, correction))
