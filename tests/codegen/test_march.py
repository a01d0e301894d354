"""Marches as CUDA: the text run on threads of the CPU has NumPy's bits; on sm_90 the rows stay in registers."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gla import dtypes
from gla.codegen.arguments import InputPointer, LoweredKernel, Number, OutputPointer
from gla.codegen.cuda_march import march_geometry, print_march
from gla.codegen.cuda_scalars import ctype, memory_type
from gla.codegen.loops import lower
from gla.codegen.march import March
from gla.device.base import Parameters, Properties
from gla.ir import reference
from gla.ir.graph import Graph
from gla.passes.pipeline import run as optimise
from gla.plan.planner import plan
from gla.plan.steps import KernelStep
from gla.plan.time_tiles import RULES, Rule
from tests.grids import Grid
from tests.test_time_tiling import equal_bits, heat

HEADER = Path(__file__).with_name("cuda_on_cpu.h")
SHIMS = """
#include <algorithm>
using std::max; using std::min;
#define __device__
#define __forceinline__ inline
#define __noinline__
template <class T> static T __shfl_up_sync(unsigned mask, T value, unsigned delta) {
  const unsigned id = lane_id();
  return shuffled(mask, value, id % 32 >= delta ? id - delta : id);
}
template <class T> static T __shfl_sync(unsigned mask, T value, unsigned lane) { return __shfl_sync(mask, value, lane, 32u); }
template <class T> static T __shfl_down_sync(unsigned mask, T value, unsigned delta) { return __shfl_down_sync(mask, value, delta, 32u); }
"""


def marches(graph: Graph, rule: Rule) -> list[tuple[KernelStep, LoweredKernel]]:
    steps = plan(optimise(graph), tiling=rule).steps
    return [(s, lower(s.region)) for s in steps if isinstance(s, KernelStep) and s.region.marching is not None]


def built(march: March, folder: Path) -> Any:
    passed = ", ".join(
        f"*({memory_type(p.dtype)}**)p[{i}]" if p.kind == "pointer" else f"*({ctype(p.dtype)}*)p[{i}]"
        for i, p in enumerate(march.parameters)
    )
    entry = f'extern "C" void run(u32 g, u32 x, void** p) {{ run_grid(g, x, 1u, [=] {{ {march.name}({passed}); }}); }}'
    source, library = folder / "march.cpp", folder / "march.so"
    source.write_text(f'#include "{HEADER}"\n{SHIMS}\n{print_march(march)}\n{entry}\n')
    flags = ["-std=c++17", "-O1", "-w", "-ffp-contract=off", "-shared", "-fPIC", "-pthread"]
    subprocess.run(["g++", *flags, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library)).run


def emulated(low: LoweredKernel, inputs: list[np.ndarray], folder: Path, multiprocessors: int) -> list[np.ndarray]:
    march = low.kernel
    assert isinstance(march, March)
    outputs = [np.full_like(x, 77) for x in inputs[: march.carries]]
    parameters = Parameters([None if p.kind == "pointer" else p.dtype for p in march.parameters])
    for slot, argument in enumerate(low.arguments):
        match argument:
            case InputPointer(index):
                parameters.set(slot, inputs[index].ctypes.data)
            case OutputPointer(index):
                parameters.set(slot, outputs[index].ctypes.data)
            case Number(value, _):
                parameters.set(slot, value)
    geometry = march_geometry(march, low.extent, Properties("", "cuda", "sm_90", multiprocessors=multiprocessors))
    built(march, folder)(geometry.grid[0], geometry.block[0], ctypes.c_void_p(parameters.pointers.ctypes.data))
    return outputs


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize("seed", [0, 3, 5, 8, 11, 14])
def test_printed_marches_do_what_they_should(seed, tmp_path):
    grid = Grid(seed, ((19, 150), (45, 31), (8, 260), (70,)))
    arrays = grid.arguments(seed)
    graph = optimise(grid.graph)
    found = marches(graph, Rule(0, 1 << 20, 16, 3))
    if not found:
        pytest.skip("this one stays untiled")
    held = {0: arrays[: len(grid.fields)]}
    for number, (step, low) in enumerate(found):
        inputs = held[0] + [arrays[graph.inputs.index(n)] for n in step.region.inputs[len(grid.fields) :]]
        folder = tmp_path / str(number)
        folder.mkdir()
        held[0] = emulated(low, inputs, folder, 1 + number % 2)
    if sum(s.region.marching.steps for s, _ in found) < grid.trips:  # type: ignore[union-attr]
        return  # the passes of a loop of the host are run by the tests of devices
    with np.errstate(all="ignore"):
        equal_bits(held[0], reference.evaluate(grid.graph, arrays)[0])


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")
@pytest.mark.parametrize(
    ("modes", "dtype"), [("periodic", dtypes.float32), ("edge", dtypes.float32), ("periodic", dtypes.float64)]
)
def test_the_rows_of_all_trips_stay_in_registers(modes, dtype, tmp_path, monkeypatch):
    from gla.device.cuda import nvrtc

    ((_, low),) = marches(heat((8192, 8192), 10, (modes, modes), dtype), RULES["cuda"])
    assert isinstance(low.kernel, March)
    assert low.kernel.steps == 10
    monkeypatch.setattr(nvrtc, "target", lambda architecture: "compute_90")
    ptx = tmp_path / "march.ptx"
    ptx.write_bytes(nvrtc.compile(print_march(low.kernel), low.kernel.name, "sm_90").strip(b"\0"))
    report = subprocess.run(
        ["ptxas", "-v", "-arch=sm_90", ptx, "-o", tmp_path / "x"], check=True, capture_output=True, text=True
    )
    spilled = int(re.search(r"(\d+) bytes spill loads", report.stderr).group(1))  # type: ignore[union-attr]
    assert spilled <= 400  # in all versions of the loop together: a few of some hundred values
    assert int(re.search(r"Used (\d+) registers", report.stderr).group(1)) <= 168  # type: ignore[union-attr]
