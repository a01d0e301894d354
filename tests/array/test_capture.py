# ruff: noqa: RUF043
"""Captures: guarantees A, C and F as far as the front end makes them (the runtime's own tests have the rest)."""

import gc

import numpy as np
import pytest

import gla


def A(values, dtype=None):
    return gla.asarray(np.array(values), dtype)


def N(x):
    return np.array(np.asarray(x))


def test_a1_a3_a_capture_runs_nothing_and_launches_apply_it():
    x = A([1.0, 2.0])
    graph = gla.capture(lambda: x.assign(x * 2))
    assert N(x).tolist() == [1.0, 2.0]
    exe = graph.instantiate()
    exe()
    exe.launch()
    assert N(x).tolist() == [4.0, 8.0]


def test_a2_is_capturing():
    seen = []
    gla.capture(lambda: seen.append(gla.is_capturing()))
    assert (seen, gla.is_capturing()) == ([True], False)
    for error in (ValueError, KeyboardInterrupt):

        def fails(error=error):
            raise error

        with pytest.raises(error):
            gla.capture(fails)
        assert not gla.is_capturing()


def test_a4_replays_read_current_contents_of_the_captured_array():
    x, y = A([1.0, 2.0]), A([0.0, 0.0])
    keep = x
    exe = gla.capture(lambda: y.assign(x * 10)).instantiate()
    x = A([7.0, 7.0])
    exe()
    assert N(y).tolist() == [10.0, 20.0]
    keep.assign([3.0, 4.0])
    exe()
    assert N(y).tolist() == [30.0, 40.0]


def test_a5_a16_empty_captures_and_empty_arrays():
    graph = gla.capture(lambda: None)
    assert len(graph) == 0 and len(gla.Graph()) == 0
    graph.instantiate()()
    e = gla.zeros((0, 3))
    graph = gla.capture(lambda: e + 1)
    assert len(graph) == 0
    graph.instantiate()()
    assert N(graph.outputs).shape == (0, 3)


def test_a6_upload_runs_nothing():
    x = A([1.0])
    exe = gla.capture(lambda: x.assign(x + 1)).instantiate()
    exe.upload()
    assert N(x).tolist() == [1.0]


def test_a7_repr_and_dot():
    x = A([1.0])
    graph = gla.capture(lambda: x.assign(x + 1))
    assert "node" in repr(graph) and "digraph" in graph.dot() and "test_capture.py" in graph.dot()


def test_a8_on_unsupported():
    assert gla.capture(lambda: float(A([1.0])[0]), on_unsupported="none") is None
    with pytest.raises(ZeroDivisionError):
        gla.capture(lambda: 1 / 0, on_unsupported="none")


def test_a9_a_failed_capture_leaves_nothing():
    x = A([1.0])

    def fails():
        x.assign(x + 1)
        raise ValueError

    with pytest.raises(ValueError):
        gla.capture(fails)
    assert N(x).tolist() == [1.0]
    x += 1
    gla.capture(lambda: x.assign(x * 2)).instantiate()()
    assert N(x).tolist() == [4.0]


def test_a18_a_failed_capture_into_a_graph_leaves_it():
    x = A([1.0])
    graph = gla.Graph()
    graph.capture(lambda: x.assign(x + 1))
    n = len(graph)
    with pytest.raises(gla.CaptureError):
        graph.capture(lambda: (x.assign(x * 5), float(x[0])))
    assert len(graph) == n
    graph.instantiate()()
    assert N(x).tolist() == [2.0]


def test_a19_writes_in_program_order():
    x, y = A([1.0]), A([0.0])

    def body():
        y.assign(x * 10)
        x.assign(x + 1)
        y.assign(y + x)

    exe = gla.capture(body).instantiate()
    exe()
    assert (N(y).tolist(), N(x).tolist()) == ([12.0], [2.0])
    exe()
    assert (N(y).tolist(), N(x).tolist()) == ([23.0], [3.0])


