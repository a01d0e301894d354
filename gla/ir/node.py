"""A node: one value of the IR, frozen and hash-consed, so that equal expressions are one object.

Only `make` builds nodes: it looks up, then builds. Nodes compare by identity. Walks over nodes are loops, never recursion.
"""

from __future__ import annotations

import itertools
import weakref
from _weakref import _remove_dead_weakref  # type: ignore[attr-defined] # what WeakValueDictionary calls: one step
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from gla.errors import Span
from gla.ir.types import TupleType, Type

Attrs = tuple[tuple[str, Hashable], ...]


class Node:
    """`op` names a row of the op table, `operands` are nodes, `attrs` sorted (name, value) pairs, `type` its Type.

    `serial` grows with creation: it orders nodes deterministically and is no part of their identity.
    `span` is where the first such expression was written, or None. `held` is for whoever has computed it: the memory that an
    input stands for, or a weak reference to the input that holds the node's value.
    """

    __slots__ = ("__weakref__", "attrs", "held", "op", "operands", "serial", "span", "type")

    op: str
    operands: tuple[Node, ...]
    attrs: Attrs
    type: Type
    serial: int
    span: Span | None
    held: Any

    def attr(self, name: str) -> Any:
        """The attribute `name`; KeyError when the node has none."""
        for key, value in self.attrs:
            if key == name:
                return value
        raise KeyError(name)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> Any:
        return self.type.dtype

    @property
    def items(self) -> tuple[Type, ...]:
        """The types of the values that a loop, while or cond node gives."""
        assert isinstance(self.type, TupleType)
        return self.type.items

    def __repr__(self) -> str:
        return f"<{self.op} {self.type} #{self.serial}>"


class _Entry(weakref.ref):  # type: ignore[type-arg]
    __slots__ = ("key",)

    key: tuple[Any, ...]


def _gone(entry: _Entry) -> None:
    _remove_dead_weakref(_table, entry.key)


_table: dict[tuple[Any, ...], _Entry] = {}
_serial = itertools.count()


def make(
    op: str,
    operands: Iterable[Node],
    attrs: dict[str, Hashable],
    type: Type | TupleType,
    span: Span | Callable[[], Span | None] | None = None,
) -> Node:
    """The node of that op, operands, attributes and type: found, or made. Types are checked by whoever calls.

    `span`, or what gives it, is asked for only when the node is made.
    """
    operands = tuple(operands)
    pairs = tuple(sorted(attrs.items())) if len(attrs) > 1 else tuple(attrs.items())
    # True == 1 == 1.0 in Python: constants are told apart by their type, which is part of the key.
    key = (op, operands, pairs, type)
    entry = _table.get(key)
    if entry is not None:
        found: Node | None = entry()
        if found is not None:
            return found
    node = new_node(op, operands, pairs, type, span() if callable(span) else span)
    entry = _Entry(node, _gone)
    entry.key = key
    while True:
        first = _table.setdefault(key, entry)
        if first is entry:
            return node
        found = first()
        if found is not None:  # another thread was faster
            return found
        _remove_dead_weakref(_table, key)


def new_node(op: str, operands: tuple[Node, ...], pairs: Attrs, type: Type | TupleType, span: Span | None) -> Node:
    """A node that nobody finds: `make`'s, and inputs, which are never merged."""
    node = object.__new__(Node)
    node.op, node.operands, node.attrs, node.type, node.span = op, operands, pairs, type, span  # type: ignore[assignment]
    node.serial, node.held = next(_serial), None
    return node


def fresh_id() -> int:
    """A number no other node has: for inputs and parameters, which are never merged."""
    return next(_serial)


def topological(roots: Iterable[Node], stop: frozenset[Node] | set[Node] = frozenset()) -> list[Node]:
    """Every node that `roots` reach, operands before users, in an order that depends on structure alone. Does not look behind `stop`."""
    order: list[Node] = []
    seen: set[Node] = set()
    stack: list[tuple[Node, Iterator[Node]]] = []
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        stack.append((root, iter(() if root in stop else root.operands)))
        while stack:
            node, rest = stack[-1]
            for operand in rest:
                if operand not in seen:
                    seen.add(operand)
                    stack.append((operand, iter(() if operand in stop else operand.operands)))
                    break
            else:
                order.append(node)
                stack.pop()
    return order
