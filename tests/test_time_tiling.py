"""Loops over grids, several trips a pass: equal bits to NumPy and to one trip a pass, on every device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import gla
from gla import compiler, dtypes
from gla.config import Options
from gla.ir import reference
from gla.ir.builder import apply
from gla.ir.functions import control, reduce, shape
from gla.ir.graph import Graph, new_input
from gla.ir.types import Type
from gla.plan import time_tiles
from gla.plan.time_tiles import Rule
from gla.runtime.devices import get_device
from tests.grids import MODES, TIGHT, Grid

DEVICES = ["host", pytest.param("cuda", marks=pytest.mark.gpu)]
DEEP = {"host": Rule(0, 1 << 30, 16, 3), "cuda": Rule(0, 80, 16, 3)}
CHECKED = Options(verify=True)


@pytest.fixture(autouse=True)
def any_grid(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The smallest grids are tiled too, and executables made so are not kept."""
    monkeypatch.setattr(time_tiles, "RULES", DEEP)
    monkeypatch.setattr("gla.stations.RULES", DEEP)
    yield


def run(name: str, graph: Graph, arguments: list[np.ndarray]) -> list[np.ndarray]:
    machine = get_device(name)
    made = compiler.Executable(machine, compiler.program(graph, machine, CHECKED))
    outputs = made.run([machine.upload(np.ascontiguousarray(a)) for a in arguments])
    return [machine.download(o, r.dtype.numpy, r.shape) for o, r in zip(outputs, graph.results)]


