"""DLPack's structures and capsules, by ctypes: `open_capsule` takes one over, `pack` makes one.

Layouts are those of dlpack.h (version 1.0) and the unversioned ones before it. The deleter of a capsule that we make calls what
it was given and nothing else; that of one that we took over is called when its owner object is collected.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gla import dtypes
from gla.dtypes import DType
from gla.errors import DtypeError
from gla.ir.spans import labels

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
READ_ONLY, IS_COPIED = 1, 2
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
BFLOAT = 4
NAMES = (b"dltensor", b"dltensor_versioned")  # kept: a capsule has the address of its name
USED = (b"used_dltensor", b"used_dltensor_versioned")


@dataclass(frozen=True, slots=True)
class Contents:
    """An array in memory: strides in elements; `owner` keeps the memory alive."""

    address: int
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    read_only: bool
    owner: Any


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64), ("tensor", Tensor),
    ]  # fmt: skip


def _python(name: str, result: Any, *arguments: Any) -> Any:
    """A function of Python's C interface. Objects that are being destroyed are passed by address, never as references."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_valid = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_rename = _python("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_valid_at = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer_at = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)


# --- taking over
class Taken:
    """A managed tensor that is ours: its deleter is called when this object goes."""

    __slots__ = ("_address", "_deleter")

    def __init__(self, address: int, deleter: int | None) -> None:
        self._address, self._deleter = address, deleter

    def __del__(self) -> None:
        deleter = getattr(self, "_deleter", None)
        if deleter:
            Deleter(deleter)(self._address)


def open_capsule(capsule: Any) -> Contents:
    """What a capsule holds; it is marked as used. DtypeError for a dtype that gla does not have."""
    versioned = bool(_valid(capsule, NAMES[1]))
    if not versioned and not _valid(capsule, NAMES[0]):
        raise DtypeError(
            "GLA0238", "this DLPack capsule was used before, or is none", labels=labels("here"), help="ask the producer again"
        )
    address = _pointer(capsule, NAMES[versioned])
    managed = (Versioned if versioned else Managed).from_address(address)
    if versioned and managed.major != 1:
        raise DtypeError(
            "GLA0238", f"DLPack version {managed.major}.{managed.minor} is not known to gla", labels=labels("here")
        )
    dtype = _dtype(managed.tensor)
    contents = unpack(managed.tensor, dtype, versioned and bool(managed.flags & READ_ONLY), Taken(address, managed.deleter))
    _rename(capsule, USED[versioned])
    return contents


def unpack(tensor: Tensor, dtype: DType, read_only: bool, owner: Any) -> Contents:
    """A DLTensor's fields; strides that are left out are row-major."""
    shape = tuple(tensor.shape[k] for k in range(tensor.ndim))
    if tensor.strides:
        strides = tuple(tensor.strides[k] for k in range(tensor.ndim))
    else:
        found, step = [], 1
        for n in reversed(shape):
            found.append(step)
            step *= n
        strides = tuple(reversed(found))
    return Contents((tensor.data or 0) + tensor.byte_offset, dtype, shape, strides, read_only, owner)


def _dtype(tensor: Tensor) -> DType:
    if tensor.lanes == 1:
        if tensor.code == BFLOAT and tensor.bits == 16:
            return dtypes.bfloat16
        for dtype in dtypes.ALL:
            if dtype is not dtypes.bfloat16 and (CODES[dtype.kind], dtype.bits) == (tensor.code, tensor.bits):
                return dtype
    raise DtypeError(
        "GLA0237",
        f"elements of DLPack's kind {tensor.code} with {tensor.bits} bits and {tensor.lanes} lane(s) have no dtype of gla",
        labels=labels("here"),
        help="convert them before: float16, bfloat16, float32, float64, integers, bool and complex are known",
    )


# --- making
_alive: dict[int, tuple[Any, ...]] = {}
"""By the address of a managed tensor: what it consists of, and what to call when nobody needs it."""


@Deleter
def _delete(address: int) -> None:
    _, _, end = _alive.pop(address)
    end()


@Deleter
def _drop(capsule: int) -> None:
    """A capsule goes; when nobody has taken it over, so does what it holds."""
    for name in NAMES:
        if _valid_at(capsule, name):
            _delete(_pointer_at(capsule, name))


def pack(contents: Contents, device: tuple[int, int], versioned: bool, is_copied: bool, end: Callable[[], None]) -> Any:
    """A capsule of an array in memory. `end` is called once, on any thread, when the consumer is done or nobody was one."""
    managed = (Versioned if versioned else Managed)()
    ndim = len(contents.shape)
    numbers = (ctypes.c_int64 * max(2 * ndim, 1))(*contents.shape, *contents.strides)
    tensor = managed.tensor
    tensor.data, tensor.ndim, tensor.byte_offset = contents.address, ndim, 0
    tensor.device_type, tensor.device_id = device
    dtype = contents.dtype
    tensor.code = BFLOAT if dtype is dtypes.bfloat16 else CODES[dtype.kind]
    tensor.bits, tensor.lanes = dtype.bits, 1
    start = ctypes.addressof(numbers)
    tensor.shape = ctypes.cast(start, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(start + 8 * ndim, ctypes.POINTER(ctypes.c_int64))
    if versioned:
        managed.major, managed.minor = 1, 0
        managed.flags = READ_ONLY * contents.read_only | IS_COPIED * is_copied
    managed.deleter = ctypes.cast(_delete, ctypes.c_void_p).value
    address = ctypes.addressof(managed)
    _alive[address] = (managed, numbers, end)
    return _new(address, NAMES[versioned], ctypes.cast(_drop, ctypes.c_void_p))
