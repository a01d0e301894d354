"""The module's functions: Array API names and NumPy's, made from the rows of the op table and gla/ir/functions.

Each takes arrays, NumPy arrays, lists and numbers where a value is; axes, shapes and dtypes as the Array API.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from gla import dtypes
from gla.array.boundary import public
from gla.array.calls import NUMBERS, number, operate
from gla.array.operators import op
from gla.array.value import Array
from gla.errors import DtypeError
from gla.ir import builder
from gla.ir.functions import create, elementwise, index, linear, reduce, shape
from gla.ir.graph import new_input
from gla.ir.node import Node
from gla.ir.ops.table import ELEMENTWISE
from gla.ir.spans import labels

Function = Callable[..., Any]

_DOCS = {
    "positive": "x itself; bool is refused.", "square": "x * x.", "reciprocal": "1 / x, as a float.",
    "count_nonzero": "How many elements are not zero, as int64.", "matrix_transpose": "The last two axes exchanged.",
    "moveaxis": "Axes moved to other places.", "squeeze": "Axes of extent 1 taken away: all of them, or those named.",
    "broadcast_to": "x stretched to a shape.", "expand_dims": "A new axis of extent 1.", "flip": "Elements in reverse order along axes (all without).",
    "zeros": "Zeros of a shape, of the default float or `dtype`.", "ones": "Ones of a shape, of the default float or `dtype`.",
    "empty": "An array of a shape; its contents are zeros.",
}  # fmt: skip

_INTERNAL = {"cast", "philox", "complex", "positive"}
_SPECIAL: dict[str, Function] = {
    "power": elementwise.power, "positive": elementwise.positive, "square": elementwise.square,
    "reciprocal": elementwise.reciprocal, "real": elementwise.real, "imag": elementwise.imag, "conj": elementwise.conj,
    "where": elementwise.where, "angle": elementwise.angle,
}  # fmt: skip
_ALIASES = {
    "absolute": "abs", "fabs": "abs", "conjugate": "conj", "pow": "power", "concatenate": "concat", "permute_dims": "transpose",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh", "arccosh": "acosh",
    "arctanh": "atanh", "true_divide": "divide", "mod": "remainder", "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift", "invert": "bitwise_invert", "bitwise_not": "bitwise_invert", "rint": "round",
    "cumsum": "cumulative_sum", "cumprod": "cumulative_prod", "amax": "max", "amin": "min",
}  # fmt: skip


def _elementwise(name: str) -> Function:
    """The namespace function of an elementwise op."""
    row = ELEMENTWISE.get(name)
    function = _SPECIAL.get(name) or op(name)

    def call(*operands: Any, dtype: Any = None) -> Any:
        if row is not None and len(operands) != row.arity:
            raise DtypeError("GLA0206", f"{name} takes {row.arity} operands, {len(operands)} given", labels=labels("here"))
        if name == "power" and len(operands) == 2 and type(operands[1]) in (int, float):
            exponent = builder.constant(operands[1])
            return _typed(operate(lambda x: function(x, exponent), operands[:1]), dtype)
        return _typed(operate(function, operands), dtype)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = row.doc if row is not None else function.__doc__
    return public(call)


def _typed(array: Any, dtype: Any) -> Any:
    if dtype is None:
        return array
    return operate(lambda node: builder.cast(node, dtypes.as_dtype(dtype)), (array,))


def _lifted(function: Function, operands: int = 1) -> Function:
    """`function` of gla/ir/functions with its first `operands` arguments values, the others as they are."""
    names = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        values = list(args[:operands])
        for name in names[len(values) : operands]:
            if name in options:
                values.append(options.pop(name))
        if "dtype" in options and options["dtype"] is not None:
            options["dtype"] = dtypes.as_dtype(options["dtype"])
        present = [v for v in values if v is not None]
        places = [k for k, v in enumerate(values) if v is not None]

        def build(*nodes: Node) -> Any:
            filled: list[Any] = [None] * len(values)
            for k, node in zip(places, nodes):
                filled[k] = node
            return function(*filled, *args[operands:], **options)

        return operate(build, present)

    return public(call)


def _many(function: Function) -> Function:
    """A function of a sequence of values: concat, stack."""

    @functools.wraps(function)
    def call(arrays: Any, /, *args: Any, **options: Any) -> Any:
        items = list(arrays)
        if not any(isinstance(x, (Array, np.ndarray, list, tuple)) for x in items):
            items = [np.asarray(x) if isinstance(x, NUMBERS) else x for x in items]
        return operate(lambda *nodes: function(list(nodes), *args, **options), items)

    return public(call)


def _axes_alias(function: Function) -> Function:
    """transpose(x, axes=None) as NumPy, permute_dims(x, axes) as the Array API: a view that writes through."""
    from gla.array.assign import view

    @public
    def transpose(x: Any, axes: Any = None) -> Any:
        """The axes of x permuted; reversed without `axes`."""
        array = _array(x)
        order = tuple(reversed(range(array.ndim))) if axes is None else tuple(axes)
        order = tuple(int(k) for k in order)
        normal = tuple(k + array.ndim if k < 0 else k for k in order)
        if sorted(normal) != list(range(array.ndim)):
            return operate(lambda node: shape.permute(node, order), (array,))
        return view(array, ("permute", normal))

    return transpose


def _rearranging(function: Function) -> Function:
    """A function that moves, drops or turns axes, as a view that writes through. What it does is read off its node."""
    from gla.array.assign import view

    @functools.wraps(function)
    def call(x: Any, /, *args: Any, **options: Any) -> Any:
        array = _array(x)
        node = function(new_input(array._type), *args, **options)
        if node.op == "transpose":
            return view(array, ("permute", node.attr("axes")))
        if node.op == "slice":
            return view(array, ("index", tuple(slice(None, None, step) for step in node.attr("steps"))))
        return view(array, ("reshape", node.shape))

    return public(call)


def _array(x: Any) -> Array:
    if isinstance(x, Array):
        return x
    from gla.array.create import asarray

    return asarray(x)


@public
def reshape(x: Any, /, shape_: Any, *, copy: bool | None = None) -> Any:
    """The same elements, row-major, in another shape; one extent may be -1. A view that writes through."""
    from gla.array.assign import view

    array = _array(x)
    wanted = (
        create.shape_of(tuple(array_index(n) for n in shape_) if isinstance(shape_, (tuple, list)) else array_index(shape_))
        if not _has_minus(shape_)
        else shape_
    )
    made = view(array, ("reshape", wanted if isinstance(wanted, tuple) else tuple(np.atleast_1d(wanted).tolist())))
    return operate(lambda node: node, (made,)) if copy else made


def _has_minus(shape_: Any) -> bool:
    items = shape_ if isinstance(shape_, (tuple, list)) else (shape_,)
    return any(isinstance(n, (int, np.integer)) and n < 0 for n in items)


def array_index(n: Any) -> Any:
    return n.__index__() if hasattr(n, "__index__") else n


@public
def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Any:
    """Elements moved `shift` places along `axis`, the last coming round to the front; without axis, flattened."""
    return operate(lambda node: shape.roll(node, shift, axis), (x,))


@public
def round(x: Any, /, decimals: int = 0) -> Any:
    """To the nearest integer, ties to even; with `decimals`, to that many digits."""
    if decimals == 0:
        return operate(op("round"), (x,))
    scale = 10.0**decimals
    return round(x * scale) / scale if decimals > 0 else round(x / 10.0**-decimals) * 10.0**-decimals


@public
def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """minimum(maximum(x, min), max); NaN in x stays. A bound of None is no bound."""
    given = [v for v in (min, max) if v is not None]

    def build(node: Node, *bounds: Node) -> Node:
        rest = list(bounds)
        low = rest.pop(0) if min is not None else None
        high = rest.pop(0) if max is not None else None
        return elementwise.clip(node, low, high)

    return operate(build, (x, *given))


@public
def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: str | None = None) -> Any:
    """`fill_value` in every place of `shape`."""
    wanted = dtypes.as_dtype(dtype) if dtype is not None else None
    return on(device, lambda: operate(lambda v: create.full(shape, v, wanted), (fill_value,)))


def on(device: str | None, make: Callable[[], Any]) -> Any:
    """`make()` with `device` current when it is given."""
    if device is None:
        return make()
    from gla.array.devices import device as choose

    with choose(device):
        return make()


def _creation(function: Function) -> Function:
    @functools.wraps(function)
    def call(*args: Any, dtype: Any = None, device: str | None = None, **options: Any) -> Any:
        wanted = dtypes.as_dtype(dtype) if dtype is not None else None
        args = tuple(_traced_size(a) for a in args)
        return on(device, lambda: operate(function, (), args, dtype=wanted, **options))

    return public(call)


def _traced_size(value: Any) -> Any:
    """A size or bound given as an array: its number (an error that advises static, inside a trace)."""
    if isinstance(value, Array):
        return value.__index__() if value.dtype.kind in "iu" else float(value)
    if isinstance(value, (tuple, list)):
        return tuple(_traced_size(v) for v in value)
    return value


@public
def linspace(
    start: Any, stop: Any, /, num: int = 50, *, dtype: Any = None, device: str | None = None, endpoint: bool = True
) -> Any:
    """`num` values from start to stop; the last is `stop` exactly (without `endpoint`, one step before it)."""
    wanted = dtypes.as_dtype(dtype) if dtype is not None else None
    count = array_index(num)
    return on(device, lambda: operate(lambda a, b: create.linspace(a, b, count, wanted, endpoint), (start, stop)))


def _like(function: Function) -> Function:
    @public
    def call(x: Any, /, *args: Any, dtype: Any = None, device: str | None = None) -> Any:
        array = _array(x)
        return function(array.shape, *args, dtype=dtype or array.dtype, device=device or array.device)

    call.__name__ = call.__qualname__ = f"{function.__name__}_like"
    call.__doc__ = f"As `{function.__name__}`, with the shape and dtype of x."
    return call


@public
def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """Elements at `indices` along `axis` (flattened without)."""
    if isinstance(indices, Array):
        return operate(lambda node, i: index.take(node, i, axis), (x, indices))
    return operate(lambda node: index.take(node, np.asarray(indices) if not np.isscalar(indices) else indices, axis), (x,))


@public
def meshgrid(*vectors: Any, indexing: str = "xy") -> Any:
    """Coordinates of a grid from 1-d vectors, as a list of arrays."""
    return operate(lambda *nodes: create.meshgrid(*nodes, indexing=indexing), vectors)


@public
def broadcast_arrays(*arrays: Any) -> Any:
    """The arrays stretched to their common shape."""
    return operate(shape.broadcast_arrays, arrays)


@public
def unstack(x: Any, /, *, axis: int = 0) -> Any:
    """The parts of x along an axis, as a tuple."""
    array = _array(x)
    k = axis % array.ndim if array.ndim else axis
    return tuple(array[(slice(None),) * k + (n,)] for n in range(array.shape[k]))


@public
def scatter_add(x: Any, key: Any, value: Any) -> Any:
    """x with `value` added at x[key]; repeated indices add up."""
    from gla.array.assign import _fill, _key

    items, arrays = _key(_array(x), key)
    return operate(lambda node, new, *at: index.setitem(node, _fill(items, at), new, "add"), (x, value, *arrays))


@public
def result_type(*arrays_and_dtypes: Any) -> dtypes.DType:
    """The dtype in which arrays, dtypes and numbers meet."""
    from gla.array.calls import lift

    strong = [dtypes.as_dtype(x) for x in arrays_and_dtypes if not isinstance(x, (Array, np.ndarray, *NUMBERS))]
    found: list[Array] = []
    values = [x for x in arrays_and_dtypes if isinstance(x, (Array, np.ndarray, *NUMBERS))]
    nodes = [builder.constant(0, d) for d in strong]
    for x in values:
        lifted = lift(x, found)
        nodes.append(
            builder.constant(0, lifted.dtype)
            if isinstance(lifted, Array) and not lifted._type.weak
            else number(x)
            if isinstance(x, NUMBERS)
            else builder.constant(0, lifted.dtype)
        )
    return builder.promote_operands("result_type", tuple(nodes))[0]


@public
def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a value of the one dtype becomes the other without loss of kind or width."""
    source = from_.dtype if isinstance(from_, Array) else dtypes.as_dtype(from_)
    target = dtypes.as_dtype(to)
    try:
        return dtypes.promote(source, target) is target
    except DtypeError:
        return False


