"""Guarantees A: capture and replay, as users see them (the same under the array front end: test_graph.py)."""

from __future__ import annotations

import asyncio
import gc
import threading

import numpy as np
import pytest

import gla
from gla.array import engine
from gla.errors import CaptureError, DeviceError, GraphError
from tests.runtime.conftest import A, N


def leased(name: str) -> int:
    gc.collect()
    return engine.machine(name).memory()["leased"]


def test_a1_contents_are_unchanged_after_a_capture(name):
    x, y = A([1.0, 2.0]), A([0.0, 0.0])
    graph = gla.capture(lambda: y.assign(x * 3))
    assert N(y).tolist() == [0.0, 0.0] and N(x).tolist() == [1.0, 2.0] and len(graph) == 1


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a2_is_capturing_inside_only(name, error):
    seen = []

    def body():
        seen.append(gla.is_capturing())
        raise error

    assert not gla.is_capturing()
    with pytest.raises(error):
        gla.capture(body)
    assert seen == [True] and not gla.is_capturing()


def test_a3_every_way_of_launching_applies_the_operations_once(name):
    x = A([0.0, 0.0])
    exe = gla.capture(lambda: x.assign(x + 1)).instantiate()
    exe()
    exe.launch()
    exe.launch(gla.Stream())
    asyncio.run(exe.launch_async())
    assert N(x).tolist() == [4.0, 4.0]


def test_a4_replays_read_current_contents(name):
    x, y = A([1.0]), A([0.0])
    exe = gla.capture(lambda: y.assign(x * 10)).instantiate()
    for value in (1.0, 7.0, -2.0):
        x.assign(A([value]))
        exe()
        assert N(y).tolist() == [10 * value]


def test_a5_an_empty_capture_is_a_graph_of_no_nodes(name):
    graph = gla.capture(lambda: None)
    assert len(graph) == 0 == len(gla.Graph())
    graph.instantiate()()


def test_a6_upload_runs_nothing(name):
    x = A([0.0])
    exe = gla.capture(lambda: x.assign(x + 1)).instantiate()
    exe.upload()
    exe.upload(gla.Stream())
    assert N(x).tolist() == [0.0]
    exe()
    assert N(x).tolist() == [1.0]


def test_a7_repr_and_dot_speak_to_people(name):
    x, y = A(np.zeros((4, 4))), A(np.zeros((4, 4)))
    graph = gla.capture(lambda: y.assign(gla.sin(x) @ x))
    kernels = 1 if name == "host" else 2  # a small product is a kernel on CUDA, a library call on the host
    assert f"{kernels} kernel" in repr(graph) and f"on {name}" in repr(graph)
    text = graph.dot()
    assert text.startswith("digraph") and "sin" in text and "test_a_capture.py" in text and "bytes" in text and "->" in text


def test_a8_what_cannot_be_captured_is_none_when_asked_for(name):
    x = A([1.0])
    assert gla.capture(lambda: float(x[0]), on_unsupported="none") is None
    assert gla.capture(x.numpy, on_unsupported="none") is None
    with pytest.raises(CaptureError):
        gla.capture(lambda: float(x[0]))
    with pytest.raises(ZeroDivisionError):
        gla.capture(lambda: 1 / 0, on_unsupported="none")
    with pytest.raises(GraphError, match="on_unsupported"):
        gla.capture(lambda: None, on_unsupported="maybe")
    assert len(gla.capture(lambda: x.assign(x + 1), on_unsupported="none")) == 1


def test_a8_a_programs_own_fault_propagates(name):
    from threading import Event

    release = Event()

    def body():
        gla.spawn(release.wait)

    try:
        with pytest.raises(CaptureError, match="not finished"):
            gla.capture(body, on_unsupported="none")
    finally:
        release.set()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, CaptureError])
