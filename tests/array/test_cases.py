# ruff: noqa: B023, PLW0108
"""Cases from other tools' bug reports (ids as in the list of cases), as lazy expressions and in functions."""

import math
import time

import numpy as np
import pytest

import gla

INTS = ["int8", "int16", "int32", "int64"]


def A(values, dtype=None):
    return gla.asarray(np.array(values), dtype)


def N(x):
    return np.array(np.asarray(x))


@pytest.fixture(params=["lazy", "traced"])
def both(request):
    """Calls a function directly, or as a gla.function."""
    return (lambda f, *a: f(*a)) if request.param == "lazy" else (lambda f, *a: gla.function(f)(*a))


def same(given, expected):
    given, expected = N(given), np.asarray(expected)
    assert given.dtype == expected.dtype and given.shape == expected.shape
    np.testing.assert_array_equal(given, expected)


def test_a01_reversed_column_picked_view(both):
    n = np.arange(300 * 1000 * 2.0).reshape(300, 1000, 2)
    x = A(n)
    for _ in range(3):
        same(both(lambda x: x[::-1, :, 0] - 0.25, x), n[::-1, :, 0] - 0.25)


def test_a02_repeated_indices_read_all_then_write():
    x = A([3.0])
    x[[0, 0]] += 1
    assert N(x).tolist() == [4.0]


def test_a03_g71_overlapping_assignment():
    n = np.array([[3, 7, 1, 0, 0, 0, 0, 0], [4, 3, 4, 6, 5, 0, 0, 0]])
    x = A(n)
    x[1, 3:6] = x[1, 2:5]
    assert N(x)[1].tolist() == [4, 3, 4, 4, 6, 5, 0, 0]
    n = np.random.default_rng(0).random((5000, 100))
    expected = n.copy()
    expected[:-500] = n[500:]

    def move(t):
        t[:-500] = t[500:]

    for call in (move, gla.function(move)):
        t = A(n)
        call(t)
        same(t, expected)


@pytest.mark.parametrize("name", ["sum", "max"])
def test_a06_axis_of_extent_one(both, name):
    same(both(lambda x: getattr(gla, name)(x, axis=1), A(np.ones((4, 1)))), np.ones(4))


def test_a08_matmul_with_inner_length_one(both):
    a, b = np.arange(35.0).reshape(7, 5, 1), np.arange(21.0).reshape(7, 1, 3)
    same(both(lambda a, b: a @ b, A(a), A(b)), a @ b)


@pytest.mark.parametrize("shape", [(2, 2), (2, 3), (3, 2), (64, 64)])
def test_a09_reduction_then_map(both, shape):
    xss, ys = np.arange(float(math.prod(shape))).reshape(shape), np.arange(float(shape[1]))
    same(both(lambda x, y: gla.sum(x + y, axis=0) + 2, A(xss), A(ys)), (xss + ys).sum(axis=0) + 2)


def test_a10_one_against_zero(both):
    assert both(lambda a, b: a + b, gla.zeros((1, 3)), gla.zeros((0, 1))).shape == (0, 3)
    assert N(gla.zeros((1, 3)) + gla.zeros((0, 1))).shape == (0, 3)


def test_a12_rows_divided_by_their_norms():
    x = A(np.random.default_rng(1).random((50, 7)))
    x /= gla.sqrt(gla.sum(x * x, axis=1, keepdims=True))
    np.testing.assert_allclose(np.linalg.norm(N(x), axis=1), 1, rtol=0, atol=1e-15)


def test_a14_the_branch_not_taken_leaves_nothing(both):
    x = A([4.0, 0.0, -1.0])
    same(both(lambda x: gla.where(x > 0, gla.sqrt(x), 0.0), x), [2.0, 0.0, 0.0])
    same(both(lambda x: gla.where(x > 0, 1 / x, 0.0), x), [0.25, 0.0, 0.0])
    same(both(lambda x: gla.sum(gla.where(x > 0, gla.log(x), 0.0)), A([1.0, -1.0])), np.float64(0.0))


def test_a16_running_sums_of_reversed_and_overlapping(both):
    same(both(lambda x: gla.cumulative_sum(x[::-1]), A(np.arange(5.0))), [4.0, 7, 9, 10, 10])
    x = A(np.arange(1.0, 6.0))
    x[1:] = gla.cumulative_sum(x)[:-1]
    same(x, [1.0, 1, 3, 6, 10])


