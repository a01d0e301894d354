"""Rows that are exact or rounded once, against NumPy over all their dtypes and the values that other tools got wrong."""

import itertools

import numpy as np
import pytest

from gla import dtypes as d
from gla.ir.ops.table import ELEMENTWISE
from tests.ir.ops.running import S, assert_same, run

FUNCTIONS = {
    *("cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "atan2"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "hypot", "erf", "logaddexp", "power"),
}
EXACT = [row for name, row in ELEMENTWISE.items() if name not in FUNCTIONS | {"cast", "philox", "nextafter", "fma", "complex"}]
REAL = [d.bool_, d.int8, d.int16, d.int32, d.int64, d.uint8, d.uint16, d.uint32, d.uint64, d.float32, d.float64]
CASES = [(row.name, dtype) for row in EXACT for dtype in REAL if dtype.kind in row.kinds]


def values(dtype):
    """Ends, zeros, ones, and some numbers between."""
    if dtype is d.bool_:
        return np.array([False, True])
    if dtype.kind in "iu":
        low, high = d.integer_range(dtype)
        some = [0, 1, 2, 3, 5, 7, 63, 64, 100, high, high - 1, low, low + 1]
        return np.array(some + [v for v in (-1, -2, -5, -7) if low < 0], dtype.numpy)
    info = np.finfo(dtype.numpy)
    some = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -0.5, -2.5, 0.1, -7.3, 6.0, 1e-3, np.inf, -np.inf, np.nan]
    return np.array([*some, info.max, info.tiny, info.smallest_subnormal, -info.smallest_subnormal], dtype.numpy)


def tuples(row, dtype):
    """All combinations of values as arrays, one an operand; a condition is bool."""
    grids = [values(d.bool_ if i in row.mixed else dtype) for i in range(row.arity)]
    return [np.ravel(g) for g in np.meshgrid(*grids, indexing="ij")]


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
def test_against_numpy(name, dtype):
    row = ELEMENTWISE[name]
    arrays = tuples(row, dtype)
    want = np.asarray(row.reference(*arrays)).astype(row.result_dtype(dtype).numpy)
    got = run(name, *arrays)
    if name in ("maximum", "minimum"):  # the sign of a zero among zeros is open
        got, want = got + dtype.numpy.type(0), want + dtype.numpy.type(0)
    assert_same(got, want)


