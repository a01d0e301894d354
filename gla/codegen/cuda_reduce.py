"""How a reduction is printed: by one thread, or shared out over a team. The order of combining is the kernel form's in both.

Partial sums p and p + s are combined for s = P/2, P/4, ..., 1. That is a binary tree whose leaves, from left to right, are
the partials in bit-reversed order. So whoever holds n partials takes them in that order and keeps one sum for each level
(`_tree`): log2 n registers, no array of partials. A team's members hold partials p = member, member + team, ...: the first
levels of the tree are a member's own, the rest joins the members: by shuffles within a warp, else through shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from gla.codegen.cuda_geometry import LANES
from gla.codegen.cuda_scalars import name
from gla.codegen.cuda_text import Text, declare
from gla.codegen.kernel import If, Kernel, Loop, Reduce, Value
from gla.errors import InternalError


class Teams:
    """Prints the reductions of one kernel. `statements` prints a body; within `one_thread()` it prints for one thread."""

    def __init__(
        self,
        kernel: Kernel,
        text: Text,
        statements: Callable[[tuple[Any, ...]], None],
        one_thread: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.kernel, self.text, self.statements, self.one_thread = kernel, text, statements, one_thread

    def serial(self, reduce: Reduce) -> None:
        """The whole reduction by the thread that asks for it."""
        text = self.text
        for result in reduce.results:
            text.line(f"{result.dtype.short} {name(result)};")
        with text.block(""), self.one_thread():
            self._own_partials(reduce, team=1, member="")
            self._assign(reduce, [name(r) for r in reduce.results], self._sums(reduce))

    def shared_out(self, reduce: Reduce) -> None:
        """The reduction by a team; every member gets the results."""
        team, text = self.kernel.team, self.text
        if reduce.partials % team:
            raise InternalError(
                "GLA9960", f"kernel '{self.kernel.name}': a team of {team} does not divide {reduce.partials} partial sums"
            )
        for result in reduce.results:
            text.line(f"{result.dtype.short} {name(result)};")
        with text.block(""), self.one_thread():
            self._own_partials(reduce, team, member="member")
            if team <= LANES and not self.kernel.across:
                self._shuffle(reduce, team, "team_mask")
                for result, total in zip(reduce.results, self._sums(reduce)):
                    text.line(f"{name(result)} = {_shuffled('__shfl_sync', 'team_mask', total, result, 0, team)};")
            else:
                self._through_memory(reduce)

    def shared_bytes(self) -> int:
        """Shared memory that the kernel's reductions need: room for results, then for the members' sums."""
        if self.kernel.team == 1 or (self.kernel.team <= LANES and not self.kernel.across):
            return 0
        return self._results_bytes() + self._widest() * self._columns() * self.kernel.team

    # --- one member's part

    def _sums(self, reduce: Reduce) -> list[str]:
        return [f"sum{r.id}" for r in reduce.results]

    def _own_partials(self, reduce: Reduce, team: int, member: str) -> None:
        """Declares sum<id> and leaves in it the top of the tree over the partials that this thread holds."""
        text, sums, index = self.text, self._sums(reduce), reduce.index
        own = reduce.partials // team
        for total, result in zip(sums, reduce.results):
            text.line(f"{result.dtype.short} {total};")

        def leaf(number: str) -> None:
            self._assign(reduce, sums, [name(v) for v in reduce.identity])
            first = " + ".join(filter(None, (number and (f"{number} * {team}u" if team > 1 else number), member)))
            start = f"({index.dtype.short})({first})" if first else "0"
            i = name(index)
            with text.block(f"for ({index.dtype.short} {i} = {start}; {i} < {name(reduce.count)}; {i} += {reduce.partials})"):
                self.statements(reduce.body)
                self._combine(reduce, sums, sums, [name(v) for v in reduce.element])

        self._tree(reduce, own, sums, leaf)

    def _tree(self, reduce: Reduce, leaves: int, sums: list[str], leaf: Callable[[str], None]) -> None:
        """Runs `leaf` for partials 0..leaves in bit-reversed order and joins what each leaves in `sums`."""
        text = self.text
        if leaves == 1:
            leaf("")
            return
        levels = leaves.bit_length() - 1
        k, kept = f"leaf{reduce.results[0].id}", [f"level{r.id}" for r in reduce.results]
        for one, result in zip(kept, reduce.results):
            text.line(f"{result.dtype.short} {one}[{levels}];")
        if leaves > 8:
            text.line("#pragma unroll 1")
        with text.block(f"for (u32 {k} = 0; {k} < {leaves}u; ++{k})"):
            leaf(f"(__brev({k}) >> {32 - levels})")
            # A loop without a break is unrolled, and only then are the levels registers.
            text.line("#pragma unroll")
            with text.block(f"for (u32 level = 0; level < {levels}u; ++level)"):
                text.line("const u32 below = (1u << level) - 1u;")
                with text.block(f"if (({k} & below) == below)"):
                    with text.block(f"if ({k} >> level & 1u)"):
                        self._combine(reduce, sums, [f"{one}[level]" for one in kept], sums)
                    with text.block("else"):
                        self._assign(reduce, [f"{one}[level]" for one in kept], sums)

    def _combine(self, reduce: Reduce, into: list[str], left: list[str], right: list[str]) -> None:
        """into = combine(left, right)."""
        with self.text.block(""):
            for values, texts in ((reduce.left, left), (reduce.right, right)):
                for value, text in zip(values, texts):
                    self.text.line(declare(value, text))
            self.statements(reduce.combine)
            self._assign(reduce, into, [name(v) for v in reduce.joined])

    def _assign(self, reduce: Reduce, into: list[str], values: list[str]) -> None:
        for target, value in zip(into, values):
            self.text.line(f"{target} = {value};")

    # --- joining the members

    def _shuffle(self, reduce: Reduce, width: int, mask: str) -> None:
        """Joins the sums of `width` neighbouring lanes; the first lane's is the result."""
        text, sums = self.text, self._sums(reduce)
        text.line("#pragma unroll")
        with text.block(f"for (u32 s = {width // 2}u; s > 0u; s >>= 1)"):
            others = [f"other{r.id}" for r in reduce.results]
            for other, total, result in zip(others, sums, reduce.results):
                text.line(
                    f"const {result.dtype.short} {other} = {_shuffled('__shfl_down_sync', mask, total, result, 's', width)};"
                )
            self._combine(reduce, sums, sums, others)

    def _through_memory(self, reduce: Reduce) -> None:
        """Members' sums to shared memory; the first warp joins them and leaves the results for all.

        Two barriers are enough: whoever writes sums of the next reduction has passed the second barrier of this one, so the
        first warp has read; results lie apart, and are written anew only after the next first barrier, so all have read.
        """
        text, team, across, sums = self.text, self.kernel.team, self.kernel.across, self._sums(reduce)
        columns = self._columns()
        slots, finals = [f"slot{r.id}" for r in reduce.results], [f"final{r.id}" for r in reduce.results]
        at_result, at_slot = 0, self._results_bytes()
        for slot, final, result in sorted(zip(slots, finals, reduce.results), key=lambda entry: -entry[2].dtype.itemsize):
            kind = result.dtype.short
            text.line(f"{kind}* {final} = ({kind}*)(team_memory + {at_result});")
            text.line(f"{kind}* {slot} = ({kind}*)(team_memory + {at_slot});")
            at_result += columns * result.dtype.itemsize
            at_slot += columns * team * result.dtype.itemsize
        mine = "threadIdx.x" if across else "0"
        own = f"member * {LANES}u + threadIdx.x" if across else "member"
        self._assign(reduce, [f"{slot}[{own}]" for slot in slots], sums)
        text.line("__syncthreads();")
        with text.block("if (member == 0)" if across else f"if (member < {LANES}u)"):
            # Across, a lane joins its item's members; else a lane joins members lane, lane + 32, ... and then come the lanes.
            lane = "threadIdx.x" if across else "member"

            def leaf(number: str) -> None:
                place = f"{number} * {LANES}u + {lane}" if number else lane
                self._assign(reduce, sums, [f"{slot}[{place}]" for slot in slots])

            self._tree(reduce, team if across else team // LANES, sums, leaf)
            if not across:
                self._shuffle(reduce, LANES, "0xffffffffu")
            store = "; ".join(f"{final}[{mine}] = {total}" for final, total in zip(finals, sums))
            text.line(f"{store};" if across else f"if (member == 0) {{ {store}; }}")
        text.line("__syncthreads();")
        self._assign(reduce, [name(r) for r in reduce.results], [f"{final}[{mine}]" for final in finals])

    def _columns(self) -> int:
        return LANES if self.kernel.across else 1

    def _widest(self) -> int:
        """Bytes of one member's sums, in the reduction that has most."""
        return max((sum(r.dtype.itemsize for r in reduce.results) for reduce in _reductions(self.kernel.body)), default=0)

    def _results_bytes(self) -> int:
        return -(-self._widest() * self._columns() // 16) * 16


def _reductions(body: tuple[Any, ...]) -> Iterator[Reduce]:
    """The reductions that a team may share out: none inside a reduction or a ForEach."""
    for statement in body:
        if isinstance(statement, Reduce):
            yield statement
        elif isinstance(statement, If):
            yield from _reductions(statement.body)
        elif isinstance(statement, Loop):
            yield from _reductions((*statement.guard, *statement.body))


def _shuffled(call: str, mask: str, total: str, value: Value, lane: int | str, width: int) -> str:
    """A shuffle of one value; narrow ones travel as int, which shuffles know."""
    dtype = value.dtype
    inner = total if dtype.itemsize >= 4 else f"(i32){total}"
    text = f"{call}({mask}, {inner}, {lane}, {width})"
    return text if dtype.itemsize >= 4 else f"({dtype.short}){text}"
