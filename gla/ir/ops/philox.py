"""Philox4x32-10, the counter-based generator behind `gla.random`, as a row of integer primitives.

Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Equal key and counter, equal bits, on
every device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gla.dtypes import DType, uint32, uint64
from gla.ir.ops.pieces import Value
from gla.ir.ops.row import Elementwise
from gla.ir.ops.scalars import Scalars

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10

Words = tuple[Any, Any, Any, Any]


def philox4x32(s: Scalars, counter: Words, key: tuple[Value, Value]) -> Words:
    """Ten rounds over four counter words and two key words, all uint32."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    m0, m1 = (s.const(m, uint32) for m in MULTIPLIERS)
    w0, w1 = (s.const(w, uint32) for w in WEYL)
    for number in range(ROUNDS):
        if number:
            k0, k1 = s.add(k0, w0), s.add(k1, w1)
        high0, low0 = s.mulhi(m0, c0), s.mul(m0, c0)
        high1, low1 = s.mulhi(m1, c2), s.mul(m1, c2)
        c0, c1, c2, c3 = s.bxor(s.bxor(high1, c1), k0), low1, s.bxor(s.bxor(high0, c3), k1), low0
    return c0, c1, c2, c3


def _split(s: Scalars, x: Value) -> tuple[Value, Value]:
    return s.convert(x, uint32), s.convert(s.shr(x, s.const(32, uint64)), uint32)


def expand(s: Scalars, dtype: DType, key: Value, counter: Value, *, word: int) -> Value:
    """Word 0 or 1 (uint64) of the block that the key and the counter (uint64) name; the upper counter half is 0."""
    zero = s.const(0, uint32)
    low, high = _split(s, counter)
    words = philox4x32(s, (low, high, zero, zero), _split(s, key))
    first, second = (s.convert(w, uint64) for w in words[2 * word : 2 * word + 2])
    return s.bor(first, s.shl(second, s.const(32, uint64)))


def reference(key: Any, counter: Any, *, word: int) -> Any:
    """The same in Python's integers, one element at a time."""

    def block(k: int, n: int) -> int:
        c, keys = [n & mask, n >> 32, 0, 0], [k & mask, k >> 32]
        for _ in range(ROUNDS):
            p0, p1 = MULTIPLIERS[0] * c[0], MULTIPLIERS[1] * c[2]
            c = [(p1 >> 32) ^ c[1] ^ keys[0], p1 & mask, (p0 >> 32) ^ c[3] ^ keys[1], p0 & mask]
            keys = [(a + w) & mask for a, w in zip(keys, WEYL, strict=True)]
        return c[2 * word] | c[2 * word + 1] << 32

    mask = 0xFFFFFFFF
    keys, counters = np.broadcast_arrays(key, counter)
    values = [block(int(k), int(n)) for k, n in zip(keys.ravel(), counters.ravel(), strict=True)]
    return np.array(values, np.uint64).reshape(keys.shape)


ROWS = (
    Elementwise("philox", 2, "u", reference, expand, "word 0 or 1 of Philox4x32-10 for a key and a counter, uint64", cost=90),
)
