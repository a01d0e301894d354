"""The stages of a program as text, JSON or Graphviz: what `gla ir` prints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gla.cli.exits import usage

if TYPE_CHECKING:
    from gla.compiler import Stages
    from gla.ir.graph import Graph

NamedGraph = tuple[str, "Graph"]


def tree(root: Any, form: str) -> str:
    """A syntax tree."""
    from gla.lang.dump import dump

    if form == "text":
        return dump(root)
    if form == "json":
        return json.dumps(_tree_data(root), indent=1, ensure_ascii=False) + "\n"
    return _tree_dot(root)


def _tree_data(root: Any) -> dict[str, Any]:
    """A node as {"node": class, "at": [line, column, line, column], field: value or node or list of nodes}."""
    import dataclasses

    from gla.lang.dump import HIDDEN
    from gla.lang.syntax import Node

    span = root.span
    out: dict[str, Any] = {"node": type(root).__name__, "at": [span.line, span.column, span.end_line, span.end_column]}
    for field in dataclasses.fields(root):
        value = getattr(root, field.name)
        if field.name in HIDDEN or value is None:
            continue
        if isinstance(value, Node):
            out[field.name] = _tree_data(value)
        elif isinstance(value, tuple):
            out[field.name] = [_tree_data(part) if isinstance(part, Node) else _plain(part) for part in value]
        else:
            out[field.name] = _plain(value)
    return out


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else str(value)


def _tree_dot(root: Any) -> str:
    from gla.lang.dump import children

    nodes: list[tuple[str, list[int]]] = []

    def add(node: Any) -> int:
        number = len(nodes)
        name = getattr(node, "name", None) or getattr(node, "op", None) or getattr(node, "value", None)
        text = type(node).__name__ + (f"\n{name}" if isinstance(name, str | int | float) else "")
        nodes.append((text, []))
        for child in children(node):
            nodes[number][1].append(add(child))
        return number

    add(root)
    return dot([(text, f"n{k}", [f"n{c}" for c in below]) for k, (text, below) in enumerate(nodes)])


def dot(nodes: Sequence[tuple[str, str, Sequence[str]]]) -> str:
    """Graphviz text of (label, name, names of the nodes that it points to)."""
    lines = ["digraph gla {", "  node [shape=box, fontname=monospace];"]
    for label, name, to in nodes:
        text = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'  {name} [label="{text}"];')
        lines += [f"  {name} -> {other};" for other in to]
    return "\n".join([*lines, "}"]) + "\n"


# ---------------------------------------------------------------- stages of graphs


def show(graphs: Sequence[NamedGraph], stage: str, kind: str, form: str) -> str:
    """A stage of the graphs of an entry."""
    if not graphs:
        return "# nothing is computed on a device\n" if form == "text" else "[]\n" if form == "json" else dot([])
    if stage == "ir":
        return _ir(graphs, form)
    from gla.compiler import stages

    made = [(name, stages(graph, kind)) for name, graph in graphs]
    if stage == "kernels":
        return _kernels(made, kind, form)
    return _plan(made, form) if stage == "plan" else _graph(made, form)


def _ir(graphs: Sequence[NamedGraph], form: str) -> str:
    from gla.ir.text import print_graph

    if form == "text":
        return "\n".join(print_graph(graph, name) for name, graph in graphs)
    if form == "json":
        return json.dumps([{"name": name, **_graph_data(graph)} for name, graph in graphs], indent=1) + "\n"
    nodes: list[tuple[str, str, list[str]]] = []
    for g, (_, graph) in enumerate(graphs):
        number = {node: f"g{g}n{k}" for k, node in enumerate(graph.nodes())}
        users: dict[Any, list[str]] = {node: [] for node in number}
        for node, name in number.items():
            for operand in node.operands:
                users[operand].append(name)
        nodes += [(f"{_title(node)}\n{node.type}", number[node], users[node]) for node in number]
    return dot(nodes)


def _title(node: Any) -> str:
    from gla.ir.builder import constant_value

    if node.op == "constant":
        return str(constant_value(node))
    return str(node.attr("name") or "input") if node.op == "input" else str(node.op)


def _graph_data(graph: Any) -> dict[str, Any]:
    """A graph as data: a row a node, operands by number; the graphs of loops are nested."""
    from gla.ir.graph import Graph

    number = {node: k for k, node in enumerate(graph.nodes())}
    rows = []
    for node in number:
        attrs: dict[str, Any] = {}
        for key, value in node.attrs:
            attrs[key] = (
                _graph_data(value) if isinstance(value, Graph) else value.hex() if isinstance(value, bytes) else str(value)
            )
        row: dict[str, Any] = {
            "op": node.op,
            "operands": [number[o] for o in node.operands],
            "type": str(node.type),
            "attrs": attrs,
        }
        if node.op == "constant":
            row["value"] = _title(node)
        if node.span is not None:
            row["at"] = str(node.span)
        rows.append(row)
    return {
        "inputs": [number[node] for node in graph.inputs],
        "nodes": rows,
        "results": [number[node] for node in graph.results],
        "writes": [[number[target], number[value]] for target, value in graph.writes],
    }


def _plan(made: Sequence[tuple[str, Stages]], form: str) -> str:
    from gla.plan.explain import explain
    from gla.plan.text import print_plan

    if form == "dot":
        return _graph(made, form)
    texts = [(name, print_plan(stage.plan, name), explain(stage.plan)) for name, stage in made]
    if form == "json":
        data = [{"name": name, "plan": plan.splitlines(), "why": why.splitlines()} for name, plan, why in texts]
        return json.dumps(data, indent=1) + "\n"
    return "\n".join(plan + "".join(f"  # {line}\n" for line in why.splitlines()) for _, plan, why in texts)


def _kernels(made: Sequence[tuple[str, Stages]], kind: str, form: str) -> str:
    kernels = list(dict.fromkeys(kernel for _, stage in made for kernel in stage.kernels))
    if form == "dot":
        raise usage("--stage kernels is text; it has no dot form", "--stage graph --format dot draws the launches")
    if form == "json":
        return json.dumps([{"name": name, "device": kind, "text": text} for name, text in kernels], indent=1) + "\n"
    sign = "//" if kind == "cuda" else ";"
    return "\n".join(f"{sign} ---- {name}\n{text}" for name, text in kernels) or f"{sign} no kernels\n"


def _graph(made: Sequence[tuple[str, Stages]], form: str) -> str:
    """The launches of each plan with what they wait for; a loop's body is drawn once."""
    rows: list[dict[str, Any]] = []
    for name, stage in made:
        _steps(rows, stage.plan, stage.plan.steps, name)
    if form == "json":
        return json.dumps(rows, indent=1) + "\n"
    if form == "dot":
        names = [f"n{k}" for k in range(len(rows))]
        to: list[list[str]] = [[] for _ in rows]
        for k, row in enumerate(rows):
            for before in row["after"]:
                to[before].append(names[k])
        return dot(
            [(f"{row['in']}\n{row['kind']} {row['what']}", name, to[k]) for k, (row, name) in enumerate(zip(rows, names))]
        )
    lines = []
    for k, row in enumerate(rows):
        waits = f"  after {', '.join(map(str, row['after']))}" if row["after"] else ""
        lines.append(f"{k:>4}  {row['in']}  {row['kind']}  {row['what']}{waits}")
    return "\n".join(lines) + "\n" if lines else "# nothing is launched\n"


