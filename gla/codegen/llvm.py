"""Prints a kernel as LLVM IR for the host device: `void @NAME(ptr slots, i64 begin, i64 end)` runs the items begin..end-1.

Parameters are read from slots of eight bytes (`device.base.Parameters`). Where items are rows times columns (the body
divides the item by an extent) the function walks rows and columns instead of dividing. Straight-line bodies are left to
LLVM's vectoriser: accesses of different items are declared independent, which the kernel form promises, and which holds for
plans that work in place. Bodies with loops run a vector of items at once (`llvm_control`), the rest of a row one by one.
No fact given to LLVM lets it reorder or contract floating-point arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator

from gla.codegen.kernel import Compute, ForEach, If, Kernel, Loop, Reduce, Statement
from gla.codegen.llvm_control import NotInLanes, Statements
from gla.codegen.llvm_text import Operand, memory_type
from gla.device.base import Geometry, Properties
from gla.dtypes import bool_

ATTRIBUTES = 'attributes #0 = { nounwind "no-trapping-math"="true" }'


def print_llvm(kernel: Kernel) -> str:
    """The LLVM IR module of `kernel`."""
    lanes = lanes_of(kernel)
    if lanes > 1:
        try:
            return Function(kernel, lanes).module()
        except NotInLanes:
            pass
    return Function(kernel, 1).module()


def geometry(kernel: Kernel, items: int, properties: Properties) -> Geometry:
    """`items` work items. `block` says what one item costs, in primitives, for the choice how many threads serve a launch."""
    return Geometry(block=(_cost(kernel.body), 1, 1), items=items)


def lanes_of(kernel: Kernel) -> int:
    """How many items a vector holds: 1 leaves vectors to LLVM.

    A reduction over neighbouring elements is vectorised over its partials; one whose neighbours are other items (`across`)
    and a loop inside an item are vectorised over items.
    """
    kinds = list(_walk(kernel.body))
    if any(isinstance(s, ForEach) for s in kinds):
        return 1
    partials = max((s.partials for s in kinds if isinstance(s, Reduce)), default=0)
    if partials > 1:
        return 32 if kernel.across else 1
    return 16 if partials or any(isinstance(s, Loop) for s in kinds) else 1


def _walk(body: tuple[Statement, ...]) -> Iterator[Statement]:
    for s in body:
        yield s
        for part in ("guard", "body", "combine"):
            yield from _walk(getattr(s, part, ()))


def _cost(body: tuple[Statement, ...]) -> int:
    """Primitives run for one item, loops of unknown length guessed: 8 trips, or what the number of partials says."""
    total = 0
    for s in body:
        inner = _cost(getattr(s, "guard", ())) + _cost(getattr(s, "body", ())) + _cost(getattr(s, "combine", ()))
        if isinstance(s, Reduce):
            total += inner * {1: 4, 32: 256}.get(s.partials, 4096)
        elif isinstance(s, (Loop, ForEach)):
            total += inner * (8 if isinstance(s, Loop) else 64)
        elif isinstance(s, If):
            total += inner
        else:
            total += 16 if isinstance(s, Compute) and s.op == "call" else 1
    return total


class Function(Statements):
    """The whole function: parameters, the walk over the items, the body in lanes and one by one."""

    def __init__(self, kernel: Kernel, lanes: int) -> None:
        super().__init__(kernel, lanes)
        self.wide_lanes = lanes

    def module(self) -> str:
        start, stop = self._prologue()
        split = self._split()
        if split is None:
            self._segment(start, stop, None)
        else:
            self._rows(split, start, stop)
        self.do("ret void")
        doc = [f"; {line}" for line in self.kernel.doc]
        head = f'define void @"{self.kernel.name}"(ptr noalias readonly %slots, i64 %begin, i64 %end) #0 {{'
        lines = [*doc, *self.declarations, head, "entry:", *self.allocas, *self.lines, "}", ATTRIBUTES, *self.metadata]
        return "\n".join(lines) + "\n"

    def _prologue(self) -> tuple[str, str]:
        """Read the parameters; gives the range of items in the index type."""
        for number, parameter in enumerate(self.kernel.parameters):
            slot = self.emit(f"getelementptr inbounds i64, ptr %slots, i64 {number}")
            if parameter.kind == "pointer":
                self.do(f"%p{number} = load ptr, ptr {slot}, align 8")
                continue
            value, kind = parameter.value, memory_type(parameter.dtype)
            assert value is not None
            text = self.emit(f"load {kind}, ptr {slot}, align 8")
            if value.dtype is bool_:
                text = self.emit(f"icmp ne {kind} {text}, 0")
            self.env[value.id] = Operand(text, value.dtype)
            if parameter.kind == "extent":
                self.steady.add(value.id)
        if self.kernel.wide:
            return "%begin", "%end"
        return self.emit("trunc i64 %begin to i32"), self.emit("trunc i64 %end to i32")

    def _split(self) -> int | None:
        """The extent that the body divides the item by: the length of a row."""
        extents = {p.value.id for p in self.kernel.parameters if p.kind == "extent" and p.value is not None}
        for s in _walk(self.kernel.body):
            if (
                isinstance(s, Compute)
                and s.op in ("irem", "idiv")
                and s.args[0] is self.kernel.item
                and s.args[1].id in extents
            ):
                return s.args[1].id
        return None

    def _rows(self, extent: int, start: str, stop: str) -> None:
        """Walk the items row by row: item = base + column, row and column without a division inside."""
        kind, length = self.index_kind, self.env[extent].text
        head, body, done = self.new_label("rows"), self.new_label("row"), self.new_label("rows.done")
        enter = self.new_label("enter")
        self.do(f"br i1 {self.emit(f'icmp slt {kind} {start}, {stop}')}, label %{enter}, label %{done}")
        self.begin(enter)
        row0, column0 = self.emit(f"sdiv {kind} {start}, {length}"), self.emit(f"srem {kind} {start}, {length}")
        self.branch(head)
        self.begin(head)
        item, row, column = (Operand(self.fresh(), self.index) for _ in range(3))
        phis = [self.reserve() for _ in range(3)]
        self.do(f"br i1 {self.emit(f'icmp slt {kind} {item.text}, {stop}')}, label %{body}, label %{done}")
        self.begin(body)
        in_row, left = (
            self.emit(f"sub nsw {kind} {length}, {column.text}"),
            self.emit(f"sub nsw {kind} {stop}, {item.text}"),
        )
        shorter = self.emit(f"icmp slt {kind} {in_row}, {left}")
        here = self.emit(f"select i1 {shorter}, {kind} {in_row}, {kind} {left}")
        base = self.emit(f"sub nsw {kind} {item.text}, {column.text}")
        self.known["idiv", extent] = row
        self._segment(column.text, self.emit(f"add nsw {kind} {column.text}, {here}"), (extent, base))
        for line, own, init, following in zip(
            phis,
            (item, row, column),
            (start, row0, column0),
            (self.emit(f"add nsw {kind} {item.text}, {here}"), self.emit(f"add nsw {kind} {row.text}, 1"), "0"),
        ):
            self.phi(line, own, enter, Operand(init, self.index), Operand(following, self.index))
        self.branch(head)
        self.begin(done)

    def _segment(self, start: str, stop: str, row: tuple[int, str] | None) -> None:
        """The items of one row (or all): whole vectors first where the body wants lanes, then one by one."""
        kind = self.index_kind
        if self.wide_lanes > 1:
            self.lanes = self.wide_lanes
            full = self.emit(f"sdiv {kind} {self.emit(f'sub nsw {kind} {stop}, {start}')}, {self.lanes}")
            with self.counted(full, kind, stem="block") as loop:
                at = self.emit(f"add nsw {kind} {start}, {self.emit(f'mul nsw {kind} {loop.counter}, {self.lanes}')}")
                self._bind(at, row)
                self.statements(self.kernel.body)
            start = self.emit(f"add nsw {kind} {start}, {self.emit(f'mul nsw {kind} {full}, {self.lanes}')}")
            self.lanes = 1
        group = self.node("distinct !{}")
        facts = [self.node(f'!{{!"llvm.loop.parallel_accesses", {group}}}')]
        if self.wide_lanes > 1:
            facts += [self.node('!{!"llvm.loop.vectorize.width", i32 1}'), self.node('!{!"llvm.loop.unroll.disable"}')]
        self.groups = (group,)
        with self.counted(stop, kind, start=start, stem="item", metadata=self.loop_metadata(*facts)) as loop:
            self._bind(loop.counter, row)
            self.statements(self.kernel.body)
        self.groups = ()

    def _bind(self, at: str, row: tuple[int, str] | None) -> None:
        """What the body calls the item, and the item's column, when `at` is the number within the row."""
        item = at if row is None else self.emit(f"add nsw {self.index_kind} {row[1]}, {at}")
        numbered = self.consecutive if self.lanes > 1 else Operand
        self.env[self.kernel.item.id] = numbered(item, self.index)
        self.counting.add(self.kernel.item.id)
        if row is not None:
            self.known["irem", row[0]] = numbered(at, self.index)


__all__ = ["geometry", "lanes_of", "print_llvm"]
