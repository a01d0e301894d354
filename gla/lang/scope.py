"""Names and what they stand for. A scope is a block, a function's parameters, or the top level of a file.

Top-level names are bound to thunks, computed when first asked for, so that items may stand in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gla.errors import Span
from gla.lang.values import Value


@dataclass(slots=True, eq=False)
class Binding:
    """`kind`: let, var, parameter, dim, loop, field, const, size, param, input, state, fn, struct, module, builtin.

    `thunk` is called once, at the first look, when there is no value yet.
    """

    name: str
    kind: str
    value: Value = None
    span: Span | None = None
    thunk: Callable[[], Value] | None = None
    declared: Any = None  # the shape and dtype that an annotation asked for, kept at assignments

    @property
    def mutable(self) -> bool:
        return self.kind in ("var", "state")

    def get(self) -> Value:
        if self.thunk is not None:
            thunk = self.thunk
            self.value = thunk()
            self.thunk = None
        return self.value


class Scope:
    """A table of names inside another. `function`: assignments do not reach out of it."""

    __slots__ = ("function", "names", "parent")

    def __init__(self, parent: Scope | None = None, *, function: bool = False) -> None:
        self.parent, self.function = parent, function
        self.names: dict[str, Binding] = {}

    def find(self, name: str) -> Binding | None:
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def crosses_function(self, name: str) -> bool:
        """Whether a function boundary lies between here and the scope that has `name`."""
        scope: Scope | None = self
        crossed = False
        while scope is not None:
            if name in scope.names:
                return crossed
            crossed = crossed or scope.function
            scope = scope.parent
        return False

    def bind(self, name: str, kind: str, value: Value, span: Span | None = None) -> Binding:
        """`_` is never bound."""
        binding = Binding(name, kind, value, span)
        if name != "_":
            self.names[name] = binding
        return binding

    def all_names(self) -> Iterator[str]:
        scope: Scope | None = self
        while scope is not None:
            yield from scope.names
            scope = scope.parent
