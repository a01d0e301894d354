"""A program's sizes, params and inputs as flags of the command: their types, ranges and help, and values from a file.

A flag is the name itself (`--n`, `--dt`, `--Δt`). A name that the command has for itself (`out`, `device`, ...) is given with
`--set out=3`. Errors are usage errors whose text holds what was given and the range.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import click

from gla.cli.exits import usage

BOOLS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


@dataclass(frozen=True, slots=True)
class Knob:
    """A size, param or input of a program: what its flag takes and how its help reads."""

    name: str
    kind: str
    type: str
    default: str
    bounds: tuple[Any, Any] | None
    doc: str

    @property
    def flag(self) -> str:
        return f"--{self.name}"

    def option(self) -> click.Option:
        return click.Option([self.flag, f"knob_{self.kind}_{self.name}"], metavar=self.metavar, help=self.help)

    @property
    def metavar(self) -> str:
        return {"size": "INT", "param": self.type.upper(), "input": "FILE"}[self.kind]

    @property
    def help(self) -> str:
        what = {"size": "", "param": "", "input": self.type}[self.kind]
        facts = [
            what,
            f"in {self.bounds[0]}..{self.bounds[1]}" if self.bounds else "",
            f"default {self.default}" if self.default else "",
        ]
        tail = ", ".join(fact for fact in facts if fact)
        doc = " ".join(self.doc.split())
        return f"{doc}  [{tail}]" if doc and tail else doc or tail

    def read(self, text: str) -> Any:
        """The value in a text; a usage error when it is none, or out of range."""
        shown = f"{self.flag} {text}"
        if self.kind == "input":
            return read_input(text, self)
        value = whole(text, shown, self.bounds) if self.kind == "size" else number(text, self.type, shown)
        if self.bounds and isinstance(value, int | float) and not self.bounds[0] <= value <= self.bounds[1]:
            raise usage(f"{shown}: {self.name} must be in {self.bounds[0]}..{self.bounds[1]}", code="GLA0822")
        return value


# ---------------------------------------------------------------- values


def whole(text: str, shown: str, bounds: tuple[Any, Any] | None = None) -> int:
    """A size: any spelling of a whole number from 1 on (4096, 4_096, 4e3)."""
    span = f"{bounds[0]}..{bounds[1]}" if bounds else "0 or more"
    try:
        value = Decimal(text.strip())
        exact = value.is_finite() and value == value.to_integral_value() and value.adjusted() < 19
    except InvalidOperation:
        exact = False
    if not exact:
        raise usage(f"{shown}: a size is a whole number, {span}", code="GLA0821")
    if value < 0:
        raise usage(f"{shown}: a size is not negative; it must be {span}", code="GLA0821")
    return int(value)


def number(text: str, dtype: str, shown: str) -> bool | int | float | complex:
    """A param of a dtype ("f64", "i32", "u64", "bool", "c128", ...)."""
    plain = text.strip()
    kind = dtype.removeprefix("b") if dtype.startswith("bf") else dtype
    if kind == "bool":
        if plain.lower() not in BOOLS:
            raise usage(f"{shown}: a bool is true or false", code="GLA0822")
        return BOOLS[plain.lower()]
    if kind[0] in "iu":
        return _integer(plain, dtype, shown)
    with suppress(ValueError):
        return complex(plain.replace(" ", "").replace("i", "j")) if kind[0] == "c" else float(plain)
    what = "a complex number such as 1+2j" if kind[0] == "c" else "a number"
    raise usage(
        f"{shown}: {what} is wanted", "write a point: " + plain.replace(",", ".") if plain.count(",") == 1 else (), "GLA0822"
    )


def _integer(text: str, dtype: str, shown: str) -> int:
    try:
        value = int(text, 0) if text.lower().lstrip("+-").startswith(("0x", "0b", "0o")) else Decimal(text)
        exact = value == int(value)
    except (InvalidOperation, ValueError, OverflowError):
        exact = False
    if not exact:
        raise usage(f"{shown}: a whole number is wanted ({dtype})", code="GLA0822")
    bits, signed = int(dtype[1:]), dtype[0] == "i"
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if not low <= value <= high:
        raise usage(f"{shown}: {dtype} holds {low}..{high}", code="GLA0822")
    return int(value)


def read_input(text: str, knob: Knob) -> Any:
    """The array in `f.npy`, `f.npz:key`, `t.csv`, `t.csv:skip=1` or `-`. A one-column table suits an input of one axis."""
    from gla.cli.exits import given
    from gla.lang.io import read_array, split_place

    path, key = split_place(text)
    skip = 0
    if key is not None and key.startswith("skip="):
        skip, key = whole(key.removeprefix("skip="), f"{knob.flag} {text}"), None
    with given():
        array = read_array(path, key, skip, what=f"input {knob.name!r}:")
    single = knob.type.count("[") == 1 and "," not in knob.type
    return (
        array[:, 0]
        if single and array.ndim == 2 and array.shape[1] == 1 and path.lower().endswith((".csv", ".tsv", ".txt"))
        else array
    )


# ---------------------------------------------------------------- a program's knobs


def knobs(program: Any) -> list[Knob]:
    """Every size, param and input of a program, in that order."""
    out = [Knob(s.name, "size", "int", _text(s.default), s.bounds, s.doc or "") for s in program.sizes]
    out += [Knob(p.name, "param", str(p.dtype), _text(p.default), p.bounds, p.doc or "") for p in program.params]
    out += [Knob(i.name, "input", str(i.type), i.default or "", None, i.doc or "") for i in program.inputs]
    return out


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) and math.isfinite(value) else str(value)


def gathered(
    known: Sequence[Knob], flags: Mapping[str, Any], sets: Iterable[str], file: str | None, program: str
) -> dict[str, dict[str, Any]]:
    """Values by kind ("size", "param", "input") and name: from the file, then `--set`, then flags; later ones win."""
    by_name = {knob.name: knob for knob in known}
    texts: dict[str, str] = {}
    if file is not None:
        texts.update(_from_file(file, by_name))
    for pair in sets:
        name, sign, text = pair.partition("=")
        if not sign:
            raise usage(f"--set {pair}: NAME=VALUE is wanted")
        texts[_known(unicodedata.normalize("NFC", name.strip()), by_name, "--set").name] = text.strip()
    for knob in known:
        given_text = flags.get(f"knob_{knob.kind}_{knob.name}")
        if given_text is not None:
            texts[knob.name] = given_text
    readers = [knob.name for knob in known if knob.kind == "input" and texts.get(knob.name) == "-"]
    if len(readers) > (program != "-"):
        taken = "the program" if program == "-" else f"--{readers[0]}"
        raise usage(f"--{readers[-1]} -: standard input is {taken} already")
    out: dict[str, dict[str, Any]] = {"size": {}, "param": {}, "input": {}}
    for name, text in texts.items():
        out[by_name[name].kind][name] = by_name[name].read(text)
    return out


def _from_file(path: str, by_name: Mapping[str, Knob]) -> dict[str, str]:
    """The values in a TOML file: `name = value`, plainly or under [sizes], [params], [inputs]."""
    import tomllib

    from gla.cli.exits import given
    from gla.lang.io.paths import decode, read_bytes

    with given():
        text = decode(read_bytes(path, "--params"), path, "--params")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise usage(f"--params {path}: {error}", code="GLA0823") from None
    flat: dict[str, Any] = {}
    for name, value in data.items():
        flat.update(value if name in ("sizes", "params", "inputs") and isinstance(value, dict) else {name: value})
    out = {}
    for name, value in flat.items():
        if isinstance(value, dict | list):
            raise usage(f"--params {path}: {name} must be one number or a file name", code="GLA0823")
        out[_known(unicodedata.normalize("NFC", name), by_name, f"--params {path}").name] = (
            str(value).lower() if isinstance(value, bool) else str(value)
        )
    return out


def _known(name: str, by_name: Mapping[str, Knob], where: str) -> Knob:
    if name in by_name:
        return by_name[name]
    from gla.lang.io.paths import alike

    meant = alike(name, by_name, 0.5)
    known = ", ".join(by_name) or "none"
    raise usage(
        f"{where}: the program has no size, param or input {name!r}", f"did you mean {meant}?" if meant else f"it has: {known}"
    )


# ---------------------------------------------------------------- options that depend on the program


class ProgramCommand(click.Command):
    """A command whose first argument is a program, the knobs of which become options of this call.

    `kinds`: which of "size", "param", "input" become flags.
    """

    kinds: tuple[str, ...] = ("size", "param", "input")
    load: Callable[[str], Any]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = [unicodedata.normalize("NFC", arg) if arg.startswith("--") else arg for arg in args]
        name = self._program_name(args)
        ctx.meta["gla.knobs"] = []
        if name is not None:
            program = type(self).load(name)
            taken = self._own_flags()
            ctx.meta["gla.program"], ctx.meta["gla.name"] = program, name
            ctx.meta["gla.knobs"] = [knob for knob in knobs(program) if knob.kind in self.kinds]
            ctx.meta["gla.options"] = [knob.option() for knob in ctx.meta["gla.knobs"] if knob.flag not in taken]
        return super().parse_args(ctx, args)

    def _own_flags(self) -> set[str]:
        return {"--help"} | {opt for param in self.params for opt in param.opts}

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), *ctx.meta.get("gla.options", ())]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = ctx.meta.get("gla.options", ())
        rows = [row for option in own if (row := option.get_help_record(ctx)) is not None]
        if rows:
            with formatter.section(f"Flags of {ctx.meta['gla.name']}"):
                formatter.write_dl(rows)
        hidden = [knob for knob in ctx.meta["gla.knobs"] if knob.flag in self._own_flags()]
        if hidden:
            with formatter.section("Given with --set NAME=VALUE, since the command has the flag"):
                formatter.write_dl([(knob.name, knob.help) for knob in hidden])
        rows = [
            row
            for param in super().get_params(ctx)
            if isinstance(param, click.Option) and (row := param.get_help_record(ctx)) is not None
        ]
        with formatter.section("Options"):
            formatter.write_dl(rows)

    def _program_name(self, args: list[str]) -> str | None:
        """The first argument that is no flag and no flag's value. What follows a flag of the program is its value."""
        options = {opt: param for param in self.params if isinstance(param, click.Option) for opt in param.opts}
        spare: str | None = None
        k = 0
        while k < len(args):
            arg = args[k]
            if arg == "--":
                return args[k + 1] if k + 1 < len(args) else spare
            if arg == "-" or not arg.startswith("-"):
                return arg
            if "=" not in arg:
                option = options.get(arg)
                if option is None and arg not in ("-h", "--help"):
                    spare = spare or (args[k + 1] if k + 1 < len(args) else None)
                    k += 1
                elif option is not None and not option.is_flag:
                    k += 1
            k += 1
        return spare if spare and spare.endswith(".gla") else None
