"""`gla`: the command. Each command is a file of its own, imported when it is asked for, so that `--help` is quick."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from gla.cli import render
from gla.cli.exits import INTERRUPTED, guarded, usage

COMMANDS = {
    "run": "Plan and run a program; its sizes, params and inputs are flags.",
    "check": "Look for errors in programs without running them.",
    "test": "Run the `test` blocks of programs.",
    "ir": "Show what a program becomes: syntax tree, IR, plan, kernels, graph.",
    "doctor": "Say which devices and libraries are there, and what to do about the others.",
}


class Commands(click.Group):
    """The commands by name; a module `gla.cli.NAME` has the `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"gla.cli.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from gla.lang.io.paths import alike

            meant = alike(name, COMMANDS)
            if meant is None and name.endswith(".gla"):
                meant = f"run {name}"
            raise usage(f"there is no command {name!r}", f"did you mean gla {meant}?" if meant else "see gla --help")
        return super().resolve_command(ctx, args)


def show_version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        from gla.cli.version import version

        print(f"gla {version()}")
        ctx.exit()


@click.command(
    "gla",
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="gla COMMAND --help tells more; gla run PROGRAM --help lists the program's own flags.",
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=show_version, help="The version of gla.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), help="Colours; auto: on a terminal.")
def group(color: str | None) -> None:
    """Run simulations written in .gla, on the GPU or the CPU."""
    if color:
        render.set_colour(color)


def main(args: list[str] | None = None) -> int:
    """The whole command; gives the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    render.set_colour("auto")
    code = guarded(lambda: _main(sys.argv[1:] if args is None else args))
    if code == INTERRUPTED and args is None:
        # Kernels may still run; unloading them under their threads would end the process in another way than 130.
        sys.stderr.flush()
        os._exit(code)
    return code


def _main(args: list[str]) -> int:
    if not args:
        args = ["--help"]
    with group.make_context("gla", list(args)) as context:
        code = group.invoke(context)
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
