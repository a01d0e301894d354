"""A rough scanner that reads any text, right or wrong, so that a syntax error can be explained from what stands round it."""

from __future__ import annotations

import re
from dataclasses import dataclass

OPENERS = {"(": ")", "[": "]", "{": "}"}
CLOSERS = {")": "(", "]": "[", "}": "{"}

TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)
      | (?P<string>"(?:[^"\\\r\n]|\\[^\r\n])*")
      | (?P<number>\d[\d_]*(?:\.\d[\d_]*)?\w*)
      | (?P<word>[^\W\d][\w\u0300-\u036f\u1dc0-\u1dff\u20d0-\u20ff]*)
      | (?P<line>\n)
      | (?P<sign>\.\.\.|\.\.=|\.\.|\*\*=|//=|<<=|>>=|\*\*|//|<<|>>|<=|>=|==|!=|~=|->|\|>|[-+*/%@&|]=|[-+*/%@&|~<>=.,:;()\[\]{}])
      | (?P<blank>[ \t\r]+)
      | (?P<odd>.)""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Scrap:
    """One piece of text; `kind` is string, number, word, sign, odd, or end. `first`: the first of its line."""

    kind: str
    text: str
    start: int
    end: int
    line: int
    first: bool


def scan(text: str) -> list[Scrap]:
    """All pieces but blanks, line ends and comments, then one of kind `end` after the last character that is not blank."""
    pieces: list[Scrap] = []
    line, first = 1, True
    for match in TOKEN.finditer(text):
        kind = match.lastgroup or "odd"
        if kind == "line":
            line, first = line + 1, True
        elif kind not in ("blank", "comment"):
            pieces.append(Scrap(kind, match[0], match.start(), match.end(), line, first))
            first = False
    end = len(text.rstrip())
    pieces.append(Scrap("end", "", end, end, text.count("\n", 0, end) + 1, False))
    return pieces


def open_brackets(pieces: list[Scrap]) -> list[Scrap]:
    """The brackets still open after `pieces`, outermost first; closers that fit nothing are passed over."""
    stack: list[Scrap] = []
    for piece in pieces:
        if piece.kind == "sign" and piece.text in OPENERS:
            stack.append(piece)
        elif piece.kind == "sign" and piece.text in CLOSERS and stack and stack[-1].text == CLOSERS[piece.text]:
            stack.pop()
    return stack
