"""Builds nodes: promotion, weak scalars, broadcasting, and the errors that go with them. Both front ends build with it.

`apply("add", x, y)` takes nodes and Python or NumPy scalars, brings them to one dtype and one shape with explicit
cast and broadcast nodes, and gives the node. Shapes and dtypes that do not go together are refused here, at the
user's line, with both operands named.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import numpy as np

from gla import dtypes
from gla.dtypes import DType
from gla.errors import DtypeError, RangeError, ShapeError
from gla.ir.node import Node, make
from gla.ir.ops.row import Elementwise
from gla.ir.ops.table import elementwise
from gla.ir.spans import here, labels, stated
from gla.ir.types import Type

Operand = Any  # a Node, or a Python or NumPy scalar

default_float: ContextVar[DType] = ContextVar("gla_default_float", default=dtypes.float64)
"""The dtype of float results that no operand decides (`option float` in .gla)."""

SYMBOLS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//", "remainder": "%", "power": "**", "negative": "-",
    "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=", "bitwise_and": "&",
    "bitwise_or": "|", "bitwise_xor": "^", "bitwise_invert": "~", "bitwise_left_shift": "<<", "bitwise_right_shift": ">>", "matmul": "@",
}  # fmt: skip
_NO_BOOL = {"add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "negative"}
_KIND_RANK = "biufc"


def constant(value: Any, dtype: DType | None = None, *, literal: bool = True) -> Node:
    """A 0-d constant. Without `dtype`, Python numbers are weak int64, float64 or complex128, bool and NumPy scalars are strong.

    `literal=False`: the number came from a size or a closure and reaches kernels as an argument.
    """
    kind = type(value)
    if (kind is int or (kind is float and value)) and stated() is None:  # zeros differ by their sign
        return _common(value, dtype, literal)
    return _constant(value, dtype, literal, here)


@lru_cache(maxsize=512, typed=True)
def _common(value: Any, dtype: DType | None, literal: bool) -> Node:
    """Numbers that come again and again. They carry no place: they stand on the line of their operation."""
    return _constant(value, dtype, literal, None)


def _constant(value: Any, dtype: DType | None, literal: bool, span: Any) -> Node:
    weak = False
    if dtype is None:
        weak = type(value) in (int, float, complex)
        dtype = dtypes.as_dtype(
            type(value) if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic) else value.dtype
        )
    if dtype.kind in "iu":
        dtypes.check_fits(int(value), dtype)
    with np.errstate(over="ignore"):  # 1e10 as float16 is inf, as everywhere
        bits = np.asarray(value).astype(dtype.numpy).tobytes()
    return make("constant", (), {"bits": bits, "literal": literal}, Type(dtype, (), weak), span)


def constant_value(node: Node) -> Any:
    """The NumPy scalar that a constant node holds."""
    return np.frombuffer(node.attr("bits"), node.dtype.numpy)[0]


def is_constant(node: Node) -> bool:
    return node.op == "constant"


def as_node(value: Operand) -> Node:
    """The node itself, or a constant for a Python or NumPy scalar."""
    if isinstance(value, Node):
        return value
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return constant(value)
    raise DtypeError("GLA0204", f"a {type(value).__name__} is no value of gla", help="pass an array, a number or a bool")


def describe(value: Operand) -> str:
    """The type of an operand for people: `f64[3, 4]`, or the number itself for a Python scalar."""
    return str(value.type) if isinstance(value, Node) else f"{value!r}"


def cast(x: Operand, dtype: DType) -> Node:
    """`x` with elements converted to `dtype` by semantics.md's rules. A weak integer that does not fit is RangeError; complex to real is DtypeError."""
    if not isinstance(x, Node):
        return _cast_number(x, dtype)
    if x.dtype is dtype and not x.type.weak:
        return x
    if x.dtype.kind == "c" and dtype.kind != "c":
        raise DtypeError(
            "GLA0205",
            f"cannot cast {x.type} to {dtype}: the imaginary part would be lost",
            labels=labels("", ("the value", x)),
            help="take real(x), imag(x) or abs(x)",
        )
    if x.op == "constant" and x.type.weak:
        return _settled(x, dtype)
    return make("cast", (x,), {"dtype": dtype}, Type(dtype, x.shape), here)


@lru_cache(maxsize=512)
def _settled(x: Node, dtype: DType) -> Node:
    """A weak constant in the dtype that it takes."""
    return _cast_number(constant_value(x).item(), dtype, x.attr("literal"))


