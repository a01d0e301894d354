"""The syntax tree of a `.gla` program: what the parser makes and the checker, the formatter and `gla ir --stage ast` read.

Every node knows its span. Nodes are frozen and compare by identity, so side tables (types, scopes) are plain dicts
keyed by node; two trees are compared by their `dump`. Names are NFC, strings are unescaped, numbers are values; no name
is resolved, no type checked and nothing desugared here. A tree is at most `parser.MAX_DEPTH` nodes deep.
"""

from __future__ import annotations

import dataclasses
from typing import TypeVar, dataclass_transform

from gla.errors import Span

T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False)
def node(cls: type[T]) -> type[T]:
    """A frozen, slotted dataclass that compares and hashes by identity."""
    return dataclasses.dataclass(frozen=True, slots=True, eq=False)(cls)


@node
class Node:
    """Anything with a place in the source text."""

    span: Span


# ---------------------------------------------------------------- groups


@node
class Expr(Node):
    """What has a value."""


@node
class Stmt(Node):
    """A line of a block."""


@node
class Type(Node):
    """What stands after `:` or `->` in a declaration."""


@node
class Pattern(Node):
    """What `let` and `var` bind: NamePattern, TuplePattern or ArrayPattern."""


@node
class Item(Node):
    """A top-level declaration. `doc` is the text of the `##` lines straight above it."""

    doc: str | None


@node
class Comment(Node):
    """`# text` with its sign; `doc` for `##`. The formatter puts them back."""

    text: str
    doc: bool


@node
class Program(Node):
    """One file. `doc` is the `##` block that opens it; `source` the text that the spans count in."""

    file: str
    source: str
    doc: str | None
    items: tuple[Item, ...]
    comments: tuple[Comment, ...]


# ---------------------------------------------------------------- expressions


@node
class Name(Expr):
    """A name, used or declared; `id` is NFC. `_` is an ordinary name here."""

    id: str


@node
class Number(Expr):
    """`1`, `1.5f32`, `0xff`, `2j`: an int, float or complex; `dtype` is the suffix or None (then it is weak)."""

    value: int | float | complex
    dtype: str | None
    text: str


@node
class Boolean(Expr):
    """`true` or `false`."""

    value: bool


@node
class Hole(Node):
    """`{value:format}` in a string; `format` is "" when not given."""

    value: Expr
    format: str


@node
class String(Expr):
    """Text and holes in order; "" has no parts."""

    parts: tuple[str | Hole, ...]

    @property
    def plain(self) -> str | None:
        """The text, or None when there are holes."""
        return None if any(isinstance(part, Hole) for part in self.parts) else "".join(map(str, self.parts))


@node
class Tuple(Expr):
    """`(a, b)`, `(a,)`; there is no empty tuple."""

    items: tuple[Expr, ...]


@node
class ArrayLiteral(Expr):
    """`[a, b]`, `[]`."""

    items: tuple[Expr, ...]


@node
class Clause(Node):
    """`for variable in iterable` of a comprehension or generator."""

    variable: Name
    iterable: Expr


@node
class Comprehension(Expr):
    """`[element for i in .. for j in .. if condition]`: an array, one axis a clause."""

    element: Expr
    clauses: tuple[Clause, ...]
    condition: Expr | None


@node
class Generator(Expr):
    """`element for i in .. if condition` as an argument of a reduction; only in Call.args."""

    element: Expr
    clauses: tuple[Clause, ...]
    condition: Expr | None


@node
class Range(Expr):
    """`start..stop by step`; `inclusive` for `..=`."""

    start: Expr
    stop: Expr
    step: Expr | None
    inclusive: bool


@node
class Parameter(Node):
    """A parameter of a function or lambda; a lambda's has no default."""

    name: Name
    type: Type | None
    default: Expr | None


@node
class Lambda(Expr):
    """`|a, b: f64| body`."""

    params: tuple[Parameter, ...]
    body: Expr


