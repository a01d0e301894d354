"""Arrays from outside: `asarray` copies lists, numbers and NumPy arrays to a device. Integers stay exact."""

from __future__ import annotations

from typing import Any

import numpy as np

from gla import dtypes
from gla.array import engine
from gla.array.boundary import public
from gla.array.buffer import Buffer
from gla.array.calls import operate
from gla.array.devices import current_device
from gla.array.scope import current, outside
from gla.array.value import Array, from_buffer
from gla.dtypes import DType
from gla.errors import DeviceError, DtypeError, RangeError, ShapeError
from gla.ir import builder
from gla.ir.builder import cast, default_float
from gla.ir.functions import shape as shapes
from gla.ir.node import Node
from gla.ir.spans import here, labels
from gla.ir.types import Type


def upload(values: np.ndarray, dtype: DType | None, device: str) -> Array:
    """A copy of NumPy values on `device`; 0-d and any strides too."""
    dtype = dtype or numpy_dtype(values)
    contiguous = np.ascontiguousarray(values).reshape(values.shape)
    if contiguous.dtype != dtype.numpy:
        contiguous = contiguous.astype(dtype.numpy)
    if not contiguous.dtype.isnative:
        contiguous = contiguous.astype(contiguous.dtype.newbyteorder("="))
    return from_buffer(Buffer(engine.upload(contiguous, device), Type(dtype, values.shape), device, origin=here()))


def numpy_dtype(values: np.ndarray) -> DType:
    """gla's dtype of a NumPy array; DtypeError for strings, objects, times and the like."""
    if values.dtype.kind not in "biufcV" or values.dtype.names:
        raise DtypeError(
            "GLA0201",
            f"a NumPy array of dtype {values.dtype} has no dtype of gla",
            labels=labels("here"),
            help="make it numbers first: values.astype('float64')",
        )
    return dtypes.as_dtype(values.dtype)


@public
def asarray(values: Any, dtype: Any = None, device: str | None = None, *, copy: bool | None = None) -> Array:
    """An array with a copy of `values`: a number, nested lists, a NumPy array, an array of gla (which is given back as it is).

    Without `dtype`: bool, int64 (uint64 for integers from 2**63 on), the default float, or complex128; NumPy's own for a
    NumPy array. RangeError for integers that do not fit, DtypeError for anything that is no number.
    """
    wanted = dtypes.as_dtype(dtype) if dtype is not None else None
    if hasattr(values, "__gla_operand__"):
        values = values.__gla_operand__()
    if isinstance(values, Array):
        return _again(values, wanted, device, copy)
    if copy is False or _is_shareable(values):
        return _shared(values, wanted, device, copy)
    scope = current.get()
    if isinstance(values, (list, tuple)) and _holds_array(values):
        return _stacked(values, wanted)
    data = values if isinstance(values, (np.ndarray, np.generic)) else _from_python(values, wanted)
    if not isinstance(data, np.ndarray):
        data = np.asarray(data)
    if (
        wanted is not None
        and data.dtype.kind in "iu"
        and wanted.kind in "iu"
        and not isinstance(values, np.ndarray)
        and data.size
    ):
        for value in (int(data.min()), int(data.max())):
            dtypes.check_fits(value, wanted)
    if data.dtype.kind == "c" and wanted is not None and wanted.kind != "c":
        raise DtypeError("GLA0205", f"cannot make {wanted} of complex values", labels=labels("here"), help="take values.real")
    if scope is not None:
        return scope.constant(data if wanted is None else data.astype(wanted.numpy))
    return upload(data, wanted, engine.device_name(device) if device is not None else current_device())


def _is_shareable(values: Any) -> bool:
    """Whether it is an array of another library's."""
    return not isinstance(values, (np.ndarray, np.generic, list, tuple)) and (
        hasattr(values, "__dlpack__") or hasattr(values, "__cuda_array_interface__")
    )


def _shared(values: Any, dtype: DType | None, device: str | None, copy: bool | None) -> Array:
    """Another library's array, copied unless `copy` is False; NumPy's own memory when it is."""
    from gla.array import dlpack

    if copy is not False:
        with outside():
            made = dlpack.import_from(values, device, True)
        return made if dtype is None or dtype is made.dtype else astype(made, dtype)
    if device is not None and isinstance(values, np.ndarray) and engine.device_name(device) != "host":
        raise DeviceError(
            "GLA0502", f"host memory cannot be shared with {device}", labels=labels("here"), help="drop copy=False"
        )
    if isinstance(values, np.ndarray):
        return dlpack.share(values, dtype)
    if not _is_shareable(values):
        raise DtypeError(
            "GLA0237", f"a {type(values).__name__} has no memory to share", labels=labels("here"), help="drop copy=False"
        )
    made = dlpack.import_from(values, device, False)
    if dtype is not None and dtype is not made.dtype:
        raise DtypeError("GLA0237", f"{made._type} cannot be shared as {dtype}", labels=labels("here"), help="drop copy=False")
    return made