def equal_bits(a: list[np.ndarray], b: list[np.ndarray]) -> None:
    for mine, other in zip(a, b, strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_array_equal(mine.view(f"u{mine.itemsize}"), np.ascontiguousarray(other).view(f"u{mine.itemsize}"))


def is_tiled(graph: Graph, kind: str = "host") -> bool:
    return any("in one pass" in note for note in compiler.stages(graph, kind, CHECKED).plan.notes)


def check(name: str, graph: Graph, arguments: list[np.ndarray]) -> None:
    with np.errstate(all="ignore"):
        wanted, _ = reference.evaluate(graph, arguments)
    equal_bits(run(name, graph, arguments), wanted)


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("seed", range(20))
def test_random_loops_have_numpys_bits(name, seed):
    grid = Grid(seed)
    check(name, grid.graph, grid.arguments(seed))


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("seed", range(100, 108))
def test_grids_hardly_larger_than_a_halo(name, seed):
    grid = Grid(seed, TIGHT)
    check(name, grid.graph, grid.arguments(seed))


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("seed", range(200, 204))
def test_periodic_grids_smaller_than_a_halo(name, seed):
    grid = Grid(seed, TIGHT, ("periodic",))
    check(name, grid.graph, grid.arguments(seed))


def test_most_random_loops_are_tiled():
    assert sum(is_tiled(Grid(seed).graph) for seed in range(20)) >= 10


def heat(size: tuple[int, ...], trips: int, modes: tuple[str, ...], dtype=dtypes.float32, every: int = 0) -> Graph:
    u = new_input(Type(dtype, size), "u")

    def body(k, carries):
        (u,) = carries
        around = None
        for axis in range(len(size)):
            for step in (-1, 1):
                part = shape.shift(u, [step if a == axis else 0 for a in range(len(size))], modes[: len(size)], 1)
                around = part if around is None else apply("add", around, part)
        new = apply("add", u, apply("multiply", apply("add", 0.1, apply("multiply", k, 0.001)), apply("subtract", around, u)))
        return [new], [new] if every else []

    results, kept = control.loop(trips, [u], body, every=[every]) if every else control.loop(trips, [u], body)
    return Graph((u,), (*results, *kept))


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("mode", MODES)
def test_a_number_that_changes_with_the_trip(name, mode):
    graph = heat((50, 70), 23, (mode, mode))
    assert is_tiled(graph)
    check(name, graph, [np.random.default_rng(1).standard_normal((50, 70)).astype(np.float32)])


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("trips", [2, 3, 5, 12, 17, 20, 41])
def test_any_number_of_trips(name, trips):
    check(name, heat((20, 40), trips, ("periodic", "edge")), [np.random.default_rng(2).random((20, 40), np.float32)])


def test_wide_offsets_sums_and_three_dimensions_stay_untiled():
    assert not is_tiled(heat((8, 8, 8), 10, ("periodic",) * 3))
    u, s = new_input(Type(dtypes.float32, (40, 40)), "u"), new_input(Type(dtypes.float32, ()), "s")
    far = control.loop(9, [u], lambda k, c: ([shape.shift(c[0], [5, 0], ["edge", "edge"], 0)], []))[0]
    assert not is_tiled(Graph((u,), tuple(far)))

    def body(k, carries):
        return [apply("add", shape.roll(carries[0], 1, 0), carries[1]), reduce.sum(carries[0])], []

    assert not is_tiled(Graph((u, s), tuple(control.loop(9, [u, s], body)[0])))


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("trips", [3, 4, 11, 37])
@pytest.mark.parametrize("read", [True, False])
def test_numbers_carried_beside_the_grid(name, trips, read):
    t, u, q = (new_input(Type(dtypes.float64, size), n) for n, size in (("t", ()), ("u", (40, 50)), ("q", ())))

    def body(k, carries):
        t, u, q = carries
        drive = apply("multiply", q, 0.5) if read else 0.5
        new = apply("add", shape.shift(u, [1, -1], ["edge", "reflect"], 0), apply("multiply", u, drive))
        later = apply("add", t, 0.125)
        return [
            later,
            apply("multiply", new, 0.5),
            apply("subtract", apply("multiply", later, 0.25), apply("multiply", k, q)),
        ], []

    results, _ = control.loop(trips, [t, u, q], body)
    graph = Graph((t, u, q), tuple(results))
    assert is_tiled(graph)
    check(name, graph, [np.array(0.5), np.random.default_rng(5).random((40, 50)), np.array(-0.25)])


@pytest.mark.parametrize("name", DEVICES)
def test_arrays_of_a_program(name):
    """Ping-pong, a captured array, an output fed back, through the front end."""
    c = np.linspace(0, 1, 60 * 50, dtype=np.float32).reshape(60, 50)

    def step(k, u):
        return u + 0.1 * c_ * (gla.roll(u, 1, axis=0) - u) + 0.2 * (gla.roll(u, -1, axis=1) - u)

    with gla.device(name):
        c_ = gla.asarray(c)
        f = gla.function(lambda u: gla.fori(0, 17, step, u))
        x = np.random.default_rng(3).random((60, 50), np.float32)
        got = np.asarray(f(f(gla.asarray(x))))
    for _ in range(34):
        x = x + np.float32(0.1) * c * (np.roll(x, 1, 0) - x) + np.float32(0.2) * (np.roll(x, -1, 1) - x)
    np.testing.assert_array_equal(got, x)


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize(("trips", "every"), [(20, 5), (23, 7), (12, 2), (9, 8)])
def test_what_a_loop_keeps(name, trips, every):
    graph = heat((130, 140), trips, ("edge", "periodic"), every=every)
    assert is_tiled(graph)
    check(name, graph, [np.random.default_rng(4).random((130, 140), np.float32)])


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("dtype", [dtypes.uint8, dtypes.int16, dtypes.int64, dtypes.float16], ids=str)
def test_narrow_and_wide_numbers(name, dtype):
    u = new_input(Type(dtype, (37, 41)), "u")

    def body(k, carries):
        (u,) = carries
        near = apply("add", shape.shift(u, [1, 0], ["periodic"] * 2, 0), shape.shift(u, [0, -1], ["constant"] * 2, 3))
        return [apply("add", near, apply("where", apply("less", u, near), u, near))], []

    results, _ = control.loop(11, [u], body)
    graph = Graph((u,), tuple(results))
    assert is_tiled(graph)
    check(name, graph, [np.random.default_rng(6).integers(0, 3, (37, 41)).astype(dtype.numpy)])
