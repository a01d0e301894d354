"""The contract of `gla.device.base`, the same for every device: memory, copies, order, code, graphs, the library."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import gla.dtypes as dt
from gla.device.base import Matmul
from gla.errors import DeviceError, GraphError
from tests import handmade
from tests.device.bench import Bench

RNG = np.random.default_rng(20)


@pytest.fixture
def bench(device):
    made = Bench(device)
    yield made
    made.close()


def floats(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


# --- memory, copies, fills
@pytest.mark.parametrize("nbytes", [1, 255, 4096, 1 << 20])
def test_addresses_are_aligned_to_256_bytes(device, nbytes):
    address = device.allocate(nbytes)
    assert address % 256 == 0
    device.release(address)


def test_blocks_do_not_overlap(bench):
    first, second = bench.up(np.full(100, 1, np.uint8)), bench.up(np.full(100, 2, np.uint8))
    assert abs(first - second) >= 100
    assert bench.down(first, 100, np.uint8).tolist() == [1] * 100


def test_a_copy_in_has_read_its_source_when_it_returns(bench):
    source = np.arange(1000)
    address = bench.up(source)
    source[:] = 0
    assert np.array_equal(bench.down(address, 1000, np.int64), np.arange(1000))


def test_copies_between_device_ranges(bench):
    source, target = bench.up(np.arange(100, dtype=np.uint8)), bench.up(np.zeros(100, np.uint8))
    bench.device.copy(target + 10, source + 50, 20, bench.stream)
    expected = np.zeros(100, np.uint8)
    expected[10:30] = np.arange(50, 70)
    assert np.array_equal(bench.down(target, 100, np.uint8), expected)


def test_fill_sets_bytes(bench):
    target = bench.up(np.zeros(100, np.uint8))
    bench.device.fill(target + 1, 0xAB, 98, bench.stream)
    assert bench.down(target, 100, np.uint8).tolist() == [0] + [0xAB] * 98 + [0]


def test_pinned_memory_is_read_and_written_by_copies(bench):
    pinned = bench.device.allocate_pinned(64)
    bench.device.fill(pinned, 7, 64, bench.stream)
    target = bench.empty(64)
    bench.device.copy(target, pinned, 64, bench.stream)
    assert bench.down(target, 64, np.uint8).tolist() == [7] * 64
    bench.device.release_pinned(pinned)


def test_memory_info_counts_bytes(device):
    free, total = device.memory_info()
    assert 0 < free <= total


# --- streams and events
def test_events_order_and_time_streams(bench):
    device, other = bench.device, bench.device.create_stream()
    start, end = device.create_event(timing=True), device.create_event(timing=True)
    target, source = bench.empty(1 << 16), bench.empty(1 << 16)
    device.record(start, bench.stream)
    device.fill(source, 3, 1 << 16, bench.stream)
    device.record(end, bench.stream)
    device.wait(other, end)
    device.copy(target, source, 1 << 16, other)
    device.synchronize(other)
    assert device.query(end)
    assert device.elapsed_us(start, end) >= 0
    assert bench.down(target, 1 << 16, np.uint8).min() == 3
    for event in (start, end):
        device.destroy_event(event)
    device.destroy_stream(other)


# --- code and launches
def test_the_compiler_names_its_version(device):
    assert len(device.compiler_version()) > 4
    assert device.compiler_version() == device.compiler_version()


def test_an_image_is_bytes_and_can_be_loaded_twice(bench):
    kernel = handmade.increment()
    image = bench.device.compile(bench.print(kernel), kernel.name)
    assert isinstance(image, bytes)
    x = bench.up(np.zeros(10, np.int64))
    modules = [bench.device.load(image) for _ in range(2)]
    for module in modules:
        function = bench.device.function(module, kernel.name)
        bench.device.launch(function, bench.geometry(kernel, 10), bench.parameters(kernel, x, 5, 10), bench.stream)
    assert bench.down(x, 10, np.int64).tolist() == [10] * 10
    for module in modules:
        bench.device.unload(module)


def test_a_missing_function_is_refused(bench):
    kernel = handmade.increment()
    module = bench.device.load(bench.device.compile(bench.print(kernel), kernel.name))
    with pytest.raises(DeviceError):
        bench.device.function(module, "no_such_kernel")
    bench.device.unload(module)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("n", [1, 3, 64, 1003, 70000])
def test_elementwise(bench, n, wide):
    a, b = floats(n), floats(n)
    out = bench.empty(4 * n)
    bench.launch(handmade.multiply_add(wide=wide), n, bench.up(a), bench.up(b), out, 0.1, n)
    assert np.array_equal(bench.down(out, n, np.float32), a * b + np.float32(0.1))


def test_elementwise_in_place(bench):
    a, b = floats(1000), floats(1000)
    x = bench.up(a)
    bench.launch(handmade.multiply_add(), 1000, x, bench.up(b), x, 2.0, 1000)
    assert np.array_equal(bench.down(x, 1000, np.float32), a * b + np.float32(2))


def test_items_divided_into_rows_and_columns(bench):
    x = RNG.integers(0, 1000, (53, 29)).astype(np.int32)
    out = bench.empty(x.nbytes)
    bench.launch(handmade.transposed(), x.size, bench.up(x), out, x.size, 29, 53)
    assert np.array_equal(bench.down(out, (29, 53), np.int32), x.T)


def test_loops_carry_values(bench):
    x = floats(100, dtype=np.float64)
    out = bench.empty(x.nbytes)
    bench.launch(handmade.powers(), 100, bench.up(x), out, 100, 10)
    expected = x
    for _ in range(10):
        expected = expected * 1.5
    assert np.array_equal(bench.down(out, 100, np.float64), expected)


def test_while_loops_end_per_item(bench):
    def steps(v):
        n = 0
        while v != 1 and n < 40:
            v, n = (v // 2 if v % 2 == 0 else 3 * v + 1), n + 1
        return n

    x = RNG.integers(1, 1000, 123)
    out = bench.empty(x.nbytes)
    bench.launch(handmade.collatz(), 123, bench.up(x), out, 123, 40)
    assert bench.down(out, 123, np.int64).tolist() == [steps(int(v)) for v in x]


def test_foreach_stores_every_index(bench):
    a, b = floats(5), floats(77)
    out = bench.empty(4 * 5 * 77)
    bench.launch(handmade.outer_sum(), 5, bench.up(a), bench.up(b), out, 5, 77)
    assert np.array_equal(bench.down(out, (5, 77), np.float32), a[:, None] + b)


COUNTS = {1: [0, 1, 5, 8], 32: [0, 9, 31, 32, 33, 64, 100, 300], 256: [0, 255, 256, 257, 513, 700]}


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.int32], ids=str)
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("partials", [1, 32, 256])
def test_reductions_keep_the_documented_order(bench, partials, across, dtype):
    team = 1 if partials == 1 else 32
    kernel = handmade.row_sums(partials, dtype, across, team)
    function, items = bench.function(kernel), 37
    out = bench.empty(items * dtype.itemsize)
    for count in COUNTS[partials]:
        x = (RNG.normal(size=(items, count)) * 100).astype(dtype.numpy)
        source = bench.up(x.T if across else x)
        parameters = bench.parameters(kernel, source, out, items, count)
        bench.device.launch(function, bench.geometry(kernel, items), parameters, bench.stream)
        expected = np.array([handmade.sum_in_order(row, partials) for row in x], dtype.numpy)
        assert bench.down(out, items, dtype.numpy).tobytes() == expected.tobytes(), count


@pytest.mark.parametrize("partials", [1, 32])
def test_reductions_of_pairs(bench, partials):
    x = RNG.integers(0, 9, (20, 100)).astype(np.float64)
    out = bench.empty(20 * 8)
    bench.launch(handmade.argmax(partials), 20, bench.up(x), out, 20, 100)
    assert np.array_equal(bench.down(out, 20, np.int64), x.argmax(1))


# --- the library
@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16, dt.float32, dt.float64, dt.complex64, dt.complex128], ids=str)
@pytest.mark.parametrize("ta, tb", list(product([False, True], repeat=2)))
@pytest.mark.parametrize("batch, repeat_b", [(1, False), (3, False), (3, True)])
def test_matmul(bench, dtype, ta, tb, batch, repeat_b):
    m, n, k = 5, 7, 11
    a, b = floats(batch, m, k, dtype=dtype.numpy), floats(1 if repeat_b else batch, k, n, dtype=dtype.numpy)
    if dtype.kind == "c":
        a, b = a * (1 + 2j), b * (2 - 1j)
    a, b = a.astype(dtype.numpy), b.astype(dtype.numpy)
    out = bench.empty(batch * m * n * dtype.itemsize)
    stored_a, stored_b = (a.swapaxes(1, 2) if ta else a), (b.swapaxes(1, 2) if tb else b)
    call = Matmul(
        dtype, batch, m, n, k, m if ta else k, k if tb else n, n, m * k, 0 if repeat_b else k * n, m * n, ta, tb
    )  # fmt: skip
    workspace = bench.empty(max(bench.device.properties.library_workspace, 1))
    bench.device.matmul(call, bench.up(stored_a), bench.up(stored_b), out, workspace, bench.stream)
    expected = a.astype(np.complex128) @ b.astype(np.complex128)
    narrow = {dt.float16: 2e-3, dt.bfloat16: 1e-2}.get(dtype)
    tolerance = narrow or (1e-4 if dtype.itemsize // (2 if dtype.kind == "c" else 1) == 4 else 1e-12)
    got = bench.down(out, (batch, m, n), dtype.numpy).astype(np.complex128)
    assert np.allclose(got, expected, rtol=tolerance, atol=tolerance)


def test_matmul_with_rows_apart(bench):
    """Leading dimensions longer than a row, over nothing to sum, too."""
    a, b = floats(4, 9), floats(6, 8)
    out = bench.up(np.zeros((4, 5), np.float32))
    workspace = bench.empty(max(bench.device.properties.library_workspace, 1))
    call = Matmul(dt.float32, 1, 4, 5, 6, 9, 8, 5)
    bench.device.matmul(call, bench.up(a), bench.up(b), out, workspace, bench.stream)
    expected = a[:, :6].astype(np.float64) @ b[:, :5].astype(np.float64)
    assert np.allclose(bench.down(out, (4, 5), np.float32), expected, rtol=1e-5, atol=1e-5)


# --- graphs
def test_a_graph_runs_its_nodes_in_order(bench):
    device, kernel = bench.device, handmade.increment()
    x, y = bench.up(np.zeros(100, np.int64)), bench.up(np.zeros(100, np.int64))
    function, geometry = bench.function(kernel), bench.geometry(kernel, 100)
    graph = device.create_graph()
    fill = device.add_fill(graph, (), x, 0, 800)
    add = device.add_kernel(graph, (fill,), function, geometry, bench.parameters(kernel, x, 5, 100))
    twice = device.add_kernel(graph, (add,), function, geometry, bench.parameters(kernel, x, 2, 100))
    copy = device.add_copy(graph, (twice,), y, x, 800)
    assert [node.kind for node in (fill, add, copy)] == ["fill", "kernel", "copy"]
    executable = device.instantiate(graph)
    device.upload(executable, bench.stream)
    for _ in range(2):
        device.launch_graph(executable, bench.stream)
    assert bench.down(y, 100, np.int64).tolist() == [7] * 100
    device.destroy_executable(executable)
    device.destroy_graph(graph)


def test_an_empty_graph_launches(bench):
    graph = bench.device.create_graph()
    executable = bench.device.instantiate(graph)
    bench.device.launch_graph(executable, bench.stream)
    bench.device.synchronize(bench.stream)
    bench.device.destroy_executable(executable)
    bench.device.destroy_graph(graph)


def test_parameters_are_copied_when_a_node_is_made(bench):
    device, kernel = bench.device, handmade.increment()
    x = bench.up(np.zeros(10, np.int64))
    parameters = bench.parameters(kernel, x, 1, 10)
    graph = device.create_graph()
    device.add_kernel(graph, (), bench.function(kernel), bench.geometry(kernel, 10), parameters)
    parameters.set(1, 1000)
    executable = device.instantiate(graph)
    device.launch_graph(executable, bench.stream)
    assert bench.down(x, 10, np.int64).tolist() == [1] * 10
    device.destroy_executable(executable)
    device.destroy_graph(graph)


def test_two_executables_of_one_graph_are_independent(bench):
    device, kernel = bench.device, handmade.increment()
    x, y = bench.up(np.zeros(10, np.int64)), bench.up(np.zeros(10, np.int64))
    function, geometry = bench.function(kernel), bench.geometry(kernel, 10)
    graph = device.create_graph()
    node = device.add_kernel(graph, (), function, geometry, bench.parameters(kernel, x, 1, 10))
    first, second = device.instantiate(graph), device.instantiate(graph)
    device.destroy_graph(graph)
    device.set_kernel(second, node, function, geometry, bench.parameters(kernel, y, 100, 10))
    device.launch_graph(first, bench.stream)
    device.launch_graph(second, bench.stream)
    device.launch_graph(second, bench.stream)
    assert bench.down(x, 10, np.int64).tolist() == [1] * 10
    assert bench.down(y, 10, np.int64).tolist() == [200] * 10
    for executable in (first, second):
        device.destroy_executable(executable)


def test_set_copy_changes_later_launches(bench):
    device = bench.device
    one, two = bench.up(np.full(64, 1, np.uint8)), bench.up(np.full(64, 2, np.uint8))
    target = bench.up(np.zeros(64, np.uint8))
    graph = device.create_graph()
    node = device.add_copy(graph, (), target, one, 64)
    executable = device.instantiate(graph)
    device.launch_graph(executable, bench.stream)
    assert bench.down(target, 64, np.uint8).tolist() == [1] * 64
    device.set_copy(executable, node, target, two, 64)
    device.launch_graph(executable, bench.stream)
    assert bench.down(target, 64, np.uint8).tolist() == [2] * 64
    device.destroy_executable(executable)
    device.destroy_graph(graph)


def test_a_library_call_between_kernels(bench):
    device, kernel = bench.device, handmade.multiply_add()
    a, b = floats(16, 16), floats(16, 16)
    pa, pb, pc = bench.up(a), bench.up(b), bench.empty(4 * 256)
    ones = bench.up(np.ones(256, np.float32))
    workspace = bench.empty(max(device.properties.library_workspace, 1))
    function, geometry = bench.function(kernel), bench.geometry(kernel, 256)
    graph = device.create_graph()
    before = device.add_kernel(graph, (), function, geometry, bench.parameters(kernel, pa, ones, pa, 1.0, 256))
    product_ = device.add_matmul(graph, (before,), Matmul(dt.float32, 1, 16, 16, 16, 16, 16, 16), pa, pb, pc, workspace)
    device.add_kernel(graph, (product_,), function, geometry, bench.parameters(kernel, pc, ones, pc, 2.0, 256))
    executable = device.instantiate(graph)
    for trip in range(1, 4):
        device.launch_graph(executable, bench.stream)
        expected = (a + np.float32(trip)).astype(np.float64) @ b + 2
        assert np.allclose(bench.down(pc, (16, 16), np.float32), expected, rtol=1e-4, atol=1e-4)
    device.destroy_executable(executable)
    device.destroy_graph(graph)


def test_a_node_of_another_graph_is_refused(bench):
    device = bench.device
    graphs = [device.create_graph() for _ in range(2)]
    x = bench.empty(64)
    node = device.add_fill(graphs[0], (), x, 0, 64)
    with pytest.raises((GraphError, DeviceError)):
        device.add_fill(graphs[1], (node,), x, 0, 64)
    for graph in graphs:
        device.destroy_graph(graph)


def test_k1_a_device_says_who_captures_a_stream(device):
    stream = device.create_stream()
    assert device.captured_by(stream) == ""
    if device.kind == "host":
        stream.capturing = True
        assert device.captured_by(stream) == "other"
        stream.owner = "gla"
        assert device.captured_by(stream) == "gla"
        stream.capturing = False
    else:
        table, modes = device.driver.table, device.driver.table.types.CUstreamCaptureMode
        from cuda.bindings import driver

        graph = device.create_graph()
        table.cuStreamBeginCaptureToGraph(stream, graph.handle, [], None, 0, modes.CU_STREAM_CAPTURE_MODE_RELAXED)
        assert device.captured_by(stream) == "other"
        driver.cuStreamEndCapture(stream)
        device.destroy_graph(graph)
    assert device.captured_by(stream) == ""
    device.destroy_stream(stream)
    device.trim()
