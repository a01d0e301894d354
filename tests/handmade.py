"""Kernels written by hand for tests: `Writer` builds the kernel form the way a person would write a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy as np

import gla.dtypes as dt
from gla.codegen.kernel import Compute, Constant, ForEach, If, Kernel, Load, Loop, Parameter, Reduce, Store, Value
from gla.dtypes import DType

COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}


class Writer:
    """Parameters and statements of one kernel. Methods of `Scalars` are reached by name: w.op("add", a, b)."""

    def __init__(self, name: str = "kernel", wide: bool = False) -> None:
        self.name, self.wide = name, wide
        self.index = dt.int64 if wide else dt.int32
        self._ids = count()
        self.parameters: list[Parameter] = []
        self.body: list[Any] = []
        self.item = self.value(self.index)

    def value(self, dtype: DType) -> Value:
        return Value(next(self._ids), dtype)

    def pointer(self, dtype: DType, writable: bool = False) -> int:
        self.parameters.append(Parameter(f"p{len(self.parameters)}", "pointer", dtype, None, writable))
        return len(self.parameters) - 1

    def scalar(self, dtype: DType, kind: str = "scalar") -> Value:
        value = self.value(dtype)
        self.parameters.append(Parameter(f"s{len(self.parameters)}", kind, dtype, value))
        return value

    def extent(self) -> Value:
        return self.scalar(self.index, "extent")

    def const(self, number: Any, dtype: DType) -> Value:
        result = self.value(dtype)
        self.body.append(Constant(result, number))
        return result

    def op(self, op: str, *args: Value, dtype: DType | None = None, name: str = "") -> Value:
        if dtype is None:
            dtype = dt.bool_ if op in COMPARISONS else args[-1].dtype
        result = self.value(dtype)
        self.body.append(Compute(result, op, args, name))
        return result

    def load(self, pointer: int, index: Value) -> Value:
        result = self.value(self.parameters[pointer].dtype)
        self.body.append(Load(result, pointer, index))
        return result

    def store(self, pointer: int, index: Value, value: Value) -> None:
        self.body.append(Store(pointer, index, value))

    @contextmanager
    def inside(self) -> Iterator[list[Any]]:
        """Statements written within go to the yielded list."""
        outer, self.body = self.body, []
        try:
            yield self.body
        finally:
            self.body = outer

    def when(self, condition: Value, write: Callable[[], None]) -> None:
        with self.inside() as body:
            write()
        self.body.append(If(condition, tuple(body)))

    def foreach(self, total: Value, write: Callable[[Value], None]) -> None:
        index = self.value(self.index)
        with self.inside() as body:
            write(index)
        self.body.append(ForEach(index, total, tuple(body)))

    def loop(
        self,
        total: Value,
        inits: list[Value],
        step: Callable[..., list[Value]],
        until: Callable[..., Value] | None = None,
        dtype: DType = dt.int64,
    ) -> list[Value]:
        """`step(counter, *carries)` gives the next carries; `until(*carries)` whether to go on."""
        counter = self.value(dtype)
        carried, results = ([self.value(v.dtype) for v in inits] for _ in range(2))
        guard: list[Any] = []
        go_on = None
        if until is not None:
            with self.inside() as guard:
                go_on = until(*carried)
        with self.inside() as body:
            after = step(counter, *carried)
        self.body.append(
            Loop(counter, total, tuple(carried), tuple(inits), tuple(body), tuple(after), tuple(results), tuple(guard), go_on)
        )
        return results

    def reduce(
        self,
        total: Value,
        partials: int,
        element: Callable[[Value], list[Value]],
        identity: list[Value],
        combine: Callable[[list[Value], list[Value]], list[Value]],
    ) -> list[Value]:
        index = self.value(self.index)
        left, right, results = ([self.value(v.dtype) for v in identity] for _ in range(3))
        with self.inside() as body:
            elements = element(index)
        with self.inside() as joining:
            joined = combine(left, right)
        self.body.append(
            Reduce(
                tuple(results),
                total,
                partials,
                index,
                tuple(body),
                tuple(elements),
                tuple(identity),
                tuple(left),
                tuple(right),
                tuple(joining),
                tuple(joined),
            )
        )
        return results

    def kernel(self, items: Value, team: int = 1, across: bool = False) -> Kernel:
        return Kernel(self.name, tuple(self.parameters), self.item, items, tuple(self.body), self.wide, team, across)


def multiply_add(name: str = "multiply_add", wide: bool = False) -> Kernel:
    """o[i] = a[i] * b[i] + s, float32. Parameters: a, b, o, s, n."""
    w = Writer(name, wide)
    a, b, o = w.pointer(dt.float32), w.pointer(dt.float32), w.pointer(dt.float32, True)
    s, n = w.scalar(dt.float32), w.extent()
    w.store(o, w.item, w.op("add", w.op("mul", w.load(a, w.item), w.load(b, w.item)), s))
    return w.kernel(n)


def increment(name: str = "increment") -> Kernel:
    """x[i] += s in place, int64. Parameters: x, s, n."""
    w = Writer(name)
    x, s, n = w.pointer(dt.int64, True), w.scalar(dt.int64), w.extent()
    w.store(x, w.item, w.op("add", w.load(x, w.item), s))
    return w.kernel(n)


def row_sums(partials: int, dtype: DType = dt.float32, across: bool = False, team: int = 1) -> Kernel:
    """o[i] = sum of a row (or, across, a column) of x. Parameters: x, o, items, count."""
    w = Writer(f"sums_{partials}_{dtype.short}_{int(across)}")
    x, o, items, total = w.pointer(dtype), w.pointer(dtype, True), w.extent(), w.extent()
    zero = w.const(-0.0 if dtype.kind == "f" else 0, dtype)
    row = w.op("mul", w.item, total)

    def element(k: Value) -> list[Value]:
        where = w.op("add", w.op("mul", k, items), w.item) if across else w.op("add", row, k)
        return [w.load(x, where)]

    (result,) = w.reduce(total, partials, element, [zero], lambda a, b: [w.op("add", a[0], b[0])])
    w.store(o, w.item, result)
    return w.kernel(items, team, across)


def argmax(partials: int) -> Kernel:
    """o[i] = index of the first greatest element of row i of x, float64. Parameters: x, o, items, count."""
    w = Writer(f"argmax_{partials}")
    x, o, items, total = w.pointer(dt.float64), w.pointer(dt.int64, True), w.extent(), w.extent()
    row = w.op("mul", w.item, total)
    start = [w.const(-np.inf, dt.float64), w.const(2**62, dt.int64)]

    def combine(a: list[Value], b: list[Value]) -> list[Value]:
        better = w.op("gt", b[0], a[0])
        tie = w.op("band", w.op("eq", b[0], a[0]), w.op("lt", b[1], a[1]))
        take = w.op("bor", better, tie)
        return [w.op("select", take, b[0], a[0]), w.op("select", take, b[1], a[1])]

    found = w.reduce(
        total, partials, lambda k: [w.load(x, w.op("add", row, k)), w.op("convert", k, dtype=dt.int64)], start, combine
    )
    w.store(o, w.item, found[1])
    return w.kernel(items)


def powers() -> Kernel:
    """o[i] = x[i] multiplied `times` times by 1.5, float64. Parameters: x, o, items, times (int64)."""
    w = Writer("powers")
    x, o, items, times = w.pointer(dt.float64), w.pointer(dt.float64, True), w.extent(), w.scalar(dt.int64)
    factor = w.const(1.5, dt.float64)
    (result,) = w.loop(times, [w.load(x, w.item)], lambda _, v: [w.op("mul", v, factor)])
    w.store(o, w.item, result)
    return w.kernel(items)


def collatz() -> Kernel:
    """o[i] = steps until x[i] is 1, at most `limit`, int64. Parameters: x, o, items, limit (int64)."""
    w = Writer("collatz")
    x, o, items, limit = w.pointer(dt.int64), w.pointer(dt.int64, True), w.extent(), w.scalar(dt.int64)
    one, two, three = (w.const(v, dt.int64) for v in (1, 2, 3))

    def step(_: Value, v: Value, n: Value) -> list[Value]:
        odd = w.op("ne", w.op("band", v, one), w.const(0, dt.int64))
        return [w.op("select", odd, w.op("add", w.op("mul", v, three), one), w.op("idiv", v, two)), w.op("add", n, one)]

    _, n = w.loop(limit, [w.load(x, w.item), w.const(0, dt.int64)], step, until=lambda v, n: w.op("ne", v, one))
    w.store(o, w.item, n)
    return w.kernel(items)


def outer_sum() -> Kernel:
    """o[i, k] = a[i] + b[k] by a ForEach over k, float32. Parameters: a, b, o, items, count."""
    w = Writer("outer_sum")
    a, b, o = w.pointer(dt.float32), w.pointer(dt.float32), w.pointer(dt.float32, True)
    items, total = w.extent(), w.extent()
    left, row = w.load(a, w.item), w.op("mul", w.item, total)
    w.foreach(total, lambda k: w.store(o, w.op("add", row, k), w.op("add", left, w.load(b, k))))
    return w.kernel(items)


def transposed() -> Kernel:
    """o[j, i] = x[i, j], int32, items numbered row by row over o. Parameters: x, o, items, rows, columns (of o)."""
    w = Writer("transposed")
    x, o = w.pointer(dt.int32), w.pointer(dt.int32, True)
    items, rows, columns = w.extent(), w.extent(), w.extent()
    row, column = w.op("idiv", w.item, columns), w.op("irem", w.item, columns)
    w.store(o, w.item, w.load(x, w.op("add", w.op("mul", column, rows), row)))
    return w.kernel(items)


def sum_in_order(x: np.ndarray, partials: int) -> Any:
    """The documented order of a Reduce over one row, number by number, in NumPy scalars of x's dtype."""
    acc = [x.dtype.type(-0.0 if x.dtype.kind == "f" else 0)] * partials
    for k, element in enumerate(x):
        acc[k % partials] = acc[k % partials] + element
    half = partials // 2
    while half:
        for p in range(half):
            acc[p] = acc[p] + acc[p + half]
        half //= 2
    return acc[0]
