"""What is wrong with a text that does not parse, said in the language's words: code, caret and a fix that can be typed.

Called by the parser with Lark's exception. The checks look at what stands round the place where reading stopped; they are
tried in the order of CHECKS. What none of them knows is labelled by the wrong program that it resembles (samples.py), and
last by what could have stood there. A terminal's internal name is never shown.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass

from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from gla.errors import GlaSyntaxError
from gla.lang.characters import odd_character, odd_in_word
from gla.lang.expected import ITEMS, shorten, wanted
from gla.lang.samples import label
from gla.lang.scan import CLOSERS, OPENERS, Scrap, open_brackets, scan
from gla.lang.source import Source

STATEMENTS = ("let", "var", "emit", "assert", "output", "save", "print", "break")
CONTROL = ("if", "for", "while", "stencil")
# Operators, signs and words after which a value must follow.
WANTS_VALUE = frozenset({
    "=", "==", "!=", "<", "<=", ">", ">=", "~=", "+", "-", "*", "/", "//", "%", "@", "**", "&", "|", "<<", ">>", "~", "|>",
    "..", "..=", "+=", "-=", "*=", "/=", "//=", "%=", "**=", "@=", "&=", "|=", "<<=", ">>=",
    ",", "(", "[", ":", "and", "or", "not", "print", "emit", "assert", "save", "within", "every", "to", "by", "max",
})  # fmt: skip


NUMBER = re.compile(r"\d+(_\d+)*(\.\d+(_\d+)*)?([eE]\d+)?(j|bf16|[fiu]\d\d?)?|0[xX][0-9a-fA-F_]+|0[bB][01_]+")


@dataclass(frozen=True, slots=True)
class Place:
    """Where reading stopped: the piece there, what stands before it, and what could have stood instead."""

    source: Source
    pieces: list[Scrap]
    index: int
    expected: frozenset[str]

    @property
    def here(self) -> Scrap:
        return self.pieces[self.index]

    def back(self, steps: int = 1) -> Scrap:
        """The piece before; one of kind `end` where there is none."""
        return self.pieces[self.index - steps] if self.index >= steps else Scrap("end", "", 0, 0, 0, False)

    @property
    def after(self) -> Scrap:
        return self.pieces[min(self.index + 1, len(self.pieces) - 1)]

    @property
    def open(self) -> list[Scrap]:
        return open_brackets(self.pieces[: self.index])

    def line(self) -> list[Scrap]:
        """The pieces of the statement so far: from the last line start or `{` or `;` up to here, without `here`."""
        k = self.index
        while k > 0 and not self.pieces[k].first and self.pieces[k - 1].text not in ("{", ";"):
            k -= 1
        return self.pieces[k : self.index]

    def error(self, code: str, message: str, *pieces: Scrap, text: str = "", help: str = "") -> GlaSyntaxError:
        """An error whose caret covers the pieces, or what stands here."""
        shown = pieces or (self.here,)
        return self.source.error(code, message, (shown[0].start, shown[-1].end, text), help=help)


def explain(source: Source, error: UnexpectedInput) -> GlaSyntaxError:
    """The error to raise for one of Lark's."""
    offset, expected = _stopped(source, error)
    pieces = scan(source.text)
    index = next((k for k, piece in enumerate(pieces) if piece.end > offset), len(pieces) - 1)
    place = Place(source, pieces, index, expected)
    for check in CHECKS:
        found = check(place)
        if found is not None:
            return found
    sample = label(error)
    if sample is not None:
        return source.error(sample.code, sample.message, _mark(place, ""), help=sample.help)
    what = "the text ends too early" if place.here.kind == "end" else f"unexpected `{shorten(place.here.text)}`"
    return source.error("GLA0001", what, _mark(place, "here" if place.here.kind == "end" else ""), help=wanted(expected))


def run_together(source: Source, start: int, end: int) -> GlaSyntaxError:
    """The error for two tokens without a blank between them, such as `2x` or `1__0`."""
    pieces = scan(source.text)
    index = next((k for k, piece in enumerate(pieces) if piece.end > start), len(pieces) - 1)
    place = Place(source, pieces, index, frozenset())
    piece = place.here
    if piece.kind == "number":
        return _odd_number(place, piece)
    return _unknown_word(place) or place.error("GLA0001", f"unexpected `{piece.text}`")


def _stopped(source: Source, error: UnexpectedInput) -> tuple[int, frozenset[str]]:
    """(offset, expected terminals) of one of Lark's exceptions."""
    if isinstance(error, UnexpectedToken):
        at_end = error.token.type == "$END" or error.token.start_pos is None
        expected = error.accepts or error.expected
        return (len(source.text) if at_end else int(error.token.start_pos or 0)), frozenset(expected)
    if isinstance(error, UnexpectedCharacters):
        return int(error.pos_in_stream or 0), frozenset(error.allowed or ())
    return len(source.text), frozenset()


