"""The names of a file: its items bound in a scope, each computed when it is first asked for.

Values of sizes, params and inputs come from `Given`; what is not given takes its default. Imported files get a scope of
their own, with their own defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gla import dtypes
from gla.dtypes import DType
from gla.errors import DtypeError, GlaError, GlaFileError, GlaNameError, RangeError, ShapeError, Span, TraceError
from gla.ir.node import Node, topological
from gla.ir.types import Type
from gla.lang import syntax as s
from gla.lang.context import Context, number
from gla.lang.library import builtins, modules, std_module
from gla.lang.lower.fold import known
from gla.lang.lower.statements import strong
from gla.lang.lower.types import DTYPES, conform, type_text
from gla.lang.names import unknown_name
from gla.lang.parser import parse
from gla.lang.scope import Binding, Scope
from gla.lang.values import Function, Module, Struct, Value, kind_of, leaves, rebuild


@dataclass(frozen=True, slots=True)
class Given:
    """What the user gave for a program: numbers by name, arrays by input name."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    states: Mapping[str, np.ndarray] = field(default_factory=dict)


class Files:
    """Imported files of one lowering: each is read once; a cycle is drawn."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.scopes: dict[str, Scope] = {}
        self.open: list[str] = []


def scope_of(ctx: Context, tree: s.Program, given: Given | None = None, files: Files | None = None) -> Scope:
    """The scope with every top-level name of a program. Items of `given` belong to this file alone."""
    if files is None:
        files = Files(ctx)
        files.open.append(str(Path(tree.file).resolve()))
    given = given or Given()
    base = Scope()
    for name, value in builtins().items():
        base.bind(name, "builtin", value)
    scope = Scope(base)
    ctx.sources.setdefault(tree.file, tree.source)
    for item in tree.items:
        _declare(ctx, scope, item, given, files)
    return scope


def _declare(ctx: Context, scope: Scope, item: s.Item, given: Given, files: Files) -> None:
    match item:
        case s.Import():
            alias = item.alias.id if item.alias is not None else _short(item.module)
            _bind(ctx, scope, alias, "module", item.span, lambda: _module(ctx, item.module, item.span, files))
        case s.ImportFrom():
            for entry in item.names:
                name = (entry.alias or entry.name).id
                _bind(ctx, scope, name, "import", entry.span, partial(_imported, ctx, item, entry, files))
        case s.Const():
            _bind(ctx, scope, item.name.id, "const", item.name.span, lambda: _const(ctx, scope, item))
        case s.Size():
            _bind(ctx, scope, item.name.id, "size", item.name.span, lambda: number(size_value(ctx, scope, item, given)))
        case s.Param():
            _bind(ctx, scope, item.name.id, "param", item.name.span, lambda: _param(ctx, scope, item, given))
        case s.Input():
            _bind(ctx, scope, item.name.id, "input", item.name.span, lambda: _input(ctx, scope, item, given))
        case s.State():
            _bind(ctx, scope, item.name.id, "state", item.name.span, lambda: _state(ctx, scope, item, given))
        case s.Struct():
            _bind(ctx, scope, item.name.id, "struct", item.name.span, lambda: Struct(item.name.id, item, scope))
        case s.Function():
            _bind(ctx, scope, item.name.id, "fn", item.name.span, lambda: Function(item.name.id, item, scope))


def _bind(ctx: Context, scope: Scope, name: str, kind: str, span: Span, thunk: Callable[[], Value]) -> None:
    before = scope.names.get(name)
    if before is not None:
        raise ctx.error(
            GlaNameError, "GLA0105", f"`{name}` is declared twice", (span, "here again"), (before.span, f"first here, a {before.kind}"),
            help="rename one of them",
        )  # fmt: skip
    state = {"open": False}

    def once() -> Value:
        if state["open"]:
            raise ctx.error(
                GlaNameError,
                "GLA0110",
                f"`{name}` is declared by itself",
                (span, "needs its own value"),
                help="break the circle with a number",
            )
        state["open"] = True
        # A top-level value belongs to no loop, branch or call that happens to ask for it first.
        kept = (ctx.frame, ctx.guards, ctx.effects, ctx.tolerance, ctx.calls, ctx.moving)
        ctx.frame, ctx.guards, ctx.effects, ctx.tolerance, ctx.calls, ctx.moving = None, [], None, None, [], []
        try:
            return thunk()
        finally:
            state["open"] = False
            ctx.frame, ctx.guards, ctx.effects, ctx.tolerance, ctx.calls, ctx.moving = kept

    scope.names[name] = Binding(name, kind, None, span, once)


# ---------------------------------------------------------------- values


def _const(ctx: Context, scope: Scope, item: s.Const) -> Value:
    value = ctx.expr(scope, item.value)
    if item.type is not None:
        value = conform(ctx, scope, value, item.type, f"the const `{item.name.id}`", item.value.span)
    moving = next((n for n in topological(list(leaves(value))) if n.op == "input"), None)
    if moving is not None:
        name = moving.attr("name")
        raise ctx.error(
            TraceError, "GLA0242", f"the const `{item.name.id}` depends on {f'`{name}`' if name else 'a value'} that is known only when the program runs",
            (item.value.span, ""), help="make it a let in the `run` block, or a function",
        )  # fmt: skip
    return value


def size_value(ctx: Context, scope: Scope, item: s.Size, given: Given) -> int:
    """The size as given or by default; both ends of its bounds are allowed."""
    name = item.name.id
    if name in given.sizes:
        value = given.sizes[name]
    elif item.value is None:
        raise ctx.error(
            RangeError,
            "GLA0806",
            f"the size `{name}` has no default and is not given",
            (item.span, ""),
            help=f"give it: --{name} 64",
        )
    else:
        value = ctx.integer(ctx.expr(scope, item.value), item.value.span, f"the size `{name}`")
    low, high = bounds_of(ctx, scope, item.bounds)
    if value < 0 or (low is not None and not low <= value <= high):
        allowed = f"{low} to {high}" if low is not None else "0 or more"
        raise ctx.error(
            RangeError, "GLA0806" if name in given.sizes else "GLA0203", f"the size `{name}` is {value}, allowed is {allowed}",
            (item.span, "declared here"), help=f"give a whole number, {allowed}: --{name} {low if low is not None else 1}",
        )  # fmt: skip
    return value


def bounds_of(ctx: Context, scope: Scope, bounds: s.Range | None) -> tuple[Any, Any]:
    """The bounds of a size or param as real Python numbers; (None, None) without."""
    if bounds is None:
        return None, None
    ends = []
    for expr in (bounds.start, bounds.stop):
        value = known(ctx.expr(scope, expr))
        if value is None:
            raise ctx.error(
                TraceError,
                "GLA0410",
                "bounds must be known when the program is planned",
                (expr.span, ""),
                help="use numbers, sizes and consts",
            )
        if isinstance(value.item(), complex):
            raise ctx.error(
                DtypeError,
                "GLA0208",
                f"a bound is a real number, not {value.item()}: complex numbers have no order",
                (expr.span, ""),
                help="use real bounds, or assert abs(z) < 1 in the program",
            )
        ends.append(value.item())
    return ends[0], ends[1]


def param_dtype(ctx: Context, scope: Scope, item: s.Param) -> tuple[DType, Node]:
    """(dtype of a param, its default as a node)."""
    default = ctx.node(scope, item.value, f"the default of `{item.name.id}`")
    if item.type is not None:
        default = conform(ctx, scope, default, item.type, f"the param `{item.name.id}`", item.value.span)
    else:
        default = strong(default)
    if default.shape:
        raise ctx.error(
            ShapeError,
            "GLA0330",
            f"the param `{item.name.id}` is {default.type}: a param is one number",
            (item.value.span, ""),
            help=f"declare an array with input {item.name.id}: ..",
        )
    return default.dtype, default


def _param(ctx: Context, scope: Scope, item: s.Param, given: Given) -> Node:
    name = item.name.id
    dtype, default = param_dtype(ctx, scope, item)
    if name in given.params:
        value = given.params[name]
    else:
        value = ctx.engine.fetch([default])[0]
    if value is not None:
        value = np.asarray(value).item()
        check_param(ctx, scope, item, dtype, value, name in given.params)
    leaf = ctx.engine.scalar(value, Type(dtype), name)
    ctx.places[leaf] = item.span
    return leaf


def check_param(ctx: Context, scope: Scope, item: s.Param, dtype: DType, value: Any, given: bool) -> None:
    name = item.name.id
    low, high = bounds_of(ctx, scope, item.bounds)
    if low is not None and (dtype.kind == "c" or isinstance(value, complex)):
        raise ctx.error(
            DtypeError,
            "GLA0208",
            f"the param `{name}` is complex ({value}) and has bounds: complex numbers have no order",
            (item.span, "declared here"),
            help="leave the bounds out, and assert abs(z) < 1 in the program",
        )
    if low is not None and not low <= value <= high:
        raise ctx.error(
            RangeError, "GLA0806" if given else "GLA0203", f"the param `{name}` is {value}, allowed is {low} to {high}", (item.span, "declared here"),
            help=f"give a number within {low}..{high}: --{name} {low}",
        )  # fmt: skip
    whole = isinstance(value, bool) or float(value).is_integer() if not isinstance(value, complex) else False
    if dtype.kind in "iu":
        least, most = dtypes.integer_range(dtype)
        if not whole or not least <= value <= most:
            raise ctx.error(
                RangeError,
                "GLA0806" if given else "GLA0203",
                f"the param `{name}` is {dtype.short}, {value} does not fit it",
                (item.span, "declared here"),
                help=f"give a whole number within {least}..{most}",
            )
    if isinstance(value, complex) and dtype.kind != "c":
        raise ctx.error(
            RangeError,
            "GLA0806",
            f"the param `{name}` is {dtype.short}, {value} is complex",
            (item.span, "declared here"),
            help="give a real number",
        )


def _input(ctx: Context, scope: Scope, item: s.Input, given: Given) -> Value:
    name = item.name.id
    if name in given.inputs:
        values = np.asarray(given.inputs[name])
        return _given_input(ctx, scope, item, values)
    if item.default is None:
        raise ctx.error(
            GlaFileError,
            "GLA0806",
            f"the input `{name}` has no default and is not given",
            (item.span, ""),
            help=f"give a file: --{name} f.npy",
        )
    value = conform(ctx, scope, ctx.expr(scope, item.default), item.type, f"the input `{name}`", item.default.span)
    return _kept(ctx, value)


def _given_input(ctx: Context, scope: Scope, item: s.Input, values: np.ndarray) -> Node:
    name = item.name.id
    element = item.type.element if isinstance(item.type, s.ArrayType) else type_text(item.type)
    wanted = DTYPES.get(element)
    found = dtypes.as_dtype(values.dtype)
    if (
        wanted is not None
        and found is not wanted
        and (
            found.kind == wanted.kind
            or (found.kind in "biu" and wanted.kind in "fc")
            or (found.kind == "f" and wanted.kind == "c")
        )
    ):
        # A file says how the numbers were kept, the program in what it computes: float64 tables feed f32 inputs.
        values = values.astype(wanted.numpy)
    leaf = ctx.engine.array(np.ascontiguousarray(values).reshape(values.shape), name)
    result = conform(ctx, scope, leaf, item.type, f"the input `{name}` that was given", item.span)
    assert isinstance(result, Node)
    return result


def _state(ctx: Context, scope: Scope, item: s.State, given: Given) -> Value:
    name = item.name.id
    value = ctx.expr(scope, item.value)
    if item.type is not None:
        value = conform(ctx, scope, value, item.type, f"the state `{name}`", item.value.span)
    if not list(leaves(value)):
        raise ctx.error(
            DtypeError,
            "GLA0244",
            f"the state `{name}` must be a number, an array or a record, not {kind_of(value)}",
            (item.value.span, ""),
            help="give it a value",
        )
    nodes = [strong(n) for n in leaves(value)]
    value = rebuild(value, iter(nodes))
    keys = state_keys(name, len(nodes))
    if keys[0] in given.states:
        return rebuild(value, iter([_resumed(ctx, item, key, node, given) for key, node in zip(keys, nodes)]))
    return _kept(ctx, value)


def state_keys(name: str, count: int) -> list[str]:
    """Names of a state's arrays in a checkpoint: its own, or with a number each for a record."""
    return [name] if count == 1 else [f"{name}.{k}" for k in range(count)]


