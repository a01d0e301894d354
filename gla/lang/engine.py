"""Where a program's nodes get their values: a device, or nowhere (`gla check`, `gla ir`).

A settled node is known by a leaf: an input node that stands for memory on the device. Later graphs read the leaf and do
not compute the node again. Leaves and what they hold live as long as somebody has the node.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gla import dtypes
from gla.config import Options
from gla.ir.builder import constant_value, is_constant
from gla.ir.graph import Graph, new_input, substitute
from gla.ir.node import Node
from gla.ir.types import Type
from gla.lang.lower.fold import fold


class Engine(Protocol):
    """`dry`: nothing is computed; `fetch` then gives None for what is not known when planned."""

    dry: bool

    def settle(self, nodes: Sequence[Node]) -> list[Node]:
        """The nodes as leaves, computed in one launch."""

    def fetch(self, nodes: Sequence[Node], also: Sequence[Node] = ()) -> list[Any]:
        """Their values on the host; `also` are settled in the same launch."""

    def scalar(self, value: Any, type: Type, name: str = "") -> Node:
        """A runtime scalar: a leaf that is passed by value."""

    def array(self, values: np.ndarray, name: str = "") -> Node:
        """A leaf with these contents."""

    def load(self, path: str, key: str | None, skip: int, file: str) -> Node:
        """The array in a file, its path relative to the program's folder."""


def read_file(path: str, key: str | None, skip: int, file: str) -> np.ndarray:
    """An array from an npy, npz or csv file; a relative path is looked for beside the program `file`, then here."""
    from gla.lang.io import read_array

    beside = Path(file).parent / path
    return np.asarray(read_array(beside if beside.exists() else Path(path), key=key, skip=skip))


class DryEngine:
    """Computes nothing. `graphs` gathers what a device would have been asked for."""

    dry = True

    def __init__(self) -> None:
        self.graphs: list[Graph] = []

    def settle(self, nodes: Sequence[Node]) -> list[Node]:
        self._note(nodes)
        return list(nodes)

    def fetch(self, nodes: Sequence[Node], also: Sequence[Node] = ()) -> list[Any]:
        self._note(nodes)
        return [constant_value(n) if is_constant(n) else None for n in map(fold, nodes)]

    def scalar(self, value: Any, type: Type, name: str = "") -> Node:
        return new_input(type, name, scalar=True)

    def array(self, values: np.ndarray, name: str = "") -> Node:
        return new_input(Type(dtypes.as_dtype(values.dtype), values.shape), name)

    def load(self, path: str, key: str | None, skip: int, file: str) -> Node:
        return self.array(read_file(path, key, skip, file), path)

    def _note(self, nodes: Sequence[Node]) -> None:
        roots = [n for n in dict.fromkeys(nodes) if n.op not in ("input", "constant")]
        if roots:
            graph = Graph((), tuple(roots))
            self.graphs.append(Graph(tuple(n for n in graph.nodes() if n.op == "input"), tuple(roots)))


class DeviceEngine:
    """Computes on a machine of gla/runtime, through the compiler."""

    dry = False

    def __init__(self, machine: Any, options: Options | None = None) -> None:
        self.machine = machine
        self.options = options
        self._held: weakref.WeakKeyDictionary[Node, Any] = weakref.WeakKeyDictionary()
        self._leaf: weakref.WeakKeyDictionary[Node, Node] = weakref.WeakKeyDictionary()
        self.launches = 0

    # --- leaves
    def scalar(self, value: Any, type: Type, name: str = "") -> Node:
        leaf = new_input(type, name, scalar=True)
        self._held[leaf] = value
        return leaf

    def array(self, values: np.ndarray, name: str = "") -> Node:
        dtype = dtypes.as_dtype(values.dtype)
        return self.adopt(self.machine.upload(values), Type(dtype, values.shape), name)

    def adopt(self, storage: Any, type: Type, name: str = "") -> Node:
        """A leaf for memory that is already on the device."""
        leaf = new_input(type, name)
        self._held[leaf] = storage
        return leaf

    def load(self, path: str, key: str | None, skip: int, file: str) -> Node:
        return self.array(read_file(path, key, skip, file), path)

    def held(self, leaf: Node) -> Any:
        """The memory, or the number, of a leaf."""
        return self._held[leaf]

    def leaf_of(self, node: Node) -> Node:
        """The leaf that holds the node's value, or the node."""
        return self._leaf.get(node, node)

    # --- graphs
    def executable(self, graph: Graph) -> Any:
        from gla import compiler

        return compiler.executable(graph, self.machine, self.options)

    def close(self, roots: Sequence[Node], first: Sequence[Node] = ()) -> tuple[Graph, list[Node]]:
        """(graph, leaves): `roots` over the inputs `first`, then the leaves that they need, arrays before scalars."""
        found, stop = self._settled(roots, set(first))
        roots = substitute(tuple(roots), {n: leaf for n, leaf in stop.items() if n is not leaf})
        arrays = [leaf for leaf in found if not leaf.attr("scalar")]
        scalars = [leaf for leaf in found if leaf.attr("scalar")]
        plain = [n for n in first if not n.attr("scalar")]
        loose = [n for n in first if n.attr("scalar")]
        return Graph((*plain, *arrays, *loose, *scalars), tuple(roots)), [*arrays, *scalars]

    def _settled(self, roots: Sequence[Node], first: set[Node]) -> tuple[list[Node], dict[Node, Node]]:
        """(leaves below `roots`, node -> leaf for what is known), not looking behind what is known."""
        leaves: dict[Node, None] = {}
        known: dict[Node, Node] = {}
        seen: set[Node] = set()
        stack = list(reversed(roots))
        while stack:
            node = stack.pop()
            if node in seen or node in first:
                continue
            seen.add(node)
            leaf = self.leaf_of(node)
            if leaf is not node or node.op == "input":
                known[node] = leaf
                leaves[leaf] = None
                continue
            stack.extend(reversed(node.operands))
        return list(leaves), known

    def settle(self, nodes: Sequence[Node]) -> list[Node]:
        missing = [n for n in dict.fromkeys(nodes) if n.op not in ("input", "constant") and n not in self._leaf]
        if missing:
            graph, leaves = self.close(missing)
            held = [self._held[leaf] for leaf in leaves]
            arrays = [v for v, leaf in zip(held, leaves) if not leaf.attr("scalar")]
            scalars = [v for v, leaf in zip(held, leaves) if leaf.attr("scalar")]
            storages = self.executable(graph).run(arrays, scalars)
            self.launches += 1
            for node, storage in zip(missing, storages):
                self._leaf[node] = self.adopt(storage, node.type)
        return [self.leaf_of(n) for n in nodes]

    def fetch(self, nodes: Sequence[Node], also: Sequence[Node] = ()) -> list[Any]:
        nodes = [fold(n) for n in nodes]
        leaves = self.settle([*nodes, *also])[: len(nodes)]
        return [self.value(leaf) for leaf in leaves]

    def value(self, leaf: Node) -> np.ndarray:
        """What a leaf or a constant holds."""
        if is_constant(leaf):
            return np.asarray(constant_value(leaf))
        held = self._held[leaf]
        if leaf.attr("scalar"):
            return np.asarray(held, leaf.dtype.numpy)
        return self.machine.download(held, leaf.dtype.numpy, leaf.shape)
