"""`gla.capture(f, *args)` -> `gla.Graph` -> `graph.instantiate()`: what f writes and returns, recorded once, launched again and again.

The body runs once in a `CaptureScope` (recording.py). The runtime keeps the memory (gla/runtime/graph.py, capture.py); here are
the faces that speak of arrays. A coroutine function is captured by `await gla.capture(f)`.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from weakref import ref

from gla.array import engine, realise
from gla.array.boundary import public
from gla.array.buffer import Buffer
from gla.array.devices import current_device
from gla.array.followers import following
from gla.array.parts import Launched, Recorded, Recording, Replayed, replay
from gla.array.recording import CaptureScope
from gla.array.scope import Scope, current
from gla.array.trace import Results, Slot, map_leaves
from gla.array.value import Array, from_buffer, from_node, node_of
from gla.errors import CaptureError, GraphError, TraceError
from gla.ir.spans import labels

PROGRAM_FAULTS = {"GLA0908", "GLA0913", "GLA0914", "GLA0919", "GLA0924"}
"""CaptureErrors that say that the program is wrong, not that it cannot be captured."""


class Graph:
    """Recorded operations of one device. `len(graph)` counts nodes; `outputs` is what the captured function returned.

    `mode`: how the driver captures library calls: "relaxed"; "thread_local" and "global" are for finding out who disturbs.
    """

    def __init__(self, device: str | None = None, *, mode: str = "relaxed") -> None:
        from gla.runtime.graph import Graph as Record

        self.device = engine.device_name(device) if device is not None else current_device()
        self.record = Record(engine.machine(self.device), mode)
        self.parts: list[Recorded | Launched | Replayed] = []
        self.views: list[ref[Array]] = []
        self.outputs: Any = None
        self._lock = threading.Lock()

    @public
    def capture(self, f: Callable[..., Any], *args: Any, after: Iterable[Any] = (), stream: Any = None) -> Any:
        """Add what f(*args) does, after the nodes `after`. Gives the frontier: what a following operation must depend on.

        Without `after` the new operations depend on none of the graph. `stream`: the stream that the capture is to have. A
        coroutine function is awaited: `await graph.capture(f)`. When it fails the graph is as it was.
        """
        return self._capture(f, args, after, stream)

    def _capture(self, f: Callable[..., Any], args: tuple[Any, ...], after: Iterable[Any], stream: Any) -> Any:
        if is_coroutine_function(f):
            return self._capture_coroutine(f, args, after, stream)
        frontier: list[Any] = []
        with self._opened(f, after, stream, frontier) as body:
            body.done(f(*args))
        return frontier

    async def _capture_coroutine(self, f: Callable[..., Any], args: tuple[Any, ...], after: Iterable[Any], stream: Any) -> Any:
        frontier: list[Any] = []
        with self._opened(f, after, stream, frontier) as body:
            body.done(await f(*args))
        return frontier

    @contextmanager
    def _opened(self, f: Callable[..., Any], after: Iterable[Any], stream: Any, frontier: list[Any]) -> Iterator[Body]:
        """A capture of `f`, open inside the block; afterwards the graph has it and `frontier` its last nodes."""
        from gla.runtime import capture as runtime
        from gla.runtime.graph import GraphNode

        refuse_in_trace("a capture is opened")
        after = [after] if isinstance(after, GraphNode) else after
        scope = CaptureScope(name_of(f), self.device)
        body = Body(scope)
        try:
            with runtime.opened(self.record, after, stream) as recorder:
                scope.sink = Recording(recorder, self.device)
                with scope.open():
                    yield body
                with self._lock:
                    found = recorder.commit()
                    self.parts += scope.parts
                    self.views += scope.followers()
                    self.outputs = body.outputs
                frontier += found
        finally:
            scope.release()

    @property
    def changed(self) -> list[Buffer]:
        """What a launch writes."""
        return list(dict.fromkeys(b for part in self.parts for b in part.changed))

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


class Returned(Results):
    """What a captured function gives: an array of the outside is given back as it is, anything else is a result."""

    def _leaf(self, value: Any) -> Any:
        return value if isinstance(value, Array) and value._scope is None else super()._leaf(value)


class Body:
    """A captured function that runs: `done(value)` takes what it returned."""

    def __init__(self, scope: CaptureScope) -> None:
        self.scope = scope
        self.outputs: Any = None

    def done(self, value: Any) -> None:
        """The function has returned: no child may be at work; what was written and returned is closed into the last part."""
        scope = self.scope
        if inspect.iscoroutine(value):
            value.close()
            raise CaptureError(
                "GLA0924",
                f"{scope.name} returned a coroutine, of which nothing has run",
                labels=labels("here"),
                help="pass the coroutine function itself: graph = await gla.capture(f, x)",
            )
        with scope.lock:
            scope.children.check()
            results = Returned()
            structure = results.gather(value)
            scope.ended = True
            buffers = scope.close(results.nodes)
        self.structure, self.buffers = structure, buffers
        self.outputs = self.arrays() if all(b.storage is not None for b in buffers) else None

    def arrays(self, fresh: bool = False) -> Any:
        """What the function returned, with arrays over the memory that launches fill. `fresh`: no two of them are one."""
        made = [from_buffer(b) for b in self.buffers]

        def place(value: Any) -> Any:
            if type(value) is not Slot:
                return value
            array = made[value.index]
            return from_node(node_of(array), array._device, None) if fresh and value.copy else array

        return map_leaves(self.structure, place)


class GraphExecutable:
    """An instantiated graph: `exe()` and `exe.launch(stream)` run it once on the arrays' present contents.

    `outputs`: what the captured function returned: arrays that each launch overwrites. Safe to use from several threads.
    """

    def __init__(self, graph: Graph) -> None:
        self._lock = threading.RLock()
        with graph._lock:
            self.record = graph.record.instantiate()
            self.changed, self.views = graph.changed, list(graph.views)
            self.outputs = graph.outputs
        self.device = graph.device

    @public
    def launch(self, stream: Any = None) -> None:
        """Run once, on `stream` (the current one if None); in a capture, record instead. It does not wait.

        Pending values that read what it writes are computed before.
        """
        scope = current.get()
        if scope is not None:
            self._record(scope, stream)
            return
        with self._lock, following(self.views) if self.views else nullcontext(), realise.writing(self.changed):
            self.record.launch(stream)

    __call__ = launch

    def _record(self, scope: Scope, stream: Any) -> None:
        if not isinstance(scope, CaptureScope):
            raise TraceError(
                "GLA0411",
                f"a graph is launched inside {scope.name}",
                labels=labels("here"),
                help="launch it outside, or call its function",
            )
        if stream is not None:
            stream.check()
        if self.device != scope.device:
            raise CaptureError(
                "GLA0910",
                f"an executable of {self.device} is called in a capture on {scope.device}",
                labels=labels("here"),
                help=f"capture on that device: with gla.device({self.device!r}): ...",
            )
        with scope.lock:
            scope.admit()
            replay(scope, self)

    async def launch_async(self, stream: Any = None) -> None:
        """Run once and wait for the end without blocking the event loop."""
        import asyncio

        scope = current.get()
        if scope is not None:
            self._record(scope, stream)
        elif engine.machine(self.device).kind == "host":  # whose launches are done when they return
            await asyncio.to_thread(self.launch, stream)
        else:
            self.launch(stream)
            await self.record.passed()

    @public
    def upload(self, stream: Any = None) -> None:
        """Pay for the first launch now; runs nothing."""
        self.record.upload(stream)

    @public
    def synchronize(self) -> None:
        """Wait for the last launch. CaptureError inside a capture."""
        if current.get() is not None:
            raise CaptureError(
                "GLA0901",
                f"exe.synchronize() inside {current.get().name}, where nothing has run yet",  # type: ignore[union-attr]
                labels=labels("here"),
                help="wait after the capture: exe(); exe.synchronize()",
            )
        self.record.synchronize()

    # --- updates
    @public
    def update(self, target: Any, f: Callable[..., Any] | None = None, *args: Any, strict: bool = False) -> bool:
        """Change what later launches run.

        `exe.update(graph2)`: everything, when graph2 has the same nodes, kernels and edges on other arrays and numbers: True.
        Otherwise False (GraphError with `strict=True`), and nothing has changed.

        `exe.update(node, f, *args)`: one operation. f is captured; it must record exactly one operation, of the same kind as the
        node: a kernel for a kernel (another one is allowed), a copy for a copy of the same direction, a product for a product.
        GraphError otherwise, and nothing has changed. Memory that only the old operation used is let go of.
        """
        from gla.runtime.graph import GraphNode

        if isinstance(target, Graph) and f is None:
            return self._update(target, strict)
        if isinstance(target, GraphNode) and f is not None:
            self._update_node(target, f, args)
            return True
        raise GraphError(
            "GLA0912",
            f"exe.update takes a graph, or a node and a function, not {type(target).__name__} and {type(f).__name__}",
            labels=labels("here"),
            help="write exe.update(graph2), or exe.update(node, lambda: out.assign(x + y))",
        )

    def _update(self, graph: Graph, strict: bool) -> bool:
        with self._lock, graph._lock:
            if not self.record.update(graph.record, strict=strict):
                return False
            self.changed, self.views, self.outputs = graph.changed, list(graph.views), graph.outputs
        return True

    def _update_node(self, node: Any, f: Callable[..., Any], args: tuple[Any, ...]) -> None:
        other = Graph(self.device)
        other._capture(f, args, (), None)
        with self._lock:
            self.record.update_node(node, other.record)
            blocks = {id(block) for block in self.record.blocks()}
            self.changed = list(dict.fromkeys(b for b in (*self.changed, *other.changed) if id(b.storage.block) in blocks))
            self.views += other.views
            if _holds_array(other.outputs):
                self.outputs = other.outputs

    def __len__(self) -> int:
        return len(self.record)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return repr(self.record)


def _holds_array(structure: Any) -> bool:
    found: list[Array] = []
    map_leaves(structure, lambda v: found.append(v) if isinstance(v, Array) else None)
    return bool(found)


def name_of(f: Callable[..., Any]) -> str:
    """What messages call the captured function."""
    return str(getattr(f, "__name__", "the function"))


def is_coroutine_function(f: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(f) or inspect.iscoroutinefunction(getattr(f, "__call__", None))  # noqa: B004


def refuse_in_trace(what: str) -> None:
    scope = current.get()
    if scope is not None and scope.kind != "capture":
        raise TraceError("GLA0411", f"{what} inside {scope.name}", labels=labels("here"), help="capture the function instead")


@public
def capture(
    f: Callable[..., Any],
    *args: Any,
    stream: Any = None,
    mode: str = "relaxed",
    on_unsupported: str = "error",
    device: str | None = None,
) -> Any:
    """Run f(*args) once, recording what it writes and returns; nothing runs on the device. Gives a `gla.Graph`.

    f: a function, or a coroutine function (`graph = await gla.capture(f)`). `stream`: capture on this stream, which must be idle
    and of the device. `mode`: see Graph. `on_unsupported="none"`: None instead of CaptureError for what cannot be captured.
    """
    if on_unsupported not in ("error", "none"):
        raise GraphError("GLA0912", f"on_unsupported={on_unsupported!r}", labels=labels("here"), help='use "error" or "none"')
    graph = Graph(device, mode=mode)
    if is_coroutine_function(f):
        return _awaited(graph, f, args, stream, on_unsupported)
    try:
        graph._capture(f, args, (), stream)
    except CaptureError as error:
        return _unsupported(error, on_unsupported)
    return graph


async def _awaited(graph: Graph, f: Callable[..., Any], args: tuple[Any, ...], stream: Any, on_unsupported: str) -> Any:
    try:
        await graph._capture(f, args, (), stream)
    except CaptureError as error:
        return _unsupported(error, on_unsupported)
    return graph


def _unsupported(error: CaptureError, on_unsupported: str) -> None:
    if on_unsupported == "none" and error.diagnostic.code not in PROGRAM_FAULTS:
        return
    raise error


@public
def is_capturing() -> bool:
    """Whether this task is recording a graph."""
    scope = current.get()
    return scope is not None and scope.capturing()
