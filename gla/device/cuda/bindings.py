"""The driver functions of `cuda.bindings`, of 12.9 and of 13 alike.

The one file that names calls whose signature differs between the two. Version 13 gives the plain name to what 12 calls
`_v2` or `_v3` (edge data); context creation differs too and is not used (the primary context is retained). Called by
driver.py; raises DeviceError when `cuda.bindings` is missing or older.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any

from gla.device.cuda import locate
from gla.errors import DeviceError

# ours -> (name in 12, name in 13); each gives (status, ..., nodes, edge data, count) and takes the same arguments
RENAMED = {
    "capture_info": ("cuStreamGetCaptureInfo_v3", "cuStreamGetCaptureInfo"),
    "node_dependencies": ("cuGraphNodeGetDependencies_v2", "cuGraphNodeGetDependencies"),
}

# called with the same arguments in both; tests hold this list against both bindings
PLAIN = """
cuInit cuDriverGetVersion cuDeviceGet cuDeviceGetCount cuDeviceGetName cuDeviceGetAttribute cuDeviceTotalMem
cuDevicePrimaryCtxRetain cuCtxSetCurrent cuCtxGetCurrent cuGetErrorName cuGetErrorString cuThreadExchangeStreamCaptureMode
cuMemAlloc cuMemFree cuMemGetInfo cuMemHostAlloc cuMemFreeHost
cuMemcpyHtoDAsync cuMemcpyDtoHAsync cuMemcpyAsync cuMemsetD8Async
cuStreamCreate cuStreamDestroy cuStreamGetFlags cuStreamSynchronize cuStreamWaitEvent
cuStreamBeginCaptureToGraph cuStreamEndCapture
cuEventCreate cuEventDestroy cuEventRecord cuEventQuery cuEventSynchronize cuEventElapsedTime
cuModuleLoadData cuModuleGetFunction cuModuleUnload cuFuncSetAttribute cuFuncGetAttribute cuLaunchKernel
cuGraphCreate cuGraphDestroy cuGraphAddKernelNode cuGraphAddMemcpyNode cuGraphAddMemsetNode cuGraphAddEmptyNode
cuGraphGetNodes cuGraphDestroyNode cuGraphInstantiate cuGraphExecDestroy cuGraphExecKernelNodeSetParams
cuGraphExecMemcpyNodeSetParams cuGraphExecUpdate cuGraphUpload cuGraphLaunch
cuDeviceGraphMemTrim cuGraphNodeGetType cuGraphMemAllocNodeGetParams cuGraphMemFreeNodeGetParams
""".split()


class Table:
    """The driver's functions as attributes, each giving a tuple whose first entry is the status.

    Tests put another object in its place, to make the n-th call fail. `types` is the bindings' module, for its classes
    and enumerations.
    """

    def __init__(self, types: Any, major: int) -> None:
        self.types = types
        for name in PLAIN:
            setattr(self, name, getattr(types, name))
        for ours, names in RENAMED.items():
            setattr(self, ours, getattr(types, names[major >= 13]))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the driver layer does not use '{name}'")


def version() -> tuple[int, ...]:
    """The version of the installed bindings, e.g. (12, 9). Raises DeviceError when there are none."""
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bindings") is None:
        raise DeviceError(
            "GLA0561",
            "the Python package 'cuda-bindings', which the device 'cuda' needs, is not installed",
            help=locate.install(),
        )
    from cuda import bindings

    found = tuple(int(part) for part in bindings.__version__.split(".")[:2] if part.isdigit())
    if found < (12, 9):
        raise DeviceError(
            "GLA0561", f"cuda-bindings {bindings.__version__} is too old: 12.9 or later is needed", help=locate.install()
        )
    return found


@cache
def load() -> Table:
    """The functions of the installed bindings. Loads the driver's library, initialises nothing."""
    major = version()[0]
    from cuda.bindings import driver

    return Table(driver, major)
