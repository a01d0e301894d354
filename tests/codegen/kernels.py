"""Kernels built by hand, for the printers' tests: small, and between them every form that a kernel can take."""

from __future__ import annotations

from itertools import count
from typing import Any

from gla.codegen.kernel import Compute, Constant, ForEach, Kernel, Load, Loop, Parameter, Reduce, Store, Value
from gla.dtypes import DType, bool_, float32, float64, int32, int64, uint16, uint32


class Builder:
    """Writes statements in order; `body` takes out what was written since."""

    def __init__(self, wide: bool = False) -> None:
        self.ids = count()
        self.index = int64 if wide else int32
        self.parameters: list[Parameter] = []
        self.out: list[Any] = []
        self.item = self.value(self.index)

    def value(self, dtype: DType) -> Value:
        return Value(next(self.ids), dtype)

    def pointer(self, name: str, dtype: DType, writable: bool = False) -> int:
        self.parameters.append(Parameter(name, "pointer", dtype, None, writable))
        return len(self.parameters) - 1

    def scalar(self, name: str, dtype: DType, kind: str = "scalar") -> Value:
        value = self.value(dtype)
        self.parameters.append(Parameter(name, kind, dtype, value))
        return value

    def extent(self, name: str) -> Value:
        return self.scalar(name, self.index, "extent")

    def const(self, number: Any, dtype: DType) -> Value:
        result = self.value(dtype)
        self.out.append(Constant(result, number))
        return result

    def op(self, op: str, *args: Value, dtype: DType | None = None, name: str = "") -> Value:
        result = self.value(dtype or (bool_ if op in ("eq", "ne", "lt", "le", "gt", "ge") else args[-1].dtype))
        self.out.append(Compute(result, op, args, name))
        return result

    def load(self, pointer: int, index: Value) -> Value:
        result = self.value(self.parameters[pointer].dtype)
        self.out.append(Load(result, pointer, index))
        return result

    def store(self, pointer: int, index: Value, value: Value) -> None:
        self.out.append(Store(pointer, index, value))

    def body(self) -> tuple[Any, ...]:
        taken, self.out = tuple(self.out), []
        return taken

    def at(self, row: Value, columns: Value, column: Value) -> Value:
        return self.op("add", self.op("mul", row, columns), column)

    def reduce(
        self, results: list[Value], size: Value, partials: int, element: Any, identity: list[Value], combine: Any
    ) -> None:
        """`element(index)` and `combine(left, right)` give lists of values."""
        before = self.body()
        index = self.value(size.dtype)
        elements = element(index)
        body = self.body()
        left = tuple(self.value(v.dtype) for v in identity)
        right = tuple(self.value(v.dtype) for v in identity)
        joined = combine(left, right)
        inner = self.body()
        self.out = [*before]
        self.out.append(
            Reduce(
                tuple(results), size, partials, index, body, tuple(elements), tuple(identity), left, right, inner, tuple(joined)
            )
        )

    def sum(self, size: Value, partials: int, element: Any, dtype: DType) -> Value:
        identity = self.const(-0.0 if dtype.kind == "f" else 0, dtype)
        result = self.value(dtype)
        self.reduce([result], size, partials, lambda i: [element(i)], [identity], lambda a, b: [self.op("add", a[0], b[0])])
        return result

    def kernel(self, name: str, items: Value, **options: Any) -> Kernel:
        return Kernel(name, tuple(self.parameters), self.item, items, self.body(), **options)


def elementwise(dtype: DType) -> Kernel:
    """out[i] = x[i] + y[i]; for bool x xor y."""
    b = Builder()
    x, y, out = b.pointer("x", dtype), b.pointer("y", dtype), b.pointer("out", dtype, True)
    items = b.extent("n")
    b.store(out, b.item, b.op("bxor" if dtype is bool_ else "add", b.load(x, b.item), b.load(y, b.item)))
    return b.kernel(f"add_{dtype.short}", items, doc=("x + y",))


def half_bits() -> Kernel:
    """out[i] = bfloat16(2 * x[i]) by its bits: widened, doubled, the upper half rounded to nearest even."""
    b = Builder()
    x, out = b.pointer("x", uint16), b.pointer("out", uint16, True)
    items = b.extent("n")
    bits = b.op("shl", b.op("convert", b.load(x, b.item), dtype=uint32), b.const(16, uint32))
    twice = b.op("mul", b.op("bitcast", bits, dtype=float32), b.const(2.0, float32))
    raw = b.op("bitcast", twice, dtype=uint32)
    odd = b.op("band", b.op("shr", raw, b.const(16, uint32)), b.const(1, uint32))
    rounded = b.op("add", b.op("add", raw, b.const(0x7FFF, uint32)), odd)
    b.store(out, b.item, b.op("convert", b.op("shr", rounded, b.const(16, uint32)), dtype=uint16))
    return b.kernel("twice_bf16", items)


