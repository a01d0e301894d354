"""What the parser makes of right programs: shape of the tree, values, spans, docs, line ends."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gla.lang import syntax as s
from gla.lang import table
from gla.lang.dump import children, dump
from gla.lang.parser import parse, parse_expression

PROGRAMS = Path(__file__).parent / "programs"
OPERATIONS: dict[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: a**b,
    "<<": lambda a, b: a << b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
}


def value(expression: s.Expr) -> Any:
    """The value of an expression of numbers."""
    if isinstance(expression, s.Number):
        return expression.value
    if isinstance(expression, s.Unary):
        return -value(expression.operand) if expression.op == "-" else value(expression.operand)
    assert isinstance(expression, s.Binary)
    return OPERATIONS[expression.op](value(expression.left), value(expression.right))


def walk(root: s.Node) -> Iterator[s.Node]:
    yield root
    for child in children(root):
        yield from walk(child)


def body(text: str) -> s.Block:
    """The block of a `run` that holds the text."""
    item = parse(f"run {{\n{text}\n}}").items[0]
    assert isinstance(item, s.Run)
    return item.body


def statement(text: str) -> s.Stmt:
    return body(text).statements[0]


def same(left: str, right: str) -> bool:
    return dump(parse_expression(left)) == dump(parse_expression(right))


@pytest.mark.parametrize("program", sorted(PROGRAMS.glob("*.gla")), ids=lambda path: path.stem)
def test_the_nine_programs_parse_with_spans_inside_the_file(program: Path) -> None:
    text = program.read_text(encoding="utf-8")
    tree = parse(text, str(program))
    lines = text.split("\n")
    for node in walk(tree):
        assert node.span.file == str(program)
        assert 1 <= node.span.line <= node.span.end_line <= len(lines)
        assert 1 <= node.span.column <= len(lines[node.span.line - 1]) + 1
        assert (node.span.line, node.span.column) < (node.span.end_line, node.span.end_column)


@pytest.mark.parametrize("program", sorted(PROGRAMS.glob("*.gla")), ids=lambda path: path.stem)
def test_a_name_lies_where_its_span_says(program: Path) -> None:
    text = program.read_text(encoding="utf-8")
    lines = text.split("\n")
    names = [node for node in walk(parse(text)) if isinstance(node, s.Name)]
    assert names
    for name in names:
        assert lines[name.span.line - 1][name.span.column - 1 : name.span.end_column - 1] == name.id


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-2 ** 2", -4),
        ("2 ** 3 ** 2", 512),
        ("(-2) ** 2", 4),
        ("2.0 ** -1", 0.5),
        ("-2.0 ** -2.0", -0.25),
        ("7 - 2 - 1", 4),
        ("2 + 3 * 4", 14),
        ("1 << 2 + 1", 8),
        ("1 | 2 & 6 << 1", 1),
        ("8 / 4 / 2", 1.0),
    ],
)
def test_a110_operators_bind_as_specified(text: str, expected: float) -> None:
    assert value(parse_expression(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1_000", (1000, None)),
        ("0xff", (255, None)),
        ("0xffu8", (255, "u8")),
        ("0b101", (5, None)),
        ("1.5f32", (1.5, "f32")),
        ("3i64", (3, "i64")),
        ("3f32", (3.0, "f32")),
        ("1e-3", (1e-3, None)),
        ("1_0.2_5bf16", (10.25, "bf16")),
        ("2j", (2j, None)),
        ("1.5e2j", (150j, None)),
    ],
)
def test_numbers_have_their_value_and_suffix(text: str, expected: tuple[complex, str | None]) -> None:
    number = parse_expression(text)
    assert isinstance(number, s.Number)
    assert (number.value, number.dtype) == expected
    assert type(number.value) is type(expected[0])


def test_a114_names_are_nfc() -> None:
    composed, decomposed = parse_expression("caf\u00e9"), parse_expression("cafe\u0301")
    assert isinstance(composed, s.Name)
    assert isinstance(decomposed, s.Name)
    assert composed.id == decomposed.id == "caf\u00e9"


def test_a114_look_alikes_stay_apart() -> None:
    micro, mu = parse_expression("\u00b5"), parse_expression("\u03bc")
    assert isinstance(micro, s.Name)
    assert isinstance(mu, s.Name)
    assert micro.id != mu.id


@pytest.mark.parametrize("text", ["", "\n", "# c", "# c\n", "\n\n# c\n\n# d", "\r\n", "\ufeff", "   "])
def test_a116_empty_and_comment_only_files_parse(text: str) -> None:
    assert parse(text).items == ()


def test_a117_the_end_of_a_range_is_a_sum() -> None:
    assert same("0..n-1", "0..(n-1)")
    assert same("a+1..=n*2", "(a+1)..=(n*2)")


def test_a117_comparisons_chain() -> None:
    chain = parse_expression("0 < a < 3 == 3 ~= b")
    assert isinstance(chain, s.Compare)
    assert chain.ops == ("<", "<", "==", "~=")
    assert len(chain.operands) == 5


def test_a117_trailing_commas_are_fine() -> None:
    assert same("f(a, b,)", "f(a, b)")
    assert same("[1, 2,]", "[1, 2]")
    assert same("x[1, 2,]", "x[1, 2]")
    assert isinstance(parse_expression("(1,)"), s.Tuple)
    assert isinstance(parse_expression("(1)"), s.Number)


def test_a117_numbers_next_to_dots_are_ranges() -> None:
    for text, start, stop in (("1..3", 1, 3), ("1.0..3.0", 1.0, 3.0)):
        found = parse_expression(text)
        assert isinstance(found, s.Range)
        assert (value(found.start), value(found.stop), found.inclusive) == (start, stop, False)


def test_a121_a_line_that_starts_with_a_sign_is_a_statement_of_its_own() -> None:
    block = body("x\n- y")
    assert isinstance(block.statements[0], s.ExprStmt)
    assert isinstance(block.value, s.Unary)


def test_a121_holes_of_strings_are_expressions_with_their_own_spans() -> None:
    text = parse_expression('"u_{step:06}_{a[1:2] + 1}_{{x}}.npy"')
    assert isinstance(text, s.String)
    first, hole, second, slice_hole, last = text.parts
    assert (first, second, last) == ("u_", "_", "_{x}.npy")
    assert isinstance(hole, s.Hole)
    assert hole.format == "06"
    assert (hole.value.span.column, hole.value.span.end_column) == (5, 9)
    assert isinstance(slice_hole, s.Hole)
    assert isinstance(slice_hole.value, s.Binary)
    assert slice_hole.format == ""


def test_escapes_of_strings_are_read() -> None:
    text = parse_expression(r'"a\n\t\"\\\u{3b1}"')
    assert isinstance(text, s.String)
    assert text.plain == 'a\n\t"\\α'


@pytest.mark.parametrize(
    "word",
    [
        "size",
        "max",
        "to",
        "every",
        "steps",
        "by",
        "time",
        "seconds",
        "as",
        "within",
        "input",
        "state",
        "run",
        "test",
        "where",
        "from",
        "export",
    ],
)
def test_words_are_names_where_the_grammar_does_not_want_them(word: str) -> None:
    block = body(f"let {word} = 2\nvar y = {word} + f({word} = {word})\n{word} = 3\ny.{word}\n{word}(y)")
    assert isinstance(block.statements[0], s.Let)
    assert isinstance(block.statements[2], s.Assign)


def test_words_and_names_stand_side_by_side() -> None:
    loop = parse_expression("while max > 1 max max { }")
    assert isinstance(loop, s.While)
    output = statement("output every steps steps: to to to\n0")
    assert isinstance(output, s.Output)
    assert output.unit == "steps"
    count = statement("output every steps: u\n0")
    assert isinstance(count, s.Output)
    assert count.unit is None
    assert isinstance(count.every, s.Name)


@pytest.mark.parametrize(
    ("broken", "whole"),
    [
        ("f(a,\n  b\n)", "f(a, b)"),
        ("[1,\n 2\n]", "[1, 2]"),
        ("a +\n b", "a + b"),
        ("a\n  |> f\n  # note\n  |> g", "a |> f |> g"),
        ("a\n and b\n or c", "a and b or c"),
        ("if a { b }\nelse { c }", "if a { b } else { c }"),
        ("f({\n let a = 1\n a\n})", "f({ let a = 1; a })"),
        ("a + # note\n\n  # more\n b", "a + b"),
        ("a and\n not b", "a and not b"),
    ],
)
def test_a_line_goes_on(broken: str, whole: str) -> None:
    assert same(broken, whole)


def test_crlf_and_a_byte_order_mark_change_nothing() -> None:
    for program in PROGRAMS.glob("*.gla"):
        text = program.read_text(encoding="utf-8")
        assert dump(parse(text)) == dump(parse("\ufeff" + text.replace("\n", "\r\n")))


def test_assignments_have_their_targets() -> None:
    plain, index, field, pair = body("x = 1\nx[i, :] += 2\nb.f = 3\n(u, v) = f(u)\n0").statements
    assert isinstance(plain, s.Assign)
    assert isinstance(index, s.Assign)
    assert isinstance(field, s.Assign)
    assert isinstance(pair, s.Assign)
    assert (plain.op, index.op, field.op, pair.op) == (None, "+", None, None)
    assert isinstance(index.target, s.Index)
    assert isinstance(field.target, s.Attribute)
    assert isinstance(pair.target, s.Tuple)


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "<<", ">>"])
def test_every_operator_can_update(op: str) -> None:
    update = statement(f"x {op}= 2\n0")
    assert isinstance(update, s.Assign)
    assert update.op == op


def test_statements_have_their_parts() -> None:
    text = """emit s[0] every 10
