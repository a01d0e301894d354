"""Sizes, params and inputs as flags: what is taken, what is refused and with what text."""

import numpy as np
import pytest


def numbers(told):
    assert (told.code, told.err) == (0, "")
    return told.out.split()[1:]


def total(told):
    return float(numbers(told)[0])


@pytest.mark.parametrize("text", ["16", "1_6", "16.0", "1.6e1"])
def test_a_size_is_any_spelling_of_a_whole_number(gla, text):
    assert total(gla("run", "growth.gla", "--n", text, "--rate", "0")) == 16.0


@pytest.mark.parametrize("text", ["2.5", "nan", "-4", "inf", "many", "1e30", "0", "65", ""])
def test_other_sizes_are_refused_with_the_range(gla, text):
    told = gla("run", "growth.gla", "--n", text)
    assert told.code == 2 and "1..64" in told.err and f"--n {text}" in told.err


def test_a_size_without_bounds_has_a_range_too(gla):
    told = gla("run", "growth.gla", "--steps", "2.5")
    assert told.code == 2 and "0 or more" in told.err


@pytest.mark.parametrize("args", [["--rate", "-0.5"], ["--rate=-0.5"], ["--rate", "-5e-1"]])
def test_negative_values_are_no_flags(gla, args):
    assert total(gla("run", "growth.gla", *args, "--steps", "1")) == 2.0


@pytest.mark.parametrize("text", ["2.5", "-1.5", "nan"])
def test_a_param_out_of_range_is_refused_with_the_range(gla, text):
    told = gla("run", "growth.gla", "--rate", text)
    assert told.code == 2 and "-1.0..2.0" in told.err


def test_a_decimal_comma_is_named(gla):
    told = gla("run", "growth.gla", "--rate", "0,5")
    assert told.code == 2 and "0.5" in told.err


@pytest.mark.parametrize("text", ["2.5", "3_000_000_000", "x", "nan"])
def test_an_integer_param_takes_what_fits_it(gla, text):
    assert gla("run", "growth.gla", "--count", text).code == 2


def test_params_of_every_kind_arrive(gla):
    assert numbers(gla("run", "growth.gla", "--count", "0x10", "--loud", "TRUE", "--Rate", "7"))[1:] == ["16", "true", "7.0"]


def test_names_that_differ_in_case_are_two_flags(gla):
    assert numbers(gla("run", "growth.gla", "--rate", "0", "--Rate", "1")) == ["4.0", "3", "false", "1.0"]


def test_an_unknown_flag_names_the_nearest_of_the_program(gla):
    told = gla("run", "growth.gla", "--stpes", "3")
    assert told.code == 2 and "--stpes" in told.err and "--steps?" in told.err


@pytest.mark.parametrize("flag", ["--resume", "--watch", "--plot", "--dry-run"])
def test_flags_of_later_versions_are_unknown(gla, flag):
    assert gla("run", "growth.gla", flag).code == 2


def test_help_lists_the_flags_of_the_program(gla):
    told = gla("run", "growth.gla", "--help")
    assert told.code == 0
    for text in ("--n INT", "how many", "in 1..64", "default 4", "--rate F64", "growth a step", "--start FILE", "f64[n]"):
        assert text in told.out


def test_a_file_of_values_is_below_set_and_flags(gla, folder):
    (folder / "p.toml").write_text("rate = 0\nsteps = 1\n[sizes]\nn = 8\n[params]\nloud = true\n")
    assert numbers(gla("run", "growth.gla", "--params", "p.toml")) == ["8.0", "3", "true", "2.0"]
    assert total(gla("run", "growth.gla", "--params", "p.toml", "--set", "n=5")) == 5.0
    assert total(gla("run", "growth.gla", "--params", "p.toml", "--set", "n=5", "--n", "6")) == 6.0


@pytest.mark.parametrize(
    "text, word",
    [("rte = 1\n", "rate?"), ("rate = [1]\n", "one number"), ("rate = = 1\n", "line 1"), ("n = 100\n", "1..64")],
)
def test_a_wrong_file_of_values_is_refused(gla, folder, text, word):
    (folder / "p.toml").write_text(text)
    told = gla("run", "growth.gla", "--params", "p.toml")
    assert told.code == 2 and word in told.err


@pytest.mark.parametrize("pair, word", [("rate", "NAME=VALUE"), ("raet=1", "rate?"), ("n=2.5", "1..64")])
def test_a_wrong_set_is_refused(gla, pair, word):
    told = gla("run", "growth.gla", "--set", pair)
    assert told.code == 2 and word in told.err


def test_a_name_that_is_also_a_flag_of_the_command_is_set(gla, folder):
    (folder / "o.gla").write_text("param out: f64 = 1.0\nparam help: f64 = 2.0\nrun { print out, help }\n")
    assert gla("run", "o.gla", "--set", "out=3", "--set", "help=4").out == "3.0 4.0\n"
    assert "--set" in gla("run", "o.gla", "--help").out


def test_greek_names_are_flags(gla, folder):
    (folder / "g.gla").write_text("param Δt: f64 = 1.0\nrun { print Δt }\n")
    assert gla("run", "g.gla", "--Δt", "3").out == "3.0\n"


def test_inputs_come_from_files(gla, folder):
    np.save(folder / "a.npy", np.arange(4.0))
    np.savez(folder / "b.npz", p=np.arange(4.0) + 1, q=np.zeros(3))
    (folder / "c.csv").write_text("x\n1\n2\n3\n5\n")
    for text, expected in [("a.npy", 6.0), ("b.npz:p", 10.0), ("c.csv:skip=1", 11.0)]:
        assert total(gla("run", "growth.gla", "--quiet", "--rate", "0", "--start", text)) == expected


@pytest.mark.parametrize(
    "text, word",
    [
        ("b.npz:q", "f64[3]"),
        ("b.npz:P", "p, q"),
        ("b.npz", "p, q"),
        ("no.npy", "does not exist"),
        ("c.csv", "skip=1"),
        (".", "folder"),
    ],
)
def test_inputs_that_do_not_fit_are_the_command_lines_fault(gla, folder, text, word):
    np.savez(folder / "b.npz", p=np.arange(4.0) + 1, q=np.zeros(3))
    (folder / "c.csv").write_text("x\n1\n2\n3\n5\n")
    told = gla("run", "growth.gla", "--start", text)
    assert told.code == 2 and word in told.err


def test_what_has_no_default_must_be_given(gla, folder):
    (folder / "i.gla").write_text("size n\ninput x: f64[n]\nrun { print sum(x) }\n")
    np.save(folder / "x.npy", np.ones(3))
    assert gla("run", "i.gla", "--n", "3", "--x", "x.npy").out == "3.0\n"
    told = gla("run", "i.gla", "--n", "3")
    assert told.code == 2 and "--x" in told.err


def test_a143_two_dashes_end_the_flags(gla, folder):
    (folder / "-x.gla").write_text('run { print "dashed" }\n')
    assert gla("run", "--", "-x.gla").out == "dashed\n"


def test_the_program_may_stand_behind_flags(gla):
    assert total(gla("run", "--n", "2", "--quiet", "growth.gla", "--rate", "0")) == 2.0
