"""Statements of the kernel form as LLVM basic blocks: constants, loads, stores, If, Loop, Reduce, ForEach.

In scalar text one item runs at a time and LLVM's vectoriser does the rest. In lane text (`lanes` > 1) every value that
depends on the item is a vector with one lane an item; branches on such values become masks. What lane text cannot hold
raises `NotInLanes`, and the caller prints scalar text instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gla.codegen.kernel import Compute, Constant, ForEach, If, Kernel, Load, Loop, Reduce, Statement, Store, Value
from gla.codegen.llvm_scalars import Scalars
from gla.codegen.llvm_text import SUFFIXES, TYPES, Operand, index_type, literal, memory_type
from gla.dtypes import DType, bool_


@dataclass(frozen=True, slots=True)
class Array:
    """An array of accumulators: its name, the values' dtype, the type of an element in memory, whether that has lanes."""

    name: str
    dtype: DType
    kind: str
    varying: bool


class NotInLanes(Exception):
    """The kernel needs control flow that differs between items in a way that masks do not express."""


def straight(body: tuple[Statement, ...]) -> bool:
    """Whether the statements are computations and loads only."""
    return all(isinstance(s, (Constant, Compute, Load)) for s in body)


class Statements(Scalars):
    """Prints statements; `env` says what each Value of the kernel is called at this point."""

    def __init__(self, kernel: Kernel, lanes: int = 1) -> None:
        super().__init__(lanes)
        self.kernel, self.wide_lanes = kernel, lanes
        self.env: dict[int, Operand] = {}
        self.mask: str | None = None
        self.groups: tuple[str, ...] = ()
        self.index, self.index_kind = index_type(kernel.wide)
        self.counting: set[int] = set()  # values made of counters by +, -, * in narrow index arithmetic
        self.steady: set[int] = set()  # extents and constants of index dtype
        self.known: dict[tuple[str, int], Operand] = {}  # what idiv and irem of the item by the split extent are

    def statements(self, body: tuple[Statement, ...]) -> None:
        for statement in body:
            PRINTERS[type(statement)](self, statement)

    def use(self, value: Value) -> Operand:
        return self.env[value.id]

    # --- straight-line statements
    def constant(self, s: Constant) -> None:
        self.env[s.result.id] = Operand(literal(s.value, s.result.dtype), s.result.dtype)
        if s.result.dtype is self.index:
            self.steady.add(s.result.id)

    def computation(self, s: Compute) -> None:
        if s.op in ("idiv", "irem") and s.args[0] is self.kernel.item and (s.op, s.args[1].id) in self.known:
            self.env[s.result.id] = self.known[s.op, s.args[1].id]
            self.counting.add(s.result.id)
            return
        exact = self._counts(s)
        self.env[s.result.id] = self.compute(s.op, tuple(self.use(a) for a in s.args), s.result.dtype, s.name, exact)

    def _counts(self, s: Compute) -> bool:
        """Whether this is narrow index arithmetic, which by contract does not overflow (the kernel would be wide)."""
        if self.kernel.wide or s.result.dtype is not self.index or s.op not in ("add", "sub", "mul", "idiv", "irem"):
            return False
        ids = [a.id for a in s.args]
        if all(i in self.counting or i in self.steady for i in ids) and any(i in self.counting for i in ids):
            self.counting.add(s.result.id)
            return True
        return False

    def _tags(self) -> str:
        if not self.groups:
            return ""
        if len(self.groups) == 1:
            return f", !llvm.access.group {self.groups[0]}"
        text = f"!{{{', '.join(self.groups)}}}"
        for number, line in enumerate(self.metadata):
            if line.endswith(f" = {text}"):
                return f", !llvm.access.group !{number}"
        return f", !llvm.access.group {self.node(text)}"

    def load(self, s: Load) -> None:
        pointer, index = self.kernel.parameters[s.pointer], self.use(s.index)
        kind, size = memory_type(pointer.dtype), pointer.dtype.itemsize
        if not index.varying:
            text = self.emit(f"load {kind}, ptr {self._address(s.pointer, kind, index)}, align {size}{self._tags()}")
        else:
            text = self._vector_load(self._address(s.pointer, kind, index), kind, size, index)
        if pointer.dtype is bool_:
            zero, kind = ("zeroinitializer", self.vector(kind)) if index.varying else ("0", kind)
            text = self.emit(f"icmp ne {kind} {text}, {zero}")
        self.env[s.result.id] = Operand(text, s.result.dtype, index.varying)

    def _address(self, pointer: int, kind: str, index: Operand) -> str:
        """The element's address: of lane 0 where the lanes are consecutive, else of each lane."""
        if index.first is not None:
            return self.emit(f"getelementptr inbounds {kind}, ptr %p{pointer}, {TYPES[index.dtype.name]} {index.first}")
        return self.emit(f"getelementptr inbounds {kind}, ptr %p{pointer}, {self.type_of(index)} {index.text}")

    def _vector_load(self, address: str, kind: str, size: int, index: Operand) -> str:
        vector, bits = self.vector(kind), self.vector("i1")
        if index.first is not None and self.mask is None:
            return self.emit(f"load {vector}, ptr {address}, align {size}")
        consecutive = index.first is not None
        name, where = ("load", "ptr") if consecutive else ("gather", self.vector("ptr"))
        suffix = f"v{self.lanes}{SUFFIXES[kind]}.{'p0' if consecutive else f'v{self.lanes}p0'}"
        self.declare(f"{vector} @llvm.masked.{name}.{suffix}({where}, i32, {bits}, {vector})")
        mask = self.mask or self.splat_text("true", "i1")
        other = "zeroinitializer"
        return self.emit(
            f"call {vector} @llvm.masked.{name}.{suffix}({where} {address}, i32 {size}, {bits} {mask}, {vector} {other})"
        )

    def store(self, s: Store) -> None:
        pointer, index, value = self.kernel.parameters[s.pointer], self.use(s.index), self.use(s.value)
        kind, size = memory_type(pointer.dtype), pointer.dtype.itemsize
        varying = index.varying or value.varying
        if varying and not index.varying:
            raise NotInLanes
        if varying:
            value = self.splat(value)
        text = value.text
        if pointer.dtype is bool_:
            text = self.emit(f"zext {self.type_of(value)} {text} to {self.vector('i8') if varying else 'i8'}")
        address = self._address(s.pointer, kind, index)
        if not varying:
            if self.mask is not None and self.lanes > 1:
                raise NotInLanes
            self.do(f"store {kind} {text}, ptr {address}, align {size}{self._tags()}")
            return
        self._vector_store(address, kind, size, index, text)

    def _vector_store(self, address: str, kind: str, size: int, index: Operand, text: str) -> None:
        vector, bits = self.vector(kind), self.vector("i1")
        if index.first is not None and self.mask is None:
            self.do(f"store {vector} {text}, ptr {address}, align {size}")
            return
        consecutive = index.first is not None
        name, where = ("store", "ptr") if consecutive else ("scatter", self.vector("ptr"))
        suffix = f"v{self.lanes}{SUFFIXES[kind]}.{'p0' if consecutive else f'v{self.lanes}p0'}"
        self.declare(f"void @llvm.masked.{name}.{suffix}({vector}, {where}, i32, {bits})")
        mask = self.mask or self.splat_text("true", "i1")
        self.do(f"call void @llvm.masked.{name}.{suffix}({vector} {text}, {where} {address}, i32 {size}, {bits} {mask})")

    # --- control
    def branch_if(self, s: If) -> None:
        condition, outer = self.use(s.condition), self.mask
        then, done = self.new_label("then"), self.new_label("fi")
        ask = condition.text
        if condition.varying:
            self.mask = self.both(outer, condition.text)
            ask = self.any_lane(self.mask)
        self.do(f"br i1 {ask}, label %{then}, label %{done}")
        self.begin(then)
        self.statements(s.body)
        self.branch(done)
        self.begin(done)
        self.mask = outer

    def foreach(self, s: ForEach) -> None:
        count = self._shared(s.count, s.index)
        group, outer = self.node("distinct !{}"), self.groups
        facts = self.loop_metadata(self.node(f'!{{!"llvm.loop.parallel_accesses", {group}}}'))
        self.groups = (*outer, group)
        with self.counted(count, TYPES[s.index.dtype.name], stem="each", metadata=facts) as loop:
            self._bind_counter(s.index, loop.counter)
            self.statements(s.body)
        self.groups = outer

    def _shared(self, count: Value, counter: Value) -> str:
        """A loop's count as text, in the counter's dtype. Refuses one that differs between lanes."""
        operand = self.use(count)
        if operand.varying:
            raise NotInLanes
        return self.compute("convert", (operand,), counter.dtype).text

    def _bind_counter(self, value: Value, text: str) -> None:
        self.env[value.id] = Operand(text, value.dtype)
        if value.dtype is self.index:
            self.counting.add(value.id)

    def loop(self, s: Loop) -> None:
        """for with carries. In lanes all carries are vectors; a lane that is done keeps its carries under a mask."""
        kind, lanes = TYPES[s.counter.dtype.name], self.lanes > 1
        count = self.compute("convert", (self.use(s.count),), s.counter.dtype)
        inits = [self.splat(self.use(v)) if lanes else self.use(v) for v in s.inits]
        masked = lanes and (s.until is not None or count.varying)
        outer, before = self.mask, self.label
        start_mask = (outer or self.splat_text("true", "i1")) if masked else ""
        head, guard, done = self.new_label("loop"), self.new_label("loop.guard"), self.new_label("loop.done")
        counter, active = self.fresh(), self.fresh()
        self.branch(head)
        self.begin(head)
        phis = [self.reserve() for _ in range(len(inits) + 2)]
        for value, init in zip(s.carried, inits):
            self.env[value.id] = Operand(self.fresh(), value.dtype, init.varying)
        self._bind_counter(s.counter, counter)
        current = active
        if count.varying:
            inside = self.emit(f"icmp slt {self.vector(kind)} {self.splat_text(counter, kind)}, {count.text}")
            current = self.both(active, inside)
            ask = self.any_lane(current)
        else:
            ask = self.emit(f"icmp slt {kind} {counter}, {count.text}")
        self.do(f"br i1 {ask}, label %{guard}, label %{done}")
        self.begin(guard)
        current = self._guard(s, masked, current, done)
        self.statements(s.body)
        following = [self._next(v, c, current if masked else None) for v, c in zip(s.next, s.carried)]
        step = self.emit(f"add nsw {kind} {counter}, 1")
        self.lines[phis[0]] = f"  {counter} = phi {kind} [ 0, %{before} ], [ {step}, %{self.label} ]"
        if masked:
            bits = self.vector("i1")
            self.lines[phis[1]] = f"  {active} = phi {bits} [ {start_mask}, %{before} ], [ {current}, %{self.label} ]"
        for line, value, init, new in zip(phis[2:], s.carried, inits, following):
            self.phi(line, self.use(value), before, init, new)
        self.branch(head)
        self.begin(done)
        self.mask = outer
        for result, value in zip(s.results, s.carried):
            self.env[result.id] = self.use(value)

    def _guard(self, s: Loop, masked: bool, current: str, done: str) -> str:
        """The `until` test; gives the lanes that go on. Leaves the printer in the loop's body."""
        if masked:
            self.mask = current
        self.statements(s.guard)
        if s.until is not None:
            until, body = self.use(s.until), self.new_label("loop.body")
            ask = until.text
            if masked:
                self.mask = current = self.both(current, self.splat(until).text)
                ask = self.any_lane(current)
            self.do(f"br i1 {ask}, label %{body}, label %{done}")
            self.begin(body)
        return current

    def _next(self, value: Value, carried: Value, current: str | None) -> Operand:
        new, old = self.use(value), self.use(carried)
        if not old.varying:
            return new
        new = self.splat(new)
        if current is None:
            return new
        kind = self.type_of(new)
        return Operand(
            self.emit(f"select {self.vector('i1')} {current}, {kind} {new.text}, {kind} {old.text}"), new.dtype, True
        )

    # --- reductions
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
        with self.counted(str(s.partials), kind, stem="fill", metadata=self._scalar_loop()) as loop:
            self._put(sums, kind, loop.counter, start)
        full = self.emit(f"udiv {kind} {count}, {s.partials}")
        with self.counted(full, kind, stem="round") as loop:
            self._round(s, sums, self.emit(f"mul nsw {kind} {loop.counter}, {s.partials}"), str(s.partials))
        base = self.emit(f"mul nsw {kind} {full}, {s.partials}")
        self._round(s, sums, base, self.emit(f"sub nsw {kind} {count}, {base}"))
        self._tree(s, sums, s.partials)
        for result, own in zip(s.results, self._get(sums, kind, "0")):
            self.env[result.id] = own

    def _scalar_loop(self) -> str:
        """Keeps LLVM from vectorising loops of the items that are left over beside whole vectors: that is time for nothing."""
        if self.wide_lanes == 1 or self.lanes > 1:
            return ""
        return self.loop_metadata(self.node('!{!"llvm.loop.vectorize.width", i32 1}'))

    def _round(self, s: Reduce, arrays: tuple[Array, ...], base: str, stop: str) -> None:
        """for p < stop: acc[p] = combine(acc[p], element(base + p))."""
        kind = TYPES[s.index.dtype.name]
        with self.counted(stop, kind, stem="partial", metadata=self._scalar_loop()) as loop:
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
            with self.counted(half, kind, stem="half", metadata=self._scalar_loop()) as p:
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


PRINTERS: dict[type, Callable[[Statements, Any], None]] = {
    Constant: Statements.constant,
    Compute: Statements.computation,
    Load: Statements.load,
    Store: Statements.store,
    If: Statements.branch_if,
    Loop: Statements.loop,
    Reduce: Statements.reduce,
    ForEach: Statements.foreach,
}
