"""Tracing: runs a Python body once on arrays that stand for its arguments and gathers what it returns and writes.

`FunctionScope` is the scope of a `gla.function`'s body: arguments, and the arrays of the surroundings that are guarded, are
inputs; any other array of gla is refused; NumPy arrays made in the body are constants of the entry.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gla.array.buffer import Buffer
from gla.array.create import upload
from gla.array.scope import Scope
from gla.array.value import Array, from_node, node_of
from gla.dtypes import DType
from gla.errors import TraceError
from gla.ir.graph import new_input
from gla.ir.node import Node
from gla.ir.spans import here, labels
from gla.ir.types import Type


class FunctionScope(Scope):
    """The body of a `gla.function`. `known`: arrays of the outside and NumPy arrays, by id, and what stands for them."""

    kind = "function"

    def __init__(self, name: str, device: str) -> None:
        super().__init__(name, None, device)
        self.known: dict[int, Array] = {}
        self.kept: list[Any] = []
        self.constants: list[tuple[Node, Buffer]] = []
        self.called = here()

    def parameter(self, type_: Type, name: str, scalar: bool = False) -> Array:
        """A fresh input."""
        return from_node(new_input(type_, name, scalar=scalar, span=self.called), self.device, self)

    def stands_for(self, outside: Any, inside: Array) -> None:
        self.known[id(outside)] = inside
        self.kept.append(outside)

    def enter(self, array: Array) -> Array:
        found = self.known.get(id(array))
        if found is None:
            raise TraceError(
                "GLA0406",
                f"{self.name} reaches an array {array._type} that is neither an argument nor a global or closure variable that it names",
                labels=labels("", *((str(array._type), array._value) for _ in (0,) if array._value is not None)),
                help="pass it as an argument: a change of such an array could not be noticed",
            )
        return found

    def constant(self, values: Any) -> Array:
        found = self.known.get(id(values))
        if found is not None:
            return found
        return self.constants_of(np.array(values))

    def constants_of(self, values: np.ndarray) -> Array:
        from gla.array.scope import outside

        with outside():
            concrete = upload(values, None, self.device)
        assert concrete._buffer is not None
        inside = self.parameter(concrete._type, "")
        assert inside._value is not None
        self.constants.append((inside._value, concrete._buffer))
        return inside


def input_of(array: Array) -> Node:
    """The input that a fresh stand-in reads."""
    assert array._value is not None
    return array._value


# --- structures
WHOLE = (DType, enum.Enum)
"""Values that are one even where they have fields."""


def rebuild(value: Any, known: dict[int, Array], scalars: Iterator[Array]) -> Any:
    """An argument with its leaves replaced: arrays by what stands for them, numbers by the runtime scalars, in order."""
    kind = type(value)
    if kind is Array or kind is np.ndarray:
        return known.get(id(value), value)
    if kind in (int, float, complex) or isinstance(value, np.generic):
        return next(scalars)
    if isinstance(value, WHOLE):
        return value
    if isinstance(value, tuple):
        parts = [rebuild(v, known, scalars) for v in value]
        return kind(*parts) if hasattr(kind, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [rebuild(v, known, scalars) for v in value]
    if isinstance(value, dict):
        made = {k: rebuild(v, known, scalars) for k, v in value.items()}
        return made if kind is dict else _like_dict(value, made)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return copy_dataclass(value, lambda v: rebuild(v, known, scalars))
    return value


def _like_dict(value: dict[Any, Any], made: dict[Any, Any]) -> Any:
    fresh = value.copy()
    fresh.clear()
    fresh.update(made)
    return fresh


def copy_dataclass(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same dataclass with each field changed, without running its __init__."""
    made = object.__new__(type(value))
    for field in dataclasses.fields(value):
        object.__setattr__(made, field.name, change(getattr(value, field.name)))
    return made


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """A structure with `change` applied to everything that is no container."""
    kind = type(value)
    if isinstance(value, WHOLE):
        return change(value)
    if isinstance(value, tuple):
        parts = [map_leaves(v, change) for v in value]
        return kind(*parts) if hasattr(kind, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [map_leaves(v, change) for v in value]
    if isinstance(value, dict):
        made = {k: map_leaves(v, change) for k, v in value.items()}
        return made if kind is dict else _like_dict(value, made)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return copy_dataclass(value, lambda v: map_leaves(v, change))
    return change(value)


class Slot:
    """The place of result number `index` in what a function returns. `copy`: another array has the same memory."""

    __slots__ = ("copy", "index")

    def __init__(self, index: int, copy: bool) -> None:
        self.index, self.copy = index, copy


class Results:
    """Gathers returned values: nodes, each once, and the structure with `Slot`s in it."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._slots: dict[int, Slot] = {}
        self._of: dict[Node, int] = {}
        self._kept: list[Array] = []

    def gather(self, value: Any) -> Any:
        return map_leaves(value, self._leaf)

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.copy()
        if not isinstance(value, Array):
            return value
        found = self._slots.get(id(value))
        if found is None:
            node = strong(node_of(value))
            copy = node in self._of
            if not copy:
                self._of[node] = len(self.nodes)
                self.nodes.append(node)
            found = self._slots[id(value)] = Slot(self._of[node], copy)
            self._kept.append(value)
        return found


def strong(node: Node) -> Node:
    """Returned or stored, a weak scalar becomes int64, float64 or complex128."""
    from gla.ir.builder import cast

    return cast(node, node.dtype) if node.type.weak else node
