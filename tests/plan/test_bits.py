"""A number does not depend on what it was fused with: plans with and without passes give equal bits on the host device."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from gla.compiler import executable
from gla.config import Options
from gla.ir.graph import Graph
from gla.ir.reference import evaluate
from gla.runtime.devices import get_device
from tests.plan import programs
from tests.plan.graphs import random_graph

SCALARS = {
    "dt": 0.01,
    "h": 0.01,
    "eps": 0.05,
    "rho": 28.0,
    "r": 0.2,
    "tol": 1e-4,
    "mu": 2.0,
    "t1": 1.0,
    "seed": 7,
    "F": 0.06,
    "k": 0.062,
}
PROGRAMS = [
    name
    for name, function in inspect.getmembers(programs, inspect.isfunction)
    if function.__module__ == programs.__name__ and inspect.signature(function).return_annotation == "Graph"
]


def run(graph: Graph, arguments: list[np.ndarray], scalars: list[float], options: Options) -> list[np.ndarray]:
    """Results, then new contents of written inputs."""
    machine = get_device("host")
    made = executable(graph, machine, options)
    arrays = [i for i in graph.inputs if not i.attr("scalar")]
    inputs = [machine.upload(np.ascontiguousarray(a, i.dtype.numpy).reshape(i.shape)) for a, i in zip(arguments, arrays)]
    outputs = made.run(inputs, scalars)
    out = [machine.download(o, r.dtype.numpy, r.shape) for o, r in zip(outputs, graph.results)]
    return out + [machine.download(inputs[arrays.index(a)], a.dtype.numpy, a.shape) for a, _ in graph.writes]


def compare(graph: Graph, arguments: list[np.ndarray], scalars: list[float], tolerance: float) -> None:
    fused = run(graph, arguments, scalars, Options(verify=True))
    plain = run(graph, arguments, scalars, Options(passes=False, verify=True))
    for a, b in zip(fused, plain, strict=True):
        np.testing.assert_array_equal(a, b)
    rest, numbers = iter(arguments), iter(scalars)
    results, written = evaluate(graph, [next(numbers if i.attr("scalar") else rest) for i in graph.inputs])
    for have, want in zip(fused, [*results, *written], strict=True):
        np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed):
    graph, arguments = random_graph(seed, 6 + seed % 22)
    compare(graph, arguments, [], 1e-9)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    graph = getattr(programs, name)()
    rng = np.random.default_rng(3)
    arguments = [rng.uniform(0.1, 1.0, i.shape) for i in graph.inputs if not i.attr("scalar")]
    scalars = [SCALARS[i.attr("name")] for i in graph.inputs if i.attr("scalar")]
    compare(graph, arguments, scalars, 1e-6 if name in ("mlp", "gray_scott_step") else 1e-9)
