"""Views and writes: what `x[i:j]` remembers, and what `x.assign(e)`, `x[k] = e` and `x += e` do.

A write replaces the contents of a variable (the root). A pending or traced root takes the new expression; a realised one is
overwritten in place, the right side read whole before, and pending readers realised in the same launch. Writing through a
view writes its root as long as nobody has written that since the view was taken; after that it is AliasError. The view, and
the views it was taken of (`x = a.reshape(2, 3); x[0] += 1`), show the new contents.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any
from weakref import ref

import numpy as np

from gla.array import masks, pending, realise
from gla.array.calls import lift, operate
from gla.array.scope import Scope, current, leak_error
from gla.array.value import Array, Step, device_of, fetch, from_node, node_of
from gla.errors import AliasError, TraceError
from gla.ir.functions import index, shape
from gla.ir.functions.elementwise import where
from gla.ir.functions.index import check_no_narrowing
from gla.ir.functions.mask import masked_set
from gla.ir.node import Node
from gla.ir.spans import labels


# --- views
def view(array: Array, step: Step) -> Array:
    """A basic slice, reshape or transpose: its value, and the way back to the root."""
    scope = current.get()
    if scope is not None and array._scope is None:
        array = scope.enter(array)
    made = operate(lambda node: read(node, (step,)), (array,))
    root = array if array._base is None else array._base
    made._base, made._path = root, (*array._path, step)
    if array._base is None:
        made._seen = root._stamp
    else:
        made._seen, made._above = array._seen, (*array._above, ref(array))
    return made


def read(node: Node, path: Sequence[Step]) -> Node:
    """The part of `node` that a path leads to."""
    for kind, detail in path:
        if kind == "index":
            node = index.getitem(node, detail)
        elif kind == "reshape":
            node = shape.reshape(node, detail)
        else:
            node = shape.permute(node, detail)
    return node


def put(node: Node, path: Sequence[Step], value: Node) -> Node:
    """`node` with the part that `path` leads to replaced by `value`, which has its shape."""
    if not path:
        return value
    (kind, detail), rest = path[0], path[1:]
    inner = put(read(node, path[:1]), rest, value) if rest else value
    if kind == "index":
        return index.setitem(node, detail, inner)
    if kind == "reshape":
        return shape.reshape(inner, node.shape)
    return shape.permute(inner, tuple(int(k) for k in np.argsort(detail)))


def is_basic(key: Any) -> bool:
    """Whether an index is made of integers, slices, `...` and None alone."""
    items = key if isinstance(key, tuple) else (key,)
    return all(
        k is None or k is Ellipsis or (isinstance(k, (int, np.integer, slice)) and not isinstance(k, (bool, np.bool_)))
        for k in items
    )


def region(array: Array) -> np.ndarray:
    """The flat positions in the root that a view covers."""
    root = array._base if array._base is not None else array
    where_ = np.arange(root.size).reshape(root.shape)
    for kind, detail in array._path:
        where_ = (
            where_[detail] if kind == "index" else where_.reshape(detail) if kind == "reshape" else where_.transpose(detail)
        )
    return np.ravel(where_)


# --- writes
def store(target: Array, operands: Iterable[Any], update: Callable[..., Node]) -> None:
    """The contents of `target` become `update(contents, *operands as nodes)`."""
    scope = current.get()
    if scope is None:
        _store(None, target, operands, update)
        return
    with scope.lock:
        _store(scope, target, operands, update)


def _store(scope: Scope | None, target: Array, operands: Iterable[Any], update: Callable[..., Node]) -> None:
    if scope is not None and target._scope is None:
        target = scope.enter(target)
    found: list[Array] = [target]
    lifted = [lift(x, found) for x in operands]
    device_of(found, scope)
    root = target if target._base is None else target._base
    if target._base is not None and not target._is_fresh():
        raise stale_error(target)
    _check_scope(root)

    def value() -> Node:
        nodes = [node_of(x) if isinstance(x, Array) else x for x in lifted]
        return update(node_of(target), *nodes)

    replace(target, value)


def stale_error(view_: Array) -> AliasError:
    """What to raise for a write through a view whose root was written after it was taken."""
    assert view_._base is not None
    return AliasError(
        "GLA0701",
        f"this view of {view_._base._type} was taken before the array was written by another way, so writing through it could "
        "overwrite newer contents",
        labels=labels("", *((str(x._type), x._value) for x in (view_,) if x._value is not None)),
        help="take the slice again after the other write: y = x[a:b]; y += 1",
    )


def replace(target: Array, make: Callable[[], Node]) -> None:
    """`make()` is the new contents of a variable or a fresh view; the views on the way to the root show it too."""
    root = target if target._base is None else target._base
    if root is target:
        _replace(root, make, [])
    else:
        _replace(root, lambda: put(node_of(root), target._path, make()), [target, *above(target)])


def above(view_: Array) -> list[Array]:
    """The fresh views that a view was taken of, those that are still alive."""
    return [a for a in (entry() for entry in view_._above) if a is not None and a._is_fresh()]


def _check_scope(root: Array) -> None:
    """A loop body may write what is its own; an array from outside it is a carry."""
    scope = current.get()
    owner = root._scope
    if owner is not None and (owner.done or scope is None or not scope.within(owner)):
        raise leak_error(root)
    if scope is not None and scope.kind == "body" and owner is not scope:
        raise TraceError(
            "GLA0405",
            f"{scope.name} writes {root._type}, which comes from outside it",
            labels=labels("", *((str(x._type), x._value) for x in (root,) if x._value is not None)),
            help="carry it: pass the array in init, return the new contents, and assign after the loop",
        )


def _replace(root: Array, make: Callable[[], Node], views: list[Array]) -> None:
    if root._buffer is not None:
        realise.write(root._buffer, make, (root, *views), lambda: _refresh_all(views, root))
        return
    with nullcontext() if root._scope is not None else pending.place(root._device).lock:
        waits = root._buffer is None
        if waits:
            value = make()
            root._version += 1
            root._value = value
            _refresh_all(views, root)
    if not waits:  # another thread has realised it meanwhile
        _replace(root, make, views)
    elif root._scope is None:
        root._count = min(realise.count_behind(value), pending.LIMIT + 1)
        if root._count > pending.LIMIT:
            realise.realise([root])


def _refresh_all(views: list[Array], root: Array) -> Callable[[], None]:
    before = [(v, v._buffer, v._value, v._version, v._count, v._seen) for v in views]
    for view_ in views:
        refresh(view_, root)

    def undo() -> None:
        for v, buffer, value, version, count, seen in before:
            v._buffer, v._value, v._version, v._count, v._seen = buffer, value, version, count, seen
            if buffer is not None:
                pending.discard(v)

    return undo


def refresh(view_: Array, root: Array) -> None:
    """After a write through it, the view shows the new contents."""
    if view_._buffer is not None:
        fresh = from_node(read(node_of(root), view_._path), view_._device, view_._scope)
        view_._buffer, view_._value, view_._version = None, fresh._value, 0
        pending.add(view_)
    else:
        view_._value = read(node_of(root), view_._path)
    view_._count = 1
    view_._seen = root._stamp


def assign(target: Array, value: Any) -> Array:
    """Overwrite the contents by `value`, which broadcasts to the shape and is never narrowed. Gives the array."""

    def update(now: Node, new: Node) -> Node:
        return shape.broadcast_to(check_no_narrowing(now, new, "assign"), now.shape)

    store(target, [value], update)
    return target


# --- indexing
def getitem(array: Array, key: Any) -> Array:
    """`x[key]`: a view for basic keys, else the elements picked."""
    if is_basic(key):
        return view(array, ("index", key))
    if masks.is_mask(key) and current.get() is None:
        return masks.select(array, key)
    key, arrays = _key(array, key)
    return operate(lambda node, *indices: index.getitem(node, _fill(key, indices)), (array, *arrays))


def setitem(array: Array, key: Any, value: Any) -> None:
    """`x[key] = value`: all is read before anything is written; the last of repeated indices wins."""
    if is_basic(key):
        if isinstance(value, Array) and _is_that(array, key, value):
            return
        store(array, [value], lambda node, new: index.setitem(node, key, new))
        return
    mask = _whole_mask(array, key)
    if mask is not None and _is_scalar(value):
        store(array, [mask, value], lambda node, m, new: where(m, check_no_narrowing(node, new, "assign"), node))
        return
    if masks.is_mask(key) and current.get() is None:
        masks.check(array, key)
        number = masks.count(key)
        store(array, [value, key], lambda node, new, m: masked_set(node, m, new, number))
        return
    key, arrays = _key(array, key)
    store(array, [value, *arrays], lambda node, new, *indices: index.setitem(node, _fill(key, indices), new))


def _is_that(array: Array, key: Any, value: Array) -> bool:
    """Whether `value` is the fresh view `array[key]` itself: the second half of `x[a:b] += e`, already done."""
    root = array if array._base is None else array._base
    return value._base is root and value._is_fresh() and value._path == (*array._path, ("index", key))


def _is_scalar(value: Any) -> bool:
    return np.ndim(value) == 0 if not isinstance(value, Array) else value.ndim == 0


def _whole_mask(array: Array, key: Any) -> Any:
    """The key, when it is one mask of the array's shape."""
    if (
        isinstance(key, (Array, np.ndarray))
        and key.shape == array.shape
        and np.dtype(bool) == getattr(key.dtype, "numpy", key.dtype)
    ):
        return key
    return None


