"""Every device call that the runtime makes fails once in turn, out of memory included (issue "Evidence"; C5, D6, D9, g23, g121, g140).

The scenario makes every kind of call. Each failure must be an error of gla's raised by the statement that met it; then
the same scenario runs right, and when everything is dropped the device has what it had. Only what a failing *release* was
to release may stay, logged once (D6).
"""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gla.compiler import executable, program
from gla.errors import GlaError
from gla.ir.builder import apply
from gla.ir.functions import linear
from gla.ir.graph import Graph
from gla.runtime.cache import ImageCache
from gla.runtime.graph import Graph as DeviceGraph
from gla.runtime.machine import Machine
from tests.faults import RELEASES, HostFaults, failing_cuda
from tests.runtime.conftest import array, scalar

N = 8


@pytest.fixture(params=["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def rig(request: pytest.FixtureRequest, images: ImageCache) -> Iterator[tuple[Machine, Any]]:
    """A machine and what makes its device fail."""
    device: Any
    if request.param == "host":
        from gla.device.host import HostDevice

        device = HostDevice(strict=True)
        faults: Any = HostFaults(device)
    else:
        from gla.device.cuda import bindings

        device, faults = failing_cuda(bindings.load())
    gc.collect()
    gc.freeze()  # what is there already need not be looked at in each of some hundred collections
    yield Machine(device, images), faults
    gc.unfreeze()


X, S = array((N, N)), scalar()
PRODUCT = Graph((X, S), (linear.matmul(apply("multiply", X, S), X),))
STEP = Graph((X,), (), ((X, apply("add", X, 1.0)),))


def scenario(machine: Machine, computes: bool = True) -> None:
    """Uploads, runs with changing addresses and scalars, two streams, a graph by hand, pinned memory, a free, a download.
    `computes`: the device does what it is told, so that numbers can be compared."""

    def right(storage: Any, wanted: Any) -> None:
        found = machine.download(storage, np.float64, (N, N))
        if computes:
            np.testing.assert_array_equal(found, wanted)

    eye = np.eye(N)
    given = machine.upload(eye)
    product = executable(PRODUCT, machine)
    for k in range(3):
        (out,) = product.run([given], [2.0 + k])
        right(out, (2.0 + k) * eye)
    other = machine.new_stream()
    (out,) = product.run([given], [5.0], stream=other)
    right(out, 5 * eye)
    graph = DeviceGraph(machine)
    machine.gate.begin_capture()
    try:
        outputs, frontier = graph.add_plan(program(PRODUCT, machine), [given], [3.0])
        graph.add_plan(program(STEP, machine), [given], after=frontier)
    finally:
        machine.gate.end_capture()
    exe = graph.instantiate()
    exe.upload()
    for k in range(3):
        exe.launch(other if k == 1 else None)
    right(outputs[0], 3 * (eye + 2) @ (eye + 2))
    right(given, eye + 3)
    pinned = machine.pool.allocate_pinned(512, machine.stream)
    machine.settle(pinned)
    given.free()
    exe.launch()
    machine.synchronize()
    del pinned, outputs, exe, graph
    machine.memory()


def cleared(machine: Machine) -> None:
    """Everything let go of, the cached executables and their modules too."""
    machine.executables.clear()
    machine.reclaim()


def settled(machine: Machine, faults: Any) -> dict[str, int]:
    cleared(machine)
    return dict(faults.live())


def test_a_driver_in_python_loses_nothing_either(images: ImageCache, caplog: pytest.LogCaptureFixture) -> None:
    from tests.device.cuda.fake import FakeLibrary, FakeTable

    caplog.set_level(logging.CRITICAL, "gla.memory")
    table = FakeTable()
    device, faults = failing_cuda(table)
    device._library = FakeLibrary(table)
    gc.collect()
    gc.freeze()
    try:
        for out_of_memory in (False, True):
            every_call(Machine(device, images), faults, out_of_memory, computes=False, each=1)
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("out_of_memory", [False, True], ids=["failure", "out_of_memory"])
def test_every_call_fails_once_and_nothing_leaks(
    rig: tuple[Machine, Any], out_of_memory: bool, caplog: pytest.LogCaptureFixture
) -> None:
    machine, faults = rig
    caplog.set_level(logging.CRITICAL, "gla.memory")
    every_call(machine, faults, out_of_memory, each=10**6 if machine.kind == "host" else 3)


def every_call(machine: Machine, faults: Any, out_of_memory: bool, computes: bool = True, each: int = 10**6) -> None:
    """Fail the calls of the scenario in turn, of each kind the first `each`."""
    for _ in range(2):  # staging slots, library handles, the private stream: made once and kept
        scenario(machine, computes)
        start = settled(machine, faults)
    faults.fail(10**6, out_of_memory)
    scenario(machine, computes)
    cleared(machine)
    faults.call_off()
    seen: Counter[str] = Counter()
    retried = tried = 0
    for n, name in enumerate(faults.calls, 1):
        seen[name] += 1
        if seen[name] > each:
            continue
        tried += 1
        faults.fail(n, out_of_memory)
        try:
            scenario(machine, computes)
            cleared(machine)
            retried += out_of_memory
        except GlaError:
            pass
        assert faults.call_off(), f"call {n}, {name}, did not come again"
        scenario(machine, computes)
        now, failed = settled(machine, faults), faults.failed
        if machine.gate.failed:
            assert failed in RELEASES and len(machine.gate.failed) == 1, f"{failed} is no release"
            machine.gate.failed.clear()
            start = now = settled(machine, faults)  # what the device refused to take back stays
        assert now == start, f"call {n}, {failed}"
        memory = machine.memory()
        assert memory["in_use"] == memory["leased"] == machine.gate.captures == 0, (n, failed, memory)
    assert len(seen) > 25
    if out_of_memory:
        assert retried > tried * 0.8  # a call that runs out of memory is made once more after reclaiming
