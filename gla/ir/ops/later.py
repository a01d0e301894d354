"""Expansions by name: a program that finds its kernels on disk expands nothing, and then their modules are not loaded."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


class Later:
    """A module of this room as it looks to the rows: `Later("arcs").asin` is a function that loads `arcs` when it is called."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def expand(*values: Any) -> Any:
            return getattr(import_module(f"gla.ir.ops.{self._module}"), name)(*values)

        return expand
