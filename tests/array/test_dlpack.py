"""Memory shared with other libraries: DLPack both ways, `__cuda_array_interface__`, NumPy. Guarantees C3, K1, K2; case g112."""

import gc
import weakref
from itertools import pairwise

import numpy as np
import pytest
from device.cuda.fake import FakeTable

import gla
from gla.array import capsule, dlpack, engine
from gla.dtypes import as_dtype
from gla.runtime import devices
from gla.runtime.machine import Machine

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()


@pytest.fixture(autouse=True)
def host(request):
    if "table" in request.fixturenames or request.node.get_closest_marker("gpu"):
        yield
        return
    with gla.device("host"):
        yield


def N(x):
    return np.array(np.asarray(x))


def reclaim():
    gc.collect()
    engine.machine("host").reclaim()


class Producer:
    """An array of some library: DLPack through NumPy, without a version where that is asked for."""

    def __init__(self, values, versioned=True):
        self.values, self.versioned, self.asked = values, versioned, []

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()

    def __dlpack__(self, **options):
        self.asked.append(options)
        if not self.versioned:
            if "max_version" in options:
                raise TypeError("unexpected keyword argument 'max_version'")
            return self.values.__dlpack__()
        return self.values.__dlpack__(max_version=options["max_version"])


class Owner(np.ndarray):
    """A NumPy array whose life can be watched."""


def owned(values):
    return np.array(values).view(Owner)


# --- import on the host
@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_k2_an_import_has_the_dtype_shape_and_memory_of_the_producer(dtype, versioned):
    values = (np.arange(6) % 2).astype(dtype).reshape(2, 3)
    x = gla.from_dlpack(Producer(values, versioned))
    assert (x.dtype, x.shape, x.device) == (dtype, (2, 3), "host")
    assert N(x).tolist() == values.tolist()
    values[...] = 1
    assert N(x).tolist() == values.tolist()


def test_writing_an_import_writes_the_producers_memory():
    values = np.arange(4.0)
    x = gla.from_dlpack(values)
    x += 10
    assert values.tolist() == [10.0, 11.0, 12.0, 13.0]
    x[1:3] = 0
    assert values.tolist() == [10.0, 0.0, 0.0, 13.0]


@pytest.mark.parametrize("part", [np.s_[:, ::2], np.s_[::-1], np.s_[1:, 1], np.s_[:, 3:0:-2], np.s_[:0]])
def test_memory_with_gaps_is_read_right_and_not_shared(part):
    values = np.arange(12.0).reshape(3, 4)
    x = gla.from_dlpack(values[part])
    assert N(x).tolist() == values[part].tolist()
    assert N(gla.from_dlpack(values.T)).tolist() == values.T.tolist()
    assert N(gla.from_dlpack(np.broadcast_to(values[:1], (3, 4)))).tolist() == [values[0].tolist()] * 3


def test_memory_at_an_odd_address_is_copied():
    raw = np.zeros(41, np.uint8)
    values = raw[1:].view(np.float64)
    values[:] = np.arange(5.0)
    steps = (-1,)
    contents = capsule.Contents(values.ctypes.data + 32, gla.float64, (5,), steps, False, raw)
    x = dlpack.adopted(contents, engine.machine("host"), None, "a test")
    assert N(x).tolist() == [4.0, 3.0, 2.0, 1.0, 0.0]
    with pytest.raises(gla.ShapeError, match="not aligned"):
        gla.asarray(values, copy=False)


def test_scalars_and_empty_arrays():
    assert float(gla.from_dlpack(np.array(2.5))) == 2.5
    assert gla.from_dlpack(np.zeros((0, 3))).shape == (0, 3)


def test_what_may_not_be_written_is_copied_or_refused():
    values = np.arange(3.0)
    values.flags.writeable = False
    x = gla.from_dlpack(values)
    x += 1
    assert values.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(gla.ShapeError, match="may not be written"):
        gla.from_dlpack(values, copy=False)
    with pytest.raises(gla.ShapeError, match="is not contiguous"):
        gla.from_dlpack(np.zeros((4, 4))[:, :2], copy=False)


