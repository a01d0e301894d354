"""A program as a unit: what it declares, what can be run, and what is wrong with it. `load` reads it from a file or a text.

`diagnostics` is `gla check`: the static rules (gla/lang/lints.py), then everything lowered with its default sizes and no
device. Functions that nobody calls are lowered with their declared parameter types, where all are declared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from gla.errors import Diagnostic, GlaError, GlaNameError
from gla.ir.graph import new_input
from gla.ir.types import Type
from gla.lang import syntax as s
from gla.lang.context import Context
from gla.lang.engine import DryEngine, Engine
from gla.lang.host import Host
from gla.lang.lints import lint
from gla.lang.lower.calls import Argument, call
from gla.lang.lower.fold import known
from gla.lang.lower.types import DTYPES, conform, shape_from, struct_of, type_text
from gla.lang.lower.walk import attach
from gla.lang.outputs import Outputs
from gla.lang.parser import parse
from gla.lang.report import Silent
from gla.lang.scope import Scope
from gla.lang.show import show
from gla.lang.toplevel import Given, bounds_of, float_dtype, param_dtype, scope_of
from gla.lang.values import Function, Record, Steps, Value, leaves


@dataclass(frozen=True, slots=True)
class Size:
    """A size: `default` is None when it must be given; `bounds` has both allowed ends, or is None."""

    name: str
    default: int | None
    bounds: tuple[int, int] | None
    doc: str


@dataclass(frozen=True, slots=True)
class Param:
    """A param: `dtype` in the language's short form, `default` as it is written."""

    name: str
    dtype: str
    default: str
    bounds: tuple[Any, Any] | None
    doc: str


@dataclass(frozen=True, slots=True)
class Input:
    """An input: `type` as it is written; `default` as it is written, None when it must be given."""

    name: str
    type: str
    default: str | None
    doc: str


def load(source: str | Path, file: str | None = None) -> Program:
    """The program in a file, or (with `file`, the name for messages) in the text `source`.

    Raises GlaSyntaxError for a text that is no program, GlaFileError for a file that cannot be read.
    """
    if file is None:
        from gla.lang.io.paths import decode, read_bytes

        path = Path(source)
        text = decode(read_bytes(path, "program"), path, "program")
        file = str(source)
    else:
        text = str(source)
    return Program(parse(text, file))


