"""Printed CUDA kernels do what they should: the same text, run on threads of the CPU behind a few lines of header."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from codegen import kernels

from gla.codegen.cuda import print_cuda
from gla.codegen.cuda_scalars import ctype, memory_type
from gla.device.base import Parameters
from gla.dtypes import bool_, float32, float64, int8

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
HEADER = Path(__file__).with_name("cuda_on_cpu.h")


@cache
def folder():
    import tempfile

    return tempfile.TemporaryDirectory()


@cache
def compiled(make, *args):
    """(kernel, its C function (blocks, x, y, parameters)) of the kernel that `make(*args)` gives."""
    kernel = make(*args)
    passed = ", ".join(
        f"*({memory_type(p.dtype)}**)p[{i}]" if p.kind == "pointer" else f"*({ctype(p.dtype)}*)p[{i}]"
        for i, p in enumerate(kernel.parameters)
    )
    entry = f'extern "C" void run(u32 g, u32 x, u32 y, void** p) {{ run_grid(g, x, y, [=] {{ {kernel.name}({passed}); }}); }}'
    base = Path(folder().name) / f"{kernel.name}_{kernel.parameters[0].dtype.short}"
    base.with_suffix(".cpp").write_text(f'#include "{HEADER}"\n{print_cuda(kernel)}\n{entry}\n')
    flags = ["-std=c++17", "-O0", "-w", "-ffp-contract=off", "-shared", "-fPIC", "-pthread"]
    subprocess.run(["g++", *flags, str(base.with_suffix(".cpp")), "-o", str(base.with_suffix(".so"))], check=True)
    return kernel, ctypes.CDLL(str(base.with_suffix(".so"))).run


def launch(built, grid, block, *values):
    """Run with arrays for pointers (written in place) and numbers for the rest."""
    kernel, run = built
    parameters = Parameters([None if p.kind == "pointer" else p.dtype for p in kernel.parameters])
    for i, value in enumerate(values):
        parameters.set(i, value.ctypes.data if isinstance(value, np.ndarray) else value)
    run(grid, *block, ctypes.c_void_p(parameters.pointers.ctypes.data))


def in_order(row, partials):
    """The sum of a row as the kernel form defines it, in the row's dtype."""
    sums = [row.dtype.type(-0.0) for _ in range(partials)]
    for j, value in enumerate(row):
        sums[j % partials] = sums[j % partials] + value
    half = partials // 2
    while half:
        sums[:half] = [sums[p] + sums[p + half] for p in range(half)]
        half //= 2
    return sums[0]


def data(*shape):
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


# each with a block that its geometry may give
LAYOUTS = [
    (1, 1, False, (32, 1)), (1, 32, False, (32, 1)), (1, 256, False, (32, 1)), (2, 32, False, (2, 16)), (8, 32, False, (8, 8)),
    (32, 32, False, (32, 2)), (32, 256, False, (32, 1)), (64, 256, False, (64, 1)), (256, 256, False, (256, 1)),
    (4, 32, True, (32, 4)), (8, 256, True, (32, 8)), (32, 32, True, (32, 32)),
]  # fmt: skip
IDS = [f"{team}-{partials}{'-across' if across else ''}" for team, partials, across, _ in LAYOUTS]


@pytest.mark.parametrize(("team", "partials", "across", "block"), LAYOUTS, ids=IDS)
@pytest.mark.parametrize("size", [0, 1, 300])
def test_a_sum_has_the_bits_of_its_order_whatever_the_team_and_grid(team, partials, across, block, size):
    x = data(5, size)
    wanted = np.array([in_order(row, partials) for row in x])
    stored = np.ascontiguousarray(x.T) if across else x
    for grid in (1, 2):
        out = np.full(5, np.nan, np.float32)
        launch(compiled(kernels.row_sum, team, partials, across), grid, block, stored, out, 5, size)
        assert out.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("team", "partials", "across", "block"), [(1, 32, False, (32, 1)), (32, 32, False, (32, 2)), (8, 32, True, (32, 8))]
)
def test_two_results_of_a_reduction_travel_together(team, partials, across, block):
    x = np.round(data(7, 200), 1)
    out, where = np.zeros(7, np.float32), np.zeros(7, np.int64)
    launch(
        compiled(kernels.arg_max, team, partials, across),
        1,
        block,
        np.ascontiguousarray(x.T) if across else x,
        out,
        where,
        7,
        200,
    )
    assert (where == x.argmax(axis=1)).all() and (out == x.max(axis=1)).all()