def test_copy_true_shares_nothing():
    values = np.arange(3.0)
    x = gla.from_dlpack(values, copy=True)
    values[:] = 9
    assert N(x).tolist() == [0.0, 1.0, 2.0]


def test_a_capsule_is_used_once():
    class Twice(Producer):
        def __dlpack__(self, **options):
            self.capsule = getattr(self, "capsule", None) or super().__dlpack__(**options)
            return self.capsule

    x = Twice(np.arange(3.0))
    gla.from_dlpack(x)
    with pytest.raises(gla.DtypeError, match="used before"):
        gla.from_dlpack(x)


def test_what_shares_nothing_and_what_has_no_dtype_is_refused():
    with pytest.raises(gla.DtypeError, match="does not share its memory"):
        gla.from_dlpack([1, 2])
    with pytest.raises((gla.DtypeError, BufferError)):
        gla.from_dlpack(np.array([1.0], np.longdouble))


def test_a_device_that_gla_does_not_have_is_refused():
    class Elsewhere(Producer):
        def __dlpack_device__(self):
            return (10, 0)

    with pytest.raises(gla.DeviceError, match="kind 10"):
        gla.from_dlpack(Elsewhere(np.zeros(1)))


def test_c3_the_owner_lives_as_long_as_the_array_and_its_views():
    values = owned([1.0, 2.0, 3.0])
    alive = weakref.ref(values)
    x = gla.from_dlpack(values)
    y = x[1:]
    del values, x
    gc.collect()
    assert alive() is not None
    assert N(y).tolist() == [2.0, 3.0]
    del y
    reclaim()
    assert alive() is None


def test_c3_a_graph_keeps_foreign_memory_until_the_last_executable_goes():
    values = owned([1.0, 2.0])
    alive = weakref.ref(values)
    x, y = gla.from_dlpack(values), gla.zeros(2, dtype="float64")
    graph = gla.capture(lambda x=x: y.assign(x * 10))
    first, second = graph.instantiate(), graph.instantiate()
    del values, x, graph
    reclaim()
    first()
    assert N(y).tolist() == [10.0, 20.0]
    del first
    reclaim()
    assert alive() is not None
    second()
    del second
    reclaim()
    assert alive() is None


def test_a_replay_reads_what_the_producer_wrote_since():
    values, y = np.array([1.0, 2.0]), gla.zeros(2, dtype="float64")
    x = gla.from_dlpack(values)
    exe = gla.capture(lambda: y.assign(x + 1)).instantiate()
    values[:] = [5.0, 6.0]
    exe()
    assert N(y).tolist() == [6.0, 7.0]


def test_an_import_inside_a_capture_is_read_by_its_launches():
    values, y = np.array([1.0, 2.0]), gla.zeros(2, dtype="float64").copy()
    exe = gla.capture(lambda: y.assign(gla.from_dlpack(values) + gla.from_dlpack(values[::-1]))).instantiate()
    values[:] = [5.0, 6.0]
    exe()
    assert N(y).tolist() == [7.0, 7.0]


def test_a20_the_output_of_a_graph_is_not_exported_before_the_first_launch():
    x = gla.asarray(np.arange(3.0))
    graph = gla.capture(lambda: x + 1)
    with pytest.raises(gla.CaptureError):
        np.from_dlpack(graph.outputs)


# --- asarray
def test_asarray_without_a_copy_shares_numpys_memory():
    values = np.arange(3.0)
    x = gla.asarray(values, copy=False)
    values[0] = 7
    assert N(x)[0] == 7
    assert N(gla.asarray(values)).tolist() == values.tolist()
    values[0] = 8
    assert N(x)[0] == 8


