"""Lowering, run by the interpreter of the kernel form in tests/codegen/kernel_interpreter.py, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from kernel_interpreter import run

from gla import dtypes
from gla.codegen.arguments import Number
from gla.codegen.kernel import Compute, ForEach, Loop, Reduce
from gla.codegen.loops import lower
from gla.dtypes import float32, float64, int32, int64
from gla.errors import InternalError
from gla.ir import builder
from gla.ir.functions import control, create, reduce, shape
from gla.ir.functions import elementwise as ew
from gla.ir.functions import index as indexing
from gla.ir.graph import Graph, new_input
from gla.ir.node import make
from gla.ir.types import TupleType, Type
from gla.plan.steps import Region, Target

RNG = np.random.default_rng(7)
MODES = {"periodic": "wrap", "edge": "edge", "reflect": "reflect", "symmetric": "symmetric", "constant": "constant"}


def array(shape, dtype=float64):
    return new_input(Type(dtype, tuple(shape)), "x")


def scalar(dtype=float64):
    return new_input(Type(dtype, (), True), "a", scalar=True)


def values(shape, dtype=np.float64):
    if np.dtype(dtype).kind == "c":
        return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(dtype)
    if np.dtype(dtype).kind in "iu":
        return RNG.integers(0, 50, size=shape).astype(dtype)
    return RNG.normal(size=shape).astype(dtype)


def check(node, inputs, arrays, expected, *, scalars=(), numbers=(), items=None, inner=(), exact=True):
    """Run the region that gives `node` and compare."""
    items = node.shape if items is None else items
    (out,) = run(Region((node,), tuple(inputs), tuple(scalars), items, inner), arrays, numbers)
    expected = np.asarray(expected)
    assert out.shape == expected.shape
    assert out.dtype == expected.dtype
    if exact:
        np.testing.assert_array_equal(out, expected)
    else:
        np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-300)


def text(region):
    """The kernel with everything that a printer would print, and nothing of the region's sizes."""
    return repr(lower(region).kernel)


# --- elementwise, sources


def test_a_formula_over_one_shape_needs_no_division():
    x, y = array((3, 4, 5)), array((3, 4, 5))
    node = builder.apply("multiply", builder.apply("add", x, y), builder.apply("subtract", x, 2.5))
    a, b = values((3, 4, 5)), values((3, 4, 5))
    check(node, (x, y), (a, b), (a + b) * (a - 2.5))
    assert "idiv" not in text(Region((node,), (x, y), (), (3, 4, 5)))


@pytest.mark.parametrize("extents", [(), (1,), (1, 1), (4, 1), (1, 4), (2, 1, 3)])
def test_shapes_with_extents_of_one(extents):
    x = array(extents)
    a = values(extents)
    check(builder.apply("add", x, x), (x,), (a,), a + a)


@pytest.mark.parametrize("small", [(4, 1), (1, 5), (5,), (), (1, 1)])
def test_broadcast_reads(small):
    x, y = array((4, 5)), array(small)
    a, b = values((4, 5)), values(small)
    check(builder.apply("multiply", x, y), (x, y), (a, b), a * b)


def test_a_value_used_twice_is_computed_once():
    x = array((6,))
    e = builder.apply("exp", x)
    body = lower(Region((builder.apply("multiply", e, builder.apply("add", e, 1.0)),), (x,), (), (6,))).kernel.body
    once = lower(Region((e,), (x,), (), (6,))).kernel.body
    assert len(body) <= len(once) + 4


def test_two_outputs_of_one_region():
    x, y = array((7,)), array((7,))
    total, product = builder.apply("add", x, y), builder.apply("multiply", x, y)
    a, b = values(7), values(7)
    first, second = run(Region((total, product), (x, y), (), (7,)), (a, b))
    np.testing.assert_array_equal(first, a + b)
    np.testing.assert_array_equal(second, a * b)


