"""Devices by name: "host" (or "cpu"), "cuda", "cuda:1", "auto". A device is opened once, at first use.

`auto` takes CUDA when it works. Asking for CUDA by name never falls back. After `fork()` a device that the parent had opened
is refused in the child: drivers and threads do not survive a fork.
"""

from __future__ import annotations

import os
import threading
from contextvars import ContextVar
from typing import Any, NoReturn

from gla.config import environment
from gla.device.base import Device
from gla.errors import DeviceError
from gla.runtime.machine import Machine
from gla.runtime.memory.block import ordering

_machines: dict[str, Machine] = {}
_lock = threading.Lock()
_current: ContextVar[Machine | None] = ContextVar("gla_device", default=None)
_forked = False


def get_device(name: str = "auto") -> Machine:
    """The machine of that name. DeviceError names what is missing when it cannot be opened, or is not known."""
    if _forked:
        _refuse_fork()
    found = _machines.get(name)
    if found is not None:
        return found
    with _lock:
        if name not in _machines:
            _machines[name] = _open(name)
        return _machines[name]


def current_device() -> Machine:
    """The device that this task chose, or the one that GLA_DEVICE names (`auto` if nothing does)."""
    return _current.get() or get_device(environment().device)


def choose(machine: Machine | None) -> Any:
    """Make `machine` this task's device; returns a token for `unchoose`."""
    return _current.set(machine)


def unchoose(token: Any) -> None:
    _current.reset(token)


def machines() -> list[Machine]:
    """Every device that was opened."""
    return list(dict.fromkeys(_machines.values()))


def _open(name: str) -> Machine:
    if name == "auto":
        try:
            return _known("cuda:0") or Machine(_cuda(0))
        except DeviceError:
            return _known("host") or Machine(_host())
    if name in ("host", "cpu"):
        return _known("host") or Machine(_host())
    kind, _, number = name.partition(":")
    if kind == "cuda" and (not number or number.isdecimal()):
        index = int(number or 0)
        return _known(f"cuda:{index}") or Machine(_cuda(index))
    raise DeviceError("GLA0503", f"{name!r} is not a device", help='use "host", "cuda", "cuda:1" or "auto"')


def _known(name: str) -> Machine | None:
    for machine in _machines.values():
        if machine.name == name:
            return machine
    return None


def _host() -> Device:
    from gla.device.host import open_device

    return open_device()


def _cuda(index: int) -> Device:
    from gla.device.cuda import open_device

    return open_device(index)


# --- fork
def _refuse_fork() -> NoReturn:
    raise DeviceError(
        "GLA0530",
        "gla was used before this process was forked; devices do not survive fork()",
        help='start workers with multiprocessing.get_context("spawn"), or use gla only after the fork',
    )


class _Forked:
    """Stands for a device of the parent process, or for a lock that another thread may have held: whatever is asked of it is refused."""

    def __getattr__(self, name: str) -> NoReturn:
        _refuse_fork()

    def __enter__(self) -> NoReturn:
        _refuse_fork()

    def __exit__(self, *_: object) -> None: ...


def _after_fork() -> None:
    global _forked
    if not _machines:
        return
    _forked = True
    ordering._at_fork_reinit()  # type: ignore[attr-defined]  # another thread may have held it
    gone: Any = _Forked()
    for machine in _machines.values():
        machine.gate.closed = True
        machine.gate.retired.clear()
        for holder in (machine, machine.gate, machine.pool, machine.kernels, machine.stream):
            holder.device = gone
        machine.gate.lock = gone
        for locked in (machine.pool, machine.kernels, machine.executables, *machine.launched):
            locked._lock = gone
        machine.gate.own.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
