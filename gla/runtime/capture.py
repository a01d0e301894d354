"""Captures: the scope in which operations are recorded instead of run.

The front end opens a scope with `opened(graph)` (or `capture(machine, body)`). In it nothing is launched: the front end collects
what the user's function writes and returns, and gives it to the scope program by program (`scope.add`). When the function is
done, everything is appended to the graph in one go; when it fails, nothing is, and no lease stays. The scope is a context
variable: it belongs to the task that opened it, and to threads that were entered with a copy of its context.

Each capture has a stream of its own, taken from those that are idle or given by the user; the task's own stream stays what
it is. Refused: a stream that is busy, blocking, of another device, or recorded by another capture.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from gla.errors import CaptureError
from gla.runtime.graph import Graph, GraphExecutable, GraphNode, Record, record
from gla.runtime.launch import recorded
from gla.runtime.memory.block import Storage
from gla.runtime.memory.lease import Lease
from gla.runtime.program import KernelCall, Program
from gla.runtime.stream import Stream, recording

if TYPE_CHECKING:
    from gla.runtime.machine import Machine


class CaptureScope:
    """An open capture. `frontier`: what the next operation depends on, in the order of recording; `stream`: its own, or the one
    given; `parent`: the capture that it was opened in."""

    def __init__(self, graph: Graph, after: Iterable[GraphNode] = (), stream: Stream | None = None) -> None:
        self.graph, self.machine = graph, graph.machine
        self.after = tuple(after)
        self.parent: Any = recording.get()
        self.staged = Record()
        self.frontier: tuple[int, ...] = ()
        self._leases: list[Lease] = []
        self._leased: set[int] = set()
        self._lock = threading.RLock()
        self.stream, self._own, self._began = stream, stream is None, False
        self.closed = False

    def within(self, other: Any) -> bool:
        """Whether this is `other` or lies inside it."""
        scope: Any = self
        while scope is not None:
            if scope is other:
                return True
            scope = scope.parent
        return False

    # --- recording
    def add(self, program: Program, inputs: Sequence[Storage], scalars: Sequence[Any] = ()) -> list[Storage]:
        """Record `program` after what was recorded before; returns its outputs, which hold nothing until a launch."""
        with self._lock:
            self._check_open()
            for storage in inputs:
                if id(storage.block) not in self._leased:
                    storage.check()
            added = record(self.machine, program, inputs, scalars)
            self._stage(added)
            return added.outputs

    def add_executable(self, executable: GraphExecutable) -> None:
        """Record the operations of an executable that is called in the capture."""
        if executable.machine is not self.machine:
            raise CaptureError(
                "GLA0910", f"an executable of {executable.machine.name} is called in a capture on {self.machine.name}"
            )
        with self._lock:
            self._check_open()
            self._stage(executable.recorded())

    def add_kernel(self, call: KernelCall, storages: Sequence[Storage]) -> None:
        """Record a user's kernel on these storages."""
        with self._lock:
            self._check_open()
            self._stage(recorded(call, storages))

    def _stage(self, added: Record) -> None:
        self._leases.append(Lease(self.machine.gate, added.blocks()))
        self.frontier = tuple(self.staged.append(added, self.frontier))
        self.staged.outputs += added.outputs

    def lease(self, storages: Iterable[Storage]) -> None:
        """Keep arrays alive that the captured code uses and that are recorded later: a free() in the capture is deferred.
        DeviceError for memory that is freed by now."""
        with self._lock:
            blocks = []
            for storage in storages:
                if id(storage.block) not in self._leased:
                    storage.check()
                    blocks.append(storage.block)
            self._leases.append(Lease(self.machine.gate, blocks))
            self._leased.update(map(id, blocks))

    def commit(self) -> list[GraphNode]:
        """Append everything to the graph. Returns the frontier."""
        with self._lock:
            self._check_open()
            return self.graph.append(self.staged, self.after)

    # --- begin and end
    def begin(self) -> None:
        """Take the stream. CaptureError when it is none to capture on."""
        if self.stream is None:
            self.stream = _idle_stream(self.machine)
        with _beginning:
            if not self._own:
                _check_stream(self.machine, self.stream)
            self.stream.capturing, self._began = self, True

    def close(self) -> None:
        """End the scope and its own leases; the graph has its own by now, if all went well."""
        with self._lock:
            self.closed = True
            for lease in self._leases:
                lease.release()
            self._leases.clear()
        if self._began and self.stream is not None:
            self.stream.capturing, self._began = None, False
            if self._own:
                _idle.setdefault(self.machine, []).append(self.stream)

    def _check_open(self) -> None:
        if self.closed:
            raise closed_error()