def test_complex_numbers_are_pairs():
    x = array((5,), dtypes.complex128)
    a = values(5, np.complex128)
    check(builder.apply("multiply", x, x), (x,), (a,), a * a)


def test_float16_rounds_after_each_operation():
    x, y = array((64,), dtypes.float16), array((64,), dtypes.float16)
    a, b = values(64, np.float16), values(64, np.float16)
    check(builder.apply("add", builder.apply("multiply", x, y), x), (x, y), (a, b), a * b + a)


def test_bfloat16_rounds_after_each_operation():
    x = array((64,), dtypes.bfloat16)
    a = values(64, np.float32).astype(ml_dtypes.bfloat16)
    check(builder.apply("multiply", builder.apply("multiply", x, x), x), (x,), (a,), a * a * a)


def test_bool_is_loaded_and_stored():
    x = array((6,))
    a = values(6)
    mask = builder.apply("less", x, 0.0)
    check(mask, (x,), (a,), a < 0)
    m = array((6,), dtypes.bool_)
    check(builder.apply("logical_not", m), (m,), (a < 0,), ~(a < 0))


def test_where_keeps_branches_apart():
    x = array((4,))
    a = np.array([np.nan, -1.0, 0.0, 4.0])
    node = ew.where(builder.apply("less", x, 0.0), 0.0, builder.apply("sqrt", x))
    check(node, (x,), (a,), np.array([np.nan, 0.0, 0.0, 2.0]))


def test_casts_between_dtypes():
    x = array((5,))
    a = np.array([np.nan, -1.9, 2.7, 1e30, -1e30])
    limits = np.iinfo(np.int32)
    check(builder.cast(x, int32), (x,), (a,), np.array([0, -1, 2, limits.max, limits.min], np.int32))


def test_runtime_scalars_and_numbers_from_sizes_are_arguments():
    x, s = array((5,)), scalar()
    h = builder.constant(1.0 / 5, literal=False)
    a = values(5)
    node = builder.apply("multiply", builder.apply("multiply", x, s), h)
    check(node, (x,), (a,), a * 3.0 * (1.0 / 5), scalars=(s,), numbers=(3.0,))
    region = Region((node,), (x,), (s,), (5,))
    assert "0.2" not in text(region)


def test_a_complex_runtime_scalar_is_two_parameters():
    x = array((3,), dtypes.complex128)
    s = scalar(dtypes.complex128)
    a = values(3, np.complex128)
    check(builder.apply("add", x, s), (x,), (a,), a + (1 + 2j), scalars=(s,), numbers=(1 + 2j,))


def test_iota_is_the_index():
    check(builder.apply("multiply", create.iota(9), 2), (), (), np.arange(9) * 2)


# --- views


@pytest.mark.parametrize(
    ("before", "after"),
    [((4, 6), (24,)), ((24,), (4, 6)), ((4, 6), (6, 4)), ((2, 3, 4), (6, 4)), ((6, 4), (2, 3, 2, 2)), ((5,), (1, 5, 1))],
)
def test_reshape(before, after):
    x = array(before)
    a = values(before)
    check(shape.reshape(builder.apply("add", x, 0.5), after), (x,), (a,), (a + 0.5).reshape(after))


def test_reshape_there_and_back_costs_no_division():
    x, y = array((4, 6)), array((24,))
    node = builder.apply("add", shape.reshape(x, (24,)), y)
    assert "idiv" not in text(Region((node,), (x, y), (), (24,)))
    node = builder.apply("add", shape.reshape(y, (4, 6)), x)
    assert "idiv" not in text(Region((node,), (x, y), (), (4, 6)))


def test_transpose():
    x, y = array((3, 4, 5)), array((5, 3, 4))
    a, b = values((3, 4, 5)), values((5, 3, 4))
    check(builder.apply("add", shape.permute(x, (2, 0, 1)), y), (x, y), (a, b), a.transpose(2, 0, 1) + b)


