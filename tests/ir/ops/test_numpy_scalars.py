"""The NumPy primitives against exact arithmetic: they judge every expansion, so they are judged first."""

from fractions import Fraction

import numpy as np
import pytest

from gla.dtypes import float64, int64, uint32, uint64
from gla.ir.ops.numpy_scalars import NumpyScalars

S = NumpyScalars()
RNG = np.random.default_rng(5)


def exact_fma(a, b, c):
    return float(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)))


def cancelling(dtype, count=400):
    """Triples in which the product and the addend nearly cancel, so that a second rounding would show."""
    a, b = (RNG.uniform(-2, 2, count).astype(dtype) for _ in range(2))
    c = (-a * b * (1 + RNG.integers(-3, 4, count) * np.finfo(dtype).eps)).astype(dtype)
    return a, b, c


def test_fma_of_float64_is_rounded_once():
    a, b, c = cancelling(np.float64)
    assert S.fma(a, b, c).tolist() == [exact_fma(*v) for v in zip(a, b, c)]


def test_fma_of_float64_keeps_subnormal_results():
    a = RNG.uniform(1, 2, 100) * 2.0**-600
    b = RNG.uniform(1, 2, 100) * 2.0**-460
    c = RNG.uniform(-1, 1, 100) * 2.0**-1060
    assert S.fma(a, b, c).tolist() == [exact_fma(*v) for v in zip(a, b, c)]


def test_fma_of_float32_is_rounded_once():
    a, b, c = cancelling(np.float32, 4000)
    ties = np.float32(1) + np.float32(2.0**-12), np.float32(1) + np.float32(2.0**-12), np.float32(2.0**-60)
    a, b, c = (np.append(v, np.float32(t)) for v, t in zip((a, b, c), ties))
    exact = [Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) for x, y, z in zip(a, b, c)]
    got = S.fma(a, b, c)
    for value, want in zip(got, exact):
        near = [np.nextafter(value, np.float32(d)) for d in (-np.inf, np.inf)]
        assert all(abs(Fraction(float(value)) - want) <= abs(Fraction(float(n)) - want) for n in near)


@pytest.mark.parametrize("dtype", [uint32, uint64])
def test_mulhi_is_the_upper_half(dtype):
    a, b = (RNG.integers(0, 2**dtype.bits, 200, dtype=dtype.numpy) for _ in range(2))
    assert S.mulhi(a, b).tolist() == [int(x) * int(y) >> dtype.bits for x, y in zip(a, b)]


def test_integer_division_truncates():
    a, b = np.array([-7, 7, -7, 7]), np.array([2, -2, -2, 2])
    assert S.idiv(a, b).tolist() == [-3, -3, 3, 3]
    assert S.irem(a, b).tolist() == [-1, 1, -1, 1]


def test_integers_wrap_without_a_warning():
    assert S.add(S.const(2**63 - 1, int64), S.const(1, int64)) == -(2**63)


def test_bitcast_keeps_bits():
    assert S.bitcast(np.float64(1.0), uint64) == 0x3FF0000000000000
    assert S.dtype(S.bitcast(np.uint64(0), float64)) is float64
