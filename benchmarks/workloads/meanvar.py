"""Mean and variance of 8192 x 8192 float32 (2048 x 2048 on the CPU) over axis 0, axis 1, and both: one read each."""

from __future__ import annotations

from typing import Any

from benchmarks.formula import Formula, implementations, reference
from benchmarks.workload import Workload
from benchmarks.workloads.softmax import arrays, side


def over(axis: int | None) -> Formula:
    def formula(xp: Any, x: Any) -> Any:
        return xp.mean(x, axis=axis), xp.var(x, axis=axis)

    return formula


def _workload(name: str, axis: int | None) -> Workload:
    formula = over(axis)
    return Workload(
        f"meanvar-{name}",
        f"mean and variance over {'both axes' if axis is None else f'axis {axis}'}, float32",
        reference(formula, arrays),
        implementations(formula, arrays),
        tolerance=1e-4,
        bytes_moved=lambda device, smoke: 4 * side(device, smoke) ** 2,
    )


WORKLOADS = (_workload("0", 0), _workload("1", 1), _workload("all", None))
