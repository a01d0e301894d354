"""Programs that `gla check` finds something wrong with: the code, and the words that matter."""

from __future__ import annotations

from typing import Any

import pytest

from gla.errors import render_text

CASES = [
    ("two shapes", "size n = 5\ninput a: f64[n, 3] = ones((n, 3))\ninput b: f64[n] = ones(n)\nrun { print a + b }", "GLA0301", "f64[n, 3] and f64[n]"),
    ("where a dim came from", "size n = 5\ninput a: f64[n, 3] = ones((n, 3))\ninput b: f64[n] = ones(n)\nrun { print a + b }", "GLA0301", "n = 5, declared at line 2"),
    ("what to write", "size n = 5\ninput a: f64[n, 3] = ones((n, 3))\ninput b: f64[n] = ones(n)\nrun { print a + b }", "GLA0301", "x[:, new]"),
    ("recursion", "fn f(n) = if n < 1 { 1 } else { n * f(n - 1) }", "GLA0404", "f -> f"),
    ("mutual recursion", "fn f(n) = g(n)\nfn g(n) = f(n)", "GLA0404", "f -> g -> f"),
    ("assert on numbers", "run { assert 1 > 2 }", "GLA0601", "1 > 2"),
    ("assert on a size", 'size n = 4\nrun { assert n > 10, "n is {n}" }', "GLA0601", "n is 4"),
    ("assert in a function", 'fn f(x) { assert x > 10, "x is {x}"\n x }\nrun { print f(3) }', "GLA0601", "x is 3"),
    ("a name that is taken", "run { let max = 2\n print max(3, 4) }", "GLA0103", "taken here, at line 1"),
    ("a name that looks alike", "run { let µ = 1\n print μ }", "GLA0102", "U+03BC"),
    ("an unknown name", "run { print sine(2.0) }", "GLA0101", "did you mean `sin`?"),
    ("an unknown name in a hole", 'run { let a = 1\n print "{b}" }', "GLA0101", "`b` is not known"),
    ("an assignment declares nothing", "run { x = 3 }", "GLA0101", "var x"),
    ("let never changes", "run { let x = 3\n x = 4 }", "GLA0106", "declare it with `var x`"),
    ("a value not used", "run {\n let a = 1.0\n   - 2.0\n}", "GLA0210", "did the line above end too early?"),
    ("a last value not used", "run { let v = ones(3)\n v[0] }", "GLA0210", "never used"),
    ("while without max", "run { while 1 > 2 { } }", "GLA0211", "max 10_000"),
    ("about equal without tolerance", "run { assert 1.0 ~= 2.0 }", "GLA0240", "within"),
    ("within without about equal", "run { assert 1.0 == 2.0 within 1e-3 }", "GLA0240", "~="),
    ("print in a function", "fn f(x) { print x\n x }\nrun { print f(1) }", "GLA0411", "`f`"),
    ("every time", 'run { output every 1.0 time: 1 to "a.npy" }', "GLA0416", "every 100 steps"),
    ("a size that is not met", "size n = 4\nfn f(x: f64[n]) = x\nrun { print f(ones(5)) }", "GLA0330", "`n` is 4, here 5"),
    ("a dim that is not met", "fn f(x: f64[m], y: f64[m]) = x + y\nrun { print f(ones(5), ones(4)) }", "GLA0330", "`m` = 5, bound here"),
    ("consts in a circle", "const a = b\nconst b = a", "GLA0110", "`a`"),
    ("a const that moves", "param p = 1.0\nconst c = p * 2", "GLA0242", "`p`"),
    ("a default out of range", "size n = 10 in 2..5", "GLA0203", "2 to 5"),
    ("no module", "import std.rando", "GLA0108", "std.random"),
    ("no such name in a module", "from std.random import norml\nrun { print norml }", "GLA0109", "normal"),
    ("index out of range", "run { var x = zeros(3)\n x[5] = 1.0 }", "GLA0324", "index 5"),
    ("a carry that grows", "run { var x = zeros(3)\n for k in 0..3 { x = zeros(4) } }", "GLA0326", "`x` starts as"),
    ("emit without a loop", "run { emit 3 }", "GLA0413", "loop"),
    ("emit in a branch", "param p = 1.0\nrun { let a = for k in 0..3 { if p > k { emit k } }\n print a }", "GLA0413", "branch"),
    ("a shape that moves", "param q = 3\nrun { print zeros(q) }", "GLA0410", "planned"),
    ("a condition per element", "run { if ones(3) > 0.0 { print 1 } }", "GLA0215", "any(c)"),
    ("no such field", "struct B { pos: f64[3] }\nrun { let b = B(pos = ones(3))\n print b.po }", "GLA0111", "`pos`"),
    ("a field is missing", "struct B { pos: f64[3], m: f64 }\nrun { print B(pos = ones(3)).m }", "GLA0243", "`m`"),
    ("two shapes in a stencil", "run { let u = ones((4, 4))\n let k = ones(3)\n print stencil(u: edge, k: edge) { u[1, 0] } }", "GLA0332", "f64[4, 4]"),
    ("thinner than the halo", "run { let u = ones(2)\n print stencil(u: periodic) { u[-3] } }", "GLA0320", "axis 0 has 2 cells"),
    ("an unknown mode", "run { let u = ones(2)\n print stencil(u: periodc) { u[-1] } }", "GLA0101", "periodic"),
    ("narrowing a state", "state u = ones(3, f32)\nrun { u = ones(3) * 2.0 }", "GLA0209", "narrowed"),
    ("narrowing an argument", "fn f(x: f32[3]) = x\nrun { print f(ones(3)) }", "GLA0241", "cast(x, f32)"),
    ("a format that is none", 'run { output: ones(3) to "a.h5" }', "GLA0803", "HDF5"),
    ("declared twice", "const a = 1\nfn a() = 2", "GLA0105", "`a` is declared twice"),
    ("an uncalled function", "fn f(x: f64[3], y: f64[4]) = x + y", "GLA0301", "f64[3] and f64[4]"),
    ("a generator for an array", "fn f(x) = x\nrun { print f(i for i in 0..3) }", "GLA0244", "[x for ..]"),
    ("complex bounds", "param z: f64 = 1.0 in 0.0j..2.0", "GLA0208", "not 0j"),
    ("bounds of a complex param", "param z: c128 = 1.0 in 0.0..2.0", "GLA0208", "no order"),
    ("wrong number of arguments", "fn f(a, b) = a\nrun { print f(1) }", "GLA0243", "needs `b`"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "code", "words"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_refused(check: Any, program: str, code: str, words: str) -> None:
    try:
        found = check(program)
    except Exception as error:
        found = [error.diagnostic]  # type: ignore[attr-defined]
    errors = [d for d in found if d.severity == "error"]
    assert code in [d.code for d in errors]
    text = next(render_text(d) for d in errors if d.code == code)
    assert words in text
    assert "help" in text or code == "GLA0601"


WARNINGS = [
    ("a key for two draws", "run { let k = random.key(0)\n print random.normal(k, (2,)) + random.normal(k, (2,)) }", "GLA0250"),
    ("a key for every trip", "run { let k = random.key(0)\n for i in 0..3 { print random.uniform(k, (2,)) } }", "GLA0250"),
    ("a file that every trip overwrites", 'run { for i in 0..3 { output: i to "i.npy" } }', "GLA0257"),
    ("a dim used once", "fn f(x: f64[nn]) = x", "GLA0305"),
    ("a parameter that hides a size", "size n = 3\nfn f(n: f64) = n", "GLA0104"),
    ("a variable that hides a param", "param p = 3.0\nrun { let p = 1\n print p }", "GLA0104"),
    ("bounds the wrong way round", "run { print clip(arange(10), 9, 5) }", "GLA0252"),
    ("a divisor of 0", "run { print 5 // 0 }", "GLA0246"),
]


@pytest.mark.parametrize(("program", "code"), [c[1:] for c in WARNINGS], ids=[c[0] for c in WARNINGS])
def test_warned(check: Any, program: str, code: str) -> None:
    assert [(d.code, d.severity) for d in check(program)] == [(code, "warning")]


@pytest.mark.parametrize(
    "program",
    [
        "", "\n", "# c", "size n = 4",
        "run { let k = random.key(0)\n print random.normal(random.fold(k, 1), (2,)) + random.normal(random.fold(k, 2), (2,)) }",
        "fn f(x: f64[m]) -> f64[m] = x", "fn f(x: f64[_]) = x", "run { let size = 2\n let max = 3\n print size + max }",
        "fn f(g: fn(f64) -> f64, x: f64) = g(x)\nrun { print f(|v| v * 2.0, 1.0) }",
    ],
)  # fmt: skip
def test_nothing_to_say(check: Any, program: str) -> None:
    assert check(program) == []


def test_an_error_in_one_item_does_not_hide_another(codes: Any) -> None:
    assert codes("const a = zeros(2.5)\nrun { print ones(3)[7] }") == ["GLA0245", "GLA0324"]


def test_carets_lie_under_both_operands(check: Any) -> None:
    (found,) = check("run {\n    print ones(3) + ones(4)\n}")
    assert [label.span.column for label in found.labels] == [19, 11, 21]


def test_declarations_are_listed(unit: Any) -> None:
    program = unit(
        '## Doc\n\nsize n = 2 * 4 in 1..9 "cells"\nparam dt = 0.5 in 0.0..1.0\ninput x: f64[n] = ones(n)\ntest "t" { }\nrun go { }'
    )
    (size,), (param,), (x,) = program.sizes, program.params, program.inputs
    assert (size.name, size.default, size.bounds, size.doc) == ("n", 8, (1, 9), "cells")
    assert (param.name, param.dtype, param.default, param.bounds) == ("dt", "f64", "0.5", (0.0, 1.0))
    assert (x.name, x.type, x.default) == ("x", "f64[n]", "ones(n)")
    assert (program.tests, program.runs, program.doc) == (("t",), ("go",), "Doc")
