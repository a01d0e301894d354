"""What lowering carries along: where it stands, what it found, and how it says what is wrong.

One `Context` serves one program on one engine. The walkers of gla/lang/lower take it first; `expr` and `block` lead back
to the whole walker, so that they need not import one another.
"""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gla import dtypes
from gla.dtypes import DType
from gla.errors import Diagnostic, DtypeError, GlaError, Label, Span, TraceError
from gla.ir.builder import apply, constant, default_float
from gla.ir.node import Node
from gla.ir.ops.table import is_elementwise
from gla.lang import syntax as s
from gla.lang.lower.fold import fold, known
from gla.lang.scope import Binding, Scope
from gla.lang.values import Text, Value, kind_of

if TYPE_CHECKING:
    from gla.lang.engine import Engine

MAX_CALLS = 200
FRAMES = 12_000


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """An assert under way: `ok` must hold; `text` tells of it with the values of its holes, of which `shown` are nodes."""

    ok: Node
    text: Callable[[Sequence[Any]], str]
    shown: tuple[Node, ...]
    span: Span
    code: str = "GLA0601"
    help: str = ""


@dataclass(slots=True, eq=False)
class Frame:
    """A loop being lowered: what it emits, asserts and where it was broken off."""

    kind: str  # for, while, walked (trip by trip from the host), unrolled
    body: s.Block | None = None
    emits: list[tuple[Value, int, Span]] = field(default_factory=list)
    broken: Node | None = None
    stopped: bool = False
    trip: int = 0  # of an unrolled loop
    depth: int = 0  # branches that the statement at hand stands in


