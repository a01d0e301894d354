"""Three figures per implementation, in microseconds: submit, per iteration, latency. Medians, warm."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Call = Callable[[], Any]


@dataclass(frozen=True)
class Figures:
    """Microseconds. `spread` is the ratio of the greatest to the least of the per-iteration samples."""

    submit: float
    iteration: float
    latency: float
    spread: float


def measure(call: Call, wait: Call, seconds: float = 0.5) -> Figures:
    """Time `call` (enqueues one iteration) and `wait` (waits for all of it), after a warm-up, for about `seconds` a figure."""
    for _ in range(3):
        call()
    wait()
    once = max(_timed(call, wait, 1), 1e-7)
    many = max(1, min(2000, int(seconds / 7 / once)))
    few = max(1, min(20, many))
    iterations = [_timed(call, wait, many) / many for _ in range(7)]
    submits = []
    for _ in range(max(5, min(50, int(seconds / once / few)))):
        start = time.perf_counter()
        for _ in range(few):
            call()
        submits.append((time.perf_counter() - start) / few)
        wait()
    latencies = [_timed(call, wait, 1) for _ in range(max(5, min(200, int(seconds / once))))]
    return Figures(
        statistics.median(submits) * 1e6,
        statistics.median(iterations) * 1e6,
        statistics.median(latencies) * 1e6,
        max(iterations) / min(iterations),
    )


def _timed(call: Call, wait: Call, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    wait()
    return time.perf_counter() - start
