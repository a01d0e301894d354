"""The names that every program has: functions over the IR's, constants, dtypes, and the modules of `std`.

A row names a function, its parameters and how each is read: `x` an array, `k?` left out as None. Reductions take a
generator for their first argument. `max(a, b)` is elementwise, `max(a, axis=0)` reduces.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from gla import dtypes
from gla.errors import DtypeError, GlaError, ShapeError
from gla.ir.builder import apply, broadcast, cast, constant, is_constant
from gla.ir.functions import control, create, elementwise, linear, random, reduce, shape
from gla.ir.functions.index import getitem
from gla.ir.node import Node, topological
from gla.ir.ops.table import ELEMENTWISE
from gla.lang import syntax as s
from gla.lang.context import number
from gla.lang.lower.calls import Argument, Site, call
from gla.lang.lower.comprehension import folded, generated
from gla.lang.lower.fold import fold, known
from gla.lang.scope import Scope
from gla.lang.values import Builtin, Function, Module, Text, Value, kind_of

REDUCTIONS = ("sum", "prod", "mean", "std", "var", "min", "max", "any", "all", "norm", "logsumexp", "argmin", "argmax")


# ---------------------------------------------------------------- reading arguments


def _read(site: Site, kind: str, argument: Argument, name: str) -> Any:
    ctx, value, span = site.ctx, argument.value, argument.span
    what = f"the argument `{name}` of `{site.name}`"
    match kind:
        case "array":
            return ctx.as_node(value, span, what)
        case "int":
            return ctx.integer(value, span, what)
        case "flag":
            decided = known(value)
            if decided is None or decided.dtype.kind != "b":
                raise ctx.error(DtypeError, "GLA0245", f"{what} is true or false", (span, ""), help=f"write {name}=true")
            return bool(decided)
        case "ints":
            parts = value if isinstance(value, tuple) else (value,)
            found = tuple(ctx.integer(p, span, what) for p in parts)
            return found if isinstance(value, tuple) else found[0]
        case "shape":
            if isinstance(value, Node) and len(value.shape) == 1 and value.op != "input":
                raise ctx.error(
                    DtypeError, "GLA0244", f"{what} is a tuple of whole numbers", (span, ""), help="write (n, m), or (n,)"
                )
            parts = value if isinstance(value, tuple) else (value,)
            return tuple(ctx.integer(p, span, what) for p in parts)
        case "dtype":
            if not isinstance(value, dtypes.DType):
                raise ctx.error(
                    DtypeError,
                    "GLA0201",
                    f"{what} is a dtype, not {kind_of(value)}",
                    (span, ""),
                    help="write f32, f64, i64, ...",
                )
            return value
        case "arrays":
            parts = value if isinstance(value, tuple) else (value,)
            return [ctx.as_node(p, span, what) for p in parts]
        case "text":
            if not isinstance(value, Text) or value.plain is None:
                raise ctx.error(DtypeError, "GLA0244", f"{what} is a text without holes", (span, ""), help='write "x"')
            return value.plain
    return value


def _bound(
    site: Site, names: Sequence[tuple[str, bool]], positional: Sequence[Argument], named: dict[str, Argument]
) -> dict[str, Argument]:
    known_names = [n for n, _ in names]
    given = dict(zip(known_names, positional))
    for key, argument in named.items():
        if key not in known_names or key in given:
            import difflib

            near = difflib.get_close_matches(key, known_names, 1)
            raise site.ctx.error(
                DtypeError, "GLA0243", f"`{site.name}` {'is given' if key in given else 'has no parameter'} `{key}`{' twice' if key in given else ''}",
                (argument.span, ""), help=f"write `{near[0]}=`" if near else f"its parameters are {', '.join(known_names)}",
            )  # fmt: skip
        given[key] = argument
    missing = [n for n, optional in names if not optional and n not in given]
    if missing or len(positional) > len(names):
        wrong = f"needs `{missing[0]}`" if missing else f"takes at most {len(names)} arguments, {len(positional)} given"
        raise site.ctx.error(
            DtypeError,
            "GLA0243",
            f"`{site.name}` {wrong}",
            (site.span, ""),
            help=f"call it as {site.name}({', '.join(known_names)})",
        )
    return given


def _function(name: str, parameters: str, function: Callable[..., Any], draws: bool = False) -> Builtin:
    """`parameters`: "x:array axis:ints? keep:flag?=keepdims" - name, kind, optional, the name that `function` knows it by."""
    specs = []
    for word in parameters.split():
        text, _, inner = word.partition("=")
        key, _, kind = text.partition(":")
        specs.append((key, kind.rstrip("?"), kind.endswith("?"), inner or key))

    def run(site: Site, positional: Sequence[Argument], named: dict[str, Argument]) -> Value:
        given = _bound(site, [(key, optional) for key, _, optional, _ in specs], positional, named)
        values = {inner: _read(site, kind, given[key], key) for key, kind, _, inner in specs if key in given}
        with placed(site, given):
            if draws:
                _note_draw(site, values["key"])
            result = function(**values)
        return fold(result) if isinstance(result, Node) else result

    return Builtin(name, run, draws)


class placed:
    """Errors of the IR's functions, told at the call with the arguments that are arrays."""

    def __init__(self, site: Site, given: dict[str, Argument]) -> None:
        self.site, self.given = site, given

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, GlaError) and (not error.diagnostic.labels or error.diagnostic.labels[0].span == self.site.span):
            shown = [(a.span, a.value) for a in self.given.values() if isinstance(a.value, Node) and not is_constant(a.value)]
            self.site.ctx.relabel(error, self.site.span, *shown[:2])


