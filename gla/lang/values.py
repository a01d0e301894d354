"""What an expression of a program can be while it is lowered.

An array or a number is an `ir.Node` (Python numbers never appear: a literal is a constant node). The other kinds live at
plan time only: tuples are Python tuples, dtypes are `gla.dtypes.DType`, nothing is None. `leaves` and `rebuild` take a
value apart into its nodes and put it together again: what loops carry, branches choose between and devices hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gla.dtypes import DType
from gla.ir.node import Node
from gla.lang import syntax as s

if TYPE_CHECKING:
    from gla.lang.scope import Scope

Value = Any
"""A Node, tuple, Record, Struct, Function, Builtin, Steps, Text, Field, Module, DType, or None."""


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    """A declared record type; its fields' types are read in `scope`."""

    name: str
    item: s.Struct
    scope: Scope


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A value of a struct: field name -> value."""

    struct: Struct
    fields: Mapping[str, Value]


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A `fn` or a lambda with the scope it was written in; it is inlined at each call."""

    name: str
    node: s.Function | s.Lambda
    scope: Scope


@dataclass(frozen=True, slots=True, eq=False)
class Builtin:
    """A function of the library. `call(call site, positional, named)`; `draws`: takes a random key first, that it uses up;
    `generators`: may be called with `x for ..`."""

    name: str
    call: Callable[..., Value]
    draws: bool = False
    generators: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """`start..stop by step`: the bounds as nodes."""

    start: Node
    stop: Node
    step: Node | None
    inclusive: bool
    span: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """A string: pieces of text and (value, format) holes."""

    parts: tuple[str | tuple[Value, str], ...]

    @property
    def plain(self) -> str | None:
        """The text, or None when it has holes."""
        return None if any(isinstance(p, tuple) for p in self.parts) else "".join(p for p in self.parts if isinstance(p, str))


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """An array inside a stencil, where an index is an offset. `reads` gathers the offsets that were asked for."""

    name: str
    node: Node
    modes: tuple[str, ...]
    fills: tuple[Any, ...]
    reads: list[tuple[tuple[int, ...], Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """An imported module: its names through `find`, which gives None for a name that it does not have."""

    name: str
    find: Callable[[str], Value | None]
    names: Callable[[], Sequence[str]]


def leaves(value: Value) -> Iterator[Node]:
    """The nodes in a value, in order."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from leaves(part)
    elif isinstance(value, Record):
        for part in value.fields.values():
            yield from leaves(part)


def rebuild(value: Value, nodes: Iterator[Node]) -> Value:
    """`value` with its nodes replaced, in order, by those of `nodes`."""
    if isinstance(value, Node):
        return next(nodes)
    if isinstance(value, tuple):
        return tuple(rebuild(part, nodes) for part in value)
    if isinstance(value, Record):
        return Record(value.struct, {name: rebuild(part, nodes) for name, part in value.fields.items()})
    return value


def same_form(a: Value, b: Value) -> bool:
    """Whether two values are taken apart alike."""
    if isinstance(a, Node) or isinstance(b, Node):
        return isinstance(a, Node) and isinstance(b, Node)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same_form, a, b))
    if isinstance(a, Record) and isinstance(b, Record):
        return a.struct.item is b.struct.item and all(same_form(a.fields[k], b.fields[k]) for k in a.fields)
    return a is b


NUMBERS = {"i": "a whole number", "f": "a number", "c": "a complex number"}


def kind_of(value: Value) -> str:
    """What a value is, for people: `f64[3]`, `a record Bodies`, `a function`."""
    match value:
        case Node():
            return str(value.type) if not value.type.weak else NUMBERS[value.dtype.kind]
        case None:
            return "nothing"
        case tuple():
            return f"({', '.join(map(kind_of, value))}{',' if len(value) == 1 else ''})"
        case Record():
            return f"a record {value.struct.name}"
        case Struct():
            return f"the struct {value.name}"
        case Function():
            return f"the function {value.name}" if isinstance(value.node, s.Function) else "a lambda"
        case Builtin():
            return f"the function {value.name}"
        case Steps():
            return "a range"
        case Text():
            return "a text"
        case Field():
            return str(value.node.type)
        case Module():
            return f"the module {value.name}"
        case DType():
            return f"the dtype {value.short}"
    return type(value).__name__
