"""What the optimising passes make of small graphs, and what they must leave alone."""

from __future__ import annotations

import numpy as np
import pytest

from gla import dtypes
from gla.ir.access import CONTROL
from gla.ir.builder import apply, broadcast, cast, constant, constant_value
from gla.ir.functions import reduce
from gla.ir.functions.control import loop, while_loop
from gla.ir.functions.elementwise import where
from gla.ir.functions.index import getitem
from gla.ir.functions.shape import permute, reshape, stack
from gla.ir.graph import Graph, new_input
from gla.ir.locality import stays_within_element
from gla.ir.reference import evaluate
from gla.ir.types import Type
from gla.ir.verify import verify
from gla.passes.fold import fold
from gla.passes.loops import split_runs, tidy_loops
from gla.passes.rows import split_rows
from gla.passes.scalarise import scalarise
from gla.passes.simplify import simplify
from tests.plan import programs

F64 = dtypes.float64


def array(*shape, dtype=F64):
    return new_input(Type(dtype, shape))


X = array(3, 4)


@pytest.mark.parametrize(
    "value,simple",
    [
        (apply("multiply", X, 1.0), X),
        (apply("add", X, -0.0), X),
        (apply("subtract", X, 0.0), X),
        (apply("divide", X, 1.0), X),
        (apply("divide", X, 4.0), apply("multiply", X, 0.25)),
        (permute(permute(X, (1, 0)), (1, 0)), X),
        (reshape(reshape(X, (12,)), (3, 4)), X),
        (getitem(getitem(X, (slice(1, None),)), (slice(1, None),)), getitem(X, (slice(2, None),))),
        (where(constant(True), X, apply("negative", X)), X),
        (apply("negative", apply("negative", X)), X),
        (apply("maximum", X, X), X),
        (reshape(reduce.sum(reshape(X, (3, 1, 4)), axis=1), (3, 4)), X),
        (getitem(stack([X, apply("sin", X)], 2), (slice(None), slice(None), 1)), apply("sin", X)),
    ],
)
def test_simple_equal_forms(value, simple):
    (found,) = simplify(Graph((X,), (value,))).results
    assert found is simple


def test_a_cast_to_a_wider_dtype_and_back_is_nothing():
    x = array(2, dtype=dtypes.float32)
    assert simplify(Graph((x,), (cast(cast(x, F64), dtypes.float32),))).results == (x,)


def test_arithmetic_on_spread_scalars_is_done_once():
    value = apply("add", broadcast(constant(2.0, F64), (3, 4)), broadcast(constant(3.0, F64), (3, 4)))
    assert fold(simplify(Graph((), (value,)))).results == (broadcast(constant(5.0, F64), (3, 4)),)


@pytest.mark.parametrize(
    "value",
    [
        apply("add", X, 0.0),  # -0.0 + 0.0 is 0.0
        apply("subtract", 0.0, X),
        apply("multiply", X, 0.0),  # NaN, infinities, -0.0
        apply("subtract", X, X),
        apply("divide", X, X),
        apply("divide", X, 3.0),
        apply("multiply", X, constant(1.0, literal=False)),  # a number that came from a size
        apply("divide", X, constant(4.0, literal=False)),
    ],
)
def test_what_would_change_bits_or_kernels_stays(value):
    (found,) = simplify(Graph((X,), (value,))).results
    assert found.op == value.op


def test_folding_has_the_bits_of_the_kernels_and_keeps_literals_apart():
    size = constant(3.0, literal=False)
    third, fixed = apply("divide", 1.0, size), apply("divide", 1.0, 3.0)
    a, b = fold(Graph((), (third, fixed))).results
    assert constant_value(a) == constant_value(b) == 1 / 3
    assert not a.attr("literal") and b.attr("literal") and a.type.weak and b.type.weak


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "complex64"])
def test_folding_rounds_and_wraps_in_the_dtype(dtype):
    dtype = dtypes.as_dtype(dtype)
    a, b = constant(100, dtype), constant(29, dtype)
    node = apply("multiply", a, b)
    (found,) = fold(Graph((), (node,))).results
    with np.errstate(over="ignore"):
        want = np.asarray(100, dtype.numpy) * np.asarray(29, dtype.numpy)
    assert found.op == "constant" and constant_value(found) == want


