"""Paths that were given by a user: what is wrong with one, which file was meant, how a file is written whole.

Errors are GlaFileError: GLA0801 missing, GLA0802 not a file, GLA0804 unreadable, GLA0809 cannot be written, GLA0810 a folder
for outputs that cannot be used, GLA0812 bytes that are no text. Writing goes beside the file, is flushed to the disk and
renamed, so that under the final name stands the old file or the whole new one, whatever happens in between.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NoReturn

from gla.errors import GlaFileError

_serial = itertools.count()
# Which suffixes may be followed by `:key`; a Windows drive or a name with a colon is no key.
_PLACE = re.compile(r"(?P<path>.+\.(?:npz|npy|csv|tsv|txt|h5|hdf5)):(?P<key>[^/\\:]*)", re.IGNORECASE)


def split_place(text: str) -> tuple[str, str | None]:
    """`f.npz:pos` -> ("f.npz", "pos"), `f.npy` -> ("f.npy", None). A file that has the whole text as its name wins."""
    found = _PLACE.fullmatch(text)
    if found is None or os.path.exists(text):
        return text, None
    return found["path"], found["key"]


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """`names`, the one that looks most like `name` first."""
    from difflib import SequenceMatcher

    def distance(other: str) -> tuple[float, str]:
        return -SequenceMatcher(None, name.lower(), other.lower()).ratio(), other

    return sorted(names, key=distance)


def alike(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name of `names` that `name` was probably meant to be, or None."""
    from difflib import get_close_matches

    names = list(names)
    if found := get_close_matches(name, names, 1, cutoff):
        return found[0]
    folded = {other.lower(): other for other in names}
    found = get_close_matches(name.lower(), folded, 1, cutoff)
    return folded[found[0]] if found else None


# ---------------------------------------------------------------- reading


def readable(given: str | os.PathLike[str], what: str = "file") -> Path:
    """The path of a file that can be opened for reading. `what`: how errors call it, e.g. "program", "input 'x'"."""
    path = Path(given)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise missing(path, what) from None
    except NotADirectoryError:
        raise GlaFileError("GLA0801", f"{what} {path}: {_first_file(path)} is a file, not a folder") from None
    except (OSError, ValueError) as error:
        cannot_read(path, what, error)
    if stat.S_ISDIR(mode):
        raise GlaFileError("GLA0802", f"{what} {path} is a folder", help=_inside(path))
    if not os.access(path, os.R_OK):
        cannot_read(path, what, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    return path


def missing(path: Path, what: str) -> GlaFileError:
    """The error for a file that is not there, with the file that was probably meant."""
    folder = path.parent
    if not folder.is_dir():
        while not folder.parent.is_dir():
            folder = folder.parent
        return GlaFileError("GLA0801", f"{what} {path} does not exist: there is no folder {folder}", help=_like(folder))
    return GlaFileError("GLA0801", f"{what} {path} does not exist", help=_like(path))


def _like(path: Path) -> tuple[str, ...]:
    try:
        meant = alike(path.name, (entry.name for entry in os.scandir(path.parent)))
    except OSError:
        return ()
    return (f"did you mean {path.parent / meant}?",) if meant else ()


def _inside(folder: Path) -> tuple[str, ...]:
    try:
        programs = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(".gla"))
    except OSError:
        return ()
    return (f"name a file in it: {folder / programs[0]}",) if programs else ()


def _first_file(path: Path) -> Path:
    return next((parent for parent in path.parents if parent.is_file()), path.parent)


def cannot_read(path: object, what: str, error: Exception) -> NoReturn:
    """Raises the error for a file that the system will not give."""
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, PermissionError):
        reason = "permission denied"
    raise GlaFileError("GLA0804", f"{what} {path} cannot be read: {reason}") from None


def read_bytes(given: str | os.PathLike[str], what: str = "file") -> bytes:
    """The bytes of a file."""
    path = readable(given, what)
    try:
        return path.read_bytes()
    except OSError as error:
        cannot_read(path, what, error)


def decode(data: bytes, name: object, what: str = "file") -> str:
    """Bytes as UTF-8 text without a byte order mark. What is binary or in another encoding is refused with the offset."""
    for mark, encoding in ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16")):
        if data.startswith(mark):
            raise GlaFileError("GLA0812", f"{what} {name} is {encoding} text (byte offset 0)", help="save it as UTF-8")
    if (zero := data.find(b"\0")) >= 0:
        raise GlaFileError("GLA0812", f"{what} {name} is binary: a zero byte at byte offset {zero}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # utf-8-sig counts from behind the mark
        offset = error.start + (3 if data.startswith(b"\xef\xbb\xbf") else 0)
        raise GlaFileError(
            "GLA0812",
            f"{what} {name} is not UTF-8 text: byte 0x{data[offset]:02x} at byte offset {offset}",
            help="save it as UTF-8",
        ) from None


# ---------------------------------------------------------------- writing


@contextmanager
def writing(given: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file that takes its name when the block ends well. Folders on the way are made. Raises GlaFileError GLA0809."""
    path = Path(os.path.realpath(given))
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not path.is_file():  # a device or pipe takes what comes and cannot be replaced
            with open(path, "wb", buffering=0) as stream:
                yield stream
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name[:100]}.{os.getpid()}.{next(_serial)}.part")
        try:
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except GlaFileError:
        raise
    except OSError as error:
        raise GlaFileError("GLA0809", f"{given} cannot be written: {_reason(error)}") from error


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a whole file, or leave what was there."""
    with writing(path) as file:
        file.write(data)


def check_folder(given: str | os.PathLike[str], flag: str = "--out") -> Path:
    """The folder for outputs, made if need be; refused before anything is computed when it cannot take files."""
    folder = Path(given)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".gla.{os.getpid()}.{next(_serial)}.part"
        with open(probe, "xb"):
            pass
        probe.unlink()
    except (FileExistsError, NotADirectoryError):
        raise GlaFileError("GLA0810", f"{flag} {folder}: {_first_of(folder)} is a file, not a folder") from None
    except OSError as error:
        raise GlaFileError("GLA0810", f"{flag} {folder} cannot take files: {_reason(error)}") from error
    return folder


def _first_of(folder: Path) -> Path:
    return folder if folder.is_file() else _first_file(folder)


def _reason(error: OSError) -> str:
    reasons = {errno.EACCES: "permission denied", errno.EROFS: "the file system is read-only", errno.ENOSPC: "no space left"}
    return reasons.get(error.errno or 0) or (error.strerror or str(error)).lower()
