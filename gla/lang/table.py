"""The parser table: built from grammar/gla.lark once, then loaded from the user's cache directory.

Building takes about a second, loading a few hundredths. The file is keyed by the grammar, Lark's and Python's version;
it is written beside and renamed, and a cache that cannot be read or written is passed over.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import lark
from lark import Lark, Token

from gla.config import environment

STARTS = ["start", "hole"]
# After these no statement can end, so the line goes on.
CONTINUES = frozenset({
    "=", ",", "+", "-", "*", "/", "//", "%", "@", "**", "|", "&", "<<", ">>", "~", "<", "<=", ">", ">=", "==", "!=", "~=",
    "|>", "..", "..=", "->", ":", ".", "and", "or", "not",
    "+=", "-=", "*=", "/=", "//=", "%=", "**=", "@=", "&=", "|=", "<<=", ">>=",
})  # fmt: skip


class RunTogether(Exception):
    """Two tokens that need a blank between them, such as `2x`: offsets of the first's start and the second's end."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__(start, end)
        self.start = start
        self.end = end


class LineEnds:
    """The post-lexer: drops newlines inside `( )` and `[ ]` and after a token that cannot end a statement."""

    always_accept = ("_NL",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        brackets: list[str] = []
        before: Token | None = None
        for token in stream:
            if token.type == "_NL":
                goes_on = before is not None and before.type not in ("NAME", "STRING") and str(before) in CONTINUES
                if goes_on or (brackets and brackets[-1] != "{"):
                    continue
            elif token in ("(", "[", "{"):
                brackets.append(str(token))
            elif token in (")", "]", "}") and brackets:
                brackets.pop()
            if before is not None and before.end_pos == token.start_pos and _is_word(before[-1]) and _is_word(token[0]):
                raise RunTogether(before.start_pos or 0, token.end_pos or 0)
            before = token
            yield token


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def grammar_path() -> Path:
    """The grammar in a wheel (gla/grammar) or in a checkout (grammar/ beside gla/)."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "grammar" / "gla.lark"
    return inside if inside.is_file() else package.parent / "grammar" / "gla.lark"


@cache
def table() -> Lark:
    """The parser, loaded or built; one a process."""
    grammar = grammar_path().read_text(encoding="utf-8")
    cached = _cache_file(grammar)
    loaded = _load(cached)
    if loaded is not None:
        return loaded
    built = build_table(grammar)
    _store(built, cached)
    return built


def build_table(grammar: str, strict: bool = False) -> Lark:
    """The parser from the grammar's text; `strict` also looks for conflicts and colliding terminals."""
    return Lark(
        grammar,
        parser="lalr",
        start=STARTS,
        postlex=LineEnds(),
        maybe_placeholders=True,
        propagate_positions=True,
        strict=strict,
    )


def _cache_file(grammar: str) -> Path:
    key = f"{lark.__version__}\0{sys.version_info[:3]}\0{grammar}".encode()
    given = environment().cache_dir
    if given:
        folder = Path(given)
    else:
        import platformdirs

        folder = Path(platformdirs.user_cache_dir("gla", appauthor=False))
    return folder / "grammar" / f"{hashlib.sha256(key).hexdigest()[:32]}.pickle"


def _load(path: Path) -> Lark | None:
    # A damaged pickle can raise nearly anything; whatever it is, the table is built again.
    try:
        with path.open("rb") as file:
            return Lark.load(file)
    except Exception:
        return None


def _store(built: Lark, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem)
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            built.save(file)
        Path(name).replace(path)
    except (OSError, pickle.PicklingError):
        Path(name).unlink(missing_ok=True)
