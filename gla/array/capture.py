"""`gla.capture(f, *args)` -> `gla.Graph` -> `graph.instantiate()`: what f writes and returns, recorded once, launched again and again.

The body runs once in a `CaptureScope`: every array that it uses is read at its address when a launch runs; its writes, in
program order, and what it returns are planned as one plan. The runtime keeps the memory (gla/runtime/graph.py, capture.py);
here are the faces that speak of arrays.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gla.array import engine, realise
from gla.array.boundary import public
from gla.array.buffer import Buffer
from gla.array.create import upload
from gla.array.devices import current_device
from gla.array.parts import Launched, Recorded, Recording, Running, Sink, Spot
from gla.array.parts import launch as launch_part
from gla.array.scope import Scope, current, outside
from gla.array.trace import Results, Slot, map_leaves, strong
from gla.array.value import Array, from_buffer, from_node, node_of
from gla.errors import CaptureError, TraceError
from gla.ir.graph import Graph as Program
from gla.ir.graph import new_input, substitute
from gla.ir.node import Node
from gla.ir.spans import labels
from gla.ir.types import Type


class CaptureScope(Scope):
    """The body of a capture: any array may be read and written; `used` has the buffers in the order of their first use."""

    kind = "capture"

    def __init__(self, name: str, device: str, sink: Sink | None = None) -> None:
        super().__init__(name, None, device)
        self.sink = sink
        self.parts: list[Recorded | Launched] = []
        self._made: list[weakref.ref[Array]] = []
        self.used: list[Buffer] = []
        self.inputs: list[Node] = []
        self.inside: list[Array] = []
        self._known: dict[int, Array] = {}
        self._views: dict[int, Array] = {}
        self._kept: list[Any] = []

    def enter(self, array: Array) -> Array:
        if array._base is not None and array._is_fresh():
            return self._view(array)
        if array._buffer is None:
            with outside():
                realise.own([array])
        assert array._buffer is not None
        return self.variable(array._buffer)

    def variable(self, buffer: Buffer) -> Array:
        """What stands for the contents of a buffer."""
        found = self._known.get(id(buffer))
        if found is None:
            if buffer.device != self.device:
                raise CaptureError(
                    "GLA0903",
                    f"{self.name} is captured on {self.device} and uses {buffer.type} on {buffer.device}",
                    labels=labels(""),
                    help=f"move it before: x.to({self.device!r})",
                )
            node = new_input(buffer.type)
            found = from_node(node, self.device, self)
            self.used.append(buffer)
            self.inputs.append(node)
            self.inside.append(found)
            self._known[id(buffer)] = found
        return found

    def _view(self, array: Array) -> Array:
        from gla.array.assign import read

        found = self._views.get(id(array))
        if found is None:
            assert array._base is not None
            root = self.enter(array._base)
            if root._version:
                # The root was written inside: the view keeps what it was taken from, and is stale.
                if array._buffer is None:
                    with outside():
                        realise.own([array])
                assert array._buffer is not None
                found = self.variable(array._buffer)
            else:
                found = from_node(read(node_of(root), array._path), self.device, self)
            found._base, found._path, found._seen = root, array._path, 0
            self._views[id(array)] = found
            self._kept.append(array)
        return found

    def constant(self, values: Any) -> Array:
        """Host data used in the body: a snapshot on the device."""
        with outside():
            made = upload(np.array(values), None, self.device)
        assert made._buffer is not None
        return self.variable(made._buffer)

    def made(self, array: Array) -> None:
        """Every array that is made in the scope comes by."""
        self._made.append(weakref.ref(array))

    def alive(self) -> list[Array]:
        """Arrays made in the scope that somebody still has."""
        found = [(ref, array) for ref in self._made if (array := ref()) is not None]
        self._made = [ref for ref, _ in found]
        return [array for _, array in found]

    def place(self, array: Array) -> int | None:
        """Which of `used` holds the contents of `array`, if one does."""
        for k, inside in enumerate(self.inside):
            if inside is array or array._value is self.inputs[k]:
                return k
        return None

    def renew(self, place: int) -> None:
        """What is read from here on is the contents after a write."""
        self.inputs[place] = new_input(self.used[place].type)
        self.inside[place]._value = self.inputs[place]

    def close(self, results: Sequence[Node], written: Sequence[int] | None = None) -> list[Buffer]:
        """End a part: what was written, and `results`, go to the sink as one program. Gives the results' buffers."""
        assert self.sink is not None
        if written is None:
            written = [k for k, array in enumerate(self.inside) if array._value is not self.inputs[k]]
        if not results and not written:
            return []
        writes = tuple((self.inputs[k], strong(node_of(self.inside[k]))) for k in written)
        program, targets = Program(tuple(self.inputs), tuple(results), writes), [self.used[k] for k in written]
        with outside():
            storages = self.sink.run(program, self.used, targets)
        outputs = [Buffer(s, Type(n.dtype, n.shape), self.device) for s, n in zip(storages, program.results)]
        self.parts.append(Recorded(program, list(self.used), targets, outputs))
        for k in written:
            self.renew(k)
        return outputs


