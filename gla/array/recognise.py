"""Recognisers: for a call seen before, a small Python function that says whether the next call is one like it.

`recogniser` visits what signature.Walk visits, in the same order, and writes one check a leaf: types, identities, shared signature
objects, a number where it counts by value. The text depends on structure alone and is compiled once; the objects that it compares
with are its globals. It gives the storages and numbers to run on, or None, and then function.py looks closer. What it cannot
check at a glance (NumPy arrays that may change, very large structures) has no recogniser and always takes the long way.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gla.array.signature import (
    ATOMS,
    BY_IDENTITY,
    NUMBER_TYPES,
    BoundWrapped,
    Wrapped,
    by_contents,
    globals_of,
    is_library,
    slots_of,
)  # fmt: skip
from gla.array.value import Array
from gla.ir.spans import WRITTEN

LONGEST = 4000
"""Lines of a recogniser."""

Recogniser = Callable[[tuple[Any, ...]], Any]


class Unfit(Exception):
    """Something cannot be recognised at a glance."""


def recogniser(
    function: Any, bound: Sequence[tuple[str, Any]], static: Iterable[str], pattern: Sequence[int], written: Sequence[int]
) -> Recogniser | None:
    """The recogniser of calls of `function` with values like `bound`, or None.

    `pattern[k]`: the first array leaf that is the same variable as leaf k. It takes the tuple of all argument values and gives
    (storages of the distinct leaves, numbers, buffers of the leaves `written`), or None.
    """
    text = _Text(static)
    try:
        text.arguments(bound)
        text.surroundings(function, text.constant(function), outermost=True)
        return text.function(pattern, written)
    except Unfit:
        return None


@functools.lru_cache(maxsize=1024)
def _compiled(source: str) -> types.CodeType:
    return compile(source, WRITTEN, "exec")


class _Text:
    """The text being written: `lines`, the objects it names, and the names of array and number leaves so far."""

    def __init__(self, static: Iterable[str]) -> None:
        self.static = frozenset(static)
        self.lines: list[str] = []
        self.space: dict[str, Any] = {"Array": Array, "alike": _alike, "same": _same}
        self.names: dict[int, str] = {}
        self.seen: dict[int, str] = {}
        self.kept: list[Any] = []
        self.arrays: list[str] = []
        self.scalars: list[str] = []
        self.count = 0

    # --- the text
    def fresh(self, stem: str = "v") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def constant(self, value: Any) -> str:
        """A global name for `value`, compared by identity."""
        name = self.names.get(id(value))
        if name is None:
            name = self.names[id(value)] = self.fresh("c")
            self.space[name] = value
        return name

    def unless(self, condition: str) -> None:
        self.lines.append(f"if {condition}: return None")
        if len(self.lines) > LONGEST:
            raise Unfit

    def read(self, expression: str) -> str:
        name = self.fresh()
        self.lines.append(f"{name} = {expression}")
        return name

    def apart(self, values: Sequence[Any], expression: str) -> list[str]:
        """Names for the parts of a sequence; another number of them is a ValueError."""
        names = [self.fresh() for _ in values]
        if names:
            self.lines.append(f"[{', '.join(names)}] = {expression}")
        else:
            self.unless(f"len({expression})")
        return names

    def function(self, pattern: Sequence[int], written: Sequence[int]) -> Recogniser | None:
        if len(pattern) != len(self.arrays):
            return None
        storages = [f"s{k}" for k in range(len(pattern))]
        self.lines.extend(f"s{k} = {name}.storage" for k, name in enumerate(self.arrays))
        for k, first in enumerate(pattern):
            if first != k:
                self.unless(f"s{k} is not s{first}")
        own = [storages[k] for k, first in enumerate(pattern) if first == k]
        if len(own) > 1:
            self.unless(f"len({{{', '.join(own)}}}) != {len(own)}")
        if written:
            for name in self.arrays:
                self.unless(f"o{name[1:]}._base is not None")
        changed = ", ".join(self.arrays[k] for k in written)
        body = "\n        ".join(self.lines)
        source = (
            f"def recognise(args):\n    try:\n        {body}\n"
            "    except (AttributeError, ValueError, KeyError, TypeError):\n        return None\n"
            f"    return [{', '.join(own)}], ({''.join(f'{s}, ' for s in self.scalars)}), [{changed}]\n"
        )
        exec(_compiled(source), self.space)
        return self.space["recognise"]  # type: ignore[no-any-return]

    # --- leaves
    def arguments(self, bound: Sequence[tuple[str, Any]]) -> None:
        for (name, value), here in zip(bound, self.apart(bound, "args")):
            if name in self.static:
                self.fixed(value, here)
            else:
                self.visit(value, here)

    def fixed(self, value: Any, here: str) -> None:
        """A static argument."""
        inside = by_contents(value)
        if inside:
            self.unless(f"type({here}) is not {self.constant(type(value))}")
        else:
            known = self.constant(value)
            self.unless(f"{here} is not {known} and not same({here}, {known})")
        if inside or hasattr(value, "__dict__"):
            self.visit(value, here, True)

    def visit(self, value: Any, here: str, static: bool = False) -> None:
        kind = type(value)
        if kind is Array and value._scope is None:
            self.array(value, here)
        elif kind in NUMBER_TYPES:
            self.number(value, here, static)
        elif isinstance(value, ATOMS):
            known = self.constant(value)
            whole = value is None or value is Ellipsis or kind is bool or isinstance(value, enum.Enum)
            self.unless(f"{here} is not {known}" + ("" if whole else f" and not alike({here}, {known})"))
        elif isinstance(value, np.generic):
            self.unless(f"type({here}) is not {self.constant(kind)}")
            if static:
                self.unless(f"{here}.tobytes() != {value.tobytes()!r}")
            else:
                self.scalars.append(f"{here}.item()")
        elif kind is np.ndarray:
            if not static or value.flags.writeable or value.base is not None:
                raise Unfit
            self.unless(f"{here} is not {self.constant(value)} or {here}.flags.writeable")
        elif kind is Array or isinstance(value, BY_IDENTITY):
            self.unless(f"{here} is not {self.constant(value)}")
        else:
            self.structure(value, here, static)

    def array(self, value: Array, here: str) -> None:
        if value._buffer is None:
            raise Unfit
        number = self.fresh("")
        self.unless(f"type({here}) is not Array")
        self.lines.append(f"b{number} = (o{number} := {here})._buffer")
        self.unless(f"b{number}.signature is not {self.constant(value._buffer.signature)}")
        self.arrays.append(f"b{number}")

    def number(self, value: Any, here: str, static: bool) -> None:
        if static:
            known = self.constant(value)
            self.unless(f"{here} is not {known} and not same({here}, {known})")
        else:
            self.unless(f"type({here}) is not {self.constant(type(value))}")
            self.scalars.append(here)

    # --- structures
    def structure(self, value: Any, here: str, static: bool) -> None:
        kind = type(value)
        if static or not isinstance(value, (list, tuple, dict)):
            found = self.seen.get(id(value))
            if found is not None:
                self.unless(f"{here} is not {found}")
                return
            self.seen[id(value)] = here
            self.kept.append(value)
        if isinstance(value, (types.FunctionType, functools.partial)):
            self.callable(value, here)
            return
        self.unless(f"type({here}) is not {self.constant(kind)}")
        if isinstance(value, (list, tuple)):
            self.parts(value, self.apart(value, here), static)
        elif isinstance(value, dict):
            keys = tuple(value)
            self.constant(keys)  # alive as long as their ids are compared
            self.unless(f"tuple(map(id, {here})) != {self.constant(tuple(map(id, keys)))}")
            self.parts(value.values(), self.apart(keys, f"{here}.values()"), static)
        elif isinstance(value, (set, frozenset)):
            self.unless(f"{here} != {self.constant(frozenset(value))}")
        elif isinstance(value, Wrapped):
            self.visit(value.fn, self.read(f"{here}.fn"), static)
        elif isinstance(value, (types.MethodType, BoundWrapped)):
            self.visit(value.__func__, self.read(f"{here}.__func__"), True)
            self.visit(value.__self__, self.read(f"{here}.__self__"), True)
        elif isinstance(value, (slice, range)):
            self.unless(f"repr({here}) != {repr(value)!r}")
        elif dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                self.visit(getattr(value, field.name), self.read(f"{here}.{field.name}"), static)
        else:
            self.plain(value, here)

    def parts(self, values: Iterable[Any], names: Sequence[str], static: bool) -> None:
        for part, name in zip(values, names):
            self.visit(part, name, static)

    def plain(self, value: Any, here: str) -> None:
        attributes = getattr(value, "__dict__", None)
        slots = slots_of(type(value))
        if attributes is None and not slots:
            self.unless(f"{here} is not {self.constant(value)}")
            return
        if attributes is not None:
            space = self.read(f"{here}.__dict__")
            self.unless(f"tuple({space}) != {self.constant(tuple(attributes))}")
            self.parts(attributes.values(), self.apart(tuple(attributes), f"{space}.values()"), True)
        for name in slots:
            if hasattr(value, name):
                self.visit(getattr(value, name), self.read(f"{here}.{name}"), True)
            else:
                self.unless(f"hasattr({here}, {name!r})")

    # --- functions
    def callable(self, value: Any, here: str) -> None:
        self.unless(f"type({here}) is not {self.constant(type(value))}")
        if isinstance(value, functools.partial):
            for name in ("func", "args", "keywords"):
                self.visit(getattr(value, name), self.read(f"{here}.{name}"), True)
        elif is_library(value):
            self.unless(f"{here} is not {self.constant(value)}")
        else:
            self.unless(f"{here}.__globals__ is not {self.constant(value.__globals__)}")
            self.surroundings(value, here)

    def surroundings(self, fn: types.FunctionType, here: str, outermost: bool = False) -> None:
        """Code, defaults, cells and globals of a function. `outermost`: the one that is called, whose defaults are arguments."""
        self.unless(f"{here}.__code__ is not {self.constant(fn.__code__)}")
        if not outermost:
            for name, values in (("__defaults__", fn.__defaults__), ("__kwdefaults__", fn.__kwdefaults__)):
                if values is None:
                    self.unless(f"{here}.{name} is not None")
                elif isinstance(values, tuple):
                    self.parts(values, self.apart(values, f"{here}.{name}"), True)
                else:
                    self.parts(values.values(), self.apart(tuple(values), f"{here}.{name}.values()"), True)
        cells = fn.__closure__ or ()
        places = [self.constant(c) for c in cells] if outermost else self.apart(cells, f"{here}.__closure__") if cells else []
        for cell, place in zip(cells, places):
            try:
                value = cell.cell_contents
            except ValueError:
                raise Unfit from None
            self.visit(value, self.read(f"{place}.cell_contents"), True)
        names, space = globals_of(fn.__code__), fn.__globals__
        for name in names:
            if name in space:
                self.visit(space[name], self.read(f"{self.constant(space)}[{name!r}]"), True)
            else:
                self.unless(f"{name!r} in {self.constant(space)}")


def _alike(value: Any, known: Any) -> bool:
    return type(value) is type(known) and bool(value == known)


def _same(value: Any, known: Any) -> bool:
    """Equal in type, value and spelling: 1, 1.0, True differ, and so do 0.0 and -0.0."""
    return type(value) is type(known) and repr(value) == repr(known) and (bool(value == known) or type(value) is float)
