"""What the host device adds to the contract: strict mode, limits, faults, threads, streams that are being recorded."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import gla.dtypes as dt
from gla.device.base import Matmul
from gla.device.host import HostDevice
from gla.device.host.threads import Pool
from gla.errors import CaptureError, DeviceError, GraphError, OutOfMemoryError
from tests import handmade
from tests.device.bench import Bench


@pytest.fixture
def bench():
    made = Bench(HostDevice(strict=True))
    yield made
    made.close()


# --- strict mode
def test_new_and_released_memory_is_poisoned(bench):
    address = bench.empty(100)
    assert set(bench.down(address, 100, np.uint8)) == {0xCB}
    other = bench.device.allocate(64)
    bench.device.fill(other, 1, 64, bench.stream)
    bench.device.release(other)
    import ctypes

    assert ctypes.string_at(other, 64) == b"\xcb" * 64


def test_a_stale_pointer_is_refused_in_launches_copies_and_graphs(bench):
    device, kernel = bench.device, handmade.increment()
    function, geometry = bench.function(kernel), bench.geometry(kernel, 8)
    stale, live = device.allocate(64), bench.empty(64)
    graph = device.create_graph()
    device.add_kernel(graph, (), function, geometry, bench.parameters(kernel, stale, 1, 8))
    executable = device.instantiate(graph)
    device.launch_graph(executable, bench.stream)
    device.release(stale)
    with pytest.raises(DeviceError, match="stale pointer"):
        device.launch(function, geometry, bench.parameters(kernel, stale, 1, 8), bench.stream)
    with pytest.raises(DeviceError, match="stale pointer"):
        device.copy(live, stale, 64, bench.stream)
    with pytest.raises(DeviceError, match="stale pointer"):
        device.launch_graph(executable, bench.stream)
    with pytest.raises(DeviceError, match="stale pointer"):
        device.matmul(Matmul(dt.float32, 1, 1, 1, 1, 1, 1, 1), live, stale, live, 0, bench.stream)


def test_a_copy_beyond_its_block_is_refused(bench):
    a, b = bench.empty(64), bench.empty(128)
    with pytest.raises(DeviceError, match="leave their block"):
        bench.device.copy(a, b, 65, bench.stream)
    with pytest.raises(DeviceError, match="leave their block"):
        bench.device.fill(a + 60, 0, 8, bench.stream)


def test_a_block_is_released_once(bench):
    address = bench.device.allocate(64)
    bench.device.release(address)
    with pytest.raises(DeviceError, match="released before"):
        bench.device.release(address)
    with pytest.raises(DeviceError, match="not a live block"):
        bench.device.release(12345)


def test_pinned_memory_is_not_released_as_a_block(bench):
    address = bench.device.allocate_pinned(64)
    with pytest.raises(DeviceError):
        bench.device.release(address)
    bench.device.release_pinned(address)


def test_quarantine_is_bounded():
    device = HostDevice(strict=True)
    for _ in range(1000):
        device.release(device.allocate(1 << 20))
    assert device.memory.blocks == 0
    assert device.memory._kept_bytes <= 64 << 20


def test_memory_of_others_is_let_pass(bench):
    kernel, array = handmade.increment(), np.zeros(8, np.int64)
    bench.launch(kernel, 8, array.ctypes.data, 3, 8)
    assert array.tolist() == [3] * 8


# --- limits and faults
def test_out_of_memory_names_the_bytes():
    device = HostDevice(limit=1000)
    first = device.allocate(600)
    with pytest.raises(OutOfMemoryError, match="500 bytes"):
        device.allocate(500)
    device.release(first)
    second = device.allocate(900)
    assert device.memory_info() == (100, 1000)
    device.limit = 2000
    device.release(second)
    assert device.memory_info() == (2000, 2000)


def test_an_allocation_beyond_the_machine_is_out_of_memory():
    with pytest.raises(OutOfMemoryError):
        HostDevice(strict=False).allocate(1 << 60)


def test_the_nth_call_fails_once():
    device = HostDevice(strict=True)
    device.fail_after(3)
    kept = [device.allocate(8), device.allocate(8)]
    assert device.fault_pending
    with pytest.raises(DeviceError, match="allocate failed"):
        device.allocate(8)
    assert not device.fault_pending
    kept.append(device.allocate(8))
    device.fail_after(1, OutOfMemoryError("GLA0520", "none left"), "allocate")
    for address in kept:
        device.release(address)
    with pytest.raises(OutOfMemoryError, match="none left"):
        device.allocate(8)


# --- handles
def test_destroyed_handles_are_refused(bench):
    device = bench.device
    stream, event, graph = device.create_stream(), device.create_event(), device.create_graph()
    executable = device.instantiate(graph)
    device.destroy_stream(stream)
    device.destroy_event(event)
    device.destroy_graph(graph)
    device.destroy_executable(executable)
    for call in (
        lambda: device.synchronize(stream),
        lambda: device.record(event, bench.stream),
        lambda: device.instantiate(graph),
        lambda: device.launch_graph(executable, bench.stream),
        lambda: device.destroy_event(event),
    ):
        with pytest.raises(DeviceError, match="has been destroyed"):
            call()
    with pytest.raises(DeviceError, match="is not a HostStream"):
        device.synchronize(event)


def test_a_function_of_an_unloaded_module_is_refused(bench):
    kernel = handmade.increment()
    module = bench.device.load(bench.device.compile(bench.print(kernel), kernel.name))
    function = bench.device.function(module, kernel.name)
    bench.device.unload(module)
    with pytest.raises(DeviceError, match="has been destroyed"):
        bench.device.launch(function, bench.geometry(kernel, 1), bench.parameters(kernel, bench.empty(8), 1, 1), bench.stream)


def test_elapsed_time_needs_recorded_timing_events(bench):
    plain, timing = bench.device.create_event(), bench.device.create_event(timing=True)
    with pytest.raises(DeviceError, match="without timing"):
        bench.device.elapsed_us(plain, timing)
    with pytest.raises(DeviceError, match="not been recorded"):
        bench.device.elapsed_us(timing, timing)


def test_a_node_of_another_graph_cannot_be_set(bench):
    device = bench.device
    x = bench.empty(64)
    node = device.add_copy(device.create_graph(), (), x, x, 8)
    with pytest.raises(GraphError):
        device.set_copy(device.instantiate(device.create_graph()), node, x, x, 8)


@pytest.mark.parametrize("call", ["synchronize", "copy_in", "copy_out"])
def test_waiting_on_a_recorded_stream_is_refused(bench, call):
    address, array = bench.empty(8), np.zeros(8, np.uint8)
    bench.stream.capturing = True
    arguments = {
        "synchronize": (bench.stream,),
        "copy_in": (address, array.ctypes.data, 8, bench.stream),
        "copy_out": (array.ctypes.data, address, 8, bench.stream),
    }[call]
    with pytest.raises(CaptureError, match=call):
        getattr(bench.device, call)(*arguments)
    bench.stream.capturing = False


# --- threads
def test_many_items_are_spread_over_threads_with_equal_results():
    rng, n = np.random.default_rng(1), 1 << 20
    a, b = rng.normal(size=n).astype(np.float32), rng.normal(size=n).astype(np.float32)
    kernel = handmade.multiply_add()
    for threads in (1, 3):
        bench = Bench(HostDevice(strict=True, threads=threads))
        out, pa, pb = bench.empty(4 * n), bench.up(a), bench.up(b)
        function, geometry, values = (
            bench.function(kernel),
            bench.geometry(kernel, n),
            bench.parameters(kernel, pa, pb, out, 1.0, n),
        )
        bench.device.launch(function, geometry, values, bench.stream)
        assert np.array_equal(bench.down(out, n, np.float32), a * b + np.float32(1))
        bench.device.fill(out, 0, 4 * n, bench.stream)
        graph = bench.device.create_graph()
        bench.device.add_kernel(graph, (), function, geometry, values)
        executable = bench.device.instantiate(graph)
        bench.device.launch_graph(executable, bench.stream)
        assert np.array_equal(bench.down(out, n, np.float32), a * b + np.float32(1))
        bench.close()


@pytest.mark.parametrize("items", [1, 63, 64, 65, 1000, 12345])
def test_a_pool_runs_every_item_once(items):
    pool, lock, seen = Pool(4), threading.Lock(), []

    def function(slots, begin, end):
        with lock:
            seen.extend(range(begin, end))

    for _ in range(3):
        seen.clear()
        pool.run(function, 0, items)
        assert sorted(seen) == list(range(items))


def test_a_node_that_grows_heavy_or_light_is_planned_again():
    bench = Bench(HostDevice(strict=True, threads=2))
    device, kernel, n = bench.device, handmade.increment(), 1 << 18
    x = bench.up(np.zeros(n, np.int64))
    function = bench.function(kernel)
    graph = device.create_graph()
    node = device.add_kernel(graph, (), function, bench.geometry(kernel, 10), bench.parameters(kernel, x, 1, 10))
    executable = device.instantiate(graph)
    expected = np.zeros(n, np.int64)
    for items in (10, n, 10):
        device.set_kernel(executable, node, function, bench.geometry(kernel, items), bench.parameters(kernel, x, 1, items))
        device.launch_graph(executable, bench.stream)
        expected[:items] += 1
        assert np.array_equal(bench.down(x, n, np.int64), expected)
    bench.close()


def test_two_threads_on_one_stream_keep_launches_apart():
    """Increments in place: a lost update would show as a smaller sum."""
    bench = Bench(HostDevice(strict=True, threads=2))
    kernel, n = handmade.increment(), 1 << 17
    x = bench.up(np.zeros(n, np.int64))
    function, geometry, values = bench.function(kernel), bench.geometry(kernel, n), bench.parameters(kernel, x, 1, n)

    def work():
        for _ in range(50):
            bench.device.launch(function, geometry, values, bench.stream)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert set(bench.down(x, n, np.int64)) == {150}
    bench.close()
