"""Where a program's buffers are, and how its runtime scalars are passed."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from gla.errors import InternalError
from gla.runtime.memory.block import Storage
from gla.runtime.memory.pool import Pool
from gla.runtime.program import Program
from gla.runtime.scalars import Packer, words_of

ALIGNMENT = 256


class Layout:
    """Where a program's buffers are: inputs and outputs by position, temporaries in an arena, a workspace behind them."""

    __slots__ = ("arena_bytes", "buffers", "input_bytes", "nbytes", "outputs", "packer", "written")

    def __init__(self, program: Program, pool: Pool) -> None:
        plan = program.plan
        workspace = -(-plan.arena_bytes // ALIGNMENT) * ALIGNMENT
        self.buffers = (*((b.kind, b.index, b.offset) for b in plan.buffers), ("temporary", -1, workspace))
        self.input_bytes = tuple(plan.buffers[b].nbytes for b in plan.inputs)
        self.nbytes = (*self.input_bytes, *(plan.buffers[b].nbytes for b in plan.outputs))
        self.outputs = tuple((pool.bin(plan.buffers[b].nbytes), plan.buffers[b].nbytes) for b in plan.outputs)
        written = {plan.buffers[b].index for b, _ in plan.writes}
        self.written = tuple(k in written for k in range(len(plan.inputs)))
        self.arena_bytes = workspace + program.workspace_bytes
        self.packer = Packer([node.dtype for node in plan.scalars])

    def words(self, scalars: Sequence[Any]) -> list[int]:
        """The runtime scalars as words. RangeError or DtypeError for one that does not fit."""
        return list(words_of(self.pack(scalars)))

    def pack(self, scalars: Sequence[Any]) -> bytes:
        """The runtime scalars as bytes."""
        try:
            return self.packer.pack(*scalars)
        except (OverflowError, struct.error, TypeError, ValueError) as error:
            raise self.packer.explain(scalars, error) from None

    def addresses(self, arena: int, boundary: Sequence[int]) -> list[int]:
        """Per buffer its address; `boundary`: the inputs' addresses, then the outputs'."""
        inputs = len(self.input_bytes)
        found = []
        for kind, index, offset in self.buffers:
            if kind == "input":
                found.append(boundary[index])
            elif kind == "output":
                found.append(boundary[inputs + index])
            else:
                found.append(arena + offset)
        return found

    def boundary(self) -> list[int]:
        """Per buffer its place in the boundary, or -1."""
        inputs = len(self.input_bytes)
        return [index if kind == "input" else inputs + index if kind == "output" else -1 for kind, index, _ in self.buffers]


def check_inputs(program: Program, inputs: Sequence[Storage]) -> None:
    """A fault of gla: the number or the sizes of the inputs are not the plan's."""
    sizes = tuple(program.plan.buffers[b].nbytes for b in program.plan.inputs)
    given = tuple(storage.nbytes for storage in inputs)
    if sizes != given:
        raise InternalError("GLA9905", f"inputs of {given} bytes were given to a plan that reads {sizes}")
