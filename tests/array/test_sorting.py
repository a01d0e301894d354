"""Sorting, taking along an axis, masks outside of traces: against NumPy."""

import numpy as np
import pytest

import gla
from gla.array import sorting

DTYPES = ["bool", "int8", "uint8", "int64", "uint64", "float16", "float32", "float64"]


def A(values, dtype=None):
    return gla.asarray(np.array(values), dtype, device="host")


def N(x):
    return np.array(np.asarray(x))


def sample(n, dtype="float64", seed=0):
    """Repeated values, some NaN and both zeros among floats."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, max(2, n // 3), n)
    if np.dtype(dtype).kind != "f":
        return values.astype(dtype)
    made = (values - n // 6).astype(dtype)
    made[rng.random(n) < 0.1] = np.nan
    made[rng.random(n) < 0.1] = -0.0
    return made


def expected_order(values, axis, descending):
    """NumPy's stable argsort; for descending that of the reversed order, NaN last."""
    if not descending:
        return np.argsort(values, axis=axis, kind="stable")
    keys = -values if values.dtype.kind == "f" else values.max(initial=0) - values.astype(object)
    return np.argsort(keys, axis=axis, kind="stable")


@pytest.fixture(params=["expression", "numpy"])
def way(request, monkeypatch):
    """Both ways of sorting on the host."""
    monkeypatch.setattr(sorting, "SMALL", 1 << 60 if request.param == "expression" else 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("descending", [False, True])
def test_sort_and_argsort_are_stable_in_every_dtype(way, dtype, descending):
    values = sample(77, dtype)
    order = expected_order(values, -1, descending)
    assert N(gla.argsort(A(values), descending=descending)).tolist() == order.tolist()
    found = N(gla.sort(A(values), descending=descending))
    assert found.dtype == values.dtype
    assert found.tobytes() == values[order].tobytes() or np.array_equal(found, values[order], equal_nan=True)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8, 9, 31, 64, 100, 1000])
def test_every_length_is_sorted(n):
    values = sample(n, seed=n)
    assert np.array_equal(N(gla.sort(A(values))), np.sort(values), equal_nan=True)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_any_axis(way, axis):
    values = sample(60).reshape(4, 15)
    assert np.array_equal(N(gla.sort(A(values), axis=axis)), np.sort(values, axis=axis), equal_nan=True)
    assert N(gla.argsort(A(values), axis=axis)).tolist() == np.argsort(values, axis=axis, kind="stable").tolist()


def test_bfloat16_is_sorted_with_nan_last(way):
    values = gla.asarray(np.array([3.0, np.nan, -1.0, 2.0], np.float32), device="host").astype("bfloat16")
    assert np.array_equal(N(gla.sort(values).astype("float32")), [-1.0, 2.0, 3.0, np.nan], equal_nan=True)


def test_nan_keep_their_order_in_argsort():
    values = np.array([np.nan, 1.0, np.nan, 0.0])
    assert N(gla.argsort(A(values))).tolist() == [3, 1, 0, 2]
    assert N(gla.argsort(A(values), descending=True)).tolist() == [1, 3, 0, 2]


def test_sorting_in_a_function_and_in_a_capture_g29():
    x, y = A(sample(100)), A(np.zeros(100))
    assert np.array_equal(N(gla.function(gla.sort)(x)), np.sort(N(x)), equal_nan=True)
    exe = gla.capture(lambda: y.assign(gla.sort(x, descending=True) * 1.0)).instantiate()
    for seed in (1, 2):
        x.assign(A(sample(100, seed=seed)))
        exe()
        assert np.array_equal(N(y), -np.sort(-N(x)), equal_nan=True)


def test_a_new_length_compiles_nothing_new():
    f = gla.function(gla.sort)
    f(A(sample(300)))
    kernels = {k.text for n in (200, 300, 400) for k in f.kernels(A(sample(n)))}
    assert len(kernels) <= len(f.kernels(A(sample(300)))) + 2


def test_numpy_functions_find_ours():
    x = A([3.0, 1.0, 2.0])
    assert isinstance(np.sort(x), gla.Array)
    assert N(np.argsort(x)).tolist() == [1, 2, 0]
    assert N(x.argsort()).tolist() == [1, 2, 0]


def test_complex_numbers_and_scalars_have_no_order():
    with pytest.raises(gla.DtypeError, match="no order"):
        gla.sort(A([1j, 2.0]))
    with pytest.raises(gla.ShapeError):
        gla.sort(A(1.0))


# --- positions
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_along_axis(axis):
    values = np.arange(12.0).reshape(3, 4)
    order = np.argsort(-values, axis=axis)
    assert N(gla.take_along_axis(A(values), A(order), axis)).tolist() == np.take_along_axis(values, order, axis).tolist()


def test_take_along_axis_counts_negative_indices_from_the_end_and_broadcasts():
    values = np.arange(12.0).reshape(3, 4)
    at = np.array([[-1], [0], [-2]])
    assert N(gla.take_along_axis(A(values), A(at), 1)).tolist() == np.take_along_axis(values, at, 1).tolist()


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(side):
    x = np.array([1.0, 2.0, 2.0, 2.0, 5.0])
    v = np.array([[0.0, 1.0, 2.0], [3.0, 5.0, 9.0]])
    assert N(gla.searchsorted(A(x), A(v), side=side)).tolist() == np.searchsorted(x, v, side).tolist()


