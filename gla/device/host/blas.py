"""Matrix products on the host: NumPy's BLAS on arrays that are views of device addresses. 16-bit floats by way of float32."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from gla.device.base import Matmul
from gla.dtypes import bfloat16, complex64, complex128, float16, float32, float64
from gla.errors import DeviceError

HALVES = (float16, bfloat16)
DTYPES = (*HALVES, float32, float64, complex64, complex128)


def _view(call: Matmul, address: int, rows: int, columns: int, row: int, batch: int, transposed: bool) -> np.ndarray:
    """(batch, rows, columns), or (rows, columns) for a single matrix; `row` and `batch` are strides in elements."""
    size = call.dtype.itemsize
    strides = (batch * size, size, row * size) if transposed else (batch * size, row * size, size)
    last = (call.batch - 1) * batch + ((columns - 1) * row + rows - 1 if transposed else (rows - 1) * row + columns - 1)
    memory = (ctypes.c_char * ((last + 1) * size)).from_address(address)
    array = np.ndarray((call.batch, rows, columns), call.dtype.numpy, memoryview(memory), 0, strides)
    return array[0] if call.batch == 1 else array


def prepared(call: Matmul, a: int, b: int, c: int) -> Callable[[], object]:
    """The product as a call without arguments, for use as often as wanted while the memory lives.

    Raises DeviceError for another dtype than the floats and complex64, complex128.
    """
    if call.dtype not in DTYPES:
        raise DeviceError(
            "GLA0518",
            f"the host's matrix library has no product of {call.dtype}",
            help="convert to float32 before: astype(x, 'float32')",
        )
    if call.batch * call.m * call.n == 0:
        return lambda: None
    target = _view(call, c, call.m, call.n, call.ldc, call.stride_c, False)
    if call.k == 0:
        return lambda: target.fill(0)
    left = _view(call, a, call.m, call.k, call.lda, call.stride_a, call.transpose_a)
    right = _view(call, b, call.k, call.n, call.ldb, call.stride_b, call.transpose_b)
    if call.dtype in HALVES:
        return lambda: target.__setitem__(..., np.matmul(left.astype(np.float32), right.astype(np.float32)))
    return lambda: np.matmul(left, right, out=target)