def _again(array: Array, dtype: DType | None, device: str | None, copy: bool | None) -> Array:
    if device is not None:
        array = to(array, device)
    if dtype is not None and dtype is not array.dtype:
        return operate(lambda node: cast(node, dtype), (array,))  # type: ignore[no-any-return]
    return copied(array) if copy else array


def _holds_array(values: Any) -> bool:
    return any(isinstance(v, Array) or (isinstance(v, (list, tuple)) and _holds_array(v)) for v in values)


def _stacked(values: Any, dtype: DType | None) -> Array:
    parts = [_stacked(v, dtype) if isinstance(v, (list, tuple)) else v for v in values]
    return operate(lambda *nodes: _cast_to(shapes.stack(list(nodes)), dtype), parts)  # type: ignore[no-any-return]


def _cast_to(node: Node, dtype: DType | None) -> Node:
    return node if dtype is None else cast(node, dtype)


def _from_python(values: Any, wanted: DType | None) -> np.ndarray:
    if hasattr(values, "__array__") or hasattr(values, "__buffer__") or isinstance(values, (bytes, bytearray, memoryview)):
        return np.asarray(values)
    try:
        data = np.array(values)
    except ValueError as error:
        raise ShapeError("GLA0328", f"the nested lists are not rectangular: {error}", labels=labels("here")) from None
    except OverflowError as error:
        raise RangeError("GLA0203", f"an integer does not fit int64 or uint64: {error}", labels=labels("here")) from None
    if _has_integers_only(values) and (data.dtype.kind in "fO") and data.size:
        return _exact(values, data)
    if data.dtype.kind not in "biufc":
        if data.dtype.kind == "O" and data.ndim:
            raise DtypeError("GLA0204", f"the list holds what is no number: {_first_odd(data)!r:.60}", labels=labels("here"))
        raise DtypeError(
            "GLA0204",
            f"a {type(values).__name__} is no value of gla: {values!r:.60}",
            labels=labels("here"),
            help="pass numbers, nested lists of numbers, or a NumPy array",
        )
    if data.dtype.kind == "f" and wanted is None and not data.size:
        return data.astype(default_float.get().numpy)
    return (
        data.astype(default_float.get().numpy)
        if data.dtype == np.float64 and wanted is None and not _numpy_inside(values)
        else data
    )


def _numpy_inside(values: Any) -> bool:
    while isinstance(values, (list, tuple)) and values:
        values = values[0]
    return isinstance(values, (np.ndarray, np.generic))


def _first_odd(data: np.ndarray) -> Any:
    return next((v for v in data.ravel() if not isinstance(v, (bool, int, float, complex, np.generic))), data.ravel()[0])


def _has_integers_only(values: Any) -> bool:
    if isinstance(values, (list, tuple)):
        return all(_has_integers_only(v) for v in values)
    return isinstance(values, (int, np.integer)) and not isinstance(values, bool)


def _exact(values: Any, data: np.ndarray) -> np.ndarray:
    """Integers that NumPy took through double: int64 or uint64, whichever holds them all."""
    whole = np.array(values, dtype=object)
    low, high = min(whole.ravel()), max(whole.ravel())
    for dtype in (dtypes.int64, dtypes.uint64):
        least, greatest = dtypes.integer_range(dtype)
        if least <= low and high <= greatest:
            return whole.astype(dtype.numpy)
    raise RangeError(
        "GLA0203",
        f"no integer dtype holds both {low} and {high}",
        labels=labels("here"),
        help="ask for floats: asarray(values, dtype='float64')",
    )


@public
def to(array: Array, device: str) -> Array:
    """The array on another device; itself when it is there already."""
    name = engine.device_name(device)
    if name == array.device:
        return array
    from gla.array.value import fetch

    return upload(fetch(array, "moving to another device"), array.dtype, name)


def copied(array: Array) -> Array:
    """A value of its own that no write to `array` reaches."""
    return operate(lambda node: node, (array,))  # type: ignore[no-any-return]


@public
def astype(array: Any, dtype: Any, *, copy: bool = True, device: str | None = None) -> Array:
    """Elements converted to `dtype`: floats to integers truncate and saturate, NaN gives 0; complex to real is DtypeError."""
    wanted = dtypes.as_dtype(dtype)
    if isinstance(array, Array) and array.dtype is wanted and not array._type.weak and not copy:
        return array
    result = operate(lambda node: builder.cast(node, wanted), (array,))
    return to(result, device) if device is not None else result  # type: ignore[no-any-return]
