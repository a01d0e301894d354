"""Where operations go: straight into lazy values, or into a trace, a capture, or the body of a loop.

The scope of a task is a context variable. A scope says how a concrete array is read inside it, owns the values made in it,
and words the refusal when a value is looked at. When it has ended, its values are dead, and using one is an error that
names the function and line.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from gla.errors import CaptureError, GlaError, Label, Span, TraceError
from gla.ir.node import Node, topological
from gla.ir.spans import labels

if TYPE_CHECKING:
    from gla.array.value import Array

current: ContextVar[Scope | None] = ContextVar("gla_scope", default=None)


class Scope(ABC):
    """A stretch of recording. `name` is for messages: the function, or what opens the scope."""

    kind = "trace"
    lock: Any = nullcontext()  # held while an operation is recorded, where several threads may record

    def __init__(self, name: str, parent: Scope | None, device: str) -> None:
        self.name, self.parent, self.device = name, parent, device
        self.done = False

    def within(self, other: Scope) -> bool:
        """Whether this scope is `other` or lies inside it."""
        scope: Scope | None = self
        while scope is not None:
            if scope is other:
                return True
            scope = scope.parent
        return False

    @abstractmethod
    def enter(self, array: Array) -> Array:
        """The array that stands for the concrete `array` inside this scope."""

    @abstractmethod
    def constant(self, values: Any) -> Array:
        """A NumPy array as a value of this scope."""

    def made(self, array: Array) -> None:  # noqa: B027 - most scopes do not mind
        """`array` was made in this scope."""

    def free(self, array: Array) -> None:
        """`array.free()` inside the scope."""
        raise TraceError(
            "GLA0419", f"free() inside {self.name}", labels=labels("here"), help="free arrays outside of functions and loops"
        )

    def capturing(self) -> bool:
        """Whether this scope, or one around it, records a graph."""
        scope: Scope | None = self
        while scope is not None:
            if scope.kind == "capture":
                return True
            scope = scope.parent
        return False

    @contextmanager
    def open(self) -> Iterator[Scope]:
        """Make the scope current; afterwards its values are dead."""
        token = current.set(self)
        try:
            yield self
        finally:
            self.done = True
            leave(token)


def leave(token: Any) -> None:
    """Set the scope of before. A coroutine that is thrown away may be closed in another context, where there is nothing to set."""
    try:
        current.reset(token)
    except ValueError:
        return


@contextmanager
def outside() -> Iterator[None]:
    """Work for the task itself, whatever it is recording."""
    token = current.set(None)
    try:
        yield
    finally:
        current.reset(token)


def scalars_behind(node: Node) -> list[str]:
    """Names of the runtime scalars that `node` is computed from."""
    names = [n.attr("name") for n in topological([node]) if n.op == "input" and n.attr("scalar")]
    return [n for n in names if n]


def look_error(array: Array, what: str) -> GlaError:
    """The refusal to look at a value inside a scope (or at one whose scope has ended)."""
    scope = current.get() or array._scope
    assert scope is not None
    node = array._value if array._value is not None else None
    if array._scope is not None and array._scope.done:
        return leak_error(array)
    given = str(array._type)
    marks = labels("", (given, node)) if node is not None else labels("")
    if scope.capturing():
        return CaptureError(
            "GLA0901",
            f"{what} needs the contents of {given}, which do not exist while {scope.name} is captured",
            labels=marks,
            help=("return the value and look at graph.outputs after a launch, or look before the capture", *_rewrites(what)),
        )
    names = scalars_behind(node) if node is not None else []
    helps = _rewrites(what)
    if names and array.ndim == 0:
        listed = ", ".join(f'"{n}"' for n in names) + ("," if len(names) == 1 else "")
        where = scope.name.split("(")[0]
        helps = (f"make it static: @gla.function(static=({listed})) on {where}", *helps)
    return TraceError(
        "GLA0403",
        f"{what} needs the contents of {given}, which has no value while {scope.name} is traced",
        labels=marks,
        help=helps,
    )


def _rewrites(what: str) -> tuple[str, ...]:
    if what.startswith(("bool", "if")):
        return (
            "for `if c: y = a` with `else: y = b` write y = gla.where(c, a, b)",
            "for branches with work in them y = gla.cond(c, then, otherwise, *operands)",
            "for `while c:` write gla.while_loop(cond, body, init, max_steps=n)",
        )
    if what.startswith(("int", "index", "range", "len")):
        return ("for a loop over it write gla.fori(lower, upper, body, init)",)
    return ("return the value from the function and look at it there",)


def leak_error(array: Array) -> GlaError:
    """A value of an ended scope is used."""
    scope = array._scope
    assert scope is not None
    node = array._value
    marks = list(labels(""))
    if node is not None and node.span is not None:
        marks.append(Label(node.span, "made here"))
    place = _place(node)
    if scope.capturing():
        return CaptureError(
            "GLA0902",
            f"a value made{place} while {scope.name} was captured was neither written nor returned, so it was not recorded",
            labels=marks,
            help="return it from the captured function, or write it: out.assign(value)",
        )
    return TraceError(
        "GLA0418",
        f"a value made{place} while {scope.name} was traced is used outside it, where it has no contents",
        labels=marks,
        help="return it from the function; values stored in outer lists or attributes do not leave a trace",
    )


def _place(node: Node | None) -> str:
    span: Span | None = node.span if node is not None else None
    return f" at {span.file}:{span.line}" if span is not None else ""
