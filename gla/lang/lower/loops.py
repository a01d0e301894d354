"""Loops as IR: one trip is lowered to a function of its counter and of what it carries, and repeated.

What a loop carries are the variables from outside that its body assigns. `break if` is a flag in the carry: later trips
keep the old values (a `for` runs its trips to the end, a `while` stops). Asserts of the body are latched in the carry and
told after the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gla import dtypes
from gla.errors import DtypeError, RangeError, TraceError
from gla.ir.builder import apply, broadcast, constant
from gla.ir.functions import control
from gla.ir.functions.elementwise import where
from gla.ir.functions.index import getitem
from gla.ir.functions.shape import concat, expand_dims
from gla.ir.graph import new_input, substitute
from gla.ir.node import Node
from gla.ir.types import Type
from gla.lang import syntax as s
from gla.lang.context import Check, Context, Frame, number
from gla.lang.lower.assigned import assigned_names
from gla.lang.lower.checks import add
from gla.lang.lower.fold import known
from gla.lang.scope import Binding, Scope
from gla.lang.show import show
from gla.lang.values import Steps, Value, leaves, rebuild

COUNTER = Type(dtypes.int64, (), True)


@dataclass(frozen=True, slots=True, eq=False)
class Trip:
    """One trip as nodes over placeholders: `counter` (from 0) and `params`, of which `after` are the next values."""

    counter: Node
    params: tuple[Node, ...]
    inits: tuple[Node, ...]
    after: tuple[Node, ...]
    emits: tuple[tuple[Value, int], ...]
    checks: tuple[Check, ...]
    broken: Node | None
    condition: Node | None
    names: tuple[str, ...]

    @property
    def emitted(self) -> list[tuple[Node, int]]:
        return [(node, every) for value, every in self.emits for node in leaves(value)]


def touched_by(scope: Scope, part: s.Node) -> list[Binding]:
    """The variables from outside that `part` assigns."""
    return [b for n in assigned_names(part) if (b := scope.find(n)) is not None and b.mutable and not scope.crosses_function(n)]


def build_trip(
    ctx: Context,
    scope: Scope,
    loop: s.For | s.While,
    touched: Sequence[Binding],
    variable: Callable[[Node], Value] | None,
    effects: Any = None,
) -> Trip:
    """Lower one trip, until the types of what it carries stay the same. `variable` gives the loop's variable for a counter."""
    values = [b.get() for b in touched]
    inits = [n for v in values for n in leaves(v)]
    names = [b.name for b, v in zip(touched, values) for _ in leaves(v)]
    kept, outside = (ctx.frame, ctx.checks, ctx.guards, ctx.effects), ctx.moving
    try:
        for _ in range(4):
            counter = new_input(COUNTER, "k")
            params = [_parameter(ctx, c, n) for c, n in zip(inits, names)]
            rest = iter(params)
            for binding, value in zip(touched, values):
                binding.value = rebuild(value, rest)
            frame = Frame("for" if isinstance(loop, s.For) else "while", loop.body)
            ctx.frame, ctx.checks, ctx.guards, ctx.effects = frame, [], [], effects
            ctx.moving = [*outside, {counter, *params}]
            if effects is not None:
                effects.start()
            condition = _condition(ctx, scope, loop)
            inner = Scope(scope)
            if variable is not None and isinstance(loop, s.For):
                inner.bind(loop.variable.id, "loop", variable(counter), loop.variable.span)
            ctx.block(inner, loop.body)
            after = [n for b in touched for n in leaves(b.value)]
            types = [control.unify(c, a.type, f"`{name}`", a) for c, a, name in zip(inits, after, names)]
            if types == [c.type for c in inits]:
                break
            inits = [control.as_type(c, t) for c, t in zip(inits, types)]
        checks = tuple(ctx.checks)
    finally:
        ctx.frame, ctx.checks, ctx.guards, ctx.effects = kept
        ctx.moving = outside
        for binding, value in zip(touched, values):
            binding.value = value
    after = [control.as_type(a, c.type) for a, c in zip(after, inits)]
    emits = tuple((value, every) for value, every, _ in frame.emits)
    if emits and frame.broken is not None:
        raise ctx.error(
            TraceError, "GLA0413", "`emit` and `break if` in one loop: the number of rows would depend on values", (frame.emits[0][2], ""),
            help="leave out `break if` and keep the old values: x = where(done, x, new)",
        )  # fmt: skip
    return Trip(counter, tuple(params), tuple(inits), tuple(after), emits, checks, frame.broken, condition, tuple(names))


