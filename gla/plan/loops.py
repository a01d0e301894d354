"""Loops that the host drives: carries in two buffers each, the body planned as a scope of its own.

What the body reads from outside is read from where it stands; cheap scalars are computed in the body's kernels. Kept
values go to row `trip // every` of their stack: each trip of a run of `every` stores there and the last one stays. A
stack whose length `every` does not divide has one row more, where the incomplete last run goes.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from gla import dtypes
from gla.ir.builder import constant_value
from gla.ir.graph import Graph, new_input, substitute
from gla.ir.node import Node, make, topological
from gla.ir.types import Type
from gla.plan import marches
from gla.plan.dependencies import uses
from gla.plan.explain import tell
from gla.plan.fuse.cost import SMALL, is_large_reduction
from gla.plan.steps import CopyStep, KernelStep, LoopStep, Region, Step, Target

if TYPE_CHECKING:
    from gla.plan.scope import Scope

COUNTER = Type(dtypes.int64, (), True)
ENDLESS = 1 << 62
NONE = -1  # no counter: nothing in the body asks for the trip number
PORTABLE = 32  # nodes of a scalar expression that a body computes again rather than reads
SOURCES = frozenset({"constant", "input", "iota", "broadcast", "reshape"})


def stored_operands(scope: Scope, node: Node) -> list[Node]:
    """What must stand in memory before the loop: starts, captured arrays, a count that only the device knows."""
    counted = 1 if node.op == "loop" else 0
    carries = node.attr("carries")
    out = list(node.operands[counted : counted + carries])
    if counted and node.operands[0].op != "constant" and not portable(scope, node.operands[0]):
        out.append(node.operands[0])
    out += [captured for captured in node.operands[counted + carries :] if not portable(scope, captured)]
    return list(dict.fromkeys(out))


def portable(scope: Scope, node: Node) -> bool:
    """Whether a value is made of constants and runtime scalars alone, so that a body may compute it again."""
    known = scope._portable.get(node)
    if known is None:
        order = topological((node,), stop=set(scope.given))
        known = len(order) <= PORTABLE and all(
            n not in scope.given and (n.op in SOURCES or (not n.shape and n.op not in ("loop", "while", "item", "reduce")))
            for n in order
        )
        scope._portable[node] = known
    return known


def emit(scope: Scope, node: Node, items: list[Node]) -> None:
    """Append the loop's step to `scope` and bind the used `items` to buffers."""
    used = {item.attr("index"): item for item in items}
    if node.op == "loop":
        if not marches.emit(scope, node, used, _outside(scope, node)):
            _counted(scope, node, used)
    else:
        _conditional(scope, node, used)


def _body_scope(scope: Scope, outer: dict[Node, int]) -> Scope:
    from gla.plan.scope import Scope as New

    return New(
        scope.buffers,
        outer,
        fuse=scope.fuse,
        products=scope.products,
        tiling=scope.tiling,
        notes=scope.notes,
        depth=scope.depth + 1,
    )


def _outside(scope: Scope, node: Node) -> dict[Node, int]:
    """What the loop's graphs find in memory: not all that the scope stores, for some of it is computed later."""
    return scope.given | {operand: scope.bound[operand] for operand in stored_operands(scope, node)}


def _carry_buffers(scope: Scope, node: Node, starts: tuple[Node, ...], used: dict[int, Node]) -> list[tuple[int, int, int]]:
    """(start, current, next) per carry. `current` is where a used item of the loop is to be."""
    out = []
    for k, start in enumerate(starts):
        item = used.get(k)
        if item is not None and item in scope.bound:
            current = scope.bound[item]
        else:
            current = scope.buffers.temporary(start.dtype, start.shape)
        if item is not None:
            scope.bound[item] = current
        out.append((scope.bound[start], current, scope.buffers.temporary(start.dtype, start.shape)))
    return out


