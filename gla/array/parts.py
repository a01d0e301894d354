"""The parts of a capture: programs, and between them kernels that the user wrote, in program order.

A `gla.kernel` writes memory where it stands, which no expression says. `launch` therefore closes the program recorded so far:
what was written is written, what the kernel takes gets memory, and values that are alive and read what changes get memory of
their own (they keep the old contents). What comes after is a new program on new inputs. Called by kernel.py and capture.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from gla.array import engine, realise
from gla.array.assign import above, read
from gla.array.buffer import Buffer
from gla.array.scope import outside
from gla.array.trace import strong
from gla.array.value import Array, node_of
from gla.ir.builder import constant_value
from gla.ir.graph import Graph as Program
from gla.ir.graph import new_input, substitute
from gla.ir.node import Node, topological
from gla.ir.types import Type

if TYPE_CHECKING:
    from gla.array.capture import GraphExecutable
    from gla.array.recording import CaptureScope
    from gla.runtime.capture import CaptureScope as Recorder


class Recorded:
    """A program as launches need it: buffers read and written, and the outputs, whose storage the sink sets."""

    def __init__(self, used: list[Buffer], written: list[Buffer], outputs: list[Buffer]) -> None:
        self.used, self.written, self.outputs = used, written, outputs

    @property
    def changed(self) -> list[Buffer]:
        return [*self.written, *self.outputs]


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a kernel's pointer argument is: `nbytes` from `offset` (bytes) on in the memory of `root`; `view`: the view that was
    passed, when it was one."""

    root: Array
    offset: int
    nbytes: int
    written: bool
    view: Array | None = None


@dataclass(frozen=True, slots=True)
class Launched:
    """A kernel between two programs. `buffers[k]` is what argument `spots[k]` = (offset, nbytes, written) lies in."""

    call: Any
    buffers: tuple[Buffer, ...]
    spots: tuple[tuple[int, int, bool], ...]

    @property
    def changed(self) -> list[Buffer]:
        return list(dict.fromkeys(b for b, (_, _, written) in zip(self.buffers, self.spots) if written))


@dataclass(frozen=True, slots=True)
class Replayed:
    """An executable launched between two programs. `changed`: the buffers that it writes."""

    changed: list[Buffer]


class Sink(Protocol):
    """Where the parts of a capture go."""

    def lease(self, storage: Any) -> None:
        """The capture uses this memory: refuse it if it is freed, keep it otherwise."""

    def run(self, program: Program, part: Recorded) -> None:
        """Take a program, and set the storages of its outputs, now or when it is run."""

    def launch(self, part: Launched) -> None:
        """Take a kernel."""

    def replay(self, executable: GraphExecutable) -> None:
        """Take the operations of an executable."""


class Recording:
    """Parts become nodes of a graph."""

    def __init__(self, recorder: Recorder, device: str) -> None:
        self.recorder, self.device = recorder, device

    def lease(self, storage: Any) -> None:
        self.recorder.lease([storage])

    def run(self, program: Program, part: Recorded) -> None:
        graph, scalars = lifted(program)
        planned = engine.program_of(graph, self.device)
        made = self.recorder.add(planned, [b.storage for b in part.used], scalars)
        for buffer, storage in zip(part.outputs, made):
            buffer.storage = storage

    def launch(self, part: Launched) -> None:
        self.recorder.add_kernel(part.call, storages(part))

    def replay(self, executable: GraphExecutable) -> None:
        self.recorder.add_executable(executable.record)


