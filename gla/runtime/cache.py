"""Compiled kernels on disk, for later processes. A miss is always possible and never an error.

A file is named by the digest of everything that its contents depend on: source, compiler with version and flags, and gla's own
code generator. It says that name inside, with a digest of its contents; both are checked when it is read. It is written beside
its place, synced and renamed, so that any number of processes may use one folder; no lock is ever held, no file is mapped.
Each format has a folder of its own. The folder is kept under `LIMIT` bytes: what was not read for the longest time goes first.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from gla.config import environment

FORMAT = 2  # of the files
LIMIT = 256 << 20
STALE = 3600  # seconds after which a temporary file was left by a process that is gone
_MAGIC = b"gla image 2\n"
_HEAD = len(_MAGIC) + 64  # magic, digest that names the file, digest of the image
_serial = itertools.count()


@cache
def generator() -> str:
    """What stands for gla's own part in an image: sizes and times of the code generator's files."""
    root, parts = Path(__file__).resolve().parent.parent, []
    with suppress(OSError):
        for folder in ("codegen", "ir/ops"):
            for entry in sorted(os.scandir(root / folder), key=lambda e: e.name):
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    parts.append(f"{entry.name} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(parts)


def image_key(compiler: str, name: str, source: str) -> str:
    """The name under which an image is kept."""
    digest = hashlib.sha256()
    for part in (generator(), compiler, name, source):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def default_folder() -> Path:
    """GLA_CACHE_DIR, or the user's cache folder."""
    given = environment().cache_dir
    if given:
        return Path(given)
    from platformdirs import user_cache_path

    return user_cache_path("gla")


class ImageCache:
    """Images in `folder`; None: the default one, looked up at first use."""

    def __init__(self, folder: Path | None = None, limit: int = LIMIT) -> None:
        self._given, self.limit = folder, limit
        self.hits = 0
        self._warned = False
        self._written = 0
        self._lock = threading.Lock()

    @property
    def folder(self) -> Path:
        return self._given if self._given is not None else default_folder()

    @property
    def _images(self) -> Path:
        return self.folder / f"kernels-{FORMAT}"

    def _path(self, key: str) -> Path:
        return self._images / key[:2] / key

    def get(self, compiler: str, name: str, source: str, make: Callable[[], bytes]) -> bytes:
        """The image of a source text, read or made."""
        key = image_key(compiler, name, source)
        image = self.read(key)
        if image is None:
            image = make()
            self.write(key, image)
        return image

    def read(self, key: str) -> bytes | None:
        """The image, or None when there is none, it is damaged, or it cannot be read."""
        try:
            path = self._path(key)
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(error)
            return None
        image = data[_HEAD:]
        if data[:_HEAD] != _head(key, image):
            with suppress(OSError):
                path.unlink(missing_ok=True)
            return None
        with suppress(OSError):  # a folder that can be read and not written
            os.utime(path)
        self.hits += 1
        return image

    def write(self, key: str, image: bytes, *, durable: bool = True) -> None:
        """Keep the image, if the folder can be written. `durable`: it is to be there after a power cut too; a file that was cut
        short is noticed either way."""
        try:
            path = self._path(key)
            temporary = path.with_name(f".{key[:16]}.{os.getpid()}.{next(_serial)}")
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with open(temporary, "xb") as file:
                    file.write(_head(key, image) + image)
                    if durable:
                        file.flush()
                        os.fsync(file.fileno())
                os.replace(temporary, path)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
                raise
            self._bound(len(image))
        except OSError as error:
            self._warn(error)

    def _bound(self, nbytes: int) -> None:
        """Look at the folder's size now and then: at a process's first write when nobody did within the hour, and after every
        sixteenth of the limit. Looking at ten thousand files takes some 50 ms."""
        stamp = self._images / "swept"
        with self._lock:
            first, self._written = self._written == 0, self._written + nbytes
            if self._written < self.limit // 16 and not (first and _older(stamp, time.time() - STALE)):
                return
            self._written = 1
        with suppress(OSError):
            stamp.touch()
        self._sweep()

    def _sweep(self) -> None:
        """Remove temporary files of processes that are gone, and what was not read for the longest time, down to the limit."""
        files, oldest_temporary = [], time.time() - STALE
        for entry in _files(self._images):
            with suppress(OSError):  # gone meanwhile, or out of reach
                status = entry.stat()
                if entry.name.startswith(".") and status.st_mtime < oldest_temporary:
                    os.unlink(entry)
                else:
                    files.append((status.st_mtime, status.st_size, entry.path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.limit:
                break
            with suppress(OSError):
                os.unlink(path)
            total -= size

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            import logging

            logging.getLogger("gla.cache").warning("kernels are not kept in %s: %s", self.folder, error)


def _head(key: str, image: bytes) -> bytes:
    return _MAGIC + bytes.fromhex(key) + hashlib.sha256(image).digest()


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    """The files two folders down."""
    with suppress(OSError), os.scandir(folder) as groups:
        for group in groups:
            with suppress(OSError), os.scandir(group) as entries:
                yield from entries


def _older(path: Path, moment: float) -> bool:
    """Whether the file was last touched before `moment`, or is not there."""
    try:
        return path.stat().st_mtime < moment
    except OSError:
        return True