@node
class Keyword(Node):
    """`name = value` in a call, a record or a `with`."""

    name: Name
    value: Expr


@node
class Call(Expr):
    """`function(args, name=value)`."""

    function: Expr
    args: tuple[Expr, ...]
    kwargs: tuple[Keyword, ...]


@node
class Index(Expr):
    """`value[indices]`: each an Expr, Slice, Ellipsis or NewAxis."""

    value: Expr
    indices: tuple[Expr, ...]


@node
class Slice(Expr):
    """`start:stop:step`, each part may be absent; only in Index.indices."""

    start: Expr | None
    stop: Expr | None
    step: Expr | None


@node
class Ellipsis(Expr):
    """`...` in an index or a dim list."""


@node
class NewAxis(Expr):
    """`new` in an index."""


@node
class Attribute(Expr):
    """`value.name`."""

    value: Expr
    name: Name


@node
class RecordUpdate(Expr):
    """`value with (name = value)`."""

    value: Expr
    fields: tuple[Keyword, ...]


@node
class Unary(Expr):
    """`op` is `+`, `-`, `~` or `not`."""

    op: str
    operand: Expr


@node
class Binary(Expr):
    """`op` is one of `+ - * / // % @ ** << >> & |`; `op_span` is where it stands."""

    op: str
    left: Expr
    right: Expr
    op_span: Span


@node
class Compare(Expr):
    """`a < b <= c`: `operands` has one more than `ops`; ops are `== != < <= > >= ~=`."""

    operands: tuple[Expr, ...]
    ops: tuple[str, ...]
    op_spans: tuple[Span, ...]


@node
class Logical(Expr):
    """`op` is `and` or `or`."""

    op: str
    left: Expr
    right: Expr
    op_span: Span


@node
class Pipe(Expr):
    """`value |> function`: the function applied to the value."""

    value: Expr
    function: Expr
    op_span: Span


@node
class Block(Expr):
    """`{ statements; value }`: when the last line is an expression it is `value` and not among the statements."""

    statements: tuple[Stmt, ...]
    value: Expr | None


@node
class If(Expr):
    """`if condition { } else { }`; `otherwise` is a Block, another If, or None."""

    condition: Expr
    then: Block
    otherwise: Block | If | None


@node
class For(Expr):
    """`for variable in iterable { }`."""

    variable: Name
    iterable: Expr
    body: Block


@node
class While(Expr):
    """`while condition max limit { }`; `limit` is None when it was left out, which the checker refuses (GLA0211)."""

    condition: Expr
    limit: Expr | None
    body: Block


@node
class Mode(Node):
    """A boundary mode; `value` is that of `constant(v)`."""

    name: Name
    value: Expr | None


@node
class StencilField(Node):
    """`name: mode`, or `name: (mode, mode)` with `per_axis` true."""

    name: Name
    modes: tuple[Mode, ...]
    per_axis: bool


@node
class Stencil(Expr):
    """`stencil(u: periodic, k: edge) { }`."""

    fields: tuple[StencilField, ...]
    body: Block


# ---------------------------------------------------------------- types and patterns


@node
class NamedType(Type):
    """A scalar (`f64`) or a struct; `name` may be dotted."""

    name: str


@node
class ArrayType(Type):
    """`element[dims]`: each dim an Expr (`Name("_")`: any) or Ellipsis."""

    element: str
    dims: tuple[Expr, ...]


@node
class FunctionType(Type):
    """`fn(params) -> result`."""

    params: tuple[Type, ...]
    result: Type


@node
class TupleType(Type):
    """`(f64, f64[n])`."""

    items: tuple[Type, ...]


@node
class NamePattern(Pattern):
    """A single name; `_` binds nothing."""

    name: Name


@node
class TuplePattern(Pattern):
    """`(a, b)`: takes a tuple apart."""

    items: tuple[Pattern, ...]


