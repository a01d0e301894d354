"""The command as a whole: help, version, unknown commands, colours, what is imported."""

import subprocess
import sys

import pytest

from gla.cli import render
from tests.cli.programs import ROOT


def test_help_names_every_command(gla):
    told = gla("--help")
    assert told.code == 0 and all(f"  {name}" in told.out for name in ("run", "check", "test", "ir", "doctor"))
    assert gla().out == told.out


@pytest.mark.parametrize("name", ["run", "check", "test", "ir", "doctor"])
def test_every_command_has_help(gla, name):
    told = gla(name, "--help")
    assert told.code == 0 and told.out.startswith(f"Usage: gla {name}")


def test_the_version_is_that_of_the_project(gla):
    import tomllib

    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert gla("--version").out == f"gla {version}\n"


@pytest.mark.parametrize("name, word", [("rnu", "gla run?"), ("growth.gla", "gla run growth.gla?"), ("zzzz", "gla --help")])
def test_an_unknown_command_names_the_nearest(gla, name, word):
    told = gla(name)
    assert told.code == 2 and word in told.err


@pytest.mark.parametrize("args", [["run"], ["check"], ["test"], ["ir"]])
def test_a_missing_program_is_a_usage_error(gla, args):
    assert gla(*args).code == 2


def test_help_loads_no_compiler():
    code = (
        "import sys; from gla.cli.main import main; main(['--help']); "
        "print([m for m in ('llvmlite', 'lark', 'rich', 'cuda.bindings', 'ml_dtypes', 'scipy', 'gla.lang.parser') if m in sys.modules], file=sys.stderr)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT, timeout=60, check=True)
    assert told.stderr.strip() == b"[]"


@pytest.mark.parametrize("place", ["before", "behind"])
def test_colours_are_there_when_asked_for(gla, place):
    args = ["--color", "always", "check", "wrong.gla"] if place == "before" else ["check", "wrong.gla", "--color", "always"]
    plain = gla("check", "wrong.gla").err
    told = gla(*args).err
    assert "\x1b[31;1merror[GLA0101]\x1b[0m" in told and "\x1b[" not in plain
    import re

    assert re.sub(r"\x1b\[[\d;]*m", "", told) == plain


class Terminal:
    def isatty(self):
        return True


@pytest.mark.parametrize(
    "env, expected", [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)]
)
def test_a144_colours_of_a_terminal(monkeypatch, env, expected):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    render.set_colour("auto")
    assert render.colours(Terminal()) is expected
