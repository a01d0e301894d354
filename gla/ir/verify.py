"""Checks that a graph is well formed: run between passes under tests. A fault is InternalError naming the pass and the node."""

from __future__ import annotations

from math import prod

from gla import dtypes
from gla.errors import InternalError
from gla.ir.graph import Graph
from gla.ir.node import Node
from gla.ir.ops.table import elementwise, is_elementwise
from gla.ir.types import TupleType

SOURCES = {"input", "constant", "iota"}
CONTROL = {"loop", "while", "item"}


def verify(graph: Graph, after: str = "building") -> Graph:
    """The graph itself, or InternalError that names what is wrong and after which pass."""
    inputs = set(graph.inputs)
    for node in graph.nodes():
        problem = _problem(node, inputs)
        if problem:
            raise InternalError(
                "GLA9901",
                f"after {after}: {node!r} {problem}; operands {[str(o.type) for o in node.operands]}, {dict(node.attrs)}",
            )
    for target, value in graph.writes:
        if target not in inputs or target.type.shape != value.type.shape or target.type.dtype is not value.type.dtype:
            raise InternalError("GLA9901", f"after {after}: write of {value!r} to {target!r}")
    return graph


def _problem(node: Node, inputs: set[Node]) -> str:
    if node.op == "input":
        return "" if node in inputs else "is no parameter of its graph"
    if node.op in ("loop", "while"):
        return _loop_problem(node)
    if node.op == "item":
        source = node.operands[0].type
        fits = isinstance(source, TupleType) and source.items[node.attr("index")] == node.type
        return "" if fits else "does not have the type of its item"
    if node.op == "constant":
        return "" if len(node.attr("bits")) == node.dtype.itemsize and not node.shape else "holds bits of another dtype"
    if node.op == "cast":
        return "" if node.operands[0].shape == node.shape else "changes the shape"
    return _elementwise_problem(node) if is_elementwise(node.op) else _structural_problem(node)


def _elementwise_problem(node: Node) -> str:
    row = elementwise(node.op)
    if len(node.operands) != row.arity:
        return "has the wrong number of operands"
    if any(o.shape != node.shape for o in node.operands):
        return "has operands of other shapes"
    main = [o.dtype for k, o in enumerate(node.operands) if k not in row.mixed]
    if any(d is not main[0] for d in main):
        return "has operands of several dtypes"
    if node.op not in ("philox", "complex") and row.result_dtype(main[0]) is not node.dtype:
        return f"gives {node.dtype}, its row {row.result_dtype(main[0])}"
    return ""


def _structural_problem(node: Node) -> str:
    if node.op == "iota":
        return "" if len(node.shape) == 1 and node.dtype is dtypes.int64 else "is no int64 vector"
    if any(o.dtype is not node.dtype for o in node.operands[:1]) and node.op != "argreduce":
        return "changes the dtype"
    x = node.operands[0].shape
    if node.op == "reshape" and prod(x) != prod(node.shape):
        return "changes the number of elements"
    if node.op == "transpose" and tuple(x[a] for a in node.attr("axes")) != node.shape:
        return "has another shape than its axes say"
    if node.op == "reduce" and tuple(n for k, n in enumerate(x) if k not in node.attr("axes")) != node.shape:
        return "has another shape than its axes say"
    if node.op in ("shift", "update", "scatter", "scan") and x != node.shape:
        return "changes the shape"
    if node.op == "slice":
        for start, step, length, extent in zip(node.attr("starts"), node.attr("steps"), node.shape, x, strict=True):
            if length and not (0 <= start < extent and 0 <= start + step * (length - 1) < extent):
                return "reads outside its operand"
    if node.op == "matmul":
        a, b = x, node.operands[1].shape
        if a[:-2] != b[:-2] or a[-1] != b[-2] or node.shape != (*a[:-1], b[-1]):
            return "has shapes that do not multiply"
    return ""


def _loop_problem(node: Node) -> str:
    skip = 1 if node.op == "loop" else 0
    body: Graph = node.attr("body")
    operands = node.operands[skip:]
    params = body.inputs[skip:]
    if [p.type for p in params] != [o.type for o in operands]:
        return f"has a body of parameters {[str(p.type) for p in params]}"
    carries = node.attr("carries")
    if [r.type for r in body.results[:carries]] != [o.type for o in operands[:carries]]:
        return f"has a body that gives {[str(r.type) for r in body.results]}"
    verify(body, "entering a loop's body")
    if node.op == "while":
        verify(node.attr("test"), "entering a loop's test")
    return ""
