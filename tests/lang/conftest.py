"""What the tests of the language share: texts evaluated by the reference interpreter, checked, or run on the host device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gla.errors import Diagnostic
from gla.ir import reference
from gla.ir.graph import Graph
from gla.lang.engine import DryEngine
from gla.lang.parser import parse_expression
from gla.lang.program import Program, load
from gla.lang.session import Session
from gla.lang.toplevel import scope_of
from gla.lang.values import leaves


class Lines:
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.notes: list[str] = []
        self.steps: list[tuple[int, int]] = []

    def print_line(self, text: str) -> None:
        self.lines.append(text)

    def progress(self, step: int, total: int, fields: Any) -> None:
        self.steps.append((step, total))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def wrote(self, path: Any) -> None:
        return


def evaluate_text(expression: str, program: str = "") -> Any:
    """The value of an expression over the items of a program, by the NumPy reference: an array, or a tuple of arrays."""
    unit = load(program, "p.gla")
    ctx = unit.context(DryEngine())
    with ctx.lowering():
        value = ctx.expr(scope_of(ctx, unit.tree), parse_expression(expression))
        nodes = tuple(leaves(value))
    results = reference.evaluate(Graph((), nodes), [])[0]
    return results[0] if len(results) == 1 else tuple(results)


def check_text(program: str) -> list[Diagnostic]:
    return load(program, "p.gla").diagnostics()


def run_text(program: str, **settings: Any) -> tuple[Session, Lines]:
    """A program run on the host device: (session, what it said)."""
    lines = Lines()
    session = Session(load(program, "p.gla"), device="host", reporter=lines, **settings)
    session.run()
    return session, lines


@pytest.fixture
def evaluate() -> Callable[..., np.ndarray]:
    return evaluate_text


@pytest.fixture
def check() -> Callable[[str], list[Diagnostic]]:
    return check_text


@pytest.fixture
def codes() -> Callable[[str], list[str]]:
    """The codes of what `gla check` finds."""
    return lambda program: [d.code for d in check_text(program)]


@pytest.fixture
def run() -> Callable[..., tuple[Session, Lines]]:
    return run_text


@pytest.fixture
def unit() -> Callable[[str], Program]:
    return lambda text: load(text, "p.gla")


@pytest.fixture
def lines_of() -> type[Lines]:
    """A reporter that keeps what it is told."""
    return Lines
