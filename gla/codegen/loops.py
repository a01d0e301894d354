"""Lowers a region to a kernel: `lower(region)`. The planner's regions come in, the two printers' kernels go out.

One item of the kernel is one element of region.items; its number is split into axes only where an access needs it. Values
of all outputs are computed before any is stored. Regions that differ in sizes alone give equal kernels; their sizes are
in `arguments`. Refuses (InternalError) what a region may not hold: see plan/steps.py.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product as combinations
from math import prod
from typing import Any

from gla.codegen import control, elements, indexing, reductions
from gla.codegen.affine import ONE, Affine, Index, Poly, Split, fixed, product
from gla.codegen.arguments import Argument, LoweredKernel, Number
from gla.codegen.context import Handler, Lowering, Steps
from gla.codegen.extents import SMALL
from gla.codegen.hold import fits, holding
from gla.codegen.kernel import ForEach, Kernel, Loop, Reduce, Statement, Value
from gla.codegen.naming import kernel_doc, kernel_name
from gla.codegen.products import lower_product
from gla.codegen.prune import prune
from gla.errors import InternalError
from gla.ir.node import Node
from gla.ir.ops.order import partials
from gla.plan.steps import Region, Target
from gla.plan.tiles import tile

HANDLERS: dict[str, Handler] = {
    "input": elements.runtime_scalar,
    "constant": elements.constant,
    "iota": elements.iota,
    "broadcast": indexing.broadcast,
    "reshape": indexing.reshape,
    "transpose": indexing.transpose,
    "slice": indexing.slice_,
    "shift": indexing.shift,
    "pad": indexing.pad,
    "concat": indexing.concat,
    "gather": indexing.gather,
    "update": indexing.update,
    "reduce": reductions.reduction,
    "argreduce": reductions.reduction,
    "loop": control.loop,
    "while": control.loop,
    "item": control.item,
}
MAX_TEAM = 256


def lower(region: Region, name: str = "") -> LoweredKernel:
    """The kernel of a region, how many items it has, and what its parameters are."""
    if region.marching is not None:
        from gla.codegen.march import lower_march

        return lower_march(region, HANDLERS, name)
    if region.product is not None:
        return lower_product(region, tile(region.product), HANDLERS, _address, name)
    low = Lowering(region, HANDLERS, elements.elementwise_op)
    low.emitter.sharing, low.emitter.expected = True, elements.expected(region)
    extents = low.extents.shape("items", region.items)
    total = product(extents)
    items = low.extent_parameter(total, "items")
    item = low.emitter.value(low.index_dtype, 0)
    low.item_index = low.indices.unravel(low.indices.value(item, total), extents)
    low.reduce_groups = reductions.grouped(region.outputs, frozenset(region.inputs), region.items)
    low.run(_outputs(low))
    live = {items}
    body = prune(tuple(low.emitter.scopes[0].statements), live)
    team, across = _team(low, item, body)
    used = [k for k, p in enumerate(low.parameters) if p.value is None or p.value in live]
    kernel = Kernel(
        name or kernel_name(region),
        tuple(low.parameters[k] for k in used),
        item,
        items,
        body,
        low.wide,
        team,
        across,
        kernel_doc(region),
        tuple(low.emitter.functions.values()),
    )
    lowered = LoweredKernel(kernel, prod(region.items), tuple(_argument(low, low.arguments[k]) for k in used))
    rows = holding(kernel)
    if rows is not None and fits(kernel, lowered.number(rows[0]), rows[1]):
        return replace(lowered, kernel=replace(kernel, held=rows))
    return lowered


def _argument(low: Lowering, argument: Argument | Poly) -> Argument:
    if not isinstance(argument, Poly):
        return argument
    value = argument.evaluate(low.extents.values)
    return Number(value, low.index_dtype)


# --- outputs


def _outputs(low: Lowering) -> Steps:
    region = low.region
    if any(node.op == "scan" and node not in region.inputs for node in region.outputs):
        yield from _scan(low)
        return
    plain = [k for k, node in enumerate(region.outputs) if len(node.shape) == len(region.items)]
    mapped = [k for k, node in enumerate(region.outputs) if len(node.shape) != len(region.items)]
    ready: list[tuple[int, Affine, Any]] = []
    for k in plain:
        ready.append((yield from _element(low, k, low.item_index)))
    if mapped and prod(region.inner) <= SMALL:
        for inner in combinations(*map(range, region.inner)):
            for k in mapped:
                ready.append((yield from _element(low, k, (*low.item_index, *map(fixed, inner)))))
    elif mapped:
        yield from _for_each(low, mapped)
    for k, address, value in ready:
        low.store(k, address, value)


def _element(low: Lowering, k: int, index: Index) -> Steps:
    node = low.region.outputs[k]
    if len(index) != len(node.shape):
        raise InternalError("GLA9916", f"{node} is no output of a region over {low.region.items} + {low.region.inner}")
    value = yield node, index, low.root
    return k, _address(low, k, index), value


def _for_each(low: Lowering, mapped: list[int]) -> Steps:
    """The outputs that have inner axes, by the item's team."""
    s = low.emitter
    extents = low.extents.shape("inner", low.region.inner)
    total = product(extents)
    count = low.extent(total)
    counter = s.value(low.index_dtype, 1)
    inner = low.indices.unravel(low.indices.value(counter, total), extents)
    s.push("foreach")
    ready = []
    for k in mapped:
        ready.append((yield from _element(low, k, (*low.item_index, *inner))))
    for k, address, value in ready:
        low.store(k, address, value)
    body = s.pop()
    s.append(ForEach(counter, count, body))


