# ruff: noqa: RUF015, RUF043
"""Loops and choices as values, in traces and outside of them."""

import dataclasses

import numpy as np
import pytest

import gla


def A(values, dtype=None):
    return gla.asarray(np.array(values), dtype)


def N(x):
    return np.array(np.asarray(x))


@pytest.fixture(params=["lazy", "traced"])
def both(request):
    return (lambda f, *a: f(*a)) if request.param == "lazy" else (lambda f, *a: gla.function(f)(*a))


def test_fori(both):
    assert N(both(lambda x: gla.fori(0, 5, lambda k, c: c * 2 + k, x), A([1.0, 0.0]))).tolist() == [58.0, 26.0]
    assert N(both(lambda x: gla.fori(2, 5, lambda k, c: c + k, x), A([0]))).tolist() == [9]
    assert N(both(lambda x: gla.fori(5, 2, lambda k, c: c + k, x), A([1.0]))).tolist() == [1.0]


def test_fori_with_runtime_bounds():
    f = gla.function(lambda x, n: gla.fori(0, n, lambda k, c: c + 1, x))
    assert [float(f(A([0.0]), n)[0]) for n in (0, 3, 10)] == [0, 3, 10]
    assert f.stats().plans == 1


@dataclasses.dataclass
class State:
    x: gla.Array
    v: gla.Array


def test_carries_are_trees(both):
    def run(x, v):
        s = gla.fori(0, 10, lambda k, s: State(s.x + s.v * 0.1, s.v - s.x * 0.1), State(x, v))
        d = gla.fori(0, 3, lambda k, d: {"a": d["b"], "b": d["a"]}, {"a": s.x, "b": s.v})
        return d["a"], d["b"]

    x, v = 1.0, 0.0
    for _ in range(10):
        x, v = x + v * 0.1, v - x * 0.1
    a, b = both(run, A([1.0]), A([0.0]))
    assert (float(a[0]), float(b[0])) == (v, x)


def test_carries_widen_safely_and_only_so(both):
    assert both(lambda x: gla.fori(0, 3, lambda k, c: c + 0.5, x), A([1])).dtype == gla.float64
    assert float(both(lambda x: gla.fori(0, 3, lambda k, c: c + x[0], 0), A([1.5]))) == 4.5


def test_a_carry_that_changes_is_named():
    with pytest.raises(gla.ShapeError, match=r"carry\[1\]"):
        gla.fori(0, 3, lambda k, c: (c[0], gla.concat([c[1], c[1]])), (A([1.0]), A([1.0])))
    with pytest.raises(gla.TraceError, match=r"carry\[0\], carry\[1\]"):
        gla.fori(0, 3, lambda k, c: (c[0], c[1], c[0]), (A([1.0]), A([1.0])))
    with pytest.raises(gla.DtypeError, match="carry"):
        gla.fori(0, 3, lambda k, c: c, "text")


def test_while_loop(both):
    assert int(both(lambda x: gla.while_loop(lambda c: c < 100, lambda c: c * 2, x, max_steps=50), A(1))) == 128
    assert int(both(lambda x: gla.while_loop(lambda c: c < 100, lambda c: c * 2, x, max_steps=3), A(1))) == 8
    r = both(
        lambda x: gla.while_loop(lambda s: gla.any(s[0] > 1e-3), lambda s: (s[0] / 2, s[1] + 1), (x, 0), max_steps=100),
        A([1.0]),
    )
    assert int(r[1]) == 10


def test_scan(both):
    def run(x):
        return gla.scan(lambda c: (c + 1, c * c), x, 6)

    last, outs = both(run, A([0.0, 1.0]))
    assert N(last).tolist() == [6.0, 7.0]
    assert N(outs).tolist() == [[k * k, (k + 1) ** 2] for k in range(6)]
    last, outs = both(lambda x: gla.scan(lambda c: (c + 1, {"k": c}), x, length=7, emit_every=3), A(0))
    assert N(outs["k"]).tolist() == [2, 5]
    _, outs = both(lambda x: gla.scan(lambda c, k: (c, k * 10), x, 3), A(0))
    assert N(outs).tolist() == [0, 10, 20]


def test_cond(both):
    f = lambda x: gla.cond(gla.sum(x) > 0, lambda a: a + 1, lambda a: a - 1, x)  # noqa: E731
    assert N(both(f, A([1.0]))).tolist() == [2.0]
    assert N(both(f, A([-1.0]))).tolist() == [-2.0]
    assert gla.cond(True, lambda: 1, lambda: 2) == 1
    with pytest.raises(gla.TraceError):
        gla.cond(A(True), lambda a: (a, a), lambda a: a, A([1.0]))
    with pytest.raises(gla.DtypeError, match="any"):
        gla.cond(A([True]), lambda a: a, lambda a: a, A([1.0]))


def test_bodies_use_what_is_around_them(both):
    w = A([2.0, 3.0])

    def run(x, k):
        return gla.fori(0, 3, lambda i, c: c * w + gla.sin(x) * 0 + k, x)

    assert N(run(A([1.0, 1.0]), A(1.0))).tolist() == [15.0, 40.0]
    g = gla.function(run)
    assert N(g(A([1.0, 1.0]), 1.0)).tolist() == [15.0, 40.0]


def test_a_body_may_not_write_or_look():
    out = A([0.0])

    def writes(k, c):
        out.assign(c)
        return c

    with pytest.raises(gla.TraceError, match="carry it"):
        gla.fori(0, 3, writes, A([1.0]))
    with pytest.raises(gla.TraceError):
        gla.fori(0, 3, lambda k, c: c * float(c[0]), A([1.0]))
    with pytest.raises(gla.TraceError, match=r"gla\.fori"):
        gla.fori(0, 3, lambda k, c: [c for _ in range(k)][0], A([1.0]))
    assert N(out).tolist() == [0.0]


def test_a_value_of_a_body_does_not_leave_it():
    kept = []
    gla.fori(0, 3, lambda k, c: (kept.append(c * 2), c + 1)[1], A([1.0]))
    with pytest.raises(gla.GlaError, match="test_control.py"):
        kept[0] + 1


def test_loops_nest():
    inner = lambda k, c: gla.fori(0, 3, lambda j, d: d + k, c)  # noqa: E731
    assert int(gla.fori(0, 4, inner, 0)) == 18
