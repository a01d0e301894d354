"""Files of arrays by the ending of their name: what `load`, `save`, `output` and `--x file` call.

GLA0803: HDF5, which gla does not read yet; GLA0808: an ending that is no format of gla's.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gla.errors import GlaFileError
from gla.lang.io.csv import csv_text, read_csv
from gla.lang.io.npy import MAGIC, length, read_npy, write_npy
from gla.lang.io.npz import read_npz, write_npz
from gla.lang.io.paths import cannot_read, read_bytes, readable, writing

TABLES = (".csv", ".tsv", ".txt")
HDF5 = (".h5", ".hdf5")
KNOWN = (".npy", ".npz", *TABLES)


def read_array(path: str | os.PathLike[str], key: str | None = None, skip: int = 0, what: str = "file") -> np.ndarray:
    """The array in a file, native and row-major.

    `key` names an array of a .npz (not needed when there is one); `skip` passes over lines of a table; `-` reads a .npy or
    .npz from standard input. Tables are float64[rows, columns]. Raises GlaFileError.
    """
    if os.fspath(path) == "-":
        return _from_stdin(key)
    ending = _ending(path)
    if ending in HDF5:
        raise _hdf5(path)
    readable(path, what)
    if ending not in KNOWN:
        raise _unknown(path)
    if ending != ".npz" and key is not None:
        raise GlaFileError("GLA0811", f"{path} holds one array, so it has no {key!r}", help=f"give {path} alone")
    if ending not in TABLES and skip:
        raise GlaFileError("GLA0808", f"skip={skip} is for tables; {path} is a {ending} file")
    if ending in TABLES:
        return read_csv(read_bytes(path, what), path, skip)
    try:
        with open(path, "rb") as stream:
            return read_npy(stream, path, length(stream)) if ending == ".npy" else read_npz(stream, path, key)
    except GlaFileError:
        raise
    except OSError as error:
        cannot_read(path, what, error)


def _from_stdin(key: str | None) -> np.ndarray:
    data = sys.stdin.buffer.read()
    if data.startswith(MAGIC):
        return read_npy(io.BytesIO(data), "<stdin>", len(data))
    return read_npz(io.BytesIO(data), "<stdin>", key)


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> Path:
    """Write named arrays: whole, or not at all. A .npy takes one array, a table equally long columns. Gives the path.

    Raises GlaFileError; what stood under the name before is then still there.
    """
    check_ending(path, len(arrays))
    values = {key: np.asarray(value) for key, value in arrays.items()}
    ending = _ending(path)
    text = csv_text(values, path).encode() if ending in TABLES else b""
    with writing(path) as file:
        if ending == ".npz":
            write_npz(file, values)
        elif ending == ".npy":
            write_npy(file, next(iter(values.values())))
        else:
            file.write(text)
    return Path(path)


def check_ending(path: str | os.PathLike[str], count: int = 1) -> None:
    """Refuse a name that `count` arrays cannot be written under: before anything is computed."""
    ending = _ending(path)
    if ending in HDF5:
        raise _hdf5(path)
    if ending not in KNOWN:
        raise _unknown(path)
    if ending == ".npy" and count != 1:
        raise GlaFileError("GLA0808", f"{path}: a .npy file takes one array, not {count}", help="write to a .npz instead")


def _ending(path: str | os.PathLike[str]) -> str:
    return os.path.splitext(os.fspath(path))[1].lower()


def _hdf5(path: object) -> GlaFileError:
    return GlaFileError("GLA0803", f"{path}: gla does not read or write HDF5 yet", help="use a .npz (numpy.savez) instead")


def _unknown(path: object) -> GlaFileError:
    return GlaFileError(
        "GLA0808",
        f"{path}: the ending {_ending(str(path)) or '(none)'} is no format that gla knows",
        help="use .npy (one array), .npz (named arrays) or .csv (a table)",
    )
