"""Loops over nodes. A body is a Python function on nodes; what it uses from outside becomes an operand of the loop.

Carries keep their type from trip to trip; where the body gives a wider one, the start is widened and the body built
again. A choice between branches builds both and selects: everything is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gla import dtypes
from gla.dtypes import DType
from gla.errors import DtypeError, ShapeError
from gla.ir.builder import (
    as_node,
    broadcast,
    broadcast_shapes,
    cast,
    constant,
    constant_value,
    is_constant,
    promote_operands,
    weaken,
)
from gla.ir.functions.elementwise import where
from gla.ir.graph import Graph, new_input, substitute
from gla.ir.node import Node, make, topological
from gla.ir.spans import here, labels
from gla.ir.types import TupleType, Type

VIEWS = frozenset({"broadcast", "reshape", "transpose", "slice", "shift", "pad", "concat", "constant", "iota"})


def item(tuple_node: Node, index: int) -> Node:
    """One of the values that a loop gives."""
    return make("item", (tuple_node,), {"index": index}, tuple_node.items[index], here)


def captures_of(params: Sequence[Node], roots: Sequence[Node]) -> list[Node]:
    """The values from outside that `roots` use: nodes that no parameter reaches, not counting views of them and constants.

    Work on such values is thus done once, outside of the loop.
    """
    inside: set[Node] = set(params)
    order = topological(roots, stop=set(params))
    for node in order:
        if any(o in inside for o in node.operands):
            inside.add(node)
    captured: dict[Node, None] = {}
    seen: set[Node] = set()
    stack = [o for node in order if node in inside and node not in params for o in node.operands if o not in inside]
    stack += [r for r in roots if r not in inside]
    stack.reverse()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op in VIEWS or (node.op == "cast" and node.operands[0].op in VIEWS):
            stack.extend(reversed(node.operands))
        else:
            captured.setdefault(node, None)
    return list(captured)


def closed(params: Sequence[Node], roots: Sequence[Node], captured: Sequence[Node]) -> Graph:
    """The graph of `roots` over `params` and fresh parameters for what is captured."""
    fresh = [new_input(node.type, scalar=False) for node in captured]
    results = substitute(tuple(roots), dict(zip(captured, fresh)))
    return Graph((*params, *fresh), results)


def unify(init: Node, after: Type, name: str, span_of: Node) -> Type:
    """The type of a carry that starts as `init` and comes back as `after`: equal, or the wider of the two."""
    start = init.type
    if start == after:
        return start
    dtype, weak = promote_operands(name, (init, span_of))
    shape = start.shape
    if start.shape != after.shape:
        joined = broadcast_shapes(start.shape, after.shape)
        if start.weak and not start.shape and joined == after.shape:
            shape = after.shape
        else:
            raise ShapeError(
                "GLA0326",
                f"{name} starts as {start} and becomes {after} after one trip",
                labels=labels("", (f"starts as {start}", init), (f"becomes {after}", span_of)),
                help="a carried value keeps its shape: start it with its final shape, e.g. zeros(shape)",
            )
    if dtype is not start.dtype and not start.weak and not _widens(start.dtype, dtype):
        raise DtypeError(
            "GLA0214",
            f"{name} starts as {start} and becomes {after}",
            labels=labels("", (f"starts as {start}", init), (f"becomes {after}", span_of)),
            help=f"start it as {dtype}, or cast at the end of the body",
        )
    return Type(dtype, shape, weak and not shape)


def _widens(narrow: DType, wide: DType) -> bool:
    return narrow.kind == wide.kind or "biufc".index(wide.kind) > "biufc".index(narrow.kind)


def as_type(node: Node, wanted: Type) -> Node:
    """`node` brought to a wider type (never narrows)."""
    if node.type == wanted:
        return node
    if wanted.weak:
        return weaken(node, wanted.dtype)
    return broadcast(cast(node, wanted.dtype), wanted.shape)


Body = Callable[[Node, list[Node]], tuple[list[Node], list[Node]]]


def loop(
    count: Node | int, inits: Sequence[Node], body: Body, every: Sequence[int] = (), names: Sequence[str] = ()
) -> tuple[list[Node], list[Node]]:
    """Run `body(counter, carries) -> (next carries, emitted)` for counter 0..count-1.

    `every[k]`: the k-th emitted value is kept after every so many completed trips; the kept ones are stacked on a new
    leading axis of floor(count / every) rows. Gives (carries after the last trip, stacked emits).
    """
    trips = constant(count, dtypes.int64, literal=False) if isinstance(count, int) else count
    carries = [as_node(x) for x in inits]
    names = names or [f"carry {k}" for k in range(len(carries))]
    for _ in range(4):
        counter = new_input(Type(dtypes.int64, (), True), "k")
        params = [new_input(c.type, n, span=c.span) for c, n in zip(carries, names)]
        after, emitted = body(counter, list(params))
        types = [unify(c, a.type, n, a) for c, a, n in zip(carries, after, names)]
        if types == [c.type for c in carries]:
            break
        carries = [as_type(c, t) for c, t in zip(carries, types)]
    after = [as_type(a, c.type) for a, c in zip(after, carries)]
    roots = [*after, *emitted]
    captured = captures_of([counter, *params], roots)
    graph = closed([counter, *params], roots, captured)
    stacked = [Type(e.dtype, (int(constant_value(trips)) // n, *e.shape)) for e, n in zip(emitted, every)] if emitted else []
    attrs = {"body": graph, "carries": len(carries), "emits": tuple(every)}
    node = make("loop", (trips, *carries, *captured), attrs, TupleType((*(c.type for c in carries), *stacked)), here)
    values = [item(node, k) for k in range(len(node.items))]
    return values[: len(carries)], values[len(carries) :]


def while_loop(
    test: Callable[[list[Node]], Node],
    body: Callable[[list[Node]], list[Node]],
    inits: Sequence[Node],
    limit: int,
    names: Sequence[str] = (),
) -> tuple[list[Node], Node, Node]:
    """Run `body` while `test(carries)` holds, at most `limit` times. Gives (carries, trips done, whether test still holds)."""
    carries = [as_node(x) for x in inits]
    names = names or [f"carry {k}" for k in range(len(carries))]
    for _ in range(4):
        params = [new_input(c.type, n, span=c.span) for c, n in zip(carries, names)]
        after = body(list(params))
        types = [unify(c, a.type, n, a) for c, a, n in zip(carries, after, names)]
        if types == [c.type for c in carries]:
            break
        carries = [as_type(c, t) for c, t in zip(carries, types)]
    after = [as_type(a, c.type) for a, c in zip(after, carries)]
    condition = as_node(test(list(params)))
    if condition.shape or condition.dtype.kind != "b":
        raise DtypeError(
            "GLA0215",
            f"the condition of a loop must be one bool, not {condition.type}",
            labels=labels("", (str(condition.type), condition)),
            help="reduce it: any(c) or all(c)",
        )
    captured = captures_of(params, [condition, *after])
    attrs = {
        "test": closed(params, [condition], captured),
        "body": closed(params, after, captured),
        "limit": limit,
        "carries": len(carries),
    }
    types_out = TupleType((*(c.type for c in carries), Type(dtypes.int64), Type(dtypes.bool_)))
    node = make("while", (*carries, *captured), attrs, types_out, here)
    values = [item(node, k) for k in range(len(node.items))]
    return values[:-2], values[-2], values[-1]


def choose(condition: Node, taken: Sequence[Node], otherwise: Sequence[Node]) -> list[Node]:
    """Leaf by leaf, `taken` where the scalar condition holds, else `otherwise`; a constant condition chooses now."""
    if is_constant(condition) and not condition.shape:
        return list(taken if constant_value(condition) else otherwise)
    return [a if a is b else where(condition, a, b) for a, b in zip(taken, otherwise)]
