"""Graph -> passes -> plan -> kernels -> executable -> arrays, against NumPy; every case with several values and an output fed back."""

from __future__ import annotations

import numpy as np
import pytest

from gla import dtypes
from gla.compiler import executable, stages
from gla.config import Options
from gla.errors import DeviceError, RangeError
from gla.ir.builder import apply, broadcast
from gla.ir.functions import index, linear, reduce, shape
from gla.ir.functions.control import loop, while_loop
from gla.ir.graph import Graph
from gla.runtime.machine import Machine
from tests.runtime.conftest import array, run, scalar

rng = np.random.default_rng(7)


def test_arithmetic_of_arrays_and_a_runtime_scalar(machine: Machine) -> None:
    x, y, s = array((40, 30)), array((30,)), scalar()
    graph = Graph((x, s, y), (apply("add", apply("multiply", x, s), y), apply("maximum", x, y)))
    for factor in (2.0, -0.5, 0.0):
        a, b = rng.normal(size=(40, 30)), rng.normal(size=30)
        first, second = run(machine, graph, a, factor, b)
        np.testing.assert_array_equal(first, a * factor + b)
        np.testing.assert_array_equal(second, np.maximum(a, b))


@pytest.mark.parametrize("passes", [True, False])
def test_row_softmax_of_several_sizes(machine: Machine, passes: bool) -> None:
    for n, m in ((3, 5), (17, 300), (1, 4000)):
        x = array((n, m))
        shifted = apply("exp", apply("subtract", x, broadcast(reduce.max(x, axis=1, keepdims=True), (n, m))))
        graph = Graph((x,), (apply("divide", shifted, broadcast(reduce.sum(shifted, axis=1, keepdims=True), (n, m))),))
        a = rng.normal(size=(n, m))
        exe = executable(graph, machine, Options(passes=passes, verify=True))
        (out,) = exe.run([machine.upload(a)])
        (again,) = exe.run([out])
        expected = np.exp(a) / np.exp(a).sum(1, keepdims=True)
        np.testing.assert_allclose(machine.download(out, np.float64, (n, m)), expected, rtol=1e-12)
        expected = np.exp(expected) / np.exp(expected).sum(1, keepdims=True)
        np.testing.assert_allclose(machine.download(again, np.float64, (n, m)), expected, rtol=1e-12)


def test_slices_transposes_and_gathers(machine: Machine) -> None:
    x, i = array((20, 8)), array((5,), dtypes.int64)
    graph = Graph((x, i), (index.getitem(x, (slice(None, None, -2), slice(1, 7))), shape.transpose(x), index.getitem(x, i)))
    a, k = rng.normal(size=(20, 8)), np.array([3, 0, 19, -1, 7])
    cut, turned, taken = run(machine, graph, a, k)
    np.testing.assert_array_equal(cut, a[::-2, 1:7])
    np.testing.assert_array_equal(turned, a.T)
    np.testing.assert_array_equal(taken, a[k])


def test_matrix_products_with_work_around_them(machine: Machine) -> None:
    x, w, b = array((64, 96), dtypes.float32), array((96, 32), dtypes.float32), array((32,), dtypes.float32)
    graph = Graph((x, w, b), (apply("tanh", apply("add", linear.matmul(x, w), b)),))
    for _ in range(3):
        a, c, d = (rng.normal(size=n).astype(np.float32) / 8 for n in ((64, 96), (96, 32), (32,)))
        np.testing.assert_allclose(run(machine, graph, a, c, d)[0], np.tanh(a @ c + d), atol=2e-5)


@pytest.mark.parametrize("n", [50, 5000])
@pytest.mark.parametrize("trips", [0, 1, 2, 7, 101])
def test_loop_of_stencil_steps(machine: Machine, trips: int, n: int) -> None:
    x = array((n,))

    def body(_, carries):
        (u,) = carries
        return [apply("add", u, apply("multiply", apply("subtract", shape.roll(u, 1, 0), u), 0.25))], []

    (last,), _ = loop(trips, [x], body)
    a = rng.normal(size=n)
    expected = a.copy()
    for _ in range(trips):
        expected = expected + (np.roll(expected, 1) - expected) * 0.25
    np.testing.assert_array_equal(run(machine, Graph((x,), (last,)), a)[0], expected)


