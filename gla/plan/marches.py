"""Plans a counted loop as passes over memory of several trips each (time_tiles.py says which loops, and how many).

A loop of n trips becomes passes of equal depth and one shallower pass for the rest. The carries go to and fro between two
buffers, the last pass writes where the loop's result is to be: nothing is copied. Few passes are steps of their own; of many, an
even number is a loop of the host. Carried numbers go ahead of the grid: before each pass a kernel of one item takes them through its trips, and
leaves what they are in each trip to the pass. Called by loops.emit; gives False for a loop that stays one of single trips.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gla import dtypes
from gla.ir.access import is_elementwise
from gla.ir.builder import constant_value
from gla.ir.graph import new_input, substitute
from gla.ir.node import Node, make, topological
from gla.ir.types import Type
from gla.passes import nodes
from gla.plan import time_tiles
from gla.plan.explain import tell
from gla.plan.steps import KernelStep, LoopStep, Region
from gla.plan.time_tiles import COUNTER, Body, Marching

if TYPE_CHECKING:
    from gla.plan.scope import Scope

STRAIGHT = 4  # passes that are steps of their own
NUMBERS = 40  # nodes that change carried numbers in a trip


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a loop carries beside its grid: `carries` (0-d inputs of the body) become `following`. `levels`: for those that the grid reads, the
    (value, buffer) that holds what they are in the trips of the pass at hand."""

    carries: tuple[Node, ...]
    following: tuple[Node, ...]
    levels: dict[Node, tuple[Node, int]]

    def step(self, body: Body, steps: int, bound: dict[Node, int], writes: tuple[int, ...], first: Node) -> KernelStep:
        """Takes the numbers through the trips of a pass."""
        depth = next((stack.shape[0] for stack, _ in self.levels.values()), 0)
        values, per_trip = self.carries, []
        for trip in range(steps):
            per_trip.append(values)
            number = make("add", (first, _number(trip)), {}, COUNTER)
            values = substitute(self.following, dict(zip(self.carries, values)) | {body.trip: number})
        per_trip += [per_trip[-1]] * (depth - steps)
        stacks = tuple(nodes.stack([v[self.carries.index(c)] for v in per_trip], 0) for c in self.levels)
        outputs = (*stacks, *values)
        reached = topological(outputs, stop=set(bound))
        inputs = tuple(n for n in reached if n in bound)
        scalars = tuple(n for n in reached if n.op == "input" and n.attr("scalar"))
        region = Region(outputs, inputs, scalars, (), (depth,) if stacks else (), (None,) * len(outputs))
        places = (*(place for _, place in self.levels.values()), *writes)
        return KernelStep(region, tuple(bound[n] for n in inputs), places)


