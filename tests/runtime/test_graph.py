"""gla.Graph, captures and replays (guarantees A, C, F and G)."""

from __future__ import annotations

import gc
import time

import numpy as np
import pytest

from gla import dtypes
from gla.compiler import program
from gla.errors import CaptureError, DeviceError, GraphError
from gla.ir.builder import apply
from gla.ir.functions import linear, reduce, shape
from gla.ir.functions.control import loop, while_loop
from gla.ir.graph import Graph as IR
from gla.runtime.capture import CaptureScope, capture, current_scope, is_capturing, refuse_look
from gla.runtime.graph import Graph
from gla.runtime.machine import Machine
from tests.runtime.conftest import array, scalar

N = 64


def increment(machine: Machine, n: int = N):
    """x += s, and x * 2 as a result."""
    x, s = array((n,)), scalar()
    return program(IR((x, s), (apply("multiply", x, 2.0),), ((x, apply("add", x, s)),)), machine)


def double(machine: Machine, n: int = N):
    x = array((n,))
    return program(IR((x,), (apply("multiply", x, 2.0),)), machine)


def captured(machine: Machine, x, amount: float) -> Graph:
    return capture(machine, lambda scope: scope.add(increment(machine), [x], [amount]))[0]


def values(machine: Machine, storage, n: int = N) -> np.ndarray:
    return machine.download(storage, np.float64, (n,))


def test_a1_a_capture_runs_nothing(machine: Machine) -> None:
    x = machine.upload(np.arange(float(N)))
    graph, _, _ = capture(machine, lambda scope: scope.add(increment(machine), [x], [5.0]))
    np.testing.assert_array_equal(values(machine, x), np.arange(float(N)))
    assert len(graph) >= 1


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a2_is_capturing_inside_only_also_after_a_failure(machine: Machine, error: type[BaseException]) -> None:
    seen = []

    def body(scope: CaptureScope) -> None:
        seen.append(is_capturing() and current_scope() is scope)
        raise error

    assert not is_capturing()
    with pytest.raises(error):
        capture(machine, body)
    assert seen == [True] and not is_capturing() and machine.gate.captures == 0


def test_a3_n_launches_apply_the_operations_n_times(machine: Machine) -> None:
    x = machine.upload(np.zeros(N))
    graph, _, _ = capture(machine, lambda scope: scope.add(increment(machine), [x], [1.5]))
    exe = graph.instantiate()
    exe()
    exe.launch()
    exe.launch(machine.new_stream())
    np.testing.assert_array_equal(values(machine, x), 4.5)


def test_a4_replay_reads_current_contents(machine: Machine) -> None:
    x = machine.upload(np.ones(N))
    graph, _, outs = capture(machine, lambda scope: scope.add(double(machine), [x]))
    exe = graph.instantiate()
    for k in range(4):
        machine.write(x, np.full(N, float(k)))
        exe()
        np.testing.assert_array_equal(values(machine, outs[0]), 2.0 * k)


def test_a5_an_empty_capture_is_a_graph_of_no_nodes(machine: Machine) -> None:
    graph, _, _ = capture(machine, lambda scope: None)
    assert len(graph) == 0 and len(Graph(machine)) == 0 and graph
    graph.instantiate()()


def test_a6_upload_runs_nothing(machine: Machine) -> None:
    x = machine.upload(np.zeros(N))
    graph, _, _ = capture(machine, lambda scope: scope.add(increment(machine), [x], [1.0]))
    exe = graph.instantiate()
    exe.upload()
    np.testing.assert_array_equal(values(machine, x), 0.0)
    exe()
    exe.synchronize()
    np.testing.assert_array_equal(values(machine, x), 1.0)


def test_a7_repr_counts_nodes_and_dot_names_them(machine: Machine) -> None:
    x = machine.upload(np.zeros(N))
    graph, _, _ = capture(machine, lambda scope: scope.add(double(machine), [x]))
    assert "1 node (1 kernel)" in repr(graph)
    text = graph.dot()
    assert text.startswith("digraph") and "multiply" in text and f"{2 * N * 8:,} bytes" in text


def test_a9_after_a_failed_capture_nothing_is_leased(machine: Machine) -> None:
    x = machine.upload(np.zeros(N))

    def body(scope: CaptureScope) -> None:
        scope.add(increment(machine), [x], [1.0])
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        capture(machine, body)
    assert machine.memory()["leased"] == 0
    graph, _, _ = capture(machine, lambda scope: scope.add(increment(machine), [x], [1.0]))
    graph.instantiate()()
    np.testing.assert_array_equal(values(machine, x), 1.0)


