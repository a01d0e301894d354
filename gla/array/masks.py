"""Boolean masks outside of traces, where the shape of a result may depend on data: `x[mask]`, `x[mask] = v`, `nonzero`.

On the host NumPy finds the positions; elsewhere a running count and one search kernel do, and only the count is looked at.
Inside a trace the shape of such a result has no value: the refusal is that of looking at an array (scope.py).
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from gla.array.boundary import public
from gla.array.calls import operate
from gla.array.create import asarray, upload
from gla.array.scope import current, look_error
from gla.array.value import Array, fetch
from gla.errors import GlaIndexError, ShapeError
from gla.ir.functions.index import getitem
from gla.ir.functions.mask import running_count, true_positions
from gla.ir.functions.reduce import count_nonzero
from gla.ir.functions.shape import reshape
from gla.ir.spans import labels


def is_mask(key: Any) -> bool:
    """Whether an index is one boolean array (of at least one axis)."""
    if isinstance(key, Array):
        return key.dtype.kind == "b" and key.ndim > 0
    return isinstance(key, np.ndarray) and key.dtype.kind == "b" and key.ndim > 0


def check(array: Array, mask: Any) -> None:
    """A mask has the shape of the axes that it selects from."""
    if array.shape[: mask.ndim] != tuple(mask.shape):
        raise GlaIndexError(
            "GLA0327",
            f"a mask of shape {tuple(mask.shape)} does not fit axes 0.. of {array._type}",
            labels=labels(""),
            help="a mask has the shape of the axes that it selects from",
        )


def count(mask: Any) -> int:
    """How many elements are true. Waits for the device."""
    if isinstance(mask, np.ndarray):
        return int(np.count_nonzero(mask))
    return int(fetch(operate(count_nonzero, (mask,)), "a mask as index"))


def positions(mask: Any, device: str) -> Array:
    """The flat positions of true elements, as int64 on `device`. Waits for the device of the mask."""
    if isinstance(mask, np.ndarray) or mask.device == "host":
        values = mask if isinstance(mask, np.ndarray) else fetch(mask, "a mask as index")
        return upload(np.flatnonzero(values), None, device)
    number = count(mask)
    return operate(lambda m: true_positions(running_count(m), number), (mask,))  # type: ignore[no-any-return]


def select(array: Array, mask: Any) -> Array:
    """`array[mask]`: a new value of (count, *the axes that the mask leaves)."""
    check(array, mask)
    at = positions(mask, array.device)
    lead, rest = prod(mask.shape), array.shape[mask.ndim :]
    return operate(lambda node, i: getitem(reshape(node, (lead, *rest)), i), (array, at))  # type: ignore[no-any-return]


@public
def nonzero(x: Any, /) -> tuple[Array, ...]:
    """The positions of what is not zero, in row-major order: one int64 vector an axis. Outside of traces only."""
    array = x if isinstance(x, Array) else asarray(x)
    if not array.ndim:
        raise ShapeError("GLA0341", f"nonzero needs an axis, and {array._type} has none", labels=labels("here"))
    if array._scope is not None or current.get() is not None:
        raise look_error(array, "nonzero()")
    flat = positions(array if array.dtype.kind == "b" else array != 0, array.device)
    found = []
    for extent in reversed(array.shape):
        found.append(flat % extent if extent else flat)
        flat = flat // extent if extent else flat
    return tuple(reversed(found))
