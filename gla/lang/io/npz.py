"""Several named arrays in one zip, NumPy's .npz. GLA0805: not such a file; GLA0811: the wanted array is not in it, or which
one is wanted is not said."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from typing import BinaryIO

import numpy as np

from gla.errors import GlaFileError
from gla.lang.io.npy import read_npy, write_npy
from gla.lang.io.paths import nearest

LISTED = 20


def read_npz(stream: BinaryIO, name: object, key: str | None = None) -> np.ndarray:
    """The array called `key`; without a key the only one there is."""
    try:
        with zipfile.ZipFile(stream) as archive:
            members = {
                info.filename.removesuffix(".npy"): info for info in archive.infolist() if info.filename.endswith(".npy")
            }
            info = members[_chosen(list(members), name, key)]
            with archive.open(info) as member:
                array = read_npy(member, f"{name}:{info.filename.removesuffix('.npy')}", info.file_size)  # type: ignore[arg-type]
                member.read()  # to the end, where the checksum is compared
            return array
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        if isinstance(error, GlaFileError):
            raise
        raise GlaFileError("GLA0805", f"{name} is not a whole .npz file: {error or 'it ends too early'}") from None


def _chosen(keys: list[str], name: object, key: str | None) -> str:
    if not keys:
        raise GlaFileError("GLA0811", f"{name} holds no arrays")
    if key is None:
        if len(keys) == 1:
            return keys[0]
        raise GlaFileError(
            "GLA0811", f"{name} holds {len(keys)} arrays: {_list(keys)}", help=f"say which one: {name}:{keys[0]}"
        )
    if key in keys:
        return key
    near = nearest(key, keys)
    raise GlaFileError(
        "GLA0811", f"{name} has no array {key!r}; it holds {_list(near)}", help=f"did you mean {name}:{near[0]}?"
    )


def _list(keys: list[str]) -> str:
    more = f" and {len(keys) - LISTED} more" if len(keys) > LISTED else ""
    return ", ".join(keys[:LISTED]) + more


def write_npz(stream: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    """Write named arrays; equal arrays give equal bytes (no times are stored)."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for key, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{key}.npy"), "w", force_zip64=True) as member:
                write_npy(member, array)  # type: ignore[arg-type]
