"""DLPack, the standard's inspection, and functions made of views."""

import numpy as np
import pytest

import gla


def N(x):
    return np.array(np.asarray(x))


def test_dlpack_both_ways():
    n = np.arange(6.0).reshape(2, 3)
    x = gla.from_dlpack(n)
    assert N(x).tolist() == [[0, 1, 2], [3, 4, 5]]
    out = np.from_dlpack(x + 1)
    assert out.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(gla.TraceError):
        gla.function(lambda y: (np.from_dlpack(y), y)[1])(x)


def test_inspection():
    info = gla.__array_namespace_info__()
    assert info.default_dtypes()["real floating"] == gla.float64
    assert info.default_device() in info.devices()
    assert set(info.dtypes(kind="bool")) == {"bool"}
    assert gla.__array_api_version__ >= "2022.12"


@pytest.mark.parametrize("shape, counts", [((2, 3), (2, 2)), ((3,), (2, 2)), ((2, 3), 2), ((2, 0), (3, 1)), ((), (2,))])
def test_tile(shape, counts):
    n = np.random.default_rng(0).random(shape)
    assert N(gla.tile(gla.asarray(n), counts)).tolist() == np.tile(n, counts).tolist()


@pytest.mark.parametrize("counts, axis", [(2, None), (3, 0), (2, 1), ([1, 0, 2], 1), (0, 1)])
def test_repeat(counts, axis):
    n = np.arange(6.0).reshape(2, 3)
    assert N(gla.repeat(gla.asarray(n), counts, axis=axis)).tolist() == np.repeat(n, counts, axis=axis).tolist()


def test_repeat_refuses_a_wrong_number_of_counts():
    with pytest.raises(gla.ShapeError, match="3 elements"):
        gla.repeat(gla.zeros((2, 3)), [1, 2], axis=1)


@pytest.mark.parametrize("options", [{}, {"axis": 0}, {"n": 2}, {"prepend": [[0.0], [0.0]]}, {"append": [[5.0], [6.0]]}])
def test_diff(options):
    n = np.random.default_rng(1).random((2, 5))
    assert N(gla.diff(gla.asarray(n), **options)).tolist() == np.diff(n, **options).tolist()


def test_unique_values():
    n = np.array([[3.0, 1.0], [3.0, np.nan]])
    found = gla.unique_all(gla.asarray(n))
    assert N(found.values)[:2].tolist() == [1.0, 3.0] and np.isnan(N(found.values)[2])
    assert (N(found.counts).tolist(), N(found.indices).tolist()) == ([1, 2, 1], [1, 0, 3])
    assert N(found.inverse_indices).tolist() == [[1, 0], [1, 2]]
    assert N(gla.unique_values(gla.asarray([2, 1, 2]))).tolist() == [1, 2]
    with pytest.raises(gla.TraceError):
        gla.function(lambda y: gla.unique_counts(y).values)(gla.asarray(n))
