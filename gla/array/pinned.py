"""`gla.pinned(a)`: host memory that the device reads and writes in place, at the time that a launch runs.

In a capture it is read and written by every launch. Outside, an operation takes a copy of it at once, so that writing it afterwards
changes nothing that was computed before. `numpy()` and `assign` wait for the launches that use it; whoever keeps a view across a
launch waits himself (`exe.synchronize()`). Called by calls.py through `__gla_operand__`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gla import dtypes
from gla.array import engine, realise
from gla.array.boundary import public
from gla.array.buffer import Buffer
from gla.array.calls import NUMBERS
from gla.array.create import numpy_dtype
from gla.array.devices import current_device
from gla.array.operators import BINARY, COMPARISONS, UNARY
from gla.array.scope import current, look_error
from gla.array.value import Array, fetch, from_buffer
from gla.dtypes import DType
from gla.errors import ShapeError, TraceError
from gla.ir.builder import broadcast_shapes, constant
from gla.ir.functions.index import check_no_narrowing
from gla.ir.graph import new_input
from gla.ir.spans import labels
from gla.ir.types import Type


class _Memory:
    """What a NumPy view of pinned memory stands on; keeps it."""

    __slots__ = ("__array_interface__", "storage")

    def __init__(self, storage: Any) -> None:
        self.storage = storage
        self.__array_interface__ = {
            "data": (storage.address, False),
            "shape": (storage.nbytes,),
            "typestr": "|u1",
            "version": 3,
        }


class Pinned:
    """A pinned array. `numpy()` is its memory, `assign` overwrites it; `x.assign(p)`, `p + x` and the like read it."""

    __slots__ = ("__weakref__", "_array", "_view")
    __array_priority__ = 900.0

    def __init__(self, buffer: Buffer, view: np.ndarray) -> None:
        self._array, self._view = from_buffer(buffer), view

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def dtype(self) -> DType:
        return self._array.dtype

    @property
    def ndim(self) -> int:
        return self._array.ndim

    @property
    def size(self) -> int:
        return self._array.size

    @property
    def nbytes(self) -> int:
        return self._array.nbytes

    @property
    def device(self) -> str:
        """The device that reads and writes it in place."""
        return self._array.device

    def __len__(self) -> int:
        return len(self._array)

    # --- the host's side
    @public
    def numpy(self) -> np.ndarray:
        """The memory itself as a NumPy array, once every launch that uses it is done. CaptureError inside a capture.

        A launch that is submitted later runs beside whoever still holds the array: wait for it with `exe.synchronize()`.
        """
        self._settle("p.numpy()", True)
        return self._view.view()

    def _settle(self, what: str, write: bool) -> None:
        if current.get() is not None:
            raise look_error(self._array, what)
        engine.machine(self.device).settle(self._storage, write)

    @property
    def _storage(self) -> Any:
        assert self._array._buffer is not None
        return self._array._buffer.storage

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        self._settle("np.asarray(p)", False)
        return self._view.astype(dtype or self._view.dtype, copy=True)

    @public
    def assign(self, value: Any) -> Pinned:
        """Overwrite the contents by `value`, which broadcasts to the shape and is never narrowed; gives the array.

        Waits for the launches that use it. In a capture every launch writes it.
        """
        scope = current.get()
        if scope is not None:
            self.__gla_operand__().assign(value)
        elif isinstance(value, (Array, Pinned)):
            self._download(value)
        else:
            self._fill((), value)
        return self

    def _download(self, value: Any) -> None:
        """From an array of the device."""
        from gla.array.calls import operate
        from gla.ir.functions.shape import broadcast_to
        from gla.runtime.memory.block import acquire

        made: Array = operate(
            lambda now, new: broadcast_to(check_no_narrowing(now, new, "assign"), now.shape), (self._array, value)
        )
        realise.own([made])
        self._settle("p.assign()", True)
        if self.nbytes:
            machine = engine.machine(self.device)
            source, stream = made._buffer, machine.current_stream()
            assert source is not None
            acquire(source.storage.block, stream, False)
            machine.device.copy_out(self._storage.address, source.storage.address, self.nbytes, stream.handle)

    def _fill(self, key: Any, value: Any) -> None:
        """From the host's memory."""
        values = value if isinstance(value, NUMBERS) else np.asarray(value)
        node = constant(values) if isinstance(values, NUMBERS) else new_input(Type(numpy_dtype(values), values.shape))
        check_no_narrowing(new_input(Type(self.dtype, self.shape)), node, "assign")
        self._settle("p.assign()", True)
        part = self._view[key] if key != () else self._view
        if broadcast_shapes(np.shape(values), part.shape) != part.shape:
            raise ShapeError(
                "GLA0314", f"cannot assign {node.type} to a part of shape {part.shape} of {self._array._type}", labels=labels("here"),
                help="the value must broadcast to the part",
            )  # fmt: skip
        self._view[key if key != () else ...] = values

    # --- the device's side
    def __gla_operand__(self) -> Array:
        """What an operation reads: the memory at each launch inside a capture, a copy of the contents now outside."""
        scope = current.get()
        if scope is not None:
            if not scope.capturing():
                raise TraceError(
                    "GLA0420",
                    f"{scope.name} reaches a pinned array {self._array._type}, which a traced function cannot read in place",
                    labels=labels("here"),
                    help="pass gla.asarray(p), or capture the function: gla.capture(lambda: y.assign(f(p + 0)))",
                )
            return scope.enter(self._array)
        machine = engine.machine(self.device)
        machine.settle(self._storage, False)
        return from_buffer(Buffer(machine.upload(self._view), Type(self.dtype, self.shape), self.device))

    def __getitem__(self, key: Any) -> Array:
        return self.__gla_operand__()[key]

    @public
    def __setitem__(self, key: Any, value: Any) -> None:
        if current.get() is not None:
            self.__gla_operand__()[key] = value
        else:
            self._fill(key, fetch(value, "p[...] = x") if isinstance(value, Array) else value)

    @public
    def free(self) -> None:
        """Give the memory back, after the launches that use it."""
        self._storage.free()

    def __repr__(self) -> str:
        return f"<gla.pinned {self._array._type} of {self.device}>"


