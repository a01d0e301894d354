"""The signature of a call: what of arguments and surroundings the traced program depends on, as a hashable key.

`Walk` visits values leaf by leaf. Arguments: arrays by dtype, shape and device; numbers by type (runtime scalars); bool, str,
None, enums, dtypes by value; containers and dataclasses by structure; functions by code, closure and defaults. Surroundings
(closure cells, globals that the code names, attributes of plain objects): the same, but numbers count by value. Called by
function.py on a miss of the short path; what it cannot read is refused by name.
"""

from __future__ import annotations

import dataclasses
import dis
import enum
import functools
import types
from collections.abc import Hashable
from typing import Any

import numpy as np

from gla import dtypes
from gla.array.buffer import signature_of
from gla.array.scope import leak_error
from gla.array.value import Array
from gla.dtypes import DType
from gla.errors import DtypeError
from gla.ir.spans import _HOUSE, labels
from gla.ir.types import Type

NUMBER_TYPES = {int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128}
ATOMS = (bool, str, bytes, type(None), type(Ellipsis), DType, np.dtype, enum.Enum)
BY_IDENTITY = (types.ModuleType, type, types.BuiltinFunctionType, types.GenericAlias, np.ufunc, types.MethodDescriptorType)


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Where code lies that is not the user's."""
    import sysconfig

    found = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return (*sorted(found | {_HOUSE.rstrip("/")}), "<frozen")


