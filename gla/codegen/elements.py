"""Handlers of elementwise ops and sources: operands at the same index, through the op's row."""

from __future__ import annotations

from typing import Any

from gla.codegen.affine import Index
from gla.codegen.context import HALVES, Env, Lowering, Steps, accumulator
from gla.dtypes import float32, int64
from gla.ir.node import Node
from gla.ir.ops.casts import convert
from gla.ir.ops.table import elementwise


def elementwise_op(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    """float16 and bfloat16 are computed in float32 and rounded once."""
    values = []
    for operand in node.operands:
        values.append((yield operand, index, env))
    return apply_row(low, node, values)


def apply_row(low: Lowering, node: Node, values: list[Any]) -> Any:
    s = low.emitter
    if node.op == "cast":
        return convert(s, values[0], node.operands[0].dtype, node.dtype)
    if node.op == "where":
        return low.choose(values[0], values[1], values[2])
    row = elementwise(node.op)
    dtype = next(o.dtype for k, o in enumerate(node.operands) if k not in row.mixed)
    if node.op == "nextafter":  # steps through the numbers of its own dtype
        return row.expand(s, dtype, *values)
    widened = [convert(s, v, o.dtype, float32) if o.dtype in HALVES else v for v, o in zip(values, node.operands)]
    result = row.expand(s, accumulator(dtype), *widened, **dict(node.attrs))
    return convert(s, result, float32, node.dtype) if node.dtype in HALVES else result


def iota(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    yield from ()
    return low.emitter.convert(low.index_value(index[0]), int64)


def constant(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    yield from ()
    return low.constant(node)


def runtime_scalar(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    yield from ()
    return low.input(node)
