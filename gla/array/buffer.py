"""Realised contents: `Buffer`, the storage behind a realised array, and the input node that expressions read it by.

A leaf stands for the contents at one time: a write gives the buffer a new leaf, so that an expression over the old contents
never meets the new ones. A node holds what is known of it (`Node.held`): a leaf its storage, which so lives while an array owns it
or a pending expression reads it; a node that was computed a weak reference to the leaf.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

from gla.errors import Span
from gla.ir.graph import new_input
from gla.ir.node import Node
from gla.ir.types import Type

_making = threading.Lock()


class Buffer:
    """`storage` holds a value of `type` on `device`; `version` counts the writes; `signature` is what a guard compares;
    `origin` is the line that made the value, for messages."""

    __slots__ = ("__weakref__", "_leaf", "device", "origin", "signature", "storage", "type", "version")

    def __init__(
        self, storage: Any, type: Type, device: str, signature: tuple[Any, ...] | None = None, origin: Span | None = None
    ) -> None:
        self.storage, self.type, self.device, self.origin = storage, type, device, origin
        self.version = 0
        self._leaf: Node | None = None
        self.signature = signature if signature is not None else signature_of(type, device)

    @property
    def leaf(self) -> Node:
        """The input node that reads the present contents."""
        leaf = self._leaf
        while leaf is None:
            with _making:
                if self._leaf is None:
                    made = new_input(self.type, span=self.origin)
                    made.held = self.storage
                    self._leaf = made
                leaf = self._leaf
        return leaf

    @property
    def has_leaf(self) -> bool:
        return self._leaf is not None

    def renew(self) -> Node | None:
        """Before a write: later expressions read the new contents. Gives the old leaf, None when nobody asked for it."""
        old, self._leaf = self._leaf, None
        self.version += 1
        return old

    def restore(self, old: Node | None) -> None:
        """The write did not happen."""
        self._leaf = old
        self.version -= 1


_signatures: dict[tuple[Type, str], tuple[Any, ...]] = {}


def signature_of(type: Type, device: str) -> tuple[Any, ...]:
    """One object for each (dtype, shape, device), so that equal signatures are identical."""
    key = (type, device)
    found = _signatures.get(key)
    if found is None:
        if len(_signatures) > 100_000:
            _signatures.clear()
        found = _signatures.setdefault(key, ("array", type.dtype.name, type.shape, device))
    return found


def storage_of(leaf: Node) -> Any:
    """The storage that a leaf reads, or None for a node that is no leaf, or whose contents were overwritten."""
    return leaf.held if leaf.op == "input" else None


def retire(leaf: Node | None) -> None:
    """The contents that `leaf` stood for are gone."""
    if leaf is not None:
        leaf.held = None


def remember(node: Node, leaf: Node) -> None:
    """`node` has been computed: its value is what `leaf` reads, as long as somebody else keeps the leaf. A node may live long
    after its arrays, in a plan (`gla.zeros(10**9)` has no inputs, so that every use is the same node). Such a node says nothing of
    a device, so that what one device computed of it is not another's: it is not remembered."""
    if node.op != "input" and reads_a_leaf(node):
        node.held = weakref.ref(leaf)


def reads_a_leaf(node: Node) -> bool:
    """Whether the value of `node` depends on memory; not on constants alone."""
    seen: set[Node] = set()
    stack = [node]
    while stack:
        node = stack.pop()
        if node.op == "input":
            return True
        if node not in seen:
            seen.add(node)
            stack.extend(node.operands)
    return False


def resolved(node: Node) -> Node:
    """The leaf that holds the value of `node`, if it was computed and is still there; else the node itself."""
    entry = node.held
    if entry is None or node.op == "input":
        return node
    leaf: Node | None = entry()
    return node if leaf is None or leaf.held is None else leaf
