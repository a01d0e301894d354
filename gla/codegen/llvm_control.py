"""Statements of the kernel form as LLVM basic blocks: constants, loads, stores, If, Loop, Reduce, ForEach.

In scalar text one item runs at a time and LLVM's vectoriser does the rest. In lane text (`lanes` > 1) every value that
depends on the item is a vector with one lane an item; branches on such values become masks. What lane text cannot hold
raises `NotInLanes`, and the caller prints scalar text instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gla.codegen.kernel import Compute, Constant, ForEach, If, Kernel, Load, Loop, Reduce, Statement, Store, Value
from gla.codegen.llvm_functions import Applications
from gla.codegen.llvm_text import SUFFIXES, TYPES, Operand, index_type, literal, memory_type
from gla.codegen.rare import Rare, uses, with_branches
from gla.dtypes import bool_


class NotInLanes(Exception):
    """The kernel needs control flow that differs between items in a way that masks do not express."""


class Statements(Applications):
    """Prints statements; `env` says what each Value of the kernel is called at this point."""

    def __init__(self, kernel: Kernel, lanes: int = 1) -> None:
        super().__init__(lanes)
        self.kernel, self.wide_lanes = kernel, lanes
        self.env: dict[int, Operand] = {}
        self._uses = uses(kernel.body)
        self._branched: dict[int, tuple[Statement | Rare, ...]] = {}
        self.mask: str | None = None
        self.groups: tuple[str, ...] = ()
        self.index, self.index_kind = index_type(kernel.wide)
        self.counting: set[int] = set()  # values made of counters by +, -, * in narrow index arithmetic
        self.steady: set[int] = set()  # extents and constants of index dtype
        self.printed: dict[tuple[str, int], str] = {}
        self.known: dict[int, Operand] = {}  # values settled over a stretch of items (`llvm_stretch`)

    def statements(self, body: tuple[Statement, ...]) -> None:
        branched = self._branched.get(id(body))
        if branched is None:
            branched = self._branched[id(body)] = with_branches(body, self._uses)
        for statement in branched:
            PRINTERS[type(statement)](self, statement)

    def use(self, value: Value) -> Operand:
        return self.env[value.id]

    def inside(self, kernel: Kernel, lanes: int) -> Statements:
        """A printer for a function's body."""
        return Statements(kernel, lanes)

    # --- straight-line statements
    def constant(self, s: Constant) -> None:
        self.env[s.result.id] = Operand(literal(s.value, s.result.dtype), s.result.dtype)
        if s.result.dtype is self.index:
            self.steady.add(s.result.id)

    def computation(self, s: Compute) -> None:
        if s.result.id in self.known:
            self.env[s.result.id] = self.known[s.result.id]
            return
        exact = self._counts(s)
        args = tuple(self.use(a) for a in s.args)
        if s.op == "apply":
            self.env[s.result.id] = self.apply(s.name, args, s.result.dtype)
            return
        if s.op in ("idiv", "irem") and self.mask is not None and args[1].varying:
            one = self.splat(Operand("1", args[1].dtype))  # a lane that does not count may hold a zero, which traps
            mask = Operand(self.mask, bool_, True)
            args = (args[0], self.compute("select", (mask, args[1], one), args[1].dtype))
        self.env[s.result.id] = self.compute(s.op, args, s.result.dtype, s.name, exact)

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
    def rare(self, s: Rare) -> None:
        """Skip the work when no lane asks for it; the selections are then their other arms."""
        condition, other = self.use(s.condition), 2 if s.when else 1
        usual = [self._whole(self.use(c.args[other])) for c in s.chosen]
        wanted = condition
        if not s.when:
            wanted = self.compute("bnot", (condition,), bool_)
        ask = wanted.text
        if condition.varying:
            ask = self.any_lane(self.both(self.mask, wanted.text))
        before, work, join = self.label, self.new_label("rare"), self.new_label("usual")
        self.do(f"br i1 {ask}, label %{work}, label %{join}")
        self.begin(work)
        self.statements(s.body)
        chosen = []
        for c in s.chosen:
            chosen.append(self._whole(self.compute("select", tuple(self.use(a) for a in c.args), c.result.dtype)))
        after = self.label
        self.branch(join)
        self.begin(join)
        for c, quick, slow in zip(s.chosen, usual, chosen):
            own = Operand(self.fresh(), c.result.dtype, quick.varying)
            kind = self.type_of(own)
            self.lines.append(f"  {own.text} = phi {kind} [ {quick.text}, %{before} ], [ {slow.text}, %{after} ]")
            self.env[c.result.id] = own

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
        if self.wide_lanes == 1 and any(isinstance(part, Rare) for part in with_branches(s.body, self._uses)):
            self._foreach_in_vectors(s, count)
            return
        group, outer = self.node("distinct !{}"), self.groups
        facts = self.loop_metadata(self.node(f'!{{!"llvm.loop.parallel_accesses", {group}}}'))
        self.groups = (*outer, group)
        with self.counted(count, TYPES[s.index.dtype.name], stem="each", metadata=facts) as loop:
            self._bind_counter(s.index, loop.counter)
            self.statements(s.body)
        self.groups = outer

    def _foreach_in_vectors(self, s: ForEach, count: str) -> None:
        """Sixteen indices at a time, for bodies with rare work, which LLVM's vectoriser would do for every index."""
        kind = TYPES[s.index.dtype.name]
        self.lanes = 16
        vectors = self.emit(f"sdiv {kind} {self.emit(f'add nsw {kind} {count}, 15')}, 16")
        with self.counted(vectors, kind, stem="each") as loop:
            index = self.consecutive(self.emit(f"mul nsw {kind} {loop.counter}, 16"), s.index.dtype)
            self.mask = self.emit(f"icmp slt {self.vector(kind)} {index.text}, {self.splat_text(count, kind)}")
            self.env[s.index.id] = index
            self.counting.add(s.index.id)
            self.statements(s.body)
        self.mask, self.lanes = None, 1

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


PRINTERS: dict[type, Callable[[Statements, Any], None]] = {
    Constant: Statements.constant,
    Compute: Statements.computation,
    Load: Statements.load,
    Rare: Statements.rare,
    Store: Statements.store,
    If: Statements.branch_if,
    Loop: Statements.loop,
    Reduce: Statements.reduce,
    ForEach: Statements.foreach,
}
