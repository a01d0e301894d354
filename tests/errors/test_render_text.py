"""How a diagnostic looks as plain text."""

from __future__ import annotations

from gla.errors import Diagnostic, Label, Span, render_text


def at(line: int, column: int, end: int, text: str = "", file: str = "t.gla") -> Label:
    return Label(Span(file, line, column, line, end), text)


def test_labels_on_one_line_share_it() -> None:
    found = Diagnostic(
        "GLA0301",
        "cannot add f64[n, 3] and f64[n]",
        (at(2, 17, 18), at(2, 13, 16, "f64[n, 3]"), at(2, 19, 23, "f64[n]")),
        ("shapes align from the right: 3 against 512",),
        ("to use one mass per row write `mass[:, new]`",),
        source="fn f(pos, mass) {\n    let d = pos + mass\n}\n",
    )
    assert (
        render_text(found)
        == """\
error[GLA0301]: cannot add f64[n, 3] and f64[n]
 --> t.gla:2:17
  |
2 |     let d = pos + mass
  |             --- ^ ----
  |             |     f64[n]
  |             f64[n, 3]
  = shapes align from the right: 3 against 512
  = help: to use one mass per row write `mass[:, new]`"""
    )


def test_lines_far_apart_are_told_in_order() -> None:
    found = Diagnostic("GLA0101", "m", (at(11, 1, 2, "here"), at(2, 1, 2, "there")), source="x\n" * 12)
    assert render_text(found).split("\n")[1:] == [
        "  --> t.gla:11:1",
        "   |",
        " 2 | x",
        "   | - there",
        "...",
        "11 | x",
        "   | ^ here",
    ]


def test_a_label_in_a_file_that_is_gone_is_told_in_words() -> None:
    found = Diagnostic("GLA0101", "m", (at(1, 1, 2), at(7, 3, 4, "declared here", file="/nowhere/b.gla")), source="x")
    assert render_text(found).split("\n")[-2:] == [" ::: /nowhere/b.gla:7:3", "  = /nowhere/b.gla:7:3: declared here"]


def test_wide_characters_count_two_columns() -> None:
    rows = render_text(Diagnostic("GLA0101", "m", (at(1, 4, 5),), source="日本 x")).split("\n")
    assert rows[-1] == "  |      ^"


def test_other_line_separators_of_unicode_do_not_shift_lines() -> None:
    rows = render_text(Diagnostic("GLA0101", "m", (at(2, 1, 2),), source="a\u2028b\x0c\nc")).split("\n")
    assert rows[-2:] == ["2 | c", "  | ^"]


def test_a_diagnostic_without_a_place_is_one_line() -> None:
    assert render_text(Diagnostic("GLA0801", "no such file")) == "error[GLA0801]: no such file"
