"""A kernel's functions as LLVM functions: on scalars, put in place where they are applied, and on short vectors, called.

A call costs a few cycles and saves LLVM a copy of the body at every place. Wider operands go in chunks: the processor runs
the calls of neighbouring chunks side by side. Work for rare values is behind a branch in the function.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Self

from gla.codegen.kernel import Function, Kernel, Statement, Value
from gla.codegen.llvm_reduce import Reductions
from gla.codegen.llvm_text import TYPES, Operand
from gla.dtypes import DType, int32

CHUNK = 16  # lanes of one call


class Applications(Reductions):
    """What `llvm_control.Statements` inherits for applications. `printed`: (name, lanes) -> the function's text."""

    printed: dict[tuple[str, int], str]
    kernel: Kernel
    _uses: Counter[int]

    if TYPE_CHECKING:

        def statements(self, body: tuple[Statement, ...]) -> None: ...
        def use(self, value: Value) -> Operand: ...
        def inside(self, kernel: Kernel, lanes: int) -> Self: ...

    def apply(self, name: str, args: tuple[Operand, ...], dtype: DType) -> Operand:
        """The function `name` of the kernel on scalars, or on all lanes."""
        function = next(f for f in self.kernel.functions if f.name == name)
        if not any(a.varying for a in args):
            return Operand(self._call_function(function, 1, [a.text for a in args]), dtype)
        args = tuple(self.splat(a) for a in args)
        chunk = min(self.lanes, CHUNK)
        if chunk == self.lanes:
            return Operand(self._call_function(function, chunk, [a.text for a in args]), dtype, True)
        parts = []
        for first in range(0, self.lanes, chunk):
            pieces = [self._lanes(self.type_of(a), [a.text], range(first, first + chunk)) for a in args]
            parts.append(self._call_function(function, chunk, pieces))
        while len(parts) > 1:
            width = self.lanes // len(parts)
            kind = f"<{width} x {TYPES[dtype.name]}>"
            parts = [self._lanes(kind, parts[k : k + 2], range(2 * width)) for k in range(0, len(parts), 2)]
        return Operand(parts[0], dtype, True)

    def _lanes(self, kind: str, texts: list[str], picks: range) -> str:
        """Lanes of one or two vectors of type `kind`."""
        second = texts[1] if len(texts) > 1 else "poison"
        mask = ", ".join(f"i32 {pick}" for pick in picks)
        return self.emit(f"shufflevector {kind} {texts[0]}, {kind} {second}, <{len(picks)} x i32> <{mask}>")

    def _call_function(self, function: Function, lanes: int, args: list[str]) -> str:
        key = function.name, lanes
        if key not in self.printed:
            self.printed[key] = self._function(function, lanes)
        kinds = [_kind(p.dtype, lanes) for p in function.parameters]
        given = ", ".join(f"{kind} {text}" for kind, text in zip(kinds, args))
        return self.emit(f"call {_kind(function.result.dtype, lanes)} {_symbol(function, lanes)}({given})")

    def _function(self, function: Function, lanes: int) -> str:
        index = Value(0, int32)
        inner = self.inside(Kernel(function.name, (), index, index, function.body), lanes)
        inner.lanes = lanes
        inner._uses[function.result.id] += 1
        names = [f"%a{k}" for k in range(len(function.parameters))]
        for value, text in zip(function.parameters, names):
            inner.env[value.id] = Operand(text, value.dtype, lanes > 1)
        inner.statements(function.body)
        result = inner.use(function.result)
        if lanes > 1:
            result = inner.splat(result)
        kinds = [_kind(p.dtype, lanes) for p in function.parameters]
        taken = ", ".join(f"{kind} {text}" for kind, text in zip(kinds, names))
        kind = _kind(function.result.dtype, lanes)
        how = "noinline" if lanes > 1 else "alwaysinline"
        self.declarations |= inner.declarations
        head = f"define internal {kind} {_symbol(function, lanes)}({taken}) {how} #0 {{"
        return "\n".join([head, "entry:", *inner.lines, f"  ret {kind} {result.text}", "}"])


def _kind(dtype: DType, lanes: int) -> str:
    return f"<{lanes} x {TYPES[dtype.name]}>" if lanes > 1 else TYPES[dtype.name]


def _symbol(function: Function, lanes: int) -> str:
    return f'@"{function.name}.{lanes}"'
