"""Faults that users of other graph runtimes met, restated: replay after free, pools and shapes, toolchain, precision, errors.

Each test is named by its case; the same tests run on every device."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import gla
from gla.array import engine
from gla.errors import DeviceError
from tests.runtime.conftest import A, N


@pytest.fixture(params=["host", pytest.param("cuda:0", marks=pytest.mark.gpu)], autouse=True)
def name(request):
    with gla.device(request.param):
        yield request.param


# --- replay after free
def test_g01_a_temporary_of_the_caller_outlives_it(name):
    y = A([0.0, 0.0])
    exe = gla.capture(lambda: y.assign(A([1.0, 2.0]) + 1)).instantiate()
    junk = [A(np.full(2, float(k))) for k in range(99)]
    exe()
    assert N(y).tolist() == [2.0, 3.0]
    assert [float(N(j)[0]) for j in junk] == list(range(99))


def test_g02_a_capture_keeps_to_the_array_not_to_its_name(name):
    x = A([1.0, 2.0])
    keep, y = x, A([0.0, 0.0])
    exe = gla.capture(lambda: y.assign(x * 10)).instantiate()
    x = A([7.0, 7.0])
    exe()
    assert N(y).tolist() == [10.0, 20.0]
    keep.assign(A([3.0, 4.0]))
    exe()
    assert N(y).tolist() == [30.0, 40.0]


def test_g04_each_executable_has_a_workspace_of_its_own(name):
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(96, 96)), rng.normal(size=(96, 96))
    x, y = A(a), A(b)
    first, second = gla.capture(lambda: x @ y), gla.capture(lambda: y @ x)
    one, two = first.instantiate(), second.instantiate()
    one()
    del one, first
    gc.collect()
    gla.reclaim()
    others = [A(np.full((96, 96), float(k))) for k in range(5)]
    for _ in range(10):
        two()
        np.testing.assert_allclose(N(two.outputs), b @ a, rtol=1e-10, atol=1e-10)
    assert [float(N(o)[3, 3]) for o in others] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_g05_work_between_replays_takes_no_leased_block(name):
    x, y = A(np.arange(1000.0)), A(np.zeros(1000))
    exe = gla.capture(lambda: y.assign(gla.cumulative_sum(x * 2.0) + 1.0)).instantiate()
    neighbours = [A(np.full(1000, float(k))) for k in range(3)]
    for k in range(8):
        exe()
        junk = [A(np.full(1000, float(j))) + 1 for j in range(50)]
        del junk
        gla.reclaim()
        np.testing.assert_allclose(N(y), np.cumsum(np.arange(1000.0) * 2) + 1, rtol=1e-13)
        assert [float(N(n)[k]) for n in neighbours] == [0.0, 1.0, 2.0]


def test_g06_a_graph_owns_what_it_copied_from_the_host(name):
    def built():
        y = gla.zeros(4)
        return y, gla.capture(lambda: y.assign(gla.asarray(np.arange(4.0)) * 3)).instantiate()

    y, exe = built()
    gc.collect()
    exe()
    for k in range(1000):
        A(np.full(4, float(k)))
    exe()
    assert N(y).tolist() == [0.0, 3.0, 6.0, 9.0]


def test_g09_a_cache_filled_in_captured_code_keeps_its_contents(name):
    cache = {}
    x = A([1.0, 2.0, 3.0])

    def step():
        cache["twice"] = x * 2
        return cache["twice"] + 1

    graph = gla.capture(lambda: (step(), cache["twice"]))
    exe = graph.instantiate()
    exe()
    kept = exe.outputs[1]
    other = gla.capture(lambda: gla.exp(x) * 100).instantiate()
    for _ in range(5):
        other()
    assert N(kept).tolist() == [2.0, 4.0, 6.0]
    assert N(exe.outputs[0]).tolist() == [3.0, 5.0, 7.0]


def test_g124_an_eager_result_between_two_executables_is_never_stale(name):
    x, middle, out = A([1.0, 2.0]), A([0.0, 0.0]), A([0.0, 0.0])
    head = gla.capture(lambda: middle.assign(x + 1)).instantiate()
    fed = A([0.0, 0.0])
    tail = gla.capture(lambda: out.assign(fed * 10)).instantiate()
    for k in range(20):
        x.assign(A([float(k), 2.0]))
        head()
        fed.assign(middle * middle)
        tail()
        assert N(out).tolist() == [(k + 1) ** 2 * 10.0, 90.0]


# --- pools, a graph per shape
def test_g31_one_signature_is_instantiated_a_few_times_only(name):
    f = gla.function(lambda v: gla.sin(v) * 2 + 1)
    x = A(np.arange(10.0))
    for _ in range(100):
        y = f(x)
    np.testing.assert_allclose(N(y), np.sin(np.arange(10.0)) * 2 + 1, rtol=1e-15)
    stats = f.stats()
    assert stats.plans == 1 and stats.instantiations <= 4


def test_g130_captured_allocations_are_no_nodes(name):
    x = A(np.arange(100.0))
    graph = gla.capture(lambda: gla.sum((x * 2)[::-1] + gla.sort(x)))
    text = graph.dot().lower()
    assert "alloc" not in text and "free" not in text
    exe = graph.instantiate()
    exe()
    before = gla.memory()["held"]
    for _ in range(2000):
        exe()
    assert gla.memory()["held"] == before
    assert float(exe.outputs) == np.sum(np.arange(100.0)[::-1] * 2 + np.arange(100.0))


def test_g132_arrays_in_closures_are_inputs(name):
    data = np.ones(1_250_000)
    f = gla.function(lambda x: x + data)
    x = gla.zeros(1_250_000)
    assert float(f(x)[7]) == 1.0
    assert len(str(f.ir(x))) < 5_000


# --- libraries, precision, bits
def test_g51_tf32_is_off(name):
    assert N(A(np.float32([[1024.5]])) @ A(np.float32([[1.0]]))).tolist() == [[1024.5]]
    rng = np.random.default_rng(51)
    a, b = (rng.normal(size=(128, 128)).astype(np.float32) for _ in range(2))
    wide = a.astype(np.float64) @ b
    assert np.abs(N(A(a) @ A(b)) - wide).max() < 1e-4


def test_g53_sums_have_the_same_bits_on_each_replay(name):
    rng = np.random.default_rng(53)
    x = A(rng.normal(size=40_000).astype(np.float32))
    exe = gla.capture(lambda: (gla.cumulative_sum(x), gla.sum(x), gla.mean(gla.reshape(x, (200, 200)), axis=0))).instantiate()
    seen = set()
    for _ in range(100):
        exe()
        seen.add(b"".join(N(o).tobytes() for o in exe.outputs))
    assert len(seen) == 1


def test_g54_a_captured_product_has_no_allocation_in_its_graph(name):
    x = A(np.eye(300) * 2)
    graph = gla.capture(lambda: x @ (x @ x))
    text = graph.dot().lower()
    assert not any(word in text for word in ("alloc", "free", "host function"))
    exe = graph.instantiate()
    exe()
    gla.synchronize()
    before = gla.memory()["held"]
    for _ in range(300):
        exe()
    assert gla.memory()["held"] == before
    np.testing.assert_array_equal(N(exe.outputs), np.eye(300) * 8)


def test_g134_small_float32_products_keep_their_digits(name):
    rng = np.random.default_rng(134)
    angle = np.float32(0.3)
    r = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]], np.float32)
    v = rng.normal(size=(3, 500)).astype(np.float32)
    for got, wide in (
        (N(A(r) @ A(v)), r.astype(np.float64) @ v),
        (N(A(v).T @ A(r).T), v.T.astype(np.float64) @ r.T),
        (N(A(np.stack([r, r.T])) @ A(v)), np.stack([r, r.T]).astype(np.float64) @ v),
    ):
        terms = np.abs(r).max() * np.abs(v).max() * 3
        assert np.abs(got - wide).max() <= 4 * np.spacing(np.float32(terms))


# --- grids, errors
@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(70_000 * 32, 3), (2, 5_000_000), (100_000, 1, 7)])
def test_g82_gpu_grids_of_any_shape(shape):
    if gla.zeros(1).device == "host":
        pytest.skip("about the grids of a GPU")
    a = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 97
    x = A(a)
    np.testing.assert_array_equal(N(x.T * 2 if len(shape) == 2 else x * 2), a.T * 2 if len(shape) == 2 else a * 2)
    for axis in range(len(shape)):
        np.testing.assert_allclose(N(gla.sum(x, axis=axis)), a.sum(axis, dtype=np.float64), rtol=1e-5)


def test_g139_checks_of_memory_are_always_on(name):
    x = A(np.arange(5.0))
    f = gla.function(lambda v: v + 1)
    assert N(f(x)).tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    x.free()
    with pytest.raises(DeviceError):
        f(x)
    assert N(f(A([1.0]))).tolist() == [2.0]


# --- toolchain
def test_g46_cuda_that_is_not_there_is_named_with_what_to_install(name):
    if name != "host":
        pytest.skip("there is a GPU here")
    from tests.conftest import cuda_devices

    if cuda_devices()[0]:
        pytest.skip("there is a GPU here")
    with pytest.raises(DeviceError) as caught:
        engine.machine("cuda")
    text = str(caught.value)
    assert "libcuda" in text or "cuda" in text
    assert "help:" in text and ("install" in text)
    assert N(A([1.0]) + 1).tolist() == [2.0]


def test_g47_nvrtc_and_its_builtins_are_of_one_folder(name):
    nvrtc = pytest.importorskip("gla.device.cuda.nvrtc", reason="needs NVRTC")
    folder, version = nvrtc.folder(), nvrtc.version()
    assert folder and version[0] >= 12
    assert nvrtc.compile('extern "C" __global__ void f(float* x) { x[0] = sinf(x[0]); }', "f", "sm_90")


def test_g45_an_architecture_that_nvrtc_does_not_know_is_named(name):
    nvrtc = pytest.importorskip("gla.device.cuda.nvrtc", reason="needs NVRTC")
    with pytest.raises(DeviceError, match="sm_20"):
        nvrtc.compile('extern "C" __global__ void f() {}', "f", "sm_20")
    newest = nvrtc.compile('extern "C" __global__ void f() {}', "f", "sm_999")
    assert b".version" in newest[:2000]
