"""`gla.eval(a, b, ...)`: compute lazy values now, all in one launch; `gla.no_compile()`: only by programs that are there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gla.array import engine, realise
from gla.array.boundary import public
from gla.array.scope import current, look_error
from gla.array.trace import map_leaves
from gla.array.value import Array


@public
def evaluate(*values: Any) -> Any:
    """Compute every array among `values` (lists, tuples, dicts and dataclasses of them too) in one launch; gives them back."""
    found: list[Array] = []

    def leaf(value: Any) -> Any:
        if isinstance(value, Array):
            if value._scope is not None or current.get() is not None:
                raise look_error(value, "gla.eval")
            found.append(value)
        return value

    for value in values:
        map_leaves(value, leaf)
    realise.realise(found)
    return values[0] if len(values) == 1 else values


@contextmanager
def no_compile() -> Iterator[None]:
    """Within it, for this task, whatever would have to be planned or compiled is TraceError GLA0421, and nothing is changed: what
    is meant to go at replay price does, or says so. Programs that were made before run."""
    token = engine.compiling.set(False)
    try:
        yield
    finally:
        engine.compiling.reset(token)
