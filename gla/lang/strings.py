"""The inside of a string literal: escapes, and holes `{expr:format}` as stretches of text still to be parsed."""

from __future__ import annotations

from dataclasses import dataclass

from gla.lang.source import Source

ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", '"': '"'}
CLOSERS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class RawHole:
    """A hole as offsets into the source: the expression's start and end, the hole's start and end, and the format."""

    start: int
    end: int
    outer_start: int
    outer_end: int
    format: str


def read_string(source: Source, start: int, end: int, holes: bool = True) -> tuple[str | RawHole, ...]:
    """The parts of the literal at `start` to `end` (quotes included). Without `holes` braces are ordinary text.

    Refuses unknown escapes (GLA0017) and holes that are empty or open, and a lone `}` (GLA0013).
    """
    text, at, last = source.text, start + 1, end - 1
    parts: list[str | RawHole] = []
    plain: list[str] = []
    while at < last:
        char = text[at]
        if char == "\\":
            piece, at = _escape(source, at, last)
            plain.append(piece)
        elif holes and char in "{}" and text[at : at + 2] == char * 2 and at + 1 < last:
            plain.append(char)
            at += 2
        elif holes and char == "{":
            if plain:
                parts.append("".join(plain))
                plain = []
            hole = _hole(source, at, last)
            parts.append(hole)
            at = hole.outer_end
        elif holes and char == "}":
            raise source.error(
                "GLA0013", "a `}` in a string closes nothing", (at, at + 1, ""), help="write `}}` for a brace in the text"
            )
        else:
            plain.append(char)
            at += 1
    if plain:
        parts.append("".join(plain))
    return tuple(parts)


def _escape(source: Source, at: int, last: int) -> tuple[str, int]:
    """(character, offset after it) of the escape at `at`."""
    text = source.text
    sign = text[at + 1]
    if sign in ESCAPES:
        return ESCAPES[sign], at + 2
    if sign == "u" and text[at + 2] == "{":
        close = text.find("}", at, last)
        digits = text[at + 3 : close] if close > 0 else ""
        if digits and len(digits) <= 6 and all(c in "0123456789abcdefABCDEF" for c in digits) and int(digits, 16) <= 0x10FFFF:
            return chr(int(digits, 16)), close + 1
    raise source.error(
        "GLA0017",
        f"`\\{sign}` is no escape",
        (at, at + 2, ""),
        help='the escapes are \\n \\t \\r \\0 \\" \\\\ and \\u{3b1}; write `\\\\` for a backslash',
    )


def _hole(source: Source, at: int, last: int) -> RawHole:
    """The hole that opens at `at`: its end is the `}`, its format begins at the first `:` outside brackets."""
    text = source.text
    stack: list[str] = []
    colon = 0
    for k in range(at + 1, last):
        char = text[k]
        if char in CLOSERS:
            stack.append(CLOSERS[char])
        elif stack and char == stack[-1]:
            stack.pop()
        elif char == ":" and not stack and not colon:
            colon = k
        elif char == "}":
            expr_end = colon or k
            if not text[at + 1 : expr_end].strip():
                raise source.error(
                    "GLA0013",
                    "a hole in a string has no expression",
                    (at, k + 1, ""),
                    help="put an expression between the braces, or write `{{` and `}}` for braces in the text",
                )
            return RawHole(at + 1, expr_end, at, k + 1, text[colon + 1 : k] if colon else "")
    raise source.error(
        "GLA0013",
        "a `{` in a string is never closed",
        (at, at + 1, "opened here"),
        help="close the hole with `}`, or write `{{` for a brace in the text",
    )
