# ruff: noqa: PLW0108, PLW2901
"""Values, laziness, writes, views: semantics.md, section 1."""

import gc
import weakref

import numpy as np
import pytest

import gla
from gla.array import buffer, engine
from gla.array.calls import pending_count


def A(values, dtype=None):
    return gla.asarray(np.array(values), dtype)


def N(x):
    return np.array(np.asarray(x))


@pytest.fixture
def launches(monkeypatch):
    """The graphs that were run, in order."""
    ran = []
    run = engine.run

    def counted(executable, storages, scalars):
        ran.append(executable)
        return run(executable, storages, scalars)

    monkeypatch.setattr(engine, "run", counted)
    return ran


def test_an_operation_changes_no_input():
    x = A([1.0, 2.0])
    y = x + 1
    assert N(x).tolist() == [1.0, 2.0]
    assert N(y).tolist() == [2.0, 3.0]


def test_nothing_is_computed_before_it_is_looked_at(launches):
    y = A([1.0, 2.0]) * 3
    assert launches == []
    N(y)
    assert len(launches) == 1


def test_a_realised_value_is_not_computed_again(launches):
    y = A([1.0, 2.0]) * 3
    N(y), N(y), float(y[0])
    assert len(launches) == 2  # y once, its element once


def test_what_is_built_on_a_realised_value_reads_it(launches):
    y = gla.sin(A([1.0, 2.0]))
    z = y + 1
    N(y)
    N(z)
    assert [op.op for op in _nodes(launches[1])].count("sin") == 0


def _nodes(executable):
    return [node for call in executable.program.plan.steps for node in call.region.outputs]


def test_eval_is_one_launch(launches):
    x = A([1.0, 2.0])
    a, b, c = x + 1, x * 2, gla.sum(x)
    assert gla.eval(a, b, c) == (a, b, c)
    assert len(launches) == 1
    assert (N(a).tolist(), N(b).tolist(), float(c)) == ([2.0, 3.0], [2.0, 4.0], 3.0)
    assert len(launches) == 1


def test_equal_expressions_hit_the_same_executable(launches):
    for k in range(3):
        N(A([1.0 + k, 2.0]) * ((k + 1) ** 0.5 / 3) - 1.0)
    assert len({id(e) for e in launches}) == 1


def test_equal_pending_values_are_two_variables():
    x = A([1.0, 2.0])
    a, b = x * 2, x * 2
    gla.eval(a, b)
    a += 1
    assert N(a).tolist() == [3.0, 5.0]
    assert N(b).tolist() == [2.0, 4.0]
    b += 10
    assert (N(a).tolist(), N(b).tolist()) == ([3.0, 5.0], [12.0, 14.0])


def test_two_thousand_pending_nodes_are_realised():
    x = A([0.0])
    for _ in range(2500):
        x = x + 1
    assert x._count < 2100
    assert float(x[0]) == 2500


def test_a_shared_subexpression_counts_once():
    a, b = A([1.0]), A([2.0])
    for _ in range(60):
        a, b = a * 0.5 + b * 0.5, b * 0.5 + a * 0.5
    assert a._count < 500


# --- writes
def test_a_write_realises_live_readers_in_the_same_launch(launches):
    x = A([1.0, 2.0])
    y = x * 2
    x.assign([5.0, 6.0])
    assert len(launches) == 1
    assert N(y).tolist() == [2.0, 4.0]
    assert N(x).tolist() == [5.0, 6.0]


def test_a_write_drops_dead_readers(launches):
    x = A([1.0, 2.0])
    y = gla.sin(x)
    del y
    x.assign(x + 1)
    assert N(x).tolist() == [2.0, 3.0]
    assert len(launches[0].layout.outputs) == 0


def test_a_reader_of_a_reader_is_realised():
    x = A([1.0, 2.0])
    z = (x * 2) + 1
    x += 1
    assert N(z).tolist() == [3.0, 5.0]


def test_an_expression_after_a_write_reads_the_new_contents():
    x = A([1.0])
    y = x * 2
    x += 1
    z = x * 2
    assert (float(y[0]), float(z[0])) == (2.0, 4.0)


