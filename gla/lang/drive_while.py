"""A `while` of a run block, driven from the host in chunks: each is one launch of so many trips at most, after which the
host sees whether it goes on. Between chunks everything stays in device memory.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gla import dtypes
from gla.ir.builder import apply, constant
from gla.ir.functions import control
from gla.ir.graph import new_input, substitute
from gla.ir.node import Node
from gla.ir.types import Type
from gla.lang import syntax as s
from gla.lang.chunks import Chunked, Result
from gla.lang.context import Context
from gla.lang.lower.loops import build_trip, exhausted, sides_of, touched_by, with_results
from gla.lang.scope import Scope

if TYPE_CHECKING:
    from gla.lang.host import Host

TRIPS = Type(dtypes.int64)


def drive_while(ctx: Context, host: Host, scope: Scope, loop: s.While, limit: int) -> None:
    """Run the loop, at most `limit` trips; the variables that it assigns get their last values."""
    touched = touched_by(scope, loop.body)
    trip = build_trip(ctx, scope, loop, touched, None)
    run = WhileRun(ctx, host, trip)
    try:
        still = run.run(limit)
    finally:
        with_results(touched, run.finals())
    if still:
        assert trip.condition is not None
        shown = substitute(sides_of(loop, trip.condition), dict(zip(trip.params, run.finals())))
        host.fail(exhausted(loop, limit, shown, constant(True)))


class WhileRun(Chunked):
    """A `while` under way."""

    def run(self, limit: int) -> bool:
        """Whether the condition still holds after `limit` trips."""
        done = self.memory(constant(0, dtypes.int64))
        executables: dict[int, tuple[Any, list[Any], list[Any]]] = {}
        trips = 0
        while trips < limit:
            chunk = min(self.limit, limit - trips)
            if chunk not in executables:
                executables[chunk] = self._build(chunk)
            executable, arrays, scalars = executables[chunk]
            started = time.perf_counter()
            storages = executable.run([*self.state, done, *arrays], scalars)
            carries = len(self.carried.inits)
            self.state, done = storages[:carries], storages[carries]
            still: Result = (storages[carries + 1], Type(dtypes.bool_))
            if self.flagged and self.stopped((storages[carries + 2], Type(dtypes.bool_))):
                return False
            if not bool(self.download(still)):
                return False
            trips += chunk
            self.pace(chunk, time.perf_counter() - started)
            self.host.reporter.progress(trips, limit, {"name": "while"})
        return self._holds() if limit == 0 else True

    def _build(self, chunk: int) -> tuple[Any, list[Any], list[Any]]:
        """(executable, its arrays, its scalars) of at most `chunk` trips: carries, trips done, whether it goes on, and a flag."""
        params = [new_input(n.type, name) for n, name in zip(self.carried.inits, self.carried.names)]
        done = new_input(TRIPS, "trips")
        finals, _, still = control.while_loop(self._test, self._body, [*params, done], chunk, [*self.carried.names, "trips"])
        carries = [control.as_type(f, p.type) for f, p in zip(finals, params)]
        graph, leaves = self.engine.close([*carries, finals[-1], still, *self.flag(carries)], [*params, done])
        arrays = [self.engine.held(n) for n in leaves if not n.attr("scalar")]
        return self.engine.executable(graph), arrays, [self.engine.held(n) for n in leaves if n.attr("scalar")]

    def _test(self, carries: Sequence[Node]) -> Node:
        trip = self.trip
        assert trip.condition is not None
        holds = substitute((trip.condition,), dict(zip(trip.params, carries)))[0]
        for flag in self.flag(carries):
            holds = apply("logical_and", holds, apply("logical_not", flag))
        return holds

    def _body(self, carries: Sequence[Node]) -> list[Node]:
        return [*self.carried.step(carries[-1], carries[:-1]), apply("add", carries[-1], constant(1, dtypes.int64))]

    def _holds(self) -> bool:
        condition = substitute((self.trip.condition,), dict(zip(self.trip.params, self.finals())))  # type: ignore[arg-type]
        return bool(self.engine.fetch(condition)[0])
