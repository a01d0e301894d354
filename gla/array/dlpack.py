"""Memory shared with other libraries without a copy: DLPack both ways, `__cuda_array_interface__`, NumPy arrays.

Imported memory is the array's own from then on: the owner is kept until the last use of it, by graphs too, has passed. Streams
are ordered by the protocol: an import asks the producer to order ours, an export orders the consumer's. Both sides see what the
other writes later, and order that themselves. A stream in another library's capture is refused. Called by exchange.py and create.py.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from gla import dtypes
from gla.array import engine, realise
from gla.array.buffer import Buffer
from gla.array.calls import operate
from gla.array.capsule import CPU, CUDA, CUDA_HOST, CUDA_MANAGED, Contents, open_capsule, pack
from gla.array.create import to
from gla.array.scope import current, look_error, outside
from gla.array.value import Array, from_buffer
from gla.dtypes import DType
from gla.errors import DeviceError, DtypeError, ShapeError
from gla.ir.builder import apply, broadcast, constant
from gla.ir.functions.create import iota
from gla.ir.functions.shape import reshape
from gla.ir.node import Node, make
from gla.ir.spans import here, labels
from gla.ir.types import Type
from gla.runtime.others import capture_error, capturing_library, refuse_foreign_capture

LIBRARIES = {"torch": "PyTorch", "cupy": "CuPy", "jax": "JAX", "jaxlib": "JAX", "numba": "Numba", "tensorflow": "TensorFlow"}
LEGACY_STREAM, PER_THREAD_STREAM = 1, 2  # CU_STREAM_LEGACY, CU_STREAM_PER_THREAD; the protocol has the same numbers


# --- import
def import_from(x: Any, device: str | None, copy: bool | None) -> Array:
    """`gla.from_dlpack`; see exchange.py."""
    if isinstance(x, Array):
        made = x.copy() if copy else x
    else:
        with outside():  # in a capture too the memory is taken over now, and a copy made now
            made = _import(x, copy)
    return made if device is None else to(made, device)


def _import(x: Any, copy: bool | None) -> Array:
    if hasattr(x, "__dlpack__"):
        contents, machine = _ask(x)
    elif hasattr(x, "__cuda_array_interface__"):
        contents, machine = _interface(x)
    else:
        raise DtypeError(
            "GLA0237",
            f"a {type(x).__name__} does not share its memory",
            labels=labels("here"),
            help="from_dlpack takes arrays of libraries with __dlpack__; gla.asarray copies anything else",
        )
    return adopted(contents, machine, copy, type(x).__name__)


def _ask(x: Any) -> tuple[Contents, Any]:
    """What `x` exports, our current stream ordered after the producer's work on it."""
    kind, number = (int(v) for v in x.__dlpack_device__())
    if kind in (CPU, CUDA_HOST):
        return open_capsule(_capsule(x, {})), engine.machine("host")
    if kind not in (CUDA, CUDA_MANAGED):
        raise DeviceError(
            "GLA0572", f"a {type(x).__name__} on a device of DLPack's kind {kind} cannot be read by gla", labels=labels("here"),
            help="move it to the CPU or an NVIDIA GPU first",
        )  # fmt: skip
    _refuse_capture(x)
    machine = engine.machine(f"cuda:{number}")
    stream = machine.current_stream()
    contents = open_capsule(_capsule(x, {"stream": int(stream.handle)}))
    _check_stream(machine, stream.handle, _library(x))
    return contents, machine


def _capsule(x: Any, options: dict[str, Any]) -> Any:
    """Versioned where the producer knows that."""
    try:
        return x.__dlpack__(max_version=(1, 0), **options)
    except TypeError:
        return x.__dlpack__(**options)


