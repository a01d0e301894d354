"""Functions of kernels: what is computed in many places is written once, on both devices, with equal bits."""

import numpy as np
import pytest

import gla
from gla.compiler import stages
from gla.dtypes import as_dtype
from gla.ir.builder import apply
from gla.ir.graph import Graph, new_input
from gla.ir.types import Type


def sines(times, dtype, kind):
    x = new_input(Type(as_dtype(dtype), (100,)))
    value = x
    for _ in range(times):
        value = apply("sin", value)
    return stages(Graph((x,), (value,)), kind).kernels[0][1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 15, 64, 1000])
def test_many_sines_are_the_sine_again_and_again(dtype, n):
    x = np.random.default_rng(n).uniform(-3, 3, n).astype(dtype)
    x[0] = 1e10
    one = gla.function(lambda x: gla.sin(x * 3 + 1))

    @gla.function
    def many(x):
        for _ in range(9):
            x = gla.sin(x * 3 + 1)
        return x

    with gla.device("host"):
        step = gla.asarray(x)
        for _ in range(9):
            step = one(step)
        assert np.asarray(many(gla.asarray(x))).tobytes() == np.asarray(step).tobytes()


@pytest.mark.parametrize("kind", ["host", "cuda"])
def test_the_text_grows_by_a_line_or_so_for_a_further_use(kind):
    few, many = sines(10, "float32", kind), sines(40, "float32", kind)
    assert (len(many.splitlines()) - len(few.splitlines())) / 30 <= 20


@pytest.mark.parametrize("kind", ["host", "cuda"])
def test_few_uses_are_written_in_place(kind):
    assert "sin_f32" not in sines(4, "float32", kind)
    assert "sin_f32" in sines(5, "float32", kind)


def test_a_function_of_a_kernel_stands_in_reductions_and_loops_too():
    x = np.random.default_rng(3).uniform(-3, 3, (7, 300)).astype(np.float32)

    @gla.function
    def rows(x):
        y = x
        for _ in range(6):
            y = gla.cos(y)
        return gla.sum(y, axis=1)

    @gla.function
    def apart(x):
        for _ in range(6):
            x = gla.cos(x)
        return x

    with gla.device("host"):
        given = gla.asarray(x)
        assert np.asarray(rows(given)).tobytes() == np.asarray(gla.sum(apart(given), axis=1)).tobytes()


def test_a_kernel_of_many_sines_runs_without_branches_and_again_where_one_needs_its_long_way():
    text = sines(10, "float32", "cuda")
    quick = text[text.index("sin_f32_0_quick(") :]
    assert "if" not in quick[: quick.index("return")].replace("float_as_uint", "")
    assert "bool rare = false;" in text and "if (rare)" in text and text.count("__noinline__") == 1
