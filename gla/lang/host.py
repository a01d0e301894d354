"""The level of a `run`, `test` or `bench` block: effects happen, branches are looked at, loops are driven.

A `for` here is cut into chunks, each one launch (gla/lang/drive.py). One whose body holds another loop with effects is
walked trip by trip, and so is a `while` with effects. Asserts gathered so far are looked at with every look and at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gla.errors import CheckError
from gla.ir.functions.reduce import all as all_
from gla.ir.functions.shape import concat, expand_dims
from gla.ir.node import Node, topological
from gla.lang import syntax as s
from gla.lang.context import Check, Context, Frame
from gla.lang.drive import drive
from gla.lang.drive_while import drive_while
from gla.lang.effects import Effect, output_effect, print_effect, save_effect
from gla.lang.lower.assigned import children
from gla.lang.lower.checks import add
from gla.lang.lower.fold import fold
from gla.lang.lower.loops import COUNTER, exhausted, has_effects, sides_of, touched_by
from gla.lang.outputs import Outputs
from gla.lang.report import Reporter
from gla.lang.scope import Scope
from gla.lang.values import Text, Value, leaves, rebuild

CHEAP = ("input", "constant", "broadcast", "iota")
KEEP = 64 << 20  # bytes of a named value that is kept when it is looked through; a larger one may never need to exist whole


class Host:
    """Takes effects where they happen at once."""

    direct = True

    def __init__(self, ctx: Context, reporter: Reporter, outputs: Outputs, limit: int = 0) -> None:
        self.ctx, self.reporter, self.outputs = ctx, reporter, outputs
        self.engine = ctx.engine
        self.trips: list[int] = []  # completed trips of the walked loops around, innermost last
        self.limit = limit  # trips of a chunk at most, 0: no limit but time

    # --- looking
    def look(self, nodes: Sequence[Node], scope: Scope | None = None) -> list[Any]:
        """The values of `nodes`, after the asserts so far; named values that they need are kept for later."""
        checks, self.ctx.checks[:] = list(self.ctx.checks), []
        oks = [fold(all_(c.ok)) if c.ok.shape else c.ok for c in checks]
        also = self._alive(nodes, scope) if scope is not None and not self.engine.dry else []
        values = self.engine.fetch([*nodes, *oks], also)
        for check, ok in zip(checks, values[len(nodes) :]):
            if ok is not None and not ok:
                self.fail(check)
        return values[: len(nodes)]

    def fail(self, check: Check) -> None:
        values = self.engine.fetch(check.shown)
        raise self.ctx.error(CheckError, check.code, check.text(values), (check.span, ""), help=check.help)

    def _alive(self, nodes: Sequence[Node], scope: Scope) -> list[Node]:
        """Values of variables in sight that `nodes` are computed from: computed once, not at every look."""
        below = set(topological(nodes))
        found: dict[Node, None] = {}
        place: Scope | None = scope
        while place is not None:
            for binding in place.names.values():
                if binding.kind in ("let", "var", "state") and binding.thunk is None:
                    for node in leaves(binding.value):
                        if node in below and node.op not in CHEAP and (binding.kind != "let" or node.type.nbytes <= KEEP):
                            found[node] = None
            place = place.parent
        return list(found)

    def decide(self, ctx: Context, condition: Node) -> bool | None:
        """The condition of a branch, looked at; None when nothing runs."""
        value = self.look([condition])[0]
        return None if value is None else bool(value)

    # --- effects
    def print(self, ctx: Context, scope: Scope, statement: s.Print, text: Text) -> None:
        self._do(ctx, scope, print_effect(text, self.reporter))

    def output(self, ctx: Context, scope: Scope, statement: s.Output) -> None:
        self._do(ctx, scope, output_effect(ctx, scope, statement, self.outputs, self.reporter, in_loop=bool(self.trips)))

    def save(self, ctx: Context, scope: Scope, statement: s.Save) -> None:
        self._do(ctx, scope, save_effect(ctx, scope, statement, self.outputs))

    def _do(self, ctx: Context, scope: Scope, effect: Effect) -> None:
        if effect.every and not self.engine.dry and (self.trips[-1] + 1) % effect.every:
            return
        values = self.look(effect.nodes, scope)
        if not self.engine.dry:
            effect.fire(values)

    def finish(self) -> None:
        """Look at the asserts that nobody looked at yet."""
        if self.ctx.checks:
            self.look([])

    # --- loops
    def loop(self, ctx: Context, scope: Scope, loop: s.For, trips: range, variable: Callable[[Node], Value]) -> Value:
        if not _nested_effects(loop.body):
            return drive(ctx, self, scope, loop, trips, variable)
        return self._walk(ctx, scope, loop, trips, variable)

    def _walk(self, ctx: Context, scope: Scope, loop: s.For, trips: range, variable: Callable[[Node], Value]) -> Value:
        """Trip by trip; what changes is settled after each."""
        touched = touched_by(scope, loop.body)
        rows: dict[int, list[Value]] = {}
        emits: list[tuple[Value, int, Any]] = []
        outer, guards = ctx.frame, ctx.guards
        self.trips.append(0)
        try:
            for k in range(min(len(trips), 1) if self.engine.dry else len(trips)):
                self.trips[-1] = k
                ctx.frame, ctx.guards = Frame("walked", loop.body), []
                inner = Scope(scope)
                counter = self.engine.scalar(k, COUNTER, "k")
                inner.bind(loop.variable.id, "loop", variable(counter), loop.variable.span)
                ctx.block(inner, loop.body)
                emits = ctx.frame.emits
                for j, (value, every, _) in enumerate(emits):
                    if (k + 1) % every == 0:
                        rows.setdefault(j, []).append(value)
                self._settle(touched, [v for r in rows.values() for v in r[-1:]])
                self.look([])
                if ctx.frame.stopped:
                    break
        finally:
            self.trips.pop()
            ctx.frame, ctx.guards = outer, guards
        values = [_stacked(value, rows.get(j, []), len(trips) // every) for j, (value, every, _) in enumerate(emits)]
        return None if not values else values[0] if len(values) == 1 else tuple(values)

    def _settle(self, bindings: Sequence[Any], values: Sequence[Value]) -> None:
        nodes = [n for b in bindings for n in leaves(b.value)]
        kept = iter(self.engine.settle([*nodes, *(n for v in values for n in leaves(v))]))
        for binding in bindings:
            binding.value = rebuild(binding.value, kept)

    def loop_while(self, ctx: Context, scope: Scope, loop: s.While, limit: int) -> Value:
        """A `while`: in chunks, or trip by trip when it prints or writes."""
        if not has_effects(loop):
            return drive_while(ctx, self, scope, loop, limit)
        if self.engine.dry:
            return self._dry_while(ctx, scope, loop)
        touched = touched_by(scope, loop.body)
        outer, guards = ctx.frame, ctx.guards
        try:
            for _ in range(limit):
                ctx.frame, ctx.guards = Frame("walked", loop.body), []
                if not self.decide(ctx, ctx.boolean(scope, loop.condition, "the condition of `while`")):
                    return None
                ctx.block(scope, loop.body)
                self._settle(touched, [])
                if ctx.frame.stopped:
                    return None
        finally:
            ctx.frame, ctx.guards = outer, guards
        self._exhausted(ctx, scope, loop, limit)
        return None

    def _exhausted(self, ctx: Context, scope: Scope, loop: s.While, limit: int) -> None:
        condition = ctx.boolean(scope, loop.condition, "the condition of `while`")
        sides = sides_of(loop, condition)
        if not sides and isinstance(loop.condition, s.Compare) and len(loop.condition.ops) == 1:
            sides = tuple(ctx.node(scope, operand) for operand in loop.condition.operands)
        add(ctx, exhausted(loop, limit, sides, condition))
        self.look([])

    def _dry_while(self, ctx: Context, scope: Scope, loop: s.While) -> None:
        outer = ctx.frame
        ctx.frame = Frame("walked", loop.body)
        try:
            ctx.boolean(scope, loop.condition, "the condition of `while`")
            ctx.block(scope, loop.body)
        finally:
            ctx.frame = outer


def _stacked(form: Value, rows: Sequence[Value], count: int) -> Value:
    """Rows on a new first axis."""
    if not rows:
        return form
    columns = zip(*(leaves(v) for v in rows))
    del count
    return rebuild(form, iter([concat([expand_dims(n, 0) for n in column], 0) for column in columns]))


def _nested_effects(block: s.Block) -> bool:
    """Whether a loop inside the block prints or writes."""

    def found(part: s.Node) -> bool:
        if isinstance(part, s.For | s.While):
            return has_effects(part)
        return any(map(found, children(part)))

    return any(map(found, children(block)))
