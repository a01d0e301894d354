"""What plans come to: which kernels, in place or not, on how much memory, after what."""

from __future__ import annotations

import numpy as np
import pytest

from gla import dtypes
from gla.config import Options
from gla.ir.builder import apply, cast
from gla.ir.functions import reduce
from gla.ir.functions.control import loop
from gla.ir.functions.index import getitem, setitem
from gla.ir.functions.linear import matmul
from gla.ir.functions.shape import permute
from gla.ir.graph import Graph, new_input
from gla.ir.node import make
from gla.ir.types import Type
from gla.passes import pipeline
from gla.plan.explain import explain, launches
from gla.plan.planner import plan
from gla.plan.steps import CopyStep, KernelStep, LoopStep, MatmulStep
from gla.plan.text import print_plan
from tests.plan import programs
from tests.plan.programs import add, array, mul, rk4, sub
from tests.plan.run_plan import Machine
from tests.snapshots import check

PROGRAMS = ["lorenz", "heat", "heat_step", "gray_scott_step", "jacobi", "nbody_step", "mlp", "pi", "van_der_pol", "decay"]


def planned(graph, options=None):
    return plan(pipeline.run(graph, options), options)


def kinds(made):
    return [type(step).__name__ for step in made.steps]


@pytest.mark.parametrize("name", PROGRAMS)
def test_plans_of_programs(name):
    made = planned(getattr(programs, name)())
    check(__file__, f"snapshots/{name}.txt", print_plan(made, name) + "\n" + explain(made))


def softmax(x):
    e = apply("exp", sub(x, reduce.max(x, axis=-1, keepdims=True)))
    return apply("divide", e, reduce.sum(e, axis=-1, keepdims=True))


def layer_norm(x):
    return apply("divide", sub(x, reduce.mean(x, axis=-1, keepdims=True)), reduce.std(x, axis=-1, keepdims=True))


@pytest.mark.parametrize(
    "function",
    [
        softmax,
        layer_norm,
        lambda x: reduce.var(x, axis=0),
        lambda x: reduce.sum(mul(x, x)),
        lambda x: reduce.max(apply("abs", sub(x, 1.0))),
    ],
    ids=["softmax", "layer norm", "var", "sum of squares", "largest"],
)
def test_one_kernel(function):
    x = array("x", 64, 100)
    made = planned(Graph((x,), (function(x),)))
    assert kinds(made) == ["KernelStep"] and made.arena_bytes == 0


def test_a_long_row_is_not_left_to_one_team():
    x = array("x", 200_000)
    made = planned(Graph((x,), (apply("divide", x, reduce.sum(x)),)))
    assert [step.region.items for step in made.steps] == [(13,), (), (200_000,)]


def test_ten_steps_of_an_ensemble_are_one_kernel():
    s, dt, rho = array("s", 512, 3), programs.scalar("dt"), programs.scalar("rho")
    y = s
    for _ in range(10):
        y = rk4(programs.lorenz_rhs(rho), y, dt)
    assert kinds(planned(Graph((s, dt, rho), (y,)))) == ["KernelStep"]


def test_unfused_runge_kutta_needs_six_buffers():
    y, h = array("y", 1000), programs.scalar("h")

    def f(v):
        for _ in range(16):
            v = apply("sin", add(v, getitem(y, 0)))
        return v

    graph = Graph((y, h), (rk4(f, y, h),))
    made = planned(graph, Options(passes=False))
    assert launches(made.steps)["kernels"] > 80
    assert made.arena_bytes <= 6 * 8192


def test_independent_branches_do_not_wait_for_each_other():
    a, b = array("a", 300), array("b", 200)
    first = reduce.sum(apply("sin", a))
    second = reduce.sum(apply("cos", b))
    made = planned(Graph((a, b), (first, second)))
    assert [step.after for step in made.steps] == [(), ()]


def test_siblings_over_the_same_items_are_one_kernel():
    x = array("x", 50)
    made = planned(Graph((x,), (apply("sin", x), apply("cos", x), getitem(x, slice(None, None, -1)))))
    assert kinds(made) == ["KernelStep"] and len(made.steps[0].writes) == 3


def test_the_same_value_twice_is_computed_once_and_copied():
    x = array("x", 50)
    y = apply("sin", x)
    made = planned(Graph((x,), (y, y, x)))
    assert sorted(kinds(made)) == ["CopyStep", "CopyStep", "KernelStep"]
    assert len(set(made.outputs)) == 3


def test_a_straight_line_is_cut_with_equal_bits():
    x = array("x", 4)
    y = x
    for k in range(600):
        y = apply("multiply", add(y, x), 0.5 + k)
        y = sub(y, mul(y, 0.9))
    graph = Graph((x,), (y,))
    made = plan(graph)
    assert len(made.steps) > 1
    data = np.linspace(0.1, 1, 4)
    want = Machine(plan(graph, Options(passes=False)))([data])
    np.testing.assert_array_equal(Machine(made)([data])[0], want[0])


# --- writes


def written(array_, value, *results):
    return planned(Graph((array_,), results, ((array_, value),)))


def test_elementwise_writes_are_in_place():
    x = array("x", 20)
    made = written(x, mul(x, 2.0))
    assert kinds(made) == ["KernelStep"] and made.steps[0].writes == made.inputs


def test_what_reads_neighbours_is_not_in_place():
    x = array("x", 20)
    made = written(x, add(x, getitem(x, slice(None, None, -1))))
    assert kinds(made) == ["KernelStep", "CopyStep"]