def test_a15_kernels_may_be_compiled_in_a_capture(machine: Machine) -> None:
    x = array((N,))
    given = machine.upload(np.full(N, 0.25))

    def body(scope: CaptureScope):
        return scope.add(program(IR((x,), (apply("asin", apply("subtract", x, 0.125)),)), machine), [given])

    graph, _, outs = capture(machine, body)
    graph.instantiate()()
    np.testing.assert_allclose(values(machine, outs[0]), np.arcsin(0.125), rtol=1e-15)


def test_a16_arrays_of_no_elements_add_no_nodes(machine: Machine) -> None:
    given = machine.upload(np.zeros(0))
    graph, _, outs = capture(machine, lambda scope: scope.add(double(machine, 0), [given]))
    assert len(graph) == 0 and outs[0].nbytes == 0 and machine.memory()["leased"] == 0
    graph.instantiate()()


def test_a18_a_failed_capture_leaves_an_existing_graph_as_it_was(machine: Machine) -> None:
    x = machine.upload(np.zeros(N))
    graph, _, _ = capture(machine, lambda scope: scope.add(increment(machine), [x], [1.0]))
    nodes, leased = len(graph), machine.memory()["leased"]

    def body(scope: CaptureScope) -> None:
        scope.add(double(machine), [x])
        raise ValueError

    with pytest.raises(ValueError):
        capture(machine, body, graph)
    assert len(graph) == nodes and machine.memory()["leased"] == leased
    graph.instantiate()()
    np.testing.assert_array_equal(values(machine, x), 1.0)


def test_a20_outputs_have_fixed_addresses_and_the_latest_result(machine: Machine) -> None:
    x = machine.upload(np.zeros(N))
    graph, _, _ = capture(machine, lambda scope: scope.add(increment(machine), [x], [3.0]))
    exe = graph.instantiate()
    assert graph.outputs is exe.outputs or graph.outputs == exe.outputs
    with pytest.raises(CaptureError, match="before the graph's first launch"):
        values(machine, graph.outputs[0])
    addresses = set()
    for k in range(5):
        exe()
        np.testing.assert_array_equal(values(machine, exe.outputs[0]), 6.0 * k)
        addresses.add(exe.outputs[0].address)
    assert len(addresses) == 1


def test_a21_an_executable_called_in_a_capture_is_recorded(machine: Machine) -> None:
    x = machine.upload(np.zeros(N))

    def body(scope: CaptureScope) -> None:
        exe = captured(machine, x, 1.0).instantiate()
        scope.add(increment(machine), [x], [10.0])
        scope.add_executable(exe)
        scope.add_executable(exe)

    graph, _, _ = capture(machine, body)
    gc.collect()
    graph.instantiate()()
    np.testing.assert_array_equal(values(machine, x), 12.0)


def test_b1_operations_added_by_hand_with_their_dependencies(machine: Machine) -> None:
    x = machine.upload(np.linspace(0, 1, N))
    a, b = array((N,)), array((N,))
    sin = program(IR((a,), (apply("sin", a),)), machine)
    cos = program(IR((a,), (apply("cos", a),)), machine)
    join = program(IR((a, b), (apply("add", a, b),)), machine)
    graph, first, (s,) = capture(machine, lambda scope: scope.add(sin, [x]))
    _, second, (c,) = capture(machine, lambda scope: scope.add(cos, [x]), graph)
    _, last, (total,) = capture(machine, lambda scope: scope.add(join, [s, c]), graph, after=[*first, *second])
    assert [node.after for node in graph.nodes] == [(), (), (0, 1)] and len(last) == 1
    graph.instantiate()()
    np.testing.assert_allclose(values(machine, total), np.sin(np.linspace(0, 1, N)) + np.cos(np.linspace(0, 1, N)), rtol=1e-15)


def test_b3_nodes_of_another_graph_are_refused(machine: Machine) -> None:
    x = machine.upload(np.zeros(N))
    _, nodes, _ = capture(machine, lambda scope: scope.add(double(machine), [x]))
    with pytest.raises(GraphError, match="another graph"):
        capture(machine, lambda scope: scope.add(double(machine), [x]), Graph(machine), after=nodes)


