"""Guarantees F: memory of captured code."""

from __future__ import annotations

import gc

import numpy as np

import gla
from gla.array import engine
from tests.runtime.conftest import A, N


def test_f1_allocating_code_replays_in_constant_memory(name):
    x = A(np.ones((64, 64)))
    graph = gla.capture(lambda: gla.sum(gla.exp(x) @ x, axis=0) + 1)
    exe = graph.instantiate()
    exe()
    before, address = engine.machine(name).memory(), graph.outputs._buffer.storage.address
    for _ in range(100):
        exe()
    after = engine.machine(name).memory()
    assert {k: after[k] for k in ("in_use", "held", "leased")} == {k: before[k] for k in ("in_use", "held", "leased")}
    assert exe.outputs._buffer.storage.address == address


def test_f2_outputs_hold_the_latest_launch_and_results_of_functions_stay(name):
    x, f = A([1.0]), gla.function(lambda v: v + 1)
    graph = gla.capture(lambda: f(x))
    exe, kept = graph.instantiate(), f(x)
    for k in range(3):
        x.assign(A([float(k)]))
        exe()
        assert N(graph.outputs).tolist() == [k + 1.0]
    assert N(kept).tolist() == [2.0]


def test_f3_graphs_have_no_allocation_nodes(name):
    x = A(np.ones((16, 16)))
    graph = gla.capture(lambda: gla.sum((gla.sin(x) @ x) @ x, axis=1) * 2)
    assert {node.kind for node in graph.record.nodes} <= {"kernel", "copy", "fill", "library"}
    words = [line.split('"')[1].split("\\n")[0] for line in graph.dot().splitlines() if "label=" in line]
    assert len(words) == len(graph) and not [w for w in words if "alloc" in w or "free" in w]


def test_f4_whoever_uses_the_memory_next_waits(name):
    x = A(np.arange(1000.0))
    graph = gla.capture(lambda: gla.exp(x * 0) + x)
    exe, s, t = graph.instantiate(), gla.Stream(), gla.Stream()
    exe.launch(s)
    with t:
        np.testing.assert_array_equal(N(graph.outputs * 1.0), np.arange(1000.0) + 1)


def test_f5_temporaries_of_an_rk4_step_take_at_most_six_buffers(name):
    n = 20_000
    nbytes = n * 8

    def rate(u):
        for _ in range(20):
            u = u * 0.99 + 0.01 * gla.sin(u)
        return u - gla.roll(u, 1, axis=0)

    @gla.function
    def rk4(u, dt):
        k1 = rate(u)
        k2 = rate(u + dt / 2 * k1)
        k3 = rate(u + dt / 2 * k2)
        k4 = rate(u + dt * k3)
        return u + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    u = A(np.linspace(0, 1, n))
    plan = rk4.plan(u, 0.1)
    assert plan.memory["temporaries"] + plan.memory["outputs"] <= 6 * nbytes
    gc.collect()
    graph = gla.capture(lambda: rk4(u, 0.1))
    blocks = {b.address: b.nbytes for b in graph.record.recorded().blocks()}
    assert sum(blocks.values()) <= 8 * nbytes  # with the input, in size classes
