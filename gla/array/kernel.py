"""`gla.kernel(source, name)`: a user's own CUDA C++, called as `k[grid, block](x, y, n)`, and recorded in captures.

Arguments are converted by the declared parameter types (declaration.py). A pointer takes a contiguous array, or a view of a
contiguous part of one, which the kernel then writes in place; `const` pointers are only read. Writes follow the rules of
every write: pending readers are computed before, stale views are refused. Refused inside the trace of a `gla.function`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gla import dtypes
from gla.array import engine, realise
from gla.array.assign import above, refresh
from gla.array.boundary import public
from gla.array.buffer import Buffer
from gla.array.capture import CaptureScope
from gla.array.declaration import Declaration, Parameter, declaration
from gla.array.parts import Spot
from gla.array.parts import launch as record
from gla.array.pinned import Pinned
from gla.array.scope import Scope, current
from gla.array.value import Array, device_of
from gla.dtypes import DType
from gla.errors import AliasError, DeviceError, DtypeError, InternalError, RangeError, ShapeError, TraceError
from gla.ir.spans import labels

MOST_BLOCKS = ((1 << 31) - 1, 65_535, 65_535)


@dataclass(frozen=True, slots=True)
class Extents:
    """How a launch is spread: blocks, threads of a block, dynamic shared bytes."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int


class Kernel:
    """A CUDA kernel of the user's. `k[grid, block](*arguments)` or `k[grid, block, shared](*arguments)` launches it."""

    def __init__(self, source: str, name: str) -> None:
        self._declared: Declaration = declaration(source, name)
        import hashlib

        self._key = hashlib.sha256(self._declared.source.encode()).hexdigest()
        self._loaded: dict[str, Any] = {}

    @property
    def name(self) -> str:
        return self._declared.name

    @public
    def __getitem__(self, extents: Any) -> Launcher:
        given = extents if isinstance(extents, tuple) else (extents,)
        if len(given) not in (2, 3):
            raise DtypeError(
                "GLA0233",
                f"kernel {self.name} is given {len(given)} extent(s), and takes grid, block and, if wanted, shared bytes",
                labels=labels("here"),
                help=f"write {self.name}[grid, block](...), grid and block a number or up to three: {self.name}[(4, 4), 256](...)",
            )
        shared = _extent(given[2], "shared bytes", self.name) if len(given) == 3 else 0
        return Launcher(self, Extents(_triple(given[0], "grid", self.name), _triple(given[1], "block", self.name), shared))

    def __call__(self, *arguments: Any) -> None:
        raise DtypeError(
            "GLA0233",
            f"kernel {self.name} is called without a grid",
            labels=labels("here"),
            help=f"{self.name}[grid, block](...)",
        )

    def __repr__(self) -> str:
        return f"<gla.kernel {self.name}({', '.join(p.text for p in self._declared.parameters)})>"

    def load(self, device: str) -> Any:
        """The kernel on a device: compiled there at its first use. DeviceError with the compiler's log."""
        found = self._loaded.get(device)
        if found is None:
            found = self._loaded[device] = self._load(device)
        return found

    def _load(self, device: str) -> Any:
        from gla.runtime.kernels import Wanted

        machine = engine.machine(device)
        if machine.kind != "cuda":
            raise DeviceError(
                "GLA0570",
                f"kernel {self.name} is CUDA C++, and its arrays are on {device}",
                labels=labels("here"),
                help="CUDA kernels need an NVIDIA GPU: move the arrays, x.to('cuda'), or write the operation with gla's functions",
            )
        try:
            (loaded,) = machine.kernels.load([Wanted(self.name, self._key, lambda: self._declared.source)])
        except InternalError as error:
            raise _compile_error(error, self.name) from None
        return loaded


def _compile_error(error: InternalError, name: str) -> DeviceError:
    """What NVRTC says of the user's own text."""
    found = error.diagnostic
    helps = [h for h in found.help if "fault of gla" not in h]
    what = found.labels[0].text if found.labels else found.message
    where = f" at line {found.labels[0].span.line} of its source" if found.labels else ""
    return DeviceError(
        "GLA0571",
        f"kernel {name} does not compile: {what}{where}",
        labels=found.labels,
        notes=found.notes,
        help=helps or "correct the source; the lines above are the compiler's",
        source=found.source,
    )