@pytest.mark.parametrize("n", [6, 4001])
@pytest.mark.parametrize("every", [1, 2, 3])
def test_loop_that_keeps_rows(machine: Machine, n: int, every: int) -> None:
    x = array((n,))

    def body(k, carries):
        u = apply("add", shape.roll(carries[0], 1, 0), k)
        return [u], [u]

    (last,), (rows,) = loop(9, [x], body, every=[every])
    a = rng.normal(size=n)
    expected, kept = a.copy(), []
    for k in range(9):
        expected = np.roll(expected, 1) + k
        kept += [expected] if (k + 1) % every == 0 else []
    got, stack = run(machine, Graph((x,), (last, rows)), a)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(stack, np.array(kept))


@pytest.mark.parametrize("n", [8, 5000])
@pytest.mark.parametrize("limit", [5, 1000])
def test_while_loop(machine: Machine, limit: int, n: int) -> None:
    x = array((n,))
    carries, trips, still = while_loop(
        lambda c: reduce.any(apply("greater", c[0], 1.0)),
        lambda c: [apply("multiply", shape.roll(c[0], 1, 0), 0.5)],
        [x],
        limit,
    )
    exe = executable(Graph((x,), (carries[0], trips, still)), machine)
    for top in (300.0, 0.5, 2.5, 9.0):
        a = np.linspace(0, top, n)
        outs = exe.run([machine.upload(a)])
        u, count = a.copy(), 0
        while (u > 1).any() and count < limit:
            u, count = np.roll(u, 1) * 0.5, count + 1
        np.testing.assert_array_equal(machine.download(outs[0], np.float64, (n,)), u)
        assert machine.download(outs[1], np.int64, ()) == count
        assert bool(machine.download(outs[2], np.bool_, ())) == bool((u > 1).any())


def test_writes_are_in_place_and_read_the_old_values(machine: Machine) -> None:
    x = array((100,))
    turned = index.getitem(x, slice(None, None, -1))
    graph = Graph((x,), (apply("add", x, 1.0),), ((x, apply("add", x, turned)),))
    a = rng.normal(size=100)
    plus, written = run(machine, graph, a)
    np.testing.assert_array_equal(plus, a + 1)
    np.testing.assert_array_equal(written, a + a[::-1])


def test_a_result_that_is_an_input_is_a_fresh_copy(machine: Machine) -> None:
    x = array((10,))
    exe = executable(Graph((x,), (x, x)), machine)
    given = machine.upload(np.arange(10.0))
    first, second = exe.run([given])
    machine.write(given, np.zeros(10))
    machine.write(first, np.ones(10))
    np.testing.assert_array_equal(machine.download(second, np.float64, (10,)), np.arange(10.0))


def test_a16_arrays_of_no_elements_take_no_memory_and_no_launch(machine: Machine) -> None:
    x = array((0, 5))
    exe = executable(Graph((x,), (apply("add", x, 1.0),)), machine)
    before = machine.memory()["in_use"]
    (out,) = exe.run([machine.upload(np.zeros((0, 5)))])
    assert out.nbytes == 0 and machine.memory()["in_use"] == before
    assert machine.download(out, np.float64, (0, 5)).shape == (0, 5)
    assert exe.stats.launches == 0


def test_the_sum_of_nothing_is_zero(machine: Machine) -> None:
    x = array((0,))
    assert run(machine, Graph((x,), (reduce.sum(x),)), np.zeros(0))[0] == 0.0


def test_structurally_equal_graphs_share_an_executable(machine: Machine) -> None:
    graphs = []
    for _ in range(2):
        x = array((12,))
        graphs.append(Graph((x,), (apply("sqrt", apply("abs", x)),)))
    assert executable(graphs[0], machine) is executable(graphs[1], machine)
    assert machine.executables.plans == 1 and machine.executables.hits == 1


