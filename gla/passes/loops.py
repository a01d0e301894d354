"""Loops tidied: no trips or one trip are no loop, what does not change is no carry, what nobody uses goes.

A loop that keeps a value every k trips becomes a loop of runs: an inner loop of k trips without kept values, which a
kernel can run for each element, then the kept values, then what is left of the trips. It is done where the inner loop
stays within an element, or steps over a grid (which may run several trips a pass); straight-line code is left as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from gla.ir.builder import constant_value
from gla.ir.graph import Graph, new_input, substitute
from gla.ir.locality import stays_within_element, steps_over_grid
from gla.ir.node import Node, make, topological
from gla.ir.types import TupleType, Type
from gla.passes import nodes
from gla.passes.rewrite import LOOPS, rewrite
from gla.passes.scalarise import split_carries


def tidy_loops(graph: Graph) -> Graph:
    """The graph with loops that do nothing more than they must."""
    used = _used_items(graph)

    def change(node: Node, original: Node) -> Node | tuple[Node, ...]:
        if node.op not in ("loop", "while"):
            return node
        short = _short(node) if node.op == "loop" else None
        return short if short is not None else _pruned(node, used.get(original, set()))

    return rewrite(graph, change, LOOPS)


def split_runs(graph: Graph) -> Graph:
    """Loops that keep a value every k > 1 trips as loops of runs of k trips."""

    def change(node: Node, _: Node) -> Node | tuple[Node, ...]:
        return _runs(node) if node.op == "loop" else node

    return rewrite(graph, change, LOOPS)


def _used_items(graph: Graph) -> dict[Node, set[int]]:
    """Which values of each loop somebody uses, in the graph and in the graphs of its loops."""
    used: dict[Node, set[int]] = {}
    work = [graph]
    while work:
        here = work.pop()
        for node in here.nodes():
            if node.op == "item":
                used.setdefault(node.operands[0], set()).add(node.attr("index"))
            elif node.op == "loop":
                work.append(node.attr("body"))
            elif node.op == "while":
                work += [node.attr("body"), node.attr("test")]
    return used


def build_loop(
    count: Node, inits: Sequence[Node], captures: Sequence[Node], body: Graph, emits: Sequence[int], stacked: Sequence[Type]
) -> tuple[Node, ...]:
    """The items of a loop node."""
    types = TupleType((*(c.type for c in body.inputs[1 : 1 + len(inits)]), *stacked))
    attrs = {"body": body, "carries": len(inits), "emits": tuple(emits)}
    node = make("loop", (count, *inits, *captures), attrs, types, count.span)
    return items_of(node)


def items_of(node: Node) -> tuple[Node, ...]:
    return tuple(make("item", (node,), {"index": k}, type, node.span) for k, type in enumerate(node.items))


def _short(node: Node) -> tuple[Node, ...] | None:
    """A loop of no trip or one, without the loop."""
    count, *rest = node.operands
    if count.op != "constant" or int(constant_value(count)) > 1:
        return None
    carries, body = node.attr("carries"), node.attr("body")
    if int(constant_value(count)) <= 0:
        values = list(rest[:carries])
        emitted: list[Node] = []
    else:
        counter = nodes.number(0, nodes.COUNTER.dtype, literal=False, weak=True)
        results = substitute(body.results, dict(zip(body.inputs, (counter, *rest), strict=True)))
        values, emitted = list(results[:carries]), list(results[carries:])
    for k, every in enumerate(node.attr("emits")):
        type = node.items[carries + k]
        if emitted and every == 1:
            values.append(nodes.reshape(nodes.cast(emitted[k], type.dtype), type.shape))
        else:
            values.append(nodes.full(0, type.dtype, type.shape))
    out = tuple(v if v.type == t else _typed(v, t) for v, t in zip(values, node.items))
    return out if tuple(v.type for v in out) == node.items else None


def _typed(node: Node, type: Type) -> Node:
    return make("cast", (node,), {"dtype": type.dtype}, type, node.span) if node.shape == type.shape else node


def _pruned(node: Node, used: set[int]) -> Node | tuple[Node, ...]:
    """Carries that never change become captures; carries, kept values and captures that nobody uses go."""
    first = 1 if node.op == "loop" else 0
    carries = node.attr("carries")
    body: Graph = node.attr("body")
    graphs = [body] if node.op == "loop" else [body, node.attr("test")]
    params = body.inputs[first : first + carries]
    fixed = {k for k in range(carries) if body.results[k] is params[k]}
    emits = [k for k in range(len(body.results) - carries) if carries + k in used] if node.op == "loop" else []
    roots = [body.results[carries + k] for k in emits]
    live = _live(graphs, first, carries, fixed, {k for k in used if k < carries}, roots)
    captured = node.operands[first + carries :]
    kept = [k for k in range(carries) if k in live and k not in fixed]
    moved = [k for k in range(carries) if k in fixed]
    needed = [body.results[k] for k in kept] + roots + ([node.attr("test").results[0]] if node.op == "while" else [])
    reached = set(topological(needed))
    uses = [any(g.inputs[first_of(g, body, first) + carries + k] in reached for g in graphs) for k in range(len(captured))]
    moved = [k for k in moved if any(g.inputs[first_of(g, body, first) + k] in reached for g in graphs)]
    if len(kept) == carries and len(emits) == len(body.results) - carries and all(uses):
        return node
    order = [*kept, *moved, *(carries + k for k, use in enumerate(uses) if use)]
    operands = [node.operands[first + k] for k in order]
    inputs = tuple(body.inputs[first + k] for k in order)
    results = tuple(body.results[k] for k in kept) + tuple(roots)
    replaced: dict[int, Node] = {k: node.operands[first + k] for k in fixed}
    if node.op == "loop":
        every = [node.attr("emits")[k] for k in emits]
        stacked = [node.items[carries + k] for k in emits]
        graph = Graph((body.inputs[0], *inputs), results)
        found = build_loop(node.operands[0], operands[: len(kept)], operands[len(kept) :], graph, every, stacked)
        replaced |= dict(zip([*kept, *(carries + k for k in emits)], found))
    else:
        test = node.attr("test")
        attrs = {
            "body": Graph(inputs, results),
            "test": Graph(tuple(test.inputs[k] for k in order), test.results),
            "carries": len(kept),
            "limit": node.attr("limit"),
        }
        types = TupleType((*(node.items[k] for k in kept), *node.items[carries:]))
        found = items_of(make("while", operands, attrs, types, node.span))
        replaced |= dict(zip([*kept, carries, carries + 1], found))
    # Values that nobody uses are not there any more: their place holds something of the type.
    return tuple(replaced[k] if k in replaced else _nothing(t) for k, t in enumerate(node.items))


def first_of(graph: Graph, body: Graph, first: int) -> int:
    """Where the carries start among a graph's inputs: a counter comes first in a counted loop's body."""
    return first if graph is body else 0


def _nothing(type: Type) -> Node:
    value = nodes.number(0, type.dtype, literal=True, weak=type.weak)
    return nodes.broadcast(value, type.shape)


def _live(graphs: list[Graph], first: int, carries: int, fixed: set[int], used: set[int], roots: list[Node]) -> set[int]:
    """Carries that a used carry, a kept value or the test depends on."""
    body = graphs[0]
    number = {body.inputs[first + k]: k for k in range(carries)}
    live = set(used)
    if len(graphs) > 1:
        test = graphs[1]
        reached = set(topological(test.results))
        live |= {k for k in range(carries) if test.inputs[k] in reached}
    live |= {number[n] for n in topological(roots) if n in number}
    work = list(live)
    while work:
        k = work.pop()
        if k in fixed:
            continue
        for node in topological((body.results[k],)):
            other = number.get(node)
            if other is not None and other not in live:
                live.add(other)
                work.append(other)
    return live


def _runs(node: Node) -> Node | tuple[Node, ...]:
    emits = node.attr("emits")
    if not emits or len(set(emits)) > 1 or emits[0] == 1 or node.operands[0].op != "constant":
        return node
    every, count = emits[0], int(constant_value(node.operands[0]))
    carries, body = node.attr("carries"), node.attr("body")
    results, kept = body.results[:carries], body.results[carries:]
    outside = set(body.inputs[1 + carries :])
    after_only = all(n in outside or n.op != "input" for n in topological(kept, stop=set(results)) if n not in results)
    runs, rest = divmod(count, every)
    if not after_only or runs == 0 or count <= every:
        return node
    plain = Graph(body.inputs, results)
    inits, captured = node.operands[1 : 1 + carries], node.operands[1 + carries :]
    trial = build_loop(_count(every), inits, captured, plain, (), ())
    split = split_carries(trial[0].operands[0]) if trial else None
    if not trial or not (stays_within_element(trial[0].operands[0]) or split is not None or steps_over_grid(body, carries)):
        return node
    outer_counter = new_input(nodes.COUNTER, "run")
    params = [new_input(i.type, i.attr("name")) for i in body.inputs[1:]]
    base = nodes.elementwise("multiply", outer_counter, _count(every))
    inner = _from(base, every, params[:carries], params[carries:], plain)
    values = dict(zip(results, inner)) | dict(zip(body.inputs[1 + carries :], params[carries:]))
    emitted = substitute(kept, values)
    outer = Graph((outer_counter, *params), (*inner, *emitted))
    out = build_loop(_count(runs), inits, captured, outer, [1] * len(kept), node.items[carries:])
    if rest == 0:
        return out
    base = _count(runs * every)
    last = _from(base, rest, list(out[:carries]), list(captured), plain)
    return (*last, *out[carries:])


def _count(trips: int) -> Node:
    return nodes.number(trips, nodes.COUNTER.dtype, literal=False, weak=True)


def _from(base: Node, trips: int, inits: list[Node], captured: list[Node], body: Graph) -> tuple[Node, ...]:
    """A loop of `trips` whose body sees counters from `base` on."""
    counter = body.inputs[0]
    uses_counter = counter in set(topological(body.results))
    if not uses_counter:
        return build_loop(_count(trips), inits, captured, body, (), ())
    inner, start = new_input(nodes.COUNTER, "trip"), new_input(nodes.COUNTER, "start")
    shifted = nodes.elementwise("add", start, inner)
    results = substitute(body.results, {counter: shifted})
    graph = Graph((inner, *body.inputs[1:], start), results)
    return build_loop(_count(trips), inits, [*captured, base], graph, (), ())