class Running:
    """Parts are run in order when the body is done (`finish`), so that a body which fails has run nothing."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.executables: list[Any] = []
        self._todo: list[Callable[[], None]] = []

    def lease(self, storage: Any) -> None:
        if storage is not None:  # the output of a part that has not run
            storage.check()

    def run(self, program: Program, part: Recorded) -> None:
        graph, scalars = lifted(program)
        executable = engine.compile_graph(graph, self.device, held=True)
        self.executables.append(executable)
        self._todo.append(partial(_run, executable, part, scalars))

    def launch(self, part: Launched) -> None:
        self._todo.append(partial(_launch, engine.machine(self.device), part))

    def replay(self, executable: GraphExecutable) -> None:
        self._todo.append(executable.launch)

    def finish(self) -> None:
        """Run everything."""
        for run in self._todo:
            run()


def _run(executable: Any, part: Recorded, scalars: Sequence[Any]) -> None:
    with realise.writing(part.written):
        made = engine.run(executable, [b.storage for b in part.used], scalars)
    for buffer, storage in zip(part.outputs, made):
        buffer.storage = storage


def _launch(machine: Any, part: Launched) -> None:
    from gla.runtime.launch import launch

    with realise.writing(part.changed):
        launch(machine, part.call, storages(part), [written for *_, written in part.spots])


def lifted(program: Program) -> tuple[Program, tuple[Any, ...]]:
    """The program with the numbers that are no literals as runtime scalars, and those numbers: so that another number meets the
    same plan."""
    counts = {node.operands[0] for node in program.nodes() if node.op == "loop"}
    loose = [n for n in program.nodes() if n.op == "constant" and not n.attr("literal") and n not in counts]
    if not loose:
        return program, ()
    replacement = {node: new_input(node.type, scalar=True) for node in loose}
    new = substitute(program.roots, replacement)
    results = len(program.results)
    writes = tuple((target, value) for (target, _), value in zip(program.writes, new[results:]))
    graph = Program((*program.inputs, *replacement.values()), new[:results], writes)
    return graph, tuple(constant_value(node) for node in loose)


def storages(part: Launched) -> list[Any]:
    """The memory of each pointer argument."""
    return [b.storage.view(offset, nbytes) for b, (offset, nbytes, _) in zip(part.buffers, part.spots)]


# --- recording
def launch(scope: CaptureScope, call: Any, spots: Sequence[Spot]) -> None:
    """Record a kernel on `spots`, whose roots are arrays of the scope."""
    with scope.lock:
        _record(scope, call, spots)


def _record(scope: CaptureScope, call: Any, spots: Sequence[Spot]) -> None:
    scope.admit()
    needed = list({id(s.root): s.root for s in spots if scope.place(s.root) is None}.values())
    if needed:
        divide(scope, needed, (), ())
    places = [_place(scope, s.root) for s in spots]
    changed = list(dict.fromkeys(k for k, s in zip(places, spots) if s.written))
    seen = [(v, s.root) for s in spots if s.view is not None for v in (s.view, *above(s.view))]
    spared = [*(s.root for s in spots), *(v for v, _ in seen)]
    divide(scope, (), changed, spared)
    part = Launched(call, tuple(scope.used[k] for k in places), tuple((s.offset, s.nbytes, s.written) for s in spots))
    assert scope.sink is not None
    with outside():
        scope.sink.launch(part)
    scope.parts.append(part)
    for k in changed:
        scope.renew(k)
        scope.inside[k]._version += 1
    for k, root in {id(s.root): (k, s.root) for k, s in zip(places, spots) if s.written}.values():
        if root is not scope.inside[k]:
            root._value, root._version = scope.inputs[k], root._version + 1
    for view, root in seen:
        view._value, view._seen = read(node_of(root), view._path), root._stamp


def replay(scope: CaptureScope, executable: GraphExecutable) -> None:
    """Record the operations of an executable."""
    changed = executable.changed
    for buffer in changed:
        scope.variable(buffer)
    places = [k for k, buffer in enumerate(scope.used) if buffer in changed]
    divide(scope, (), places, ())
    assert scope.sink is not None
    with outside():
        scope.sink.replay(executable)
    scope.parts.append(Replayed(changed))
    for k in places:
        scope.renew(k)
        scope.inside[k]._version += 1


def _place(scope: CaptureScope, root: Array) -> int:
    place = scope.place(root)
    assert place is not None
    return place


def divide(scope: CaptureScope, needed: Sequence[Array], changed: Iterable[int], spared: Sequence[Array]) -> None:
    """Close the program recorded so far, if it does anything. Afterwards `needed` are in memory; so is every live value that reads
    what was written or what is at the places `changed`, except those `spared`."""
    written = [k for k, array in enumerate(scope.inside) if array._value is not scope.inputs[k]]
    stale = {scope.inputs[k] for k in (*written, *changed)}
    known = {id(a) for a in (*scope.inside, *spared)}
    values = [a for a in scope.alive() if id(a) not in known]
    kept = _reading([node_of(a) for a in values], stale)
    values = [*needed, *(a for a in values if node_of(a) in kept)]
    nodes = list(dict.fromkeys(strong(node_of(a)) for a in values))
    if not nodes and not written:
        return
    made = scope.close(nodes, written)
    homes = {node: scope.variable(buffer) for node, buffer in zip(nodes, made)}
    for array in values:
        node = strong(node_of(array))
        array._type, array._value = Type(node.dtype, node.shape), node_of(homes[node])


def _reading(roots: Sequence[Node], stale: set[Node]) -> set[Node]:
    """Those of `roots` that are computed from one of `stale`."""
    found: set[Node] = set()
    for node in topological(list(roots)):
        if node in stale or any(operand in found for operand in node.operands):
            found.add(node)
    return found & set(roots)