def _resumed(ctx: Context, item: s.State, key: str, node: Node, given: Given) -> Node:
    values = np.asarray(given.states.get(key))
    if values.shape != node.shape or values.dtype != node.dtype.numpy:
        raise ctx.error(
            ShapeError, "GLA0806", f"the checkpoint has {key} as {values.dtype}{list(values.shape)}, the program as {node.type}", (item.span, "declared here"),
            help="resume with the sizes that the checkpoint was made with",
        )  # fmt: skip
    return ctx.engine.array(values, item.name.id)


def _kept(ctx: Context, value: Value) -> Value:
    """The value in memory, with the names of its dims."""
    nodes = list(leaves(value))
    kept = ctx.engine.settle(nodes)
    for node, leaf in zip(nodes, kept):
        if leaf is not node and node in ctx.names:
            ctx.names[leaf], ctx.places[leaf] = ctx.names[node], ctx.places[node]
    return rebuild(value, iter(kept))


# ---------------------------------------------------------------- modules


def _short(module: s.Module) -> str:
    return module.names[-1] if module.path is None else Path(module.path).stem


def _module(ctx: Context, module: s.Module, span: Span, files: Files) -> Module:
    if module.path is not None:
        return _file(ctx, module.path, span, files)
    if len(module.names) == 2 and module.names[0] == "std" and (found := std_module(module.names[1])) is not None:
        return found
    import difflib

    text = ".".join(module.names)
    known_names = [f"std.{n}" for n in modules()]
    near = difflib.get_close_matches(text, known_names, 1)
    raise ctx.error(
        GlaNameError, "GLA0108", f"there is no module {text}", (span, ""),
        help=f"write import {near[0]}" if near else f'there are {", ".join(known_names)}; a file is imported by its path: import "./{module.names[-1]}.gla"',
    )  # fmt: skip


