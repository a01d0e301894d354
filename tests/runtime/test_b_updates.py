"""Guarantees B: graphs built by hand, and updates of executables."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import gla
from gla.array import engine
from gla.errors import CaptureError, DeviceError, GraphError
from tests.runtime.conftest import A, N


def leased(name: str) -> int:
    gc.collect()
    machine = engine.machine(name)
    machine.gate.drain_all()
    return machine.memory()["leased"]


def diamond():
    u = A(np.linspace(0, 1, 32))
    x, y, z = (A(np.zeros(32)) for _ in range(3))
    graph = gla.Graph()
    a = graph.capture(lambda: x.assign(gla.sin(u)))
    b = graph.capture(lambda: y.assign(gla.cos(u)))
    [node] = graph.capture(lambda: z.assign(x + y), after=[*a, *b])
    return graph, node, (u, x, y, z)


def test_b1_operations_depend_on_after_and_on_nothing_else(name):
    graph, _, _ = diamond()
    assert [n.after for n in graph.record.nodes] == [(), (), (0, 1)]


def test_b2_the_diamond_is_right(name):
    graph, _, (u, _, _, z) = diamond()
    exe = graph.instantiate()
    for scale in (1.0, 2.5):
        u.assign(A(np.linspace(0, 1, 32) * scale))
        exe()
        expected = np.sin(np.linspace(0, 1, 32) * scale) + np.cos(np.linspace(0, 1, 32) * scale)
        np.testing.assert_allclose(N(z), expected, rtol=1e-14)


def test_b2_the_frontier_is_what_a_following_operation_depends_on(name):
    x, y = A(np.zeros((3, 3))), A(np.zeros(4))
    graph = gla.Graph()
    nodes = graph.capture(lambda: (x.assign(x @ x), y.assign(y + 1)))
    assert len(nodes) >= 2
    following = graph.capture(lambda: y.assign(y * 2), after=nodes)
    assert set(graph.record.nodes[following[0].number].after) == {n.number for n in nodes}
    assert graph.capture(lambda: None, after=following) == following


def test_b3_nodes_of_another_graph_are_refused(name):
    _graph, node, (u, *_) = diamond()
    other = gla.Graph()
    with pytest.raises(ValueError, match="another graph"):
        other.capture(lambda: u.assign(u + 1), after=[node])
    assert len(other) == 0 and not gla.is_capturing()


def test_b4_a_node_keeps_its_graph_alive(name):
    graph, node, _ = diamond()
    kept = weakref.ref(graph.record.nodes[0].call.kernel)
    del graph
    gc.collect()
    assert node.kind == "kernel" and len(node.graph.nodes) == 3 and kept() is not None


def test_b5_an_update_retargets_everything(name):
    def step(x, y, k):
        y.assign(gla.sum(x) * k + x)

    x1, y1, x2, y2 = A([1.0, 2.0]), A([0.0, 0.0]), A([10.0, 20.0]), A([0.0, 0.0])
    exe = gla.capture(step, x1, y1, 2.0).instantiate()
    exe()
    assert exe.update(gla.capture(step, x2, y2, -1.0)) is True
    exe()
    assert N(y1).tolist() == [7.0, 8.0] and N(y2).tolist() == [-20.0, -10.0]


def test_b5_outputs_are_those_of_the_new_graph(name):
    x, y = A([1.0]), A([5.0])
    exe = gla.capture(lambda: x + 1).instantiate()
    second = gla.capture(lambda: y + 1)
    assert exe.update(second)
    with pytest.raises(CaptureError, match="before the graph's first launch"):
        N(exe.outputs)
    exe()
    assert N(exe.outputs).tolist() == [6.0] == N(second.outputs).tolist()


@pytest.mark.parametrize(
    "other",
    [
        lambda x, y: y.assign(x * 2),  # another kernel
        lambda x, y: (y.assign(x + 1), x.assign(gla.sum(x) + x)),  # more nodes
        lambda x, y: None,
    ],
)
def test_b5_another_structure_is_refused_and_nothing_changes(name, other):
    x, y = A([1.0, 2.0]), A([0.0, 0.0])
    exe = gla.capture(lambda: y.assign(x + 1)).instantiate()
    graph = gla.capture(lambda: other(x, y))
    assert exe.update(graph) is False
    with pytest.raises(GraphError, match="cannot be updated"):
        exe.update(graph, strict=True)
    exe()
    assert N(y).tolist() == [2.0, 3.0] and N(x).tolist() == [1.0, 2.0]


def test_b5_another_shape_is_refused(name):
    x, y, big, out = A(np.ones(8)), A(np.zeros(8)), A(np.ones(100_000)), A(np.zeros(100_000))
    exe = gla.capture(lambda: y.assign(x + 1)).instantiate()
    assert exe.update(gla.capture(lambda: out.assign(big + 1))) is False
    exe()
    assert N(y).tolist() == [2.0] * 8


def test_b5_products_are_updated(name):
    rng = np.random.default_rng(4)
    a, b, c, d = (rng.normal(size=(4, 4)) for _ in range(4))
    xs, y, z = [A(v) for v in (a, b, c, d)], A(np.zeros((4, 4))), A(np.zeros((4, 4)))
    exe = gla.capture(lambda: y.assign(xs[0] @ xs[1])).instantiate()
    exe()
    np.testing.assert_allclose(N(y), a @ b, rtol=1e-12)
    assert exe.update(gla.capture(lambda: z.assign(xs[2] @ xs[3])), strict=True)
    exe()
    np.testing.assert_allclose(N(z), c @ d, rtol=1e-12)
    np.testing.assert_allclose(N(y), a @ b, rtol=1e-12)


def test_b6_leases_change_hands_with_the_update(name):
    def capture(n):
        x, y = A(np.full(5000, float(n))), A(np.zeros(5000))
        return gla.capture(lambda: y.assign(x + 1)), y

    base = leased(name)
    first, y = capture(1)
    one = leased(name) - base
    exe = first.instantiate()
    second, z = capture(2)
    assert exe.update(second)
    del first, second
    assert leased(name) - base == one
    exe()
    assert N(z)[0] == 3.0 and N(y)[0] == 0.0
    del exe
    assert leased(name) == base


def test_b6_a_driver_that_fails_leaves_the_executable_as_it_was(name, monkeypatch):
    x1, y1, x2, y2 = A([1.0]), A([0.0]), A([2.0]), A([0.0])
    w1, w2 = A(np.eye(2)), A(np.zeros((2, 2)))

    def step(x, y):
        y.assign(x + 1)
        w2.assign(w1 * x)

    exe = gla.capture(step, x1, y1).instantiate()
    second = gla.capture(step, x2, y2)
    base, device = leased(name), engine.machine(name).device
    count, set_kernel = [0], type(device).set_kernel

    def failing(self, *args):
        count[0] += 1
        if count[0] == 2:
            raise DeviceError("GLA0519", "injected")
        set_kernel(self, *args)

    monkeypatch.setattr(type(device), "set_kernel", failing)
    with pytest.raises(DeviceError, match="injected"):
        exe.update(second)
    monkeypatch.undo()
    assert leased(name) == base
    exe()
    assert N(y1).tolist() == [2.0] and N(y2).tolist() == [0.0]
    assert exe.update(second)
    exe()
    assert N(y2).tolist() == [3.0]


def test_b6_the_device_may_fail_to_instantiate_again_too(name, monkeypatch):
    x1, y1, x2, y2 = A([1.0]), A([0.0]), A([2.0]), A([0.0])
    exe = gla.capture(lambda: y1.assign(x1 + 1)).instantiate()
    second = gla.capture(lambda: y2.assign(x2 + 1))

    def failing(*args):
        raise DeviceError("GLA0519", "injected")

    device = type(engine.machine(name).device)
    monkeypatch.setattr(device, "set_kernel", failing)
    monkeypatch.setattr(device, "instantiate", failing)
    with pytest.raises(DeviceError):
        exe.update(second)
    monkeypatch.undo()
    exe()
    assert N(y1).tolist() == [2.0] and N(y2).tolist() == [0.0]


def test_b7_one_operation_is_changed(name):
    graph, node, (_u, _, _, z) = diamond()
    exe, z2 = graph.instantiate(), A(np.zeros(32))
    x, y = np.sin(np.linspace(0, 1, 32)), np.cos(np.linspace(0, 1, 32))
    exe()
    keep = N(z)
    a, b = A(x), A(y)
    assert exe.update(node, lambda: z2.assign(a * b))  # another kernel, other arrays
    z.assign(A(np.zeros(32)))
    exe()
    np.testing.assert_array_equal(N(z2), x * y)
    assert not N(z).any()
    graph.instantiate()()  # the graph itself has not changed
    np.testing.assert_array_equal(N(z), keep)


def test_b7_a_copy_for_a_copy(name):
    x, y, z = A([1.0, 2.0]), A([3.0, 4.0]), A([0.0, 0.0])
    graph = gla.Graph()
    nodes = graph.capture(lambda: z.assign(x))
    if nodes[0].kind != "copy":
        pytest.skip("an assignment is a kernel here")
    exe = graph.instantiate()
    exe.update(nodes[0], lambda: z.assign(y))
    exe()
    assert N(z).tolist() == [3.0, 4.0]
    with pytest.raises(GraphError, match="copy"):
        exe.update(nodes[0], lambda: z.assign(y + 1))


def test_b7_a_product_is_one_node(name):
    rng = np.random.default_rng(5)
    a, b, c = (rng.normal(size=(200, 200)).astype(np.float32) for _ in range(3))
    x, y, w = A(a), A(b), A(c)
    graph = gla.Graph()
    [node] = graph.capture(lambda: x @ y)
    exe = graph.instantiate()
    exe()
    np.testing.assert_allclose(N(exe.outputs), a.astype(np.float64) @ b, rtol=1e-3, atol=1e-3)
    exe.update(node, lambda: x @ w)
    exe()
    np.testing.assert_allclose(N(exe.outputs), a.astype(np.float64) @ c, rtol=1e-3, atol=1e-3)
    with pytest.raises(GraphError, match="cannot be updated"):
        exe.update(node, lambda: gla.sin(gla.cumulative_sum(x, axis=0)) @ y)


def test_b7_a_product_that_is_assigned_is_one_node_too(name):
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=(50, 50)), rng.normal(size=(50, 50))
    x, y, out = A(a), A(b), A(np.zeros((50, 50)))
    graph = gla.Graph()
    [node] = graph.capture(lambda: out.assign(x @ y))
    exe = graph.instantiate()
    exe.update(node, lambda: out.assign(y @ x))
    exe()
    np.testing.assert_allclose(N(out), b @ a, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x, y, z: (x.assign(x + 1), y.assign(gla.sum(y) + y), z.assign(gla.max(z) + z)), "not one"),
        (lambda x, y, z: None, "0 operations"),
    ],
)
def test_b7_more_or_less_than_one_operation_is_refused(name, f, message):
    graph, node, (_, x, y, z) = diamond()
    exe = graph.instantiate()
    with pytest.raises(GraphError, match=message):
        exe.update(node, lambda: f(x, y, z))
    exe()
    np.testing.assert_allclose(N(z), N(x) + N(y))


def test_b7_another_kind_another_graph_and_a_later_node_are_refused(name):
    graph, node, (u, x, y, z) = diamond()
    exe = graph.instantiate()
    _other, foreign, _ = diamond()
    with pytest.raises(GraphError, match="another graph"):
        exe.update(foreign, lambda: z.assign(x + y))
    [late] = graph.capture(lambda: u.assign(u + 1), after=[node])
    with pytest.raises(GraphError, match="after the executable"):
        exe.update(late, lambda: u.assign(u + 2))
    with pytest.raises(GraphError, match="takes a graph, or a node"):
        exe.update(node)
    with pytest.raises(ZeroDivisionError):
        exe.update(node, lambda: z.assign(x / (1 // 0)))
    exe()
    np.testing.assert_allclose(N(z), N(x) + N(y))


def test_b8_updates_affect_later_launches_only_and_are_repeated(name):
    graph, node, (_, x, y, z) = diamond()
    exe = graph.instantiate()
    outs = []
    for k in range(20):
        out = A(np.zeros(32))
        exe.update(node, lambda out=out, k=k: out.assign(x * float(k) + y))
        exe()
        outs.append(out)
    for k, out in enumerate(outs):
        np.testing.assert_allclose(N(out), N(x) * k + N(y), rtol=1e-14)
    assert not N(z).any()


def test_b9_memory_of_the_replaced_operation_alone_is_let_go(name):
    base = leased(name)
    x, y, out = A(np.ones(4000)), A(np.ones(4000)), A(np.zeros(4000))
    graph = gla.Graph()
    [first] = graph.capture(lambda: out.assign(x + 1))  # noqa: F821 - deleted below
    graph.capture(lambda: out.assign(out * 2), after=[first])
    exe = graph.instantiate()
    del graph
    only = weakref.ref(x._buffer.storage.block)
    exe.update(first, lambda: out.assign(y + 5))  # noqa: F821 - deleted below
    del x, first
    now = leased(name)
    assert only() is None
    kept = weakref.ref(y._buffer.storage.block)
    del y
    gc.collect()
    assert kept() is not None and leased(name) == now
    exe()
    assert N(out)[0] == 12.0
    del exe
    assert leased(name) == base


def test_b10_graphs_and_executables_from_several_threads(name):
    x = A(np.zeros(64))
    graph, wrong = gla.Graph(), []
    arrays = [A(np.full(64, float(k))) for k in range(4)]

    def build(k):
        try:
            with gla.device(name):
                for _ in range(10):
                    graph.capture(lambda: arrays[k].assign(arrays[k] + 1))
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=build, args=(k,)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong and len(graph) == 40
    single = gla.Graph()
    [node] = single.capture(lambda: x.assign(x + 1))
    exe = single.instantiate()

    def use(k):
        try:
            with gla.device(name):
                for _ in range(25):
                    exe()
                    if k == 0:
                        exe.update(node, lambda: x.assign(x + 1))
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=use, args=(k,)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong and N(x).tolist() == [100.0] * 64


def test_b10_updates_beside_launches_leave_no_stale_value(name):
    outs = [A(np.zeros(16)) for _ in range(2)]
    x, wrong = A(np.ones(16)), []
    graph = gla.Graph()
    [node] = graph.capture(lambda: outs[0].assign(outs[0] + x))
    exe = graph.instantiate()

    def launch():
        try:
            with gla.device(name):
                for _ in range(50):
                    exe()
                    N(outs[0] + outs[1])
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=launch) for _ in range(3)]
    [t.start() for t in threads]
    for k in range(30):
        out = outs[k % 2]
        exe.update(node, lambda: out.assign(out + x))  # noqa: B023 - run at once
    [t.join(60) for t in threads]
    assert not wrong and N(outs[0])[0] + N(outs[1])[0] == 150.0


def test_b11_independent_branches_are_independent_nodes(name):
    x, y = A(np.ones((64, 64))), A(np.ones(500))
    graph = gla.capture(lambda: (gla.sum(gla.sin(x), axis=0), gla.cumulative_sum(y)))
    nodes = graph.record.nodes
    starts = [k for k, node in enumerate(nodes) if not node.after]
    assert len(nodes) >= 2 and len(starts) >= 2
