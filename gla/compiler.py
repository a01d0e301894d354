"""The one road: IR graph -> passes -> plan -> kernels -> executable. This file names the stations and decides nothing itself.

Called by both front ends: `executable` for a graph that runs, `program` for one that is recorded into a gla.Graph, `stages`
for people who want to see what lies between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from gla.codegen.arguments import InputPointer, LoweredKernel, Number, OutputPointer, RuntimeScalar
from gla.codegen.form import kernel_key
from gla.codegen.kernel import Kernel, Product
from gla.codegen.loops import lower
from gla.codegen.march import March
from gla.config import Options, environment
from gla.device.base import Geometry, Parameters
from gla.ir.graph import Graph
from gla.ir.node import Node
from gla.passes.pipeline import run as optimise
from gla.plan.planner import plan as make_plan
from gla.plan.steps import KernelStep, LoopStep, MatmulStep, Plan, Step
from gla.plan.time_tiles import RULES
from gla.runtime.executable import Executable
from gla.runtime.kernels import Wanted
from gla.runtime.machine import Machine
from gla.runtime.program import KernelCall, Program
from gla.runtime.scalars import Packer


@dataclass(frozen=True, slots=True)
class Stages:
    """What lies between a graph and its executable: the optimised graph, the plan, and (name, text) of each kernel."""

    graph: Graph
    plan: Plan
    kernels: tuple[tuple[str, str], ...]


def executable(graph: Graph, machine: Machine, options: Options | None = None) -> Executable:
    """The executable of `graph` on `machine`, from the cache or made now. Structurally equal graphs get the same one."""
    options = options or environment().options
    key = (graph.key(), options)
    return machine.executables.get(key, lambda: Executable(machine, program(graph, machine, options)))


def program(graph: Graph, machine: Machine, options: Options | None = None) -> Program:
    """`graph` planned, its kernels compiled (side by side) and loaded."""
    options = options or environment().options
    plan = make_plan(optimise(graph, options), options, products=machine.kind == "cuda", tiling=RULES.get(machine.kind))
    steps = list(kernel_steps(plan.steps))
    lowered = [lower_step(step) for step in steps]
    loaded = machine.kernels.load([wanted(low.kernel, machine.kind) for low in lowered])
    first = dict(zip(plan.scalars, Packer([node.dtype for node in plan.scalars]).first))
    calls = {}
    for step, low, kernel in zip(steps, lowered, loaded):
        template, pointers, scalars = arguments(step, low, first)
        geometry = kernel_geometry(low, machine)
        outputs = step.region.outputs
        nbytes = sum(plan.buffers[b].nbytes for b in (*step.reads, *step.writes))
        calls[id(step)] = KernelCall(kernel, geometry, template, pointers, scalars, kernel.name, nbytes, outputs[0].span)
    workspace = machine.properties.library_workspace if uses_library(plan.steps) else 0
    return Program(plan, calls, max(workspace, plan.workspace_bytes))


def stages(graph: Graph, kind: str, options: Options | None = None) -> Stages:
    """The intermediate stages for a kind of device ("host", "cuda"), which need not be there."""
    options = options or environment().options
    optimised = optimise(graph, options)
    plan = make_plan(optimised, options, products=kind == "cuda", tiling=RULES.get(kind))
    kernels = [lower_step(step).kernel for step in kernel_steps(plan.steps)]
    return Stages(optimised, plan, tuple(dict.fromkeys((kernel.name, print_kernel(kernel, kind)) for kernel in kernels)))


# --- stations
def kernel_steps(steps: tuple[Step, ...]) -> Iterator[KernelStep]:
    """Every kernel step, loops' bodies and tests included."""
    for step in steps:
        if isinstance(step, KernelStep):
            yield step
        elif isinstance(step, LoopStep):
            yield from kernel_steps(step.test)
            yield from kernel_steps(step.body)


def uses_library(steps: tuple[Step, ...]) -> bool:
    return any(isinstance(s, MatmulStep) or (isinstance(s, LoopStep) and uses_library((*s.test, *s.body))) for s in steps)


def lower_step(step: KernelStep) -> LoweredKernel:
    return lower(step.region)


def print_kernel(kernel: Kernel | March | Product, kind: str) -> str:
    """The kernel in the language of the device."""
    if isinstance(kernel, March):
        return march_text(kernel, kind)
    if isinstance(kernel, Product):
        from gla.codegen.cuda_product import print_product

        return print_product(kernel)
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
    if isinstance(low.kernel, March):
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
    else:
        from gla.codegen.llvm import geometry
    return geometry(low.kernel, low.items, machine.properties)


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