# --- integers
@pytest.mark.parametrize("dtype", INTS)
def test_a20_floor_division_and_remainder(both, dtype):
    a, b = A([-7, 7, -1, -6, 6], dtype), A([2, -2, 2, 5, -5], dtype)
    same(both(lambda a, b: a // b, a, b), np.array([-4, -4, -1, -2, -2], dtype))
    same(both(lambda a, b: a % b, a, b), np.array([1, -1, 1, 4, -4], dtype))
    for c in (2, -2, 8):
        same(both(lambda a: a // c, a), N(a) // np.array(c, dtype))
        same(both(lambda a: a % c, a), N(a) % np.array(c, dtype))


@pytest.mark.parametrize("dtype", INTS)
def test_a22_the_least_integer_by_minus_one(both, dtype):
    low = np.iinfo(dtype).min
    x, y = A([low] * 9, dtype), A([-1] * 9, dtype)
    same(both(lambda x, y: x // y, x, y), np.full(9, low, dtype))
    same(both(lambda x, y: x % y, x, y), np.zeros(9, dtype))
    same(both(abs, x), np.full(9, low, dtype))


def test_a23_division_by_zero_is_zero(both):
    same(both(lambda x, y: x // y, A([-5, 0, 5]), A([0, 0, 0])), np.zeros(3, np.int64))
    same(both(lambda x, y: x % y, A([-5, 0, 5]), A([0, 0, 0])), np.zeros(3, np.int64))


def test_a24_shifts_by_the_width_or_more(both):
    same(both(lambda x, n: x << n, A([1, 5], "int32"), A([32, 33], "int32")), np.zeros(2, np.int32))
    same(both(lambda x, n: x >> n, A([5, -5], "int32"), A([32, 40], "int32")), np.array([0, -1], np.int32))
    same(both(lambda x: x >> 40, A([5, -5], "int32")), np.array([0, -1], np.int32))


def test_a26_float_to_int_saturates(both):
    x = A([np.nan, np.inf, -np.inf, 1e30, -1.9, 300.7])
    same(both(lambda x: x.astype("int32"), x), np.array([0, 2**31 - 1, -(2**31), 2**31 - 1, -1, 300], np.int32))
    same(both(lambda x: x.astype("uint8"), x), np.array([0, 255, 0, 255, 0, 255], np.uint8))


def test_a27_integer_powers_are_exact(both):
    same(both(lambda x: x**2, A([123456789])), np.array([15241578750190521]))
    same(both(lambda x: x**39, A([3])), np.array([4052555153018976267]))
    with pytest.raises(gla.RangeError, match="float"):
        both(lambda x: x**-1, A([2]))


def test_a28_integer_to_a_negative_float_power(both):
    np.testing.assert_array_max_ulp(N(both(lambda x: x**-2.0, A([1, 2, 3]))), np.array([1, 0.25, 1 / 9]), 2)


def test_a29_arithmetic_on_bool(both):
    m = A([True, False])
    for f in (lambda m: -m, lambda m: m - m, lambda m: m + m, lambda m: m * m, lambda m: m / m):
        with pytest.raises(gla.DtypeError, match="~"):
            both(f, m)
    same(both(gla.sum, m), np.int64(1))
    same(both(lambda m: m * 2.0, m), [2.0, 0.0])
    same(both(lambda m: 1 - m, m), np.array([0, 1]))


def test_a30_weak_scalars(both):
    same(both(lambda x: x + 100, A([100], "int8")), np.array([-56], np.int8))
    with pytest.raises(OverflowError, match="int8"):
        both(lambda x: x + 300, A([1], "int8"))
    assert both(lambda x: x * 0.1, A([1.0], "float32")).dtype == gla.float32
    assert both(lambda x: x * 1.5, A([1], "int8")).dtype == gla.float64
    assert both(lambda x: x / 2, A([1], "int32")).dtype == gla.float64


def test_a31_clip(both):
    same(both(lambda x: gla.clip(x, 9, 5), A(np.arange(10))), np.full(10, 5))
    same(both(lambda x: gla.clip(x, 0, -0.5), A([1, -0.25, -1])), np.full(3, -0.5))
    assert math.isnan(float(gla.clip(A(np.nan), 0.0, 1.0)))


def test_a33_round_half_to_even(both):
    r = N(both(gla.round, A([0.5, 1.5, 2.5, -0.5, -1.5, -2.5])))
    assert r.tolist() == [0, 2, 2, 0, -2, -2]
    assert np.signbit(r).tolist() == [False, False, False, True, True, True]


def test_a34_integers_near_2_63():
    same(gla.asarray([-1, 2**63 - 1]), np.array([-1, 2**63 - 1]))
    same(gla.asarray([2**63]), np.array([2**63], np.uint64))
    with pytest.raises(gla.RangeError):
        gla.asarray([-1, 2**63])
    assert len(gla.arange(0, 10**18 + 1, 10**16)) == 101


def test_a35_sign(both):
    r = N(both(gla.sign, A([np.nan, -0.0, -3.0, 2.0])))
    assert math.isnan(r[0]) and r[1:].tolist() == [0, -1, 1]


# --- floating point
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_a41_nan_wins_in_maximum(both, dtype):
    x, y = gla.asarray([np.nan, 1.0], dtype), gla.asarray([1.0, np.nan], dtype)
    for name in ("maximum", "minimum"):
        assert np.isnan(N(both(lambda x, y: getattr(gla, name)(x, y), x, y)).astype(float)).all()
        assert np.isnan(N(both(lambda x: getattr(gla, name)(x, 0.0), x)).astype(float)).tolist() == [True, False]
        assert np.isnan(N(both(lambda x: getattr(gla, name)(0.0, x), x)).astype(float)).tolist() == [True, False]


def test_a43_subnormals_are_kept(both):
    same(both(lambda x: x / 2, A([1.1754944e-38], "float32")), np.array([5.877472e-39], np.float32))
    np.testing.assert_allclose(N(both(gla.log, A([1e-45], "float32"))), [-103.27893], rtol=1e-6)


def test_a44_no_contraction(both):
    x = A(np.full(9, 0.1))
    same(both(lambda x, y: x * x - y * y, x, x), np.zeros(9))


def test_a45_no_reassociation(both):
    same(both(lambda x: (x + 0.1) + 0.2, A([0.0])), [0.1 + 0.2])
    same(both(lambda x: (x + 1e16) - 1e16, A([1.0])), [0.0])
    for f in (lambda x: x / 3 * 3, lambda x: x * 0.1 * 10, lambda x: x**2, lambda x: x / 2, lambda x: x / 3):
        n = np.random.default_rng(2).random(100)
        same(both(f, A(n)), f(n))


def test_a47_complex_square(both):
    r = N(both(lambda z: z**2, A([-1 + 0j])))
    assert r[0].real == 1 and r[0].imag == 0


def test_a48_small_arguments(both):
    np.testing.assert_allclose(float(both(gla.expm1, A(1e-10))), 1.00000000005e-10, rtol=1e-15)
    np.testing.assert_allclose(float(both(gla.log1p, A(1e-10))), 9.9999999995e-11, rtol=1e-15)
    assert float(both(gla.hypot, A(3e200), A(4e200))) == pytest.approx(5e200, rel=1e-15)
    assert float(both(gla.hypot, A(3e-200), A(4e-200))) == pytest.approx(5e-200, rel=1e-15)
    same(both(gla.expm1, A([-88.0, 89.0], "float32")), np.array([-1, np.inf], np.float32))


def test_a49_softmax_with_nan_and_inf(both):
    def softmax(x):
        e = gla.exp(x - gla.max(x, axis=1, keepdims=True))
        return e / gla.sum(e, axis=1, keepdims=True)

    x = np.array([[1.0, np.nan, 2.0], [np.inf, 0.0, 1.0], [-np.inf] * 3, [0.0, 0.0, 0.0]])
    r = N(both(softmax, A(x)))
    assert np.isnan(r[:3]).all()
    np.testing.assert_allclose(r[3], [1 / 3] * 3)


# --- reductions
def test_a55_variance_in_float32(both):
    x = A([2281.5, 2281.25], "float32")
    for options in ({}, {"axis": 0}):
        assert float(both(lambda x: gla.var(x, **options), x)) == 0.015625
        assert float(both(lambda x: gla.var(x, correction=1, **options), x)) == 0.03125


def test_a57_float16_means_and_sums(both):
    assert float(both(gla.mean, A([40000] * 3, "float16"))) == 40000
    assert float(both(gla.mean, A(np.ones(100_000), "float16"))) == 1
    assert float(both(gla.sum, A(np.ones(70_000), "float16"))) == np.inf
    assert float(both(lambda x: gla.sum(x, dtype="float32"), A(np.ones(70_000), "float16"))) == 70000


def test_a59_first_of_equals_and_first_nan(both):
    assert int(both(gla.argmax, A([3, np.nan, 1, 5]))) == 1
    assert int(both(gla.argmin, A([3, np.nan, 1, 5]))) == 1
    assert int(both(gla.argmax, A([1, 3, 3, 2]))) == 1


@pytest.mark.parametrize("n", [33, 1000, 5000, 10**6])
def test_a60_first_at_block_boundaries(n):
    x = gla.full(n, 2.0)
    for axis in (None, 0, -1):
        r = gla.argmax(x, axis=axis)
        assert int(r) == 0 and r.dtype == gla.int64
    assert int(gla.argmax(gla.full(61, np.nan))) == 0


def test_a61_empty_arrays(both):
    e = gla.zeros((0, 3))
    assert both(lambda e: gla.max(e, axis=1), e).shape == (0,)
    with pytest.raises(gla.ShapeError, match="axis 0"):
        both(lambda e: gla.max(e, axis=0), e)
    same(both(lambda e: gla.sum(e, axis=0), e), np.zeros(3))
    assert float(both(gla.prod, gla.zeros(0))) == 1
    assert bool(both(gla.all, gla.zeros(0))) and not bool(both(gla.any, gla.zeros(0)))
    assert math.isnan(float(both(gla.mean, gla.zeros(0))))
    with pytest.raises(ValueError):
        both(lambda e: gla.sum(e, axis=5), e)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_a63_strided_operands_of_matmul(both, dtype):
    rng = np.random.default_rng(3)
    w, a, b, x = (rng.random(s).astype(dtype) for s in ((2, 4, 5), (6, 8), (4, 6), 5))
    cases = (
        (lambda w, x: w[0] @ x, w, x), (lambda w, x: w[:, :, 1] @ x[:4], w, x), (lambda a, b: a[::2, ::2] @ b[:, ::-1], a, b),
        (lambda a, b: a.T[1:] @ b.T, a, b),
    )  # fmt: skip
    for f, *args in cases:
        np.testing.assert_allclose(
            N(both(f, *map(A, args))), f(*args), rtol=1e-5 if dtype in ("float32", "complex64") else 1e-12
        )


def test_a65_shapes_of_matmul():
    v, m = A(np.ones(3)), A(np.ones((2, 3, 4)))
    assert (v @ m).shape == (2, 4)
    assert (A(np.ones((2, 4, 3))) @ v).shape == (2, 4)
    assert (v @ v).shape == ()
    with pytest.raises(gla.ShapeError, match=r"\*"):
        v @ A(2.0)
    with pytest.raises(gla.ShapeError, match=r"f64\[3\].*f64\[4\]"):
        v @ A(np.ones(4))


def test_a66_rounding_to_bfloat16():
    x = A([1 + 2**-8, 1 + 3 * 2**-8, 0.1, 257, np.nan]).astype("bfloat16")
    assert x.dtype == gla.bfloat16
    r = N(x.astype("float64"))
    assert r[:4].tolist() == [1.0, 1.015625, 0.10009765625, 256.0] and math.isnan(r[4])


def test_a67_long_columns_of_float16(both):
    n = np.random.default_rng(4).random((5000, 500)).astype(np.float16)
    np.testing.assert_allclose(
        N(both(lambda x: gla.mean(x, axis=0), A(n))).astype(float), n.astype(float).mean(axis=0), rtol=1e-3
    )


@pytest.mark.parametrize("bounds, n", [((125.8, 224.8, 3), 34), ((1250, 1350.005, 0.005), 20002), ((0, 1, 0.1), 10)])
def test_a70_length_of_a_float_arange(bounds, n):
    assert gla.arange(*bounds).shape == (n,)
    np.testing.assert_allclose(N(gla.arange(*bounds)), np.arange(*bounds))


def test_a71_linspace():
    for a, b, n in ((0.1, 0.7, 7), (-3.0, 1e-5, 11), (1 / 3, 5.0, 1000)):
        r = N(gla.linspace(a, b, n))
        assert r[-1] == b and r[0] == a
    assert N(gla.linspace(5, 6, 1)).tolist() == [5]
    assert gla.linspace(5, 6, 0).shape == (0,)
    assert N(gla.linspace(0, 10, 11)).tolist() == list(range(11))


@pytest.mark.parametrize("shape", [(), (1,), (1000,)])
def test_a77_shared_subexpressions_are_walked_once(shape):
    """One element, and numbers beside an array, are the hard ones: LLVM's vectoriser took time exponential in the depth."""

    def mix(a, b):
        for _ in range(60):
            a, b = a * 0.5 + b * 0.5, b * 0.5 + a * 0.5
        return a

    def beside(a, b):
        return gla.ones(100) * mix(a, b)

    f = gla.function(mix)
    a, b = A(np.full(shape, 1.0)), A(np.full(shape, 2.0))
    start = time.perf_counter()
    np.testing.assert_array_equal(N(mix(a, b)), np.full(shape, 1.5))
    np.testing.assert_array_equal(N(f(a, b)), np.full(shape, 1.5))
    if shape != (1000,):
        np.testing.assert_array_equal(N(beside(a, b)), np.full(100, 1.5))
    assert len(f.ir(a, b)) < 100_000
    assert len(f.explain(a, b)) < 100_000
    assert len(repr(mix(a, b))) < 100_000
    assert time.perf_counter() - start < 20  # seconds: a second where nobody else runs


def test_g59_host_data_into_a_strided_view():
    x = A(np.zeros((2, 4)))
    x[:, ::2] = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert N(x).tolist() == [[1, 0, 2, 0], [3, 0, 4, 0]]
    y = A(np.zeros((2, 4)))
    exe = gla.capture(
        lambda: y.__setitem__((slice(None), slice(None, None, 2)), np.array([[1.0, 2.0], [3.0, 4.0]]))
    ).instantiate()
    exe()
    assert N(y).tolist() == [[1, 0, 2, 0], [3, 0, 4, 0]]