def test_the_right_side_is_read_whole_first():
    x = A(np.arange(5.0))
    x[1:] = x[:-1]
    assert N(x).tolist() == [0, 0, 1, 2, 3]


def test_assign_broadcasts_and_gives_the_array():
    x = A(np.zeros((2, 3)))
    assert x.assign([1.0, 2.0, 3.0]) is x
    assert N(x).tolist() == [[1, 2, 3], [1, 2, 3]]


@pytest.mark.parametrize("write", [lambda x: x.assign(A([1.5])), lambda x: x.__setitem__(0, 1.5), lambda x: x.__iadd__(1.5)])
def test_a_write_never_narrows(write):
    x = A([1])
    with pytest.raises(gla.DtypeError, match="astype"):
        write(x)
    assert N(x).tolist() == [1]


def test_in_place_keeps_the_dtype():
    x = A([1.0, 2.0], "float32")
    x *= 2
    x += 1.5
    assert x.dtype == gla.float32
    assert N(x).tolist() == [3.5, 5.5]


def test_a_write_of_a_wrong_shape_leaves_all_as_it_was():
    x = A([1.0, 2.0])
    with pytest.raises(gla.ShapeError):
        x.assign([1.0, 2.0, 3.0])
    with pytest.raises(gla.ShapeError):
        x[:1] = [1.0, 2.0]
    assert N(x).tolist() == [1.0, 2.0]


# --- views
def test_a_slice_keeps_the_contents_of_its_time():
    x = A([1.0, 2.0, 3.0])
    v = x[1:]
    x += 10
    assert N(v).tolist() == [2.0, 3.0]


@pytest.mark.parametrize("look", [False, True])
def test_writing_through_a_slice_writes_the_array(look):
    x = A([1.0, 2.0, 3.0])
    y = x[1:]
    if look:
        N(y)
    y += 1
    assert N(x).tolist() == [1.0, 3.0, 4.0]
    assert N(y).tolist() == [3.0, 4.0]
    y[0] = 9.0
    assert N(x).tolist() == [1.0, 9.0, 4.0]
    assert N(y).tolist() == [9.0, 4.0]


@pytest.mark.parametrize(
    "take",
    [
        lambda x: x.T,
        lambda x: x.reshape(6),
        lambda x: x[:, ::-1],
        lambda x: x[1],
        lambda x: x.mT[1:],
        lambda x: x[:, None, 1:],
        lambda x: gla.transpose(x),
    ],
)
def test_every_kind_of_view_writes_through(take):
    n = np.arange(6.0).reshape(2, 3)
    x = A(n)
    v = take(x)
    v += 10
    w = {True: n.T}.get(v.shape == (3, 2))
    expected = n.copy()
    view = take(Like(expected)).value if w is None else expected.T
    view += 10
    assert N(x).tolist() == expected.tolist()


class Like:
    """NumPy with gla's spelling of the views above."""

    def __init__(self, value):
        self.value = value

    T = property(lambda self: Like(self.value.T))
    mT = property(lambda self: Like(self.value.T))

    def reshape(self, *shape):
        return Like(self.value.reshape(*shape))

    def __getitem__(self, key):
        return Like(self.value[key])


@pytest.mark.parametrize(
    "take, numpy_take",
    [
        (lambda x: x.ravel(), lambda n: n.ravel()),
        (lambda x: gla.flip(x, axis=1), lambda n: np.flip(n, 1)),
        (lambda x: gla.moveaxis(x, 0, 2), lambda n: np.moveaxis(n, 0, 2)),
        (lambda x: gla.matrix_transpose(x), lambda n: n.mT),
        (lambda x: gla.squeeze(x[:, :1], axis=1), lambda n: n[:, 0]),
        (lambda x: x[:, :1].squeeze(), lambda n: n[:, 0]),
        (lambda x: gla.expand_dims(x, axis=1), lambda n: n[:, None]),
    ],
)
def test_what_moves_axes_is_a_view(take, numpy_take):
    n = np.arange(24.0).reshape(2, 3, 4)
    x = A(n)
    v, w = take(x), numpy_take(n)
    assert N(v).tolist() == w.tolist()
    v *= 10
    w *= 10
    assert N(x).tolist() == n.tolist()


