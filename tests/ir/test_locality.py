"""Which loops may run inside a kernel."""

from __future__ import annotations

import pytest

from gla.dtypes import float64
from gla.ir import builder
from gla.ir.functions import control, linear, reduce, shape
from gla.ir.functions import index as indexing
from gla.ir.graph import new_input
from gla.ir.locality import element_rank, stays_within_element
from gla.ir.types import Type


def array(*extents):
    return new_input(Type(float64, extents), "x")


def loop_of(body, *inits, **more):
    values, _ = control.loop(3, list(inits), lambda k, c: (body(k, c), []), **more)
    return values[0].operands[0]


def test_elementwise_bodies_stay():
    x = array(100)
    assert stays_within_element(loop_of(lambda k, c: [builder.apply("sin", c[0])], x))
    assert stays_within_element(loop_of(lambda k, c: [builder.apply("add", builder.apply("multiply", c[0], k), 2.0)], x))


def test_scalar_carries_go_along():
    body = lambda k, c: [builder.apply("add", c[0], c[1]), builder.apply("multiply", c[1], 0.5)]  # noqa: E731
    assert stays_within_element(loop_of(body, array(4, 50), builder.constant(1.0)))


def test_captured_arrays_may_be_read_anywhere():
    x, w = array(20), array(20)
    moved = shape.shift(w, (1,), ("periodic",))
    assert stays_within_element(loop_of(lambda k, c: [builder.apply("add", c[0], moved)], x))


@pytest.mark.parametrize(
    "body",
    [
        lambda k, c: [shape.shift(c[0], (1,), ("edge",))],
        lambda k, c: [builder.apply("subtract", c[0], reduce.sum(c[0]))],
        lambda k, c: [shape.flip(c[0])],
        lambda k, c: [indexing.getitem(c[0], builder.cast(builder.apply("floor", c[0]), builder.dtypes.int64))],
    ],
    ids=["neighbour", "sum", "flip", "gather"],
)
def test_bodies_that_look_elsewhere_do_not_stay(body):
    loop = loop_of(body, array(100))
    assert element_rank(loop) is None
    assert not stays_within_element(loop)


def test_library_calls_and_emits_do_not_stay():
    x, m = array(4, 4), array(4, 4)
    assert element_rank(loop_of(lambda k, c: [linear.matmul(m, c[0])], x)) is None
    values, _ = control.loop(3, [array(10)], lambda k, c: (c, [c[0]]), every=(1,))
    assert element_rank(values[0].operands[0]) is None


def lorenz(k, carries):
    y = carries[0]
    a, b, c = (indexing.getitem(y, (..., j)) for j in range(3))
    rates = [
        builder.apply("subtract", b, a),
        builder.apply("multiply", a, c),
        builder.apply("add", builder.apply("multiply", a, b), c),
    ]
    return [builder.apply("add", y, shape.stack(rates, -1))]


def test_a_small_system_is_an_element_of_lower_rank():
    loop = loop_of(lorenz, array(100, 3))
    assert element_rank(loop) == 1
    assert not stays_within_element(loop)
    assert element_rank(loop_of(lorenz, array(3))) == 0


def test_a_norm_of_a_row_stays_within_the_row():
    body = lambda k, c: [builder.apply("divide", c[0], reduce.sum(c[0], axis=1, keepdims=True))]  # noqa: E731
    assert element_rank(loop_of(body, array(50, 4))) == 1
    assert element_rank(loop_of(body, array(50, 40))) is None


def test_nested_loops_stay_when_both_do():
    def outer(k, c):
        values, _ = control.loop(2, [c[0]], lambda j, d: ([builder.apply("cos", d[0])], []))
        return values

    def moving(k, c):
        values, _ = control.loop(2, [c[0]], lambda j, d: ([shape.shift(d[0], (1,), ("edge",))], []))
        return values

    assert stays_within_element(loop_of(outer, array(30)))
    assert element_rank(loop_of(moving, array(30))) is None


def test_a_condition_over_an_array_does_not_stay_unless_one_item_runs_all():
    def adaptive(n):
        carries, _, _ = control.while_loop(
            lambda c: builder.apply("less", reduce.max(c[0]), 1.0),
            lambda c: [builder.apply("multiply", c[0], 2.0)],
            [array(n)],
            10,
        )
        return carries[0].operands[0]

    assert element_rank(adaptive(100)) is None
    assert element_rank(adaptive(3)) == 0
