"""Plain tables of numbers as text. GLA0807: a line that is no row of numbers; the error names line, column and text.

Read: UTF-8 with or without a byte order mark, any line ends, separated by `,` `;` tabs or blanks (found from the first row).
Blank lines and lines that begin with `#` do not count, not for `skip` either. A table always has two axes, and is float64.
An empty field, a row of another length, a decimal comma or a quoted field is an error, never a guess.
Written: a header with the columns' names, then rows; numbers have the fewest digits that read back to the same bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

import numpy as np

from gla.errors import GlaFileError
from gla.lang.io.npy import storable
from gla.lang.io.paths import decode

Line = tuple[int, str]
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf|infinity|nan)", re.IGNORECASE)
_SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab", None: "blanks"}


def read_csv(data: bytes, name: object, skip: int = 0) -> np.ndarray:
    """The table as float64[rows, columns]. `skip`: how many lines to pass over, e.g. 1 for a header."""
    lines = [
        (number, line)
        for number, line in enumerate(re.split(r"\r\n|\n|\r", decode(data, name)), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if len(lines) < skip:
        raise GlaFileError("GLA0807", f"{name} has {len(lines)} lines, fewer than skip={skip} passes over")
    rows = lines[skip:]
    if not rows:
        if not lines:
            raise GlaFileError("GLA0807", f"{name} has no rows, so the number of columns is not known")
        return np.empty((0, len(_split(lines[-1][1], _separator(lines[-1][1])))))
    separator = _separator(rows[0][1])
    columns = len(_split(rows[0][1], separator))
    try:
        table = np.loadtxt([line for _, line in rows], delimiter=separator, comments=None, ndmin=2)
    except (ValueError, OverflowError):
        table = None
    if table is not None and table.shape == (len(rows), columns):
        return table
    return np.array([_row(line, separator, columns, rows[0][0], name, skip) for line in rows])


def _separator(line: str) -> str | None:
    return next((sign for sign in (";", "\t", ",") if sign in line.strip(" ")), None)


def _split(line: str, separator: str | None) -> list[str]:
    return [field.strip() for field in line.split(separator)]


def _row(line: Line, separator: str | None, columns: int, first: int, name: object, skip: int) -> list[float]:
    number, text = line
    fields = _split(text, separator)
    wrong = [k for k, field in enumerate(fields) if not _NUMBER.fullmatch(field)]
    if number == first and len(wrong) == len(fields) and not any(map(_DECIMAL_COMMA.fullmatch, fields)) and any(fields):
        raise GlaFileError(
            "GLA0807",
            f"{name} line {number} is not a row of numbers: {_short(text)}",
            help=f"if it is a header, pass over it: skip={skip + 1}",
        )
    if wrong:
        _refuse(fields[wrong[0]], f"{name} line {number}, column {wrong[0] + 1}", text, separator)
    if len(fields) != columns:
        raise GlaFileError(
            "GLA0807",
            f"{name} line {number} has {len(fields)} columns, line {first} has {columns}: {_short(text)}",
            notes=[f"columns are separated by {_SEPARATORS[separator]}"],
        )
    return [float(field) for field in fields]


def _refuse(field: str, where: str, text: str, separator: str | None) -> NoReturn:
    if not field:
        raise GlaFileError("GLA0807", f"{where} is empty: {_short(text)}", help="write nan where a value is missing")
    if _DECIMAL_COMMA.fullmatch(field):
        raise GlaFileError("GLA0807", f"{where} has a decimal comma: {field}", help=f"write a point: {field.replace(',', '.')}")
    raise GlaFileError(
        "GLA0807",
        f"{where} is not a number: {_short(field)}",
        notes=[f"columns are separated by {_SEPARATORS[separator]}"],
        help="take the quotes away" if field[0] in "\"'" else (),
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


# ---------------------------------------------------------------- writing


def csv_text(arrays: Mapping[str, np.ndarray], name: object) -> str:
    """Arrays side by side under a header. Each is a number, a column, or a table; all have the same number of rows."""
    columns: list[tuple[str, np.ndarray]] = []
    for key, array in arrays.items():
        columns.extend(_columns(key, storable(array), name))
    rows = {len(values) for _, values in columns}
    if len(rows) > 1:
        shapes = ", ".join(f"{key} {np.shape(array)}" for key, array in arrays.items())
        raise GlaFileError(
            "GLA0807", f"{name}: columns of different lengths do not make a table: {shapes}", help="write to a .npz instead"
        )
    head = ",".join(title for title, _ in columns)
    body = "\n".join(map(",".join, zip(*(_texts(values) for _, values in columns))))
    return f"{head}\n{body}\n" if body else f"{head}\n"


def _columns(key: str, array: np.ndarray, name: object) -> Iterator[tuple[str, np.ndarray]]:
    if array.ndim > 2:
        raise GlaFileError(
            "GLA0807",
            f"{name}: {key} has the shape {array.shape}; a table takes at most two axes",
            help="write to a .npz instead",
        )
    table = array.reshape(-1, 1) if array.ndim < 2 else array
    for k in range(table.shape[1]):
        title = key if array.ndim < 2 else f"{key}_{k}"
        column = table[:, k]
        if np.iscomplexobj(column):
            yield f"{title}_re", column.real
            yield f"{title}_im", column.imag
        else:
            yield title, column


def _texts(values: np.ndarray) -> Sequence[str]:
    if values.dtype.kind == "b":
        return [str(int(value)) for value in values]
    if values.dtype.kind == "f" and values.dtype != np.float64:
        return [str(value) for value in values]  # NumPy's shortest digits for that width
    return [repr(value) for value in values.tolist()]
