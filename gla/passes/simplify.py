"""Algebra that keeps every bit: neutral numbers, views of views, parts of stacks, and arithmetic on scalars done once.

Only literals take part in algebra on numbers: a number that came from a size must not change which ops a kernel has.
Nothing here changes NaN, infinities, the sign of zero or a rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from math import frexp, prod
from typing import Any

from gla.ir.builder import constant_value
from gla.ir.graph import Graph
from gla.ir.node import Node, make
from gla.ir.ops.table import is_elementwise
from gla.passes import nodes
from gla.passes.rewrite import remade, rewrite


def simplify(graph: Graph) -> Graph:
    """The graph with each node in its simplest equal form."""
    return rewrite(graph, _simplify)


def _simplify(node: Node, _: Node) -> Node:
    rule = RULES.get(node.op)
    if rule is not None:
        found = rule(node)
        if found.type == node.type and found is not node:
            return found
    if is_elementwise(node.op):
        once = _once_for_all(node)
        return _without_ones(node) if once is node else once
    return node


def literal(node: Node) -> Any:
    """The number that a literal, or a broadcast of one, holds everywhere; None for anything else."""
    while node.op in ("broadcast", "reshape") and node.operands[0].op in ("constant", "broadcast", "reshape"):
        node = node.operands[0]
    return constant_value(node) if node.op == "constant" and node.attr("literal") else None


def is_number(node: Node, value: float, *, negative_zero: bool | None = None) -> bool:
    """Whether the node is the literal `value`; for zeros of floats, with that sign."""
    found = literal(node)
    if found is None or node.dtype.kind == "c" or found != value:
        return False
    if value == 0 and node.dtype.kind == "f" and negative_zero is not None:
        return (str(found.astype("float64")).startswith("-")) == negative_zero
    return True


def _once_for_all(node: Node) -> Node:
    """op(broadcast(a), broadcast(b)) of scalars -> broadcast(op(a, b)): the same arithmetic, done once."""
    if not node.shape or not all(o.op == "broadcast" and not o.operands[0].shape for o in node.operands):
        return node
    inner = tuple(o.operands[0] for o in node.operands)
    return nodes.broadcast(make(node.op, inner, dict(node.attrs), type(node.type)(node.dtype, ()), node.span), node.shape)


def _without_ones(node: Node) -> Node:
    """op(x[:, None], y[:, None]) -> op(x, y)[:, None]: kept axes of reductions do not hinder fusion."""
    bare = tuple(n for n in node.shape if n != 1)
    if len(bare) == len(node.shape) or not bare:
        return node
    inner = []
    for operand in node.operands:
        source = operand.operands[0] if operand.op in ("reshape", "broadcast") else operand
        if operand.op == "reshape" and source.shape == bare:
            inner.append(source)
        elif operand.op == "broadcast" and not source.shape:
            inner.append(nodes.broadcast(source, bare))
        else:
            return node
    return nodes.reshape(make(node.op, inner, dict(node.attrs), nodes.shaped(node, bare), node.span), node.shape)


# --- arithmetic


def _add(node: Node) -> Node:
    a, b = node.operands
    for x, zero in ((a, b), (b, a)):
        if is_number(zero, 0, negative_zero=True) and (x.dtype.kind == "f" or x.dtype.kind in "iu"):
            return x
    return node


def _subtract(node: Node) -> Node:
    a, b = node.operands
    return a if is_number(b, 0, negative_zero=False) else node


def _multiply(node: Node) -> Node:
    a, b = node.operands
    for x, one in ((a, b), (b, a)):
        if is_number(one, 1):
            return x
    return node


def _divide(node: Node) -> Node:
    """x / 2**k -> x * 2**-k: both are the exact quotient, rounded once."""
    a, b = node.operands
    if is_number(b, 1):
        return a
    value = literal(b)
    if value is None or node.dtype.name not in ("float32", "float64"):
        return node
    mantissa, exponent = frexp(float(value))
    if abs(mantissa) != 0.5 or abs(exponent) > 100:
        return node
    inverse = nodes.broadcast(nodes.number(1.0 / float(value), b.dtype, literal=True, weak=b.type.weak), b.shape)
    return make("multiply", (a, inverse), {}, node.type, node.span)


def _floor_divide(node: Node) -> Node:
    a, b = node.operands
    return a if node.dtype.kind in "iu" and is_number(b, 1) else node


def _undo(node: Node) -> Node:
    """not not x, - - x, ~ ~ x."""
    x = node.operands[0]
    return x.operands[0] if x.op == node.op else node


def _abs(node: Node) -> Node:
    x = node.operands[0]
    if x.op == "abs" and node.dtype is x.dtype:
        return x
    return remade(node, x.operands) if x.op == "negative" else node


def _same_twice(node: Node) -> Node:
    a, b = node.operands
    return a if a is b else node


def _logical(node: Node) -> Node:
    a, b = node.operands
    if a is b:
        return a
    neutral = node.op == "logical_and"
    for x, other in ((a, b), (b, a)):
        value = literal(other)
        if value is not None:
            return x if bool(value) == neutral else other
    return node


def _where(node: Node) -> Node:
    condition, a, b = node.operands
    if a is b:
        return a
    value = literal(condition)
    if value is not None:
        return a if bool(value) else b
    if condition.op == "logical_not":
        return remade(node, (condition.operands[0], b, a))
    return node


EXACT = {
    ("float16", "float32"), ("float16", "float64"), ("bfloat16", "float32"), ("bfloat16", "float64"), ("float32", "float64"),
    ("complex64", "complex128"), ("int8", "int16"), ("int8", "int32"), ("int8", "int64"), ("int16", "int32"), ("int16", "int64"),
    ("int32", "int64"), ("uint8", "uint16"), ("uint8", "uint32"), ("uint8", "uint64"), ("uint16", "uint32"), ("uint16", "uint64"),
    ("uint32", "uint64"), ("uint8", "int16"), ("uint8", "int32"), ("uint8", "int64"), ("uint16", "int32"), ("uint16", "int64"),
    ("uint32", "int64"),
}  # fmt: skip


def _cast(node: Node) -> Node:
    """A cast to the same dtype, and one to a wider dtype and back."""
    x = node.operands[0]
    if x.type == node.type:
        return x
    if x.op == "cast":
        source = x.operands[0]
        if (source.dtype.name, x.dtype.name) in EXACT:
            return source if source.type == node.type else remade(node, (source,))
    return node


# --- views


def _reshape(node: Node) -> Node:
    x = node.operands[0]
    if x.op == "broadcast" and not x.operands[0].shape:
        return nodes.broadcast(x.operands[0], node.shape)
    return nodes.reshape(x, node.shape)


def _broadcast(node: Node) -> Node:
    x = node.operands[0]
    if x.op == "reshape" and not x.operands[0].shape:
        return nodes.broadcast(x.operands[0], node.shape)
    return nodes.broadcast(x, node.shape)


def _transpose(node: Node) -> Node:
    x = node.operands[0]
    if x.op == "broadcast" and not x.operands[0].shape:
        return nodes.broadcast(x.operands[0], node.shape)
    return nodes.transpose(x, node.attr("axes"))


def _slice(node: Node) -> Node:
    x, starts, steps = node.operands[0], node.attr("starts"), node.attr("steps")
    if x.op == "broadcast":
        return _slice_of_broadcast(node, x.operands[0])
    if x.op == "concat" and 0 not in node.shape:
        axis, first = x.attr("axis"), 0
        low = min(starts[axis], starts[axis] + steps[axis] * (node.shape[axis] - 1))
        high = max(starts[axis], starts[axis] + steps[axis] * (node.shape[axis] - 1))
        for part in x.operands:
            if first <= low and high < first + part.shape[axis]:
                moved = tuple(s - first if k == axis else s for k, s in enumerate(starts))
                return nodes.cut(part, moved, steps, node.shape)
            first += part.shape[axis]
    return nodes.cut(x, starts, steps, node.shape)


def _slice_of_broadcast(node: Node, source: Node) -> Node:
    lead = len(node.shape) - len(source.shape)
    starts, steps = node.attr("starts")[lead:], node.attr("steps")[lead:]
    wide = [n == 1 for n in source.shape]
    part = nodes.cut(
        source,
        [0 if one else s for one, s in zip(wide, starts)],
        [1 if one else s for one, s in zip(wide, steps)],
        [1 if one else n for one, n in zip(wide, node.shape[lead:])],
    )
    return nodes.broadcast(part, node.shape)


def _shift(node: Node) -> Node:
    x = node.operands[0]
    if not any(node.attr("offsets")):
        return x
    constant = any(o and m == "constant" for o, m in zip(node.attr("offsets"), node.attr("modes")))
    return x if x.op == "broadcast" and not x.operands[0].shape and not constant else node


def _pad(node: Node) -> Node:
    return node.operands[0] if node.operands[0].shape == node.shape else node


def _concat(node: Node) -> Node:
    axis = node.attr("axis")
    parts = tuple(p for p in node.operands if p.shape[axis])
    if not parts:
        return node.operands[0]
    return nodes.concat(parts, axis) if len(parts) < len(node.operands) or len(parts) == 1 else node


def _gather(node: Node) -> Node:
    """x[constants] -> a slice."""
    x, *indices = node.operands
    if not indices or any(i.op != "constant" for i in indices) or 0 in x.shape:
        return node
    starts, lengths = [0] * len(x.shape), list(x.shape)
    for axis, index in zip(node.attr("axes"), indices):
        starts[axis] = min(max(int(constant_value(index)), 0), x.shape[axis] - 1)
        lengths[axis] = 1
    return nodes.reshape(_slice_node(nodes.cut(x, starts, [1] * len(starts), lengths)), node.shape)


def _slice_node(node: Node) -> Node:
    return _slice(node) if node.op == "slice" else node


def _update(node: Node) -> Node:
    base, value = node.operands
    if 0 in value.shape:
        return base
    whole = value.shape == base.shape and not any(node.attr("starts")) and all(s == 1 for s in node.attr("steps"))
    return value if whole else node


def _reduce(node: Node) -> Node:
    x = node.operands[0]
    exact = node.dtype.kind != "c" or node.attr("kind") == "sum"
    if exact and x.dtype is node.dtype and prod(x.shape[a] for a in node.attr("axes")) == 1:
        return nodes.reshape(x, node.shape)
    return node


RULES: dict[str, Callable[[Node], Node]] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "floor_divide": _floor_divide,
    "logical_not": _undo,
    "bitwise_invert": _undo,
    "negative": _undo,
    "abs": _abs,
    "maximum": _same_twice,
    "minimum": _same_twice,
    "bitwise_and": _same_twice,
    "bitwise_or": _same_twice,
    "logical_and": _logical,
    "logical_or": _logical,
    "where": _where,
    "cast": _cast,
    "reshape": _reshape,
    "broadcast": _broadcast,
    "transpose": _transpose,
    "slice": _slice,
    "shift": _shift,
    "pad": _pad,
    "concat": _concat,
    "gather": _gather,
    "update": _update,
    "reduce": _reduce,
}
