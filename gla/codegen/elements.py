"""Handlers of elementwise ops and sources: operands at the same index, through the op's row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

from gla.codegen.affine import Index
from gla.codegen.context import HALVES, Env, Lowering, Steps, accumulator
from gla.codegen.kernel import Value
from gla.dtypes import DType, float32, int64
from gla.ir.node import Node
from gla.ir.ops.casts import convert
from gla.ir.ops.row import Elementwise
from gla.ir.ops.scalars import Scalars
from gla.ir.ops.table import ELEMENTWISE, elementwise
from gla.ir.types import Type
from gla.plan.steps import Region

LONG = 24  # of a row's cost: expansions worth a function


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
    result = expanded(low, row, accumulator(dtype), widened, node.attrs)
    return convert(s, result, float32, node.dtype) if node.dtype in HALVES else result


def expanded(low: Lowering, row: Elementwise, dtype: DType, values: list[Any], attrs: Any) -> Any:
    """The row on values. A long expansion may become a function of the kernel."""
    if row.cost < LONG or not all(isinstance(v, Value) and v.dtype.kind == "f" for v in values):
        return row.expand(low.emitter, dtype, *values, **dict(attrs))

    def expand(s: Scalars, *args: Any) -> Any:
        return row.expand(s, dtype, *args, **dict(attrs))

    return low.emitter.expansion(f"{row.name}_{dtype.short}_", (row.name, dtype.name, attrs), expand, tuple(values))


def expected(region: Region) -> Counter[Hashable]:
    """How often each long expansion stands in the region, loops' insides aside."""
    found: Counter[Hashable] = Counter()
    seen, ahead = set(region.inputs), list(region.outputs)
    while ahead:
        node = ahead.pop()
        if node in seen:
            continue
        seen.add(node)
        ahead.extend(node.operands)
        row = ELEMENTWISE.get(node.op)
        if row is not None and row.cost >= LONG and isinstance(node.type, Type) and node.operands[0].dtype.kind == "f":
            found[row.name, accumulator(node.operands[0].dtype).name, node.attrs] += 1
    return found


def iota(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    yield from ()
    return low.emitter.convert(low.index_value(index[0]), int64)


def constant(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    yield from ()
    return low.constant(node)


def runtime_scalar(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    yield from ()
    return low.input(node)