def test_take_from_a_small_source_into_a_larger_result_g84():
    x = A([10, 20, 30])
    at = np.arange(1000) % 3
    assert N(gla.take(x, A(at))).tolist() == np.take([10, 20, 30], at).tolist()


# --- masks
@pytest.fixture(params=["positions found by NumPy", "positions found by a search"])
def searching(request, monkeypatch):
    """Both ways of finding the true elements of a mask."""
    if "search" in request.param:
        from gla.array import masks
        from gla.ir.functions.mask import running_count, true_positions

        def positions(mask, device):
            mask = gla.asarray(mask, device=device)
            number = masks.count(mask)
            return masks.operate(lambda m: true_positions(running_count(m), number), (mask,))

        monkeypatch.setattr(masks, "positions", positions)


@pytest.mark.parametrize("shape", [(7,), (3, 4), (0,), (3, 0)])
def test_a_mask_selects_in_row_major_order(searching, shape):
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    mask = values % 3 == 1
    assert N(A(values)[A(mask)]).tolist() == values[mask].tolist()
    assert N(A(values)[mask]).tolist() == values[mask].tolist()


def test_a_mask_over_the_leading_axes(searching):
    values = np.arange(24.0).reshape(2, 3, 4)
    mask = np.array([[True, False, True], [False, False, True]])
    assert N(A(values)[A(mask)]).tolist() == values[mask].tolist()
    assert N(A(values)[A(np.zeros((2, 3), bool))]).shape == (0, 4)


def test_g120_an_empty_mask_gives_and_writes_nothing(searching):
    x = A([1.0, 2.0])
    none = A([False, False])
    assert N(x[none]).shape == (0,)
    x[none] = A([])
    assert N(x).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("value", [5.0, [9.0], [1.0, 2.0, 3.0]])
def test_writing_through_a_mask(value):
    values = np.arange(6.0)
    mask = values % 2 == 1
    x = A(values)
    x[A(mask)] = value if np.isscalar(value) else A(value)
    values[mask] = value
    assert N(x).tolist() == values.tolist()


def test_writing_rows_through_a_mask_of_the_leading_axis():
    values = np.arange(12.0).reshape(4, 3)
    mask = np.array([True, False, False, True])
    x = A(values)
    new = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    x[A(mask)] = A(new)
    values[mask] = new
    assert N(x).tolist() == values.tolist()
    x[mask] += 1
    values[mask] += 1
    assert N(x).tolist() == values.tolist()


def test_a_mask_or_value_of_another_shape_is_refused():
    x = A(np.zeros((2, 3)))
    with pytest.raises(gla.GlaIndexError, match="does not fit"):
        x[A([True, False, True])]
    with pytest.raises(gla.ShapeError, match="the 2 places that a mask selects"):
        A([0.0, 0.0, 0.0])[A([True, False, True])] = A([1.0, 2.0, 3.0])


def test_in_a_trace_or_capture_what_a_mask_selects_has_no_shape():
    with pytest.raises(gla.TraceError):
        gla.function(lambda x: x[x > 0])(A([1.0]))
    with pytest.raises(gla.TraceError):
        gla.function(gla.nonzero)(A([1.0]))
    with pytest.raises(gla.GlaError):
        gla.capture(lambda: gla.nonzero(A([1.0])))


@pytest.mark.parametrize("values", [[0, 3, 0, 1], [[1, 0], [0, 2]], np.zeros((2, 0))])
def test_nonzero(values):
    found = gla.nonzero(A(values))
    expected = np.nonzero(np.array(values))
    assert [N(f).tolist() for f in found] == [e.tolist() for e in expected]
    assert [N(f).tolist() for f in A(values).nonzero()] == [e.tolist() for e in expected]


# --- on a GPU
@pytest.mark.gpu
@pytest.mark.parametrize("n", [5, 1000, 1 << 17])
def test_gpu_sorting(n):
    values = sample(n, "float32")
    x = gla.asarray(values, device="cuda")
    assert np.array_equal(N(gla.sort(x)), np.sort(values), equal_nan=True)
    assert N(gla.argsort(x, descending=True)).tolist() == expected_order(values, -1, True).tolist()


@pytest.mark.gpu
def test_gpu_masks():
    values = np.arange(100_003) % 7
    x = gla.asarray(values, device="cuda")
    assert N(x[x == 3]).tolist() == values[values == 3].tolist()
    x[x == 3] = gla.arange(int(np.count_nonzero(values == 3)), device="cuda")
    values[values == 3] = np.arange(np.count_nonzero(values == 3))
    assert N(x).tolist() == values.tolist()


@pytest.mark.gpu
def test_g84_gpu_masks_and_take_beyond_two_to_the_31():
    n = (1 << 31) + 5
    x = gla.zeros(n, dtype="int8", device="cuda")
    x[n - 2] = 1
    x[7] = 2
    assert N(x[x != 0]).tolist() == [2, 1]
    assert N(gla.take(x, gla.asarray([n - 2, 7, 0], device="cuda"))).tolist() == [1, 2, 0]


@pytest.mark.gpu
def test_a78_more_than_two_to_the_31_elements():
    n = (1 << 31) + 7
    x = gla.zeros(n, dtype="uint8", device="cuda")
    x[n - 1] = 5
    x[3] = 2
    assert int(N(x[-1])) == 5 and int(N(gla.sum(x, dtype="int64"))) == 7
    assert int(N((x + 1)[-1])) == 6
    assert N(x[:: (1 << 31) + 3]).tolist() == [0, 0] and N(x[3 :: (1 << 31) + 3]).tolist() == [2, 5]