def test_a9_a_failed_capture_leaves_nothing_behind(name, error):
    x = A([1.0])
    before, held = gla.current_stream(), leased(name)

    def body():
        x.assign(x + 1)
        assert gla.current_stream() is not before
        if error is CaptureError:
            float(x[0])
        raise error

    with pytest.raises(error):
        gla.capture(body)
    assert gla.current_stream() is before and leased(name) == held and engine.machine(name).gate.captures == 0
    assert N(x).tolist() == [1.0]
    gla.capture(lambda: x.assign(x + 1)).instantiate()()
    assert N(x).tolist() == [2.0]


@pytest.mark.parametrize("mode", ["relaxed", "thread_local", "global"])
def test_a10_capture_modes(name, mode):
    x, y = A(np.eye(3)), A(np.zeros((3, 3)))
    exe = gla.capture(lambda: y.assign(x @ (x * 2)), mode=mode).instantiate()
    exe()
    np.testing.assert_array_equal(N(y), 2 * np.eye(3))


def test_a10_relaxed_is_the_default_and_others_are_refused(name):
    assert gla.Graph().record.mode == "relaxed" == gla.capture(lambda: None).record.mode
    with pytest.raises(GraphError, match="no capture mode"):
        gla.capture(lambda: None, mode="loose")


def test_a11_the_captures_stream_is_its_own(name):
    own, seen = gla.current_stream(), []
    with gla.Stream() as chosen:

        def body():
            seen.append(gla.current_stream())
            thread = threading.Thread(target=lambda: seen.append(gla.current_stream()))
            thread.start()
            thread.join()

        gla.capture(body)
        assert gla.current_stream() is chosen
    inside, elsewhere = seen
    assert inside not in (own, chosen) and inside.capturing is None and elsewhere is not inside
    assert not engine.machine(name).device.is_blocking(inside.handle)


def test_a12_a_capture_on_a_given_stream(name):
    x, s, seen = A([0.0]), gla.Stream(), []
    exe = gla.capture(lambda: (seen.append(gla.current_stream()), x.assign(x + 1)), stream=s).instantiate()
    exe()
    assert seen == [s] and N(x).tolist() == [1.0] and s.capturing is None
    exe.launch(s)
    assert N(x).tolist() == [2.0]


def test_a12_streams_that_are_refused(name, monkeypatch):
    from gla.device.host import HostDevice
    from gla.device.host.streams import HostStream
    from gla.runtime.machine import Machine

    machine, nothing = engine.machine(name), lambda: None
    with pytest.raises(CaptureError, match="no stream"):
        gla.capture(nothing, stream=7)
    with pytest.raises(CaptureError, match="not a stream of"):
        gla.capture(nothing, stream=Machine(HostDevice()).new_stream())
    blocking = gla.Stream(handle=HostStream(blocking=True) if name == "host" else 1)  # 1: CU_STREAM_LEGACY
    with pytest.raises(CaptureError, match="default stream"):
        gla.capture(nothing, stream=blocking)
    s = gla.Stream()
    with pytest.raises(CaptureError, match="another capture"):
        gla.capture(lambda: gla.capture(nothing, stream=s), stream=s)
    monkeypatch.setattr(type(machine.device), "query", lambda self, event: False)
    with pytest.raises(CaptureError, match="busy"):
        gla.capture(nothing, stream=s)
    monkeypatch.undo()
    gla.capture(nothing, stream=s)


def test_a13_nested_captures_use_streams_of_their_own(name):
    x, y, seen = A([0.0]), A([0.0]), []

    def inner():
        seen.append(gla.current_stream())
        y.assign(y + 10)

    def outer():
        x.assign(x + 1)
        seen.append(gla.current_stream())
        graphs.append(gla.capture(inner))
        seen.append(gla.current_stream())
        x.assign(x * 2)

    graphs = []
    exe = gla.capture(outer).instantiate()
    assert seen[0] is seen[2] and seen[1] is not seen[0]
    exe()
    assert N(x).tolist() == [2.0] and N(y).tolist() == [0.0]
    graphs[0].instantiate()()
    assert N(y).tolist() == [10.0]


