"""Wrong programs that label syntax errors: a text that stops the parser where a sample does is told the sample's message.

Each row is a mistake and programs that make it. Two texts match when the parser was in the same state and the same
could have stood there, best when the same kind of token stood there; the rows are tried in order. Mistakes that need a look at the words round them are in mistakes.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from lark.exceptions import UnexpectedInput, UnexpectedToken

from gla.lang.table import RunTogether, table


@dataclass(frozen=True, slots=True)
class Sample:
    """A mistake: what is said of it, and programs that stop the parser at it."""

    code: str
    message: str
    help: str
    programs: tuple[str, ...]


SAMPLES: tuple[Sample, ...] = (
    Sample("GLA0021", "an input needs a type", "write `input x: f64[n] = ...`", ("input x = 3", "input x\n", "input x")),
    Sample(
        "GLA0021",
        "a `param` needs a value to start from",
        "write `param x: f64 = 1.0`",
        (
            "param x",
            "param x\nsize n",
            "param x: f64",
            "param x: f64\nsize n",
            'param x "t"',
            "param x in 0..1",
            "param x: f64 in 0..1",
        ),
    ),
    Sample(
        "GLA0021",
        "a `const` needs a value",
        "write `const g = 9.81`",
        ("const g", "const g\nsize n", "const g: f64", "const g: f64\nsize n"),
    ),
    Sample(
        "GLA0021",
        "a `state` needs a value to start from",
        "write `state u = zeros((n,))`",
        ("state u", "state u\nsize n", "state u: f64", "state u: f64\nsize n"),
    ),
    Sample("GLA0021", "a `size` has no type: it is an integer", "write `size n = 1024`", ("size n: i64 = 3",)),
    Sample(
        "GLA0021",
        "a variable needs a value",
        "write `let x = 1.0`",
        (
            "run { let x }",
            "run { let x\n }",
            "run { var x }",
            "run { var x\n }",
            "run { let x: f64 }",
            "run { let x: f64\n }",
            "run { var x: f64\n}",
            "run { var x: f64}",
        ),
    ),
    Sample(
        "GLA0021",
        "a function needs its parameters in parentheses",
        "write `fn f(x) = ...`",
        ("fn f x = 3", "fn f = 3", "fn f { 3 }"),
    ),
    Sample(
        "GLA0021",
        "a function needs a body",
        "write `= expression` or `{ ... }`",
        ("fn f(x)", "fn f(x)\nsize n", "fn f(x) x", "fn f(x) -> f64", "fn f(x) -> f64\nsize n"),
    ),
    Sample("GLA0021", "a test has a name", 'write `test "what holds" { ... }`', ("test {", "test x {")),
    Sample("GLA0021", "a bench has a name", 'write `bench "one step" { ... }`', ("bench {", "bench x {")),
    Sample(
        "GLA0021",
        "`for` needs `in`",
        "write `for k in 0..n { ... }`",
        ("run { for k = 0..n {} }", "run { for k 0..n {} }", "run { for k {} }", "run { for k; }", "run { for k, j in x {} }"),
    ),
    Sample(
        "GLA0021",
        "`for` takes one name",
        "write `for k in 0..n { ... }`",
        ("run { for (a, b) in x {} }", "run { for 3 in x {} }", "run { for }"),
    ),
    Sample(
        "GLA0021",
        "bounds are a range",
        "write `in 0.0..1.0`",
        ("size n in 3", "size n = 1 in (1, 2)\n", "param x = 1 in 3\n", "param x = 1 in (1, 2)\nrun {}"),
    ),
    Sample(
        "GLA0021",
        "each array of a stencil needs a boundary mode",
        "write `stencil(u: periodic) { ... }`",
        ("run { stencil(u) {} }", "run { stencil(u, v) {} }", "run { stencil u {} }", "run { stencil {} }"),
    ),
    Sample(
        "GLA0021",
        "`break` needs a condition",
        "write `break if err < tol`",
        ("run { break }", "run { break\n }", "run { break; }"),
    ),
    Sample(
        "GLA0021",
        "`save` needs `to` and a path",
        'write `save u to "u.npy"`',
        ("run { save u }", "run { save u\n }", 'run { save u, "a.npy" }', 'run { save u "a.npy" }'),
    ),
    Sample("GLA0021", "a tuple has at least one item", "write `(a,)` or `(a, b)`", ("run { let x = () }",)),
    Sample(
        "GLA0021",
        "a block is written in braces",
        "write `{ ... }`",
        (
            "run { if x y }",
            "run { if x\n y }",
            "run { for k in x y }",
            "run { for k in x\n y }",
            "run { while x max 3 y }",
            "run { while x max 3\n y }",
            "run { if x { } else y }",
            "run { if x { } else\n y }",
            "run\n",
            "run x y",
            "run x\n{",
        ),
    ),
    Sample(
        "GLA0021",
        "clauses are not separated by commas",
        "write `for i in a for j in b`",
        ("run { [x for i in a, for j in b] }", "run { sum(x for i in a, for j in b) }"),
    ),
    Sample("GLA0021", "`else` belongs to the `if` before it", "write `if c { a } else { b }`", ("run { else {} }",)),
    Sample(
        "GLA0001",
        "a comma is missing, or a bracket closes too late",
        "put `,` between the items",
        (
            "run { f(a b) }",
            "run { f(a 1) }",
            'run { f(a "b") }',
            "run { [a b] }",
            "run { [a 1] }",
            "run { x[a b] }",
            "run { x[a 1] }",
            "fn f(a b) = 1",
        ),
    ),
)


Key = tuple[int, frozenset[str], str]


@cache
def _known() -> dict[Key, Sample]:
    """Where the samples stop -> the first that stops there."""
    known: dict[Key, Sample] = {}
    for sample in SAMPLES:
        for program in sample.programs:
            try:
                table().parse(program, start="start")
            except UnexpectedToken as error:
                for key in _keys(error):
                    known.setdefault(key, sample)
            except (UnexpectedInput, RunTogether):
                continue
    return known


def label(error: UnexpectedInput) -> Sample | None:
    """The sample that stops the parser in the same place, or None."""
    if not isinstance(error, UnexpectedToken):
        return None
    return next((sample for key in _keys(error) if (sample := _known().get(key))), None)


def _keys(error: UnexpectedToken) -> list[Key]:
    """Where a parse stopped, most exact first: (state, what could have stood there, type of what stood).

    The state right after a value depends on the value's last token, so there what could follow says more.
    """
    accepted = frozenset(error.accepts or error.expected)
    state = int(getattr(error.state, "position", -1))
    keys = [(state, accepted, error.token.type), (state, accepted, "")]
    return [*keys, (-1, accepted, "")] if "ADD_OP" in accepted and "INT" not in accepted else keys