def _parameter(ctx: Context, node: Node, name: str) -> Node:
    made = new_input(node.type, name, span=node.span)
    if (dims := ctx.dims_of(node)) is not None:
        ctx.names[made] = dims
        if node in ctx.places:
            ctx.places[made] = ctx.places[node]
    return made


def _condition(ctx: Context, scope: Scope, loop: s.For | s.While) -> Node | None:
    if isinstance(loop, s.For):
        return None
    with ctx.pure():
        return ctx.boolean(scope, loop.condition, "the condition of `while`")


def with_results(touched: Sequence[Binding], nodes: Sequence[Node]) -> None:
    """Give the variables their values after the loop."""
    rest = iter(nodes)
    for binding in touched:
        binding.value = rebuild(binding.value, rest)


# ---------------------------------------------------------------- for


def range_of(ctx: Context, steps: Steps, span: Any) -> range:
    """The trips of a range loop; the bounds must be known when the program is planned."""
    bounds = []
    for value, what in ((steps.start, "the start"), (steps.stop, "the end"), (steps.step, "the step")):
        if value is not None and known(value) is None:
            raise ctx.error(
                TraceError, "GLA0410", f"{what} of the range of a `for` must be known when the program is planned", (value.span or span, "computed at run time"),
                help="make it a size or a const, or write: while k < n max 1_000_000 { ... }",
            )  # fmt: skip
        bounds.append(None if value is None else ctx.integer(value, steps.span or span, f"{what} of a range"))
    start, stop, step = bounds
    assert start is not None and stop is not None
    if step == 0:
        raise ctx.error(
            RangeError, "GLA0212", "the step of a range is 0", (steps.span or span, ""), help="write `by 1`, or leave it out"
        )
    step = 1 if step is None else step
    return range(start, stop + (steps.inclusive and (1 if step > 0 else -1)), step)


def variable_of(ctx: Context, trips: range) -> Callable[[Node], Node]:
    """The value of the loop's variable in the trip of a counter."""

    def value(counter: Node) -> Node:
        moved = counter if trips.step == 1 else ctx.op("multiply", counter, number(trips.step))
        return moved if trips.start == 0 else ctx.op("add", moved, number(trips.start))

    return value


def for_(ctx: Context, scope: Scope, loop: s.For) -> Value:
    if isinstance(loop.iterable, s.ArrayLiteral):
        return unrolled(ctx, scope, loop, [ctx.expr(scope, item) for item in loop.iterable.items])
    iterable = ctx.expr(scope, loop.iterable)
    if isinstance(iterable, tuple):
        return unrolled(ctx, scope, loop, list(iterable))
    if isinstance(iterable, Node) and iterable.shape:
        trips: range = range(iterable.shape[0])
        variable: Callable[[Node], Value] = lambda counter: getitem(iterable, counter)  # noqa: E731
    elif isinstance(iterable, Steps):
        trips = range_of(ctx, iterable, loop.iterable.span)
        variable = variable_of(ctx, trips)
    else:
        raise ctx.error(
            DtypeError,
            "GLA0244",
            f"`for` goes over a range, a list or an array, not {ctx.describe(iterable)}",
            (loop.iterable.span, ""),
            help="write 0..n",
        )
    if ctx.effects is not None and ctx.effects.direct:
        return ctx.effects.loop(ctx, scope, loop, trips, variable)
    touched = touched_by(scope, loop.body)
    trip = build_trip(ctx, scope, loop, touched, variable)
    return repeated(ctx, trip, len(trips), touched)


def repeated(ctx: Context, trip: Trip, count: int, touched: Sequence[Binding]) -> Value:
    """The trip `count` times as one IR loop; the variables get their last values. Gives the stacked emits."""
    carried = Carried(ctx, trip)
    emitted = trip.emitted

    def body(counter: Node, carries: list[Node]) -> tuple[list[Node], list[Node]]:
        new = carried.step(counter, carries, [node for node, _ in emitted])
        return new[: len(carries)], new[len(carries) :]

    finals, stacked = control.loop(count, carried.inits, body, [every for _, every in emitted], carried.names)
    with_results(touched, finals[: len(trip.params)])
    carried.tell(ctx, finals)
    return emit_value(trip, stacked)


