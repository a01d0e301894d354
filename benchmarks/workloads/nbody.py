"""n-body: the accelerations of 4096 bodies (1024 on the CPU), all pairs, float32: 20 operations a pair."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.formula import implementations, reference
from benchmarks.workload import Workload

SOFTENING = 0.01


def bodies(device: str, smoke: bool) -> int:
    return 128 if smoke else 4096 if device == "cuda" else 1024


def arrays(device: str, smoke: bool) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(6)
    n = bodies(device, smoke)
    return (*(rng.standard_normal(n, dtype=np.float32) for _ in range(3)), rng.uniform(0.5, 1.5, n).astype(np.float32))


def formula(xp: Any, x: Any, y: Any, z: Any, m: Any) -> Any:
    dx, dy, dz = (c[None, :] - c[:, None] for c in (x, y, z))
    inverse = 1.0 / xp.sqrt(dx * dx + dy * dy + dz * dz + SOFTENING)
    weight = m[None, :] * inverse * inverse * inverse
    return tuple(xp.sum(weight * d, axis=1) for d in (dx, dy, dz))


WORKLOAD = Workload(
    "nbody",
    "n-body, all pairs, float32",
    reference(formula, arrays),
    implementations(formula, arrays),
    tolerance=1e-4,
    operations=lambda device, smoke: 20.0 * bodies(device, smoke) ** 2,
)