class Launcher:
    """A kernel with its grid and block; a call launches it."""

    __slots__ = ("extents", "kernel")

    def __init__(self, kernel: Kernel, extents: Extents) -> None:
        self.kernel, self.extents = kernel, extents

    @public
    def __call__(self, *arguments: Any) -> None:
        """Launch on the arguments, in the order of the current stream; in a capture, record one node."""
        kernel = self.kernel
        scope = current.get()
        if scope is not None and not isinstance(scope, CaptureScope):
            raise TraceError(
                "GLA0417",
                f"kernel {kernel.name} is launched inside {scope.name}",
                labels=labels("here"),
                help="launch it outside of the function, or capture both: gla.capture(lambda: (f(x), k[grid, block](x, n)))",
            )
        arrays, numbers = sort_arguments(kernel, arguments)
        device = device_of([a for _, a in arrays], scope)
        loaded = kernel.load(device)
        self._check(engine.machine(device), kernel.name)
        spots = places(kernel, arrays, scope)
        if 0 in (*self.extents.grid, *self.extents.block):
            return
        call = self._call(loaded, arrays, numbers, spots)
        if scope is not None:
            record(scope, call, spots)
        else:
            _run(engine.machine(device), call, spots)

    def _check(self, machine: Any, name: str) -> None:
        """What the driver would refuse without saying why."""
        grid, block, shared = self.extents.grid, self.extents.block, self.extents.shared
        most = machine.properties.max_threads_per_block
        for k, (n, limit) in enumerate(zip(grid, MOST_BLOCKS)):
            if n > limit:
                raise RangeError(
                    "GLA0234", f"kernel {name}: {n:,} blocks along {'xyz'[k]}, of at most {limit:,}", labels=labels("here"),
                    help="put the large extent first, or let a thread do several items",
                )  # fmt: skip
        if block[0] * block[1] * block[2] > most or block[2] > 64:
            raise RangeError(
                "GLA0234", f"kernel {name}: a block of {block} threads; {machine.name} takes {most:,}, and 64 along z",
                labels=labels("here"), help="use a smaller block and more blocks",
            )  # fmt: skip
        if shared > machine.properties.shared_bytes:
            raise RangeError(
                "GLA0234", f"kernel {name}: {shared:,} shared bytes a block; {machine.name} has {machine.properties.shared_bytes:,}",
                labels=labels("here"), help="use a smaller tile",
            )  # fmt: skip

    def _call(
        self, loaded: Any, arrays: Sequence[tuple[int, Array]], numbers: Sequence[tuple[int, DType, Any]], spots: Sequence[Spot]
    ) -> Any:
        from gla.device.base import Geometry, Parameters
        from gla.runtime.launch import kernel_call

        declared = self.kernel._declared.parameters
        template = Parameters([None if p.pointer else p.dtype for p in declared])
        for slot, _, value in numbers:
            template.set(slot, value)
        geometry = Geometry(self.extents.grid, self.extents.block, self.extents.shared)
        nbytes = sum(s.nbytes for s in spots)
        return kernel_call(loaded, geometry, template, [slot for slot, _ in arrays], nbytes, self.kernel.name)

    def __repr__(self) -> str:
        return f"<{self.kernel!r} on {self.extents}>"


def _run(machine: Any, call: Any, spots: Sequence[Spot]) -> None:
    """Launch now. The roots own their memory."""
    from gla.runtime.launch import launch

    changed: list[Buffer] = []
    storages = []
    for spot in spots:
        buffer = spot.root._buffer
        assert buffer is not None
        storages.append(buffer.storage.view(spot.offset, spot.nbytes))
        if spot.written and buffer not in changed:
            changed.append(buffer)
    seen = [(v, s.root) for s in spots if s.view is not None and s.root._buffer in changed for v in (s.view, *above(s.view))]
    with realise.writing(changed):
        launch(machine, call, storages, [s.written for s in spots])
    for view, root in seen:
        refresh(view, root)


# --- arguments
def sort_arguments(kernel: Kernel, arguments: Sequence[Any]) -> tuple[list[tuple[int, Array]], list[tuple[int, DType, Any]]]:
    """(slot, array) of pointers and (slot, dtype, value) of numbers. DtypeError for a wrong count or kind."""
    declared = kernel._declared.parameters
    if len(arguments) != len(declared):
        wanted = ", ".join(p.text for p in declared) or "nothing"
        raise DtypeError(
            "GLA0233",
            f"kernel {kernel.name} takes {len(declared)} argument(s) ({wanted}), {len(arguments)} given",
            labels=labels("here"),
        )
    arrays: list[tuple[int, Array]] = []
    numbers: list[tuple[int, DType, Any]] = []
    for slot, (parameter, value) in enumerate(zip(declared, arguments)):
        if parameter.pointer:
            arrays.append((slot, _array(kernel.name, parameter, value)))
        else:
            assert parameter.dtype is not None
            numbers.append((slot, parameter.dtype, _number(kernel.name, parameter, parameter.dtype, value)))
    return arrays, numbers