def emit_value(trip: Trip, stacked: Sequence[Node]) -> Value:
    """The value of a loop from its stacked emits: nothing, one, or a tuple."""
    rest = iter(stacked)
    values = tuple(rebuild(value, rest) for value, _ in trip.emits)
    return None if not values else values[0] if len(values) == 1 else values


class Carried:
    """What a loop carries: the variables, whether it was broken off, and for each assert (failed, in which trip, its numbers)."""

    def __init__(self, ctx: Context, trip: Trip) -> None:
        self.trip = trip
        self.inits = list(trip.inits)
        self.names = list(trip.names)
        if trip.broken is not None:
            self._more(constant(False), "break")
        for check in trip.checks:
            self._more(constant(False), "assert")
            self._more(constant(0, dtypes.int64), "assert")
            for node in check.shown:
                self._more(broadcast(constant(0, node.dtype), node.shape), "assert")

    def _more(self, init: Node, name: str) -> None:
        self.inits.append(init)
        self.names.append(name)

    def step(self, counter: Node, carries: Sequence[Node], extra: Sequence[Node] = ()) -> list[Node]:
        """(next carries, `extra`) of the trip at `counter`, for nodes over the trip's placeholders."""
        trip = self.trip
        places = {trip.counter: counter, **dict(zip(trip.params, carries))}
        roots = [*trip.after, *([] if trip.broken is None else [trip.broken])]
        roots += [n for c in trip.checks for n in (c.ok, *c.shown)]
        values = list(substitute((*roots, *extra), places))
        rest = iter(values)
        done = carries[len(trip.params)] if trip.broken is not None else None
        after = [next(rest) for _ in trip.after]
        if done is not None:
            after = [a if a is c else where(done, c, a) for a, c in zip(after, carries)]
            after.append(apply("logical_or", done, next(rest)))
        at = len(after)
        for check in trip.checks:
            bad = apply("logical_not", next(rest))
            if done is not None:
                bad = apply("logical_and", bad, apply("logical_not", done))
            failed = carries[at]
            first = apply("logical_and", bad, apply("logical_not", failed))
            after.append(apply("logical_or", failed, bad))
            now = apply("add", counter, constant(0, dtypes.int64))
            after.append(where(first, now, carries[at + 1]))
            for k in range(len(check.shown)):
                old = carries[at + 2 + k]
                after.append(where(first, control.as_type(next(rest), old.type), old))
            at += 2 + len(check.shown)
        return [*after, *values[len(roots) :]]

    def latched(self, finals: Sequence[Node]) -> list[tuple[Check, Node, Node, list[Node]]]:
        """For each assert: (check, failed, trip, its numbers) after the loop."""
        at = len(self.trip.params) + (self.trip.broken is not None)
        found = []
        for check in self.trip.checks:
            count = len(check.shown)
            found.append((check, finals[at], finals[at + 1], list(finals[at + 2 : at + 2 + count])))
            at += 2 + count
        return found

    def tell(self, ctx: Context, finals: Sequence[Node]) -> None:
        """Pass the latched asserts on to where the loop stands."""
        for check, failed, trip, shown in self.latched(finals):
            add(ctx, told_after(check, apply("logical_not", failed), trip, shown))


def told_after(check: Check, ok: Node, trip: Node, shown: Sequence[Node]) -> Check:
    """The check of a loop, as one of what surrounds it: its text says in which trip it failed first."""

    def text(values: Sequence[Any]) -> str:
        when = show(int(values[0]) + 1) if values and values[0] is not None else "?"
        return f"{check.text(values[1:])} (in trip {when})"

    return Check(ok, text, (trip, *shown), check.span, check.code, check.help)


