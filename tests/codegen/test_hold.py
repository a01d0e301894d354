"""Rows held in shared memory: read once, computed once, the same bits."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gla import dtypes
from gla.codegen.arguments import InputPointer, Number
from gla.codegen.cuda import print_cuda
from gla.codegen.cuda_geometry import geometry
from gla.codegen.cuda_scalars import ctype, memory_type
from gla.codegen.hold import fits, holding
from gla.codegen.loops import lower
from gla.device.base import Parameters, Properties
from gla.ir.builder import apply
from gla.ir.functions import reduce
from gla.ir.graph import new_input
from gla.ir.types import Type
from gla.plan.steps import Region

HEADER = Path(__file__).with_name("cuda_on_cpu.h")


def softmax(rows: int, columns: int):
    x = new_input(Type(dtypes.float32, (rows, columns)), "x")
    e = apply("exp", apply("subtract", x, reduce.max(x, axis=1, keepdims=True)))
    out = apply("divide", e, reduce.sum(e, axis=1, keepdims=True))
    return lower(Region((out,), (x,), (), (rows,), (columns,), (None,)))


def run(low, x, folder):
    kernel = low.kernel
    passed = ", ".join(
        f"*({memory_type(p.dtype)}**)p[{i}]" if p.kind == "pointer" else f"*({ctype(p.dtype)}*)p[{i}]"
        for i, p in enumerate(kernel.parameters)
    )
    geo = geometry(kernel, low.items, Properties("", "cuda", "sm_90"))
    x_threads, y_threads, _ = geo.block
    entry = f'extern "C" void run(void** p) {{ run_grid({geo.grid[0]}, {x_threads}, {y_threads}, [=] {{ {kernel.name}({passed}); }}); }}'
    text = print_cuda(kernel).replace(
        "extern __shared__ __align__(16) u8 held_memory[];", "static __align__(16) u8 held_memory[1 << 16];"
    )
    (folder / "k.cpp").write_text(f'#include "{HEADER}"\n{text}\n{entry}\n')
    flags = ["-std=c++17", "-O0", "-w", "-ffp-contract=off", "-shared", "-fPIC", "-pthread"]
    library = folder / f"k{kernel.held is None}.so"
    subprocess.run(["g++", *flags, str(folder / "k.cpp"), "-o", str(library)], check=True)
    out = np.full(x.shape, np.nan, np.float32)
    parameters = Parameters([None if p.kind == "pointer" else p.dtype for p in kernel.parameters])
    for slot, a in enumerate(low.arguments):
        pointer = x.ctypes.data if isinstance(a, InputPointer) else out.ctypes.data
        parameters.set(slot, a.value if isinstance(a, Number) else pointer)
    ctypes.CDLL(str(library)).run(ctypes.c_void_p(parameters.pointers.ctypes.data))
    return out


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize("columns", [70, 3000])
def test_held_rows_give_the_same_bits(columns, tmp_path):
    low = softmax(9, columns)
    assert low.kernel.held is not None and low.kernel.held[1] == 4
    x = np.random.default_rng(4).standard_normal((9, columns)).astype(np.float32)
    kept = run(low, x, tmp_path)
    again = run(replace(low, kernel=replace(low.kernel, held=None)), x, tmp_path)
    np.testing.assert_array_equal(kept, again)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(kept, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_a_held_row_is_read_and_its_exponentials_computed_once():
    low = softmax(9, 3000)
    text = print_cuda(low.kernel)
    assert text.count("p0[") == 1
    assert print_cuda(replace(low.kernel, held=None)).count("p0[") > 1


def test_long_rows_are_not_held():
    low = softmax(9, 100_000)
    assert holding(low.kernel) is not None and low.kernel.held is None
    assert not fits(low.kernel, 16_384, 4) and fits(low.kernel, 8192, 4)


def test_shared_memory_of_a_launch():
    low = softmax(9, 3000)
    assert geometry(low.kernel, 9, Properties("", "cuda", "sm_90"), 0, 3000 * 4).shared == 12_000
