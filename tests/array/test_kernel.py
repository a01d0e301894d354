"""`gla.kernel`: declarations, arguments, and what reaches the driver (a driver in Python; values need a GPU)."""

import gc
import weakref

import numpy as np
import pytest
from device.cuda.fake import FakeTable

import gla
from gla.array import engine
from gla.array.declaration import declaration
from gla.runtime import devices
from gla.runtime.machine import Machine

SCALE = """
// skaliert: y = a·x  (非 ASCII)
extern "C" __global__ void scale(const float* __restrict__ x, float a, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}
"""


@pytest.fixture
def table(monkeypatch, tmp_path):
    """A CUDA device over the fake driver is "cuda:0" and current; what it launched is in `table.calls`."""
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


def A(values, dtype="float32"):
    return gla.asarray(np.array(values), dtype)


@pytest.fixture
def seen(table):
    """Launches with their parameters, copied at the moment of the launch."""
    found = []
    launch = table.cuLaunchKernel

    def cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, pointers, extra):
        import ctypes

        words = [ctypes.c_uint64.from_address(int(p)).value for p in pointers]
        found.append(((gx, gy, gz), (bx, by, bz), shared, words))
        return launch(function, gx, gy, gz, bx, by, bz, shared, stream, pointers, extra)

    machine = devices._machines["cuda:0"]
    machine.device._launch_kernel = cuLaunchKernel
    return found


def address(x):
    return x._buffer.storage.address


def bits(value):
    return int(np.float32(value).view(np.uint32))


# --- declarations
@pytest.mark.parametrize(
    ("text", "pointer", "const", "dtype"),
    [
        ("float* x", True, False, "float32"),
        ("const float *__restrict__ x", True, True, "float32"),
        ("float const* const x", True, True, "float32"),
        ("double out[]", True, False, "float64"),
        ("unsigned long long n", False, True, "uint64"),
        ("long int unsigned n", False, True, "uint64"),
        ("const int n = 3", False, True, "int32"),
        ("bool flag", False, True, "bool"),
        ("uint8_t*", True, False, "uint8"),
        ("size_t", False, True, "uint64"),
        ("__half* h", True, False, "float16"),
        ("const float2* z", True, True, "complex64"),
        ("thrust::complex<double>* z", True, False, "complex128"),
        ("std::int32_t n", False, True, "int32"),
        ("signed char c", False, True, "int8"),
    ],
)
def test_parameters_are_read_as_declared(text, pointer, const, dtype):
    (parameter,) = declaration(f'extern "C" __global__ void f({text}) {{}}', "f").parameters
    assert (parameter.pointer, parameter.const, parameter.dtype.name) == (pointer, const, dtype)


@pytest.mark.parametrize("definition", ["typedef double real;", "using real = double;", "#define real double"])
def test_types_that_the_source_names_itself_are_looked_up(definition):
    made = declaration(f'{definition}\nextern "C" __global__ void f(const real* x, real a) {{}}', "f")
    assert [p.dtype.name for p in made.parameters] == ["float64", "float64"]


def test_comments_and_other_kernels_are_passed_over():
    source = """// __global__ void f(double* no)
    /* extern "C" __global__ void f(int no) {} */
    extern "C" { __global__ void g(int a) {}
    __global__ void __launch_bounds__(256) f(float* /* the , result */ y) {} }"""
    made = declaration(source, "f")
    assert [p.name for p in made.parameters] == ["y"]
    assert made.source == source


