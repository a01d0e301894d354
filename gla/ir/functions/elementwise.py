"""Elementwise functions that are more than one row: powers with constant exponents, clip, choices, and their kin."""

from __future__ import annotations

from gla.errors import DtypeError, RangeError
from gla.ir.builder import Operand, apply, as_node, cast, constant, constant_value, is_constant, promote_operands
from gla.ir.node import Node
from gla.ir.spans import labels

# x**n as products up to here for real x: at most two roundings, like the written-out product; pow beyond.
REAL_POWER = 4
COMPLEX_POWER = 100


def power(base: Operand, exponent: Operand) -> Node:
    """base ** exponent. Small constant integer exponents are products (x**2 is exactly x*x); a constant negative exponent on integers is refused."""
    x, n = as_node(base), as_node(exponent)
    if not (is_constant(n) and not n.shape and n.attr("literal")):
        return apply("power", base, exponent)
    dtype, _ = promote_operands("power", (base, exponent))
    value = constant_value(n)
    if dtype.kind in "iu" and value < 0:
        raise RangeError(
            "GLA0253",
            f"{x.type} to the power {value}: an integer power with a negative exponent is no integer",
            labels=labels("", (str(x.type), x)),
            help=f"use a float: x ** {float(value)}, or 1.0 / x ** {-value}",
        )
    whole = complex(value).imag == 0 and float(complex(value).real).is_integer()
    limit = {"f": REAL_POWER, "c": COMPLEX_POWER}.get(dtype.kind, 0)
    if not whole or dtype.kind not in "fc" or not 1 <= abs(int(complex(value).real)) <= limit:
        return apply("power", base, exponent)
    count = int(complex(value).real)
    typed = x if x.type.weak and n.type.weak and x.dtype is dtype else cast(x, dtype)
    result = _product(typed, abs(count))
    return result if count > 0 else apply("divide", 1, result)


def _product(x: Node, count: int) -> Node:
    result = None
    square = x
    while count:
        if count & 1:
            result = square if result is None else apply("multiply", result, square)
        count >>= 1
        if count:
            square = apply("multiply", square, square)
    assert result is not None
    return result


def square(x: Operand) -> Node:
    return apply("multiply", x, x)


def reciprocal(x: Operand) -> Node:
    return apply("divide", 1, x)


def positive(x: Operand) -> Node:
    node = as_node(x)
    if node.dtype.kind == "b":
        raise DtypeError(
            "GLA0207",
            f"unary `+` is not defined for {node.type}",
            labels=labels("", (str(node.type), node)),
            help="use the value itself, or astype(x, 'int64')",
        )
    return node


def clip(x: Operand, low: Operand | None = None, high: Operand | None = None) -> Node:
    """minimum(maximum(x, low), high); NaN in x stays. A bound of None is no bound."""
    node = as_node(x)
    if low is not None:
        node = apply("maximum", node, low)
    return node if high is None else apply("minimum", node, high)


def where(condition: Operand, a: Operand, b: Operand) -> Node:
    """a where condition holds, else b; the branch not taken leaves no trace (NaN, errors)."""
    test = as_node(condition)
    if test.dtype.kind != "b":
        raise DtypeError(
            "GLA0254",
            f"the condition of where must be bool, not {test.type}",
            labels=labels("", (str(test.type), test)),
            help="compare first: x != 0",
        )
    return apply("where", test, a, b)


def logical(name: str, *operands: Operand) -> Node:
    """and, or, xor, not on bools."""
    return apply(name, *operands)


def isclose_within(a: Operand, b: Operand, tolerance: Operand) -> Node:
    """|a - b| <= tolerance, elementwise: what `a ~= b within tolerance` means."""
    return apply("less_equal", apply("abs", apply("subtract", a, b)), tolerance)


def real(x: Operand) -> Node:
    node = as_node(x)
    return apply("real", node) if node.dtype.kind == "c" else node


def imag(x: Operand) -> Node:
    node = as_node(x)
    return apply("imag", node) if node.dtype.kind == "c" else apply("multiply", node, constant(0, node.dtype))


def conj(x: Operand) -> Node:
    node = as_node(x)
    return apply("conj", node) if node.dtype.kind == "c" else node


def angle(x: Operand) -> Node:
    """The argument of a complex number, in (-pi, pi]."""
    return apply("atan2", imag(x), real(x))
