"""The examples give the numbers that their README promises: against NumPy and SciPy in float64, or an exact value.

Each runs through the command, smaller than its defaults where that takes long.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from gla.cli.main import main

FOLDER = Path(__file__).parents[1] / "examples"
NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")


@pytest.fixture
def run(tmp_path, capsys):
    """Run an example; gives the numbers in each printed line, and the folder of its outputs."""

    def go(name, *flags):
        code = main(["run", str(FOLDER / f"{name}.gla"), "--device", "cpu", "--out", str(tmp_path), *map(str, flags)])
        told = capsys.readouterr()
        assert (code, told.err) == (0, "")
        return [[float(text) for text in NUMBER.findall(line)] for line in told.out.splitlines()], tmp_path

    return go


def laplacian(u, modes=("wrap", "wrap")):
    (up, side) = modes
    p = np.pad(u, ((1, 1), (0, 0)), mode=up)
    q = np.pad(u, ((0, 0), (1, 1)), mode=side)
    return p[:-2] + p[2:] + q[:, :-2] + q[:, 2:] - 4 * u


def test_the_year_comes_out_of_the_solar_system(run):
    lines, out = run("solar_system")
    (year,), (drift,), (moon,) = lines
    assert year == pytest.approx(365.25682, abs=2e-5)  # the same integration in float64 NumPy
    assert year == pytest.approx(365.25636, abs=1e-3)  # the sidereal year
    assert drift < 1e-11
    assert moon == pytest.approx(359_377, abs=5)
    way = np.loadtxt(out / "earth.csv", delimiter=",", skiprows=1)
    assert way.shape == (365, 4)
    assert np.all(abs(np.linalg.norm(way[:, 1:], axis=1) - 1) < 0.02)  # the Earth's distance in au


def test_the_lorenz_ensemble_starts_as_scipy_says(run):
    from scipy.integrate import solve_ivp

    _, out = run("lorenz", "--n", 8, "--steps", 200, "--spread", 0)
    track = np.load(out / "lorenz.npz")["track"]

    def lorenz(t, s):
        return [10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]]

    exact = solve_ivp(lorenz, (0, 2), [1.0, 1.0, 1.0], method="DOP853", rtol=1e-12, atol=1e-12, t_eval=np.arange(1, 21) / 10)
    np.testing.assert_allclose(track, exact.y.T, atol=2e-3)


def test_the_lorenz_ensemble_keeps_the_mean_height_of_the_attractor(run):
    ((mean,),), _ = run("lorenz", "--n", 256)
    assert mean == pytest.approx(23.6, abs=0.3)


def test_heat_decays_as_in_numpy(run):
    ((peak, exact),), out = run("heat")
    x = np.linspace(0, 1, 65)
    u = np.outer(np.sin(np.pi * x), np.sin(np.pi * x))
    for _ in range(400):
        u[1:-1, 1:-1] += 0.2 * laplacian(u)[1:-1, 1:-1]
    np.testing.assert_allclose(np.load(out / "heat_000400.npy"), u, atol=1e-13)
    assert peak == pytest.approx(u.max(), abs=1e-6)
    assert exact == pytest.approx(np.exp(-2 * np.pi**2 * 400 * 0.2 / 64**2), abs=1e-6)


def test_a_time_step_that_is_too_long_is_refused(capsys, tmp_path):
    assert main(["run", str(FOLDER / "heat.gla"), "--dt", "1", "--device", "cpu", "--out", str(tmp_path)]) == 1
    assert "try --dt 6.1" in capsys.readouterr().err


def test_the_wave_keeps_its_energy_and_agrees_with_numpy(run):
    ((drift,),), out = run("wave")
    y, x = np.arange(96)[:, None] - 48, np.arange(128) - 64
    before = now = np.exp(-(x**2 + y**2) / 40)
    for _ in range(300):
        before, now = now, 2 * now - before + 0.25 * laplacian(now, ("edge", "wrap"))
    assert drift < 1e-14
    with np.load(out / "wave.npz") as files:
        assert files["u"].shape == (5, 96, 128)
        np.testing.assert_allclose(files["u"][-1], now, atol=1e-12)
        np.testing.assert_allclose(files["amplitude"][-1], np.linalg.norm(now), rtol=1e-12)


def test_gray_scott_agrees_with_numpy(run):
    ((mean,),), _ = run("gray_scott")
    u, v = np.ones((128, 128)), np.zeros((128, 128))
    u[54:74, 54:74], v[54:74, 54:74] = 0.5, 0.25
    for _ in range(500):
        uvv = u * v * v
        u, v = u + 0.16 * laplacian(u) - uvv + 0.06 * (1 - u), v + 0.08 * laplacian(v) + uvv - 0.122 * v
    assert mean == pytest.approx(v.mean(), abs=1e-5)


def test_bodies_from_files_move_as_in_numpy(run, tmp_path):
    rng = np.random.default_rng(5)
    n, dt, eps = 20, 1e-3, 0.05
    pos, vel, mass = rng.normal(size=(n, 3)), 0.1 * rng.normal(size=(n, 3)), rng.uniform(0.5, 1.5, n) / n
    start = tmp_path / "start.npz"
    np.savez(start, pos=pos, vel=vel, mass=mass)
    ((drift,),), out = run(
        "nbody", "--n", n, "--pos0", f"{start}:pos", "--vel0", f"{start}:vel", "--mass", f"{start}:mass", "--steps", 100
    )

    def accel(x):
        d = x[None] - x[:, None]
        return np.sum((mass / (np.sum(d * d, -1) + eps**2) ** 1.5)[..., None] * d, axis=1)

    vel = vel - vel.mean(0)
    for _ in range(100):
        half = vel + 0.5 * dt * accel(pos)
        pos = pos + dt * half
        vel = half + 0.5 * dt * accel(pos)
    np.testing.assert_allclose(np.load(out / "nbody_00100.npz")["pos"], pos, atol=1e-12)
    assert drift < 1e-6


def test_pi_lies_within_its_error(run):
    ((estimate, error),), _ = run("pi", "--rounds", 10)
    assert abs(estimate - np.pi) < 5 * error
    assert error == pytest.approx(np.sqrt(np.pi * (4 - np.pi) / 1e6), rel=0.8)  # of a mean of 10^6 throws


def test_van_der_pol_ends_where_scipy_does(run):
    from scipy.integrate import solve_ivp

    _, out = run("van_der_pol")
    exact = solve_ivp(
        lambda t, y: [y[1], 2 * (1 - y[0] ** 2) * y[1] - y[0]], (0, 10), [2.0, 0.0], method="DOP853", rtol=1e-13, atol=1e-14
    )
    with np.load(out / "van_der_pol.npz") as files:
        np.testing.assert_allclose(files["y"], exact.y[:, -1], atol=1e-6)
        assert files["t"] == 10.0


def test_jacobi_stops_after_as_many_sweeps_as_numpy(run):
    ((centre, sweeps),), _ = run("jacobi", "--n", 17)
    p, change, count = np.zeros((17, 17)), 1.0, 0
    p[0] = 1
    while change > 1e-6:
        q = p.copy()
        q[1:-1, 1:-1] += 0.25 * laplacian(p)[1:-1, 1:-1]
        p, change, count = q, abs(q - p).max(), count + 1
    assert sweeps == count
    assert centre == pytest.approx(p[8, 8], abs=1e-5)


def test_the_perceptron_of_files_agrees_with_numpy(run, tmp_path):
    rng = np.random.default_rng(2)
    shapes = {"x": (9, 784), "w1": (784, 16), "b1": (16,), "w2": (16, 16), "b2": (16,), "w3": (16, 10), "b3": (10,)}
    arrays = {name: (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32) for name, shape in shapes.items()}
    np.savez(tmp_path / "all.npz", **arrays)
    flags = [text for name in shapes for text in (f"--{name}", f"{tmp_path / 'all.npz'}:{name}")]
    _, out = run("mlp", "--batch", 9, "--hidden", 16, *flags)
    a = {name: array.astype(np.float64) for name, array in arrays.items()}
    h = np.maximum(np.maximum(a["x"] @ a["w1"] + a["b1"], 0) @ a["w2"] + a["b2"], 0) @ a["w3"] + a["b3"]
    prob = np.exp(h) / np.exp(h).sum(1, keepdims=True)
    with np.load(out / "labels.npz") as files:
        np.testing.assert_allclose(files["prob"], prob, rtol=1e-5)
        assert np.array_equal(files["label"], prob.argmax(1))


@pytest.mark.parametrize("name, limit", [("rk4", 2e-6), ("mlp", 3e-6)])
def test_python_examples_agree_with_numpy(name, limit, capsys):
    error = runpy.run_path(str(FOLDER / f"{name}.py"))["main"]()
    assert 0 < error < limit
    assert f"{error:.1e}" in capsys.readouterr().out


def test_every_example_stands_in_the_readme_with_its_command():
    text = (FOLDER / "README.md").read_text()
    for path in FOLDER.glob("*.gla"):
        assert f"`gla run examples/{path.name}" in text
    for path in FOLDER.glob("*.py"):
        assert f"`python examples/{path.name}`" in text


def test_the_tests_in_the_examples_pass(capsys):
    assert main(["test", *map(str, sorted(FOLDER.glob("*.gla"))), "--device", "cpu"]) == 0
    assert "5 passed" in capsys.readouterr().out
