"""`gla.random`: keyed draws are pure, generators advance (guarantee J1)."""

import numpy as np
import pytest

import gla

random = gla.random


def N(x):
    return np.array(np.asarray(x))


def test_equal_keys_give_equal_numbers():
    k = random.key(7)
    assert N(random.normal(k, (4,))).tolist() == N(random.normal(random.key(7), 4)).tolist()
    assert N(random.uniform(k, 4)).tolist() != N(random.uniform(random.fold(k, 1), 4)).tolist()
    f = gla.function(lambda k: random.normal(k, (4,)))
    assert N(f(k)).tolist() == N(random.normal(k, (4,))).tolist()


def test_moments():
    k = random.key(0)
    u, n = N(random.uniform(k, 100_000)), N(random.normal(k, 100_000))
    assert u.min() >= 0 and u.max() < 1 and abs(u.mean() - 0.5) < 0.01
    assert abs(n.mean()) < 0.02 and abs(n.std() - 1) < 0.02
    r = N(random.randint(k, 1000, -3, 4))
    assert set(r.tolist()) == set(range(-3, 4))
    assert N(random.uniform(k, 5, dtype="float32", low=2.0, high=3.0)).dtype == np.float32
    assert random.split(k, 3).shape == (3,)


def test_new_keys_plan_nothing_new():
    f = gla.function(lambda seed: random.uniform(random.key(seed), 3))
    draws = {tuple(N(f(s)).tolist()) for s in range(4)}
    assert len(draws) == 4 and f.stats().plans == 1


def test_a_key_is_one_uint64():
    with pytest.raises(gla.DtypeError, match=r"random\.key"):
        random.normal(3, (2,))


def test_j1_a_generator_goes_on_in_replays():
    g, h = random.Generator(5), random.Generator(5)
    eager = [N(g.normal(3)).tolist() for _ in range(5)]
    assert len({tuple(e) for e in eager}) == 5
    graph = gla.capture(lambda: h.normal(3))
    exe = graph.instantiate()
    replayed = []
    for _ in range(5):
        exe()
        replayed.append(N(exe.outputs).tolist())
    assert replayed == eager


def test_g138_the_state_is_an_array():
    g = random.Generator(1)
    saved = g.state
    first = N(g.uniform(3)).tolist()
    g.state = saved
    assert N(g.uniform(3)).tolist() == first
    assert N(g.integers(0, 10, 3)).min() >= 0


def test_a_generator_in_a_function():
    g, h = random.Generator(2), random.Generator(2)
    f = gla.function(lambda: g.uniform(2))
    assert [N(f()).tolist() for _ in range(3)] == [N(h.uniform(2)).tolist() for _ in range(3)]
    assert f.stats().plans == 1