class Program:
    """A parsed program. Nothing is computed until something is asked for."""

    def __init__(self, tree: s.Program) -> None:
        self.tree = tree
        self.file = tree.file
        self.source = tree.source
        self.doc = tree.doc

    def __repr__(self) -> str:
        return f"<Program {self.file}: {len(self.tree.items)} items>"

    def items(self, kind: type) -> Iterator[Any]:
        return (item for item in self.tree.items if isinstance(item, kind))

    # --- what it declares
    @cached_property
    def sizes(self) -> tuple[Size, ...]:
        return tuple(self._described(self._size))

    @cached_property
    def params(self) -> tuple[Param, ...]:
        return tuple(self._described(self._param))

    @property
    def inputs(self) -> tuple[Input, ...]:
        return tuple(
            Input(i.name.id, type_text(i.type), None if i.default is None else self.text(i.default), _doc(i))
            for i in self.items(s.Input)
        )

    @property
    def runs(self) -> tuple[str, ...]:
        """Names of the `run` blocks; the unnamed one is called `run`."""
        return tuple(_run_name(r) for r in self.items(s.Run))

    @property
    def tests(self) -> tuple[str, ...]:
        return tuple(t.name for t in self.items(s.Test))

    @property
    def benches(self) -> tuple[str, ...]:
        return tuple(b.name for b in self.items(s.Bench))

    @property
    def fma(self) -> bool:
        """`option fma = true`: products and sums may be contracted."""
        found = [o.value for o in self.items(s.Option) if o.name.id == "fma"]
        return bool(found) and isinstance(found[-1], s.Boolean) and found[-1].value

    @property
    def functions(self) -> tuple[str, ...]:
        return tuple(f.name.id for f in self.items(s.Function))

    def text(self, node: s.Node) -> str:
        """A piece of the program as it is written."""
        span = node.span
        lines = self.source.split("\n")[span.line - 1 : span.end_line]
        if not lines:
            return ""
        lines[-1] = lines[-1][: span.end_column - 1]
        lines[0] = lines[0][span.column - 1 :]
        return " ".join(line.strip() for line in lines)

    def _described(self, one: Callable[[Context, Scope], Iterator[Any]]) -> Iterator[Any]:
        ctx = self.context(DryEngine())
        with ctx.lowering():
            yield from one(ctx, scope_of(ctx, self.tree, self._least()))

    def _size(self, ctx: Context, scope: Scope) -> Iterator[Size]:
        for item in self.items(s.Size):
            default = (
                None
                if item.value is None
                else ctx.integer(ctx.expr(scope, item.value), item.value.span, f"the size `{item.name.id}`")
            )
            low, high = bounds_of(ctx, scope, item.bounds)
            yield Size(item.name.id, default, None if low is None else (int(low), int(high)), _doc(item))

    def _param(self, ctx: Context, scope: Scope) -> Iterator[Param]:
        for item in self.items(s.Param):
            dtype, _ = param_dtype(ctx, scope, item)
            low, high = bounds_of(ctx, scope, item.bounds)
            yield Param(item.name.id, dtype.short, self.text(item.value), None if low is None else (low, high), _doc(item))

    def _least(self) -> Given:
        """Values for sizes that have no default, where only the program is looked at."""
        return Given(sizes={i.name.id: _some(i) for i in self.items(s.Size) if i.value is None})

    # --- lowering
    def context(self, engine: Engine, checking: frozenset[str] = frozenset()) -> Context:
        ctx = attach(Context(engine, {self.file: self.source}, checking=checking))
        ctx.float_dtype = float_dtype(self.tree, ctx)
        return ctx

    def entry(self, name: str | None) -> s.Run:
        """The `run` block of that name; without one the unnamed, or the only one."""
        runs = list(self.items(s.Run))
        if not runs:
            raise GlaNameError("GLA0412", f"{self.file} has no `run` block", help="write run { ... }: what the program does")
        if name is None:
            chosen = [r for r in runs if r.name is None] or runs
            if len(chosen) > 1:
                raise GlaNameError(
                    "GLA0412",
                    f"{self.file} has several `run` blocks: {', '.join(self.runs)}",
                    help=f"choose one: --entry {self.runs[0]}",
                )
            return chosen[0]
        for run in runs:
            if _run_name(run) == name:
                return run
        raise self._unknown("run block", name, self.runs)

    def test(self, name: str) -> s.Test:
        for item in self.items(s.Test):
            if item.name == name:
                return item  # type: ignore[no-any-return]
        raise self._unknown("test", name, self.tests)

    def _unknown(self, kind: str, name: str, names: tuple[str, ...]) -> GlaNameError:
        import difflib

        near = difflib.get_close_matches(name, names, 1)
        return GlaNameError(
            "GLA0101",
            f"{self.file} has no {kind} called {name!r}",
            help=f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names) or 'none'}",
        )

    # --- gla check
    def diagnostics(self) -> list[Diagnostic]:
        """Everything that is wrong or odd, in the order of the text; errors and warnings."""
        return Checker(self).run()


def variants(ctx: Context, scope: Scope, item: s.Test | s.Bench) -> list[tuple[str, Value]]:
    """(name, value of the variable) for each of a test's or bench's variants; one without a variable."""
    if item.variable is None or item.iterable is None:
        return [(item.name, None)]
    if isinstance(item.iterable, s.ArrayLiteral):
        values: list[Value] = [ctx.expr(scope, e) for e in item.iterable.items]
    else:
        value = ctx.expr(scope, item.iterable)
        if isinstance(value, Steps):
            from gla.lang.context import number
            from gla.lang.lower.loops import range_of

            values = [number(k) for k in range_of(ctx, value, item.iterable.span)]
        else:
            values = list(value) if isinstance(value, tuple) else [value]
    names = []
    for value in values:
        found = known(value)
        names.append(f"{item.name} [{item.variable.id} = {show(found) if found is not None else '..'}]")
    return list(zip(names, values))


