"""Methods of `gla.Array`: looking at values, writing, and the namespace functions that people call as methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gla.array import assign as assigning
from gla.array import create, interop, operators, realise
from gla.array.boundary import public
from gla.array.calls import operate
from gla.array.namespace import FUNCTIONS, reshape
from gla.array.scope import current, look_error
from gla.array.value import Array, fetch
from gla.errors import ShapeError
from gla.ir.functions.elementwise import imag, real
from gla.ir.spans import labels

_AS_METHODS = (
    "sum", "prod", "max", "min", "any", "all", "mean", "var", "std", "argmax", "argmin", "squeeze", "round", "clip", "conj",
    "dot", "diagonal", "trace", "cumsum", "cumprod", "take",
)  # fmt: skip
_AXIS_FIRST = {"sum", "prod", "max", "min", "any", "all", "mean", "var", "std", "argmax", "argmin", "cumsum", "cumprod"}


def _one(array: Array, what: str) -> Any:
    if array.size != 1:
        if array._scope is not None or current.get() is not None:
            raise look_error(array, what)
        hint = "use gla.any(x) or gla.all(x)" if what == "bool()" else "index one element, or use .numpy()"
        raise ShapeError(
            "GLA0329", f"{what} of {array._type} is ambiguous: it has {array.size} elements", labels=labels("here"), help=hint
        )
    return fetch(array, what).reshape(())[()].item()


def to_bool(self: Array) -> bool:
    return bool(_one(self, "bool()"))


def to_int(self: Array) -> int:
    return int(_one(self, "int()"))


def to_float(self: Array) -> float:
    return float(_one(self, "float()"))


def to_complex(self: Array) -> complex:
    return complex(_one(self, "complex()"))


def to_index(self: Array) -> int:
    if self.dtype.kind not in "iu" or self.ndim:
        raise TypeError(f"only an integer of 0 dimensions can be an index, not {self._type}")
    return int(_one(self, "index()"))


def item(self: Array, *where: Any) -> Any:
    """The one element as a Python number; with indices, that element."""
    if where:
        return item(self[where if len(where) > 1 else where[0]])
    return _one(self, "item()")


def tolist(self: Array) -> Any:
    """The elements as nested lists of Python numbers."""
    return fetch(self, "tolist()").tolist()


def to_numpy(self: Array) -> np.ndarray:
    """A fresh NumPy array with the contents."""
    return fetch(self, "numpy()")


def copy(self: Array) -> Array:
    """A value of its own: no write to the one reaches the other."""
    return create.copied(self)


def flatten(self: Array) -> Array:
    """The elements in one axis, row-major; a copy."""
    return operate(lambda node: node, (reshape(self, -1),))  # type: ignore[no-any-return]


def ravel(self: Array) -> Array:
    """The elements in one axis, row-major: a view that writes through."""
    return reshape(self, -1)  # type: ignore[no-any-return]


def method_reshape(self: Array, *shape: Any, copy: bool | None = None) -> Array:
    """The same elements, row-major, in another shape; one extent may be -1. Writing through it writes this array."""
    return reshape(self, shape[0] if len(shape) == 1 else shape, copy=copy)  # type: ignore[no-any-return]


def method_transpose(self: Array, *axes: Any) -> Array:
    """Axes permuted, reversed without arguments. Writing through it writes this array."""
    order = axes[0] if len(axes) == 1 and not isinstance(axes[0], (int, np.integer)) else axes or None
    return FUNCTIONS["transpose"](self, order)  # type: ignore[no-any-return]


def matrix_transposed(self: Array) -> Array:
    """The last two axes exchanged."""
    n = self.ndim
    if n < 2:
        return FUNCTIONS["matrix_transpose"](self)  # type: ignore[no-any-return]
    return FUNCTIONS["transpose"](self, (*range(n - 2), n - 1, n - 2))  # type: ignore[no-any-return]


def transposed(self: Array) -> Array:
    """The axes reversed."""
    return FUNCTIONS["transpose"](self)  # type: ignore[no-any-return]


def free(self: Array) -> None:
    """Give the memory back now (after launches that use it). Pending values that read the array are computed before."""
    scope = current.get()
    if scope is not None:
        scope.free(self)
        return
    if self._buffer is None:
        realise.own([self])
    buffer = self._buffer
    assert buffer is not None
    with realise.writing([buffer]):
        buffer.storage.free()


def contains(self: Array, value: Any) -> bool:
    return bool(FUNCTIONS["any"](self == value))


def _method(name: str) -> Callable[..., Any]:
    function = FUNCTIONS[name]
    axis_first = name in _AXIS_FIRST

    def call(self: Array, *args: Any, **options: Any) -> Any:
        if axis_first and args:
            options["axis"] = args[0]
            args = args[1:]
        return function(self, *args, **options)

    call.__name__, call.__doc__ = name, function.__doc__
    return public(call)


def _part(function: Callable[..., Any]) -> Callable[..., Any]:
    return public(lambda self: operate(function, (self,)))


def attach() -> None:
    """Give `Array` its methods."""
    operators.attach()
    methods: dict[str, Callable[..., Any]] = {
        "__bool__": to_bool, "__int__": to_int, "__float__": to_float, "__complex__": to_complex, "__index__": to_index,
        "__getitem__": assigning.getitem, "__setitem__": assigning.setitem, "__contains__": contains,
        "item": item, "tolist": tolist, "numpy": to_numpy, "copy": copy, "flatten": flatten, "ravel": ravel,
        "reshape": method_reshape, "transpose": method_transpose, "assign": assigning.assign, "astype": create.astype,
        "to": create.to, "free": free, "conjugate": FUNCTIONS["conj"],
        "__array__": interop.to_array, "__array_ufunc__": interop.ufunc, "__array_function__": interop.function,
        "__array_namespace__": interop.namespace, "to_device": interop.to_device,
    }  # fmt: skip
    for name, method in methods.items():
        setattr(Array, name, public(method))
    for name in _AS_METHODS:
        setattr(Array, name, _method(name))
    for name, getter in (("T", transposed), ("mT", matrix_transposed)):
        setattr(Array, name, property(public(getter)))
    for name, part in (("real", real), ("imag", imag)):
        setattr(Array, name, property(_part(part)))
