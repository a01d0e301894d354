"""Plans of tiled loops, run step by step in NumPy, in any order that the dependencies allow."""

from __future__ import annotations

import numpy as np
import pytest

from gla import dtypes
from gla.codegen.form import kernel_key
from gla.codegen.loops import lower
from gla.ir import reference
from gla.passes.pipeline import run as optimise
from gla.plan.planner import plan
from gla.plan.steps import CopyStep, KernelStep, LoopStep
from gla.plan.time_tiles import RULES, Rule
from tests.grids import TIGHT, Grid
from tests.plan.run_plan import Machine
from tests.test_time_tiling import equal_bits, heat

RULE = Rule(0, 1 << 20, 16, 3)


@pytest.mark.parametrize("seed", range(300, 340))
def test_random_loops(seed):
    grid = Grid(seed, TIGHT) if seed % 3 == 0 else Grid(seed)
    graph = optimise(grid.graph)
    arrays = grid.arguments(seed)
    with np.errstate(all="ignore"):
        wanted, _ = reference.evaluate(grid.graph, arrays)
    equal_bits(Machine(plan(graph, tiling=RULE), seed)(arrays), wanted)


@pytest.mark.parametrize(("trips", "passes"), [(3, 1), (6, 2), (7, 3), (12, 4), (13, 5)])
def test_few_passes_are_steps_that_copy_nothing(trips, passes):
    steps = plan(optimise(heat((40, 40), trips, ("edge", "edge"))), tiling=RULE).steps
    assert [type(s) for s in steps] == [KernelStep] * passes


@pytest.mark.parametrize(("trips", "count"), [(15, 4), (18, 4), (300, 98)])
def test_many_passes_are_a_loop_of_an_even_number(trips, count):
    steps = plan(optimise(heat((40, 40), trips, ("edge", "edge"))), tiling=RULE).steps
    assert [s.count for s in steps if isinstance(s, LoopStep)] == [count]
    assert not any(isinstance(s, CopyStep) for s in steps)


@pytest.mark.parametrize(("dtype", "depth"), [(dtypes.float32, 10), (dtypes.float64, 10)])
def test_how_deep_a_pass_is_follows_from_registers(dtype, depth):
    (step,) = plan(optimise(heat((8192, 8192), depth, ("periodic", "periodic"), dtype)), tiling=RULES["cuda"]).steps
    assert isinstance(step, KernelStep)
    assert step.region.marching is not None
    assert step.region.marching.steps == depth


def test_without_a_rule_nothing_is_tiled():
    assert not any("in one pass" in note for note in plan(optimise(heat((4096, 4096), 10, ("edge", "edge")))).notes)


@pytest.mark.parametrize("modes", [("periodic", "periodic"), ("edge", "edge"), ("constant", "reflect")])
def test_a_new_shape_needs_no_new_kernel(modes):
    keys = set()
    for size in ((100, 100), (121, 121), (100, 140), (300, 64)):
        steps = plan(optimise(heat(size, 3, modes)), tiling=RULE).steps
        keys |= {kernel_key(lower(step.region).kernel) for step in steps if isinstance(step, KernelStep)}
    assert len(keys) == 1
