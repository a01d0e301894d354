"""The order in which reductions add, fixed by the reduced length alone: the one place that says it.

Both devices, every pass and every printer ask here, so that a sum has the same bits on all of them and on every replay.
"""

from __future__ import annotations

CHUNK = 16384  # a longer reduction is split into ceil(length / CHUNK) chunks, and their results reduced by the same rule


def partials(length: int) -> int:
    """The number of partial results that a reduction of `length` elements keeps: 1, 32 or 256."""
    if length <= 8:
        return 1
    return 32 if length <= 2048 else 256