class Graph:
    """Recorded operations of one device. `len(graph)` counts nodes; `outputs` is what the captured function returned."""

    def __init__(self, device: str | None = None) -> None:
        from gla.runtime.graph import Graph as Record

        self.device = engine.device_name(device) if device is not None else current_device()
        self.record = Record(engine.machine(self.device))
        self.parts: list[Recorded | Launched] = []
        self.outputs: Any = None

    @public
    def capture(self, f: Callable[..., Any], *args: Any, after: Iterable[Any] = ()) -> list[Any]:
        """Add what f(*args) does, after the nodes `after`. Gives the frontier: what a following operation must depend on.

        When it fails the graph is as it was.
        """
        from gla.runtime import capture as runtime

        machine = engine.machine(self.device)
        scope = CaptureScope(getattr(f, "__name__", "the function"), self.device)
        _no_trace()

        def body(recorder: Any) -> Any:
            scope.sink = Recording(recorder, self.device)
            results = Results()
            with scope.open():
                structure = results.gather(f(*args))
                return _outputs(structure, scope.close(results.nodes))

        _, frontier, outputs = runtime.capture(machine, body, self.record, after)
        self.parts += scope.parts
        self.outputs = outputs
        return frontier

    @public
    def instantiate(self) -> GraphExecutable:
        """An executable of the graph as it is now, with leases of its own."""
        return GraphExecutable(self)

    def dot(self) -> str:
        """Graphviz text: a box a node, with the name of its kernel, the line that asked for it and its bytes."""
        return str(self.record.dot())

    def __len__(self) -> int:
        return len(self.record)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return repr(self.record)


class GraphExecutable:
    """An instantiated graph: `exe()` and `exe.launch(stream)` run it once on the arrays' present contents."""

    def __init__(self, graph: Graph) -> None:
        self.record = graph.record.instantiate()
        self.parts = tuple(graph.parts)
        self.outputs = graph.outputs
        self.device = graph.device
        self._changed = [b for part in self.parts for b in part.changed]

    @public
    def launch(self, stream: Any = None) -> None:
        """Run once; in a capture, record instead. Pending values that read what it writes are computed before."""
        scope = current.get()
        if scope is not None:
            self._inline(scope)
            return
        with realise.writing(self._changed):
            self.record.launch(stream)

    __call__ = launch

    def _inline(self, scope: Scope) -> None:
        """The recorded programs as a part of another capture."""
        if not isinstance(scope, CaptureScope):
            raise TraceError(
                "GLA0411",
                f"a graph is launched inside {scope.name}",
                labels=labels("here"),
                help="launch it outside, or call its function",
            )
        for part in self.parts:
            if isinstance(part, Launched):
                spots = zip(part.buffers, part.spots)
                launch_part(scope, part.call, [Spot(scope.variable(b), *spot) for b, spot in spots])
                continue
            variables = [scope.variable(b) for b in part.used]
            graph = part.program
            new = substitute(graph.roots, dict(zip(graph.inputs, (node_of(v) for v in variables))))
            targets = [variables[graph.inputs.index(i)] for i, _ in graph.writes]
            targets = [*(scope.variable(b) for b in part.outputs), *targets]
            for target, value in zip(targets, new):
                target._value, target._version = value, target._version + 1

    @public
    def upload(self, stream: Any = None) -> None:
        """Pay for the first launch now; runs nothing."""
        self.record.upload(stream)

    @public
    def synchronize(self) -> None:
        """Wait for the last launch."""
        self.record.synchronize()

    def __len__(self) -> int:
        return len(self.record)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return repr(self.record)


def _outputs(structure: Any, buffers: list[Buffer]) -> Any:
    arrays = [from_buffer(b) for b in buffers]
    return map_leaves(structure, lambda v: arrays[v.index] if type(v) is Slot else v)


def _no_trace() -> None:
    scope = current.get()
    if scope is not None and scope.kind != "capture":
        raise TraceError(
            "GLA0411", f"a capture is opened inside {scope.name}", labels=labels("here"), help="capture the function instead"
        )


@public
def capture(f: Callable[..., Any], *args: Any, on_unsupported: str = "error", device: str | None = None) -> Any:
    """Run f(*args) once, recording what it writes and returns; nothing runs on the device. Gives a `gla.Graph`.

    `on_unsupported="none"`: None instead of CaptureError.
    """
    graph = Graph(device)
    try:
        graph.capture(f, *args)
    except CaptureError:
        if on_unsupported == "none":
            return None
        raise
    return graph


@public
def is_capturing() -> bool:
    """Whether this task is recording a graph."""
    scope = current.get()
    return scope is not None and scope.capturing()


def captured(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose Python body runs on every call, so that host-side state may steer it; its device work is one launch.

    Equal structure meets the same executable; another structure is planned when it first appears.
    """
    import functools

    @functools.wraps(f)
    @public
    def call(*args: Any, **kwargs: Any) -> Any:
        if current.get() is not None:
            return f(*args, **kwargs)
        device = current_device()
        scope = CaptureScope(f"{getattr(f, '__name__', 'function')}()", device, Running(device))
        results = Results()
        with scope.open():
            structure = results.gather(f(*args, **kwargs))
            return _outputs(structure, scope.close(results.nodes))

    return call
