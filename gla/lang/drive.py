"""A `for` of a run block, driven from the host in chunks: every chunk is one launch.

A chunk is an IR loop of the trips up to the next trip that prints or writes, and that trip itself with the values asked
for as further results. A chunk ends as well where the host should look: for Ctrl-C, progress, asserts. How many trips
that is is estimated from the work of a trip and then from the clock; chunk lengths are powers of two times a first guess,
so that few plans are made. Between chunks everything stays in device memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gla.ir.builder import apply, constant
from gla.ir.functions import control
from gla.ir.functions.create import iota
from gla.ir.functions.index import getitem
from gla.ir.functions.shape import concat, expand_dims
from gla.ir.graph import new_input
from gla.ir.node import Node, topological
from gla.ir.types import Type
from gla.lang import syntax as s
from gla.lang.chunks import Chunked
from gla.lang.context import Context
from gla.lang.effects import Site, Sites
from gla.lang.lower.batch import batch
from gla.lang.lower.loops import COUNTER, Trip, build_trip, emit_value, repeated, touched_by, with_results
from gla.lang.scope import Scope
from gla.lang.values import Value

if TYPE_CHECKING:
    from gla.lang.host import Host

MERGE = 32  # pieces of an emit that are joined into one
SCHEDULE = 1 << 22  # trips for which a condition on the counter is worked out ahead


def drive(ctx: Context, host: Host, scope: Scope, loop: s.For, trips: range, variable: Callable[[Node], Value]) -> Value:
    """Run the loop; the variables that it assigns get their last values. Gives its emits."""
    sites = Sites(host.reporter, host.outputs)
    touched = touched_by(scope, loop.body)
    trip = build_trip(ctx, scope, loop, touched, variable, sites)
    if host.engine.dry or not len(trips):
        return repeated(ctx, trip, len(trips), touched)
    run = Run(ctx, host, trip, list(sites.found), trips, loop.variable.id)
    try:
        run.run()
    finally:
        # Also when it is interrupted: the state so far can be kept.
        with_results(touched, run.finals())
    return emit_value(trip, run.emits())


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """An executable for so many trips, and what its results are: carries, then emits, then the values of sites, then a flag."""

    executable: Any
    captured: list[Any]
    scalars: list[Any]
    types: list[Type]
    emits: tuple[int, ...]  # which emit each piece belongs to
    sites: tuple[int, ...]


class Run(Chunked):
    """A `for` under way."""

    def __init__(self, ctx: Context, host: Host, trip: Trip, sites: Sequence[Site], trips: range, name: str) -> None:
        self.emitted = trip.emitted
        wanted = [n for site in sites for n in (*site.effect.nodes, *([] if site.guard is None else [site.guard]))]
        super().__init__(ctx, host, trip, [*(n for n, _ in self.emitted), *wanted])
        self.sites, self.trips, self.name = sites, trips, name
        self.count = len(trips)
        self.pieces: list[list[Node]] = [[] for _ in self.emitted]
        self.chunks: dict[tuple[Any, ...], Chunk] = {}
        self.fires = [self._schedule(site) for site in sites]

    # --- before the first trip
    def _schedule(self, site: Site) -> range | np.ndarray:
        """The trips in which a site may fire, in order."""
        every = max(1, site.effect.every)
        due = range(every - 1, self.count, every)
        if site.guard is None:
            return due
        moving = set(topological([site.guard])) & set(self.trip.params)
        if moving or self.count > SCHEDULE:
            return due
        reached = self.engine.fetch([batch([site.guard], {self.trip.counter: iota(self.count)}, (self.count,))[0]])[0]
        return np.flatnonzero(reached & (np.arange(1, self.count + 1) % every == 0))

    # --- the loop
    def run(self) -> None:
        """All trips, or until the loop is broken off."""
        k = 0
        stream = self.engine.machine.current_stream()
        while k < self.count:
            firing, length = self._next(k)
            chunk = self._chunk(k, length, firing)
            started = time.perf_counter()
            stop = self._launch(chunk, k)
            k += length + bool(firing)
            if k < self.count and not self.flagged:
                stream.synchronize()
            self.pace(length, time.perf_counter() - started)
            self.host.reporter.progress(k, self.count, {"name": self.name})
            if stop:
                break

    def emits(self) -> list[Node]:
        """The rows emitted so far, stacked."""
        return [_joined(rows) if rows else _empty(node) for rows, (node, _) in zip(self.pieces, self.emitted)]

    def _next(self, k: int) -> tuple[tuple[int, ...], int]:
        """(sites that fire after `length` plain trips from trip `k`, length)."""
        coming = []
        for due in self.fires:
            at = max(0, -((due.start - k) // due.step)) if isinstance(due, range) else int(np.searchsorted(due, k))
            coming.append(int(due[at]) if at < len(due) else self.count)
        fire = min(coming, default=self.count)
        if fire - k > self.limit or (self.host.limit and fire > k):
            return (), min(self.limit, self.count - k)
        if fire >= self.count:
            return (), self.count - k
        return tuple(j for j, t in enumerate(coming) if t == fire), fire - k

    def _launch(self, chunk: Chunk, k: int) -> bool:
        """Run a chunk from trip `k`; do what fired. Gives whether the loop was broken off."""
        storages = chunk.executable.run([*self.state, *chunk.captured], [k, *chunk.scalars])
        carries = len(self.carried.inits)
        self.state = storages[:carries]
        results = [(s, t) for s, t in zip(storages[carries:], chunk.types[carries:])]
        for j, (storage, type_) in zip(chunk.emits, results):
            self.pieces[j].append(self.engine.adopt(storage, type_))
            if len(self.pieces[j]) >= MERGE * MERGE or (
                len(self.pieces[j]) >= MERGE and self.pieces[j][-MERGE].shape[0] <= 2 * self.pieces[j][-1].shape[0]
            ):
                self.pieces[j][-MERGE:] = self.engine.settle([concat(self.pieces[j][-MERGE:], 0)])
        rest = results[len(chunk.emits) :]
        stop = self.stopped(rest[-1]) if self.flagged else False
        self._fire(chunk, rest)
        return stop

    def _fire(self, chunk: Chunk, results: Sequence[tuple[Any, Type]]) -> None:
        at = 0
        for j in chunk.sites:
            site = self.sites[j]
            count = len(site.effect.nodes)
            conditional = self._conditional(site)
            reached = not conditional or bool(self.download(results[at + count]))
            if reached:
                site.effect.fire([self.download(r) for r in results[at : at + count]])
            at += count + conditional

    # --- chunks
    def _chunk(self, k: int, length: int, firing: tuple[int, ...]) -> Chunk:
        phases = tuple(k % every for _, every in self.emitted)
        last = tuple(bool(firing) and (k + length + 1) % every == 0 for _, every in self.emitted)
        key = (length, firing, phases, last)
        found = self.chunks.get(key)
        if found is None:
            found = self.chunks[key] = self._build(length, firing, phases, last)
        return found

    def _build(self, length: int, firing: tuple[int, ...], phases: tuple[int, ...], last: tuple[bool, ...]) -> Chunk:
        base = new_input(COUNTER, "first", scalar=True)
        params = [new_input(n.type, name) for n, name in zip(self.carried.inits, self.carried.names)]
        carries: list[Node] = list(params)
        pieces: list[tuple[int, Node]] = []
        emits = [n for n, _ in self.emitted]
        if length:
            carries, pieces = self._plain(length, base, carries, phases)
        asked: list[Node] = []
        if firing:
            before = carries
            wanted = [n for j in firing for n in self._asked(j)]
            values = self.carried.step(apply("add", base, constant(length, literal=False)), carries, [*emits, *wanted])
            carries, rest = values[: len(params)], values[len(params) :]
            pieces += [(j, expand_dims(rest[j], 0)) for j, due in enumerate(last) if due]
            asked = self._reached(firing, rest[len(emits) :], before)
        flag = self.flag(carries)
        carries = [control.as_type(c, p.type) for c, p in zip(carries, params)]
        results = [*carries, *(n for _, n in pieces), *asked, *flag]
        return self._compile(base, params, results, tuple(j for j, _ in pieces), firing)

    def _asked(self, j: int) -> list[Node]:
        """What a site needs computed, and last whether it is reached, where that depends on the trip."""
        site = self.sites[j]
        if site.guard is not None:
            return [*site.effect.nodes, site.guard]
        return [*site.effect.nodes, *([constant(True)] if self._conditional(site) else [])]

    def _conditional(self, site: Site) -> bool:
        return site.guard is not None or self.trip.broken is not None

    def _reached(self, firing: Sequence[int], values: Sequence[Node], before: Sequence[Node]) -> list[Node]:
        """`values` with each site's condition false once the loop was broken off in an earlier trip."""
        found = list(values)
        if self.trip.broken is None:
            return found
        going = apply("logical_not", before[len(self.trip.params)])
        at = -1
        for j in firing:
            at += len(self.sites[j].effect.nodes) + 1
            found[at] = apply("logical_and", found[at], going)
        return found

    def _plain(
        self, length: int, base: Node, carries: Sequence[Node], phases: Sequence[int]
    ) -> tuple[list[Node], list[tuple[int, Node]]]:
        """An IR loop of `length` trips. An emit that does not start in step keeps every row, of which the due ones are taken."""
        emits = [n for n, _ in self.emitted]
        every = [n if phase == 0 else 1 for (_, n), phase in zip(self.emitted, phases)]

        def body(counter: Node, inner: list[Node]) -> tuple[list[Node], list[Node]]:
            new = self.carried.step(apply("add", base, counter), inner, emits)
            return new[: len(inner)], new[len(inner) :]

        finals, stacked = control.loop(length, carries, body, every, self.carried.names)
        pieces = []
        for j, (rows, (_, n), phase) in enumerate(zip(stacked, self.emitted, phases)):
            taken = rows if phase == 0 else getitem(rows, slice(n - phase - 1, None, n))
            if taken.shape[0]:
                pieces.append((j, taken))
        return finals, pieces

    def _compile(
        self, base: Node, params: Sequence[Node], results: Sequence[Node], emits: tuple[int, ...], sites: tuple[int, ...]
    ) -> Chunk:
        graph, leaves = self.engine.close(results, [*params, base])
        arrays = [self.engine.held(n) for n in leaves if not n.attr("scalar")]
        scalars = [self.engine.held(n) for n in leaves if n.attr("scalar")]
        return Chunk(self.engine.executable(graph), arrays, scalars, [n.type for n in results], emits, sites)


def _joined(rows: Sequence[Node]) -> Node:
    return rows[0] if len(rows) == 1 else concat(list(rows), 0)


def _empty(node: Node) -> Node:
    from gla.ir.functions.shape import full_like_constant

    return full_like_constant(0, node.dtype, (0, *node.shape))
