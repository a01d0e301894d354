"""The stations of the road, IR graph -> passes -> plan -> kernels, and the recipe of what they made.

Loaded when a graph is compiled that no recipe on disk describes (compiler.py decides), and for `stages`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gla.codegen.arguments import InputPointer, LoweredKernel, Number, OutputPointer, RuntimeScalar
from gla.codegen.form import kernel_key
from gla.codegen.kernel import Kernel, Product
from gla.codegen.loops import lower
from gla.config import Options
from gla.device.base import Geometry, Parameters
from gla.ir.graph import Graph
from gla.ir.node import Node
from gla.passes.pipeline import run as optimise
from gla.plan.planner import plan as make_plan
from gla.plan.steps import KernelStep, LoopStep, MatmulStep, Plan, Step
from gla.plan.time_tiles import RULES
from gla.runtime.kernels import Wanted
from gla.runtime.machine import Machine
from gla.runtime.recipe import KernelRecipe, Recipe, kernel_steps
from gla.runtime.scalars import Packer

if TYPE_CHECKING:
    from gla.codegen.march import March


@dataclass(frozen=True, slots=True)
class Stages:
    """What lies between a graph and its executable: the optimised graph, the plan, and (name, text) of each kernel."""

    graph: Graph
    plan: Plan
    kernels: tuple[tuple[str, str], ...]


def recipe(graph: Graph, machine: Machine, options: Options) -> tuple[Recipe, list[Wanted]]:
    """`graph` planned and lowered, and its kernels as the runtime asks for them."""
    plan = make_plan(optimise(graph, options), options, products=machine.kind == "cuda", tiling=RULES.get(machine.kind))
    steps = list(kernel_steps(plan.steps))
    first = dict(zip(plan.scalars, Packer([node.dtype for node in plan.scalars]).first))
    made, wants = [], []
    for step in steps:
        low = lower_step(step)
        want = wanted(low.kernel, machine.kind)
        template, pointers, scalars = arguments(step, low, first)
        nbytes = sum(plan.buffers[b].nbytes for b in (*step.reads, *step.writes))
        span = step.region.outputs[0].span
        geometry = kernel_geometry(low, machine)
        made.append(
            KernelRecipe(
                want.name, want.key, geometry, template.dtypes, template.slots.tobytes(), pointers, scalars, nbytes, span
            )
        )
        wants.append(want)
    workspace = machine.properties.library_workspace if uses_library(plan.steps) else 0
    return Recipe(plan, tuple(made), max(workspace, plan.workspace_bytes)), wants


def stages(graph: Graph, kind: str, options: Options) -> Stages:
    """The intermediate stages for a kind of device ("host", "cuda"), which need not be there."""
    optimised = optimise(graph, options)
    plan = make_plan(optimised, options, products=kind == "cuda", tiling=RULES.get(kind))
    kernels = [lower_step(step).kernel for step in kernel_steps(plan.steps)]
    return Stages(optimised, plan, tuple(dict.fromkeys((kernel.name, print_kernel(kernel, kind)) for kernel in kernels)))


# --- stations
def uses_library(steps: tuple[Step, ...]) -> bool:
    return any(isinstance(s, MatmulStep) or (isinstance(s, LoopStep) and uses_library((*s.test, *s.body))) for s in steps)


def lower_step(step: KernelStep) -> LoweredKernel:
    return lower(step.region)


def print_kernel(kernel: Kernel | March | Product, kind: str) -> str:
    """The kernel in the language of the device."""
    if isinstance(kernel, Product):
        from gla.codegen.cuda_product import print_product

        return print_product(kernel)
    if not isinstance(kernel, Kernel):
        return march_text(kernel, kind)
    if kind == "cuda":
        from gla.codegen.cuda import print_cuda

        return print_cuda(kernel)
    from gla.codegen.llvm import print_llvm

    return print_llvm(kernel)


def march_text(march: March, kind: str) -> str:
    """The march in the language of the device."""
    if kind == "cuda":
        from gla.codegen.cuda_march import print_march
    else:
        from gla.codegen.llvm_march import print_march
    return print_march(march)


def wanted(kernel: Kernel | March | Product, kind: str) -> Wanted:
    """The kernel as the runtime asks for it: printed only when it is not known yet."""
    return Wanted(kernel.name, kernel_key(kernel), partial(print_kernel, kernel, kind))


def kernel_geometry(low: LoweredKernel, machine: Machine) -> Geometry:
    """How the kernel is spread over the device."""
    if not isinstance(low.kernel, Kernel | Product):
        if machine.kind == "cuda":
            from gla.codegen.cuda_march import march_geometry
        else:
            from gla.codegen.llvm_march import march_geometry
        return march_geometry(low.kernel, low.extent, machine.properties)
    if isinstance(low.kernel, Product):
        from gla.codegen.cuda_product import product_geometry

        return product_geometry(low.kernel, low.extent)
    if machine.kind == "cuda":
        from gla.codegen.cuda_geometry import geometry
        from gla.codegen.rows import columns_of

        columns, held = columns_of(low.kernel), low.kernel.held
        wide = low.number(columns) if columns is not None else 0
        row = low.number(held[0]) * held[1] if held is not None else 0
        return geometry(low.kernel, low.items, machine.properties, wide, row)
    from gla.codegen.llvm import geometry as spread

    return spread(low.kernel, low.items, machine.properties)


Slots = tuple[tuple[int, int], ...]


def arguments(step: KernelStep, low: LoweredKernel, first: dict[Node, int]) -> tuple[Parameters, Slots, Slots]:
    """The kernel's parameters with the numbers set, its (slot, buffer) pointers and its (slot, word) scalars."""
    template = Parameters([None if p.kind == "pointer" else p.dtype for p in low.kernel.parameters])
    pointers: list[tuple[int, int]] = []
    scalars: list[tuple[int, int]] = []
    for slot, argument in enumerate(low.arguments):
        match argument:
            case InputPointer(index):
                pointers.append((slot, step.reads[index]))
            case OutputPointer(index):
                pointers.append((slot, step.writes[index]))
            case RuntimeScalar(index, part):
                scalars.append((slot, first[step.region.scalars[index]] + (part or 0)))
            case Number(value, _):
                template.set(slot, value)
    return template, tuple(pointers), tuple(scalars)
