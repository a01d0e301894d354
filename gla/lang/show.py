"""Values as text: what `print`, holes of strings and messages show.

Floats are written with the fewest digits that read back to the same bits; arrays as NumPy writes them; bools as in the
language. A format spec is Python's; for an array it formats each element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gla.errors import DtypeError
from gla.ir.node import Node
from gla.lang.values import Record, Text, Value


def show(value: Any) -> str:
    """A NumPy array or scalar."""
    array = np.asarray(value)
    if array.ndim:
        return np.array2string(_plain(array), threshold=200)
    return number_text(array[()])


def _plain(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype.kind == "V" or array.dtype.name == "bfloat16" else array


def number_text(value: Any) -> str:
    """The shortest text of a number that reads back exactly."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (complex, np.complexfloating)):
        return str(value).strip("()")
    if np.asarray(value).dtype.name == "bfloat16":
        value = np.float32(value)
    if isinstance(value, (float, np.floating)):
        return _float_text(value)
    return str(value)


def _float_text(value: Any) -> str:
    number = float(value)
    if not np.isfinite(number):
        return str(number)
    if number == 0 or 1e-4 <= abs(number) < 1e16:
        return str(np.format_float_positional(value, unique=True, trim="0"))
    return str(np.format_float_scientific(value, unique=True, trim="-", exp_digits=2))


def formatted(value: Any, spec: str) -> str:
    """A value under a format spec of Python's."""
    array = np.asarray(value)
    if not spec:
        return show(array)
    if array.ndim:
        return np.array2string(_plain(array), threshold=200, formatter={"all": lambda x: formatted(x, spec)})
    number = array[()].item() if array.dtype.name != "bfloat16" else float(array[()])
    if isinstance(number, float) and number.is_integer() and spec[-1] in "dxXbo":
        number = int(number)
    try:
        return format(number, spec)
    except ValueError as error:
        raise DtypeError(
            "GLA0249",
            f"the format `{spec}` does not fit {number_text(array[()])}: {error}",
            help="write a format as Python's: {x:.3f}, {k:06}",
        ) from None


def format_parts(parts: Sequence[str | tuple[Value, str]], values: Sequence[Any]) -> str:
    """The text with its holes filled; `values`: those of the holes' nodes, in order."""
    rest = iter(values)
    return "".join(part if isinstance(part, str) else value_text(part[0], part[1], rest) for part in parts)


def value_text(value: Value, spec: str, values: Iterator[Any]) -> str:
    """A value of the language as text; its nodes' values are taken from `values`."""
    match value:
        case Node():
            found = next(values, None)
            return "?" if found is None else formatted(found, spec)
        case None:
            return "nothing"
        case tuple():
            return f"({', '.join(value_text(v, spec, values) for v in value)}{',' if len(value) == 1 else ''})"
        case Record():
            return f"{value.struct.name}({', '.join(f'{k} = {value_text(v, spec, values)}' for k, v in value.fields.items())})"
        case Text():
            return format_parts(value.parts, list(values)) if value.plain is None else value.plain
    from gla.lang.values import kind_of

    return kind_of(value)
