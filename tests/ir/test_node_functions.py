"""Functions on nodes: values by the reference against NumPy's own, types and refusals at build time."""

import numpy as np
import pytest

from gla import dtypes, errors
from gla.ir import reference, verify
from gla.ir.builder import apply, constant
from gla.ir.functions import control, create, elementwise, index, linear, reduce, shape
from gla.ir.graph import Graph, new_input
from gla.ir.types import Type

RNG = np.random.default_rng(7)


def node_of(values):
    return new_input(Type(dtypes.as_dtype(values.dtype), values.shape))


def value(result, *pairs):
    """The reference's value of `result`, its inputs given as (node, array) pairs."""
    graph = verify.verify(Graph(tuple(n for n, _ in pairs), (result,)))
    return reference.evaluate(graph, [a for _, a in pairs])[0][0]


KEYS = [
    (slice(None), 1),
    (slice(1, None), slice(None, None, -1)),
    (Ellipsis, 0),
    (None, 2),
    (-1,),
    ([2, 0, 1],),
    ([2, 0], [1, 3]),
    (slice(None), [1, 1, -1]),
    (0, slice(None), [0, 2]),
    (slice(None), [[0, 1], [2, 3]]),
    (slice(3, 1, -1), slice(0, 4, 2)),
    ([0, 1], slice(None), [1, 0]),
]


@pytest.mark.parametrize("key", KEYS)
def test_getitem_is_numpys(key):
    a = RNG.standard_normal((4, 5, 6)) if len([k for k in key if k is not None]) > 2 else RNG.standard_normal((4, 5))
    x = node_of(a)
    np.testing.assert_array_equal(value(index.getitem(x, key), (x, a)), a[key])


@pytest.mark.parametrize("key", KEYS)
def test_setitem_is_numpys(key):
    a = RNG.standard_normal((4, 5, 6)) if len([k for k in key if k is not None]) > 2 else RNG.standard_normal((4, 5))
    b = RNG.standard_normal(a[key].shape)
    x, y = node_of(a), node_of(b)
    expected = a.copy()
    expected[key] = b
    np.testing.assert_array_equal(value(index.setitem(x, key, y), (x, a), (y, b)), expected)


def test_index_out_of_range_is_refused_with_axis_and_extent():
    x = new_input(Type(dtypes.int64, (10,)))
    with pytest.raises(errors.GlaIndexError, match="index 10 is out of range for axis 0"):
        index.getitem(x, 10)
    with pytest.raises(errors.GlaIndexError, match="-11"):
        index.getitem(x, [0, -11])


@pytest.mark.parametrize(
    ("left", "right"),
    [((3,), (2, 3, 4)), ((2, 4, 3), (3,)), ((3,), (3,)), ((7, 5, 1), (7, 1, 3)), ((2, 1, 3, 4), (5, 4, 2)), ((4, 3), (3, 2))],
)
def test_matmul_has_numpys_batch_rules(left, right):
    a, b = RNG.standard_normal(left), RNG.standard_normal(right)
    x, y = node_of(a), node_of(b)
    np.testing.assert_allclose(value(linear.matmul(x, y), (x, a), (y, b)), a @ b, rtol=1e-14)


def test_matmul_names_both_operands():
    x, y = new_input(Type(dtypes.float64, (2, 3))), new_input(Type(dtypes.float64, (4, 5)))
    with pytest.raises(errors.ShapeError, match=r"f64\[2, 3\] @ f64\[4, 5\]: 3 columns against 4 rows"):
        linear.matmul(x, y)
    with pytest.raises(errors.ShapeError, match="0-d"):
        linear.matmul(x, 2.0)


def test_shapes_that_do_not_broadcast_are_named_with_an_edit():
    x, y = new_input(Type(dtypes.float64, (8, 3))), new_input(Type(dtypes.float64, (8,)))
    with pytest.raises(errors.ShapeError, match=r"cannot add f64\[8, 3\] and f64\[8\]") as caught:
        apply("add", x, y)
    assert "3 against 8" in str(caught.value)
    assert "x[:, None]" in str(caught.value)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("int32", "float32", "float64"),
        ("int8", "float32", "float32"),
        ("int64", "complex64", "complex128"),
        ("bfloat16", "float16", "float32"),
        ("uint8", "int8", "int16"),
        ("bool", "int8", "int8"),
        ("float32", "complex64", "complex64"),
    ],
)
def test_promotion(left, right, expected):
    assert dtypes.promote(dtypes.as_dtype(left), dtypes.as_dtype(right)) is dtypes.as_dtype(expected)


def test_uint64_with_a_signed_integer_is_refused():
    with pytest.raises(errors.DtypeError, match="no integer dtype holds both"):
        dtypes.promote(dtypes.uint64, dtypes.int8)


