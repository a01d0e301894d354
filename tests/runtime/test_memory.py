"""Blocks, pool, leases and the one gate (guarantees C, D and F)."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

from gla.compiler import executable
from gla.errors import DeviceError, OutOfMemoryError
from gla.ir.builder import apply
from gla.ir.functions import linear
from gla.ir.graph import Graph
from gla.runtime.machine import Machine
from gla.runtime.memory.lease import Lease
from gla.runtime.memory.pool import size_class
from tests.runtime.conftest import array


def balanced(machine: Machine) -> dict[str, int]:
    found = machine.memory()
    assert found["in_use"] + found["cached"] == found["held"]
    return found


def test_size_classes_are_powers_of_two_in_quarter_steps() -> None:
    assert [size_class(n) for n in (1, 512, 513, 640, 641, 1000, 1024, 1025, 4097)] == [
        512,
        512,
        640,
        640,
        768,
        1024,
        1024,
        1280,
        5120,
    ]
    for n in range(1, 20000, 7):
        assert n <= size_class(n) <= max(512, 1.25 * n + 1)
    for n in (65 << 20, 100_000_001, (1 << 30) + 1, 12_345_678_901):
        assert n <= size_class(n) <= n * (1 + 1 / 32) + 1


def test_dropped_memory_is_handed_out_again(machine: Machine) -> None:
    first = machine.allocate(5000)
    address = first.address
    del first
    assert machine.allocate(5100).address == address
    assert balanced(machine)["held"] == 5120


def test_a_view_keeps_its_block(machine: Machine) -> None:
    whole = machine.upload(np.arange(100.0))
    part = whole.view(80, 80)
    del whole
    other = machine.upload(np.zeros(100))
    np.testing.assert_array_equal(machine.download(part, np.float64, (10,)), np.arange(10.0, 20.0))
    assert other.address != part.address - 80


def test_explicit_free_gives_back_once(machine: Machine) -> None:
    a = machine.allocate(4000)
    a.free()
    a.free()
    assert a.is_freed and balanced(machine)["in_use"] == 0
    b, c = machine.allocate(4000), machine.allocate(4000)
    assert b.address != c.address
    del a
    assert machine.allocate(4000).address not in (b.address, c.address)
    with pytest.raises(DeviceError, match="free"):
        b.free()
        b.check()


def test_c1_a_leased_block_outlives_free_until_the_last_lease_goes(machine: Machine) -> None:
    a = machine.upload(np.full(64, 7.0))
    one, two = Lease(machine.gate, [a.block]), Lease(machine.gate, [a.block])
    a.free()
    machine.gate.drain()
    assert balanced(machine)["in_use"] == 512 and machine.memory()["leased"] == 512
    one.release()
    one.release()
    machine.gate.drain()
    assert machine.memory()["in_use"] == 512
    two.release()
    assert balanced(machine)["in_use"] == 0 and machine.memory()["leased"] == 0


def test_c4_a_collected_lease_goes_through_the_gate(machine: Machine) -> None:
    a = machine.allocate(600)
    lease = Lease(machine.gate, [a.block])
    a.free()
    del lease
    gc.collect()
    assert balanced(machine)["in_use"] == 0


def test_c3_the_owner_of_foreign_memory_lives_until_the_last_lease(machine: Machine) -> None:
    class Owner:
        pass

    owner = Owner()
    alive = weakref.ref(owner)
    under = machine.allocate(1024)
    foreign = machine.pool.wrap(under.address, 1024, owner, machine.stream)
    lease = Lease(machine.gate, [foreign.view(8, 16).block])
    del owner, foreign
    machine.gate.drain_all()
    assert alive() is not None
    lease.release()
    del lease
    machine.gate.drain_all()
    machine.gate.drain_all()
    assert alive() is None


def test_pinned_memory_is_released_after_its_last_use(machine: Machine) -> None:
    pinned = machine.pool.allocate_pinned(4096, machine.stream)
    released: list[int] = []
    release = machine.device.release_pinned
    machine.device.release_pinned = lambda a: (released.append(a), release(a))  # type: ignore[method-assign, assignment]
    address = pinned.address
    del pinned
    machine.gate.drain_all()
    assert released == [address]


def test_memory_used_by_two_streams_returns_in_order_of_both(machine: Machine) -> None:
    other = machine.new_stream()
    a = machine.upload(np.ones(4000))
    address = a.address
    machine.download(a, np.float64, (4000,), other)
    assert a.block.streams() == {machine.stream, other}
    a.free()
    machine.gate.drain()
    machine.stream.after(other)
    assert machine.allocate(32000).address == address


def test_another_stream_takes_new_memory_rather_than_wait(machine: Machine) -> None:
    a = machine.upload(np.ones(4000))
    address = a.address
    del a
    other = machine.new_stream()
    b = machine.allocate(32000, other)
    assert b.address != address
    other.after(machine.stream)
    assert machine.allocate(32000, other).address == address


def test_d2_finalizers_only_publish(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    storages = [machine.upload(np.ones(100)) for _ in range(20)]
    storages[0].block.details()
    lease = Lease(machine.gate, [storages[1].block])
    held = machine.gate.lock
    done = threading.Event()

    def finalize() -> None:
        storages.clear()
        nonlocal lease
        lease = None  # type: ignore[assignment]
        done.set()

    with held:  # another thread's finalizers would wait here if they took the lock
        thread = threading.Thread(target=finalize)
        thread.start()
        assert done.wait(5)
    thread.join()
    assert balanced(machine)["in_use"] == 0


def test_d3_nothing_retired_is_reused_while_a_capture_is_open(machine: Machine) -> None:
    a, b = machine.allocate(3000), machine.allocate(3000)
    addresses = {a.address, b.address}
    a.block.details()
    machine.gate.captures += 1
    del a, b
    assert machine.gate.drain() == 0
    assert machine.allocate(3000).address not in addresses
    machine.gate.captures -= 1
    machine.gate.drain()
    assert balanced(machine)["in_use"] == 0


def test_d5_allocation_drains_a_bounded_number(machine: Machine) -> None:
    storages = [machine.allocate(2000) for _ in range(50)]
    for s in storages:
        s.block.details()
    storages.clear()
    del s
    kept = machine.allocate(9000)
    assert 0 < len(machine.gate.retired) < 50
    assert machine.gate.drain() > 0 and balanced(machine)["in_use"] == size_class(9000)
    assert kept.nbytes == 9000


def test_d5_a_drain_inside_a_drain_does_nothing(machine: Machine) -> None:
    inner: list[int] = []

    class Greedy:
        def let_go(self) -> None:
            machine.gate.retired.append(Quiet())
            inner.extend((machine.gate.drain(), machine.gate.drain_all(), machine.reclaim()))

    class Quiet:
        def let_go(self) -> None:
            inner.append(-1)

    machine.gate.retired.append(Greedy())
    assert machine.gate.drain(1) == 1 and inner == [0, 0, 0]
    assert machine.gate.drain() == 1 and inner == [0, 0, 0, -1]


def test_d6_a_failing_release_is_kept_and_not_retried(
    machine: Machine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = machine.pool.allocate_pinned(512, machine.stream)
    calls: list[int] = []

    def failing(address: int) -> None:
        calls.append(address)
        raise DeviceError("GLA0519", "injected")

    release = machine.device.release_pinned
    monkeypatch.setattr(machine.device, "release_pinned", failing)
    address = pinned.address
    del pinned
    for _ in range(3):
        machine.gate.drain_all()
    assert calls == [address] and len(machine.gate.failed) == 1
    assert sum("could not release" in r.message for r in caplog.records) == 1
    release(address)


def test_d7_gc_is_left_alone(machine: Machine) -> None:
    before = (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count())
    machine.reclaim()
    assert (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()) == before


def test_reclaim_gives_cached_memory_back_and_executables_make_theirs_anew(machine: Machine) -> None:
    x = array((64, 64))
    exe = executable(Graph((x,), (linear.matmul(apply("sin", x), x),)), machine)
    given = machine.upload(np.eye(64))
    (out,) = exe.run([given])
    assert machine.memory()["leased"] > 0
    del out
    assert machine.reclaim() > 0
    found = balanced(machine)
    assert found["cached"] == 0 and found["leased"] == 0
    (out,) = exe.run([given])
    np.testing.assert_allclose(machine.download(out, np.float64, (64, 64)), np.sin(np.eye(64)))


def test_out_of_memory_reclaims_once_and_then_names_the_bytes(machine: Machine) -> None:
    if machine.kind != "host":
        pytest.skip("sets the host device's limit")
    machine.device.limit = 3 << 20  # type: ignore[attr-defined]
    a = machine.allocate(2 << 20)
    del a
    b = machine.allocate(5 << 19)  # fits only when the cached block goes back
    with pytest.raises(OutOfMemoryError) as caught:
        machine.allocate(1 << 20)
    text = str(caught.value)
    assert "1,048,576" in text and f"{balanced(machine)['held']:,}" in text and "cached" in text
    assert b.nbytes == 5 << 19
    del b
    assert machine.allocate(1 << 20).nbytes == 1 << 20


def test_every_failing_allocation_leaves_the_books_balanced(machine: Machine) -> None:
    if machine.kind != "host":
        pytest.skip("injects failures into the host device")
    x = array((100,))
    exe = executable(Graph((x,), (apply("add", x, 1.0), apply("multiply", x, 2.0))), machine)
    given = machine.upload(np.ones(100))
    for n in range(1, 40):
        exe.drop()
        machine.gate.drain_all()
        machine.pool.trim()
        machine.device.fail_after(n)  # type: ignore[attr-defined]
        try:
            exe.run([given])
        except DeviceError:
            assert not machine.device.fault_pending  # type: ignore[attr-defined]
        else:
            machine.device.fail_after(0)  # type: ignore[attr-defined]
            break
        outs = exe.run([given])
        np.testing.assert_array_equal(machine.download(outs[0], np.float64, (100,)), 2.0)
        del outs
        balanced(machine)
    assert 3 < n < 39


def test_f1_pool_use_is_constant_over_many_calls(machine: Machine) -> None:
    x = array((1000,))
    exe = executable(Graph((x,), (apply("sqrt", x),)), machine)
    u = machine.upload(np.ones(1000))
    for _ in range(3):
        (u,) = exe.run([u])
    held = machine.memory()["held"]
    for _ in range(200):
        (u,) = exe.run([u])
    assert machine.memory()["held"] == held


def test_an_arena_returns_in_the_order_of_the_last_run(machine: Machine) -> None:
    x = array((512, 512))
    exe = executable(Graph((x,), (linear.matmul(apply("sin", x), x),)), machine)
    given, other = machine.upload(np.eye(512)), machine.new_stream()
    exe.run([given])
    exe.run([given], stream=other)
    block = exe._arena.block  # type: ignore[union-attr]
    exe.drop()
    machine.gate.drain_all()
    assert other in block.streams()
