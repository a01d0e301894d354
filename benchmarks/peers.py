"""How each peer gets arrays onto its device and waits for it. Imports are inside: every peer is optional."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workload import Ready, Unavailable, nothing


def gla_ready(device: str, build: Callable[[Any], tuple[Callable[[], Any], Callable[[], Any]]]) -> Ready:
    """`build(gla)` gives (call, result array)."""
    import gla

    with gla.device(device):
        call, result = build(gla)

    def run() -> Any:
        return call()

    return Ready(run if device == "host" else call, gla.synchronize, lambda: np.asarray(result()))


def numpy_only(device: str) -> None:
    if device != "host":
        raise Unavailable("runs on the host only")


def torch_on(device: str) -> tuple[Any, Callable[[np.ndarray], Any], Callable[[], None]]:
    """(torch, to device, wait)."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise Unavailable("this PyTorch has no CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = False
    return (
        torch,
        lambda a: torch.from_numpy(np.ascontiguousarray(a)).to(device if device == "cuda" else "cpu"),
        (torch.cuda.synchronize if device == "cuda" else nothing),
    )


def torch_graph(torch: Any, step: Callable[[], Any]) -> Callable[[], None]:
    """`step` captured by hand into a CUDA graph; returns its replay."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def jax_on(device: str) -> tuple[Any, Callable[[np.ndarray], Any]]:
    """(jax, to device)."""
    import jax

    jax.config.update("jax_default_matmul_precision", "highest")
    try:
        place = jax.devices("gpu" if device == "cuda" else "cpu")[0]
    except RuntimeError as error:
        raise Unavailable(f"this JAX has no {device} device") from error
    return jax, lambda a: jax.device_put(a, place)


def jax_ready(jax: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Ready:
    """`function` jitted; waiting is waiting for its last result."""
    jitted = jax.jit(function)
    last = [jitted(*arguments)]

    def call() -> None:
        last[0] = jitted(*arguments)

    return Ready(call, lambda: jax.block_until_ready(last[0]), lambda: np.asarray(last[0]))
