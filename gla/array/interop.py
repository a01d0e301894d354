"""NumPy beside gla: `np.asarray(x)`, `np.sin(x)`, `np.sum(x)`; the result of NumPy functions on arrays of gla is an array of gla."""

from __future__ import annotations

from typing import Any

import numpy as np

from gla.array import create
from gla.array.namespace import FUNCTIONS
from gla.array.value import Array, fetch
from gla.errors import DtypeError
from gla.ir.spans import labels


def to_array(self: Array, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """A fresh NumPy array, in `dtype` if given."""
    if copy is False:
        raise ValueError("np.asarray(x, copy=False) cannot share memory with a gla.Array")
    values = fetch(self, "np.asarray(x)")
    return values if dtype is None else values.astype(dtype, copy=False)


def ufunc(self: Array, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """`np.<ufunc>` with an array of gla among its operands: our function of that name."""
    out = options.pop("out", None)
    name = function.__name__
    if method == "reduce" and name in ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or"):
        reduced = {
            "add": "sum",
            "multiply": "prod",
            "maximum": "max",
            "minimum": "min",
            "logical_and": "all",
            "logical_or": "any",
        }
        result = FUNCTIONS[reduced[name]](
            *inputs, **{"axis": 0, **{k: v for k, v in options.items() if k in ("axis", "keepdims")}}
        )
    elif method == "__call__" and name in FUNCTIONS and not (set(options) - {"dtype", "casting", "where", "subok"}):
        if options.get("where", True) is not True:
            return NotImplemented
        dtype = options.get("dtype")
        result = FUNCTIONS[name](*inputs) if dtype is None else FUNCTIONS[name](*inputs, dtype=dtype)
    else:
        raise DtypeError(
            "GLA0218",
            f"np.{name}{'' if method == '__call__' else '.' + method} has no counterpart in gla",
            labels=labels("here"),
            help=f"go through NumPy: np.{name}(np.asarray(x))",
        )
    if out is None:
        return result
    (target,) = out
    if isinstance(target, Array):
        return target.assign(result)
    target[...] = np.asarray(result)
    return target


def function(self: Array, called: Any, types: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """`np.sum(x)` and its like: our function of that name, or a clear refusal."""
    ours = FUNCTIONS.get(called.__name__)
    if ours is None:
        raise DtypeError(
            "GLA0218",
            f"np.{called.__name__} has no counterpart in gla",
            labels=labels("here"),
            help=f"go through NumPy: np.{called.__name__}(np.asarray(x))",
        )
    given = {k: v for k, v in options.items() if v is not np._NoValue}
    return ours(*args, **given)


def namespace(self: Array, *, api_version: str | None = None) -> Any:
    """The module whose functions take this array (Array API)."""
    import gla

    return gla


def to_device(self: Array, device: str, /, *, stream: Any = None) -> Array:
    """The Array API's name of `to`."""
    return create.to(self, device)
