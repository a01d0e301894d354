"""`Device.update`: an executable takes over a second graph of the same nodes; other graphs are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gla import dtypes
from gla.device.base import Matmul
from gla.errors import GraphError

N = 8
CALL = Matmul(dtypes.float32, 1, N, N, N, N, N, N)


class Memory:
    """Matrices on the device, and how to look at them."""

    def __init__(self, device: Any) -> None:
        self.device, self.stream = device, device.create_stream()
        self.workspace = device.allocate(max(device.properties.library_workspace, 256))

    def put(self, values: np.ndarray) -> int:
        address = self.device.allocate(values.nbytes)
        self.device.copy_in(address, values.ctypes.data, values.nbytes, self.stream)
        return address

    def get(self, address: int) -> np.ndarray:
        out = np.empty((N, N), np.float32)
        self.device.copy_out(out.ctypes.data, address, out.nbytes, self.stream)
        return out

    def graph(self, a: int, b: int, c: int, copy: int) -> Any:
        """c = a @ b, then copied."""
        graph = self.device.create_graph()
        product = self.device.add_matmul(graph, [], CALL, a, b, c, self.workspace)
        self.device.add_copy(graph, [product], copy, c, 4 * N * N)
        return graph


def test_an_executable_takes_over_products_and_copies(device: Any) -> None:
    memory, rng = Memory(device), np.random.default_rng(1)
    a, b = (rng.normal(size=(N, N)).astype(np.float32) for _ in range(2))
    x, y = memory.put(a), memory.put(b)
    c, d, e, f = (memory.put(np.zeros((N, N), np.float32)) for _ in range(4))
    graph = memory.graph(x, y, c, d)
    executable = device.instantiate(graph)
    other = memory.graph(y, x, e, f)
    device.update(executable, other)
    device.destroy_graph(other)
    device.launch_graph(executable, memory.stream)
    np.testing.assert_allclose(memory.get(f), b.astype(np.float64) @ a, rtol=1e-5, atol=1e-5)
    assert not memory.get(c).any() and not memory.get(d).any()


def test_a_graph_of_other_nodes_is_refused(device: Any) -> None:
    memory = Memory(device)
    x, c, d = (memory.put(np.eye(N, dtype=np.float32)) for _ in range(3))
    executable, other = device.instantiate(memory.graph(x, x, c, d)), device.create_graph()
    device.add_copy(other, [], d, x, 4 * N * N)
    with pytest.raises(GraphError, match="update"):
        device.update(executable, other)


def test_gla_makes_streams_that_do_not_block(device: Any) -> None:
    assert device.is_blocking(device.create_stream()) is False


def test_a_refusal_of_the_driver_is_an_error_of_the_graph() -> None:
    from gla.device.cuda.device import CudaDevice
    from gla.device.cuda.driver import Driver
    from tests.device.cuda.fake import FakeTable

    table = FakeTable()
    device = CudaDevice(Driver(table, 0))
    graph = device.create_graph()
    executable = device.instantiate(graph)
    device.update(executable, device.create_graph())
    table.fail(2, "cuGraphExecUpdate", "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE")
    with pytest.raises(GraphError, match="refuses"):
        device.update(executable, device.create_graph())
