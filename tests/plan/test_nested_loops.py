"""Loops in loops that the host drives: carries, captures, kept values, on a NumPy machine and on the host device."""

from __future__ import annotations

import numpy as np
import pytest

from gla.config import Options
from gla.ir.builder import apply, constant
from gla.ir.functions import reduce
from gla.ir.functions.control import loop, while_loop
from gla.ir.graph import Graph
from gla.ir.reference import evaluate
from gla.passes import pipeline
from gla.plan.planner import plan
from tests.plan.programs import add, array, mul, scalar, sub
from tests.plan.run_plan import Machine
from tests.plan.test_bits import compare


def normalised(x, y):
    """Reads its own sum, so that no kernel holds the loop."""
    return sub(mul(0.5, x), add(reduce.mean(x), mul(0.1, y)))


def nested(outer=3, inner=5, every=2):
    x, y, s = array("x", 30), array("y", 30), scalar("h")
    scaled = apply("sin", y)

    def step(k, carries):
        (last,), (kept,) = loop(
            inner, [carries[0]], lambda j, c: ([normalised(c[0], add(scaled, mul(s, j)))], [reduce.sum(c[0])]), [every]
        )
        return [add(last, k), carries[0]], [reduce.max(kept), last]

    (a, b), (tops, lasts) = loop(outer, [x, y], step, [1, 2])
    return Graph((x, y, s), (a, b, tops, lasts))


def while_inside(limit=6):
    x, t = array("x", 12), scalar("tol")

    def body(k, carries):
        (v, n), trips, going = while_loop(
            lambda c: apply("greater", reduce.max(apply("abs", c[0])), apply("multiply", t, 2000.0)),
            lambda c: [mul(0.5, add(c[0], reduce.mean(c[0]))), add(c[1], 1)],
            [carries[0], constant(0)],
            limit,
        )
        return [add(v, 1.0)], [trips, n, going]

    (last,), kept = loop(4, [x], body, [1, 1, 1])
    return Graph((x, t), (last, *kept))


def same_loop_twice():
    x, y = array("x", 9), array("y", 9)

    def run(v):
        return loop(3, [v], lambda k, c: ([normalised(c[0], c[0])], []))[0][0]

    return Graph((x, y), (run(x), run(y), run(run(x))))


@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize("graph", [nested(), nested(1, 1, 1), nested(4, 7, 3), while_inside(), same_loop_twice()])
def test_a_numpy_machine_runs_them(graph, passes):
    rng = np.random.default_rng(5)
    scalars = {i: 1e-4 if i.attr("name") == "tol" else 0.3 for i in graph.inputs if i.attr("scalar")}
    arrays = [rng.uniform(-1, 1, i.shape) for i in graph.inputs if not i.attr("scalar")]
    options = Options(passes=passes, verify=True)
    got = Machine(plan(pipeline.run(graph, options), options), 1)(arrays, scalars)
    rest = iter(arrays)
    want, _ = evaluate(graph, [scalars[i] if i in scalars else next(rest) for i in graph.inputs])
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("graph", [nested(), while_inside(), same_loop_twice()])
def test_the_host_device_runs_them(graph):
    rng = np.random.default_rng(6)
    arrays = [rng.uniform(-1, 1, i.shape) for i in graph.inputs if not i.attr("scalar")]
    compare(graph, arrays, [1e-4 if i.attr("name") == "tol" else 0.3 for i in graph.inputs if i.attr("scalar")], 1e-12)
