"""Items walked as rows and columns: the same results as one by one, whatever the launch."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from gla import dtypes
from gla.codegen.arguments import InputPointer, Number
from gla.codegen.cuda import print_cuda
from gla.codegen.cuda_geometry import geometry
from gla.codegen.cuda_scalars import ctype, memory_type
from gla.codegen.loops import lower
from gla.codegen.rows import columns_of, rows_of
from gla.device.base import Parameters, Properties
from gla.ir.builder import apply
from gla.ir.functions.index import getitem
from gla.ir.functions.shape import reshape, shift
from gla.ir.graph import new_input
from gla.ir.types import Type
from gla.plan.steps import Region

HEADER = Path(__file__).with_name("cuda_on_cpu.h")
H200 = Properties("", "cuda", "sm_90", multiprocessors=132)


def stencil(rows: int, columns: int):
    """u + 2 (up + right) - bias of the column."""
    u = new_input(Type(dtypes.float32, (rows, columns)), "u")
    bias = new_input(Type(dtypes.float32, (1, columns)), "bias")
    around = apply("add", shift(u, (1, 0), ("periodic", "periodic")), shift(u, (0, -1), ("periodic", "periodic")))
    out = apply("subtract", apply("add", u, apply("multiply", around, 2.0)), bias)
    return lower(Region((out,), (u, bias), (), out.shape, (), (None,)))


def expected(u, bias):
    return u + np.float32(2) * (np.roll(u, -1, 0) + np.roll(u, 1, 1)) - bias


def run_on_cpu(low, arrays, out, columns, launch, folder):
    """The CUDA text compiled by g++ and run block by block; `out` is filled."""
    geo = geometry(low.kernel, low.items, H200, columns)
    (gx, gy, _), (bx, by, _) = (geo.grid, geo.block) if launch == "its own" else ((1, 1, 1), (16, 4, 1))
    passed = ", ".join(
        f"*({memory_type(p.dtype)}**)p[{i}]" if p.kind == "pointer" else f"*({ctype(p.dtype)}*)p[{i}]"
        for i, p in enumerate(low.kernel.parameters)
    )
    entry = f'extern "C" void run(void** p) {{ run_blocks_2d({{{gx}, {gy}, 1}}, {bx}, {by}, [=] {{ {low.kernel.name}({passed}); }}); }}'
    (folder / "k.cpp").write_text(f'#include "{HEADER}"\n{print_cuda(low.kernel)}\n{entry}\n')
    flags = ["-std=c++17", "-O0", "-w", "-ffp-contract=off", "-shared", "-fPIC", "-pthread"]
    subprocess.run(["g++", *flags, str(folder / "k.cpp"), "-o", str(folder / "k.so")], check=True)
    parameters = Parameters([None if p.kind == "pointer" else p.dtype for p in low.kernel.parameters])
    for slot, a in enumerate(low.arguments):
        pointer = arrays[a.index].ctypes.data if isinstance(a, InputPointer) else out.ctypes.data
        parameters.set(slot, a.value if isinstance(a, Number) else pointer)
    ctypes.CDLL(str(folder / "k.so")).run(ctypes.c_void_p(parameters.pointers.ctypes.data))


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize(("rows", "columns"), [(9, 40), (8, 3), (1030, 2), (2, 300)])
@pytest.mark.parametrize("launch", ["its own", "one block"])
def test_every_launch_gives_the_same_bits(rows, columns, launch, tmp_path):
    low = stencil(rows, columns)
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((rows, columns), (1, columns))]
    out = np.full((rows, columns), np.nan, np.float32)
    run_on_cpu(low, arrays, out, columns, launch, tmp_path)
    np.testing.assert_array_equal(out, expected(*arrays))


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize("kept", [5, 11, 12, 13, 35])
@pytest.mark.parametrize("launch", ["its own", "one block"])
def test_a_last_row_may_be_short(kept, launch, tmp_path):
    x = new_input(Type(dtypes.float32, (3, 12)), "x")
    bias = new_input(Type(dtypes.float32, (3, 1)), "bias")
    out = getitem(reshape(apply("add", x, bias), (36,)), slice(0, kept))
    low = lower(Region((out,), (x, bias), (), out.shape, (), (None,)))
    assert columns_of(low.kernel) is not None
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((3, 12), (3, 1))]
    result = np.full(kept + 5, np.nan, np.float32)
    run_on_cpu(low, arrays, result, 12, launch, tmp_path)
    np.testing.assert_array_equal(result[:kept], (arrays[0] + arrays[1]).ravel()[:kept])
    assert np.isnan(result[kept:]).all()


def test_what_a_column_has_in_common_is_computed_once():
    low = stencil(9, 40)
    assert columns_of(low.kernel) is not None
    found = rows_of(low.kernel)
    assert found is not None and found.column is not None
    text = print_cuda(low.kernel)
    assert text.index("p1[") < text.index("for (u32 first")


def test_short_rows_share_a_block():
    low = stencil(100_000, 3)
    assert geometry(low.kernel, low.items, H200, 3).block == (4, 64, 1)
    assert geometry(low.kernel, low.items, H200, 8192).block == (256, 1, 1)
