"""Stretches of items: runs of neighbours for which divisions and comparisons of indices do not change.

A kernel counts its items through. Where its body divides the item's number by an extent, or compares an index with one (the
wrap of a periodic shift, the seam of a concatenation), the quotient or the answer is the same for a run of items: it is
computed once, with the number of items for which it holds. Inside a stretch indices are then "lines" (start + 0, 1, 2, ...) and
loads by them read neighbours, which is what vectors want. Indices are not negative, as lowering promises; a stretch has one
item at least. Used by the LLVM printer alone.

A selection between a line and something else (the edge that repeats) is taken to be the line: `doubts` are its conditions. A
stretch for which one fails runs the body as it stands; `doubtful` values are then computed item by item.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gla.codegen.kernel import Compute, Constant, Kernel, Value
from gla.dtypes import DType, bool_, int32, int64

FLAT_OPS = {
    "add",
    "sub",
    "mul",
    "idiv",
    "irem",
    "band",
    "bor",
    "bxor",
    "bnot",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "select",
    "convert",
}
SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


@dataclass(frozen=True, slots=True)
class Settled:
    """A statement whose result is known over a stretch. kind: "flat" (one number) or "line" (counts up with the items).
    `limit`: how its end is found: "" (it has none of its own), "idiv", "irem", or a comparison of `line` with `bound`.
    `arm`: for a doubted selection, the argument that is the line."""

    statement: Compute | Constant
    kind: str
    limit: str = ""
    line: Value | None = None
    bound: Value | None = None
    arm: int = 0


@dataclass(slots=True)
class Stretches:
    settled: list[Settled] = field(default_factory=list)
    kinds: dict[int, str] = field(default_factory=dict)
    doubtful: set[int] = field(default_factory=set)

    @property
    def useful(self) -> bool:
        return any(s.limit for s in self.settled)

    @property
    def doubts(self) -> list[Settled]:
        return [s for s in self.settled if s.arm]


def stretches(kernel: Kernel) -> Stretches:
    """What is settled over a stretch, in order of computation."""
    index = int64 if kernel.wide else int32
    found = Stretches()
    for parameter in kernel.parameters:
        if parameter.kind == "extent" and parameter.value is not None:
            found.kinds[parameter.value.id] = "flat"
    found.kinds[kernel.item.id] = "line"
    for s in kernel.body:
        settled = None
        if isinstance(s, Constant) and s.result.dtype is index:
            settled = Settled(s, "flat")
        elif isinstance(s, Compute) and s.op in FLAT_OPS and s.result.dtype in (index, bool_):
            settled = _settle(s, index, found)
        if settled is not None:
            found.settled.append(settled)
            result = settled.statement.result
            found.kinds[result.id] = settled.kind
            if settled.arm or (isinstance(s, Compute) and any(a.id in found.doubtful for a in s.args)):
                found.doubtful.add(result.id)
    return found


def _settle(s: Compute, index: DType, found: Stretches) -> Settled | None:
    kinds = tuple(found.kinds.get(a.id, "") for a in s.args)
    if s.op == "select" and s.result.dtype is index and kinds[0] == "flat" and kinds[1:] != ("flat", "flat"):
        if "line" not in kinds[1:]:
            return None
        return Settled(s, "line", arm=0 if kinds[1] == kinds[2] else 1 + kinds[1:].index("line"))
    if "" in kinds or any(a.dtype not in (index, bool_) for a in s.args):
        return None
    if all(kind == "flat" for kind in kinds):
        return Settled(s, "flat")
    if s.op in ("idiv", "irem") and kinds == ("line", "flat"):
        return Settled(s, "flat" if s.op == "idiv" else "line", s.op, line=s.args[0], bound=s.args[1])
    if s.op in SWAPPED and kinds in (("line", "flat"), ("flat", "line")):
        a, b = s.args
        return Settled(s, "flat", s.op, a, b) if kinds[0] == "line" else Settled(s, "flat", SWAPPED[s.op], b, a)
    if s.op == "sub" and kinds == ("line", "line"):
        return Settled(s, "flat")
    if (s.op == "add" and sorted(kinds) == ["flat", "line"]) or (s.op == "sub" and kinds == ("line", "flat")):
        return Settled(s, "line")
    return None