@node
class ArrayPattern(Pattern):
    """`[x, y]`: takes the first axis of an array apart."""

    items: tuple[Pattern, ...]


# ---------------------------------------------------------------- statements


@node
class Let(Stmt):
    """`let pattern: type = value`."""

    pattern: Pattern
    type: Type | None
    value: Expr


@node
class Var(Stmt):
    """`var pattern: type = value`."""

    pattern: Pattern
    type: Type | None
    value: Expr


@node
class Assign(Stmt):
    """`target = value` (`op` is None) or `target op= value` (`op` as in Binary).

    The target is a Name, an Index or Attribute over one, or a Tuple of targets; a Tuple only without `op`.
    """

    target: Expr
    op: str | None
    value: Expr


@node
class Emit(Stmt):
    """`emit value every every`."""

    value: Expr
    every: Expr | None


@node
class Assert(Stmt):
    """`assert condition within tolerance, text`."""

    condition: Expr
    tolerance: Expr | None
    text: Expr | None


@node
class OutputValue(Node):
    """`value as name`."""

    value: Expr
    name: Name | None


@node
class Output(Stmt):
    """`output every e unit: values to path`; `unit` is `steps`, `time`, `seconds` or None."""

    every: Expr | None
    unit: str | None
    values: tuple[OutputValue, ...]
    path: Expr | None


@node
class Save(Stmt):
    """`save value to path`."""

    value: Expr
    path: Expr


@node
class Print(Stmt):
    """`print a, b`."""

    values: tuple[Expr, ...]


@node
class BreakIf(Stmt):
    """`break if condition`."""

    condition: Expr


@node
class ExprStmt(Stmt):
    """An expression whose value goes nowhere (loops and `if` among them); never the last line of a block."""

    value: Expr


# ---------------------------------------------------------------- items


@node
class Module(Node):
    """`std.ode` has `names`; `"./forces.gla"` has `path`."""

    names: tuple[str, ...]
    path: str | None


@node
class ImportName(Node):
    """`name as alias` of a `from`."""

    name: Name
    alias: Name | None


@node
class Import(Item):
    """`import module as alias`."""

    module: Module
    alias: Name | None


@node
class ImportFrom(Item):
    """`from module import names`."""

    module: Module
    names: tuple[ImportName, ...]


@node
class Option(Item):
    """`option name = value`."""

    name: Name
    value: Expr


@node
class Const(Item):
    """`const name: type = value`."""

    name: Name
    type: Type | None
    value: Expr


@node
class Size(Item):
    """`size name = value in bounds "text"`; both ends of the bounds are allowed values."""

    name: Name
    value: Expr | None
    bounds: Range | None
    text: str | None


@node
class Param(Item):
    """`param name: type = value in bounds "text"`."""

    name: Name
    type: Type | None
    value: Expr
    bounds: Range | None
    text: str | None


@node
class Input(Item):
    """`input name: type = default "text"`."""

    name: Name
    type: Type
    default: Expr | None
    text: str | None


@node
class State(Item):
    """`state name: type = value`."""

    name: Name
    type: Type | None
    value: Expr


@node
class Field(Node):
    """`name: type` of a struct."""

    name: Name
    type: Type


@node
class Struct(Item):
    """`struct name { fields }`."""

    name: Name
    fields: tuple[Field, ...]


@node
class Function(Item):
    """`export fn name(params) -> result where condition { }` or `= body`."""

    name: Name
    params: tuple[Parameter, ...]
    result: Type | None
    where: Expr | None
    body: Expr
    export: bool


@node
class Test(Item):
    """`test "name" for variable in iterable { }`."""

    name: str
    variable: Name | None
    iterable: Expr | None
    body: Block


@node
class Bench(Item):
    """`bench "name" for variable in iterable { }`."""

    name: str
    variable: Name | None
    iterable: Expr | None
    body: Block


@node
class Run(Item):
    """`run name { }`."""

    name: Name | None
    body: Block