assert max(u) ~= exact within 1e-3, "off by {d}"
output every 0.5 time: u, e(u) as E to "u_{k}.npz"
save u to "u.npy"
print "a", b
break if err < tol
let (a, [b, c]) = f(x)
var y: f64[n] = 0..n by 2
0"""
    emit, check, output, save, show, leave, let, var = body(text).statements
    assert isinstance(emit, s.Emit) and emit.every is not None
    assert isinstance(check, s.Assert) and check.tolerance is not None and isinstance(check.condition, s.Compare)
    assert isinstance(output, s.Output) and output.unit == "time" and len(output.values) == 2
    assert output.values[1].name is not None and output.values[1].name.id == "E"
    assert isinstance(save, s.Save) and isinstance(show, s.Print) and isinstance(leave, s.BreakIf)
    assert isinstance(let, s.Let) and isinstance(let.pattern, s.TuplePattern)
    assert isinstance(let.pattern.items[1], s.ArrayPattern)
    assert isinstance(var, s.Var) and isinstance(var.value, s.Range) and isinstance(var.type, s.ArrayType)


def test_the_value_of_a_block_is_its_last_expression() -> None:
    assert isinstance(body("let a = 1\na + 1").value, s.Binary)
    assert body("let a = 1").value is None
    assert isinstance(body("for k in 0..3 { }\nlet a = 1").statements[0], s.ExprStmt)


def test_stencils_have_a_mode_for_each_array_or_axis() -> None:
    found = parse_expression("stencil(u: (edge, periodic), k: constant(0.0)) { u[-1, 0] * k[0, 0] }")
    assert isinstance(found, s.Stencil)
    first, second = found.fields
    assert (first.per_axis, [mode.name.id for mode in first.modes]) == (True, ["edge", "periodic"])
    assert (second.per_axis, second.modes[0].name.id) == (False, "constant")
    assert isinstance(second.modes[0].value, s.Number)


def test_indices_take_slices_dots_and_new_axes() -> None:
    found = parse_expression("u[1:, ::2, ..., new, -1, :]")
    assert isinstance(found, s.Index)
    kinds = [type(index) for index in found.indices]
    assert kinds == [s.Slice, s.Slice, s.Ellipsis, s.NewAxis, s.Unary, s.Slice]


def test_generators_and_comprehensions_take_conditions() -> None:
    call = parse_expression("sum(f(i) for i in 0..n for j in 0..i if i != j)")
    array = parse_expression("[i for i in 0..n if i > 2]")
    assert isinstance(call, s.Call)
    assert isinstance(call.args[0], s.Generator)
    assert len(call.args[0].clauses) == 2
    assert call.args[0].condition is not None
    assert isinstance(array, s.Comprehension)


def test_items_have_their_parts() -> None:
    text = """import std.ode as ode
