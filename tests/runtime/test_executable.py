"""Bindings, addresses that change, threads and streams."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from gla import dtypes
from gla.compiler import executable
from gla.errors import DeviceError
from gla.ir.builder import apply
from gla.ir.functions import linear, shape
from gla.ir.functions.control import loop
from gla.ir.graph import Graph
from gla.runtime.executable import BINDINGS
from gla.runtime.machine import Machine
from gla.runtime.stream import using
from tests.runtime.conftest import array

rng = np.random.default_rng(3)


def step_graph(n: int = 64) -> Graph:
    x = array((n,))
    return Graph((x,), (apply("add", apply("multiply", x, 0.5), 1.0),))


@pytest.mark.parametrize("keep_first", [True, False])
def test_a_loop_of_calls_instantiates_at_most_three_times(machine: Machine, keep_first: bool) -> None:
    exe = executable(step_graph(), machine)
    u = machine.upload(np.zeros(64))
    first = u if keep_first else None
    for _ in range(1000):
        (u,) = exe.run([u])
    assert exe.stats.instantiations <= 3 and exe.stats.updates == 0
    assert exe.stats.runs == 1000 and exe.stats.hits >= 997
    np.testing.assert_allclose(machine.download(u, np.float64, (64,)), 2.0)
    assert first is None or machine.download(first, np.float64, (64,)).max() == 0.0


def test_changing_addresses_retarget_the_nodes_at_the_boundary(machine: Machine) -> None:
    exe = executable(step_graph(), machine)
    given = [machine.upload(np.full(64, float(k))) for k in range(12)]
    outs = [exe.run([u])[0] for u in given]
    assert exe.stats.instantiations == BINDINGS and exe.stats.updates == 12 - BINDINGS
    for k, out in enumerate(outs):
        np.testing.assert_array_equal(machine.download(out, np.float64, (64,)), 0.5 * k + 1)


def test_changing_addresses_of_a_host_driven_loop(machine: Machine) -> None:
    x = array((3200,))
    (last,), _ = loop(77, [x], lambda k, c: ([apply("add", shape.roll(c[0], 1, 0), k)], []))
    exe = executable(Graph((x,), (last,)), machine)
    kept = []
    for k in range(BINDINGS + 4):
        a = rng.normal(size=3200)
        expected = a.copy()
        for trip in range(77):
            expected = np.roll(expected, 1) + trip
        kept.append((machine.upload(a), exe, expected))
        kept.append((exe.run([kept[-1][0]])[0], exe, expected))
        np.testing.assert_array_equal(machine.download(kept[-1][0], np.float64, (3200,)), expected, err_msg=str(k))


def test_changing_addresses_of_a_matrix_product_are_staged(machine: Machine) -> None:
    x, w = array((16, 24)), array((24, 8))
    exe = executable(Graph((x, w), (apply("add", linear.matmul(x, w), 1.0), linear.matmul(x, w))), machine)
    b = rng.normal(size=(24, 8))
    weights = machine.upload(b)
    kept = []
    for _ in range(30):
        a = rng.normal(size=(16, 24))
        kept += [machine.upload(a)]
        kept += exe.run([kept[-1], weights])
        np.testing.assert_allclose(machine.download(kept[-2], np.float64, (16, 8)), a @ b + 1, atol=1e-12)
        np.testing.assert_allclose(machine.download(kept[-1], np.float64, (16, 8)), a @ b, atol=1e-12)
    assert exe.stats.instantiations <= BINDINGS + 1
    for _ in range(3):  # weights that move are staged as well
        b = rng.normal(size=(24, 8))
        weights = machine.upload(b)
        kept += [weights, *exe.run([kept[0], weights])]
        a = machine.download(kept[0], np.float64, (16, 24))
        np.testing.assert_allclose(machine.download(kept[-1], np.float64, (16, 8)), a @ b, atol=1e-12)
    assert exe.stats.instantiations <= BINDINGS + 3
    machine.reclaim()
    (first, _) = exe.run([kept[0], weights])
    np.testing.assert_allclose(machine.download(first, np.float64, (16, 8)), a @ b + 1, atol=1e-12)


def test_changing_addresses_of_a_product_that_is_written(machine: Machine) -> None:
    x, w = array((8, 8)), array((8, 8))
    exe = executable(Graph((x, w), (), ((x, linear.matmul(x, w)),)), machine)
    kept = []
    for k in range(12):
        a, b = rng.normal(size=(8, 8)), rng.normal(size=(8, 8))
        kept += [machine.upload(a), machine.upload(b)]
        exe.run(kept[-2:])
        np.testing.assert_allclose(machine.download(kept[-2], np.float64, (8, 8)), a @ b, atol=1e-12, err_msg=str(k))


def test_a_scalar_and_the_addresses_change_together(machine: Machine) -> None:
    from tests.runtime.conftest import scalar

    x, s = array((9,)), scalar()
    exe = executable(Graph((x, s), (apply("subtract", x, s),)), machine)
    kept = []
    for k in range(20):
        kept.append(machine.upload(np.arange(9.0) * k))
        kept += exe.run([kept[-1]], [k * 1.5])
        np.testing.assert_array_equal(machine.download(kept[-1], np.float64, (9,)), np.arange(9.0) * k - k * 1.5)


def test_an_input_on_another_stream_is_waited_for(machine: Machine) -> None:
    exe = executable(step_graph(), machine)
    other = machine.new_stream()
    u = machine.upload(np.zeros(64))
    for k in range(40):
        with using(other if k % 2 else machine.stream):
            (u,) = exe.run([u])
    np.testing.assert_allclose(machine.download(u, np.float64, (64,)), 2.0)


def test_one_stream_records_no_event(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    exe = executable(step_graph(), machine)
    u = machine.upload(np.zeros(64))
    calls: list[str] = []
    record, wait = machine.device.record, machine.device.wait
    monkeypatch.setattr(machine.device, "record", lambda *a: (calls.append("record"), record(*a)), raising=False)
    monkeypatch.setattr(machine.device, "wait", lambda *a: (calls.append("wait"), wait(*a)), raising=False)
    for _ in range(10):
        (u,) = exe.run([u])
    assert calls == []
    machine.download(u, np.float64, (64,), machine.new_stream())
    assert calls == ["record", "wait"]


def test_a_stream_of_another_device_is_refused(machine: Machine) -> None:
    from gla.device.host import HostDevice

    exe = executable(step_graph(), machine)
    with pytest.raises(DeviceError, match="not a stream of"):
        other = Machine(HostDevice())
        from gla.runtime.stream import current_or

        current_or(machine.stream, other.stream)
    assert exe.stats.runs == 0


def test_e4_one_executable_from_several_threads(machine: Machine) -> None:
    exe = executable(step_graph(500), machine)
    wrong: list[str] = []

    def work(seed: int) -> None:
        a = np.full(500, float(seed))
        with using(machine.new_stream()):
            for _ in range(60):
                u = machine.upload(a)
                for _ in range(3):
                    (u,) = exe.run([u])
                expected = ((a * 0.5 + 1) * 0.5 + 1) * 0.5 + 1
                if not np.array_equal(machine.download(u, np.float64, (500,)), expected):
                    wrong.append(f"thread {seed}")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == [] and exe.stats.runs == 4 * 60 * 3


def test_two_threads_that_want_one_plan_make_it_once(machine: Machine) -> None:
    graph, found = step_graph(321), []
    threads = [threading.Thread(target=lambda: found.append(executable(graph, machine))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(map(id, found))) == 1 and machine.executables.plans == 1


def test_f5_temporaries_share_one_arena_that_is_leased(machine: Machine) -> None:
    x = array((256, 256))
    y = x
    for _ in range(6):
        y = linear.matmul(apply("sin", y), x)
    exe = executable(Graph((x,), (y,)), machine)
    exe.run([machine.upload(np.eye(256))])
    assert 0 < exe.arena_bytes <= 3 * 256 * 256 * 8 + machine.properties.library_workspace
    assert machine.memory()["leased"] >= exe.arena_bytes


def test_an_interrupt_between_launches_leaves_everything_usable(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    x = array((1600,))
    (last,), _ = loop(400, [x], lambda k, c: ([apply("add", shape.roll(c[0], 1, 0), 1.0)], []))
    exe = executable(Graph((x,), (last,)), machine)
    given = machine.upload(np.zeros(1600))
    launch, count = machine.device.launch_graph, [0]

    def interrupted(*args: object) -> None:
        count[0] += 1
        if count[0] == 5:
            raise KeyboardInterrupt
        launch(*args)

    monkeypatch.setattr(machine.device, "launch_graph", interrupted)
    with pytest.raises(KeyboardInterrupt):
        exe.run([given])
    monkeypatch.undo()
    (out,) = exe.run([given])
    np.testing.assert_array_equal(machine.download(out, np.float64, (1600,)), 400.0)


def test_bfloat16_scalars_and_arrays(machine: Machine) -> None:
    from tests.runtime.conftest import run, scalar

    x, s = array((6,), dtypes.bfloat16), scalar()
    a = np.arange(6, dtype=np.float32).astype(dtypes.bfloat16.numpy)
    (out,) = run(machine, Graph((x, s), (apply("multiply", x, s),)), a, 2.5)
    np.testing.assert_array_equal(out.astype(np.float32), np.arange(6, dtype=np.float32) * 2.5)


def test_stats_of_a_machine_count_what_was_done(machine: Machine) -> None:
    exe = executable(step_graph(), machine)
    u = machine.upload(np.zeros(64))
    for _ in range(5):
        (u,) = executable(step_graph(), machine).run([u])
    found = machine.stats()
    assert exe.stats.runs == found["runs"] == found["launches"] == 5
    assert found["plans"] == 1 and found["plan_hits"] == 5 and found["kernels_loaded"] == 1


def test_a_failing_update_leaves_the_executable_usable(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.runtime.conftest import scalar

    x, s = array((9,)), scalar()
    exe = executable(Graph((x, s), (apply("subtract", x, s),)), machine)
    given = machine.upload(np.arange(9.0))
    exe.run([given], [1.0])

    def failing(*args: object) -> None:
        raise DeviceError("GLA0519", "injected")

    monkeypatch.setattr(machine.device, "set_kernel", failing)
    with pytest.raises(DeviceError, match="injected"):
        exe.run([given], [2.0])
    monkeypatch.undo()
    for value in (1.0, 2.0):
        (out,) = exe.run([given], [value])
        np.testing.assert_array_equal(machine.download(out, np.float64, (9,)), np.arange(9.0) - value)


def test_a_reader_waits_for_a_write_once_however_busy_the_writers_stream(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    exe, shared = executable(step_graph(), machine), machine.upload(np.ones(64))
    other, calls = machine.new_stream(), []
    wait = machine.device.wait
    monkeypatch.setattr(machine.device, "wait", lambda *a: (calls.append(a), wait(*a)), raising=False)
    machine.download(shared, np.float64, (64,), other)
    assert len(calls) == 1
    u = machine.upload(np.zeros(64))
    for _ in range(5):
        (u,) = exe.run([u])
        exe.run([shared])
        machine.download(shared, np.float64, (64,), other)
    assert len(calls) == 1
    machine.write(shared, np.zeros(64))
    assert len(calls) == 2  # the write waits for the other stream's reads
    machine.download(shared, np.float64, (64,), other)
    assert len(calls) == 3
