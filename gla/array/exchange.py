"""DLPack, and what the Array API standard asks of a namespace: version, capabilities, devices, dtypes.

Export gives a copy of the contents in host memory; an array on another device is refused with the way round.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gla import dtypes
from gla.array.boundary import public
from gla.array.create import asarray
from gla.array.devices import current_device
from gla.array.value import Array, fetch
from gla.errors import DeviceError
from gla.ir.builder import default_float
from gla.ir.spans import labels

API_VERSION = "2024.12"
HOST = (1, 0)
"""DLPack's name of ordinary memory."""


def export(self: Array, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None) -> Any:
    """A DLPack capsule of a copy in host memory."""
    if self.device != "host":
        raise DeviceError(
            "GLA0503",
            f"{self._type} on {self.device} is not exported",
            labels=labels("here"),
            help="move it first: x.to('host')",
        )
    if copy is False:
        raise BufferError("a gla.Array gives a copy of its contents; copy=False cannot be met")
    return fetch(self, "__dlpack__").__dlpack__()


def exported_device(self: Array) -> tuple[int, int]:
    """(device type, number) of what `__dlpack__` gives."""
    return HOST


@public
def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Array:
    """An array with a copy of what another library's array holds in host memory."""
    if isinstance(x, Array):
        return asarray(x, device=device, copy=copy)
    where = x.__dlpack_device__()
    if int(where[0]) != HOST[0]:
        raise DeviceError(
            "GLA0503", f"the array stands on DLPack device {tuple(map(int, where))}, not in host memory", labels=labels("here"),
            help="copy it to the host first, in its own library",
        )  # fmt: skip
    return asarray(np.from_dlpack(x), device=device)


class Info:
    """What the namespace can do, as the standard's inspection asks."""

    def capabilities(self) -> dict[str, Any]:
        """Data-dependent shapes work outside of traces only."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        return current_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, dtypes.DType]:
        real = default_float.get()
        return {
            "real floating": real, "complex floating": dtypes.complex_of(real), "integral": dtypes.int64, "indexing": dtypes.int64,
        }  # fmt: skip

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, dtypes.DType]:
        """Dtypes of the standard by name, of a kind when it is given."""
        from gla.array.namespace import isdtype

        standard = [d for d in dtypes.ALL if d not in (dtypes.float16, dtypes.bfloat16)]
        return {d.name: d for d in standard if kind is None or isdtype(d, kind)}

    def devices(self) -> list[str]:
        """Devices that were opened, the current one among them."""
        from gla.runtime.devices import machines

        return list(dict.fromkeys([current_device(), *(str(m.name) for m in machines())]))


def info() -> Info:
    """The standard's `__array_namespace_info__`."""
    return Info()


def attach() -> None:
    """Give `Array` the methods of the protocol."""
    for name, method in (("__dlpack__", export), ("__dlpack_device__", exported_device)):
        setattr(Array, name, public(method))
