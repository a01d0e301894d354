"""The table as data: names, flags and dtypes of rows are consistent."""

import numpy as np
import pytest

from gla import dtypes as d
from gla.ir.ops.table import ELEMENTWISE, elementwise, is_elementwise, rows
from tests.ir.ops.running import run

REQUIRED = """
add subtract multiply divide floor_divide remainder power negative abs sign sqrt cbrt exp expm1 exp2 log log1p log2 log10
sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh hypot erf floor ceil trunc round maximum minimum fmod
copysign nextafter equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not
bitwise_and bitwise_or bitwise_xor bitwise_invert bitwise_left_shift bitwise_right_shift isnan isinf isfinite signbit
where real imag conj complex fma logaddexp philox cast
""".split()


def test_every_op_has_its_row():
    assert set(REQUIRED) == set(ELEMENTWISE)


def test_rows_know_their_names():
    assert all(elementwise(name).name == name for name in REQUIRED)
    assert {row.name for row in rows()} >= set(REQUIRED)


def test_an_unknown_name_is_a_key_error():
    assert not is_elementwise("frobnicate")
    with pytest.raises(KeyError):
        elementwise("frobnicate")


def test_result_dtypes():
    assert elementwise("abs").result_dtype(d.complex64) is d.float32
    assert elementwise("less").result_dtype(d.int8) is d.bool_
    assert elementwise("complex").result_dtype(d.float64) is d.complex128
    assert elementwise("add").result_dtype(d.float16) is d.float16


@pytest.mark.parametrize("row", [r for r in ELEMENTWISE.values() if r.commutative], ids=lambda r: r.name)
def test_commutative_rows_commute(row):
    rng = np.random.default_rng(1)
    kind = "b" if row.kinds == "b" else "i" if "i" in row.kinds else "f"
    a, b = (rng.integers(-9, 9, 50) for _ in range(2))
    a, b = (v > 0 if kind == "b" else v for v in (a, b))
    assert np.array_equal(run(row.name, a, b), run(row.name, b, a))


@pytest.mark.parametrize("row", [r for r in ELEMENTWISE.values() if r.identity is not None], ids=lambda r: r.name)
def test_identities_change_nothing(row):
    x = np.array([True, False]) if "b" in row.kinds else np.array([0.0, -0.0, 1.5, -np.inf])
    one = np.full(x.shape, row.identity).astype(x.dtype)
    for got in (run(row.name, x, one), run(row.name, one, x)):
        assert np.array_equal(got, x)
        assert x.dtype == bool or np.array_equal(np.signbit(got), np.signbit(x))
