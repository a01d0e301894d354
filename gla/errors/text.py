"""A diagnostic as plain text with carets: what `str(error)` shows. Colours and JSON are the command's work."""

from __future__ import annotations

import linecache
from collections.abc import Iterator

from gla.errors.diagnostic import Diagnostic, Label

# A longer source line is shown as a window of this many characters round the caret.
WINDOW = 160


def render_text(diagnostic: Diagnostic) -> str:
    """The diagnostic as text: headline, source lines with a caret under each label, notes and help."""
    return "\n".join(_lines(diagnostic))


def _lines(diagnostic: Diagnostic) -> Iterator[str]:
    yield f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}"
    width = max((len(str(label.span.line)) for label in diagnostic.labels), default=1)
    previous_file = None
    for label in diagnostic.labels:
        if label.span.file != previous_file:
            yield f"{' ' * width}--> {label.span}"
            previous_file = label.span.file
        line = source_line(diagnostic, label)
        if line is None:
            if label.text:
                yield f"{' ' * width} = {label.span}: {label.text}"
            continue
        shown, pad, marks = caret_line(line, label)
        yield f"{' ' * width} |"
        yield f"{label.span.line:>{width}} | {shown}"
        yield f"{' ' * width} | {pad}{marks} {label.text}".rstrip()
    for note in diagnostic.notes:
        yield f"{' ' * width} = note: {note}"
    for text in diagnostic.help:
        yield f"{' ' * width} = help: {text}"


def source_line(diagnostic: Diagnostic, label: Label) -> str | None:
    """The line of source that a label points into, or None when the text cannot be had."""
    if diagnostic.source is not None:
        lines = diagnostic.source.splitlines()
        return lines[label.span.line - 1] if 0 < label.span.line <= len(lines) else ""
    line = linecache.getline(label.span.file, label.span.line)
    return line.rstrip("\n") if line else None


def caret_line(line: str, label: Label) -> tuple[str, str, str]:
    """(shown line, padding that keeps tabs, carets) for one label."""
    span = label.span
    start = span.column - 1
    if not span.end_column:
        start = len(line) - len(line.lstrip())
        end = max(len(line.rstrip()), start + 1)
    else:
        end = span.end_column - 1 if span.end_line in (0, span.line) else len(line)
    end = max(end, start + 1)
    if len(line) > WINDOW:
        left = max(0, start - WINDOW // 2)
        line, start, end = line[left : left + WINDOW], start - left, min(end - left, WINDOW)
    pad = "".join("\t" if c == "\t" else " " for c in line[:start]).ljust(start)
    return line, pad, "^" * max(1, end - start)