# ---------------------------------------------------------------- checks, in order


def _character(place: Place) -> GlaSyntaxError | None:
    """A character that the language does not use."""
    piece = place.here
    at = odd_in_word(piece.text) if piece.kind == "word" else 0 if piece.kind == "odd" else None
    return None if at is None else odd_character(place.source, piece.start + at)


def _closer(place: Place) -> GlaSyntaxError | None:
    """A closing bracket that does not fit the one that is open."""
    piece, stack = place.here, place.open
    if piece.kind != "sign" or piece.text not in CLOSERS:
        return None
    if not stack:
        return place.error(
            "GLA0010", f"`{piece.text}` closes nothing", help=f"remove it, or open it with `{CLOSERS[piece.text]}`"
        )
    if stack[-1].text != CLOSERS[piece.text]:
        return _never_closed(place, stack[-1], f"`{piece.text}` comes first")
    return None


def _end(place: Place) -> GlaSyntaxError | None:
    """The text ends inside brackets."""
    if place.here.kind != "end" or not place.open:
        return None
    return _never_closed(place, place.open[-1], "the text ends here")


def _never_closed(place: Place, bracket: Scrap, noticed: str) -> GlaSyntaxError:
    closer = OPENERS[bracket.text]
    others = len(place.open) - 1
    more = f"; {others} more open round it" if others and place.here.kind == "end" else ""
    opened, seen = (bracket.start, bracket.end, "opened here"), _mark(place, noticed)
    labels = [opened, seen] if seen[0] != bracket.start else [opened]
    return place.source.error("GLA0009", f"`{bracket.text}` is never closed{more}", *labels, help=f"add `{closer}`")


def _mark(place: Place, text: str) -> tuple[int, int, str]:
    """A label at `here`; at the end of the text it lies on the last character."""
    piece = place.here
    if piece.kind == "end":
        return max(0, piece.start - 1), piece.start, text
    return piece.start, piece.end, text


def _foreign_word(place: Place) -> GlaSyntaxError | None:
    """A word that other languages use for what is written differently here."""
    here, before = place.here, place.back()
    line = place.line()
    first = line[0] if line else here
    if first.text in ("def", "func", "function", "proc", "defn") and first.kind == "word":
        return place.error(
            "GLA0005", f"`{first.text}` is not a word of the language", first, help="write `fn f(x) = ...` or `fn f(x) { ... }`"
        )
    if before.text in ("return", "yield") and before.kind == "word":
        rest = _rest_of_line(place)
        return place.error(
            "GLA0005",
            f"there is no `{before.text}`: the last expression of a block is its value",
            before,
            help=f"write `{rest}` alone",
        )
    for piece in (here, before):
        if piece.text in ("elif", "elseif", "elsif") and piece.kind == "word":
            return place.error("GLA0005", f"`{piece.text}` is not a word of the language", piece, help="write `else if`")
        if piece.text in ("then", "do") and piece.kind == "word" and line and any(p.text in CONTROL for p in line):
            return place.error(
                "GLA0005", f"`{piece.text}` is not a word of the language", piece, help="a block is written `{ ... }`"
            )
    if before.text in ("lambda", "mut") and before.kind == "word":
        fix = "write `|x| ...`" if before.text == "lambda" else "a variable that changes is declared by `var x = ...`"
        return place.error("GLA0005", f"`{before.text}` is not a word of the language", before, help=fix)
    return _item_in_block(place, first, before)


def _item_in_block(place: Place, first: Scrap, before: Scrap) -> GlaSyntaxError | None:
    """`const x = 3` or `fn f(x)` inside a block, or after one that was left open."""
    stack = place.open
    if not stack or stack[-1].text != "{" or first is not before or before.kind != "word":
        return None
    at_margin = before.start == 0 or place.source.text[before.start - 1] == "\n"
    if before.text in ITEMS and at_margin and before.line > stack[-1].line:
        earlier = Place(place.source, place.pieces, place.index - 1, place.expected)
        return _never_closed(earlier, stack[-1], "a new item begins here")
    if place.here.kind == "sign":
        return None
    if before.text in ("const", "size", "param", "state", "input", "option"):
        help = "inside a block write `let` for what stays and `var` for what changes"
    elif before.text in ("fn", "struct", "export", "import", "from", "test", "bench", "run"):
        help = "move it out of the block" + ("; a small function can be `let f = |x| ...`" if before.text == "fn" else "")
    else:
        return None
    return place.error("GLA0020", f"`{before.text}` stands at the top level of a file only", before, help=help)


