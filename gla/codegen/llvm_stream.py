"""Stores that pass the caches by, for results that are larger than what the caches hold.

An ordinary store reads the line that it overwrites: of four arrays that `max(a*b + 2*a - b, 0)` moves one is moved for
nothing. A kernel whose stores run along with its items gets a second loop, which is taken when its items are many. The rest
of the items, and everything else, is left to the ordinary loop. Used by the LLVM printer alone.
"""

from __future__ import annotations

from gla.codegen.kernel import Compute, Constant, Kernel, Load, Store
from gla.codegen.llvm_control import Statements
from gla.codegen.llvm_text import Operand

LANES = 64  # items of a vector: whole lines of 64 bytes, whatever the dtype
LARGE = 32 << 20  # bytes of results from which on stores pass by
MOST = 48  # statements of a body that memory, not arithmetic, limits


def streams(kernel: Kernel) -> bool:
    """Whether the kernel gets the second loop."""
    stores = [s for s in kernel.body if isinstance(s, Store)]
    return (
        0 < len(kernel.body) <= MOST
        and all(isinstance(s, (Constant, Compute, Load, Store)) for s in kernel.body)
        and not any(isinstance(s, Compute) and s.op in ("call", "apply") for s in kernel.body)
        and bool(stores)
        and all(s.index is kernel.item for s in stores)
    )


class Streaming(Statements):
    """What `llvm.Function` inherits. `passing`: the metadata of stores that pass by, while such a loop is printed."""

    passing = ""

    def streamed(self, start: str, stop: str) -> str:
        """The second loop over start .. stop; gives the item where the ordinary one goes on."""
        kind = self.index_kind
        kernel = self.kernel
        stores = [s for s in kernel.body if isinstance(s, Store)]
        nbytes = sum(kernel.parameters[s.pointer].dtype.itemsize for s in stores)
        many = self.emit(f"icmp sge {kind} {self.use(kernel.items).text}, {-(-LARGE // nbytes)}")
        places = [self.emit(f"ptrtoint ptr %p{s.pointer} to i64") for s in stores]
        places.append(self.emit(f"zext {kind} {start} to i64") if kind == "i32" else start)
        together = places[0]
        for place in places[1:]:
            together = self.emit(f"or i64 {together}, {place}")
        low = self.emit(f"and i64 {together}, {LANES - 1}")
        taken = self.emit(f"and i1 {many}, {self.emit(f'icmp eq i64 {low}, 0')}")
        before, passing, ordinary = self.label, self.new_label("passing"), self.new_label("ordinary")
        self.do(f"br i1 {taken}, label %{passing}, label %{ordinary}")
        self.begin(passing)
        blocks = self.emit(f"sdiv {kind} {self.emit(f'sub nsw {kind} {stop}, {start}')}, {LANES}")
        self.lanes, self.passing = LANES, f", !nontemporal {self.node('!{i32 1}')}"
        with self.counted(blocks, kind, stem="block") as loop:
            at = self.emit(f"add nsw {kind} {start}, {self.emit(f'mul nsw {kind} {loop.counter}, {LANES}')}")
            self.env[kernel.item.id] = self.consecutive(at, self.index)
            self.counting.add(kernel.item.id)
            self.statements(kernel.body)
        self.lanes, self.passing = 1, ""
        self.do("fence seq_cst")  # what passed by is seen before whatever says that the work is done
        end = self.emit(f"add nsw {kind} {start}, {self.emit(f'mul nsw {kind} {blocks}, {LANES}')}")
        after = self.label
        self.branch(ordinary)
        self.begin(ordinary)
        return self.emit(f"phi {kind} [ {start}, %{before} ], [ {end}, %{after} ]")

    def _vector_store(self, address: str, kind: str, size: int, index: Operand, text: str) -> None:
        if not self.passing:
            super()._vector_store(address, kind, size, index, text)
            return
        self.do(f"store {self.vector(kind)} {text}, ptr {address}, align 64{self.passing}")
