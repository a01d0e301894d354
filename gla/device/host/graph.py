"""Graphs of the host device: nodes in the order in which they were added, and executables that run them.

An executable is a table of (function, slots, items). Nodes between library calls and between kernels that are shared among
threads form a run, which one compiled function works through; a graph of small kernels is thus one call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from gla.device.base import Geometry, GraphNode, Matmul, Parameters
from gla.device.host import blas
from gla.device.host.threads import GRAIN
from gla.errors import GraphError

SPREAD = 1 << 19  # primitives from which a launch is worth waking other threads: that takes about 25 us


@dataclass(slots=True)
class Call:
    """A kernel, copy or fill: `function.call(slots, begin, end)`. `cost` primitives an item (a copy's items are bytes)."""

    function: Any
    parameters: Parameters
    items: int
    cost: float

    @property
    def heavy(self) -> bool:
        return self.items > GRAIN and self.items * self.cost >= SPREAD


@dataclass(slots=True)
class Product:
    """A library call."""

    call: Matmul
    a: int
    b: int
    c: int


@dataclass(slots=True, eq=False)
class HostGraph:
    nodes: list[Call | Product] = field(default_factory=list)
    closed: bool = False

    def add(self, after: Sequence[GraphNode], work: Call | Product, kind: str) -> GraphNode:
        """Raises GraphError when `after` names a node of another graph."""
        for node in after:
            if node.handles[0] is not self:
                raise GraphError("GLA0920", f"a node of another graph cannot come before a {kind} node of this one")
        self.nodes.append(work)
        return GraphNode(kind, (self, len(self.nodes) - 1))


def position(owner: HostGraph, node: GraphNode) -> int:
    graph, number = node.handles
    if graph is not owner:
        raise GraphError("GLA0921", "the node belongs to another graph than the executable was made of")
    return number


class Executable:
    """A copy of a graph's nodes, ready to run. `runner()` gives the function (table, count) that works through a run, `spread`
    shares a call among threads; both are the device's."""

    __slots__ = ("_runner", "_spread", "_steps", "_table", "closed", "graph", "lock", "work")

    def __init__(
        self, graph: HostGraph, runner: Callable[[], Callable[[int, int], None]], spread: Callable[[Call], None] | None
    ) -> None:
        self.graph, self.closed, self.lock = graph, False, threading.RLock()
        self.work: list[Call | Product] = [_copied(w) for w in graph.nodes]
        self._runner, self._spread = runner, spread
        self._table = np.zeros((max(len(self.work), 1), 3), np.uint64)
        self._steps: list[Callable[[], Any]] | None = None
        for number, work in enumerate(self.work):
            self._enter(number, work)

    def _enter(self, number: int, work: Call | Product) -> None:
        if isinstance(work, Call):
            self._table[number] = work.function.address, work.parameters.address, work.items

    def replace(self, number: int, function: Any, items: int, cost: float, parameters: Parameters) -> None:
        """Give a call other parameters; they are copied."""
        work = self.work[number]
        assert isinstance(work, Call)
        with self.lock:
            if function is work.function and items == work.items:
                work.parameters.slots[:] = parameters.slots
                return
            work.function, work.items, work.cost, work.parameters = function, items, cost, parameters.copy()
            self._steps = None
            self._enter(number, work)

    def replace_all(self, graph: HostGraph) -> None:
        """Take the nodes of another graph. GraphError when they are others in number or kind."""
        if [type(w) for w in self.work] != [type(w) for w in graph.nodes]:
            raise GraphError("GLA0923", "an executable cannot be updated to a graph of other nodes")
        with self.lock:
            self.work = [_copied(w) for w in graph.nodes]
            self._steps = None
            for number, work in enumerate(self.work):
                self._enter(number, work)

    def run(self) -> None:
        """Run everything, in order; the lock keeps two launches of one executable apart."""
        with self.lock:
            for step in self._steps if self._steps is not None else self._plan():
                step()

    def _plan(self) -> list[Callable[[], Any]]:
        steps: list[Callable[[], Any]] = []
        start, base = 0, self._table.ctypes.data

        def close(end: int) -> None:
            if end == start + 1:
                only = self.work[start]
                assert isinstance(only, Call)
                steps.append(partial(only.function.call, only.parameters.address, 0, only.items))
            elif end > start:
                steps.append(partial(self._runner(), base + 24 * start, end - start))

        for number, work in enumerate(self.work):
            if isinstance(work, Product):
                close(number)
                steps.append(blas.prepared(work.call, work.a, work.b, work.c))
                start = number + 1
            elif work.heavy and self._spread is not None:
                close(number)
                steps.append(partial(self._spread, work))
                start = number + 1
        close(len(self.work))
        self._steps = steps
        return steps


def _copied(work: Call | Product) -> Call | Product:
    if isinstance(work, Product):
        return work
    return Call(work.function, work.parameters.copy(), work.items, work.cost)


def kernel_call(function: Any, geometry: Geometry, parameters: Parameters) -> Call:
    """`geometry.block[0]` is what an item costs, as `gla.codegen.llvm.geometry` says it."""
    return Call(function, parameters.copy(), geometry.items, geometry.block[0])