def _note_draw(site: Site, key: Node) -> None:
    """A key that was already used up by another draw gives the same numbers again."""
    ctx = site.ctx
    if ctx.moving and ctx.moving[-1].isdisjoint(topological([key])):
        ctx.warn(
            "GLA0250", f"`{site.name}` uses the same key in every trip of the loop: each trip has the same random bits", (site.span, ""),
            help="derive a key for each trip: random.fold(key, step)",
        )  # fmt: skip
        return
    before = ctx.draws.setdefault(key, site.span)
    if before != site.span and key.op != "gather":
        ctx.warn(
            "GLA0250", f"`{site.name}` uses a key that another draw has used: both have the same random bits", (site.span, "here again"), (before, "used here"),
            help="derive a key for each draw: random.fold(key, 1), random.fold(key, 2)",
        )  # fmt: skip


# ---------------------------------------------------------------- functions with a shape of their own


def _elementwise(name: str, row: str) -> Builtin:
    arity = ELEMENTWISE[row].arity
    names = " ".join(f"{n}:array" for n in ("x", "y", "z")[:arity])
    return _function(name, names, lambda **v: fold(apply(row, *v.values())))


def _rounding(name: str) -> Builtin:
    def run(x: Node) -> Node:
        return x if x.dtype.kind in "iu" else fold(apply(name, x))

    return _function(name, "x:array", run)


def _reduction(name: str) -> Builtin:
    function = getattr(reduce, name)
    single = name in ("argmin", "argmax")
    extra = " correction:number?" if name in ("std", "var") else ""
    plain = _function(name, f"x:array axis:{'int' if single else 'ints'}? keep:flag?=keepdims{extra}", function)

    def run(site: Site, positional: Sequence[Argument], named: dict[str, Argument]) -> Value:
        if positional and isinstance(positional[0].value, s.Generator):
            if len(positional) > 1 or named:
                raise site.ctx.error(
                    DtypeError,
                    "GLA0243",
                    f"`{name}` of a generator takes nothing else",
                    (site.span, ""),
                    help=f"write {name}(x for ..)",
                )
            node, axes = generated(site.ctx, site.scope, positional[0].value, name)
            if single:
                if len(axes) > 1:
                    raise site.ctx.error(
                        DtypeError, "GLA0243", f"`{name}` of a generator takes one clause", (site.span, ""), help="use an array"
                    )
                return function(node, axis=0)
            with placed(site, {}):
                return fold(function(node, axis=axes))
        if name in ("max", "min") and len(positional) > 1 and not named:
            nodes = [site.ctx.as_node(a.value, a.span, f"an argument of `{name}`") for a in positional]
            with placed(site, dict(zip("ab", positional))):
                return fold(folded("maximum" if name == "max" else "minimum", nodes))
        return plain.call(site, positional, named)

    return Builtin(name, run, generators=True)


