"""heat2d: the 5-point stencil on a periodic grid, 8192^2 (GPU) or 1024^2 (CPU), float32 and float64, one step and ten."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.formula import Arrays, Formula, implementations, reference
from benchmarks.numba_peers import by_numba, heat
from benchmarks.workload import Workload

FLOW = 0.2


def side(device: str, smoke: bool) -> int:
    return 128 if smoke else 8192 if device == "cuda" else 1024


def arrays_of(dtype: Any) -> Arrays:
    def arrays(device: str, smoke: bool) -> tuple[np.ndarray, ...]:
        n = side(device, smoke)
        return (np.random.default_rng(9).standard_normal((n, n), dtype=dtype),)

    return arrays


def stepping(steps: int) -> Formula:
    def step(xp: Any, u: Any) -> Any:
        around = xp.roll(u, 1, axis=0) + xp.roll(u, -1, axis=0) + xp.roll(u, 1, axis=1) + xp.roll(u, -1, axis=1)
        return u + FLOW * (around - 4 * u)

    def formula(xp: Any, u: Any) -> Any:
        if hasattr(xp, "fori"):  # a loop as a value: the planner may run several steps in one pass over memory
            return xp.fori(0, steps, lambda k, u: step(xp, u), u)
        for _ in range(steps):
            u = step(xp, u)
        return u

    return formula


def _workload(name: str, steps: int, dtype: Any) -> Workload:
    formula, arrays, size = stepping(steps), arrays_of(dtype), np.dtype(dtype).itemsize
    return Workload(
        f"heat2d-{name}",
        f"heat2d, {steps} step{'s' * (steps > 1)}, {np.dtype(dtype)}",
        reference(formula, arrays),
        {**implementations(formula, arrays), "numba": by_numba(heat(steps, FLOW), arrays)},
        tolerance=1e-5,
        bytes_moved=lambda device, smoke: 2 * size * steps * side(device, smoke) ** 2,
    )


WORKLOADS = (_workload("1", 1, np.float32), _workload("10", 10, np.float32), _workload("10-f64", 10, np.float64))
