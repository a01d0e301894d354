"""What a `run` block does: prints, outputs, loops driven from the host, asserts, interrupts. On the host device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gla.errors import CheckError, GlaError
from gla.lang.program import load
from gla.lang.session import Session


def lines(run: Any, program: str, **settings: Any) -> list[str]:
    return run(program, **settings)[1].lines


def test_print_shows_shortest_exact_numbers(run: Any) -> None:
    program = (
        'run { print "a", 1, 2.5, 0.1, 1e-7, 1e20, true, 2j, [1.0, 2.5], (1, 2)\n print "{3.14159:.2f} {7:04}", 1.0f32 / 3.0 }'
    )
    assert lines(run, program) == ["a 1 2.5 0.1 1e-07 1e+20 true 2j [1.  2.5] (1, 2)", "3.14 0007 0.33333334"]


def test_print_in_a_loop_fires_in_every_trip(run: Any) -> None:
    assert lines(run, 'run { var s = 0\n for k in 1..=3 { s += k\n print "{k} {s}" } }') == ["1 1", "2 3", "3 6"]


def test_a_branch_on_the_counter_fires_where_it_holds(run: Any) -> None:
    assert lines(run, 'run { var s = 0\n for k in 0..10 { s += k\n if k % 4 == 0 { print "{k} {s}" } } }') == [
        "0 0",
        "4 10",
        "8 36",
    ]


def test_a_branch_on_values_fires_where_it_holds(run: Any) -> None:
    assert lines(run, 'run { var s = 0\n for k in 0..10 { s += k\n if s > 30 { print "{k} {s}" } } }') == ["8 36", "9 45"]


def test_loops_with_effects_nest(run: Any) -> None:
    program = 'run { var s = 0\n for i in 0..2 { for j in 0..4 { s += 1\n output every 2: s to "o.npy" }\n print i, s } }'
    session, said = run(program)
    assert said.lines == ["0 4", "1 8"]
    assert session.outputs["o.npy"]["s"].tolist() == [2, 4, 6, 8]


def test_an_output_has_the_values_of_its_place_in_the_body(run: Any) -> None:
    session, _ = run('run { var x = 0\n for k in 0..4 { x += 1\n output every 2: x to "m.npz"\n x += 10 } }')
    assert session.outputs["m.npz"]["x"].tolist() == [12, 34]


def test_emits_and_outputs_out_of_step(run: Any) -> None:
    program = (
        'run { var x = 0.0\n let t = for k in 0..10 { x += 1.0\n emit x every 3\n output every 4: x to "x.npy" }\n print t }'
    )
    session, said = run(program)
    assert said.lines == ["[3. 6. 9.]"]
    assert session.outputs["x.npy"]["x"].tolist() == [4, 8]


def test_many_firings_keep_every_emit(run: Any) -> None:
    session, _ = run('run { let t = for k in 0..200 { emit k\n output every 1: k to "k.npy" }\n output: t to "t.npy" }')
    assert session.outputs["t.npy"]["t"].tolist() == list(range(200))
    assert session.outputs["k.npy"]["k"].tolist() == list(range(200))


def test_break_stops_effects_too(run: Any) -> None:
    program = "run { var x = 0\n for k in 0..20 { x += 1\n break if x == 3\n print k }\n print x }"
    assert lines(run, program) == ["0", "1", "3"]


def test_a_path_with_a_moving_hole_is_a_file_a_firing(run: Any) -> None:
    session, _ = run('run { for step in 1..=250 { output every 100: step to "s_{step:04}.npy" } }')
    assert sorted(session.outputs) == ["s_0100.npy", "s_0200.npy"]


def test_an_output_without_a_file_is_a_line_and_a_row_of_the_log(run: Any) -> None:
    session, said = run("run { var x = 0.0\n for k in 1..=4 { x += 0.5\n output every 2: x, k } }")
    assert said.lines == ["x=1.0  k=2", "x=2.0  k=4"]
    assert session.outputs["run_log.csv"]["k"].tolist() == [2, 4]


def test_records_change_by_field_and_are_written_by_field(run: Any) -> None:
    program = 'struct B { p: f64[2], m: f64 }\nrun { var b = B(p = ones(2), m = 1.0)\n for k in 0..3 { b.p[0] += 1.0\n b.m = b.m * 2.0 }\n output: b to "b.npz" }'
    session, _ = run(program)
    assert session.outputs["b.npz"]["b.p"].tolist() == [4, 1]
    assert session.outputs["b.npz"]["b.m"] == 8


def test_rotating_rows_equals_numpy(run: Any) -> None:
    session, _ = run(
        "size n = 4\nstate m = reshape(arange(16), (n, n))\nrun { for k in 0..100 { m = roll(m, 1, axis=0)\n m[n - 1, :] = arange(n) + k } }"
    )
    m = np.arange(16).reshape(4, 4)
    for k in range(100):
        m = np.roll(m, 1, axis=0)
        m[3, :] = np.arange(4) + k
    np.testing.assert_array_equal(session.states["m"], m)


def test_a_value_update_leaves_the_old_value(run: Any) -> None:
    program = "run { var a = zeros(4)\n let b = reshape(a, (2, 2))\n for k in 0..4 { a[k] = 1.0 }\n print sum(a), sum(b) }"
    assert lines(run, program) == ["4.0 0.0"]


def test_a_branch_at_the_top_is_looked_at(run: Any) -> None:
    program = 'param p = 2.0\nrun { if p > 1.0 { print "big" } else { print "small" } }'
    assert lines(run, program) == ["big"]
    assert lines(run, program, params={"p": 0.5}) == ["small"]


def test_the_first_failing_trip_is_told(run: Any) -> None:
    with pytest.raises(CheckError, match=r"x is -2.0 at 3 \(in trip 4\)") as caught:
        run('run { var x = 10.0\n for k in 0..10 { x -= 3.0\n assert x > 0.0, "x is {x} at {k}" } }')
    assert caught.value.code == "GLA0601"


def test_asserts_in_functions_and_inner_loops_reach_the_user(run: Any) -> None:
    program = 'fn f(x) { var y = x\n for j in 0..5 { y -= 1.0\n assert y > 0.0, "y is {y}" }\n y }\nparam p = 8.0\nrun { var x = p\n for k in 0..3 { x = f(x) } }'
    with pytest.raises(CheckError, match=r"y is 0.0 \(in trip 3\) \(in trip 2\)"):
        run(program)


def test_a_while_that_goes_on_says_so_with_its_operands(run: Any) -> None:
    with pytest.raises(CheckError, match=r"after max 3 trips: 12.5 > 1.0") as caught:
        run("param p = 100.0\nrun { var x = p\n while x > 1.0 max 3 { x = x / 2.0 } }")
    assert caught.value.code == "GLA0602"


def test_a_while_that_ends_after_exactly_max_trips_is_fine(run: Any) -> None:
    assert lines(run, "run { var x = 8.0\n while x > 1.0 max 3 { x = x / 2.0 }\n print x }") == ["1.0"]


def test_a_while_with_prints_is_walked(run: Any) -> None:
    assert lines(run, "run { var x = 8.0\n while x > 1.0 max 9 { x = x / 2.0\n print x } }") == ["4.0", "2.0", "1.0"]


def test_the_last_state_is_emitted_when_the_period_divides_the_trips(run: Any) -> None:
    assert lines(run, "run { let a = for k in 0..9 { emit k every 3 }\n print a }") == ["[2 5 8]"]


def test_nothing_is_computed_before_a_wrong_shape_is_told(run: Any) -> None:
    with pytest.raises(GlaError) as caught:
        run('run { print "first"\n print ones(3) + ones(4) }')
    assert caught.value.code == "GLA0301"


def test_sizes_take_any_spelling_of_a_whole_number(run: Any) -> None:
    for text in ("4096", "4_096", "4.096e3", 4096):
        assert lines(run, "size n = 1\nrun { print n }", sizes={"n": text}) == ["4096"]


@pytest.mark.parametrize("text", ["2.5", "nan", "-4", "abc", "9"])
def test_other_sizes_are_refused_with_the_range(run: Any, text: str) -> None:
    with pytest.raises(GlaError, match="2 to 8") as caught:
        run("size n = 4 in 2..8\nrun { print n }", sizes={"n": text})
    assert caught.value.code == "GLA0806"


def test_a_param_out_of_range_is_refused(run: Any) -> None:
    with pytest.raises(GlaError, match=r"0\.0 to 1\.0"):
        run("param dt = 0.1 in 0.0..1.0\nrun { print dt }", params={"dt": "2"})


def test_an_input_of_the_wrong_shape_names_both_sides(run: Any) -> None:
    with pytest.raises(GlaError) as caught:
        run("size n = 4\ninput x: f64[n] = ones(n)\nrun { print x }", inputs={"x": np.ones(5)})
    assert caught.value.code == "GLA0330"
    assert "f64[5], declared f64[n]: `n` is 4" in str(caught.value)


def test_indices_are_checked_when_asked_for(run: Any) -> None:
    program = "param i = 7\nrun { let x = arange(5.0)\n print x[i] }"
    assert lines(run, program) == ["4.0"]
    with pytest.raises(CheckError, match="whose extent is 5: 7 to 7"):
        run(program, check=frozenset({"bounds"}))


def test_nan_is_located_when_asked_for(run: Any) -> None:
    with pytest.raises(CheckError, match=r"`y` has a NaN \(in trip 4\)"):
        run(
            "param p = 1.0\nrun { var x = p\n for k in 0..9 { x -= 0.3\n let y = sqrt(x)\n x = x + 0.0 * y } }",
            check=frozenset({"nan"}),
        )


def test_a_state_goes_on_from_where_it_was(run: Any) -> None:
    program = "state u = zeros(3)\nrun { for k in 0..5 { u += 1.0 } }"
    session, _ = run(program)
    again, _ = run(program, states=session.states)
    assert again.states["u"].tolist() == [10, 10, 10]


class Stop:
    """A reporter that behaves as Ctrl-C after a hundred trips."""

    def progress(self, step: int, total: int, fields: Any) -> None:
        if step >= 100:
            raise KeyboardInterrupt

    def note(self, text: str) -> None:
        return

    print_line = wrote = note


def test_an_interrupted_run_writes_what_it_has(tmp_path: Path) -> None:
    program = load('state u = zeros(3)\nrun { for k in 1..=1000 { u += 1.0\n output every 50: u to "u.npy" } }', "p.gla")
    session = Session(program, device="host", reporter=Stop(), out=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        session.run()
    assert np.load(tmp_path / "u.npy")[:, 0].tolist() == [50, 100]
    assert session.states["u"].tolist() == [100, 100, 100]


def test_load_and_save_go_through_files(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6.0).reshape(2, 3))
    (tmp_path / "p.gla").write_text(
        'run { let a = load("a.npy")\n save 2.0 * a to "b.npy"\n output: sum(a) as total to "t.npz" }'
    )
    session = Session(load(tmp_path / "p.gla"), device="host", out=tmp_path)
    session.run()
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), 2 * np.arange(6.0).reshape(2, 3))
    assert np.load(tmp_path / "t.npz")["total"] == 15


def test_a_file_of_an_earlier_run_is_replaced_and_that_is_said(tmp_path: Path, lines_of: Any) -> None:
    for expected in ([], ["a.npy of an earlier run is replaced"]):
        said = lines_of()
        Session(load('run { output: 1.0 as a to "a.npy" }', "p.gla"), device="host", out=tmp_path, reporter=said).run()
        assert said.notes == expected


def test_imports_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "forces.gla").write_text("const g = 2.0\nfn half(x) = x / g\nfn accel(x: f64[n]) -> f64[n] = half(x)")
    (tmp_path / "main.gla").write_text(
        'import "./forces.gla" as fo\nfrom "./forces.gla" import accel as a\nfrom std.linalg import trace\n'
        'run { output: sum(a(ones(3))) as s, fo.half(3.0) as h, trace(eye(3)) as t to "o.npz" }'
    )
    session = Session(load(tmp_path / "main.gla"), device="host")
    session.run()
    assert {k: float(v) for k, v in session.outputs["o.npz"].items()} == {"s": 1.5, "h": 1.5, "t": 3.0}


def test_a_circle_of_imports_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "a.gla").write_text('from "./b.gla" import g\nfn f() = g()\nrun { print f() }')
    (tmp_path / "b.gla").write_text('from "./a.gla" import f\nfn g() = f()')
    found = load(tmp_path / "a.gla").diagnostics()
    assert "GLA0107" in [d.code for d in found]
    assert any("a.gla -> b.gla -> a.gla" in d.message for d in found)


def test_a_test_names_the_variant_that_fails() -> None:
    program = load('param one = 1\ntest "t" for m in [4, 16] { assert m * one < 10 }', "p.gla")
    with pytest.raises(CheckError, match=r"t \[m = 16\]"):
        Session(program, device="host").test("t")


def test_the_ir_of_a_run_needs_no_device() -> None:
    graphs = Session(load("state u = zeros(3)\nrun { for k in 0..5 { u += 1.0 } }", "p.gla"), device="none").graph()
    assert any(node.op == "loop" for graph in graphs for node in graph.nodes())


def test_a_loop_over_a_list_counts_its_trips(run: Any) -> None:
    session, _ = run('run { for m in [2, 3, 4, 5] { output every 2: m to "m.npy" } }')
    assert session.outputs["m.npy"]["m"].tolist() == [3, 5]


def test_a_stencil_reaches_into_the_functions_that_it_calls(run: Any) -> None:
    assert lines(run, "fn f(a) = a[1] - a[0]\nrun { let u = arange(4.0)\n print stencil(u: periodic) { f(u) } }") == [
        "[ 1.  1.  1. -3.]"
    ]


def test_loops_without_trips_and_without_rows(run: Any) -> None:
    assert lines(
        run, "run { let a = for k in 0..0 { emit k }\n let b = for k in 0..5 { emit k every 9 }\n print a.shape, b.shape }"
    ) == ["(0,) (0,)"]
