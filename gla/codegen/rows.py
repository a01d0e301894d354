"""Kernels whose items are divided into rows: item = row * columns + column, for an extent that the body divides by.

Who walks rows and columns apart divides once a thread, not once an item, and computes what a column has in common once for many
rows. Asked by the CUDA printer and by whoever launches; bits do not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gla.codegen.kernel import Compute, Constant, Kernel, Load, Statement, Value


@dataclass(frozen=True, slots=True)
class Rows:
    """`columns`: the extent. `row`, `column`: what the body calls the quotient, and the rest (None when it does not ask).
    `fixed`: statements of a column alone, in order; `moving`: the others."""

    columns: Value
    row: Value
    column: Value | None
    fixed: tuple[Statement, ...]
    moving: tuple[Statement, ...]


def columns_of(kernel: Kernel) -> Value | None:
    """The extent parameter by which a kernel without teams first divides its item, or None."""
    if kernel.team != 1:
        return None
    extents = {p.value for p in kernel.parameters if p.kind == "extent"}
    for s in kernel.body:
        if isinstance(s, Compute) and s.op == "idiv" and s.args[0] is kernel.item:
            return s.args[1] if s.args[1] in extents else None
    return None


def rows_of(kernel: Kernel) -> Rows | None:
    """The kernel's body taken apart, or None where `columns_of` finds nothing."""
    columns = columns_of(kernel)
    if columns is None:
        return None
    quotients = [s for s in kernel.body if isinstance(s, Compute) and s.op == "idiv" and s.args == (kernel.item, columns)]
    row = quotients[0].result
    starts = {
        s.result for s in kernel.body if isinstance(s, Compute) and s.op == "mul" and s.args in ((row, columns), (columns, row))
    }
    column: Value | None = None
    needing = {kernel.item, row}
    fixed: list[Statement] = []
    moving: list[Statement] = []
    for s in kernel.body:
        if s is quotients[0]:
            continue
        if isinstance(s, Compute) and s.op == "sub" and s.args[0] is kernel.item and s.args[1] in starts and column is None:
            column = s.result
        elif isinstance(s, Constant) or (isinstance(s, Compute | Load) and needing.isdisjoint(_arguments(s))):
            fixed.append(s)
        else:
            moving.append(s)
            needing.update(_results(s))
    return Rows(columns, row, column, tuple(fixed), tuple(moving))


def _arguments(s: Compute | Load) -> tuple[Value, ...]:
    return s.args if isinstance(s, Compute) else (s.index,)


def _results(s: Statement) -> tuple[Value, ...]:
    return (s.result,) if isinstance(s, Constant | Compute | Load) else getattr(s, "results", ())
