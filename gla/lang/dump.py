"""A tree as indented text, without spans: `gla ir --stage ast`, and how tests compare two trees.

One node a line, `field: Class attributes`; children are indented below. Works for any depth (no recursion).
"""

from __future__ import annotations

import dataclasses

from gla.errors import Span
from gla.lang.syntax import Comment, Node

# What belongs to the text rather than to its meaning.
HIDDEN = frozenset({"span", "op_span", "op_spans", "source", "comments", "file"})


def dump(root: Node) -> str:
    """The tree below `root`: classes, plain attributes and children, two spaces a level."""
    lines: list[str] = []
    pending: list[tuple[int, str, object]] = [(0, "", root)]
    while pending:
        depth, label, value = pending.pop()
        head = f"{'  ' * depth}{label}: " if label else "  " * depth
        if not isinstance(value, Node):
            lines.append(head + repr(value))
            continue
        plain, children = _fields(value)
        lines.append(f"{head}{' '.join([type(value).__name__, *plain])}")
        pending.extend((depth + 1, name, child) for name, child in reversed(children))
    return "\n".join(lines) + "\n"


def children(parent: Node) -> tuple[Node, ...]:
    """The nodes directly below one, in the order of their fields (comments are not among them)."""
    return tuple(child for _, child in _fields(parent)[1] if isinstance(child, Node))


def _fields(parent: Node) -> tuple[list[str], list[tuple[str, object]]]:
    """(attributes as `name=value`, (label, child) pairs) of one node; what is None or empty is left out."""
    plain: list[str] = []
    below: list[tuple[str, object]] = []
    for field in dataclasses.fields(parent):
        value = getattr(parent, field.name)
        if field.name in HIDDEN or value is None or value == () or isinstance(value, Span | Comment):
            continue
        if isinstance(value, Node):
            below.append((field.name, value))
        elif isinstance(value, tuple) and any(isinstance(part, Node) for part in value):
            below.extend((f"{field.name}[{k}]", part) for k, part in enumerate(value))
        else:
            plain.append(f"{field.name}={value!r}")
    return plain, below