class Checker:
    """One pass of `gla check`: an error in one item does not hide those of the others."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.found: list[Diagnostic] = []

    def run(self) -> list[Diagnostic]:
        program = self.program
        self.found += lint(program.tree)
        self.scope: Scope
        if not self._try(self._open):
            return self._sorted()
        for item in program.tree.items:
            self._try(partial(self._item, item))
        for item in program.items(s.Function):
            if item not in self.ctx.inlined:
                self._try(partial(self._function, item))
        self.found += self.ctx.warnings
        return self._sorted()

    def _open(self) -> None:
        self.ctx = self.program.context(DryEngine())
        self.scope = scope_of(self.ctx, self.program.tree, self.program._least())

    def _try(self, step: Callable[[], Any]) -> bool:
        try:
            step()
        except GlaError as error:
            found = error.diagnostic
            if found.labels and found.source is None and found.labels[0].span.file == self.program.file:
                found = replace(found, source=self.program.source)
            self.found.append(found)
            return False
        return True

    def _item(self, item: s.Item) -> None:
        ctx, scope = self.ctx, self.scope
        with ctx.lowering():
            ctx.draws.clear()
            match item:
                case s.Const() | s.Size() | s.Param() | s.Input() | s.State() | s.Struct():
                    scope.names[item.name.id].get()
                case s.Import() | s.ImportFrom():
                    for binding in scope.names.values():
                        if (
                            binding.kind in ("module", "import")
                            and binding.span is not None
                            and binding.span.line == item.span.line
                        ):
                            binding.get()
                case s.Run():
                    check_block(ctx, scope, item.body)
                case s.Test() | s.Bench():
                    for _, value in variants(ctx, scope, item):
                        inner = Scope(scope)
                        if item.variable is not None:
                            inner.bind(item.variable.id, "let", value, item.variable.span)
                        check_block(ctx, inner, item.body)

    def _function(self, item: s.Function) -> None:
        """A function that nobody called, on arguments of its declared types."""
        if any(p.type is None or isinstance(p.type, s.FunctionType) for p in item.params):
            return
        ctx, scope = self.ctx, self.scope
        with ctx.lowering():
            extents: dict[str, int] = {}
            arguments = [Argument(example(ctx, scope, p.type, extents, p.name.id), p.span) for p in item.params]
            call(ctx, scope, Function(item.name.id, item, scope), arguments, {}, item.span)

    def _sorted(self) -> list[Diagnostic]:
        seen: dict[tuple[Any, ...], Diagnostic] = {}
        for diagnostic in self.found:
            seen.setdefault((diagnostic.code, diagnostic.span), diagnostic)
        return sorted(seen.values(), key=lambda d: (d.span.line, d.span.column) if d.span is not None else (0, 0))


def check_block(ctx: Context, scope: Scope, block: s.Block) -> None:
    """Lower a block whose effects nobody sees. Variables of the file keep their values."""
    states = [(b, b.get()) for b in scope_states(scope)]
    ctx.checks = []
    ctx.effects = Host(ctx, Silent(), Outputs(None, Silent()))
    try:
        ctx.block(scope, block)
        ctx.effects.finish()
        ctx.engine.settle([n for b, _ in states for n in leaves(b.value)])
    finally:
        ctx.effects = None
        for binding, value in states:
            binding.value = value


def scope_states(scope: Scope) -> list[Any]:
    place: Scope | None = scope
    found = []
    while place is not None:
        found += [b for b in place.names.values() if b.kind == "state"]
        place = place.parent
    return found


def example(ctx: Context, scope: Scope, type_: s.Type | None, extents: dict[str, int], name: str) -> Value:
    """A parameter node, or a record or tuple of them, of a declared type; fresh dims get small extents, kept in `extents`."""
    if isinstance(type_, s.TupleType):
        return tuple(example(ctx, scope, t, extents, name) for t in type_.items)
    if isinstance(type_, s.NamedType) and type_.name not in DTYPES:
        struct = struct_of(ctx, scope, type_)
        inner = Scope(struct.scope)
        fields = {}
        for f in struct.item.fields:
            value = example(ctx, inner, f.type, extents, f.name.id)
            fields[f.name.id] = conform(ctx, inner, value, f.type, f"the field `{f.name.id}`", f.span)
        return Record(struct, fields)
    assert type_ is not None
    dtype, shape = shape_from(ctx, scope, type_, extents)
    return new_input(Type(dtype, shape), name, span=type_.span)


def _some(item: s.Size) -> int:
    """A value for a size without a default: its least one, or 8."""
    if item.bounds is not None and isinstance(item.bounds.start, s.Number):
        return max(1, int(np.real(item.bounds.start.value)))
    return 8


def _run_name(run: s.Run) -> str:
    return "run" if run.name is None else run.name.id


def _doc(item: Any) -> str:
    return item.text or item.doc or ""
