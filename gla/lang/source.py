"""A text under parsing and the spans in it. The text may be a hole of a string, which lies somewhere in a larger file."""

from __future__ import annotations

from dataclasses import dataclass

from gla.errors import GlaSyntaxError, Label, Span


@dataclass(frozen=True, slots=True)
class Source:
    """`text` is what is parsed; it begins at `line`, `column` of `whole`, the text of the file."""

    file: str
    text: str
    whole: str
    line: int = 1
    column: int = 1

    @classmethod
    def of_file(cls, text: str, file: str) -> Source:
        """A whole file; a byte order mark at its head is no part of the program."""
        text = text.removeprefix("\ufeff")
        return cls(file, text, text)

    def place(self, line: int, column: int, end_line: int, end_column: int) -> Span:
        """A span of the file, from lines and columns of `text`."""
        return Span(self.file, *self._moved(line, column), *self._moved(end_line, end_column))

    def span(self, start: int, end: int) -> Span:
        """A span of the file, from offsets into `text`; it is one column wide at least."""
        return self.place(*self._line_column(start), *self._line_column(max(end, start + 1)))

    def fragment(self, start: int, end: int) -> Source:
        """The part of `text` between two offsets, as a source of its own."""
        line, column = self._moved(*self._line_column(start))
        return Source(self.file, self.text[start:end], self.whole, line, column)

    def error(self, code: str, message: str, *labels: tuple[int, int, str], help: str = "") -> GlaSyntaxError:
        """A syntax error; each label is (start, end, text) in offsets, the first is the place of the error."""
        spans = [Label(self.span(start, end), text) for start, end, text in labels]
        return GlaSyntaxError(code, message, labels=spans, help=help or (), source=self.whole)

    def error_at(self, code: str, message: str, span: Span, text: str = "", *, help: str = "") -> GlaSyntaxError:
        """A syntax error at a span of the file."""
        return GlaSyntaxError(code, message, labels=[Label(span, text)], help=help or (), source=self.whole)

    def _moved(self, line: int, column: int) -> tuple[int, int]:
        return line + self.line - 1, column + (self.column - 1 if line == 1 else 0)

    def _line_column(self, offset: int) -> tuple[int, int]:
        # An offset past the end is one past the last character, so that a caret stays on the last line.
        head = self.text[: max(0, min(offset, len(self.text)))]
        beyond = max(0, offset - len(self.text))
        return head.count("\n") + 1, len(head) - (head.rfind("\n") + 1) + 1 + beyond