def _plan_body(inner: Scope, roots: list[tuple[Node, int]], parts: dict[Node, tuple[int, Target]]) -> list[Step]:
    """Steps that compute `roots` into their buffers; the second of two equal roots, and values from outside, are copied."""
    homes: dict[Node, int] = {}
    copies: list[tuple[Node, int]] = []
    for node, target in roots:
        if node in inner.given or node in homes:
            copies.append((node, target))
        else:
            homes[node] = target
    kept = {node: place for node, place in parts.items() if node not in inner.given}
    inner.plan(homes, parts=kept)
    steps = list(inner.steps)
    for node, target in copies:
        if inner.buffers[target].nbytes:
            steps.append(CopyStep(inner.buffer_of(node), target))
    return steps


def _count_on(steps: list[Step], counter: Node, buffer: int) -> None:
    """The trip number counts on at the end of the body: in the one kernel that reads it, where that is one thread, or in a
    step of its own."""
    one = make("constant", (), {"bits": np.int64(1).tobytes(), "literal": True}, COUNTER)
    following = make("add", (counter, one), {}, COUNTER)
    readers = [k for k, step in enumerate(steps) if buffer in uses(step)[0]]
    reader = steps[readers[0]] if len(readers) == 1 else None
    if isinstance(reader, KernelStep) and _is_one_thread(reader.region):
        old = reader.region
        region = replace(old, outputs=(*old.outputs, following), targets=(*old.targets, None))
        steps[readers[0]] = replace(reader, region=region, writes=(*reader.writes, buffer))
    else:
        steps.append(KernelStep(Region((following,), (counter,), (), (), (), (None,)), (buffer,), (buffer,)))


def _is_one_thread(region: Region) -> bool:
    if region.items or prod(region.inner) > SMALL:
        return False
    inside = topological(region.outputs, stop=set(region.inputs))
    return not any(is_large_reduction(node) for node in inside if node not in region.inputs)


def _counted(scope: Scope, node: Node, used: dict[int, Node]) -> None:
    body: Graph = node.attr("body")
    carries = node.attr("carries")
    count, starts, captured = node.operands[0], node.operands[1 : 1 + carries], node.operands[1 + carries :]
    counter = body.inputs[0]
    roots = substitute(body.results, dict(zip(body.inputs[1 + carries :], captured, strict=True)))
    counter_buffer = scope.buffers.temporary(dtypes.int64, ())
    buffers = _carry_buffers(scope, node, starts, used)
    outer = _outside(scope, node)
    outer[counter] = counter_buffer
    outer |= {param: current for param, (_, current, _) in zip(body.inputs[1 : 1 + carries], buffers)}
    parts, afterwards = _kept(scope, node, roots[carries:], used)
    fixed = count.op == "constant"
    tell(
        scope.notes,
        scope.depth,
        f"loop of {int(constant_value(count)) if fixed else 'a counted number of'} trips, driven by the host:",
    )
    inner = _body_scope(scope, outer)
    steps = _plan_body(inner, list(zip(roots[:carries], (other for _, _, other in buffers))), parts)
    if not fixed or any(counter_buffer in uses(step)[0] for step in steps):
        _count_on(steps, counter, counter_buffer)
    else:
        counter_buffer = NONE
    if fixed:
        trips = max(int(constant_value(count)), 0)
        scope.steps += [LoopStep(tuple(steps), trips, counter_buffer, tuple(buffers)), *afterwards]
        return
    condition = scope.buffers.temporary(dtypes.bool_, ())
    wanted = make("less", (counter, _as_counter(count)), {}, Type(dtypes.bool_))
    check = _body_scope(scope, outer)
    check.plan({wanted: condition})
    scope.steps.append(LoopStep(tuple(steps), ENDLESS, counter_buffer, tuple(buffers), tuple(check.steps), condition))


