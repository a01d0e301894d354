"""Random numbers from a key, or from a state of key and counter: pure, counter-based, equal on every device.

Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC11, 2011). A key is one uint64;
element i of a draw uses the block with counter i. A state is three uint64, a key and the low and high word of a counter of 128
bits: element i uses block counter + i, so that two draws in a row are one long draw. Normals by the Box-Muller transform (1958).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, tau
from typing import Any

from gla import dtypes
from gla.dtypes import DType
from gla.errors import DtypeError
from gla.ir.builder import Operand, apply, as_node, broadcast, cast, constant, default_float
from gla.ir.functions.create import iota, shape_of
from gla.ir.functions.shape import reshape, stack, take_slice
from gla.ir.node import Node, make
from gla.ir.spans import here, labels
from gla.ir.types import Type

# Separates the streams of fold from those of draws: the counter of a fold has this bit set.
FOLD_BIT = 1 << 63


def _as_key(key: Operand) -> Node:
    node = as_node(key)
    if node.shape or node.dtype is not dtypes.uint64:
        raise DtypeError(
            "GLA0216",
            f"a random key is one uint64, not {node.type}",
            labels=labels("", (str(node.type), node)),
            help="make one: random.key(seed)",
        )
    return node


def key(seed: Operand) -> Node:
    """A key from an integer seed (taken modulo 2**64)."""
    if isinstance(seed, int) and not isinstance(seed, bool):
        return constant(seed % (1 << 64), dtypes.uint64, literal=False)
    node = as_node(seed)
    if node.dtype.kind not in "iu" or node.shape:
        raise DtypeError(
            "GLA0216",
            f"a seed is one integer, not {node.type}",
            labels=labels("", (str(node.type), node)),
            help="use random.key(0)",
        )
    return make("cast", (node,), {"dtype": dtypes.uint64}, Type(dtypes.uint64), here)


def _words(k: Node, counter: Node, word: int) -> Node:
    """One half (64 of 128 bits) of the Philox block of `counter` under key `k`, elementwise."""
    return make("philox", (broadcast(k, counter.shape), counter), {"word": word}, Type(dtypes.uint64, counter.shape), here)


def fold(k: Operand, data: Operand) -> Node:
    """A new key from a key and an integer: independent of every draw of the old one."""
    node = as_node(data)
    number = make("cast", (node,), {"dtype": dtypes.uint64}, Type(dtypes.uint64, node.shape), here)
    return _words(_as_key(k), apply("bitwise_or", number, constant(FOLD_BIT, dtypes.uint64)), 0)


def split(k: Operand, count: int = 2) -> Node:
    """`count` keys from one, as a vector."""
    number = cast(iota(count), dtypes.uint64)
    parent = _as_key(k)
    return _words(parent, apply("bitwise_or", number, constant(FOLD_BIT | (1 << 62), dtypes.uint64)), 0)


def _counter(shape: tuple[int, ...]) -> Node:
    return cast(reshape(iota(prod(shape)), shape), dtypes.uint64)


@dataclass(frozen=True, slots=True)
class Counted:
    """Draws from a state: `key`, `low` and `high` are its words, `following` the key of the blocks behind the end of `low`."""

    key: Node
    low: Node
    following: Node

    def words(self, shape: tuple[int, ...], word: int) -> Node:
        counter = apply("add", broadcast(self.low, shape), _counter(shape))
        wrapped = apply("less", counter, broadcast(self.low, shape))
        keys = apply("where", wrapped, broadcast(self.following, shape), broadcast(self.key, shape))
        return make("philox", (keys, counter), {"word": word}, Type(dtypes.uint64, shape), here)


Source = Operand | Counted
"""What numbers are drawn from: a key, or a state."""


def initial_state(seed: int) -> Node:
    """The state of a seed (modulo 2**64) before the first draw."""
    words = [constant(seed % (1 << 64), dtypes.uint64, literal=False), *[constant(0, dtypes.uint64)] * 2]
    return stack(words)


def counted(state: Node) -> Counted:
    """The draws that come next after `state`. Each high word of the counter has a key of its own."""
    if state.shape != (3,) or state.dtype is not dtypes.uint64:
        raise DtypeError(
            "GLA0216",
            f"the state of a generator is three uint64, not {state.type}",
            labels=labels("", (str(state.type), state)),
            help="use what g.state gave",
        )
    key, low, high = (reshape(take_slice(state, (k,), (1,), (1,)), ()) for k in range(3))
    return Counted(fold(key, high), low, fold(key, apply("add", high, constant(1, dtypes.uint64))))


def advanced(state: Node, count: int) -> Node:
    """`state` after a draw of `count` elements: the counter moves on by that many, carry included."""
    key, low, high = (reshape(take_slice(state, (k,), (1,), (1,)), ()) for k in range(3))
    moved = apply("add", low, constant(count, dtypes.uint64, literal=False))
    carry = make("cast", (apply("less", moved, low),), {"dtype": dtypes.uint64}, Type(dtypes.uint64), here)
    return stack([key, moved, apply("add", high, carry)])


def _block(source: Source, shape: tuple[int, ...], word: int) -> Node:
    """One word of each element's block."""
    return source.words(shape, word) if isinstance(source, Counted) else _words(_as_key(source), _counter(shape), word)


