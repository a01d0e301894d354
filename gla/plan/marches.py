"""Plans a counted loop as passes over memory of several trips each (time_tiles.py says which loops, and how many).

A loop of n trips becomes passes of equal depth and one shallower pass for the rest. The carries go to and fro between two
buffers, the last pass writes where the loop's result is to be: nothing is copied. Few passes are steps of their own; of many, an
even number is a loop of the host. Called by loops.emit; gives False for a loop that stays one of single trips.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gla import dtypes
from gla.ir.builder import constant_value
from gla.ir.graph import new_input, substitute
from gla.ir.node import Node, make, topological
from gla.plan import time_tiles
from gla.plan.explain import tell
from gla.plan.steps import KernelStep, LoopStep, Region
from gla.plan.time_tiles import COUNTER, Body, Marching

if TYPE_CHECKING:
    from gla.plan.scope import Scope

STRAIGHT = 4  # passes that are steps of their own


@dataclass(frozen=True, slots=True)
class Passes:
    """A body and the buffers that its passes use. `outside`: where captured values stand."""

    body: Body
    outside: dict[Node, int]
    starts: tuple[int, ...]
    homes: tuple[int, ...]
    others: tuple[int, ...]

    def step(
        self, steps: int, reads: tuple[int, ...], writes: tuple[int, ...], first: Node, counter: dict[Node, int]
    ) -> KernelStep:
        """One pass of that many trips; the first one's number is `first`."""
        body = self.body
        bound = self.outside | counter | dict(zip(body.carries, reads))
        if body.trip not in topological((*body.border, *body.inner)):
            first, bound = _number(0), {n: b for n, b in bound.items() if n not in counter}
        marching = Marching(steps, body.trip, first, body.taps, body.inner, body.margin, body.wraps, body.radius)
        reached = topological((*body.border, *marching.roots), stop=set(bound))
        captured = tuple(n for n in reached if n in bound and n not in body.carries)
        scalars = tuple(n for n in reached if n.op == "input" and n.attr("scalar"))
        inputs = (*body.carries, *captured)
        targets = (None,) * len(body.border)
        region = Region(body.border, inputs, scalars, body.border[0].shape, (), targets, marching=marching)
        return KernelStep(region, tuple(bound[n] for n in inputs), writes)

    @property
    def counts(self) -> bool:
        return self.body.trip in topological((*self.body.border, *self.body.inner))


def emit(scope: Scope, node: Node, used: dict[int, Node], outside: dict[Node, int]) -> bool:
    """Append the loop's passes to `scope` and bind its used items, if it is one that is tiled."""
    rule, count = scope.tiling, node.operands[0]
    if rule is None or count.op != "constant" or node.attr("emits"):
        return False
    trips, carries, graph = int(constant_value(count)), node.attr("carries"), node.attr("body")
    if trips < 2 or not carries:
        return False
    starts, captured = node.operands[1 : 1 + carries], node.operands[1 + carries :]
    roots = substitute(graph.results, dict(zip(graph.inputs[1 + carries :], captured, strict=True)))
    body = time_tiles.analyse(graph.inputs[1 : 1 + carries], graph.inputs[0], roots, set(outside))
    depth = time_tiles.depth(body, trips, rule) if body is not None else 1
    if body is None or depth < 2:
        return False
    reached = topological((*body.border, *body.inner), stop=set(outside))
    if sum(n in outside for n in reached) + 2 * carries > time_tiles.POINTERS:
        return False
    homes = tuple(_home(scope, start, used.get(k)) for k, start in enumerate(starts))
    others = homes if trips == depth else tuple(scope.buffers.temporary(s.dtype, s.shape) for s in starts)
    tell(
        scope.notes,
        scope.depth,
        f"loop of {trips} trips over {' x '.join(map(str, starts[0].shape))} cells, {depth} in one pass over memory",
    )
    _emit_passes(scope, Passes(body, outside, tuple(scope.bound[s] for s in starts), homes, others), trips, depth)
    return True


def _emit_passes(scope: Scope, passes: Passes, trips: int, depth: int) -> None:
    full, rest = divmod(trips, depth)
    total = full + (rest > 0)
    straight = full if full <= STRAIGHT else 2 - full % 2

    def place(k: int) -> tuple[int, ...]:
        """The buffers that pass k writes."""
        if k < 0:
            return passes.starts
        return passes.homes if (total - 1 - k) % 2 == 0 else passes.others

    for k in range(straight):
        scope.steps.append(passes.step(depth, place(k - 1), place(k), _number(k * depth), {}))
    if straight < full:
        scope.steps.append(_loop(scope, passes, straight, full - straight, depth, place(straight - 1), place(straight)))
    if rest:
        scope.steps.append(passes.step(rest, place(full - 1), place(full), _number(full * depth), {}))


def _loop(
    scope: Scope, passes: Passes, done: int, count: int, depth: int, current: tuple[int, ...], following: tuple[int, ...]
) -> LoopStep:
    """An even number of passes, driven by the host."""
    counter = new_input(COUNTER, "pass")
    buffer = scope.buffers.temporary(dtypes.int64, ()) if passes.counts else -1
    first = make("add", (counter, _number(done * depth)), {}, COUNTER)
    steps = [passes.step(depth, current, following, first, {counter: buffer})]
    if passes.counts:
        after = make("add", (counter, _number(depth)), {}, COUNTER)
        steps.append(KernelStep(Region((after,), (counter,), (), (), (), (None,)), (buffer,), (buffer,)))
    return LoopStep(tuple(steps), count, buffer, tuple(zip(current, current, following)))


def _home(scope: Scope, start: Node, item: Node | None) -> int:
    """Where a carry is to be after the loop."""
    if item is not None and item in scope.bound:
        return scope.bound[item]
    place = scope.buffers.temporary(start.dtype, start.shape)
    if item is not None:
        scope.bound[item] = place
    return place


def _number(value: int) -> Node:
    return make("constant", (), {"bits": np.int64(value).tobytes(), "literal": False}, COUNTER)
