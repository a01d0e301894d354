"""One GPU's driver calls: opens its primary context, makes it current, checks every status.

Called by the other files of this folder. The primary context is shared with other libraries of the process and is never
synchronised or destroyed here. Refuses drivers older than 12.4.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from gla.device.cuda import bindings, locate
from gla.device.cuda.errors import driver_error
from gla.errors import DeviceError, OutOfMemoryError

T = TypeVar("T")


class Thread(threading.local):
    """Whose context gla made current in this thread last. Launches look at this alone; that another library has made its own
    context current meanwhile is found out when the driver refuses the call: see `Driver.again`."""

    current: Driver | None = None


thread = Thread()


class Driver:
    """Checked calls by name, for all that is not hot: `call("cuStreamCreate", flags)` gives what stands behind the status.

    `table` holds the functions (see bindings.py); `device` and `context` are the driver's handles. `reclaim` (Device.reclaim)
    is called when the driver is out of memory, whatever was asked of it; then the call is made once more.
    """

    __slots__ = ("context", "device", "index", "reclaim", "table", "version")

    def __init__(self, table: Any, index: int) -> None:
        self.table, self.index = table, index
        self.context: Any = None
        self.reclaim: Callable[[], object] | None = None
        self.call("cuInit", 0)
        self.version: int = self.call("cuDriverGetVersion")
        if self.version < locate.OLDEST_DRIVER:
            raise DeviceError(
                "GLA0551",
                f"the NVIDIA driver is for CUDA {locate.dotted(self.version)}; gla needs {locate.dotted(locate.OLDEST_DRIVER)} or later",
                help="install a newer NVIDIA driver (550 or later), or use GLA_DEVICE=host",
            )
        count = self.call("cuDeviceGetCount")
        if not 0 <= index < count:
            raise DeviceError(
                "GLA0552",
                f"there is no device 'cuda:{index}': the driver sees {count} device{'s' * (count != 1)}",
                help="`gla doctor` lists the devices; look at CUDA_VISIBLE_DEVICES, or use GLA_DEVICE=host",
            )
        self.device = self.call("cuDeviceGet", index)
        self.context = self.call("cuDevicePrimaryCtxRetain", self.device)
        self.enter()

    def enter(self) -> None:
        """Make the context current for the calling thread, whatever other libraries made current since."""
        status = self.table.cuCtxSetCurrent(self.context)[0]
        if status:
            raise driver_error(status, "cuCtxSetCurrent", self.table)
        thread.current = self

    def call(self, name: str, *args: Any, detail: str = "") -> Any:
        """The driver function `name`, its status checked: None, one result or a tuple of them."""
        if self.context is not None:
            self.enter()
        return self._checked(name, args, detail)

    def again(self, status: Any, name: str, *args: Any, detail: str = "") -> None:
        """A launch failed with `status`: once more with our context current if another library's was, else its error."""
        results = self.table.types.CUresult
        if status in (results.CUDA_ERROR_INVALID_CONTEXT, results.CUDA_ERROR_INVALID_HANDLE) and not self._is_current():
            self.enter()
            self._checked(name, args, detail)
            return
        if status == results.CUDA_ERROR_OUT_OF_MEMORY and self.reclaim is not None:
            self.reclaim()
            self._checked(name, args, detail, again=True)
            return
        raise driver_error(status, name, self.table, detail)

    def _is_current(self) -> bool:
        current = self._checked("cuCtxGetCurrent", ())
        return int(current) == int(self.context)

    @contextmanager
    def relaxed(self) -> Iterator[None]:
        """For what the driver counts as potentially unsafe while a capture is open (allocation, loading, waiting, asking):
        this thread's capture mode is relaxed within, so that no capture, ours or another library's, is invalidated."""
        if self.context is not None:
            self.enter()
        mode = self.table.types.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        before = self._checked("cuThreadExchangeStreamCaptureMode", (mode,))
        try:
            yield
        finally:
            self._checked("cuThreadExchangeStreamCaptureMode", (before,))

    def unsafe(self, name: str, *args: Any, detail: str = "") -> Any:
        """`call`, relaxed."""
        with self.relaxed():
            return self._checked(name, args, detail)

    def finished(self, event: Any) -> bool:
        """Whether all work before an event has run."""
        with self.relaxed():
            status = self.table.cuEventQuery(event)[0]
        if status and status != self.table.types.CUresult.CUDA_ERROR_NOT_READY:
            raise driver_error(status, "cuEventQuery", self.table)
        return not status

    def retried(self, make: Callable[[], T]) -> T:
        """For libraries that allocate: `make()`, and once more after `reclaim` when memory runs out."""
        try:
            return make()
        except OutOfMemoryError:
            if self.reclaim is None:
                raise
        self.reclaim()
        return make()

    def _checked(self, name: str, args: tuple[Any, ...], detail: str = "", again: bool = False) -> Any:
        try:
            result = getattr(self.table, name)(*args)
        except RuntimeError as error:  # the bindings found no such function in the driver
            raise DeviceError(
                "GLA0551", f"the NVIDIA driver does not have {name}: {error}", help="install a newer NVIDIA driver"
            ) from error
        if result[0]:
            if result[0] == self.table.types.CUresult.CUDA_ERROR_OUT_OF_MEMORY and self.reclaim is not None and not again:
                self.reclaim()
                return self._checked(name, args, detail, again=True)
            raise driver_error(result[0], name, self.table, detail)
        return None if len(result) == 1 else result[1] if len(result) == 2 else result[1:]

    def attribute(self, name: str) -> int:
        """A CUdevice_attribute by its name without the prefix."""
        attributes = self.table.types.CUdevice_attribute
        return self.call("cuDeviceGetAttribute", getattr(attributes, f"CU_DEVICE_ATTRIBUTE_{name}"), self.device)


def open_driver(index: int) -> Driver:
    """The driver calls of device `index`. Raises DeviceError that says what is missing."""
    locate.load("cuda")
    return Driver(bindings.load(), index)
