"""Where the user stands: the source line that asks for the node being built.

Python programs: the nearest frame outside gla. Other front ends say it themselves with `at(span)`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

from gla.errors import Label, Span
from gla.ir.node import Node

_HOUSE = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + "/"
WRITTEN = "<gla>"
"""The file of code that gla writes and runs."""
_stated: ContextVar[Span | None] = ContextVar("gla_span", default=None)


_ours: dict[str, bool] = {}


def is_ours(file: str) -> bool:
    """Whether code of that file is gla's own."""
    known = _ours.get(file)
    if known is None:
        known = _ours[file] = file.startswith(_HOUSE) or file == WRITTEN
    return known


def stated() -> Span | None:
    """What a front end other than Python says of where it is."""
    return _stated.get()


def here() -> Span | None:
    """The span of the operation being built, or None when nobody outside gla asked."""
    stated = _stated.get()
    if stated is not None:
        return stated
    frame = user_frame()
    return Span(frame.f_code.co_filename, frame.f_lineno) if frame is not None else None


def user_frame() -> FrameType | None:
    """The nearest frame outside gla."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        known = _ours.get(file)
        if known is False or (known is None and not is_ours(file)):
            return frame
        frame = frame.f_back
    return None


@contextmanager
def at(span: Span | None) -> Iterator[None]:
    """Within it, nodes are built for the source at `span`."""
    token = _stated.set(span)
    try:
        yield
    finally:
        _stated.reset(token)


def labels(what: str, *operands: tuple[str, Node]) -> tuple[Label, ...]:
    """Labels for an error about an operation: where it is, and where each (description, operand) came from."""
    place = here()
    found = [Label(place, what)] if place is not None else []
    for text, node in operands:
        if node.span is not None and node.span != place:
            name = node.attr("name") if node.op == "input" else ""
            found.append(Label(node.span, f"{name}: {text}" if name and _stated.get() is None else text))
    return tuple(found)
