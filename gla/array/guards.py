"""Checks of runtime scalars before anything runs: a number that is cast to an integer dtype must fit it.

A weak integer argument takes the dtype of the array it meets; whether it fits is known only at the call. `range_guards` finds
such casts in a traced graph; those of numbers computed from several arguments are evaluated with the ops' references.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gla import dtypes
from gla.dtypes import DType
from gla.errors import RangeError
from gla.ir.builder import constant_value
from gla.ir.graph import Graph
from gla.ir.node import Node, topological
from gla.ir.ops.table import elementwise, is_elementwise
from gla.ir.spans import labels


@dataclass(frozen=True, slots=True)
class RangeGuard:
    """The weak integer `node`, computed from runtime scalars, must fit `dtype`. `places`: input node -> number of the scalar."""

    node: Node
    dtype: DType
    places: dict[Node, int]
    name: str

    def check(self, scalars: Sequence[Any]) -> None:
        """RangeError when it does not fit."""
        low, high = dtypes.integer_range(self.dtype)
        value = scalars[self.places[self.node]] if self.node in self.places else evaluate(self.node, self.places, scalars)
        if not low <= int(value) <= high:
            raise RangeError(
                "GLA0203",
                f"{self.name} = {int(value)} does not fit {self.dtype}, which holds {low} to {high}",
                labels=labels("called here"),
                help=f"cast the array to a wider dtype first, or use a number in {low}..{high}",
            )


def range_guards(graph: Graph, scalars: Sequence[Node]) -> tuple[tuple[RangeGuard, ...], tuple[RangeGuard, ...]]:
    """(guards of casts, limits of the scalars themselves) for a traced graph whose runtime scalars are `scalars`.

    The runtime refuses a number that its own dtype does not hold; the limits are for saying which argument it was.
    """
    places = {node: k for k, node in enumerate(scalars)}
    found: dict[tuple[Node, DType], RangeGuard] = {}
    limits = tuple(RangeGuard(n, n.dtype, places, n.attr("name")) for n in scalars if n.dtype.kind in "iu")
    for node in graph.nodes():
        if node.op != "cast" or node.dtype.kind not in "iu" or node.dtype is dtypes.int64:
            continue
        source = node.operands[0]
        if source.type.weak and source.dtype.kind == "i" and _is_host_number(source, places):
            name = source.attr("name") if source.op == "input" else "a number computed from the arguments"
            found[source, node.dtype] = RangeGuard(source, node.dtype, places, name)
    return tuple(found.values()), limits


def _is_host_number(node: Node, places: dict[Node, int]) -> bool:
    return all(n in places or n.op == "constant" or (is_elementwise(n.op) and n.type.weak) for n in topological([node]))


def evaluate(node: Node, places: dict[Node, int], scalars: Sequence[Any]) -> Any:
    """The number that a weak scalar expression stands for."""
    values: dict[Node, Any] = {}
    with np.errstate(all="ignore"):
        for n in topological([node]):
            if n in places:
                values[n] = n.dtype.numpy.type(scalars[places[n]])
            elif n.op == "constant":
                values[n] = constant_value(n)
            elif n.op == "cast":
                values[n] = np.asarray(values[n.operands[0]]).astype(n.dtype.numpy)[()]
            else:
                values[n] = elementwise(n.op).reference(*(values[o] for o in n.operands))
    return values[node]
