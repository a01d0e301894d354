"""The device that a command works on, and why it is not the other one."""

from __future__ import annotations

import os
from typing import Any

from gla.errors import DeviceError


def open_machine(name: str) -> tuple[Any, str]:
    """(the machine, a line to say or ""). The line tells why `auto` took the CPU although there is a GPU.

    Raises DeviceError when a device that was asked for by name cannot be used.
    """
    from gla.config import environment
    from gla.runtime.devices import get_device

    asked = environment().device if name == "auto" else name
    machine = get_device(asked)
    if asked != "auto" or machine.kind == "cuda" or not gpu_present():
        return machine, ""
    return machine, f"this runs on the CPU although there is a GPU: {why_not_cuda()}; see gla doctor"


def gpu_present() -> bool:
    """Whether the computer shows an NVIDIA GPU, without starting anything on it."""
    return any(os.path.exists(path) for path in ("/dev/nvidia0", "/dev/dxg")) or bool(_listed("/proc/driver/nvidia/gpus"))


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def why_not_cuda() -> str:
    from gla.runtime.devices import get_device

    try:
        get_device("cuda")
    except DeviceError as error:
        return error.diagnostic.message
    return "nothing speaks against --device cuda"


def present() -> list[str]:
    """The devices that work: cuda:0 where it does, then the host."""
    from gla.runtime.devices import get_device

    try:
        return [get_device("cuda").name, "host"]
    except DeviceError:
        return ["host"]
