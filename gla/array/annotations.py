"""`gla.f32["n, 3"]` as an annotation: dtype and shape of an argument, checked at the call. One letter names one extent.

A name stands for one number in all arguments of the call; numbers are exact; `...` takes any leading axes.
"""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import Any

from gla import dtypes
from gla.array.value import Array
from gla.dtypes import DType
from gla.errors import DtypeError, ShapeError
from gla.ir.spans import labels


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array of `dtype` whose extents match `extents`: numbers, names, or "..." in front."""

    dtype: DType
    extents: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return f"{self.dtype.short}[{', '.join(self.extents)}]" if self.extents is not None else self.dtype.short


@dataclass(frozen=True, slots=True)
class Kind:
    """`gla.f32`: an annotation for one array of that dtype; subscripted with extents, of that shape."""

    dtype: DType

    def __getitem__(self, extents: Any) -> ArrayType:
        text = (
            extents if isinstance(extents, str) else ", ".join(map(str, extents if isinstance(extents, tuple) else (extents,)))
        )
        return ArrayType(self.dtype, tuple(part.strip() for part in text.split(",") if part.strip()))

    def __repr__(self) -> str:
        return f"gla.{self.dtype.short}"


class scalar:
    """An annotation: one number."""


KINDS = {d.short: Kind(d) for d in dtypes.ALL}
"""Annotations by their short names: f32, i64, c128, ..."""


def of(fn: Any) -> dict[str, Any]:
    """The annotations of a function that say something about arrays."""
    try:
        hints = typing.get_type_hints(fn)
    except (NameError, TypeError, AttributeError, SyntaxError):
        hints = dict(getattr(fn, "__annotations__", {}))
    return {n: h for n, h in hints.items() if isinstance(h, (ArrayType, Kind)) or h is scalar}


def check(wanted: dict[str, Any], arguments: list[tuple[str, Any]], name: str) -> None:
    """Raise DtypeError or ShapeError naming argument, wanted and given."""
    sizes: dict[str, tuple[int, str]] = {}
    for parameter, value in arguments:
        hint = wanted.get(parameter)
        if hint is None or not isinstance(value, Array):
            continue
        if hint is scalar:
            if value.ndim:
                raise ShapeError(
                    "GLA0330", f"{parameter} of {name} is one number, not {value._type}", labels=labels("called here")
                )
            continue
        if value.dtype is not hint.dtype and not (value._type.weak and hint.dtype.kind == value.dtype.kind):
            raise DtypeError(
                "GLA0223",
                f"{parameter} of {name} must be {hint}, not {value._type}",
                labels=labels("called here"),
                help=f"cast it: {parameter}.astype('{hint.dtype}')",
            )
        if isinstance(hint, ArrayType) and hint.extents is not None:
            _shape(hint, parameter, value, name, sizes)


def _shape(hint: ArrayType, parameter: str, value: Array, name: str, sizes: dict[str, tuple[int, str]]) -> None:
    extents, shape = list(hint.extents or ()), list(value.shape)
    if extents and extents[0] == "...":
        extents = extents[1:]
        shape = shape[max(0, len(shape) - len(extents)) :]
    problem = f"{value.ndim} axes" if len(extents) != len(shape) else ""
    for extent, size in zip(extents, shape):
        if extent == "_" or problem:
            continue
        if extent.isdecimal():
            problem = f"{size}, not {extent}" if int(extent) != size else ""
        else:
            known, where = sizes.setdefault(extent, (size, parameter))
            problem = f"{extent} = {size}, but {extent} = {known} in {where}" if known != size else ""
    if problem:
        raise ShapeError(
            "GLA0330",
            f"{parameter} of {name} must be {hint}, not {value._type}: {problem}",
            labels=labels("called here"),
            help="pass an array of that shape, or change the annotation",
        )
