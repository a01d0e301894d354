"""The nodes that have a value, and what every node is made of. Read them through gla.lang.syntax, which is the whole tree."""

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