@pytest.mark.parametrize(
    ("team", "partials", "across", "block"), [(1, 1, False, (32, 1)), (64, 256, False, (64, 1)), (8, 32, True, (32, 8))]
)
def test_softmax_in_place(team, partials, across, block):
    x = data(5, 70)
    wanted = np.exp(x.astype(float) - x.max(axis=1, keepdims=True))
    wanted /= wanted.sum(axis=1, keepdims=True)
    out = np.ascontiguousarray(x.T) if across else x.copy()
    launch(compiled(kernels.softmax, team, partials, across), 2, block, out, out, 5, 70)
    np.testing.assert_allclose(out.T if across else out, wanted, rtol=1e-5)


@pytest.mark.parametrize(("team", "across", "block"), [(32, False, (32, 2)), (8, True, (32, 8))])
def test_a_team_reads_what_its_members_wrote(team, across, block):
    x = data(5, 90)
    out, total = np.zeros((90, 5) if across else (5, 90), np.float32), np.zeros(5, np.float32)
    launch(
        compiled(kernels.write_then_read, team, across), 1, block, np.ascontiguousarray(x.T) if across else x, out, total, 5, 90
    )
    assert total.tobytes() == np.array([in_order((row + row)[::-1], 32) for row in x]).tobytes()


def test_an_inner_sum_is_each_threads_own():
    x = data(6, 40).astype(np.float64)
    out = np.zeros(6)
    launch(compiled(kernels.nested_sum, 32), 1, (32, 1), x, out, 6, 40, 6)
    np.testing.assert_allclose(out, (x @ x.T).sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("items", [0, 1, 31, 127, 128, 129, 500])
def test_unrolled_items_are_each_served_once(items):
    x, y = data(2, 500)
    out = np.full(500, 7, np.float32)
    launch(compiled(kernels.elementwise, float32), 1, (32, 1), x, y, out, items)
    assert (out[:items] == x[:items] + y[:items]).all() and (out[items:] == 7).all()


def test_narrow_integers_wrap():
    x = np.array([127, -128, -1, 100], np.int8)
    out = np.zeros(4, np.int8)
    launch(compiled(kernels.elementwise, int8), 1, (32, 1), x, x, out, 4)
    assert out.tolist() == [-2, 0, -2, -56]


def test_bool_memory_is_any_byte():
    x, y, out = np.array([0, 2, 255], np.uint8), np.array([1, 1, 0], np.uint8), np.zeros(3, np.uint8)
    launch(compiled(kernels.elementwise, bool_), 1, (32, 1), x, y, out, 3)
    assert out.tolist() == [1, 0, 1]


def test_a_loop_ends_early_and_keeps_its_carries():
    x, out = np.array([1.0, 50.0, 200.0]), np.zeros(3)
    launch(compiled(kernels.looped), 1, (32, 1), x, out, 2.0, 10, 100.0, 3)
    wanted = []
    for start in x:
        p, q, steps = start, 0.1, 0
        while p <= 100.0 and steps < 10:
            p, q, steps = q, p + q * 2.0, steps + 1
        wanted.append(p)
    assert out.tolist() == wanted


def test_bfloat16_bits_are_rounded_to_even():
    x = np.array([0x3F80, 0x3FC0, 0x7F80, 0x0001], np.uint16)
    out = np.zeros(4, np.uint16)
    launch(compiled(kernels.half_bits), 1, (32, 1), x, out, 4)
    assert out.tolist() == [0x4000, 0x4040, 0x7F80, 0x0002]


def test_a_wider_sum_is_in_its_own_dtype():
    x = data(3, 300).astype(np.float64)
    out = np.zeros(3)
    launch(compiled(kernels.row_sum, 64, 256, False, float64), 1, (64, 1), x, out, 3, 300)
    assert out.tobytes() == np.array([in_order(row, 256) for row in x]).tobytes()
