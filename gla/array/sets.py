"""Distinct values: their number depends on the contents, so these look at them, outside of traces only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gla.array.boundary import public
from gla.array.create import asarray, upload
from gla.array.value import Array, fetch
from gla.dtypes import int64


class UniqueAll(NamedTuple):
    """Distinct values in order, where each is first, which each element is, and how often each is there."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """Distinct values in order, and how often each is there."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """Distinct values in order, and which of them each element is."""

    values: Array
    inverse_indices: Array


@public
def unique_all(x: Array, /) -> UniqueAll:
    """Distinct values in order with first indices, inverse indices (of x's shape) and counts. Every NaN counts as distinct."""
    array = asarray(x)
    contents = fetch(array, "unique")
    values, indices, inverse, counts = np.unique(
        contents, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    device = array.device
    numbers = [upload(part, int64, device) for part in (indices, inverse.reshape(contents.shape), counts)]
    return UniqueAll(upload(values, array.dtype, device), *numbers)


@public
def unique_counts(x: Array, /) -> UniqueCounts:
    """Distinct values in order, and how often each is there."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


@public
def unique_inverse(x: Array, /) -> UniqueInverse:
    """Distinct values in order, and which of them each element of x is."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


@public
def unique_values(x: Array, /) -> Array:
    """Distinct values in order."""
    return unique_all(x).values
