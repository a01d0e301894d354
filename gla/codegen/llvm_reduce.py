"""`Reduce` as LLVM text, three ways, all in the order that the kernel form fixes.

Few elements: one accumulator, in order. One item at a time: its partials lie in vectors. Lanes of items, or elements that
need control flow: an array of partials in the function's frame, each a vector of items or a scalar.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gla.codegen.kernel import Compute, Constant, Load, Reduce, Statement, Value
from gla.codegen.llvm_scalars import Scalars
from gla.codegen.llvm_text import TYPES, Operand, memory_type
from gla.dtypes import DType, bool_


@dataclass(frozen=True, slots=True)
class Array:
    """An array of accumulators: its name, the values' dtype, the type of an element in memory, whether that has lanes."""

    name: str
    dtype: DType
    kind: str
    varying: bool


def straight(body: tuple[Statement, ...]) -> bool:
    """Whether the statements are computations and loads only."""
    return all(isinstance(s, (Constant, Compute, Load)) for s in body)


class Reductions(Scalars):
    """What `llvm_control.Statements` inherits for reductions; `statements`, `use` and `_bind_counter` are defined there."""

    env: dict[int, Operand]
    counting: set[int]
    mask: str | None
    wide_lanes: int

    if TYPE_CHECKING:

        def statements(self, body: tuple[Statement, ...]) -> None: ...
        def use(self, value: Value) -> Operand: ...
        def _bind_counter(self, value: Value, text: str) -> None: ...
        def _shared(self, count: Value, counter: Value) -> str: ...

    def reduce(self, s: Reduce) -> None:
        count = self._shared(s.count, s.index)
        if s.partials == 1:
            self._reduce_in_order(s, count)
        elif self.wide_lanes == 1 and straight(s.body):
            self._reduce_in_vectors(s, count)
        else:
            self._reduce_in_partials(s, count)

    def _combine(self, s: Reduce, left: list[Operand], right: list[Operand]) -> list[Operand]:
        for values, operands in ((s.left, left), (s.right, right)):
            for value, operand in zip(values, operands):
                self.env[value.id] = operand
        self.statements(s.combine)
        return [self._whole(self.use(v)) for v in s.joined]

    def _whole(self, operand: Operand) -> Operand:
        return self.splat(operand) if self.lanes > 1 else operand

    def _reduce_in_order(self, s: Reduce, count: str) -> None:
        start = [self._whole(self.use(v)) for v in s.identity]
        with self.counted(count, TYPES[s.index.dtype.name], stem="reduce", carries=len(start)) as loop:
            sums = [Operand(self.fresh(), o.dtype, o.varying) for o in start]
            self._bind_counter(s.index, loop.counter)
            self.statements(s.body)
            joined = self._combine(s, sums, [self._whole(self.use(v)) for v in s.element])
            for line, own, init, new in zip(loop.phis, sums, start, joined):
                self.phi(line, own, loop.before, init, new)
        for result, own in zip(s.results, sums):
            self.env[result.id] = own

    def _reduce_in_vectors(self, s: Reduce, count: str) -> None:
        """One item's partials as vectors of 32, for elements that need no control flow. The ragged end runs under a mask."""
        kind, group = TYPES[s.index.dtype.name], min(s.partials, 32)
        length = s.partials // group
        start = [self.use(v) for v in s.identity]
        self.lanes = group
        start = [self.splat(o) for o in start]
        sums = tuple(self._array(o, length) for o in start)
        with self._each_vector(kind, length) as at:
            self._put(sums, kind, at, start)
        full = self.emit(f"udiv {kind} {count}, {s.partials}")
        with self.counted(full, kind, stem="round") as loop:
            base = self.emit(f"mul nsw {kind} {loop.counter}, {s.partials}")
            with self._each_vector(kind, length) as at:
                self._vector_of_elements(s, sums, base, at)
        base = self.emit(f"mul nsw {kind} {full}, {s.partials}")
        rest = self.emit(f"sub nsw {kind} {count}, {base}")
        vectors = self.emit(f"udiv {kind} {self.emit(f'add nsw {kind} {rest}, {group - 1}')}, {group}")
        with self.counted(vectors, kind, stem="ragged") as loop:
            self._vector_of_elements(s, sums, base, loop.counter, count)
        if length > 1:
            self._tree(s, sums, length)
        joined = self._get(sums, kind, "0")
        half = group // 2
        while half:
            joined = self._combine(s, joined, [self._lowered(o, half) for o in joined])
            half //= 2
        self.lanes = 1
        for result, own in zip(s.results, joined):
            text = self.emit(f"extractelement <{group} x {TYPES[own.dtype.name]}> {own.text}, i64 0")
            self.env[result.id] = Operand(text, own.dtype)

    @contextmanager
    def _each_vector(self, kind: str, length: int) -> Iterator[str]:
        if length == 1:
            yield "0"
            return
        with self.counted(str(length), kind, stem="vector") as loop:
            yield loop.counter

    def _vector_of_elements(self, s: Reduce, sums: tuple[Array, ...], base: str, at: str, count: str | None = None) -> None:
        """acc[at] = combine(acc[at], elements base + lanes * at ...), those below `count` only where that is given."""
        kind, outer = TYPES[s.index.dtype.name], self.mask
        offset = self.emit(f"mul nsw {kind} {at}, {self.lanes}")
        index = self.consecutive(self.emit(f"add nsw {kind} {base}, {offset}"), s.index.dtype)
        self.env[s.index.id] = index
        self.counting.add(s.index.id)
        left = self._get(sums, kind, at)
        if count is not None:
            vector = self.vector(kind)
            self.mask = self.emit(f"icmp slt {vector} {index.text}, {self.splat_text(count, kind)}")
        self.statements(s.body)
        joined = self._combine(s, left, [self._whole(self.use(v)) for v in s.element])
        if self.mask is not None and count is not None:
            bits = self.vector("i1")
            joined = [
                Operand(
                    self.emit(f"select {bits} {self.mask}, {self.type_of(new)} {new.text}, {self.type_of(new)} {old.text}"),
                    new.dtype,
                    True,
                )
                for new, old in zip(joined, left)
            ]
        self.mask = outer
        self._put(sums, kind, at, joined)

    def _lowered(self, operand: Operand, by: int) -> Operand:
        """Lane i gets what stood in lane i + by; the upper lanes are of no use afterwards."""
        kind = self.type_of(operand)
        picks = ", ".join(f"i32 {(lane + by) % self.lanes}" for lane in range(self.lanes))
        return Operand(
            self.emit(f"shufflevector {kind} {operand.text}, {kind} poison, <{self.lanes} x i32> <{picks}>"),
            operand.dtype,
            True,
        )

    def _reduce_in_partials(self, s: Reduce, count: str) -> None:
        """An array of partials, each a scalar or a vector of items: full rounds, the ragged last round, the tree."""
        kind = TYPES[s.index.dtype.name]
        start = [self._whole(self.use(v)) for v in s.identity]
        sums = tuple(self._array(o, s.partials) for o in start)
        with self.counted(str(s.partials), kind, stem="fill") as loop:
            self._put(sums, kind, loop.counter, start)
        full = self.emit(f"udiv {kind} {count}, {s.partials}")
        with self.counted(full, kind, stem="round") as loop:
            self._round(s, sums, self.emit(f"mul nsw {kind} {loop.counter}, {s.partials}"), str(s.partials))
        base = self.emit(f"mul nsw {kind} {full}, {s.partials}")
        self._round(s, sums, base, self.emit(f"sub nsw {kind} {count}, {base}"))
        self._tree(s, sums, s.partials)
        for result, own in zip(s.results, self._get(sums, kind, "0")):
            self.env[result.id] = own

    def _round(self, s: Reduce, arrays: tuple[Array, ...], base: str, stop: str) -> None:
        """for p < stop: acc[p] = combine(acc[p], element(base + p))."""
        kind = TYPES[s.index.dtype.name]
        with self.counted(stop, kind, stem="partial") as loop:
            self._bind_counter(s.index, self.emit(f"add nsw {kind} {base}, {loop.counter}"))
            self.statements(s.body)
            element = [self._whole(self.use(v)) for v in s.element]
            joined = self._combine(s, self._get(arrays, kind, loop.counter), element)
            self._put(arrays, kind, loop.counter, joined)

    def _tree(self, s: Reduce, arrays: tuple[Array, ...], length: int) -> None:
        """for half = length/2, ..., 1: for p < half: acc[p] = combine(acc[p], acc[p + half])."""
        kind = TYPES[s.index.dtype.name]
        with self.counted(str(length.bit_length() - 1), kind, stem="tree") as level:
            half = self.emit(f"lshr {kind} {length // 2}, {level.counter}")
            with self.counted(half, kind, stem="half") as p:
                other = self.emit(f"add nsw {kind} {p.counter}, {half}")
                left = self._get(arrays, kind, p.counter)
                joined = self._combine(s, left, self._get(arrays, kind, other))
                self._put(arrays, kind, p.counter, joined)

    def _array(self, like: Operand, length: int) -> Array:
        """An array in the function's frame, for values like `like`. A bool is stored as a byte."""
        kind = memory_type(like.dtype)
        array = Array(self.fresh(), like.dtype, self.vector(kind) if like.varying else kind, like.varying)
        self.allocas.append(f"  {array.name} = alloca [{length} x {array.kind}], align 64")
        return array

    def _put(self, arrays: tuple[Array, ...], kind: str, at: str, values: list[Operand]) -> None:
        for array, value in zip(arrays, values):
            text = value.text
            if array.dtype is bool_:
                text = self.emit(f"zext {self.type_of(value)} {text} to {array.kind}")
            address = self.emit(f"getelementptr inbounds {array.kind}, ptr {array.name}, {kind} {at}")
            self.do(f"store {array.kind} {text}, ptr {address}, align {array.dtype.itemsize}")

    def _get(self, arrays: tuple[Array, ...], kind: str, at: str) -> list[Operand]:
        found = []
        for array in arrays:
            address = self.emit(f"getelementptr inbounds {array.kind}, ptr {array.name}, {kind} {at}")
            text = self.emit(f"load {array.kind}, ptr {address}, align {array.dtype.itemsize}")
            if array.dtype is bool_:
                text = self.emit(f"icmp ne {array.kind} {text}, {'zeroinitializer' if array.varying else '0'}")
            found.append(Operand(text, array.dtype, array.varying))
        return found