def _array(kernel: str, parameter: Parameter, value: Any) -> Array:
    if isinstance(value, Pinned):
        # Written, it is written in place; only read, it is read at each launch of a capture, and now outside of one.
        value = value.__gla_operand__() if parameter.const or current.get() is not None else value._array
    if not isinstance(value, Array):
        raise DtypeError(
            "GLA0233",
            f"kernel {kernel}: {parameter.name} is declared {parameter.text}, and a {type(value).__name__} is given",
            labels=labels("here"),
            help="pass an array of gla: gla.asarray(value)",
        )
    if parameter.dtype is not None and value.dtype is not parameter.dtype:
        raise DtypeError(
            "GLA0233",
            f"kernel {kernel}: {parameter.name} is declared {parameter.text}, and {value._type} is given",
            labels=labels("here"),
            help=f"convert it, x.astype(gla.{parameter.dtype}), or declare another type; bits are never reinterpreted",
        )
    return value


def _number(kernel: str, parameter: Parameter, dtype: DType, value: Any) -> Any:
    """A Python or NumPy number as one of the declared dtype. Refuses what would lose its kind."""
    kinds = {"b": "b", "i": "bi", "u": "biu", "f": "biuf", "c": "biufc"}
    given = value.dtype.kind if isinstance(value, np.generic) else dtypes.as_dtype(type(value)).kind if _is_plain(value) else ""
    given = "i" if given == "u" and dtype.kind in "iu" else given
    allowed = "biu" if dtype.kind in "iu" else kinds[dtype.kind]
    if not given or given not in allowed:
        helps = {
            "i": f"convert it yourself: int({parameter.name})", "u": f"convert it yourself: int({parameter.name})",
            "b": f"pass bool({parameter.name})",
        }  # fmt: skip
        advice = "numbers are passed by value; for an array declare a pointer" if isinstance(value, (Array, np.ndarray)) else ""
        raise DtypeError(
            "GLA0233",
            f"kernel {kernel}: {parameter.name} is declared {parameter.text}, and "
            f"{value._type if isinstance(value, Array) else f'{value!r:.40} ({type(value).__name__})'} is given",
            labels=labels("here"),
            help=advice or helps.get(dtype.kind, "pass a number"),
        )
    if dtype.kind in "iu":
        low, high = dtypes.integer_range(dtype)
        if not low <= int(value) <= high:
            raise RangeError(
                "GLA0203",
                f"kernel {kernel}: {parameter.name} = {int(value)} does not fit {parameter.text}, which holds {low} to {high}",
                labels=labels("here"),
            )
        return int(value)
    return value


def _is_plain(value: Any) -> bool:
    return type(value) in (bool, int, float, complex)


# --- places
def places(kernel: Kernel, arrays: Sequence[tuple[int, Array]], scope: Scope | None) -> list[Spot]:
    """Where each array lies: its root and the part of it. Outside of captures the roots are realised."""
    declared = kernel._declared.parameters
    spots = []
    for slot, given in arrays:
        parameter = declared[slot]
        array = scope.enter(given) if scope is not None and given._scope is None else given
        spots.append(_spot(kernel.name, parameter, array))
    if scope is None:
        realise.own(list({id(s.root): s.root for s in spots}.values()))
    _check_overlap(kernel.name, [declared[slot] for slot, _ in arrays], spots)
    return spots


def _spot(kernel: str, parameter: Parameter, array: Array) -> Spot:
    written, size = not parameter.const, array.dtype.itemsize
    root = array._base
    if root is not None and array._is_fresh():
        offset = contiguous_offset(array)
        if offset is None:
            raise _not_contiguous(kernel, parameter, array, "it is a view with gaps or permuted axes")
        return Spot(root, offset * size, array.nbytes, written, array)
    if root is not None and written:
        raise AliasError(
            "GLA0701",
            f"kernel {kernel} writes {parameter.name}, a view of {root._type} that was taken before the array was written by "
            "another way",
            labels=labels("here"),
            help="take the slice again after the other write",
        )
    value = array._value
    # zeros() and full() are broadcast numbers, and are given memory; a broadcast array is somebody else's.
    if value is not None and value.op == "broadcast" and value.operands[0].shape and value.operands[0].type.size != array.size:
        raise _not_contiguous(kernel, parameter, array, "it is a broadcast, whose elements share memory")
    return Spot(array, 0, array.nbytes, written)


