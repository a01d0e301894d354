"""`gla ir F --stage S`: what a program becomes on its way to a device. Needs no GPU, for the text of CUDA kernels neither."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import click

from gla.cli import flags, stages
from gla.cli.exits import Given, given, usage
from gla.cli.run import check_entry
from gla.cli.sources import colour_option, load_program, read_program

STAGES = ("ast", "ir", "plan", "kernels", "graph")


class IrCommand(flags.ProgramCommand):
    """`gla ir`: the program's sizes are flags; params and inputs change no stage but through inputs' files."""

    kinds = ("size", "param", "input")
    load = staticmethod(load_program)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # The syntax tree is shown of programs that do not pass the checks; then there are no flags to read.
        if wants_tree(args):
            ctx.meta["gla.knobs"] = []
            return click.Command.parse_args(self, ctx, args)
        return super().parse_args(ctx, args)


def wants_tree(args: list[str]) -> bool:
    return "--stage=ast" in args or any(pair == ("--stage", "ast") for pair in pairwise(args))


@click.command("ir", cls=IrCommand, short_help="Show what a program becomes.")
@click.argument("program", metavar="F")
@click.option("--stage", type=click.Choice(STAGES), default="ir", help="Which stage.  [default ir]")
@click.option("--fn", "function", metavar="NAME", help="Only this function.")
@click.option("--entry", metavar="NAME", help="Which `run` block, where there are several.")
@click.option("--device", type=click.Choice(["host", "cpu", "cuda"]), default="host", help="Whose kernels.  [default host]")
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "dot"]), default="text", help="How to show it.  [default text]"
)
@click.option("--set", "sets", metavar="NAME=VALUE", multiple=True, help="A value by name.")
@colour_option
@click.pass_context
def command(
    ctx: click.Context, program: str, stage: str, function: str | None, entry: str | None, device: str, form: str,
    sets: tuple[str, ...], **knobs: Any,
) -> int:  # fmt: skip
    """Show a stage: the syntax tree, the IR, the plan, the kernels' text, or the launches with what each waits for.

    A loop is shown whole; when it runs, it is cut into chunks of trips where something is printed or written.
    """
    if stage == "ast":
        text = tree_text(program, function, form)
    else:
        values = flags.gathered(ctx.meta["gla.knobs"], knobs, sets, None, program)
        graphs = graphs_of(ctx.meta["gla.program"], values, entry, function)
        text = stages.show(graphs, stage, "cuda" if device == "cuda" else "host", form)
    sys.stdout.write(text)
    return 0


def tree_text(program: str, function: str | None, form: str) -> str:
    """The syntax tree of a program, or of one of its functions."""
    from gla.lang import syntax as s
    from gla.lang.parser import parse

    text, file = read_program(program)
    tree: Any = parse(text, file)
    if function is not None:
        found = {item.name.id: item for item in tree.items if isinstance(item, s.Function)}
        if function not in found:
            raise no_function(function, list(found))
        tree = found[function]
    return stages.tree(tree, form)


def graphs_of(unit: Any, values: dict[str, dict[str, Any]], entry: str | None, function: str | None) -> list[tuple[str, Any]]:
    """(name, ir.Graph) of a run block, or of one function."""
    from gla.lang.graphs import entry_graphs, function_graph
    from gla.lang.session import Session

    with given():
        session = Session(unit, sizes=values["size"], params=values["param"], inputs=values["input"])
    if function is not None:
        if function not in unit.functions:
            raise no_function(function, list(unit.functions))
        return [(function, function_graph(unit, function, session.given))]
    name = check_entry(unit, entry)
    found = entry_graphs(unit, name, session.given)
    return [(name if len(found) == 1 else f"{name}_{k}", graph) for k, graph in enumerate(found)]


def no_function(name: str, known: list[str]) -> Given:
    from gla.lang.io.paths import alike

    meant = alike(name, known)
    return usage(
        f"--fn {name}: the program has no such function",
        f"did you mean {meant}?" if meant else f"it has: {', '.join(known) or 'none'}",
    )
