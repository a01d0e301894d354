"""Compiled kernels on disk, for later processes. A miss is always possible and never an error.

A file is named by the digest of everything that its contents depend on, and holds a digest of its contents, checked when it
is read. It is written beside its place, synced and renamed, so that any number of processes may use one folder. The folder
is kept under `LIMIT` bytes: the files that were not read for the longest time go first.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import threading
from pathlib import Path

from gla.config import environment

log = logging.getLogger("gla.cache")

CODEGEN = 1  # changes when images of equal source would differ
LIMIT = 256 << 20
_MAGIC = b"gla image 1\n"
_serial = itertools.count()


def image_key(compiler: str, name: str, source: str) -> str:
    """The name under which an image is kept."""
    digest = hashlib.sha256()
    for part in (str(CODEGEN), compiler, name, source):
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

    def _path(self, key: str) -> Path:
        return self.folder / "kernels" / key[:2] / key

    def read(self, key: str) -> bytes | None:
        """The image, or None when there is none or it is damaged."""
        path = self._path(key)
        try:
            data = path.read_bytes()
            image = data[len(_MAGIC) + 32 :]
            if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : len(_MAGIC) + 32] != hashlib.sha256(image).digest():
                path.unlink(missing_ok=True)
                return None
            os.utime(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(error)
            return None
        self.hits += 1
        return image

    def write(self, key: str, image: bytes) -> None:
        """Keep the image, if the folder can be written."""
        path = self._path(key)
        temporary = path.with_name(f".{key[:16]}.{os.getpid()}.{next(_serial)}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with open(temporary, "xb") as file:
                    file.write(_MAGIC + hashlib.sha256(image).digest() + image)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            self._bound(len(image))
        except OSError as error:
            self._warn(error)

    def _bound(self, nbytes: int) -> None:
        """Look at the folder's size now and then: at the first write, and after every sixteenth of the limit."""
        with self._lock:
            first, self._written = self._written == 0, self._written + nbytes
            if not first and self._written < self.limit // 16:
                return
            self._written = 1
        files = []
        for path in (self.folder / "kernels").glob("*/*"):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            files.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.limit:
                break
            path.unlink(missing_ok=True)
            total -= size

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            log.warning("kernels are not kept in %s: %s", self.folder, error)
