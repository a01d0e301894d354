"""`gla test P...`: run the test blocks of programs on every device that is present."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from gla.cli import render
from gla.cli.exits import OK, PROGRAM, USAGE, Given, usage
from gla.cli.sources import check_device, colour_option, load_program
from gla.errors import GlaError


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one test went on one device; `error` is None when it passed."""

    program: str
    name: str
    device: str
    seconds: float
    error: GlaError | None


def device_names(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    """The devices that --device names; `all` are those that are present."""
    if value in ("all", "both"):
        from gla.cli.devices import present

        return tuple(present())
    return (check_device(ctx, param, value),)


@click.command("test", short_help="Run the `test` blocks of programs.")
@click.argument("programs", metavar="P...", nargs=-1, required=True)
@click.option("-k", "pattern", metavar="TEXT", help="Only tests whose name holds the text.")
@click.option(
    "--device",
    "devices",
    default="all",
    callback=device_names,
    metavar="D",
    help="all that are present, auto, cpu, cuda, cuda:1.  [default all]",
)
@click.option("--quiet", "-q", is_flag=True, help="Only failures and the sum.")
@colour_option
def command(programs: tuple[str, ...], pattern: str | None, devices: tuple[str, ...], quiet: bool) -> int:
    """Run the `test` blocks of programs, each on every device that is present."""
    from gla.cli.interrupt import interruptible

    started = time.perf_counter()
    outcomes: list[Outcome] = []
    code, seen = OK, 0
    with interruptible():
        for name in programs:
            try:
                unit = load_program(name)
            except Given as error:
                render.diagnostic(error.error.diagnostic)
                code = USAGE
                continue
            except GlaError as error:
                render.diagnostic(error.diagnostic)
                code = code or PROGRAM
                continue
            seen += len(unit.tests)
            if not unit.tests:
                print(f"{name} has no tests")
            for outcome in outcomes_of(unit, name, pattern, devices):
                outcomes.append(outcome)
                tell(outcome, quiet, len(programs) > 1, len(devices) > 1)
    if pattern and seen and not outcomes:
        raise usage(f"-k {pattern}: no test has a name that holds this text")
    failed = sum(outcome.error is not None for outcome in outcomes)
    if outcomes:
        print(summary(len(outcomes) - failed, failed, time.perf_counter() - started))
    return code or (PROGRAM if failed else OK)


def outcomes_of(unit: Any, name: str, pattern: str | None, devices: tuple[str, ...]) -> Iterator[Outcome]:
    """Each chosen test of a program on each device. Each test has a session of its own, and leaves no files."""
    from gla.lang.session import Session

    for test in unit.tests:
        if pattern and pattern.lower() not in test.lower():
            continue
        for device in devices:
            began = time.perf_counter()
            error = None
            try:
                Session(unit, device=device, out=None, reporter=Printing()).test(test)
            except GlaError as failure:
                error = failure
            yield Outcome(name, test, device, time.perf_counter() - began, error)


class Printing:
    """The reporter of a test: what it prints is shown, the rest is not."""

    def print_line(self, text: str) -> None:
        sys.stdout.write(f"    {text}\n")

    def progress(self, step: int, total: int, fields: Any) -> None:
        return

    def note(self, text: str) -> None:
        return

    def wrote(self, path: Path) -> None:
        return


def tell(outcome: Outcome, quiet: bool, several: bool, devices: bool) -> None:
    """One line a test, and what was wrong below it."""
    where = (f"{outcome.program}: " if several else "") + outcome.name + (f" [{outcome.device}]" if devices else "")
    if outcome.error is None:
        if not quiet:
            print(f"{render.paint('ok', render.GREEN, stream=sys.stdout)}      {where}  ({outcome.seconds:.2f} s)")
        return
    print(f"{render.paint('FAILED', render.RED, render.BOLD, stream=sys.stdout)}  {where}", flush=True)
    render.diagnostic(outcome.error.diagnostic)


def summary(passed: int, failed: int, seconds: float) -> str:
    """`3 passed, 1 failed in 0.5 s`."""
    parts = [f"{passed} passed"] if passed or not failed else []
    parts += [f"{failed} failed"] if failed else []
    return f"{', '.join(parts)} in {seconds:.1f} s"
