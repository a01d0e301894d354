"""Guarantees C6-C8 as users see them: order with every other use, frees inside a capture."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import gla
from gla.array import engine
from gla.errors import DeviceError
from tests.runtime.conftest import A, N


def test_c6_every_next_use_on_any_stream_is_after_the_launch(name):
    x, y = A(np.zeros(50_000)), A(np.zeros(50_000))
    exe = gla.capture(lambda: y.assign(gla.exp(x) + y)).instantiate()
    s, t = gla.Stream(), gla.Stream()
    for k in range(1, 6):
        exe.launch(s)
        with t:
            z = y * 2
            assert N(z)[0] == 2.0 * k
            x.assign(x * 1.0)
    exe.launch(t)
    assert N(y)[-1] == 6.0


def test_c6_a_release_is_after_the_last_launch(name):
    x, y = A(np.ones(100_000)), A(np.zeros(100_000))
    exe, s = gla.capture(lambda: y.assign(x * 3)).instantiate(), gla.Stream()
    exe.launch(s)
    x.free()
    del exe
    gc.collect()
    fresh = [A(np.full(100_000, -1.0)) for _ in range(4)]
    assert N(y)[0] == 3.0 and all(N(f)[0] == -1.0 for f in fresh)


def test_c7_recording_calls_no_driver_but_for_memory(name, monkeypatch):
    x, y = A(np.ones(10)), A(np.zeros(10))
    gla.capture(lambda: y.assign(x * 4 + 0.5))
    machine = engine.machine(name)
    block, s, calls = x._buffer.storage.block, gla.Stream(), []
    for call in ("synchronize", "record", "wait", "launch", "launch_graph", "copy"):
        monkeypatch.setattr(type(machine.device), call, lambda *a, call=call: calls.append(call))
    before = block.streams()
    with s:
        gla.capture(lambda: y.assign(x * 4 + 0.5))
    assert calls == [] and block.streams() == before


@pytest.mark.parametrize("order", ["before", "after"])
def test_c8_a_free_in_the_capture_is_deferred(name, order):
    x, y = A(np.full(2000, 4.0)), A(np.zeros(2000))

    def body():
        if order == "after":
            y.assign(x * 2)
            x.free()
        else:
            value = x * 2
            x.free()
            y.assign(value)

    exe = gla.capture(body).instantiate()
    others = [A(np.full(2000, -1.0)) for _ in range(10)]
    for _ in range(2):
        exe()
        assert N(y)[0] == 8.0
    assert all(N(o)[0] == -1.0 for o in others)
    with pytest.raises(DeviceError, match="free"):
        N(x)


def test_c8_use_after_free_in_the_capture_is_refused(name):
    x, y = A([1.0]), A([0.0])

    def body():
        x.free()
        y.assign(x * 2)

    with pytest.raises(DeviceError, match="after free"):
        gla.capture(body)
    assert not gla.is_capturing()


def test_c8_a_free_by_another_thread_is_deferred(name):
    import threading

    x, y = A(np.full(2000, 4.0)), A(np.zeros(2000))

    def body():
        value = x * 2
        thread = threading.Thread(target=x.free)
        thread.start()
        thread.join()
        y.assign(value)

    exe = gla.capture(body).instantiate()
    others = [A(np.full(2000, -1.0)) for _ in range(10)]
    exe()
    assert N(y)[0] == 8.0 and all(N(o)[0] == -1.0 for o in others)


def test_c8_a_captured_function_may_free_what_it_has_used(name):
    @gla.captured
    def f(x, y):
        y.assign(x + 1)
        x.free()

    y = A(np.zeros(100))
    for k in range(3):
        f(A(np.full(100, float(k))), y)
        assert N(y)[0] == k + 1
