"""`gla.random.Generator`: guarantee J1. The expected numbers come from a Philox4x32-10 written out here."""

import gc
import threading

import numpy as np
import pytest

import gla
from gla.array import engine

SEED = 0x0123456789ABCDEF
MASK = (1 << 32) - 1


def philox(key, counter):
    """The two 64-bit halves of the block `counter` (128 bits, the upper half zero) under a 64-bit key."""
    c, k = [counter & MASK, counter >> 32 & MASK, 0, 0], [key & MASK, key >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c[0] | c[1] << 32, c[2] | c[3] << 32


def stream(seed, start, count):
    """Words `start`, `start` + 1, ... of the generator of a seed; each 2**64 of them have a key of their own."""
    found = []
    for n in range(start, start + count):
        key = philox(seed, 1 << 63 | n >> 64)[0]
        found.append(philox(key, n & ((1 << 64) - 1))[0])
    return found


def N(x):
    return np.array(np.asarray(x))


def bits(g, n):
    return N(g.bits(n)).tolist()


@pytest.fixture(params=["host", pytest.param("cuda", marks=pytest.mark.gpu)], autouse=True)
def place(request):
    with gla.device(request.param):
        yield request.param


def test_j1_the_words_are_philox_of_a_counter_that_goes_on():
    g = gla.random.Generator(SEED)
    assert bits(g, 3) + bits(g, (2, 2))[0] + bits(g, 2) == stream(SEED, 0, 5) + stream(SEED, 7, 2)


def test_j1_uniforms_and_integers_are_made_of_the_words():
    words = stream(SEED, 0, 8)
    g = gla.random.Generator(SEED)
    assert N(g.uniform(4, dtype="float64")).tolist() == [(w >> 11) * 2.0**-53 for w in words[:4]]
    assert N(g.integers(-5, 12, 4)).tolist() == [w % 17 - 5 for w in words[4:]]


def test_j1_normals_have_the_moments_of_a_normal():
    x = N(gla.random.Generator(3).normal(100_000, dtype="float64"))
    assert abs(x.mean()) < 0.02 and abs(x.std() - 1) < 0.02 and abs((x**3).mean()) < 0.05


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_j1_other_floats(dtype):
    g = gla.random.Generator(3)
    for x in (g.uniform(1000, dtype=dtype), g.normal(1000, dtype=dtype)):
        assert x.dtype == gla.float32 or x.dtype.name == dtype
        assert np.isfinite(N(x.astype("float64"))).all()


def test_j1_the_counter_has_128_bits():
    g = gla.random.Generator(SEED)
    last = (1 << 64) - 2
    g.state = gla.asarray([SEED, last, 6], "uint64")
    assert bits(g, 4) == stream(SEED, 6 * (1 << 64) + last, 4)
    assert N(g.state).tolist() == [SEED, 2, 7]
    assert bits(g, 1) == stream(SEED, 7 * (1 << 64) + 2, 1)


def test_j1_equal_seeds_give_equal_numbers_and_others_do_not():
    a, b, c = gla.random.Generator(1), gla.random.Generator(1), gla.random.Generator(2)
    x = bits(a, 5)
    assert x == bits(b, 5) and x != bits(c, 5)
    a.seed(2)
    assert bits(a, 5) == stream(2, 0, 5)


def test_j1_draws_do_not_depend_on_what_they_are_fused_with():
    def three(g):
        return [g.uniform(5, dtype="float64"), g.uniform(5, dtype="float64"), g.normal(5, dtype="float64")]

    alone = [N(x).tolist() for x in three(gla.random.Generator(4))]
    g = gla.random.Generator(4)
    together = gla.function(lambda: [(x * 2.0) / 2.0 for x in three(g)])()
    assert [N(x).tolist() for x in together] == alone


def test_j1_a_draw_and_its_state_do_not_wait_for_the_device(monkeypatch):
    def never(*_):
        raise AssertionError("waited")

    device = engine.machine(engine.default_device()).device
    for name in ("synchronize", "copy_out"):
        monkeypatch.setattr(device, name, never)
    g = gla.random.Generator(5)
    saved = g.state
    x = g.uniform(4)
    g.state = saved
    y = g.uniform(4)
    g.seed(6)
    gla.eval(x, y)
    monkeypatch.undo()
    assert N(x).tolist() == N(y).tolist()


def test_j1_zero_numbers_leave_the_state():
    g = gla.random.Generator(SEED)
    assert N(g.uniform(0)).shape == (0,)
    assert bits(g, 2) == stream(SEED, 0, 2)


# --- functions
def test_j1_a_function_that_draws_from_a_global_generator_goes_on():
    g = gla.random.Generator(SEED)
    f = gla.function(lambda: g.bits(3))
    assert [N(f()).tolist() for _ in range(3)] == [stream(SEED, 3 * k, 3) for k in range(3)]
    assert f.stats().plans == 1
    assert bits(g, 1) == stream(SEED, 9, 1)


def test_j1_a_generator_as_argument_is_advanced():
    f = gla.function(lambda g, x: g.bits(2) + x)
    zero = gla.zeros(2, dtype="uint64")
    a, b = gla.random.Generator(1), gla.random.Generator(2)
    assert N(f(a, zero)).tolist() == stream(1, 0, 2)
    assert N(f(b, zero)).tolist() == stream(2, 0, 2)
    assert N(f(a, zero)).tolist() == stream(1, 2, 2)
    assert f.stats().plans == 1


def test_j1_threads_never_draw_the_same_numbers():
    g, found = gla.random.Generator(SEED), []
    name = g.device

    def work():
        with gla.device(name):
            for _ in range(10):
                found.extend(bits(g, 2))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(found) == sorted(stream(SEED, 0, 80))


# --- graphs
def test_j1_a_captured_function_draws_anew_on_every_call():
    g = gla.random.Generator(SEED)
    f = gla.captured(g.bits)
    assert N(f(2)).tolist() + N(f(3)).tolist() + N(f(2)).tolist() == stream(SEED, 0, 7)


def test_g78_replays_of_a_captured_draw_equal_eager_draws():
    g, e = gla.random.Generator(SEED), gla.random.Generator(SEED)
    y = gla.zeros(6, dtype="float64")
    exe = gla.capture(lambda: y.assign(g.uniform(6, dtype="float64"))).instantiate()
    replays = []
    for _ in range(5):
        exe()
        replays.append(N(y).tolist())
    assert replays == [N(e.uniform(6, dtype="float64")).tolist() for _ in range(5)]
    assert len({tuple(r) for r in replays}) == 5


def test_g78_normals_and_integers_go_on_too():
    g, e = gla.random.Generator(8), gla.random.Generator(8)
    graph = gla.capture(lambda: (g.normal(3, dtype="float64"), g.integers(0, 1000, 4)))
    exe = graph.instantiate()
    for _ in range(5):
        exe()
        a, b = graph.outputs
        assert N(a).tolist() == N(e.normal(3, dtype="float64")).tolist()
        assert N(b).tolist() == N(e.integers(0, 1000, 4)).tolist()


def test_g138_restoring_the_state_in_a_captured_program_repeats_the_draws():
    g = gla.random.Generator(SEED)
    bits(g, 11)
    saved = g.state

    def program():
        first = g.bits(4)
        g.state = saved
        return first, g.bits(4)

    graph = gla.capture(program)
    exe = graph.instantiate()
    for k in range(3):
        exe()
        first, again = (N(v).tolist() for v in graph.outputs)
        assert again == stream(SEED, 11, 4)
        assert first == stream(SEED, 11 if k == 0 else 15, 4)


def test_g138_the_state_read_in_a_capture_is_that_of_the_launch():
    g = gla.random.Generator(SEED)
    graph = gla.capture(lambda: (g.bits(2), g.state)[1])
    exe = graph.instantiate()
    exe()
    exe()
    assert N(graph.outputs).tolist() == [SEED, 4, 0]


def test_j1_a_generator_may_go_before_the_graph_that_draws_from_it():
    g = gla.random.Generator(SEED)
    graph = gla.capture(lambda g=g: g.bits(2))
    exe = graph.instantiate()
    del g
    gc.collect()
    gla.random.Generator(1).bits(1000)
    exe()
    assert N(graph.outputs).tolist() == stream(SEED, 0, 2)


# --- refusals
def test_seeds_and_states_of_other_kinds_are_refused():
    with pytest.raises(gla.DtypeError, match="a seed is one integer"):
        gla.random.Generator(1.5)
    g = gla.random.Generator(1)
    with pytest.raises(gla.GlaError):
        g.state = gla.asarray([1.0, 2.0])
