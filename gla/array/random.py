"""`gla.random`: keyed draws, which are pure, and `Generator`, whose state advances.

`gla.random.normal(key, shape)` with equal keys gives equal numbers, on every device, in every replay. A `Generator` keeps its
state in a device array that each draw writes: a replayed draw goes on where the last one stopped.
"""

from __future__ import annotations

import threading
from math import prod
from typing import Any

from gla import dtypes
from gla.array import realise
from gla.array.assign import store
from gla.array.boundary import public
from gla.array.calls import operate
from gla.array.namespace import on
from gla.array.scope import current
from gla.array.value import Array
from gla.dtypes import DType
from gla.errors import DtypeError
from gla.ir.functions import random as draws
from gla.ir.functions.create import shape_of
from gla.ir.spans import labels

_drawing = threading.RLock()
"""Held from the look at a state until it has moved on: two threads never draw the same numbers."""

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
    """Draws whose state advances: `uniform`, `normal`, `integers`, `bits`. Reproducible from the seed.

    The state is a device array of three uint64: the key, and the low and high word of a counter of 128 bits, which a draw moves
    on by its number of elements. Nothing here waits for the device; in a graph each launch goes on where the last one stopped.
    """

    __slots__ = ("__weakref__", "_state")

    def __init__(self, seed: int = 0, *, device: str | None = None) -> None:
        number = _seed(seed)
        self._state: Array = on(device, lambda: operate(draws.initial_state, (), (number,)))
        if current.get() is None:
            realise.own([self._state])

    @property
    def device(self) -> str:
        """Where the numbers are drawn."""
        return self._state.device

    @property
    def state(self) -> Array:
        """A copy of the state as it is now, as an array: save it, and set it again by `g.state = saved`."""
        return self._state.copy()

    @state.setter
    def state(self, value: Any) -> None:
        self._state.assign(value)

    @public
    def seed(self, seed: int) -> None:
        """Start anew, as `Generator(seed)` does."""
        number = _seed(seed)
        store(self._state, (), lambda _: draws.initial_state(number))

    def _draw(self, draw: Any, shape: Any, *operands: Any) -> Array:
        """What `draw(source, extents, *operands)` makes of the state; the state moves on."""
        extents = shape_of(_shape(shape))
        with _drawing:
            made: Array = operate(lambda node, *rest: draw(draws.counted(node), extents, *rest), (self._state, *operands))
            store(self._state, (), lambda node: draws.advanced(node, prod(extents)))
        return made

    @public
    def bits(self, shape: Any = ()) -> Array:
        """Uniform 64-bit integers as uint64."""
        return self._draw(draws.bits, shape)

    @public
    def uniform(self, shape: Any = (), *, dtype: Any = None, low: Any = 0.0, high: Any = 1.0) -> Array:
        """Uniform on [low, high), of the default float or `dtype`."""
        wanted = _dtype(dtype)
        if type(low) is float and type(high) is float and (low, high) == (0.0, 1.0):
            return self._draw(lambda source, extents: draws.uniform(source, extents, wanted), shape)
        return self._draw(lambda source, extents, a, b: draws.uniform(source, extents, wanted, a, b), shape, low, high)

    @public
    def normal(self, shape: Any = (), *, dtype: Any = None) -> Array:
        """Standard normal numbers."""
        wanted = _dtype(dtype)
        return self._draw(lambda source, extents: draws.normal(source, extents, wanted), shape)

    @public
    def integers(self, low: Any, high: Any, shape: Any = (), *, dtype: Any = None) -> Array:
        """Integers in [low, high), int64 or `dtype`."""
        wanted = _dtype(dtype)
        return self._draw(lambda source, extents, a, b: draws.randint(source, extents, a, b, wanted), shape, low, high)

    def __repr__(self) -> str:
        return f"<gla.random.Generator on {self.device}>"


def _seed(seed: Any) -> int:
    if isinstance(seed, (bool, Array)) or not hasattr(seed, "__index__"):
        raise DtypeError("GLA0216", f"a seed is one integer, not {seed!r:.40}", labels=labels("here"), help="use Generator(0)")
    return int(seed)