def test_a13_a_capture_that_fails_to_begin_leaves_the_outer_one_intact(name):
    x, y = A([0.0]), A([0.0])

    def outer():
        x.assign(x + 1)
        with pytest.raises(CaptureError):
            gla.capture(lambda: y.assign(x), stream="none")
        with pytest.raises(IndexError):
            gla.capture(lambda: (y.assign(y + 1), [][0]))  # noqa: PLE0643 - it shall fail
        assert gla.is_capturing()
        x.assign(x + 1)

    exe = gla.capture(outer).instantiate()
    exe()
    assert N(x).tolist() == [2.0] and N(y).tolist() == [0.0]


def test_a14_captured_follows_scalars_arrays_and_structure(name):
    @gla.captured
    def advance(u, v, dt, twice):
        u += dt * v
        if twice:
            u *= 2.0
        return u - v

    u, v = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.25, 4.0])
    x, y = A(u), A(v)
    for k in range(12):
        dt, twice = 0.1 * k, k % 5 == 4
        u = u + dt * v
        u = u * 2.0 if twice else u
        np.testing.assert_array_equal(N(advance(x, y, dt, twice)), u - v)
        np.testing.assert_array_equal(N(x), u)
        if k == 6:
            x, y, v = A(u), A(v + 1), v + 1
    stats = advance.stats()
    assert stats.calls == 12 and stats.plans == 2 and stats.instantiations <= 8


def test_a14_the_body_runs_on_every_call_and_results_stay(name):
    runs = []

    @gla.captured
    def f(x):
        runs.append(1)
        return x + len(runs)

    x = A([0.0])
    results = [f(x) for _ in range(5)]
    assert len(runs) == 5 and [N(r).item() for r in results] == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a14_a_body_that_fails_has_run_nothing(name):
    x = A([1.0])

    @gla.captured
    def f(fail):
        x.assign(x + 1)
        if fail:
            raise ValueError

    with pytest.raises(ValueError):
        f(True)
    assert N(x).tolist() == [1.0] and not gla.is_capturing()
    f(False)
    assert N(x).tolist() == [2.0]


def test_a14_methods_and_coroutines_are_captured_too(name):
    class Model:
        def __init__(self):
            self.x = A([1.0])

        @gla.captured
        def step(self, k):
            self.x.assign(self.x * k)

    model = Model()
    model.step(3.0)
    model.step(2.0)
    assert N(model.x).tolist() == [6.0]

    @gla.captured
    async def later(x):
        await asyncio.sleep(0)
        return x * 2

    assert N(asyncio.run(later(A([4.0])))).tolist() == [8.0]


def test_a15_kernels_are_compiled_in_a_capture(name):
    x, f = A([0.25]), gla.function(lambda x: gla.asin(x) * 0.7310585 + 0.111)
    graph = gla.capture(lambda: f(x))
    graph.instantiate()()
    np.testing.assert_allclose(N(graph.outputs), np.arcsin(0.25) * 0.7310585 + 0.111, rtol=1e-12)


def test_a16_arrays_of_no_elements_cost_nothing(name):
    x, y = A(np.zeros((0, 3))), A(np.zeros((0, 3)))
    before = leased(name)
    graph = gla.capture(lambda: (y.assign(x + 1), gla.exp(x)))
    assert len(graph) == 0 and leased(name) == before
    graph.instantiate()()
    assert N(graph.outputs[1]).shape == (0, 3)