def _steps(rows: list[dict[str, Any]], plan: Any, steps: Sequence[Any], where: str) -> list[int]:
    """Append a row a launch; gives the rows' numbers of these steps."""
    from gla.plan.steps import CopyStep, KernelStep, LoopStep, MatmulStep

    numbers: list[int] = []
    for step in steps:
        after = [numbers[k] for k in step.after]
        match step:
            case KernelStep():
                row = ("kernel", " x ".join(map(str, step.region.items)) or "1 item")
            case MatmulStep():
                row = (
                    "matmul",
                    f"{step.call.batch} x ({step.call.m}, {step.call.k}) @ ({step.call.k}, {step.call.n}) {step.call.dtype}",
                )
            case CopyStep():
                row = ("copy", f"{plan.buffers[step.source].nbytes} bytes")
            case LoopStep():
                row = ("loop", f"{'at most ' if step.test else ''}{step.count} replays of its body")
        numbers.append(len(rows))
        rows.append({"in": where, "kind": row[0], "what": row[1], "after": after})
        if isinstance(step, LoopStep):
            at = numbers[-1]
            inner = _steps(rows, plan, (*step.test, *step.body), f"{where}.loop")
            for k in inner:
                rows[k]["after"] = rows[k]["after"] or [at]
    return numbers
