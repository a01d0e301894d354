"""The type of a value: dtype, shape, and whether it is a weak scalar."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from gla.dtypes import DType


@dataclass(frozen=True, slots=True)
class Type:
    """An array of `shape` with elements of `dtype`. `weak`: a scalar that takes the dtype of the array it meets."""

    dtype: DType
    shape: tuple[int, ...] = ()
    weak: bool = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def with_shape(self, shape: tuple[int, ...]) -> Type:
        return Type(self.dtype, shape, self.weak and not shape)

    def __str__(self) -> str:
        text = self.dtype.short + (f"[{', '.join(map(str, self.shape))}]" if self.shape else "")
        return f"weak {text}" if self.weak else text


@dataclass(frozen=True, slots=True)
class TupleType:
    """What a loop or a branch gives: several values, taken apart by `item` nodes."""

    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"
