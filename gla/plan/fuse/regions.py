"""Groups stored values into regions, one kernel each: reductions with their producers and consumers, siblings that share inputs.

A group starts as one stored value (or the values of one loop) and grows by joining: a producer into its consumer where
the consumer sees it at the item's own index, or two groups that read the same array over the same items. Groups never
close a cycle. The order of joining follows the graph's order alone.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType

from gla.ir.access import ONE, WHOLE, Map, accesses, identity
from gla.ir.node import Node
from gla.plan.fuse.cost import CHEAP, LOOP, SMALL, Costs, is_large_reduction
from gla.plan.fuse.stored import LIMIT

INNER = 16384  # the longest row that one team writes
INNER_FEW = 4096  # the same where there are too few rows to fill a device
FEW = 32
POINTERS = 60  # arrays that one kernel reads and writes


@dataclass(slots=True, eq=False)
class Group:
    """What one step computes. kind: "kernel", "product" (the kernel of the matmul `product`), "scan", "matmul", "loop". `roots` in the graph's order; `reached`: per root,
    what it reads by which maps; `needs`: stored values that the group reads; `inside`: what it computes."""

    kind: str
    roots: list[Node]
    items: tuple[int, ...] = ()
    inner: tuple[int, ...] = ()
    reduces: bool = False
    heavy: bool = False
    alone: bool = False
    reached: dict[Node, dict[Node, set[Map]]] = field(default_factory=dict)
    needs: dict[Node, None] = field(default_factory=dict)
    inside: dict[Node, None] = field(default_factory=dict)
    level: int = 0
    product: Node | None = None

    @property
    def unrolled(self) -> bool:
        """Rows so short that the item's one thread computes all of a row before it stores any."""
        return 1 <= prod(self.inner) <= SMALL and bool(self.inner)


def kernel_group(roots: list[Node], stored: Container[Node], costs: Costs, alone: bool) -> Group:
    """The group of one stored value, or of the values of one loop inside a kernel."""
    group = Group("scan" if roots[0].op == "scan" else "kernel", roots, roots[0].shape, alone=alone)
    if group.kind == "scan":
        group.items = roots[0].shape[:-1]
    for root in roots:
        reached = accesses(root, stored, costs.reads)
        group.reached[root] = reached
        group.inside[root] = None
        for node in reached:
            if node in stored:
                group.needs[node] = None
            else:
                group.inside[node] = None
    group.reduces = any(is_large_reduction(root) for root in roots)
    if len(roots) == 1 and not group.reduces and _is_small_stack(roots[0], group.reached[roots[0]], stored, costs):
        group.items, group.inner = roots[0].shape[:-1], roots[0].shape[-1:]
    group.heavy = any(root.op == "item" for root in roots)
    if alone and roots[0].shape == (1,):  # a scalar that a loop keeps: part of the kernel of one item that computes it
        group.items, group.inner = (), (1,)
    return group


def product_group(node: Node, stored: Container[Node], costs: Costs) -> Group:
    """The group of a matmul with a kernel of its own, which takes in what uses it element by element."""
    group = kernel_group([node], stored, costs, False)
    group.kind, group.product, group.items, group.inner = "product", node, node.shape, ()
    return group