class Context:
    """See the module's head. `effects` is who takes prints, outputs and host branches here; None where there are none."""

    def __init__(
        self,
        engine: Engine,
        sources: dict[str, str],
        float_dtype: DType = dtypes.float64,
        checking: frozenset[str] = frozenset(),
    ) -> None:
        self.engine = engine
        self.sources = sources
        self.float_dtype = float_dtype
        self.checking = checking | ({"bounds", "nan"} if "all" in checking else set())
        self.effects: Any = None
        self.frame: Frame | None = None
        self.checks: list[Check] = []
        self.guards: list[Node] = []
        self.calls: list[tuple[str, Any, Span]] = []
        self.draws: dict[Node, Span] = {}
        self.moving: list[set[Node]] = []  # for each loop around: the nodes that differ from trip to trip
        self.warnings: list[Diagnostic] = []
        self.tolerance: Node | None = None
        self.inlined: set[Any] = set()  # functions of the program that were called
        self.names: weakref.WeakKeyDictionary[Node, tuple[str, ...]] = weakref.WeakKeyDictionary()
        self.places: weakref.WeakKeyDictionary[Node, Span] = weakref.WeakKeyDictionary()
        self.expr: Callable[[Scope, s.Expr], Value]
        self.block: Callable[[Scope, s.Block], Value]
        self.call: Callable[..., Value]

    # --- nodes
    def op(self, name: str, *operands: Any) -> Node:
        """An elementwise op, folded when its operands are constants."""
        return fold(apply(name, *operands))

    def node(self, scope: Scope, expr: s.Expr, what: str = "this") -> Node:
        """The value of an expression that must be a number or an array."""
        value = self.expr(scope, expr)
        return self.as_node(value, expr.span, what)

    def as_node(self, value: Value, span: Span, what: str = "this") -> Node:
        if isinstance(value, Node):
            return value
        node = getattr(value, "node", None)
        if isinstance(node, Node):  # a stencil's field, read at the cell itself
            return node
        raise self.error(
            DtypeError, "GLA0244", f"{what} must be a number or an array, not {kind_of(value)}", (span, kind_of(value)),
            help="call the function, or take a field of the record" if value is not None else "a block's value is its last expression",
        )  # fmt: skip

    def boolean(self, scope: Scope, expr: s.Expr, what: str) -> Node:
        """One bool, from a scalar expression."""
        node = self.node(scope, expr, what)
        if node.shape or node.dtype.kind != "b":
            raise self.error(
                DtypeError, "GLA0215", f"{what} must be one bool, not {self.describe(node)}", (expr.span, self.describe(node)),
                help="reduce it: any(c) or all(c); elementwise choice is where(c, a, b)" if node.shape else "compare it: x != 0",
            )  # fmt: skip
        return node

    def integer(self, value: Value, span: Span, what: str) -> int:
        """A whole number that is known when the program is planned."""
        number = known(value)
        if number is not None and number.dtype.kind in "iu":
            return int(number)
        if number is not None:
            raise self.error(
                DtypeError, "GLA0245", f"{what} must be a whole number, not {number.dtype} {number}", (span, ""),
                help="divide with `//`, or cast: cast(x, i64)",
            )  # fmt: skip
        given = self.describe(value) if isinstance(value, Node) else kind_of(value)
        raise self.error(
            TraceError, "GLA0410", f"{what} must be known when the program is planned, not {given}", (span, "computed at run time"),
            help="make it a size or a const: shapes, slices and axes depend on sizes only",
        )  # fmt: skip

    # --- shapes with names
    def describe(self, value: Value) -> str:
        """The type of a value with the names of its dims where they are known: `f64[n, 3]`."""
        if not isinstance(value, Node) or value.type.weak:
            return kind_of(value)
        names = self.dims_of(value)
        if not value.shape or names is None:
            return str(value.type)
        return f"{value.dtype.short}[{', '.join(names)}]"

    def dims_of(self, node: Node, depth: int = 6) -> tuple[str, ...] | None:
        """The dims of a node as they were declared, carried through elementwise work; None when nothing is known."""
        found = self.names.get(node)
        if found is not None or depth == 0 or not node.operands:
            return found
        if is_elementwise(node.op) or node.op in ("cast", "update", "shift"):
            for operand in node.operands:
                if operand.shape == node.shape and (found := self.dims_of(operand, depth - 1)) is not None:
                    return found
        if node.op in ("broadcast", "reshape"):
            inner = self.dims_of(node.operands[0], depth - 1)
            if inner is not None:
                return _aligned(inner, node.operands[0].shape, node.shape)
        return None

    def facts(self, value: Value) -> str:
        """`f64[n, 3], n = 512, declared at line 9`: the text of a caret under an operand."""
        text = self.describe(value)
        if not isinstance(value, Node) or (names := self.dims_of(value)) is None:
            return text
        sizes = dict.fromkeys(f"{name} = {extent}" for name, extent in zip(names, value.shape) if not name.isdecimal())
        place = self.places.get(value)
        where = [f"declared at line {place.line}"] if place is not None else []
        return ", ".join([text, *sizes, *where])

    # --- errors
    def error(
        self,
        cls: type[GlaError],
        code: str,
        message: str,
        *labels: tuple[Span | None, str],
        help: str = "",
        notes: Sequence[str] = (),
    ) -> GlaError:
        """An error of that class; each label is (span, text), the first is its place."""
        shown = [Label(span, text) for span, text in labels if span is not None]
        source = self.sources.get(shown[0].span.file) if shown else None
        return cls(code, message, labels=shown, help=help or (), notes=notes, source=source)

    def warn(self, code: str, message: str, *labels: tuple[Span | None, str], help: str = "") -> None:
        """A lint; said once."""
        shown = tuple(Label(span, text) for span, text in labels if span is not None)
        source = self.sources.get(shown[0].span.file) if shown else None
        found = Diagnostic(code, message, shown, (), (help,) if help else (), "warning", source)
        if found not in self.warnings:
            self.warnings.append(found)

    def relabel(self, error: GlaError, span: Span, *operands: tuple[Span, Value]) -> GlaError:
        """An error of the builder, told in the program's own words: the operator, then both operands with their shapes."""
        old = error.diagnostic
        message = old.message
        for _, value in operands:
            if isinstance(value, Node):
                message = message.replace(str(value.type), self.describe(value), 1)
        labels = (Label(span, ""), *(Label(place, self.facts(value)) for place, value in operands))
        helps = tuple(in_the_language(text) for text in old.help)
        error.diagnostic = replace(old, message=message, labels=labels, help=helps, source=self.sources.get(span.file))
        return error

    @contextmanager
    def lowering(self) -> Iterator[None]:
        """Within it errors that leave have the program's text, and undecorated floats its dtype."""
        token = default_float.set(self.float_dtype)
        # Inlined calls nest: a chain of MAX_CALLS functions takes more frames than Python allows by itself.
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, FRAMES))
        try:
            yield
        except GlaError as error:
            old = error.diagnostic
            if old.labels and old.source is None and old.labels[0].span.file in self.sources:
                error.diagnostic = replace(old, source=self.sources[old.labels[0].span.file])
            raise
        finally:
            sys.setrecursionlimit(limit)
            default_float.reset(token)

    # --- where effects and asserts go
    @contextmanager
    def pure(self) -> Iterator[None]:
        """Within it nothing can be printed or written."""
        effects, self.effects = self.effects, None
        try:
            yield
        finally:
            self.effects = effects

    @contextmanager
    def guarded(self, condition: Node) -> Iterator[None]:
        """Within it asserts hold only where `condition` does."""
        self.guards.append(condition)
        try:
            yield
        finally:
            self.guards.pop()

    def guard(self) -> Node | None:
        """The condition under which the statement at hand is reached, None: always."""
        result: Node | None = None
        for condition in self.guards:
            result = condition if result is None else self.op("logical_and", result, condition)
        return result

    def check(self, check: Check) -> None:
        """Note an assert; one that is known to fail raises now."""
        condition = self.guard()
        if condition is not None:
            check = replace(check, ok=self.op("logical_or", self.op("logical_not", condition), check.ok))
        self.checks.append(check)


def in_the_language(text: str) -> str:
    """Advice of the IR's functions, which speak Python, in the words of `.gla`."""
    text = re.sub(r"astype\((\w+), '(\w+)'\)", lambda m: f"cast({m[1]}, {dtypes.as_dtype(m[2]).short})", text)
    text = re.sub(r'; x\[:, new\] in \.gla|make it static: static=\("n",\), or ', "", text)
    return re.sub(r"\bNone\b", "new", text).replace("real(x)", "re(x)").replace("imag(x)", "im(x)")


def number(value: Any) -> Node:
    """A constant that came from a size: an argument of kernels, never text in them."""
    return constant(value, literal=False)


def plain_text(value: Value) -> str | None:
    """The text of a string without holes, else None."""
    return value.plain if isinstance(value, Text) else None


def values_of(bindings: Sequence[Binding]) -> list[Value]:
    return [binding.value for binding in bindings]


def _aligned(names: tuple[str, ...], inner: tuple[int, ...], outer: tuple[int, ...]) -> tuple[str, ...] | None:
    """Names carried from a shape to one that differs in axes of extent 1, or in leading axes."""
    left = [(name, extent) for name, extent in zip(names, inner) if extent != 1]
    found = []
    for extent in outer:
        if left and left[0][1] == extent:
            found.append(left.pop(0)[0])
        else:
            found.append(str(extent))
    return None if left else tuple(found)
