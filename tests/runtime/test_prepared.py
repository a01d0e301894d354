"""Prepared calls: fixed inputs and outputs, one launch."""

from __future__ import annotations

import numpy as np
import pytest

from gla.compiler import executable
from gla.errors import CaptureError
from gla.ir.builder import apply
from gla.ir.functions import reduce, shape
from gla.ir.functions.control import while_loop
from gla.ir.graph import Graph
from gla.runtime.machine import Machine
from gla.runtime.prepared import PreparedCall
from tests.runtime.conftest import array, scalar


def test_a_prepared_call_reads_current_contents_into_the_same_outputs(machine: Machine) -> None:
    x, s = array((40,)), scalar()
    exe = executable(Graph((x, s), (apply("multiply", x, s),)), machine)
    given = machine.upload(np.ones(40))
    call = PreparedCall(exe, [given], [3.0])
    with pytest.raises(CaptureError):
        machine.download(call.outputs[0], np.float64, (40,))
    for k in range(4):
        machine.write(given, np.full(40, float(k)))
        (out,) = call()
        assert out is call.outputs[0]
        np.testing.assert_array_equal(machine.download(out, np.float64, (40,)), 3.0 * k)
    call.set_scalars([-1.0])
    np.testing.assert_array_equal(machine.download(call()[0], np.float64, (40,)), -3.0)


def test_a_prepared_call_holds_a_while_loop(machine: Machine) -> None:
    x = array((6000,))
    carries, trips, _ = while_loop(
        lambda c: reduce.any(apply("greater", c[0], 1.0)), lambda c: [apply("multiply", shape.roll(c[0], 1, 0), 0.5)], [x], 99
    )
    given = machine.upload(np.zeros(6000))
    call = PreparedCall(executable(Graph((x,), (*carries, trips)), machine), [given])
    for top in (64.0, 0.0, 3.0):
        machine.write(given, np.full(6000, top))
        _, count = call()
        assert machine.download(count, np.int64, ()) == max(0, int(np.ceil(np.log2(top)))) if top else True


def test_c1_a_prepared_call_keeps_its_inputs(machine: Machine) -> None:
    x = array((40,))
    exe = executable(Graph((x,), (apply("multiply", x, 2.0),)), machine)

    def prepare() -> PreparedCall:
        given = machine.upload(np.full(40, 4.0))
        call = PreparedCall(exe, [given])
        given.free()
        return call

    call = prepare()
    other = machine.upload(np.zeros(40))
    np.testing.assert_array_equal(machine.download(call()[0], np.float64, (40,)), 8.0)
    np.testing.assert_array_equal(machine.download(other, np.float64, (40,)), 0.0)
