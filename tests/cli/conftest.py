"""Fixtures: the command in this process, in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gla.cli.main import main
from gla.config import environment
from tests.cli import programs


@dataclass(frozen=True, slots=True)
class Told:
    """What the command gave."""

    code: int
    out: str
    err: str


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder, with the small programs in it; `auto` is the host."""
    for name in ("GROWTH", "TWO", "FAILS", "WRONG", "ENDLESS"):
        (tmp_path / f"{name.lower()}.gla").write_text(getattr(programs, name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GLA_DEVICE", "host")
    environment.cache_clear()
    yield tmp_path
    environment.cache_clear()


@pytest.fixture
def gla(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    """`gla("run", "growth.gla")`: the code, stdout and stderr."""

    def call(*args: str) -> Told:
        code = main([str(arg) for arg in args])
        told = capsys.readouterr()
        return Told(code, told.out, told.err)

    return call
