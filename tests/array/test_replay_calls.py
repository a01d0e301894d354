"""How many calls Python makes for one replay: bounds that hold on any machine. What a release adds here it pays on every call."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# As users run gla: the strict host device looks at every pointer.
CODE = """
import json, numpy, gla
from benchmarks.calls import replay_calls
with gla.device("host"):
    x, y, z, w = (gla.asarray(numpy.full(100, k, numpy.float32)) for k in range(4))
    one = gla.function(lambda x: x * 2 + 1)
    four = gla.function(lambda x, y, z, w, a, b: x * a + y * b + z * w)
    prepared = one.prepare(x)
    calls = {
        "one array": lambda: one(x),
        "four arrays, two scalars": lambda: four(x, y, z, w, 2.0, 3.0),
        "prepared": prepared,
    }
    for call in calls.values():
        call()
    print(json.dumps({name: replay_calls(call) for name, call in calls.items()}))
"""


@pytest.fixture(scope="module")
def counted() -> dict[str, int]:
    env = {**os.environ, "GLA_STRICT": "0", "GLA_VERIFY": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", CODE], env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize(("what", "most"), [("one array", 52), ("four arrays, two scalars", 52), ("prepared", 46)])
def test_a_replay_makes_few_calls(counted: dict[str, int], what: str, most: int) -> None:
    assert 10 < counted[what] <= most
