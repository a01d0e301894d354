"""The IR as text that a person reads: one line a node, sub-graphs indented, the source line at the right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gla.ir.builder import constant_value
from gla.ir.graph import Graph
from gla.ir.node import Node

COLUMN = 64


def print_graph(graph: Graph, name: str = "main", spans: bool = True) -> str:
    """The graph as text: parameters, a line a node in program order, what is given and written."""
    return "\n".join(_graph(graph, name, spans, "")) + "\n"


def _graph(graph: Graph, name: str, spans: bool, indent: str) -> Iterator[str]:
    names = _names(graph)
    inputs = ", ".join(f"{names[i]}: {i.type}" for i in graph.inputs)
    yield f"{indent}{name}({inputs}) {{"
    for node in graph.nodes():
        if node.op in ("input", "constant") and node in names and node.op == "input":
            continue
        if node.op == "constant":
            continue
        line = f"{indent}  {names[node]} = {_operation(node, names)} : {node.type}"
        if spans and node.span is not None:
            line = f"{line:<{COLUMN}} # {Path(node.span.file).name}:{node.span.line}"
        yield line
        for key in ("test", "body"):
            inner = dict(node.attrs).get(key)
            if isinstance(inner, Graph):
                yield from _graph(inner, key, spans, indent + "    ")
    for target, value in graph.writes:
        yield f"{indent}  {names[target]} <- {names[value]}"
    if graph.results:
        yield f"{indent}  give {', '.join(names[r] for r in graph.results)}"
    yield f"{indent}}}"


def _names(graph: Graph) -> dict[Node, str]:
    names: dict[Node, str] = {}
    taken: set[str] = set()
    for k, node in enumerate(graph.inputs):
        name = node.attr("name") or f"arg{k}"
        while name in taken:
            name += "'"
        taken.add(name)
        names[node] = name
    count = 0
    for node in graph.nodes():
        if node in names:
            continue
        if node.op == "constant":
            names[node] = _constant(node)
        else:
            names[node] = f"%{count}"
            count += 1
    return names


def _constant(node: Node) -> str:
    text = str(constant_value(node))
    mark = "" if node.attr("literal") else "~"
    return f"{mark}{text}" if node.type.weak else f"{mark}{text}:{node.dtype.short}"


def _operation(node: Node, names: dict[Node, str]) -> str:
    attrs = [f"{key}={_value(value)}" for key, value in node.attrs if not isinstance(value, (Graph, bytes))]
    return f"{node.op}({', '.join([*(names[o] for o in node.operands), *attrs])})"


def _value(value: object) -> str:
    return f"({', '.join(map(str, value))})" if isinstance(value, tuple) else str(value)
