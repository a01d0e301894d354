"""How arrays print: NumPy's layout, with dtype and device. Large ones are summarised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gla import dtypes
from gla.array.scope import current

if TYPE_CHECKING:
    from gla.array.value import Array


def _contents(array: Array, what: str) -> np.ndarray:
    from gla.array.value import fetch

    values = fetch(array, what)
    return values.astype(np.float32) if array.dtype is dtypes.bfloat16 else values


def represent(array: Array) -> str:
    """`gla.Array([1., 2.], dtype=float64, device='host')`; inside a trace the type alone, since repr must not fail there."""
    if array._scope is not None or current.get() is not None:
        return f"<traced gla.Array {array._type}>" if array._scope is not None else f"<gla.Array {array._type}>"
    prefix = "gla.Array("
    body = np.array2string(_contents(array, "repr(x)"), separator=", ", prefix=prefix, suffix=",")
    shape = f", shape={array.shape}" if 0 in array.shape and array.ndim > 1 else ""
    return f"{prefix}{body}{shape}, dtype={array.dtype}, device={array.device!r})"


def show(array: Array) -> str:
    """As NumPy prints it."""
    return str(_contents(array, "print(x)"))
