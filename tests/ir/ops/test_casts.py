"""Conversions between all dtypes: every 16-bit pattern, ties, saturation, one rounding."""

import itertools
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from gla import dtypes as d
from gla.errors import DtypeError
from gla.ir.ops.casts import HALVES, convert, expand, narrow, reference, widen
from gla.ir.ops.numpy_scalars import NumpyScalars

S = NumpyScalars()
RNG = np.random.default_rng(11)
PATTERNS = np.arange(65536, dtype=np.uint16)
REALS = [x for x in d.ALL if x.kind != "c"]


def same(got, want):
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    nan = np.isnan(want)
    assert np.array_equal(np.isnan(got), nan)
    bits = np.dtype(f"u{want.dtype.itemsize}")
    assert np.array_equal(got.view(bits)[~nan], want.view(bits)[~nan])


def cast(x, source, target):
    """`convert` on arrays: 16-bit floats go in and come out as bits."""
    x = np.ascontiguousarray(x)
    got = convert(S, x.view(np.uint16) if source in HALVES else x, source, target)
    return np.asarray(got).view(target.numpy) if target in HALVES else np.asarray(got)


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_every_pattern_widens_exactly(half):
    with np.errstate(all="ignore"):
        same(widen(S, PATTERNS, half), PATTERNS.view(half.numpy).astype(np.float32))


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("wide", [np.float32, np.float64])
def test_every_pattern_comes_back(half, wide):
    with np.errstate(all="ignore"):
        values = PATTERNS.view(half.numpy)
        same(np.asarray(narrow(S, values.astype(wide), half)).view(half.numpy), values)


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_float32_is_rounded_to_nearest_even(half):
    bits = RNG.integers(0, 2**32, 400_000, dtype=np.uint32)
    ties = (PATTERNS.astype(np.uint32) << 16) | 0x8000
    float16_ties = (widen(S, PATTERNS, d.float16).view(np.uint32)) | 0x1000
    x = np.concatenate([bits, ties, float16_ties, float16_ties + 1, float16_ties - 1]).view(np.float32)
    with np.errstate(all="ignore"):
        same(cast(x, d.float32, half), x.astype(half.numpy))


def test_float64_to_float16_is_rounded_once():
    x = np.concatenate(
        [RNG.uniform(-1, 1, 100_000) * 2.0 ** RNG.integers(-30, 18, 100_000), [65519.999, 65520.0, 1e300, np.inf]]
    )
    with np.errstate(all="ignore"):
        same(cast(x, d.float64, d.float16), x.astype(np.float16))


def nearest_bfloat16(value):
    """The nearest bfloat16 of an exact number, ties to even, by comparing fractions."""
    guess = int(np.array(float(value)).astype(np.float32).view(np.uint32)) >> 16
    options = [np.uint16(guess + k).view(ml_dtypes.bfloat16) for k in (-1, 0, 1) if guess + k >= 0]
    return min(options, key=lambda v: (abs(Fraction(float(v)) - Fraction(value)), int(v.view(np.uint16)) & 1))


def test_float64_to_bfloat16_is_rounded_once():
    tie = 1 + 2.0**-8  # between 1 and 1 + 2**-7; what lies below float32's last bit decides
    x = np.array([tie, tie + 2.0**-40, tie - 2.0**-40, 3 * tie, -tie - 2.0**-45, 1e-39 * tie, 0.1, 257.0])
    x = np.concatenate([x, RNG.uniform(1, 2, 300) * 2.0 ** RNG.integers(-130, 120, 300)])
    same(cast(x, d.float64, d.bfloat16), np.array([nearest_bfloat16(v) for v in x.tolist()], ml_dtypes.bfloat16))


@pytest.mark.parametrize("source", [d.int32, d.int64, d.uint64], ids=str)
def test_integers_to_bfloat16_are_rounded_once(source):
    low, high = d.integer_range(source)
    x = [257, 2**24 + 2**16 + 1, (1 << 30) + (1 << 22) + 1, high, low, low + 1, 0, 1]
    if source.bits == 64:
        x += [(1 << 60) + (1 << 52) + 1, (1 << 60) + (1 << 52) - 1, (1 << 60) + (1 << 52), (1 << 52) - 1, (1 << 53) + 1]
    x += [-v for v in x if source.kind == "i" and v > 0]
    got = cast(np.array(x, source.numpy), source, d.bfloat16)
    same(got, np.array([nearest_bfloat16(v) for v in x], ml_dtypes.bfloat16))


@pytest.mark.parametrize("source", [d.float32, d.float64], ids=str)
@pytest.mark.parametrize("target", [x for x in d.ALL if x.kind in "iu"], ids=str)
def test_floats_saturate_and_nan_gives_zero(source, target):
    low, high = d.integer_range(target)
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2.75, -0.99, low, -1.5], source.numpy)
    want = [0, high, low, high, low, 2, 0, low, -1 if low else 0]
    assert cast(x, source, target).tolist() == want


def test_the_last_float_below_the_limit_is_kept():
    below = np.nextafter(2.0**63, 0)
    assert cast(np.array([below, 2.0**63]), d.float64, d.int64).tolist() == [int(below), 2**63 - 1]
    assert cast(np.array([127.99, -128.99, 128.0]), d.float64, d.int8).tolist() == [127, -128, 127]


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(REALS, 2)), ids=str)
def test_every_pair_of_real_dtypes(source, target):
    x = RNG.integers(-(2**15), 2**15, 64).astype(source.numpy)
    if source.kind == "f":
        x = np.append((x / np.array(64.0, source.numpy)).astype(source.numpy), np.array([np.nan, np.inf, -0.0], source.numpy))
    same(cast(x, source, target), reference(x, dtype=target))


def test_complex_parts_are_converted():
    re, im = np.array([0.1, 0.0]), np.array([1e-300, 2.0])
    got = convert(S, (re, im), d.complex128, d.complex64)
    assert [part.dtype for part in got] == [np.float32] * 2
    assert convert(S, (re, im), d.complex128, d.bool_).tolist() == [True, True]
    assert [float(v) for v in convert(S, np.int8(3), d.int8, d.complex64)] == [3.0, 0.0]


def test_complex_to_real_is_refused():
    with pytest.raises(DtypeError, match="complex64"):
        expand(S, d.complex64, (np.float32(1), np.float32(2)), dtype=d.float32)
