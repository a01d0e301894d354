"""Batched matmul: 512 products of 64 x 64 float32 matrices (64 of them on the CPU). No TF32."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.formula import implementations, reference
from benchmarks.workload import Workload

SIDE = 64


def count(device: str, smoke: bool) -> int:
    return 8 if smoke else 512 if device == "cuda" else 64


def arrays(device: str, smoke: bool) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(7)
    return tuple(rng.standard_normal((count(device, smoke), SIDE, SIDE), dtype=np.float32) for _ in range(2))


def formula(xp: Any, a: Any, b: Any) -> Any:
    return xp.matmul(a, b)


WORKLOAD = Workload(
    "batched",
    "batched matmul of 64x64, float32",
    reference(formula, arrays),
    implementations(formula, arrays),
    tolerance=1e-5,
    bytes_moved=lambda device, smoke: 12 * SIDE**2 * count(device, smoke),
    operations=lambda device, smoke: 2.0 * SIDE**3 * count(device, smoke),
)
