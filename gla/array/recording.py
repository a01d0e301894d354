"""The scope of a capture: arrays inside stand for what is in memory when a launch runs.

Every array that the body uses is read at its address; its writes, in program order, and what it returns become programs that go
to a sink (parts.py): nodes of a graph, or a launch at the end. Children that inherit the context (asyncio tasks,
`asyncio.to_thread`, `gla.spawn`) record into the same scope, in the order in which their operations come; one lock keeps an
operation whole. What a body frees is freed when the capture ends.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from gla.array import realise
from gla.array.buffer import Buffer
from gla.array.create import upload
from gla.array.parts import Launched, Recorded, Replayed, Sink
from gla.array.scope import Scope, outside
from gla.array.tasks import Children
from gla.array.trace import strong
from gla.array.value import Array, from_node, node_of
from gla.errors import CaptureError, DeviceError
from gla.ir.graph import Graph as Program
from gla.ir.graph import new_input
from gla.ir.node import Node
from gla.ir.spans import labels
from gla.ir.types import Type


class CaptureScope(Scope):
    """The body of a capture: any array may be read and written; `used` has the buffers in the order of their first use."""

    kind = "capture"

    def __init__(self, name: str, device: str, sink: Sink | None = None) -> None:
        super().__init__(name, None, device)
        self.sink = sink
        self.lock: Any = threading.RLock()
        self.children = Children(name)
        self.ended = False
        self.parts: list[Recorded | Launched | Replayed] = []
        self.used: list[Buffer] = []
        self.inputs: list[Node] = []
        self.inside: list[Array] = []
        self._made: list[weakref.ref[Array]] = []
        self._known: dict[int, Array] = {}
        self._views: dict[int, Array] = {}
        self._kept: list[Any] = []
        self._freed: dict[int, Buffer] = {}

    # --- children
    def admit(self) -> None:
        """Every operation comes by: CaptureError when the capture has ended, or when a thread may not record into it."""
        if self.ended or self.done:
            raise CaptureError(
                "GLA0908",
                f"an operation reached the capture of {self.name} after its end; it was not run",
                labels=labels("here"),
                help="wait for all work inside the captured function: await the task, call child.result()",
            )
        self.children.admit()

    # --- reading
    def enter(self, array: Array) -> Array:
        with self.lock:
            self.admit()
            if array._base is not None and array._is_fresh():
                return self._view(array)
            return self.variable(_owned(array))

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
            assert self.sink is not None
            self.sink.lease(buffer.storage)
            node = new_input(buffer.type)
            found = from_node(node, self.device, self)
            self.used.append(buffer)
            self.inputs.append(node)
            self.inside.append(found)
            self._known[id(buffer)] = found
        elif id(buffer) in self._freed:
            raise DeviceError(
                "GLA0512",
                f"{buffer.type} is used after free() in {self.name}",
                labels=labels("here"),
                help="call free() after the last use, or let the array go out of scope instead",
            )
        return found

    def _view(self, array: Array) -> Array:
        from gla.array.assign import above, read

        found = self._views.get(id(array))
        if found is None:
            assert array._base is not None
            root = self.enter(array._base)
            if root._version:  # the root was written inside: the view keeps what it was taken from, and is stale
                found = self.variable(_owned(array))
            else:
                found = from_node(read(node_of(root), array._path), self.device, self)
            found._base, found._path, found._seen = root, array._path, 0
            found._above = tuple(weakref.ref(self._view(a)) for a in above(array)) if root._version == 0 else ()
            self._views[id(array)] = found
            self._kept.append(array)
        return found

    def constant(self, values: Any) -> Array:
        """Host data used in the body: a snapshot on the device."""
        with self.lock:
            self.admit()
            with outside():
                made = upload(np.array(values), None, self.device)
            assert made._buffer is not None
            return self.variable(made._buffer)

    def made(self, array: Array) -> None:
        """Every array that is made in the scope comes by."""
        with self.lock:
            self.admit()
            self._made.append(weakref.ref(array))

    def followers(self) -> list[weakref.ref[Array]]:
        """The views of the outside through which was written, and those that they were taken of (followers.py)."""
        found = [(a, self._views[id(a)]) for a in self._kept]
        return [weakref.ref(a) for a, v in found if v._base is not None and v._base._version and v._is_fresh()]

    def free(self, array: Array) -> None:
        """Give memory back when the capture ends; a graph that uses it keeps it longer."""
        if array._scope is not None:
            raise CaptureError(
                "GLA0917",
                f"free() of {array._type}, which was made in {self.name} and has no memory yet",
                labels=labels("here"),
                help="drop the name: temporaries of a capture live in its arena",
            )
        with self.lock:
            self.admit()
            buffer = _owned(array)
            buffer.storage.check()
            self._freed[id(buffer)] = buffer
            self._known.setdefault(id(buffer), array)

    def release(self) -> None:
        """After the end: free what the body freed."""
        freed, self._freed = list(self._freed.values()), {}
        self.children.forget()
        # Arrays name their scope: without this a graph would live, and keep its memory, until the next collection.
        self.used, self.inputs, self.inside, self._made, self._kept = [], [], [], [], []
        self._known, self._views, self.sink = {}, {}, None
        for buffer in freed:
            with realise.writing([buffer]):
                buffer.storage.free()

    # --- parts
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
        outputs = [Buffer(None, Type(n.dtype, n.shape), self.device) for n in program.results]
        part = Recorded(list(self.used), targets, outputs)
        with outside():
            self.sink.run(program, part)
        self.parts.append(part)
        for k in written:
            self.renew(k)
        return outputs


def _owned(array: Array) -> Buffer:
    """The memory of an array of the outside: a pending one is computed outside the capture, on the task's own stream."""
    if array._buffer is None:
        with outside():
            realise.own([array])
    assert array._buffer is not None
    return array._buffer