def _kept(
    scope: Scope, node: Node, values: tuple[Node, ...], used: dict[int, Node]
) -> tuple[dict[Node, tuple[int, Target]], list[Step]]:
    """What the body stores in rows of stacks, and steps after the loop that move a stack."""
    counter, carries = node.attr("body").inputs[0], node.attr("carries")
    parts: dict[Node, tuple[int, Target]] = {}
    afterwards: list[Step] = []
    for k, (value, every) in enumerate(zip(values, node.attr("emits"), strict=True)):
        item = used.get(carries + k)
        if item is None:
            continue
        if 0 in item.shape:
            scope.bound.setdefault(item, scope.buffers.temporary(item.dtype, item.shape))
            continue
        kept = make("reshape", (value,), {}, Type(value.dtype, (1, *value.shape)))
        while kept in parts:  # the same value kept twice: each stack has a node of its own
            kept = make("reshape", (kept,), {}, kept.type)
        place, moves = _stack(scope, item, int(constant_value(node.operands[0])), every)
        afterwards += moves
        starts: tuple[int | Node, ...] = (_row(counter, every), *(0 for _ in value.shape))
        parts[kept] = (place, Target(scope.buffers[place].shape, starts, (1,) * len(kept.shape)))
    return parts, afterwards


def _as_counter(count: Node) -> Node:
    return count if count.dtype is dtypes.int64 else make("cast", (count,), {"dtype": dtypes.int64}, COUNTER)


def _row(counter: Node, every: int) -> Node:
    if every == 1:
        return counter
    step = make("constant", (), {"bits": np.int64(every).tobytes(), "literal": False}, COUNTER)
    return make("floor_divide", (counter, step), {}, COUNTER)


def _stack(scope: Scope, item: Node, count: int, every: int) -> tuple[int, list[Step]]:
    """The buffer of a stack of kept values, with a spare row for an incomplete last run, and steps after the loop that
    take it to where the item is to be."""
    home = scope.bound.get(item)
    if count % every == 0:
        place = scope.buffers.temporary(item.dtype, item.shape) if home is None else home
        scope.bound[item] = place
        return place, []
    place = scope.buffers.temporary(item.dtype, (item.shape[0] + 1, *item.shape[1:]))
    if home is None:
        scope.bound[item] = place
        return place, []
    region = Region((item,), (item,), (), item.shape, (), (None,))
    return place, [KernelStep(region, (place,), (home,))]


def _conditional(scope: Scope, node: Node, used: dict[int, Node]) -> None:
    test, body = node.attr("test"), node.attr("body")
    carries = node.attr("carries")
    starts, captured = node.operands[:carries], node.operands[carries:]
    counter = new_input(COUNTER, "trip")
    trips = used.get(carries)
    counter_buffer = NONE if trips is None else _item_buffer(scope, trips, dtypes.int64)
    condition = scope.buffers.temporary(dtypes.bool_, ())
    buffers = _carry_buffers(scope, node, starts, used)
    outer = _outside(scope, node)
    current = [current for _, current, _ in buffers]
    tell(scope.notes, scope.depth, f"loop of at most {node.attr('limit')} trips, driven by the host while its test holds:")
    inner = _body_scope(scope, outer | dict(zip(body.inputs, current)))
    results = substitute(body.results, dict(zip(body.inputs[carries:], captured, strict=True)))
    steps = _plan_body(inner, list(zip(results, (other for _, _, other in buffers))), {})
    if counter_buffer != NONE:
        _count_on(steps, counter, counter_buffer)
    (wanted,) = substitute(test.results, dict(zip(test.inputs[carries:], captured, strict=True)))
    test_steps = _test(scope, outer | dict(zip(test.inputs, current)), wanted, condition)
    scope.steps.append(LoopStep(tuple(steps), node.attr("limit"), counter_buffer, tuple(buffers), tuple(test_steps), condition))
    last = used.get(carries + 1)
    if last is not None:  # whether it would have gone on: the test once more, on what the loop left
        place = _item_buffer(scope, last, dtypes.bool_)
        scope.steps += _test(scope, outer | dict(zip(test.inputs, current)), wanted, place)


def _test(scope: Scope, outer: dict[Node, int], wanted: Node, place: int) -> list[Step]:
    inner = _body_scope(scope, outer)
    return _plan_body(inner, [(wanted, place)], {})


def _item_buffer(scope: Scope, item: Node | None, dtype: dtypes.DType) -> int:
    if item is not None and item in scope.bound:
        return scope.bound[item]
    place = scope.buffers.temporary(dtype, ())
    if item is not None:
        scope.bound[item] = place
    return place
