"""The parts of a capture: programs, and between them kernels that the user wrote, in program order.

A `gla.kernel` writes memory where it stands, which no expression says. `launch` therefore closes the program recorded so far:
what was written is written, what the kernel takes gets memory, and values that are alive and read what changes get memory of
their own (they keep the old contents). What comes after is a new program on new inputs. Called by kernel.py and capture.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from gla.array import engine, realise
from gla.array.assign import read
from gla.array.buffer import Buffer
from gla.array.scope import outside
from gla.array.trace import strong
from gla.array.value import Array, node_of
from gla.ir.graph import Graph as Program
from gla.ir.node import Node, topological
from gla.ir.types import Type

if TYPE_CHECKING:
    from gla.array.capture import CaptureScope
    from gla.runtime.capture import CaptureScope as Recorder


class Recorded:
    """A program as launches need it: buffers read and written, and the outputs."""

    def __init__(self, program: Program, used: list[Buffer], written: list[Buffer], outputs: list[Buffer]) -> None:
        self.program, self.used, self.written, self.outputs = program, used, written, outputs

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


class Sink(Protocol):
    """Where the parts of a capture go."""

    def run(self, program: Program, used: Sequence[Buffer], written: Sequence[Buffer]) -> Sequence[Any]:
        """Take a program; gives the storages of its results."""

    def launch(self, part: Launched) -> None:
        """Take a kernel."""


class Recording:
    """Parts become nodes of a graph."""

    def __init__(self, recorder: Recorder, device: str) -> None:
        self.recorder, self.device = recorder, device

    def run(self, program: Program, used: Sequence[Buffer], written: Sequence[Buffer]) -> Sequence[Any]:
        from gla import compiler

        made = compiler.program(program, engine.machine(self.device), engine.options())
        return self.recorder.add(made, [b.storage for b in used])

    def launch(self, part: Launched) -> None:
        self.recorder.add_kernel(part.call, storages(part))


class Running:
    """Parts are run at once, in order."""

    def __init__(self, device: str) -> None:
        self.device = device

    def run(self, program: Program, used: Sequence[Buffer], written: Sequence[Buffer]) -> Sequence[Any]:
        executable = engine.compile_graph(program, self.device)
        realise.before_write(written)
        made = engine.run(executable, [b.storage for b in used], ())
        realise.after_write(written)
        return made

    def launch(self, part: Launched) -> None:
        from gla.runtime.launch import launch

        realise.before_write(part.changed)
        launch(engine.machine(self.device), part.call, storages(part), [written for *_, written in part.spots])
        realise.after_write(part.changed)


def storages(part: Launched) -> list[Any]:
    """The memory of each pointer argument."""
    return [b.storage.view(offset, nbytes) for b, (offset, nbytes, _) in zip(part.buffers, part.spots)]


# --- recording
def launch(scope: CaptureScope, call: Any, spots: Sequence[Spot]) -> None:
    """Record a kernel on `spots`, whose roots are arrays of the scope."""
    needed = list({id(s.root): s.root for s in spots if scope.place(s.root) is None}.values())
    if needed:
        divide(scope, needed, (), ())
    places = [_place(scope, s.root) for s in spots]
    changed = list(dict.fromkeys(k for k, s in zip(places, spots) if s.written))
    spared = [x for s in spots for x in (s.root, s.view) if x is not None]
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
    for s in spots:
        if s.view is not None:
            s.view._value, s.view._seen = read(node_of(s.root), s.view._path), s.root._stamp


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
