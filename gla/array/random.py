"""`gla.random`: keyed draws, which are pure, and `Generator`, whose state advances.

`gla.random.normal(key, shape)` with equal keys gives equal numbers, on every device, in every replay. A `Generator` keeps its
state in a device array that each draw writes: a replayed draw goes on where the last one stopped.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gla import dtypes
from gla.array.boundary import public
from gla.array.calls import operate
from gla.array.create import asarray
from gla.array.namespace import on
from gla.array.value import Array
from gla.dtypes import DType
from gla.errors import DtypeError
from gla.ir.functions import random as draws
from gla.ir.functions.index import getitem
from gla.ir.node import Node
from gla.ir.spans import labels

__all__ = ["Generator", "bits", "fold", "key", "normal", "randint", "split", "uniform"]


def _dtype(dtype: Any) -> DType | None:
    return dtypes.as_dtype(dtype) if dtype is not None else None


def _shape(shape: Any) -> Any:
    from gla.array.namespace import _traced_size

    return _traced_size(shape)


@public
def key(seed: Any, *, device: str | None = None) -> Array:
    """A key from an integer seed (modulo 2**64): one uint64."""
    if isinstance(seed, bool) or not (isinstance(seed, Array) or hasattr(seed, "__index__")):
        raise DtypeError("GLA0216", f"a seed is one integer, not {seed!r:.40}", labels=labels("here"), help="use random.key(0)")
    if isinstance(seed, Array):
        return operate(draws.key, (seed,))  # type: ignore[no-any-return]
    return on(device, lambda: operate(draws.key, (), (int(seed),)))  # type: ignore[no-any-return]


@public
def fold(key: Any, data: Any) -> Array:
    """A new key from a key and an integer, independent of all draws of the old one."""
    return operate(draws.fold, (key, data))  # type: ignore[no-any-return]


@public
def split(key: Any, count: int = 2) -> Array:
    """`count` keys from one, as a vector of uint64."""
    return operate(lambda k: draws.split(k, count), (key,))  # type: ignore[no-any-return]


@public
def bits(key: Any, shape: Any = ()) -> Array:
    """Uniform 64-bit integers as uint64."""
    extents = _shape(shape)
    return operate(lambda k: draws.bits(k, extents), (key,))  # type: ignore[no-any-return]


@public
def uniform(key: Any, shape: Any = (), *, dtype: Any = None, low: Any = 0.0, high: Any = 1.0) -> Array:
    """Uniform on [low, high), of the default float or `dtype`."""
    wanted, extents = _dtype(dtype), _shape(shape)
    if type(low) is float and type(high) is float and (low, high) == (0.0, 1.0):
        return operate(lambda k: draws.uniform(k, extents, wanted), (key,))  # type: ignore[no-any-return]
    return operate(lambda k, a, b: draws.uniform(k, extents, wanted, a, b), (key, low, high))  # type: ignore[no-any-return]


@public
def normal(key: Any, shape: Any = (), *, dtype: Any = None) -> Array:
    """Standard normal numbers (Box-Muller)."""
    wanted, extents = _dtype(dtype), _shape(shape)
    return operate(lambda k: draws.normal(k, extents, wanted), (key,))  # type: ignore[no-any-return]


@public
def randint(key: Any, shape: Any, low: Any, high: Any, *, dtype: Any = None) -> Array:
    """Integers in [low, high), int64 or `dtype`."""
    wanted, extents = _dtype(dtype), _shape(shape)
    return operate(lambda k, a, b: draws.randint(k, extents, a, b, wanted), (key, low, high))  # type: ignore[no-any-return]


class Generator:
    """Draws whose state advances: `uniform`, `normal`, `integers`. Reproducible from the seed.

    `state` is an array of two uint64 (key, number of draws so far): read it, or set it by `g.state = saved`, without waiting.
    """

    def __init__(self, seed: int = 0, *, device: str | None = None) -> None:
        self._state = asarray([int(seed) % (1 << 64), 0], "uint64", device)

    @property
    def state(self) -> Array:
        """A copy of the state."""
        return self._state.copy()

    @state.setter
    def state(self, value: Any) -> None:
        self._state.assign(value)

    def _next(self) -> Array:
        """The key of the next draw; the state moves on."""

        def child(node: Node) -> Node:
            return draws.fold(getitem(node, 0), getitem(node, 1))

        made: Array = operate(child, (self._state,))

        self._state[1] = self._state[1] + np.uint64(1)
        return made

    @public
    def uniform(self, shape: Any = (), *, dtype: Any = None, low: Any = 0.0, high: Any = 1.0) -> Array:
        """Uniform on [low, high)."""
        return uniform(self._next(), shape, dtype=dtype, low=low, high=high)

    @public
    def normal(self, shape: Any = (), *, dtype: Any = None) -> Array:
        """Standard normal numbers."""
        return normal(self._next(), shape, dtype=dtype)

    @public
    def integers(self, low: Any, high: Any, shape: Any = (), *, dtype: Any = None) -> Array:
        """Integers in [low, high)."""
        return randint(self._next(), shape, low, high, dtype=dtype)
