"""Lowers a region with a matrix product inside to a `Product`: operands by index maps, the consumers as its epilogue.

Called by loops.lower for regions that name a `product`. The operands are evaluated element by element like everything else, so
that transposes, slices and broadcasts cost nothing, and what a plan leaves unstored before the product is computed where it is
read. Refuses (InternalError) consumers that see the product elsewhere than at the item's index.
"""

from __future__ import annotations

from math import prod
from typing import Any

from gla.codegen.affine import ONE, START, Affine, Index, Poly, product
from gla.codegen.arguments import Argument, LoweredKernel, Number
from gla.codegen.context import Env, Handler, Lowering, Steps
from gla.codegen.elements import elementwise_op
from gla.codegen.kernel import Product, Statement, Value
from gla.codegen.naming import kernel_doc, kernel_name
from gla.codegen.prune import prune
from gla.errors import InternalError
from gla.ir.node import Node
from gla.plan.steps import Region
from gla.plan.tiles import Tile


def lower_product(region: Region, tile: Tile, handlers: dict[str, Handler], place: Any, name: str = "") -> LoweredKernel:
    """The product kernel of a region, and what its parameters are. `place(low, k, index)`: the address of output k's element."""
    node = region.product
    assert node is not None
    low = Lowering(region, {**handlers, "matmul": _elsewhere}, elementwise_op)
    a, b = node.operands
    *lead, rows, columns = low.extents.shape("items", region.items)
    depths = low.extents.of(a)[-1]
    batches = product(lead)
    batch, row, column, depth = (low.emitter.value(low.index_dtype, 1) for _ in range(4))
    counts = [low.extent(extent) for extent in (batches, rows, columns, depths)]
    batch_count, row_count, column_count, depth_count = counts
    outer = low.indices.unravel(_form(low, batch, batches), tuple(lead))
    i, j, k = (_form(low, v, e) for v, e in ((row, rows), (column, columns), (depth, depths)))
    low.item_index = (*outer, i, j)
    left, left_value, left_deep = _operand(low, a, (*outer, i, k), depth)
    right, right_value, right_deep = _operand(low, b, (*outer, k, j), depth)
    total = low.emitter.value(node.dtype, 1)
    body = _epilogue(low, node, total, place)
    live: set[Value] = {batch, row, column, depth, *counts}
    body = prune(body, live)
    live |= {left_value, right_value}
    left, right = prune(left, live), prune(right, live)
    common = prune(tuple(low.emitter.scopes[0].statements), live)
    used = [n for n, p in enumerate(low.parameters) if p.value is None or p.value in live]
    kernel = Product(
        name or kernel_name(region), tuple(low.parameters[n] for n in used), batch, row, column, depth,
        batch_count, row_count, column_count, depth_count, common,
        left, left_value, right, right_value, total, body, tile, left_deep, right_deep, low.wide, kernel_doc(region),
    )  # fmt: skip
    *sizes, m, n = region.items
    arguments = tuple(_argument(low, low.arguments[u]) for u in used)
    return LoweredKernel(kernel, prod(region.items), arguments, (prod(sizes), m, n))


def _form(low: Lowering, value: Value, extent: Poly) -> Affine:
    return START if extent == ONE else low.indices.value(value, extent)


def _argument(low: Lowering, argument: Argument | Poly) -> Argument:
    if not isinstance(argument, Poly):
        return argument
    return Number(argument.evaluate(low.extents.values), low.index_dtype)


def _operand(low: Lowering, node: Node, index: Index, depth: Value) -> tuple[tuple[Statement, ...], Value, bool]:
    """(statements, value, whether depth runs over neighbouring elements of what is read)."""
    first = len(low.reads)
    low.emitter.push("plain")
    value = low.evaluate(node, index, low.root)
    statements = low.emitter.pop()
    deep = [atom is depth for address in low.reads[first:] for atom, factor in address.terms if factor == ONE]
    return statements, value, sum(deep) * 2 >= len(deep) if deep else True


def _epilogue(low: Lowering, node: Node, total: Value, place: Any) -> tuple[Statement, ...]:
    """Every output at the item's index, then all stores."""
    low.emitter.push("plain")
    low.keep((node, low.item_index, low.root), total)

    def outputs() -> Steps:
        ready = []
        for k, output in enumerate(low.region.outputs):
            value = yield output, low.item_index, low.root
            ready.append((k, place(low, k, low.item_index), value))
        for k, address, value in ready:
            low.store(k, address, value)

    low.run(outputs())
    return low.emitter.pop()


def _elsewhere(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    yield from ()
    raise InternalError("GLA9926", f"{node} is read at another element than the item's, or is not its region's product")
