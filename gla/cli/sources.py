"""Programs named on the command line: a path, or `-` for standard input."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from gla.cli import render
from gla.cli.exits import Given, given
from gla.errors import GlaFileError
from gla.lang.io.paths import cannot_read, decode, readable

STDIN = "<stdin>"


def read_program(name: str) -> tuple[str, str]:
    """(text, name in messages) of the program in a file. Raises Given: missing, a folder, not text, not readable."""
    with given():
        if name == "-":
            return decode(sys.stdin.buffer.read(), STDIN, "program"), STDIN
        path = readable(name, "program")
        if path.suffix in (".npy", ".npz", ".csv"):
            raise GlaFileError("GLA0812", f"{name} holds data, not a program", help="the program comes first: gla run F.gla")
        try:
            data = path.read_bytes()
        except OSError as error:
            cannot_read(name, "program", error)
        return decode(data, name, "program"), name


def load_program(name: str) -> Any:
    """The program of that name (gla.lang.program.Program). Raises Given for the file, GlaSyntaxError for its text."""
    from gla.lang.program import load

    text, file = read_program(name)
    return load(text, file)


def colour_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--color`, which may stand before or behind the command's name."""

    def chosen(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value:
            render.set_colour(value)

    kinds = click.Choice(["auto", "always", "never"])
    return click.option("--color", type=kinds, callback=chosen, expose_value=False, help="Colours; auto: on a terminal.")(
        command
    )


def check_device(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """A device's name, as far as its spelling goes."""
    kind, colon, number = value.partition(":")
    if value in ("auto", "cpu", "host", "cuda") or (kind == "cuda" and colon and number.isdecimal()):
        return value
    raise Given(GlaFileError("GLA0820", f"--device {value}: there is no such device", help="auto, cpu (or host), cuda, cuda:1"))
