"""The nine programs of the specification, run on the host device at reduced sizes; values from NumPy, SciPy or exact ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from gla.lang.program import load
from gla.lang.session import Session

PROGRAMS = Path(__file__).parents[1] / "programs"
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.gla"))


def session(name: str, **settings: Any) -> Session:
    return Session(load(PROGRAMS / f"{name}.gla"), device="host", **settings)


def ran(name: str, **settings: Any) -> Session:
    made = session(name, **settings)
    made.run()
    return made


@pytest.mark.parametrize("name", NAMES)
def test_checks_without_a_finding(name: str) -> None:
    assert load(PROGRAMS / f"{name}.gla").diagnostics() == []


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("jacobi", {}), ("lorenz", {"n": 4}), ("mlp", {"batch": 3, "hidden": 4}), ("nbody", {"n": 16})],
)
def test_its_own_tests_pass(name: str, sizes: dict[str, int]) -> None:
    made = session(name, sizes=sizes)
    for test in made.program.tests:
        made.test(test)


def test_heat_equals_the_same_loop_in_numpy() -> None:
    n, steps = 33, 60
    made = ran("heat", sizes={"n": n, "steps": steps})
    x = np.linspace(0.0, 1.0, n)
    u = np.sin(np.pi * x)[:, None] * np.sin(np.pi * x)[None, :]
    r = 0.2
    for _ in range(steps):
        v = u.copy()
        inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        v[1:-1, 1:-1] = u[1:-1, 1:-1] + r * (inner - 4 * u[1:-1, 1:-1])
        u = v
    np.testing.assert_allclose(made.states["u"], u, rtol=1e-12, atol=1e-14)


def test_heat_writes_a_file_every_hundred_steps() -> None:
    made = ran("heat", sizes={"n": 33, "steps": 250})
    assert sorted(made.outputs) == ["heat_000100.npy", "heat_000200.npy"]


def test_lorenz_follows_dop853_over_a_short_time() -> None:
    made = ran("lorenz", sizes={"n": 2, "steps": 100}, params={"dt": 0.001})
    track = made.outputs["lorenz.npz"]["track"]
    assert track.shape == (10, 3)

    def f(t: float, s: np.ndarray) -> list[float]:
        x, y, z = s
        return [10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z]

    # The first row is the state after ten steps; the fourth-order error of dt = 1e-3 over 0.09 is below 1e-8.
    found = solve_ivp(f, (0.01, 0.1), track[0], method="DOP853", rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(track[-1], found.y[:, -1], rtol=1e-8)
    np.testing.assert_array_equal(made.outputs["lorenz.npz"]["final"][0], track[-1])


def test_wave_equals_leapfrog_in_numpy() -> None:
    nx, ny, steps = 24, 16, 180
    made = ran("wave", sizes={"nx": nx, "ny": ny, "steps": steps})
    y = np.arange(ny)[:, None] - ny / 2
    x = np.arange(nx)[None, :] - nx / 2
    previous = current = np.exp(-(x**2 + y**2) / 40.0).astype(np.float32)
    k = np.float32((1.0 * 0.5) ** 2)
    rows, norms = [], []
    for step in range(1, steps + 1):
        tall = np.pad(current, ((1, 1), (0, 0)), mode="edge")
        lap = tall[:-2] + tall[2:] + np.roll(current, 1, 1) + np.roll(current, -1, 1) - np.float32(4) * current
        following = np.float32(2) * current - previous + k * lap
        previous, current = current, following
        if step % 60 == 0:
            rows.append(current)
            norms.append(np.linalg.norm(current.astype(np.float64)))
        if step == 150:
            current = np.where(np.abs(current) < 1e-6, np.float32(0), current)
    found = made.outputs["wave.npz"]
    np.testing.assert_allclose(found["u"], np.stack(rows), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["amplitude"], norms, rtol=1e-5)


def test_gray_scott_equals_the_same_loop_in_numpy() -> None:
    n, steps = 80, 250
    made = ran("gray_scott", sizes={"n": n, "steps": steps})
    u, v = np.ones((n, n), np.float32), np.zeros((n, n), np.float32)
    u[54:74, 54:74], v[54:74, 54:74] = 0.5, 0.25
    one, four = np.float32(1), np.float32(4)
    Du, Dv, F, k = (np.float32(c) for c in (0.16, 0.08, 0.060, 0.062))

    def lap(w: np.ndarray) -> np.ndarray:
        return np.roll(w, 1, 0) + np.roll(w, -1, 0) + np.roll(w, 1, 1) + np.roll(w, -1, 1) - four * w

    for _ in range(steps):
        uvv = u * v * v
        u, v = u + Du * lap(u) - uvv + F * (one - u), v + Dv * lap(v) + uvv - (F + k) * v
    np.testing.assert_allclose(made.outputs["gs_00250.npy"]["v"], v, rtol=1e-4, atol=1e-5)


def test_nbody_equals_leapfrog_in_numpy() -> None:
    n, steps, dt, eps = 12, 50, 1e-3, 0.05
    random = np.random.default_rng(5)
    pos, vel, mass = random.normal(size=(n, 3)), 0.1 * random.normal(size=(n, 3)), np.full(n, 1.0 / n)
    made = ran("nbody", sizes={"n": n, "steps": steps}, inputs={"pos0": pos, "vel0": vel})
    vel = vel - vel.mean(axis=0)

    def accel(p: np.ndarray) -> np.ndarray:
        d = p[None, :, :] - p[:, None, :]
        r2 = (d * d).sum(-1) + eps**2
        return ((mass / (r2 * np.sqrt(r2)))[:, :, None] * d).sum(axis=1)

    for _ in range(steps):
        half = vel + 0.5 * dt * accel(pos)
        pos = pos + dt * half
        vel = half + 0.5 * dt * accel(pos)
    np.testing.assert_allclose(made.outputs["nbody_00050.npz"]["pos"], pos, rtol=1e-10, atol=1e-12)


def test_pi_is_within_five_standard_errors() -> None:
    made = ran("pi", sizes={"batch": 2000, "rounds": 20})
    found = made.outputs["pi.npz"]
    assert found["means"].shape == (20,)
    np.testing.assert_allclose(found["est"], found["means"].mean(), rtol=1e-12)
    assert abs(found["est"] - np.pi) < 5 * found["se"]


def test_rk45_reaches_the_van_der_pol_state_of_scipy() -> None:
    made = ran("rk45", params={"t1": 5.0})
    found = solve_ivp(
        lambda t, y: [y[1], 2.0 * (1 - y[0] ** 2) * y[1] - y[0]], (0, 5.0), [2.0, 0.0], method="DOP853", rtol=1e-12, atol=1e-12
    )
    got = made.outputs["vdp.npz"]
    assert got["t"] == 5.0
    # rtol of the program is 1e-7 a step; the cycle stretches errors along itself by less than a hundred.
    np.testing.assert_allclose(got["y"], found.y[:, -1], rtol=1e-5)


def test_mlp_equals_numpy_on_the_same_arrays() -> None:
    batch, hidden = 5, 6
    random = np.random.default_rng(3)

    def draw(*shape: int) -> np.ndarray:
        return random.normal(size=shape).astype(np.float32)

    given = {
        "x": draw(batch, 784), "w1": draw(784, hidden) / 28, "b1": draw(hidden), "w2": draw(hidden, hidden), "b2": draw(hidden),
        "w3": draw(hidden, 10), "b3": draw(10),
    }  # fmt: skip
    made = ran("mlp", sizes={"batch": batch, "hidden": hidden}, inputs=given)
    wide = {name: value.astype(np.float64) for name, value in given.items()}
    h = np.maximum(wide["x"] @ wide["w1"] + wide["b1"], 0)
    h = np.maximum(h @ wide["w2"] + wide["b2"], 0)
    p = h @ wide["w3"] + wide["b3"]
    e = np.exp(p - p.max(axis=-1, keepdims=True))
    found = made.outputs["labels.npz"]
    np.testing.assert_array_equal(found["label"], p.argmax(axis=-1))
    np.testing.assert_allclose(found["prob"], e / e.sum(axis=-1, keepdims=True), rtol=1e-3, atol=1e-6)


def test_jacobi_reaches_a_quarter_at_the_centre() -> None:
    n = 9
    made = session("jacobi", sizes={"n": n}, params={"tol": 1e-12})
    made.run()  # its assert: the centre is 0.25, exact by symmetry for any n
