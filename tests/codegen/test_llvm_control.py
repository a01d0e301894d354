"""Control flow that the LLVM printer turns into branches, masks and vectors of partials, against plain Python."""

from __future__ import annotations

import numpy as np
import pytest

import gla.dtypes as dt
from gla.codegen.llvm import lanes_of, print_llvm
from tests.codegen.test_llvm import RNG, run
from tests.handmade import Writer, sum_in_order

N = 53


def chosen(width: int, dtype=dt.float64):
    """o = a chain of `width` additions where x > limit, else x: work that only a selection needs."""
    w = Writer("chosen")
    x, out, n, limit = w.pointer(dtype), w.pointer(dtype, True), w.extent(), w.scalar(dtype)
    v = w.load(x, w.item)
    slow = v
    for k in range(width):
        slow = w.op("add", w.op("mul", slow, v), w.const(k, dtype))
    w.store(out, w.item, w.op("select", w.op("gt", v, limit), slow, v))
    return w.kernel(n)


@pytest.mark.parametrize("limit", [-10.0, 0.0, 1.5, 10.0])
def test_rare_work_is_done_for_the_lanes_that_ask(limit):
    x = RNG.normal(size=N)
    got = np.zeros(N)
    run(chosen(20), N, x, got, N, limit)
    slow = x
    for k in range(20):
        slow = slow * x + k
    assert np.array_equal(got, np.where(x > limit, slow, x))


def test_long_work_gets_a_branch_and_short_work_none():
    assert "rare" in print_llvm(chosen(20))
    assert lanes_of(chosen(20)) > 1
    assert "rare" not in print_llvm(chosen(2))
    assert lanes_of(chosen(2)) == 1


@pytest.mark.parametrize("limit", [-10.0, 1.0, 10.0])
def test_rare_work_in_the_rows_of_a_team(limit):
    w = Writer("rows_of_rare")
    x, out, items, count, bound = (
        w.pointer(dt.float64),
        w.pointer(dt.float64, True),
        w.extent(),
        w.extent(),
        w.scalar(dt.float64),
    )
    row = w.op("mul", w.item, count)

    def write(k):
        v = w.load(x, w.op("add", row, k))
        slow = v
        for _ in range(20):
            slow = w.op("add", w.op("mul", slow, v), v)
        w.store(out, w.op("add", row, k), w.op("select", w.op("lt", v, bound), v, slow))

    w.foreach(count, write)
    kernel = w.kernel(items)
    assert "rare" in print_llvm(kernel)
    values = RNG.normal(size=(7, 21))
    got = np.zeros((7, 21))
    run(kernel, 7, values, got, 7, 21, limit)
    slow = values
    for _ in range(20):
        slow = slow * values + values
    assert np.array_equal(got, np.where(values < limit, values, slow))


def test_work_that_others_need_too_is_not_rare():
    w = Writer("shared")
    x, out, n = w.pointer(dt.float64), w.pointer(dt.float64, True), w.extent()
    v = w.load(x, w.item)
    slow = v
    for _ in range(40):
        slow = w.op("add", w.op("mul", slow, v), v)
    w.store(out, w.item, w.op("add", slow, w.op("select", w.op("gt", v, slow), slow, v)))
    assert "rare" not in print_llvm(w.kernel(n))


