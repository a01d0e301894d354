"""What loops that the host drives have in common: what they carry stays in device memory between chunks, how much a chunk
does follows the clock, asserts are looked at after each.

Used by gla/lang/drive.py (`for`) and gla/lang/drive_while.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gla.ir.builder import apply, constant_value, is_constant
from gla.ir.functions import control
from gla.ir.node import Node, topological
from gla.ir.types import Type
from gla.lang.context import Check, Context
from gla.lang.engine import DeviceEngine
from gla.lang.lower.loops import Carried, Trip, told_after

if TYPE_CHECKING:
    from gla.lang.host import Host

FIRST_WORK = {"host": 4e8, "cuda": 4e10}  # element operations of the first chunk, at most
LOOK = 0.4  # seconds between looks, at most, about

Result = tuple[Any, Type]


class Chunked:
    """A loop under way. `state` are the storages of what it carries; `limit` the most trips of the next chunk."""

    def __init__(self, ctx: Context, host: Host, trip: Trip, more: Sequence[Node] = ()) -> None:
        self.ctx, self.host, self.trip = ctx, host, trip
        self.engine: DeviceEngine = host.engine  # type: ignore[assignment]
        self.carried = Carried(ctx, trip)
        self._settle_outside(more)
        self.state = [self.memory(node) for node in self.engine.settle(self.carried.inits)]
        first = max(1, int(FIRST_WORK.get(self.engine.machine.kind, 4e8) / self.work))
        if host.limit:
            first = min(first, host.limit)
        self.limit = 1 << (first.bit_length() - 1)

    def _settle_outside(self, more: Sequence[Node]) -> None:
        """What the body uses from outside is computed once, and not in every chunk."""
        trip = self.trip
        roots = [*trip.after, *more, *(n for c in trip.checks for n in (c.ok, *c.shown))]
        roots += [n for n in (trip.broken, trip.condition) if n is not None]
        captured = control.captures_of([trip.counter, *trip.params], roots)
        self.engine.settle([n for n in captured if not is_constant(n)])
        self.work = max(1, work_of(roots, set(captured)))

    def memory(self, leaf: Node) -> Any:
        """The storage of a leaf; numbers that are passed by value are put into memory."""
        if is_constant(leaf) or leaf.attr("scalar"):
            return self.engine.machine.upload(np.asarray(self.engine.value(leaf), leaf.dtype.numpy))
        return self.engine.held(leaf)

    def download(self, result: Result) -> np.ndarray:
        storage, type_ = result
        return self.engine.machine.download(storage, type_.dtype.numpy, type_.shape)

    def finals(self) -> list[Node]:
        """The values of the variables after the trips so far."""
        return [self.engine.adopt(storage, node.type) for storage, node in zip(self.state, self.trip.inits)]

    # --- pace
    def pace(self, trips: int, took: float) -> None:
        """Longer chunks after a quick one, shorter ones after a slow one; by fours, so that few plans are made."""
        if self.host.limit or trips < self.limit:
            return
        if took < LOOK / 8:
            self.limit *= 4
        elif took > LOOK:
            self.limit = max(1, self.limit // 4)

    # --- asserts
    @property
    def flagged(self) -> bool:
        return bool(self.trip.checks) or self.trip.broken is not None

    def flag(self, carries: Sequence[Node]) -> list[Node]:
        """One bool: whether an assert failed or the loop was broken off; nothing when it has neither."""
        found = [failed for _, failed, _, _ in self.carried.latched(carries)]
        if self.trip.broken is not None:
            found.append(carries[len(self.trip.params)])
        if not found:
            return []
        result = found[0]
        for node in found[1:]:
            result = apply("logical_or", result, node)
        return [result]

    def stopped(self, flag: Result) -> bool:
        """Whether the loop is over; an assert that failed is raised, the first one of all."""
        if not bool(self.download(flag)):
            return False
        finals = [self.engine.adopt(storage, node.type) for storage, node in zip(self.state, self.carried.inits)]
        failed: list[tuple[int, Check]] = []
        for check, bad, at, shown in self.carried.latched(finals):
            if bool(self.engine.value(bad)):
                failed.append((int(self.engine.value(at)), told_after(check, bad, at, shown)))
        if failed:
            self.host.fail(min(failed, key=lambda f: f[0])[1])
        return True


def work_of(roots: Sequence[Node], stop: set[Node]) -> int:
    """About how many element operations the nodes between `stop` and `roots` take."""
    total = 0
    for node in topological(roots, stop=stop):
        if node in stop or node.op in ("input", "constant", "item"):
            continue
        if node.op == "loop":
            trips = int(constant_value(node.operands[0])) if is_constant(node.operands[0]) else 1
            total += trips * work_of(node.attr("body").results, set())
        elif node.op == "while":
            # Nobody knows how often it runs: as if a tenth of what it may.
            total += max(1, node.attr("limit") // 10) * work_of(node.attr("body").results, set())
        elif isinstance(node.type, Type):
            total += prod(node.shape) * _weight(node)
    return total


def _weight(node: Node) -> int:
    """About how many operations an element of the node costs."""
    if node.op == "matmul":
        return 2 * node.operands[0].shape[-1]
    if node.op in ("reduce", "argreduce", "scan"):
        return max(1, prod(node.operands[0].shape) // max(1, prod(node.shape)))
    return 1
