"""What a `gla.function` shows of itself: text of its program, plan, kernels, counts; and prepared calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gla.array import engine, realise
from gla.array.boundary import public, trimmed
from gla.array.buffer import Buffer
from gla.array.calls import NUMBERS
from gla.array.create import upload
from gla.array.value import Array, from_buffer
from gla.errors import DtypeError, GlaError
from gla.ir.spans import labels

if TYPE_CHECKING:
    from gla.array.entry import Entry
    from gla.array.function import Call, Function


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of a function: calls; hits, those that met a known signature; plans; distinct kernels; graph instantiations and updates."""

    calls: int
    hits: int
    plans: int
    kernels: int
    instantiations: int
    updates: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """A generated kernel: its name and its text in the device's language."""

    name: str
    text: str

    def __str__(self) -> str:
        return self.text


class PlanView:
    """A plan as people look at it: `steps`, `buffers`, `memory` (bytes of inputs, outputs, temporaries), and its text."""

    def __init__(self, plan: Any) -> None:
        self._plan = plan
        self.steps, self.buffers = plan.steps, plan.buffers

    @property
    def memory(self) -> dict[str, int]:
        """Bytes: inputs, outputs, temporaries (the arena, after packing), workspace."""
        sums = {"inputs": 0, "outputs": 0}
        for buffer in self.buffers:
            if buffer.kind in ("input", "output"):
                sums[buffer.kind + "s"] += buffer.nbytes
        return {**sums, "temporaries": self._plan.arena_bytes, "workspace": self._plan.workspace_bytes}

    def __str__(self) -> str:
        from gla.plan.text import print_plan

        return print_plan(self._plan)


def ir(entry: Entry) -> str:
    """The traced graph as text."""
    from gla.ir.text import print_graph

    return print_graph(entry.graph)


def _stages(entry: Entry) -> Any:
    from gla import compiler

    return compiler.stages(entry.graph, engine.machine(entry.device).kind, engine.options())


def plan(entry: Entry) -> PlanView:
    return PlanView(_stages(entry).plan)


def kernels(entry: Entry) -> list[Kernel]:
    return [Kernel(name, text) for name, text in _stages(entry).kernels]


def explain(entry: Entry, name: str, known: bool, entries: int) -> str:
    """Plan in words, and whether the call hit."""
    from gla.plan.explain import explain as words

    head = f"{name}: " + ("a known signature" if known else "a new signature: traced and planned for this call")
    memory = plan(entry).memory
    sizes = ", ".join(f"{key} {value:,}" for key, value in memory.items())
    return "\n".join(
        [head, f"{entries} signature{'s' if entries != 1 else ''} known", f"bytes: {sizes}", words(_stages(entry).plan)]
    )


def stats(calls: int, traces: int, entries: Sequence[Entry]) -> Stats:
    executables = list({id(e.executable): e.executable for e in entries if e.executable is not None}.values())
    names = {call.kernel.name for e in executables for call in e.program.calls.values()}
    return Stats(
        calls,
        max(calls - traces, 0),
        traces,
        len(names),
        sum(e.stats.instantiations for e in executables),
        sum(e.stats.updates for e in executables),
    )


class Prepared:
    """A call checked once. `prepared(*args)` runs the same program on other arrays and numbers; without arguments, on the first ones."""

    def __init__(self, function: Function, entry: Entry, call: Call) -> None:
        self._function, self._entry = function, entry
        self._bound = [value for _, value in call.bound]
        self._arrays, self._scalars = call.arrays, list(call.walk.scalars)
        self._simple = all(isinstance(v, (Array, np.ndarray, *NUMBERS)) for v in self._bound)
        self._ordered = tuple(self._arrays[k] for k in entry.order)
        self._constants = [b.storage for b in entry.constants]
        self._run: Any = None  # known after the first call, which checks the numbers

    def __call__(self, *args: Any) -> Any:
        """Run. DtypeError when an argument is not of the kind that was prepared."""
        buffers = [array._buffer for array in self._ordered]
        if args or self._run is None or None in buffers:
            return self._checked(*args)
        storages = [b.storage for b in buffers]  # type: ignore[union-attr]
        if self._constants:
            storages += self._constants
        try:
            outputs = self._run(storages, self._scalars)
        except GlaError as error:
            raise trimmed(error)  # noqa: B904 - it is the same error
        entry = self._entry
        if entry.single:
            return from_buffer(Buffer(outputs[0], entry.types[0], entry.device, entry.signatures[0]))
        return entry.finish(outputs)

    @public
    def _checked(self, *args: Any) -> Any:
        entry = self._entry
        if not args:
            result = entry.run(self._arrays, self._scalars)
            if entry.executable is not None and not entry.written:
                self._run = entry.executable.run
            return result
        if not self._simple or len(args) != len(self._bound):
            raise DtypeError(
                "GLA0224",
                f"{self._function.name} was prepared with {len(self._bound)} arguments, {len(args)} were given",
                labels=labels("called here"),
                help="call it with arrays and numbers in the same order",
            )
        arrays: list[Array] = []
        scalars: list[Any] = []
        for value, first in zip(args, self._bound):
            if isinstance(first, (Array, np.ndarray)):
                arrays.append(self._array(value, len(arrays)))
            elif type(value) is type(first):
                if type(value) is not bool:
                    scalars.append(value.item() if isinstance(value, np.generic) else value)
            else:
                raise self._mismatch(value, first)
        arrays.extend(self._arrays[len(arrays) :])
        return self._entry.run(arrays, scalars)

    def _array(self, value: Any, k: int) -> Array:
        array = value if isinstance(value, Array) else upload(np.asarray(value), None, self._entry.device)
        wanted = self._arrays[k]
        if array._type != wanted._type or array._device != wanted._device:
            raise self._mismatch(array._type, wanted._type)
        if array._buffer is None:
            realise.own([array])
        return array

    def _mismatch(self, given: Any, wanted: Any) -> DtypeError:
        return DtypeError(
            "GLA0224", f"{self._function.name} was prepared for {wanted}, not {given}", labels=labels("called here"),
            help="call the function itself: it plans anew when arguments change",
        )  # fmt: skip