def _foreign_sign(place: Place) -> GlaSyntaxError | None:
    """Two signs that mean something in another language."""
    here, before = place.here, place.back()
    touching = before.end == here.start
    pair = before.text + here.text if touching else here.text
    if pair in ("&&", "||"):
        word = "and" if pair == "&&" else "or"
        return place.error("GLA0005", f"`{pair}` is no operator here", before, here, help=f"write `{word}`")
    signs = place.back(2)
    if before.text in ("+", "-") and signs.text == before.text and signs.end == before.start and place.here.text not in ("(",):
        return place.error(
            "GLA0005", f"`{signs.text * 2}` is no operator here", signs, before, help=f"write `x {before.text}= 1`"
        )
    if here.text == ":" and place.after.text == "=" and place.after.start == here.end:
        return place.error(
            "GLA0005", "`:=` is not used here", here, place.after, help="declare with `let x = ...` or `var x = ...`"
        )
    if here.text == ":" and before.kind == "word" and place.open and place.open[-1].text == "(" and "COMMA" in place.expected:
        return place.error("GLA0005", "a named argument is not written with `:`", help=f"write `{before.text} = ...`")
    if here.text == "->" or (here.text == "=" and place.after.text == ">" and place.after.start == here.end):
        arrow = (here,) if here.text == "->" else (here, place.after)
        return place.error("GLA0005", "an arrow makes no function here", *arrow, help="a small function is written `|x| x + 1`")
    if here.text == "..." and _follows_value(place):
        return place.error("GLA0001", "`...` makes no range", help="write `..`, or `..=` to include the end")
    if here.text in ("//", "/") and not _follows_value(place):
        return place.error("GLA0005", "a comment begins with `#`", help="write `# ...`")
    return None


def _follows_value(place: Place) -> bool:
    before = place.back()
    return not place.here.first and (before.kind in ("word", "number", "string") or before.text in CLOSERS)


def _equals(place: Place) -> GlaSyntaxError | None:
    """`=` where a comparison is meant, or where a declaration is."""
    here = place.here
    line = place.line()
    words = [piece.text for piece in line if piece.kind == "word"]
    if here.text == "==" and words[:1] and words[0] in ("let", "var", "const", "param", "size", "state"):
        return place.error("GLA0006", "`==` compares; a value is bound with `=`", help="write `=`")
    if here.text != "=":
        return None
    if any(word in ("if", "while", "assert", "where") for word in words):
        before = place.back()
        fix = f"write `{before.text} == {place.after.text}`" if before.kind == "word" else "write `==`"
        return place.error("GLA0006", "`=` assigns; a condition compares", help=fix)
    if any(piece.text == "=" for piece in line):
        return place.error("GLA0006", "a value is bound once in a line", help="use two lines; to compare write `==`")
    return None


def _open_paren(place: Place) -> GlaSyntaxError | None:
    """A `(` or `[` left open on an earlier line: what stands here cannot be its contents."""
    stack = place.open
    if not stack or stack[-1].text == "{" or stack[-1].line == place.here.line:
        return None
    bracket = stack[-1]
    new_line = place.here.first or (place.back().first and place.back().text in (*ITEMS, *STATEMENTS))
    if new_line and "INT" not in place.expected:
        return _never_closed(place, bracket, "this cannot stand inside it")
    return None


def _missing_value(place: Place) -> GlaSyntaxError | None:
    """Nothing stands where a value must: after an operator, `=`, or between brackets."""
    here, before = place.here, place.back()
    word = before if before.first and before.kind == "word" else here
    ahead = place.back(2) if word is before else before
    lone = word.kind == "word" and word.first and word.text in (*ITEMS, *STATEMENTS) and word.line > ahead.line
    if lone and ahead.text in WANTS_VALUE:
        return _no_value(place, ahead)
    if "INT" in place.expected and before.text in WANTS_VALUE:
        return _no_value(place, before)
    return None


def _no_value(place: Place, sign: Scrap) -> GlaSyntaxError:
    if sign.text == "(" and place.here.text == ")":
        return place.error("GLA0021", "a tuple has at least one item", sign, place.here, help="write `(a,)` or `(a, b)`")
    return place.error(
        "GLA0007",
        f"a value is missing after `{sign.text}`",
        sign,
        text="nothing follows",
        help=f"write a value after `{sign.text}`",
    )


def _output_colon(place: Place) -> GlaSyntaxError | None:
    """`output every 10 steps u` without its `:`."""
    line = place.line()
    if not line or line[0].text != "output" or any(piece.text == ":" for piece in line) or place.here.text in OPENERS:
        return None
    head = place.source.text[line[0].start : line[-1].end]
    return place.error(
        "GLA0008",
        "`output` needs a `:` before its values",
        text="the values begin here",
        help=f"write `{head}: {_rest_of_line(place)}`",
    )


