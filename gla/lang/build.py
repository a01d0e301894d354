"""From Lark's parse tree to the syntax tree: one method a grammar rule, applied bottom-up without recursion.

Called by the parser. Refuses what the grammar lets pass: assignment to what is no place, words of the language as
names, a positional argument after a named one, `1.e5`, and nesting deeper than MAX_DEPTH.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from lark import Token, Tree

from gla.errors import Span
from gla.lang import syntax as s
from gla.lang.characters import odd_character, odd_in_word
from gla.lang.source import Source
from gla.lang.strings import RawHole, read_string

# Walkers of the tree may recurse: three frames a level stay inside Python's default limit of 1,000.
MAX_DEPTH = 250

# Words that open a statement or an expression; a variable of that name could be declared but never used.
RESERVED = frozenset({
    "let", "var", "emit", "assert", "output", "save", "print", "break", "if", "else", "for", "while", "stencil",
    "true", "false", "and", "or", "not", "new", "with", "in", "fn", "return",
})  # fmt: skip
SUFFIXES = ("bf16", "f16", "f32", "f64", "i16", "i32", "i64", "i8", "u16", "u32", "u64", "u8")


class Builder:
    """Makes the nodes of one source. `parse_hole` parses the expression of a string's hole."""

    def __init__(self, source: Source, parse_hole: Callable[[Source], s.Expr]) -> None:
        self.source = source
        self.parse_hole = parse_hole
        self.docs: dict[int, str] = {}

    def build(self, tree: Tree[Token]) -> Any:
        """The node for a whole parse tree."""
        made: dict[int, Any] = {}
        depths: dict[int, int] = {}
        for branch in tree.iter_subtrees():
            depth = 1 + max((depths.get(id(child), 0) for child in branch.children), default=0)
            span = self.span(branch.meta)
            if depth > MAX_DEPTH:
                raise self.source.error_at(
                    "GLA0014", f"nested deeper than {MAX_DEPTH} levels", span, help="name a part of it with `let`"
                )
            depths[id(branch)] = depth
            children = [made.get(id(child), child) for child in branch.children]
            made[id(branch)] = getattr(self, f"on_{branch.data}")(span, *children)
        return made[id(tree)]

    def span(self, place: Any) -> Span:
        """The span of a token or of a tree's meta."""
        if getattr(place, "empty", False):
            return self.source.place(1, 1, 1, 1)
        return self.source.place(place.line, place.column, place.end_line, place.end_column)

    def name(self, token: Token) -> s.Name:
        wrong = odd_in_word(str(token))
        if wrong is not None:
            raise odd_character(self.source, (token.start_pos or 0) + wrong)
        return s.Name(self.span(token), unicodedata.normalize("NFC", str(token)))

    def declared(self, token: Token) -> s.Name:
        """A name being declared, which no word of the language may be."""
        if str(token) in RESERVED:
            raise self.source.error_at(
                "GLA0015", f"`{token}` is a word of the language", self.span(token), help=f"choose another name: `{token}_`"
            )
        return self.name(token)

    def optional(self, token: Token | None) -> s.Name | None:
        return None if token is None else self.declared(token)

    def plain(self, token: Token | None) -> str | None:
        """A string without holes: a description, a test's name, a module's path."""
        if token is None:
            return None
        parts = read_string(self.source, token.start_pos or 0, token.end_pos or 0, holes=False)
        return "".join(map(str, parts))

    def doc(self, span: Span) -> str | None:
        return self.docs.get(span.line)

    # ------------------------------------------------------------ items

    def on_start(self, span: Span, *items: s.Item) -> tuple[s.Item, ...]:
        return items

    def on_hole(self, span: Span, value: s.Expr) -> s.Expr:
        return value

    def on_import_module(self, span: Span, module: s.Module, alias: Token | None) -> s.Import:
        return s.Import(span, self.doc(span), module, self.optional(alias))

    def on_import_from(self, span: Span, module: s.Module, *names: s.ImportName) -> s.ImportFrom:
        return s.ImportFrom(span, self.doc(span), module, names)

    def on_module(self, span: Span, *parts: Token) -> s.Module:
        if parts[0].type == "STRING":
            return s.Module(span, (), self.plain(parts[0]))
        return s.Module(span, tuple(self.name(part).id for part in parts), None)

    def on_import_name(self, span: Span, name: Token, alias: Token | None) -> s.ImportName:
        return s.ImportName(span, self.declared(name), self.optional(alias))

    def on_option(self, span: Span, name: Token, value: s.Expr) -> s.Option:
        return s.Option(span, self.doc(span), self.name(name), value)

    def on_const(self, span: Span, name: Token, type_: s.Type | None, value: s.Expr) -> s.Const:
        return s.Const(span, self.doc(span), self.declared(name), type_, value)

    def on_size(self, span: Span, name: Token, value: s.Expr | None, bounds: s.Range | None, text: Token | None) -> s.Size:
        return s.Size(span, self.doc(span), self.declared(name), value, bounds, self.plain(text))

    def on_param(
        self, span: Span, name: Token, type_: s.Type | None, value: s.Expr, bounds: s.Range | None, text: Any
    ) -> s.Param:
        return s.Param(span, self.doc(span), self.declared(name), type_, value, bounds, self.plain(text))

    def on_input(self, span: Span, name: Token, type_: s.Type, default: s.Expr | None, text: Token | None) -> s.Input:
        return s.Input(span, self.doc(span), self.declared(name), type_, default, self.plain(text))

    def on_state(self, span: Span, name: Token, type_: s.Type | None, value: s.Expr) -> s.State:
        return s.State(span, self.doc(span), self.declared(name), type_, value)

    def on_struct(self, span: Span, name: Token, *fields: s.Field | None) -> s.Struct:
        return s.Struct(span, self.doc(span), self.declared(name), tuple(field for field in fields if field is not None))

    def on_field(self, span: Span, name: Token, type_: s.Type) -> s.Field:
        return s.Field(span, self.name(name), type_)

    def on_fn(
        self, span: Span, export: Token | None, name: Token, params: Any, result: Any, where: Any, body: s.Expr
    ) -> s.Function:
        return s.Function(
            span, self.doc(span), self.declared(name), tuple(params or ()), result, where, body, export is not None
        )

    def on_fparams(self, span: Span, *params: s.Parameter) -> tuple[s.Parameter, ...]:
        return params

    def on_fparam(self, span: Span, name: Token, type_: s.Type | None, default: s.Expr | None) -> s.Parameter:
        return s.Parameter(span, self.declared(name), type_, default)

    def on_test(self, span: Span, name: Token, variable: Token | None, over: s.Expr | None, body: s.Block) -> s.Test:
        return s.Test(span, self.doc(span), self.plain(name) or "", self.optional(variable), over, body)

    def on_bench(self, span: Span, name: Token, variable: Token | None, over: s.Expr | None, body: s.Block) -> s.Bench:
        return s.Bench(span, self.doc(span), self.plain(name) or "", self.optional(variable), over, body)

    def on_run(self, span: Span, name: Token | None, body: s.Block) -> s.Run:
        return s.Run(span, self.doc(span), self.optional(name), body)

    # ------------------------------------------------------------ types and patterns

    def on_type_name(self, span: Span, *parts: Token) -> str:
        return ".".join(self.name(part).id for part in parts)

    def on_named_type(self, span: Span, name: str) -> s.NamedType:
        return s.NamedType(span, name)

    def on_array_type(self, span: Span, element: str, *dims: s.Expr) -> s.ArrayType:
        return s.ArrayType(span, element, dims)

    def on_ellipsis(self, span: Span, _dots: Token) -> s.Ellipsis:
        return s.Ellipsis(span)

    def on_fn_type(self, span: Span, *types: s.Type | None) -> s.FunctionType:
        *params, result = [type_ for type_ in types if type_ is not None]
        return s.FunctionType(span, tuple(params), result)

    def on_tuple_type(self, span: Span, *items: s.Type) -> s.TupleType:
        return s.TupleType(span, items)

    def on_name_pattern(self, span: Span, name: Token) -> s.NamePattern:
        return s.NamePattern(span, self.declared(name))

    def on_tuple_pattern(self, span: Span, *items: s.Pattern) -> s.TuplePattern:
        return s.TuplePattern(span, items)

    def on_array_pattern(self, span: Span, *items: s.Pattern) -> s.ArrayPattern:
        return s.ArrayPattern(span, items)

    # ------------------------------------------------------------ statements

    def on_block(self, span: Span, *lines: Any) -> s.Block:
        body = [line for line in lines if line is not None]
        value = body.pop() if body and isinstance(body[-1], s.Expr) else None
        statements = tuple(s.ExprStmt(line.span, line) if isinstance(line, s.Expr) else line for line in body)
        return s.Block(span, statements, value)

    def on_let(self, span: Span, pattern: s.Pattern, type_: s.Type | None, value: s.Expr) -> s.Let:
        return s.Let(span, pattern, type_, value)

    def on_var(self, span: Span, pattern: s.Pattern, type_: s.Type | None, value: s.Expr) -> s.Var:
        return s.Var(span, pattern, type_, value)

    def on_assign(self, span: Span, target: s.Expr, op: Token, value: s.Expr) -> s.Assign:
        self.check_target(target, alone=op == "=")
        return s.Assign(span, target, None if op == "=" else str(op)[:-1], value)

    def check_target(self, target: s.Expr, alone: bool) -> None:
        """Refuse an assignment to anything but a name, an index, a field, or (`alone`, without operator) a tuple of them."""
        pending = [target]
        while pending:
            place = pending.pop()
            if isinstance(place, s.Tuple) and alone:
                pending.extend(place.items)
                continue
            root = place
            while isinstance(root, s.Index | s.Attribute):
                root = root.value
            if not isinstance(root, s.Name):
                raise self.source.error_at(
                    "GLA0016",
                    "cannot assign to this",
                    place.span,
                    help="assign to a variable `x`, an element `x[i]`, a field `x.f`, or with `=` a tuple `(x, y)`; "
                    "to compare write `==`",
                )

    def on_emit(self, span: Span, value: s.Expr, every: s.Expr | None) -> s.Emit:
        return s.Emit(span, value, every)

    def on_assert_(self, span: Span, condition: s.Expr, tolerance: s.Expr | None, text: s.Expr | None) -> s.Assert:
        return s.Assert(span, condition, tolerance, text)

    def on_output(self, span: Span, every: s.Expr | None, unit: Token | None, *rest: Any) -> s.Output:
        *values, path = rest
        return s.Output(span, every, None if unit is None else str(unit), tuple(values), path)

    def on_out(self, span: Span, value: s.Expr, name: Token | None) -> s.OutputValue:
        return s.OutputValue(span, value, None if name is None else self.name(name))

    def on_save(self, span: Span, value: s.Expr, path: s.Expr) -> s.Save:
        return s.Save(span, value, path)

    def on_print_(self, span: Span, *values: s.Expr) -> s.Print:
        return s.Print(span, values)

    def on_break_(self, span: Span, condition: s.Expr) -> s.BreakIf:
        return s.BreakIf(span, condition)

    # ------------------------------------------------------------ operators

    def on_range(self, span: Span, start: s.Expr, op: Token, stop: s.Expr, step: s.Expr | None) -> s.Range:
        return s.Range(span, start, stop, step, op == "..=")

    def on_lambda_(self, span: Span, params: tuple[s.Parameter, ...] | None, body: s.Expr) -> s.Lambda:
        return s.Lambda(span, params or (), body)

    def on_lparams(self, span: Span, *params: s.Parameter) -> tuple[s.Parameter, ...]:
        return params

    def on_lparam(self, span: Span, name: Token, type_: s.Type | None) -> s.Parameter:
        return s.Parameter(span, self.declared(name), type_, None)

    def on_pipe(self, span: Span, value: s.Expr, op: Token, function: s.Expr) -> s.Pipe:
        return s.Pipe(span, value, function, self.span(op))

    def on_logical(self, span: Span, left: s.Expr, op: Token, right: s.Expr) -> s.Logical:
        return s.Logical(span, str(op), left, right, self.span(op))

    def on_unary(self, span: Span, op: Token, operand: s.Expr) -> s.Unary:
        return s.Unary(span, str(op), operand)

    def on_binary(self, span: Span, left: s.Expr, op: Token, right: s.Expr) -> s.Binary:
        return s.Binary(span, str(op), left, right, self.span(op))

    def on_compare(self, span: Span, *parts: Any) -> s.Compare:
        ops = parts[1::2]
        return s.Compare(span, parts[::2], tuple(str(op) for op in ops), tuple(self.span(op) for op in ops))

    # ------------------------------------------------------------ calls, indices, atoms

    def on_call(self, span: Span, function: s.Expr, args: Any) -> s.Call:
        positional, named = args or ((), ())
        return s.Call(span, function, positional, named)

    def on_args(self, span: Span, *args: Any) -> tuple[tuple[s.Expr, ...], tuple[s.Keyword, ...]]:
        named = tuple(arg for arg in args if isinstance(arg, s.Keyword))
        for before, arg in pairwise(args):
            if isinstance(before, s.Keyword) and not isinstance(arg, s.Keyword):
                raise self.source.error_at(
                    "GLA0019",
                    f"an argument without a name stands after `{before.name.id} = ...`",
                    arg.span,
                    help="put the arguments without names first",
                )
        return tuple(arg for arg in args if not isinstance(arg, s.Keyword)), named

    def on_keyword(self, span: Span, name: Token, value: s.Expr) -> s.Keyword:
        return s.Keyword(span, self.name(name), value)

    def on_generator(self, span: Span, element: s.Expr, *rest: Any) -> s.Generator:
        return s.Generator(span, element, rest[:-1], rest[-1])

    def on_clause(self, span: Span, variable: Token, iterable: s.Expr) -> s.Clause:
        return s.Clause(span, self.declared(variable), iterable)

    def on_index(self, span: Span, value: s.Expr, indices: tuple[s.Expr, ...]) -> s.Index:
        return s.Index(span, value, indices)

    def on_indices(self, span: Span, *indices: s.Expr) -> tuple[s.Expr, ...]:
        return indices

    def on_new_axis(self, span: Span) -> s.NewAxis:
        return s.NewAxis(span)

    def on_slice(self, span: Span, start: s.Expr | None, stop: s.Expr | None, step: s.Expr | None) -> s.Slice:
        return s.Slice(span, start, stop, step)

    def on_attribute(self, span: Span, value: s.Expr, name: Token) -> s.Attribute:
        if isinstance(value, s.Number) and value.span.end_column == self.span(name).column - 1:
            raise self.source.error_at(
                "GLA0011",
                "a number needs a digit after the point",
                span,
                help=f"write `{value.text}.0{name}`" if str(name)[:1] in "eEfbj" else f"write `{value.text}.0`",
            )
        return s.Attribute(span, value, self.name(name))

    def on_record_update(self, span: Span, value: s.Expr, args: Any) -> s.RecordUpdate:
        positional, named = args
        if positional:
            raise self.source.error_at(
                "GLA0019", "`with` takes named fields only", positional[0].span, help="write `b with (field = value)`"
            )
        return s.RecordUpdate(span, value, named)

    def on_number(self, span: Span, token: Token) -> s.Number:
        text = str(token)
        digits, dtype = text.replace("_", ""), None
        hexadecimal = digits[:2] in ("0x", "0X")
        for suffix in SUFFIXES:
            if digits.endswith(suffix) and not (hexadecimal and suffix[0] in "bf"):
                digits, dtype = digits[: -len(suffix)], suffix
                break
        return s.Number(span, self.value_of(digits, dtype, span), dtype, text)

    def value_of(self, digits: str, dtype: str | None, span: Span) -> int | float | complex:
        if digits[-1] == "j":
            return complex(0.0, float(digits[:-1]))
        try:
            if digits[:2] in ("0x", "0X", "0b", "0B"):
                return int(digits, 0)
            if digits.isdecimal() and not (dtype and dtype[0] in "bf"):
                return int(digits)
        except ValueError:
            raise self.source.error_at("GLA0011", f"a number of {len(digits)} digits is too long", span) from None
        value = float(digits)
        if math.isinf(value):
            raise self.source.error_at("GLA0011", "a number is larger than any f64", span, help="infinity is written `inf`")
        return value

    def on_string(self, span: Span, token: Token) -> s.String:
        raw = read_string(self.source, token.start_pos or 0, token.end_pos or 0)
        return s.String(span, tuple(self.hole(part) if isinstance(part, RawHole) else part for part in raw))

    def hole(self, raw: RawHole) -> s.Hole:
        value = self.parse_hole(self.source.fragment(raw.start, raw.end))
        return s.Hole(self.source.span(raw.outer_start, raw.outer_end), value, raw.format)

    def on_name(self, span: Span, token: Token) -> s.Name:
        if token == "return":
            raise self.source.error_at(
                "GLA0005",
                "there is no `return`: the last expression of a block is its value",
                span,
                help="remove it; to end a loop early write `break if c`",
            )
        return self.name(token)

    def on_boolean(self, span: Span, token: Token) -> s.Boolean:
        return s.Boolean(span, token == "true")

    def on_tuple_(self, span: Span, *items: s.Expr | None) -> s.Tuple:
        return s.Tuple(span, tuple(item for item in items if item is not None))

    def on_array(self, span: Span, *items: s.Expr | None) -> s.ArrayLiteral:
        return s.ArrayLiteral(span, tuple(item for item in items if item is not None))

    def on_comprehension(self, span: Span, inner: s.Generator) -> s.Comprehension:
        return s.Comprehension(span, inner.element, inner.clauses, inner.condition)

    # ------------------------------------------------------------ control

    def on_if_(self, span: Span, condition: s.Expr, then: s.Block, otherwise: s.Block | s.If | None) -> s.If:
        return s.If(span, condition, then, otherwise)

    def on_for_(self, span: Span, variable: Token, iterable: s.Expr, body: s.Block) -> s.For:
        return s.For(span, self.declared(variable), iterable, body)

    def on_while_(self, span: Span, condition: s.Expr, limit: s.Expr | None, body: s.Block) -> s.While:
        return s.While(span, condition, limit, body)

    def on_stencil(self, span: Span, *parts: Any) -> s.Stencil:
        *fields, body = parts
        return s.Stencil(span, tuple(fields), body)

    def on_sfield(self, span: Span, name: Token, modes: tuple[s.Mode, ...] | s.Mode) -> s.StencilField:
        per_axis = isinstance(modes, tuple)
        return s.StencilField(span, self.name(name), modes if isinstance(modes, tuple) else (modes,), per_axis)

    def on_one_mode(self, span: Span, mode: s.Mode) -> s.Mode:
        return mode

    def on_axis_modes(self, span: Span, *modes: s.Mode) -> tuple[s.Mode, ...]:
        return modes

    def on_bname(self, span: Span, name: Token, value: s.Expr | None) -> s.Mode:
        return s.Mode(span, self.name(name), value)
