"""The type of a value: dtype, shape, and whether it is a weak scalar."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from gla.dtypes import DType

KEPT = 100_000
"""Types that are remembered."""
_types: dict[tuple[str, tuple[int, ...], bool], Type] = {}


class Type:
    """An array of `shape` with elements of `dtype`. `weak`: a scalar that takes the dtype of the array it meets.

    Immutable. Equal types are one object as a rule: every look-up of a node hashes one.
    """

    __slots__ = ("_hash", "dtype", "shape", "weak")

    dtype: DType
    shape: tuple[int, ...]
    weak: bool
    _hash: int

    def __new__(cls, dtype: DType, shape: tuple[int, ...] = (), weak: bool = False) -> Type:
        key = (dtype.name, shape, weak)
        found = _types.get(key)
        if found is None:
            found = object.__new__(cls)
            for name, value in (("dtype", dtype), ("shape", shape), ("weak", weak), ("_hash", hash(key))):
                object.__setattr__(found, name, value)
            if len(_types) > KEPT:
                _types.clear()
            found = _types.setdefault(key, found)
        return found

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Type):
            return NotImplemented
        return self.dtype is other.dtype and self.shape == other.shape and self.weak == other.weak

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Type is immutable: {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Type, (self.dtype, self.shape, self.weak)

    def __repr__(self) -> str:
        return f"Type({self.dtype!r}, {self.shape}, {self.weak})"

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        text = self.dtype.short + (f"[{', '.join(map(str, self.shape))}]" if self.shape else "")
        return f"weak {text}" if self.weak else text


@dataclass(frozen=True, slots=True)
class TupleType:
    """What a loop or a branch gives: several values, taken apart by `item` nodes."""

    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"
