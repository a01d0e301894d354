# ruff: noqa: F821, PLW0108
"""Errors: both operands named, where they came from, tracebacks that end at the user's line."""

import subprocess
import sys
import traceback

import numpy as np
import pytest

import gla


def A(values, dtype=None):
    return gla.asarray(np.array(values), dtype)


def test_an_error_names_both_operands_and_where_they_came_from():
    a = A(np.zeros((2, 3))) * 2
    b = A(np.zeros(4)) + 1
    with pytest.raises(gla.ShapeError) as caught:
        a + b
    text = str(caught.value)
    assert all(
        s in text for s in ("f64[2, 3]", "f64[4]", "a + b", "a = A(np.zeros((2, 3))) * 2", "b = A(np.zeros(4)) + 1", "help")
    )


def _lines(error):
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + A([1.0, 2.0, 3.0]),
        lambda x: gla.sum(x, axis=7),
        lambda x: x.reshape(5),
        lambda x: x[9],
        lambda x: x.assign([1.0, 2.0, 3.0]),
        lambda x: gla.function(lambda y: y + np.zeros(3))(x),
        lambda x: gla.asarray("text"),
        lambda x: gla.fori(0, 2, lambda k, c: "text", x),
        lambda x: gla.capture(lambda: float(x[0])),
    ],
)
def test_tracebacks_end_at_the_users_line(call):
    with pytest.raises(gla.GlaError) as caught:
        call(A([1.0, 2.0]))
    inside = [name for name in _lines(caught.value) if "/gla/" in name]
    assert len(inside) <= 2, inside  # the line that raises, once a public function passed on the way


def test_the_line_of_the_body_stays_in_the_traceback():
    def body(x):
        return x + np.zeros(7)

    with pytest.raises(gla.ShapeError) as caught:
        gla.function(body)(A([1.0, 2.0]))
    assert "body" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


def test_full_tracebacks_on_demand():
    code = "import gla\ntry: gla.asarray([1.,2.]) + gla.asarray([1.,2.,3.])\nexcept gla.ShapeError as e:\n import traceback; print(len(traceback.extract_tb(e.__traceback__)))"
    counts = []
    for full in ("", "1"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={"GLA_FULL_TRACEBACK": full, "PATH": ""},
            check=True,
        )
        counts.append(int(done.stdout))
    assert counts[0] == 2 < counts[1]


@pytest.mark.parametrize(
    "bad",
    [lambda x: x + "a", lambda x: x + None, lambda x: gla.sin("a"), lambda x: gla.sin(None), lambda x: x.assign(object())],
)
def test_foreign_operands_are_type_errors(bad):
    with pytest.raises(TypeError):
        bad(A([1.0]))


def test_annotations_are_checked_at_the_call():
    @gla.function
    def f(u: gla.f32["n, 3"], v: gla.f32["n"], dt: gla.scalar = 1.0):
        return u * v[:, None] * dt

    u, v = A(np.ones((2, 3)), "float32"), A(np.ones(2), "float32")
    assert f(u, v).shape == (2, 3)
    with pytest.raises(gla.DtypeError, match="astype"):
        f(A(np.ones((2, 3))), v)
    with pytest.raises(gla.ShapeError, match="n = 4, but n = 2"):
        f(u, A(np.ones(4), "float32"))
    with pytest.raises(gla.ShapeError, match="4, not 3"):
        f(A(np.ones((2, 4)), "float32"), v)
    with pytest.raises(gla.ShapeError, match="dt"):
        f(u, v, u)


# --- where operands came from
def places(call):
    """(line within the test, text) of each label but the first, which is the operation's own."""
    first = sys._getframe(1).f_code.co_firstlineno
    with pytest.raises(gla.GlaError) as caught:
        call()
    marks = caught.value.diagnostic.labels
    assert all(mark.span.file == __file__ for mark in marks)
    return [(mark.span.line - first, mark.text) for mark in marks[1:]]


def test_operands_are_named_with_the_lines_that_made_them():
    a = gla.asarray(np.ones((3, 4)))
    b = gla.zeros((5,))
    c = gla.eval(gla.ones((2, 4)) * 2)
    assert places(lambda: a + b) == [(1, "f64[3, 4]"), (2, "f64[5]")]
    assert places(lambda: c - a) == [(3, "f64[2, 4]"), (1, "f64[3, 4]")]
    assert places(lambda: a @ c) == [(1, "f64[3, 4]"), (3, "f64[2, 4]")]
    assert places(lambda: gla.concat([a, b])) == [(1, "f64[3, 4]"), (2, "f64[5]")]


def test_results_of_functions_name_the_line_that_computed_them():
    f = gla.function(
        lambda x: x[:2] * 2  # line 2
    )  # fmt: skip
    a = gla.asarray(np.ones((3, 4)))
    for _ in range(4):  # traced, found, recognised
        c = f(a)
        assert places(lambda c=c: a + c) == [(4, "f64[3, 4]"), (2, "f64[2, 4]")]


def test_arguments_are_named_with_the_parameter_and_the_call():
    @gla.function
    def f(u, pair):
        w = u * 2
        return w + pair[1]

    a, b = gla.asarray(np.ones((3, 4))), gla.zeros((5,))
    assert places(lambda: f(a, [a, b])) == [(3, "f64[3, 4]"), (7, "pair[1]: f64[5]")]
