"""The buffers of a plan while it is made: numbered in order of creation, placed in the arena at the end."""

from __future__ import annotations

from gla.dtypes import DType
from gla.plan.steps import Buffer


class Buffers:
    """Gives out buffer ids. Temporaries get their offset and lifetime from arena.py."""

    def __init__(self) -> None:
        self.all: list[Buffer] = []

    def __getitem__(self, number: int) -> Buffer:
        return self.all[number]

    def add(self, dtype: DType, shape: tuple[int, ...], kind: str, index: int = -1) -> int:
        number = len(self.all)
        self.all.append(Buffer(number, dtype, shape, kind, index))
        return number

    def temporary(self, dtype: DType, shape: tuple[int, ...]) -> int:
        return self.add(dtype, shape, "temporary")
