"""Philox4x32-10 against the known answers that Random123 publishes."""

import numpy as np
import pytest

from gla.dtypes import uint64
from gla.ir.ops.numpy_scalars import NumpyScalars
from gla.ir.ops.philox import philox4x32
from gla.ir.ops.table import elementwise

ALL = 0xFFFFFFFF
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ALL, ALL, ALL, ALL), (ALL, ALL), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_known_answers(counter, key, words):
    got = philox4x32(NumpyScalars(), tuple(map(np.uint32, counter)), tuple(map(np.uint32, key)))
    assert tuple(map(int, got)) == words


def test_the_row_packs_words_low_half_first():
    key = counter = np.zeros(1, np.uint64)
    row = elementwise("philox")
    got = [int(row.expand(NumpyScalars(), uint64, key, counter, word=w)[0]) for w in (0, 1)]
    assert got == [0xE169C58D6627E8D5, 0x9B00DBD8BC57AC4C]


@pytest.mark.parametrize("word", [0, 1])
def test_the_row_agrees_with_plain_integers(word):
    key, counter = np.random.default_rng(0).integers(0, 2**64, (2, 50), dtype=np.uint64)
    row = elementwise("philox")
    assert np.array_equal(row.expand(NumpyScalars(), uint64, key, counter, word=word), row.reference(key, counter, word=word))
