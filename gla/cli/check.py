"""`gla check P...`: parse programs, check types and shapes with the default sizes, no device."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

import click

from gla.cli import render
from gla.cli.exits import OK, PROGRAM, USAGE, Given, usage
from gla.cli.sources import colour_option, load_program
from gla.errors import Diagnostic, GlaError, GlaSyntaxError

CODE = re.compile(r"GLA\d{0,4}")


@click.command("check", short_help="Look for errors in programs without running them.")
@click.argument("programs", metavar="P...", nargs=-1, required=True)
@click.option(
    "--output-format", "form", type=click.Choice(["text", "json", "github"]), default="text", help="How to show what is found."
)
@click.option("--deny", type=click.Choice(["warnings"]), help="Warnings end with code 1 too.")
@click.option("--select", metavar="CODE", multiple=True, help="Only these warnings, by code or its beginning (GLA02).")
@click.option("--ignore", metavar="CODE", multiple=True, help="Not these warnings. Errors are always shown.")
@colour_option
def command(programs: tuple[str, ...], form: str, deny: str | None, select: tuple[str, ...], ignore: tuple[str, ...]) -> int:
    """Parse programs, check names, types and shapes with their default sizes, and look for likely mistakes."""
    chosen, ignored = codes(select, "--select"), codes(ignore, "--ignore")
    found: list[Diagnostic] = []
    code = OK
    for name in programs:
        try:
            found += [one for one in findings(name) if shown(one, chosen, ignored)]
        except Given as error:
            found.append(error.error.diagnostic)
            code = USAGE
    show(found, form)
    errors = sum(one.severity == "error" for one in found)
    warnings = sum(one.severity == "warning" for one in found)
    if form == "text" and len(found) > 1:
        render.say(f"{errors} error{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}")
    return code or (PROGRAM if errors or (deny and warnings) else OK)


def findings(name: str) -> list[Diagnostic]:
    """Everything wrong or doubtful in a program. Raises Given when the file cannot be read."""
    try:
        return list(load_program(name).diagnostics())
    except GlaSyntaxError as error:
        return [error.diagnostic]
    except GlaError as error:
        return [error.diagnostic]


def codes(given: Iterable[str], flag: str) -> tuple[str, ...]:
    """The codes of --select or --ignore: GLA0305, or the beginning of some."""
    out = [code.strip().upper() for text in given for code in text.split(",") if code.strip()]
    for code in out:
        if not CODE.fullmatch(code):
            raise usage(
                f"{flag} {code}: that is no code",
                "a code is GLA and four digits, such as GLA0305; GLA03 means all that begin so",
            )
    return tuple(out)


def shown(found: Diagnostic, select: tuple[str, ...], ignore: tuple[str, ...]) -> bool:
    """Errors always; warnings when they are selected and not ignored."""
    if found.severity == "error":
        return True
    return (not select or found.code.startswith(select)) and not (ignore and found.code.startswith(ignore))


def show(found: list[Diagnostic], form: str) -> None:
    """Text goes to stderr as errors of other commands do, JSON and GitHub's commands to stdout."""
    if form == "json":
        sys.stdout.write(render.as_json(found) + "\n")
    elif form == "github":
        sys.stdout.write("".join(render.as_github(one) + "\n" for one in found))
    else:
        for one in found:
            render.diagnostic(one)
