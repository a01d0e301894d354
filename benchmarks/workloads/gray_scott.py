"""Gray-Scott: two fields on a periodic grid, 8192^2 (GPU) or 1024^2 (CPU), float32, one step and ten."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.formula import Formula, implementations, reference
from benchmarks.workload import Workload
from benchmarks.workloads.heat2d import side

FEED, KILL, DU, DV = 0.037, 0.06, 0.2, 0.1


def arrays(device: str, smoke: bool) -> tuple[np.ndarray, ...]:
    n = side(device, smoke)
    rng = np.random.default_rng(10)
    return rng.uniform(0.4, 0.6, (n, n)).astype(np.float32), rng.uniform(0.2, 0.3, (n, n)).astype(np.float32)


def stepping(steps: int) -> Formula:
    def step(xp: Any, u: Any, v: Any) -> Any:
        def spread(w: Any) -> Any:
            return xp.roll(w, 1, axis=0) + xp.roll(w, -1, axis=0) + xp.roll(w, 1, axis=1) + xp.roll(w, -1, axis=1) - 4 * w

        reaction = u * v * v
        return u + DU * spread(u) - reaction + FEED * (1 - u), v + DV * spread(v) + reaction - (FEED + KILL) * v

    def formula(xp: Any, u: Any, v: Any) -> Any:
        if hasattr(xp, "fori"):
            return xp.fori(0, steps, lambda k, uv: step(xp, *uv), (u, v))
        for _ in range(steps):
            u, v = step(xp, u, v)
        return u, v

    return formula


def _workload(steps: int) -> Workload:
    formula = stepping(steps)
    return Workload(
        f"gray-scott-{steps}",
        f"Gray-Scott, {steps} step{'s' * (steps > 1)}, float32",
        reference(formula, arrays),
        implementations(formula, arrays),
        tolerance=1e-5,
        bytes_moved=lambda device, smoke: 16 * steps * side(device, smoke) ** 2,
    )


WORKLOADS = (_workload(1), _workload(10))
