"""`@gla.captured`: a function whose Python body runs on every call, so that host-side state may steer it; its device work is
launched when the body is done.

Equal structure meets the same executable, whose graph is updated for other arrays and numbers; another structure is planned
and instantiated when it first appears. A body that fails has run nothing.
"""

from __future__ import annotations

import functools
import threading
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gla.array.boundary import public
from gla.array.capture import Body, is_coroutine_function, name_of
from gla.array.devices import current_device
from gla.array.followers import following
from gla.array.inspection import Stats
from gla.array.parts import Running
from gla.array.recording import CaptureScope
from gla.array.scope import current

KEPT = 64
"""Executables of one captured function; the least recently used goes first."""


class Captured:
    """What `@gla.captured` gives. What a call returns is fresh, as a `gla.function`'s results are."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.fn = f
        self._calls = self._plans = 0
        self._kept: OrderedDict[Any, None] = OrderedDict()
        self._lock = threading.Lock()
        functools.update_wrapper(self, f)

    @public
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the body, then what it recorded. Inside a capture or a trace it is a part of that."""
        if current.get() is not None:
            return self.fn(*args, **kwargs)
        if is_coroutine_function(self.fn):
            return self._call_coroutine(args, kwargs)
        with self._opened() as body:
            body.done(self.fn(*args, **kwargs))
        return body.arrays(fresh=True)

    async def _call_coroutine(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._opened() as body:
            body.done(await self.fn(*args, **kwargs))
        return body.arrays(fresh=True)

    @contextmanager
    def _opened(self) -> Iterator[Body]:
        device = current_device()
        sink = Running(device)
        scope = CaptureScope(f"{name_of(self.fn)}()", device, sink)
        try:
            with scope.open():
                yield Body(scope)
            with following(scope.followers()):
                sink.finish()
        finally:
            scope.release()
        with self._lock:
            self._calls += 1
            for executable in sink.executables:
                self._plans += executable not in self._kept
                self._kept[executable] = None
                self._kept.move_to_end(executable)
                if len(self._kept) > KEPT:
                    self._kept.popitem(last=False)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def stats(self) -> Stats:
        """Counts: calls; hits, calls whose structure was known; plans, distinct structures; kernels, instantiations and updates of
        the executables behind them."""
        with self._lock:
            kept = list(self._kept)
        names = {call.kernel.name for e in kept for call in e.program.calls.values()}
        instantiations, updates = sum(e.stats.instantiations for e in kept), sum(e.stats.updates for e in kept)
        return Stats(self._calls, max(self._calls - self._plans, 0), self._plans, len(names), instantiations, updates)

    def __repr__(self) -> str:
        return f"<gla.captured {name_of(self.fn)}>"


def captured(f: Callable[..., Any]) -> Captured:
    """A function whose body runs on every call, while its device work is recorded and launched as a whole."""
    return Captured(f)