def test_a19_a_lazy_value_made_before_is_realised_outside():
    x, y = A([1.0]), A([0.0])
    lazy = x * 10
    exe = gla.capture(lambda: y.assign(lazy + 1)).instantiate()
    x.assign([5.0])
    exe()
    assert N(y).tolist() == [11.0]


def test_a19_a_value_neither_written_nor_returned():
    kept = []
    y = A([0.0])

    def body():
        kept.append(y * 3)
        y.assign(y + 1)

    gla.capture(body)
    with pytest.raises(gla.CaptureError, match="test_capture.py"):
        N(kept[0])


def test_a20_f2_outputs():
    x = A([1.0, 2.0])
    graph = gla.capture(lambda: {"y": x * 2, "n": 3, "s": (gla.sum(x),)})
    with pytest.raises(gla.CaptureError, match="launch"):
        N(graph.outputs["y"])
    exe = graph.instantiate()
    exe()
    out = exe.outputs
    assert (N(out["y"]).tolist(), out["n"], float(out["s"][0])) == ([2.0, 4.0], 3, 3.0)
    z = out["y"] + 100
    x.assign([5.0, 6.0])
    exe()
    assert N(graph.outputs["y"]).tolist() == [10.0, 12.0]
    assert N(z).tolist() == [102.0, 104.0]


def test_a21_functions_and_executables_inline():
    x, y = A([1.0]), A([0.0])
    f = gla.function(lambda a: a * 2)

    def body():
        y.assign(f(x) + 1)

    exe = gla.capture(body).instantiate()
    exe()
    assert N(y).tolist() == [3.0]

    def outer():
        x.assign(x + 10)
        exe()
        y.assign(y * 100)

    twice = gla.capture(outer).instantiate()
    assert N(y).tolist() == [3.0]
    twice()
    assert N(y).tolist() == [2300.0]


def test_c1_inputs_dropped_before_a_replay():
    y = A([0.0, 0.0])
    exe = gla.capture(lambda: y.assign(A([1.0, 2.0]) + 1)).instantiate()
    gc.collect()
    junk = [A(np.full(2, k)) for k in range(99)]
    exe()
    assert N(y).tolist() == [2.0, 3.0]
    del junk


def test_c1_c8_inputs_freed():
    x, y = A([1.0, 2.0]), A([0.0, 0.0])
    exe = gla.capture(lambda: y.assign(x + 1)).instantiate()
    x.free()
    junk = [A(np.full(2, k)) for k in range(9)]
    exe()
    assert N(y).tolist() == [2.0, 3.0]
    del junk


def test_pending_readers_are_realised_before_a_launch():
    x = A([1.0])
    exe = gla.capture(lambda: x.assign(x + 1)).instantiate()
    y = x * 10
    exe()
    assert (N(y).tolist(), N(x * 10).tolist()) == ([10.0], [20.0])


def test_g71_each_launch_shifts_once_more():
    x = A(np.arange(5.0))
    exe = gla.capture(lambda: x.__setitem__(slice(1, None), x[:-1])).instantiate()
    exe()
    exe()
    assert N(x).tolist() == [0, 0, 0, 1, 2]


def test_views_write_their_array_in_a_capture():
    x = A([1.0, 2.0, 3.0])
    v = x[1:]

    def body():
        w = x[:1]
        w += 5
        v[0] = 9.0

    with pytest.raises(gla.AliasError):
        gla.capture(body)
    exe = gla.capture(lambda: v.assign(v * 2)).instantiate()
    exe()
    exe()
    assert N(x).tolist() == [1.0, 8.0, 12.0]


@pytest.mark.parametrize(
    "look",
    [
        print,
        lambda x: float(x[0]),
        lambda x: bool(gla.all(x > 0)),
        lambda x: x[0].item(),
        np.asarray,
        lambda x: x.tolist(),
        lambda x: 1 if x[0] > 0 else 2,
        gla.eval,
    ],
)
def test_g21_h3_looks_in_a_capture(look):
    x = A([1.0, 2.0])
    with pytest.raises(gla.CaptureError, match=r"test_capture.py|return the value"):
        gla.capture(lambda: look(x))
    assert not gla.is_capturing()
    assert len(gla.capture(lambda: x + 1)) == 1


