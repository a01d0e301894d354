"""Elementary functions: NumPy's validation tables, long double, exact identities and C99's special values."""

import csv
from pathlib import Path

import numpy as np
import pytest

from gla.ir.ops.table import ELEMENTWISE
from tests.ir.ops.running import assert_same, run, ulps

pytestmark = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="needs a long double wider than float64 to judge by")

RNG = np.random.default_rng(7)
TABLES = Path(np.__file__).parent / "_core" / "tests" / "data"
# name: (NumPy's name, bound in ULP for float64; float32 is held to 1, the range that a draw comes from)
BOUNDS = {
    "exp": ("exp", 1.0, (-740, 705)),
    "exp2": ("exp2", 1.0, (-1070, 1020)),
    "expm1": ("expm1", 1.0, (-40, 700)),
    "log": ("log", 0.7, (0, 3)),
    "log2": ("log2", 0.51, (0, 3)),
    "log10": ("log10", 0.51, (0, 3)),
    "log1p": ("log1p", 0.9, (-1, 3)),
    "sin": ("sin", 0.8, (-1e5, 1e5)),
    "cos": ("cos", 0.8, (-1e5, 1e5)),
    "tan": ("tan", 2.1, (-1e5, 1e5)),
    "asin": ("arcsin", 0.7, (-1, 1)),
    "acos": ("arccos", 0.7, (-1, 1)),
    "atan": ("arctan", 0.7, (-5, 5)),
    "sinh": ("sinh", 2.0, (-5, 5)),
    "cosh": ("cosh", 1.5, (-700, 700)),
    "tanh": ("tanh", 0.7, (-5, 5)),
    "asinh": ("arcsinh", 2.0, (-5, 5)),
    "acosh": ("arccosh", 2.0, (1, 5)),
    "atanh": ("arctanh", 2.0, (-1, 1)),
    "cbrt": ("cbrt", 0.7, (-1e5, 1e5)),
}


def wider(name, x):
    """NumPy's function in the next wider format."""
    with np.errstate(all="ignore"):
        return getattr(np, BOUNDS[name][0])(x.astype(np.float64 if x.dtype == np.float32 else np.longdouble))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BOUNDS)
def test_bound_on_draws(name, dtype):
    low, high = BOUNDS[name][2]
    bits = RNG.integers(0, 2**32, 4_000, dtype=np.uint64)
    every = (bits << 32 | RNG.integers(0, 2**32, 4_000, dtype=np.uint64)).view(np.float64) if dtype is np.float64 else None
    every = bits.astype(np.uint32).view(np.float32) if every is None else every
    x = np.concatenate([every, RNG.uniform(low, high, 4_000).astype(dtype), (10.0 ** RNG.uniform(-8, 0, 1000)).astype(dtype)])
    bound = 1.0 if dtype is np.float32 else BOUNDS[name][1]
    error = ulps(run(name, x), wider(name, x))
    # long double has 11 bits more than float64, so that 0.001 of an ULP is its own
    assert error.max() <= bound + 0.002, (x[error.argmax()], error.max())


def table(name):
    """Inputs and outputs of NumPy's validation set of a function, by dtype."""
    with (TABLES / f"umath-validation-set-{BOUNDS[name][0]}.csv").open() as file:
        rows = [r for r in csv.reader(line for line in file if line.startswith("np.")) if len(r) >= 4]
    for dtype, ints in ((np.float32, np.uint32), (np.float64, np.uint64)):
        mine = [r for r in rows if r[0] == f"np.{dtype.__name__}"]
        if mine:
            x, y = (np.array([int(r[k], 16) for r in mine], ints).view(dtype) for k in (1, 2))
            yield x, y


@pytest.mark.parametrize("name", [n for n in BOUNDS if (TABLES / f"umath-validation-set-{BOUNDS[n][0]}.csv").exists()])
def test_numpys_validation_set(name):
    for x, y in table(name):
        bound = 1.0 if x.dtype == np.float32 else BOUNDS[name][1]
        # The tables hold rounded results: half an ULP is theirs.
        assert ulps(run(name, x), y.astype(np.longdouble)).max() <= np.floor(bound + 0.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BOUNDS)
def test_special_values(name, dtype):
    x = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0, -2.0], dtype)
    got, want = run(name, x), wider(name, x).astype(dtype)
    plain = ~np.isfinite(want) | (want == 0)
    assert_same(got[plain], want[plain])


# sin and cos from 3000-bit arithmetic: the float64 nearest to a multiple of pi/2, a float32 close to one, the largest numbers.
HUGE = [
    (np.float64, 6381956970095103.0 * 2.0**797, 1.0, -4.687165924254627611123e-19),
    (np.float64, 1e22, -0.8522008497671888017727, 0.5232147853951389454976),
    (np.float64, 1.7976931348623157e308, 0.004961954789184061790503, -0.9999876894265599374649),
    (np.float32, 3.4028234663852886e38, -0.5218765233336585405515, 0.8530210398303041580518),
    (np.float32, 16367173 * 2.0**72, 0.9999999999999999986963, -1.614769798247621187604e-9),
]


