"""Handlers of loops, while loops and branches inside a kernel.

A loop whose body stays within one element becomes a `Loop` statement that carries that element's values; a body may read
captured arrays anywhere. A branch computes both sides and selects. `item` picks a value.
"""

from __future__ import annotations

from typing import Any

from gla.codegen.affine import Index
from gla.codegen.context import Carried, Env, Lowering, Steps, flat
from gla.codegen.kernel import Loop, Value
from gla.dtypes import int64, integer_range
from gla.errors import InternalError
from gla.ir.graph import Graph
from gla.ir.node import Node


def item(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    source, k = node.operands[0], node.attr("index")
    if source.op == "cond":
        return (yield from _branch(low, source, k, index, env))
    carries = source.attr("carries")
    if k >= carries and source.op == "loop":
        raise InternalError("GLA9915", f"{node} is emitted by a loop inside a kernel, which keeps only what it carries")
    results = yield source, index, env
    return results[k]


def _branch(low: Lowering, node: Node, k: int, index: Index, env: Env) -> Steps:
    predicate, *captures = node.operands
    condition = yield predicate, (), env
    sides = []
    for name in ("then", "otherwise"):
        graph = node.attr(name)
        inner = low.env((node, env, name), env.level)
        inner.bindings.update(zip(graph.inputs, ((capture, env) for capture in captures)))
        sides.append((yield graph.results[k], index, inner))
    return low.choose(condition, *sides)


def loop(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    """All carries of the loop (and for a while loop the trips and whether it still held) at one element, as a tuple.

    At the empty index only scalar carries are run: they cannot depend on the others.
    """
    state = _State(low, node, index, env)
    s, level = low.emitter, low.level(index, env)
    with s.outer(level):
        inits: list[Any] = []
        for k in state.run:
            inits.append((yield state.inits[k], state.places[k], env))
        count = yield from _count(low, node, env)
        trips = s.const(0, int64)
        starts = _flatten(inits)
        counter = s.value(low.index_dtype, level + 1)
        carried = [_like(low, value, level + 1) for value in inits]
        trip = s.value(int64, level + 1)
        guard, until = (), None
        s.push("loop")
        if node.op == "while":
            until = yield from state.test(low.env((node, index, env, "test"), level + 1), carried)
            guard = s.pop()
            s.push("loop")
        inner = low.env((node, index, env, "body"), level + 1)
        state.bind(inner, node.attr("body"), carried)
        if node.op == "loop":
            now = s.convert(counter, int64)
            inner.bindings[node.attr("body").inputs[0]] = Carried((), {(): now})
        following: list[Any] = []
        for k in state.run:
            following.append((yield node.attr("body").results[k], state.places[k], inner))
        if node.op == "while":
            carried, starts, following = [*carried, trip], (*starts, trips), [*following, s.add(trip, s.const(1, int64))]
        body = s.pop()
        results = [_like(low, value, level) for value in carried]
        s.append(Loop(counter, count, _flatten(carried), starts, body, _flatten(following), _flatten(results), guard, until))
        return (yield from state.answer(results, level))


class _State:
    """Which carries of a loop run at an element, and how its graphs are bound to them."""

    def __init__(self, low: Lowering, node: Node, index: Index, env: Env) -> None:
        self.low, self.node, self.index, self.env = low, node, index, env
        operands = node.operands[1:] if node.op == "loop" else node.operands
        carries = node.attr("carries")
        self.inits, self.captures = operands[:carries], operands[carries:]
        self.run = [k for k in range(carries) if not self.inits[k].shape or index]
        self.places: dict[int, Index] = {k: index if self.inits[k].shape else () for k in self.run}

    def bind(self, inner: Env, graph: Graph, carried: list[Any]) -> None:
        inputs = graph.inputs[1:] if self.node.op == "loop" else graph.inputs
        for k, value in zip(self.run, carried):
            inner.bindings[inputs[k]] = Carried(self.places[k], {(): value})
        for parameter, capture in zip(inputs[len(self.inits) :], self.captures):
            inner.bindings[parameter] = (capture, self.env)

    def test(self, inner: Env, carried: list[Any]) -> Steps:
        graph = self.node.attr("test")
        self.bind(inner, graph, carried)
        return (yield graph.results[0], (), inner)

    def answer(self, results: list[Any], level: int) -> Steps:
        """Values by number of the carry; None for those that did not run."""
        carries = len(self.inits)
        out: list[Any] = [None] * carries
        for k, value in zip(self.run, results):
            out[k] = value
        if self.node.op == "while":
            holds = yield from self.test(self.low.env((self.node, self.index, self.env, "after"), level), results)
            out.extend((results[-1], holds))
        return tuple(out)


def _count(low: Lowering, node: Node, env: Env) -> Steps:
    """The number of trips as an index: an argument, or a run-time int64 held within the index dtype."""
    most = integer_range(low.index_dtype)[1]
    if node.op == "while":
        return low.extent(low.extents.symbol(min(node.attr("limit"), most), (node, "limit")))
    count = node.operands[0]
    if count.op == "constant":
        trips = int.from_bytes(count.attr("bits"), "little", signed=True)
        return low.extent(low.extents.symbol(min(max(trips, 0), most), (count, "trips")))
    s = low.emitter
    value = yield count, (), env
    top = s.const(most, int64)
    value = s.select(s.lt(value, s.const(0, int64)), s.const(0, int64), value)
    return s.convert(s.select(s.gt(value, top), top, value), low.index_dtype)


def _like(low: Lowering, value: Any, level: int) -> Any:
    fresh = tuple(low.emitter.value(part.dtype, level) for part in flat(value))
    return fresh if isinstance(value, tuple) else fresh[0]


def _flatten(values: list[Any]) -> tuple[Value, ...]:
    return tuple(part for value in values for part in flat(value))