class Same:
    """An object that counts by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


class Wrapped:
    """What a `gla.function` wraps, for those who must look through it."""

    __slots__ = ()
    fn: Any


class BoundWrapped:
    """A `gla.function` as a method."""

    __slots__ = ("__func__", "__self__")
    __func__: Any
    __self__: Any


class Walk:
    """Collects the key, and the leaves in order: arrays (of gla or NumPy), runtime scalars; with names when `naming`.

    `surrounding`: NumPy arrays of the surroundings, which become constants of the entry (copied once).
    """

    __slots__ = ("arrays", "key", "names", "naming", "scalar_names", "scalar_types", "scalars", "seen", "surrounding")

    def __init__(self, naming: bool = False) -> None:
        self.key: list[Hashable] = []
        self.arrays: list[Any] = []
        self.scalars: list[Any] = []
        self.scalar_types: list[Type] = []
        self.names: list[str] = []
        self.scalar_names: list[str] = []
        self.seen: dict[int, tuple[int, Any]] = {}
        self.surrounding: list[np.ndarray] = []
        self.naming = naming

    # --- leaves
    def visit(self, value: Any, path: str, static: bool = False) -> None:
        """Add `value`, called `path` in messages. `static`: numbers count by value."""
        kind = type(value)
        if kind is Array and value._scope is not None:
            if not static:
                raise leak_error(value)
            self.key.append(Same(value))
        elif kind is Array:
            self.array(value, signature_of(_strong(value._type), value._device), path)
        elif kind in NUMBER_TYPES:
            self.number(value, kind, path, static)
        elif isinstance(value, ATOMS):
            self.key.append((kind, value))
        elif isinstance(value, np.generic):
            self.numpy_scalar(value, path, static)
        elif kind is np.ndarray:
            self.numpy_array(value, path, static)
        elif isinstance(value, BY_IDENTITY):
            self.key.append(Same(value))
        elif hasattr(kind, "__gla_operand__"):
            raise _refusal(value, path)
        else:
            self.structure(value, path, static)

    def array(self, value: Any, signature: Hashable, path: str) -> None:
        self.key.append(signature)
        self.arrays.append(value)
        if self.naming:
            self.names.append(path)

    def number(self, value: Any, kind: type, path: str, static: bool) -> None:
        if static:
            self.key.append((kind, repr(value)))
            return
        self.key.append(kind)
        self.scalars.append(value)
        self.scalar_types.append(Type(NUMBER_TYPES[kind], (), True))
        if self.naming:
            self.scalar_names.append(path)

    def numpy_scalar(self, value: np.generic, path: str, static: bool) -> None:
        dtype = dtypes.as_dtype(value.dtype)
        if static:
            self.key.append((dtype.name, value.tobytes()))
            return
        self.key.append(("scalar", dtype.name))
        self.scalars.append(value.item())
        self.scalar_types.append(Type(dtype))
        if self.naming:
            self.scalar_names.append(path)

    def numpy_array(self, value: np.ndarray, path: str, static: bool) -> None:
        if value.dtype.kind not in "biufcV" or value.dtype.names:
            self.key.append(Same(value))
            if not static:
                raise _refusal(value, path)
            return
        if not static:
            self.array(value, signature_of(Type(dtypes.as_dtype(value.dtype), value.shape), ""), path)
        elif not value.flags.writeable and value.base is None:
            self.key.append(Same(value))
            self.surrounding.append(value)
        else:
            # The body may compute with it in NumPy, which nobody sees: its contents are part of the key.
            import hashlib

            content = hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=16).digest()
            self.key.append((value.dtype.str, value.shape, content))
            self.surrounding.append(value)

    # --- structures
    def structure(self, value: Any, path: str, static: bool) -> None:
        kind = type(value)
        if static or not isinstance(value, (list, tuple, dict)):
            found = self.seen.get(id(value))
            if found is not None:
                self.key.append(("seen", found[0]))
                return
            self.seen[id(value)] = (len(self.seen), value)
        if isinstance(value, (list, tuple)):
            self.key.append((kind, len(value)))
            for k, part in enumerate(value):
                self.visit(part, f"{path}[{k}]" if self.naming else path, static)
        elif isinstance(value, dict):
            self.mapping(value, path, static)
        elif isinstance(value, (set, frozenset)):
            self.key.append((kind, frozenset(value)))
        elif isinstance(value, Wrapped):
            self.visit(value.fn, path, static)
        elif isinstance(value, (types.FunctionType, types.MethodType, BoundWrapped, functools.partial)):
            self.callable(value, path)
        elif isinstance(value, (slice, range)):
            self.key.append((kind, repr(value)))
        elif dataclasses.is_dataclass(value):
            self.key.append((kind, "dataclass"))
            for field in dataclasses.fields(value):
                self.visit(getattr(value, field.name), f"{path}.{field.name}", static)
        else:
            self.plain(value, path, static)

    def mapping(self, value: dict[Any, Any], path: str, static: bool) -> None:
        self.key.append((type(value), len(value)))
        for name, part in value.items():
            if not isinstance(name, (str, int, float, bool, tuple, bytes, enum.Enum, type(None), DType, type)):
                raise _refusal(name, f"a key of {path}")
            self.key.append((type(name), name))
            self.visit(part, f"{path}[{name!r}]" if self.naming else path, static)

    def plain(self, value: Any, path: str, static: bool) -> None:
        """An object: the class by identity, the attributes by value."""
        attributes = getattr(value, "__dict__", None)
        slots = slots_of(type(value))
        if attributes is None and not slots:
            if not static:
                raise _refusal(value, path)
            self.key.append(Same(value))
            return
        self.key.append((type(value), "object"))
        for name, part in [*(attributes or {}).items(), *((n, getattr(value, n)) for n in slots if hasattr(value, n))]:
            self.key.append(name)
            self.visit(part, f"{path}.{name}", True)

    def callable(self, value: Any, path: str) -> None:
        if isinstance(value, functools.partial):
            self.key.append("partial")
            self.visit(value.func, path, True)
            self.visit(value.args, path, True)
            self.visit(value.keywords, path, True)
        elif isinstance(value, (types.MethodType, BoundWrapped)):
            self.key.append("method")
            self.visit(value.__func__, path, True)
            self.visit(value.__self__, f"{path}.__self__", True)
        else:
            self.function(value, path)

    def function(self, fn: types.FunctionType, path: str) -> None:
        """A Python function: its code, and what surrounds it: defaults, cells, the globals that it names."""
        code = fn.__code__
        if is_library(fn):
            self.key.append(Same(fn))
            return
        self.seen.setdefault(id(fn), (len(self.seen), fn))
        self.key.append(code)
        self.surroundings(fn, path, defaults=True)

    def surroundings(self, fn: types.FunctionType, path: str, defaults: bool) -> None:
        """What `fn` depends on besides its arguments. `defaults`: count those too (not for the function that is called)."""
        if defaults:
            for k, part in enumerate((*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values())):
                self.visit(part, f"default {k} of {path}", True)
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
            try:
                value = cell.cell_contents
            except ValueError:
                self.key.append("empty")
                continue
            self.visit(value, name, True)
        names = globals_of(fn.__code__)
        space = fn.__globals__
        for name in names:
            if name in space:
                self.visit(space[name], name, True)
            else:
                self.key.append(None)


def _strong(type_: Type) -> Type:
    return type_ if not type_.weak else Type(type_.dtype, type_.shape)


def slots_of(cls: type) -> list[str]:
    """The names of the slots of a class and its bases."""
    found: list[str] = []
    for each in cls.__mro__:
        names = each.__dict__.get("__slots__", ())
        found += (names,) if isinstance(names, str) else names
    return [n for n in found if n not in ("__weakref__", "__dict__")]


def is_library(fn: types.FunctionType) -> bool:
    """Whether a function is the standard library's, an installed package's or gla's: it counts by identity."""
    return fn.__code__.co_filename.startswith(_libraries())


def by_contents(value: Any) -> bool:
    """Whether a static argument has no value of its own to compare: what is in it says."""
    return type(value).__hash__ is object.__hash__ and not callable(value)


def _refusal(value: Any, path: str) -> DtypeError:
    return DtypeError(
        "GLA0219",
        f"{path} is a {type(value).__name__}, which a gla.function cannot take",
        labels=labels("called here"),
        help="pass arrays, numbers, bool, str, None, enums, functions, or lists, tuples, dicts and dataclasses of them; "
        "a hashable value may be static",
    )


@functools.lru_cache(maxsize=4096)
def globals_of(code: types.CodeType) -> tuple[str, ...]:
    """The globals that a code object names, those inside it (lambdas, comprehensions) included."""
    found: dict[str, None] = {}
    stack = [code]
    while stack:
        one = stack.pop()
        for instruction in dis.get_instructions(one):
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                found[instruction.argval] = None
        stack.extend(c for c in one.co_consts if isinstance(c, types.CodeType))
    return tuple(found)
