"""What a plan does and why, in words: reasons are kept while it is made, figures are counted when it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gla.ir.node import Node
from gla.plan.fuse.regions import Group
from gla.plan.steps import CopyStep, KernelStep, LoopStep, MatmulStep, Plan, Step

INDENT = "  "
NAMED = 6  # ops that a line names before it only counts


def tell(notes: list[str], depth: int, text: str) -> None:
    notes.append(INDENT * depth + text)


def tell_group(notes: list[str], depth: int, group: Group, roots: Sequence[Node]) -> None:
    """One line for a kernel: what was fused into it, over which items."""
    over = "one item" if not group.items else f"{' x '.join(map(str, group.items))} items"
    if group.inner:
        over += f", each with a row of {' x '.join(map(str, group.inner))}"
    gives = ", ".join(str(root.type) for root in roots)
    tell(notes, depth, f"kernel over {over}: {_ops(group)} -> {gives}")


def _ops(group: Group) -> str:
    counts: dict[str, int] = {}
    for node in group.inside:
        if node.op not in ("constant", "input"):
            name = f"{node.attr('kind')} over axes" if node.op in ("reduce", "scan") else node.op
            counts[name] = counts.get(name, 0) + 1
    parts = [name if n == 1 else f"{n} {name}" for name, n in counts.items()]
    if len(parts) > NAMED:
        parts = [*parts[:NAMED], f"{len(parts) - NAMED} other ops"]
    return ", ".join(parts) or "store"


def tell_stored(notes: list[str], depth: int, reasons: Mapping[Node, str]) -> None:
    """What was not fused into its readers, and why."""
    for node, reason in reasons.items():
        if reason not in ("fusion is off", "a reduction", "a loop leaves it"):
            tell(notes, depth, f"{node.op} {node.type} is stored: {reason}")


def launches(steps: Sequence[Step]) -> dict[str, int]:
    """How many kernels, library calls, copies and loops one run of the steps launches, trips of loops multiplied."""
    out: dict[str, int] = {}
    for step in steps:
        if isinstance(step, LoopStep):
            for kind, n in launches((*step.test, *step.body)).items():
                out[kind] = out.get(kind, 0) + n * step.count
        kind = {KernelStep: "kernels", MatmulStep: "matrix products", CopyStep: "copies", LoopStep: "host loops"}[type(step)]
        out[kind] = out.get(kind, 0) + 1
    return out


def counted(counts: Mapping[str, int]) -> str:
    """`2 kernels, 1 copy`."""
    one = {"copies": "copy"}
    return ", ".join(f"{n} {kind if n != 1 else one.get(kind, kind.removesuffix('s'))}" for kind, n in counts.items())


def traffic(plan: Plan, steps: Sequence[Step] | None = None) -> int:
    """Bytes that the steps read and write at least: each buffer of a step once, trips multiplied."""
    total = 0
    for step in plan.steps if steps is None else steps:
        if isinstance(step, LoopStep):
            total += step.count * traffic(plan, (*step.test, *step.body))
        else:
            from gla.plan.dependencies import uses

            reads, writes = uses(step)
            total += sum(plan.buffers[b].nbytes for b in {*reads}) + sum(plan.buffers[b].nbytes for b in {*writes})
    return total


def size(nbytes: int) -> str:
    """Bytes for people: 1.5 MiB."""
    amount = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError


def explain(plan: Plan) -> str:
    """The notes of a plan and its figures: launches, bytes moved, arena."""
    counts = counted(launches(plan.steps))
    boundary = sum(b.nbytes for b in plan.buffers if b.kind != "temporary")
    lines = [
        *plan.notes,
        f"launches: {counts or 'none'}",
        f"memory: {size(boundary)} of inputs and outputs, arena of {size(plan.arena_bytes)}",
        f"traffic: at least {size(traffic(plan))} read and written",
    ]
    return "\n".join(lines) + "\n"