def test_a17_no_capture_of_the_driver_is_open_while_user_code_runs_and_nothing_is_warmed_up():
    from gla.device.cuda.device import CudaDevice
    from gla.device.cuda.driver import Driver
    from gla.ir.functions import linear
    from gla.ir.graph import Graph as IR
    from gla.runtime.capture import capture
    from gla.runtime.machine import Machine
    from tests.device.cuda.fake import FakeLibrary, FakeTable
    from tests.runtime.conftest import array

    table = FakeTable()
    device = CudaDevice(Driver(table, 0))
    device._library = FakeLibrary(table)
    machine, x = Machine(device), array((4, 4))
    from gla.compiler import program

    def body(scope):
        assert table.capture is None
        return scope.add(program(IR((x,), (linear.matmul(x, x),)), machine), [given])

    given = machine.upload(np.eye(4))
    try:
        graph, _, _ = capture(machine, body)
    except DeviceError as error:  # a generated kernel would need NVRTC and a GPU
        pytest.skip(str(error))
    assert "cuStreamBeginCaptureToGraph" not in table.names()
    table.calls.clear()
    table.fail(table.counted["cuStreamEndCapture"] + 2, "cuStreamEndCapture", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED")
    graph.instantiate()
    names = table.names()
    if "cuStreamBeginCaptureToGraph" in names:  # the product was the library's: scratch, invalidated once, again
        assert names.count("cuStreamBeginCaptureToGraph") == 3
        first, last = names.index("cuStreamBeginCaptureToGraph"), len(names) - names[::-1].index("cuStreamEndCapture")
        assert "cuMemAlloc" not in names[first:last] and "cuCtxSynchronize" not in names


def test_a17_the_first_capture_of_a_product_needs_no_warm_up(name):
    x, y = A(np.eye(5) * 3, "float32"), A(np.zeros((5, 5)), "float32")
    exe = gla.capture(lambda: y.assign((x @ x) @ x)).instantiate()
    exe()
    np.testing.assert_array_equal(N(y), 27 * np.eye(5, dtype=np.float32))


def test_a18_a_failed_capture_leaves_the_graph_as_it_was(name):
    x, graph = A([1.0]), gla.Graph()
    graph.capture(lambda: x.assign(x + 1))
    before, held = graph.dot(), leased(name)

    def body():
        x.assign(x * 100)
        raise ValueError

    with pytest.raises(ValueError):
        graph.capture(body)
    assert graph.dot() == before and leased(name) == held
    graph.instantiate()()
    assert N(x).tolist() == [2.0]


def test_a19_only_writes_and_results_are_recorded(name):
    x, kept = A([1.0, 2.0]), []
    lazy = x * 7

    def body():
        kept.append(x * 2)
        return lazy + 1

    graph = gla.capture(body)
    assert len(graph) == 1
    exe = graph.instantiate()
    exe()
    assert N(graph.outputs).tolist() == [8.0, 15.0]
    lazy.assign(A([0.0, 0.0]))
    exe()
    assert N(graph.outputs).tolist() == [1.0, 1.0]
    with pytest.raises(CaptureError, match=r"neither written nor returned.*") as caught:
        N(kept[0])
    assert "test_a_capture.py" in str(caught.value)


def test_a20_outputs_keep_the_structure_and_hold_the_latest_result(name):
    x = A([1.0])
    graph = gla.capture(lambda: {"a": x + 1, "b": (x * 2, "text", x)})
    exe = graph.instantiate()
    with pytest.raises(CaptureError, match="before the graph's first launch"):
        N(graph.outputs["a"])
    for value in (1.0, 5.0):
        x.assign(A([value]))
        exe()
        double, text, same = exe.outputs["b"]
        assert N(exe.outputs["a"]).item() == value + 1 and N(double).item() == 2 * value
        assert text == "text" and same is x


def test_a21_functions_are_inlined_and_executables_recorded(name):
    x = A([1.0])
    double = gla.function(lambda v: v * 2)
    inner = gla.capture(lambda: x.assign(double(x) + 1)).instantiate()

    def body():
        inner()  # noqa: F821 - deleted below
        x.assign(x + 10)
        inner()  # noqa: F821 - deleted below
        return x * 1.0

    graph = gla.capture(body)
    del inner
    gc.collect()
    graph.instantiate()()
    assert N(x).tolist() == [27.0] and N(graph.outputs).tolist() == [27.0]


def test_a21_outputs_of_an_executable_in_a_capture_are_read_after_it(name):
    x = A([3.0])
    square = gla.capture(lambda: x * x)
    exe = square.instantiate()
    graph = gla.capture(lambda: (exe(), exe.outputs + 1)[1])
    graph.instantiate()()
    assert N(graph.outputs).tolist() == [10.0] and N(square.outputs).tolist() == [9.0]