def test_g19_harmless_questions_in_a_capture():
    x = A([1.0])
    f = gla.function(lambda a: a)
    gla.capture(lambda: (x.shape, repr(x), gla.is_capturing(), f.stats(), x.dtype, len(x)))


def test_h1_g18_host_data_is_a_snapshot():
    host, y = np.array([1.0, 2.0]), A([0.0, 0.0])
    exe = gla.capture(lambda: y.assign(gla.asarray(host) + 0)).instantiate()
    host[:] = 9
    exe()
    assert N(y).tolist() == [1.0, 2.0]


def test_b_graphs_by_hand():
    x = A([1.0, 2.0])
    s, c, r = gla.zeros(2), gla.zeros(2), gla.zeros(2)
    gla.eval(s, c, r)
    graph = gla.Graph()
    a = graph.capture(lambda: s.assign(gla.sin(x)))
    b = graph.capture(lambda: c.assign(gla.cos(x)))
    graph.capture(lambda: r.assign(s * s + c * c), after=[*a, *b])
    graph.instantiate()()
    np.testing.assert_allclose(N(r), 1, rtol=1e-15)
    with pytest.raises(ValueError, match="another graph"):
        gla.Graph().capture(lambda: r.assign(r + 1), after=a)


def test_f_graph_of_a_call():
    f = gla.function(lambda x: x + 1)
    graph = f.graph(A([1.0]))
    graph.instantiate()()
    assert N(graph.outputs).tolist() == [2.0]


def test_a14_captured_runs_the_body_on_every_call():
    class Host:
        steps = 0

    @gla.captured
    def step(x, s):
        Host.steps += 1
        x.assign(x * s)
        return x + (100 if Host.steps % 7 == 0 else 0)

    x = A([1.0])
    results = [float(step(x, 1.0 + k)[0]) for k in range(8)]
    assert Host.steps == 8
    expected, value = [], 1.0
    for k in range(8):
        value *= 1.0 + k
        expected.append(value + (100 if k == 6 else 0))
    assert results == expected


def test_a_capture_inside_a_trace_is_refused():
    with pytest.raises(gla.TraceError):
        gla.function(lambda x: (gla.capture(lambda: None), x)[1])(A([1.0]))


def test_a_view_that_a_graph_writes_through_follows_each_launch():
    x = gla.asarray(np.arange(6.0)).reshape(2, 3)
    row = x[1]

    def step():
        row.assign(row + 1)
        return x * 1

    exe = gla.capture(step).instantiate()
    before = x + 0
    exe()
    assert np.asarray(exe.outputs).tolist() == [[0, 1, 2], [4, 5, 6]]
    exe()
    assert np.asarray(x).tolist() == [[0, 1, 2], [5, 6, 7]]
    assert np.asarray(row).tolist() == [5, 6, 7]
    assert np.asarray(before).tolist() == [[0, 1, 2], [3, 4, 5]]
    x[0] = 9.0  # and it may be written further
    assert np.asarray(x).tolist() == [[9, 9, 9], [5, 6, 7]]


def test_a_view_that_was_overtaken_does_not_follow():
    a = gla.asarray(np.zeros(4))
    x = a[1:]
    exe = gla.capture(lambda: x.assign(x + 1)).instantiate()
    exe()
    a += 10
    exe()
    assert np.asarray(x).tolist() == [1, 1, 1]
    assert np.asarray(a).tolist() == [10, 12, 12, 12]


def test_a_captured_function_writes_a_view():
    @gla.captured
    def grow(u):
        u += 1
        u[0] *= 2

    u = gla.asarray(np.arange(4.0)).reshape(2, 2)
    grow(u)
    grow(u)
    assert np.asarray(u).tolist() == [[6, 10], [4, 5]]
