"""Loops and choices as values: `gla.fori`, `gla.while_loop`, `gla.scan`, `gla.cond`, in traces and outside of them.

A carry is an array or number, or a tuple, list, dict or dataclass of them; it keeps its structure, and leaf by leaf its shape;
a leaf that the body gives wider is widened from the start. Bodies run once (a few times while carries widen) on stand-ins.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from gla import dtypes
from gla.array.boundary import public
from gla.array.calls import NUMBERS, from_numpy, number
from gla.array.scope import Scope, current
from gla.array.trace import map_leaves
from gla.array.value import Array, device_of, from_node, node_of
from gla.errors import DtypeError, RangeError, TraceError
from gla.ir.builder import apply, as_node, cast, constant
from gla.ir.functions import control
from gla.ir.node import Node
from gla.ir.spans import labels


class BodyScope(Scope):
    """The body of a loop. What it reads of the outside becomes an operand of the loop; it may write only what is its own."""

    kind = "body"

    def enter(self, array: Array) -> Array:
        return array if self.parent is None else self.parent.enter(array)

    def constant(self, values: Any) -> Array:
        if self.parent is not None:
            return self.parent.constant(values)
        from gla.array.create import upload

        return upload(np.array(values), None, self.device)


class Tree:
    """A carry: its structure and its leaves, with their name paths."""

    def __init__(self, value: Any, name: str) -> None:
        self.value = value
        self.names: list[str] = []
        self.leaves: list[Any] = []
        for path, leaf in paths(value, name):
            self.names.append(path)
            self.leaves.append(leaf)

    def like(self, nodes: Sequence[Node], device: str, scope: Scope | None) -> Any:
        """The structure with the nodes as its leaves."""
        left = iter(nodes)
        return map_leaves(self.value, lambda _: from_node(next(left), device, scope))

    def matched(self, other: Any, what: str) -> list[Any]:
        """The leaves of `other`, which must have this structure."""
        found = list(paths(other, self.names[0].split("[")[0].split(".")[0] if self.names else "carry"))
        if [p for p, _ in found] != self.names:
            mine, theirs = ", ".join(self.names), ", ".join(p for p, _ in found)
            raise TraceError(
                "GLA0407",
                f"{what} is given ({mine}) and gives back ({theirs})",
                labels=labels("here"),
                help="give back the same structure: as many values, in the same tuple, list or dict",
            )
        return [leaf for _, leaf in found]


def paths(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """(name path, leaf) of a structure."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        for field, part in zip(value._fields, value):
            yield from paths(part, f"{name}.{field}")
    elif isinstance(value, (tuple, list)):
        for k, part in enumerate(value):
            yield from paths(part, f"{name}[{k}]")
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from paths(part, f"{name}[{key!r}]")
    elif is_dataclass(value) and not isinstance(value, type):
        for one in fields(value):
            yield from paths(getattr(value, one.name), f"{name}.{one.name}")
    else:
        yield name, value


def leaf_node(value: Any, name: str) -> Node:
    """A leaf of a carry as a node."""
    if isinstance(value, Array):
        return node_of(value)
    if isinstance(value, NUMBERS):
        return number(value)
    if isinstance(value, np.ndarray):
        made = from_numpy(value)
        return node_of(made) if isinstance(made, Array) else made
    raise DtypeError(
        "GLA0225",
        f"{name} is a {type(value).__name__}, which a loop cannot carry",
        labels=labels("here"),
        help="carry arrays and numbers, in tuples, lists, dicts or dataclasses; use other things through the closure",
    )


class _Site:
    """Where a loop is built: the scope around it, the device, the carry."""

    def __init__(self, what: str, init: Any, more: Sequence[Any] = ()) -> None:
        self.what = what
        self.outer = current.get()
        self.tree = Tree(init, "carry")
        self.inits = [leaf_node(leaf, name) for name, leaf in zip(self.tree.names, self.tree.leaves)]
        self.device = device_of([x for x in (*self.tree.leaves, *more) if isinstance(x, Array)], self.outer)

    def run(
        self, body: Callable[..., Any], nodes: Sequence[Node], given: Callable[[Any, Scope], tuple[Any, ...]]
    ) -> tuple[Any, Scope]:
        """`body` once on stand-ins for `nodes`, in a scope of its own."""
        scope = BodyScope(self.what, self.outer, self.device)
        with scope.open():
            carry = self.tree.like(nodes, self.device, scope)
            result = body(*given(carry, scope))
            return map_leaves(result, lambda leaf: leaf_node(leaf, f"a value of {self.what}")), scope

    def after(self, result: Any) -> list[Node]:
        return self.tree.matched(result, self.what)

    def wrap(self, nodes: Sequence[Node]) -> Any:
        return self.tree.like(nodes, self.device, self.outer)


def _name(body: Any, what: str) -> str:
    return f"{what} with body {getattr(body, '__name__', 'body')}()"


def _integer(value: Any, what: str) -> Any:
    """A bound: an int, or a node for a traced or lazy integer."""
    if isinstance(value, Array):
        if value.dtype.kind not in "iu" or value.ndim:
            raise DtypeError("GLA0226", f"{what} must be one integer, not {value._type}", labels=labels("here"))
        return node_of(value)
    if not hasattr(value, "__index__"):
        raise DtypeError("GLA0226", f"{what} must be an integer, not {value!r:.40}", labels=labels("here"))
    return value.__index__()


