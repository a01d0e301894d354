"""Expressions, evaluated by the NumPy reference over the lowered IR. Expected values are exact or NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gla.errors import GlaError

NAN = float("nan")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-2 ** 2", -4), ("2 ** 3 ** 2", 512), ("(-2) ** 2", 4), ("2.0 ** -1", 0.5), ("-2.0 ** -2.0", -0.25), ("7 - 2 - 1", 4),
        ("0 < 1 < 3 == 3", True), ("-7 // 2", -4), ("-7 % 2", 1), ("5 // 0", 0), ("7 / 2", 3.5), ("1 << 3", 8), ("5 & 3", 1), ("~5", -6),
        ("xor(5, 3)", 6), ("xor(true, false)", True), ("not (1 > 2)", True), ("1 + true", 2), ("1 > 2 or 3 > 2", True),
        ("2j * conj(1.0 + 2j)", 4 + 2j), ("abs(3.0 + 4j)", 5.0), ("re(2.0 + 3j)", 2.0), ("im(2.0 + 3j)", 3.0),
        ("0xff", 255), ("1_000", 1000),
    ],
)  # fmt: skip
def test_numbers(evaluate: Any, text: str, value: Any) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, 2, 3] ** -2.0", [1, 0.25, 1 / 9]),
        ("arange(-5, 5)[[-1, -10, 3]]", [4, -5, -2]),
        ("[i * 10 + j for i in 0..4 for j in 0..3]", np.arange(4)[:, None] * 10 + np.arange(3)),
        ("[i * j for i in [1, 2] for j in 0..3]", [[0, 1, 2], [0, 2, 4]]),
        ("[sum(arange(6)[i:i + 2]) for i in 0..4]", [1, 3, 5, 7]),
        ("[2 * x for x in arange(3.0)]", [0, 2, 4]),
        ("[sum(i * j for i in 0..4) for j in 0..3]", [0, 6, 12]),
        ("sum(i ** 2 for i in 0..=3)", 14),
        ("max(i for i in 0..5 if i % 2 == 0)", 4),
        ("sum([1.0, 2.0] for i in 0..3)", [3, 6]),
        ("scan(|a, b| a + b, 1.0, arange(4.0))", [1, 2, 4, 7]),
        ("linspace(0.0, 1.0, 5)", [0, 0.25, 0.5, 0.75, 1]),
        ("max([1.0, nan], [3.0, 0.0])", [3, NAN]), ("max(3, 4, 2)", 4), ("max([1.0, 5.0], axis=0)", 5), ("min([4, 2], axis=0)", 2),
        ("argmax([3.0, nan, 1.0])", 1), ("std([1.0, 2.0, 4.0])", np.std([1, 2, 4])), ("norm([3.0, 4.0])", 5), ("cumsum(flip(arange(5.0)))", [4, 7, 9, 10, 10]),
        ("stack([arange(3), arange(3)], axis=1)", np.stack([np.arange(3)] * 2, 1)), ("concat([arange(3), arange(2)])", [0, 1, 2, 0, 1]),
        ("concat((ones(1), zeros(2)))", [1, 0, 0]), ("cast([1.5, -2.5], i32)", [1, -2]), ("round([0.5, 1.5, 2.5, -0.5])", [0, 2, 2, 0]),
        ("[[1, 2], [3, 4]] @ [1, 1]", [3, 7]), ("eye(2)", np.eye(2)), ("where(arange(3) > 1, 1.0, 0.0)", [0, 0, 1]),
        ("arange(3) |> |v| v * 2", [0, 2, 4]), ("arange(4)[::-1]", [3, 2, 1, 0]), ("arange(4)[..., new]", [[0], [1], [2], [3]]),
        ("clip(arange(10), 9, 5)", [5] * 10), ("len(arange(0, 1, 0.1))", 10), ("roll(arange(4), 1)", [3, 0, 1, 2]),
    ],
)  # fmt: skip
def test_arrays(evaluate: Any, text: str, value: Any) -> None:
    np.testing.assert_allclose(evaluate(text), value, rtol=1e-15)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{ var x = zeros(5); x[1:3] = 2.0; x[-1] += 5.0; x }", [0, 2, 2, 0, 5]),
        ("{ let [a, b] = [1.0, 2.0]; let (c, d) = (3, 4); a + b + c + d }", 10),
        ("{ var x = 1; var y = 2; (x, y) = (y, x); x * 10 + y }", 21),
        ("if 1 > 2 { 1 } else { 5 }", 5),
        ("for k in 0..5 { emit k * k }", [0, 1, 4, 9, 16]),
        ("for k in 0..10 { emit k every 3 }", [2, 5, 8]),
        ("for k in [2, 3] { emit sum(ones(k)) }", [2, 3]),
        ("{ var s = 0; for k in 0..10 { s += k; break if s > 10 }; s }", 15),
        ("{ var s = 0; for k in 0..10 { break if k == 3; s += 1 }; s }", 3),
        ("{ var s = 0; for k in 0..=10 by 2 { s += k }; s }", 30),
        ("{ var s = 0; for k in 3..0 by -1 { s = s * 10 + k }; s }", 321),
        ("{ var x = 100.0; while x > 1.0 max 100 { x = x / 2.0 }; x }", 0.78125),
        ("{ var x = 0; for k in 0..6 { if k % 2 == 0 { x += k } else { x -= 1 } }; x }", 3),
        ("{ var s = 0; for i in 0..3 { for j in 0..2 { s += i * j } }; s }", 3),
    ],
)  # fmt: skip
def test_blocks_and_loops(evaluate: Any, text: str, value: Any) -> None:
    np.testing.assert_allclose(evaluate(text), value)


@pytest.mark.parametrize(
    ("mode", "value"),
    [
        ("periodic", [5, 1, 2, 3, 4]), ("edge", [1, 1, 2, 3, 4]), ("reflect", [2, 1, 2, 3, 4]), ("symmetric", [1, 1, 2, 3, 4]),
        ("zero", [0, 1, 2, 3, 4]), ("constant(9.0)", [9, 1, 2, 3, 4]), ("interior", [1, 1, 2, 3, 5]),
    ],
)  # fmt: skip
def test_stencil_modes(evaluate: Any, mode: str, value: list[float]) -> None:
    assert evaluate(f"{{ let u = arange(1.0, 6.0); stencil(u: {mode}) {{ u[-1] }} }}").tolist() == value


def test_a_periodic_stencil_takes_corners_from_the_other_side(evaluate: Any) -> None:
    u = np.arange(16).reshape(4, 4)
    found = evaluate("{ let u = reshape(arange(16), (4, 4)); stencil(u: periodic) { u[-1,-1] + u[1,1] + u[1,-1] + u[-1,1] } }")
    np.testing.assert_array_equal(found, sum(np.roll(u, (i, j), (0, 1)) for i in (1, -1) for j in (1, -1)))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_interior_keeps_two_rings_under_a_halo_of_two(evaluate: Any, rank: int) -> None:
    shape = (6,) * rank
    offsets = [tuple(2 * s if k == axis else 0 for k in range(rank)) for axis in range(rank) for s in (1, -1)]
    body = " + ".join(f"u[{', '.join(map(str, o))}]" for o in offsets)
    dims = ", ".join(map(str, shape)) + ("," if rank == 1 else "")
    found = evaluate(f"{{ let u = reshape(arange({6**rank}), ({dims})); stencil(u: interior) {{ {body} }} }}")
    u = np.arange(6**rank).reshape(shape)
    expected = u.copy()
    inner = (slice(2, -2),) * rank
    expected[inner] = sum(np.roll(u, o, tuple(range(rank))) for o in offsets)[inner]
    np.testing.assert_array_equal(found, expected)


def test_a_width_of_one_is_its_own_neighbour(evaluate: Any) -> None:
    assert evaluate("{ let u = ones((1,)); stencil(u: periodic) { u[-1] + u[1] - 2.0 * u[0] } }").tolist() == [0.0]


def test_a_function_of_declared_rank_maps_over_leading_axes(evaluate: Any) -> None:
    x = np.arange(30.0).reshape(2, 5, 3)
    found = evaluate(
        "f(reshape(arange(30.0), (2, 5, 3)), [10.0, 20.0])", "fn f(s: f64[n, 3], a: f64) -> f64[n] = a * sum(s, axis=1)"
    )
    np.testing.assert_allclose(found, x.sum(axis=2) * np.array([10.0, 20.0])[:, None])


def test_a_mapped_while_stops_in_each_lane_by_itself(evaluate: Any) -> None:
    program = "fn f(a: f64) { var x = a\n while x > 1.0 max 100 { x = x / 2.0 }\n x }"
    np.testing.assert_array_equal(evaluate("f([1.0, 20.0, 3.0])", program), [1.0, 0.625, 0.75])


def test_a_mapped_loop_emits_per_lane(evaluate: Any) -> None:
    program = "fn f(a: f64) { var x = a\n for k in 0..3 { x = x * 2.0\n emit x } }"
    np.testing.assert_array_equal(evaluate("f([1.0, 10.0])", program), [[2, 4, 8], [20, 40, 80]])


def test_records(evaluate: Any) -> None:
    program = "struct B { p: f64[2], m: f64 }\nfn f() { var b = B(p = ones(2), m = 1.0)\n b.p[0] += 1.0\n (b with (m = 5.0)).m + b.p }"
    np.testing.assert_array_equal(evaluate("f()", program), [7.0, 6.0])


def test_option_float_is_the_dtype_of_creators_and_literals(evaluate: Any) -> None:
    program = "option float = f32"
    assert evaluate("zeros(2)", program).dtype == np.float32
    assert evaluate("[0.1, 0.2]", program).dtype == np.float32
    assert evaluate("[0.1 * i for i in 0..3]", program).dtype == np.float32


def test_draws_of_one_key_are_equal_and_of_folds_are_not(evaluate: Any) -> None:
    a, b, c = (
        evaluate(f"random.uniform({key}, (4,))") for key in ("random.key(1)", "random.key(1)", "random.fold(random.key(1), 2)")
    )
    assert (a == b).all()
    assert not (a == c).any()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("true + true", "GLA0207"), ("-true", "GLA0207"), ("arange(-5, 5)[10]", "GLA0324"), ("arange(-5, 5)[-11]", "GLA0324"), ("zeros(2.5)", "GLA0245"),
        ("max(zeros((0, 3)), axis=0)", "GLA0315"), ("1.0 ~= 2.0", "GLA0240"), ("sum(ones(3), axs=0)", "GLA0243"), ("3(4)", "GLA0103"),
        ("[x for x in 0..3 if x > 1]", "GLA0402"), ("ones(3)[ones(3) > 0.0]", "GLA0402"), ("random.normal(3, (2,))", "GLA0216"),
    ],
)  # fmt: skip
def test_refused(evaluate: Any, text: str, code: str) -> None:
    with pytest.raises(GlaError) as caught:
        evaluate(text)
    assert caught.value.code == code
