"""Kernels of matrix products, printed and run on threads of the CPU: every tile, ragged edges, views of operands, epilogues."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from gla import dtypes
from gla.codegen.arguments import InputPointer, Number, OutputPointer
from gla.codegen.cuda_product import print_product, product_geometry
from gla.codegen.cuda_scalars import ctype, memory_type
from gla.codegen.form import kernel_key
from gla.codegen.kernel import Product
from gla.codegen.loops import HANDLERS, _address
from gla.codegen.products import lower_product
from gla.device.base import Parameters
from gla.device.cuda import nvrtc
from gla.ir.builder import apply
from gla.ir.functions.linear import matmul
from gla.ir.functions.shape import matrix_transpose
from gla.ir.graph import new_input
from gla.ir.types import Type
from gla.plan.steps import Region
from gla.plan.tiles import TILES, WIDE_TILES, Tile, tile

HEADER = Path(__file__).with_name("cuda_on_cpu.h")
RNG = np.random.default_rng(3)
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def array(*shape, dtype=dtypes.float32):
    return new_input(Type(dtype, shape), "x")


def run(low, inputs, shape, dtype, folder):
    """The kernel's output on arrays of the CPU."""
    kernel = low.kernel
    assert isinstance(kernel, Product)
    passed = ", ".join(
        f"*({memory_type(p.dtype)}**)p[{i}]" if p.kind == "pointer" else f"*({ctype(p.dtype)}*)p[{i}]"
        for i, p in enumerate(kernel.parameters)
    )
    grid = product_geometry(kernel, low.extent).grid
    entry = f'extern "C" void run(u32* g, void** p) {{ run_blocks({{g[0], g[1], g[2]}}, {kernel.tile.threads}, [=] {{ {kernel.name}({passed}); }}); }}'
    source, library = folder / "kernel.cpp", folder / "kernel.so"
    source.write_text(f'#include "{HEADER}"\n{print_product(kernel)}\n{entry}\n')
    flags = ["-std=c++17", "-O1", "-w", "-ffp-contract=off", "-shared", "-fPIC", "-pthread"]
    subprocess.run(["g++", *flags, str(source), "-o", str(library)], check=True)
    out = np.full(shape, np.nan, dtype)
    parameters = Parameters([None if p.kind == "pointer" else p.dtype for p in kernel.parameters])
    for slot, argument in enumerate(low.arguments):
        match argument:
            case InputPointer(index):
                parameters.set(slot, inputs[index].ctypes.data)
            case OutputPointer(_):
                parameters.set(slot, out.ctypes.data)
            case Number(value, _):
                parameters.set(slot, value)
    g = np.array(grid, np.uint32)
    ctypes.CDLL(str(library)).run(ctypes.c_void_p(g.ctypes.data), ctypes.c_void_p(parameters.pointers.ctypes.data))
    return out


def lowered(product, out, inputs, chosen: Tile):
    region = Region((out,), tuple(inputs), (), out.shape, (), (None,), product)
    return lower_product(region, chosen, HANDLERS, _address)


@needs_compiler
@pytest.mark.parametrize("chosen", [*TILES, WIDE_TILES[0], WIDE_TILES[5]], ids=lambda t: f"{t.rows}x{t.columns}x{t.depth}")
def test_every_tile_gives_the_product_with_its_epilogue(chosen, tmp_path):
    wide = chosen in WIDE_TILES and chosen not in TILES
    dtype = dtypes.float64 if wide else dtypes.float32
    m, n, k = chosen.rows + 3, chosen.columns + 5, chosen.depth + 7
    a, b, bias = array(m, k, dtype=dtype), array(k, n, dtype=dtype), array(m, 1, dtype=dtype)
    product = matmul(a, b)
    out = apply("maximum", apply("add", product, bias), 0)
    values = [RNG.standard_normal(x.shape).astype(dtype.numpy) for x in (a, b, bias)]
    got = run(lowered(product, out, (a, b, bias), chosen), values, out.shape, dtype.numpy, tmp_path)
    wanted = np.maximum(values[0].astype(np.float64) @ values[1].astype(np.float64) + values[2], 0)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-11 if wide else 2e-4)


@needs_compiler
def test_operands_are_read_through_views(tmp_path):
    a, b = array(5, 70, 40), array(5, 33, 70)  # batches of transposed matrices
    product = matmul(matrix_transpose(a), matrix_transpose(b))
    values = [RNG.standard_normal(x.shape).astype(np.float32) for x in (a, b)]
    low = lowered(product, product, (a, b), TILES[2])
    got = run(low, values, product.shape, np.float32, tmp_path)
    wanted = np.swapaxes(values[0], 1, 2).astype(np.float64) @ np.swapaxes(values[1], 1, 2)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-4)
    assert not low.kernel.left_deep and low.kernel.right_deep


def test_sizes_are_arguments():
    keys = set()
    for m, n, k in ((300, 200, 500), (290, 210, 490)):
        a, b = array(m, k), array(k, n)
        product = matmul(a, b)
        keys.add(kernel_key(lowered(product, product, (a, b), TILES[1]).kernel))
    assert len(keys) == 1


@pytest.mark.parametrize("chosen", [*TILES, *WIDE_TILES], ids=lambda t: f"{t.rows}x{t.columns}x{t.depth}")
def test_nvrtc_compiles_every_tile(chosen):
    dtype = dtypes.float32 if chosen in TILES else dtypes.float64
    a, b = array(100, 100, dtype=dtype), array(100, 100, dtype=dtype)
    product = matmul(a, b)
    kernel = lowered(product, product, (a, b), chosen).kernel
    assert nvrtc.compile(print_product(kernel), kernel.name, "sm_90")[:4] == b"\x7fELF"


def test_the_rule_looks_at_shapes_alone():
    a, b = array(256, 256), array(256, 16)
    assert tile(matmul(a, b)) == tile(matmul(array(256, 256), array(256, 16)))
    assert (tile(matmul(a, b)).rows, tile(matmul(a, b)).columns) == (2, 16)
    assert tile(matmul(array(512, 64, 64), array(512, 64, 64))).rows == 64
