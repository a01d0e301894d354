"""Dtypes and how they combine. Importable by all, imports nothing of the rest.

Within a kind the Array API's promotion table; across kinds NumPy's `result_type`; weak Python scalars as in NumPy 2.
bfloat16 has no NumPy type of its own: `DType.numpy` asks ml_dtypes for it, when it is first needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from gla.errors import DtypeError, RangeError

KINDS = {"b": "bool", "i": "signed integer", "u": "unsigned integer", "f": "float", "c": "complex"}


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type: `name` as in the Array API, `kind` one of b i u f c, `itemsize` in bytes, `short` as in `.gla`."""

    name: str
    kind: str
    itemsize: int
    short: str

    def __repr__(self) -> str:
        return f"gla.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> str | tuple[Any, ...]:
        return (as_dtype, (self.name,))

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of the same bits; bfloat16 is ml_dtypes'."""
        return _numpy(self)

    @property
    def bits(self) -> int:
        return self.itemsize * 8

    def __eq__(self, other: object) -> bool:
        """Equal to itself, its name, and what NumPy would call the same dtype."""
        if self is other:
            return True
        if isinstance(other, DType) or other is None:
            return False
        try:
            return as_dtype(other) is self
        except (DtypeError, TypeError):
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)


bool_ = DType("bool", "b", 1, "bool")
int8, int16 = DType("int8", "i", 1, "i8"), DType("int16", "i", 2, "i16")
int32, int64 = DType("int32", "i", 4, "i32"), DType("int64", "i", 8, "i64")
uint8, uint16 = DType("uint8", "u", 1, "u8"), DType("uint16", "u", 2, "u16")
uint32, uint64 = DType("uint32", "u", 4, "u32"), DType("uint64", "u", 8, "u64")
float16, bfloat16 = DType("float16", "f", 2, "f16"), DType("bfloat16", "f", 2, "bf16")
float32, float64 = DType("float32", "f", 4, "f32"), DType("float64", "f", 8, "f64")
complex64, complex128 = DType("complex64", "c", 8, "c64"), DType("complex128", "c", 16, "c128")

ALL = (
    bool_,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
    float16,
    bfloat16,
    float32,
    float64,
    complex64,
    complex128,
)
_BY_NAME = {d.name: d for d in ALL} | {d.short: d for d in ALL}
_PYTHON = {bool: bool_, int: int64, float: float64, complex: complex128}


@cache
def _numpy(dtype: DType) -> np.dtype[Any]:
    if dtype is bfloat16:
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(dtype.name)


def as_dtype(value: Any) -> DType:
    """The DType that `value` names: a DType, its name ("float32" or "f32"), a NumPy dtype or scalar type, a Python number type."""
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    if isinstance(value, type) and value in _PYTHON:
        return _PYTHON[value]
    try:
        name = np.dtype(value).name
    except (TypeError, ValueError):
        name = ""
    if name in _BY_NAME:
        return _BY_NAME[name]
    meant = getattr(value, "dtype", None)  # an annotation, gla.f32
    help = f"write gla.{meant.name}" if isinstance(meant, DType) else "use one of " + ", ".join(d.name for d in ALL)
    raise DtypeError("GLA0201", f"{value!r} is not a dtype of gla", help=help)


def real_of(dtype: DType) -> DType:
    """The dtype of the parts of a complex dtype; a real dtype is its own."""
    return {complex64: float32, complex128: float64}.get(dtype, dtype)


def complex_of(dtype: DType, default_float: DType = float64) -> DType:
    """The complex dtype as wide as `dtype`: float16, bfloat16 and float32 give complex64, float64 complex128."""
    if dtype.kind == "c":
        return dtype
    if dtype.kind != "f":
        dtype = default_float
    return complex128 if dtype is float64 else complex64


def promote(a: DType, b: DType) -> DType:
    """The dtype that strong operands of dtypes `a` and `b` meet in.

    Raises DtypeError for uint64 with a signed integer, which no integer dtype holds.
    """
    if a is b:
        return a
    return _promote(a, b)


@cache
def _promote(a: DType, b: DType) -> DType:
    if a.kind == "b":
        return b
    if b.kind == "b":
        return a
    if {a.kind, b.kind} == {"i", "u"}:
        signed, unsigned = (a, b) if a.kind == "i" else (b, a)
        if unsigned is uint64:
            raise DtypeError(
                "GLA0202",
                f"no integer dtype holds both {a} and {b}",
                help=f"cast one of them: astype(x, '{signed}') or astype(x, 'float64')",
            )
        return max((int8, int16, int32, int64)[(1, 2, 4).index(unsigned.itemsize) + 1], signed, key=lambda d: d.itemsize)
    if a.kind == b.kind and a.kind in "iu":
        return max(a, b, key=lambda d: d.itemsize)
    if a.kind == b.kind == "f":
        return float32 if {a, b} == {float16, bfloat16} else max(a, b, key=lambda d: d.itemsize)
    return _across(a, b)


def _across(a: DType, b: DType) -> DType:
    """Kinds differ, or both are complex: the narrowest float that holds both, complex if one is."""
    fa, fb = _float_for(a, b), _float_for(b, a)
    wide = fa if fa is fb else _promote(fa, fb)
    return complex_of(wide) if "c" in (a.kind, b.kind) else wide


def _float_for(dtype: DType, other: DType) -> DType:
    """The narrowest float that holds every value of `dtype`, of `other`'s format where both are two bytes."""
    if dtype.kind in "fc":
        return real_of(dtype)
    if dtype.itemsize == 1:
        return other if other in (float16, bfloat16) else float16
    return float32 if dtype.itemsize == 2 else float64


def weak_dtype(dtype: DType, weak: DType, default_float: DType = float64) -> DType:
    """What a strong operand of `dtype` and a weak scalar of `weak` (bool, int64, float64, complex128) meet in."""
    order = "biufc"
    if weak.kind == "b" or (weak.kind in "iu" and dtype.kind != "b"):
        return dtype
    if weak.kind in "iu":
        return int64
    if weak.kind == "f":
        return dtype if order.index(dtype.kind) >= order.index("f") else default_float
    return complex_of(dtype, default_float)


def integer_range(dtype: DType) -> tuple[int, int]:
    """The least and greatest value of an integer dtype."""
    return (-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1) if dtype.kind == "i" else (0, (1 << dtype.bits) - 1)


def check_fits(value: int, dtype: DType, what: str = "the number") -> None:
    """Raise RangeError unless the integer dtype holds `value`."""
    low, high = integer_range(dtype)
    if not low <= value <= high:
        raise RangeError(
            "GLA0203",
            f"{what} {value} does not fit {dtype}, which holds {low} to {high}",
            help=f"use a wider dtype, e.g. astype(x, 'int64'), or a number within {low}..{high}",
        )
