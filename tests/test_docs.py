"""What README.md and docs/*.md show runs, and gives what they say.

Each file's ```python blocks run in order in one namespace, its ```gla blocks go through `gla check`, and those with a `run`
block through `gla run`. A top-level line that ends in `# -> text` is compared: an expression gives `text` (as str or repr; `...`
stands for anything), an error gives `Class CODE`. A ```text block right after a block is what that prints. Install lines are compared as text only: they need a network.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import gla
from gla.cli.main import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples" / "README.md"]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
PRINTED = re.compile(r"\s*^```text\n(.*?)^```$", re.M | re.S)
WANTED = re.compile(r"#\s*->\s*(.*)$")
FAULT = re.compile(r"(\w+) (GLA\d{4})$")


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """(line of the first line, text) of each block of that language."""
    text = page.read_text()
    return [(text.count("\n", 0, m.start(2)) + 1, m[2]) for m in BLOCK.finditer(text) if m[1] == language]


def printed_by(page: Path, line: int) -> str | None:
    """The text block right after the block whose text begins at `line`."""
    text = page.read_text()
    block = next(m for m in BLOCK.finditer(text) if text.count("\n", 0, m.start(2)) + 1 == line)
    found = PRINTED.match(text, block.end())
    return " ".join(found[1].split()) if found else None


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def same(wanted: str, value: Any) -> bool:
    pattern = ".*".join(re.escape(part) for part in wanted.split("..."))
    return any(re.fullmatch(pattern, " ".join(text.split()), re.S) for text in (str(value), repr(value)))


def run_statement(node: ast.stmt, wanted: str | None, place: str, page: str, names: dict[str, Any]) -> None:
    """One top-level statement; compared with `wanted` when it says something."""
    fault = FAULT.fullmatch(wanted) if wanted is not None else None
    if fault:
        with pytest.raises(getattr(gla, fault[1])) as caught:
            exec(compile(ast.Module([node], []), page, "exec"), names)
        assert caught.value.code == fault[2], place
    elif wanted is not None and isinstance(node, ast.Expr):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            value = eval(compile(ast.Expression(node.value), page, "eval"), names)
        given = printed.getvalue() if printed.getvalue() else value
        assert same(wanted, given.strip() if isinstance(given, str) else given), f"{place} gives {given!r}, not {wanted}"
    else:
        exec(compile(ast.Module([node], []), page, "exec"), names)


@pytest.mark.parametrize("device", ["host", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=name)
def test_python_of_the_pages_runs_and_gives_what_they_say(page, device, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for first, text in blocks(page, "python"):
        source = "\n" * (first - 1) + text  # so that lines in messages are the page's
        file = tmp_path / "page.py"
        file.write_text(source)
        lines = source.splitlines()
        told = io.StringIO()
        with contextlib.redirect_stdout(told), gla.device(device):
            for node in ast.parse(source).body:
                found = WANTED.search(lines[(node.end_lineno or 1) - 1])
                wanted = " ".join(found[1].split()) if found else None
                run_statement(node, wanted, f"{name(page)}:{node.lineno}", str(file), names)
        output = printed_by(page, first)
        # Plans of a GPU may differ from those that the pages show.
        assert output is None or device != "host" or same(output, told.getvalue()), (
            f"{name(page)}:{first} prints\n{told.getvalue()}"
        )


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "gla")], ids=name)
def test_programs_of_the_pages_are_checked_and_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for first, text in blocks(page, "gla"):
        (tmp_path / "page.gla").write_text(text)
        assert main(["check", "page.gla"]) == 0, f"{name(page)}:{first}\n{capsys.readouterr().err}"
        if re.search(r"^run\b", text, re.M):
            code = main(["run", "page.gla", "--device", "cpu", "--out", "out", "--quiet"])
            told = capsys.readouterr()
            assert code == 0, f"{name(page)}:{first}\n{told.err}"
            output = printed_by(page, first)
            assert output is None or same(output, told.out), f"{name(page)}:{first} prints\n{told.out}"


def test_install_lines_name_what_there_is():
    text = (ROOT / "README.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [line for _, block in blocks(ROOT / "README.md", "sh") for line in block.splitlines()]
    assert any(line.endswith("pip install . && .venv/bin/gla run examples/solar_system.gla --out out") for line in lines)
    assert "gla" in project["scripts"]
    for extra in re.findall(r"\.\[(\w+)\]", text):
        assert extra in project["optional-dependencies"]
    for path in re.findall(r"examples/\w+\.\w+", text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_between_the_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{name(page)}: {target}"


def test_every_package_that_gla_stands_on_is_told():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [*project["dependencies"], *(p for extra in project["optional-dependencies"].values() for p in extra)]
    told = (ROOT / "docs" / "dependencies.md").read_text()
    packages = {re.split(r"[<>=!~\[; ]", text)[0].removesuffix("-cu12") for text in named}
    assert {p for p in packages if p not in told} == set()
