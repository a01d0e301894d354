"""Recipes on disk: a known graph runs without being planned, in this process or a later one; whatever goes wrong is a miss."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gla import compiler
from gla.config import Options
from gla.dtypes import float32
from gla.ir.builder import apply
from gla.ir.functions.linear import matmul
from gla.ir.graph import Graph
from gla.runtime import recipe
from gla.runtime.cache import ImageCache
from gla.runtime.machine import Machine
from tests.runtime.conftest import array, scalar

OPTIONS = Options()


def fresh(folder: Path) -> Machine:
    from gla.device.host import HostDevice

    return Machine(HostDevice(strict=True), ImageCache(folder))


def scaled(factor: float = 2.0) -> Graph:
    x, a = array((40,), float32), scalar()
    return Graph((x, a), (apply("add", apply("multiply", x, a), factor),))


def result(machine: Machine, graph: Graph) -> np.ndarray:
    values = np.arange(40, dtype=np.float32)
    (out,) = compiler.executable(graph, machine, OPTIONS).run([machine.upload(values)], [3.0])
    return machine.download(out, values.dtype, values.shape)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Graph]:
    """The graphs that went the road."""
    seen: list[Graph] = []
    made = compiler._made

    def watched(graph: Graph, machine: Machine, options: Options):
        seen.append(graph)
        return made(graph, machine, options)

    monkeypatch.setattr(compiler, "_made", watched)
    return seen


def test_a_known_graph_is_not_planned_again(tmp_path: Path, planned: list[Graph]) -> None:
    first = result(fresh(tmp_path), scaled())
    second = result(fresh(tmp_path), scaled())
    assert len(planned) == 1
    assert first.tolist() == second.tolist() == (np.arange(40) * 3.0 + 2.0).tolist()


def test_another_graph_is_planned(tmp_path: Path, planned: list[Graph]) -> None:
    result(fresh(tmp_path), scaled())
    assert result(fresh(tmp_path), scaled(5.0))[0] == 5.0
    assert len(planned) == 2


def test_options_count(tmp_path: Path) -> None:
    properties = fresh(tmp_path).properties
    assert recipe.digest(scaled(), OPTIONS, properties) != recipe.digest(scaled(), Options(passes=False), properties)


def test_a_new_size_of_what_is_loaded_is_not_written(tmp_path: Path) -> None:
    machine, kept = fresh(tmp_path), []
    for n in (40, 41, 42):
        x = array((n,), float32)
        kept.append(compiler.executable(Graph((x,), (apply("add", x, 1.0),)), machine, OPTIONS))
    assert len([p for p in tmp_path.rglob("*") if p.is_file() and p.name != "swept"]) == 2  # a kernel and a recipe


def test_a_lost_image_is_compiled_from_the_graph(tmp_path: Path, planned: list[Graph]) -> None:
    result(fresh(tmp_path), scaled())
    for path in tmp_path.rglob("*"):
        if path.is_file() and b"gla.plan.steps" not in path.read_bytes():
            path.unlink()
    assert result(fresh(tmp_path), scaled())[0] == 2.0
    assert len(planned) == 2


def test_a_plan_with_a_library_call_is_kept(tmp_path: Path, planned: list[Graph]) -> None:
    a, b = array((8, 8)), array((8, 8))
    for _ in range(2):
        machine = fresh(tmp_path)
        exe = compiler.executable(Graph((a, b), (apply("add", matmul(a, b), 1.0),)), machine, OPTIONS)
        given = [np.eye(8) * 2, np.full((8, 8), 3.0)]
        (out,) = exe.run([machine.upload(g) for g in given])
        assert machine.download(out, np.dtype(np.float64), (8, 8)).tolist() == np.full((8, 8), 7.0).tolist()
    assert len(planned) == 1


def test_what_is_no_recipe_is_a_miss(tmp_path: Path) -> None:
    images = ImageCache(tmp_path)
    images.write("ab" * 32, b"no pickle")
    images.write("cd" * 32, pickle.dumps((os.system, (), (), 0)))
    assert recipe.load(images, "ab" * 32) is None
    assert recipe.load(images, "cd" * 32) is None


def test_a_later_process_loads_no_planner(tmp_path: Path) -> None:
    code = (
        "import sys, numpy, gla\n"
        "f = gla.function(lambda x: gla.sin(x) + 1)\n"
        "with gla.device('host'): print(f(gla.asarray(numpy.arange(4.0))))\n"
        "print(any(m.startswith(('gla.passes', 'gla.codegen')) for m in sys.modules))\n"
    )
    script = tmp_path / "program.py"
    script.write_text(code)
    env = {**os.environ, "GLA_CACHE_DIR": str(tmp_path / "cache"), "GLA_VERIFY": "0"}
    outputs = [
        subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, check=True).stdout.splitlines()
        for _ in range(2)
    ]
    assert outputs[0][:-1] == outputs[1][:-1]
    assert (outputs[0][-1], outputs[1][-1]) == ("True", "False")
