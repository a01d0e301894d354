"""Views of the outside that a recorded program writes through: after each launch they show the new contents.

`u = gla.linspace(0, 1, 64).reshape(8, 8)` is a view of a vector. A capture that does `u += 1` writes the vector; `u` follows,
as it does when it is written at top level. A view that somebody overtook by another write follows no longer. Called by
capture.py and captured.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from weakref import ref

from gla.array import pending
from gla.array.assign import refresh
from gla.array.value import Array


@contextmanager
def following(views: Iterable[ref[Array]]) -> Iterator[None]:
    """Around a launch that writes through `views`. When it fails they are as they were."""
    seen = [v for v in (view() for view in views) if v is not None and v._is_fresh()]
    if not seen:
        yield
        return
    with pending.place(seen[0]._device).lock:  # whoever looks at one of them waits
        for view in seen:
            pending.discard(view)  # the old contents are not wanted
        try:
            yield
        except BaseException:
            for view in seen:
                if view._buffer is None:
                    pending.add(view)
            raise
        for view in seen:
            assert view._base is not None
            refresh(view, view._base)
            pending.add(view)