def test_a_slice_of_a_slice_writes_the_root():
    x = A(np.zeros(6))
    x[1:][1:4][::2] = [1.0, 2.0]
    assert N(x).tolist() == [0, 0, 1, 0, 2, 0]


def test_writing_through_a_stale_slice_is_refused():
    x = A([1.0, 2.0, 3.0])
    y = x[1:]
    x += 1
    with pytest.raises(gla.AliasError, match="before the array was written"):
        y += 1
    assert N(y).tolist() == [2.0, 3.0]
    assert N(x).tolist() == [2.0, 3.0, 4.0]


def test_of_two_slices_the_second_writer_is_refused():
    x = A([1.0, 2.0, 3.0])
    a, b = x[:2], x[1:]
    a += 1
    with pytest.raises(gla.AliasError):
        b += 1


def test_slice_plus_equals_is_one_write(launches):
    x = A([1.0, 2.0, 3.0])
    before = x._stamp
    x[1:] += 5
    assert x._stamp == before + 1
    assert N(x).tolist() == [1.0, 7.0, 8.0]


@pytest.mark.parametrize("look", [False, True])
def test_a_write_through_a_part_of_a_view_shows_in_the_view(look):
    a = A(np.arange(6.0))
    x = a.reshape(2, 3)
    if look:
        N(x)
    x[0] += 1
    assert N(x).tolist() == [[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]]
    row = x[1]
    row[0] = 50.0
    x[0, 0] = 7.0
    assert N(x).tolist() == [[7.0, 2.0, 3.0], [50.0, 4.0, 5.0]]
    assert N(a).tolist() == [7.0, 2.0, 3.0, 50.0, 4.0, 5.0]


def test_a_function_that_writes_a_part_of_a_view_shows_in_the_view():
    @gla.function
    def double(v):
        v *= 2

    x = A(np.arange(6.0)).reshape(2, 3)
    double(x[1])
    assert N(x).tolist() == [[0.0, 1.0, 2.0], [6.0, 8.0, 10.0]]
    stale = x[0]
    x += 1
    with pytest.raises(gla.AliasError, match="before the array was written"):
        double(stale)
    assert N(x)[0].tolist() == [1.0, 2.0, 3.0]


