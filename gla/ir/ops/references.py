"""How the rows' NumPy references are made: quiet about IEEE exceptions, and more precise than what they judge.

Used by the rows and by tests. A reference takes arrays of the row's dtype and gives an array of the result's dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

Reference = Callable[..., Any]

_WIDER = {"float32": np.float64, "float64": np.longdouble, "complex64": np.complex128, "complex128": np.clongdouble}


def quiet(function: Reference) -> Reference:
    """`function` without NumPy's warnings: overflow, division by zero and NaN are values here."""

    @wraps(function)
    def wrapped(*arrays: Any, **attrs: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arrays, **attrs)

    return wrapped


def precise(function: Reference) -> Reference:
    """`function` computed in the next wider format and rounded once to the operands' dtype.

    float32 goes through float64, float64 through long double (which is float64 itself on some machines: the reference is
    then as good as the C library). float16 and bfloat16 go through float64 too.
    """

    @wraps(function)
    def wrapped(*arrays: Any) -> Any:
        dtype = np.asarray(arrays[0]).dtype
        wider = _WIDER.get(dtype.name, np.float64)
        with np.errstate(all="ignore"):
            result = function(*(np.asarray(a).astype(wider) for a in arrays))
            return np.asarray(result).astype(dtype)

    return wrapped
