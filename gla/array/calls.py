"""From Python values to nodes and back: how every operation of the front end is made.

`operate(function, operands)` lifts arrays, NumPy arrays and numbers to nodes, calls a function of gla/ir/functions, and wraps
what it gives. A number is a literal of the program when it stands in the user's code; any other reaches kernels by value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gla.array import pending
from gla.array.scope import Scope, current
from gla.array.value import Array, device_of, from_node, node_of
from gla.errors import DtypeError
from gla.ir.builder import constant
from gla.ir.functions.index import lift_array
from gla.ir.node import Node
from gla.ir.spans import labels, user_frame

NUMBERS = (bool, int, float, complex, np.generic)


def number(value: Any) -> Node:
    """A Python or NumPy scalar as a constant, literal if the user's own code spells it."""
    return constant(value, literal=type(value) is bool or _is_literal(value))


def _is_literal(value: Any) -> bool:
    kind = type(value)
    if kind not in (int, float, complex):
        return False
    frame = user_frame()
    if frame is None:
        return False
    return any(type(c) is kind and c == value for c in frame.f_code.co_consts)


def lift(value: Any, found: list[Array]) -> Any:
    """A node for an array, NumPy array or number; the arrays met are added to `found`."""
    if type(value) is Array:
        found.append(value)
        return value
    if isinstance(value, NUMBERS):
        return number(value)
    if isinstance(value, np.ndarray):
        array = from_numpy(value, found)
        if isinstance(array, Array):
            found.append(array)
        return array
    if isinstance(value, (list, tuple)):
        array = from_numpy(np.asarray(value), found)
        if isinstance(array, Array):
            found.append(array)
        return array
    if hasattr(value, "__gla_operand__"):  # pinned memory
        array = value.__gla_operand__()
        found.append(array)
        return array
    raise DtypeError(
        "GLA0204",
        f"a {type(value).__name__} is no value of gla: {value!r:.60}",
        labels=labels("here"),
        help="pass an array, a NumPy array, a number or a bool",
    )


def from_numpy(values: np.ndarray, beside: Iterable[Array] = ()) -> Array | Node:
    """A NumPy array as an operand: a copy on the device of the others; 0-d arrays are strong scalars."""
    if not values.ndim and values.dtype.kind in "biufc":
        return constant(values[()], literal=False)
    scope = current.get()
    if scope is not None:
        return scope.constant(values)
    from gla.array.create import upload

    device = next((a._device for a in beside), None)
    return upload(values, None, device or device_of([], None))


def operate(function: Callable[..., Any], operands: Iterable[Any], rest: tuple[Any, ...] = (), **options: Any) -> Any:
    """`function(*nodes, *rest, **options)` wrapped: an Array, or a list of them when it gives a list."""
    scope = current.get()
    if scope is None:
        return _operate(None, function, operands, rest, options)
    with scope.lock:
        return _operate(scope, function, operands, rest, options)


def _operate(
    scope: Scope | None, function: Callable[..., Any], operands: Iterable[Any], rest: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    found: list[Array] = []
    lifted = [lift(x, found) for x in operands]
    device = device_of(found, scope)
    if scope is not None:
        return _build(scope, device, function, lifted, rest, options, found)
    place = pending.place(device)
    writes = place.writes
    if not place.open:
        made = _build(None, device, function, lifted, rest, options, found)
        if place.writes == writes:
            return made
    # Another thread writes, and did not see that this value reads what it overwrites: again, while nobody does.
    with place.lock:
        return _build(None, device, function, lifted, rest, options, found)


def _build(
    scope: Scope | None,
    device: str,
    function: Callable[..., Any],
    lifted: list[Any],
    rest: tuple[Any, ...],
    options: dict[str, Any],
    found: list[Array],
) -> Any:
    nodes = [node_of(x) if isinstance(x, Array) else x for x in lifted]
    token = lift_array.set(_index_values)
    try:
        result = function(*nodes, *rest, **options)
    finally:
        lift_array.reset(token)
    return wrap(result, device, scope, found)


def wrap(result: Any, device: str, scope: Scope | None, operands: Iterable[Array] = ()) -> Any:
    """Nodes as arrays of the scope; lists and tuples element by element."""
    if isinstance(result, (list, tuple)):
        return type(result)(wrap(x, device, scope, operands) for x in result)
    if scope is not None:
        return from_node(result, device, scope)
    count = 1 + sum(x._count for x in operands)
    array = from_node(result, device, None, count)
    if count > pending.LIMIT:
        _relieve(array)
    return array


def _relieve(array: Array) -> None:
    from gla.array import realise

    assert array._value is not None
    array._count = realise.count_behind(array._value)
    if array._count > pending.LIMIT:
        realise.realise([array])


def _index_values(values: np.ndarray) -> Node:
    made = from_numpy(values)
    return node_of(made) if isinstance(made, Array) else made


def is_operand(value: Any) -> bool:
    """Whether an operator takes it: else Python asks the other side."""
    return isinstance(value, (Array, np.ndarray, *NUMBERS)) or hasattr(value, "__gla_operand__")


def pending_count(device: str) -> int:
    """How many values wait on a device."""
    return len(pending.place(device).arrays())
