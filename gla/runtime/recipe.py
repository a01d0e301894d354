"""What compiling a graph came to, in a form that a later process reads from disk: steps, buffers, and per kernel its key,
geometry and parameters. With it a known graph is neither optimised nor planned nor lowered, and none of that is loaded.

compiler.py asks `load` before it compiles and calls `save` afterwards. A recipe belongs to one version of gla's sources, one
device, and one text of the program: the places of its nodes count, since kernels name them.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gla.config import Options
from gla.device.base import Geometry, Parameters, Properties
from gla.dtypes import DType, as_dtype
from gla.errors import Span
from gla.ir.graph import Graph, new_input
from gla.ir.types import Type
from gla.plan.steps import KernelStep, LoopStep, Plan, Region, Step
from gla.runtime.cache import ImageCache

_NOTHING = Region((), (), (), ())


@dataclass(frozen=True, slots=True)
class KernelRecipe:
    """A kernel of a plan: its `key` among kept images, and what a launch needs, as in `program.KernelCall`. `dtypes`, `words`: its
    parameters, with the numbers set."""

    name: str
    key: str
    geometry: Geometry
    dtypes: tuple[DType | None, ...]
    words: bytes
    pointers: tuple[tuple[int, int], ...]
    scalars: tuple[tuple[int, int], ...]
    nbytes: int
    span: Span | None

    def template(self) -> Parameters:
        made = Parameters(self.dtypes)
        made.slots[:] = np.frombuffer(self.words, np.uint64)
        return made


@dataclass(frozen=True, slots=True)
class Recipe:
    """`kernels`: one for each of `kernel_steps(plan.steps)`, in that order."""

    plan: Plan
    kernels: tuple[KernelRecipe, ...]
    workspace_bytes: int


def kernel_steps(steps: Sequence[Step]) -> Iterator[KernelStep]:
    """Every kernel step, loops' bodies and tests included."""
    for step in steps:
        if isinstance(step, KernelStep):
            yield step
        elif isinstance(step, LoopStep):
            yield from kernel_steps(step.test)
            yield from kernel_steps(step.body)


def digest(graph: Graph, options: Options, properties: Properties) -> str:
    """The name of the graph's recipe."""
    return hashlib.sha256(repr((sources(), options, properties, _written(graph))).encode()).hexdigest()


def load(images: ImageCache, name: str) -> Recipe | None:
    """The recipe kept under `name`, or None."""
    data = images.read(name)
    if data is None:
        return None
    try:
        plan, scalars, kernels, workspace = _Reader(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, AttributeError, TypeError, ValueError, EOFError, ImportError, IndexError):
        return None  # written by another version of Python or of gla's classes
    nodes = tuple(new_input(Type(as_dtype(dtype)), scalar=True) for dtype in scalars)
    return Recipe(replace(plan, scalars=nodes), kernels, workspace)


def save(images: ImageCache, name: str, recipe: Recipe) -> None:
    """Keep the recipe, without the graph's nodes."""
    plan = recipe.plan
    bare = replace(plan, steps=_bare(plan.steps), scalars=())
    scalars = tuple(node.dtype.name for node in plan.scalars)
    images.write(name, pickle.dumps((bare, scalars, recipe.kernels, recipe.workspace_bytes), protocol=5), durable=False)


def _bare(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    made: list[Step] = []
    for step in steps:
        if isinstance(step, KernelStep):
            made.append(replace(step, region=_NOTHING))
        elif isinstance(step, LoopStep):
            made.append(replace(step, body=_bare(step.body), test=_bare(step.test)))
        else:
            made.append(step)
    return tuple(made)


class _Reader(pickle.Unpickler):
    """Makes nothing but gla's own records."""

    ROOMS = ("gla.plan.", "gla.device.base", "gla.runtime.recipe", "gla.dtypes", "gla.errors")

    def find_class(self, module: str, name: str) -> Any:
        if not module.startswith(self.ROOMS) or "." in name:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a recipe")
        return super().find_class(module, name)


def _written(graph: Graph) -> Any:
    """The structure of a graph with the places of its nodes, as nested tuples whose text is the same in every process."""
    first, inputs, rows, results, writes = graph.key()
    return first, inputs, _plain(rows), results, writes, tuple([node.span for node in graph.nodes()])


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple([_plain(part) for part in value])
    return _written(value) if isinstance(value, Graph) else value


@cache
def sources() -> str:
    """What stands for gla's own part in a recipe: sizes and times of its files."""
    parts = []
    for folder, _, names in os.walk(Path(__file__).resolve().parent.parent):
        for name in sorted(names):
            if name.endswith(".py"):
                with suppress(OSError):
                    status = os.stat(os.path.join(folder, name))
                    parts.append((name, status.st_size, status.st_mtime_ns))
    return hashlib.sha256(repr(sorted(parts)).encode()).hexdigest()
