"""Drops statements of a kernel whose results nobody uses: expansions and index maps leave some behind."""

from __future__ import annotations

from gla.codegen.kernel import Compute, Constant, ForEach, If, Load, Loop, Reduce, Statement, Store, Value


def prune(body: tuple[Statement, ...], live: set[Value]) -> tuple[Statement, ...]:
    """`body` without what is not needed for its stores and the values in `live`, to which all values that it reads are added."""
    kept = [s for s in (_prune(statement, live) for statement in reversed(body)) if s is not None]
    return tuple(reversed(kept))


def _prune(statement: Statement, live: set[Value]) -> Statement | None:
    match statement:
        case Constant(result=result):
            return statement if result in live else None
        case Compute(result=result, args=args):
            if result not in live:
                return None
            live.update(args)
            return statement
        case Load(result=result, index=index):
            if result not in live:
                return None
            live.add(index)
            return statement
        case Store(index=index, value=value):
            live.update((index, value))
            return statement
        case If(condition=condition, body=body):
            new = prune(body, live)
            live.add(condition)
            return If(condition, new) if new else None
        case ForEach(index=index, count=count, body=body):
            new = prune(body, live)
            live.add(count)
            return ForEach(index, count, new) if new else None
        case Loop():
            return _prune_loop(statement, live)
        case Reduce():
            return _prune_reduce(statement, live)


def _prune_loop(loop: Loop, live: set[Value]) -> Statement | None:
    if not live.intersection(loop.results) and not any(isinstance(s, Store) for s in loop.body):
        return None
    live.update(loop.next)
    body = prune(loop.body, live)
    if loop.until is not None:
        live.add(loop.until)
    guard = prune(loop.guard, live)
    live.update((loop.count, *loop.inits))
    return Loop(loop.counter, loop.count, loop.carried, loop.inits, body, loop.next, loop.results, guard, loop.until)


def _prune_reduce(reduce: Reduce, live: set[Value]) -> Statement | None:
    if not live.intersection(reduce.results):
        return None
    live.update(reduce.element)
    live.update(reduce.joined)
    body, combine = prune(reduce.body, live), prune(reduce.combine, live)
    live.update((reduce.count, *reduce.identity))
    return Reduce(
        reduce.results, reduce.count, reduce.partials, reduce.index, body, reduce.element, reduce.identity, reduce.left,
        reduce.right, combine, reduce.joined,
    )  # fmt: skip