def unrolled(ctx: Context, scope: Scope, loop: s.For, items: Sequence[Value]) -> Value:
    """A loop over a list, trip after trip in the program's own place."""
    rows: dict[int, list[Value]] = {}
    forms: list[tuple[Value, int]] = []
    for k, item in enumerate(items):
        outer, ctx.frame = ctx.frame, Frame("unrolled", loop.body, trip=k)
        try:
            inner = Scope(scope)
            inner.bind(loop.variable.id, "loop", item, loop.variable.span)
            ctx.block(inner, loop.body)
            frame = ctx.frame
        finally:
            ctx.frame = outer
        forms = [(value, every) for value, every, _ in frame.emits]
        for j, (value, every) in enumerate(forms):
            if (k + 1) % every == 0:
                rows.setdefault(j, []).append(value)
        if frame.stopped:
            break
    values = []
    for j, (form, _) in enumerate(forms):
        columns = zip(*(leaves(v) for v in rows.get(j, [])))
        values.append(rebuild(form, iter([concat([expand_dims(n, 0) for n in column], 0) for column in columns])))
    return None if not values else values[0] if len(values) == 1 else tuple(values)


# ---------------------------------------------------------------- while


def limit_of(ctx: Context, scope: Scope, loop: s.While) -> int:
    if loop.limit is None:
        place = loop.condition.span
        raise ctx.error(
            DtypeError, "GLA0211", "a `while` says how many trips it may take at most", (place, "no `max` after this condition"),
            help="write: while .. max 10_000 { ... }",
        )  # fmt: skip
    limit = ctx.integer(ctx.expr(scope, loop.limit), loop.limit.span, "the `max` of a `while`")
    if limit < 0:
        raise ctx.error(
            DtypeError,
            "GLA0251",
            f"`max {limit}`: the number of trips is 0 or more",
            (loop.limit.span, ""),
            help="write a positive number",
        )
    return limit


def while_(ctx: Context, scope: Scope, loop: s.While) -> Value:
    limit = limit_of(ctx, scope, loop)
    if ctx.effects is not None and ctx.effects.direct and (has_effects(loop) or not ctx.engine.dry):
        return ctx.effects.loop_while(ctx, scope, loop, limit)
    touched = touched_by(scope, loop.body)
    trip = build_trip(ctx, scope, loop, touched, None)
    carried = Carried(ctx, trip)
    assert trip.condition is not None
    counted = bool(trip.checks)
    inits = [*carried.inits, *([constant(0, dtypes.int64)] if counted else [])]

    def test(carries: list[Node]) -> Node:
        holds = substitute((trip.condition,), dict(zip(trip.params, carries)))[0]  # type: ignore[arg-type]
        if trip.broken is None:
            return holds
        return apply("logical_and", holds, apply("logical_not", carries[len(trip.params)]))

    def body(carries: list[Node]) -> list[Node]:
        counter = carries[-1] if counted else constant(0)
        new = carried.step(counter, carries[: len(carried.inits)])
        return [*new, *([apply("add", counter, 1)] if counted else [])]

    finals, _, still = control.while_loop(test, body, inits, limit, [*carried.names, "trip"])
    with_results(touched, finals[: len(trip.params)])
    carried.tell(ctx, finals)
    shown = substitute(sides_of(loop, trip.condition), dict(zip(trip.params, finals)))
    add(ctx, exhausted(loop, limit, shown, still))
    return None


def exhausted(loop: s.While, limit: int, shown: Sequence[Node], still: Node) -> Check:
    """The check that the condition is false after the last trip allowed; `shown`: the sides of its comparison, if it is one."""
    op = loop.condition.ops[0] if isinstance(loop.condition, s.Compare) else ""

    def text(values: Sequence[Any]) -> str:
        sides = [show(v) for v in values if v is not None]
        end = f": {sides[0]} {op} {sides[1]}" if len(sides) == 2 else ""
        return f"the loop goes on after max {limit} trips{end}"

    return Check(
        apply("logical_not", still),
        text,
        tuple(shown),
        loop.condition.span,
        "GLA0602",
        "raise `max`, or look why it does not converge",
    )


def sides_of(loop: s.While, condition: Node) -> tuple[Node, ...]:
    """The two numbers that the condition compares, when it is such a comparison."""
    simple = isinstance(loop.condition, s.Compare) and len(loop.condition.ops) == 1
    return condition.operands if simple and len(condition.operands) == 2 else ()


def has_effects(part: s.Node) -> bool:
    """Whether something is printed or written in `part`."""
    from gla.lang.lower.assigned import children

    if isinstance(part, s.Print | s.Output | s.Save):
        return True
    return not isinstance(part, s.Lambda) and any(map(has_effects, children(part)))