@pytest.mark.parametrize("key", [np.s_[1:-1], np.s_[::-1], np.s_[::2], np.s_[7:2:-2], np.s_[3:4], np.s_[20:21], np.s_[:-3]])
def test_slices(key):
    x = array((21, 3))
    a = values((21, 3))
    check(builder.apply("multiply", indexing.getitem(x, key), 2.0), (x,), (a,), a[key] * 2)


def test_constant_index_on_a_small_axis():
    x = array((6, 3))
    a = values((6, 3))
    cols = [indexing.getitem(x, np.s_[:, k]) for k in range(3)]
    node = builder.apply("subtract", builder.apply("multiply", cols[0], cols[1]), cols[2])
    check(node, (x,), (a,), a[:, 0] * a[:, 1] - a[:, 2])


@pytest.mark.parametrize("mode", list(MODES))
@pytest.mark.parametrize("n", [1, 2, 3, 7])
@pytest.mark.parametrize("offset", [-9, -3, -1, 0, 1, 2, 5])
def test_shift(mode, n, offset):
    x = array((n, 2))
    a = values((n, 2))
    fill = {"constant_values": 1.5} if mode == "constant" else {}
    width = abs(offset)
    if n == 1 and mode == "reflect":
        wide = np.pad(a, ((width, width), (0, 0)), mode="edge")
    else:
        wide = np.pad(a, ((width, width), (0, 0)), mode=MODES[mode], **fill)
    expected = wide[width + offset : width + offset + n]
    check(shape.shift(x, (offset, 0), (mode, mode), 1.5), (x,), (a,), expected)


def test_shifts_along_two_axes_and_of_shifts():
    x = array((5, 4))
    a = values((5, 4))
    once = shape.shift(x, (1, -1), ("periodic", "edge"))
    twice = shape.shift(builder.apply("multiply", once, 2.0), (0, 2), ("constant", "periodic"))
    expected = np.roll(a, -1, 0)[:, [0, 0, 1, 2]] * 2
    check(twice, (x,), (a,), np.roll(expected, -2, 1))


def test_a_periodic_stencil_has_no_remainder():
    x = array((6,))
    a = values(6)
    node = builder.apply("add", shape.shift(x, (1,), ("periodic",)), shape.shift(x, (-1,), ("periodic",)))
    check(node, (x,), (a,), np.roll(a, -1) + np.roll(a, 1))
    assert "idiv" not in text(Region((node,), (x,), (), (6,)))


@pytest.mark.parametrize(("before", "after"), [((1, 2), (0, 3)), ((0, 0), (2, 1)), ((3, 0), (0, 0))])
def test_pad(before, after):
    x = array((3, 4))
    a = values((3, 4))
    expected = np.pad(a, list(zip(before, after)), constant_values=-1.0)
    check(shape.pad(x, before, after, -1.0), (x,), (a,), expected)


@pytest.mark.parametrize("lengths", [(3, 2), (1, 1), (4, 1, 6), (0, 3), (5, 0, 9)])
def test_concat(lengths):
    arrays = [values((n, 2)) for n in lengths]
    nodes = [array((n, 2)) for n in lengths]
    check(shape.concat(nodes, 0), nodes, arrays, np.concatenate(arrays))


def test_stack_on_a_small_last_axis():
    x, y = array((5,)), array((5,))
    a, b = values(5), values(5)
    check(shape.stack([x, builder.apply("negative", y)], 1), (x, y), (a, b), np.stack([a, -b], 1))


@pytest.mark.parametrize(
    ("key", "extents"),
    [(np.s_[2:5, 1:], (3, 4)), (np.s_[::2, :], (3, 5)), (np.s_[5:0:-3], (2, 5)), (np.s_[3:4], (1, 5)), (np.s_[:, :], (6, 5))],
)
def test_update_replaces_a_region(key, extents):
    x, v = array((6, 5)), array(extents)
    a, b = values((6, 5)), values(extents)
    expected = a.copy()
    expected[key] = b
    node = indexing.setitem(x, key, builder.apply("multiply", v, 2.0))
    expected[key] = b * 2
    check(node, (x, v), (a, b), expected)


