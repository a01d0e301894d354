"""Rules that need no types, read off the tree: unknown names, values never used, recursion, names that hide others, dims
that are used once, a `while` without `max`.

`lint` gives everything in a program, errors and warnings; `refuse` raises the first error among it, before a program runs.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from gla.errors import Diagnostic, DtypeError, GlaError, Span, TraceError
from gla.lang import syntax as s
from gla.lang.context import Context
from gla.lang.engine import DryEngine
from gla.lang.library import builtins
from gla.lang.lower.assigned import children
from gla.lang.names import unknown_name

# Kinds of top-level names that a local name should not hide. A function's parameter may be called like a state or an input.
TAKEN = {
    "parameter": ("size", "const"),
    "let": ("size", "const", "param", "state"),
    "var": ("size", "const", "param", "state"),
    "loop": ("size", "const", "param", "state"),
}


def lint(tree: s.Program) -> list[Diagnostic]:
    """Every finding, in no particular order."""
    linter = Linter(tree)
    linter.program()
    return [*(e.diagnostic for e in linter.errors), *linter.ctx.warnings]


def refuse(tree: s.Program) -> list[Diagnostic]:
    """Raise the first error that needs no types; gives the warnings."""
    linter = Linter(tree)
    linter.program()
    for error in linter.errors:
        raise error
    return linter.ctx.warnings


@dataclass(slots=True, eq=False)
class Names:
    """Names in sight: name -> (kind, span)."""

    parent: Names | None = None
    here: dict[str, tuple[str, Span | None]] = field(default_factory=dict)

    def find(self, name: str) -> tuple[str, Span | None] | None:
        place: Names | None = self
        while place is not None:
            if name in place.here:
                return place.here[name]
            place = place.parent
        return None

    def all(self) -> Iterator[str]:
        place: Names | None = self
        while place is not None:
            yield from place.here
            place = place.parent


class Linter:
    def __init__(self, tree: s.Program) -> None:
        self.tree = tree
        self.ctx = Context(DryEngine(), {tree.file: tree.source})
        self.errors: list[GlaError] = []
        self.top = Names(Names(None, dict.fromkeys(builtins(), ("builtin", None))))
        self.calls: dict[str, dict[str, Span]] = {}
        self.within: str | None = None

    # --- items
    def program(self) -> None:
        for item in self.tree.items:
            for name, kind, span in _declared(item):
                self.top.here.setdefault(name, (kind, span))
        for item in self.tree.items:
            self._item(item)
        self._recursion()

    def _item(self, item: s.Item) -> None:
        names = Names(self.top)
        match item:
            case s.Function():
                self.within = item.name.id
                self._function(item, names)
                self.within = None
            case s.Test() | s.Bench():
                if item.iterable is not None:
                    self._expr(item.iterable, names)
                if item.variable is not None:
                    self._bind(names, item.variable, "let")
                self._block(item.body, names, used=isinstance(item, s.Bench))
            case s.Run():
                self._block(item.body, names, used=False)
            case s.Struct():
                for entry in item.fields:
                    self._type(entry.type, names, {})
            case s.Option() | s.Import() | s.ImportFrom():
                return
            case _:
                for child in children(item):
                    if isinstance(child, s.Type):
                        self._type(child, names, {})
                    elif isinstance(child, s.Expr) and child is not item.name:  # type: ignore[attr-defined]
                        self._expr(child, names)

    def _function(self, item: s.Function, names: Names) -> None:
        fresh: dict[str, list[Span]] = {}
        own = {p.name.id for p in item.params}
        for parameter in item.params:
            self._type(parameter.type, names, fresh, own)
            if parameter.default is not None:
                self._expr(parameter.default, names)
            self._bind(names, parameter.name, "parameter")
        self._type(item.result, names, fresh, own)
        for name in fresh:
            names.here.setdefault(name, ("dim", fresh[name][0]))
        for part in (item.where, item.body):
            if part is not None:
                self._expr(part, names)
        self._once(item, fresh)

    def _once(self, item: s.Function, fresh: dict[str, list[Span]]) -> None:
        """A fresh dim that nothing else mentions says nothing: likely a typo."""
        for name, spans in fresh.items():
            if len(spans) > 1 or any(isinstance(n, s.Name) and n.id == name for n in _below(item.body)):
                continue
            sizes = [n for n, (kind, _) in self.top.here.items() if kind in ("size", "const")]
            near = difflib.get_close_matches(name, [*sizes, *(f for f in fresh if f != name)], 1)
            self.ctx.warn(
                "GLA0305",
                f"the dim `{name}` of `{item.name.id}` is used once, so it says nothing",
                (spans[0], ""),
                help=f"did you mean `{near[0]}`? For any extent write `_`" if near else "for any extent write `_`",
            )

    def _recursion(self) -> None:
        """Functions are inlined: a chain of calls that comes back is an error."""
        done: set[str] = set()
        for start in self.calls:
            # A walk with a stack of its own: programs may have thousands of functions that call one another in a row.
            path = [start]
            rest = [iter(self.calls[start])]
            while path and start not in done:
                name = next(rest[-1], None)
                if name is None:
                    done.add(path.pop())
                    rest.pop()
                elif name in path:
                    chain = [*path[path.index(name) :], name]
                    self.errors.append(self._circle(chain))
                    done.update(path)
                    break
                elif name not in done and name in self.calls:
                    path.append(name)
                    rest.append(iter(self.calls[name]))

    def _circle(self, chain: list[str]) -> GlaError:
        labels = [(self.calls[a][b], f"`{a}` calls `{b}`") for a, b in pairwise(chain)]
        return self.ctx.error(
            TraceError,
            "GLA0404",
            f"functions are inlined and cannot call themselves: {' -> '.join(chain)}",
            *labels,
            help="write it as a loop: for k in 0..n { .. }, or while .. max N { .. }",
        )

    # --- names
    def _bind(self, names: Names, name: s.Name, kind: str) -> None:
        taken = self.top.here.get(name.id)
        if taken is not None and taken[0] in TAKEN.get(kind, ()) and name.id not in names.here:
            self.ctx.warn(
                "GLA0104",
                f"`{name.id}` hides the {taken[0]} of that name",
                (name.span, ""),
                (taken[1], f"the {taken[0]}"),
                help=f"use another name, e.g. {name.id}_",
            )
        if name.id != "_":
            names.here[name.id] = (kind, name.span)

    def _pattern(self, pattern: s.Pattern, names: Names, kind: str) -> None:
        if isinstance(pattern, s.NamePattern):
            self._bind(names, pattern.name, kind)
        elif isinstance(pattern, s.TuplePattern | s.ArrayPattern):
            for item in pattern.items:
                self._pattern(item, names, kind)

    def _name(self, name: s.Name, names: Names) -> None:
        found = names.find(name.id)
        if found is None:
            self.errors.append(unknown_name(self.ctx, name, names.all()))
        elif found[0] == "fn" and self.within is not None:
            self.calls.setdefault(self.within, {}).setdefault(name.id, name.span)

    def _type(
        self, type_: s.Type | None, names: Names, fresh: dict[str, list[Span]], own: Sequence[str] | set[str] = ()
    ) -> None:
        match type_:
            case s.ArrayType():
                for dim in type_.dims:
                    self._dim(dim, names, fresh, own)
            case s.TupleType():
                for item in type_.items:
                    self._type(item, names, fresh, own)
            case s.FunctionType():
                for item in (*type_.params, type_.result):
                    self._type(item, names, fresh, own)

    def _dim(self, dim: s.Expr, names: Names, fresh: dict[str, list[Span]], own: Sequence[str] | set[str]) -> None:
        if isinstance(dim, s.Name):
            found = names.find(dim.id)
            if (
                dim.id != "_"
                and dim.id not in own
                and (found is None or found[0] not in ("size", "const", "let", "var", "parameter", "dim", "loop"))
            ):
                fresh.setdefault(dim.id, []).append(dim.span)
            return
        for child in children(dim):
            if isinstance(child, s.Expr):
                self._dim(child, names, fresh, own)

    # --- statements and expressions
    def _block(self, block: s.Block, outer: Names, used: bool) -> None:
        names = Names(outer)
        before: s.Stmt | None = None
        for statement in block.statements:
            self._statement(statement, names, before)
            before = statement
        if block.value is not None:
            if used:
                self._expr(block.value, names)
            else:
                self._discard(block.value, names, before)

    def _statement(self, statement: s.Stmt, names: Names, before: s.Stmt | None) -> None:
        match statement:
            case s.Let() | s.Var():
                self._expr(statement.value, names)
                fresh: dict[str, list[Span]] = {}
                self._type(statement.type, names, fresh)
                for name, spans in fresh.items():
                    names.here.setdefault(name, ("dim", spans[0]))
                self._pattern(statement.pattern, names, "var" if isinstance(statement, s.Var) else "let")
            case s.ExprStmt():
                self._discard(statement.value, names, before)
            case s.Output():
                for part in (statement.every, *(v.value for v in statement.values), statement.path):
                    if part is not None:
                        self._expr(part, names)
            case s.Assign():
                self._expr(statement.value, names)
                self._target(statement.target, names)
            case _:
                for child in children(statement):
                    if isinstance(child, s.Expr):
                        self._expr(child, names)

    def _target(self, target: s.Expr, names: Names) -> None:
        """An unknown name on the left is an undeclared one."""
        if isinstance(target, s.Tuple):
            for item in target.items:
                self._target(item, names)
        elif isinstance(target, s.Name) and names.find(target.id) is None:
            text = f"`{target.id}` is not declared; an assignment never declares"
            near = difflib.get_close_matches(target.id, list(names.all()), 1)
            help = (
                f"did you mean `{near[0]}`? To declare it write var {target.id} = .."
                if near
                else f"declare it: var {target.id} = .."
            )
            self.errors.append(unknown_name(self.ctx, target, names.all(), text, help=help))
        elif isinstance(target, s.Index):
            self._target(target.value, names)
            for index in target.indices:
                self._expr(index, names)
        elif isinstance(target, s.Attribute):
            self._target(target.value, names)

    def _discard(self, expr: s.Expr, names: Names, before: s.Stmt | None) -> None:
        """An expression whose value goes nowhere: a loop or branch is a statement, anything else was a mistake."""
        match expr:
            case s.Block():
                self._block(expr, names, used=False)
            case s.If():
                self._expr(expr.condition, names)
                self._block(expr.then, names, used=False)
                if expr.otherwise is not None:
                    self._discard(expr.otherwise, names, None)
            case s.For() | s.While():
                self._expr(expr, names)
            case _:
                self._expr(expr, names)
                self.errors.append(self._unused(expr, before))

    def _unused(self, expr: s.Expr, before: s.Stmt | None) -> GlaError:
        first = expr
        while isinstance(first, s.Binary):
            first = first.left
        signed = isinstance(first, s.Unary) and first.op in "+-" and before is not None
        labels = [(expr.span, "")]
        if before is not None and signed:
            labels.append((before.span, "this line is complete without it"))
        return self.ctx.error(
            DtypeError,
            "GLA0210",
            "this value is never used; did the line above end too early?" if signed else "this value is never used",
            *labels,
            help="end the line above with the operator, or put both in parentheses"
            if signed
            else "give it a name with let, print it, or remove it",
        )

    def _expr(self, expr: s.Node, names: Names) -> None:
        match expr:
            case s.Name():
                self._name(expr, names)
            case s.Attribute():
                self._expr(expr.value, names)
            case s.Call():
                self._expr(expr.function, names)
                for part in (*expr.args, *(k.value for k in expr.kwargs)):
                    self._expr(part, names)
            case s.RecordUpdate():
                for part in (expr.value, *(k.value for k in expr.fields)):
                    self._expr(part, names)
            case s.Lambda():
                inner = Names(names)
                for parameter in expr.params:
                    self._type(parameter.type, inner, {})
                    self._bind(inner, parameter.name, "parameter")
                self._expr(expr.body, inner)
            case s.Comprehension() | s.Generator():
                self._clauses(expr, names)
            case s.For():
                self._expr(expr.iterable, names)
                inner = Names(names)
                self._bind(inner, expr.variable, "loop")
                self._block(expr.body, inner, used=False)
            case s.While():
                self._while(expr, names)
            case s.Stencil():
                self._stencil(expr, names)
            case s.If():
                self._expr(expr.condition, names)
                self._block(expr.then, names, used=True)
                if expr.otherwise is not None:
                    self._expr(expr.otherwise, names)
            case s.Block():
                self._block(expr, names, used=True)
            case _:
                for child in children(expr):
                    self._expr(child, names)

    def _clauses(self, expr: s.Comprehension | s.Generator, names: Names) -> None:
        inner = Names(names)
        for clause in expr.clauses:
            self._expr(clause.iterable, inner)
            self._bind(inner, clause.variable, "loop")
        for part in (expr.element, expr.condition):
            if part is not None:
                self._expr(part, inner)

    def _while(self, expr: s.While, names: Names) -> None:
        self._expr(expr.condition, names)
        if expr.limit is None:
            self.errors.append(
                self.ctx.error(
                    DtypeError,
                    "GLA0211",
                    "a `while` says how many trips it may take at most",
                    (expr.condition.span, "no `max` after this condition"),
                    help="write: while .. max 10_000 { ... }",
                )
            )
        else:
            self._expr(expr.limit, names)
        self._block(expr.body, names, used=False)

    def _stencil(self, expr: s.Stencil, names: Names) -> None:
        for listed in expr.fields:
            self._name(listed.name, names)
            for mode in listed.modes:
                if mode.value is not None:
                    self._expr(mode.value, names)
        self._block(expr.body, names, used=True)


def _declared(item: s.Item) -> Iterator[tuple[str, str, Span]]:
    """(name, kind, place) of what an item declares."""
    match item:
        case s.Import():
            name = (
                item.alias.id
                if item.alias is not None
                else (item.module.names[-1] if item.module.path is None else _stem(item.module.path))
            )
            yield name, "module", item.span
        case s.ImportFrom():
            for entry in item.names:
                yield (entry.alias or entry.name).id, "import", entry.span
        case s.Const() | s.Size() | s.Param() | s.Input() | s.State() | s.Struct():
            yield item.name.id, type(item).__name__.lower(), item.name.span
        case s.Function():
            yield item.name.id, "fn", item.name.span


def _stem(path: str) -> str:
    return path.rsplit("/", 1)[-1].removesuffix(".gla")


def _below(part: s.Node) -> Iterator[s.Node]:
    stack = [part]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(children(node))
