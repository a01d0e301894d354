"""Runs a row's expansion on NumPy arrays of any of its dtypes, and counts errors in units of the last place."""

import numpy as np

from gla.dtypes import as_dtype, float32
from gla.ir.ops.casts import HALVES, narrow, widen
from gla.ir.ops.numpy_scalars import NumpyScalars
from gla.ir.ops.table import elementwise

S = NumpyScalars()


def run(name, *arrays):
    """The row's expansion on arrays: 16-bit floats by way of float32, complex numbers as pairs. Gives an array."""
    row = elementwise(name)
    arrays = np.broadcast_arrays(*(np.asarray(a) for a in arrays))
    strong = [as_dtype(a.dtype) for i, a in enumerate(arrays) if i not in row.mixed]
    dtype = strong[0]
    if dtype in HALVES:
        wide = [
            a if i in row.mixed else widen(S, a.view(np.uint16), dtype) for i, a in enumerate(map(np.ascontiguousarray, arrays))
        ]
        result = np.asarray(row.expand(S, float32, *wide))
        return np.asarray(narrow(S, result, dtype)).view(dtype.numpy) if row.result == "same" else result
    values = [(a.real.copy(), a.imag.copy()) if a.dtype.kind == "c" else a for a in arrays]
    result = row.expand(S, dtype, *values)
    if isinstance(result, tuple):
        joined = np.empty(np.shape(arrays[0]), row.result_dtype(dtype).numpy)
        joined.real, joined.imag = result
        return joined
    return np.broadcast_to(np.asarray(result), arrays[0].shape)


def assert_same(got, want):
    """Equal dtype, equal values, NaN in the same places, zeros of the same sign."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    if want.dtype.kind == "c":
        assert_same(got.real, want.real)
        assert_same(got.imag, want.imag)
        return
    nan = np.isnan(want)
    fine = (got == want) & (np.signbit(got) == np.signbit(want)) if want.dtype.kind == "f" else got == want
    assert np.all(fine | (nan & np.isnan(got))), (got[~fine], want[~fine])


def ulps(got, want):
    """How many units of the last place of `got`'s format lie between it and the more precise `want`."""
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        unit = np.spacing(np.abs(rounded)).astype(want.dtype)
        unit = np.where(np.isfinite(unit), unit, np.spacing(np.finfo(got.dtype).max).astype(want.dtype))
        error = np.abs(got.astype(want.dtype) - want) / unit
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        error = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
        return error.astype(np.float64)
