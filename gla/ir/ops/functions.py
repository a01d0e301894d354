"""Rows of the elementary functions: roots, exponentials, logarithms, powers, trigonometric and hyperbolic functions.

The float expansions live in `exponential`, `trigonometric`, `hyperbolic` and `special`, the complex ones in `complexes`;
here each gets its name, its reference and its stated bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gla.dtypes import DType
from gla.ir.ops import integer
from gla.ir.ops.later import Later
from gla.ir.ops.pieces import Value
from gla.ir.ops.references import precise, quiet
from gla.ir.ops.row import Elementwise
from gla.ir.ops.scalars import Scalars

Function = Callable[..., Any]

# Expansions are loaded when a kernel is lowered.
arcs, complex_arcs, complexes = Later("arcs"), Later("complex_arcs"), Later("complexes")
exponential, hyperbolic, logarithmic = Later("exponential"), Later("hyperbolic"), Later("logarithmic")
special, trigonometric = Later("special"), Later("trigonometric")


def _sqrt(s: Scalars, x: Value) -> Value:
    return s.sqrt(x)


def _expand(real: Function, of_pairs: Function | None = None) -> Function:
    def expand(s: Scalars, dtype: DType, *values: Value) -> Value:
        if dtype.kind == "c":
            assert of_pairs is not None
            return of_pairs(s, *values)
        return real(s, *values)

    return expand


def _expand_power(s: Scalars, dtype: DType, a: Value, b: Value) -> Value:
    if dtype.kind in "iu":
        return integer.power(s, dtype, a, b)
    return complexes.power(s, a, b) if dtype.kind == "c" else logarithmic.power(s, a, b)


def _reference_power(a: Any, b: Any) -> Any:
    return integer.reference_power(a, b) if a.dtype.kind in "iu" else precise(np.power)(a, b)


def _reference_sqrt(x: Any) -> Any:
    """NumPy's own for real numbers, which rounds once."""
    return quiet(np.sqrt)(x) if x.dtype.kind == "f" else precise(np.sqrt)(x)


def _reference_erf(x: Any) -> Any:
    return quiet(np.vectorize(math.erf, otypes=[np.float64]))(x.astype(np.float64)).astype(x.dtype)


def _function(
    name: str, reference: Any, real: Any, pairs: Any, *, doc: str, cost: int, sample: Any = (-4.0, 4.0)
) -> Elementwise:
    arity = reference.nin if isinstance(reference, np.ufunc) else 1
    judge = precise(reference) if isinstance(reference, np.ufunc) else reference
    kinds = "fc" if pairs else "f"
    return Elementwise(name, arity, kinds, judge, _expand(real, pairs), doc, to_float=True, cost=cost, sample=sample)


ROWS = (
    _function(
        "sqrt", _reference_sqrt, _sqrt, complexes.sqrt, doc="the square root, rounded to nearest", cost=6, sample=(0.0, 8.0)
    ),
    _function("cbrt", np.cbrt, special.cbrt, None, doc="the cube root, within 0.7 ULP", cost=36),
    _function("exp", np.exp, exponential.exp, complexes.exp, doc="e to the a, within 0.8 ULP (1 if subnormal)", cost=36),
    _function(
        "exp2",
        np.exp2,
        exponential.exp2,
        complex_arcs.exp2,
        doc="2 to the a, within 0.8 ULP (1 if subnormal), exact for integers",
        cost=38,
    ),
    _function("expm1", np.expm1, exponential.expm1, complex_arcs.expm1, doc="exp(a) - 1, exact near 0, within 1 ULP", cost=46),
    _function(
        "log", np.log, logarithmic.log, complexes.log, doc="the natural logarithm, within 0.7 ULP", cost=43, sample=(0.01, 8.0)
    ),
    _function(
        "log2",
        np.log2,
        logarithmic.log2,
        complex_arcs.log2,
        doc="the logarithm to base 2, within 0.51 ULP",
        cost=75,
        sample=(0.01, 8.0),
    ),
    _function(
        "log10",
        np.log10,
        logarithmic.log10,
        complex_arcs.log10,
        doc="the logarithm to base 10, within 0.51 ULP",
        cost=75,
        sample=(0.01, 8.0),
    ),
    _function(
        "log1p",
        np.log1p,
        logarithmic.log1p,
        complex_arcs.log1p,
        doc="log(1 + a), exact near 0, within 0.9 ULP",
        cost=52,
        sample=(-0.9, 8.0),
    ),
    _function("sin", np.sin, trigonometric.sin, complexes.sin, doc="the sine of any number, within 0.95 ULP", cost=80),
    _function("cos", np.cos, trigonometric.cos, complexes.cos, doc="the cosine of any number, within 0.95 ULP", cost=80),
    _function(
        "tan",
        np.tan,
        trigonometric.tan,
        complexes.tan,
        doc="the tangent of any number, within 2.1 ULP (float32: 0.51)",
        cost=90,
    ),
    _function("asin", np.arcsin, arcs.asin, complex_arcs.asin, doc="the arc sine, within 0.7 ULP", cost=55, sample=(-1.0, 1.0)),
    _function(
        "acos", np.arccos, arcs.acos, complex_arcs.acos, doc="the arc cosine, within 0.7 ULP", cost=65, sample=(-1.0, 1.0)
    ),
    _function("atan", np.arctan, arcs.atan, complex_arcs.atan, doc="the arc tangent, within 0.7 ULP", cost=70),
    _function("atan2", np.arctan2, arcs.atan2, None, doc="the angle of the point (b, a), within 0.65 ULP", cost=105),
    _function(
        "sinh", np.sinh, hyperbolic.sinh, complexes.sinh, doc="the hyperbolic sine, within 2 ULP (float32: 0.51)", cost=55
    ),
    _function(
        "cosh", np.cosh, hyperbolic.cosh, complexes.cosh, doc="the hyperbolic cosine, within 1.5 ULP (float32: 0.51)", cost=50
    ),
    _function(
        "tanh", np.tanh, hyperbolic.tanh, complexes.tanh, doc="the hyperbolic tangent, within 0.7 ULP (float32: 0.95)", cost=60
    ),
    _function(
        "asinh",
        np.arcsinh,
        hyperbolic.asinh,
        complex_arcs.asinh,
        doc="the inverse hyperbolic sine, within 2 ULP (float32: 0.51)",
        cost=70,
    ),
    _function(
        "acosh",
        np.arccosh,
        hyperbolic.acosh,
        complex_arcs.acosh,
        doc="the inverse hyperbolic cosine, within 2 ULP (float32: 0.51)",
        cost=66,
        sample=(1.0, 8.0),
    ),
    _function(
        "atanh",
        np.arctanh,
        hyperbolic.atanh,
        complex_arcs.atanh,
        doc="the inverse hyperbolic tangent, within 2 ULP (float32: 0.51)",
        cost=62,
        sample=(-1.0, 1.0),
    ),
    _function("hypot", np.hypot, special.hypot, None, doc="sqrt(a a + b b) without overflow, within 0.65 ULP", cost=45),
    _function("erf", _reference_erf, special.erf, None, doc="the error function, within 1.2 ULP (float32: 0.95)", cost=80),
    _function(
        "logaddexp", np.logaddexp, special.logaddexp, None, doc="log(exp(a) + exp(b)), within 2 ULP of the larger term", cost=95
    ),
    Elementwise(
        "power",
        2,
        "iufc",
        _reference_power,
        _expand_power,
        "a to the b, within 0.9 ULP (float32: 0.51); integers wrap",
        cost=150,
        sample=(0.1, 4.0),
    ),
)
