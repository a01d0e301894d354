"""Stores that pass the caches by: the same results, for any dtype, range of items and alignment."""

from __future__ import annotations

import numpy as np
import pytest

import gla.dtypes as dt
from gla.codegen import llvm_stream
from gla.codegen.kernel import Load
from gla.codegen.llvm import print_llvm
from gla.device.base import Parameters
from gla.device.host import HostDevice, jit
from tests.handmade import Writer

DEVICE = HostDevice(strict=False, threads=1)
N = 1000


def doubled(dtype):
    w = Writer("doubled")
    x, n, out = w.pointer(dtype), w.extent(), w.pointer(dtype, True)
    value = w.load(x, w.item)
    w.store(out, w.item, w.op("bxor" if dtype is dt.bool_ else "add", value, value))
    return w.kernel(n)


def aligned(dtype, shift):
    """A zeroed array whose data start `shift` elements after a line of 64 bytes."""
    raw = np.zeros(N * dtype.itemsize + 192, np.uint8)
    skip = -raw.ctypes.data % 64 + shift * dtype.itemsize
    return raw[skip : skip + N * dtype.itemsize].view(dtype.numpy)


@pytest.mark.parametrize("dtype", [dt.bool_, dt.int8, dt.uint16, dt.float32, dt.float64], ids=str)
@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize(("begin", "end"), [(0, N), (0, 63), (64, 64), (64, 192), (65, 999), (128, N)])
def test_every_item_of_the_range_and_no_other_is_stored(dtype, shift, begin, end, monkeypatch):
    monkeypatch.setattr(llvm_stream, "LARGE", 1)
    kernel = doubled(dtype)
    text = print_llvm(kernel)
    assert "!nontemporal" in text
    function = DEVICE.function(DEVICE.load(DEVICE.compile(text, kernel.name)), kernel.name)
    x, out = np.random.default_rng(1).integers(0, 2, N).astype(dtype.numpy), aligned(dtype, shift)
    parameters = Parameters([None if p.kind == "pointer" else p.dtype for p in kernel.parameters])
    for slot, value in enumerate((x.ctypes.data, N, out.ctypes.data)):
        parameters.set(slot, value)
    function.call(parameters.address, begin, end)
    expected = np.zeros(N, dtype.numpy)
    expected[begin:end] = (x ^ x if dtype is dt.bool_ else x + x)[begin:end]
    assert out.tobytes() == expected.tobytes()


def test_the_machine_stores_past_its_caches():
    kernel = doubled(dt.float32)
    if "x86" in jit.llvm.get_process_triple():
        assert "movnt" in jit.emit_assembly(print_llvm(kernel))


def test_results_that_other_items_place_are_stored_as_ever():
    w = Writer("scattered")
    x, where, n, out = w.pointer(dt.float32), w.pointer(dt.int32), w.extent(), w.pointer(dt.float32, True)
    w.store(out, w.load(where, w.item), w.load(x, w.item))
    kernel = w.kernel(n)
    assert any(isinstance(s, Load) for s in kernel.body)
    assert not llvm_stream.streams(kernel)
    assert "nontemporal" not in print_llvm(kernel)
