"""Masks whose count is known: replacing what a mask selects, and the positions of its true elements. Pure, out of gathers.

How many elements a mask selects is data; whoever calls these has looked, and gives the number.
"""

from __future__ import annotations

from math import prod

from gla import dtypes
from gla.errors import ShapeError
from gla.ir.builder import Operand, apply, as_node, broadcast, broadcast_shapes, cast, constant
from gla.ir.functions.create import iota
from gla.ir.functions.elementwise import where
from gla.ir.functions.index import check_no_narrowing
from gla.ir.functions.reduce import cumulative_sum
from gla.ir.functions.shape import reshape
from gla.ir.functions.sort import searchsorted
from gla.ir.node import Node, make
from gla.ir.spans import here, labels
from gla.ir.types import Type


def running_count(mask: Operand) -> Node:
    """For each element, in row-major order, how many up to it are true: a vector of int64."""
    node = as_node(mask)
    return cumulative_sum(cast(reshape(node, (prod(node.shape),)), dtypes.int64))


def true_positions(running: Node, count: int) -> Node:
    """The flat positions of the `count` true elements of a mask, from its running count."""
    return searchsorted(running, apply("add", iota(count), constant(1, dtypes.int64)), "left")


def masked_set(x: Node, mask: Node, value: Operand, count: int) -> Node:
    """`x[mask] = value`, row-major: `mask` has the leading extents of x and `count` true elements; the value broadcasts to
    (count, *the other extents)."""
    rest = x.shape[len(mask.shape) :]
    value = check_no_narrowing(x, as_node(value), "assign")
    if broadcast_shapes(value.shape, (count, *rest)) != (count, *rest):
        raise ShapeError(
            "GLA0314",
            f"cannot assign {value.type} to the {count} places that a mask selects of {x.type}",
            labels=labels("", (str(value.type), value), (str(x.type), x)),
            help=f"the value must broadcast to {(count, *rest)}",
        )
    if count == 0:
        return x
    values = broadcast(value, (count, *rest))
    place = apply("subtract", running_count(mask), constant(1, dtypes.int64))
    picked = make("gather", (values, place), {"axes": (0,)}, Type(x.dtype, (*place.shape, *rest)), here)
    wide = broadcast(reshape(mask, (*mask.shape, *(1,) * len(rest))), x.shape)
    return where(wide, reshape(picked, x.shape), x)