def _scan(low: Lowering) -> Steps:
    if len(low.region.outputs) != 1:
        raise InternalError("GLA9917", "a scan shares its region with other outputs")
    (node,) = low.region.outputs
    if node.attr("axis") != len(node.shape) - 1:
        raise InternalError("GLA9918", f"{node} runs along the axis {node.attr('axis')}, not its last")
    yield from reductions.scan_items(low, node, 0, lambda index: _address(low, 0, index))


def _address(low: Lowering, k: int, index: Index) -> Affine:
    """Where the element `index` of an output goes in its buffer."""
    node = low.region.outputs[k]
    target = low.region.targets[k] if low.region.targets else None
    if target is None:
        return low.address(low.extents.of(node), index)
    placed = tuple(_place(low, k, target, axis, form) for axis, form in enumerate(index))
    return low.address(low.extents.shape(("target", k), target.shape), placed)


def _place(low: Lowering, k: int, target: Target, axis: int, form: Affine) -> Affine:
    node, extent = low.region.outputs[k], target.shape[axis]
    start, step = target.starts[axis], target.steps[axis]
    of = low.extents.extent(("target", k), axis, extent)
    if node.shape[axis] > 1:
        form = low.indices.scale(form, low.extents.step(step, of))
    if isinstance(start, Node):
        value = low.emitter.convert(low.evaluate(start, (), low.root), low.index_dtype)
        known = low.emitter.constant(value)
        return low.indices.add(form, low.indices.value(value) if known is None else fixed(known))
    return low.indices.shifted(form, low.extents.near(start, extent, of))


# --- the team


def _team(low: Lowering, item: Value, body: tuple[Statement, ...]) -> tuple[int, bool]:
    """Threads to an item, and whether neighbouring threads are neighbouring items. Never changes bits."""
    found = [s for s in _walk(body) if isinstance(s, Reduce) and s.partials > 1]
    mapped = any(isinstance(s, ForEach) for s in body)
    if not found:
        return (min(MAX_TEAM, partials(prod(low.region.inner))), False) if mapped else (1, False)
    narrowest = min(s.partials for s in found)
    counters = {s.index for s in found}
    along = across = 0
    for address in low.reads:
        bases = _bases(address)
        if item in bases and not counters.isdisjoint(bases):  # what all items share does not count
            fastest = {_fastest(atom) for atom, c in address.terms if c == ONE}
            along += not counters.isdisjoint(fastest)
            across += item in fastest
    if across > along and not mapped:
        return (32 if narrowest >= MAX_TEAM else 8), True
    return min(MAX_TEAM, narrowest), False


def _bases(form: Affine) -> set[Value]:
    """The values that an index is made of."""
    out: set[Value] = set()
    for atom, _ in form.terms:
        out |= _bases(atom.of) if isinstance(atom, Split) else {atom}
    return out


def _fastest(atom: Value | Split) -> Value | None:
    """The counter that the fastest part of an index comes from."""
    while isinstance(atom, Split):
        if atom.kind == "div" or not atom.of.terms:
            return None
        atom = atom.of.terms[0][0]
    return atom


def _walk(body: tuple[Statement, ...]) -> list[Statement]:
    out: list[Statement] = []
    for statement in body:
        out.append(statement)
        if isinstance(statement, Loop):
            out.extend(_walk(statement.body))
    return out
