"""Errors about single characters: those that the language does not use, and what is meant by them."""

from __future__ import annotations

import unicodedata

from gla.errors import GlaSyntaxError
from gla.lang.source import Source

# Characters of other languages, and what to write instead.
FOREIGN = {
    "^": ("GLA0004", "for a power write `**`, for exclusive or of integers `xor(a, b)`"),
    "!": ("GLA0005", "write `not x`; unequal is `!=`"),
    "?": ("GLA0005", "write `if c { a } else { b }`, or elementwise `where(c, a, b)`"),
}
# Characters of typesetting and of keyboards, and the one that is meant.
MEANT = {
    "\u2212": "-", "\u2013": "-", "\u2014": "-", "\u00d7": "*", "\u22c5": "*", "\u00b7": "*", "\u00f7": "/", "\u2264": "<=",
    "\u2265": ">=", "\u2260": "!=", "\u2248": "~=", "\u2192": "->", "\u201c": '"', "\u201d": '"', "\u201e": '"', "`": '"',
    "\u2018": '"', "\u2019": '"', "\u00b2": "** 2", "\u00b3": "** 3", "\u2026": "...", "\uff08": "(", "\uff09": ")",
    "\uff0c": ",", "\u2025": "..",
}  # fmt: skip


def odd_in_word(word: str) -> int | None:
    """Where a word has a character that is neither letter, digit nor mark, such as the raised 2 of `x²`; None if nowhere.

    A regular expression counts those as part of words.
    """
    if unicodedata.normalize("NFC", word).isidentifier():
        return None
    return next((k for k in range(len(word)) if not word[: k + 1].isidentifier()), None)


def odd_character(source: Source, at: int) -> GlaSyntaxError:
    """The error for the character at an offset, which begins no token."""
    char = source.text[at]
    if char == '"':
        return source.error(
            "GLA0012",
            "a string is never closed",
            (at, at + 1, "opened here"),
            help='close it with `"` on the same line; `\\n` is a line end',
        )
    if char == "'":
        return _single_quotes(source, at)
    if char in FOREIGN:
        code, help = FOREIGN[char]
        return source.error(code, f"`{char}` is no operator here", (at, at + 1, ""), help=help)
    if char == "\\":
        return source.error(
            "GLA0002",
            "a line is not continued by `\\`",
            (at, at + 1, ""),
            help="end the line with an operator or a comma, or put it in parentheses",
        )
    return source.error("GLA0002", f"{_called(char)} is not used in the language", (at, at + 1, ""), help=_instead(char))


def _called(char: str) -> str:
    name = unicodedata.name(char, "a control character")
    shown = f"`{char}` " if char.isprintable() and not char.isspace() and char != "`" else ""
    return f"{shown}(U+{ord(char):04X} {name})" if shown else f"U+{ord(char):04X} {name}"


def _instead(char: str) -> str:
    if char.isspace():
        return "write a plain blank"
    return f"write `{MEANT[char]}`" if char in MEANT else "remove it"


def _single_quotes(source: Source, start: int) -> GlaSyntaxError:
    line_end = source.text.find("\n", start)
    close = source.text.find("'", start + 1, line_end if line_end >= 0 else len(source.text))
    end = close + 1 if close > 0 else start + 1
    inside = source.text[start + 1 : close] if close > 0 else ""
    fix = f'write `"{inside}"`' if close > 0 and '"' not in inside else 'write `"text"`'
    return source.error("GLA0003", "strings are written in double quotes", (start, end, ""), help=fix)
