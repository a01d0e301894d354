"""matmul + bias + gelu: 4096 x 4096 float32 without TF32 (1024 on the CPU)."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.formula import implementations, reference
from benchmarks.workload import Workload


def side(device: str, smoke: bool) -> int:
    return 128 if smoke else 4096 if device == "cuda" else 1024


def arrays(device: str, smoke: bool) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(8)
    n = side(device, smoke)
    a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
    return a, b / np.float32(np.sqrt(n)), rng.standard_normal((1, n), dtype=np.float32)


def formula(xp: Any, a: Any, b: Any, bias: Any) -> Any:
    x = xp.matmul(a, b) + bias
    return 0.5 * x * (1 + xp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


WORKLOAD = Workload(
    "matmul",
    "matmul + bias + gelu, float32",
    reference(formula, arrays),
    implementations(formula, arrays),
    tolerance=1e-4,
    operations=lambda device, smoke: 2.0 * side(device, smoke) ** 3,
)
