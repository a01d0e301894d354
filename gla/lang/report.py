"""How a running program talks to whoever started it: the command, a notebook, a test.

A session calls its reporter from the thread that runs it, between launches; a reporter that raises KeyboardInterrupt ends
the run as Ctrl-C does. The default says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol


class Reporter(Protocol):
    """What happens while a program runs."""

    def print_line(self, text: str) -> None:
        """A line that the program prints; without its line end."""

    def progress(self, step: int, total: int, fields: Mapping[str, Any]) -> None:
        """`step` of `total` trips of a loop of the run block are done. `fields`: the loop's variable (`name`), and values
        that an `output` without a file shows."""

    def note(self, text: str) -> None:
        """Something that the user should know and that is no error: a file that is replaced, a name written twice."""

    def wrote(self, path: Path) -> None:
        """A file is complete."""


class Silent:
    """The reporter that says nothing."""

    def print_line(self, text: str) -> None:
        return

    def progress(self, step: int, total: int, fields: Mapping[str, Any]) -> None:
        return

    def note(self, text: str) -> None:
        return

    def wrote(self, path: Path) -> None:
        return
