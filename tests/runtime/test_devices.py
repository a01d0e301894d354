"""Devices by name, the current device, and fork (guarantee E9)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gla.errors import DeviceError
from gla.runtime.devices import choose, current_device, get_device, unchoose


def test_a_device_is_opened_once() -> None:
    assert get_device("host") is get_device("cpu") is get_device("host")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(DeviceError, match="'gpu' is not a device"):
        get_device("gpu")


def test_asking_for_cuda_never_falls_back() -> None:
    from tests.conftest import cuda_devices

    if cuda_devices()[0]:
        assert get_device("cuda").kind == "cuda"
    else:
        with pytest.raises(DeviceError):
            get_device("cuda")
        assert get_device("auto").kind == "host"


def test_a_task_chooses_its_device() -> None:
    token = choose(get_device("host"))
    assert current_device() is get_device("host")
    unchoose(token)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_e9_use_after_fork_names_spawn_and_nothing_hangs() -> None:
    code = """
import os, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from gla.errors import DeviceError
from gla.runtime.devices import get_device
machine = get_device("host")
kept = machine.upload(np.ones(100))
pid = os.fork()
if pid == 0:
    found = 0
    for act in (lambda: get_device("host"), lambda: machine.upload(np.ones(100)), lambda: machine.download(kept, np.float64, (100,))):
        try:
            act()
        except DeviceError as error:
            found += "spawn" in str(error)
    del kept
    machine.gate.drain()
    os._exit(0 if found == 3 else 1)
_, status = os.waitpid(pid, 0)
assert machine.download(kept, np.float64, (100,)).sum() == 100
sys.exit(os.waitstatus_to_exitcode(status))
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_e9_a_lock_that_another_thread_held_at_the_fork_hangs_nobody() -> None:
    code = """
import os, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from gla.compiler import executable
from gla.errors import DeviceError
from gla.ir.builder import apply
from gla.ir.graph import Graph
from gla.runtime.devices import get_device
from tests.runtime.conftest import array
machine = get_device("host")
x = array((10,))
exe = executable(Graph((x,), (apply("add", x, 1.0),)), machine)
given = machine.upload(np.ones(10))
with exe._lock, machine.pool._lock, machine.gate.lock:
    pid = os.fork()
    if pid == 0:
        found = 0
        for act in (lambda: exe.run([given]), lambda: machine.upload(np.ones(3)), given.free, machine.reclaim):
            try:
                act()
            except DeviceError as error:
                found += "spawn" in str(error)
        os._exit(0 if found == 4 else 1)
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False, cwd=root).returncode == 0