_beginning = threading.Lock()
_idle: weakref.WeakKeyDictionary[Machine, list[Stream]] = weakref.WeakKeyDictionary()
"""Streams that captures had and need no longer."""


def _idle_stream(machine: Machine) -> Stream:
    try:
        return _idle.setdefault(machine, []).pop()
    except IndexError:
        return machine.new_stream()


def _check_stream(machine: Machine, stream: Any) -> None:
    if not isinstance(stream, Stream):
        raise CaptureError("GLA0913", f"a {type(stream).__name__} is no stream to capture on", help="pass a gla.Stream()")
    why = None
    if stream.device is not machine.device:
        why = f"is not a stream of {machine.name}"
    elif stream.capturing is not None:
        why = "is recorded by another capture"
    elif machine.device.is_blocking(stream.handle):
        why = "waits for the device's default stream, so that other libraries' work would end up in the capture"
    elif not stream.query():
        why = "is busy"
    if why is not None:
        raise CaptureError(
            "GLA0913",
            f"cannot capture on {stream!r}: it {why}",
            help="leave stream= out: a capture has a stream of its own; or pass a fresh gla.Stream()",
        )


def closed_error() -> CaptureError:
    return CaptureError(
        "GLA0908", "an operation reached a capture that has ended", help="finish all work inside the captured function"
    )


def is_capturing() -> bool:
    """Whether this task is inside a capture."""
    return recording.get() is not None


def current_scope() -> CaptureScope | None:
    """The innermost capture of this task."""
    return recording.get()  # type: ignore[return-value]


def refuse_look(what: str) -> NoReturn:
    """Refuse to look at device data inside a capture: nothing has run, so there is no value. `what`: e.g. "float(x)"."""
    raise CaptureError(
        "GLA0901",
        f"{what} needs a value, and inside a capture nothing has run yet",
        help="return the array from the captured function and look at graph.outputs after a launch; decide with gla.where instead of if",
    )


@contextmanager
def opened(graph: Graph, after: Iterable[GraphNode] = (), stream: Stream | None = None) -> Iterator[CaptureScope]:
    """A capture into `graph`, open inside the block, which ends with `scope.commit()` when all went well.

    Whatever the block raises propagates, KeyboardInterrupt too; the graph is then as it was and nothing is leased.
    """
    after = tuple(after)
    for node in after:
        graph.number_of(node)
    scope, gate = CaptureScope(graph, after, stream), graph.machine.gate
    try:
        scope.begin()
        gate.begin_capture()
        try:
            token = recording.set(scope)
            try:
                yield scope
            finally:
                leave(token)
                scope.close()
        finally:
            gate.end_capture()
    finally:
        scope.close()


def leave(token: Any) -> None:
    """Set the capture of before. A coroutine that is thrown away may be closed in another context, where there is nothing to set."""
    try:
        recording.reset(token)
    except ValueError:
        return


def capture(
    machine: Machine,
    body: Callable[[CaptureScope], Any],
    graph: Graph | None = None,
    after: Iterable[GraphNode] = (),
    stream: Stream | None = None,
) -> tuple[Graph, list[GraphNode], Any]:
    """Run `body(scope)` once inside a capture. Returns the graph (`graph`, or a new one), the frontier, and what `body` gave."""
    graph = graph if graph is not None else Graph(machine)
    with opened(graph, after, stream) as scope:
        given = body(scope)
        frontier = scope.commit()
    return graph, frontier, given
