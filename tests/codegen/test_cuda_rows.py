"""Every elementwise row, printed as CUDA: NVRTC compiles it, and on the CPU it has the bits of the host device."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from device.bench import Bench

from gla import dtypes
from gla.codegen.arguments import InputPointer, Number
from gla.codegen.cuda import print_cuda
from gla.codegen.cuda_scalars import ctype, memory_type
from gla.codegen.llvm import geometry
from gla.codegen.loops import lower
from gla.device.base import Parameters
from gla.device.host import HostDevice
from gla.errors import GlaError
from gla.ir.builder import apply, cast
from gla.ir.graph import new_input
from gla.ir.ops import functions
from gla.ir.ops.table import ELEMENTWISE
from gla.ir.types import Type
from gla.plan.steps import Region

HEADER = Path(__file__).with_name("cuda_on_cpu.h")
RNG = np.random.default_rng(11)
SIZE = 64
WIDE = (dtypes.float32, dtypes.float64, dtypes.complex64)
DTYPES = (
    *WIDE,
    dtypes.bool_,
    dtypes.int8,
    dtypes.int32,
    dtypes.int64,
    dtypes.uint8,
    dtypes.uint64,
    dtypes.bfloat16,
    dtypes.float16,
)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, np.inf, -np.inf, np.nan, 1e30, -1e-30, 7.75, 100.0]


def samples(dtype):
    if dtype.kind == "b":
        return RNG.integers(0, 2, SIZE).astype(bool)
    if dtype.kind in "iu":
        low, high = dtypes.integer_range(dtype)
        some = [low, high, 0, 1, 2, high - 1, low + 1]
        return np.array(some + [int(v) for v in RNG.integers(max(low, -50), 50, SIZE - len(some))], dtype.numpy)
    if dtype.kind == "c":
        return (RNG.normal(size=SIZE) + 1j * RNG.normal(size=SIZE)).astype(dtype.numpy)
    with np.errstate(over="ignore"):
        return np.concatenate([SPECIAL, RNG.normal(size=SIZE - len(SPECIAL)) * 3])[RNG.permutation(SIZE)].astype(dtype.numpy)


@cache
def rows(dtype):
    """(row name, region, kernel with its arguments) of every row that takes the dtype, and casts to every other."""
    made = []
    for name, row in ELEMENTWISE.items():
        if name in ("cast", "philox", "where") or dtype.kind not in row.kinds:
            continue
        if dtype not in WIDE and row in functions.ROWS:
            continue  # computed in a wider float, whose turn it is
        inputs = tuple(new_input(Type(dtype, (SIZE,)), f"x{k}") for k in range(row.arity))
        try:
            node = apply(name, *inputs)
        except GlaError:
            continue
        made.append((name, inputs, node))
    x = new_input(Type(dtype, (SIZE,)), "x")
    for target in dtypes.ALL:
        if target is not dtype and not (dtype.kind == "c" and target.kind != "c"):
            made.append((f"cast_{target}", (x,), cast(x, target)))
    condition, y = new_input(Type(dtypes.bool_, (SIZE,)), "c"), new_input(Type(dtype, (SIZE,)), "y")
    made.append(("where", (condition, x, y), apply("where", condition, x, y)))
    regions = [(name, Region((node,), inputs, (), (SIZE,))) for name, inputs, node in made]
    return [(name, region, lower(region, f"row_{k}")) for k, (name, region) in enumerate(regions)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_nvrtc_compiles_every_row(dtype):
    from gla.device.cuda import nvrtc

    source = "\n".join(print_cuda(low.kernel) for _, _, low in rows(dtype))
    assert nvrtc.compile(source, f"rows_{dtype}", "sm_90")[:4] == b"\x7fELF"


def entry(kernel):
    passed = ", ".join(
        f"*({memory_type(p.dtype)}**)p[{i}]" if p.kind == "pointer" else f"*({ctype(p.dtype)}*)p[{i}]"
        for i, p in enumerate(kernel.parameters)
    )
    return f'extern "C" void run_{kernel.name}(void** p) {{ run_grid(1, 32, 1, [=] {{ {kernel.name}({passed}); }}); }}'


def parameters(low, arrays, out):
    made = Parameters([None if p.kind == "pointer" else p.dtype for p in low.kernel.parameters])
    for i, argument in enumerate(low.arguments):
        if isinstance(argument, Number):
            made.set(i, argument.value)
        else:
            made.set(i, arrays[argument.index] if isinstance(argument, InputPointer) else out)
    return made


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize("dtype", (*WIDE, dtypes.int8, dtypes.bfloat16), ids=str)
def test_every_row_has_the_bits_of_the_host_device(dtype, tmp_path):
    texts = [f'#include "{HEADER}"', *(f"{print_cuda(low.kernel)}\n{entry(low.kernel)}" for _, _, low in rows(dtype))]
    (tmp_path / "rows.cpp").write_text("\n".join(texts))
    flags = ["-std=c++17", "-O0", "-w", "-ffp-contract=off", "-shared", "-fPIC", "-pthread"]
    subprocess.run(["g++", *flags, str(tmp_path / "rows.cpp"), "-o", str(tmp_path / "rows.so")], check=True)
    library, device = ctypes.CDLL(str(tmp_path / "rows.so")), HostDevice()
    bench = Bench(device)
    wrong = []
    for name, region, low in rows(dtype):
        arrays = [samples(node.dtype) for node in region.inputs]
        out = np.zeros(SIZE, region.outputs[0].dtype.numpy)
        passed = parameters(low, [a.ctypes.data for a in arrays], out.ctypes.data)
        getattr(library, f"run_{low.kernel.name}")(ctypes.c_void_p(passed.pointers.ctypes.data))
        target = bench.empty(out.nbytes)
        passed = parameters(low, [bench.up(a) for a in arrays], target)
        device.launch(bench.function(low.kernel), geometry(low.kernel, SIZE, device.properties), passed, bench.stream)
        expected = bench.down(target, SIZE, out.dtype)
        if not same(out, expected):
            wrong.append(
                (
                    name,
                    [(*(a[k] for a in arrays), out[k], expected[k]) for k in range(SIZE) if not same(out[k], expected[k])][:3],
                )
            )
    bench.close()
    assert not wrong


def same(a, b):
    """Equal bits, but for a NaN's."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind in "fc" or a.dtype.kind == "V":
        a, b = a.astype(np.complex128), b.astype(np.complex128)
        return np.array_equal(a, b, equal_nan=True) and np.array_equal(
            np.signbit(a.real)[~np.isnan(a)], np.signbit(b.real)[~np.isnan(b)]
        )
    return np.array_equal(a, b)
