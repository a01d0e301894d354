"""MLP: four layers h = max(W @ h + b, 0), float32, W 256x256, h 256x16, b 256x1, no TF32: eight operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers import gla_ready, jax_on, jax_ready, numpy_only, torch_graph, torch_on
from benchmarks.workload import Ready, Unavailable, Workload, nothing

LAYERS, WIDTH, BATCH = 4, 256, 16


def arrays() -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(2)
    weights = [(rng.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)).astype(np.float32) for _ in range(LAYERS)]
    biases = [rng.standard_normal((WIDTH, 1)).astype(np.float32) for _ in range(LAYERS)]
    return weights, biases, rng.standard_normal((WIDTH, BATCH)).astype(np.float32)


def layers(maximum: Callable[[Any, Any], Any], weights: list[Any], biases: list[Any], h: Any) -> Any:
    """The formula, for any array library."""
    for w, b in zip(weights, biases):
        h = maximum(w @ h + b, 0)
    return h


def reference(device: str, smoke: bool) -> np.ndarray:
    weights, biases, h = arrays()
    wide = [[a.astype(np.float64) for a in part] for part in (weights, biases)]
    return np.asarray(layers(np.maximum, wide[0], wide[1], h.astype(np.float64)))


def with_gla(device: str, smoke: bool) -> Ready:
    def build(gla: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
        weights, biases, h = arrays()
        w, b = [gla.asarray(x) for x in weights], [gla.asarray(x) for x in biases]
        x = gla.asarray(h)
        forward = gla.function(lambda w, b, x: layers(gla.maximum, w, b, x))
        return lambda: forward(w, b, x), lambda: forward(w, b, x)

    return gla_ready(device, build)


def with_gla_replay(device: str, smoke: bool) -> Ready:
    def build(gla: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
        weights, biases, h = arrays()
        w, b = [gla.asarray(x) for x in weights], [gla.asarray(x) for x in biases]
        x = gla.asarray(h)
        exe = gla.capture(lambda: layers(gla.maximum, w, b, x)).instantiate()
        exe()
        return exe, lambda: exe.outputs

    return gla_ready(device, build)


def with_numpy(device: str, smoke: bool) -> Ready:
    numpy_only(device)
    weights, biases, h = arrays()
    return Ready(lambda: layers(np.maximum, weights, biases, h), nothing, lambda: layers(np.maximum, weights, biases, h))


def with_torch(device: str, smoke: bool) -> Ready:
    torch, put, wait = torch_on(device)
    weights, biases, h = arrays()
    w, b, x = [put(a) for a in weights], [put(a) for a in biases], put(h)
    maximum = lambda a, _: torch.relu(a)  # noqa: E731
    return Ready(lambda: layers(maximum, w, b, x), wait, lambda: layers(maximum, w, b, x).cpu().numpy())


def with_torch_graph(device: str, smoke: bool) -> Ready:
    if device != "cuda":
        raise Unavailable("CUDA graphs need a GPU")
    torch, put, wait = torch_on(device)
    weights, biases, h = arrays()
    w, b, x, held = [put(a) for a in weights], [put(a) for a in biases], put(h), {}

    def step() -> None:
        held["out"] = layers(lambda a, _: torch.relu(a), w, b, x)

    return Ready(torch_graph(torch, step), wait, lambda: held["out"].cpu().numpy())


def with_jax(device: str, smoke: bool) -> Ready:
    jax, put = jax_on(device)
    weights, biases, h = arrays()
    return jax_ready(
        jax,
        lambda w, b, x: layers(jax.numpy.maximum, w, b, x),
        ([put(a) for a in weights], [put(a) for a in biases], put(h)),
    )


def with_cupy(device: str, smoke: bool) -> Ready:
    if device != "cuda":
        raise Unavailable("CuPy needs a GPU")
    import cupy

    weights, biases, h = arrays()
    w, b, x = [cupy.asarray(a) for a in weights], [cupy.asarray(a) for a in biases], cupy.asarray(h)
    return Ready(
        lambda: layers(cupy.maximum, w, b, x),
        cupy.cuda.Device().synchronize,
        lambda: cupy.asnumpy(layers(cupy.maximum, w, b, x)),
    )


WORKLOAD = Workload(
    "mlp",
    "MLP: 4 layers, 256x256 @ 256x16, float32",
    reference,
    {
        "gla": with_gla,
        "gla, captured": with_gla_replay,
        "numpy": with_numpy,
        "torch": with_torch,
        "torch, CUDA graph": with_torch_graph,
        "jax.jit": with_jax,
        "cupy": with_cupy,
    },
    tolerance=1e-4,
)