@public
def fori(lower: Any, upper: Any, body: Callable[..., Any], init: Any) -> Any:
    """carry = init; for k in lower..upper-1: carry = body(k, carry). Gives the last carry.

    Bounds may be runtime scalars. `k` is a weak integer. ShapeError, DtypeError name the leaf of the carry that changes.
    """
    site = _Site(_name(body, "gla.fori"), init, (lower, upper))
    low, high = _integer(lower, "lower"), _integer(upper, "upper")

    def step(counter: Node, carries: list[Node]) -> tuple[list[Node], list[Node]]:
        def given(carry: Any, scope: Scope) -> tuple[Any, ...]:
            k = counter if low == 0 and not isinstance(low, Node) else apply("add", counter, _bound(low))
            return from_node(k, site.device, scope), carry

        result, _ = site.run(body, carries, given)
        return site.after(result), []

    if isinstance(low, Node) or isinstance(high, Node):
        count: Any = cast(
            apply("maximum", apply("subtract", _bound(high), _bound(low)), constant(0, literal=False)), dtypes.int64
        )
    else:
        count = max(0, high - low)
    carries, _ = control.loop(count, site.inits, step, names=site.tree.names)
    return site.wrap(carries)


def _bound(value: Any) -> Node:
    return value if isinstance(value, Node) else constant(value, literal=False)


class Every(Sequence[int]):
    """`emit_every` for each of the outs of a body, whose number is known once the body has run."""

    def __init__(self, every: int, count: Callable[[], int]) -> None:
        self.every, self.number = every, count

    def __len__(self) -> int:
        return self.number()

    def __getitem__(self, k: Any) -> Any:
        return ([self.every] * self.number())[k]


@public
def scan(body: Callable[..., Any], init: Any, length: int, emit_every: int = 1) -> Any:
    """`length` times: carry, out = body(carry) (or body(carry, k)). Gives (last carry, outs stacked on a new leading axis).

    `emit_every=n` keeps the out of every n-th trip: floor(length / n) rows.
    """
    if isinstance(length, Array):
        length = length.__index__()
    if emit_every < 1:
        raise RangeError("GLA0227", f"emit_every must be 1 or more, not {emit_every}", labels=labels("here"))
    site = _Site(_name(body, "gla.scan"), init)
    wants_counter = _positional(body) >= 2
    outs: list[Tree] = []

    def step(counter: Node, carries: list[Node]) -> tuple[list[Node], list[Node]]:
        def given(carry: Any, scope: Scope) -> tuple[Any, ...]:
            return (carry, from_node(counter, site.device, scope)) if wants_counter else (carry,)

        result, _ = site.run(body, carries, given)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TraceError(
                "GLA0408", "the body of gla.scan gives (carry, out)", labels=labels("here"), help="return carry, out"
            )
        outs[:] = [Tree(result[1], "out")]
        return site.after(result[0]), [cast(as_node(n), n.dtype) for n in outs[0].leaves]

    every = Every(emit_every, lambda: len(outs[0].leaves))
    carries, emitted = control.loop(int(length), site.inits, step, every, site.tree.names)
    return site.wrap(carries), outs[0].like(emitted, site.device, site.outer)


def _positional(body: Any) -> int:
    try:
        parameters = inspect.signature(body).parameters.values()
    except (TypeError, ValueError):
        return 1
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty for p in parameters)


@public
def while_loop(cond: Callable[..., Any], body: Callable[..., Any], init: Any, *, max_steps: int) -> Any:
    """While cond(carry): carry = body(carry), at most `max_steps` times. Gives the last carry."""
    limit = _integer(max_steps, "max_steps")
    if isinstance(limit, Node):
        raise TraceError(
            "GLA0409", "max_steps is a bound of the plan, not a run-time value", labels=labels("here"), help="pass a Python int"
        )
    site = _Site(_name(body, "gla.while_loop"), init)

    def test(carries: list[Node]) -> Node:
        result, _ = site.run(cond, carries, lambda carry, scope: (carry,))
        return result  # type: ignore[no-any-return]

    def step(carries: list[Node]) -> list[Node]:
        result, _ = site.run(body, carries, lambda carry, scope: (carry,))
        return site.after(result)

    carries, _, _ = control.while_loop(test, step, site.inits, limit, site.tree.names)
    return site.wrap(carries)


@public
def cond(predicate: Any, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any) -> Any:
    """then(*operands) where the one bool `predicate` holds, else otherwise(*operands): leaf by leaf, of one shape and dtype.

    Both branches are computed and one is chosen; in a trace, a Python bool chooses at once.
    """
    if isinstance(predicate, (bool, np.bool_)):
        return then(*operands) if predicate else otherwise(*operands)
    test = leaf_node(predicate, "the predicate")
    if test.shape or test.dtype.kind != "b":
        raise DtypeError(
            "GLA0215", f"the predicate of gla.cond must be one bool, not {test.type}", labels=labels("here"),
            help="reduce it: gla.any(p) or gla.all(p); elementwise choice is gla.where",
        )  # fmt: skip
    site = _Site("gla.cond", list(operands), (predicate,))
    results = [site.run(branch, site.inits, lambda carry, scope: tuple(carry))[0] for branch in (then, otherwise)]
    first = Tree(results[0], "the result")
    other = first.matched(results[1], "gla.cond: one branch")
    return first.like(control.choose(test, first.leaves, other), site.device, site.outer)