def looped() -> Kernel:
    """Per element: Fibonacci-like pair (a, b) = (b, a + b * s), `steps` times, ended early when a > limit."""
    b = Builder()
    x, out = b.pointer("x", float64), b.pointer("out", float64, True)
    s, steps, limit = b.scalar("s", float64), b.scalar("steps", int64), b.scalar("limit", float64)
    items = b.extent("n")
    first = b.load(x, b.item)
    second = b.const(0.1, float64)
    before = b.body()
    counter, p, q = b.value(int64), b.value(float64), b.value(float64)
    until = b.op("le", p, limit)
    guard = b.body()
    following = b.op("add", p, b.op("mul", q, s))
    body = b.body()
    results = (b.value(float64), b.value(float64))
    b.out = [*before, Loop(counter, steps, (p, q), (first, second), body, (q, following), results, guard, until)]
    b.store(out, b.item, results[0])
    return b.kernel("looped", items)


def row_sum(team: int, partials: int, across: bool = False, dtype: DType = float32) -> Kernel:
    """out[i] = sum over j of x[i, j], or of x[j, i] when across."""
    b = Builder()
    x, out = b.pointer("x", dtype), b.pointer("out", dtype, True)
    items, size = b.extent("rows"), b.extent("columns")

    def element(j: Value) -> Value:
        return b.load(x, b.at(j, items, b.item) if across else b.at(b.item, size, j))

    b.store(out, b.item, b.sum(size, partials, element, dtype))
    return b.kernel(f"sum_{'columns' if across else 'rows'}_{team}_{partials}", items, team=team, across=across)


def arg_max(team: int, partials: int, across: bool = False) -> Kernel:
    """Two results of different widths: the greatest value of a row and where it stands first."""
    b = Builder()
    x, out, where = b.pointer("x", float32), b.pointer("out", float32, True), b.pointer("where", int64, True)
    items, size = b.extent("rows"), b.extent("columns")
    identity = [b.const(float("-inf"), float32), b.const(2**63 - 1, int64)]
    results = [b.value(float32), b.value(int64)]

    def element(j: Value) -> list[Value]:
        index = b.at(j, items, b.item) if across else b.at(b.item, size, j)
        return [b.load(x, index), b.op("convert", j, dtype=int64)]

    def combine(left: tuple[Value, ...], right: tuple[Value, ...]) -> list[Value]:
        earlier = b.op("band", b.op("eq", left[0], right[0]), b.op("lt", left[1], right[1]))
        keep = b.op("bor", b.op("gt", left[0], right[0]), earlier)
        return [b.op("select", keep, a, c) for a, c in zip(left, right)]

    b.reduce(results, size, partials, element, identity, combine)
    b.store(out, b.item, results[0])
    b.store(where, b.item, results[1])
    return b.kernel(f"arg_max_{team}_{partials}{'_across' if across else ''}", items, team=team, across=across)


def softmax(team: int, partials: int, across: bool = False) -> Kernel:
    """out[i, :] = exp(x[i, :] - max) / sum of those; two reductions and a map by the team."""
    b = Builder()
    x, out = b.pointer("x", float32), b.pointer("out", float32, True)
    items, size = b.extent("rows"), b.extent("columns")

    def place(j: Value) -> Value:
        return b.at(j, items, b.item) if across else b.at(b.item, size, j)

    low = b.const(float("-inf"), float32)
    top = b.value(float32)
    b.reduce(
        [top],
        size,
        partials,
        lambda j: [b.load(x, place(j))],
        [low],
        lambda p, q: [b.op("select", b.op("gt", p[0], q[0]), p[0], q[0])],
    )
    total = b.sum(size, partials, lambda j: b.op("call", b.op("sub", b.load(x, place(j)), top), name="exp"), float32)
    before = b.body()
    j = b.value(int32)
    b.store(out, place(j), b.op("div", b.op("call", b.op("sub", b.load(x, place(j)), top), name="exp"), total))
    b.out = [*before, ForEach(j, size, b.body())]
    return b.kernel(f"softmax_{team}_{partials}{'_across' if across else ''}", items, team=team, across=across)


def write_then_read(team: int, across: bool = False) -> Kernel:
    """out[i, j] = 2 x[i, j], then total[i] = sum over j of out[i, size - 1 - j]: reads what other members wrote."""
    b = Builder()
    x, out, total = b.pointer("x", float32), b.pointer("out", float32, True), b.pointer("total", float32, True)
    items, size = b.extent("rows"), b.extent("columns")

    def place(j: Value) -> Value:
        return b.at(j, items, b.item) if across else b.at(b.item, size, j)

    last = b.op("sub", size, b.const(1, int32))
    before = b.body()
    j = b.value(int32)
    value = b.load(x, place(j))
    b.store(out, place(j), b.op("add", value, value))
    b.out = [*before, ForEach(j, size, b.body())]
    b.store(total, b.item, b.sum(size, 32, lambda k: b.load(out, place(b.op("sub", last, k))), float32))
    return b.kernel(f"write_then_read_{team}{'_across' if across else ''}", items, team=team, across=across)


def nested_sum(team: int) -> Kernel:
    """out[i] = sum over j of (sum over k of x[i, k] * x[j, k]): the inner sum is each thread's own."""
    b = Builder()
    x, out = b.pointer("x", float64), b.pointer("out", float64, True)
    items, size = b.extent("rows"), b.extent("columns")
    n = b.extent("others")

    def inner(j: Value) -> Value:
        return b.sum(size, 32, lambda k: b.op("mul", b.load(x, b.at(b.item, size, k)), b.load(x, b.at(j, size, k))), float64)

    b.store(out, b.item, b.sum(n, 32, inner, float64))
    return b.kernel(f"nested_sum_{team}", items, team=team)
