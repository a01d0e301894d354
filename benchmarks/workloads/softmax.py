"""softmax of the rows of 8192 x 8192 float32 (2048 x 2048 on the CPU): one read and one write of the matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.formula import implementations, reference
from benchmarks.numba_peers import by_numba
from benchmarks.numba_peers import softmax as numba_softmax
from benchmarks.workload import Workload


def side(device: str, smoke: bool) -> int:
    return 256 if smoke else 8192 if device == "cuda" else 2048


def arrays(device: str, smoke: bool) -> tuple[np.ndarray, ...]:
    n = side(device, smoke)
    return (np.random.default_rng(5).standard_normal((n, n), dtype=np.float32),)


def formula(xp: Any, x: Any) -> Any:
    e = xp.exp(x - xp.max(x, axis=1, keepdims=True))
    return e / xp.sum(e, axis=1, keepdims=True)


WORKLOAD = Workload(
    "softmax",
    "softmax of rows, float32",
    reference(formula, arrays),
    {**implementations(formula, arrays), "numba": by_numba(numba_softmax, arrays)},
    tolerance=1e-5,
    bytes_moved=lambda device, smoke: 8 * side(device, smoke) ** 2,
)
