"""Numbers that are known when a program is planned: 0-d elementwise nodes of constants become constants.

The arithmetic is that of the kernels (the rows' expansions), so a number does not depend on when it was computed. What
came from a size stays no literal of the program: it reaches kernels as an argument.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from gla import dtypes
from gla.ir.builder import constant_value, is_constant
from gla.ir.node import Node, make
from gla.ir.ops.numpy_scalars import NumpyScalars
from gla.ir.ops.table import elementwise, is_elementwise

HALF = (dtypes.float16, dtypes.bfloat16)
_scalars: Any = NumpyScalars()
_known: weakref.WeakKeyDictionary[Node, Node] = weakref.WeakKeyDictionary()


def fold(node: Node) -> Node:
    """`node`, or the constant that it is."""
    if is_constant(node) or node.op == "input" or not hasattr(node.type, "shape") or node.shape or not node.operands:
        return node
    found = _known.get(node)
    if found is None:
        found = _known[node] = _fold(node)
    return found


def _fold(node: Node) -> Node:
    if not is_elementwise(node.op) or any(o.shape for o in node.operands) or node.dtype in HALF:
        return node
    operands = [fold(o) for o in node.operands]
    if not all(map(is_constant, operands)) or any(o.dtype in HALF for o in operands):
        return node
    row = elementwise(node.op)
    main = next(o.dtype for k, o in enumerate(operands) if k not in row.mixed)
    value = row.expand(_scalars, main, *map(_value, operands), **dict(node.attrs))
    if isinstance(value, tuple):
        value = complex(float(value[0]), float(value[1]))
    bits = np.asarray(value).astype(node.dtype.numpy).tobytes()
    literal = all(o.attr("literal") for o in operands)
    return make("constant", (), {"bits": bits, "literal": literal}, node.type, node.span)


def _value(node: Node) -> Any:
    value = constant_value(node)
    if node.dtype.kind == "c":
        part = dtypes.real_of(node.dtype).numpy.type
        return part(value.real), part(value.imag)
    return value


def known(value: Any) -> Any:
    """The NumPy scalar that a value is when it is planned, or None."""
    if not isinstance(value, Node):
        return None
    value = fold(value)
    return constant_value(value) if is_constant(value) else None
