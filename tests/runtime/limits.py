"""A limit on a device's memory: the host device has one, CUDA's driver is made to refuse what goes beyond."""

from __future__ import annotations

from typing import Any

import pytest


def limit(machine: Any, more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the machine can have `more` bytes beyond what it holds. Of the host device, staging and the like count too."""
    if machine.kind == "host":
        monkeypatch.setattr(machine.device.memory, "limit", machine.device.memory.held + more)
        return
    table, most = machine.device.driver.table, machine.pool.held + more
    allocate, full = table.cuMemAlloc, table.types.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    monkeypatch.setattr(table, "cuMemAlloc", lambda n: (full, None) if machine.pool.held + n > most else allocate(n))
