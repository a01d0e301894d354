"""Fixtures of the whole suite. The environment is set before gla is imported: strict host device, verified IR."""

from __future__ import annotations

import os

os.environ.setdefault("GLA_STRICT", "1")
os.environ.setdefault("GLA_VERIFY", "1")
os.environ.setdefault("GLA_DEVICE", "host")  # tests that want CUDA say so

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from tests import every_kernel


@cache
def cuda_devices() -> tuple[int, str]:
    """How many CUDA devices work, and why not more."""
    try:
        from gla.device.cuda import open_device
    except ImportError as error:
        return 0, f"gla.device.cuda cannot be imported: {error}"
    found = 0
    try:
        while found < 2:
            open_device(found)
            found += 1
    except Exception as error:
        return found, f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return found, ""


@cache
def opened(name: str) -> Any:
    if name == "host":
        from gla.device.host import HostDevice

        return HostDevice(strict=True)
    from gla.device.cuda import open_device

    return open_device(0)


@pytest.fixture(scope="session", autouse=True)
def every_kernel_compiles_as_cuda(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whatever kernels this run generates, NVRTC takes them all."""
    every_kernel.watch()
    yield
    own = tmp_path_factory.getbasetemp()
    complaints = every_kernel.compile_all((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "compiled")
    assert not complaints, "\n".join(complaints)


@pytest.fixture(params=["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Each device that is present: the host always (strict), CUDA where one works."""
    yield opened(request.param)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    needs = {"gpu": 1, "needs_two_gpus": 2}
    for item in items:
        wanted = max((needs[mark.name] for mark in item.iter_markers() if mark.name in needs), default=0)
        if wanted:
            found, why = cuda_devices()
            if found < wanted:
                item.add_marker(pytest.mark.skip(reason=f"needs {wanted} CUDA device(s), found {found}: {why}"))