@dataclass(frozen=True, slots=True)
class Passes:
    """A body and the buffers that its passes use: grids first, then numbers. `outside`: where captured values stand."""

    body: Body
    numbers: Numbers
    outside: dict[Node, int]
    starts: tuple[int, ...]
    homes: tuple[int, ...]
    others: tuple[int, ...]

    def steps(
        self, steps: int, reads: tuple[int, ...], writes: tuple[int, ...], first: Node, counter: dict[Node, int]
    ) -> list[KernelStep]:
        """One pass of that many trips; the first one's number is `first`."""
        body, grids = self.body, len(self.body.carries)
        if not self.counts:
            first, counter = _number(0), {}
        bound = self.outside | counter
        out = []
        if self.numbers.carries:
            held = bound | dict(zip(self.numbers.carries, reads[grids:]))
            out.append(self.numbers.step(body, steps, held, writes[grids:], first))
        bound |= dict(zip(body.carries, reads)) | dict(self.numbers.levels.values())
        border, inner = self._with_levels(body.border, first), self._with_levels(body.inner, first)
        marching = Marching(steps, body.trip, first, body.taps, inner, body.margin, body.wraps, body.radius)
        reached = topological((*border, *marching.roots), stop=set(bound))
        captured = tuple(n for n in reached if n in bound and n not in body.carries)
        scalars = tuple(n for n in reached if n.op == "input" and n.attr("scalar"))
        inputs = (*body.carries, *captured)
        region = Region(border, inputs, scalars, border[0].shape, (), (None,) * grids, marching=marching)
        return [*out, KernelStep(region, tuple(bound[n] for n in inputs), writes[:grids])]

    def _with_levels(self, roots: tuple[Node, ...], first: Node) -> tuple[Node, ...]:
        """The carried numbers as those of the trip."""
        if not self.numbers.levels:
            return roots
        trip = make("subtract", (self.body.trip, first), {}, COUNTER)
        index = make("cast", (trip,), {"dtype": dtypes.int64}, Type(dtypes.int64))
        levels = {
            number: make("gather", (stack, index), {"axes": (0,)}, Type(stack.dtype))
            for number, (stack, _) in self.numbers.levels.items()
        }
        return substitute(roots, levels)

    @property
    def counts(self) -> bool:
        """Whether anything asks for the number of a trip."""
        asked = self.body.trip in topological((*self.body.border, *self.body.inner, *self.numbers.following))
        return asked or bool(self.numbers.levels)


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
    order = sorted(range(carries), key=lambda k: not starts[k].shape)  # grids first
    params, results = tuple(graph.inputs[1 + k] for k in order), tuple(roots[k] for k in order)
    grids = sum(bool(start.shape) for start in starts)
    if not grids or not _apart(params[:grids], results[grids:], set(outside) | set(params)):
        return False
    body = time_tiles.analyse(params[:grids], graph.inputs[0], results[:grids], set(outside) | set(params[grids:]))
    depth = time_tiles.depth(body, trips, rule) if body is not None else 1
    if body is None or depth < 2:
        return False
    reached = topological((*body.border, *body.inner), stop={*outside, *params[grids:]})
    if sum(n in outside or n in params for n in reached) + 2 * grids > time_tiles.POINTERS:
        return False
    levels = {
        p: (new_input(Type(p.dtype, (depth,)), "levels"), scope.buffers.temporary(p.dtype, (depth,)))
        for p in params[grids:]
        if p in reached
    }
    homes = tuple(_home(scope, starts[k], used.get(k)) for k in order)
    others = homes if trips == depth else tuple(scope.buffers.temporary(starts[k].dtype, starts[k].shape) for k in order)
    cells = " x ".join(map(str, starts[order[0]].shape))
    tell(scope.notes, scope.depth, f"loop of {trips} trips over {cells} cells, {depth} in one pass over memory")
    numbers = Numbers(params[grids:], results[grids:], levels)
    places = tuple(scope.bound[starts[k]] for k in order)
    _emit_passes(scope, Passes(body, numbers, outside, places, homes, others), trips, depth)
    return True


def _apart(grids: tuple[Node, ...], numbers: tuple[Node, ...], stored: set[Node]) -> bool:
    """Whether carried numbers change by simple operations on numbers, without a look at the grid."""
    order = topological(numbers, stop=stored)
    simple = all(n in stored or n.op in ("constant", "input") or (not n.shape and is_elementwise(n)) for n in order)
    return simple and len(order) <= NUMBERS and not any(n in grids or n.dtype.kind == "c" for n in order)


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
        scope.steps += passes.steps(depth, place(k - 1), place(k), _number(k * depth), {})
    if straight < full:
        scope.steps.append(_loop(scope, passes, straight, full - straight, depth, place(straight - 1), place(straight)))
    if rest:
        scope.steps += passes.steps(rest, place(full - 1), place(full), _number(full * depth), {})


def _loop(
    scope: Scope, passes: Passes, done: int, count: int, depth: int, current: tuple[int, ...], following: tuple[int, ...]
) -> LoopStep:
    """An even number of passes, driven by the host."""
    counter = new_input(COUNTER, "pass")
    buffer = scope.buffers.temporary(dtypes.int64, ()) if passes.counts else -1
    first = make("add", (counter, _number(done * depth)), {}, COUNTER)
    steps = passes.steps(depth, current, following, first, {counter: buffer})
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
