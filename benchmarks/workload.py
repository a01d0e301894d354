"""What a workload is: inputs, a float64 reference, and one implementation per library, each optional."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Ready:
    """An implementation prepared on one device: `call` enqueues an iteration, `wait` waits, `result` gives what one iteration computes."""

    call: Callable[[], Any]
    wait: Callable[[], Any]
    result: Callable[[], np.ndarray]


Prepare = Callable[[str, bool], Ready]
"""(device, smoke) -> Ready. Raises ImportError where the library is missing, Unavailable where it has no such device."""


class Unavailable(Exception):
    """This implementation does not run on this device, or the project does not have it yet."""


@dataclass(frozen=True)
class Workload:
    """`reference(device, smoke)` is the float64 result; `tolerance` the greatest ‖out - ref‖ / ‖ref‖ that counts as right.

    `bytes_moved` and `operations`: the fewest that one iteration must move and do, or 0, for effective rates.
    """

    name: str
    title: str
    reference: Callable[[str, bool], np.ndarray]
    implementations: dict[str, Prepare]
    tolerance: float = 1e-3
    devices: tuple[str, ...] = ("host", "cuda")
    bytes_moved: Callable[[str, bool], int] = field(default=lambda device, smoke: 0)
    operations: Callable[[str, bool], float] = field(default=lambda device, smoke: 0.0)


def nothing() -> None:
    """What there is to wait for where calls are synchronous."""


def relative_error(result: np.ndarray, reference: np.ndarray) -> float:
    """‖result - reference‖ / ‖reference‖ in float64; NaN counts as infinite."""
    difference = np.linalg.norm(np.asarray(result, np.float64).ravel() - reference.ravel())
    error = float(difference / max(float(np.linalg.norm(reference)), 1e-300))
    return error if np.isfinite(error) else float("inf")
