"""The passes in their order. `run(graph, options)` is called by the compiler before planning; each pass is `Graph -> Graph`.

REQUIRED passes bring a graph into the form that the planner takes and run always; OPTIMISING ones run unless
`options.passes` is false. None changes a bit of a result.
"""

from __future__ import annotations

from collections.abc import Callable

from gla.config import Options
from gla.ir.graph import Graph
from gla.ir.verify import verify
from gla.passes.fold import fold
from gla.passes.loops import split_runs, tidy_loops
from gla.passes.products import expand_products
from gla.passes.reductions import split_reductions
from gla.passes.rows import split_rows
from gla.passes.scalarise import scalarise
from gla.passes.scatter import gather_scatters
from gla.passes.simplify import simplify

Pass = Callable[[Graph], Graph]

CLEAN: tuple[tuple[str, Pass], ...] = (("simplify", simplify), ("fold", fold))
OPTIMISING: tuple[tuple[str, Pass], ...] = (
    *CLEAN,
    ("tidy-loops", tidy_loops),
    ("split-runs", split_runs),
    ("scalarise", scalarise),
    ("rows", split_rows),
)
REQUIRED: tuple[tuple[str, Pass], ...] = (
    ("scatter", gather_scatters),
    ("products", expand_products),
    ("reductions", split_reductions),
)
LAST: tuple[tuple[str, Pass], ...] = (("tidy-loops", tidy_loops), *CLEAN)


def passes(options: Options) -> tuple[tuple[str, Pass], ...]:
    """(name, pass) in the order in which they run under these options."""
    return (*OPTIMISING, *REQUIRED, *CLEAN, *LAST) if options.passes else REQUIRED


def run(graph: Graph, options: Options | None = None, seen: Callable[[str, Graph], None] | None = None) -> Graph:
    """The graph after all passes. `seen(name, graph)` is called after each, for `gla ir`."""
    options = options or Options()
    for name, step in passes(options):
        graph = step(graph)
        if options.verify:
            verify(graph, name)
        if seen is not None:
            seen(name, graph)
    return graph
