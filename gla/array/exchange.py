"""DLPack, and what the Array API standard asks of a namespace: version, capabilities, devices, dtypes.

The protocols' faces; dlpack.py, which is loaded when one is used, does the work.
"""

from __future__ import annotations

from typing import Any

from gla import dtypes
from gla.array.boundary import public
from gla.array.devices import current_device
from gla.array.value import Array
from gla.ir.builder import default_float

API_VERSION = "2024.12"


def export(self: Array, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None) -> Any:
    """The memory as a DLPack capsule, shared unless `copy=True`. The consumer's work on `stream` comes after ours on the array; on
    CUDA None and 1 are the default stream, 2 the per-thread one, -1 asks for no ordering."""
    from gla.array import dlpack

    return dlpack.to_dlpack(self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)


def exported_device(self: Array) -> tuple[int, int]:
    """DLPack's (kind, number) of the device: (1, 0) on the host, (2, n) on "cuda:n"."""
    from gla.array import dlpack

    return dlpack.dlpack_device(self)


def cuda_interface(self: Array) -> dict[str, Any]:
    """`__cuda_array_interface__`, version 3, of an array on a GPU; AttributeError on the host."""
    from gla.array import dlpack

    return dlpack.cuda_array_interface(self)


@public
def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Array:
    """The array of another library (or of NumPy) without a copy; `x` has `__dlpack__` or `__cuda_array_interface__`.

    Memory with gaps, or that must not be written, is copied; `copy=False` refuses then, `copy=True` copies always. `device`
    moves the result. Writing it writes the memory of `x`, which is kept as long as it is needed, by graphs too; streams are
    ordered by the protocol. DtypeError for a dtype that gla does not have.
    """
    from gla.array import dlpack

    return dlpack.import_from(x, device, copy)


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
    setattr(Array, "__cuda_array_interface__", property(public(cuda_interface)))  # noqa: B010 - not declared in value.py
