"""The syntax tree of a `.gla` program: what the parser makes and the checker, the formatter and `gla ir --stage ast` read.

Every node knows its span. Nodes are frozen and compare by identity, so side tables (types, scopes) are plain dicts
keyed by node; two trees are compared by their `dump`. Names are NFC, strings are unescaped, numbers are values; no name
is resolved, no type checked and nothing desugared here. A tree is at most `build.MAX_DEPTH` nodes deep.
"""

from __future__ import annotations

# The expressions are part of the tree's one name space; what is not used below is there for readers of this module.
from gla.lang.expressions import (  # noqa: F401
    ArrayLiteral,
    Attribute,
    Binary,
    Block,
    Boolean,
    Call,
    Clause,
    Compare,
    Comprehension,
    Ellipsis,
    Expr,
    For,
    Generator,
    Hole,
    If,
    Index,
    Keyword,
    Lambda,
    Logical,
    Mode,
    Name,
    NewAxis,
    Node,
    Number,
    Parameter,
    Pipe,
    Range,
    RecordUpdate,
    Slice,
    Stencil,
    StencilField,
    Stmt,
    String,
    Tuple,
    Type,
    Unary,
    While,
    node,
)

# ---------------------------------------------------------------- groups


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