def test_gather_with_computed_indices_stays_in_memory():
    x, i = array((5, 3)), array((4,), int64)
    a = values((5, 3))
    positions = np.array([4, 0, -7, 99])
    node = make("gather", (x, i), {"axes": (0,)}, Type(float64, (4, 3)))
    check(node, (x, i), (a, positions), a[np.clip(positions, 0, 4)])


def test_gather_along_two_axes():
    x, i, j = array((5, 3, 2)), array((4, 2), int64), array((4, 2), int64)
    a, p, q = values((5, 3, 2)), RNG.integers(0, 5, (4, 2)), RNG.integers(0, 2, (4, 2))
    node = make("gather", (x, i, j), {"axes": (0, 2)}, Type(float64, (4, 2, 3)))
    check(node, (x, i, j), (a, p, q), a.transpose(0, 2, 1)[p, q])


# --- reductions


@pytest.mark.parametrize("n", [1, 3, 8, 9, 40, 300])
@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
def test_rows_reduce(n, kind):
    x = array((3, n))
    a = values((3, n)) + 0.5
    check(getattr(reduce, kind)(x, axis=1), (x,), (a,), getattr(np, kind)(a, axis=1), exact=kind in ("max", "min"))


def test_columns_reduce_with_items_side_by_side():
    x = array((50, 6))
    a = values((50, 6))
    node = reduce.sum(builder.apply("multiply", x, x), axis=0)
    check(node, (x,), (a,), (a * a).sum(0), exact=False)
    kernel = lower(Region((node,), (x,), (), (6,))).kernel
    assert kernel.across
    assert kernel.team == 8
    assert "idiv" not in repr(kernel)


def test_what_all_items_read_does_not_decide_how_a_team_lies():
    assert lower(columns(50, 6)).kernel.across
    assert not lower(rows(50, 60)).kernel.across


def test_a_full_sum_is_one_item_and_one_team():
    x = array((30, 20))
    a = values((30, 20))
    node = reduce.sum(x)
    check(node, (x,), (a,), a.sum(), exact=False)
    kernel = lower(Region((node,), (x,), (), ())).kernel
    assert (kernel.team, kernel.across) == (32, False)
    assert "idiv" not in repr(kernel)


def test_outer_and_middle_axes_reduce():
    x = array((4, 5, 6))
    a = values((4, 5, 6))
    check(reduce.sum(x, axis=(0, 2)), (x,), (a,), a.sum((0, 2)), exact=False)
    check(reduce.max(x, axis=1), (x,), (a,), a.max(1))


