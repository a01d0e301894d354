"""Work that only a selection needs, put behind a branch: `select(c, slow, quick)` computes `slow` when some lane has c.

Expansions of elementary functions choose between a quick way and a long one for rare arguments (the sine of a large number).
A vector (a warp) whose lanes all go the quick way skips the rest. The values are the same either way. Used by both printers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from heapq import heapify, heappop, heappush
from typing import Any

from gla.codegen.kernel import Compute, Constant, Statement, Value

WORTH = 24  # computations that pay for a branch


@dataclass(frozen=True, slots=True)
class Rare:
    """Where a lane's `condition` is `when`, run `body`; then the `chosen` selections, whose other arms stand already."""

    condition: Value
    when: bool
    body: tuple[Statement, ...]
    chosen: tuple[Compute, ...]


def uses(body: tuple[Statement, ...]) -> Counter[int]:
    """How often each value is named, anywhere inside."""
    found: Counter[int] = Counter()
    for statement in body:
        found.update(_named(statement))
    return found


def _named(thing: Any) -> Iterator[int]:
    """The ids of the values that a statement names, results and bound names too where they are not plain results."""
    if isinstance(thing, (Compute, Constant)):
        yield from (a.id for a in getattr(thing, "args", ()))
        return
    for field in fields(thing):
        value = getattr(thing, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Value):
                yield part.id
            elif hasattr(part, "__dataclass_fields__") and not isinstance(part, Value):
                yield from _named(part)


def with_branches(body: tuple[Statement, ...], total: Counter[int]) -> tuple[Statement | Rare, ...]:
    """`body` with rare work behind branches. `total`: `uses` of the whole kernel."""
    groups: dict[int, list[int]] = {}
    for place, s in enumerate(body):
        if isinstance(s, Compute) and s.op == "select":
            groups.setdefault(s.args[0].id, []).append(place)
    if len(body) < WORTH or not groups:
        return body
    defined = {s.result.id: place for place, s in enumerate(body) if hasattr(s, "result")}
    taken: set[int] = set()
    made: dict[int, Rare] = {}
    for places in sorted(groups.values(), key=lambda p: -p[0]):
        found = _group(body, places, defined, total, taken)
        if found is not None:
            members, cone, when = found
            taken |= members | cone
            made[places[0]] = Rare(
                body[places[0]].args[0],  # type: ignore[union-attr]
                when,
                tuple(body[p] for p in sorted(cone)),
                tuple(body[p] for p in sorted(members)),  # type: ignore[misc]
            )
    if not made:
        return body
    out: list[Statement | Rare] = []
    for place, s in enumerate(body):
        if place in made:
            out.append(made[place])
        elif place not in taken:
            out.append(s)
    return tuple(out)


def _group(
    body: tuple[Statement, ...], places: list[int], defined: dict[int, int], total: Counter[int], taken: set[int]
) -> tuple[set[int], set[int], bool] | None:
    """The selections by one condition that can stand together, and the larger of the two cones that only they need."""
    first = places[0]
    if any(p in taken for p in places):
        return None
    members = {
        p
        for p in places
        if all(defined.get(a.id, -1) < first for a in body[p].args)  # type: ignore[union-attr]
    }
    best: tuple[set[int], set[int], bool] | None = None
    for arm, when in ((1, True), (2, False)):
        if _is_common(body, defined.get(body[first].args[0].id), when):  # type: ignore[union-attr]
            continue
        cone, weight = _cone(body, members, arm, first, defined, total, taken)
        if weight >= WORTH and (best is None or len(cone) > len(best[1])):
            best = (members, cone, when)
    return best


def _is_common(body: tuple[Statement, ...], place: int | None, when: bool) -> bool:
    """Whether the condition, computed at `place`, is an equality that mostly comes out as `when`: numbers seldom are equal."""
    s = body[place] if place is not None else None
    return isinstance(s, Compute) and s.op == ("ne" if when else "eq")


def _cone(
    body: tuple[Statement, ...],
    members: set[int],
    arm: int,
    first: int,
    defined: dict[int, int],
    total: Counter[int],
    taken: set[int],
) -> tuple[set[int], int]:
    """The computations before place `first` that are needed by arm `arm` of the selections alone, and how many they are."""
    needed: Counter[int] = Counter(body[p].args[arm].id for p in members)  # type: ignore[union-attr]
    ahead = [-defined[v] for v in needed if v in defined]  # users stand after what they use: the last is settled first
    heapify(ahead)
    cone: set[int] = set()
    weight = 0
    while ahead:
        place = -heappop(ahead)
        s = body[place]
        if place >= first or place in taken or not isinstance(s, (Compute, Constant)):
            continue
        if needed[s.result.id] != total[s.result.id]:
            continue
        cone.add(place)
        if isinstance(s, Compute):
            weight += 16 if s.op in ("call", "apply") else 1
            for a in s.args:
                if a.id in defined and not needed[a.id]:
                    heappush(ahead, -defined[a.id])
                needed[a.id] += 1
    return cone, weight
