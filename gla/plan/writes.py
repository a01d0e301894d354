"""What a plan does to arrays that it writes: in place where no one sees it, otherwise into a temporary that is put back last.

In place needs that the kernel reads the array at the element that it writes, and that every other reader of the old
contents has run. `x[a:b] = e` stores `e` into its part of x and leaves the rest alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gla.ir.access import accesses, identity
from gla.ir.graph import Graph
from gla.ir.node import Node
from gla.plan.buffers import Buffers
from gla.plan.fuse.regions import Group, Groups
from gla.plan.steps import CopyStep, KernelStep, Region, Step, Target


@dataclass(slots=True)
class Write:
    """`root`: what is computed: the new contents, or with `target` the part that replaces a part of the array. `inplace`:
    decided when groups are known."""

    array: Node
    value: Node
    root: Node
    target: Target | None
    inplace: bool = False


class Writes:
    """The writes of a graph. `Scope` asks for roots before it groups, then lets `decide` choose what happens in place."""

    def __init__(self, graph: Graph, given: dict[Node, int], buffers: Buffers) -> None:
        self.given, self.buffers = given, buffers
        self.results = set(graph.results)
        used = [o for node in graph.nodes() for o in node.operands] + list(graph.results) + [v for _, v in graph.writes]
        self.all: list[Write] = []
        self._snapshots: dict[Node, int] = {}
        written = {array for array, _ in graph.writes}
        for array, value in graph.writes:
            if value is array or not buffers[given[array]].nbytes:
                continue
            partial = value.op == "update" and value.operands[0] is array and used.count(value) == 1
            if partial:
                part = value.operands[1]
                target = Target(array.shape, value.attr("starts"), value.attr("steps"))
                self.all.append(Write(array, value, part, target))
            else:
                self.all.append(Write(array, value, value, None))
            root = self.all[-1].root
            if root in given and root in written and root not in self._snapshots:
                self._snapshots[root] = buffers.temporary(root.dtype, root.shape)

    def roots(self) -> dict[Node, str]:
        """What must be stored for the writes."""
        return {w.root: "an array is assigned" for w in self.all if w.root not in self.given}

    def targets(self) -> dict[Node, Node]:
        """The array that a root replaces."""
        return {w.root: w.array for w in self.all}

    def alone(self) -> set[Node]:
        """Parts that want a kernel of their own, which stores them in place."""
        return {w.root for w in self.all if w.target is not None}

    def decide(self, groups: Groups, given: dict[Node, int], homes: dict[Node, int]) -> list[tuple[Group, Group]]:
        """Choose the writes that happen in place; gives (earlier, later) pairs of groups that this orders."""
        edges: list[tuple[Group, Group]] = []
        taken: set[Node] = set()
        for write in self.all:
            group = groups.owner.get(write.root)
            if group is None or write.root in homes or write.root in taken or not self._fits(write, group, groups):
                continue
            readers = [g for g in groups.readers.get(write.array, ()) if g is not group]
            if not _before(groups, edges, group, readers):
                continue
            write.inplace = True
            taken.add(write.root)
            edges += [(reader, group) for reader in readers]
        return edges

    def _fits(self, write: Write, group: Group, groups: Groups) -> bool:
        """Whether `group` reads the array only where it writes it. A matrix product must not read it at all."""
        if group.kind in ("matmul", "product"):
            return write.target is None and write.array not in group.needs and write.root.shape == write.array.shape
        if group.kind != "kernel" or (group.reduces and len(group.roots) > 1):
            return False
        if any(w.inplace and groups.owner.get(w.root) is group for w in self.all if w is not write) and group.reduces:
            return False
        if write.target is not None and (groups.readers.get(write.root) or len(group.roots) > 1):
            return False
        stop = set(self.given) | set(groups.owner) - set(group.roots)
        part = None
        if write.target is not None:
            part = _same_part(write, group)
            if part is not None:
                stop.add(part)
        for root in group.roots:
            if write.array not in group.needs:
                break
            reached = accesses(root, stop)
            if part is not None and write.array in reached:
                return False
            node = write.array if part is None else part
            # A short row is computed whole before any of it is stored.
            rank = len(group.items) if group.unrolled else len(node.shape)
            own = identity(node)
            if any(path[:rank] != own[:rank] or node.shape != root.shape for path in reached.get(node, ())):
                return False
        if write.target is not None and part is None and write.array in group.needs:
            return False
        return not (group.reduces and group.inner and write.array in group.needs)

    def destination(self, node: Node) -> tuple[int, Target | None] | None:
        """Where the value of a root goes when that is an array, in place."""
        for write in self.all:
            if write.inplace and write.root is node:
                return self.given[write.array], write.target
        return None

    def snapshots(self) -> list[Step]:
        """Copies of arrays that are written here and whose old contents become another array's."""
        return [CopyStep(self.given[node], copy) for node, copy in self._snapshots.items()]

    def put_back(self, buffer_of: Callable[[Node], int]) -> list[Step]:
        """What was not written in place, at the end."""
        steps: list[Step] = []
        for write in self.all:
            if write.inplace:
                continue
            target = self.given[write.array]
            source = self._snapshots.get(write.root)
            if source is None:
                source = buffer_of(write.root)
            whole = self.buffers[source].shape == write.root.shape
            if write.target is None and whole:
                steps.append(CopyStep(source, target))
            elif self.buffers[source].nbytes:
                region = Region((write.root,), (write.root,), (), write.root.shape, (), (write.target,))
                steps.append(KernelStep(region, (source,), (target,)))
        return steps


def _same_part(write: Write, group: Group) -> Node | None:
    """The slice of the array that is exactly the part that is replaced, when the group reads it."""
    assert write.target is not None
    for node in group.inside:
        if (
            node.op == "slice"
            and node.operands[0] is write.array
            and node.shape == write.root.shape
            and node.attr("starts") == write.target.starts
            and node.attr("steps") == write.target.steps
        ):
            return node
    return None


def _before(groups: Groups, edges: list[tuple[Group, Group]], group: Group, readers: list[Group]) -> bool:
    """Whether readers can all run before `group`, given the orders already promised."""
    seen: set[Group] = set()
    work = [group]
    while work:
        here = work.pop()
        if here in readers:
            return False
        if here in seen:
            continue
        seen.add(here)
        work.extend(groups.consumers(here))
        work.extend(late for early, late in edges if early is here)
    return True