class _Slot:
    """The place of an array in a key."""

    __slots__ = ("at",)

    def __init__(self, at: int) -> None:
        self.at = at


def _fill(key: tuple[Any, ...], indices: Sequence[Node]) -> tuple[Any, ...]:
    return tuple(indices[k.at] if isinstance(k, _Slot) else k for k in key)


def _key(array: Array, key: Any) -> tuple[tuple[Any, ...], list[Array]]:
    """The key with its arrays taken out. Outside of traces masks become the positions that they select."""
    out: list[Any] = []
    arrays: list[Array] = []
    for given in key if isinstance(key, tuple) else (key,):
        is_mask = isinstance(given, Array) and given.dtype.kind == "b" and current.get() is None
        item = fetch(given, "a mask as index") if is_mask else given
        if isinstance(item, (list, np.ndarray)):
            values = np.asarray(item)
            if values.dtype.kind == "b" and values.ndim:
                _check_mask(array, values, len(out))
                out.extend(np.nonzero(values))
                continue
            if not values.size:
                values = values.astype(np.int64)
            out.append(values)
            continue
        if isinstance(item, Array):
            out.append(_Slot(len(arrays)))
            arrays.append(item)
            continue
        out.append(slice(*(_bound(p) for p in (item.start, item.stop, item.step))) if isinstance(item, slice) else item)
    return tuple(out), arrays


def _bound(part: Any) -> Any:
    return operator.index(part) if isinstance(part, Array) else part


def _check_mask(array: Array, mask: np.ndarray, axis: int) -> None:
    from gla.errors import GlaIndexError

    if array.shape[axis : axis + mask.ndim] != mask.shape:
        raise GlaIndexError(
            "GLA0327",
            f"a mask of shape {mask.shape} does not fit axes {axis}.. of {array._type}",
            labels=labels(""),
            help="a mask has the shape of the axes that it selects from",
        )
