"""Plans of random graphs give what ir/reference gives, in every order that their dependencies allow."""

from __future__ import annotations

import numpy as np
import pytest

from gla.config import Options
from gla.ir.reference import evaluate
from gla.passes import pipeline
from gla.plan.planner import plan
from tests.plan.graphs import random_graph
from tests.plan.run_plan import Machine


def compare(seed: int, steps: int, options: Options) -> None:
    graph, arguments = random_graph(seed, steps)
    results, written = evaluate(graph, arguments)
    made = plan(pipeline.run(graph, options), options)
    machine = Machine(made, seed)
    got = machine(arguments)
    for want, have in zip(results, got, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-9)
    for want, (_, buffer) in zip(written, made.writes, strict=True):
        np.testing.assert_allclose(machine.memory[buffer], want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(60))
def test_fused_plans(seed):
    compare(seed, 6 + seed % 25, Options(verify=True))


@pytest.mark.parametrize("seed", range(25))
def test_plans_without_passes(seed):
    compare(seed, 6 + seed % 20, Options(passes=False, verify=True))
