"""`gla run F [--NAME VALUE]...`: plan and run a program."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from gla.cli import flags
from gla.cli.exits import INTERRUPTED, given, usage
from gla.cli.sources import check_device, colour_option, load_program

CHECKS = ("bounds", "nan", "all")


class RunCommand(flags.ProgramCommand):
    """`gla run`: every knob of the program is a flag."""

    load = staticmethod(load_program)


def check_out(out: str | None) -> Path | None:
    """The folder for outputs: made, and tried, before anything is computed. None: the program writes nothing."""
    if out is None:
        return None
    from gla.lang.io import check_folder

    with given():
        return check_folder(out)


def writes(tree: Any) -> bool:
    """Whether a program has statements that write files."""
    from gla.lang import syntax as s
    from gla.lang.dump import children

    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, s.Output | s.Save):
            return True
        pending.extend(children(node))
    return False


@click.command("run", cls=RunCommand, short_help="Plan and run a program.")
@click.argument("program", metavar="F")
@click.option("--entry", metavar="NAME", help="Which `run` block, where there are several.")
@click.option(
    "--device", default="auto", callback=check_device, metavar="D", help="auto, cpu (or host), cuda, cuda:1.  [default auto]"
)
@click.option("--out", metavar="DIR", help="The folder that outputs are written to, made if need be.  [default: here]")
@click.option(
    "--set", "sets", metavar="NAME=VALUE", multiple=True, help="A value by name; for names that are also flags of gla run."
)
@click.option("--params", "params_file", metavar="FILE", help="Values from a TOML file; flags win over it.")
@click.option(
    "--check",
    "checks",
    metavar="WHAT",
    help="Look while it runs at bounds (indices), nan (values that get a name), or all, every step.",
)
@click.option("--quiet", "-q", is_flag=True, help="Only errors on stderr; what the program prints stays.")
@click.option("--time", "timed", is_flag=True, help="Say at the end what took how long.")
@colour_option
@click.pass_context
def command(
    ctx: click.Context, program: str, entry: str | None, device: str, out: str | None, sets: tuple[str, ...],
    params_file: str | None, checks: str | None, quiet: bool, timed: bool, **knobs: Any,
) -> int:  # fmt: skip
    """Plan and run a program. Its sizes, params and inputs are flags: gla run F --help lists them.

    A size is a whole number (4096, 4_096, 4e3); an input is a file: x.npy, x.npz:key, t.csv, t.csv:skip=1, or - for
    standard input. F may be - too.
    """
    unit = ctx.meta["gla.program"]
    values = flags.gathered(ctx.meta["gla.knobs"], knobs, sets, params_file, program)
    checked = check_names(checks)
    chosen = check_entry(unit, entry)
    folder = check_out(out if out is not None else "." if writes(unit.tree) else None)
    started = time.perf_counter()

    from gla.cli.devices import open_machine
    from gla.cli.interrupt import interruptible
    from gla.cli.progress import Terminal, run_times, stopped_line
    from gla.lang.session import Session

    reporter = Terminal(Path(program).stem if program != "-" else "stdin", quiet)
    with interruptible():
        try:
            machine, why = open_machine(device)
            if why:
                reporter.note(why)
            with given():
                session = Session(
                    unit, sizes=values["size"], params=values["param"], inputs=values["input"], device=machine.name,
                    out=folder, reporter=reporter, check=checked,
                )  # fmt: skip
            check_given(unit, session)
            planned = time.perf_counter()
            session.run(chosen)
        except KeyboardInterrupt:
            reporter.stop(stopped_line(reporter))
            return INTERRUPTED
        finally:
            reporter.close()
    if timed:
        reporter.tell(run_times(planned - started, time.perf_counter() - planned, reporter.steps, machine.name))
    return 0


def check_names(checks: str | None) -> frozenset[str]:
    """The names in --check; a usage error for those that are not known."""
    names = frozenset(name.strip() for name in (checks or "").split(",") if name.strip())
    for name in sorted(names - set(CHECKS)):
        raise usage(f"--check {name}: there is no such check", f"known are {', '.join(CHECKS)}; several as in bounds,nan")
    return names


def check_entry(unit: Any, entry: str | None) -> str:
    """The name of the `run` block to run; a usage error when it is not there, or when which one is wanted is not said."""
    if not unit.runs:
        unit.entry(None)
    with given():
        run = unit.entry(entry)
    return "run" if run.name is None else str(run.name.id)


def check_given(unit: Any, session: Any) -> None:
    """Refuse values that do not suit their declarations, as the command line's fault. Nothing is computed."""
    from gla.lang.engine import DryEngine
    from gla.lang.toplevel import scope_of

    ctx = unit.context(DryEngine())
    needed = [knob.name for knob in (*unit.sizes, *unit.inputs) if knob.default is None]
    wanted = [*session.given.sizes, *session.given.params, *session.given.inputs, *needed]
    with ctx.lowering(), given():
        scope = scope_of(ctx, unit.tree, session.given)
        for name in wanted:
            scope.names[name].get()
