"""Finds NVIDIA's libraries: through `cuda.pathfinder` (wheels, conda, toolkit) when it is there, else by the loader's names.
NVRTC in a wheel is found by its file.

Called by nvrtc.py, cublas.py, bindings.py and probe.py. Raises DeviceError that names the library, where it was looked for
and what to install.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gla.errors import DeviceError

# files that the system's loader is asked for, newest first
_LINUX = {
    "nvrtc": ("libnvrtc.so.13", "libnvrtc.so.12"),
    "cublas": ("libcublas.so.13", "libcublas.so.12"),
    "cuda": ("libcuda.so.1",),
}
_WINDOWS = {
    "nvrtc": ("nvrtc64_130_0.dll", "nvrtc64_120_0.dll"),
    "cublas": ("cublas64_13.dll", "cublas64_12.dll"),
    "cuda": ("nvcuda.dll",),
}
NAMES = _WINDOWS if os.name == "nt" else _LINUX
OLDEST_DRIVER = 12040


@dataclass(frozen=True, slots=True)
class Library:
    """A loaded library: its short name, the file it came from (or the loader's name), and the handle for ctypes."""

    name: str
    path: str
    library: ctypes.CDLL


def load(name: str) -> Library:
    """The library "nvrtc", "cublas" or "cuda" (the driver). Loaded once; a failure is looked at again on the next call."""
    return _load(name)


@cache
def _load(name: str) -> Library:
    looked: list[str] = []
    if name == "nvrtc" and (
        wheel := wheel_file(name)
    ):  # the finder, which would find the same, takes longer than a compilation
        return Library(name, str(wheel), ctypes.CDLL(str(wheel), mode=ctypes.RTLD_GLOBAL))
    if name != "cuda" and (path := _pathfinder(name, looked)):
        return Library(name, path, ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL))
    for file in NAMES[name]:
        try:
            library = ctypes.CDLL(file, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            looked.append(f"the system's loader: {file}")
            continue
        return Library(name, _file_of(library) or file, library)
    raise missing(name, looked)


def _pathfinder(name: str, looked: list[str]) -> str | None:
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.pathfinder") is None:
        looked.append("cuda.pathfinder is not installed, so Python wheels were not searched")
        return None
    from cuda import pathfinder

    try:
        return pathfinder.load_nvidia_dynamic_lib(name).abs_path
    except pathfinder.DynamicLibNotFoundError as error:
        looked.append("cuda.pathfinder: " + " ".join(str(error).split())[:400])
        return None


def wheel_file(name: str) -> Path | None:
    """The library's file in an NVIDIA wheel, without loading anything; None when it came in another way."""
    found = importlib.util.find_spec("nvidia")
    for root in (found.submodule_search_locations or ()) if found else ():
        for folder in (f"cuda_{name}", name, "cu13"):
            for place in ("lib", "bin", "bin/x86_64"):
                for file in NAMES[name]:
                    if (path := Path(root) / folder / place / file).exists():
                        return path
    return None


def _file_of(library: ctypes.CDLL) -> str | None:
    """The file that a library was loaded from, where the platform tells."""
    maps, wanted = Path("/proc/self/maps"), Path(library._name).name
    if not maps.exists():
        return None
    paths = {line.split(maxsplit=5)[-1].strip() for line in maps.read_text(errors="replace").splitlines() if wanted in line}
    return min(paths, default=None)


def missing(name: str, looked: list[str]) -> DeviceError:
    """The error for a library that is not there."""
    if name == "cuda":
        return DeviceError(
            "GLA0550",
            f"there is no NVIDIA driver: {NAMES['cuda'][0]} cannot be loaded",
            notes=looked,
            help="install the NVIDIA driver (12.4 or later), or use GLA_DEVICE=host",
        )
    return DeviceError(
        "GLA0555",
        f"lib{name}, which the device 'cuda' needs, cannot be loaded",
        notes=[f"looked in {place}" for place in looked],
        help=install(),
    )


def driver_version() -> int | None:
    """CUDA version of the driver, e.g. 12040, or None where there is no driver."""
    try:
        library = load("cuda").library
    except DeviceError:
        return None
    version = ctypes.c_int()
    return version.value if library.cuDriverGetVersion(ctypes.byref(version)) == 0 else None


def extra() -> str:
    """The extra of gla whose libraries suit the driver."""
    return "cuda13" if (driver_version() or 0) >= 13000 else "cuda12"


def install() -> str:
    return f'pip install "gla[{extra()}]"'


def dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"
