"""`gla doctor`: what is installed, which devices work, and what to do about those that do not.

Each line is OK, WARN (something is missing that this computer can do without) or FAIL (something that is there, or is always
needed, does not work). On every device that is present a graph of one kernel is compiled and replayed.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import click

from gla.cli import render
from gla.cli.exits import DEVICE, OK
from gla.cli.sources import colour_option
from gla.cli.version import version

STATES = {"OK": render.GREEN, "WARN": render.YELLOW, "FAIL": render.RED}


@dataclass(frozen=True, slots=True)
class Line:
    """One finding: `state` OK, WARN or FAIL, what was looked at, what was found, and the fix."""

    state: str
    name: str
    text: str
    fix: str = ""


@click.command("doctor", short_help="Say which devices and libraries are there.")
@click.option("--json", "as_json", is_flag=True, help="The findings as JSON.")
@colour_option
def command(as_json: bool) -> int:
    """Say which devices and libraries are there and whether they work; each line OK, WARN or FAIL with the fix."""
    lines: list[Line] = []
    for line in findings():
        lines.append(line)
        if not as_json:
            print(text_of(line), flush=True)
    if as_json:
        print(json.dumps([asdict(line) for line in lines], indent=2))
    return DEVICE if any(line.state == "FAIL" for line in lines) else OK


def text_of(line: Line) -> str:
    state = render.paint(f"{line.state:<4}", STATES[line.state], render.BOLD, stream=sys.stdout)
    return f"{state}  {line.name:<14} {line.text}" + (f"\n{'':21}fix: {line.fix}" if line.fix else "")


def findings() -> Iterator[Line]:
    """The report, line by line. Goes on whatever is broken."""
    yield Line("OK", "gla", f"{version()} with Python {platform.python_version()} on {platform.platform(terse=True)}")
    for package in ("numpy", "llvmlite", "lark", "ml_dtypes"):
        yield _package(package)
    yield from cuda()
    yield _cache()
    yield _memory()
    from gla.cli.devices import present

    for name in reversed(present()):
        yield looked(f"replay {name}", lambda name=name: replay(name))  # type: ignore[misc]


def looked(name: str, look: Callable[[], str]) -> Line:
    """What `look` finds, or FAIL with what it raised."""
    from gla.errors import GlaError

    try:
        return Line("OK", name, look())
    except GlaError as error:
        return Line("FAIL", name, error.diagnostic.message, "; ".join(error.diagnostic.help))
    except Exception as error:  # a report must go on whatever a broken installation does
        return Line("FAIL", name, f"{type(error).__name__}: {error}")


def _package(name: str) -> Line:
    try:
        return Line("OK", name, metadata.version(name))
    except metadata.PackageNotFoundError:
        return Line("FAIL", name, "not installed", f"pip install {name}")


# ---------------------------------------------------------------- CUDA


def cuda() -> Iterator[Line]:
    """The driver, bindings, devices, NVRTC, cuBLAS. What is missing fails a computer that has a GPU, and warns another."""
    from gla.cli.devices import gpu_present
    from gla.device.cuda.probe import probe

    gpu = gpu_present()
    if not gpu:
        yield Line(
            "WARN",
            "GPU",
            "this computer shows no NVIDIA GPU; programs run on the CPU",
            "none needed, unless there should be one",
        )
    for found in probe():
        state = "OK" if found.ok else "FAIL" if gpu else "WARN"
        if found.ok and "or later is needed" in found.text:
            state = "FAIL"
        yield Line(state, found.name, found.text, found.help)


# ---------------------------------------------------------------- memory and files


def _memory() -> Line:
    """Free memory of the computer; WARN below half a GiB."""
    free = _available()
    if free is None:
        return Line("OK", "free memory", "the system does not tell")
    state = "OK" if free > 512 << 20 else "WARN"
    return Line(state, "free memory", f"{free / 2**30:.1f} GiB", "" if state == "OK" else "end other programs")


def _available() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def _cache() -> Line:
    """The folder of compiled kernels: whether it can be written, and how much is in it."""
    from gla.errors import GlaError
    from gla.lang.io import check_folder
    from gla.runtime.cache import LIMIT, default_folder

    folder = default_folder()
    try:
        check_folder(folder, "cache")
    except GlaError as error:
        return Line("WARN", "kernel cache", error.diagnostic.message, "set GLA_CACHE_DIR to a folder that can be written")
    files = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return Line("OK", "kernel cache", f"{folder}: {len(files)} files, {sum(files) / 2**20:.1f} of {LIMIT >> 20} MiB")


# ---------------------------------------------------------------- a replay


def replay(name: str) -> str:
    """Compile a kernel on the device, replay its graph with two inputs, compare with NumPy; says how long it took."""
    import numpy as np

    from gla import dtypes
    from gla.compiler import executable
    from gla.errors import InternalError
    from gla.ir.builder import apply
    from gla.ir.graph import Graph, new_input
    from gla.ir.types import Type
    from gla.runtime.devices import get_device

    machine = get_device(name)
    free, total = machine.device.memory_info()
    x = new_input(Type(dtypes.float32, (1024,)), "x")
    began = time.perf_counter()
    exe = executable(Graph((x,), (apply("multiply", apply("add", x, x), x),)), machine)
    values = np.linspace(-2.0, 2.0, 1024, dtype=np.float32)
    seconds: list[float] = []
    for given in (values, values[::-1] * np.float32(0.5)):
        uploaded = machine.upload(given)
        machine.synchronize()
        started = time.perf_counter()
        (out,) = exe.run([uploaded])
        machine.synchronize()
        seconds += [time.perf_counter() - started]
        if not np.array_equal(machine.download(out, np.float32, (1024,)), (given + given) * given):
            raise InternalError("GLA9902", f"{machine.name} computes wrong numbers")
    return (
        f"right numbers; compiled in {started - began:.2f} s, replayed in {seconds[-1] * 1e6:.0f} us; "
        f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free"
    )