def _cast(x: Node, dtype: dtypes.DType) -> Node:
    return cast(x, dtype)


def _clip() -> Builtin:
    plain = _function("clip", "x:array low:array high:array", elementwise.clip)

    def run(site: Site, positional: Sequence[Argument], named: dict[str, Argument]) -> Value:
        given = {**dict(zip(("x", "low", "high"), positional)), **named}
        low, high = (known(given[k].value) if k in given else None for k in ("low", "high"))
        if low is not None and high is not None and low > high:
            site.ctx.warn(
                "GLA0252",
                f"clip between {low} and {high} gives {high} everywhere",
                (site.span, ""),
                help="write the lower bound first",
            )
        return plain.call(site, positional, named)

    return Builtin("clip", run)


def _xor(x: Node, y: Node) -> Node:
    return apply("logical_xor" if x.dtype.kind == y.dtype.kind == "b" else "bitwise_xor", x, y)


def _stack(arrays: list[Node], axis: int = 0) -> Node:
    from gla.lang.lower.expressions import stacked

    if len(arrays) == 1 and arrays[0].shape:
        return shape.moveaxis(arrays[0], 0, axis)
    return stacked(arrays, axis)


def _concat(arrays: list[Node], axis: int = 0) -> Node:
    if len(arrays) == 1 and len(arrays[0].shape) > 1:
        arrays = [getitem(arrays[0], k) for k in range(arrays[0].shape[0])]
    return shape.concat(arrays, axis)


def _length(x: Node) -> Node:
    if not x.shape:
        raise ShapeError("GLA0341", "a number has no length", help="take the length of an array")
    return number(x.shape[0])


def _arange(start: Node, stop: Node | None = None, step: Node | None = None, dtype: dtypes.DType | None = None) -> Node:
    return create.arange(start, stop, 1 if step is None else step, dtype)


def _full(shape: tuple[int, ...], value: Node, dtype: dtypes.DType | None = None) -> Node:
    return create.full(shape, value, dtype)


def _like(value: int) -> Callable[..., Node]:
    return lambda x, dtype=None: broadcast(constant(value, dtype or x.dtype), x.shape)


def _transpose(x: Node, axes: tuple[int, ...] | int | None = None) -> Node:
    return shape.transpose(x) if axes is None else shape.permute(x, (axes,) if isinstance(axes, int) else axes)


def _scan(site: Site, positional: Sequence[Argument], named: dict[str, Argument]) -> Value:
    """scan(op, init, xs): init op xs[0], then op xs[1], ... stacked."""
    given = _bound(site, [("op", False), ("init", False), ("xs", False)], positional, named)
    op = given["op"].value
    if not isinstance(op, Function | Builtin):
        raise site.ctx.error(
            DtypeError,
            "GLA0244",
            "the first argument of `scan` is a function",
            (given["op"].span, ""),
            help="write |a, b| a + b",
        )
    init, xs = (site.ctx.as_node(given[k].value, given[k].span, f"the argument `{k}` of `scan`") for k in ("init", "xs"))
    if not xs.shape:
        raise site.ctx.error(
            ShapeError,
            "GLA0341",
            f"`scan` goes over the first axis; this is {xs.type}",
            (given["xs"].span, ""),
            help="pass an array",
        )

    def body(k: Node, carries: list[Node]) -> tuple[list[Node], list[Node]]:
        pair = [Argument(carries[0], site.span), Argument(getitem(xs, k), site.span)]
        value = site.ctx.as_node(call(site.ctx, site.scope, op, pair, {}, site.span), site.span, "the value of the function")
        return [value], [value]

    with placed(site, given):
        return control.loop(xs.shape[0], [init], body, [1], ["init"])[1][0]


