"""Runtime scalars as words of eight bytes: packed in one call, compared as bytes (so that -0.0 is not 0.0 and a NaN equals itself)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from gla.dtypes import DType
from gla.errors import DtypeError, RangeError

_CODES = {
    "bool": "?7x", "int8": "b7x", "int16": "h6x", "int32": "i4x", "int64": "q", "uint8": "B7x", "uint16": "H6x",
    "uint32": "I4x", "uint64": "Q", "float16": "e6x", "bfloat16": "H6x", "float32": "f4x", "float64": "d",
    "complex64": "f4xf4x", "complex128": "dd",
}  # fmt: skip


class Packer:
    """Packs one value per dtype. `first[k]` is the word at which scalar k begins; a complex number takes two."""

    __slots__ = ("_plain", "_struct", "dtypes", "first", "pack")

    def __init__(self, dtypes: Sequence[DType]) -> None:
        self.dtypes = tuple(dtypes)
        self.first: list[int] = []
        words = 0
        for dtype in self.dtypes:
            self.first.append(words)
            words += 2 if dtype.kind == "c" else 1
        self._struct = struct.Struct("<" + "".join(_CODES[d.name] for d in self.dtypes))
        self._plain = all(d.kind != "c" and d.name != "bfloat16" for d in self.dtypes)
        self.pack: Callable[..., bytes] = self._struct.pack if self._plain else self._pack_parts

    def _pack_parts(self, *values: Any) -> bytes:
        parts: list[Any] = []
        for dtype, value in zip(self.dtypes, values, strict=True):
            if dtype.kind == "c":
                number = complex(value)
                parts += (number.real, number.imag)
            elif dtype.name == "bfloat16":
                parts.append(int(np.asarray(value, dtype.numpy).view(np.uint16)))
            else:
                parts.append(value)
        return self._struct.pack(*parts)

    def explain(self, values: Sequence[Any], error: Exception) -> Exception:
        """The error to raise when packing failed: which scalar does not fit."""
        if len(values) != len(self.dtypes):
            return DtypeError("GLA0255", f"{len(self.dtypes)} runtime scalars are needed, {len(values)} were given")
        for k, (dtype, value) in enumerate(zip(self.dtypes, values)):
            try:
                Packer((dtype,)).pack(value)
            except (OverflowError, struct.error, TypeError, ValueError):
                if isinstance(value, (int, float, complex, np.generic)):
                    return RangeError(
                        "GLA0203",
                        f"runtime scalar {k}, {value!r}, does not fit {dtype}",
                        help="use a number that fits, or pass an array",
                    )
                return DtypeError("GLA0256", f"runtime scalar {k} is {type(value).__name__}, not a number that {dtype} holds")
        return error


def words_of(packed: bytes) -> tuple[int, ...]:
    """The packed scalars as unsigned words."""
    return _words(len(packed) // 8).unpack(packed)


@cache
def _words(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}Q")
