"""A kernel's functions as CUDA C++ functions.

They are put in place where they are applied. A kernel that applies functions with rare work runs them *hopefully*: quick
versions, which leave the rare work out and set `rare` where it was needed, without a branch in between; then, where it was, the
whole item once more, by functions that are called. The values are the same, and a chain of sines waits for no branch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gla.codegen.cuda_scalars import name
from gla.codegen.kernel import Compute, Constant, Function, Kernel, Load, Store, Value
from gla.codegen.rare import Rare, uses, with_branches
from gla.dtypes import int32


def hopeful(kernel: Kernel) -> bool:
    """Whether the kernel is run hopefully: straight, and with rare work in its functions alone."""
    if not kernel.functions or kernel.team != 1:
        return False
    if not all(isinstance(s, Constant | Compute | Load | Store) for s in kernel.body):
        return False
    if any(s.op == "apply" for f in kernel.functions for s in f.body if isinstance(s, Compute)):
        return False
    return any(_has_rare(f) for f in kernel.functions)


def _has_rare(function: Function) -> bool:
    total = uses(function.body)
    total[function.result.id] += 1
    return any(isinstance(s, Rare) for s in with_branches(function.body, total))


def print_functions(kernel: Kernel, printer: Callable[[Kernel], Any]) -> list[str]:
    """The lines of all functions; twice for a kernel that is run hopefully."""
    out: list[str] = []
    for function in kernel.functions:
        if hopeful(kernel):
            out += print_function(function, printer, "quick")
            out += print_function(function, printer, "called")
        else:
            out += print_function(function, printer)
    return out


def print_function(function: Function, printer: Callable[[Kernel], Any], way: str = "") -> list[str]:
    """Its lines. `printer` makes the printer of its body. `way`: quick, called, or in place."""
    index = Value(-1, int32)
    inside = printer(Kernel(function.name, (), index, index, function.body))
    inside.uses[function.result.id] += 1
    parameters = ", ".join(f"const {p.dtype.short} {name(p)}" for p in function.parameters)
    inside.way = way
    place, name_ = "__noinline__" if way == "called" else "__forceinline__", function.name
    if way == "quick":
        name_, parameters = f"{name_}_quick", f"{parameters}, bool& rare"
    with inside.text.block(f"static __device__ {place} {function.result.dtype.short} {name_}({parameters})"):
        inside.statements(function.body)
        inside.text.line(f"return {name(function.result)};")
    return ["", *inside.text.lines]