def test_a_kernel_gets_c_linkage_where_it_has_none():
    made = declaration('extern "C" { int k; }\n__global__ void f(int n) {}', "f")
    assert made.source == 'extern "C" { int k; }\nextern "C" __global__ void f(int n) {}'


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("__global__ void g(int n) {}", "declares no kernel 'f'; it has g"),
        ("template <class T> __global__ void f(T* x) {}", "is a template"),
        ("__global__ void f(float** x) {}", "a pointer to pointers"),
        ("__global__ void f(float& x) {}", "a reference"),
        ("struct P { float a, b; }; __global__ void f(P p) {}", "'P' by value"),
        ("struct P { float a, b; }; __global__ void f(P* p) {}", "a pointer to 'P'"),
        ("__global__ void f(double2 z) {}", "'double2' by value"),
    ],
)
def test_what_cannot_be_passed_is_refused_when_the_kernel_is_made(source, said):
    with pytest.raises(gla.DtypeError, match=said.replace("*", r"\*")):
        gla.kernel(source, "f")


# --- the host device
def test_on_the_host_device_a_kernel_says_that_it_needs_a_gpu():
    k = gla.kernel(SCALE, "scale")
    x = gla.asarray(np.zeros(4, np.float32), device="host")
    with pytest.raises(gla.DeviceError, match=r"CUDA C\+\+.*on host") as caught:
        k[1, 32](x, 2.0, x, 4)
    assert caught.value.code == "GLA0570"


def test_in_the_trace_of_a_function_a_kernel_is_refused():
    k = gla.kernel(SCALE, "scale")
    f = gla.function(lambda x: (k[1, 32](x, 2.0, x, 4), x)[1])
    with pytest.raises(gla.TraceError, match="kernel scale is launched inside"):
        f(gla.asarray(np.zeros(4, np.float32), device="host"))


# --- arguments
def test_g123_numbers_take_the_declared_type(table, seen):
    x, y = A([1.0, 2.0]), A([0.0, 0.0])
    gla.kernel(SCALE, "scale")[2, 64](x, 5, y, np.int64(2))
    assert seen == [((2, 1, 1), (64, 1, 1), 0, [address(x), bits(5.0), address(y), 2])]


def test_grid_block_and_shared_bytes(table, seen):
    k = gla.kernel("__global__ void f(int n) {}", "f")
    k[(2, 3), (4, 5, 6), 1024](7)
    assert seen == [((2, 3, 1), (4, 5, 6), 1024, [7])]


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (lambda x: (x, 2.0, x), gla.DtypeError, r"takes 4 argument\(s\).*3 given"),
        (lambda x: (x, 2.0, x, 4.0), gla.DtypeError, r"n is declared int n, and 4.0 \(float\) is given"),
        (lambda x: (x, x, x, 4), gla.DtypeError, "a is declared float a"),
        (lambda x: (x, 2.0, 5, 4), gla.DtypeError, r"y is declared float\* y, and a int is given"),
        (lambda x: (x, 2.0, A([1.0], "float64"), 4), gla.DtypeError, r"y is declared float\* y, and f64\[1\] is given"),
        (lambda x: (x, 2.0, x, 1 << 31), gla.RangeError, "n = 2147483648 does not fit int n"),
        (lambda x: (x, 1j, x, 4), gla.DtypeError, "1j"),
        (lambda x: (np.zeros(2, np.float32), 1.0, x, 4), gla.DtypeError, "a ndarray is given"),
    ],
)
def test_g123_a_wrong_count_or_kind_is_refused_before_anything_runs(table, seen, arguments, error, said):
    with pytest.raises(error, match=said):
        gla.kernel(SCALE, "scale")[1, 32](*arguments(A([1.0, 2.0])))
    assert seen == []


@pytest.mark.parametrize("extents", [(1,), (1, 2, 3, 4), (1.5, 32), ((1, 1, 1, 1), 32), (-1, 32), (1, 2048), ((1, 70_000), 1)])
def test_extents_that_no_launch_has_are_refused(table, seen, extents):
    with pytest.raises((gla.DtypeError, gla.RangeError)):
        gla.kernel("__global__ void f(int n) {}", "f")[extents](7)
    assert seen == []


def test_g120_a_grid_of_no_blocks_launches_nothing(table, seen):
    gla.kernel(SCALE, "scale")[0, 64](A([]), 5, A([]), 0)
    assert seen == []


