"""Random expression graphs: every device against NumPy, with the passes on and off, run again with other values, then fed
their own output. A replay that is silently wrong is the worst fault of this field."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from gla import compiler
from gla.config import environment
from gla.ir import reference
from gla.runtime.devices import get_device
from tests.strategies import programs

DEVICES = ["host", pytest.param("cuda", marks=pytest.mark.gpu)]
OFF = replace(environment().options, passes=False)
ROUGH = {"float16": 0.05, "bfloat16": 0.3, "float32": 2e-3, "float64": 1e-9, "complex64": 2e-3, "complex128": 1e-9}
RELAXED = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def run(machine, graph, arguments, options=None):
    """Results of the graph on a device, as NumPy arrays."""
    executable = compiler.executable(graph, machine, options)
    inputs = [machine.upload(np.ascontiguousarray(a).reshape(a.shape)) for a in arguments]
    outputs = executable.run(inputs)
    return [machine.download(o, r.dtype.numpy, r.shape) for o, r in zip(outputs, graph.results)]


def check(program, got, arguments):
    wanted, _ = reference.evaluate(program.graph, arguments)
    for mine, numpys, node, exact in zip(got, wanted, program.graph.results, program.exact):
        assert mine.shape == numpys.shape
        assert mine.dtype == numpys.dtype
        if exact or node.dtype.name not in ROUGH:
            np.testing.assert_array_equal(mine, numpys)
        else:
            tolerance = ROUGH[node.dtype.name]
            wide = np.complex128 if node.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(mine.astype(wide), numpys.astype(wide), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", DEVICES)
@RELAXED
@given(program=programs())
def test_random_graphs_equal_numpy_whatever_is_fused(name, program):
    machine = get_device(name)
    first, second = program.arguments(1), program.arguments(2)
    check(program, run(machine, program.graph, first), first)
    check(program, run(machine, program.graph, second), second)
    check(program, run(machine, program.graph, first, OFF), first)
    fed = [
        next((g for g, r in zip(run(machine, program.graph, first), program.graph.results) if r.type == i.type), a)
        for i, a in zip(program.graph.inputs, first)
    ]
    if not any(np.iscomplexobj(a) or (a.dtype.kind in "fV" and not np.isfinite(a.astype(np.float64)).all()) for a in fed):
        check(program, run(machine, program.graph, fed), fed)


@pytest.mark.parametrize("name", DEVICES)
@RELAXED
@given(program=programs(sizes=(5, 33, 67), steps=5))
def test_random_graphs_at_sizes_past_a_vector(name, program):
    arguments = program.arguments(3)
    check(program, run(get_device(name), program.graph, arguments), arguments)


@pytest.mark.gpu
@RELAXED
@given(program=programs(sizes=(3, 40), steps=6))
def test_host_and_cuda_give_equal_bits(program):
    arguments = program.arguments(4)
    on_host, on_cuda = (run(get_device(name), program.graph, arguments) for name in ("host", "cuda"))
    for a, b, node in zip(on_host, on_cuda, program.graph.results):
        if not any(n.op in ("matmul",) for n in program.graph.nodes()) and node.dtype.kind != "c":
            np.testing.assert_array_equal(a, b)
