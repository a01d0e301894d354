"""Children of a capture: tasks and threads that record into it, and `gla.spawn`, a thread that inherits the context.

A plain `threading.Thread` starts with an empty context, so what it does runs at once, outside of any capture. Where threads
inherit the context by themselves (free-threaded builds, `-X thread_inherit_context`) the two cannot be told apart, and
captures refuse other threads.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Generator
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from gla.array.boundary import public
from gla.array.scope import current
from gla.errors import CaptureError, Span, TraceError
from gla.ir.spans import here, labels

if TYPE_CHECKING:
    from concurrent.futures import Future


def threads_are_told_apart() -> bool:
    """Whether a plain thread starts without its parent's context."""
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    return bool(gil) and not getattr(sys.flags, "thread_inherit_context", 0)


def warn_of_free_threading() -> None:
    """Once, on import."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        warnings.warn(
            "gla is tested with the GIL only; on this free-threaded build captures refuse children in other threads",
            RuntimeWarning,
            stacklevel=3,
        )


class Children:
    """Who submitted work to a capture besides the task that opened it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.thread, self.task = threading.get_ident(), current_task()
        self.tasks: dict[Any, None] = {}
        self.spawned: list[Child] = []

    def admit(self) -> None:
        """The calling task submits an operation."""
        if threading.get_ident() != self.thread and not threads_are_told_apart():
            raise CaptureError(
                "GLA0918",
                f"another thread reaches the capture of {self.name}; this Python does not tell its children from other threads",
                labels=labels("here"),
                help="record in the thread that opened the capture",
            )
        task = current_task()
        if task is not None and task is not self.task:
            self.tasks[task] = None

    def check(self) -> None:
        """At the end of the capture: CaptureError names who is unfinished; what a child raised, and nobody looked at, is raised."""
        open_ = [_task_name(task) for task in self.tasks if not task.done()]
        open_ += [child.description for child in self.spawned if not child.done()]
        if open_:
            verb = "has" if len(open_) == 1 else "have"
            raise CaptureError(
                "GLA0919",
                f"{', '.join(open_)} {verb} not finished at the end of the capture of {self.name}",
                labels=[label for child in self.spawned if not child.done() for label in child.labels()],
                help="wait for it inside the captured function: await the task, call child.result()",
            )
        for child in self.spawned:
            child.raise_unseen()

    def forget(self) -> None:
        """After the end: keep no task alive."""
        self.task = None
        self.tasks.clear()
        self.spawned.clear()


def current_task() -> Any:
    """The asyncio task that runs, if one does."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _task_name(task: Any) -> str:
    coroutine = task.get_coro()
    code = getattr(coroutine, "cr_code", None)
    frame = getattr(coroutine, "cr_frame", None)
    line = frame.f_lineno if frame is not None else code.co_firstlineno if code is not None else 0
    place = f" ({code.co_filename}:{line})" if code is not None else ""
    return f"task {task.get_name()!r}, {getattr(coroutine, '__qualname__', 'a coroutine')}(){place},"


class Child:
    """What `gla.spawn` gives: `result()` waits and gives what the function returned or raises what it raised; `await child` does
    the same without blocking the event loop; `done()` only looks."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        from concurrent.futures import Future

        self._future: Future[Any] = Future()
        self._seen = False
        self._span: Span | None = here()
        code = getattr(function, "__code__", None)
        self.name = str(getattr(function, "__qualname__", None) or getattr(function, "__name__", repr(function)))
        place = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
        self.description = f"the child {self.name}{place}"
        context = copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._run, function, args, kwargs), name=f"gla.spawn {self.name}"
        )

    def start(self) -> None:
        self._thread.start()

    def _run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            self._future.set_exception(error)
        else:
            self._future.set_result(result)

    def done(self) -> bool:
        """Whether the function has returned or raised."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> Any:
        """Wait (at most `timeout` seconds) and give what the function returned; raises what it raised, or TimeoutError."""
        result = self._future.exception(timeout)
        self._seen = True
        if result is not None:
            raise result
        return self._future.result()

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio

        self._seen = True
        return asyncio.wrap_future(self._future).__await__()

    def raise_unseen(self) -> None:
        """Raise what the function raised, unless somebody asked for the result."""
        if not self._seen and self.done():
            self.result()

    def labels(self) -> list[Any]:
        from gla.errors import Label

        return [Label(self._span, "spawned here")] if self._span is not None else []

    def __repr__(self) -> str:
        return f"<gla.spawn {self.name}: {'done' if self.done() else 'running'}>"


@public
def spawn(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Child:
    """Run function(*args, **kwargs) in a thread that inherits this task's device, stream and capture. Gives a `Child`.

    In a capture its operations are recorded into the same graph, in the order in which they come; it must be finished when the
    captured function returns. Outside of captures it is a thread like another, with this task's device and stream.
    """
    scope = current.get()
    if scope is not None and scope.kind != "capture":
        raise TraceError(
            "GLA0411", f"a thread is spawned inside {scope.name}", labels=labels("here"), help="a trace is made by one thread"
        )
    child = Child(function, args, kwargs)
    if scope is not None:
        with scope.lock:
            scope.admit()  # type: ignore[attr-defined]
            scope.children.spawned.append(child)  # type: ignore[attr-defined]
    child.start()
    return child
