"""Guarantees H: host memory in captures. Pinned arrays (H4) are in tests/array/test_pinned.py, awaiting (H5) in test_e_threads.py."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import gla
from gla.array import engine
from gla.errors import CaptureError, DeviceError
from gla.runtime.capture import capture
from tests.runtime.conftest import A, N


def test_h1_a_copy_from_pageable_memory_is_a_snapshot(name):
    y, source = gla.zeros(1000), np.arange(1000.0)
    exe = gla.capture(lambda: y.assign(gla.asarray(source) + 1)).instantiate()
    source[:] = -1
    for _ in range(2):
        y.assign(0.0)
        exe()
        np.testing.assert_array_equal(N(y), np.arange(1000.0) + 1)


def test_h2_the_snapshot_belongs_to_the_graph_alone(name):
    y = gla.zeros(5000)

    def made():
        values = np.arange(5000.0)
        return gla.capture(lambda: y.assign(y + values)).instantiate()

    exe = made()
    gc.collect()
    gla.reclaim()
    junk = [gla.asarray(np.full(5000, float(k))) for k in range(50)]
    for _ in range(3):
        exe()
    np.testing.assert_array_equal(N(y), 3 * np.arange(5000.0))
    assert len(junk) == 50


def test_h3_the_runtime_itself_refuses_to_look_inside_a_capture(name):
    machine, x = engine.machine(name), A([1.0, 2.0])
    storage, pinned = x._buffer.storage, engine.machine(name).pool.allocate_pinned(16, engine.machine(name).stream)
    for look in (
        lambda: machine.download(storage, np.float64, (2,)),
        lambda: machine.settle(pinned),
        lambda: machine.settle(pinned, True),
    ):
        with pytest.raises(CaptureError, match="inside a capture nothing has run yet"):
            capture(machine, lambda scope, look=look: look())
    assert machine.gate.captures == 0 and machine.memory()["leased"] == 0
    np.testing.assert_array_equal(machine.download(storage, np.float64, (2,)), [1.0, 2.0])


def test_h4_the_host_waits_for_what_uses_pinned_memory_and_not_for_freed(name):
    machine = engine.machine(name)
    pinned, waited = machine.pool.allocate_pinned(64, machine.stream), []
    other = machine.new_stream()
    from gla.runtime.memory.block import acquire

    acquire(pinned.block, other, False)
    real = type(other).synchronize
    type(other).synchronize = lambda self: (waited.append(self), real(self))[1]
    try:
        machine.settle(pinned)
        readers_only = list(waited)
        machine.settle(pinned, write=True)
    finally:
        type(other).synchronize = real
    assert other not in readers_only and other in waited and machine.stream in readers_only
    pinned.free()
    with pytest.raises(DeviceError, match="free"):
        machine.settle(pinned)


def test_pinned_memory_is_counted_apart(name):
    machine, before = engine.machine(name), gla.memory()
    pinned = machine.pool.allocate_pinned(4096, machine.stream)
    found = gla.memory()
    assert found["pinned"] - before["pinned"] == 4096 and found["held"] == before["held"]
    del pinned
    gc.collect()
    machine.gate.drain_all()
    assert gla.memory()["pinned"] == before["pinned"]
