"""A plan as text that a person reads: buffers, then a line a step with what it waits for, then the notes.

inputs   a0 f32[8, 16]
0  kernel 8 items + 16   a0 -> out0      max, exp, sum, divide
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gla.ir.access import STRUCTURAL
from gla.ir.node import Node, topological
from gla.plan.explain import counted, launches, size
from gla.plan.steps import CopyStep, KernelStep, LoopStep, MatmulStep, Plan, Region, Step, Target

NAMED = 8


def print_plan(plan: Plan, name: str = "main") -> str:
    """The whole plan."""
    return "\n".join(_plan(plan, name)) + "\n"


def _plan(plan: Plan, name: str) -> Iterator[str]:
    names = _names(plan)
    counts = counted(launches(plan.steps))
    yield f"plan {name}: {counts or 'nothing to do'}; arena {size(plan.arena_bytes)}"
    for buffer in plan.buffers:
        if buffer.kind == "temporary":
            where = f"arena {buffer.offset}, steps {buffer.first}-{buffer.last}" if buffer.nbytes else "empty"
        else:
            where = buffer.kind
        extents = f"[{', '.join(map(str, buffer.shape))}]" if buffer.shape else ""
        yield f"  {names[buffer.id]:<6} {buffer.dtype.short}{extents}  {where}"
    for scalar in plan.scalars:
        yield f"  scalar {scalar.attr('name') or '?'} {scalar.type}"
    yield from _steps(plan.steps, names, "  ")
    for target, _ in plan.writes:
        yield f"  writes {names[target]}"


def _names(plan: Plan) -> dict[int, str]:
    out, temporaries = {}, 0
    for buffer in plan.buffers:
        if buffer.kind == "temporary":
            out[buffer.id] = f"t{temporaries}"
            temporaries += 1
        else:
            out[buffer.id] = f"{'in' if buffer.kind == 'input' else 'out'}{buffer.index}"
    return out


def _steps(steps: Sequence[Step], names: dict[int, str], indent: str) -> Iterator[str]:
    for k, step in enumerate(steps):
        waits = f"  after {', '.join(map(str, step.after))}" if step.after else ""
        yield f"{indent}{k}: {_step(step, names)}{waits}"
        if isinstance(step, LoopStep):
            for start, current, following in step.carries:
                yield f"{indent}    carry {names[start]} -> {names[current]} <-> {names[following]}"
            if step.test:
                yield f"{indent}  test {names[step.condition]}"
                yield from _steps(step.test, names, indent + "    ")
            yield f"{indent}  body"
            yield from _steps(step.body, names, indent + "    ")


def _step(step: Step, names: dict[int, str]) -> str:
    match step:
        case KernelStep():
            reads = ", ".join(names[b] for b in step.reads)
            writes = ", ".join(
                names[b] + _target(t) for b, t in zip(step.writes, step.region.targets or (None,) * len(step.writes))
            )
            return f"kernel {_domain(step.region)}  {reads or '-'} -> {writes}  {_ops(step.region)}"
        case MatmulStep():
            c = step.call
            a = f"{names[step.a]}{f'+{step.a_offset}' if step.a_offset else ''}{'.T' if c.transpose_a else ''}"
            b = f"{names[step.b]}{f'+{step.b_offset}' if step.b_offset else ''}{'.T' if c.transpose_b else ''}"
            batch = f"{c.batch} x " if c.batch > 1 else ""
            return f"matmul {batch}({c.m}, {c.k}) @ ({c.k}, {c.n})  {a}, {b} -> {names[step.c]}"
        case CopyStep():
            return f"copy  {names[step.source]} -> {names[step.target]}"
        case LoopStep():
            counter = f", counter {names[step.counter]}" if step.counter >= 0 else ""
            return f"loop {step.count if not step.test else f'while, at most {step.count}'} trips{counter}"


def _domain(region: Region) -> str:
    items = "x".join(map(str, region.items)) or "1"
    return f"{items} + {'x'.join(map(str, region.inner))}" if region.inner else items


def _target(target: Target | None) -> str:
    if target is None:
        return ""
    parts = []
    for start, step in zip(target.starts, target.steps):
        text = "trip" if isinstance(start, Node) else str(start)
        parts.append(text if step == 1 else f"{text}::{step}")
    return f"[{', '.join(parts)}...]"


def _ops(region: Region) -> str:
    """The ops of the region in order, equal ones counted, views and constants left out."""
    counts: dict[str, int] = {}
    views = 0
    stop = set(region.inputs)
    for node in topological(region.outputs, stop=stop):
        if node in stop or node.op in ("constant", "input", "item"):
            continue
        name = node.attr("kind") if node.op in ("reduce", "scan", "argreduce") else node.op
        if node.op in STRUCTURAL and node.op not in ("reduce", "scan", "argreduce", "loop", "while", "iota"):
            views += 1
            continue
        counts[name] = counts.get(name, 0) + 1
    parts = [name if n == 1 else f"{n} {name}" for name, n in counts.items()]
    if len(parts) > NAMED:
        parts = [*parts[:NAMED], f"... {len(parts) - NAMED} more"]
    return ", ".join(parts) or ("move" if views else "copy")