@pytest.mark.parametrize(
    ("dtype", "number", "expected"),
    [
        ("float32", 0.1, "float32"),
        ("int8", 1.5, "float64"),
        ("int8", 100, "int8"),
        ("bool", 2.0, "float64"),
        ("bool", 1, "int64"),
        ("float32", 1j, "complex64"),
        ("float16", 2.5, "float16"),
    ],
)
def test_weak_scalars_take_the_arrays_dtype(dtype, number, expected):
    x = new_input(Type(dtypes.as_dtype(dtype), (2,)))
    assert apply("multiply", x, number).dtype is dtypes.as_dtype(expected)


def test_a_weak_integer_that_does_not_fit_names_dtype_and_value():
    with pytest.raises(errors.RangeError, match="300 does not fit int8"):
        apply("add", new_input(Type(dtypes.int8, (2,))), 300)


def test_functions_of_weak_scalars_alone_stay_weak():
    k = new_input(Type(dtypes.int64, (), True))
    assert apply("sqrt", k).type == Type(dtypes.float64, (), True)
    assert apply("add", k, 1).type == Type(dtypes.int64, (), True)
    assert apply("multiply", apply("divide", k, 2), new_input(Type(dtypes.float32, (3,)))).dtype is dtypes.float32


def test_bool_arithmetic_is_refused_with_the_logical_operators():
    m = new_input(Type(dtypes.bool_, (2,)))
    for name, operands in (("negative", (m,)), ("subtract", (m, m)), ("add", (m, m))):
        with pytest.raises(errors.DtypeError, match="xor"):
            apply(name, *operands)


def test_reductions_are_numpys():
    a = RNG.standard_normal((3, 4, 5))
    x = node_of(a)
    for mine, numpys in (
        (reduce.mean, np.mean),
        (reduce.var, np.var),
        (reduce.std, np.std),
        (reduce.sum, np.sum),
        (reduce.max, np.max),
    ):
        for axis in (None, 0, -1, (0, 2)):
            np.testing.assert_allclose(
                value(mine(x, axis=axis, keepdims=True), (x, a)), numpys(a, axis=axis, keepdims=True), rtol=1e-13
            )
    np.testing.assert_allclose(value(reduce.var(x, axis=1, correction=1), (x, a)), np.var(a, axis=1, ddof=1), rtol=1e-13)
    np.testing.assert_allclose(value(reduce.cumulative_sum(x, axis=1), (x, a)), np.cumsum(a, axis=1), rtol=1e-13)
    np.testing.assert_array_equal(value(reduce.argmax(x, axis=1, keepdims=True), (x, a)), np.argmax(a, axis=1, keepdims=True))


def test_a_loop_keeps_what_it_uses_from_outside_as_operands():
    a = RNG.standard_normal(4)
    x = node_of(a)
    outside = apply("sin", x)
    [y], [rows] = control.loop(6, [x], lambda k, c: ([apply("add", c[0], apply("multiply", outside, k))], [c[0]]), every=[2])
    expected, kept = a.copy(), []
    for k in range(6):
        before = expected
        expected = expected + np.sin(a) * k
        if (k + 1) % 2 == 0:
            kept.append(before)
    np.testing.assert_allclose(value(y, (x, a)), expected, rtol=1e-14)
    np.testing.assert_allclose(value(rows, (x, a)), kept, rtol=1e-14)


def test_a_weak_integer_carry_widens_to_what_the_body_gives():
    [y], _ = control.loop(3, [constant(0)], lambda k, c: ([apply("add", c[0], 0.5)], []))
    assert y.type == Type(dtypes.float64, (), True)
    assert value(y) == 1.5


def test_a_carry_that_changes_shape_is_refused_by_name():
    x = new_input(Type(dtypes.float64, (3,)))
    with pytest.raises(errors.ShapeError, match="u starts as"):
        control.loop(3, [x], lambda k, c: ([shape.concat([c[0], c[0]])], []), names=["u"])


def test_while_counts_its_trips_and_says_whether_it_would_go_on():
    (y,), trips, more = control.while_loop(
        lambda c: apply("less", c[0], 100.0), lambda c: [apply("multiply", c[0], 2.0)], [constant(1.0)], 50
    )
    assert (value(y), value(trips), value(more)) == (128.0, 7, False)


def test_ranges_have_numpys_length():
    assert create.range_length(125.8, 224.8, 3) == 34
    assert create.range_length(1250, 1350.005, 0.005) == 20002
    assert create.range_length(0, 10**18 + 1, 10**16) == 101
    assert value(create.linspace(0.1, 0.7, 7))[-1] == 0.7
    np.testing.assert_array_equal(value(create.arange(5, 0, -2)), [5, 3, 1])


def test_small_constant_powers_are_products():
    x = new_input(Type(dtypes.float64, (3,)))
    assert elementwise.power(x, 2) is apply("multiply", x, x)
    with pytest.raises(errors.RangeError, match="negative exponent"):
        elementwise.power(new_input(Type(dtypes.int64, (3,))), -2)
