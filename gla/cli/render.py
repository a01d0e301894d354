"""Diagnostics for people, programs and GitHub; colours where a terminal shows them.

Colours: `--color always|never|auto`; auto is a terminal, without NO_COLOR and with a TERM that is not `dumb`.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from gla.errors import Diagnostic, Label, render_text

RED, GREEN, YELLOW, BLUE, CYAN, BOLD = "31", "32", "33", "34", "36", "1"
SEVERITY = {"error": RED, "warning": YELLOW, "note": CYAN}
_SIGNS = re.compile(r"\^+|-+")
_colour = "auto"


def set_colour(when: str) -> None:
    """What --color said."""
    global _colour
    _colour = when


def colours(stream: TextIO) -> bool:
    """Whether to colour what goes to `stream`."""
    if _colour != "auto":
        return _colour == "always"
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and is_terminal(stream)


def cursor_moves(stream: TextIO) -> bool:
    """Whether a line on the stream can be drawn over."""
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at the stream."""
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def paint(text: str, *styles: str, stream: TextIO | None = None) -> str:
    """The text in those styles, if the stream (stderr) shows them."""
    return f"\x1b[{';'.join(styles)}m{text}\x1b[0m" if text and colours(stream or sys.stderr) else text


def say(text: str, severity: str = "") -> None:
    """A line on stderr."""
    if severity:
        head, colon, rest = text.partition(":")
        text = paint(head + colon, SEVERITY[severity], BOLD) + rest
    print(text, file=sys.stderr, flush=True)


# ---------------------------------------------------------------- text


def diagnostic(found: Diagnostic, stream: TextIO | None = None) -> None:
    """A diagnostic as text with carets, on stderr."""
    stream = stream or sys.stderr
    text = render_text(found)
    print(coloured(text, found.severity) if colours(stream) else text, file=stream, flush=True)


def coloured(text: str, severity: str) -> str:
    """The lines of `render_text`, painted."""
    colour = SEVERITY[severity]
    head, *lines = text.split("\n")
    title, colon, message = head.partition(": ")
    out = [f"\x1b[{colour};1m{title}\x1b[0m{colon}\x1b[1m{message}\x1b[0m"]
    for line in lines:
        if found := re.match(r"( *)(-->|:::)( .*)", line):
            out.append(f"{found[1]}\x1b[{BLUE};1m{found[2]}\x1b[0m{found[3]}")
        elif found := re.match(r"( *\d+ \|)(.*)", line):
            out.append(f"\x1b[{BLUE};1m{found[1]}\x1b[0m{found[2]}")
        elif found := re.match(r"( +\|)(.*)", line):
            out.append(f"\x1b[{BLUE};1m{found[1]}\x1b[0m{_painted_signs(found[2], colour)}")
        elif found := re.match(r"( +=)( help:)?(.*)", line):
            word = f"\x1b[{GREEN};1m{found[2]}\x1b[0m" if found[2] else ""
            out.append(f"\x1b[{BLUE};1m{found[1]}\x1b[0m{word}{found[3]}")
        else:
            out.append(line)
    return "\n".join(out)


def _painted_signs(row: str, colour: str) -> str:
    lead = re.match(r" *(?:(?:\^+|-+) *)*", row)
    signs = lead[0] if lead else ""
    painted = _SIGNS.sub(lambda m: f"\x1b[{colour if m[0][0] == '^' else BLUE};1m{m[0]}\x1b[0m", signs)
    return painted + row[len(signs) :]


# ---------------------------------------------------------------- JSON and GitHub


def as_data(found: Diagnostic) -> dict[str, Any]:
    """A diagnostic as plain data. Lines and columns count from 1, bytes from 0 in the UTF-8 file; ends are exclusive."""
    return {
        "code": found.code,
        "severity": found.severity,
        "message": found.message,
        "labels": [_label(found, label) for label in found.labels],
        "notes": list(found.notes),
        "help": list(found.help),
    }


def _label(found: Diagnostic, label: Label) -> dict[str, Any]:
    span = label.span
    end_line = span.end_line or span.line
    source = _source(found, label)
    line = _line(source, end_line)
    end_column = span.end_column or len(line) + 1
    return {
        "file": span.file,
        "start": {"line": span.line, "column": span.column, "byte": _byte(source, span.line, span.column)},
        "end": {"line": end_line, "column": end_column, "byte": _byte(source, end_line, end_column)},
        "text": label.text,
    }


def _source(found: Diagnostic, label: Label) -> str | None:
    if found.source is not None and found.span is not None and label.span.file == found.span.file:
        return found.source
    try:
        return Path(label.span.file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None


def _line(source: str | None, number: int) -> str:
    lines = source.split("\n") if source is not None else []
    return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""


def _byte(source: str | None, line: int, column: int) -> int | None:
    if source is None:
        return None
    lines = source.split("\n")
    before = sum(len(text.encode()) + 1 for text in lines[: line - 1])
    here = lines[line - 1] if line <= len(lines) else ""
    return before + len(here[: column - 1].encode())


def as_json(found: Iterable[Diagnostic]) -> str:
    return json.dumps([as_data(one) for one in found], indent=2, ensure_ascii=False)


def as_github(found: Diagnostic) -> str:
    """A workflow command: GitHub shows it at the line."""
    level = {"error": "error", "warning": "warning", "note": "notice"}[found.severity]
    place = ""
    if (span := found.span) is not None:
        place = f"file={_property(span.file)},line={span.line},col={span.column},"
        if span.end_column:
            place += f"endLine={span.end_line or span.line},endColumn={span.end_column},"
    text = "\n".join([found.message, *found.notes, *(f"help: {line}" for line in found.help)])
    return f"::{level} {place}title={found.code}::{_escaped(text)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
