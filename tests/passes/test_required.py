"""Scatter, products and long reductions in the form that the planner takes: the same values."""

from __future__ import annotations

import numpy as np
import pytest

from gla import dtypes
from gla.ir.functions import reduce
from gla.ir.graph import Graph, new_input
from gla.ir.node import make
from gla.ir.reference import evaluate
from gla.ir.types import Type
from gla.ir.verify import verify
from gla.passes.products import expand_products
from gla.passes.reductions import split_reductions
from gla.passes.scatter import gather_scatters


def array(dtype, *shape):
    return new_input(Type(dtype, shape))


def values_of(graph, *arguments):
    return evaluate(verify(graph), arguments)[0]


def ops(graph):
    return {node.op for node in graph.nodes()}


@pytest.mark.parametrize("mode", ["set", "add"])
def test_scatter_repeated_and_outside_indices(mode):
    base, value, index = array(dtypes.float64, 3, 5), array(dtypes.float64, 4, 3), array(dtypes.int64, 4)
    node = make("scatter", (base, value, index), {"axes": (1,), "mode": mode}, base.type)
    rng = np.random.default_rng(0)
    arguments = rng.normal(size=(3, 5)), rng.normal(size=(4, 3)), np.array([2, 0, 2, 9])
    want = arguments[0].copy()
    for k, place in enumerate(arguments[2]):
        if place < 5:
            want[:, place] = arguments[1][k] + (want[:, place] if mode == "add" else 0)
    graph = gather_scatters(Graph((base, value, index), (node,)))
    assert "scatter" not in ops(graph)
    np.testing.assert_allclose(values_of(graph, *arguments)[0], want, rtol=1e-15)


@pytest.mark.parametrize("dtype", ["int32", "uint64"])
def test_products_without_library(dtype):
    dtype = dtypes.as_dtype(dtype)
    a, b = array(dtype, 2, 3, 4), array(dtype, 2, 4, 5)
    graph = expand_products(Graph((a, b), (make("matmul", (a, b), {}, Type(dtype, (2, 3, 5))),)))
    assert "matmul" not in ops(graph)
    x = np.arange(24).reshape(2, 3, 4) % 7
    y = np.arange(40).reshape(2, 4, 5) % 5
    got = values_of(graph, x.astype(dtype.numpy), y.astype(dtype.numpy))[0]
    np.testing.assert_array_equal(got.astype(np.float64), (x @ y).astype(np.float64))


def test_product_over_nothing_is_zero():
    a, b = array(dtypes.float32, 3, 0), array(dtypes.float32, 0, 2)
    graph = expand_products(Graph((a, b), (make("matmul", (a, b), {}, Type(dtypes.float32, (3, 2))),)))
    assert "matmul" not in ops(graph)
    got = values_of(graph, np.zeros((3, 0), "f4"), np.zeros((0, 2), "f4"))[0]
    np.testing.assert_array_equal(got, np.zeros((3, 2)))


@pytest.mark.parametrize("length", [16384, 16385, 40000])
@pytest.mark.parametrize("kind", ["sum", "max", "min", "any"])
def test_long_reductions(length, kind):
    x = array(dtypes.float64, length, 2)
    source = x
    if kind == "any":
        source = make("isnan", (x,), {}, Type(dtypes.bool_, x.shape))
    graph = split_reductions(Graph((x,), (make("reduce", (source,), {"kind": kind, "axes": (0,)}, Type(source.dtype, (2,))),)))
    longest = max(n.operands[0].shape[n.attr("axes")[0]] for n in graph.nodes() if n.op == "reduce")
    assert longest <= 16384
    data = np.random.default_rng(1).integers(-99, 99, (length, 2)).astype(np.float64)
    data[-1, 1] = np.nan
    want = getattr(np, kind)(np.isnan(data) if kind == "any" else data, axis=0)
    np.testing.assert_array_equal(values_of(graph, data)[0], want)


@pytest.mark.parametrize("place", [0, 16384, 39999])
def test_long_argmax_finds_the_first(place):
    x = array(dtypes.float64, 40000)
    graph = split_reductions(Graph((x,), (reduce.argmax(x),)))
    data = np.zeros(40000)
    data[place:] = 7.0
    assert values_of(graph, data)[0] == place
    data[20000] = np.nan
    assert values_of(graph, data)[0] == 20000


@pytest.mark.parametrize("shape,axis", [((300,), 0), ((3, 256), 1), ((700, 2), 0), ((70000,), 0)])
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_scans(shape, axis, kind):
    x = array(dtypes.float64, *shape)
    graph = split_reductions(Graph((x,), (make("scan", (x,), {"kind": kind, "axis": axis}, x.type),)))
    scans = [n for n in graph.nodes() if n.op == "scan"]
    assert scans and all(n.shape[-1] <= 256 and n.attr("axis") == len(n.shape) - 1 for n in scans)
    data = np.random.default_rng(2).integers(-9, 9, shape).astype(np.float64)
    want = {"sum": np.add, "max": np.maximum}[kind].accumulate(data, axis=axis)
    np.testing.assert_array_equal(values_of(graph, data)[0], want)


@pytest.mark.parametrize("kind,value", [("sum", 0.0), ("prod", 1.0)])
def test_reductions_of_nothing(kind, value):
    x = array(dtypes.float64, 3, 0)
    graph = split_reductions(Graph((x,), (make("reduce", (x,), {"kind": kind, "axes": (1,)}, Type(x.dtype, (3,))),)))
    got = values_of(graph, np.zeros((3, 0)))[0]
    np.testing.assert_array_equal(got, np.full(3, value))
    assert not np.signbit(got).any()