def _cast_number(value: Any, dtype: DType, literal: bool = True) -> Node:
    if isinstance(value, np.generic):
        return cast(constant(value), dtype)
    if dtype.kind in "iu":
        if isinstance(value, float):
            return make("cast", (constant(value, dtypes.float64, literal=literal),), {"dtype": dtype}, Type(dtype, ()), here)
        low, high = dtypes.integer_range(dtype)
        if not low <= int(value) <= high:
            raise RangeError(
                "GLA0203",
                f"the number {value} does not fit {dtype}, which holds {low} to {high}",
                labels=labels("here"),
                help="cast the array to a wider dtype first, or use a number in range",
            )
    return constant(value, dtype, literal=literal)


def weaken(x: Node, dtype: DType) -> Node:
    """The 0-d node as a weak scalar of int64, float64 or complex128."""
    if x.type == Type(dtype, (), True):
        return x
    if is_constant(x):
        value = np.asarray(constant_value(x)).astype(dtype.numpy)
        return make("constant", (), {"bits": value.tobytes(), "literal": x.attr("literal")}, Type(dtype, (), True), here)
    return make("cast", (x,), {"dtype": dtype}, Type(dtype, (), True), here)


def broadcast_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """NumPy's rule: align right, extent 1 stretches. None when they do not go together."""
    if a == b:
        return a
    if len(a) < len(b):
        a, b = b, a
    out = list(a)
    for k in range(1, len(b) + 1):
        m, n = a[-k], b[-k]
        if m != n:
            if m == 1:
                out[-k] = n
            elif n != 1:
                return None
    return tuple(out)


def broadcast(x: Node, shape: tuple[int, ...]) -> Node:
    """`x` stretched to `shape` (must be possible)."""
    if x.shape == shape:
        return x
    return make("broadcast", (x,), {}, Type(x.dtype, shape, x.type.weak and not shape), here)


def promote_operands(name: str, operands: tuple[Operand, ...], to_float: bool = False) -> tuple[DType, bool]:
    """(dtype, weak) in which operands meet. Weak scalars follow the strong operands, see semantics.md, section 3."""
    strong: DType | None = None
    weak: DType | None = None
    for x in operands:
        node_type = x.type if isinstance(x, Node) else constant(x).type
        if node_type.weak:
            if weak is None or _KIND_RANK.index(node_type.dtype.kind) > _KIND_RANK.index(weak.kind):
                weak = node_type.dtype
        else:
            try:
                strong = node_type.dtype if strong is None else dtypes.promote(strong, node_type.dtype)
            except DtypeError as error:
                raise _with_operands(error, name, operands) from None
    default = default_float.get()
    if strong is None:
        assert weak is not None
        if to_float and weak.kind == "i":
            weak = dtypes.float64
        return weak, True
    dtype = strong if weak is None else dtypes.weak_dtype(strong, weak, default)
    if to_float and dtype.kind in "biu":
        dtype = default
    return dtype, False


def _with_operands(error: DtypeError, name: str, operands: tuple[Operand, ...]) -> DtypeError:
    nodes = [(f"{describe(x)}", x) for x in operands if isinstance(x, Node)]
    help_texts = error.diagnostic.help
    return DtypeError(
        error.code,
        f"cannot {name} {' and '.join(map(describe, operands))}: {error.diagnostic.message}",
        labels=labels("", *nodes),
        help=help_texts,
    )


def apply(name: str, *operands: Operand, dtype: DType | None = None) -> Node:
    """The elementwise op `name` on operands of any broadcastable shapes. `dtype`, when given, is what they are cast to first.

    Raises ShapeError when shapes do not broadcast and DtypeError when the op does not take the dtype.
    """
    row = elementwise(name)
    if len(operands) != row.arity:
        raise DtypeError("GLA0206", f"{name} takes {row.arity} operands, {len(operands)} given")
    main = tuple([x for k, x in enumerate(operands) if k not in row.mixed]) if row.mixed else operands
    weak = False
    alike = _alike(operands) if dtype is None and not row.mixed else None
    if alike is not None and _is_plain(row, alike.dtype.kind):
        return make(name, operands, {}, Type(row.result_dtype(alike.dtype), alike.shape), here)
    if dtype is None:
        dtype, weak = promote_operands(name, main, row.to_float)
        if row.to_float and name in _NO_BOOL:  # two bools make a float, and are refused all the same
            _check_kind(row, dtypes.bool_ if promote_operands(name, main, False)[0] is dtypes.bool_ else dtype, operands)
    _check_kind(row, dtype, operands)
    nodes = []
    for k, x in enumerate(operands):
        node = (
            as_node(x)
            if k in row.mixed or (weak and isinstance(x, Node) and x.dtype is dtype)
            else (weaken(as_node(x), dtype) if weak else cast(x, dtype))
        )
        nodes.append(node)
    shape: tuple[int, ...] = ()
    for node in nodes:
        joined = broadcast_shapes(shape, node.shape)
        if joined is None:
            raise shape_error(name, operands)
        shape = joined
    result = row.result_dtype(dtype)
    nodes = [broadcast(node, shape) for node in nodes]
    is_weak = weak and not shape and result.kind != "b"
    return make(name, nodes, {}, Type(result, shape, is_weak), here)


