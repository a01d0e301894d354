"""`gla.sort`, `argsort`, `take_along_axis`, `searchsorted`, `nonzero`.

In traces, captures and on GPUs they are expressions of gathers (gla/ir/functions/sort.py); outside of those, on the host device,
NumPy sorts: the answers are equal. Sorting is stable; NaN comes last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gla.array.boundary import public
from gla.array.calls import operate
from gla.array.create import asarray, upload
from gla.array.masks import nonzero
from gla.array.scope import current
from gla.array.value import Array, fetch
from gla.errors import DtypeError
from gla.ir.functions import sort as orders
from gla.ir.spans import labels

SMALL = 1024
"""Elements up to which an expression is as quick as NumPy, and stays lazy."""


def _ordered(x: Any, axis: int | None, descending: bool, kind: Any, positions: bool) -> Array:
    if kind is not None and kind not in ("stable", "mergesort", "quicksort", "heapsort"):
        raise DtypeError(
            "GLA0236", f"{kind!r} is no kind of sort", labels=labels("here"), help="leave it out: sorting is stable"
        )
    array = x if isinstance(x, Array) else asarray(x)
    if axis is None:
        array, axis = array.reshape(-1), 0
    function = orders.argsort if positions else orders.sort
    plain = array._scope is None and current.get() is None and array.device == "host"
    if not plain or array.size <= SMALL or array.dtype.kind == "c":
        return operate(lambda node: function(node, axis, descending), (array,))  # type: ignore[no-any-return]
    return upload(by_numpy(fetch(array, "sort"), axis, descending, positions), None if positions else array.dtype, array.device)


def by_numpy(values: np.ndarray, axis: int, descending: bool, positions: bool) -> np.ndarray:
    """As the expressions: stable, NaN last in either direction."""
    keys = values.astype(np.float32) if values.dtype.kind not in "biuf" else values
    if descending:
        keys = np.negative(keys) if keys.dtype.kind == "f" else np.invert(keys)
    if not descending and not positions and keys is values:
        return np.sort(values, axis=axis, kind="stable")
    order = np.argsort(keys, axis=axis, kind="stable")
    return order if positions else np.take_along_axis(values, order, axis)


@public
def sort(x: Any, /, *, axis: int | None = -1, descending: bool = False, stable: bool = True, kind: Any = None) -> Array:
    """The elements along `axis` (of the flattened array for None) in ascending order, or descending; NaN last either way.

    Equal elements keep their order, so `stable=False` changes nothing. DtypeError for complex numbers.
    """
    return _ordered(x, axis, descending, kind, False)


@public
def argsort(x: Any, /, *, axis: int | None = -1, descending: bool = False, stable: bool = True, kind: Any = None) -> Array:
    """int64 positions along `axis` that sort x: `take_along_axis(x, argsort(x))` is `sort(x)`. Options as in `sort`."""
    return _ordered(x, axis, descending, kind, True)


@public
def take_along_axis(x: Any, indices: Any, /, axis: int | None = -1) -> Array:
    """Element by element along `axis`: for axis 0 of a matrix, result[i, j] = x[indices[i, j], j]. Flattened for None."""
    if axis is None:
        x, axis = asarray(x).reshape(-1), 0
    return operate(lambda node, at: orders.take_along_axis(node, at, axis), (x, indices))  # type: ignore[no-any-return]


@public
def searchsorted(x: Any, values: Any, /, *, side: str = "left", sorter: Any = None) -> Array:
    """For each value where in the ascending vector x it would go: before its equals ("left") or behind them ("right"), as int64."""
    if side not in ("left", "right"):
        raise DtypeError("GLA0236", f"side is {side!r}, and takes 'left' or 'right'", labels=labels("here"))
    if sorter is not None:
        x = take_along_axis(x, sorter)
    return operate(lambda node, v: orders.searchsorted(node, v, side), (x, values))  # type: ignore[no-any-return]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sort": sort, "argsort": argsort, "take_along_axis": take_along_axis, "searchsorted": searchsorted, "nonzero": nonzero,
}  # fmt: skip
"""What the namespace gets from here."""


def _argsort(self: Array, axis: int | None = -1, **options: Any) -> Array:
    return argsort(self, axis=axis, **options)  # type: ignore[no-any-return]


def attach() -> None:
    """Give `Array` the methods, and `np.sort(x)` its counterpart."""
    from gla.array import namespace

    namespace.FUNCTIONS.update(FUNCTIONS)
    methods: dict[str, Callable[..., Any]] = {"argsort": _argsort, "nonzero": nonzero}
    for name, method in methods.items():
        setattr(Array, name, method)
