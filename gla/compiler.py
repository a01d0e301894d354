"""The one road: IR graph -> passes -> plan -> kernels -> executable. This file decides whether the road has to be gone at all.

Called by both front ends: `executable` for a graph that runs, `program` for one that is recorded into a gla.Graph, `stages`
for people who want to see what lies between. The stations themselves are in stations.py, which is loaded when it is needed:
not for an executable that is kept, nor for a graph whose recipe an earlier process left on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gla.config import Options, environment
from gla.ir.graph import Graph
from gla.runtime import recipe as recipes
from gla.runtime.executable import Executable
from gla.runtime.kernels import Wanted
from gla.runtime.machine import Machine
from gla.runtime.program import KernelCall, Program
from gla.runtime.recipe import KernelRecipe, Recipe, kernel_steps

if TYPE_CHECKING:
    from gla.stations import Stages


def executable(graph: Graph, machine: Machine, options: Options | None = None, held: bool = False) -> Executable:
    """The executable of `graph` on `machine`, from the cache or made now. Structurally equal graphs get the same one. `held`: the
    caller keeps it as long as it is of use; others are kept for a while."""
    options = options or environment().options
    key = (graph.key(), options)
    return machine.executables.get(key, lambda: Executable(machine, program(graph, machine, options)), held)


def program(graph: Graph, machine: Machine, options: Options | None = None) -> Program:
    """`graph` planned, its kernels compiled (side by side) and loaded; by its recipe where there is one."""
    options = options or environment().options
    if options.verify:
        return _assembled(*_made(graph, machine, options), machine)
    images = machine.kernels.images
    name = recipes.digest(graph, options, machine.properties)
    found = recipes.load(images, name)
    if found is not None:
        return _assembled(found, [_kept(kernel, graph, machine, options) for kernel in found.kernels], machine)
    made, wanted = _made(graph, machine, options)
    loaded = machine.kernels.loaded
    result = _assembled(made, wanted, machine)
    if machine.kernels.loaded != loaded:  # a new size of what this process knows is planned sooner than it is written
        recipes.save(images, name, made)
    return result


def stages(graph: Graph, kind: str, options: Options | None = None) -> Stages:
    """The intermediate stages for a kind of device ("host", "cuda"), which need not be there."""
    from gla import stations

    return stations.stages(graph, kind, options or environment().options)


def _made(graph: Graph, machine: Machine, options: Options) -> tuple[Recipe, list[Wanted]]:
    machine.device.expect_compilation()
    from gla import stations

    return stations.recipe(graph, machine, options)


def _kept(kernel: KernelRecipe, graph: Graph, machine: Machine, options: Options) -> Wanted:
    """A kernel of a recipe. Its text is there only by going the road: when its image is gone."""

    def text() -> str:
        _, wanted = _made(graph, machine, options)
        return next(w.text() for w in wanted if w.key == kernel.key)

    return Wanted(kernel.name, kernel.key, text)


def _assembled(recipe: Recipe, wanted: list[Wanted], machine: Machine) -> Program:
    """The recipe with its kernels loaded."""
    loaded = machine.kernels.load(wanted)
    calls = {}
    for step, made, kernel in zip(kernel_steps(recipe.plan.steps), recipe.kernels, loaded, strict=True):
        calls[id(step)] = KernelCall(
            kernel, made.geometry, made.template(), made.pointers, made.scalars, kernel.name, made.nbytes, made.span
        )
    return Program(recipe.plan, calls, recipe.workspace_bytes)