# --- views
def test_g57_a_contiguous_slice_gets_its_own_pointer(table, seen):
    x, y = A(np.zeros((4, 8))), A(np.zeros(16))
    gla.kernel(SCALE, "scale")[1, 32](x[1:3], 1.0, y[4:].reshape(3, 4)[1], 4)
    assert seen[0][3][0] == address(x) + 4 * 8
    assert seen[0][3][2] == address(y) + 4 * 8


@pytest.mark.parametrize(
    "view", [lambda x: x[:, :4], lambda x: x.T, lambda x: x[::2], lambda x: gla.broadcast_to(x[0], (4, 8)), lambda x: x[::-1]]
)
def test_g57_what_is_not_contiguous_is_refused_and_a_copy_offered(table, seen, view):
    x, y = A(np.zeros((4, 8))), A(np.zeros(32))
    with pytest.raises(gla.ShapeError, match="not contiguous") as caught:
        gla.kernel(SCALE, "scale")[1, 32](view(x), 1.0, y, 4)
    assert "x.copy()" in str(caught.value)
    assert seen == []


def test_pending_readers_of_what_a_kernel_writes_are_computed_before(table, seen):
    x, y = A([1.0, 2.0]), A([0.0, 0.0])
    before = y + 1
    gla.kernel(SCALE, "scale")[1, 32](x, 1.0, y, 2)
    assert before._buffer is not None
    assert table.names().index("cuGraphLaunch") < table.names().index("cuLaunchKernel")


def test_a_lazy_argument_is_computed_before(table, seen):
    x, y = A([1.0, 2.0]) * 2, A([0.0, 0.0])
    gla.kernel(SCALE, "scale")[1, 32](x, 1.0, y, 2)
    assert seen[0][3][0] == address(x)


def test_a_view_taken_before_a_kernel_wrote_the_array_is_stale(table, seen):
    x, y = A([1.0, 2.0]), A([0.0, 0.0])
    old, passed = y[:1], y[:1]
    k = gla.kernel(SCALE, "scale")
    k[1, 32](x, 1.0, passed, 1)
    k[1, 32](x, 1.0, passed, 1)
    with pytest.raises(gla.AliasError):
        k[1, 32](x, 1.0, old, 1)


def test_an_argument_that_overlaps_a_written_one_in_part_is_refused(table, seen):
    x = A(np.zeros(8))
    k = gla.kernel(SCALE, "scale")
    with pytest.raises(gla.AliasError, match="writes y, and x overlaps it in part"):
        k[1, 32](x[1:5], 1.0, x[:4], 4)
    k[1, 32](x[:4], 1.0, x[4:], 4)
    k[1, 32](x, 1.0, x, 8)
    assert len(seen) == 2


def test_h4_a_kernel_writes_pinned_memory_in_place_and_reads_a_copy(table, seen):
    p = gla.pinned(np.zeros(4, np.float32))
    gla.kernel(SCALE, "scale")[1, 32](p, 2.0, p, 4)
    (words,) = (s[3] for s in seen)
    assert words[2] == p._storage.address != words[0]


# --- captures
def test_h4_a_captured_kernel_reads_pinned_memory_at_each_launch(table, seen):
    p, y = gla.pinned(np.zeros(4, np.float32)), A(np.zeros(4))
    graph = gla.capture(lambda: gla.kernel(SCALE, "scale")[1, 32](p, 2.0, y, 4))
    assert graph.record._record.addresses == [p._storage.address, address(y)]


def test_a_captured_kernel_is_one_node_and_runs_nothing(table, seen):
    x, y = A([1.0, 2.0]), A([0.0, 0.0])
    graph = gla.capture(lambda: gla.kernel(SCALE, "scale")[1, 32](x, 3.0, y, 2))
    assert seen == []
    assert repr(graph) == "<gla.Graph on cuda:0: 1 node (1 kernel)>"
    assert "scale" in graph.dot()
    (node,) = graph.record.nodes
    assert node.call.geometry.block == (32, 1, 1)
    assert graph.record._record.addresses == [address(x), address(y)]


