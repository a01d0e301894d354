"""NVRTC's functions by ctypes, as `cuda.bindings.nvrtc` gives them: each returns (status, values...).

The ten functions keep their signatures from CUDA 11 to 13. Importing the bindings' module for them took longer than compiling
a kernel does, since it brings a finder of libraries along. Called by nvrtc.py alone.
"""

from __future__ import annotations

import ctypes
from typing import Any

COMPILATION = "NVRTC_ERROR_COMPILATION"
_INT, _TEXT, _HANDLE = ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p


class Status(int):
    """0, or the number of an error with its `name`."""

    name = ""


class Nvrtc:
    """The functions of a loaded library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.nvrtcGetErrorString.restype = _TEXT

    def _call(self, name: str, *arguments: Any) -> Status:
        status = Status(getattr(self._library, name)(*arguments))
        if status:
            status.name = self._library.nvrtcGetErrorString(status).decode()
        return status

    def version(self) -> tuple[Status, int, int]:
        major, minor = _INT(), _INT()
        return self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor)), major.value, minor.value

    def architectures(self) -> tuple[Status, list[int]]:
        """Every NN of a "compute_NN" that it knows."""
        count = _INT()
        status = self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        found = (_INT * count.value)()
        return status or self._call("nvrtcGetSupportedArchs", found), list(found)

    def create(self, source: bytes, name: bytes) -> tuple[Status, Any]:
        """A program of one source without headers."""
        program = _HANDLE()
        return self._call("nvrtcCreateProgram", ctypes.byref(program), source, name, 0, None, None), program

    def compile(self, program: Any, options: list[bytes]) -> Status:
        return self._call("nvrtcCompileProgram", program, len(options), (_TEXT * len(options))(*options))

    def destroy(self, program: Any) -> Status:
        return self._call("nvrtcDestroyProgram", ctypes.byref(program))

    def get(self, program: Any, what: str) -> tuple[Status, bytes]:
        """A result: "ProgramLog", "CUBIN" or "PTX"."""
        size = ctypes.c_size_t()
        status = self._call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        data = ctypes.create_string_buffer(size.value)
        return status or self._call(f"nvrtcGet{what}", program, data), data.raw