from "./forces.gla" import accel as a, mass
option float = f32
const g: f64 = 9.81
size n = 1024 in 2..8192 "cells"
param dt: f64 = 1e-3 in 0.0..0.1 "time step"
input x: f32[n, 3] = zeros((n, 3)) "positions"
state u: f32[n] = zeros((n,))
struct Body { pos: f64[n, 3]; mass: f64 }
export fn f(x: f32[..., m], h: fn(f64, f64) -> (f64, f64[_]), k = 3) -> f64 where m > 2 = x
test "t" for m in [4, 16] { m }
bench "b" { 1 }
run named { 1 }
"""
    items = parse(text).items
    kinds = [
        "Import",
        "ImportFrom",
        "Option",
        "Const",
        "Size",
        "Param",
        "Input",
        "State",
        "Struct",
        "Function",
        "Test",
        "Bench",
        "Run",
    ]
    assert [type(item).__name__ for item in items] == kinds
    size, function = items[4], items[9]
    assert isinstance(size, s.Size) and size.text == "cells" and size.bounds is not None
    assert isinstance(function, s.Function) and function.export and function.where is not None
    assert isinstance(function.params[1].type, s.FunctionType)


def test_doc_comments_belong_to_the_next_item() -> None:
    tree = parse(
        "## A file.\n## Two lines.\nsize n = 3\n\n## Doubles\n## x.\nfn f(x) = 2 * x  # note\n\n## lost\n\nfn g(x) = x\n"
    )
    assert tree.doc == "A file.\nTwo lines."
    assert [item.doc for item in tree.items] == [None, "Doubles\nx.", None]
    assert [comment.text for comment in tree.comments][-2:] == ["# note", "## lost"]


def test_a_hash_in_a_string_is_no_comment() -> None:
    assert parse('const c = "# no"  # yes').comments[0].text == "# yes"


def test_nodes_compare_by_identity() -> None:
    first, second = parse_expression("a"), parse_expression("a")
    assert first != second
    assert len({first, second}) == 2
    assert dump(first) == dump(second)


def test_the_grammar_passes_strict_mode() -> None:
    pytest.importorskip("interegular")
    table.build_table(table.grammar_path().read_text(encoding="utf-8"), strict=True)


def test_the_table_is_stored_once_and_a_damaged_one_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = 'start: "a"\nhole: "b"\n_NL: /\\n/\n%ignore _NL'
    path = tmp_path / "sub" / "t.pickle"
    table._store(table.build_table(grammar), path)
    loaded = table._load(path)
    assert loaded is not None
    assert loaded.parse("a", start="start").data == "start"
    assert [file.name for file in path.parent.iterdir()] == ["t.pickle"]
    path.write_bytes(pickle.dumps({"data": 1}))
    assert table._load(path) is None
    path.write_bytes(b"")
    assert table._load(path) is None


def test_a_cache_folder_that_cannot_be_made_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    table._store(table.build_table('start: "a"\nhole: "b"\n_NL: /\\n/\n%ignore _NL'), tmp_path / "file" / "t.pickle")
