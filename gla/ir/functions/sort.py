"""Sorting, and searching in what is sorted, out of gathers: pure, of any length, the same on every device and in every graph.

`sort` merges runs of 1, 2, 4, ... elements, each pass one step from all old elements to all new ones. Element d of two merged
runs is found by a binary search along the diagonal i + j = d for how many come from the first run (Odeh, Green, Mwassi,
Shmueli, Birk: Merge Path - parallel merging made simple, IPDPSW 2012). Equal elements keep their order; NaN comes last.
"""

from __future__ import annotations

from math import prod

from gla import dtypes
from gla.errors import DtypeError, ShapeError
from gla.ir.builder import Operand, apply, as_node, broadcast, cast, constant
from gla.ir.functions.control import loop
from gla.ir.functions.create import iota
from gla.ir.functions.elementwise import where
from gla.ir.functions.shape import moveaxis, normalise_axis, reshape
from gla.ir.node import Node, make
from gla.ir.spans import here, labels
from gla.ir.types import Type


def sort(x: Operand, axis: int = -1, descending: bool = False) -> Node:
    """The elements along `axis` in ascending (descending) order, NaN last either way."""
    return _sorted(as_node(x), axis, descending, False)


def argsort(x: Operand, axis: int = -1, descending: bool = False) -> Node:
    """int64 positions along `axis` that sort x; equal elements keep their order."""
    return _sorted(as_node(x), axis, descending, True)


def _sorted(node: Node, axis: int, descending: bool, positions: bool) -> Node:
    if not node.shape:
        raise ShapeError(
            "GLA0341", f"sort needs an axis, and {node.type} has none", labels=labels(""), help="flatten it: reshape(x, -1)"
        )
    if node.dtype.kind == "c":
        raise DtypeError(
            "GLA0235", f"complex numbers have no order: {node.type}", labels=labels(""), help="sort by abs(x) or real(x)"
        )
    axis = normalise_axis(axis, len(node.shape), node)
    moved = moveaxis(node, axis, -1)
    length = moved.shape[-1]
    rows = prod(moved.shape[:-1])
    keys = reshape(cast(moved, dtypes.uint8) if node.dtype is dtypes.bool_ else moved, (rows, length))
    row = broadcast(reshape(iota(rows), (rows, 1)), keys.shape)
    place = broadcast(iota(length), keys.shape)
    order = place
    width = 1
    while width < length and rows:
        keys, order = _merge(keys, order, row, place, width, descending, positions)
        width *= 2
    result = order if positions else cast(keys, node.dtype)
    return moveaxis(reshape(result, moved.shape), -1, axis)


def _merge(keys: Node, order: Node, row: Node, place: Node, width: int, descending: bool, positions: bool) -> tuple[Node, Node]:
    """Neighbouring sorted runs of `width` elements in each row, merged in pairs; `order` moves along when it is wanted."""
    length = keys.shape[1]

    def number(value: int) -> Node:
        return constant(value, dtypes.int64, literal=False)

    one = constant(1, dtypes.int64)
    start = apply("bitwise_and", place, number(-2 * width))  # of the pair: 2 * width is a power of two
    middle = apply("minimum", apply("add", start, number(width)), number(length))
    end = apply("minimum", apply("add", start, number(2 * width)), number(length))
    # Element `left` of the first run and `total - left` of the second are the two that could come next at this place.
    total = apply("add", middle, place)

    def key(at: Node) -> Node:
        return _gather(keys, (row, at))

    def goes_on(_: Node, carries: list[Node]) -> tuple[list[Node], list[Node]]:
        low, high, last = carries
        half = apply("bitwise_right_shift", apply("add", low, high), one)
        later = apply("logical_not", _before(key(apply("subtract", last, half)), key(half), descending))
        is_open = apply("less", low, high)
        up, down = apply("logical_and", is_open, later), apply("logical_and", is_open, apply("logical_not", later))
        return [where(up, apply("add", half, one), low), where(down, half, high), last], []

    low = apply("maximum", apply("subtract", total, end), start)
    high = apply("minimum", place, middle)
    (left, *_), _ = loop(width.bit_length(), [low, high, apply("subtract", total, one)], goes_on)
    right = apply("subtract", total, left)
    a, b = key(left), key(right)
    ordered = apply("logical_not", _before(b, a, descending))
    from_left = apply(
        "logical_and", apply("less", left, middle), apply("logical_or", apply("greater_equal", right, end), ordered)
    )
    if positions:
        order = where(from_left, _gather(order, (row, left)), _gather(order, (row, right)))
    return where(from_left, a, b), order