@pytest.mark.parametrize("given", [np.zeros((3, 3))[:, :2], np.zeros(3, ">f8"), [1.0, 2.0], 3.0])
def test_asarray_without_a_copy_refuses_what_must_be_copied(given):
    with pytest.raises((gla.ShapeError, gla.DtypeError)):
        gla.asarray(given, copy=False)
    with pytest.raises(gla.DtypeError):
        gla.asarray(np.zeros(3), "float32", copy=False)


def test_asarray_copies_arrays_of_other_libraries():
    values = np.arange(3.0)
    x = gla.asarray(Producer(values))
    values[:] = 9
    assert N(x).tolist() == [0.0, 1.0, 2.0]
    assert gla.asarray(Producer(values), "float32").dtype == "float32"
    assert N(gla.asarray(Producer(values), copy=False) + 1).tolist() == [10.0] * 3


# --- export on the host
@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_reads_an_export_without_a_copy(dtype):
    x = gla.asarray((np.arange(6) % 2).astype(dtype).reshape(2, 3))
    values = np.from_dlpack(x)
    assert values.dtype == dtype and values.tolist() == N(x).tolist()
    assert values.__array_interface__["data"][0] == x._buffer.storage.address


def test_an_export_sees_later_writes_and_writes_through():
    x = gla.asarray(np.arange(3.0))
    values = np.from_dlpack(x)
    x += 1
    assert values.tolist() == [1.0, 2.0, 3.0]
    if values.flags.writeable:
        values[0] = 9
        assert N(x)[0] == 9


def test_an_export_computes_a_pending_value_and_keeps_its_memory():
    values = np.from_dlpack(gla.asarray(np.arange(4.0)) * 2)
    reclaim()
    junk = [gla.asarray(np.full(4, k)) for k in range(20)]
    assert values.tolist() == [0.0, 2.0, 4.0, 6.0] and len(junk) == 20
    del values
    reclaim()


def test_an_export_lets_go_when_the_consumer_does():
    machine = engine.machine("host")
    reclaim()
    before = machine.memory()["in_use"]
    for versioned in (None, (1, 0)):
        x = gla.asarray(np.zeros(1 << 20))
        values = x.__dlpack__(max_version=versioned)
        del x, values  # nobody took the capsule
        reclaim()
        x = gla.asarray(np.zeros(1 << 20))
        values = np.from_dlpack(x)
        del x
        reclaim()
        assert machine.memory()["in_use"] >= before + (8 << 20)
        del values
        reclaim()
        assert machine.memory()["in_use"] == before
    assert not capsule._alive


def test_the_deleter_only_publishes(monkeypatch):
    x = gla.asarray(np.zeros(4))
    taken = x.__dlpack__()
    device = engine.machine("host").device

    def never(*_):
        raise AssertionError("a driver call in a finalizer")

    for name in ("release", "create_event", "record", "synchronize", "query"):
        monkeypatch.setattr(device, name, never)
    del x, taken
    gc.collect()
    monkeypatch.undo()
    reclaim()


def test_export_options():
    x = gla.asarray(np.arange(3.0))
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="has no stream"):
        x.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="cannot be exported"):
        x.__dlpack__(dl_device=(2, 0))
    shared, copied = gla.from_dlpack(x), np.from_dlpack(x, copy=True)
    x += 1
    assert copied.tolist() == [0.0, 1.0, 2.0]
    assert N(shared).tolist() == [1.0, 2.0, 3.0]
    assert not hasattr(x, "__cuda_array_interface__")


def test_in_a_capture_or_trace_nothing_is_exported():
    x = gla.asarray(np.arange(3.0))
    with pytest.raises(gla.CaptureError):
        gla.capture(lambda: np.from_dlpack(x))
    with pytest.raises(gla.TraceError):
        gla.function(np.from_dlpack)(x)


def test_c4_a_free_waits_for_the_consumer():
    x = gla.asarray(np.arange(4.0))
    values = np.from_dlpack(x)
    x.free()
    reclaim()
    junk = [gla.asarray(np.full(4, -1.0)) for _ in range(20)]
    assert values.tolist() == [0.0, 1.0, 2.0, 3.0] and len(junk) == 20
    leased = engine.machine("host").memory()["leased"]
    del values
    reclaim()
    assert engine.machine("host").memory()["leased"] < leased


