"""One traced signature of a `gla.function`: the graph, its executable, and the short path that a hit takes.

`attempt` asks the recogniser (recognise.py) and runs; whatever that does not know is a miss, and function.py looks closer.
Neither holds the arrays of a call, so entries keep none alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gla.array import engine, realise
from gla.array.assign import region, replace, stale_error
from gla.array.buffer import Buffer, signature_of
from gla.array.devices import current_device
from gla.array.guards import RangeGuard
from gla.array.recognise import Recogniser
from gla.array.trace import Slot, map_leaves
from gla.array.value import Array, from_node, node_of, owning
from gla.errors import AliasError, RangeError
from gla.ir.builder import default_float
from gla.ir.graph import Graph
from gla.ir.spans import labels
from gla.ir.types import Type

if TYPE_CHECKING:
    from gla.array.function import Call

MISS = object()


class Entry:
    """`order[k]`: which array leaf input k is; `constants`: buffers after them; `written`: leaves that the function writes."""

    __slots__ = (
        "constants", "count", "default", "device", "executable", "graph", "guards", "limits", "names", "order", "origins", "recogniser",
        "row", "signatures", "single", "structure", "types", "written",
    )  # fmt: skip

    def __init__(
        self, graph: Graph, device: str, order: tuple[int, ...], constants: tuple[Buffer, ...], written: tuple[int, ...],
        structure: Any, names: Sequence[str], guards: tuple[tuple[RangeGuard, ...], tuple[RangeGuard, ...]], count: int,
    ) -> None:  # fmt: skip
        self.graph, self.device, self.order, self.constants, self.written = graph, device, order, constants, written
        self.structure, self.names = structure, tuple(names)
        self.guards, self.limits = guards
        self.types = tuple(Type(node.dtype, node.shape) for node in graph.results)
        self.signatures = tuple(signature_of(t, device) for t in self.types)
        self.origins = tuple(node.span for node in graph.results)
        self.executable = engine.compile_graph(graph, device, held=True) if graph.results or graph.writes else None
        self.default = default_float.get()
        self.single = type(structure) is Slot
        row = type(structure) in (tuple, list) and all(
            type(s) is Slot and s.index == k and not s.copy for k, s in enumerate(structure)
        )
        self.row = type(structure) if row else None
        self.recogniser: Recogniser | None = None
        self.count = count

    # --- the short path
    def recognises(self, call: Call, recogniser: Recogniser | None) -> bool:
        """Whether the recogniser knows `call`, and finds what looking closely found."""
        found = recogniser(tuple(value for _, value in call.bound)) if recogniser is not None else None
        if found is None:
            return False
        storages, scalars, _ = found
        buffers = [call.arrays[k]._buffer for k in self.order]
        return (
            len(storages) == len(buffers)
            and all(b is not None and s is b.storage for s, b in zip(storages, buffers))
            and list(map(repr, scalars)) == list(map(repr, call.walk.scalars))
        )

    def attempt(self, fn: Any, args: tuple[Any, ...]) -> Any:
        """The result, when everything is as it was seen; else MISS."""
        recognise = self.recogniser
        if recognise is None:
            return MISS
        missing = self.count - len(args)
        if missing:
            defaults = fn.__defaults__
            if missing < 0 or defaults is None or missing > len(defaults):
                return MISS
            args = args + defaults[len(defaults) - missing :]
        found = recognise(args)
        if found is None or default_float.get() is not self.default:
            return MISS
        storages, scalars, changed = found
        if not storages and current_device() != self.device:
            return MISS
        if self.constants:
            storages.extend(b.storage for b in self.constants)
        for guard in self.guards:
            guard.check(scalars)
        executable = self.executable
        if executable is None:
            return self.finish(())
        try:
            if changed:
                with realise.writing(changed):
                    outputs = executable.run(storages, scalars)
            else:
                outputs = executable.run(storages, scalars)
        except RangeError:
            self.check_limits(scalars)
            raise
        if self.single:
            return owning(outputs[0], self.types[0], self.device, self.signatures[0], self.origins[0])
        return self.finish(outputs)

    def check_limits(self, scalars: Sequence[Any]) -> None:
        """The runtime refused a number: name the argument."""
        for guard in self.limits:
            guard.check(scalars)

    # --- the long path
    def run(self, arrays: Sequence[Array], scalars: Sequence[Any]) -> Any:
        """Run on realised arrays (one a leaf, all owned) and numbers."""
        for guard in (*self.limits, *self.guards):
            guard.check(scalars)
        buffers = [arrays[k]._buffer for k in self.order]
        storages = [b.storage for b in buffers if b is not None]
        storages.extend(b.storage for b in self.constants)
        if self.executable is None:
            return self.finish(())
        if not self.written:
            return self.finish(self.executable.run(storages, scalars))
        self.check_overlap(arrays)
        changed = [b for k in self.written if (b := arrays[k]._buffer) is not None]
        with realise.writing(changed):
            outputs = self.executable.run(storages, scalars)
        for k in self.written:
            if arrays[k]._base is not None:
                through(arrays[k])
        return self.finish(outputs)

    def check_overlap(self, arrays: Sequence[Array]) -> None:
        """A written argument may be no stale view, and may not share a part of its memory with another one."""
        for k in self.written:
            if arrays[k]._base is not None and not arrays[k]._is_fresh():
                raise stale_error(arrays[k])
        views = [k for k, a in enumerate(arrays) if a._base is not None and a._is_fresh()]
        if not views:
            return
        for k in self.written:
            root = arrays[k]._base if arrays[k]._is_fresh() else arrays[k]
            for j, other in enumerate(arrays):
                theirs = other._base if other._is_fresh() else other
                if j == k or theirs is not root or other is arrays[k] or (j not in views and k not in views):
                    continue
                mine, his = region(arrays[k]), region(other)
                if not np.array_equal(mine, his) and np.intersect1d(mine, his).size:
                    raise AliasError(
                        "GLA0702",
                        f"the function writes {self.names[k]}, and {self.names[j]} overlaps it in part",
                        labels=labels("called here"),
                        help=f"pass a copy: {self.names[j]}.copy()",
                    )

    def finish(self, outputs: Sequence[Any]) -> Any:
        """The returned structure with fresh arrays in it."""
        if self.single:
            return owning(outputs[0], self.types[0], self.device, self.signatures[0], self.origins[0])
        made = [
            owning(s, t, self.device, signature, origin)
            for s, t, signature, origin in zip(outputs, self.types, self.signatures, self.origins)
        ]
        if self.row is not None:
            return made if self.row is list else tuple(made)

        def place(value: Any) -> Any:
            if type(value) is not Slot:
                return value
            array = made[value.index]
            return from_node(node_of(array), self.device, None) if value.copy else array

        return map_leaves(self.structure, place)


def through(view: Array) -> None:
    """A function has written a view's own memory: the root gets it, as a write through the view would do."""
    root = view._base
    assert root is not None and view._buffer is not None
    contents = view._buffer.leaf
    replace(view, lambda: contents)