def _before(a: Node, b: Node, descending: bool) -> Node:
    """Whether a must come before b."""
    less = apply("greater" if descending else "less", a, b)
    if a.dtype.kind != "f":
        return less
    return apply("logical_or", less, apply("logical_and", apply("isnan", b), apply("logical_not", apply("isnan", a))))


def _gather(x: Node, indices: tuple[Node, ...]) -> Node:
    """x at one index an axis; an index outside is brought to the edge."""
    axes = tuple(range(len(x.shape)))
    return make("gather", (x, *indices), {"axes": axes}, Type(x.dtype, indices[0].shape), here)


def take_along_axis(x: Operand, indices: Operand, axis: int = -1) -> Node:
    """Element by element along `axis`: result[..., i, ...] = x[..., indices[..., i, ...], ...]; other extents broadcast."""
    node, at = as_node(x), as_node(indices)
    if at.dtype.kind not in "iu":
        raise DtypeError(
            "GLA0323", f"an index must be an integer, not {at.type}", labels=labels(""), help="cast it: astype(i, 'int64')"
        )
    if len(node.shape) != len(at.shape) or not node.shape:
        raise ShapeError(
            "GLA0341", f"take_along_axis needs as many axes in both, not {node.type} and {at.type}", labels=labels(""),
            help="the indices have the shape of the result",
        )  # fmt: skip
    axis = normalise_axis(axis, len(node.shape), node)
    shape = tuple(max(m, n) if k != axis and 0 not in (m, n) else n for k, (m, n) in enumerate(zip(node.shape, at.shape)))
    wanted = tuple(node.shape[k] if k == axis else n for k, n in enumerate(shape))
    at, node = broadcast(cast(at, dtypes.int64), shape), broadcast(node, wanted)
    extent = constant(node.shape[axis], dtypes.int64, literal=False)
    at = where(apply("less", at, constant(0, dtypes.int64)), apply("add", at, extent), at)
    places = [
        at if k == axis else broadcast(reshape(iota(n), (n,) + (1,) * (len(shape) - 1 - k)), shape) for k, n in enumerate(shape)
    ]
    return _gather(node, tuple(places))


def searchsorted(x: Operand, values: Operand, side: str = "left") -> Node:
    """For each value the position in the ascending vector x at which it would be inserted, before ("left") or behind equals."""
    node, wanted = as_node(x), as_node(values)
    if len(node.shape) != 1:
        raise ShapeError("GLA0341", f"searchsorted needs a vector, not {node.type}", labels=labels(""))
    if node.dtype is not wanted.dtype:
        raise DtypeError(
            "GLA0235", f"searchsorted needs one dtype, not {node.type} and {wanted.type}", labels=labels(""),
            help=f"cast the values: astype(v, '{node.dtype}')",
        )  # fmt: skip
    length = node.shape[0]

    def goes_on(_: Node, carries: list[Node]) -> tuple[list[Node], list[Node]]:
        low, high = carries
        half = apply("bitwise_right_shift", apply("add", low, high), constant(1, dtypes.int64))
        found = _gather(node, (half,))
        behind = _before(found, wanted, False) if side == "left" else apply("logical_not", _before(wanted, found, False))
        is_open = apply("less", low, high)
        up = apply("logical_and", is_open, behind)
        down = apply("logical_and", is_open, apply("logical_not", behind))
        return [where(up, apply("add", half, constant(1, dtypes.int64)), low), where(down, half, high)], []

    low = broadcast(constant(0, dtypes.int64), wanted.shape)
    if not length:
        return low
    (found, _), _ = loop(
        length.bit_length(), [low, broadcast(constant(length, dtypes.int64, literal=False), wanted.shape)], goes_on
    )
    return found
