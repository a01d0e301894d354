"""CUDA C++ to machine code by NVRTC. Needs no GPU; loaded when the first kernel is compiled, not before.

Arithmetic is IEEE as written: no contraction, no fast division or square root, subnormals kept. A GPU newer than NVRTC gets
PTX of the newest architecture that NVRTC knows, which the driver finishes. Refuses source that does not compile, with
NVRTC's log and the line.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from gla.device.cuda import locate
from gla.device.cuda.nvrtc_library import COMPILATION, Nvrtc, Status
from gla.errors import DeviceError, InternalError, Label, Span

OPTIONS = ("-std=c++17", "--fmad=false", "--prec-div=true", "--prec-sqrt=true", "--ftz=false", "--disable-warnings")


@cache
def _library() -> tuple[Nvrtc, tuple[int, int], str]:
    """(the library's functions, version, folder). The compiler's builtins must lie in its folder and be of its version."""
    found = locate.load("nvrtc")
    nvrtc = Nvrtc(found.library)
    status, major, minor = nvrtc.version()
    if status:
        raise DeviceError("GLA0553", f"nvrtcVersion failed: {status.name}", help=locate.install())
    folder = Path(found.path).resolve().parent
    if folder.is_absolute() and Path(found.path).exists():
        _check_builtins(folder, major, minor)
    return nvrtc, (major, minor), str(folder)


def _check_builtins(folder: Path, major: int, minor: int) -> None:
    """Load the builtins that lie beside the compiler, so that no other version's are found first."""
    there = sorted(p for p in folder.iterdir() if "nvrtc-builtins" in p.name and ".alt" not in p.name)
    ours = [p for p in there if f"{major}.{minor}" in p.name or f"_{major}{minor}" in p.name]
    if not ours:
        raise DeviceError(
            "GLA0556",
            f"NVRTC {major}.{minor} in {folder} has no builtins of its version beside it",
            notes=["found there: " + (", ".join(p.name for p in there) or "none")],
            help=f"install compiler and builtins together: {locate.install()}",
        )
    ctypes.CDLL(str(ours[0]))


def is_loaded() -> bool:
    return _library.cache_info().currsize > 0


def load() -> None:
    """Load the compiler; what goes wrong is said when something is compiled."""
    with suppress(DeviceError, OSError):
        _library()


def version() -> tuple[int, int]:
    """NVRTC's version. Raises DeviceError when it is missing."""
    return _library()[1]


def folder() -> str:
    """Where NVRTC and its builtins lie."""
    return _library()[2]


@cache
def architectures() -> tuple[int, ...]:
    """What NVRTC compiles for, ascending: 75, 80, 90, ..."""
    status, found = _library()[0].architectures()
    if status:
        raise DeviceError("GLA0553", f"nvrtcGetSupportedArchs failed: {status.name}", help=locate.install())
    return tuple(sorted(found))


def target(architecture: str) -> str:
    """The --gpu-architecture for a GPU "sm_90": itself, or "compute_NN" of the newest that NVRTC knows."""
    wanted, known = int(architecture.removeprefix("sm_")), architectures()
    if wanted in known:
        return architecture
    older = [a for a in known if a < wanted]
    if not older:
        raise DeviceError(
            "GLA0557",
            f"NVRTC {'.'.join(map(str, version()))} does not compile for {architecture}; its oldest is sm_{known[0]}",
            help='pip install "gla[cuda12]" knows older GPUs than "gla[cuda13]"; compute capability 7.5 is the least that gla runs on',
        )
    return f"compute_{older[-1]}"


@cache
def identity(architecture: str) -> str:
    """What an image depends on beside its source: the compiler, the GPU, the flags. The compiler counts by its file, so that
    a kept image is found without loading it."""
    file = locate.wheel_file("nvrtc") or Path(locate.load("nvrtc").path)
    if file.exists():
        file = file.resolve()
        compiler = f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}"
    else:
        compiler = ".".join(map(str, version()))
    return f"nvrtc {compiler} {architecture} {' '.join(OPTIONS)}"


def compile(source: str, name: str, architecture: str) -> bytes:
    """CUBIN (or PTX, see `target`) of one translation unit for "sm_NN". Raises InternalError with NVRTC's log."""
    nvrtc = _library()[0]
    chosen = target(architecture)
    options = [*OPTIONS, f"--gpu-architecture={chosen}", *_includes(source)]
    status, program = nvrtc.create(source.encode(), f"{name}.cu".encode())
    if status:
        raise DeviceError("GLA0553", f"nvrtcCreateProgram failed: {status.name}", help=locate.install())
    try:
        status = nvrtc.compile(program, [option.encode() for option in options])
        if status:
            raise _failure(status, _text(nvrtc, program, "ProgramLog").decode(errors="replace"), source, name, chosen)
        return _text(nvrtc, program, "CUBIN" if chosen.startswith("sm_") else "PTX")
    finally:
        nvrtc.destroy(program)


def _text(nvrtc: Nvrtc, program: Any, what: str) -> bytes:
    """A result of a program: its log, CUBIN or PTX."""
    status, data = nvrtc.get(program, what)
    if status:
        raise DeviceError("GLA0553", f"nvrtcGet{what} failed: {status.name}", help=locate.install())
    return data


def _includes(source: str) -> list[str]:
    """Where CUDA's headers lie, for a user's kernel that includes some; generated kernels include nothing."""
    if "#include" not in source or importlib.util.find_spec("cuda.pathfinder") is None:
        return []
    from cuda import pathfinder

    found = pathfinder.find_nvidia_header_directory("cudart")
    return [f"--include-path={found}"] if found else []


def _failure(status: Status, log: str, source: str, name: str, chosen: str) -> DeviceError | InternalError:
    log = log.strip("\0 \n")
    place = re.search(r"\((\d+)\): (?:catastrophic )?error: *(.*)", log)
    if status.name != COMPILATION or place is None:
        return DeviceError(
            "GLA0557",
            f"NVRTC {'.'.join(map(str, version()))} could not compile '{name}' for {chosen}: {status.name}",
            notes=log.splitlines()[:20],
            help=locate.install(),
        )
    line = int(place[1])
    help = "a generated kernel that does not compile is a fault of gla: please report it with this message"
    if "could not open source file" in log or "cannot open source file" in log:
        help = f"headers come in the wheel nvidia-cuda-runtime-cu12 (or nvidia-cuda-runtime with CUDA 13): {locate.install()}"
    return InternalError(
        "GLA0558",
        f"kernel '{name}' does not compile for {chosen}: {place[2]}",
        labels=[Label(Span(f"{name}.cu", line), place[2])],
        notes=log.splitlines()[:20],
        help=help,
        source=source,
    )
