"""cuBLAS through ctypes: the one file that talks to it. Row-major products by column-major calls, operands swapped.

A row-major matrix is its transpose in column-major storage, and (A B)^T = B^T A^T: so the library is given B first, and no
data moves. TF32 only when a call allows it; 16-bit floats are added in float32 and rounded once. The library never allocates in a graph: its workspace is given, its handle is
made before. Raises DeviceError or OutOfMemoryError that name the routine and the shapes.
"""

from __future__ import annotations

import ctypes
from typing import Any

from gla.device.base import Matmul
from gla.device.cuda import locate
from gla.device.cuda.errors import cublas_error
from gla.dtypes import bfloat16, complex64, complex128, float16, float32, float64
from gla.errors import InternalError

MOST_BATCH = 65_535
NO_TRANSPOSE, TRANSPOSE = 0, 1
DEFAULT_MATH = 0
DEFAULT_ALGORITHM = -1
COMPUTE_32F, COMPUTE_64F, COMPUTE_32F_FAST_TF32 = 68, 70, 77
# dtype -> (cudaDataType, cublasComputeType, C type of a factor's parts)
TYPES = {
    float16: (2, COMPUTE_32F, ctypes.c_float),
    bfloat16: (14, COMPUTE_32F, ctypes.c_float),
    float32: (0, COMPUTE_32F, ctypes.c_float),
    float64: (1, COMPUTE_64F, ctypes.c_double),
    complex64: (4, COMPUTE_32F, ctypes.c_float),
    complex128: (5, COMPUTE_64F, ctypes.c_double),
}


def workspace_bytes(capability: tuple[int, int]) -> int:
    """The workspace that cuBLAS recommends: 32 MiB on Hopper and later, 8 MiB before."""
    return (32 if capability[0] >= 9 else 8) << 20


# argument types of the two routines: p pointer, i enumeration, q 64-bit count
GEMM = "p ii qqq p piq piq p piq ii"
BATCHED = "p ii qqq p piqq piqq p piqq q ii"
KINDS = {"p": ctypes.c_void_p, "i": ctypes.c_int, "q": ctypes.c_int64}


class Cublas:
    """One handle of the library. Whoever calls holds the device's library lock and has made its context current."""

    def __init__(self) -> None:
        found = locate.load("cublas")
        self.path, self._library = found.path, found.library
        self._gemm = self._function("cublasGemmEx_64", GEMM)
        self._batched = self._function("cublasGemmStridedBatchedEx_64", BATCHED)
        self._set_stream = self._function("cublasSetStream_v2", "pp")
        self._set_workspace = self._function("cublasSetWorkspace_v2", "ppq")
        handle = ctypes.c_void_p()
        self._check(self._library.cublasCreate_v2(ctypes.byref(handle)), "cublasCreate")
        self._handle = handle
        self._check(self._function("cublasSetMathMode", "pi")(handle, DEFAULT_MATH), "cublasSetMathMode")
        self._factors = {dtype: _factors(part) for dtype, (_, _, part) in TYPES.items()}

    def _function(self, name: str, kinds: str) -> Any:
        function = getattr(self._library, name)
        function.argtypes = [KINDS[kind] for kind in kinds if kind != " "]
        function.restype = ctypes.c_int
        return function

    def _check(self, status: int, call: str, detail: str = "") -> None:
        if status:
            raise cublas_error(status, call, detail)

    def use(self, stream: int, workspace: int, nbytes: int) -> None:
        """Work on `stream` with this workspace. Setting a stream gives up the workspace, so the order matters."""
        if not workspace:
            raise InternalError("GLA9964", "a call of the matrix library was given no workspace")
        self._check(self._set_stream(self._handle, stream), "cublasSetStream")
        self._check(self._set_workspace(self._handle, workspace, nbytes), "cublasSetWorkspace")

    def matmul(self, call: Matmul, a: int, b: int, c: int) -> None:
        """C = A @ B on the stream of `use`; m, n, k and batch are at least 1. A large batch goes in pieces."""
        kind, compute, _ = TYPES[call.dtype]
        if call.tf32 and call.dtype is float32:
            compute = COMPUTE_32F_FAST_TF32
        one, zero = self._factors[call.dtype]
        head = (self._handle, _flag(call.transpose_b), _flag(call.transpose_a), call.n, call.m, call.k, one)
        if call.batch == 1:
            tail = (b, kind, call.ldb, a, kind, call.lda, zero, c, kind, call.ldc, compute, DEFAULT_ALGORITHM)
            self._check(self._gemm(*head, *tail), "cublasGemmEx", describe(call))
            return
        size = call.dtype.itemsize
        for first, count in pieces(call.batch):
            right = (b + first * call.stride_b * size, kind, call.ldb, call.stride_b)
            left = (a + first * call.stride_a * size, kind, call.lda, call.stride_a)
            out = (c + first * call.stride_c * size, kind, call.ldc, call.stride_c)
            status = self._batched(*head, *right, *left, zero, *out, count, compute, DEFAULT_ALGORITHM)
            self._check(status, "cublasGemmStridedBatchedEx", describe(call))


def version() -> tuple[int, int, int]:
    """cuBLAS's version. Raises DeviceError when it is missing."""
    library, parts = locate.load("cublas").library, []
    for property in range(3):
        value = ctypes.c_int()
        if status := library.cublasGetProperty(property, ctypes.byref(value)):
            raise cublas_error(status, "cublasGetProperty")
        parts.append(value.value)
    return parts[0], parts[1], parts[2]


def pieces(batch: int) -> list[tuple[int, int]]:
    """(first, count) of the pieces that a batch goes in: the library's kernels number a batch in the grid's z."""
    return [(first, min(MOST_BATCH, batch - first)) for first in range(0, batch, MOST_BATCH)]


def describe(call: Matmul) -> str:
    batch = f"{call.batch:,} x " if call.batch != 1 else ""
    return f"matmul {batch}({call.m}, {call.k}) @ ({call.k}, {call.n}) of {call.dtype}"


def _flag(transpose: bool) -> int:
    return TRANSPOSE if transpose else NO_TRANSPOSE


def _factors(part: Any) -> tuple[Any, Any]:
    """1 and 0 (and their imaginary parts) where the library reads them: it does so at the call, also when that is captured."""
    return (part * 2)(1, 0), (part * 2)(0, 0)