@pytest.mark.parametrize("explicit", [True, False])
def test_c1_an_input_that_is_let_go_of_stays_for_replays(machine: Machine, explicit: bool) -> None:
    def build():
        x = machine.upload(np.full(N, 4.0))
        graph, _, (out,) = capture(machine, lambda scope: scope.add(double(machine), [x]))
        if explicit:
            x.free()
        return graph.instantiate(), out

    exe, out = build()
    gc.collect()
    others = [machine.upload(np.full(N, -1.0)) for _ in range(20)]
    exe()
    np.testing.assert_array_equal(values(machine, out), 8.0)
    for other in others:
        np.testing.assert_array_equal(values(machine, other), -1.0)


def test_c2_executables_live_without_their_graph_and_apart(machine: Machine) -> None:
    def pair(graph: Graph):
        return graph.instantiate(), graph.instantiate()

    def replay() -> None:
        x = machine.upload(np.zeros(N))
        one, two = pair(captured(machine, x, 1.0))
        gc.collect()
        machine.gate.drain_all()
        one()
        one = None
        gc.collect()
        machine.gate.drain_all()
        two()
        np.testing.assert_array_equal(values(machine, x), 2.0)

    replay()
    gc.collect()
    machine.gate.drain_all()
    found = machine.memory()
    assert found["leased"] == 0 and found["in_use"] == 0


