"""Building blocks of LLVM IR text: operands, types, constants, names, blocks, metadata. Used by the LLVM printer alone.

The text uses nothing newer than LLVM 20 (llvmlite 0.45).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from gla.dtypes import DType, float32, int32, int64

TYPES = {
    "bool": "i1",
    "int8": "i8",
    "uint8": "i8",
    "int16": "i16",
    "uint16": "i16",
    "int32": "i32",
    "uint32": "i32",
    "int64": "i64",
    "uint64": "i64",
    "float32": "float",
    "float64": "double",
}
SUFFIXES = {"i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "float": "f32", "double": "f64"}


@dataclass(frozen=True, slots=True)
class Operand:
    """A value as the text names it. `varying`: a vector, one lane an item; else a scalar that all lanes share.
    `first`: for an integer vector of consecutive numbers, the scalar in lane 0."""

    text: str
    dtype: DType
    varying: bool = False
    first: str | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """A loop being written: its counter, the block it is entered from, the lines kept for its phis."""

    counter: str
    before: str
    phis: tuple[int, ...]


def memory_type(dtype: DType) -> str:
    """How an element lies in memory: a bool is a byte."""
    return "i8" if dtype.kind == "b" else TYPES[dtype.name]


def literal(value: Any, dtype: DType) -> str:
    """A constant of `dtype`; floats as the hexadecimal digits of a double, as LLVM writes both widths, so that bits are exact."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        return str(int(value))
    if dtype is not float32:
        return f"0x{struct.unpack('<Q', np.asarray(value, np.float64).tobytes())[0]:016X}"
    bits = struct.unpack("<I", np.asarray(value, np.float32).tobytes())[0]
    if bits & 0x7F800000 == 0x7F800000:  # infinities and NaNs: widen the fields, a conversion would quiet a NaN
        wide = (bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29
    else:
        wide = struct.unpack("<Q", np.asarray(value, np.float32).astype(np.float64).tobytes())[0]
    return f"0x{wide:016X}"


class Text:
    """A function's body while it is written: lines, fresh names, the current block, declarations and metadata."""

    def __init__(self, lanes: int = 1) -> None:
        self.lanes = lanes
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.declarations: dict[str, None] = {}
        self.metadata: list[str] = []
        self.label = "entry"
        self._names = 0

    # --- names, instructions, blocks
    def fresh(self) -> str:
        self._names += 1
        return f"%t{self._names}"

    def emit(self, expression: str) -> str:
        name = self.fresh()
        self.lines.append(f"  {name} = {expression}")
        return name

    def do(self, instruction: str) -> None:
        self.lines.append(f"  {instruction}")

    def new_label(self, stem: str) -> str:
        self._names += 1
        return f"{stem}{self._names}"

    def begin(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label = label

    def branch(self, label: str, metadata: str = "") -> None:
        self.do(f"br label %{label}{metadata}")

    def reserve(self) -> int:
        """Keep a line free for a phi, whose last operand is not known yet."""
        self.lines.append("")
        return len(self.lines) - 1

    def declare(self, text: str) -> None:
        self.declarations[f"declare {text}"] = None

    # --- metadata
    def node(self, text: str) -> str:
        self.metadata.append(f"!{len(self.metadata)} = {text}")
        return f"!{len(self.metadata) - 1}"

    def loop_metadata(self, *facts: str) -> str:
        """The suffix of a loop's closing branch that states `facts` (metadata nodes) about the loop."""
        own = f"!{len(self.metadata)}"
        self.node(f"distinct !{{{', '.join((own, *facts))}}}")
        return f", !llvm.loop {own}"

    # --- types and vectors
    def vector(self, scalar_type: str) -> str:
        return f"<{self.lanes} x {scalar_type}>"

    def type_of(self, operand: Operand) -> str:
        plain = TYPES[operand.dtype.name]
        return self.vector(plain) if operand.varying else plain

    def splat_text(self, text: str, scalar_type: str) -> str:
        kind = self.vector(scalar_type)
        one = self.emit(f"insertelement {kind} poison, {scalar_type} {text}, i64 0")
        return self.emit(f"shufflevector {kind} {one}, {kind} poison, <{self.lanes} x i32> zeroinitializer")

    def splat(self, operand: Operand) -> Operand:
        if operand.varying:
            return operand
        return Operand(self.splat_text(operand.text, TYPES[operand.dtype.name]), operand.dtype, True)

    def consecutive(self, first: str, dtype: DType) -> Operand:
        """first, first + 1, ... in the lanes."""
        kind = TYPES[dtype.name]
        steps = ", ".join(f"{kind} {lane}" for lane in range(self.lanes))
        text = self.emit(f"add {self.vector(kind)} {self.splat_text(first, kind)}, <{steps}>")
        return Operand(text, dtype, True, first)

    def any_lane(self, mask: str) -> str:
        kind = self.vector("i1")
        self.declare(f"i1 @llvm.vector.reduce.or.v{self.lanes}i1({kind})")
        return self.emit(f"call i1 @llvm.vector.reduce.or.v{self.lanes}i1({kind} {mask})")

    def both(self, mask: str | None, other: str) -> str:
        return other if mask is None else self.emit(f"and {self.vector('i1')} {mask}, {other}")

    # --- loops
    @contextmanager
    def counted(
        self, stop: str, kind: str, *, start: str = "0", stem: str = "loop", metadata: str = "", carries: int = 0
    ) -> Iterator[Counted]:
        """for i in start..stop, checked before the first trip; `carries` lines are kept free for phis."""
        head, body, done = self.new_label(stem), self.new_label(f"{stem}.body"), self.new_label(f"{stem}.done")
        before, counter = self.label, self.fresh()
        self.branch(head)
        self.begin(head)
        phi, *others = [self.reserve() for _ in range(carries + 1)]
        inside = self.emit(f"icmp slt {kind} {counter}, {stop}")
        self.do(f"br i1 {inside}, label %{body}, label %{done}")
        self.begin(body)
        yield Counted(counter, before, tuple(others))
        following = self.emit(f"add nsw {kind} {counter}, 1")
        self.lines[phi] = f"  {counter} = phi {kind} [ {start}, %{before} ], [ {following}, %{self.label} ]"
        self.branch(head, metadata)
        self.begin(done)

    def phi(self, line: int, own: Operand, before: str, init: Operand, following: Operand) -> None:
        """Fill a kept line: `own` is `init` when coming from block `before`, else `following`, from the current block."""
        kind = self.type_of(own)
        self.lines[line] = f"  {own.text} = phi {kind} [ {init.text}, %{before} ], [ {following.text}, %{self.label} ]"


def index_type(wide: bool) -> tuple[DType, str]:
    return (int64, "i64") if wide else (int32, "i32")
