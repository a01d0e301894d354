"""NVRTC without a GPU; libraries that are missing are named with what to install; products are handed to cuBLAS rightly."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from gla.device.base import Matmul
from gla.device.cuda import cublas, locate, nvrtc, probe
from gla.device.cuda.cublas import Cublas
from gla.dtypes import complex64, complex128, float32, float64
from gla.errors import DeviceError, InternalError

SOURCE = 'extern "C" __global__ void f(float* x) { x[0] = 1; }'


# --- NVRTC
def test_a_known_architecture_gives_machine_code():
    assert nvrtc.compile(SOURCE, "f", "sm_90")[:4] == b"\x7fELF"


def test_a_newer_gpu_gets_ptx_of_the_newest_known():
    newest = nvrtc.architectures()[-1]
    assert f".target sm_{newest}".encode() in nvrtc.compile(SOURCE, "f", "sm_999")


def test_an_older_gpu_is_refused_by_name():
    with pytest.raises(DeviceError, match="does not compile for sm_10; its oldest is sm_"):
        nvrtc.compile(SOURCE, "f", "sm_10")


def test_an_error_shows_the_line():
    with pytest.raises(InternalError, match='identifier "y" is undefined') as caught:
        nvrtc.compile('extern "C" __global__ void f(float* x)\n{ x[0] = y; }\n', "f", "sm_90")
    assert caught.value.diagnostic.span.line == 2 and "{ x[0] = y; }" in str(caught.value)


def test_a_missing_header_names_the_wheel():
    with pytest.raises(InternalError, match="no_such_header") as caught:
        nvrtc.compile("#include <no_such_header.h>\n" + SOURCE, "f", "sm_90")
    assert "nvidia-cuda-runtime-cu12" in str(caught.value)


def test_products_and_sums_are_not_contracted():
    source = 'extern "C" __global__ void f(float* x) { x[0] = x[0] * x[1] + x[2]; }'
    text = nvrtc.compile(source, "f", "sm_999").decode()
    assert "fma." not in text and "mul.rn.f32" in text and "add.rn.f32" in text


def test_the_compiler_is_known_by_name_before_it_is_loaded():
    assert "sm_90" in nvrtc.identity("sm_90") and "--fmad=false" in nvrtc.identity("sm_90")


def test_builtins_of_another_version_are_refused(tmp_path):
    (tmp_path / "libnvrtc-builtins.so.11.8").touch()
    with pytest.raises(DeviceError, match=r"NVRTC 12\.9 in .* has no builtins") as caught:
        nvrtc._check_builtins(tmp_path, 12, 9)
    assert "libnvrtc-builtins.so.11.8" in str(caught.value)


# --- what is missing
@pytest.mark.parametrize(("version", "extra"), [(None, "cuda12"), (12040, "cuda12"), (13000, "cuda13")])
def test_the_extra_follows_the_driver(monkeypatch, version, extra):
    monkeypatch.setattr(locate, "driver_version", lambda: version)
    assert locate.install() == f'pip install "gla[{extra}]"'


def test_a_missing_library_says_where_it_was_looked_for(monkeypatch):
    monkeypatch.setitem(locate.NAMES, "cublas", ("libnot_there.so.1",))
    monkeypatch.setattr(locate, "_pathfinder", lambda name, looked: looked.append("cuda.pathfinder: nowhere"))
    with pytest.raises(DeviceError, match="libcublas, which the device 'cuda' needs") as caught:
        locate._load.__wrapped__("cublas")
    assert "libnot_there.so.1" in str(caught.value) and "nowhere" in str(caught.value) and "pip install" in str(caught.value)


def test_the_doctor_is_told_of_everything_and_nothing_raises(monkeypatch):
    def broken():
        raise OSError("a broken installation")

    monkeypatch.setattr(nvrtc, "version", broken)
    findings = {finding.name: finding for finding in probe()}
    assert {"NVIDIA driver", "cuda-bindings", "NVRTC", "cuBLAS"} <= set(findings)
    assert not findings["NVRTC"].ok and "a broken installation" in findings["NVRTC"].text


# --- cuBLAS: a column-major product by NumPy in place of the library
class ColumnMajor:
    """Does what cublasGemm*Ex_64 are documented to do, on host memory."""

    def __init__(self):
        self.batches = []
        self.compute = []

    def __call__(self, *args):
        if len(args) == 19:
            (_, ta, tb, m, n, k, _, a, kind, lda, b, _, ldb, _, c, _, ldc, compute, _) = args
            batch, sa, sb, sc = 1, 0, 0, 0
        else:
            (_, ta, tb, m, n, k, _, a, kind, lda, sa, b, _, ldb, sb, _, c, _, ldc, sc, batch, compute, _) = args
        self.batches.append(batch)
        self.compute.append(compute)
        dtype = {0: np.float32, 1: np.float64, 4: np.complex64, 5: np.complex128}[kind]
        for i in range(batch):
            left = column_major(a, i * sa, (k, m) if ta else (m, k), lda, dtype)
            right = column_major(b, i * sb, (n, k) if tb else (k, n), ldb, dtype)
            column_major(c, i * sc, (m, n), ldc, dtype)[...] = (left.T if ta else left) @ (right.T if tb else right)
        return 0


def column_major(address, offset, shape, leading, dtype):
    size = np.dtype(dtype).itemsize
    buffer = (ctypes.c_char * (leading * shape[1] * size)).from_address(address + offset * size)
    return np.frombuffer(buffer, dtype).reshape(shape[1], leading).T[: shape[0]]


@pytest.fixture
def library():
    made = Cublas.__new__(Cublas)
    made._gemm = made._batched = ColumnMajor()
    made._handle = None
    made._factors = dict.fromkeys(cublas.TYPES, (None, None))
    return made


@pytest.mark.parametrize("dtype", [float32, float64, complex64, complex128], ids=str)
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_row_major_products_come_out_right(library, dtype, transpose_a, transpose_b, batch):
    rng = np.random.default_rng(1)
    m, n, k = 3, 4, 5
    a = rng.integers(-9, 9, (batch, k, m + 2) if transpose_a else (batch, m, k + 2)).astype(dtype.numpy)
    b = rng.integers(-9, 9, (n, k + 1) if transpose_b else (k, n + 1)).astype(dtype.numpy)  # one matrix for all
    c = np.zeros((batch, m, n), dtype.numpy)
    strides = (a[0].size, 0, m * n)
    call = Matmul(dtype, batch, m, n, k, a.shape[2], b.shape[1], n, *strides, transpose_a, transpose_b)
    library.matmul(call, a.ctypes.data, b.ctypes.data, c.ctypes.data)
    left = a[:, :, :m].swapaxes(1, 2) if transpose_a else a[:, :, :k]
    right = b[:, :k].T if transpose_b else b[:, :n]
    assert (c == left @ right).all()


def test_a_large_batch_goes_in_pieces(library):
    count = 140_000
    a, b, c = np.arange(count, dtype=np.float32), np.full(1, 2, np.float32), np.zeros(count, np.float32)
    library.matmul(Matmul(float32, count, 1, 1, 1, 1, 1, 1, 1, 0, 1), a.ctypes.data, b.ctypes.data, c.ctypes.data)
    assert library._batched.batches == [65_535, 65_535, 8_930] and (c == 2 * a).all()


@pytest.mark.parametrize(("dtype", "tf32", "compute"), [(float32, False, 68), (float32, True, 77), (float64, True, 70)])
def test_tf32_only_where_it_is_asked_for(library, dtype, tf32, compute):
    x = np.ones(1, dtype.numpy)
    library.matmul(Matmul(dtype, 1, 1, 1, 1, 1, 1, 1, tf32=tf32), x.ctypes.data, x.ctypes.data, x.ctypes.data)
    assert library._gemm.compute == [compute]


def test_a_call_without_workspace_is_refused(library):
    with pytest.raises(InternalError, match="no workspace"):
        library.use(1, 0, 32 << 20)


@pytest.mark.parametrize(("capability", "mebibytes"), [((7, 5), 8), ((8, 9), 8), ((9, 0), 32), ((12, 0), 32)])
def test_the_workspace_is_the_recommended_one(capability, mebibytes):
    assert cublas.workspace_bytes(capability) == mebibytes << 20


def test_nothing_of_cuda_is_imported_with_the_package():
    import subprocess
    import sys

    program = "import sys, gla.device.cuda; print([m for m in sys.modules if m.startswith(('cuda.', 'llvmlite'))])"
    root = Path(__file__).parents[3]
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root, check=True).stdout.strip()
        == "[]"
    )