def _interface(x: Any) -> tuple[Contents, Any]:
    """`__cuda_array_interface__`, version 2 or 3."""
    _refuse_capture(x)
    given = x.__cuda_array_interface__
    dtype = _numpy_dtype(given["typestr"], type(x).__name__)
    address, read_only = given["data"]
    shape = tuple(int(n) for n in given["shape"])
    strides = given.get("strides")
    steps = tuple(int(s) // dtype.itemsize for s in strides) if strides is not None else row_major(shape)
    machine = engine.machine(engine.device_name("cuda"))
    brought = given.get("stream")
    if brought:
        _check_stream(machine, int(brought), _library(x))
        machine.new_stream(int(brought)).order(machine.current_stream())
    return Contents(int(address or 0), dtype, shape, steps, bool(read_only), x), machine


def _numpy_dtype(text: str, what: str) -> DType:
    if text[0] == ">":
        raise DtypeError("GLA0237", f"{what} has its bytes in another order ({text})", labels=labels("here"))
    return dtypes.as_dtype(np.dtype(text))


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements."""
    found, step = [], 1
    for n in reversed(shape):
        found.append(step)
        step *= n
    return tuple(reversed(found))


def adopted(contents: Contents, machine: Any, copy: bool | None, what: str) -> Array:
    """An array on memory of somebody else's, or a copy where it has to be."""
    shape, dtype = contents.shape, contents.dtype
    size = int(np.prod(shape, dtype=np.int64))
    dense = size <= 1 or all(s == t for n, s, t in zip(shape, contents.strides, row_major(shape)) if n > 1)
    aligned = contents.address % min(dtype.itemsize, 8) == 0
    why = (
        "is not contiguous"
        if not dense
        else "may not be written"
        if contents.read_only
        else ""
        if aligned
        else "is not aligned"
    )
    if why and copy is False:
        raise ShapeError(
            "GLA0340", f"the memory of {what} ({Type(dtype, shape)}) cannot be shared: it {why}", labels=labels("here"),
            help="drop copy=False, or make it contiguous and writeable first",
        )  # fmt: skip
    if not size:
        return from_buffer(Buffer(machine.allocate(0), Type(dtype, shape), machine.name))
    if not aligned and machine.kind == "host":
        return _copied_bytes(contents, machine)
    if dense:
        made = from_buffer(Buffer(_wrapped(contents, 0, size, machine), Type(dtype, shape), machine.name))
        if not why and not copy:
            return made
    else:
        made = _strided(contents, machine)
    made = made.copy()
    realise.own([made])
    return made


def _wrapped(contents: Contents, first: int, count: int, machine: Any) -> Any:
    size = contents.dtype.itemsize
    return machine.pool.wrap(contents.address + first * size, count * size, contents.owner, machine.current_stream())


def _copied_bytes(contents: Contents, machine: Any) -> Array:
    """Host memory at an odd address: NumPy reads it."""
    low, high = _reach(contents)
    size = contents.dtype.itemsize
    flat = np.frombuffer(ctypes.string_at(contents.address + low * size, (high - low + 1) * size), contents.dtype.numpy)
    steps = [s * contents.dtype.itemsize for s in contents.strides]
    values = np.lib.stride_tricks.as_strided(flat[-low:], contents.shape, steps)
    return from_buffer(Buffer(machine.upload(np.ascontiguousarray(values)), Type(contents.dtype, contents.shape), machine.name))


def _reach(contents: Contents) -> tuple[int, int]:
    """The lowest and highest element, counted from the first."""
    ends = [s * (n - 1) for n, s in zip(contents.shape, contents.strides)]
    return sum(min(e, 0) for e in ends), sum(max(e, 0) for e in ends)


def _strided(contents: Contents, machine: Any) -> Array:
    """A value that reads memory with gaps or in another order of axes."""
    low, high = _reach(contents)
    flat = from_buffer(
        Buffer(_wrapped(contents, low, high - low + 1, machine), Type(contents.dtype, (high - low + 1,)), machine.name)
    )
    shape = contents.shape

    def build(node: Node) -> Node:
        at = broadcast(constant(-low, dtypes.int64, literal=False), shape)
        for k, (n, step) in enumerate(zip(shape, contents.strides)):
            along = apply("multiply", iota(n), constant(step, dtypes.int64, literal=False))
            at = apply("add", at, broadcast(reshape(along, (n,) + (1,) * (len(shape) - 1 - k)), shape))
        return make("gather", (node, at), {"axes": (0,)}, Type(contents.dtype, shape), here())

    return operate(build, (flat,))  # type: ignore[no-any-return]


def share(values: np.ndarray, wanted: DType | None) -> Array:
    """A NumPy array's own memory as an array of the host device. ShapeError or DtypeError when it would have to be copied."""
    dtype = dtypes.as_dtype(values.dtype)
    if (wanted is not None and wanted is not dtype) or not values.dtype.isnative:
        raise DtypeError(
            "GLA0237", f"an array of {values.dtype} cannot be shared as {wanted or dtype}", labels=labels("here"),
            help="drop copy=False: the conversion is a copy",
        )  # fmt: skip
    steps = tuple(s // dtype.itemsize if s % dtype.itemsize == 0 else 0 for s in values.strides)
    contents = Contents(values.ctypes.data, dtype, values.shape, steps, not values.flags.writeable, values)
    return adopted(contents, engine.machine("host"), False, "a NumPy array")


# --- export
def dlpack_device(self: Array) -> tuple[int, int]:
    """(kind, number) of the device, as DLPack counts: 1 is the CPU, 2 a CUDA device."""
    return (CPU, 0) if self.device == "host" else (CUDA, int(self.device.partition(":")[2]))


def to_dlpack(
    self: Array, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
) -> Any:
    """The array's memory as a DLPack capsule, without a copy unless `copy=True` or another device is asked for.

    `stream`: where the consumer will use it; its later work there runs after everything that writes the array. For CUDA None
    and 1 are the default stream, 2 the per-thread one, -1 no ordering at all; on the host there is only None.
    """
    if self._scope is not None or current.get() is not None:
        raise look_error(self, "an export by DLPack")
    mine = dlpack_device(self)
    wanted = tuple(int(v) for v in dl_device) if dl_device is not None else mine
    versioned = max_version is not None and tuple(max_version) >= (1, 0)
    if wanted != mine:
        if wanted[0] != CPU or copy is False:
            raise BufferError(f"an array on {self.device} cannot be exported to device {wanted} without a copy")
        array = to(self, "host")
        return to_dlpack(array, max_version=max_version)
    array = self.copy() if copy else self
    realise.own([array])
    buffer = array._buffer
    assert buffer is not None
    contents = Contents(buffer.storage.address, array.dtype, array.shape, row_major(array.shape), False, None)
    return pack(contents, mine, versioned, bool(copy), _ordered(buffer, stream).end)


def _ordered(buffer: Buffer, stream: Any) -> Any:
    """The consumer's stream comes after what is submitted on the memory; what gla does with it next comes after the consumer's."""
    from gla.runtime.exported import Exported
    from gla.runtime.memory.block import acquire

    machine, block = engine.machine(buffer.device), buffer.storage.block
    buffer.storage.check()
    if machine.kind != "cuda":
        if stream is not None and stream != -1:
            raise BufferError(f"an array on the host has no stream {stream!r}; pass stream=None")
        acquire(block, machine.current_stream(), True)
        machine.settle(buffer.storage, True)
        return Exported(machine.gate, buffer.storage, None)
    if stream == -1:
        return Exported(machine.gate, buffer.storage, None)
    if stream is not None and (isinstance(stream, bool) or not hasattr(stream, "__index__") or int(stream) < 1):
        raise BufferError(
            f"stream={stream!r} is ambiguous: 1 is the default stream, 2 the per-thread one, -1 asks for no ordering"
        )
    number = LEGACY_STREAM if stream is None else int(stream)
    _check_stream(machine, number, "")
    consumer = machine.new_stream(number)
    acquire(block, consumer, True)
    consumer.submitted = next(consumer.ticks)  # stands for what the consumer is about to submit
    return Exported(machine.gate, buffer.storage, consumer)


def cuda_array_interface(self: Array) -> dict[str, Any]:
    """`__cuda_array_interface__`, version 3. The consumer orders itself after `stream`. AttributeError on the host."""
    if self.device == "host":
        raise AttributeError("an array on the host has no __cuda_array_interface__")
    if self._scope is not None or current.get() is not None:
        raise look_error(self, "__cuda_array_interface__")
    from gla.runtime.memory.block import acquire

    if self.dtype is dtypes.bfloat16:
        raise AttributeError("__cuda_array_interface__ has no bfloat16; use DLPack")
    realise.own([self])
    buffer = self._buffer
    assert buffer is not None
    machine = engine.machine(self.device)
    stream = machine.current_stream()
    _check_stream(machine, stream.handle, "")
    acquire(buffer.storage.block, stream, True)
    return {
        "shape": self.shape, "typestr": self.dtype.numpy.str, "data": (buffer.storage.address if self.size else 0, False),
        "version": 3, "strides": None, "stream": int(stream.handle),
    }  # fmt: skip


# --- other libraries' captures
def _library(x: Any) -> str:
    module = type(x).__module__.partition(".")[0]
    return LIBRARIES.get(module, module)


def _refuse_capture(x: Any) -> None:
    """Before the producer is asked: its answer would draw our stream into its capture."""
    name = capturing_library()
    if name and name == _library(x):
        raise capture_error(name)


def _check_stream(machine: Any, handle: Any, library: str) -> None:
    """Is somebody else recording on a stream that was brought to us, or that an import has ordered?"""
    refuse_foreign_capture(machine.device, handle, library)
