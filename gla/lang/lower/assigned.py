"""Which variables from outside a piece of the tree may assign: what a loop must carry and a branch must choose between."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import lru_cache

from gla.lang import syntax as s


@lru_cache(maxsize=4096)
def assigned_names(part: s.Node) -> tuple[str, ...]:
    """Names that assignments in `part` reach out to, in order of appearance."""
    found: dict[str, None] = {}
    _walk(part, frozenset(), found)
    return tuple(found)


def _walk(part: s.Node, own: frozenset[str], found: dict[str, None]) -> None:
    match part:
        case s.Block():
            for statement in part.statements:
                _walk(statement, own, found)
                if isinstance(statement, s.Let | s.Var):
                    own = own | set(pattern_names(statement.pattern))
            if part.value is not None:
                _walk(part.value, own, found)
        case s.For():
            _walk(part.iterable, own, found)
            _walk(part.body, own | {part.variable.id}, found)
        case s.Lambda() | s.Function():
            return
        case s.Assign():
            for name in target_names(part.target):
                if name not in own:
                    found[name] = None
            _walk(part.value, own, found)
        case _:
            for child in children(part):
                _walk(child, own, found)


def target_names(target: s.Expr) -> Iterator[str]:
    """The variables that an assignment's target names."""
    if isinstance(target, s.Tuple):
        for item in target.items:
            yield from target_names(item)
        return
    while isinstance(target, s.Index | s.Attribute):
        target = target.value
    if isinstance(target, s.Name):
        yield target.id


def pattern_names(pattern: s.Pattern) -> Iterator[str]:
    """The names that a pattern binds."""
    if isinstance(pattern, s.NamePattern):
        yield pattern.name.id
    elif isinstance(pattern, s.TuplePattern | s.ArrayPattern):
        for item in pattern.items:
            yield from pattern_names(item)


def children(part: s.Node) -> Iterator[s.Node]:
    """The nodes right below one."""
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if isinstance(value, s.Node):
            yield value
        elif isinstance(value, tuple):
            yield from (v for v in value if isinstance(v, s.Node))
