"""The oracle: any graph, op by op, with NumPy in the plainest way. Tests compare with it; it never serves a user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gla import dtypes
from gla.ir.builder import constant_value
from gla.ir.graph import Graph
from gla.ir.node import Node
from gla.ir.ops.table import elementwise, is_elementwise, structural

HALF = (dtypes.float16, dtypes.bfloat16)


def evaluate(graph: Graph, arguments: Sequence[Any]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(results, new contents of the written inputs) of the graph for NumPy arguments in the order of its inputs."""
    values = run(graph, [np.asarray(a, i.dtype.numpy) for a, i in zip(arguments, graph.inputs, strict=True)])
    return [values[r] for r in graph.results], [values[v] for _, v in graph.writes]


def run(graph: Graph, arguments: Sequence[Any]) -> dict[Node, Any]:
    """The value of every node."""
    values: dict[Node, Any] = dict(zip(graph.inputs, arguments))
    with np.errstate(all="ignore"):
        for node in graph.nodes():
            if node not in values:
                values[node] = _node(node, [values[o] for o in node.operands])
    return values


def _node(node: Node, operands: list[Any]) -> Any:
    if node.op == "constant":
        return np.asarray(constant_value(node))
    if node.op == "item":
        return operands[0][node.attr("index")]
    if node.op == "loop":
        return _loop(node, operands)
    if node.op == "while":
        return _while(node, operands)
    if node.op == "cast":
        return cast(operands[0], node.dtype)
    result = _elementwise(node, operands) if is_elementwise(node.op) else structural(node.op).reference(node, *operands)
    return np.asarray(result).astype(node.dtype.numpy, copy=False).reshape(node.shape)


def _elementwise(node: Node, operands: list[Any]) -> Any:
    row = elementwise(node.op)
    attrs = dict(node.attrs)
    main = next(o for k, o in enumerate(node.operands) if k not in row.mixed)
    if main.dtype in HALF:
        operands = [o.astype(np.float32) if n.dtype in HALF else o for o, n in zip(operands, node.operands)]
    return row.reference(*operands, **attrs)


def cast(x: Any, dtype: dtypes.DType) -> np.ndarray:
    """Conversion by semantics.md: floats to integers saturate, NaN gives 0; everything else is NumPy's astype."""
    if dtype.kind in "iu" and x.dtype.kind not in "biu":
        low, high = dtypes.integer_range(dtype)
        wide = np.asarray(x, np.float64)
        clipped = np.where(np.isnan(wide), 0.0, wide)
        exact = np.array(
            [min(max(int(v), low), high) if np.isfinite(v) else (high if v > 0 else low) for v in clipped.ravel()], dtype=object
        )
        return exact.astype(dtype.numpy).reshape(x.shape)
    return np.asarray(x).astype(dtype.numpy)


def _loop(node: Node, operands: list[Any]) -> tuple[Any, ...]:
    carries = node.attr("carries")
    count, state, captured = int(operands[0]), operands[1 : 1 + carries], operands[1 + carries :]
    body, every = node.attr("body"), node.attr("emits")
    kept: list[list[Any]] = [[] for _ in every]
    for k in range(count):
        values = run(body, [np.asarray(k, np.int64), *state, *captured])
        results = [values[r] for r in body.results]
        state = results[:carries]
        for rows, n, value in zip(kept, every, results[carries:]):
            if (k + 1) % n == 0:
                rows.append(value)
    stacked = [np.reshape(np.array(rows), t.shape).astype(t.dtype.numpy) for rows, t in zip(kept, node.items[carries:])]
    return (*state, *stacked)


def _while(node: Node, operands: list[Any]) -> tuple[Any, ...]:
    carries = node.attr("carries")
    state, captured = operands[:carries], operands[carries:]
    test, body = node.attr("test"), node.attr("body")
    trips = 0

    def holds() -> bool:
        return bool(run(test, [*state, *captured])[test.results[0]])

    while trips < node.attr("limit") and holds():
        values = run(body, [*state, *captured])
        state = [values[r] for r in body.results]
        trips += 1
    return (*state, np.asarray(trips, np.int64), np.asarray(holds()))
