"""Handlers of loops, while loops and branches inside a kernel.

A loop whose body stays within one element (ir/locality.py) becomes a `Loop` statement that carries that element's values: one
for each carry, or several where the element is a short row. A body may read captured arrays anywhere. A branch computes both sides and selects. `item` picks a value.
"""

from __future__ import annotations

from itertools import product as combinations
from typing import Any

from gla.codegen.affine import Index, fixed
from gla.codegen.context import Carried, Env, Lowering, Steps, flat, read_carried
from gla.codegen.kernel import Loop, Statement, Value
from gla.dtypes import int64, integer_range
from gla.errors import InternalError
from gla.ir.graph import Graph
from gla.ir.locality import element_rank
from gla.ir.node import Node


def item(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    source, k = node.operands[0], node.attr("index")
    if source.op == "cond":
        return (yield from _branch(low, source, k, index, env))
    carries = source.attr("carries")
    if k >= carries and source.op == "loop":
        raise InternalError("GLA9915", f"{node} is emitted by a loop inside a kernel, which keeps only what it carries")
    rank = element_rank(source)
    if rank is None:
        raise InternalError("GLA9919", f"{source} does not stay within one element and cannot run inside a kernel")
    results = yield source, index[:rank], env
    if k >= carries:
        return results[k]
    return read_carried(node, index, results[k])


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
    """The carries of the loop at one element, as `Carried`; of a while loop also the trips and whether it still held.

    At the empty index only scalar carries are run: they cannot depend on the others.
    """
    state = _State(low, node, index, env)
    s, level, body = low.emitter, low.level(index, env), node.attr("body")
    with s.outer(level):
        inits = yield from state.ask(state.inits, env)
        count = yield from _count(low, node, env)
        counter, carried = s.value(low.index_dtype, level + 1), _like(low, inits, level + 1)
        guard: tuple[Statement, ...] = ()
        until = None
        if node.op == "while":
            s.push("loop")
            until = yield from state.test(low.env((node, index, env, "test"), level + 1), carried)
            guard = s.pop()
        s.push("loop")
        inner = low.env((node, index, env, "body"), level + 1)
        state.bind(inner, body, carried)
        if node.op == "loop":
            inner.bindings[body.inputs[0]] = Carried((), {(): s.convert(counter, int64)})
        following = yield from state.ask(body.results, inner)
        if node.op == "while":
            trip = s.value(int64, level + 1)
            inits, carried = [*inits, s.const(0, int64)], [*carried, trip]
            following = [*following, s.add(trip, s.const(1, int64))]
        statements = s.pop()
        results = _like(low, carried, level)
        s.append(
            Loop(
                counter, count, _flatten(carried), _flatten(inits), statements, _flatten(following), _flatten(results), guard, until
            )
        )  # fmt: skip
        return (yield from state.answer(results, level))


class _State:
    """The values that a loop carries for one element: `slots` are (carry, trailing index) pairs, in order."""

    def __init__(self, low: Lowering, node: Node, index: Index, env: Env) -> None:
        self.low, self.node, self.index, self.env = low, node, index, env
        operands = node.operands[1:] if node.op == "loop" else node.operands
        carries = node.attr("carries")
        self.inits, self.captures = operands[:carries], operands[carries:]
        rank = element_rank(node)
        self.slots = [
            (k, trailing)
            for k, init in enumerate(self.inits)
            if not init.shape or len(index) == rank
            for trailing in combinations(*map(range, init.shape[rank:]))
        ]

    def prefix(self, k: int) -> Index:
        return self.index if self.inits[k].shape else ()

    def ask(self, nodes: tuple[Node, ...], env: Env) -> Steps:
        """The value of each slot in `nodes` (one for each carry)."""
        values = []
        for k, trailing in self.slots:
            values.append((yield nodes[k], (*self.prefix(k), *map(fixed, trailing)), env))
        return values

    def carried(self, values: list[Any]) -> dict[int, Carried]:
        """The slots' values, by carry."""
        out: dict[int, Carried] = {}
        for (k, trailing), value in zip(self.slots, values):
            out.setdefault(k, Carried(self.prefix(k), {})).parts[trailing] = value
        return out

    def bind(self, inner: Env, graph: Graph, values: list[Any]) -> None:
        inputs = graph.inputs[1:] if self.node.op == "loop" else graph.inputs
        for k, carried in self.carried(values).items():
            inner.bindings[inputs[k]] = carried
        for parameter, capture in zip(inputs[len(self.inits) :], self.captures):
            inner.bindings[parameter] = (capture, self.env)

    def test(self, inner: Env, values: list[Any]) -> Steps:
        graph = self.node.attr("test")
        self.bind(inner, graph, values)
        return (yield graph.results[0], (), inner)

    def answer(self, results: list[Any], level: int) -> Steps:
        """By carry; None for those that did not run."""
        carried = self.carried(results)
        out: list[Any] = [carried.get(k) for k in range(len(self.inits))]
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


def _like(low: Lowering, values: list[Any], level: int) -> list[Any]:
    """A fresh value, or pair, in scope `level` for each of `values`."""
    fresh = [tuple(low.emitter.value(part.dtype, level) for part in flat(value)) for value in values]
    return [new if isinstance(value, tuple) else new[0] for value, new in zip(values, fresh)]


def _flatten(values: list[Any]) -> tuple[Value, ...]:
    return tuple(part for value in values for part in flat(value))
