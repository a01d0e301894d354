"""How arrays print."""

import numpy as np
import pytest

import gla

A = gla.asarray


@pytest.mark.parametrize(
    "array, text",
    [
        (A([1.0, 2.0]), "gla.Array([1., 2.], dtype=float64, device='host')"),
        (A(3), "gla.Array(3, dtype=int64, device='host')"),
        (A([[1, 2], [3, 4]]), "gla.Array([[1, 2],\n           [3, 4]], dtype=int64, device='host')"),
        (A([]), "gla.Array([], dtype=float64, device='host')"),
        (gla.zeros((0, 3)), "gla.Array([], shape=(0, 3), dtype=float64, device='host')"),
        (A([True]), "gla.Array([ True], dtype=bool, device='host')"),
        (A([1.5, 2], dtype="bfloat16"), "gla.Array([1.5, 2. ], dtype=bfloat16, device='host')"),
        (A([1.5], dtype="float16"), "gla.Array([1.5], dtype=float16, device='host')"),
        (A([1 + 2j]), "gla.Array([1.+2.j], dtype=complex128, device='host')"),
    ],
)
def test_repr(array, text):
    assert repr(array) == text


def test_large_arrays_are_summarised():
    text = repr(gla.arange(10_000))
    assert "..., 9997, 9998, 9999]" in text and len(text) < 120


def test_str_is_numpys():
    n = np.arange(6.0).reshape(2, 3)
    assert str(A(n)) == str(n)


def test_repr_inside_a_trace_shows_the_type():
    seen = []
    gla.function(lambda x: (seen.append(repr(x)), x)[1])(A([1.0]))
    assert seen == ["<traced gla.Array f64[1]>"]