def _is_small_stack(root: Node, reached: dict[Node, set[Map]], stored: Container[Node], costs: Costs) -> bool:
    """Whether each of a row's few elements is an expression of its own, as in a stack of a system's components: one item
    then computes the row, and shares what the expressions have in common."""
    if not root.shape or not 2 <= root.shape[-1] <= SMALL:
        return False
    own, last = identity(root), len(root.shape) - 1
    for node in (root, *(n for n, paths in reached.items() if n not in stored and n.op == "concat" and paths == {own})):
        if node.op == "concat" and node.shape == root.shape and node.attr("axis") == last:
            bases = [part.operands[0] if part.op == "reshape" else part for part in node.operands]
            if any(base.op == "item" or is_large_reduction(base) or costs.cost(base) > CHEAP // 2 for base in bases):
                return True
    return False


class Groups:
    """The groups of a scope and who reads whose values."""

    def __init__(
        self, groups: list[Group], position: dict[Node, int], written: Mapping[Node, Node] = MappingProxyType({})
    ) -> None:
        """`written`: the array that a root is to replace."""
        self.written = written
        self.groups: dict[Group, None] = dict.fromkeys(groups)
        self.position = position
        self.owner: dict[Node, Group] = {root: group for group in groups for root in group.roots}
        self.readers: dict[Node, dict[Group, None]] = {}
        for group in groups:
            for node in group.needs:
                self.readers.setdefault(node, {})[group] = None
        for group in groups:
            self._lift(group)

    def producers(self, group: Group) -> list[Group]:
        """Groups whose values `group` reads, the latest first."""
        found = {self.owner[node]: None for node in group.needs if node in self.owner}
        return sorted(found, key=lambda g: -max(self.position[r] for r in g.roots))

    def consumers(self, group: Group) -> list[Group]:
        return list({reader: None for root in group.roots for reader in self.readers.get(root, ())})

    def _lift(self, group: Group) -> None:
        """Levels grow along every edge; keeps them so after `group` changed."""
        for producer in self.producers(group):
            group.level = max(group.level, producer.level + 1)
        work = [group]
        while work:
            here = work.pop()
            for reader in self.consumers(here):
                if reader.level <= here.level:
                    reader.level = here.level + 1
                    work.append(reader)

    def reaches(self, start: Group, goal: Group, *, direct: bool) -> bool:
        """Whether `goal` comes after `start`; `direct=False` leaves the edge between the two out."""
        seen: set[Group] = set()
        work = [g for g in self.consumers(start) if direct or g is not goal]
        while work:
            here = work.pop()
            if here is goal:
                return True
            if here in seen or here.level >= goal.level:
                continue
            seen.add(here)
            work.extend(self.consumers(here))
        return False

    def join(self, first: Group, second: Group, items: tuple[int, ...], inner: tuple[int, ...]) -> Group:
        """The two as one group, in place of both. `first` does not come after `second`."""
        roots = sorted({**dict.fromkeys(first.roots), **dict.fromkeys(second.roots)}, key=self.position.__getitem__)
        new = Group(first.kind, roots, items, inner, first.reduces or second.reduces, first.heavy or second.heavy)
        new.product = first.product
        new.alone = first.alone or second.alone
        new.reached = {**first.reached, **second.reached}
        new.needs = {node: None for group in (first, second) for node in group.needs if node not in roots}
        new.inside = {**first.inside, **second.inside}
        new.level = max(first.level, second.level)
        for old in (first, second):
            del self.groups[old]
            for node in old.needs:
                del self.readers[node][old]
        self.groups[new] = None
        for root in roots:
            self.owner[root] = new
        for node in new.needs:
            self.readers.setdefault(node, {})[new] = None
        self._lift(new)
        return new


def fits(items: tuple[int, ...], inner: tuple[int, ...]) -> bool:
    """Whether teams, one an item, write rows of that length well."""
    return prod(inner) <= (INNER if prod(items) >= FEW else INNER_FEW)


def joined_domain(first: Group, second: Group) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """(items, inner) over which both run, or None. `first` may feed `second`."""
    if first.items == second.items:
        if first.inner and second.inner and first.inner != second.inner:
            return None
        return first.items, first.inner or second.inner
    for rows, plain in ((first, second), (second, first)):
        rank = len(rows.items)
        if plain.reduces or plain.inner or plain.heavy or plain.items[:rank] != rows.items:
            continue
        inner = plain.items[rank:]
        if rows.reduces and inner and rows.inner in ((), inner) and fits(rows.items, inner):
            return rows.items, inner
        if rows.unrolled and rows.inner == inner:
            return rows.items, inner
    return None


def sees_own(first: Group, second: Group, items: tuple[int, ...], inner: tuple[int, ...]) -> bool:
    """Whether `second` sees what `first` gives at the item's own index only, or in the item's own row."""
    rank, unrolled = len(items), bool(inner) and prod(inner) <= SMALL
    for reached in second.reached.values():
        for root in first.roots:
            for path in reached.get(root, ()):
                own = identity(root)
                if any(path[k] != own[k] for k in range(min(rank, len(own)))):
                    return False
                if not unrolled and any(path[k] not in (own[k], ONE, WHOLE) for k in range(rank, len(own))):
                    return False
    return True


def _joinable(first: Group, second: Group) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    if first.kind not in ("kernel", "product") or second.kind != "kernel":
        return None
    if first.product is not None and (second.reduces or second.inner or second.heavy or second.items != first.items):
        return None
    if len(first.roots) + len(second.roots) + max(len(first.needs), len(second.needs)) > POINTERS:
        return None
    domain = joined_domain(first, second)
    if domain is None or _together(first.inside, second.inside) > LIMIT:
        return None
    return domain if _together(first.needs, second.needs) + len(first.roots) + len(second.roots) <= POINTERS else None


def _together(first: dict[Node, None], second: dict[Node, None]) -> int:
    """How many nodes the two have in all; near enough when that is few."""
    most = len(first) + len(second)
    return most if most <= POINTERS // 4 else len(first.keys() | second.keys())


def fuse(groups: Groups) -> None:
    """Join what may be joined: producers into consumers until nothing changes, then siblings, then producers again."""
    _vertical(groups)
    if _siblings(groups):
        _vertical(groups)
    _scalars(groups)


def _vertical(groups: Groups) -> None:
    work = sorted(groups.groups, key=lambda g: groups.position[g.roots[0]])
    for start in work:
        group: Group | None = start if start in groups.groups else None
        while group is not None:
            group = _take_producer(groups, group)


def _take_producer(groups: Groups, group: Group) -> Group | None:
    for producer in groups.producers(group):
        if producer.alone:
            continue
        domain = _joinable(producer, group)
        if domain is None or not sees_own(producer, group, *domain):
            continue
        if groups.reaches(producer, group, direct=False):
            continue
        return groups.join(producer, group, *domain)
    return None


def _scalars(groups: Groups) -> None:
    """Kernels of one item join whatever they have in common: they cost a launch and nothing else."""
    single = [g for g in groups.groups if g.kind == "kernel" and not (g.items or g.alone or g.heavy)]
    single.sort(key=lambda g: groups.position[g.roots[0]])
    joined: list[Group] = []
    for group in single:
        for k, first in enumerate(joined):
            # Reductions do work: two of them stay apart.
            plain = not (group.reduces or group.inner) or not (first.reduces or first.inner)
            domain = _joinable(first, group) if plain else None
            if domain and not groups.reaches(first, group, direct=True) and not groups.reaches(group, first, direct=True):
                joined[k] = groups.join(first, group, *domain)
                break
        else:
            joined.append(group)


def _siblings(groups: Groups) -> bool:
    changed = False
    for node in sorted(groups.readers, key=lambda n: groups.position.get(n, -1)):
        if prod(node.shape) <= 1:
            continue
        merged = True
        while merged:
            merged = False
            readers = sorted(groups.readers[node], key=lambda g: groups.position[g.roots[0]])
            for k, first in enumerate(readers):
                second = next((g for g in readers[k + 1 :] if _are_siblings(groups, first, g)), None)
                if second is not None:
                    domain = _joinable(first, second)
                    assert domain is not None
                    groups.join(first, second, *domain)
                    merged = changed = True
                    break
    return changed


def _are_siblings(groups: Groups, first: Group, second: Group) -> bool:
    if first.alone or second.alone or first.product is not None:
        return False
    domain = _joinable(first, second)
    if domain is None or (first.reduces != second.reduces and not domain[1]):
        return False
    if _hinders(groups, first, second) or _hinders(groups, second, first):
        return False
    return not groups.reaches(first, second, direct=True) and not groups.reaches(second, first, direct=True)


def _hinders(groups: Groups, writer: Group, reader: Group) -> bool:
    """Whether `reader`, in one kernel with `writer`, would keep it from writing an array in place: it reads other elements."""
    for root in writer.roots:
        array = groups.written.get(root)
        if array is not None and array in reader.needs:
            paths = {path for reached in reader.reached.values() for path in reached.get(array, ())}
            if paths - {identity(array)}:
                return True
    return False


def shared_and_dear(groups: Groups, costs: Costs) -> list[Node]:
    """Values that several groups would each compute, and that are dear enough to be stored instead: those nearest their users."""
    homes: dict[Node, list[Group]] = {}
    for group in groups.groups:
        for node in group.inside:
            if node.op != "item" and node not in groups.owner:
                homes.setdefault(node, []).append(group)
    dear = {n for n, where in homes.items() if len(where) > 1 and n in costs.position and 16 < costs.cost(n) < LOOP}
    covered: set[Node] = set()
    for node in dear:
        for operand in node.operands:
            if operand in dear and len(homes[operand]) == len(homes[node]):
                covered.add(operand)
    return sorted(dear - covered, key=costs.position.__getitem__)
