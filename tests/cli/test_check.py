"""`gla check`: what it finds, in which form, with which exit code."""

import json

import pytest

UNUSED = "fn f(x: f64[n]) = x * 2.0\nrun { print f([1.0]) }\n"  # GLA0305: n is bound once


def test_a_good_program_says_nothing(gla):
    assert (gla("check", "growth.gla", "two.gla").code, gla("check", "growth.gla").err) == (0, "")


def test_errors_are_code_1_and_counted(gla):
    told = gla("check", "wrong.gla", "wrong.gla")
    assert told.code == 1 and "wrong.gla:2:11" in told.err and told.err.endswith("2 errors, 0 warnings\n")


def test_a_missing_file_is_code_2_and_the_others_are_checked(gla):
    told = gla("check", "wrong.gla", "gone.gla")
    assert told.code == 2 and "unknown_name" in told.err and "gone.gla does not exist" in told.err


def test_a144_json_is_all_that_is_on_stdout_and_has_byte_spans(gla, folder):
    text = "run {\n    let α = 1.0; print α + unknown_name\n}\n"
    (folder / "u.gla").write_text(text)
    told = gla("check", "u.gla", "--output-format", "json")
    assert told.code == 1 and told.err == ""
    (found,) = json.loads(told.out)
    (label,) = found["labels"]
    assert found["code"] == "GLA0101" and found["severity"] == "error"
    data = text.encode()
    assert data[label["start"]["byte"] : label["end"]["byte"]] == b"unknown_name"
    assert (label["start"]["line"], label["start"]["column"]) == (2, text.split("\n")[1].index("unknown_name") + 1)


def test_json_of_good_programs_is_an_empty_list(gla):
    assert json.loads(gla("check", "growth.gla", "--output-format", "json").out) == []


def test_json_of_a_syntax_error_and_a_missing_file(gla, folder):
    (folder / "s.gla").write_text("run { let }\n")
    told = gla("check", "s.gla", "gone.gla", "--output-format", "json")
    assert [one["code"][:5] for one in json.loads(told.out)] == ["GLA00", "GLA08"] and told.code == 2


def test_github_gets_commands(gla):
    told = gla("check", "wrong.gla", "--output-format", "github")
    assert told.out.startswith("::error file=wrong.gla,line=2,col=11,endLine=2,endColumn=23,title=GLA0101::") and told.code == 1


def test_warnings_fail_only_when_they_are_denied(gla, folder):
    (folder / "w.gla").write_text(UNUSED)
    told = gla("check", "w.gla")
    assert told.code == 0 and "warning[GLA0305]" in told.err
    assert gla("check", "w.gla", "--deny", "warnings").code == 1


@pytest.mark.parametrize("args", [["--ignore", "GLA0305"], ["--ignore", "GLA03,GLA04"], ["--select", "GLA0250"]])
def test_warnings_are_chosen_by_code(gla, folder, args):
    (folder / "w.gla").write_text(UNUSED)
    told = gla("check", "w.gla", "--deny", "warnings", *args)
    assert (told.code, told.err) == (0, "")


def test_errors_cannot_be_ignored(gla):
    assert gla("check", "wrong.gla", "--ignore", "GLA0101").code == 1


@pytest.mark.parametrize("args", [["--select", "E501"], ["--ignore", "305"], ["--deny", "all"], ["--outptu-format", "json"]])
def test_wrong_flags_are_code_2(gla, args):
    assert gla("check", "growth.gla", *args).code == 2


def test_a143_unknown_flags_name_the_nearest(gla):
    assert "--output-format?" in gla("check", "growth.gla", "--output-fromat", "json").err
