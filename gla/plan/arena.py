"""One arena for all temporaries: who lives when, and where each lies.

Buffers are placed largest first, each in the smallest gap that holds it. Two packings are tried: one that shares memory
only between buffers that the data orders anyway, so that independent branches stay independent, and the densest. The
first is taken unless it is more than a quarter larger.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gla.plan.buffers import Buffers
from gla.plan.dependencies import ancestors_of, uses
from gla.plan.steps import Buffer, LoopStep, Step

ALIGNMENT = 256
QUARTER = 1.25
MANY = 600  # buffers; more are packed in order of time, in one sweep
NO_MATTER = 1 << 14  # below this size the denser packing is not worth a dependency


@dataclass(slots=True)
class Life:
    """First and last position at which a temporary is used, counting the steps of loops one by one, and the steps of the
    plan's top level in which it is."""

    first: int
    last: int
    top: set[int]


def lives(steps: Sequence[Step], buffers: Buffers) -> dict[int, Life]:
    """When each temporary is needed. A buffer used in a loop and outside of it lives as long as the whole loop."""
    spans: dict[int, list[tuple[int, tuple[int, ...], int]]] = {}
    clock = 0

    def visit(sequence: Sequence[Step], loops: tuple[int, ...], top: int) -> None:
        nonlocal clock
        for k, step in enumerate(sequence):
            here = top if top >= 0 else k
            start = clock
            clock += 1
            if isinstance(step, LoopStep):
                number = len(extents)
                extents.append((start, start))
                visit(step.test, (*loops, number), here)
                visit(step.body, (*loops, number), here)
                extents[number] = (start, clock)
                clock += 1
                owned = [b for carry in step.carries for b in carry] + [step.counter, step.condition]
                for buffer in (b for b in owned if b >= 0):
                    spans.setdefault(buffer, []).append((start, loops, here))
                    spans[buffer].append((clock - 1, loops, here))
            else:
                reads, writes = uses(step)
                for buffer in (*reads, *writes):
                    spans.setdefault(buffer, []).append((start, loops, here))

    extents: list[tuple[int, int]] = []
    visit(steps, (), -1)
    return {b: _life(found, extents) for b, found in spans.items() if buffers[b].kind == "temporary"}


def _life(found: list[tuple[int, tuple[int, ...], int]], extents: list[tuple[int, int]]) -> Life:
    """A use in a loop that other uses are not in stretches over that whole loop."""
    common = found[0][1]
    for _, loops, _ in found[1:]:
        while common != loops[: len(common)]:
            common = common[:-1]
    first, last = found[0][0], found[0][0]
    for position, loops, _ in found:
        low = high = position
        if len(loops) > len(common):
            low, high = extents[loops[len(common)]]
        first, last = min(first, low), max(last, high)
    return Life(first, last, {top for _, _, top in found})


def pack(sizes: dict[int, int], together: Callable[[int, int], bool]) -> tuple[dict[int, int], int]:
    """(offset per buffer, bytes in all). `together(a, b)`: both may hold something at one time."""
    placed: dict[int, tuple[int, int]] = {}
    total = 0
    for buffer in sorted(sizes, key=lambda b: (-sizes[b], b)):
        size = _aligned(sizes[buffer])
        taken = sorted(span for other, span in placed.items() if together(buffer, other))
        best, best_gap, end = -1, 0, 0
        for start, stop in taken:
            gap = start - end
            if gap >= size and (best < 0 or gap < best_gap):
                best, best_gap = end, gap
            end = max(end, stop)
        offset = end if best < 0 else best
        placed[buffer] = (offset, offset + size)
        total = max(total, offset + size)
    return {b: start for b, (start, _) in placed.items()}, total


def place(steps: Sequence[Step], buffers: Buffers) -> tuple[tuple[Buffer, ...], int]:
    """(buffers with offsets and lifetimes, bytes of the arena)."""
    alive = lives(steps, buffers)
    sizes = {b: buffers[b].nbytes for b in alive if buffers[b].nbytes}
    offsets, total = _sweep(sizes, alive) if len(sizes) > MANY else _best(sizes, alive, ancestors_of(steps))
    out = []
    for buffer in buffers.all:
        life = alive.get(buffer.id)
        offset = offsets.get(buffer.id, 0)
        out.append(buffer if life is None else replace(buffer, offset=offset, first=life.first, last=life.last))
    return tuple(out), total


def _best(sizes: dict[int, int], alive: dict[int, Life], masks: list[int]) -> tuple[dict[int, int], int]:
    """The looser packing, or the densest where it saves much."""

    def at_once(a: int, b: int) -> bool:
        return alive[a].first <= alive[b].last and alive[b].first <= alive[a].last

    def unordered(a: int, b: int) -> bool:
        if at_once(a, b):
            return True
        first, second = (a, b) if alive[a].last < alive[b].first else (b, a)
        goal = min(alive[second].top)
        return not all(step == goal or masks[goal] >> step & 1 for step in alive[first].top)

    dense, dense_total = pack(sizes, at_once)
    loose, loose_total = pack(sizes, unordered)
    return (loose, loose_total) if loose_total <= max(dense_total * QUARTER, NO_MATTER) else (dense, dense_total)


def _sweep(sizes: dict[int, int], alive: dict[int, Life]) -> tuple[dict[int, int], int]:
    """Each buffer, in the order in which they begin, in the smallest gap that is free by then."""
    offsets: dict[int, int] = {}
    gaps: list[tuple[int, int]] = []  # (start, stop), sorted, apart
    ending: list[tuple[int, int]] = []  # (last position, buffer)
    total = 0
    for buffer in sorted(sizes, key=lambda b: (alive[b].first, -sizes[b], b)):
        while ending and ending[0][0] < alive[buffer].first:
            _, gone = heapq.heappop(ending)
            _release(gaps, offsets[gone], offsets[gone] + _aligned(sizes[gone]))
        size = _aligned(sizes[buffer])
        fitting = [(stop - start, start, stop) for start, stop in gaps if stop - start >= size]
        if fitting:
            _, start, stop = min(fitting)
            gaps.remove((start, stop))
            if start + size < stop:
                bisect.insort(gaps, (start + size, stop))
        else:
            start = gaps.pop()[0] if gaps and gaps[-1][1] == total else total
            total = start + size
        offsets[buffer] = start
        heapq.heappush(ending, (alive[buffer].last, buffer))
    return offsets, total


def _release(gaps: list[tuple[int, int]], start: int, stop: int) -> None:
    """Give a span back, joined with the gaps beside it."""
    k = bisect.bisect(gaps, (start, stop))
    if k < len(gaps) and gaps[k][0] == stop:
        stop = gaps.pop(k)[1]
    if k and gaps[k - 1][1] == start:
        start = gaps.pop(k - 1)[0]
        k -= 1
    gaps.insert(k, (start, stop))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def span(buffers: Sequence[Buffer]) -> Callable[[int], tuple[int, int, int]]:
    """Where each buffer lies, for dependencies.py: temporaries in the arena, every other one in a space of its own."""

    def find(number: int) -> tuple[int, int, int]:
        buffer = buffers[number]
        if buffer.kind == "temporary" and buffer.nbytes:
            return -1, buffer.offset, buffer.offset + buffer.nbytes
        return number, 0, 1

    return find