def bits(k: Source, shape: Any) -> Node:
    """Uniform 64-bit integers as uint64."""
    return _block(k, shape_of(shape), 0)


def _unit(word: Node, dtype: DType) -> Node:
    """The top 53 (24) bits as a float64 (float32) in [0, 1)."""
    digits = 53 if dtype is dtypes.float64 else 24
    top = apply("bitwise_right_shift", word, constant(64 - digits, dtypes.uint64))
    return apply("multiply", cast(top, dtype), constant(2.0**-digits, dtype))


def _float_dtype(dtype: DType | None) -> tuple[DType, DType]:
    """(dtype asked for, dtype computed in)."""
    dtype = dtype or default_float.get()
    if dtype.kind != "f":
        raise DtypeError(
            "GLA0217",
            f"random floats cannot be of dtype {dtype}",
            labels=labels(""),
            help="use float32 or float64; randint draws integers",
        )
    return dtype, dtypes.float64 if dtype is dtypes.float64 else dtypes.float32


def uniform(k: Source, shape: Any = (), dtype: DType | None = None, low: Operand = 0.0, high: Operand = 1.0) -> Node:
    """Uniform on [low, high)."""
    wanted, work = _float_dtype(dtype)
    unit = _unit(bits(k, shape), work)
    if not (low == 0.0 and high == 1.0 and not isinstance(low, Node) and not isinstance(high, Node)):
        unit = apply("add", low, apply("multiply", unit, apply("subtract", high, low)))
    return cast(unit, wanted)


def normal(k: Source, shape: Any = (), dtype: DType | None = None) -> Node:
    """Standard normal: sqrt(-2 log(1 - u1)) cos(2 pi u2), u1 and u2 from the two halves of one block."""
    wanted, work = _float_dtype(dtype)
    extents = shape_of(shape)
    u1, u2 = (_unit(_block(k, extents, half), work) for half in (0, 1))
    radius = apply("sqrt", apply("multiply", constant(-2.0, work), apply("log", apply("subtract", constant(1.0, work), u1))))
    return cast(apply("multiply", radius, apply("cos", apply("multiply", constant(tau, work), u2))), wanted)


def randint(k: Source, shape: Any, low: Operand, high: Operand, dtype: DType | None = None) -> Node:
    """Integers in [low, high): the high bits of a 64-bit word modulo the span (bias below 2**-31 for spans under 2**32)."""
    wanted = dtype or dtypes.int64
    if wanted.kind not in "iu":
        raise DtypeError(
            "GLA0217",
            f"random integers cannot be of dtype {wanted}",
            labels=labels(""),
            help="use an integer dtype, or uniform",
        )
    span = make(
        "cast",
        (apply("subtract", cast(high, dtypes.int64), cast(low, dtypes.int64)),),
        {"dtype": dtypes.uint64},
        Type(dtypes.uint64),
        here,
    )
    offset = make(
        "cast",
        (apply("remainder", bits(k, shape), span),),
        {"dtype": dtypes.int64},
        Type(dtypes.int64, shape_of(shape)),
        here,
    )
    return cast(apply("add", offset, cast(low, dtypes.int64)), wanted)
