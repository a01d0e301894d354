"""The name and the comment lines of a kernel: what it does, from the structure of its region alone."""

from __future__ import annotations

from collections import Counter

from gla.codegen.extents import region_nodes
from gla.ir.node import Node
from gla.plan.steps import Region

_QUIET = frozenset({"input", "constant", "broadcast", "reshape", "transpose", "slice", "item", "cast", "iota", "where"})
_HEAVY = ("loop", "while", "cond", "scan", "reduce", "argreduce", "gather", "update", "concat", "pad", "shift")
_LONGEST = 44
_WIDEST = 120


def kernel_name(region: Region) -> str:
    """`gla_` and up to four ops: control and reductions first, then the elementwise ones that stand most often."""
    counts = Counter(_label(node) for node in region_nodes(region) if node not in region.inputs and node.op not in _QUIET)
    heavy = {_label(node): _HEAVY.index(node.op) for node in region_nodes(region) if node.op in _HEAVY}
    ranked = sorted(counts, key=lambda label: (heavy.get(label, len(_HEAVY)), -counts[label], label))
    name = "gla"
    for label in ranked[:4]:
        if len(name) + len(label) < _LONGEST:
            name += f"_{label}"
    return name if counts else "gla_copy"


def _label(node: Node) -> str:
    if node.op == "scan":
        return {"sum": "cumsum", "prod": "cumprod", "max": "cummax", "min": "cummin"}[node.attr("kind")]
    return node.attr("kind") if node.op in ("reduce", "argreduce") else node.op


def kernel_doc(region: Region) -> tuple[str, ...]:
    """`out0 = add(in0, sin(in1))`, a line for each output; what is long is cut."""
    names = {node: f"in{k}" for k, node in reversed(list(enumerate(region.inputs)))}
    names.update((node, f"s{k}") for k, node in enumerate(region.scalars))
    return tuple(f"out{k} = {_text(node, names, 6)}"[:_WIDEST] for k, node in enumerate(region.outputs[:8]))


def _text(node: Node, names: dict[Node, str], depth: int) -> str:
    if node in names:
        return names[node]
    if node.op == "constant":
        return "c"
    if not depth:
        return "..."
    if node.op in ("broadcast", "item"):
        return _text(node.operands[0], names, depth)
    shown = node.operands[:4] if node.op not in ("loop", "while", "cond") else node.operands[:2]
    inner = ", ".join(_text(operand, names, depth - 1) for operand in shown)
    return f"{_label(node)}({inner}{', ...' if len(shown) < len(node.operands) else ''})"