@pytest.mark.parametrize(("dtype", "x", "sine", "cosine"), HUGE)
def test_huge_angles(dtype, x, sine, cosine):
    x, wider = np.array([x], dtype), np.float64 if dtype is np.float32 else np.longdouble
    assert ulps(run("sin", x), np.array([sine], wider)).max() <= 1
    assert ulps(run("cos", x), np.array([cosine], wider)).max() <= 1


def test_expm1_and_log1p_keep_small_numbers():
    assert abs(run("expm1", np.float64(1e-10)) / 1.00000000005e-10 - 1) < 1e-15
    assert abs(run("log1p", np.float64(1e-10)) / 9.9999999995e-11 - 1) < 1e-15
    assert run("expm1", np.array([-88, 89], np.float32)).tolist() == [-1.0, np.inf]


def test_logarithm_of_a_subnormal():
    assert run("log", np.float32(1e-45)) == np.float32(-103.27893)


def test_logarithms_of_exact_powers():
    assert_same(run("log2", 2.0 ** np.arange(-1074, 1024)), np.arange(-1074.0, 1024))
    assert_same(run("log10", 10.0 ** np.arange(23)), np.arange(23.0))
    assert_same(run("exp2", np.arange(-1074.0, 1024)), 2.0 ** np.arange(-1074, 1024))


def test_exact_cubes():
    assert_same(run("cbrt", np.arange(-50.0, 51) ** 3), np.arange(-50.0, 51))


def test_hypot_does_not_overflow():
    got = run("hypot", np.array([3e200, 3e-200]), np.array([4e200, 4e-200]))
    assert np.allclose(got, [5e200, 5e-200], rtol=3e-16, atol=0)


SPECIAL = np.array(
    [0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, np.inf, -np.inf, np.nan, 1.5, 5e-324, -5e-324, 1e308, 2.0**53 + 1]
)


@pytest.mark.parametrize(("name", "function"), [("power", np.power), ("atan2", np.arctan2), ("hypot", np.hypot)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_pairs(name, function, dtype):
    with np.errstate(all="ignore"):
        x, y = (np.ravel(g).astype(dtype) for g in np.meshgrid(SPECIAL, SPECIAL))
        want = function(x.astype(np.longdouble), y.astype(np.longdouble)).astype(dtype)
    got = run(name, x, y)
    plain = ~np.isfinite(want) | (want == 0)
    assert_same(got[plain], want[plain])
    assert ulps(got[~plain], want[~plain].astype(np.longdouble)).max() <= 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bound_of_powers(dtype):
    limit = 80 if dtype is np.float32 else 700
    x = np.concatenate(
        [np.exp(RNG.uniform(-limit, limit, 3000)), 1 + RNG.uniform(-0.3, 0.4, 3000), RNG.uniform(0.999, 1.001, 3000)]
    )
    x = x.astype(dtype)
    y = (RNG.uniform(-limit, limit, x.size) / np.log(x.astype(np.float64))).astype(dtype)
    exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    assert ulps(run("power", x, y), exact).max() <= 0.9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "function"), [("atan2", np.arctan2), ("hypot", np.hypot)])
def test_bound_of_pairs(name, function, dtype):
    x, y = (np.ldexp(RNG.uniform(-1, 1, 4_000), RNG.integers(-40, 40, 4_000)).astype(dtype) for _ in range(2))
    assert ulps(run(name, x, y), function(x.astype(np.longdouble), y.astype(np.longdouble))).max() <= 0.65


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_error_function(dtype):
    x = np.concatenate(
        [RNG.uniform(-6.5, 6.5, 3000), 10.0 ** RNG.uniform(-300, 0, 500), [0.0, -0.0, np.inf, -np.inf, np.nan]]
    ).astype(dtype)
    want = ELEMENTWISE["erf"].reference(x.astype(np.float64))
    # The C library's own erf is within 1 ULP.
    assert ulps(run("erf", x), want).max() <= (1.0 if dtype is np.float32 else 2.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logaddexp(dtype):
    x = np.array([0.0, 1000.0, -np.inf, np.inf, np.inf, np.nan, 3.0], dtype)
    y = np.array([0.0, 1000.0, -np.inf, np.inf, -np.inf, 1.0, -2.0], dtype)
    got, want = run("logaddexp", x, y), ELEMENTWISE["logaddexp"].reference(x, y)
    assert ulps(got, want.astype(np.longdouble)).max() <= 2