def _forward(name: str) -> Callable[..., Any]:
    """An operator that acts on what the pinned array holds."""

    def call(self: Pinned, *others: Any) -> Any:
        values = [x.__gla_operand__() if isinstance(x, Pinned) else x for x in others]
        return getattr(self.__gla_operand__(), name)(*values)

    call.__name__ = name
    return public(call)


def _attach() -> None:
    names = [f"__{prefix}{short}__" for short in BINARY for prefix in ("", "r")]
    for name in (*names, *(f"__{short}__" for short in (*COMPARISONS, *UNARY)), "astype", "to", "reshape", "transpose"):
        setattr(Pinned, name, _forward(name))
    setattr(Pinned, "__hash__", object.__hash__)  # noqa: B010 - comparing elements has taken it away


_attach()


@public
def pinned(a: Any, dtype: Any = None, *, device: str | None = None) -> Pinned:
    """A pinned host array with a copy of `a` (a NumPy array, list, number, or array of gla) for a device.

    `x.assign(p)` in a captured program reads at each launch what `p` holds then, `p.assign(x)` writes it. `p.numpy()` is the memory.
    """
    name = engine.device_name(device) if device is not None else a.device if isinstance(a, Array) else current_device()
    wanted = dtypes.as_dtype(dtype) if dtype is not None else None
    values = fetch(a, "pinning") if isinstance(a, Array) else np.asarray(a)
    found = wanted or numpy_dtype(values)
    machine = engine.machine(name)
    nbytes = values.size * found.itemsize
    storage = machine.pool.allocate_pinned(nbytes, machine.current_stream())
    raw = np.asarray(_Memory(storage)) if nbytes else np.empty(0, np.uint8)
    view = raw.view(found.numpy).reshape(values.shape)
    view[...] = values
    return Pinned(Buffer(storage, Type(found, values.shape), name), view)