def rows(partials, across, element, identity, combine, dtype, result=None, team=1):
    """o[i] = reduction over k of element(w, loaded x[i, k], k)."""
    w = Writer(f"rows_{partials}")
    result = result or dtype
    x, out, items, count = w.pointer(dtype), w.pointer(result, True), w.extent(), w.extent()
    start = w.const(identity, result)
    row = w.op("mul", w.item, count)

    def value(k):
        where = w.op("add", w.op("mul", k, items), w.item) if across else w.op("add", row, k)
        return [element(w, w.load(x, where), k)]

    (total,) = w.reduce(count, partials, value, [start], lambda a, b: [combine(w, a[0], b[0])])
    w.store(out, w.item, total)
    return w.kernel(items, team, across)


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("partials", [1, 32, 256])
def test_reductions_of_bools(partials, across):
    kernel = rows(
        partials, across, lambda w, v, k: w.op("gt", v, w.const(2.5, dt.float32)), False,
        lambda w, a, b: w.op("bor", a, b), dt.float32, dt.bool_,
    )  # fmt: skip
    for count in (0, 5, 100, 300):
        x = RNG.normal(size=(N, count)).astype(np.float32)
        got = np.ones(N, np.bool_)
        run(kernel, N, np.ascontiguousarray(x.T if across else x), got, N, count)
        assert np.array_equal(got, (x > 2.5).any(1))


@pytest.mark.parametrize("across", [False, True])
def test_reductions_whose_elements_need_a_loop(across):
    """The sum of squares by a loop of two trips inside: partials in an array, not in vectors."""

    def element(w, v, k):
        (square,) = w.loop(w.const(2, dt.int64), [w.const(1, dt.float64)], lambda _, p: [w.op("mul", p, v)])
        return square

    kernel = rows(32, across, element, -0.0, lambda w, a, b: w.op("add", a, b), dt.float64)
    x = RNG.normal(size=(N, 75))
    got = np.zeros(N)
    run(kernel, N, np.ascontiguousarray(x.T if across else x), got, N, 75)
    assert got.tobytes() == np.array([sum_in_order(row * row, 32) for row in x]).tobytes()


def test_a_reduction_inside_a_loop_of_items():
    """v <- v * (1 + sum of four numbers), three times: lanes around a short reduction."""
    w = Writer("nested")
    x, y, out, items, count, trips = (
        w.pointer(dt.float64), w.pointer(dt.float64), w.pointer(dt.float64, True), w.extent(), w.extent(), w.scalar(dt.int64),
    )  # fmt: skip
    zero, row = w.const(-0.0, dt.float64), w.op("mul", w.item, count)

    def step(_, v):
        (total,) = w.reduce(
            count, 1, lambda k: [w.op("mul", w.load(y, w.op("add", row, k)), v)], [zero], lambda a, b: [w.op("add", a[0], b[0])]
        )
        return [w.op("add", v, total)]

    (result,) = w.loop(trips, [w.load(x, w.item)], step)
    w.store(out, w.item, result)
    a, b = RNG.normal(size=N), RNG.normal(size=(N, 4))
    got = np.zeros(N)
    run(w.kernel(items), N, a, b, got, N, 4, 3)
    expected = a
    for _ in range(3):
        total = np.full(N, -0.0)
        for k in range(4):
            total = total + b[:, k] * expected
        expected = expected + total
    assert np.array_equal(got, expected)


def test_loops_with_a_count_of_their_own_for_each_item():
    w = Writer("counts")
    x, out, n = w.pointer(dt.int64), w.pointer(dt.int64, True), w.extent()
    (total,) = w.loop(w.load(x, w.item), [w.const(0, dt.int64)], lambda k, t: [w.op("add", t, k)])
    w.store(out, w.item, total)
    counts = RNG.integers(0, 30, N)
    got = np.zeros(N, np.int64)
    run(w.kernel(n), N, counts, got, N)
    assert np.array_equal(got, counts * (counts - 1) // 2)


def test_conditions_within_loops_store_for_their_own_lanes():
    w = Writer("when")
    x, out, n, trips = w.pointer(dt.int64), w.pointer(dt.int64, True), w.extent(), w.scalar(dt.int64)
    v = w.load(x, w.item)

    def step(k):
        w.when(w.op("eq", k, v), lambda: w.store(out, w.item, w.op("mul", k, k)))
        return []

    w.loop(trips, [], step)
    values = RNG.integers(0, 20, N)
    got = np.full(N, -1)
    run(w.kernel(n), N, values, got, N, 10)
    assert np.array_equal(got, np.where(values < 10, values**2, -1))