def _load(site: Site, positional: Sequence[Argument], named: dict[str, Argument]) -> Value:
    given = _bound(site, [("path", False), ("key", True), ("skip", True)], positional, named)
    path = _read(site, "text", given["path"], "path")
    key = _read(site, "text", given["key"], "key") if "key" in given else None
    skip = _read(site, "int", given["skip"], "skip") if "skip" in given else 0
    try:
        return site.ctx.engine.load(path, key, skip, site.span.file)
    except GlaError as error:
        raise site.ctx.relabel(error, given["path"].span) from None


def _draw(name: str, parameters: str, function: Callable[..., Any]) -> Builtin:
    return _function(
        name, f"key:array shape:shape? {parameters}", lambda key, shape=(), **v: function(key, shape, **v), draws=True
    )


def _key(seed: Node) -> Node:
    value = known(seed)
    return random.key(int(value)) if value is not None and value.dtype.kind in "iu" and seed.type.weak else random.key(seed)


def _cross(a: Node, b: Node) -> Node:
    if a.shape[-1:] != (3,) or b.shape[-1:] != (3,):
        raise ShapeError(
            "GLA0317",
            f"cross takes vectors of 3 components, not {a.type} and {b.type}",
            help="the last axis has the components",
        )
    (ax, ay, az), (bx, by, bz) = ([getitem(v, (Ellipsis, k)) for k in range(3)] for v in (a, b))
    terms = [(ay, bz, az, by), (az, bx, ax, bz), (ax, by, ay, bx)]
    return shape.stack([apply("subtract", apply("multiply", p, q), apply("multiply", r, t)) for p, q, r, t in terms], -1)


# ---------------------------------------------------------------- the tables

ALIASES = {
    "abs": "abs", "sign": "sign", "sqrt": "sqrt", "cbrt": "cbrt", "exp": "exp", "expm1": "expm1", "exp2": "exp2", "log": "log", "log1p": "log1p",
    "log2": "log2", "log10": "log10", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "atan2": "atan2",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "hypot": "hypot", "erf": "erf",
    "maximum": "maximum", "minimum": "minimum", "fmod": "fmod", "copysign": "copysign", "nextafter": "nextafter", "isnan": "isnan",
    "isinf": "isinf", "isfinite": "isfinite", "signbit": "signbit", "fma": "fma", "logaddexp": "logaddexp", "complex": "complex",
}  # fmt: skip