def test_a_captured_kernel_stands_between_what_was_done_before_and_after(table, seen):
    x, y, z = A([1.0, 2.0]), A([0.0, 0.0]), A([0.0, 0.0])
    k = gla.kernel(SCALE, "scale")

    def body():
        x.assign(x + 1)
        k[1, 32](x, 2.0, y, 2)
        z.assign(y * 2)

    nodes = gla.capture(body).record.nodes
    assert [n.call.label == "scale" for n in nodes if n.kind == "kernel"] == [False, True, False]
    order = {id(n): k for k, n in enumerate(nodes)}
    middle = next(k for k, n in enumerate(nodes) if n.kind == "kernel" and n.call.label == "scale")
    assert all(order[id(n)] < middle for n in nodes[:middle])
    assert nodes[middle].after == (middle - 1,) or middle - 1 in nodes[middle].after


def test_in_a_capture_a_value_read_before_the_kernel_keeps_the_old_contents(table, seen):
    x, y, z = A([1.0, 2.0]), A([0.0, 0.0]), A([0.0, 0.0])
    k = gla.kernel(SCALE, "scale")

    def body():
        old = y + 1
        k[1, 32](x, 2.0, y, 2)
        z.assign(old)

    graph = gla.capture(body)
    parts = graph.parts
    assert [type(p).__name__ for p in parts] == ["Recorded", "Launched", "Recorded"]
    assert parts[0].outputs[0] in parts[2].used


def test_in_a_capture_values_made_there_get_memory_for_the_kernel(table, seen):
    x = A([1.0, 2.0])
    k = gla.kernel(SCALE, "scale")

    def body():
        t, y = x * 2, gla.zeros(2, dtype="float32")
        k[1, 32](t, 2.0, y, 2)
        return y + t

    graph = gla.capture(body)
    assert [type(p).__name__ for p in graph.parts] == ["Recorded", "Launched", "Recorded"]
    t, y = graph.parts[1].buffers
    assert t.storage.address != y.storage.address


def test_g08_an_executable_keeps_the_module_of_a_kernel(table, seen):
    x, y = A([1.0, 2.0]), A([0.0, 0.0])
    k = gla.kernel(SCALE, "scale")
    graph = gla.capture(lambda: k[1, 32](x, 3.0, y, 2))  # noqa: F821 - deleted below
    exe = graph.instantiate()
    machine = engine.machine("cuda:0")
    del k, graph
    gc.collect()
    machine.reclaim()
    exe()
    assert "cuModuleUnload" not in table.names()
    del exe
    gc.collect()
    machine.reclaim()
    assert table.names().count("cuModuleUnload") >= 1


def test_an_executable_with_a_kernel_is_recorded_into_another_capture(table, seen):
    x, y = A([1.0, 2.0]), A([0.0, 0.0])
    k = gla.kernel(SCALE, "scale")
    exe = gla.capture(lambda: (k[1, 32](x, 3.0, y, 2), y.assign(y + 1))).instantiate()
    graph = gla.capture(lambda: (exe(), exe()))
    assert [n.call.label == "scale" for n in graph.record.nodes if n.kind == "kernel"] == [True, False, True, False]


def test_a_captured_function_launches_its_kernel_on_every_call(table, seen):
    x, y = A([1.0, 2.0]), A([0.0, 0.0])
    k = gla.kernel(SCALE, "scale")

    @gla.captured
    def step(x, y, a):
        k[1, 32](x, a, y, 2)

    step(x, y, 1.0)
    step(x, y, 2.0)
    assert [s[3][1] for s in seen] == [bits(1.0), bits(2.0)]


