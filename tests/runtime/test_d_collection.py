"""Guarantees D1, D3, D4: captures beside the garbage collector and releases."""

from __future__ import annotations

import gc
import threading

import numpy as np

import gla
from gla.array import engine
from tests.runtime.conftest import A, N


def garbage(stream=None):
    """A cycle that holds arrays last used on this stream, or on another."""
    if stream is None:
        items = [A(np.ones(500)) * 2, A(np.zeros(300))]
        gla.eval(items[0])
    else:
        with stream:
            items = [A(np.ones(500)) * 2]
            gla.eval(items[0])
    items.append(items)


def elsewhere(name, work):
    """Run `work()` in a plain thread, outside of whatever this one captures."""
    wrong = []

    def run():
        try:
            with gla.device(name):
                work()
        except BaseException as error:
            wrong.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not wrong


def test_d1_collecting_inside_a_capture_changes_nothing(name):
    x, y = A(np.arange(64.0)), A(np.zeros(64))
    expected = len(gla.capture(lambda: y.assign(gla.sin(x) + x)))

    def body():
        gc.collect()
        value = gla.sin(x)
        elsewhere(name, lambda: (garbage(), garbage(gla.Stream())))
        gc.collect()
        y.assign(value + x)

    gc.collect()
    garbage()
    garbage(gla.Stream())
    graph = gla.capture(body)
    assert len(graph) == expected
    graph.instantiate()()
    np.testing.assert_allclose(N(y), np.sin(np.arange(64.0)) + np.arange(64.0), rtol=1e-14)


def test_d3_nothing_retired_is_released_while_a_capture_is_open(name):
    machine = engine.machine(name)
    gc.collect()
    machine.gate.drain_all()
    seen = []

    def work():
        before = machine.memory()["in_use"]
        kept = [A(np.zeros(40_000)) for _ in range(3)]
        grown = machine.memory()["in_use"] - before
        addresses = {k._buffer.storage.block.address for k in kept}
        del kept
        gc.collect()
        fresh = [A(np.zeros(40_000)) for _ in range(3)]
        reused = addresses & {f._buffer.storage.block.address for f in fresh}
        seen.append((grown, machine.memory()["in_use"] - before, reused))

    def body():
        elsewhere(name, work)
        gla.capture(gla.reclaim)  # the end of an inner capture is not the end of the outer one
        seen.append(machine.memory()["in_use"])

    before = machine.memory()["in_use"]
    gla.capture(body)
    (grown, both, reused), inside = seen
    assert both == 2 * grown and reused == set() and inside >= before + grown
    gc.collect()
    machine.gate.drain_all()
    assert machine.memory()["in_use"] == before


def test_d4_captures_and_releases_exclude_each_other_without_deadlock(name):
    stop, wrong = threading.Event(), []

    def release():
        with gla.device(name):
            while not stop.is_set():
                try:
                    garbage()
                    gc.collect()
                    gla.reclaim()
                except Exception as error:
                    wrong.append(error)
                    return

    threads = [threading.Thread(target=release) for _ in range(3)]
    [t.start() for t in threads]
    try:
        x, y = A(np.ones(100)), A(np.zeros(100))
        for _ in range(60):
            exe = gla.capture(lambda: y.assign(y + x)).instantiate()
            exe()
    finally:
        stop.set()
        [t.join(30) for t in threads]
    assert not wrong and not any(t.is_alive() for t in threads)
    assert N(y).tolist() == [60.0] * 100
