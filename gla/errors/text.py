"""A diagnostic as plain text with carets: what `str(error)` shows. Colours and JSON are the command's work.

Labels that lie on one line share it: `^` under the first label of the diagnostic, `-` under the others, texts hanging
below when there are several. Tabs are shown as four blanks, wide characters count two columns, and of a long line only
a window round the label is shown.
"""

from __future__ import annotations

import linecache
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from gla.errors.diagnostic import Diagnostic, Label

# A longer source line is shown as a window of this many columns round the caret.
WINDOW = 160
TAB = 4
CUT = "..."


@dataclass(frozen=True, slots=True)
class Mark:
    """A label on a shown line: columns from 0, `end` exclusive."""

    start: int
    end: int
    sign: str
    text: str


def render_text(diagnostic: Diagnostic) -> str:
    """The diagnostic as text: headline, source lines with a caret under each label, notes and help."""
    return "\n".join(_lines(diagnostic))


def _lines(diagnostic: Diagnostic) -> Iterator[str]:
    yield f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}"
    margin = " " * max((len(str(label.span.line)) for label in diagnostic.labels), default=1)
    unseen: list[Label] = []
    for arrow, labels in _by_file(diagnostic):
        yield f"{margin}{arrow} {labels[0].span}"
        yield from _snippet(diagnostic, labels, len(margin), unseen)
    for label in unseen:
        if label.text:
            yield f"{margin} = {label.span}: {label.text}"
    for note in diagnostic.notes:
        yield _hang(f"{margin} = ", note)
    for text in diagnostic.help:
        yield _hang(f"{margin} = help: ", text)


def _by_file(diagnostic: Diagnostic) -> Iterator[tuple[str, list[Label]]]:
    """(arrow, labels) for each file, that of the first label first."""
    files = list(dict.fromkeys(label.span.file for label in diagnostic.labels))
    for file in files:
        yield ("-->" if file == files[0] else ":::"), [label for label in diagnostic.labels if label.span.file == file]


def _snippet(diagnostic: Diagnostic, labels: list[Label], width: int, unseen: list[Label]) -> Iterator[str]:
    """The lines that the labels of one file lie on, in order; labels that cannot be shown are added to `unseen`."""
    before = 0
    for number in sorted({label.span.line for label in labels}):
        here = [label for label in labels if label.span.line == number]
        line = source_line(diagnostic, here[0])
        if line is None:
            unseen.extend(here)
            continue
        if not before:
            yield f"{' ' * width} |"
        elif number > before + 1:
            yield "..."
        before = number
        shown, marks = _shown(line, here, diagnostic.labels[0], unseen)
        yield f"{number:>{width}} | {shown}".rstrip()
        for row in _mark_rows(marks):
            yield f"{' ' * width} | {row}".rstrip()


def source_line(diagnostic: Diagnostic, label: Label) -> str | None:
    """The line of source that a label points into, or None when the text cannot be had."""
    first = diagnostic.span
    if diagnostic.source is not None and first is not None and label.span.file == first.file:
        lines = diagnostic.source.split("\n")
        return lines[label.span.line - 1].rstrip("\r") if 0 < label.span.line <= len(lines) else ""
    line = linecache.getline(label.span.file, label.span.line)
    return line.rstrip("\r\n") if line else None


def _shown(line: str, labels: list[Label], first: Label, unseen: list[Label]) -> tuple[str, list[Mark]]:
    """The line as printed, and the marks under it from left to right."""
    text, columns = _expand(line)
    marks = []
    for label in labels:
        start, end = _extent(line, label)
        columns_at = [columns[min(k, len(line))] + max(0, k - len(line)) for k in (start, end)]
        marks.append(Mark(columns_at[0], max(columns_at[1], columns_at[0] + 1), "^" if label is first else "-", label.text))
    if len(text) > WINDOW:
        return _window(text, marks, labels, unseen)
    return text, sorted(marks, key=lambda mark: (mark.start, mark.end))


def _expand(line: str) -> tuple[str, list[int]]:
    """(the line with its tabs as blanks, the column at which each character and the end is shown)."""
    shown: list[str] = []
    columns = [0]
    for char in line:
        if char == "\t":
            shown.append(" " * TAB)
            columns.append(columns[-1] + TAB)
        else:
            wide = 0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
            shown.append(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}")
            columns.append(columns[-1] + wide)
    return "".join(shown), columns


def _extent(line: str, label: Label) -> tuple[int, int]:
    """Offsets into the line that a label covers; a label without columns covers the line's text."""
    span = label.span
    if not span.end_column:
        start = len(line) - len(line.lstrip())
        return start, len(line.rstrip())
    return span.column - 1, span.end_column - 1 if span.end_line in (0, span.line) else len(line)


def _window(text: str, marks: list[Mark], labels: list[Label], unseen: list[Label]) -> tuple[str, list[Mark]]:
    """A part of a long line round its most important mark, with the marks that lie in it."""
    centre = next((mark for mark in marks if mark.sign == "^"), marks[0])
    left = max(0, min(centre.start - WINDOW // 2, len(text) - WINDOW))
    head = CUT if left else ""
    tail = CUT if left + WINDOW < len(text) else ""
    kept = []
    for mark, label in zip(marks, labels):
        start, end = max(mark.start, left), min(mark.end, left + WINDOW)
        if start < end or mark is centre:
            shift = len(head) - left
            kept.append(Mark(start + shift, max(end, start + 1) + shift, mark.sign, mark.text))
        else:
            unseen.append(label)
    return head + text[left : left + WINDOW] + tail, sorted(kept, key=lambda mark: (mark.start, mark.end))


def _mark_rows(marks: list[Mark]) -> Iterator[str]:
    """The rows under a line: the signs, then the texts; a single text at the right end stands on the row of the signs."""
    row = ""
    # The first label's sign wins where marks overlap.
    for mark in sorted(marks, key=lambda mark: mark.sign == "^"):
        row = row.ljust(mark.end)
        row = row[: mark.start] + mark.sign * (mark.end - mark.start) + row[mark.end :]
    told = [mark for mark in marks if mark.text]
    if len(told) == 1 and told[0].end >= len(row):
        yield f"{row} {told[0].text}"
        return
    yield row
    while told:
        last = told.pop()
        bars = ""
        for mark in told:
            if mark.start < last.start:
                bars = bars.ljust(mark.start) + ("|" if len(bars) <= mark.start else "")
        yield bars.ljust(last.start) + last.text


def _hang(head: str, text: str) -> str:
    """A text of several lines, the later ones indented below the first."""
    return head + text.replace("\n", "\n" + " " * len(head))