@pytest.mark.parametrize("half", [d.float16, d.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["add", "multiply", "divide", "sqrt", "maximum", "round", "less", "remainder", "where"])
def test_halves_are_rounded_once_per_operation(name, half):
    row = ELEMENTWISE[name]
    rng = np.random.default_rng(3)
    arrays = [rng.uniform(0.1, 8, 500).astype(half.numpy) for _ in range(row.arity)]
    if name == "where":
        arrays[0] = arrays[0] > 4
    wide = [a if a.dtype == bool else a.astype(np.float32) for a in arrays]
    want = np.asarray(row.reference(*wide))
    assert np.array_equal(run(name, *arrays), want.astype(half.numpy) if row.result == "same" else want)


@pytest.mark.parametrize("dtype", [x for x in REAL if x.kind in "iu"], ids=str)
def test_division_of_integers_floors(dtype):
    a, b = np.array([-7, 7, -1, -6, 6]), np.array([2, -2, 2, 5, -5])
    if dtype.kind == "u":
        a, b = np.array([7, 6, 0]), np.array([2, 5, 3])
    a, b = a.astype(dtype.numpy), b.astype(dtype.numpy)
    assert run("floor_divide", a, b).tolist() == [x // y for x, y in zip(a.tolist(), b.tolist())]
    assert run("remainder", a, b).tolist() == [x % y for x, y in zip(a.tolist(), b.tolist())]


@pytest.mark.parametrize("dtype", [x for x in REAL if x.kind in "iu"], ids=str)
def test_division_by_zero_gives_zero(dtype):
    a, zero = np.array([5, 0, 100], dtype.numpy), np.zeros(3, dtype.numpy)
    for name in ("floor_divide", "remainder", "fmod"):
        assert run(name, a, zero).tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [x for x in REAL if x.kind == "i"], ids=str)
def test_the_least_integer_wraps(dtype):
    least = d.integer_range(dtype)[0]
    a, b = np.array([least], dtype.numpy), np.array([-1], dtype.numpy)
    assert run("floor_divide", a, b).tolist() == [least]
    assert run("remainder", a, b).tolist() == [0]
    assert run("abs", a).tolist() == [least]
    assert run("negative", a).tolist() == [least]


def test_shifts_by_the_width_or_more():
    a = np.array([1, 5, -5], np.int32)
    assert run("bitwise_left_shift", a, np.int32(32)).tolist() == [0, 0, 0]
    assert run("bitwise_right_shift", a, np.int32(40)).tolist() == [0, 0, -1]
    assert run("bitwise_right_shift", a, np.int32(-1)).tolist() == [0, 0, -1]
    assert run("bitwise_left_shift", a, np.int32(-1)).tolist() == [0, 0, 0]


def test_a_shift_count_may_have_another_dtype():
    assert run("bitwise_left_shift", np.array([3], np.uint8), np.int64(2)).tolist() == [12]


def test_integer_powers_are_exact():
    assert run("power", np.array([123456789, 3, -2, 7]), np.array([2, 39, 63, 0])).tolist() == [
        15241578750190521,
        4052555153018976267,
        -(2**63),
        1,
    ]


def test_negative_integer_exponents():
    bases, exponents = map(np.ravel, np.meshgrid([1, -1, 2, 0, -3], [-1, -2]))
    assert run("power", bases, exponents).tolist() == [1, -1, 0, 0, 0, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("dtype", [d.int8, d.uint8, d.int64], ids=str)
def test_integer_powers_wrap(dtype):
    grid = list(itertools.product([0, 1, 2, 3, 7, 100], [0, 1, 2, 7, 8, 63, 100]))
    a, b = (np.array(v, dtype.numpy) for v in zip(*grid))
    want = [pow(x, y, 1 << dtype.bits) for x, y in grid]
    want = [w - (1 << dtype.bits) if dtype.kind == "i" and w >> (dtype.bits - 1) else w for w in want]
    assert run("power", a, b).tolist() == want


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_nan_on_either_side(name, dtype):
    a, b = np.array([np.nan, 1.0, np.nan], dtype), np.array([1.0, np.nan, np.nan], dtype)
    assert np.isnan(run(name, a, b)).all()


def test_ties_to_even_keep_the_sign_of_zero():
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5])
    assert_same(run("round", x), np.array([0.0, 2.0, 2.0, -0.0, -2.0, -2.0]))


def test_sign_of_nan_is_nan():
    got = run("sign", np.array([np.nan, -0.0, -3.0]))
    assert np.isnan(got[0])
    assert got[1:].tolist() == [0.0, -1.0]


def test_clip_with_crossed_bounds():
    x = np.arange(10)
    assert run("minimum", run("maximum", x, np.full(10, 9)), np.full(10, 5)).tolist() == [5] * 10


def test_subnormals_are_kept():
    assert run("divide", np.float32(1.1754944e-38), np.float32(2)) == np.float32(5.877472e-39)


def test_where_does_not_leak():
    x = np.array([4.0, 0.0, -1.0])
    assert run("where", x > 0, run("sqrt", x), np.zeros(3)).tolist() == [2.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nextafter(dtype):
    a, b = (np.ravel(g) for g in np.meshgrid(values(d.as_dtype(dtype)), values(d.as_dtype(dtype))))
    with np.errstate(all="ignore"):
        assert_same(run("nextafter", a, b), np.nextafter(a, b))


def test_nextafter_steps_float16_by_its_own_last_place():
    a, b = (np.ravel(g) for g in np.meshgrid(*[np.array([0, 1, -1, 65504, np.inf, np.nan, 6e-8], np.float16)] * 2))
    row = ELEMENTWISE["nextafter"]
    got = np.asarray(row.expand(S, d.float16, a.view(np.uint16), b.view(np.uint16))).view(np.float16)
    with np.errstate(all="ignore"):
        assert_same(got, np.nextafter(a, b))


def test_fma_rounds_once():
    x = np.float64(1 + 2.0**-30)
    assert run("fma", x, x, np.float64(-1 - 2.0**-29)) == 2.0**-60
    assert run("fma", np.int32(3), np.int32(4), np.int32(5)) == 17
