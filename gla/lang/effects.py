"""Prints, outputs and saves: what a statement needs computed, and what is done with the values.

`Effect` is that as data. At the level of a `run` block the host carries it out at once (gla/lang/host.py); inside a trip
of a loop that the host drives it is noted as a `Site`, with the condition under which it is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gla.errors import DtypeError, GlaNameError, TraceError
from gla.ir.node import Node
from gla.lang import syntax as s
from gla.lang.context import Context
from gla.lang.lower.fold import known
from gla.lang.outputs import LOG, Outputs
from gla.lang.report import Reporter
from gla.lang.scope import Scope
from gla.lang.show import format_parts
from gla.lang.values import Field, Record, Text, Value, leaves


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """`fire(values of nodes)` does it. `every`: after that many completed trips of the loop around it, 0: whenever reached."""

    nodes: tuple[Node, ...]
    fire: Callable[[Sequence[Any]], None]
    every: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """An effect inside a trip, reached where `guard` holds (None: always)."""

    effect: Effect
    guard: Node | None


@dataclass(slots=True, eq=False)
class Sites:
    """Who takes effects while a trip is lowered: they are noted, in order."""

    reporter: Reporter
    outputs: Outputs
    found: list[Site] = field(default_factory=list)
    direct = False

    def start(self) -> None:
        self.found.clear()

    def print(self, ctx: Context, scope: Scope, statement: s.Print, text: Text) -> None:
        self.found.append(Site(print_effect(text, self.reporter), ctx.guard()))

    def output(self, ctx: Context, scope: Scope, statement: s.Output) -> None:
        self.found.append(Site(output_effect(ctx, scope, statement, self.outputs, self.reporter, in_loop=True), ctx.guard()))

    def save(self, ctx: Context, scope: Scope, statement: s.Save) -> None:
        self.found.append(Site(save_effect(ctx, scope, statement, self.outputs), ctx.guard()))


def print_effect(text: Text, reporter: Reporter) -> Effect:
    nodes = tuple(n for part in text.parts if isinstance(part, tuple) for n in _leaves(part[0]))
    return Effect(nodes, lambda values: reporter.print_line(format_parts(text.parts, values)))


def _leaves(value: Value) -> tuple[Node, ...]:
    if isinstance(value, Text):
        return tuple(n for part in value.parts if isinstance(part, tuple) for n in _leaves(part[0]))
    return tuple(leaves(value))


def save_effect(ctx: Context, scope: Scope, statement: s.Save, outputs: Outputs) -> Effect:
    value = ctx.expr(scope, statement.value)
    path = _path(ctx, scope, statement.path)
    named = _named(ctx, value, _label(statement.value, 0), statement.value)
    names = [name for name, _ in named]
    nodes = tuple(node for _, node in named)

    def fire(values: Sequence[Any]) -> None:
        outputs.write(format_parts(path.parts, values[len(nodes) :]), dict(zip(names, values)))

    return Effect((*nodes, *_leaves(path)), fire)


def output_effect(
    ctx: Context, scope: Scope, statement: s.Output, outputs: Outputs, reporter: Reporter, in_loop: bool
) -> Effect:
    listed = ctx.frame is not None and ctx.frame.kind == "unrolled"
    every = _every(ctx, scope, statement, in_loop or listed)
    if listed and every:
        # A loop over a list is unrolled, and so is its count of trips.
        assert ctx.frame is not None
        due = (ctx.frame.trip + 1) % every == 0
    else:
        due = True
    named: list[tuple[str, Node]] = []
    for k, entry in enumerate(statement.values):
        label = entry.name.id if entry.name is not None else _label(entry.value, k)
        named.extend(_named(ctx, ctx.expr(scope, entry.value), label, entry.value))
    names = [name for name, _ in named]
    twice = next((n for k, n in enumerate(names) if n in names[:k]), None)
    if twice is not None:
        raise ctx.error(
            GlaNameError,
            "GLA0105",
            f"two values of this output are called `{twice}`",
            (statement.span, ""),
            help=f"name one of them: .. as {twice}2",
        )
    nodes = tuple(node for _, node in named)
    if statement.path is None:
        return Effect(nodes, _logged(ctx, statement, names, nodes, outputs, reporter, every > 0), every)
    path = _path(ctx, scope, statement.path)
    _check_ending(ctx, path, names, statement)
    moving = any(known(n) is None and not (n.op == "input" and n.attr("scalar") and n.attr("name")) for n in _leaves(path))
    put = outputs.gather if every and not moving else outputs.keep if in_loop and not moving else outputs.write
    if in_loop and not every and not moving:
        ctx.warn(
            "GLA0257", "every trip writes the same file: the last one stays", (statement.span, ""),
            help='gather rows with `every 1`, or name the file by the trip: "x_{k:04}.npy"',
        )  # fmt: skip

    def fire(values: Sequence[Any]) -> None:
        put(format_parts(path.parts, values[len(nodes) :]), dict(zip(names, values)))

    return Effect((*nodes, *_leaves(path)) if due else (), fire if due else _nothing, 0 if listed else every)


def _nothing(values: Sequence[Any]) -> None:
    """An output that is not due."""


def _logged(
    ctx: Context, statement: s.Output, names: list[str], nodes: Sequence[Node], outputs: Outputs, reporter: Reporter, rows: bool
) -> Callable[[Sequence[Any]], None]:
    """Without a file: a line for people and a row of the run log, for numbers only."""
    wide = next((n for n in nodes if n.shape), None)
    if wide is not None:
        raise ctx.error(
            DtypeError, "GLA0244", f"an output without a file takes numbers, not {ctx.describe(wide)}", (statement.span, ""),
            help='write it to a file: .. to "x.npy", or show a reduction: max(x)',
        )  # fmt: skip
    parts = [p for k, (name, node) in enumerate(zip(names, nodes)) for p in (("  " if k else "") + f"{name}=", (node, ""))]

    def fire(values: Sequence[Any]) -> None:
        reporter.print_line(format_parts(parts, values))
        (outputs.gather if rows else outputs.keep)(LOG, {name: v if rows else [v] for name, v in zip(names, values)})

    return fire


def _every(ctx: Context, scope: Scope, statement: s.Output, in_loop: bool) -> int:
    if statement.every is None:
        return 0
    if statement.unit in ("time", "seconds"):
        raise ctx.error(
            TraceError, "GLA0416", f"`every .. {statement.unit}` is not there yet: outputs fire after a number of trips", (statement.every.span, ""),
            help="write output every 100 steps: ..",
        )  # fmt: skip
    if not in_loop:
        raise ctx.error(
            TraceError,
            "GLA0413",
            "`output every` counts the trips of a `for`, and none is around it",
            (statement.span, ""),
            help="write output: .. without `every`",
        )
    every = ctx.integer(ctx.expr(scope, statement.every), statement.every.span, "the `every` of an output")
    if every < 1:
        raise ctx.error(
            DtypeError,
            "GLA0251",
            f"`every {every}`: the number of trips between outputs is 1 or more",
            (statement.every.span, ""),
            help="write every 1",
        )
    return every


def _path(ctx: Context, scope: Scope, expr: s.Expr) -> Text:
    value = ctx.expr(scope, expr)
    if not isinstance(value, Text):
        raise ctx.error(DtypeError, "GLA0244", "a path is a text", (expr.span, ""), help='write "name_{step:06}.npy"')
    wide = next((n for n in _leaves(value) if n.shape), None)
    if wide is not None:
        raise ctx.error(
            DtypeError,
            "GLA0244",
            f"a hole of a path is one number, not {ctx.describe(wide)}",
            (expr.span, ""),
            help="use the loop's counter",
        )
    return value


def _check_ending(ctx: Context, path: Text, names: list[str], statement: s.Output) -> None:
    from gla.errors import GlaError
    from gla.lang.io.arrays import check_ending

    if path.parts and isinstance(path.parts[-1], str) and statement.path is not None:
        try:
            check_ending("".join(p if isinstance(p, str) else "{..}" for p in path.parts), len(names))
        except GlaError as error:
            raise ctx.relabel(error, statement.path.span) from None


def _label(expr: s.Expr, k: int) -> str:
    """The name of a value that is given none."""
    match expr:
        case s.Name():
            return expr.id
        case s.Attribute():
            return expr.name.id
        case s.Call(function=s.Name() as function):
            return function.id
    return f"value{k}"


def _named(ctx: Context, value: Value, label: str, expr: s.Expr) -> list[tuple[str, Node]]:
    """Arrays with their names: the fields of a record are `b.pos`, the parts of a tuple `t.0`."""
    match value:
        case Field():
            return [(label, value.node)]
        case Node():
            return [(label, value)]
        case Record():
            return [p for k, v in value.fields.items() for p in _named(ctx, v, f"{label}.{k}", expr)]
        case tuple():
            return [p for k, v in enumerate(value) for p in _named(ctx, v, f"{label}.{k}", expr)]
    raise ctx.error(
        DtypeError, "GLA0244", "only numbers, arrays and records can be written", (expr.span, ""), help="write a value"
    )