def test_readers_of_old_contents_run_first():
    x = array("x", 20)
    made = written(x, mul(x, 2.0), reduce.sum(x), getitem(x, slice(None, None, -1)))
    assert kinds(made)[-1] == "KernelStep" and made.steps[-1].writes == made.inputs
    assert set(made.steps[-1].after) == set(range(len(made.steps) - 1))


def test_an_increment_of_a_part_writes_the_part():
    x = array("x", 20)
    made = written(x, setitem(x, slice(3, 9), add(getitem(x, slice(3, 9)), 1.0)))
    assert kinds(made) == ["KernelStep"]
    (target,) = made.steps[0].region.targets
    assert (target.shape, target.starts, target.steps) == ((20,), (3,), (1,))


def test_a_part_moved_over_itself_is_read_whole_first():
    x = array("x", 20)
    made = written(x, setitem(x, slice(1, None), getitem(x, slice(0, -1))))
    machine = Machine(made)
    machine([np.arange(20.0)])
    np.testing.assert_array_equal(machine.memory[made.inputs[0]], [0, *range(19)])


def test_two_arrays_change_places():
    a, b = array("a", 5), array("b", 5)
    made = planned(Graph((a, b), (), ((a, b), (b, a))))
    machine = Machine(made)
    machine([np.zeros(5), np.ones(5)])
    assert machine.memory[made.inputs[0]].all() and not machine.memory[made.inputs[1]].any()


def test_an_ensemble_step_is_in_place():
    s, dt, rho = array("s", 12, 3), programs.scalar("dt"), programs.scalar("rho")
    made = planned(Graph((s, dt, rho), (), ((s, rk4(programs.lorenz_rhs(rho), s, dt)),)))
    assert kinds(made) == ["KernelStep"]


# --- products


def test_products_read_transposes_slices_and_repeated_batches_where_they_are():
    f32 = dtypes.float32
    a, b = array("a", 7, 6, 5, dtype=f32), array("b", 9, 6, dtype=f32)
    made = planned(
        Graph((a, b), (matmul(permute(getitem(a, (slice(1, 4), slice(None), slice(1, 3))), (0, 2, 1)), permute(b, (1, 0))),))
    )
    assert kinds(made) == ["MatmulStep"]
    step = made.steps[0]
    assert (step.call.transpose_a, step.call.transpose_b, step.call.lda, step.call.stride_a, step.call.stride_b) == (
        True,
        True,
        5,
        30,
        0,
    )
    assert step.a_offset == 31
    x, y = np.random.default_rng(0).normal(size=(7, 6, 5)), np.random.default_rng(1).normal(size=(9, 6))
    got = Machine(made)([x, y])[0]
    np.testing.assert_allclose(got, x[1:4, :, 1:3].transpose(0, 2, 1) @ y.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "view", [lambda a: getitem(a, slice(None, None, -1)), lambda a: getitem(a, (slice(None), slice(None, None, 2)))]
)
def test_what_the_library_cannot_read_is_stored_first(view):
    a, b = array("a", 6, 6), array("b", 6, 6)
    left = view(a)
    right = getitem(b, slice(0, left.shape[1]))
    made = planned(Graph((a, b), (matmul(left, right),)))
    assert kinds(made) == ["KernelStep", "MatmulStep"]


def test_integer_products_are_kernels():
    a = array("a", 6, 20, dtype=dtypes.int32)
    made = planned(Graph((a,), (matmul(a, permute(a, (1, 0))),)))
    assert kinds(made) == ["KernelStep"]


# --- the rest


def test_nothing_is_done_for_values_of_size_zero():
    x = array("x", 0, 4)
    made = planned(Graph((x,), (apply("sin", x), reduce.sum(x, axis=1)), ((x, mul(x, 2.0)),)))
    assert made.steps == () and made.arena_bytes == 0


def test_a_counted_loop_whose_count_is_known_to_the_device_alone():
    x, n = array("x", 80), new_input(Type(dtypes.int64), "n")
    (last,), _ = loop(n, [x], lambda k, c: ([add(reduce.sum(c[0]), mul(0.5, c[0]))], []))
    made = planned(Graph((x, n), (last,)))
    (step,) = (s for s in made.steps if isinstance(s, LoopStep))
    assert step.condition >= 0 and step.counter >= 0
    want = np.linspace(0, 1, 80)
    for _ in range(3):
        want = want.sum() + 0.5 * want
    np.testing.assert_allclose(Machine(made)([np.linspace(0, 1, 80), 3])[0], want)


def test_the_same_graph_gives_the_same_plan():
    def text():
        return print_plan(planned(programs.nbody_step(11))) + explain(planned(programs.nbody_step(11)))

    assert text() == text()


def test_scalars_reach_kernels_by_value():
    x, s = array("x", 8), programs.scalar("s")
    made = planned(Graph((x, s), (mul(x, cast(s, dtypes.float64)), s)))
    assert made.scalars == (s,) and len(made.inputs) == 1
    got = Machine(made)([np.ones(8)], {s: 2.5})
    assert got[1] == 2.5 and (got[0] == 2.5).all()


def test_scans_have_kernels_of_their_own():
    x = array("x", 3, 600)
    made = planned(Graph((x,), (make("scan", (apply("sin", x),), {"kind": "sum", "axis": 1}, x.type),)))
    data = np.random.default_rng(0).normal(size=(3, 600))
    np.testing.assert_allclose(Machine(made)([data])[0], np.cumsum(np.sin(data), axis=1), atol=1e-12)


def test_steps_have_known_kinds():
    made = planned(programs.mlp())
    assert {type(s) for s in made.steps} <= {KernelStep, MatmulStep, CopyStep, LoopStep}
