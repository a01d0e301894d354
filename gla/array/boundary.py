"""The edge between gla and the user's program: errors leave it with the user's own frames only.

Every public function and method wears `public`. A traceback then ends at the user's line and the one line here that raises;
GLA_FULL_TRACEBACK=1 keeps all frames.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, TypeVar

from gla.config import environment
from gla.errors import GlaError, InternalError
from gla.ir.spans import _HOUSE

F = TypeVar("F", bound=Callable[..., Any])


def trimmed(error: GlaError) -> GlaError:
    """The error with the frames of gla taken out of its traceback."""
    if environment().full_traceback or isinstance(error, InternalError):
        return error
    frames = []
    entry = error.__traceback__
    while entry is not None:
        if not entry.tb_frame.f_code.co_filename.startswith(_HOUSE):
            frames.append(entry)
        entry = entry.tb_next
    kept: types.TracebackType | None = None
    for entry in reversed(frames):
        kept = types.TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return error.with_traceback(kept)


def public(function: F) -> F:
    """`function` as users call it."""

    @functools.wraps(function)
    def entry(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        try:
            return function(*args, **kwargs)
        except GlaError as error:
            raise trimmed(error)  # noqa: B904 - it is the same error

    return entry  # type: ignore[return-value]