# --- the compiler
def test_a_kernel_that_does_not_compile_shows_the_log_and_the_users_line(table):
    k = gla.kernel('extern "C" __global__ void f(float* x)\n{\n    x[0] = unknown;\n}', "f")
    with pytest.raises(gla.DeviceError, match="unknown") as caught:
        k[1, 1](A([1.0]))
    assert caught.value.code == "GLA0571"
    assert caught.value.diagnostic.labels[0].span.line == 3
    assert "fault of gla" not in str(caught.value)


def test_g48_a_missing_header_names_the_wheel(table, monkeypatch):
    from gla.device.cuda import nvrtc

    monkeypatch.setattr(nvrtc, "_includes", lambda source: [])
    k = gla.kernel('#include <cuda_fp16.h>\nextern "C" __global__ void f(__half* x) {}', "f")
    with pytest.raises(gla.DeviceError, match="cuda_fp16") as caught:
        k[1, 1](A([1.0], "float16"))
    assert "nvidia-cuda-runtime-cu12" in str(caught.value)


def test_g49_comments_outside_of_ascii_compile(table, seen):
    gla.kernel(SCALE, "scale")[1, 32](A([1.0]), 1.0, A([1.0]), 1)
    assert len(seen) == 1


# --- on a GPU
@pytest.fixture
def gpu():
    with gla.device("cuda"):
        yield


@pytest.mark.gpu
def test_g123_gpu_values(gpu):
    x, y = A([1.0, 2.0, 3.0]), A([0.0, 0.0, 0.0])
    gla.kernel(SCALE, "scale")[1, 32](x, 5.0, y, 3)
    assert np.asarray(y).tolist() == [5.0, 10.0, 15.0]


@pytest.mark.gpu
def test_g08_gpu_replay_after_everything_else_is_gone(gpu):
    x, y = A(np.arange(32.0)), A(np.zeros(32))
    k = gla.kernel(SCALE, "scale")
    graph = gla.capture(lambda: k[1, 32](x, 2.0, y, 32))  # noqa: F821 - deleted below
    exe = graph.instantiate()
    del k, graph
    gc.collect()
    engine.machine("cuda:0").reclaim()
    exe()
    assert np.asarray(y).tolist() == (2.0 * np.arange(32.0)).tolist()


@pytest.mark.gpu
def test_g57_gpu_an_offset_slice_is_read_and_written_in_place(gpu):
    x, y = A(np.arange(32.0).reshape(4, 8)), A(np.zeros(16))
    gla.kernel(SCALE, "scale")[1, 32](x[1:3], 1.0, y[8:], 8)
    assert np.asarray(y).tolist() == [0.0] * 8 + list(range(8, 16))


@pytest.mark.gpu
def test_gpu_a_kernel_between_programs_of_a_capture(gpu):
    x, y = A([1.0, 2.0]), A([0.0, 0.0])
    k = gla.kernel(SCALE, "scale")

    def body():
        old = y + 0
        x.assign(x + 1)
        k[1, 32](x, 2.0, y, 2)
        return old, y * 10

    graph = gla.capture(body)
    exe = graph.instantiate()
    for n in (1, 2, 3):
        exe()
        old, new = (np.asarray(v).tolist() for v in graph.outputs)
        assert new == [20.0 * (1 + n), 20.0 * (2 + n)]
        assert old == ([0.0, 0.0] if n == 1 else [2.0 * n, 2.0 * (n + 1)])


@pytest.mark.needs_two_gpus
def test_g80_a_kernel_runs_on_each_device():
    k = gla.kernel(SCALE, "scale")
    for name in ("cuda:0", "cuda:1", "cuda:0"):
        with gla.device(name):
            x, y = A([1.0, 2.0]), A([0.0, 0.0])
            k[1, 32](x, 3.0, y, 2)
            assert np.asarray(y).tolist() == [3.0, 6.0]
