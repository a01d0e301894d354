"""Which step waits for which: from reads and writes of the same memory, transitively reduced.

Read after write, write after read, write after write; two temporaries that lie over each other in the arena count as
the same memory. Steps of a loop's body depend on each other within one trip; trips follow each other.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace

from gla.plan.steps import CopyStep, KernelStep, LoopStep, MatmulStep, Step


def uses(step: Step) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(buffers that the step reads, buffers that it writes), those of a loop's body included."""
    match step:
        case KernelStep():
            return step.reads, step.writes
        case MatmulStep():
            return (step.a, step.b), (step.c,)
        case CopyStep():
            return (step.source,), (step.target,)
        case LoopStep():
            reads, writes = [start for start, _, _ in step.carries], [b for b in (step.counter, step.condition) if b >= 0]
            for _, current, other in step.carries:
                writes += [current, other]
            for inner in (*step.test, *step.body):
                more_reads, more_writes = uses(inner)
                reads += more_reads
                writes += more_writes
            return tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes))


Spans = Callable[[int], tuple[int, int, int]]
"""Where a buffer lies: (space, start, stop). Two buffers of one space share what their spans have in common."""


class _Part:
    """A part of a space, and what happened to it so far."""

    __slots__ = ("readers", "start", "stop", "writer")

    def __init__(self, start: int, stop: int, writer: int, readers: list[int]) -> None:
        self.start, self.stop, self.writer, self.readers = start, stop, writer, readers


class _Space:
    """Memory as parts that were written by one step each, in order of address."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[_Part] = []

    def touched(self, start: int, stop: int) -> tuple[int, int]:
        """The range of parts that have something in common with start..stop."""
        low = bisect_right(self.parts, start, key=lambda part: part.stop)
        high = bisect_left(self.parts, stop, low, key=lambda part: part.start)
        return low, high

    def read(self, start: int, stop: int, step: int) -> None:
        low, high = self.touched(start, stop)
        if low == high:
            self.parts.insert(low, _Part(start, stop, -1, [step]))
        for part in self.parts[low:high]:
            part.readers.append(step)

    def write(self, start: int, stop: int, step: int) -> None:
        low, high = self.touched(start, stop)
        new = [_Part(start, stop, step, [])]
        if low < high:
            first, last = self.parts[low], self.parts[high - 1]
            if first.start < start:
                new.insert(0, _Part(first.start, start, first.writer, list(first.readers)))
            if last.stop > stop:
                new.append(_Part(stop, last.stop, last.writer, list(last.readers)))
        self.parts[low:high] = new


def after(steps: Sequence[Step], span: Spans) -> list[tuple[int, ...]]:
    """Per step, the earlier steps that it waits for, none of them waiting for another of them."""
    spaces: dict[int, _Space] = {}
    ancestors: list[int] = []
    out: list[tuple[int, ...]] = []
    for k, step in enumerate(steps):
        reads, writes = ([span(b) for b in buffers] for buffers in uses(step))
        wanted: set[int] = set()
        for places, written in ((reads, False), (writes, True)):
            for space, start, stop in places:
                memory = spaces.setdefault(space, _Space())
                low, high = memory.touched(start, stop)
                for part in memory.parts[low:high]:
                    wanted.add(part.writer)
                    if written:
                        wanted.update(part.readers)
        wanted -= {-1, k}
        mask, kept = 0, []
        for earlier in sorted(wanted, reverse=True):
            if not mask >> earlier & 1:
                kept.append(earlier)
                mask |= ancestors[earlier] | 1 << earlier
        ancestors.append(mask)
        out.append(tuple(reversed(kept)))
        for space, start, stop in reads:
            spaces[space].read(start, stop, k)
        for space, start, stop in writes:
            spaces[space].write(start, stop, k)
    return out


def ancestors_of(steps: Sequence[Step]) -> list[int]:
    """Per step, as bits, the steps that come before it whatever the arena looks like."""
    masks: list[int] = []
    for waits in after(steps, lambda buffer: (buffer, 0, 1)):
        mask = 0
        for earlier in waits:
            mask |= masks[earlier] | 1 << earlier
        masks.append(mask)
    return masks


def with_dependencies(steps: Sequence[Step], span: Spans) -> tuple[Step, ...]:
    """The steps with `after` set, in loops too."""
    out: list[Step] = []
    for step, waits in zip(steps, after(steps, span), strict=True):
        if isinstance(step, LoopStep):
            body, test = with_dependencies(step.body, span), with_dependencies(step.test, span)
            out.append(replace(step, body=body, test=test, after=waits))
        else:
            out.append(replace(step, after=waits))
    return tuple(out)
