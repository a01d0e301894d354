"""The one place where arrays meet the compiler and the runtime: compile, run, upload, download, by device name.

Executables are found by the structure of their graph; compiling holds no lock of a device, and two threads that want the same
plan compile it once (runtime/machine.py).
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from gla.config import Options, environment
from gla.errors import TraceError
from gla.ir.builder import default_float
from gla.ir.graph import Graph
from gla.ir.spans import labels
from gla.ir.types import Type

_executables: weakref.WeakValueDictionary[tuple[Any, ...], Any] = weakref.WeakValueDictionary()


def options() -> Options:
    """How to compile, with the task's default float."""
    given = environment().options
    name = default_float.get().name
    return given if name == given.default_float else Options(given.fma, name, given.passes, given.verify)


def machine(device: str) -> Any:
    """The runtime's side of a device."""
    from gla.runtime.devices import get_device

    return get_device(device)


def device_name(name: str) -> str:
    """The full name of a device ("cpu" is "host", "cuda" is "cuda:0"); opens it. DeviceError when it is missing."""
    return str(machine(name).name)


def default_device() -> str:
    """The device that this task chose, or that GLA_DEVICE names."""
    from gla.runtime.devices import current_device

    return str(current_device().name)


compiling: ContextVar[bool] = ContextVar("gla_compiling", default=True)
"""Whether this task may plan and compile: not inside `gla.no_compile()`."""


def refuse(what: str) -> TraceError:
    """What to raise for a program that would have to be made inside `gla.no_compile()`."""
    return TraceError(
        "GLA0421",
        f"{what} would be planned and compiled inside gla.no_compile()",
        labels=labels("here"),
        help="run it once before with arguments of these dtypes and shapes; f.explain(*args) says whether a signature is known",
    )


def compile_graph(graph: Graph, device: str, key: Hashable = None, held: bool = False) -> Any:
    """The executable of `graph` on `device`, found or made; `lookup` finds it by `key` from then on. `held`: the caller keeps it
    as long as it is of use."""
    from gla import compiler

    on, how = machine(device), options()
    if not compiling.get() and not on.executables.knows((graph.key(), how)):
        raise refuse(f"an expression of {len(graph)} operations")
    found = compiler.executable(graph, on, how, held)
    if key is not None:
        _executables[device, default_float.get(), key] = found
    return found


def program_of(graph: Graph, device: str) -> Any:
    """The program of `graph` for a capture: found when an equal graph of the same lines was captured before, so that what people
    read of its nodes are their own lines."""
    from gla import compiler
    from gla.runtime.executable import Executable

    on, how = machine(device), options()
    spans = tuple((n.span.file, n.span.line) if n.span is not None else None for n in graph.nodes())
    key = ("captured", graph.key(), how, spans)
    return on.executables.get(key, lambda: Executable(on, compiler.program(graph, on, how))).program


def lookup(device: str, key: Hashable) -> Any:
    """The executable that was compiled with `key`, if there is one."""
    return _executables.get((device, default_float.get(), key))


def run(executable: Any, storages: Sequence[Any], scalars: Sequence[Any]) -> Sequence[Any]:
    """Fresh storages for the results; written inputs are overwritten."""
    return executable.run(storages, scalars)  # type: ignore[no-any-return]


def upload(values: np.ndarray, device: str) -> Any:
    """A storage with a copy of the values, row-major."""
    return machine(device).upload(values)


def download(storage: Any, type: Type, device: str) -> np.ndarray:
    """The contents of a storage as a fresh NumPy array, everything before done."""
    return machine(device).download(storage, type.dtype.numpy, type.shape)  # type: ignore[no-any-return]


def synchronize() -> None:
    """Wait for all work of all devices that were opened."""
    from gla.runtime.devices import machines

    for each in machines():
        each.synchronize()