@cache
def builtins() -> dict[str, Value]:
    """Name -> value, for every name that needs no import."""
    rows: list[Builtin] = [_elementwise(name, row) for name, row in ALIASES.items() if row in ELEMENTWISE]
    rows += [_rounding(name) for name in ("floor", "ceil", "trunc", "round")]
    rows += [_reduction(name) for name in REDUCTIONS]
    rows += [
        _function("where", "condition:array a:array b:array", elementwise.where),
        _clip(),
        _function("cast", "x:array dtype:dtype", _cast),
        _function("xor", "x:array y:array", _xor),
        _function("re", "x:array", elementwise.real),
        _function("im", "x:array", elementwise.imag),
        _function("conj", "x:array", elementwise.conj),
        _function("arg", "x:array", elementwise.angle),
        _function("dot", "a:array b:array", linear.dot),
        _function("matmul", "a:array b:array", linear.matmul),
        _function("cumsum", "x:array axis:int?", reduce.cumulative_sum),
        _function("cumprod", "x:array axis:int?", reduce.cumulative_prod),
        _function("cummax", "x:array axis:int?", reduce.cumulative_max),
        _function("cummin", "x:array axis:int?", reduce.cumulative_min),
        _function("count_nonzero", "x:array axis:ints? keep:flag?=keepdims", reduce.count_nonzero),
        _function("zeros", "shape:shape dtype:dtype?", create.zeros),
        _function("ones", "shape:shape dtype:dtype?", create.ones),
        _function("full", "shape:shape value:array dtype:dtype?", _full),
        _function("zeros_like", "x:array dtype:dtype?", _like(0)),
        _function("ones_like", "x:array dtype:dtype?", _like(1)),
        _function("arange", "start:array stop:array? step:array? dtype:dtype?", _arange),
        _function("linspace", "start:array stop:array n:int dtype:dtype?", create.linspace),
        _function("eye", "n:int m:int? k:int? dtype:dtype?", create.eye),
        _function("tril", "x:array k:int?", lambda x, k=0: create.triangle(x, k, True)),
        _function("triu", "x:array k:int?", lambda x, k=0: create.triangle(x, k, False)),
        _function("reshape", "x:array shape:shape", shape.reshape),
        _function("transpose", "x:array axes:ints?", _transpose),
        _function("broadcast_to", "x:array shape:shape", shape.broadcast_to),
        _function("squeeze", "x:array axis:ints?", shape.squeeze),
        _function("flip", "x:array axis:ints?", shape.flip),
        _function("roll", "x:array shift:ints=shift_by axis:ints?", shape.roll),
        _function("stack", "arrays:arrays axis:int?", _stack),
        _function("concat", "arrays:arrays axis:int?", _concat),
        _function("len", "x:array", _length),
        Builtin("scan", _scan),
        Builtin("load", _load),
    ]
    table: dict[str, Value] = {b.name: b for b in rows}
    table |= {d.short: d for d in dtypes.ALL}
    table |= {"pi": constant(math.pi), "e": constant(math.e), "inf": constant(math.inf), "nan": constant(math.nan)}
    table["random"] = _module("random", modules()["random"])
    return table


@cache
def modules() -> dict[str, dict[str, Value]]:
    """The modules of `std`: name -> what it has."""
    float32or64 = "dtype:dtype?"
    draws = [
        _function("key", "seed:array", _key),
        _function("fold", "key:array=k data:array", random.fold),
        _function("split", "key:array=k count:int?", random.split),
        _draw("normal", float32or64, random.normal),
        _draw("uniform", f"{float32or64} low:array? high:array?", random.uniform),
        _draw("randint", "low:array high:array dtype:dtype?", random.randint),
        _draw("bits", "", random.bits),
    ]
    linear_algebra = [
        _function("norm", "x:array axis:ints? keep:flag?=keepdims", reduce.norm),
        _function("trace", "x:array", linear.trace),
        _function("diagonal", "x:array offset:int?", linear.diagonal),
        _function("dot", "a:array b:array", linear.dot),
        _function("vecdot", "a:array b:array axis:int?", linear.vecdot),
        _function("outer", "a:array b:array", linear.outer),
        _function("cross", "a:array b:array", _cross),
        _function("matmul", "a:array b:array", linear.matmul),
        _function("tensordot", "a:array b:array axes:int?", linear.tensordot),
        _function("transpose", "x:array", shape.matrix_transpose),
    ]
    return {
        "random": {b.name: b for b in draws},
        "linalg": {b.name: b for b in linear_algebra},
        "math": {"pi": constant(math.pi), "e": constant(math.e), "tau": constant(math.tau)}
        | {name: _elementwise(name, row) for name, row in ALIASES.items() if row in ELEMENTWISE},
    }


def _module(name: str, members: dict[str, Value]) -> Module:
    return Module(name, members.get, lambda: list(members))


def std_module(name: str) -> Module | None:
    """`std.<name>`, or None."""
    members = modules().get(name)
    return None if members is None else _module(f"std.{name}", members)


def root_scope() -> Scope:
    """A scope with every builtin name."""
    scope = Scope()
    for name, value in builtins().items():
        scope.bind(name, "builtin", value)
    return scope
