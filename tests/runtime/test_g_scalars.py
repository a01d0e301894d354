"""Guarantees G: numbers in captured code."""

from __future__ import annotations

import numpy as np

import gla
from tests.runtime.conftest import A, N


def test_g1_scalar_factors_of_a_product_replay_right(name):
    rng = np.random.default_rng(2)
    a, b, c = (rng.normal(size=(6, 6)) for _ in range(3))
    x, y, z, out = A(a), A(b), A(c), A(np.zeros((6, 6)))
    exe = gla.capture(lambda: out.assign(2.0 * (x @ y) + 0.5 * z)).instantiate()
    for _ in range(5):
        out.assign(A(np.zeros((6, 6))))
        exe()
        np.testing.assert_allclose(N(out), 2.0 * (a @ b) + 0.5 * c, rtol=1e-13)


def test_g2_scalars_need_no_copy_nodes(name):
    x, y = A(np.ones(10)), A(np.zeros(10))
    numbers = [0.1 * k for k in range(4)]
    graph = gla.capture(lambda: y.assign(x * numbers[1] + numbers[2] - numbers[3] + 7))
    assert [node.kind for node in graph.record.nodes] == ["kernel"]
    graph.instantiate()()
    np.testing.assert_array_equal(N(y), np.ones(10) * numbers[1] + numbers[2] - numbers[3] + 7)


def test_g2_another_number_meets_the_same_kernel_and_updates(name):
    x, y = A(np.ones(10)), A(np.zeros(10))

    def capture(k):
        return gla.capture(lambda: y.assign(x * k))

    exe = capture(1.5).instantiate()
    for k in (2.5, -3.25):
        assert exe.update(capture(k))
        exe()
        assert N(y).tolist() == [k] * 10


def test_g3_a_number_changes_without_recompilation(name):
    from gla.array import engine

    f, x = gla.function(lambda v, s, n: v * s + n), A(np.arange(3.0))
    f(x, 0.0, 0)
    machine = engine.machine(name)
    before = (machine.kernels.compiled, machine.kernels.loaded)
    for k in range(20):
        np.testing.assert_array_equal(N(f(x, k / 7, k)), np.arange(3.0) * (k / 7) + k)
    assert (machine.kernels.compiled, machine.kernels.loaded) == before and f.stats().plans == 1
