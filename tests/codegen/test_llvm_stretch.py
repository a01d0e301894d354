"""Stretches of items: shifted, padded, joined and divided indices give what NumPy gives, wherever a stretch begins."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

import gla.dtypes as dt
from gla.codegen.kernel import Kernel
from gla.codegen.llvm import print_llvm
from gla.codegen.llvm_stretch import stretches
from gla.codegen.loops import lower
from gla.device.base import Parameters
from gla.device.host import HostDevice, jit
from gla.ir.builder import apply
from gla.ir.functions import shape
from gla.ir.graph import new_input
from gla.ir.types import Type
from gla.plan.steps import Region

DEVICE = HostDevice(strict=False, threads=1)
RNG = np.random.default_rng(5)
MODES = {"periodic": "wrap", "edge": "edge", "reflect": "reflect", "symmetric": "symmetric", "constant": "constant"}


def array(*extents):
    return new_input(Type(dt.float32, extents), "x")


def run(result, inputs, values, ranges=None):
    """The region that computes `result`, over ranges of items that cover it in pieces."""
    low = lower(Region((result,), tuple(inputs), (), result.shape))
    function = DEVICE.function(DEVICE.load(DEVICE.compile(print_llvm(low.kernel), low.kernel.name)), low.kernel.name)
    parameters = Parameters([None if p.kind == "pointer" else p.dtype for p in low.kernel.parameters])
    out = np.full(result.shape, np.nan, np.float32)
    for slot, argument in enumerate(low.arguments):
        match type(argument).__name__:
            case "InputPointer":
                parameters.set(slot, values[argument.index].ctypes.data)
            case "OutputPointer":
                parameters.set(slot, out.ctypes.data)
            case _:
                parameters.set(slot, argument.value)
    items = int(np.prod(result.shape))
    cuts = sorted({0, items, *(int(c) for c in RNG.integers(0, items + 1, 4))}) if ranges is None else ranges
    for begin, end in pairwise(cuts):
        function.call(parameters.address, begin, end)
    return out


def shifted(x, offset, mode):
    """x at index + offset along a 1-D array, by np.pad."""
    width = abs(offset)
    padded = np.pad(x, width, mode=MODES[mode])
    return padded[width + offset : width + offset + len(x)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("offset", [1, -1, 3, -4])
@pytest.mark.parametrize("n", [5, 40])
def test_shifts_along_one_axis(mode, offset, n):
    x = RNG.normal(size=n).astype(np.float32)
    node = array(n)
    moved = shape.shift(node, (offset,), (mode,), 0.0)
    got = run(apply("add", moved, apply("multiply", node, 2.0)), [node], [x])
    assert np.array_equal(got, shifted(x, offset, mode) + x * np.float32(2))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("extents", [(7, 33), (1, 20), (50, 3)])
def test_stencils_of_two_axes(mode, extents):
    x = RNG.normal(size=extents).astype(np.float32)
    node = array(*extents)
    total, expected = node, x
    for offset in ((0, 1), (0, -1), (1, 0), (-1, 0)):
        total = apply("add", total, shape.shift(node, offset, (mode, mode), 0.0))
        if extents[0] == 1 and offset[0] and mode != "constant":
            expected = expected + x
            continue
        moved = np.pad(x, [(abs(o), abs(o)) for o in offset], mode=MODES[mode])
        rows, columns = (slice(abs(o) + o, abs(o) + o + n) for o, n in zip(offset, extents))
        expected = expected + moved[rows, columns]
    assert np.array_equal(run(total, [node], [x]), expected)


def test_three_axes_rolled_and_broadcast():
    x, row = RNG.normal(size=(4, 5, 18)).astype(np.float32), RNG.normal(size=18).astype(np.float32)
    a, b = array(4, 5, 18), array(18)
    moved = shape.roll(a, (1, -2, 5), (0, 1, 2))
    got = run(apply("add", moved, shape.broadcast_to(b, (4, 5, 18))), [a, b], [x, row])
    assert np.array_equal(got, np.roll(x, (1, -2, 5), (0, 1, 2)) + row)


def test_joined_and_padded_arrays():
    x, y = RNG.normal(size=(6, 9)).astype(np.float32), RNG.normal(size=(6, 20)).astype(np.float32)
    a, b = array(6, 9), array(6, 20)
    joined = shape.concat([a, b], 1)
    assert np.array_equal(run(apply("multiply", joined, 2.0), [a, b], [x, y]), np.concatenate([x, y], 1) * np.float32(2))
    padded = shape.pad(a, (2, 1), (0, 30), 0.5)
    expected = np.pad(x, ((2, 0), (1, 30)), constant_values=0.5) * np.float32(2)
    assert np.array_equal(run(apply("multiply", padded, 2.0), [a], [x]), expected)


def test_reversed_and_transposed_arrays():
    x = RNG.normal(size=(12, 31)).astype(np.float32)
    node = array(12, 31)
    got = run(apply("add", shape.transpose(node), shape.transpose(shape.flip(node, (0, 1)))), [node], [x])
    assert np.array_equal(got, x.T + x[::-1, ::-1].T)


def stencil(mode) -> Kernel:
    node = array(64, 64)
    moved = apply("add", shape.shift(node, (0, 1), (mode, mode), 0.0), shape.shift(node, (0, -1), (mode, mode), 0.0))
    return lower(Region((moved,), (node,), (), (64, 64))).kernel


@pytest.mark.parametrize("mode", ["periodic", "edge", "reflect", "constant"])
def test_stencils_read_vectors_of_neighbours(mode):
    text = str(jit._optimised(print_llvm(stencil(mode)), "stencil"))
    assert re.search(r"fadd <\d+ x float>", text)
    assert re.search(r"load <\d+ x float>", text)


def test_only_an_edge_that_repeats_is_doubted():
    assert not stretches(stencil("periodic")).doubts
    assert stretches(stencil("edge")).doubts
