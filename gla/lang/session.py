"""Running a program: its sizes, params and inputs bound, its blocks lowered and carried out on a device.

A block is lowered twice: first with nothing behind it, so that what is wrong (shapes, asserts on sizes) is told before
anything is allocated; then statement by statement, each launch where a value is looked at (gla/lang/host.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gla.config import Options, environment
from gla.errors import CheckError, RangeError, render_text
from gla.ir.graph import Graph
from gla.lang import syntax as s
from gla.lang.context import Context
from gla.lang.engine import DeviceEngine, DryEngine
from gla.lang.host import Host
from gla.lang.io.paths import check_folder, split_place
from gla.lang.lints import refuse
from gla.lang.outputs import Outputs
from gla.lang.program import Program, check_block, variants
from gla.lang.report import Reporter, Silent
from gla.lang.scope import Scope
from gla.lang.toplevel import Given, scope_of, state_keys
from gla.lang.values import leaves


class Session:
    """A program with its settings on a device.

    `sizes`, `params`: numbers or their texts as on a command line; `inputs`: arrays, or paths (`f.npy`, `f.npz:pos`).
    `states`: values that states start with instead of their own, as `states` of an earlier session has them. `check`:
    "bounds" (indices computed at run time), "nan" (each value that gets a name), "all" (both, looked at in every trip).
    `out`: the folder for files, None: nothing is written. After `run`, `outputs` has every file's arrays by path and
    name, `states` the last value of each `state`.

    The constructor raises what is wrong with what was given (numbers out of range, shapes, files), `run` and `test` what
    is wrong with the program.
    """

    def __init__(
        self, program: Program, sizes: Mapping[str, Any] | None = None, params: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None, states: Mapping[str, Any] | None = None, device: str = "auto", out: str | Path | None = None,
        reporter: Reporter | None = None, check: frozenset[str] = frozenset(), options: Options | None = None,
    ) -> None:  # fmt: skip
        self.program, self.device, self.check, self.options = program, device, check, options
        self.out = None if out is None else Path(out)
        self.reporter: Reporter = reporter or Silent()
        self.outputs: dict[str, dict[str, np.ndarray]] = {}
        self.states: dict[str, np.ndarray] = {}
        self.given = Given(
            {name: whole_number(name, value, program) for name, value in _named(program, "size", s.Size, sizes)},
            {name: param_number(name, value) for name, value in _named(program, "param", s.Param, params)},
            {name: _input_array(name, value) for name, value in _named(program, "input", s.Input, inputs)},
            {name: np.asarray(value) for name, value in (states or {}).items()},
        )
        self._bind_given()

    def _bind_given(self) -> None:
        """Look at what was given, before anything else: ranges, shapes, dtypes."""
        ctx = self._context(DryEngine())
        with ctx.lowering():
            scope = scope_of(ctx, self.program.tree, self.given)
            for name in (*self.given.sizes, *self.given.params, *self.given.inputs):
                scope.names[name].get()

    # --- what can be done
    def run(self, entry: str | None = None) -> None:
        """Carry out a `run` block. Raises CheckError for an assert that fails; outputs so far are written in any case."""
        item = self.program.entry(entry)
        if self.out is not None:
            check_folder(self.out)
        self._dry(item)
        outputs = Outputs(self.out, self.reporter)
        try:
            self._carry_out(item.body, outputs, None, None)
        finally:
            outputs.flush()
            self.outputs = outputs.values

    def test(self, test: str) -> int:
        """Carry out a test, all its variants; CheckError names the variant that fails. Gives their number."""
        item = self.program.test(test)
        dry = self._context(DryEngine())
        with dry.lowering():
            count = len(variants(dry, scope_of(dry, self.program.tree, self.given), item))
        for k in range(count):
            self._dry(item, k)
            self._carry_out(item.body, Outputs(None, self.reporter), item, k)
        return count

    def graph(self, entry: str | None = None) -> list[Graph]:
        """The IR of a `run` block: the graphs that its statements ask for, in order. No device."""
        return self._dry(self.program.entry(entry))

    # --- how
    def _context(self, engine: Any) -> Context:
        return self.program.context(engine, self.check)

    def _dry(self, item: s.Run | s.Test, variant: int | None = None) -> list[Graph]:
        """Lower without a device: errors of shapes, dtypes and asserts on sizes come before anything is allocated."""
        warnings = refuse(self.program.tree)
        engine = DryEngine()
        ctx = self._context(engine)
        with ctx.lowering():
            scope = scope_of(ctx, self.program.tree, self.given)
            check_block(ctx, self._inner(ctx, scope, item, variant), item.body)
        for found in dict.fromkeys([*warnings, *ctx.warnings]):
            self.reporter.note(render_text(found))
        return engine.graphs

    def _inner(self, ctx: Context, scope: Scope, item: s.Run | s.Test | None, variant: int | None) -> Scope:
        inner = Scope(scope)
        if isinstance(item, s.Test) and item.variable is not None and variant is not None:
            inner.bind(item.variable.id, "let", variants(ctx, scope, item)[variant][1], item.variable.span)
        return inner

    def _carry_out(self, body: s.Block, outputs: Outputs, item: s.Test | None, variant: int | None) -> None:
        from gla.runtime.devices import get_device

        options = self.options or environment().options
        if self.program.fma:
            options = replace(options, fma=True)
        engine = DeviceEngine(get_device(self.device), options)
        ctx = self._context(engine)
        with ctx.lowering():
            scope = scope_of(ctx, self.program.tree, self.given)
            host = ctx.effects = Host(ctx, self.reporter, outputs, 1 if "all" in self.check else 0)
            inner = self._inner(ctx, scope, item, variant)
            try:
                ctx.block(inner, body)
                host.finish()
            except CheckError as error:
                if item is not None and variant is not None and item.variable is not None:
                    raise _in_variant(error, variants(ctx, scope, item)[variant][0]) from None
                raise
            finally:
                self._keep_states(ctx, scope)

    def _keep_states(self, ctx: Context, scope: Scope) -> None:
        bindings = [b for b in scope.names.values() if b.kind == "state" and b.thunk is None]
        nodes = [n for b in bindings for n in leaves(b.value)]
        values = iter(ctx.engine.fetch(nodes))
        for binding in bindings:
            parts = [next(values) for _ in leaves(binding.value)]
            self.states.update(zip(state_keys(binding.name, len(parts)), parts))


def _in_variant(error: CheckError, name: str) -> CheckError:
    error.diagnostic = replace(error.diagnostic, notes=(*error.diagnostic.notes, f"in the variant {name}"))
    return error


# ---------------------------------------------------------------- what the user gives


def _named(program: Program, kind: str, item_type: type, given: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    names = [item.name.id for item in program.items(item_type)]
    for name in given or {}:
        if name not in names:
            import difflib

            near = difflib.get_close_matches(name, names, 1)
            raise RangeError(
                "GLA0806", f"{program.file} has no {kind} called `{name}`",
                help=f"did you mean `{near[0]}`?" if near else f"it has {', '.join(names) or 'none'}",
            )  # fmt: skip
    return list((given or {}).items())


def whole_number(name: str, value: Any, program: Program | None = None) -> int:
    """A size: any spelling of a whole number, `4096`, `4_096`, `4e3`; others are RangeError GLA0806 with the range."""
    from fractions import Fraction

    try:
        number = Fraction(str(value).strip().replace("_", "")) if not isinstance(value, int) else Fraction(value)
    except (ValueError, ZeroDivisionError):
        number = None
    allowed = "0 or more"
    if program is not None:
        bounds = next((size.bounds for size in program.sizes if size.name == name), None)
        allowed = f"{bounds[0]} to {bounds[1]}" if bounds is not None else allowed
    if number is None or number.denominator != 1 or number < 0 or isinstance(value, bool):
        raise RangeError(
            "GLA0806",
            f"the size `{name}` is a whole number, {allowed}, not {value}",
            help=f"write a whole number: --{name} 64, 1_024 or 4e3",
        )
    return int(number)


def param_number(name: str, value: Any) -> Any:
    """A param: a number, or its text."""
    if not isinstance(value, str):
        return value
    text = value.strip().replace("_", "")
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float, complex):
        try:
            return kind(text)
        except ValueError:
            continue
    raise RangeError("GLA0806", f"the param `{name}` is a number, not {value!r}", help=f"write a number: --{name} 1e-3")


def _input_array(name: str, value: Any) -> np.ndarray:
    if isinstance(value, (str, Path)):
        from gla.lang.io import read_array

        path, key = split_place(str(value))
        return read_array(path, key=key, what=f"input '{name}'")
    return np.asarray(value)