def _not_contiguous(kernel: str, parameter: Parameter, array: Array, why: str) -> ShapeError:
    return ShapeError(
        "GLA0340",
        f"kernel {kernel}: {parameter.name} is given {array._type}, which is not contiguous: {why}",
        labels=labels("here"),
        help="pass a copy: x.copy()" + ("" if parameter.const else ", and assign it back afterwards: view.assign(copy)"),
    )


def contiguous_offset(view: Array) -> int | None:
    """At which element of its root a view starts, if it is a row-major stretch of it; else None.

    A NumPy array of bytes with the root's shape is indexed in the same way; its memory is never touched.
    """
    root = view._base
    assert root is not None
    strides = [1] * root.ndim
    for k in range(root.ndim - 2, -1, -1):
        strides[k] = strides[k + 1] * root.shape[k + 1]
    memory = np.empty(1, np.uint8)
    shape = np.lib.stride_tricks.as_strided(memory, root.shape, strides)
    for kind, detail in view._path:
        if kind == "index":
            key = detail if isinstance(detail, tuple) else (detail,)
            shape = shape[key if Ellipsis in key else (*key, ...)]
        elif kind == "permute":
            shape = shape.transpose(detail)
        else:
            shape = shape[...]
            try:
                shape.shape = detail
            except AttributeError:
                return None
    if shape.size == 0:
        return 0
    return shape.ctypes.data - memory.ctypes.data if shape.flags.c_contiguous else None


def _check_overlap(kernel: str, declared: Sequence[Parameter], spots: Sequence[Spot]) -> None:
    """A written argument may be the same memory as another one, not a part of it."""
    for k, mine in enumerate(spots):
        if not mine.written:
            continue
        for j, other in enumerate(spots):
            if j == k or other.root is not mine.root or (other.offset, other.nbytes) == (mine.offset, mine.nbytes):
                continue
            if mine.offset < other.offset + other.nbytes and other.offset < mine.offset + mine.nbytes:
                raise AliasError(
                    "GLA0703",
                    f"kernel {kernel} writes {declared[k].name}, and {declared[j].name} overlaps it in part",
                    labels=labels("here"),
                    help=f"pass a copy for {declared[j].name}: x.copy()",
                )


# --- extents
def _triple(given: Any, what: str, name: str) -> tuple[int, int, int]:
    items = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if not 1 <= len(items) <= 3:
        raise DtypeError(
            "GLA0233", f"kernel {name}: a {what} of {len(items)} extents; it has one to three", labels=labels("here")
        )
    numbers = [_extent(n, what, name) for n in items]
    return (*numbers, *(1,) * (3 - len(numbers)))  # type: ignore[return-value]


def _extent(value: Any, what: str, name: str) -> int:
    if isinstance(value, (bool, float, Array)) or not hasattr(value, "__index__"):
        raise DtypeError(
            "GLA0233", f"kernel {name}: {what} is {value!r:.40}, and takes integers", labels=labels("here"),
            help="a ceiling: (n + 255) // 256",
        )  # fmt: skip
    if int(value) < 0:
        raise RangeError("GLA0234", f"kernel {name}: {what} is {int(value)}", labels=labels("here"))
    return int(value)


@public
def kernel(source: str, name: str) -> Kernel:
    """A kernel of your own in CUDA C++: `k = gla.kernel(source, "scale")`, then `k[grid, block](x, y, n)`.

    `source` holds `extern "C" __global__ void scale(const float* x, float* y, int n) {...}` and whatever it needs. Arrays are
    passed to pointers, of exactly the declared type and contiguous; numbers are converted to the declared type. It is
    compiled at the first call on a device. DtypeError when there is no such kernel, or it has parameters that cannot be passed.
    """
    if not isinstance(source, str) or not isinstance(name, str):
        raise DtypeError("GLA0233", "gla.kernel takes the source and the kernel's name as text", labels=labels("here"))
    return Kernel(source, name)
