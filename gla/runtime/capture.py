"""Captures: the scope in which operations are recorded instead of run.

The front end opens a scope with `capture(machine, record)`. In it nothing is launched: the front end collects what the user's
function writes and returns, and gives it to the scope as one program (`scope.add`). When the function is done, everything
is appended to the graph in one go; when it fails, nothing is, and no lease stays. The scope is a context variable: it belongs to
the task that opened it, and to threads that were entered with a copy of its context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn

from gla.errors import CaptureError
from gla.runtime.graph import Graph, GraphExecutable, GraphNode, Record, record
from gla.runtime.launch import recorded
from gla.runtime.memory.block import Storage
from gla.runtime.memory.lease import Lease
from gla.runtime.program import KernelCall, Program

if TYPE_CHECKING:
    from gla.runtime.machine import Machine

_scope: ContextVar[CaptureScope | None] = ContextVar("gla_capture", default=None)


class CaptureScope:
    """An open capture. `frontier`: what the next operation depends on, in the order of recording."""

    def __init__(self, graph: Graph, after: Iterable[GraphNode] = ()) -> None:
        self.graph, self.machine = graph, graph.machine
        self.after = tuple(after)
        self.staged = Record()
        self.frontier: tuple[int, ...] = ()
        self._leases: list[Lease] = []
        self.closed = False

    def add(self, program: Program, inputs: Sequence[Storage], scalars: Sequence[Any] = ()) -> list[Storage]:
        """Record `program` after what was recorded before; returns its outputs, which hold nothing until a launch."""
        self._check_open()
        added = record(self.machine, program, inputs, scalars)
        self._stage(added)
        return added.outputs

    def add_executable(self, executable: GraphExecutable) -> None:
        """Record the operations of an executable that is called in the capture."""
        self._check_open()
        if executable.machine is not self.machine:
            raise CaptureError(
                "GLA0910", f"an executable of {executable.machine.name} is called in a capture on {self.machine.name}"
            )
        self._stage(executable.recorded())

    def add_kernel(self, call: KernelCall, storages: Sequence[Storage]) -> None:
        """Record a user's kernel on these storages."""
        self._check_open()
        self._stage(recorded(call, storages))

    def _stage(self, added: Record) -> None:
        self._leases.append(Lease(self.machine.gate, added.blocks()))
        self.frontier = tuple(self.staged.append(added, self.frontier))
        self.staged.outputs += added.outputs

    def lease(self, storages: Iterable[Storage]) -> None:
        """Keep arrays alive that the captured code uses and that are recorded later: a free() in the capture is deferred."""
        self._leases.append(Lease(self.machine.gate, [storage.block for storage in storages]))

    def commit(self) -> list[GraphNode]:
        """Append everything to the graph. Returns the frontier."""
        return self.graph.append(self.staged, self.after)

    def close(self) -> None:
        """End the scope and its own leases; the graph has its own by now, if all went well."""
        self.closed = True
        for lease in self._leases:
            lease.release()

    def _check_open(self) -> None:
        if self.closed:
            raise CaptureError(
                "GLA0908", "an operation reached a capture that has ended", help="finish all work inside the captured function"
            )


def is_capturing() -> bool:
    """Whether this task is inside a capture."""
    return _scope.get() is not None


def current_scope() -> CaptureScope | None:
    """The innermost capture of this task."""
    return _scope.get()


def refuse_look(what: str) -> NoReturn:
    """Refuse to look at device data inside a capture: nothing has run, so there is no value. `what`: e.g. "float(x)"."""
    raise CaptureError(
        "GLA0901",
        f"{what} needs a value, and inside a capture nothing has run yet",
        help="return the array from the captured function and look at graph.outputs after a launch; decide with gla.where instead of if",
    )


def capture(
    machine: Machine, body: Callable[[CaptureScope], Any], graph: Graph | None = None, after: Iterable[GraphNode] = ()
) -> tuple[Graph, list[GraphNode], Any]:
    """Run `body(scope)` once inside a capture. Returns the graph (`graph`, or a new one), the frontier, and what `body` gave.

    Whatever `body` raises propagates, KeyboardInterrupt too; the graph is then as it was and nothing is leased.
    """
    graph = graph if graph is not None else Graph(machine)
    after = tuple(after)
    for node in after:
        graph.number_of(node)
    scope = CaptureScope(graph, after)
    gate = machine.gate
    with gate.lock:
        gate.captures += 1
    token = _scope.set(scope)
    try:
        given = body(scope)
        frontier = scope.commit()
    finally:
        _scope.reset(token)
        scope.close()
        with gate.lock:
            gate.captures -= 1
        gate.drain(0)
    return graph, frontier, given
