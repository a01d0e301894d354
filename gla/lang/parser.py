"""`.gla` text -> syntax tree. Called by the checker, the formatter, `gla ir --stage ast` and the editor service.

Refuses text that is not a program with a GlaSyntaxError (GLA00xx) whose caret lies inside the text. Names are not
resolved here, nor types checked: an unknown name parses.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace

from lark.exceptions import UnexpectedInput

from gla.lang.build import Builder
from gla.lang.mistakes import explain, run_together
from gla.lang.source import Source
from gla.lang.syntax import Comment, Expr, Function, Item, Program, Struct
from gla.lang.table import RunTogether, table

# Strings are matched so that a `#` inside one is no comment.
COMMENT = re.compile(r'"(?:[^"\\\r\n]|\\[^\r\n])*"|#[^\r\n]*')


def parse(text: str, file: str = "<text>") -> Program:
    """The program in `text`; `file` is the name that spans and errors show.

    Raises GlaSyntaxError. A text that is empty or holds comments only is a program without items.
    """
    source = Source.of_file(text, file)
    comments = _comments(source)
    blocks = _doc_blocks(comments, source)
    builder = Builder(source, _parse_hole)
    builder.docs = {end + 1: text for _, end, text in blocks}
    head = next((block for block in blocks if block[0] == 1), None)
    items: tuple[Item, ...] = _tree(builder, "start")
    if head is not None:
        items = _without_head(items, head[1] + 1)
    return Program(source.span(0, len(source.text)), file, source.text, head[2] if head else None, items, comments)


def parse_expression(text: str, file: str = "<text>") -> Expr:
    """A single expression: what `gla repl` reads."""
    return _parse_hole(Source.of_file(text, file))


def _parse_hole(source: Source) -> Expr:
    expression: Expr = _tree(Builder(source, _parse_hole), "hole")
    return expression


def _tree(builder: Builder, start: str):  # type: ignore[no-untyped-def]
    source = builder.source
    try:
        tree = table().parse(source.text, start=start)
    except RunTogether as error:
        raise run_together(source, error.start, error.end) from None
    except UnexpectedInput as error:
        raise explain(source, error) from None
    return builder.build(tree)


def _comments(source: Source) -> tuple[Comment, ...]:
    starts = [0, *(match.end() for match in re.finditer("\n", source.text))]
    found = []
    for match in COMMENT.finditer(source.text):
        if match[0][0] == "#":
            line = bisect_right(starts, match.start())
            column = match.start() - starts[line - 1] + 1
            span = source.place(line, column, line, column + len(match[0]))
            found.append(Comment(span, match[0], _is_doc(match[0])))
    return tuple(found)


def _is_doc(comment: str) -> bool:
    return comment.startswith("##") and not comment.startswith("###")


def _doc_blocks(comments: Iterable[Comment], source: Source) -> list[tuple[int, int, str]]:
    """(first line, last line, text) of each run of `##` lines that stand alone on theirs."""
    lines = source.text.split("\n")
    blocks: list[tuple[int, int, str]] = []
    for comment in comments:
        line = comment.span.line
        if not comment.doc or lines[line - 1][: comment.span.column - 1].strip():
            continue
        text = comment.text[2:].strip()
        if blocks and blocks[-1][1] == line - 1:
            first, _, before = blocks.pop()
            blocks.append((first, line, f"{before}\n{text}"))
        else:
            blocks.append((line, line, text))
    return blocks


def _without_head(items: tuple[Item, ...], line: int) -> tuple[Item, ...]:
    """The `##` block on the first line describes the file; only a function or struct right below it has it as well."""
    return tuple(
        replace(item, doc=None) if item.span.line == line and not isinstance(item, Function | Struct) else item
        for item in items
    )