def test_freed_memory_is_not_exported():
    x = gla.asarray(np.arange(3.0))
    x.free()
    with pytest.raises(gla.DeviceError, match="given back with free"):
        x.__dlpack__()


# --- CUDA, by a driver in Python
@pytest.fixture
def table(monkeypatch, tmp_path):
    from gla.device.cuda.device import CudaDevice
    from gla.device.cuda.driver import Driver
    from gla.runtime.cache import ImageCache

    made = FakeTable()
    machine = Machine(CudaDevice(Driver(made, 0)), ImageCache(tmp_path))
    monkeypatch.setattr(engine, "_executables", weakref.WeakValueDictionary())  # those of another test's machine
    monkeypatch.setitem(devices._machines, "cuda:0", machine)
    monkeypatch.setitem(devices._machines, "cuda", machine)
    with gla.device("cuda:0"):
        yield made


class Remote:
    """An array on the GPU of another library: memory of the fake driver, and what was asked of it."""

    def __init__(self, values):
        self.values, self.asked = values, []

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, **options):
        self.asked.append(options)
        v = self.values
        steps = tuple(s // v.itemsize for s in v.strides)
        contents = capsule.Contents(v.ctypes.data, as_dtype(v.dtype), v.shape, steps, False, v)
        return capsule.pack(contents, (2, 0), "max_version" in options, False, lambda: None)


def ordering(table):
    """(waiting stream, recorded stream) of each pair of record and wait, in order."""
    calls = [(n, a) for n, a in table.calls if n in ("cuEventRecord", "cuStreamWaitEvent")]
    pairs = []
    for (first, a), (second, b) in pairwise(calls):
        if (first, second) == ("cuEventRecord", "cuStreamWaitEvent"):
            pairs.append((int(b[0]), int(a[1])))
    return pairs


def test_k2_an_import_tells_the_producer_our_stream(table):
    x = Remote(np.arange(4.0))
    y = gla.from_dlpack(x)
    assert y.device == "cuda:0"
    assert x.asked == [{"max_version": (1, 0), "stream": int(engine.machine("cuda:0").current_stream().handle)}]
    assert y._buffer.storage.address == x.values.ctypes.data


@pytest.mark.parametrize(("stream", "handle"), [(None, 1), (1, 1), (2, 2), (0x7000, 0x7000)])
def test_g112_an_export_orders_the_consumers_stream(table, stream, handle):
    x = gla.asarray(np.arange(4.0)) * 2
    gla.eval(x)
    mine = int(engine.machine("cuda:0").stream.handle)
    table.calls.clear()
    held = x.__dlpack__(stream=stream)
    assert ordering(table) == [(handle, mine)]
    table.calls.clear()
    x += 1
    assert (mine, handle) in ordering(table)
    assert held is not None


def test_g112_minus_one_asks_for_no_ordering_and_only_that(table):
    x = gla.asarray(np.arange(4.0)) * 2
    gla.eval(x)
    table.calls.clear()
    held = x.__dlpack__(stream=-1)
    assert ordering(table) == [] and held is not None
    for wrong in (0, -2, True, "a"):
        with pytest.raises(BufferError, match="ambiguous"):
            x.__dlpack__(stream=wrong)


def test_k2_memory_goes_back_only_after_an_event_on_the_consumers_stream(table):
    machine = engine.machine("cuda:0")
    x = gla.asarray(np.arange(4.0))
    held = x.__dlpack__(stream=0x7000)
    del x
    gc.collect()
    machine.gate.drain()
    table.calls.clear()
    del held
    gc.collect()
    assert "cuEventRecord" not in table.names()
    machine.gate.drain()
    assert next(int(a[1]) for n, a in table.calls if n == "cuEventRecord") == 0x7000


def test_k1_a_stream_that_another_library_captures_is_refused(table, monkeypatch):
    machine = engine.machine("cuda:0")
    x = gla.asarray(np.arange(4.0))
    monkeypatch.setattr(machine.device, "captured_by", lambda stream: "other" if int(stream) == 0x7000 else "")
    with pytest.raises(gla.CaptureError, match="captured by another library"):
        x.__dlpack__(stream=0x7000)
    assert x.__dlpack__(stream=2) is not None
    monkeypatch.setattr(machine.device, "captured_by", lambda stream: "other")
    monkeypatch.setattr(Remote, "__module__", "torch.cuda")
    with pytest.raises(gla.CaptureError, match="captured by PyTorch"):
        gla.from_dlpack(Remote(np.arange(4.0)))


def test_k1_a_stream_that_the_user_brought_is_asked_before_it_is_used(table, monkeypatch):
    machine = engine.machine("cuda:0")
    x, y = gla.asarray(np.arange(4.0)), gla.asarray(np.zeros(4))
    exe = gla.capture(lambda: y.assign(x + 1)).instantiate()
    brought = gla.Stream(handle=0x7000)
    exe.launch(brought)
    monkeypatch.setattr(machine.device, "captured_by", lambda stream: "other" if stream == 0x7000 else "")
    table.calls.clear()
    for use in (lambda: exe.launch(brought), brought.__enter__):
        with pytest.raises(gla.CaptureError, match="captured by another library"):
            use()
    assert "cuGraphLaunch" not in table.names()
    exe()


def test_the_cuda_array_interface_both_ways(table):
    x = gla.asarray(np.arange(6, dtype="float32").reshape(2, 3))
    given = x.__cuda_array_interface__
    mine = int(engine.machine("cuda:0").stream.handle)
    assert given == {
        "shape": (2, 3), "typestr": "<f4", "data": (x._buffer.storage.address, False), "version": 3, "strides": None,
        "stream": mine,
    }  # fmt: skip

    class Other:
        __cuda_array_interface__ = given | {"stream": 0x7000, "strides": (12, 4)}

    table.calls.clear()
    y = gla.from_dlpack(Other())
    assert (y.shape, y.dtype, y._buffer.storage.address) == ((2, 3), "float32", x._buffer.storage.address)
    assert ordering(table) == [(mine, 0x7000)]


# --- on a GPU
@pytest.mark.gpu
def test_g112_gpu_an_export_on_another_stream_is_ordered_after_a_long_kernel():
    with gla.device("cuda"):
        a, b = gla.Stream(), gla.Stream()
        x = gla.zeros(1 << 24, dtype="float32").copy()
        f = gla.function(lambda x: gla.fori(0, 200, lambda k, v: gla.sin(v) + 1, x))
        expected = N(f(x))
        with gla.stream(a):
            y = f(x)
            gla.eval(y)
        with gla.stream(b):
            z = gla.from_dlpack(_Asked(y)) + 0
            gla.eval(z)
        assert np.array_equal(N(z), expected)


class _Asked:
    """An array of gla as another library's: the import passes through the protocol."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


@pytest.mark.gpu
def test_k1_g111_gpu_inside_a_capture_of_pytorch_gla_refuses():
    torch = pytest.importorskip("torch")
    t = torch.ones(4, device="cuda")
    f = gla.function(lambda x: x + 1)
    f(gla.from_dlpack(t))
    with pytest.raises(gla.CaptureError, match="PyTorch"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        f(gla.from_dlpack(t))


@pytest.mark.gpu
def test_k2_gpu_pytorch_both_ways():
    torch = pytest.importorskip("torch")
    t = torch.arange(4.0, device="cuda")
    x = gla.from_dlpack(t)
    x += 1
    assert torch.from_dlpack(x).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert torch.as_tensor(x * 2, device="cuda").tolist() == [2.0, 4.0, 6.0, 8.0]