def _alike(operands: tuple[Operand, ...]) -> Type | None:
    """The one strong type of all operands, if they are nodes and have one."""
    first = operands[0]
    if not isinstance(first, Node) or first.type.weak:
        return None
    type_ = first.type
    for x in operands[1:]:
        if not isinstance(x, Node) or x.type != type_:
            return None
    return type_


def _is_plain(row: Elementwise, kind: str) -> bool:
    """Whether operands of that kind are taken as they are."""
    return kind in row.kinds and kind != "b" and not (row.to_float and kind in "iu")


def _check_kind(row: Elementwise, dtype: DType, operands: tuple[Operand, ...]) -> None:
    if dtype.kind in row.kinds and not (dtype.kind == "b" and row.name in _NO_BOOL):
        return
    symbol = SYMBOLS.get(row.name, row.name)
    given = " and ".join(map(describe, operands))
    nodes = [(describe(x), x) for x in operands if isinstance(x, Node)]
    if dtype.kind == "b" and row.name in _NO_BOOL:
        raise DtypeError(
            "GLA0207",
            f"`{symbol}` is not defined for bool: {given}",
            labels=labels("", *nodes),
            help="use | (or), & (and), xor, ~ (not), or cast first: astype(x, 'int64')",
        )
    if dtype.kind not in row.kinds:
        kinds = ", ".join(dtypes.KINDS[k] for k in row.kinds)
        raise DtypeError(
            "GLA0208",
            f"{row.name} takes {kinds}, not {dtype}: {given}",
            labels=labels("", *nodes),
            help=_kind_advice(row, dtype),
        )


def _kind_advice(row: Elementwise, dtype: DType) -> str:
    if dtype.kind == "c":
        return f"take abs(x), real(x) or imag(x) before {row.name}"
    if "b" in row.kinds and len(row.kinds) == 1:
        return "compare first: x != 0"
    return f"cast first: astype(x, '{'float64' if 'f' in row.kinds else 'int64'}')"


def shape_error(name: str, operands: tuple[Operand, ...]) -> ShapeError:
    """Shapes that do not broadcast, both operands named."""
    nodes = [as_node(x) for x in operands]
    shapes = [n.shape for n in nodes]
    bad = next(
        (
            f"{m} against {n} on axis {-k}"
            for a in shapes
            for b in shapes
            for k in range(1, min(len(a), len(b)) + 1)
            for m, n in [(a[-k], b[-k])]
            if m != n and 1 not in (m, n)
        ),
        "",
    )
    given = " and ".join(str(n.type) for n in nodes)
    verb = {"add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide"}.get(name, f"apply {name} to")
    return ShapeError(
        "GLA0301",
        f"cannot {verb} {given}",
        labels=labels(f"{given}", *((str(n.type), n) for n in nodes)),
        notes=(f"shapes align from the right: {bad}",),
        help=_shape_advice(shapes),
    )


def _shape_advice(shapes: list[tuple[int, ...]]) -> str:
    if len(shapes) == 2:
        for short, long, which in ((shapes[0], shapes[1], "left"), (shapes[1], shapes[0], "right")):
            if len(short) == 1 and len(long) > 1 and short[0] == long[0]:
                return f"to use one value per row write x[:, None] ({which} operand; x[:, new] in .gla)"
            if len(short) == len(long) == 2 and short == long[::-1]:
                return f"transpose the {which} operand: x.T"
    return "make the extents equal, or 1 where one value serves the whole axis (reshape, x[:, None])"
