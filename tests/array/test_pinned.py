"""Pinned host memory: guarantee H4, case g115; C3 and E1 for it."""

import gc
import threading

import numpy as np
import pytest

import gla
from gla.array import engine


@pytest.fixture(params=["host", pytest.param("cuda", marks=pytest.mark.gpu)], autouse=True)
def place(request):
    with gla.device(request.param):
        yield request.param


def N(x):
    return np.array(np.asarray(x))


def pinned_bytes():
    gc.collect()
    gla.reclaim()
    return gla.memory()["pinned"]


# --- the host's side
@pytest.mark.parametrize("dtype", ["bool", "int32", "float16", "float64", "complex64"])
def test_a_pinned_array_has_a_copy_and_numpy_shows_its_memory(dtype):
    values = (np.arange(6) % 2).astype(dtype).reshape(2, 3)
    p = gla.pinned(values)
    assert (p.shape, p.dtype, p.ndim, p.size, p.nbytes) == ((2, 3), dtype, 2, 6, values.nbytes)
    values[...] = 0
    assert p.numpy().tolist() == (np.arange(6) % 2).astype(dtype).reshape(2, 3).tolist()
    p.numpy()[0, 1] = 0
    assert N(p)[0, 1] == 0


def test_assign_broadcasts_and_does_not_narrow():
    p = gla.pinned(np.zeros((2, 3), np.float32))
    p.assign(2.5)
    p[1] = np.array([1, 2, 3], np.int8)
    assert N(p).tolist() == [[2.5, 2.5, 2.5], [1.0, 2.0, 3.0]]
    p.assign(gla.asarray(np.arange(3, dtype="float32")))
    assert N(p).tolist() == [[0.0, 1.0, 2.0]] * 2
    for wrong in (np.zeros(3), gla.zeros(3, dtype="float64")):
        with pytest.raises(gla.DtypeError, match="narrowed"):
            p.assign(wrong)
    with pytest.raises(gla.ShapeError):
        p.assign(np.zeros(2, np.float32))


def test_lists_numbers_and_arrays_of_gla_can_be_pinned():
    assert N(gla.pinned([1, 2])).tolist() == [1, 2]
    assert N(gla.pinned(2.0, "float32")).dtype == np.float32
    assert N(gla.pinned(gla.asarray([1.0]) + 1)).tolist() == [2.0]
    assert N(gla.pinned(np.zeros((0, 3)))).shape == (0, 3)


# --- eager
def test_g115_an_eager_copy_has_taken_its_data_when_it_returns():
    p, x = gla.pinned(np.arange(4.0)), gla.zeros(4, dtype="float64").copy()
    x.assign(p)
    y = p * 2
    p.numpy()[:] = -1
    assert N(x).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert N(y).tolist() == [0.0, 2.0, 4.0, 6.0]


def test_operators_and_functions_read_it_on_either_side():
    p, x = gla.pinned(np.arange(4.0)), gla.asarray(np.ones(4))
    for value in (p + x, x + p, 1 + p, gla.add(p, 1.0)):
        assert N(value).tolist() == [1.0, 2.0, 3.0, 4.0]
    x += p
    x[1:] = p[1:]
    assert N(x).tolist() == [1.0, 1.0, 2.0, 3.0]
    assert N(gla.sum(p)) == 6.0
    assert N(-p).tolist() == [0.0, -1.0, -2.0, -3.0]
    assert N(gla.asarray(p)).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_traced_function_refuses_it():
    p, x = gla.pinned(np.arange(4.0)), gla.asarray(np.ones(4))
    with pytest.raises(gla.DtypeError, match="Pinned"):
        gla.function(lambda v: v + 1)(p)
    with pytest.raises(gla.GlaError):
        gla.function(lambda v: v + p)(x)
    assert N(gla.function(lambda v: v + 1)(gla.asarray(p))).tolist() == [1.0, 2.0, 3.0, 4.0]


# --- captures
def test_g115_h4_a_captured_copy_reads_what_it_holds_at_each_launch():
    p, x = gla.pinned(np.arange(4.0)), gla.zeros(4, dtype="float64").copy()
    exe = gla.capture(lambda: x.assign(p)).instantiate()
    for n in range(4):
        p.assign(np.full(4, float(n)))
        exe()
        assert N(x).tolist() == [float(n)] * 4
        p.numpy()[:] = n + 0.5
        exe()
        assert N(x).tolist() == [n + 0.5] * 4


def test_h4_a_launch_writes_it():
    p, x = gla.pinned(np.zeros(3)), gla.asarray(np.arange(3.0))

    def body():
        x.assign(x + 1)
        p.assign(x * 10)

    exe = gla.capture(body).instantiate()
    exe()
    assert p.numpy().tolist() == [10.0, 20.0, 30.0]
    exe()
    assert N(p).tolist() == [20.0, 30.0, 40.0]


def test_h4_what_a_launch_both_reads_and_writes():
    p = gla.pinned(np.arange(3.0))
    exe = gla.capture(lambda: p.assign(p + p)).instantiate()
    exe()
    exe()
    assert p.numpy().tolist() == [0.0, 4.0, 8.0]


def test_h3_in_a_capture_its_memory_cannot_be_looked_at():
    p = gla.pinned(np.arange(3.0))
    for look in (p.numpy, lambda: np.asarray(p), lambda: float(p[0])):
        with pytest.raises(gla.CaptureError):
            gla.capture(look)
    assert not gla.is_capturing()
    assert p.numpy().tolist() == [0.0, 1.0, 2.0]


def test_c3_a_graph_keeps_pinned_memory():
    before = pinned_bytes()
    p, x = gla.pinned(np.arange(1000.0)), gla.zeros(1000, dtype="float64").copy()
    exe = gla.capture(lambda p=p: x.assign(p)).instantiate()
    del p
    assert pinned_bytes() == before + 8000
    exe()
    assert N(x).tolist() == list(range(1000))
    del exe
    assert pinned_bytes() == before


def test_a_view_keeps_pinned_memory():
    before = pinned_bytes()
    view = gla.pinned(np.arange(1000.0)).numpy()
    assert pinned_bytes() == before + 8000
    assert view.tolist() == list(range(1000))
    del view
    assert pinned_bytes() == before


def test_g16_other_threads_pin_and_copy_while_a_capture_is_open():
    x, failures = gla.zeros(8, dtype="float64").copy(), []
    name = x.device

    def work():
        try:
            with gla.device(name):
                for k in range(20):
                    p = gla.pinned(np.full(8, float(k)))
                    y = gla.asarray(np.zeros(8))
                    y.assign(p)
                    assert N(y).tolist() == [float(k)] * 8
        except BaseException as error:
            failures.append(error)

    def body():
        threads = [threading.Thread(target=work) for _ in range(3)]
        for t in threads:
            t.start()
        x.assign(x + 1)
        for t in threads:
            t.join()

    exe = gla.capture(body).instantiate()
    exe()
    assert failures == []
    assert N(x).tolist() == [1.0] * 8


def test_it_is_freed_once():
    p = gla.pinned(np.zeros(4))
    p.free()
    with pytest.raises(gla.DeviceError, match="free"):
        p + 1
    assert engine.machine(p.device).name == p.device
