"""Makes gla/__init__.pyi from the public names and the op table: `python -m tests.stub` writes it, tests/array/test_stub.py compares."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType

import gla
from gla.array import export
from gla.array.namespace import _ALIASES
from gla.dtypes import DType
from gla.ir.ops.table import ELEMENTWISE

PATH = Path(gla.__file__).with_suffix(".pyi")
HEAD = '''# ruff: noqa
# fmt: off
"""Types of the public names. Made from the op table by `python -m tests.stub`: do not edit."""

from builtins import bool as _bool
from collections.abc import Sequence
from typing import Any

import numpy as np

{imports}
from gla.array.sets import UniqueAll, UniqueCounts, UniqueInverse

_Value = Array | np.ndarray[Any, Any] | np.generic | complex | Sequence[Any]
_Dtype = DType | str | type | np.dtype[Any]
_Axis = int | Sequence[int] | None

'''
ANNOTATIONS = {
    "Operand": "_Value", "Axis": "_Axis", "DType | None": "_Dtype | None", "Node": "Array", "Sequence[Operand]": "Sequence[_Value]",
    "bool": "_bool", "bool | None": "_bool | None", "dtypes.DType": "DType",
}  # fmt: skip
BY_NAME = {
    "x": "_Value",
    "dtype": "_Dtype | None",
    "shape": "int | Sequence[int]",
    "shape_": "int | Sequence[int]",
    "indices": "_Value",
}
"""Of parameters that say Any."""
RESULTS = {
    "meshgrid": "list[Array]",
    "broadcast_arrays": "list[Array]",
    "unstack": "tuple[Array, ...]",
    "finfo": "Any",
    "iinfo": "Any",
}
ARITIES = {
    "positive": 1, "square": 1, "reciprocal": 1, "angle": 1, "where": 3, "power": 2, "real": 1, "imag": 1, "conj": 1,
}  # fmt: skip


def text() -> str:
    """The whole stub."""
    lines = [*_constants()]
    for name, value in export.NAMES.items():
        if isinstance(value, DType):
            lines.append(f"{name}: DType")
        elif isinstance(value, str):
            lines.append(f"{name}: str")
        elif callable(value) and inspect.isroutine(value):
            lines.append(f"def {name}({_parameters(name, value)}) -> {_result(name, value)}: ...")
        else:
            lines.append(f"{name}: Any")
    return HEAD.format(imports="\n".join(_imports())) + "\n".join(lines) + "\n"


def _others() -> list[str]:
    return sorted(set(gla.__all__) - set(export.NAMES))


def _imports() -> list[str]:
    found: dict[str, list[str]] = {}
    for name in _others():
        value = getattr(gla, name)
        if isinstance(value, ModuleType):
            found.setdefault(value.__name__.rpartition(".")[0], []).append(f"{name} as {name}")
        elif hasattr(value, "__qualname__"):
            found.setdefault(value.__module__, []).append(f"{value.__qualname__} as {name}")
    return [f"from {module} import {', '.join(names)}" for module, names in sorted(found.items())]


def _constants() -> list[str]:
    values = {name: getattr(gla, name) for name in _others()}
    return [
        f"{name}: {'None' if value is None else type(value).__name__}"
        for name, value in values.items()
        if not isinstance(value, ModuleType) and not hasattr(value, "__qualname__")
    ]


def _parameters(name: str, value: object) -> str:
    plain = _ALIASES.get(name, name)
    signature = inspect.signature(value)  # type: ignore[arg-type]
    if "operands" in signature.parameters and signature.parameters["operands"].kind is inspect.Parameter.VAR_POSITIONAL:
        row = ELEMENTWISE.get(plain)
        arity = row.arity if row is not None else ARITIES[plain]
        return ", ".join([*(f"{x}: _Value" for x in "xyz"[:arity]), "/", "*", "dtype: _Dtype | None = None"])
    parts: list[str] = []
    last = None
    for p in signature.parameters.values():
        if last is inspect.Parameter.POSITIONAL_ONLY and p.kind is not last:
            parts.append("/")
        if p.kind is inspect.Parameter.KEYWORD_ONLY and last not in (p.kind, inspect.Parameter.VAR_POSITIONAL):
            parts.append("*")
        star = "*" if p.kind is inspect.Parameter.VAR_POSITIONAL else ""
        default = "" if p.default is p.empty else f" = {p.default!r}"
        parts.append(f"{star}{p.name}: {_annotation(p)}{default}")
        last = p.kind
    if last is inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    if _takes_device(value) and "device" not in signature.parameters:
        parts += [*(() if "*" in parts else ("*",)), "device: str | None = None"]
    return ", ".join(parts)


def _takes_device(value: object) -> bool:
    """Creation functions show the parameters of what they wrap, and take a device besides."""
    own = inspect.signature(value.__wrapped__, follow_wrapped=False) if hasattr(value, "__wrapped__") else None
    return own is not None and "device" in own.parameters


def _annotation(p: inspect.Parameter) -> str:
    given = str(p.annotation)
    if given == "Any":
        return BY_NAME.get(p.name, "Any")
    return ANNOTATIONS.get(given, given)


def _result(name: str, value: object) -> str:
    given = str(inspect.signature(value).return_annotation)  # type: ignore[arg-type]
    plain = RESULTS.get(name, "Array" if given in ("Any", "Node") else ANNOTATIONS.get(given, given))
    return plain if plain in ("Array", "_bool", "DType") or plain.startswith("Unique") or "[" in plain else "Any"


if __name__ == "__main__":
    PATH.write_text(text())
