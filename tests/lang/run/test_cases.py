"""Cases of the array language, by id, on the host device: what each program gives, or how it is refused."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from gla.errors import GlaError


def lines(run: Any, program: str) -> list[str]:
    return run(program)[1].lines


def refused(check: Any, program: str) -> tuple[str, str]:
    """The code and the message of the first finding of `gla check`."""
    first = check(program)[0]
    return first.code, first.message


def test_a80_a_reshaped_alias_keeps_the_old_values(run: Any) -> None:
    program = "run { var a = arange(6.0)\n let b = reshape(a, (2, 3))\n for i in 0..6 { a[i] = 9.0 }\n print b, a }"
    assert lines(run, program) == ["[[0. 1. 2.]\n [3. 4. 5.]] [9. 9. 9. 9. 9. 9.]"]


def test_a80_rows_rotated_a_thousand_times(run: Any) -> None:
    program = (
        "size n = 3\nsize k = 4\nstate m = zeros((n, k))\n"
        "run { for t in 0..1000 { m = roll(m, 1, axis=0)\n m[n - 1, :] = arange(k) + t } }"
    )
    m = np.zeros((3, 4))
    for t in range(1000):
        m = np.roll(m, 1, axis=0)
        m[2] = np.arange(4) + t
    np.testing.assert_array_equal(np.asarray(run(program)[0].states["m"]), m)


def test_a86_one_key_in_two_draws(codes: Any) -> None:
    draws = "run {{ let k = random.key(1)\n print sum(random.normal({}, (3,)) + random.normal({}, (3,))) }}"
    assert codes(draws.format("k", "k")) == ["GLA0250"]
    assert codes(draws.format("random.fold(k, 1)", "random.fold(k, 2)")) == []


def test_a86_equal_arguments_draw_equal_values(evaluate: Any) -> None:
    first, second = (evaluate("random.normal(random.key(5), (1000,))") for _ in range(2))
    assert first.tobytes() == second.tobytes()


def test_a88_an_assert_that_is_false_fails_the_check(check: Any) -> None:
    assert refused(check, "run { assert 1 > 2 }") == ("GLA0601", "assert failed: 1 > 2")
    assert check("run { assert 2 > 1 }") == []


def test_a88_an_assert_on_sizes_fails_before_anything_is_allocated(run: Any) -> None:
    program = "size n = 4\nrun { let x = cumsum(ones((n, 1_000_000_000_000)))\n assert n > 5\n print n, sum(x) }"
    with pytest.raises(GlaError, match="assert failed: 4 > 5") as caught:
        run(program)
    assert caught.value.code == "GLA0601"
    assert lines(run, "size n = 4\nrun { assert n > 3\n print n }") == ["4"]


def test_a90_periodic_corners(run: Any) -> None:
    program = (
        "run { let u = reshape(arange(16), (4, 4))\n"
        " let r = stencil(u: periodic) { u[-1,-1] + u[1,1] + u[1,-1] + u[-1,1] }\n print r[0,0], r[3,3], r[1,2] }"
    )
    assert lines(run, program) == ["40 20 24"]


@pytest.mark.parametrize("n, expected", [(1, [0.0]), (2, [2.0, -2.0])])
def test_a92_very_narrow_axes(evaluate: Any, n: int, expected: list[float]) -> None:
    text = f"{{ let u = arange({n}.0) + 5.0; stencil(u: periodic) {{ -2.0*u[0] + u[-1] + u[1] }} }}"
    assert evaluate(text).tolist() == expected


def test_a92_narrower_than_the_halo(check: Any) -> None:
    code, message = refused(check, "run { let u = ones((1,))\n print stencil(u: periodic) { u[-2] + u[2] } }")
    assert code == "GLA0320" and all(word in message for word in ("`u`", "axis 0", "1 cells", "halo of 2"))


def test_a94_neighbours_are_read_before_they_are_written(run: Any) -> None:
    body = "u = stencil(u: edge) { u[-1] + u[1] - 2.0*u[0] }"
    start = "[1.0, 2.0, 3.0, 4.0, 5.0]"
    assert lines(run, f"run {{ var u = {start}\n {body}\n print u }}") == ["[ 1.  0.  0.  0. -1.]"]
    assert run(f"state u = {start}\nrun {{ {body} }}")[0].states["u"].tolist() == [1, 0, 0, 0, -1]


def test_a94_two_names_for_one_state(run: Any) -> None:
    session, said = run(
        "state u = [1.0, 2.0, 3.0, 4.0, 5.0]\n"
        "run { let v = u\n u = stencil(u: edge, v: edge) { u[-1] + v[1] - 2.0*v[0] }\n print v }"
    )
    assert session.states["u"].tolist() == [1, 0, 0, 0, -1]
    assert said.lines == ["[1. 2. 3. 4. 5.]"]


def test_a96_interior_changes_no_edge(evaluate: Any) -> None:
    text = "{ let u = arange(1.0, 7.0); stencil(u: interior) { u[-1] + u[1] - 2.0*u[0] } }"
    assert evaluate(text).tolist() == [1, 0, 0, 0, 0, 6]


@pytest.mark.parametrize("halo", [1, 2])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a96_interior_changes_no_outer_ring(run: Any, rank: int, halo: int) -> None:
    shape = (6,) * rank
    offsets = [tuple(sign * halo if axis == at else 0 for axis in range(rank)) for at in range(rank) for sign in (1, -1)]
    body = " + ".join(f"u[{', '.join(map(str, offset))}]" for offset in offsets)
    dims = ", ".join(map(str, shape)) + ("," if rank == 1 else "")
    made = f"state u = reshape(arange({6**rank}) ** 2, ({dims}))\nrun {{ u = stencil(u: interior) {{ {body} }} }}"
    u = np.arange(6**rank).reshape(shape) ** 2
    expected = u.copy()
    inner = (slice(halo, -halo),) * rank
    expected[inner] = sum(np.roll(u, offset, tuple(range(rank))) for offset in offsets)[inner]
    np.testing.assert_array_equal(np.asarray(run(made)[0].states["u"]), expected)


def test_a97_reads_outside_name_field_offset_axis_size_and_mode(check: Any) -> None:
    code, message = refused(check, "run { let flow = ones((2, 3))\n print stencil(flow: edge) { flow[-3,0] + flow[2,0] } }")
    assert code == "GLA0320"
    assert all(word in message for word in ("`flow`", "offset -3", "axis 0", "2 cells", "(edge)"))


def test_a97_temporaries_of_a_called_function_have_the_halo_of_their_use(check: Any, evaluate: Any) -> None:
    program = "fn rise(a) = { let d = a[1] - a[-1]; d * 0.5 }"
    text = "{ let u = arange(5.0) ** 2.0; stencil(u: interior) { rise(u) } }"
    assert evaluate(text, program).tolist() == [0, 2, 4, 6, 16]
    code, message = refused(check, "fn far(a) = a[-3]\nrun { let u = ones((2,))\n print stencil(u: edge) { far(u) } }")
    assert code == "GLA0320" and "halo of 3" in message


def test_a98_indices_from_the_end(run: Any) -> None:
    assert lines(run, "run { print arange(-5, 5)[[-1, -10, 3]] }") == ["[ 4 -5 -2]"]


@pytest.mark.parametrize("index", ["10", "-11", "[1, 10]"])
def test_a98_a_constant_index_out_of_range(check: Any, index: str) -> None:
    code, message = refused(check, f"run {{ print arange(-5, 5)[{index}] }}")
    assert code == "GLA0324" and "out of range" in message


def test_a99_two_shapes_in_one_stencil(check: Any) -> None:
    (finding,) = check("run { let u = ones((4,))\n let k = ones((5,))\n print stencil(u: edge, k: edge) { u[-1] + k[0] } }")
    assert finding.code == "GLA0332" and "f64[4] and f64[5]" in finding.message


@pytest.mark.parametrize(
    "program, chain",
    [
        ("fn f(n) = if n < 1 { 1 } else { n * f(n - 1) }\nrun { print f(3) }", "f -> f"),
        ("fn f(n) = g(n)\nfn g(n) = f(n - 1)\nrun { print f(3) }", "f -> g -> f"),
    ],
)
def test_a118_recursion_is_refused_with_its_chain(check: Any, program: str, chain: str) -> None:
    start = time.monotonic()
    code, message = refused(check, program)
    assert code == "GLA0404" and message.endswith(f": {chain}")
    assert time.monotonic() - start < 5.0


def test_a119_a_name_that_was_taken_is_named_with_its_line(run: Any) -> None:
    with pytest.raises(GlaError, match="the name was taken here, at line 2") as caught:
        run("run { let a = [1.0, 2.0]\n let max = 2\n print max(a) }")
    assert "rename the one of line 2" in str(caught.value)


def test_a119_a_parameter_that_hides_a_size_is_pointed_out(codes: Any, run: Any) -> None:
    program = "size n = 3\nfn f(n: f64) = n + 1.0\nrun { print f(2.0), n }"
    assert codes(program) == ["GLA0104"]
    assert lines(run, program) == ["3.0 3"]
