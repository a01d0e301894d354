"""Runs a plan with NumPy: the arena is real memory, steps run in a random order that their dependencies allow, and each
region is held to its contract. Values come from ir/reference, so that only planning is under test."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from gla.ir import reference
from gla.ir.access import ELSEWHERE, ONE, WHOLE, accesses, identity
from gla.ir.node import Node, topological
from gla.plan.fuse.cost import is_large_reduction
from gla.plan.steps import CopyStep, KernelStep, LoopStep, MatmulStep, Plan, Region, Step


def check_region(region: Region) -> None:
    """The contract of steps.Region."""
    rank = len(region.items)
    own = set(region.outputs)
    for output in region.outputs:
        if output.op == "scan":
            assert region.outputs == (output,) and output.attr("axis") == len(output.shape) - 1
            assert region.items == output.shape[:-1]
            return
        assert output.shape in (region.items, region.items + region.inner), (region, output)
        reached = accesses(output, set(region.inputs) - own) if output not in region.inputs else {}
        for node, paths in [*reached.items(), (output, {identity(output)})]:
            if node in region.inputs and node not in own:
                continue
            if is_large_reduction(node):
                assert node.shape == region.items, (node, region.items)
                for path in paths:
                    assert all(a in (k, ONE) for k, a in enumerate(path)), (node, path)
            assert node.op not in ("scan", "matmul")
    assert rank >= 0


def check_in_place(step: KernelStep) -> None:
    """A buffer that a kernel reads and writes is read at the element that is written."""
    for output, target, buffer in zip(step.region.outputs, step.region.targets, step.writes):
        if buffer not in step.reads:
            continue
        array = step.region.inputs[step.reads.index(buffer)]
        for other in step.region.outputs:
            for node, paths in accesses(other, set(step.region.inputs)).items():
                if target is None and node is array:
                    short = step.region.inner and np.prod(step.region.inner) <= 8
                    rank = len(step.region.items) if short else len(array.shape)
                    assert {path[:rank] for path in paths} <= {identity(other)[:rank]} and other.shape == array.shape
                if target is not None and array in node.operands and node.op == "slice":
                    assert (node.attr("starts"), node.attr("steps")) == (target.starts, target.steps)
                    assert paths == {identity(output)}
    assert ELSEWHERE != WHOLE


class Machine:
    def __init__(self, plan: Plan, seed: int = 0) -> None:
        self.plan = plan
        self.random = random.Random(seed)
        self.arena = np.full(plan.arena_bytes + 1, 0xA5, np.uint8)
        self.memory: dict[int, np.ndarray] = {}
        for b in plan.buffers:
            if b.kind == "temporary" and b.nbytes:
                assert b.offset + b.nbytes <= plan.arena_bytes
                part = self.arena[b.offset : b.offset + b.nbytes]
                self.memory[b.id] = part.view(b.dtype.numpy).reshape(b.shape)
            else:
                self.memory[b.id] = np.empty(b.shape, b.dtype.numpy)
        self.renamed: dict[int, int] = {}
        self.scalars: dict[Node, Any] = {}

    def __call__(self, arguments: list[Any], scalars: dict[Node, Any] | None = None) -> list[np.ndarray]:
        for buffer, value in zip(self.plan.inputs, arguments, strict=True):
            self.memory[buffer][...] = value
        self.scalars = {n: np.asarray(v, n.dtype.numpy) for n, v in (scalars or {}).items()}
        with np.errstate(all="ignore"):
            self.run(self.plan.steps)
        return [self.memory[b].copy() for b in self.plan.outputs]

    def at(self, buffer: int) -> np.ndarray:
        return self.memory[self.renamed.get(buffer, buffer)]

    def run(self, steps: tuple[Step, ...]) -> None:
        done: set[int] = set()
        left = list(range(len(steps)))
        while left:
            ready = [k for k in left if set(steps[k].after) <= done]
            k = self.random.choice(ready)
            self.step(steps[k])
            done.add(k)
            left.remove(k)

    def step(self, step: Step) -> None:
        match step:
            case KernelStep():
                self.kernel(step)
            case CopyStep():
                assert self.at(step.source).nbytes == self.at(step.target).nbytes
                self.at(step.target)[...] = self.at(step.source).reshape(self.at(step.target).shape)
            case MatmulStep():
                self.matmul(step)
            case LoopStep():
                self.loop(step)

    def kernel(self, step: KernelStep) -> None:
        region = step.region
        if region.marching is not None:
            self.march(step)
            return
        check_region(region)
        check_in_place(step)
        values: dict[Node, Any] = {}
        for node, buffer in zip(region.inputs, step.reads, strict=True):
            held = self.at(buffer)
            assert held.dtype == node.dtype.numpy
            values[node] = held.reshape(-1)[: node.type.size].reshape(node.shape).copy()
        for node in region.scalars:
            values[node] = self.scalars[node]
        starts = [s for t in region.targets if t for s in t.starts if isinstance(s, Node)]
        for node in topological([*region.outputs, *starts], stop=set(values)):
            if node not in values:
                values[node] = reference._node(node, [values[o] for o in node.operands])
        for output, target, buffer in zip(region.outputs, region.targets, step.writes, strict=True):
            place = self.at(buffer)
            value = values[output]
            if target is None:
                assert place.size == output.type.size, (place.shape, output)
                place.reshape(-1)[...] = np.ravel(value)
                continue
            assert place.shape == target.shape
            starts = [int(values[s]) if isinstance(s, Node) else s for s in target.starts]
            index = [s + t * np.arange(n) for s, t, n in zip(starts, target.steps, output.shape)]
            place[np.ix_(*index)] = value

    def march(self, step: KernelStep) -> None:
        """All trips of a pass, whole arrays at a time; what both versions of a cell give far from the borders is the same."""
        region, marching = step.region, step.region.marching
        assert marching is not None
        assert not set(step.reads) & set(step.writes)
        given = {node: self.at(buffer).copy() for node, buffer in zip(region.inputs, step.reads, strict=True)}
        given |= {node: self.scalars[node] for node in region.scalars}
        grids = [given[carry] for carry in region.inputs[: len(region.outputs)]]
        first = _evaluated((marching.first,), given)[0]
        for trip in range(marching.steps):
            known = given | {marching.trip: np.int64(first + trip)}
            for tap in marching.taps:
                known[tap.node] = np.roll(grids[tap.carry], [-o for o in tap.offset], tuple(range(len(tap.offset))))
            grids = _evaluated(region.outputs, known)
            deep = tuple(slice(m, n - m) for m, n in zip(marching.margin, region.items))
            for border, inner in zip(grids, _evaluated(marching.inner, known)):
                np.testing.assert_array_equal(border[deep], inner[deep])
        for grid, buffer in zip(grids, step.writes, strict=True):
            self.at(buffer)[...] = grid

    def matmul(self, step: MatmulStep) -> None:
        c = step.call
        a, b = self.at(step.a).reshape(-1), self.at(step.b).reshape(-1)
        out = self.at(step.c).reshape(c.batch, c.m, c.n)
        size = a.itemsize
        for k in range(c.batch):
            shape, flip = ((c.k, c.m), True) if c.transpose_a else ((c.m, c.k), False)
            first = a[step.a_offset + k * c.stride_a :]
            assert (shape[0] - 1) * c.lda + shape[1] <= first.size and c.lda >= shape[1]
            left = np.lib.stride_tricks.as_strided(first, shape, (c.lda * size, size))
            left = left.T if flip else left
            shape, flip = ((c.n, c.k), True) if c.transpose_b else ((c.k, c.n), False)
            second = b[step.b_offset + k * c.stride_b :]
            assert (shape[0] - 1) * c.ldb + shape[1] <= second.size and c.ldb >= shape[1]
            right = np.lib.stride_tricks.as_strided(second, shape, (c.ldb * size, size))
            out[k] = left @ (right.T if flip else right)

    def loop(self, step: LoopStep) -> None:
        outer = dict(self.renamed)
        if step.counter >= 0:
            self.at(step.counter)[...] = 0
        for start, current, _ in step.carries:
            self.at(current)[...] = self.at(start)
        trips = 0
        while trips < step.count:
            if step.test:
                self.run(step.test)
                if not self.at(step.condition):
                    break
            self.run(step.body)
            for _, current, following in step.carries:
                a, b = self.renamed.get(current, current), self.renamed.get(following, following)
                self.renamed[current], self.renamed[following] = b, a
            trips += 1
            assert step.counter < 0 or int(self.at(step.counter)) == trips
        held = [self.at(current).copy() for _, current, _ in step.carries]
        self.renamed = outer
        for (_, current, _), value in zip(step.carries, held):
            self.at(current)[...] = value


def _evaluated(roots: tuple[Node, ...], given: dict[Node, Any]) -> list[Any]:
    values = dict(given)
    for node in topological(roots, stop=set(values)):
        if node not in values:
            values[node] = reference._node(node, [values[o] for o in node.operands])
    return [values[root] for root in roots]
