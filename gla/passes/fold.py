"""Constant folding by the arithmetic of the kernels: the op's own row, run on NumPy scalars, so that the bits are theirs.

Only 0-d constants are folded; a number stays a literal iff it came from literals alone. What would call the C library
or gives NaN (whose bits differ between machines) is left to the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gla import dtypes
from gla.dtypes import DType
from gla.ir.graph import Graph
from gla.ir.node import Node, make
from gla.ir.ops.casts import convert
from gla.ir.ops.numpy_scalars import NumpyScalars
from gla.ir.ops.table import elementwise, is_elementwise
from gla.passes.rewrite import rewrite

HALF = (dtypes.float16, dtypes.bfloat16)


class _CallsLibrary(Exception):
    """The expansion needs a function of the device's C library."""


class _Scalars(NumpyScalars):
    def call(self, name: str, *args: Any) -> Any:
        raise _CallsLibrary


def fold(graph: Graph) -> Graph:
    """op(constant, ...) -> constant."""
    return rewrite(graph, _fold)


def _fold(node: Node, _: Node) -> Node:
    if not is_elementwise(node.op) or node.op == "nextafter" or any(o.op != "constant" for o in node.operands):
        return node
    try:
        bits = _bits(_evaluate(node), node.dtype)
    except _CallsLibrary:
        return node
    value = np.frombuffer(bits, node.dtype.numpy)[0]
    if node.dtype.kind in "fc" and np.isnan(value):
        return node
    literal = all(o.attr("literal") for o in node.operands)
    return make("constant", (), {"bits": bits, "literal": literal}, node.type, node.span)


def _storage(dtype: DType) -> DType:
    return dtypes.uint16 if dtype in HALF else dtypes.real_of(dtype)


def _value(node: Node) -> Any:
    """The constant as the rows take it: halves as their bits, complex numbers as pairs."""
    parts = np.frombuffer(node.attr("bits"), _storage(node.dtype).numpy)
    return tuple(parts) if node.dtype.kind == "c" else parts[0]


def _evaluate(node: Node) -> Any:
    s = _Scalars()
    values = [_value(o) for o in node.operands]
    if node.op == "cast":
        return convert(s, values[0], node.operands[0].dtype, node.dtype)
    if node.op == "where":
        return values[1] if bool(values[0]) else values[2]
    row = elementwise(node.op)
    dtype = next(o.dtype for k, o in enumerate(node.operands) if k not in row.mixed)
    wide = dtypes.float32 if dtype in HALF else dtype
    values = [convert(s, v, o.dtype, dtypes.float32) if o.dtype in HALF else v for v, o in zip(values, node.operands)]
    result = row.expand(s, wide, *values, **dict(node.attrs))
    return convert(s, result, dtypes.float32, node.dtype) if node.dtype in HALF else result


def _bits(value: Any, dtype: DType) -> bytes:
    parts = value if isinstance(value, tuple) else (value,)
    return b"".join(np.asarray(part, _storage(dtype).numpy).tobytes() for part in parts)
