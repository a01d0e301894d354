"""Workloads as a user of numba writes them: loops over rows in parallel, compiled once before timing. The host only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.formula import Arrays, joined
from benchmarks.peers import numpy_only
from benchmarks.workload import Prepare, Ready, nothing


def by_numba(make: Callable[[Any], Callable[..., Any]], arrays: Arrays) -> Prepare:
    """`make(numba)` gives the compiled function of the inputs."""

    def prepare(device: str, smoke: bool) -> Ready:
        numpy_only(device)
        import numba

        function, given = make(numba), arrays(device, smoke)
        return Ready(lambda: function(*given), nothing, lambda: joined(function(*given)))

    return prepare


def stream(numba: Any) -> Callable[..., Any]:
    @numba.njit(parallel=True)
    def run(a, b):  # type: ignore[no-untyped-def]
        out = np.empty_like(a)
        two, zero = np.float32(2), np.float32(0)
        for i in numba.prange(a.size):
            out[i] = max(a[i] * b[i] + two * a[i] - b[i], zero)
        return out

    return run  # type: ignore[no-any-return]


def heat(steps: int, flow: float) -> Callable[[Any], Callable[..., Any]]:
    def make(numba: Any) -> Callable[..., Any]:
        @numba.njit(parallel=True)
        def step(u, out, flow, four):  # type: ignore[no-untyped-def]
            rows, columns = u.shape
            for i in numba.prange(rows):
                up, down = i - 1 if i > 0 else rows - 1, i + 1 if i < rows - 1 else 0
                for j in range(1, columns - 1):
                    around = u[up, j] + u[down, j] + u[i, j - 1] + u[i, j + 1]
                    out[i, j] = u[i, j] + flow * (around - four * u[i, j])
                last = columns - 1
                around = u[up, 0] + u[down, 0] + u[i, last] + u[i, 1]
                out[i, 0] = u[i, 0] + flow * (around - four * u[i, 0])
                around = u[up, last] + u[down, last] + u[i, last - 1] + u[i, 0]
                out[i, last] = u[i, last] + flow * (around - four * u[i, last])

        def run(u: np.ndarray) -> np.ndarray:
            kind = u.dtype.type
            for _ in range(steps):
                out = np.empty_like(u)
                step(u, out, kind(flow), kind(4))
                u = out
            return u

        return run

    return make


def softmax(numba: Any) -> Callable[..., Any]:
    @numba.njit(parallel=True)
    def run(x):  # type: ignore[no-untyped-def]
        out = np.empty_like(x)
        for i in numba.prange(x.shape[0]):
            top = x[i].max()
            total = np.float32(0)
            for j in range(x.shape[1]):
                out[i, j] = np.exp(x[i, j] - top)
                total += out[i, j]
            for j in range(x.shape[1]):
                out[i, j] /= total
        return out

    return run  # type: ignore[no-any-return]
