"""What each parameter of a lowered kernel is for the region at hand: the runtime's recipe for its argument list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gla.codegen.kernel import Kernel, Product, Value
from gla.dtypes import DType

if TYPE_CHECKING:
    from gla.codegen.march import March


@dataclass(frozen=True, slots=True)
class InputPointer:
    """The address of the buffer that holds region.inputs[index]."""

    index: int


@dataclass(frozen=True, slots=True)
class OutputPointer:
    """The address of the buffer that region.outputs[index] goes to."""

    index: int


@dataclass(frozen=True, slots=True)
class RuntimeScalar:
    """The value of region.scalars[index]; of a complex one the part 0 (real) or 1 (imaginary).

    The parameter's dtype says how it is passed; float16 and bfloat16 as their bits.
    """

    index: int
    part: int | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """A number known when the plan is made: an extent, a stride, a start, a trip count, or a constant of the program
    that came from a size or a closure. float16 and bfloat16 are given as their bits."""

    value: int | float | bool
    dtype: DType


Argument = InputPointer | OutputPointer | RuntimeScalar | Number


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """`kernel` is the same for regions that differ in sizes alone; `items` (how many there are) and `arguments` (one for
    each of kernel.parameters, in order) are this region's. A product has (batches, rows, columns) in `extent`, a march (1, rows, columns)."""

    kernel: Kernel | March | Product
    items: int
    arguments: tuple[Argument, ...]
    extent: tuple[int, int, int] = (0, 0, 0)

    def number(self, extent: Value) -> int:
        """What an extent of the kernel is for this region; 0 for a value that is none."""
        for parameter, argument in zip(self.kernel.parameters, self.arguments):
            if parameter.value is extent and isinstance(argument, Number):
                return int(argument.value)
        return 0