@public
def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind of the Array API: "bool", "integral", "real floating", ... or a tuple of them."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    given = dtypes.as_dtype(dtype)
    kinds = {
        "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f",
        "complex floating": "c", "numeric": "iufc",
    }  # fmt: skip
    return given.kind in kinds[kind] if isinstance(kind, str) and kind in kinds else given is dtypes.as_dtype(kind)


@public
def finfo(dtype: Any, /) -> Any:
    """Limits of a float dtype: bits, eps, max, min, smallest_normal, dtype."""
    given = dtype.dtype if isinstance(dtype, Array) else dtypes.as_dtype(dtype)
    if given is dtypes.bfloat16:
        import ml_dtypes

        return ml_dtypes.finfo(ml_dtypes.bfloat16)
    return np.finfo(given.numpy)


@public
def iinfo(dtype: Any, /) -> Any:
    """Limits of an integer dtype: bits, max, min, dtype."""
    return np.iinfo((dtype.dtype if isinstance(dtype, Array) else dtypes.as_dtype(dtype)).numpy)


def _functions() -> dict[str, Function]:
    found: dict[str, Function] = {name: _elementwise(name) for name in ELEMENTWISE if name not in _INTERNAL}
    found |= {name: _elementwise(name) for name in _SPECIAL}
    for name in (
        "sum", "prod", "max", "min", "any", "all", "mean", "var", "std", "argmax", "argmin", "count_nonzero", "cumulative_sum",
        "cumulative_prod", "cumulative_max", "cumulative_min", "norm", "logsumexp",
    ):  # fmt: skip
        found[name] = _lifted(getattr(reduce, name))
    for name in ("matrix_transpose", "moveaxis", "squeeze", "expand_dims", "flip"):
        found[name] = _rearranging(getattr(shape, name))
    found["broadcast_to"] = _lifted(shape.broadcast_to)
    for name in ("matmul", "vecdot", "dot", "tensordot", "outer"):
        found[name] = _lifted(getattr(linear, name), 2)
    found |= {"trace": _lifted(linear.trace), "diagonal": _lifted(linear.diagonal)}
    found |= {"concat": _many(shape.concat), "stack": _many(shape.stack)}
    for name in ("zeros", "ones", "arange", "eye"):
        found[name] = _creation(getattr(create, name))
    found["empty"] = _creation(create.zeros)
    found |= {"zeros_like": _like(found["zeros"]), "ones_like": _like(found["ones"]), "empty_like": _like(found["zeros"])}
    found |= {"full": full, "full_like": _like(full), "transpose": _axes_alias(shape.permute)}
    found |= {"tril": _triangle(True), "triu": _triangle(False)}
    found |= {
        f.__name__: f
        for f in (
            reshape, roll, round, clip, linspace, take, meshgrid, broadcast_arrays, unstack, scatter_add,
            result_type, can_cast, isdtype, finfo, iinfo,
        )
    }  # fmt: skip
    for name, text in _DOCS.items():
        found[name].__doc__ = text
    return found | {alias: found[name] for alias, name in _ALIASES.items() if name in found}


def _triangle(lower: bool) -> Function:
    @public
    def call(x: Any, /, *, k: int = 0) -> Any:
        return operate(lambda node: create.triangle(node, k, lower), (x,))

    call.__name__ = "tril" if lower else "triu"
    call.__doc__ = f"The part of the last two axes on and {'below' if lower else 'above'} the k-th diagonal, zero elsewhere."
    return call


FUNCTIONS: dict[str, Function] = _functions()
"""Every function of the namespace by name."""
