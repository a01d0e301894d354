"""Complex arithmetic and functions against NumPy: a few units of the last place of the modulus, and special values."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from gla.ir.ops.table import ELEMENTWISE
from tests.ir.ops.running import assert_same, run

RNG = np.random.default_rng(13)
DTYPES = [np.complex64, np.complex128]
ROWS = [row.name for row in ELEMENTWISE.values() if "c" in row.kinds and row.name not in ("cast", "where")]


def close(got, want, units=8):
    """Within some units of the last place of the larger part."""
    assert got.dtype == want.dtype
    size = np.maximum(np.abs(want.real), np.abs(want.imag))
    assert np.all(np.abs(got - want) <= units * np.finfo(want.dtype).eps * size), (got, want)


def draws(dtype, count=4000):
    z = (RNG.uniform(-3, 3, count) + 1j * RNG.uniform(-3, 3, count)) * 10.0 ** RNG.uniform(-3, 1, count)
    return z.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ROWS)
def test_against_numpy(name, dtype):
    row = ELEMENTWISE[name]
    arrays = [draws(dtype) for _ in range(row.arity)]
    if name == "power":
        arrays[1] = arrays[1] / np.abs(arrays[1]).max()
    want = row.reference(*arrays)
    if row.result == "bool":
        assert np.array_equal(run(name, *arrays), want)
    else:
        close(run(name, *arrays), np.asarray(want), units=64 if name in ("power", "exp2") else 8)


def test_where_takes_both_parts():
    a, b = draws(np.complex64, 5), draws(np.complex64, 5)
    condition = np.array([True, False, True, False, False])
    assert_same(run("where", condition, a, b), np.where(condition, a, b))


def test_parts_are_joined():
    assert_same(
        run("complex", np.float32([1, -0.0]), np.float32([2, np.nan])), np.array([1 + 2j, complex(-0.0, np.nan)], np.complex64)
    )


@pytest.mark.parametrize("name", ["sqrt", "exp", "sinh", "cosh", "tanh", "log"])
def test_special_values_of_c99(name):
    """Annex G's table, up to signs that it leaves open."""
    parts = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
    z = np.array([complex(a, b) for a, b in itertools.product(parts, parts)])
    z = z[~(np.isnan(z.real) & np.isnan(z.imag))]
    with np.errstate(all="ignore"):
        want = getattr(np, name)(z)
    got = run(name, z)
    for value, g, w in zip(z, got, want):
        for mine, theirs in ((g.real, w.real), (g.imag, w.imag)):
            if np.isnan(value.real) or np.isnan(value.imag):
                continue
            fine = (np.isnan(mine) and np.isnan(theirs)) or abs(mine) == abs(theirs) or abs(mine - theirs) < 1e-15 * abs(theirs)
            assert fine, (name, value, g, w)


@pytest.mark.parametrize("value", [3e300 + 4e300j, 3e-310 + 4e-310j, 1e308 - 1e308j])
def test_modulus_and_root_do_not_overflow(value):
    z = np.array([value])
    close(run("sqrt", z), np.sqrt(z))
    assert np.allclose(run("abs", z), np.abs(z), rtol=1e-14)
    assert np.allclose(
        run("sign", z),
        (z * 2.0**-1000 if abs(value) > 1 else z * 2.0**1000) / abs(z * (2.0**-1000 if abs(value) > 1 else 2.0**1000)),
    )


@pytest.mark.parametrize("name", ["expm1", "log1p", "sin", "tan", "sinh", "tanh", "asin", "atan", "asinh", "atanh"])
def test_small_arguments_keep_both_parts(name):
    z = np.array([1e-10 + 1e-12j, -1e-12 + 1e-10j, 1e-200 - 1e-200j])
    got, order = run(name, z), {"expm1": 0.5, "log1p": -0.5}.get(name, 0.0)
    want = z + order * z * z
    assert np.allclose(got.real, want.real, rtol=1e-14, atol=0)
    assert np.allclose(got.imag, want.imag, rtol=1e-14, atol=0)


def test_logarithm_near_the_unit_circle():
    """log|z| = log1p(|z|**2 - 1) / 2, with the square in exact arithmetic."""
    angles = RNG.uniform(0, 7, 200)
    z = np.cos(angles) + 1j * np.sin(angles)
    exact = [Fraction(float(v.real)) ** 2 + Fraction(float(v.imag)) ** 2 - 1 for v in z]
    assert np.allclose(run("log", z).real, [math.log1p(float(e)) / 2 for e in exact], rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", ["asin", "acos", "atan", "asinh", "acosh", "atanh"])
def test_large_arguments_and_cuts(name):
    z = np.array(
        [3e200 + 4e200j, -3e200 + 1j, 2 + 0j, complex(2, -0.0), complex(-2, 0), complex(0.0, 2), complex(-0.0, -2), 0.5 + 0j]
    )
    close(run(name, z), ELEMENTWISE[name].reference(z))


def test_quotient_of_large_numbers():
    a, b = np.array([1e300 + 1e300j]), np.array([2e300 - 1e300j])
    assert np.allclose(run("divide", a, b), [0.2 + 0.6j])


def test_division_by_zero_follows_numpy():
    a = np.array([1 + 1j, -1 + 0j, 0j])
    with np.errstate(all="ignore"):
        want = a / np.zeros(3, complex)
    assert_same(run("divide", a, np.zeros(3, complex)), want)


def test_exponential_on_the_real_axis_has_a_zero_part():
    assert_same(run("exp", np.array([complex(710.5, 0.0), complex(-np.inf, np.inf)]))[:1], np.array([complex(np.inf, 0.0)]))


def test_powers_of_zero():
    got = run("power", np.array([0j, 0j]), np.array([0j, 2 + 0j]))
    assert got.tolist() == [1, 0]
