"""Small programs for tests of the command, and how it is called: in this process, or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

GROWTH = """
## Growth by steps.
size n = 4 in 1..64      "how many"
size steps = 6
param rate: f64 = 0.5 in -1.0..2.0   "growth a step"
param count: i32 = 3
param loud: bool = false
param Rate: f64 = 2.0
input start: f64[n] = ones((n,))     "at the start"

fn grow(x: f64[n], r: f64) -> f64[n] = x * (1.0 + r)

run {
    var x = start
    for step in 1..=steps {
        x = grow(x, rate)
        output every 2 steps: x to "x_{step}.npy"
    }
    print "sum", sum(x), count, loud, Rate
}

test "growth by nothing" { assert grow(ones((n,)), 0.0) == ones((n,)) }
test "growth by one" { assert grow(ones((n,)), 1.0) == 2.0 * ones((n,)) }
"""

TWO = 'run first { print "one" }\nrun second { print "two" }\n'
FAILS = 'test "holds" { assert 1 == 1 }\ntest "does not" { assert 1 == 2, "one is not two" }\n'
WRONG = "run {\n    print unknown_name\n}\n"
ENDLESS = """
size steps = 2_000_000_000
run {
    var x = zeros((8,))
    for step in 1..=steps {
        x = sin(x + 1.0)
        output every 1_000 steps: x to "x.npz"
        output every 1_000 steps: x to "x_{step}.npy"
    }
}
"""


def command(*args: str, env: dict[str, str] | None = None, **options: object) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own, on the host device."""
    return subprocess.run(arguments(*args), env=environment(env), capture_output=True, timeout=120, check=False, **options)


def arguments(*args: str) -> list[str]:
    return [sys.executable, "-m", "gla.cli.main", *args]


def environment(more: dict[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, "GLA_DEVICE": "host", "PYTHONPATH": str(ROOT), **(more or {})}
