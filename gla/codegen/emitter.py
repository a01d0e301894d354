"""Appends kernel-form statements: `Emitter` is the `Scalars` that the op rows expand into during lowering.

Equal computations are one Value (value numbering), and each goes to the outermost scope where its arguments stand, so that
what does not change in a loop is computed before it. Only integers, bools and selections are folded: floats are left to
the arithmetic of the kernels.

An expansion that is asked for again and again (the sine in forty stages of an integration) becomes a function of the kernel,
written once and applied from then on: lowering, text and compiling shrink, bits do not change.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from gla.codegen.kernel import Compute, Constant, Function, Load, Statement, Store, Value
from gla.dtypes import DType, bool_, integer_range

INLINE = 4  # times that an expansion is written out before it becomes a function


class Scope:
    """A list of statements under way. kind: item, loop, reduce, foreach or plain. `memo`: what lowering keeps with it."""

    __slots__ = ("kind", "memo", "numbers", "statements")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.statements: list[Statement] = []
        self.numbers: dict[Hashable, Value] = {}
        self.memo: dict[Hashable, Any] = {}


class Emitter:
    """`scopes[0]` is the item's body; the last scope is the innermost. `functions`: those applied so far, by what they expand;
    `sharing`: whether the kernel may have some. `expected`: how often an expansion is at least known to come."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = [Scope("item")]
        self.sharing = False
        self.functions: dict[Hashable, Function] = {}
        self.expected: Counter[Hashable] = Counter()
        self._written: Counter[Hashable] = Counter()
        self._levels: list[int] = []
        self._constants: dict[Value, Any] = {}

    # --- values and scopes

    def value(self, dtype: DType, level: int) -> Value:
        """A fresh Value that stands in scope `level`."""
        self._levels.append(level)
        return Value(len(self._levels) - 1, dtype)

    def level(self, value: Value) -> int:
        return self._levels[value.id]

    @property
    def depth(self) -> int:
        return len(self.scopes) - 1

    @contextmanager
    def outer(self, level: int) -> Iterator[None]:
        """Emit into the scopes up to `level` meanwhile."""
        saved = self.scopes
        self.scopes = saved[: level + 1]
        try:
            yield
        finally:
            self.scopes = saved

    def push(self, kind: str) -> None:
        self.scopes.append(Scope(kind))

    def pop(self) -> tuple[Statement, ...]:
        return tuple(self.scopes.pop().statements)

    def append(self, statement: Statement) -> None:
        """For statements with effects or bodies: into the innermost scope."""
        self.scopes[-1].statements.append(statement)

    def constant(self, value: Value) -> Any:
        """The number behind a Value that is a literal, else None."""
        return self._constants.get(value)

    def _numbered(self, key: Hashable, args: tuple[Value, ...], dtype: DType) -> tuple[Value, Scope | None]:
        """The Value under `key`, and the scope where its statement is still to be put, or None if it stands there."""
        level, levels = 0, self._levels
        for a in args:
            level = max(level, levels[a.id])
        scope = self.scopes[level]
        found = scope.numbers.get(key)
        if found is not None:
            return found, None
        fresh = scope.numbers[key] = self.value(dtype, level)
        return fresh, scope

    def compute(self, op: str, args: tuple[Value, ...], dtype: DType, name: str = "") -> Value:
        key = (op, tuple([a.id for a in args]), dtype.name, name)
        result, scope = self._numbered(key, args, dtype)
        if scope is not None:
            scope.statements.append(Compute(result, op, args, name))
        return result

    def load(self, pointer: int, index: Value, dtype: DType) -> Value:
        result, scope = self._numbered(("load", pointer, index.id), (index,), dtype)
        if scope is not None:
            scope.statements.append(Load(result, pointer, index))
        return result

    def store(self, pointer: int, index: Value, value: Value) -> None:
        self.append(Store(pointer, index, value))

    def expansion(self, name: str, key: Hashable, expand: Callable[..., Any], args: tuple[Value, ...]) -> Any:
        """What `expand(scalars, *args)` gives: written out, or as an application where `key` has been written out often before."""
        function = self.functions.get(key)
        if function is None:
            self._written[key] += 1
            if not self.sharing or max(self.expected[key], self._written[key]) <= INLINE:
                return expand(self, *args)
            own = Emitter()
            parameters = tuple(own.value(a.dtype, 0) for a in args)
            result = expand(own, *parameters)
            if not isinstance(result, Value):
                return expand(self, *args)
            body: tuple[Any, ...] = tuple(own.scopes[0].statements)
            function = self.functions[key] = Function(f"{name}{len(self.functions)}", parameters, body, result)
        return self.compute("apply", args, function.result.dtype, function.name)

    # --- Scalars

    def dtype(self, x: Value) -> DType:
        return x.dtype

    def const(self, value: Any, dtype: DType) -> Value:
        if dtype is bool_:
            value = bool(value)
        else:
            value = float(value) if dtype.kind == "f" else _wrap(int(value), dtype)
        bits = struct.pack("<d", value) if dtype.kind == "f" else value
        result, scope = self._numbered(("const", bits, dtype.name), (), dtype)
        if scope is not None:
            scope.statements.append(Constant(result, value))
            self._constants[result] = value
        return result

    def _both(self, a: Value, b: Value) -> tuple[Any, Any]:
        return self._constants.get(a), self._constants.get(b)

    def add(self, a: Value, b: Value) -> Value:
        if a.dtype.kind in "iu":
            m, n = self._both(a, b)
            if m is not None and n is not None:
                return self.const(m + n, a.dtype)
            if m == 0 or n == 0:
                return b if m == 0 else a
        return self.compute("add", (a, b), a.dtype)

    def sub(self, a: Value, b: Value) -> Value:
        if a.dtype.kind in "iu":
            m, n = self._both(a, b)
            if m is not None and n is not None:
                return self.const(m - n, a.dtype)
            if n == 0:
                return a
        return self.compute("sub", (a, b), a.dtype)

    def mul(self, a: Value, b: Value) -> Value:
        if a.dtype.kind in "iu":
            m, n = self._both(a, b)
            if m is not None and n is not None:
                return self.const(m * n, a.dtype)
            if m == 1 or n == 1:
                return b if m == 1 else a
            if m == 0 or n == 0:
                return self.const(0, a.dtype)
        return self.compute("mul", (a, b), a.dtype)

    def div(self, a: Value, b: Value) -> Value:
        return self.compute("div", (a, b), a.dtype)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        return self.compute("fma", (a, b, c), a.dtype)

    def neg(self, a: Value) -> Value:
        return self.compute("neg", (a,), a.dtype)

    def abs(self, a: Value) -> Value:
        return self.compute("abs", (a,), a.dtype)

    def copysign(self, a: Value, b: Value) -> Value:
        return self.compute("copysign", (a, b), a.dtype)

    def sqrt(self, a: Value) -> Value:
        return self.compute("sqrt", (a,), a.dtype)

    def floor(self, a: Value) -> Value:
        return self.compute("floor", (a,), a.dtype)

    def ceil(self, a: Value) -> Value:
        return self.compute("ceil", (a,), a.dtype)

    def trunc(self, a: Value) -> Value:
        return self.compute("trunc", (a,), a.dtype)

    def rint(self, a: Value) -> Value:
        return self.compute("rint", (a,), a.dtype)

    def idiv(self, a: Value, b: Value) -> Value:
        return a if self._constants.get(b) == 1 else self.compute("idiv", (a, b), a.dtype)

    def irem(self, a: Value, b: Value) -> Value:
        return self.compute("irem", (a, b), a.dtype)

    def mulhi(self, a: Value, b: Value) -> Value:
        return self.compute("mulhi", (a, b), a.dtype)

    def shl(self, a: Value, b: Value) -> Value:
        return self.compute("shl", (a, b), a.dtype)

    def shr(self, a: Value, b: Value) -> Value:
        return self.compute("shr", (a, b), a.dtype)

    def band(self, a: Value, b: Value) -> Value:
        if a.dtype is bool_:
            for known, other in ((self._constants.get(a), b), (self._constants.get(b), a)):
                if known is not None:
                    return other if known else self.const(False, bool_)
        return a if a is b else self.compute("band", (a, b), a.dtype)

    def bor(self, a: Value, b: Value) -> Value:
        if a.dtype is bool_:
            for known, other in ((self._constants.get(a), b), (self._constants.get(b), a)):
                if known is not None:
                    return self.const(True, bool_) if known else other
        return a if a is b else self.compute("bor", (a, b), a.dtype)

    def bxor(self, a: Value, b: Value) -> Value:
        return self.compute("bxor", (a, b), a.dtype)

    def bnot(self, a: Value) -> Value:
        known = self._constants.get(a)
        return self.const(not known, bool_) if known is not None and a.dtype is bool_ else self.compute("bnot", (a,), a.dtype)

    def _compare(self, op: str, a: Value, b: Value) -> Value:
        if a.dtype.kind in "iu":
            m, n = self._both(a, b)
            if m is not None and n is not None:
                return self.const({"eq": m == n, "ne": m != n, "lt": m < n, "le": m <= n, "gt": m > n, "ge": m >= n}[op], bool_)
        return self.compute(op, (a, b), bool_)

    def eq(self, a: Value, b: Value) -> Value:
        return self._compare("eq", a, b)

    def ne(self, a: Value, b: Value) -> Value:
        return self._compare("ne", a, b)

    def lt(self, a: Value, b: Value) -> Value:
        return self._compare("lt", a, b)

    def le(self, a: Value, b: Value) -> Value:
        return self._compare("le", a, b)

    def gt(self, a: Value, b: Value) -> Value:
        return self._compare("gt", a, b)

    def ge(self, a: Value, b: Value) -> Value:
        return self._compare("ge", a, b)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        known = self._constants.get(condition)
        if known is not None:
            return a if known else b
        return a if a is b else self.compute("select", (condition, a, b), a.dtype)

    def convert(self, x: Value, dtype: DType) -> Value:
        if x.dtype is dtype:
            return x
        known = self._constants.get(x)
        if known is not None and x.dtype.kind in "iu" and dtype.kind in "iu":
            return self.const(known, dtype)
        return self.compute("convert", (x,), dtype)

    def bitcast(self, x: Value, dtype: DType) -> Value:
        return x if x.dtype is dtype else self.compute("bitcast", (x,), dtype)

    def call(self, name: str, *args: Value) -> Value:
        return self.compute("call", args, args[0].dtype, name)


def _wrap(value: int, dtype: DType) -> int:
    low, high = integer_range(dtype)
    return value if low <= value <= high else (value - low) % (1 << dtype.bits) + low
