"""Random graphs for differential tests: elementwise ops, views, reductions, products, loops, updates, writes."""

from __future__ import annotations

import random

import numpy as np

from gla import dtypes
from gla.ir.builder import apply, broadcast
from gla.ir.functions import reduce
from gla.ir.functions.control import loop, while_loop
from gla.ir.functions.index import getitem, setitem
from gla.ir.functions.linear import matmul
from gla.ir.functions.shape import concat, permute, reshape
from gla.ir.graph import Graph, new_input
from gla.ir.node import Node, make
from gla.ir.types import Type

F64 = dtypes.float64
SHAPES = ((4, 12), (12, 4), (12,), (4,), (12, 12), ())


class Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        count = self.random.randint(2, 4)
        self.inputs = [new_input(Type(F64, self.random.choice(SHAPES)), f"x{k}") for k in range(count)]
        self.pool: list[Node] = list(self.inputs)

    def pick(self, test=lambda n: True) -> Node | None:
        found = [n for n in self.pool if test(n)]
        # Recent values more often, so that graphs grow deep.
        return found[-1 - min(int(self.random.expovariate(0.3)), len(found) - 1)] if found else None

    def grow(self, steps: int) -> None:
        for _ in range(steps):
            make_one = self.random.choice(
                [
                    self.unary,
                    self.binary,
                    self.binary,
                    self.view,
                    self.reduction,
                    self.shift,
                    self.product,
                    self.update,
                    self.control,
                ]
            )
            node = make_one()
            if node is not None and node.type.size <= 4096:
                self.pool.append(node)

    def unary(self) -> Node | None:
        x = self.pick()
        name = self.random.choice(["sin", "tanh", "negative", "abs", "sqrt", "exp"])
        return apply(name, apply("abs", x)) if name == "sqrt" else apply(name, apply("sin", x))

    def binary(self) -> Node | None:
        x = self.pick()
        y = self.pick(lambda n: n.shape in (x.shape, (), x.shape[-1:]))
        return apply(self.random.choice(["add", "subtract", "multiply", "maximum"]), x, y if y is not None else 0.5)

    def view(self) -> Node | None:
        x = self.pick(lambda n: n.shape)
        if x is None:
            return None
        choice = self.random.randrange(5)
        if choice == 0:
            return permute(x, list(reversed(range(len(x.shape)))))
        if choice == 1:
            return reshape(x, (x.type.size,))
        if choice == 2:
            return getitem(x, (slice(None, None, -1),))
        if choice == 3:
            return reshape(x, (*x.shape, 1)) if len(x.shape) > 1 else broadcast(x, (4, *x.shape))
        half = getitem(x, (slice(0, x.shape[0] // 2),))
        return concat([half, getitem(x, (slice(x.shape[0] // 2, None),))], 0)

    def shift(self) -> Node | None:
        x = self.pick(lambda n: n.shape)
        if x is None:
            return None
        offsets = tuple(self.random.randint(-1, 1) for _ in x.shape)
        modes = tuple("periodic" for _ in x.shape)
        moved = make("shift", (x,), {"offsets": offsets, "modes": modes, "fill": b"\0" * 8}, x.type)
        return apply("add", x, moved)

    def reduction(self) -> Node | None:
        x = self.pick(lambda n: n.shape)
        if x is None:
            return None
        axis = self.random.choice([None, *range(len(x.shape))])
        kind = self.random.choice([reduce.sum, reduce.max, reduce.mean])
        if self.random.random() < 0.5 and axis is not None:
            return apply("subtract", x, kind(x, axis=axis, keepdims=True))
        return kind(x, axis=axis)

    def product(self) -> Node | None:
        x = self.pick(lambda n: len(n.shape) == 2)
        y = self.pick(lambda n: len(n.shape) == 2 and x is not None and n.shape[0] == x.shape[1])
        return matmul(x, y) if y is not None else None

    def update(self) -> Node | None:
        x = self.pick(lambda n: n.shape and n.shape[0] > 2)
        if x is None:
            return None
        return setitem(x, slice(1, -1), apply("multiply", getitem(x, slice(0, -2)), 0.5))

    def control(self) -> Node | None:
        if self.random.random() < 0.6:
            return None
        x, y = self.pick(), self.pick()
        if self.random.random() < 0.5:
            every = self.random.choice([1, 2, 3])

            def body(k: Node, carries: list[Node]) -> tuple[list[Node], list[Node]]:
                a, b = carries
                turned = apply("sin", apply("add", a, k))
                if a.shape and self.random.random() < 0.5:
                    turned = apply("subtract", turned, reduce.mean(b))
                return [turned if turned.shape == a.shape else a, apply("tanh", b)], [reduce.sum(turned), b]

            state = self.random.getstate()

            def same(k: Node, carries: list[Node]) -> tuple[list[Node], list[Node]]:
                self.random.setstate(state)
                return body(k, carries)

            carried, kept = loop(self.random.choice([0, 1, 4, 5]), [x, y], same, [every, 1])
            self.pool += [carried[1], kept[0]] if kept[0].shape[0] else [carried[1]]
            return carried[0]

        def test(carries: list[Node]) -> Node:
            return apply("less", reduce.sum(apply("abs", carries[0])), 20.0)

        values, trips, _ = while_loop(test, lambda c: [apply("add", apply("abs", c[0]), apply("cos", c[0]))], [x], 6)
        self.pool.append(apply("add", apply("multiply", 0.0, trips), trips))
        return values[0]

    def graph(self) -> Graph:
        results = tuple(self.pick() for _ in range(self.random.randint(1, 4)))
        writes = []
        for array in self.inputs:
            if self.random.random() < 0.4:
                choice = self.random.random()
                value = self.pick(lambda n, a=array: n.shape == a.shape and n.dtype is a.dtype)
                if choice < 0.3 and array.shape:
                    part = getitem(array, slice(1, None))
                    value = setitem(array, slice(1, None), apply("add", part, 1.0))
                elif choice < 0.5 and array.shape:
                    value = setitem(array, slice(1, None), getitem(array, slice(0, -1)))
                elif choice < 0.6:
                    value = apply("multiply", array, 2.0)
                writes.append((array, value))
        return Graph(tuple(self.inputs), results, tuple(writes))

    def arguments(self) -> list[np.ndarray]:
        rng = np.random.default_rng(self.random.randrange(1 << 30))
        return [rng.normal(size=i.shape) for i in self.inputs]


def random_graph(seed: int, steps: int) -> tuple[Graph, list[np.ndarray]]:
    maker = Maker(seed)
    maker.grow(steps)
    return maker.graph(), maker.arguments()
