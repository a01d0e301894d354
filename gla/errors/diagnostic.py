"""A diagnostic is data: what is wrong, where, what was given, what to do. Printing it is another file's work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source text. Lines and columns count from 1; `end_column` is one past the last character."""

    file: str
    line: int
    column: int = 1
    end_line: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.column > 1 or self.end_column else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Label:
    """A span and what it shows there. The first label of a diagnostic is its place."""

    span: Span
    text: str = ""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `code` is `GLA` and four digits; `source` is the text of the file, when it is not on disk."""

    code: str
    message: str
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    help: tuple[str, ...] = ()
    severity: Severity = "error"
    source: str | None = None

    @property
    def span(self) -> Span | None:
        """Where the finding is, or None when it has no place in a file."""
        return self.labels[0].span if self.labels else None