def test_the_order_of_a_long_sum():
    x = array((100,), float32)
    a = values(100, np.float32)
    part = np.full(32, -0.0, np.float32)
    for k, v in enumerate(a):
        part[k % 32] += v
    while len(part) > 1:
        part = part[: len(part) // 2] + part[len(part) // 2 :]
    check(reduce.sum(x), (x,), (a,), part[0])


def test_empty_sums_are_positive_zero():
    x = array((0,))
    (out,) = run(Region((make("reduce", (x,), {"kind": "sum", "axes": (0,)}, Type(float64)),), (x,), (), ()), (np.empty(0),))
    assert out == 0
    assert not np.signbit(out)


def test_a_sum_of_negative_zeros_keeps_its_sign():
    x = array((20,))
    (out,) = run(Region((reduce.sum(x),), (x,), (), ()), (np.full(20, -0.0),))
    assert np.signbit(out)


def test_half_precision_sums_add_in_float32():
    x = array((600,), dtypes.float16)
    a = np.full(600, 0.1, np.float16)
    node = make("reduce", (x,), {"kind": "sum", "axes": (0,)}, Type(dtypes.float16))
    check(node, (x,), (a,), np.float16(np.float64(a).sum()))


def test_complex_sums_and_products():
    x = array((2, 12), dtypes.complex128)
    a = values((2, 12), np.complex128)
    check(reduce.sum(x, axis=1), (x,), (a,), a.sum(1), exact=False)
    check(reduce.prod(x, axis=1), (x,), (a,), a.prod(1), exact=False)


@pytest.mark.parametrize("n", [4, 33])
def test_any_and_all(n):
    x = array((4, n), dtypes.bool_)
    a = np.zeros((4, n), bool)
    a[1] = True
    a[2, n - 1] = True
    check(reduce.any(x, axis=1), (x,), (a,), a.any(1))
    check(reduce.all(x, axis=1), (x,), (a,), a.all(1))


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize("n", [5, 70])
def test_arg_reductions_take_nan_first_and_the_lower_index(kind, n):
    a = RNG.integers(0, 4, (6, n)).astype(float)
    a[1, [n - 1, n - 2]] = np.nan
    a[2] = -np.inf
    a[3] = np.inf
    a[4] = 3.0
    x = array((6, n))
    node = make("argreduce", (x,), {"kind": kind, "axis": 1}, Type(int64, (6,)))
    check(node, (x,), (a,), getattr(np, kind)(a, axis=1))


def test_argmax_of_integers_and_bools():
    a = RNG.integers(0, 9, (3, 20)).astype(np.uint8)
    x = array((3, 20), dtypes.uint8)
    check(make("argreduce", (x,), {"kind": "argmax", "axis": 1}, Type(int64, (3,))), (x,), (a,), a.argmax(1))
    m = array((3, 20), dtypes.bool_)
    check(make("argreduce", (m,), {"kind": "argmax", "axis": 1}, Type(int64, (3,))), (m,), (a > 4,), (a > 4).argmax(1))


def softmax(x):
    e = builder.apply("exp", builder.apply("subtract", x, reduce.max(x, axis=1, keepdims=True)))
    return builder.apply("divide", e, reduce.sum(e, axis=1, keepdims=True))


@pytest.mark.parametrize("n", [5, 40])
def test_softmax_rows_are_one_kernel(n):
    x = array((3, n))
    a = values((3, n))
    e = np.exp(a - a.max(1, keepdims=True))
    check(softmax(x), (x,), (a,), e / e.sum(1, keepdims=True), items=(3,), inner=(n,), exact=False)


def test_softmax_has_two_reductions_then_the_row():
    x = array((3, 40))
    kernel = lower(Region((softmax(x),), (x,), (), (3,), (40,))).kernel
    assert [type(s) for s in kernel.body if isinstance(s, Reduce | ForEach)] == [Reduce, Reduce, ForEach]
    assert kernel.team == 32


def test_sums_that_do_not_wait_for_each_other_share_a_loop():
    x = array((2, 50))
    a = values((2, 50))
    node = builder.apply("add", reduce.sum(x, axis=1), reduce.sum(builder.apply("multiply", x, x), axis=1))
    check(node, (x,), (a,), a.sum(1) + (a * a).sum(1), exact=False)
    kernel = lower(Region((node,), (x,), (), (2,))).kernel
    assert sum(isinstance(s, Reduce) for s in kernel.body) == 1


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("extents", [(7,), (3, 12)])
def test_scan_along_the_last_axis(kind, extents):
    x = array(extents)
    a = values(extents)
    axis = len(extents) - 1
    node = make("scan", (x,), {"kind": kind, "axis": axis}, Type(float64, extents))
    expected = np.cumsum(a, axis) if kind == "sum" else np.maximum.accumulate(a, axis)
    check(node, (x,), (a,), expected, items=extents[:-1], inner=extents[-1:])


# --- control


def test_a_loop_inside_a_kernel_runs_rk4():
    x = array((5,))
    h = builder.constant(0.1)

    def slope(y, t):
        return builder.apply("subtract", t, builder.apply("multiply", y, y))

    def step(counter, carries):
        y, t = carries
        half = builder.apply("multiply", h, 0.5)
        k1 = slope(y, t)
        k2 = slope(builder.apply("add", y, builder.apply("multiply", k1, half)), builder.apply("add", t, half))
        return [builder.apply("add", y, builder.apply("multiply", k2, h)), builder.apply("add", t, h)], []

    (y, t), _ = control.loop(10, [x, builder.constant(0.0)], step)
    a = values(5)
    want, time = a.copy(), 0.0
    for _ in range(10):
        k1 = time - want * want
        mid = want + k1 * 0.05
        k2 = (time + 0.05) - mid * mid
        want, time = want + k2 * 0.1, time + 0.1
    check(y, (x,), (a,), want)
    check(t, (x,), (a,), np.float64(time))
    assert "value=10," not in text(Region((y,), (x,), (), (5,)))


def test_a_loop_counter_is_int64():
    x = array((3,), int64)
    (y,), _ = control.loop(5, [x], lambda k, c: ([builder.apply("add", c[0], builder.apply("multiply", k, k))], []))
    a = np.array([0, 10, 20])
    check(y, (x,), (a,), a + 30)


def test_a_loop_reads_captured_arrays_anywhere():
    x, w = array((4,)), array((6,))
    a, b = values(4), values(6)

    def step(k, carries):
        weight = make("gather", (w, builder.cast(k, int64)), {"axes": (0,)}, Type(float64, ()))
        return [builder.apply("add", carries[0], weight)], []

    (y,), _ = control.loop(6, [x], step)
    want = a.copy()
    for k in range(6):
        want = want + b[k]
    check(y, (x, w), (a, b), want)


def test_nested_loops_and_complex_carries():
    x = array((3,), dtypes.complex128)
    a = values(3, np.complex128) * 0.1

    def outer(k, carries):
        (z,), _ = control.loop(2, [carries[0]], lambda j, c: ([builder.apply("multiply", c[0], c[0])], []))
        return [builder.apply("add", z, x)], []

    (y,), _ = control.loop(3, [x], outer)
    want = a
    for _ in range(3):
        z = want * want
        want = z * z + a
    check(y, (x,), (a,), want)


def test_a_runtime_count_below_zero_runs_no_trip():
    x, n = array((3,)), scalar(int64)
    (y,), _ = control.loop(builder.cast(n, int64), [x], lambda k, c: ([builder.apply("add", c[0], 1.0)], []))
    a = values(3)
    check(y, (x,), (a,), a, scalars=(n,), numbers=(-3,))
    check(y, (x,), (a,), a + 1 + 1, scalars=(n,), numbers=(2,))


@pytest.mark.parametrize(("limit", "trips", "holds"), [(100, 7, False), (3, 3, True)])
def test_while_gives_carries_trips_and_whether_it_still_held(limit, trips, holds):
    x = array((3,))
    start = builder.constant(1.0)
    carries, done, still = control.while_loop(
        lambda c: builder.apply("less", c[0], 100.0),
        lambda c: [builder.apply("multiply", c[0], 2.0), builder.apply("add", c[1], c[0])],
        [start, x],
        limit,
    )
    a = values(3)
    want, s = a.copy(), 1.0
    for _ in range(trips):
        want, s = want + s, s * 2
    check(carries[1], (x,), (a,), want)
    check(done, (x,), (a,), np.int64(trips))
    check(still, (x,), (a,), np.bool_(holds))


def test_cond_selects():
    x, flag = array((3,)), new_input(Type(dtypes.bool_), "flag", scalar=True)
    u, v = (new_input(x.type) for _ in range(2))
    then, other = Graph((u,), (builder.apply("add", u, 1.0),)), Graph((v,), (builder.apply("multiply", v, 3.0),))
    node = make("cond", (flag, x), {"then": then, "otherwise": other}, TupleType((x.type,)))
    a = values(3)
    for value, expected in ((True, a + 1), (False, a * 3)):
        check(control.item(node, 0), (x,), (a,), expected, scalars=(flag,), numbers=(value,))


def test_a_carry_read_at_another_element_is_refused():
    x = array((3,))
    (y,), _ = control.loop(2, [x], lambda k, c: ([shape.shift(c[0], (1,), ("periodic",))], []))
    with pytest.raises(InternalError, match="another element"):
        lower(Region((y,), (x,), (), (3,)))


def test_what_does_not_change_in_a_loop_is_computed_before_it():
    x = array((3,))
    (y,), _ = control.loop(4, [x], lambda k, c: ([builder.apply("add", c[0], builder.apply("sqrt", x))], []))
    (loop,) = [s for s in lower(Region((y,), (x,), (), (3,))).kernel.body if isinstance(s, Loop)]
    assert [s.op for s in loop.body if isinstance(s, Compute)] == ["add"]


# --- targets, depth


def test_a_target_places_an_output_in_its_buffer():
    x, k = array((4,)), array((), int64)
    a = values(4)
    buffer = np.zeros((3, 10))
    node = shape.reshape(builder.apply("multiply", x, 2.0), (1, 4))
    region = Region((node,), (x, k), (), (1, 4), (), (Target((3, 10), (k, 8), (1, -2)),))
    (out,) = run(region, (a, np.array(1)), into=[buffer])
    expected = buffer.copy()
    expected[1, 8:0:-2] = a * 2
    np.testing.assert_array_equal(out, expected)


def test_a_deep_graph_needs_no_recursion():
    x = array((2,))
    node = x
    for _ in range(3000):
        node = builder.apply("add", builder.apply("multiply", node, 0.5), x)
    assert len(lower(Region((node,), (x,), (), (2,))).kernel.body) >= 6000


# --- the law: sizes are arguments


def stencil(m, n):
    u = array((m, n))
    parts = [shape.shift(u, o, ("periodic", "edge")) for o in ((1, 0), (-1, 0), (0, 1), (0, -1))]
    total = parts[0]
    for part in parts[1:]:
        total = builder.apply("add", total, part)
    return Region((builder.apply("subtract", total, builder.apply("multiply", u, 4.0)),), (u,), (), (m, n))


def interior(m, n):
    u = array((m, n))
    inner = builder.apply("add", indexing.getitem(u, np.s_[1:-1, 2:]), indexing.getitem(u, np.s_[1:-1, :-2]))
    return Region((indexing.setitem(u, np.s_[1:-1, 1:-1], inner),), (u,), (), (m, n))


def columns(m, n):
    x = array((m, n))
    y = array((m,))
    node = reduce.sum(builder.apply("multiply", x, shape.reshape(y, (m, 1))), axis=0)
    return Region((node,), (x, y), (), (n,))


def rows(m, n):
    x = array((m, n))
    return Region((softmax(x),), (x,), (), (m,), (n,))


def looped(m, n):
    x = array((m, n))
    h = builder.constant(1.0 / n, literal=False)
    (y,), _ = control.loop(m, [x], lambda k, c: ([builder.apply("add", c[0], builder.apply("multiply", h, k))], []))
    return Region((y,), (x,), (), (m, n))


def mixed(m, n):
    x, y = array((m, n)), array((n,))
    node = shape.concat([shape.pad(builder.apply("add", x, y), (1, 0), (2, 0)), x], 0)
    return Region((indexing.getitem(node, np.s_[::-1]),), (x, y), (), (2 * m + 3, n))


@pytest.mark.parametrize("make_region", [stencil, interior, columns, rows, looped, mixed])
def test_sizes_are_arguments_and_not_text(make_region):
    first = text(make_region(20, 30))
    assert first == text(make_region(30, 30))
    assert first == text(make_region(41, 500))


@pytest.mark.parametrize("make_region", [stencil, interior, looped, mixed])
def test_square_and_tiny_sizes_have_the_same_text(make_region):
    texts = {text(make_region(m, n)) for m, n in ((4, 4), (4, 5), (9, 4), (12, 12), (17, 40), (40, 17))}
    assert len(texts) == 1


def test_rolls_by_half_the_axis_are_arguments():
    def region(m, n):
        u = array((m, n))
        return Region((shape.roll(builder.apply("add", u, shape.roll(u, m // 2, 0)), n // 2, 1),), (u,), (), (m, n))

    assert text(region(10, 10)) == text(region(64, 100))


def test_large_arrays_are_indexed_in_64_bits():
    x = array((1 << 16, 1 << 16))
    region = Region((builder.apply("add", x, 1.0),), (x,), (), x.shape)
    kernel = lower(region).kernel
    assert kernel.wide
    assert kernel.item.dtype is int64
    assert not lower(stencil(1000, 1000)).kernel.wide


def test_lowering_the_same_region_twice_gives_equal_kernels():
    region = interior(9, 9)
    assert text(region) == text(region)


# --- items that carry a short row


def lorenz(y):
    a, b, c = (indexing.getitem(y, (..., j)) for j in range(3))
    rates = [
        builder.apply("subtract", b, a),
        builder.apply("subtract", builder.apply("multiply", a, c), b),
        builder.apply("subtract", builder.apply("multiply", a, b), c),
    ]
    return builder.apply("add", y, builder.apply("multiply", shape.stack(rates, -1), 0.01))


def lorenz_region(n):
    x = array((n, 3))
    (y,), _ = control.loop(6, [x], lambda k, c: ([lorenz(c[0])], []))
    return Region((y,), (x,), (), (n,), (3,))


def test_a_small_system_is_carried_in_values():
    a = values((4, 3))
    want = a
    for _ in range(6):
        p, q, r = want.T
        want = want + np.stack([q - p, p * r - q, p * q - r], -1) * 0.01
    (out,) = run(lorenz_region(4), (a,))
    np.testing.assert_array_equal(out, want)
    (loop,) = [s for s in lower(lorenz_region(4)).kernel.body if isinstance(s, Loop)]
    assert len(loop.carried) == 3
    assert text(lorenz_region(4)) == text(lorenz_region(500))


def test_an_adaptive_step_of_one_small_system():
    x = array((3,))
    a = np.array([0.1, 0.2, 0.05])
    carries, trips, still = control.while_loop(
        lambda c: builder.apply("less", reduce.max(c[0]), 1.0),
        lambda c: [builder.apply("multiply", c[0], builder.apply("add", 1.0, c[1])), reduce.sum(c[0])],
        [x, builder.constant(0.5, float64)],
        50,
    )
    want, s, n = a, 0.5, 0
    while want.max() < 1.0:
        want, s, n = want * (1.0 + s), want[0] + want[1] + want[2], n + 1
    (out,) = run(Region((carries[0],), (x,), (), (), (3,)), (a,))
    np.testing.assert_array_equal(out, want)
    check(trips, (x,), (a,), np.int64(n))
    check(still, (x,), (a,), np.bool_(False))


def test_g84_values_that_are_never_stored_count_for_the_width_of_indices():
    huge = make("broadcast", (builder.constant(0, dtypes.int8),), {}, Type(dtypes.int8, ((1 << 31) + 5,)))
    at = new_input(Type(dtypes.int64, (3,)), "at")
    taken = make("gather", (indexing.setitem(huge, (1 << 31) + 3, 1), at), {"axes": (0,)}, Type(dtypes.int8, (3,)))
    low = lower(Region((taken,), (at,), (), (3,), (), (None,)))
    assert low.kernel.wide
    assert all(-(1 << a.dtype.bits - 1) <= a.value < 1 << a.dtype.bits - 1 for a in low.arguments if isinstance(a, Number))
