"""Programs that are refused, each with its exact message beside it; carets that stay inside the text."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from gla.errors import GlaSyntaxError
from gla.lang.parser import parse
from gla.lang.samples import SAMPLES
from tests.snapshots import check

REJECTED = Path(__file__).parent / "rejected"


def refused(text: str) -> GlaSyntaxError:
    with pytest.raises(GlaSyntaxError) as caught:
        parse(text, "t.gla")
    return caught.value


@pytest.mark.parametrize("program", sorted(REJECTED.glob("*.gla")), ids=lambda path: path.stem)
def test_a_wrong_program_is_refused_with_its_stored_message(program: Path) -> None:
    with pytest.raises(GlaSyntaxError) as caught:
        parse(program.read_text(encoding="utf-8"), program.name)
    assert caught.value.diagnostic.help, "a syntax error says what to write"
    check(__file__, f"rejected/{program.stem}.stderr", f"{caught.value}\n")


@pytest.mark.parametrize("program", [p for sample in SAMPLES for p in sample.programs])
def test_every_sample_is_a_wrong_program(program: str) -> None:
    refused(program)


# (wrong text, code, what the caret covers)
CARETS = [
    ("run { let s = 'text' }", "GLA0003", "'text'"),
    ("fn f(x) = x ^ 2", "GLA0004", "^"),
    ("def f(x): x", "GLA0005", "def"),
    ("run {\n return y\n}", "GLA0005", "return"),
    ("run { return }", "GLA0005", "return"),
    ("run { if a { } elif b { } }", "GLA0005", "elif"),
    ("run { if a || b { } }", "GLA0005", "||"),
    ("run { x++ }", "GLA0005", "++"),
    ("run { let f = x -> x }", "GLA0005", "->"),
    ("// note\nsize n = 3", "GLA0005", "//"),
    ("run { if x = 2.0 { } }", "GLA0006", "="),
    ("run { while x = 2.0 max 3 { } }", "GLA0006", "="),
    ("param dt = \nsize n = 3", "GLA0007", "="),
    ("run { f(x, , y) }", "GLA0007", ","),
    ("run { print }", "GLA0007", "print"),
    ("run { let a = f((n, n)\n a[0]\n}", "GLA0009", "("),
    ("run { f(x] }", "GLA0009", "("),
    ("fn f(x) = x)", "GLA0010", ")"),
    ("run { const x = 3 }", "GLA0020", "const"),
]


@pytest.mark.parametrize(("text", "code", "under"), CARETS)
def test_the_caret_covers_the_mistake(text: str, code: str, under: str) -> None:
    error = refused(text)
    span = error.diagnostic.span
    assert error.code == code
    assert span is not None
    assert text.split("\n")[span.line - 1][span.column - 1 : span.end_column - 1] == under


@pytest.mark.parametrize(
    ("text", "help"),
    [
        ("run { let x = 1. }", "write `1.0`"),
        ("run { let x = 12. * y }", "write `12.0`"),
        ("run { let x = .5 }", "write `0.5`"),
        ("run { let x = 2 * .25 }", "write `0.25`"),
        ("run { let x = 1.e5 }", "write `1.0e5`"),
        ("run { let x = 1.f32 }", "write `1.0f32`"),
    ],
)
def test_a117_a_number_without_a_digit_is_refused_with_the_right_spelling(text: str, help: str) -> None:
    error = refused(text)
    assert error.code == "GLA0011"
    assert help in error.diagnostic.help[0]


@pytest.mark.parametrize(
    "text", ["run {", "run {\n    for k in 0..3 {\n        print k", "fn f(", "fn f(x", "run { let a = [1, 2", "size n = (1 +"]
)
def test_a120_a_bracket_left_open_at_the_end_is_pointed_at(text: str) -> None:
    span = refused(text).diagnostic.span
    assert span is not None
    assert text.split("\n")[span.line - 1][span.column - 1] in "([{"


ENDS = [
    "size",
    "size n =",
    "param",
    "import",
    "from std.random",
    "fn f",
    "run",
    "run {",
    "const x = 1 +",
    "option float",
    'test "a"',
    "const x = (1",
    "#c\nsize",
]


@pytest.mark.parametrize("text", [end + tail for end in ENDS for tail in ("", "\n", "\r\n", "  ", " # c")])
def test_a120_an_error_at_the_very_end_lies_inside_the_file(text: str) -> None:
    error = refused(text)
    lines = text.split("\n")
    for label in error.diagnostic.labels:
        assert 1 <= label.span.line <= len(lines)
        assert 1 <= label.span.column <= len(lines[label.span.line - 1].rstrip("\r"))
    assert f"{lines[error.diagnostic.labels[0].span.line - 1].strip()}" in str(error)


def test_a120_a_very_long_line_is_shown_as_a_window() -> None:
    text = f"run {{ let x = {'1 + ' * 10_000}^ }}"
    error = refused(text)
    assert error.code == "GLA0004"
    assert max(len(line) for line in str(error).split("\n")) < 200
    shown, marks = str(error).split("\n")[3:5]
    assert shown[marks.index("^")] == "^"


def test_a120_a_caret_after_tabs_is_aligned() -> None:
    shown, marks = str(refused("run {\n\t\tlet x = 2\t^ 3\n}")).split("\n")[3:5]
    assert shown[marks.index("^")] == "^"


# (text, what the caret covers inside the string)
IN_STRINGS = [
    ('run { print "abc }', '"'),
    ('run { print "abc\n}', '"'),
    ('run { print "a {x" }', "{"),
    ('run { print "a {{x} b" }', "}"),
    ('run { print "a { } b" }', "{ }"),
    ('run { print "a {x +} b" }', "+"),
    ('run { print "a {x ^ 2} b" }', "^"),
    ('run { print "a {f(x} b" }', "("),
    ('run { print "a \\q b" }', "\\q"),
    ('run { save u to "é_{1.}.npy" }', "1."),
]


@pytest.mark.parametrize(("text", "under"), IN_STRINGS)
def test_a121_an_error_in_a_string_has_its_caret_inside_the_string(text: str, under: str) -> None:
    span = refused(text).diagnostic.span
    assert span is not None
    line = text.split("\n")[span.line - 1]
    assert line[span.column - 1 : span.end_column - 1] == under
    assert span.column - 1 >= line.index('"')


DEEP = {
    "sum": f"const x = {'1 + ' * 5000}1",
    "powers": f"const x = {'2 ** ' * 5000}1",
    "signs": f"const x = {'-' * 5000}1",
    "blocks": f"run {'{' * 5000}{'}' * 5000}",
    "indices": f"const x = a{'[0' * 3000}{']' * 3000}",
    "else if": f"run {{ {'if a { } else ' * 2000}{{ }} }}",
    "types": f"fn f(x: {'fn(' * 2000}f64{') -> f64' * 2000}) = x",
}


@pytest.mark.parametrize("kind", DEEP)
def test_deep_nesting_is_a_syntax_error(kind: str) -> None:
    assert refused(DEEP[kind]).code == "GLA0014"


@pytest.mark.parametrize("character", ["$", "`", "\u00b2", "\u2212", "\u00a0", "\x00", "\u201c", "\U0001f600"])
def test_a_foreign_character_is_named_by_its_code_point(character: str) -> None:
    error = refused(f"const x = 1 {character} 2")
    assert error.code == "GLA0002"
    assert f"U+{ord(character):04X}" in error.diagnostic.message


def test_no_message_shows_a_terminal_by_its_internal_name() -> None:
    pieces = [
        "x",
        "3",
        "let",
        "(",
        ")",
        "{",
        "}",
        "[",
        "=",
        "+",
        ",",
        ":",
        "..",
        "|",
        "if",
        "for",
        '"s"',
        "output",
        "with",
        "new",
        "\n",
    ]
    names = re.compile(r"_NL|[A-Z]{3,}_|\b(NAME|INT|STRING|LBRACE|RPAR|LPAR|COMMA|EQUAL|BAR|AMP|ANON)\b|\$END")
    for first in pieces:
        for second in pieces:
            try:
                parse(f"run {{ {first} {second} }}", "t.gla")
            except GlaSyntaxError as error:
                assert not names.search(str(error)), str(error)


@pytest.mark.parametrize(
    ("text", "help"),
    [("run { x\u00b2 }", "write `** 2`"), ("run { f(a: 3) }", "write `a = ...`"), ("const x = 1 \u2264 2", "write `<=`")],
)
def test_habits_of_mathematics_and_of_other_languages_are_told_the_spelling(text: str, help: str) -> None:
    assert refused(text).diagnostic.help[0] == help


def test_a_program_damaged_anywhere_parses_or_is_refused_inside_itself() -> None:
    text = (Path(__file__).parent / "programs" / "lorenz.gla").read_text(encoding="utf-8")
    dice = random.Random(20)
    signs = [*"(){}[]=+-*/.,:;|&~<>\"'#^!?\\\n\t 0ab_", "let ", "fn ", "..", "1.", "{x}", "return ", "\r\n", "\u2028"]
    for _ in range(100):
        start = text.index("\n", dice.randrange(len(text) - 400)) + 1
        part = text[start : start + 400]
        at = dice.randrange(len(part))
        damaged = part[:at] + dice.choice([*signs, ""]) + part[at + dice.choice([0, 1, 3]) :]
        try:
            parse(damaged, "t.gla")
        except GlaSyntaxError as error:
            lines = damaged.split("\n")
            for label in error.diagnostic.labels:
                assert 1 <= label.span.line <= len(lines)
                assert 1 <= label.span.column <= max(1, len(lines[label.span.line - 1]))
            assert error.diagnostic.help
