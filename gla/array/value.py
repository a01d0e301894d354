"""`gla.Array`: a value with a shape, a dtype and a device; its contents are in memory, or an expression that waits.

An array is in one of these states: it owns a `Buffer` (realised); it has a node over leaves and other scopes' inputs
(pending); it belongs to a `Scope` (traced). A basic slice, transpose or reshape remembers its root and path: it reads as a
value and writes through (assign.py). Operators come from operators.py, methods that are namespace functions from methods.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from gla.array import pending
from gla.array.buffer import Buffer, resolved, storage_of
from gla.array.scope import Scope, current, leak_error, look_error
from gla.dtypes import DType
from gla.errors import DeviceError, Span
from gla.ir import builder
from gla.ir.node import Node
from gla.ir.spans import labels
from gla.ir.types import Type

if TYPE_CHECKING:
    from collections.abc import Iterator

Step = tuple[str, Any]
_new = object.__new__


class Array:
    """An array of numbers. Made by `gla.asarray`, the creation functions and every operation; see `gla.zeros`.

    `shape`, `dtype`, `ndim`, `size`, `device` are known at once; contents are computed when they are looked at.
    """

    __slots__ = (
        "__weakref__", "_above", "_base", "_buffer", "_count", "_device", "_guard", "_path", "_scope", "_seen", "_type", "_value", "_version",
    )  # fmt: skip
    __array_priority__ = 1000.0

    _type: Type
    _device: str
    _value: Node | None
    _buffer: Buffer | None
    _scope: Scope | None
    _base: Array | None
    _above: tuple[ref[Array], ...]
    _path: tuple[Step, ...]
    _seen: int
    _version: int
    _count: int
    _guard: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return self._type.shape

    @property
    def dtype(self) -> DType:
        return self._type.dtype

    @property
    def ndim(self) -> int:
        return len(self._type.shape)

    @property
    def size(self) -> int:
        return self._type.size

    @property
    def itemsize(self) -> int:
        return self._type.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self._type.nbytes

    @property
    def device(self) -> str:
        """The name of the device: "host", "cuda:0"."""
        return self._device

    def __len__(self) -> int:
        if not self._type.shape:
            raise TypeError("len() of a 0-d array")
        return self._type.shape[0]

    # --- state
    @property
    def _stamp(self) -> int:
        """Grows with every write to this variable."""
        return self._version + (self._buffer.version if self._buffer is not None else 0)

    def _is_fresh(self) -> bool:
        """Whether nobody has written the root since this view was taken."""
        return self._base is not None and self._seen == self._base._stamp

    if TYPE_CHECKING:  # attached by operators.py and methods.py; said here for editors and type checkers
        T: Array
        mT: Array
        real: Array
        imag: Array

        def __getitem__(self, key: Any) -> Array: ...
        def __setitem__(self, key: Any, value: Any) -> None: ...
        def __add__(self, other: Any) -> Array: ...
        def __radd__(self, other: Any) -> Array: ...
        def __sub__(self, other: Any) -> Array: ...
        def __rsub__(self, other: Any) -> Array: ...
        def __mul__(self, other: Any) -> Array: ...
        def __rmul__(self, other: Any) -> Array: ...
        def __truediv__(self, other: Any) -> Array: ...
        def __rtruediv__(self, other: Any) -> Array: ...
        def __floordiv__(self, other: Any) -> Array: ...
        def __mod__(self, other: Any) -> Array: ...
        def __pow__(self, other: Any) -> Array: ...
        def __matmul__(self, other: Any) -> Array: ...
        def __and__(self, other: Any) -> Array: ...
        def __or__(self, other: Any) -> Array: ...
        def __xor__(self, other: Any) -> Array: ...
        def __neg__(self) -> Array: ...
        def __abs__(self) -> Array: ...
        def __invert__(self) -> Array: ...
        def __lt__(self, other: Any) -> Array: ...
        def __le__(self, other: Any) -> Array: ...
        def __gt__(self, other: Any) -> Array: ...
        def __ge__(self, other: Any) -> Array: ...
        def __bool__(self) -> bool: ...
        def __int__(self) -> int: ...
        def __float__(self) -> float: ...
        def __complex__(self) -> complex: ...
        def __index__(self) -> int: ...
        def numpy(self) -> np.ndarray: ...
        def item(self, *where: Any) -> Any: ...
        def tolist(self) -> Any: ...
        def copy(self) -> Array: ...
        def assign(self, value: Any) -> Array: ...
        def astype(self, dtype: Any) -> Array: ...
        def to(self, device: str) -> Array: ...
        def free(self) -> None: ...
        def reshape(self, *shape: Any) -> Array: ...
        def transpose(self, *axes: Any) -> Array: ...

    def __iter__(self) -> Iterator[Any]:
        if not self._type.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[k] for k in range(self._type.shape[0]))

    def __deepcopy__(self, memo: Any) -> Array:
        return self.copy()

    def __copy__(self) -> Array:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        from gla.array.create import asarray

        return (asarray, (fetch(self, "pickling"), None, self._device))

    def __repr__(self) -> str:
        from gla.array.printing import represent

        return represent(self)

    def __str__(self) -> str:
        from gla.array.printing import show

        return show(self)

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        return format(fetch(self, "format").item(), spec)


def _blank(type: Type, device: str, scope: Scope | None) -> Array:
    array = Array.__new__(Array)
    array._type, array._device, array._scope = type, device, scope
    array._value = array._buffer = array._base = array._guard = None
    array._above, array._path, array._seen, array._version, array._count = (), (), 0, 0, 0
    return array


def from_buffer(buffer: Buffer) -> Array:
    """The array that owns `buffer`."""
    array = Array.__new__(Array)
    array._type, array._device, array._scope = buffer.type, buffer.device, None
    array._buffer = buffer
    array._value = array._base = array._guard = None
    array._above, array._path, array._seen, array._version, array._count = (), (), 0, 0, 0
    return array


def owning(storage: Any, type: Type, device: str, signature: tuple[Any, ...], origin: Span | None) -> Array:
    """A fresh array that owns `storage`: what Buffer and from_buffer do, in one call, for replays."""
    buffer: Buffer = _new(Buffer)
    buffer.storage, buffer.type, buffer.device, buffer.origin = storage, type, device, origin
    buffer.version, buffer._leaf, buffer.signature = 0, None, signature
    array: Array = _new(Array)
    array._type, array._device, array._buffer = type, device, buffer
    array._scope = array._value = array._base = array._guard = None
    array._above = array._path = ()
    array._seen = array._version = array._count = 0
    return array


def from_node(node: Node, device: str, scope: Scope | None, count: int = 1) -> Array:
    """The value of `node`: of `scope`, or pending. Weak scalars become strong outside of traces."""
    if scope is None and node.type.weak:
        node = builder.cast(node, node.dtype)
    array = _blank(node.type, device, scope)
    array._value = node
    if scope is None:
        array._count = count
        pending.add(array)
    else:
        scope.made(array)
    return array


def node_of(array: Array) -> Node:
    """The node that reads `array` now, in the scope that is current."""
    scope = current.get()
    owner = array._scope
    if owner is not None:
        if owner.done or scope is None or not scope.within(owner):
            raise leak_error(array)
        assert array._value is not None
        return array._value
    if scope is not None:
        inside = scope.enter(array)
        if inside is not array:
            return node_of(inside)
    buffer = array._buffer
    if buffer is not None:
        return buffer.leaf
    assert array._value is not None
    return array._value


def device_of(arrays: list[Array], scope: Scope | None) -> str:
    """The one device of the operands; the scope's or the current one when there are none."""
    if not arrays:
        if scope is not None:
            return scope.device
        from gla.array.devices import current_device

        return current_device()
    first = arrays[0]
    for other in arrays[1:]:
        if other._device != first._device:
            raise device_error(first, other)
    if scope is not None and scope.device != first._device and scope.device:
        raise DeviceError(
            "GLA0501",
            f"{first._type} is on {first._device}, but {scope.name} runs on {scope.device}",
            labels=labels(""),
            help=f"move it before: x.to({scope.device!r})",
        )
    return first._device


def device_error(a: Array, b: Array) -> DeviceError:
    return DeviceError(
        "GLA0501",
        f"operands are on two devices: {a._type} on {a._device} and {b._type} on {b._device}",
        labels=labels(
            "", *((f"{x._type} on {x._device}", n) for x in (a, b) if (n := x._value or (x._buffer and x._buffer.leaf)))
        ),
        help=f"move one of them: x.to({a._device!r})",
    )


def fetch(array: Array, what: str) -> np.ndarray:
    """The contents as a fresh NumPy array. `what` names the look, for the refusal inside a scope."""
    scope = current.get()
    if array._scope is not None or scope is not None:
        raise look_error(array, what)
    from gla.array import engine, realise

    while array._buffer is None:
        with pending.place(array._device).lock:  # nobody overwrites what it reads
            node = array._value
            storage = storage_of(resolved(node)) if node is not None and array._buffer is None else None
            if storage is not None:
                return engine.download(storage, array._type, array._device)
        realise.realise([array])
    return engine.download(array._buffer.storage, array._type, array._device)
