"""Operators of `gla.Array`, made from one list of (method, op): arithmetic, comparisons, shifts, products, in-place forms.

Python and NumPy scalars and NumPy arrays work on either side; anything else is left to the other operand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gla.array.assign import store
from gla.array.boundary import public
from gla.array.calls import is_operand, operate
from gla.array.value import Array
from gla.ir import builder
from gla.ir.builder import constant
from gla.ir.functions import elementwise, linear
from gla.ir.functions.index import check_no_narrowing
from gla.ir.functions.shape import broadcast_to
from gla.ir.node import Node

BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "power", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}  # fmt: skip
COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal"}
UNARY = {"neg": "negative", "abs": "abs", "invert": "bitwise_invert", "pos": "positive"}


def op(name: str) -> Callable[..., Node]:
    """The function on nodes that an op's name stands for."""
    special: Any = {"power": elementwise.power, "matmul": linear.matmul, "positive": elementwise.positive}.get(name)
    if special is not None:
        return special

    def function(*nodes: Any) -> Node:
        return builder.apply(name, *nodes)

    function.__name__ = name
    return function


def _kept(now: Node, new: Node) -> Node:
    """What an in-place operator stores: of the target's dtype and shape."""
    return broadcast_to(check_no_narrowing(now, new, "assign"), now.shape)


def _binary(name: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    function = op(name)

    def forward(self: Array, other: Any) -> Any:
        if not is_operand(other):
            return NotImplemented
        if name == "power" and type(other) in (int, float):
            # x ** 2 is a product whatever the 2 was called: a number as exponent is part of the program.
            return operate(lambda x: function(x, constant(other)), (self,))
        return operate(function, (self, other))

    def reverse(self: Array, other: Any) -> Any:
        return operate(function, (other, self)) if is_operand(other) else NotImplemented

    def inplace(self: Array, other: Any) -> Any:
        if not is_operand(other):
            return NotImplemented
        if name == "power" and type(other) in (int, float):
            store(self, [], lambda now: _kept(now, function(now, constant(other))))
        else:
            store(self, [other], lambda now, new: _kept(now, function(now, new)))
        return self

    return public(forward), public(reverse), public(inplace)


def _comparison(name: str) -> Callable[..., Any]:
    function = op(name)

    def compare(self: Array, other: Any) -> Any:
        return operate(function, (self, other)) if is_operand(other) else NotImplemented

    return public(compare)


def _unary(name: str) -> Callable[..., Any]:
    function = op(name)

    def apply(self: Array) -> Any:
        return operate(function, (self,))

    return public(apply)


def hash_of(array: Array) -> int:
    """Arrays hash by identity."""
    return id(array)


def attach() -> None:
    """Give `Array` its operators."""
    for short, name in BINARY.items():
        for prefix, method in zip(("", "r", "i"), _binary(name)):
            method.__name__ = f"__{prefix}{short}__"
            setattr(Array, method.__name__, method)
    for short, name in COMPARISONS.items():
        method = _comparison(name)
        method.__name__ = f"__{short}__"
        setattr(Array, method.__name__, method)
    for short, name in UNARY.items():
        method = _unary(name)
        method.__name__ = f"__{short}__"
        setattr(Array, method.__name__, method)
    setattr(Array, "__hash__", hash_of)  # noqa: B010 - a comparison method takes the inherited one away
