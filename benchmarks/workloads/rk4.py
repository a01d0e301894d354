"""RK4: ten steps of classical Runge-Kutta on 4,096 float32, f(u) = sin(u) - 0.1 u, dt = 0.01: 80 elementwise operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers import gla_ready, jax_on, jax_ready, numpy_only, torch_graph, torch_on
from benchmarks.workload import Ready, Unavailable, Workload, nothing

N, DT, STEPS = 4096, 0.01, 10


def start() -> np.ndarray:
    return np.random.default_rng(1).uniform(-3, 3, N).astype(np.float32)


def steps(sin: Callable[[Any], Any], u: Any, dt: Any = DT) -> Any:
    """The formula, for any array library."""

    def f(v: Any) -> Any:
        return sin(v) - 0.1 * v

    for _ in range(STEPS):
        k1 = f(u)
        k2 = f(u + 0.5 * dt * k1)
        k3 = f(u + 0.5 * dt * k2)
        k4 = f(u + dt * k3)
        u = u + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return u


def reference(device: str, smoke: bool) -> np.ndarray:
    return np.asarray(steps(np.sin, start().astype(np.float64)))


def with_gla(device: str, smoke: bool) -> Ready:
    def build(gla: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
        integrate = gla.function(lambda u, dt: steps(gla.sin, u, dt))
        u = gla.asarray(start())
        return lambda: integrate(u, DT), lambda: integrate(u, DT)

    return gla_ready(device, build)


def with_gla_prepared(device: str, smoke: bool) -> Ready:
    def build(gla: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
        integrate = gla.function(lambda u: steps(gla.sin, u))
        u = gla.asarray(start())
        return integrate.prepare(u), lambda: integrate(u)

    return gla_ready(device, build)


def with_gla_captured(device: str, smoke: bool) -> Ready:
    def build(gla: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
        u = gla.asarray(start())
        exe = gla.capture(lambda: steps(gla.sin, u)).instantiate()
        exe()
        return exe, lambda: exe.outputs

    return gla_ready(device, build)


def with_numpy(device: str, smoke: bool) -> Ready:
    numpy_only(device)
    u = start()
    return Ready(lambda: steps(np.sin, u), nothing, lambda: steps(np.sin, u))


def with_numba(device: str, smoke: bool) -> Ready:
    numpy_only(device)
    import math

    import numba

    @numba.njit
    def f(v):  # type: ignore[no-untyped-def]
        return np.float32(math.sin(v)) - np.float32(0.1) * v

    @numba.njit
    def integrate(source, target):  # type: ignore[no-untyped-def]
        dt, half, sixth, two = np.float32(DT), np.float32(0.5 * DT), np.float32(DT / 6), np.float32(2)
        for i in range(source.size):
            u = source[i]
            for _ in range(STEPS):
                k1 = f(u)
                k2 = f(u + half * k1)
                k3 = f(u + half * k2)
                k4 = f(u + dt * k3)
                u = u + sixth * (k1 + two * k2 + two * k3 + k4)
            target[i] = u

    u, target = start(), np.empty(N, np.float32)
    integrate(u, target)
    return Ready(lambda: integrate(u, target), nothing, lambda: target)


def with_torch(device: str, smoke: bool) -> Ready:
    torch, put, wait = torch_on(device)
    u = put(start())
    return Ready(lambda: steps(torch.sin, u), wait, lambda: steps(torch.sin, u).cpu().numpy())


def with_torch_graph(device: str, smoke: bool) -> Ready:
    if device != "cuda":
        raise Unavailable("CUDA graphs need a GPU")
    torch, put, wait = torch_on(device)
    u, held = put(start()), {}

    def step() -> None:
        held["out"] = steps(torch.sin, u)

    return Ready(torch_graph(torch, step), wait, lambda: held["out"].cpu().numpy())


def with_jax(device: str, smoke: bool) -> Ready:
    jax, put = jax_on(device)
    return jax_ready(jax, lambda u: steps(jax.numpy.sin, u), (put(start()),))


def with_cupy(device: str, smoke: bool) -> Ready:
    if device != "cuda":
        raise Unavailable("CuPy needs a GPU")
    import cupy

    u = cupy.asarray(start())
    return Ready(lambda: steps(cupy.sin, u), cupy.cuda.Device().synchronize, lambda: cupy.asnumpy(steps(cupy.sin, u)))


WORKLOAD = Workload(
    "rk4",
    "RK4: 10 steps, 4,096 float32",
    reference,
    {
        "gla": with_gla,
        "gla, prepared": with_gla_prepared,
        "gla, captured": with_gla_captured,
        "numpy": with_numpy,
        "numba": with_numba,
        "torch": with_torch,
        "torch, CUDA graph": with_torch_graph,
        "jax.jit": with_jax,
        "cupy": with_cupy,
    },
    tolerance=1e-5,
)
