"""Prints a kernel as LLVM IR for the host device: `void @NAME(ptr slots, i64 begin, i64 end)` runs the items begin..end-1.

Parameters are read from slots of eight bytes (`device.base.Parameters`). Where the body divides the item by an extent or compares
indices, the function walks stretches of items over which the answers hold (`llvm_stretch`). Straight-line bodies are left to
LLVM's vectoriser: accesses of different items are declared independent, which the kernel form promises, and which holds for
plans that work in place. Bodies with loops, and with work for rare values, run a vector of items at once (`llvm_control`).
No fact given to LLVM lets it reorder or contract floating-point arithmetic; `llvm.loop.vectorize.enable` would (it makes LLVM
vectorise sums in another order), so it is not used.
"""

from __future__ import annotations

from collections.abc import Iterator

from gla.codegen.kernel import Compute, Constant, ForEach, Kernel, Load, Loop, Reduce, Statement, Store
from gla.codegen.llvm_control import NotInLanes
from gla.codegen.llvm_stream import Streaming, streams
from gla.codegen.llvm_stretch import Settled, stretches
from gla.codegen.llvm_text import Operand, memory_type
from gla.codegen.rare import Rare, uses, with_branches
from gla.device.base import Geometry, Properties
from gla.dtypes import bool_

COMMON = 16  # statements that no item changes, from which on they stand before the loop
FUNCTION_COST = {"call": 16, "apply": 48}
WIDE = 64  # lanes of straight bodies
SHORT = 256  # statements that are not too many to be compiled at that width
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
    a loop inside an item, and rare work behind a branch are vectorised over items. Long straight bodies are chains, each step
    waiting for the one before: four vectors at once keep the processor busy.
    """
    kinds = list(_walk(kernel.body))
    if any(isinstance(s, ForEach) for s in kinds):
        return 1
    partials = max((s.partials for s in kinds if isinstance(s, Reduce)), default=0)
    if partials > 1:
        return 32 if kernel.across else 1
    if partials or any(isinstance(s, Loop) for s in kinds):
        return 16
    if kernel.functions:
        return WIDE
    if any(isinstance(s, Rare) for s in with_branches(kernel.body, uses(kernel.body))):
        return WIDE if len(kernel.body) <= SHORT else 16
    return 1


def common(kernel: Kernel) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
    """The kernel's body as (what is the same for every item, the rest). LLVM does not know that results lie apart from
    operands, so that it leaves such work in the loop, and its vectoriser then takes time exponential in the length of a chain.
    A few such statements stay where they are."""
    same = {p.value.id for p in kernel.parameters if p.value is not None}
    early: list[Statement] = []
    late: list[Statement] = []
    for s in kernel.body:
        named = s.args if isinstance(s, Compute) else (s.index,) if isinstance(s, Load) else ()
        early_too = isinstance(s, (Compute, Constant)) or (isinstance(s, Load) and all(hasattr(x, "result") for x in late))
        if early_too and all(v.id in same for v in named):
            same.add(s.result.id)  # type: ignore[union-attr]
            early.append(s)
        else:
            late.append(s)
    worth = sum(isinstance(s, (Compute, Load)) for s in early) >= COMMON
    return (tuple(early), tuple(late)) if worth else ((), kernel.body)


def _walk(body: tuple[Statement, ...]) -> Iterator[Statement]:
    for s in body:
        yield s
        for part in ("guard", "body", "combine"):
            yield from _walk(getattr(s, part, ()))


def _cost(body: tuple[Statement, ...]) -> int:
    """Primitives run for one item, loops of unknown length guessed: 8 trips, or what the number of partials says."""
    total = 0
    for s in body:
        if isinstance(s, Compute):
            total += FUNCTION_COST.get(s.op, 1)
            continue
        if isinstance(s, (Constant, Load, Store)):
            total += 1
            continue
        inner = _cost(getattr(s, "guard", ())) + _cost(getattr(s, "body", ())) + _cost(getattr(s, "combine", ()))
        if isinstance(s, Reduce):
            total += inner * {1: 4, 32: 256}.get(s.partials, 4096)
        elif isinstance(s, (Loop, ForEach)):
            total += inner * (8 if isinstance(s, Loop) else 64)
        else:
            total += inner
    return total


class Function(Streaming):
    """The whole function: parameters, the walk over the items, the body in lanes and one by one."""

    def __init__(self, kernel: Kernel, lanes: int) -> None:
        super().__init__(kernel, lanes)
        self.plan = stretches(kernel)
        self.common, self.rest = common(kernel)

    def module(self) -> str:
        start, stop = self._prologue()
        if self.plan.useful:
            self._stretches(start, stop)
        else:
            if self.wide_lanes == 1 and streams(self.kernel):
                start = self.streamed(start, stop)
            self._segment(start, stop, "0", {})
        self.do("ret void")
        doc = [f"; {line}" for line in self.kernel.doc]
        head = f'define void @"{self.kernel.name}"(ptr noalias readonly %slots, i64 %begin, i64 %end) #0 {{'
        lines = [
            *doc,
            *self.declarations,
            *self.printed.values(),
            head,
            "entry:",
            *self.allocas,
            *self.lines,
            "}",
            ATTRIBUTES,
            *self.metadata,
        ]
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

    def _stretches(self, start: str, stop: str) -> None:
        """Walk the items stretch by stretch (`llvm_stretch`)."""
        kind = self.index_kind
        head, body, done = self.new_label("stretches"), self.new_label("stretch"), self.new_label("stretches.done")
        before, item = self.label, Operand(self.fresh(), self.index)
        self.branch(head)
        self.begin(head)
        phi = self.reserve()
        self.do(f"br i1 {self.emit(f'icmp slt {kind} {item.text}, {stop}')}, label %{body}, label %{done}")
        self.begin(body)
        length = self._settle(item, self.emit(f"sub nsw {kind} {stop}, {item.text}"))
        lines = {s.statement.result.id: self.use(s.statement.result).text for s in self.plan.settled if s.kind == "line"}
        for s in self.plan.settled:
            if s.kind == "flat":
                self.known[s.statement.result.id] = self.use(s.statement.result)
        if not self.plan.doubts:
            self._segment("0", length, item.text, lines)
        else:
            self._doubted(length, item.text, lines)
        following = Operand(self.emit(f"add nsw {kind} {item.text}, {length}"), self.index)
        self.phi(phi, item, before, Operand(start, self.index), following)
        self.branch(head)
        self.begin(done)

    def _settle(self, item: Operand, length: str) -> str:
        """Compute what is settled, at the stretch's first item; gives the number of items for which all of it holds."""
        kind = self.index_kind
        self.env[self.kernel.item.id] = item
        self.counting.add(self.kernel.item.id)
        for s in self.plan.settled:
            if isinstance(s.statement, Constant):
                self.constant(s.statement)
                continue
            result = s.statement.result
            if s.arm:
                self.env[result.id] = self.use(s.statement.args[s.arm])
                self.counting.add(result.id)
            else:
                self.computation(s.statement)
            if s.limit:
                here = self._limit(s)
                length = self.emit(
                    f"select i1 {self.emit(f'icmp slt {kind} {here}, {length}')}, {kind} {here}, {kind} {length}"
                )
        return self.emit(f"select i1 {self.emit(f'icmp slt {kind} {length}, 1')}, {kind} 1, {kind} {length}")

    def _limit(self, s: Settled) -> str:
        """For how many items from here the statement's result holds."""
        assert s.line is not None
        assert s.bound is not None
        kind, line, bound = self.index_kind, self.use(s.line).text, self.use(s.bound).text
        if s.limit in ("idiv", "irem"):
            rest = self.emit(f"sub nsw {kind} {bound}, {self.emit(f'srem {kind} {line}, {bound}')}")
            return self.emit(f"select i1 {self.emit(f'icmp slt {kind} {line}, 0')}, {kind} 1, {kind} {rest}")
        away = self.emit(f"sub {kind} {bound}, {line}")
        if s.limit in ("le", "gt"):
            away = self.emit(f"add {kind} {away}, 1")
        never = (1 << (63 if self.kernel.wide else 31)) - 1
        after = self.emit(f"select i1 {self.emit(f'icmp sgt {kind} {away}, 0')}, {kind} {away}, {kind} {never}")
        if s.limit not in ("eq", "ne"):
            return after
        return self.emit(f"select i1 {self.emit(f'icmp eq {kind} {away}, 0')}, {kind} 1, {kind} {after}")

    def _doubted(self, length: str, item: str, lines: dict[int, str]) -> None:
        """The stretch with all doubted selections taken to be lines, where they are, else the body as it stands."""
        sure = "true"
        for s in self.plan.doubts:
            condition = self.known[s.statement.args[0].id].text  # type: ignore[union-attr]
            sure = self.emit(f"and i1 {sure}, {condition if s.arm == 1 else self.emit(f'xor i1 {condition}, true')}")
        quick, slow, joined = self.new_label("sure"), self.new_label("doubt"), self.new_label("joined")
        self.do(f"br i1 {sure}, label %{quick}, label %{slow}")
        self.begin(quick)
        self._segment("0", length, item, lines)
        self.branch(joined)
        self.begin(slow)
        doubtful = self.plan.doubtful
        self.known = {k: v for k, v in self.known.items() if k not in doubtful}
        lanes, self.wide_lanes = self.wide_lanes, 1
        self._segment("0", length, item, {k: v for k, v in lines.items() if k not in doubtful})
        self.wide_lanes = lanes
        self.branch(joined)
        self.begin(joined)

    def _segment(self, start: str, stop: str, base: str, lines: dict[int, str]) -> None:
        """The items base + start .. base + stop. `lines`: the values that count up with the items, at `base`."""
        kind = self.index_kind
        if self.wide_lanes > 1:
            self._vectors(start, stop, base, lines)
            return
        self.statements(self.common)
        group = self.node("distinct !{}")
        facts = self.loop_metadata(self.node(f'!{{!"llvm.loop.parallel_accesses", {group}}}'))
        self.groups = (group,)
        with self.counted(stop, kind, start=start, stem="item", metadata=facts) as loop:
            self._bind(loop.counter, base, lines)
            self.statements(self.rest)
        self.groups = ()

    def _vectors(self, start: str, stop: str, base: str, lines: dict[int, str]) -> None:
        """The items in vectors, the last one ragged: all run under a mask, which costs next to nothing, since a second copy of
        the body for the rest doubles the time to compile."""
        kind = self.index_kind
        self.lanes = self.wide_lanes
        items = self.emit(f"sub nsw {kind} {stop}, {start}")
        blocks = self.emit(f"sdiv {kind} {self.emit(f'add nsw {kind} {items}, {self.lanes - 1}')}, {self.lanes}")
        with self.counted(blocks, kind, stem="block") as loop:
            at = self.emit(f"add nsw {kind} {start}, {self.emit(f'mul nsw {kind} {loop.counter}, {self.lanes}')}")
            number = self.consecutive(at, self.index).text
            self.mask = self.emit(f"icmp slt {self.vector(kind)} {number}, {self.splat_text(stop, kind)}")
            self._bind(at, base, lines)
            self.statements(self.kernel.body)
        self.mask, self.lanes = None, 1

    def _bind(self, at: str, base: str, lines: dict[int, str]) -> None:
        """What the body calls the item base + at, and the lines."""
        numbered = self.consecutive if self.lanes > 1 else Operand
        kind = self.index_kind
        item = at if base == "0" else self.emit(f"add nsw {kind} {base}, {at}")
        self.env[self.kernel.item.id] = numbered(item, self.index)
        self.counting.add(self.kernel.item.id)
        for line, first in lines.items():
            self.known[line] = numbered(self.emit(f"add nsw {kind} {first}, {at}"), self.index)


__all__ = ["geometry", "lanes_of", "print_llvm"]