def _file(ctx: Context, path: str, span: Span, files: Files) -> Module:
    from gla.lang.io.paths import decode, read_bytes

    target = Path(span.file).parent / path
    name = str(target)
    key = str(target.resolve())
    if key in files.open:
        chain = [Path(f).name for f in [*files.open[files.open.index(key) :], key]]
        raise ctx.error(
            GlaNameError,
            "GLA0107",
            f"imports go in a circle: {' -> '.join(chain)}",
            (span, ""),
            help="move what both need into a third file",
        )
    if key not in files.scopes:
        try:
            text = decode(read_bytes(target, "module"), target, "module")
        except GlaError as error:
            raise ctx.relabel(error, span) from None
        files.open.append(key)
        try:
            tree = parse(text, name)
            files.scopes[key] = scope_of(ctx, tree, None, files)
            for binding in files.scopes[key].names.values():
                if binding.kind in ("module", "import"):
                    binding.get()
        finally:
            files.open.remove(key)
    scope = files.scopes[key]

    def find(wanted: str) -> Value | None:
        found = scope.names.get(wanted)
        return None if found is None else found.get()

    return Module(target.stem, find, lambda: list(scope.names))


def _imported(ctx: Context, item: s.ImportFrom, entry: s.ImportName, files: Files) -> Value:
    module = _module(ctx, item.module, item.span, files)
    found = module.find(entry.name.id)
    if found is None:
        raise unknown_name(ctx, entry.name, module.names(), f"`{module.name}` has no name `{entry.name.id}`", "GLA0109")
    return found


def float_dtype(tree: s.Program, ctx: Context) -> DType:
    """The dtype of undecorated floats: `option float = f32`. Other options are refused."""
    found = dtypes.float64
    for item in tree.items:
        if not isinstance(item, s.Option):
            continue
        name = item.name.id
        if name == "float" and isinstance(item.value, s.Name) and item.value.id in ("f16", "bf16", "f32", "f64"):
            found = DTYPES[item.value.id]
        elif name == "float":
            raise ctx.error(
                DtypeError,
                "GLA0201",
                "`option float` is f16, bf16, f32 or f64",
                (item.value.span, ""),
                help="write option float = f32",
            )
        elif name == "fma" and isinstance(item.value, s.Boolean):
            continue
        else:
            raise unknown_name(ctx, item.name, ("float", "fma"), f"there is no option `{name}`")
    return found
