"""Every kernel that a test run generates, for whatever device, is also printed as CUDA C++ and compiled by NVRTC.

`watch` notes the kernel forms as the compiler meets them; `compile_all` is called when the session ends. Kernels are
compiled to PTX, many in one translation unit: whether the text is CUDA C++ does not depend on the architecture.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

BATCH = 32
NEWER_THAN_KNOWN = "sm_999"  # NVRTC stops at PTX, which is all that is asked here
NO_OPTIMISATION = "--device-debug"  # a quarter of the time; the text is read just the same
seen: dict[Any, Any] = {}


def watch() -> None:
    """From now on, remember every kernel that the compiler lowers."""
    from gla import stations
    from gla.codegen.form import kernel_key

    original = stations.lower_step

    def lower_step(step: Any) -> Any:
        low = original(step)
        seen.setdefault(kernel_key(low.kernel), low.kernel)
        return low

    stations.lower_step = lower_step


def compile_all(claims: Path) -> list[str]:
    """What NVRTC says of the kernels that it refuses; nothing when all compile. `claims` is a folder that the workers of one run
    share: who claims a kernel there compiles it."""
    try:
        from gla.device.cuda import nvrtc
    except ImportError:
        return ["NVRTC is missing: pip install -e '.[test]'"]
    complaints = []
    claims.mkdir(exist_ok=True)
    for batch in batches(kernel for key, kernel in seen.items() if claimed(claims / key)):
        source = "\n".join(text(k, kernel) for k, kernel in enumerate(batch))
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(nvrtc, "OPTIONS", (*nvrtc.OPTIONS, NO_OPTIMISATION))
                nvrtc.compile(source, "every_kernel", NEWER_THAN_KNOWN)
        except Exception as error:
            complaints.append(str(error)[:2000])
    return complaints


def claimed(place: Path) -> bool:
    """Whether nobody was here before."""
    try:
        place.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def batches(kernels: Any) -> Iterator[list[Any]]:
    rest = iter(kernels)
    while batch := list(islice(rest, BATCH)):
        yield batch


def text(number: int, kernel: Any) -> str:
    from gla.stations import print_kernel

    return f"namespace n{number} {{\n{print_kernel(replace(kernel, name=f'k{number}'), 'cuda')}}}"
