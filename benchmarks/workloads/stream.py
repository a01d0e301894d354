"""stream: max(a b + 2 a - b, 0) over 2^28 float32 (GPU) or 2^24 (CPU): three arrays moved, nothing else to do."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.formula import implementations, reference
from benchmarks.numba_peers import by_numba
from benchmarks.numba_peers import stream as numba_stream
from benchmarks.peers import numpy_only
from benchmarks.workload import Ready, Workload, nothing


def count(device: str, smoke: bool) -> int:
    return 1 << (20 if smoke else 28 if device == "cuda" else 24)


def arrays(device: str, smoke: bool) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(4)
    return tuple(rng.standard_normal(count(device, smoke), dtype=np.float32) for _ in range(2))


def formula(xp: Any, a: Any, b: Any) -> Any:
    return xp.maximum(a * b + 2 * a - b, 0)


def with_numexpr(device: str, smoke: bool) -> Ready:
    numpy_only(device)
    import numexpr

    given = dict(zip("ab", arrays(device, smoke)))
    text = "where(a * b + 2 * a - b > 0, a * b + 2 * a - b, 0)"
    return Ready(lambda: numexpr.evaluate(text, given), nothing, lambda: numexpr.evaluate(text, given))


WORKLOAD = Workload(
    "stream",
    "stream: max(a*b + 2*a - b, 0), float32",
    reference(formula, arrays),
    {**implementations(formula, arrays), "numexpr": with_numexpr, "numba": by_numba(numba_stream, arrays)},
    tolerance=1e-6,
    bytes_moved=lambda device, smoke: 12 * count(device, smoke),
)