def test_a_view_of_a_view_that_fails_to_be_written_shows_what_it_did(monkeypatch):
    x = A(np.arange(6.0))[1:]
    N(x)
    row = x[1:]
    with monkeypatch.context() as m:
        m.setattr(engine, "run", lambda *a: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            row += 1
    assert N(x).tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    row += 1
    assert N(x).tolist() == [1.0, 3.0, 4.0, 5.0, 6.0]


def test_a_gather_is_a_new_value():
    x = A([1.0, 2.0, 3.0])
    y = x[[0, 2]]
    y += 1
    assert N(x).tolist() == [1.0, 2.0, 3.0]


def test_views_of_a_pending_array_write_it():
    x = A([1.0, 2.0, 3.0]) * 2
    y = x[1:]
    y += 1
    assert N(x).tolist() == [2.0, 5.0, 7.0]


def test_repeated_indices_the_last_wins_and_scatter_add_sums():
    x = A([3.0, 0.0])
    x[[0, 0]] = [7.0, 8.0]
    assert N(x).tolist() == [8.0, 0.0]
    assert N(gla.scatter_add(A([3.0, 0.0]), [0, 0], [7.0, 8.0])).tolist() == [18.0, 0.0]


def test_masks_select_and_replace():
    n = np.array([[1.0, -2.0], [-3.0, 4.0]])
    x = A(n)
    assert N(x[x < 0]).tolist() == n[n < 0].tolist()
    x[x < 0] = 0.0
    assert N(x).tolist() == [[1.0, 0.0], [0.0, 4.0]]
    x[N(x) == 0] = [5.0, 6.0]
    assert N(x).tolist() == [[1.0, 5.0], [6.0, 4.0]]


def test_free_refuses_later_use_and_keeps_values_built_before():
    x = A([1.0, 2.0])
    y = x * 2
    x.free()
    assert N(y).tolist() == [2.0, 4.0]
    with pytest.raises(gla.GlaError, match="free"):
        N(x + 1)


# --- bookkeeping
def test_dropped_values_wait_no_longer():
    gc.collect()
    before = pending_count("host")
    x = A([1.0])
    y = x + 1
    assert pending_count("host") == before + 1
    del y
    assert pending_count("host") == before


def test_dropping_an_array_drops_its_memory():
    x = A(np.zeros(1000))
    storage = weakref.ref(x._buffer.storage)
    y = x + 1
    del x
    assert storage() is not None
    N(y)
    gc.collect()
    assert storage() is None


def test_looks_of_all_kinds():
    x = A([1.5])
    assert (float(x), int(x), bool(x), complex(x), x.item(), x.tolist(), x.numpy().tolist()) == (
        1.5,
        1,
        True,
        1.5,
        1.5,
        [1.5],
        [1.5],
    )
    assert [float(v) for v in A([1.0, 2.0])] == [1.0, 2.0]
    assert range(3)[A(2)] == 2
    assert len(A([1, 2, 3])) == 3
    assert 2.0 in A([1.0, 2.0])
    assert f"{A(1.25):.1f}" == "1.2"


def test_only_one_element_is_a_number():
    for look in (bool, int, float, complex):
        with pytest.raises(ValueError, match="2 elements"):
            look(A([1.0, 2.0]))
    with pytest.raises(TypeError):
        range(3)[A(1.0)]


def test_arrays_hash_by_identity_and_compare_elementwise():
    x, y = A([1.0]), A([1.0])
    assert len({x, y, x}) == 2
    assert N(x == y).tolist() == [True]


def test_copy_is_independent():
    x = A([1.0])
    for y in (x.copy(), gla.copy(x), x.flatten()):
        y += 1
        assert N(x).tolist() == [1.0]


def test_an_interrupted_write_leaves_the_array_as_it_was(monkeypatch):
    x = A([1.0, 2.0])
    y = x + 1
    N(x + 0)

    def broken(*_):
        raise KeyboardInterrupt

    x.assign(x * 1.0)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "run", broken)
        with pytest.raises(KeyboardInterrupt):
            x.assign(x * 3.0)
    assert N(x).tolist() == [1.0, 2.0]
    assert N(y).tolist() == [2.0, 3.0]


def test_values_built_while_another_thread_writes():
    """What is built while a write begins reads the old contents or the new ones, whole."""
    import sys
    import threading

    x, stop, wrong = A(np.zeros(64)), [], []

    def build():
        while not stop:
            y = (x + 1) * 2
            part = x[3:9]
            try:
                wrong.extend(v for v in (N(y), N(part + 1), N(part)) if (v != v[0]).any())
            except BaseException as error:
                wrong.append(error)

    threads = [threading.Thread(target=build) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for _ in range(40):
            x.assign(x + 1)
    finally:
        stop.append(True)
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert not wrong
    assert N(x)[0] == 40


def test_threads_build_and_write():
    from concurrent.futures import ThreadPoolExecutor

    x = A(np.zeros(4))

    def work(k):
        y = A(np.full(4, float(k)))
        for _ in range(20):
            y = y + 1
            x.assign(x + 1)
        return float(y[0])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [20.0, 21.0, 22.0, 23.0]
    assert N(x)[0] <= 80.0


def test_values_of_constants_alone_are_of_the_device_that_computed_them():
    # gla.zeros(3) is one node, whatever the device: the host's memory must not stand for it on a GPU.
    a, b = gla.zeros(3) + 1, gla.zeros(3) + 1
    node = a._value
    assert node is b._value
    assert N(a).tolist() == [1.0, 1.0, 1.0]
    assert buffer.resolved(node) is node
    c = a * 2
    node = c._value
    assert N(c).tolist() == [2.0, 2.0, 2.0]
    assert buffer.resolved(node) is not node