def test_a_new_size_compiles_no_kernel(machine: Machine) -> None:
    def step(n: int) -> Graph:
        x = array((n, 64))
        return Graph((x,), (apply("add", apply("multiply", x, x), reduce.sum(x, axis=1, keepdims=True)),))

    first = executable(step(100), machine)
    loaded = machine.kernels.loaded
    a = rng.normal(size=(333, 64))
    np.testing.assert_allclose(run(machine, step(333), a)[0], a * a + a.sum(1, keepdims=True), rtol=1e-12, atol=1e-13)
    assert machine.kernels.loaded == loaded
    assert first is not executable(step(333), machine)


def test_g3_a_scalar_changes_on_every_call_without_instantiating(machine: Machine) -> None:
    x, s, t = array((33,)), scalar(), scalar(dtypes.int64)
    exe = executable(Graph((x, s, t), (apply("add", apply("multiply", x, s), t),)), machine)
    a = rng.normal(size=33)
    given = machine.upload(a)
    for k in range(20):
        (out,) = exe.run([given], [k / 3, k - 7])
        np.testing.assert_array_equal(machine.download(out, np.float64, (33,)), a * (k / 3) + (k - 7))
    assert exe.stats.instantiations <= 2


def test_g3_negative_zero_and_nan_are_values_of_their_own(machine: Machine) -> None:
    x, s = array((3,)), scalar()
    exe = executable(Graph((x, s), (apply("copysign", x, s),)), machine)
    given = machine.upload(np.ones(3))
    for value, expected in ((0.0, 1.0), (-0.0, -1.0), (0.0, 1.0), (np.nan, 1.0)):
        (out,) = exe.run([given], [value])
        np.testing.assert_array_equal(machine.download(out, np.float64, (3,)), expected)


def test_g3_complex_scalars(machine: Machine) -> None:
    x, s = array((5,), dtypes.complex128), scalar(dtypes.complex128)
    a = rng.normal(size=5) + 1j * rng.normal(size=5)
    for value in (2 - 3j, 1j):
        np.testing.assert_allclose(run(machine, Graph((x, s), (apply("add", x, s),)), a, value)[0], a + value, rtol=1e-15)


def test_a_scalar_that_does_not_fit_is_refused(machine: Machine) -> None:
    x, s = array((3,)), scalar(dtypes.int64)
    exe = executable(Graph((x, s), (apply("add", x, s),)), machine)
    with pytest.raises(RangeError, match="does not fit int64"):
        exe.run([machine.upload(np.ones(3))], [1 << 70])


def test_freed_memory_is_refused(machine: Machine) -> None:
    x = array((3,))
    exe = executable(Graph((x,), (apply("add", x, 1.0),)), machine)
    given = machine.upload(np.ones(3))
    given.free()
    with pytest.raises(DeviceError, match="free"):
        exe.run([given])
    with pytest.raises(DeviceError, match="free"):
        machine.download(given, np.float64, (3,))


def test_stages_show_what_lies_between() -> None:
    x = array((128,), dtypes.float32)
    graph = Graph((x,), (apply("sin", apply("multiply", x, x)),))
    for kind, word in (("host", "define"), ("cuda", "__global__")):
        seen = stages(graph, kind)
        assert len(seen.kernels) == len(seen.plan.steps) == 1
        assert word in seen.kernels[0][1] and seen.graph.results


def test_no_output_is_overwritten_by_a_later_call(machine: Machine) -> None:
    x = array((700,))
    exe = executable(Graph((x,), (apply("multiply", x, 2.0),)), machine)
    outs = [exe.run([machine.upload(np.full(700, float(k)))])[0] for k in range(30)]
    for k, out in enumerate(outs):
        np.testing.assert_array_equal(machine.download(out, np.float64, (700,)), 2.0 * k)
