"""A kernel's functions as CUDA C++ functions, which are always put in place where they are applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gla.codegen.cuda_scalars import name
from gla.codegen.kernel import Function, Kernel, Value
from gla.dtypes import int32


def print_function(function: Function, printer: Callable[[Kernel], Any]) -> list[str]:
    """Its lines. `printer` makes the printer of its body."""
    index = Value(-1, int32)
    inside = printer(Kernel(function.name, (), index, index, function.body))
    inside.uses[function.result.id] += 1
    parameters = ", ".join(f"const {p.dtype.short} {name(p)}" for p in function.parameters)
    with inside.text.block(f"static __device__ __forceinline__ {function.result.dtype.short} {function.name}({parameters})"):
        inside.statements(function.body)
        inside.text.line(f"return {name(function.result)};")
    return ["", *inside.text.lines]
