"""Rows that a team goes over several times are read once: what a later pass would load and compute again is held in shared memory.

A softmax loads a row for its maximum, again for its sum, again for its result, and computes the exponential twice. Each member
of a team takes the same elements in every pass, so that it can keep values for itself, without a barrier. `holding` says what
that takes, asked when a kernel is lowered; `held` rewrites the kernel, asked by the CUDA printer: slot n is the pointer -1 - n.
Values are those of the first pass, so bits stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gla.codegen.kernel import Compute, Constant, ForEach, Kernel, Load, Reduce, Statement, Store, Value
from gla.dtypes import bool_

MOST = 40 << 10  # bytes of shared memory for a block's rows
BLOCK = 256  # threads of a block, at most
SLOTS = 2

Pass = Reduce | ForEach


@dataclass(slots=True)
class _Slot:
    """Place `number` of values of `size` bytes, in use until the pass `last`."""

    number: int
    size: int
    last: int


class _Plan:
    """Which values of which pass are read from slots, and which are stored in one."""

    def __init__(self, body: tuple[Statement, ...]) -> None:
        self.body = body
        self.passes = _passes(body)
        self._ids: dict[object, int] = {}
        self._long: set[int] = set()  # keys of what depends on the counter and on memory
        self._counted: set[int] = set()
        self.keys = [self._keys(p) for p in self.passes]
        self.reads: list[dict[Value, int]] = [{} for _ in self.passes]  # value -> key
        self.stores: list[dict[int, Value]] = [{} for _ in self.passes]
        self.slots: dict[int, int] = {}
        for k in range(1, len(self.passes)):
            self._find(k)
        self.count = self._place()

    def _intern(self, key: object) -> int:
        return self._ids.setdefault(key, len(self._ids))

    def _keys(self, p: Pass) -> dict[Value, int]:
        """A number for each value of the pass, the same for what is computed in the same way in another one."""
        known = {p.index: self._intern("counter")}
        self._counted.add(known[p.index])
        for s in p.body:
            if isinstance(s, Compute | Load):
                args = s.args if isinstance(s, Compute) else (s.index,)
                parts = tuple(known[a] if a in known else self._intern(("outside", a.id)) for a in args)
                what = (s.op, s.name) if isinstance(s, Compute) else ("load", s.pointer)
                key = known[s.result] = self._intern((what, parts, s.result.dtype.name))
                if not self._counted.isdisjoint(parts):
                    self._counted.add(key)
                    if isinstance(s, Load) or not self._long.isdisjoint(parts):
                        self._long.add(key)
        return known

    def _find(self, k: int) -> None:
        """What pass k takes from an earlier one: the largest values that one of those has."""
        made = {s.result: s for s in self.passes[k].body if isinstance(s, Compute | Load)}
        work, seen = list(_wanted(self.passes[k])), set()
        while work:
            value = work.pop()
            s = made.get(value)
            if s is None or value in seen:
                continue
            seen.add(value)
            key = self.keys[k][value]
            source = self._source(k, key)
            if source is not None and value.dtype is not bool_:
                self.reads[k][value] = key
                if key not in self.slots:
                    self.slots[key] = -1
                    self.stores[source[0]][key] = source[1]
            else:
                work.extend(s.args if isinstance(s, Compute) else (s.index,))

    def _source(self, k: int, key: int) -> tuple[int, Value] | None:
        """(pass, value) of the last earlier pass that computes what `key` stands for."""
        if key in self._long:
            for j in range(k - 1, -1, -1):
                for value, other in self.keys[j].items():
                    if other == key:
                        return j, value
        return None

    def _place(self) -> int:
        """Give slots their places; returns how many there are."""
        last = {key: k for k, reads in enumerate(self.reads) for key in reads.values()}
        places: list[_Slot] = []
        for k, stores in enumerate(self.stores):
            for key, value in stores.items():
                size = value.dtype.itemsize
                free = next((slot for slot in places if slot.last <= k and slot.size == size), None)
                if free is None:
                    free = _Slot(len(places), size, 0)
                    places.append(free)
                free.last, self.slots[key] = last[key], free.number
        return len(places)

    @property
    def width(self) -> int:
        """Bytes of an element's slots."""
        return self.count * max((v.dtype.itemsize for stores in self.stores for v in stores.values()), default=0)


def holding(kernel: Kernel) -> tuple[Value, int] | None:
    """(the extent of a row, the bytes that holding takes of each element), or None where there is nothing to hold."""
    if kernel.team == 1 or kernel.across or not _passes(kernel.body):
        return None
    plan = _Plan(kernel.body)
    if not 1 <= plan.count <= SLOTS:
        return None
    return plan.passes[0].count, plan.width


def fits(kernel: Kernel, length: int, width: int) -> bool:
    """Whether the rows of a block, `width` bytes an element, lie in shared memory."""
    return length * width * max(1, BLOCK // kernel.team) <= MOST


def held(kernel: Kernel) -> Kernel:
    """The kernel with its held values stored in slots and read from there."""
    plan = _Plan(kernel.body)
    number = {id(p): k for k, p in enumerate(plan.passes)}
    body = tuple(_rewritten(plan, number[id(s)]) if id(s) in number else s for s in kernel.body)
    return replace(kernel, body=body)


def _passes(body: tuple[Statement, ...]) -> list[Pass]:
    """The straight passes over one row, at the top of the kernel."""
    found = [s for s in body if isinstance(s, Reduce | ForEach)]
    if len(found) < 2 or any(p.count is not found[0].count for p in found):
        return []
    if any(isinstance(p, Reduce) and p.partials == 1 for p in found):
        return []
    straight = all(isinstance(s, Constant | Compute | Load | Store) for p in found for s in p.body)
    return found if straight else []


def _wanted(p: Pass) -> tuple[Value, ...]:
    if isinstance(p, Reduce):
        return p.element
    return tuple(v for s in p.body if isinstance(s, Store) for v in (s.value, s.index))


def _rewritten(plan: _Plan, k: int) -> Pass:
    p, reads = plan.passes[k], plan.reads[k]
    stored = {value: key for key, value in plan.stores[k].items()}
    out: list[Statement] = [Load(value, -1 - plan.slots[key], p.index) for value, key in reads.items()]
    live = _needed(p, reads, set(stored))
    for s in p.body:
        if isinstance(s, Store):
            out.append(s)
        elif s.result in live and s.result not in reads:  # type: ignore[union-attr]
            out.append(s)
            if s.result in stored:  # type: ignore[union-attr]
                out.append(Store(-1 - plan.slots[stored[s.result]], p.index, s.result))  # type: ignore[union-attr]
    return replace(p, body=tuple(out))


def _needed(p: Pass, reads: dict[Value, int], also: set[Value]) -> set[Value]:
    """The values that the pass still computes."""
    live = {*_wanted(p), *also}
    for s in reversed(p.body):
        if isinstance(s, Compute | Load) and s.result in live and s.result not in reads:
            live.update(s.args if isinstance(s, Compute) else (s.index,))
    return live