def test_c5_leases_are_kept_when_destroying_fails(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    x = machine.upload(np.zeros(N))
    graph, _, _ = capture(machine, lambda scope: scope.add(double(machine), [x]))
    exe = graph.instantiate()
    exe()
    exe.synchronize()
    leased = machine.memory()["leased"]

    def failing(handle: object) -> None:
        raise DeviceError("GLA0519", "injected")

    monkeypatch.setattr(machine.device, "destroy_executable", failing)
    del graph, exe
    gc.collect()
    machine.gate.drain_all()
    assert machine.memory()["leased"] == leased and len(machine.gate.failed) == 1


def test_c6_users_of_leased_memory_on_other_streams_are_ordered_after_the_launch(machine: Machine) -> None:
    x = machine.upload(np.zeros(N))
    graph, _, _ = capture(machine, lambda scope: scope.add(increment(machine), [x], [1.0]))
    exe, one, two = graph.instantiate(), machine.new_stream(), machine.new_stream()
    exe.launch(one)
    assert not two.has_seen(one)
    machine.write(x, np.zeros(N), two)
    assert two.has_seen(one)
    exe.launch(one)
    assert one.has_seen(two)
    np.testing.assert_array_equal(values(machine, x), 1.0)


def test_c8_a_free_in_the_capture_is_deferred(machine: Machine) -> None:
    x = machine.upload(np.full(N, 4.0))

    def body(scope: CaptureScope):
        outs = scope.add(double(machine), [x])
        x.free()
        return outs

    graph, _, (out,) = capture(machine, body)
    other = machine.upload(np.zeros(N))
    graph.instantiate()()
    np.testing.assert_array_equal(values(machine, out), 8.0)
    assert other.address != x.address


def test_c9_a_launch_does_not_look_at_leased_blocks(machine: Machine) -> None:
    def cost(leased: int) -> float:
        storages = [machine.upload(np.zeros(8)) for _ in range(leased)]

        def body(scope: CaptureScope) -> None:
            scope.lease(storages)
            scope.add(double(machine, 8), [storages[0]])

        graph, _, _ = capture(machine, body)
        exe = graph.instantiate()
        from gla.runtime.memory.lease import Lease

        lease = Lease(machine.gate, [s.block for s in storages], exe._use)
        best = 1e9
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(200):
                exe()
            best = min(best, time.perf_counter() - start)
        lease.release()
        return best

    assert cost(1000) < 3 * cost(1)


def test_d1_collecting_garbage_in_a_capture_changes_nothing(machine: Machine) -> None:
    x = machine.upload(np.ones(N))

    def body(scope: CaptureScope):
        junk = [machine.upload(np.zeros(N), s) for s in (machine.stream, machine.new_stream())]
        junk.append(junk)  # type: ignore[arg-type]
        del junk
        gc.collect()
        return scope.add(double(machine), [x])

    graph, _, (out,) = capture(machine, body)
    assert len(graph) == 1
    graph.instantiate()()
    np.testing.assert_array_equal(values(machine, out), 2.0)


def test_f1_replays_use_the_same_memory(machine: Machine) -> None:
    x = machine.upload(np.ones(N))
    graph, _, _ = capture(machine, lambda scope: scope.add(double(machine), [x]))
    exe = graph.instantiate()
    exe()
    before = machine.memory()
    for _ in range(50):
        exe()
    assert machine.memory() == before


def test_f3_no_allocation_nodes(machine: Machine) -> None:
    x = array((32, 32))
    y = linear.matmul(apply("sin", x), linear.matmul(x, x))
    graph = Graph(machine)
    graph.add_plan(program(IR((x,), (reduce.sum(y),)), machine), [machine.upload(np.eye(32))])
    assert {node.kind for node in graph.nodes} <= {"kernel", "copy", "fill", "library"}


def test_f4_the_first_launch_waits_for_the_streams_that_used_the_memory_before(machine: Machine) -> None:
    x = machine.upload(np.ones(N))
    graph, _, _ = capture(machine, lambda scope: scope.add(double(machine), [x]))
    other = machine.new_stream()
    exe = graph.instantiate()
    exe.launch(other)
    assert other.has_seen(machine.stream)


def test_h3_looking_at_values_inside_a_capture_is_refused(machine: Machine) -> None:
    with pytest.raises(CaptureError, match="nothing has run"):
        capture(machine, lambda scope: refuse_look("float(x)"))
    assert not is_capturing()


def test_static_loops_are_unrolled_into_nodes(machine: Machine) -> None:
    x = array((2000,))
    (last,), _ = loop(101, [x], lambda k, c: ([apply("add", shape.roll(c[0], 1, 0), k)], []))
    graph = Graph(machine)
    (out,), _ = graph.add_plan(program(IR((x,), (last,)), machine), [machine.upload(np.zeros(2000))])
    assert 101 < len(graph) < 4096
    graph.instantiate()()
    np.testing.assert_array_equal(machine.download(out, np.float64, (2000,)), sum(range(101)))


def test_a_loop_of_too_many_nodes_is_refused(machine: Machine) -> None:
    x = array((2000,))
    (last,), _ = loop(5000, [x], lambda k, c: ([apply("add", shape.roll(c[0], 1, 0), k)], []))
    made, given = program(IR((x,), (last,)), machine), machine.upload(np.zeros(2000))
    with pytest.raises(CaptureError, match="4,096"):
        Graph(machine).add_plan(made, [given])
    assert machine.memory()["leased"] == 0


def test_a_while_loop_in_a_capture_is_refused(machine: Machine) -> None:
    x = array((5000,))
    carries, _, _ = while_loop(
        lambda c: reduce.any(apply("greater", c[0], 1.0)), lambda c: [apply("multiply", shape.roll(c[0], 1, 0), 0.5)], [x], 10
    )
    made, given = program(IR((x,), tuple(carries)), machine), machine.upload(np.zeros(5000))
    with pytest.raises(CaptureError, match="while"):
        capture(machine, lambda scope: scope.add(made, [given]))
    assert not is_capturing() and machine.memory()["leased"] == 0


def test_g1_a_library_call_replays_again_and_again(machine: Machine) -> None:
    x, w = array((16, 16), dtypes.float32), array((16, 16), dtypes.float32)
    a = np.random.default_rng(1).normal(size=(16, 16)).astype(np.float32)
    given, weights = machine.upload(a), machine.upload(np.eye(16, dtype=np.float32) * 2)
    graph = Graph(machine)
    (out,), _ = graph.add_plan(program(IR((x, w), (linear.matmul(x, w),)), machine), [given, weights])
    exe = graph.instantiate()
    exe()
    for _ in range(3):
        machine.write(out, np.zeros((16, 16), np.float32))
        exe()
        np.testing.assert_array_equal(machine.download(out, np.float32, (16, 16)), a * 2)


def test_e8_an_executable_of_another_device_is_refused(machine: Machine) -> None:
    from gla.device.host import HostDevice

    other = Machine(HostDevice())
    x = other.upload(np.zeros(N))
    graph, _, _ = capture(other, lambda scope: scope.add(double(other), [x]))
    exe = graph.instantiate()
    with pytest.raises(CaptureError):
        capture(machine, lambda scope: scope.add_executable(exe))
