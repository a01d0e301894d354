"""Kernel keys: equal exactly when the texts are."""

from __future__ import annotations

import itertools

import pytest

from gla import dtypes
from gla.codegen.cuda import print_cuda
from gla.codegen.form import form, kernel_key
from gla.codegen.llvm import print_llvm
from gla.config import Options
from gla.ir.builder import apply, constant
from gla.ir.functions import reduce
from gla.ir.graph import Graph, new_input
from gla.ir.types import Type
from gla.stations import kernel_steps, lower_step, make_plan, optimise


def kernel(build, shape, dtype=dtypes.float32):
    x = new_input(Type(dtype, shape))
    graph = Graph((x,), (build(x),))
    (step,) = kernel_steps(make_plan(optimise(graph, Options()), Options()).steps)
    return lower_step(step).kernel


BUILDS = {
    "add": lambda x: apply("add", x, 1.0),
    "subtract": lambda x: apply("subtract", x, 2.0),
    "add 2": lambda x: apply("add", x, 2.0),
    "multiply": lambda x: apply("multiply", x, 3.0),
    "exp": lambda x: apply("exp", x),
    "rows": lambda x: reduce.sum(x, axis=1),
    "columns": lambda x: reduce.sum(x, axis=0),
    "maximum": lambda x: reduce.max(x, axis=1),
    "copysign": lambda x: apply("copysign", x, constant(-0.0)),
    "copysign 0.0": lambda x: apply("copysign", x, constant(0.0)),
}


def test_keys_are_equal_exactly_where_texts_are() -> None:
    kernels = [
        kernel(b, s, d)
        for b in BUILDS.values()
        for s in ((40, 30), (41, 30), (7, 9000))
        for d in (dtypes.float32, dtypes.float64)
    ]
    texts = [print_cuda(k) + print_llvm(k) for k in kernels]
    keys = [kernel_key(k) for k in kernels]
    for (t1, k1), (t2, k2) in itertools.combinations(zip(texts, keys), 2):
        assert (t1 == t2) == (k1 == k2), (t1, t2)


@pytest.mark.parametrize("pair", [(0.0, -0.0), (1, True), (1, 1.0), (float("nan"), 0.0)])
def test_numbers_that_compare_equal_or_not_are_told_apart(pair: tuple[object, object]) -> None:
    assert form(pair[0]) != form(pair[1])
    assert form(pair[0]) == form(pair[0])
