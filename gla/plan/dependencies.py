"""Which step waits for which: from reads and writes of the same memory, transitively reduced.

Read after write, write after read, write after write; two temporaries that lie over each other in the arena count as
the same memory. Steps of a loop's body depend on each other within one trip; trips follow each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


class _Memory:
    """What happened to a buffer so far."""

    __slots__ = ("readers", "writer")

    def __init__(self) -> None:
        self.writer = -1
        self.readers: list[int] = []


def after(steps: Sequence[Step], overlaps: Mapping[int, Sequence[int]]) -> list[tuple[int, ...]]:
    """Per step, the earlier steps that it waits for, none of them waiting for another of them. `overlaps`: other buffers
    over the same memory."""
    memory: dict[int, _Memory] = {}
    ancestors: list[int] = []
    out: list[tuple[int, ...]] = []
    for k, step in enumerate(steps):
        reads, writes = uses(step)
        wanted: set[int] = set()
        for buffer in reads:
            wanted.add(memory.setdefault(buffer, _Memory()).writer)
        for buffer in writes:
            for place in (buffer, *overlaps.get(buffer, ())):
                state = memory.get(place)
                if state is not None:
                    wanted.add(state.writer)
                    wanted.update(state.readers)
        wanted -= {-1, k}
        mask, kept = 0, []
        for earlier in sorted(wanted, reverse=True):
            if not mask >> earlier & 1:
                kept.append(earlier)
                mask |= ancestors[earlier] | 1 << earlier
        ancestors.append(mask)
        out.append(tuple(reversed(kept)))
        for buffer in reads:
            memory[buffer].readers.append(k)
        for buffer in writes:
            state = memory.setdefault(buffer, _Memory())
            state.writer, state.readers = k, []
    return out


def ancestors_of(steps: Sequence[Step]) -> list[int]:
    """Per step, as bits, the steps that come before it whatever the arena looks like."""
    masks: list[int] = []
    for waits in after(steps, {}):
        mask = 0
        for earlier in waits:
            mask |= masks[earlier] | 1 << earlier
        masks.append(mask)
    return masks


def with_dependencies(steps: Sequence[Step], overlaps: Mapping[int, Sequence[int]]) -> tuple[Step, ...]:
    """The steps with `after` set, in loops too."""
    out: list[Step] = []
    for step, waits in zip(steps, after(steps, overlaps), strict=True):
        if isinstance(step, LoopStep):
            body, test = with_dependencies(step.body, overlaps), with_dependencies(step.test, overlaps)
            out.append(replace(step, body=body, test=test, after=waits))
        else:
            out.append(replace(step, after=waits))
    return tuple(out)
