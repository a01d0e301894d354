"""One array in NumPy's own format. Objects, strings, dates and records are refused; other byte orders and Fortran order are
read and become native, row-major. GLA0805: what is in the file is not an array that gla can take."""

from __future__ import annotations

import os
from tokenize import TokenError
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy_format

from gla.errors import GlaFileError

MAGIC = b"\x93NUMPY"
_NAMES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "float32", "float64", "complex64", "complex128")  # fmt: skip
TAKEN = {np.dtype(name) for name in _NAMES}
CHUNK = 1 << 24


def read_npy(stream: BinaryIO, name: object, nbytes: int | None = None) -> np.ndarray:
    """The array in a stream. `name`: how errors call it; `nbytes`: how long the stream is, where that is known."""
    shape, fortran, dtype = _header(stream, name)
    if dtype.newbyteorder("=") not in TAKEN:
        raise GlaFileError("GLA0805", f"{name} holds {_kind(dtype)}; gla takes bool, integers, floats and complex numbers")
    count = 1
    for extent in shape:
        count *= extent
    wanted = count * dtype.itemsize
    if nbytes is not None and nbytes - stream.tell() < wanted:
        raise _cut(name, nbytes - stream.tell(), wanted)
    out = np.empty(count, dtype)
    view = out.view(np.uint8)
    at = 0
    while at < wanted:
        data = stream.read(min(CHUNK, wanted - at))
        if not data:
            raise _cut(name, at, wanted)
        view[at : at + len(data)] = np.frombuffer(data, np.uint8)
        at += len(data)
    # A byte of a bool may hold anything in a file; in gla it is 0 or 1.
    array = out.view(np.uint8) != 0 if dtype.kind == "b" else out.astype(dtype.newbyteorder("="), copy=False)
    return np.ascontiguousarray(array.reshape(shape[::-1]).T) if fortran else array.reshape(shape)


def _header(stream: BinaryIO, name: object) -> tuple[tuple[int, ...], bool, np.dtype]:
    try:
        major, _ = npy_format.read_magic(stream)
        # Version 3 differs from 2 in the encoding of field names alone, and records are not taken.
        read = npy_format.read_array_header_1_0 if major == 1 else npy_format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    except (ValueError, SyntaxError, TypeError, TokenError, RecursionError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise GlaFileError(
            "GLA0805", f"{name} is not a .npy file: {reason}", help="write it with numpy.save(path, array)"
        ) from None
    if min(shape, default=0) < 0:
        raise GlaFileError("GLA0805", f"{name} is damaged: it declares the shape {shape}")
    return shape, fortran, dtype


def _kind(dtype: np.dtype) -> str:
    if dtype.hasobject:
        return "Python objects"
    if dtype.names:
        return f"records with the fields {', '.join(dtype.names)}"
    return f"values of dtype {dtype}"


def _cut(name: object, have: int, wanted: int) -> GlaFileError:
    return GlaFileError("GLA0805", f"{name} is cut short: {have} of {wanted} bytes of data are there")


def write_npy(stream: BinaryIO, array: np.ndarray) -> None:
    """Write one array. bfloat16, which the format cannot tell from raw bytes, is written as float32."""
    npy_format.write_array(stream, storable(array), allow_pickle=False)


def storable(array: np.ndarray) -> np.ndarray:
    """The array row-major, in a dtype that NumPy's format knows; no value changes."""
    array = np.asarray(array)
    wide = array if array.dtype in TAKEN else array.astype(np.float32)
    return wide if wide.flags.c_contiguous else wide.copy(order="C")


def length(stream: BinaryIO) -> int | None:
    """How many bytes a regular file holds; None for pipes and the like."""
    try:
        return os.fstat(stream.fileno()).st_size or None
    except (OSError, ValueError):
        return None
