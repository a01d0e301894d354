"""One formula for every library that has NumPy's names: `implementations` makes a workload's table of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers import gla_ready, jax_on, jax_ready, numpy_only, torch_on
from benchmarks.workload import Prepare, Ready, Unavailable, nothing

Formula = Callable[..., Any]
"""formula(xp, *arrays): an array, or a tuple of arrays."""
Arrays = Callable[[str, bool], tuple[np.ndarray, ...]]
"""(device, smoke) -> the inputs, always the same."""


class TorchNames:
    """PyTorch under NumPy's names, where they differ."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def maximum(self, a: Any, b: Any) -> Any:
        return self._torch.clamp(a, min=b) if isinstance(b, int | float) else self._torch.maximum(a, b)

    def max(self, x: Any, axis: int, keepdims: bool = False) -> Any:
        return self._torch.amax(x, dim=axis, keepdim=keepdims)

    def sum(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return self._torch.sum(x, dim=axis, keepdim=keepdims)

    def mean(self, x: Any, axis: Any = None) -> Any:
        return self._torch.mean(x, dim=axis)

    def var(self, x: Any, axis: Any = None) -> Any:
        return self._torch.var(x, dim=axis, correction=0)

    def roll(self, x: Any, shift: int, axis: int) -> Any:
        return self._torch.roll(x, shift, axis)


def of_fixed_arity(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """`function` with `count` named parameters, as people write functions."""
    shapes: dict[int, Callable[..., Any]] = {
        1: lambda a: function(a),  # noqa: PLW0108
        2: lambda a, b: function(a, b),  # noqa: PLW0108
        3: lambda a, b, c: function(a, b, c),  # noqa: PLW0108
        4: lambda a, b, c, d: function(a, b, c, d),  # noqa: PLW0108
    }
    return shapes[count]


def joined(result: Any) -> np.ndarray:
    """All results of a formula, one behind the other."""
    parts = result if isinstance(result, tuple | list) else (result,)
    return np.concatenate([np.asarray(part).astype(np.float64).ravel() for part in parts])


def reference(formula: Formula, arrays: Arrays) -> Callable[[str, bool], np.ndarray]:
    """The formula in float64, by NumPy."""
    return lambda device, smoke: joined(formula(np, *(a.astype(np.float64) for a in arrays(device, smoke))))


def implementations(formula: Formula, arrays: Arrays, names: tuple[str, ...] = ()) -> dict[str, Prepare]:
    """gla, NumPy, PyTorch (eager, compiled), jax.jit and CuPy running the formula. `names`: only these, when given."""

    def with_gla(device: str, smoke: bool) -> Ready:
        def build(gla: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
            given = [gla.asarray(a) for a in arrays(device, smoke)]
            function = gla.function(of_fixed_arity(lambda *xs: formula(gla, *xs), len(given)))
            return lambda: function(*given), lambda: joined(function(*given))

        return gla_ready(device, build)

    def with_numpy(device: str, smoke: bool) -> Ready:
        numpy_only(device)
        given = arrays(device, smoke)
        return Ready(lambda: formula(np, *given), nothing, lambda: joined(formula(np, *given)))

    def with_torch(device: str, smoke: bool, compiled: bool = False) -> Ready:
        torch, put, wait = torch_on(device)
        given = [put(a) for a in arrays(device, smoke)]
        names = TorchNames(torch)

        def eager(*xs: Any) -> Any:
            return formula(names, *xs)

        run = torch.compile(eager) if compiled else eager

        def result() -> np.ndarray:
            out = run(*given)
            return joined([part.float().cpu() for part in (out if isinstance(out, tuple) else (out,))])

        return Ready(lambda: run(*given), wait, result)

    def with_compiled(device: str, smoke: bool) -> Ready:
        if device != "cuda":
            raise Unavailable("torch.compile is measured on the GPU")
        return with_torch(device, smoke, compiled=True)

    def with_jax(device: str, smoke: bool) -> Ready:
        jax, put = jax_on(device)
        ready = jax_ready(jax, lambda *xs: formula(jax.numpy, *xs), tuple(put(a) for a in arrays(device, smoke)))
        given = tuple(put(a) for a in arrays(device, smoke))
        return Ready(ready.call, ready.wait, lambda: joined(formula(jax.numpy, *given)))

    def with_cupy(device: str, smoke: bool) -> Ready:
        if device != "cuda":
            raise Unavailable("CuPy needs a GPU")
        import cupy

        given = [cupy.asarray(a) for a in arrays(device, smoke)]

        def result() -> np.ndarray:
            out = formula(cupy, *given)
            return joined([cupy.asnumpy(part) for part in (out if isinstance(out, tuple) else (out,))])

        return Ready(lambda: formula(cupy, *given), cupy.cuda.Device().synchronize, result)

    table: dict[str, Prepare] = {
        "gla": with_gla, "numpy": with_numpy, "torch": with_torch, "torch.compile": with_compiled, "jax.jit": with_jax,
        "cupy": with_cupy,
    }  # fmt: skip
    return {name: prepare for name, prepare in table.items() if not names or name in names}
