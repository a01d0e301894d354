"""What there is for the device `cuda`, and what is missing: for `gla doctor`. Never raises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from gla.device.cuda import bindings, cublas, locate, nvrtc
from gla.device.cuda.errors import driver_error
from gla.errors import GlaError


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: what was looked for, whether it is well, what was found, and what to do when it is not."""

    name: str
    ok: bool
    text: str
    help: str = ""


def probe() -> list[Finding]:
    """Driver, Python bindings, devices, NVRTC, cuBLAS. Opens no context."""
    findings = [
        _finding("NVIDIA driver", _driver),
        _finding("cuda-bindings", lambda: ".".join(map(str, bindings.version()))),
    ]
    if all(finding.ok for finding in findings):
        findings += _devices()
    findings.append(_finding("NVRTC", lambda: f"{'.'.join(map(str, nvrtc.version()))} from {nvrtc.folder()}"))
    findings.append(_finding("cuBLAS", lambda: f"{'.'.join(map(str, cublas.version()))} from {locate.load('cublas').path}"))
    return findings


def _finding(name: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(name, True, look())
    except GlaError as error:
        return Finding(name, False, error.diagnostic.message, "; ".join(error.diagnostic.help))
    except Exception as error:  # a report must go on whatever a broken installation does
        return Finding(name, False, f"{type(error).__name__}: {error}", locate.install())


def _driver() -> str:
    library = locate.load("cuda")
    version = locate.driver_version()
    if version is None:
        raise locate.missing("cuda", [f"{library.path} does not tell its version"])
    return f"CUDA {locate.dotted(version)} from {library.path}" + (
        " (12.4 or later is needed)" if version < locate.OLDEST_DRIVER else ""
    )


def _devices() -> list[Finding]:
    """One finding a device, or the one that says why there is none. Opens no context."""
    findings: list[Finding] = []
    started = _finding("CUDA", lambda: f"{_ask('cuInit', 0) or ''}{_ask('cuDeviceGetCount')} device(s)")
    if not started.ok:
        return [started]
    for index in range(_ask("cuDeviceGetCount")):
        findings.append(_finding(f"cuda:{index}", partial(_device, index)))
    return findings


def _device(index: int) -> str:
    attributes = bindings.load().types.CUdevice_attribute
    device = _ask("cuDeviceGet", index)
    name = _ask("cuDeviceGetName", 256, device).split(b"\0")[0].decode(errors="replace")
    major = _ask("cuDeviceGetAttribute", attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)
    minor = _ask("cuDeviceGetAttribute", attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)
    return f"{name}, compute capability {major}.{minor}, {int(_ask('cuDeviceTotalMem', device)) / 2**30:.1f} GiB"


def _ask(name: str, *args: Any) -> Any:
    table = bindings.load()
    result = getattr(table, name)(*args)
    if result[0]:
        raise driver_error(result[0], name, table)
    return result[1] if len(result) > 1 else None
