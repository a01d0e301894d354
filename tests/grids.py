"""Random loops over grids whose cells read cells at constant offsets, made of operations that IEEE arithmetic fixes.

NumPy's interpreter (ir/reference) gives the exact bits that every lowering of such a loop must give.
"""

from __future__ import annotations

import random

import numpy as np

from gla import dtypes
from gla.ir.builder import apply
from gla.ir.functions import control, index, shape
from gla.ir.graph import Graph, new_input
from gla.ir.node import Node
from gla.ir.types import Type

MODES = ("periodic", "edge", "reflect", "symmetric", "constant")
SHAPES = ((33, 100), (100, 33), (31, 31), (17, 257), (130, 20), (9, 64), (12, 5), (100,), (257,), (31,))
TIGHT = ((1, 40), (2, 33), (3, 3), (3, 100), (33, 1), (40, 2), (2, 2), (1, 9), (1,), (2,), (3,), (9,))


class Grid:
    """A random loop. `graph` takes the fields, then a captured array; `arguments` gives values for it."""

    def __init__(self, seed: int, shapes: tuple[tuple[int, ...], ...] = SHAPES, kinds: tuple[str, ...] = MODES) -> None:
        self.random = random.Random(seed)
        self.shape = self.random.choice(shapes)
        self.kinds = kinds
        self.dtype = self.random.choice((dtypes.float32, dtypes.float64, dtypes.float32, dtypes.int32))
        self.trips = self.random.choice((2, 3, 5, 8, 13, 21, 27))
        self.fields = [new_input(Type(self.dtype, self.shape), f"u{k}") for k in range(self.random.choice((1, 1, 2, 3)))]
        self.still = new_input(Type(self.dtype, self.shape), "c")
        self.modes = [[self.random.choice(kinds) for _ in self.shape] for _ in self.fields]
        results, _ = control.loop(self.trips, self.fields, self._body)
        self.graph = Graph((*self.fields, self.still), tuple(results))

    def arguments(self, seed: int = 0) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        if self.dtype.kind == "i":
            return [rng.integers(-50, 50, self.shape).astype(np.int32) for _ in self.graph.inputs]
        return [rng.uniform(-1, 1, self.shape).astype(self.dtype.numpy) for _ in self.graph.inputs]

    def _number(self) -> float | int:
        return self.random.randint(-3, 3) if self.dtype.kind == "i" else self.random.choice((0.5, 0.25, -0.125, 0.3, 0.1))

    def _body(self, k: Node, carries: list[Node]) -> tuple[list[Node], list[Node]]:
        values = list(carries)
        for _ in range(self.random.randint(2, 5)):
            values.append(self._grow(k, carries, values))
        return [self._tame(apply("add", values[-1], carry)) for carry in carries], []

    def _tame(self, x: Node) -> Node:
        if self.dtype.kind == "i":
            return apply("bitwise_and", x, 1023)
        return apply("minimum", apply("maximum", x, -2.0), 2.0)

    def _grow(self, k: Node, carries: list[Node], values: list[Node]) -> Node:
        choice = self.random.randrange(8)
        a, b = self.random.choice(values), self.random.choice(values)
        if choice < 4:
            which = self.random.randrange(len(carries))
            return apply("subtract", self._shifted(carries[which], self.modes[which]), apply("multiply", a, self._number()))
        if choice == 4:
            return apply("multiply", a, self._shifted(self.still, [self.random.choice(self.kinds) for _ in self.shape]))
        if choice == 5 and self.dtype.kind == "f":
            return apply("add", a, apply("multiply", k, 0.01))
        if choice == 6 and min(self.shape) > 2:
            return self._part(a, b)
        return apply("where", apply("less", a, b), self._shifted(a, self.modes[0]), b)

    def _shifted(self, x: Node, modes: list[str]) -> Node:
        offsets = [self.random.randint(-1, 1) * (2 if self.random.random() < 0.2 else 1) for _ in self.shape]
        offsets = [o if abs(o) < n else 0 for o, n in zip(offsets, self.shape)]
        return shape.shift(x, offsets, modes, self._number())

    def _part(self, a: Node, b: Node) -> Node:
        inner = tuple(slice(1, -1) for _ in self.shape)
        axis = self.random.randrange(len(self.shape))
        moved = tuple(slice(0, -2) if k == axis else slice(1, -1) for k in range(len(self.shape)))
        return index.setitem(a, inner, apply("add", index.getitem(b, moved), index.getitem(a, inner)))