def test_loops_of_no_trip_and_one_are_gone():
    for trips in (0, 1):
        x = array(4)
        (last,), (kept,) = loop(trips, [x], lambda k, c: ([apply("add", c[0], k)], [apply("sin", c[0])]), [1])
        graph = tidy_loops(Graph((x,), (last, kept)))
        assert not any(n.op in CONTROL for n in graph.nodes())
        got = evaluate(verify(graph), [np.arange(4.0)])[0]
        assert got[1].shape == (trips, 4)
        np.testing.assert_array_equal(got[0], np.arange(4.0))


def test_fixed_and_unused_carries_and_unused_kept_values_go():
    x, y, z = array(4), array(4), array(4)
    body = lambda k, c: ([apply("add", c[0], c[1]), c[1], apply("sin", c[2])], [c[0], c[2]])  # noqa: E731
    (a, b, _), (_, _) = loop(5, [x, y, z], body, [1, 1])
    graph = verify(tidy_loops(Graph((x, y, z), (a, b))))
    (node,) = (n for n in graph.nodes() if n.op == "loop")
    assert node.attr("carries") == 1 and node.attr("emits") == ()
    got = evaluate(graph, [np.ones(4), np.full(4, 2.0), np.zeros(4)])[0]
    np.testing.assert_array_equal(got[0], np.full(4, 11.0))
    np.testing.assert_array_equal(got[1], np.full(4, 2.0))


def test_unused_carries_of_a_while_loop_stay_when_its_test_needs_them():
    x = array()
    values, trips, _ = while_loop(
        lambda c: apply("less", c[1], 3.0), lambda c: [apply("multiply", c[0], 2.0), apply("add", c[1], 1.0)], [x, x], 9
    )
    graph = verify(tidy_loops(Graph((x,), (values[0], trips))))
    assert [int(v) for v in evaluate(graph, [np.float64(1.0)])[0]] == [4, 2]


@pytest.mark.parametrize("steps", [10, 20, 105])
def test_kept_every_ten_becomes_runs_of_a_loop_within_an_element(steps):
    graph = programs.lorenz(n=5, steps=steps)
    split = verify(scalarise(split_runs(simplify(graph))))
    loops = [n for n in split.nodes() if n.op == "loop"]
    inner = [n for outer in loops for n in outer.attr("body").nodes() if n.op == "loop"]
    assert all(stays_within_element(n) for n in inner) and (inner or steps == 10)
    arguments = [np.random.default_rng(0).normal(size=(5, 3)), 0.01, 28.0]
    for want, got in zip(evaluate(graph, arguments)[0], evaluate(split, arguments)[0]):
        np.testing.assert_array_equal(want, got)


def test_a_system_with_stacked_components_runs_within_an_element():
    graph = simplify(programs.van_der_pol(50))
    (before,) = (n for n in graph.nodes() if n.op == "while")
    (after,) = (n for n in verify(scalarise(graph)).nodes() if n.op == "while")
    assert not stays_within_element(before) and stays_within_element(after)
    assert all(not t.shape for t in after.items)


def test_forces_between_pairs_are_summed_by_component():
    graph = programs.nbody_step(9)
    split = verify(split_rows(simplify(graph)))
    long = [n for n in split.nodes() if n.op == "reduce" and n.operands[0].shape == (9, 9)]
    assert len(long) == 6 and all(n.shape == (9,) for n in long)
    rng = np.random.default_rng(1)
    arguments = [rng.normal(size=(9, 3)), rng.normal(size=(9, 3)), rng.uniform(size=9), 0.1, 0.01]
    for want, got in zip(evaluate(graph, arguments)[0], evaluate(split, arguments)[0]):
        np.testing.assert_allclose(got, want, rtol=1e-14)
