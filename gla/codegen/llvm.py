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
from gla.codegen.llvm_rare import Rare, uses, with_branches
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

    A reduction over neighbouring elements is vectorised over its partials; one whose neighbours are other items (`across`),
    a loop inside an item, and rare work behind a branch are vectorised over items.
    """
    kinds = list(_walk(kernel.body))
    if any(isinstance(s, ForEach) for s in kinds):
        return 1
    partials = max((s.partials for s in kinds if isinstance(s, Reduce)), default=0)
    if partials > 1:
        return 32 if kernel.across else 1
    if partials or any(isinstance(s, Loop) for s in kinds):
        return 16
    return 16 if any(isinstance(s, Rare) for s in with_branches(kernel.body, uses(kernel.body))) else 1


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
        self.columns: dict[int, str] = {}

    def module(self) -> str:
        start, stop = self._prologue()
        extents = self._row_lengths()
        if extents:
            self._rows(extents, start, stop)
        else:
            self._segment(start, stop, "0")
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

    def _row_lengths(self) -> tuple[int, ...]:
        """The extents that the body divides the item by."""
        extents = {p.value.id for p in self.kernel.parameters if p.kind == "extent" and p.value is not None}
        found = dict.fromkeys(
            s.args[1].id
            for s in _walk(self.kernel.body)
            if isinstance(s, Compute) and s.op in ("irem", "idiv") and s.args[0] is self.kernel.item and s.args[1].id in extents
        )
        return tuple(found)[:4]

    def _rows(self, extents: tuple[int, ...], start: str, stop: str) -> None:
        """Walk the items in stretches that end where an extent divides the item's number: within one, the item divided by an
        extent is fixed, and the remainder counts up. One division an extent and stretch instead of one an item."""
        kind = self.index_kind
        head, body, done = self.new_label("rows"), self.new_label("row"), self.new_label("rows.done")
        before, item = self.label, Operand(self.fresh(), self.index)
        self.branch(head)
        self.begin(head)
        phi = self.reserve()
        self.do(f"br i1 {self.emit(f'icmp slt {kind} {item.text}, {stop}')}, label %{body}, label %{done}")
        self.begin(body)
        length = self.emit(f"sub nsw {kind} {stop}, {item.text}")
        for extent in extents:
            by = self.env[extent].text
            self.known["idiv", extent] = Operand(self.emit(f"sdiv {kind} {item.text}, {by}"), self.index)
            column = self.columns[extent] = self.emit(f"srem {kind} {item.text}, {by}")
            here = self.emit(f"sub nsw {kind} {by}, {column}")
            length = self.emit(f"select i1 {self.emit(f'icmp slt {kind} {here}, {length}')}, {kind} {here}, {kind} {length}")
        self._segment("0", length, item.text)
        following = Operand(self.emit(f"add nsw {kind} {item.text}, {length}"), self.index)
        self.phi(phi, item, before, Operand(start, self.index), following)
        self.branch(head)
        self.begin(done)

    def _segment(self, start: str, stop: str, base: str) -> None:
        """The items base + start .. base + stop: whole vectors first where the body wants lanes, then one by one."""
        kind = self.index_kind
        if self.wide_lanes > 1:
            self.lanes = self.wide_lanes
            full = self.emit(f"sdiv {kind} {self.emit(f'sub nsw {kind} {stop}, {start}')}, {self.lanes}")
            with self.counted(full, kind, stem="block") as loop:
                at = self.emit(f"add nsw {kind} {start}, {self.emit(f'mul nsw {kind} {loop.counter}, {self.lanes}')}")
                self._bind(at, base)
                self.statements(self.kernel.body)
            start = self.emit(f"add nsw {kind} {start}, {self.emit(f'mul nsw {kind} {full}, {self.lanes}')}")
            self.lanes = 1
        group = self.node("distinct !{}")
        facts = [self.node(f'!{{!"llvm.loop.parallel_accesses", {group}}}')]
        if self.wide_lanes > 1:
            facts.append(self.node('!{!"llvm.loop.vectorize.width", i32 1}'))
        self.groups = (group,)
        with self.counted(stop, kind, start=start, stem="item", metadata=self.loop_metadata(*facts)) as loop:
            self._bind(loop.counter, base)
            self.statements(self.kernel.body)
        self.groups = ()

    def _bind(self, at: str, base: str) -> None:
        """What the body calls the item base + at, and its remainders by the row lengths."""
        numbered = self.consecutive if self.lanes > 1 else Operand
        kind = self.index_kind
        item = at if base == "0" else self.emit(f"add nsw {kind} {base}, {at}")
        self.env[self.kernel.item.id] = numbered(item, self.index)
        self.counting.add(self.kernel.item.id)
        for extent, column in self.columns.items():
            self.known["irem", extent] = numbered(self.emit(f"add nsw {kind} {column}, {at}"), self.index)


__all__ = ["geometry", "lanes_of", "print_llvm"]
