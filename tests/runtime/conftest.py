"""A fresh machine per test, on every device present; kernels are kept in a folder of the test run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gla import dtypes
from gla.ir.graph import Graph, new_input
from gla.ir.node import Node
from gla.ir.types import Type
from gla.runtime.cache import ImageCache
from gla.runtime.machine import Machine


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> ImageCache:
    return ImageCache(tmp_path_factory.mktemp("images"))


@pytest.fixture
def machine(device: Any, images: ImageCache) -> Iterator[Machine]:
    if device.kind == "host":
        from gla.device.host import HostDevice

        device = HostDevice(strict=True)
    yield Machine(device, images)


@pytest.fixture(params=["host", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a device, current within the test; garbage of earlier tests is gone."""
    import gc

    import gla

    with gla.device(request.param):
        gc.collect()
        gla.reclaim()
        yield request.param


def A(values: Any, dtype: Any = None) -> Any:
    """An array of gla with a copy of the values."""
    import gla

    return gla.asarray(np.array(values, dtype))


def N(x: Any) -> np.ndarray:
    """The contents."""
    return np.array(np.asarray(x))


def array(shape: tuple[int, ...], dtype: Any = dtypes.float64, name: str = "") -> Node:
    return new_input(Type(dtypes.as_dtype(dtype), shape), name)


def scalar(dtype: Any = dtypes.float64) -> Node:
    return new_input(Type(dtypes.as_dtype(dtype), (), True), scalar=True)


def run(machine: Machine, graph: Graph, *values: Any) -> list[np.ndarray]:
    """The graph's results for arrays and scalars in the order of its inputs; written arrays' new contents come last."""
    from gla.compiler import executable

    exe = executable(graph, machine)
    storages = [machine.upload(v) for n, v in zip(graph.inputs, values) if not n.attr("scalar")]
    scalars = [v for n, v in zip(graph.inputs, values) if n.attr("scalar")]
    outputs = exe.run(storages, scalars)
    arrays = [n for n in graph.inputs if not n.attr("scalar")]
    written = [(storages[arrays.index(n)], n) for n, _ in graph.writes]
    pairs = [*zip(outputs, graph.results), *written]
    return [machine.download(s, n.dtype.numpy, n.shape) for s, n in pairs]