def _number(place: Place) -> GlaSyntaxError | None:
    """`1.` and `.5`."""
    here, before, earlier = place.here, place.back(), place.back(2)
    if here.kind == "number" and not NUMBER.fullmatch(here.text):
        return _odd_number(place, here)
    if here.text == "." and place.after.kind == "number" and place.after.start == here.end:
        return place.error(
            "GLA0011", "a number needs a digit before the point", here, place.after, help=f"write `0.{place.after.text}`"
        )
    if before.text == "." and earlier.kind == "number" and earlier.end == before.start:
        return place.error(
            "GLA0011", "a number needs a digit after the point", earlier, before, help=f"write `{earlier.text}.0`"
        )
    if before.text == "." and here.kind == "number" and here.start == before.end:
        return place.error(
            "GLA0011", "a field's name does not begin with a digit", before, here, help="the first element is `x[0]`"
        )
    return None


def _odd_number(place: Place, piece: Scrap) -> GlaSyntaxError:
    digits = len(piece.text) - len(piece.text.lstrip("0123456789._"))
    head, tail = piece.text[:digits], piece.text[digits:]
    if head == "0" and tail[:1] in "xXbBoO" and tail:
        help = "hexadecimal is `0xff`, binary `0b101`"
    elif not tail or head.endswith("_") or "__" in head:
        help = "`_` stands between two digits: `1_000`"
    else:
        help = f"a product is written `{head} * {tail}`; suffixes are f16 bf16 f32 f64, i8 to i64, u8 to u64, and j"
    return place.error("GLA0011", f"`{piece.text}` is neither a number nor a name", piece, help=help)


def _top_level(place: Place) -> GlaSyntaxError | None:
    """A statement, an assignment or an unknown word at the top level."""
    here = place.here
    if place.open or here.kind != "word" or not here.first or here.text in ITEMS:
        return None
    if "FN" not in place.expected and place.index:
        return None
    if here.text in ("let", "var"):
        return place.error(
            "GLA0020",
            f"`{here.text}` stands inside a block",
            help="at the top level use `const`, `param`, `size` or `state`, or put it in `run { }`",
        )
    if here.text in (*STATEMENTS, *CONTROL):
        return place.error("GLA0020", f"`{here.text}` stands inside a block", help="put it in `run { ... }`")
    if place.after.text == "=":
        return place.error(
            "GLA0020",
            f"nothing is computed at the top level: `{here.text} = ...`",
            help=f"write `const {here.text} = ...`, or put it in `run {{ }}`",
        )
    return _unknown_word(place)


def _unknown_word(place: Place) -> GlaSyntaxError | None:
    here = place.here
    if here.kind != "word" or place.open:
        return None
    near = difflib.get_close_matches(here.text, ITEMS, 1)
    help = f"did you mean `{near[0]}`?" if near else f"an item begins with one of {', '.join(ITEMS[:-1])} or {ITEMS[-1]}"
    return place.error("GLA0020", f"`{here.text}` begins no item of a program", help=help)


def _header_colon(place: Place) -> GlaSyntaxError | None:
    """`for k in 0..n:` as in Python."""
    line = place.line()
    if place.here.text != ":" or not any(piece.text in (*CONTROL, "else", "fn", "run", "test", "bench") for piece in line):
        return None
    if place.open and place.open[-1].text != "{":
        return None
    if line[0].text in ("fn", "export") and place.after.kind == "word" and not place.after.first:
        return place.error("GLA0005", "the type of a result stands after `->`", help=f"write `-> {place.after.text}`")
    return place.error("GLA0005", "a block is not opened by `:`", help="write `{ ... }`; after `fn f(x)` also `= expression`")


def _two_statements(place: Place) -> GlaSyntaxError | None:
    """A second statement on one line."""
    here = place.here
    if here.first or "_NL" not in place.expected or here.kind == "end" or not _follows_value(place):
        return None
    if place.open and place.open[-1].text != "{":
        return None
    if here.kind == "word" and here.text in (*STATEMENTS, *CONTROL, *ITEMS):
        return place.error(
            "GLA0018", f"`{here.text}` begins a new statement on the same line", help="put a line end or `;` before it"
        )
    return None


def _rest_of_line(place: Place) -> str:
    """The text from `here` to the end of its line, to a comment or to a bracket that closes what is open; shortened."""
    depth, end = 0, place.here.start
    for piece in place.pieces[place.index :]:
        depth += (piece.text in OPENERS) - (piece.text in CLOSERS)
        if piece.line != place.here.line or depth < 0:
            break
        end = piece.end
    return shorten(place.source.text[place.here.start : end])


CHECKS: tuple[Callable[[Place], GlaSyntaxError | None], ...] = (
    _character,
    _number,
    _closer,
    _end,
    _foreign_word,
    _foreign_sign,
    _equals,
    _missing_value,
    _open_paren,
    _output_colon,
    _header_colon,
    _top_level,
    _two_statements,
)
