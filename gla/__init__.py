"""gla: an array language with lazy graph compilation. Write the formula, get one graph launch.

Arrays: `gla.asarray`, `gla.zeros`, every function of the Array API. Functions: `@gla.function`. Graphs: `gla.capture`.
"""

import sys as _sys
from math import e, inf, nan, pi
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

# Loaded before `gla.device` is bound to the function: a later load would take the name back.
from gla import device as _device_package  # noqa: F401
from gla.array import export as _export
from gla.array.annotations import scalar
from gla.array.create import asarray, astype
from gla.array.devices import device, memory, reclaim, stream, synchronize
from gla.array.evaluate import evaluate as eval
from gla.array.evaluate import no_compile
from gla.array.function import function
from gla.array.value import Array
from gla.dtypes import DType
from gla.errors import (
    AliasError,
    CaptureError,
    CheckError,
    DeviceError,
    DtypeError,
    GlaError,
    GlaFileError,
    GlaIndexError,
    GlaNameError,
    GlaSyntaxError,
    GraphError,
    OutOfMemoryError,
    RangeError,
    ShapeError,
    TraceError,
)

if _TYPE_CHECKING:
    from gla.array import random
    from gla.array.capture import Graph, GraphExecutable, capture, is_capturing
    from gla.array.captured import captured
    from gla.array.control import cond, fori, scan, while_loop
    from gla.array.kernel import kernel
    from gla.array.pinned import pinned
    from gla.array.streams import Stream, current_stream
    from gla.array.tasks import spawn

_LATER = {
    "random": "", "Graph": "capture", "GraphExecutable": "capture", "capture": "capture", "is_capturing": "capture",
    "captured": "captured", "cond": "control", "fori": "control", "scan": "control", "while_loop": "control", "kernel": "kernel",
    "pinned": "pinned", "Stream": "streams", "current_stream": "streams", "spawn": "tasks",
}  # fmt: skip
"""Names that are loaded when they are first used, and the module of gla.array that has them: `import gla` is to be quick."""


def __getattr__(name: str) -> _Any:
    if name not in _LATER:
        raise AttributeError(f"module 'gla' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"gla.array.{_LATER[name] or name}")
    found = globals()[name] = getattr(module, name) if _LATER[name] else module
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


if not getattr(_sys, "_is_gil_enabled", lambda: True)():
    from gla.array.tasks import warn_of_free_threading as _warn_of_free_threading

    _warn_of_free_threading()
newaxis = None
array = asarray
globals().update(_export.NAMES)

__all__ = [
    "AliasError", "Array", "CaptureError", "CheckError", "DType", "DeviceError", "DtypeError", "GlaError", "GlaFileError",
    "GlaIndexError", "GlaNameError", "GlaSyntaxError", "Graph", "GraphError", "GraphExecutable", "OutOfMemoryError", "RangeError",
    "ShapeError", "TraceError", "array", "asarray", "astype", "capture", "captured", "cond", "current_stream", "device", "e", "eval", "fori", "function",
    "inf", "is_capturing", "kernel", "memory", "nan", "newaxis", "no_compile", "pi", "pinned", "random", "reclaim", "scalar", "scan", "spawn", "Stream", "stream",
    "synchronize", "while_loop",
]  # fmt: skip
__all__ += list(_export.NAMES)
