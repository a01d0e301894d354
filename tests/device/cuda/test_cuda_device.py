"""The CUDA device over a driver written in Python: which calls it makes, in which order, and what a failure leaves."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from device.cuda.fake import LIBRARY_MEMORY, FakeLibrary, FakeTable

from gla.device.base import Geometry, Matmul, Parameters
from gla.device.cuda.device import CudaDevice
from gla.device.cuda.driver import Driver
from gla.dtypes import float32
from gla.errors import DeviceError, GraphError, OutOfMemoryError

CALL = Matmul(float32, 1, 4, 5, 6, 6, 5, 5)


@pytest.fixture
def table():
    return FakeTable()


@pytest.fixture
def device(table):
    made = CudaDevice(Driver(table, 0))
    made._library = FakeLibrary(table)
    table.calls.clear()
    return made


def parameters():
    made = Parameters([None, float32])
    made.set(0, 0x7000)
    return made


# --- opening
def test_an_old_driver_is_refused():
    with pytest.raises(DeviceError, match=r"for CUDA 12\.3; gla needs 12\.4") as caught:
        Driver(FakeTable(version=12030), 0)
    assert caught.value.code == "GLA0551"


@pytest.mark.parametrize("index", [1, -1])
def test_a_device_that_is_not_there_is_refused(index):
    with pytest.raises(DeviceError, match=f"no device 'cuda:{index}': the driver sees 1 device"):
        Driver(FakeTable(), index)


def test_properties_come_from_the_driver(device):
    p = device.properties
    assert (p.name, p.architecture, p.capability, p.library_workspace) == ("Fake GPU", "sm_90", (9, 0), 32 << 20)
    assert (p.multiprocessors, p.shared_bytes, device.name) == (132, 232448, "cuda:0")


def test_a_launch_makes_the_context_current_once_a_thread(device, table):
    def launches():
        for _ in range(3):
            device.launch(1, Geometry(), parameters(), 2)

    thread = threading.Thread(target=launches)
    thread.start()
    thread.join()
    assert table.names() == ["cuCtxSetCurrent", "cuLaunchKernel", "cuLaunchKernel", "cuLaunchKernel"]


def test_a_launch_refused_because_of_another_librarys_context_is_made_again(device, table):
    executable, stream = device.instantiate(device.create_graph()), device.create_stream()
    table.current = table.types.CUcontext(0x77)
    table.fail(1, "cuGraphLaunch", "CUDA_ERROR_INVALID_CONTEXT")
    device.launch_graph(executable, stream)
    assert table.launched == [(int(executable.handle), int(stream))]
    assert int(table.current) == int(device.driver.context)


def test_a_launch_refused_in_our_context_is_an_error(device, table):
    executable, stream = device.instantiate(device.create_graph()), device.create_stream()
    table.fail(1, "cuGraphLaunch", "CUDA_ERROR_INVALID_HANDLE")
    with pytest.raises(DeviceError, match="cuGraphLaunch failed: CUDA_ERROR_INVALID_HANDLE"):
        device.launch_graph(executable, stream)


# --- memory
def test_out_of_memory_names_the_bytes(device, table):
    table.fail(1, "cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY")
    with pytest.raises(OutOfMemoryError, match="1,024 bytes on cuda:0: cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY"):
        device.allocate(1024)


@pytest.mark.parametrize(
    "act",
    [
        lambda d: d.allocate(8),
        lambda d: d.load(b"image"),
        lambda d: d.synchronize(1),
        lambda d: d.query(1),
        lambda d: d.allocate_pinned(8),
    ],
    ids=["allocate", "load", "synchronize", "query", "allocate_pinned"],
)
def test_unsafe_calls_run_with_the_capture_mode_relaxed_and_put_back(device, table, act):
    act(device)
    exchange = [args[0].name.split("_")[-1] for name, args in table.calls if name == "cuThreadExchangeStreamCaptureMode"]
    assert exchange == ["RELAXED", "GLOBAL"]
    assert table.names()[-1] == "cuThreadExchangeStreamCaptureMode"


def test_the_capture_mode_is_put_back_after_a_failure(device, table):
    table.fail(1, "cuModuleLoadData", "CUDA_ERROR_INVALID_IMAGE")
    with pytest.raises(DeviceError, match="INVALID_IMAGE"):
        device.load(b"image")
    assert table.names()[-1] == "cuThreadExchangeStreamCaptureMode"


@pytest.mark.parametrize("nbytes", [16, 1 << 20])
def test_a_copy_in_has_read_its_source(device, table, nbytes):
    target, source = device.allocate(nbytes), np.arange(nbytes, dtype=np.uint8)
    device.copy_in(target, source.ctypes.data, nbytes, 1)
    read = next(args[1] for name, args in table.calls if name == "cuMemcpyHtoDAsync")
    waited = "cuStreamSynchronize" in table.names()
    assert waited or read != source.ctypes.data
    back = np.zeros(nbytes, np.uint8)
    device.copy_out(back.ctypes.data, target, nbytes, 1)
    assert (back == source).all()


def test_a_staging_slot_waits_for_its_last_copy(device, table):
    target, source = device.allocate(16), np.zeros(16, np.uint8)
    for _ in range(9):
        device.copy_in(target, source.ctypes.data, 16, 1)
    recorded = [args[0] for name, args in table.calls if name == "cuEventRecord"]
    waited = [args[0] for name, args in table.calls if name == "cuEventSynchronize"]
    assert recorded[0] is waited[8] and len(set(map(id, recorded))) == 8


def test_nothing_is_done_for_zero_bytes(device, table):
    device.copy_in(1, 2, 0, 3), device.copy_out(1, 2, 0, 3), device.copy(1, 2, 0, 3), device.fill(1, 0, 0, 3)
    assert table.calls == []


def test_an_event_that_has_not_run_is_not_an_error(device, table):
    table.fail(1, "cuEventQuery", "CUDA_ERROR_NOT_READY")
    assert device.query(1) is False
    assert device.query(1) is True


# --- graphs
def test_a_kernel_node_holds_function_geometry_and_parameters(device, table):
    graph, p = device.create_graph(), parameters()
    first = device.add_fill(graph, (), 0x100, 1, 8)
    device.add_kernel(graph, [first, first], table.types.CUfunction(7), Geometry((3, 1, 1), (64, 2, 1), 16), p)
    kind, before, params = table.graphs[int(graph.handle)][max(graph.known)]
    assert (kind, before) == ("kernel", [int(first.handles[0])])
    assert (int(params.func), params.gridDimX, params.blockDimX, params.blockDimY, params.sharedMemBytes) == (7, 3, 64, 2, 16)
    assert params.kernelParams == p.pointers.ctypes.data


def test_a_copy_node_is_one_row_of_any_memory(device, table):
    graph = device.create_graph()
    device.add_copy(graph, (), 0x200, 0x100, 1000)
    _, _, params = table.graphs[int(graph.handle)][max(graph.known)]
    assert (int(params.srcDevice), int(params.dstDevice), params.WidthInBytes, params.Height, params.Depth) == (
        0x100,
        0x200,
        1000,
        1,
        1,
    )
    assert params.srcMemoryType == params.dstMemoryType == table.types.CUmemorytype.CU_MEMORYTYPE_UNIFIED


def test_a_node_of_another_graph_is_refused(device):
    node = device.add_fill(device.create_graph(), (), 1, 0, 8)
    with pytest.raises(GraphError, match="another graph"):
        device.add_copy(device.create_graph(), [node], 1, 2, 8)


def test_setting_a_kernel_writes_what_changed_and_reads_parameters_at_the_call(device, table):
    graph, p = device.create_graph(), parameters()
    one, two = table.types.CUfunction(7), table.types.CUfunction(8)
    node = device.add_kernel(graph, (), one, Geometry(), p)
    executable = device.instantiate(graph)
    device.set_kernel(executable, node, one, Geometry((5, 1, 1), (32, 1, 1)), p)
    device.set_kernel(executable, node, two, Geometry((6, 1, 1), (32, 1, 1)), p)
    address = int(node.handles[0])
    assert table.launched == [(address, 7, 5, 32, p.pointers.ctypes.data), (address, 8, 6, 32, p.pointers.ctypes.data)]


def test_a_graph_outlives_its_executables(device, table):
    graph = device.create_graph()
    executables = [device.instantiate(graph) for _ in range(2)]
    device.destroy_graph(graph)
    device.destroy_executable(executables[0])
    assert "cuGraphDestroy" not in table.names()
    device.destroy_executable(executables[1])
    assert table.names().count("cuGraphDestroy") == 1


def test_a_graph_launch_is_one_driver_call(device, table):
    executable = device.instantiate(device.create_graph())
    stream = device.create_stream()
    table.calls.clear()
    device.launch_graph(executable, stream)
    assert table.names() == ["cuGraphLaunch"]
    table.fail(2, "cuGraphLaunch", "CUDA_ERROR_ILLEGAL_ADDRESS")
    with pytest.raises(DeviceError, match="cuGraphLaunch failed: CUDA_ERROR_ILLEGAL_ADDRESS") as caught:
        device.launch_graph(executable, stream)
    assert caught.value.code == "GLA0562"


# --- library calls in graphs
def test_a_matmul_becomes_nodes_between_its_neighbours(device, table):
    graph = device.create_graph()
    before = device.add_fill(graph, (), 1, 0, 8)
    node = device.add_matmul(graph, [before], CALL, 1, 2, 3, 0x9000)
    after = device.add_fill(graph, [node], 1, 0, 8)
    nodes = table.graphs[int(graph.handle)]
    first, last = sorted(int(h) for h in node.handles)
    assert nodes[first][1] == [int(before.handles[0])] and nodes[last][1] == [first]
    assert nodes[int(after.handles[0])][1] == [last]
    assert (node.kind, node.label) == ("library", "matmul (4, 6) @ (6, 5) of float32")


def test_a_new_kind_of_matmul_is_captured_into_a_scratch_graph_first(device, table):
    graph = device.create_graph()
    for _ in range(2):
        device.add_matmul(graph, (), CALL, 1, 2, 3, 0x9000)
    begun = [int(args[1]) for name, args in table.calls if name == "cuStreamBeginCaptureToGraph"]
    assert begun[1:] == [int(graph.handle)] * 2 and begun[0] not in table.graphs


def test_the_workspace_is_the_one_that_was_given(device):
    device.add_matmul(device.create_graph(), (), CALL, 1, 2, 3, 0x9000)
    assert device._library.used[0][1:] == (0x9000, 32 << 20)


def test_an_invalidated_capture_is_tried_again(device, table):
    table.fail(2, "cuStreamEndCapture", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED")
    graph = device.create_graph()
    node = device.add_matmul(graph, (), CALL, 1, 2, 3, 0x9000)
    assert set(table.graphs[int(graph.handle)]) == {int(h) for h in node.handles}


def test_a_capture_that_never_succeeds_leaves_the_graph_as_it_was(device, table):
    graph = device.create_graph()
    before = device.add_fill(graph, (), 1, 0, 8)
    for n in (2, 3, 4):
        table.fail(n, "cuStreamEndCapture", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED")
    with pytest.raises(DeviceError, match="INVALIDATED"):
        device.add_matmul(graph, [before], CALL, 1, 2, 3, 0x9000)
    assert set(table.graphs[int(graph.handle)]) == graph.known == {int(before.handles[0])}


def test_a_library_that_fails_closes_the_capture(device, table):
    device._library.error = DeviceError("GLA0559", "cublasGemmEx failed")
    with pytest.raises(DeviceError, match="cublasGemmEx failed"):
        device.add_matmul(device.create_graph(), (), CALL, 1, 2, 3, 0x9000)
    assert table.capture is None and "cuStreamEndCapture" in table.names()


def test_a_library_that_records_nothing_is_found(device):
    device._library.nodes = 0
    graph = device.create_graph()
    before = device.add_fill(graph, (), 1, 0, 8)
    with pytest.raises(DeviceError, match="recorded nothing"):
        device.add_matmul(graph, [before], CALL, 1, 2, 3, 0x9000)


@pytest.mark.parametrize(("m", "k", "kind"), [(0, 6, "empty"), (4, 0, "fill")])
def test_a_product_of_nothing_needs_no_library(device, table, m, k, kind):
    graph = device.create_graph()
    device.add_matmul(graph, (), Matmul(float32, 1, m, 5, k, 6, 5, 5), 1, 2, 3, 0x9000)
    assert [node[0] for node in table.graphs[int(graph.handle)].values()] == [kind]


@pytest.mark.parametrize(
    "name", ["cuGraphCreate", "cuGraphAddMemsetNode", "capture_info", "node_dependencies", "cuGraphInstantiate"]
)
def test_every_failing_call_on_the_way_to_an_executable_is_an_error_that_names_it(device, table, name):
    failed = 0
    for nth in range(1, 5):
        table.fail(table.counted[name] + nth, name)
        try:
            graph = device.create_graph()
            fill = device.add_fill(graph, (), 1, 0, 8)
            device.add_matmul(graph, [fill], CALL, 1, 2, 3, 0x9000)
            device.instantiate(graph)
        except DeviceError as error:
            assert name in str(error)
            failed += 1
        table.failures.clear()
        assert table.capture is None
    assert failed


# --- memory that a library allocates in a graph (I1)
@pytest.mark.parametrize("frees", [False, True])
def test_i1_a_librarys_leftover_is_freed_by_the_next_launch_and_with_the_executable(device, table, frees):
    device._library.allocates, device._library.frees = True, frees
    flags, freed = [], []
    instantiate, free = table.cuGraphInstantiate, table.cuMemFree
    table.cuGraphInstantiate = lambda graph, flag: (flags.append(flag), instantiate(graph, flag))[1]
    table.cuMemFree = lambda address: (freed.append(address), (table.types.CUresult.CUDA_SUCCESS,))[1]
    graph = device.create_graph()
    device.add_matmul(graph, (), CALL, 1, 2, 3, 0x9000)
    executable = device.instantiate(graph)
    device.destroy_graph(graph)
    assert flags == [0 if frees else 1] and freed == []  # 1: each launch frees what the one before left
    stream = device.create_stream()
    device.launch_graph(executable, stream)
    device.launch_graph(executable, stream)
    device.destroy_executable(executable)
    assert freed == ([] if frees else [LIBRARY_MEMORY]) and free


def test_i1_an_executable_that_was_never_launched_left_nothing(device, table):
    device._library.allocates = True
    results = table.types.CUresult
    graph = device.create_graph()
    device.add_matmul(graph, (), CALL, 1, 2, 3, 0x9000)
    table.cuMemFree = lambda address: (results.CUDA_ERROR_INVALID_VALUE,)
    device.destroy_executable(device.instantiate(graph))
    table.cuMemFree = lambda address: (results.CUDA_ERROR_UNKNOWN,)
    with pytest.raises(DeviceError, match="cuMemFree"):
        device.destroy_executable(device.instantiate(graph))
