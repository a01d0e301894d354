"""Plans one sequence of steps: the top level of a graph, or the body of a loop that the host drives.

Chooses what is stored, groups it into regions, puts the steps in order and binds values to buffers. Loops plan their
bodies with a scope of their own (loops.py).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from gla.ir.access import CONTROL
from gla.ir.locality import stays_within_element
from gla.ir.node import Node, topological
from gla.plan import loops, matrices, tiles
from gla.plan.buffers import Buffers
from gla.plan.explain import tell_group, tell_stored
from gla.plan.fuse.cost import Costs
from gla.plan.fuse.regions import Group, Groups, fuse, kernel_group, product_group, shared_and_dear
from gla.plan.fuse.stored import choose
from gla.plan.steps import KernelStep, MatmulStep, Region, Step, Target
from gla.plan.time_tiles import Rule
from gla.plan.writes import Writes

ROUNDS = 4  # of storing what several regions would compute


class Scope:
    """Values with buffers (`given` and what its steps compute) and the steps, in order, without dependencies."""

    def __init__(
        self,
        buffers: Buffers,
        given: Mapping[Node, int],
        *,
        fuse: bool,
        notes: list[str],
        products: bool = False,
        tiling: Rule | None = None,
        depth: int = 0,
    ) -> None:
        self.buffers = buffers
        self.given = dict(given)
        self.fuse, self.products, self.tiling = fuse, products, tiling
        self.notes = notes
        self.depth = depth
        self.steps: list[Step] = []
        self.bound: dict[Node, int] = dict(given)
        self.targets: dict[Node, Target] = {}
        self._portable: dict[Node, bool] = {}

    def buffer_of(self, node: Node) -> int:
        """The buffer that holds a stored value."""
        return self.bound[node]

    def plan(
        self, homes: Mapping[Node, int], writes: Writes | None = None, parts: Mapping[Node, tuple[int, Target]] | None = None
    ) -> None:
        """Append steps that compute every node of `homes` into its buffer, `parts` into parts of buffers, and what `writes` asks for."""
        parts = parts or {}
        homes = {node: buffer for node, buffer in homes.items() if node not in self.given}
        required = dict.fromkeys(homes, "it leaves the plan" if not self.depth else "the next trip reads it")
        required |= dict.fromkeys(parts, "a loop keeps it")
        if writes is not None:
            required = writes.roots() | required
        order = topological(required, stop=set(self.given))
        self._require_operands(order, required)
        alone = set(parts) | (writes.alone() if writes is not None else set())
        written = writes.targets() if writes is not None else {}
        groups = self._groups(order, required, alone, written)
        edges = writes.decide(groups, self.given, dict(homes)) if writes is not None else []
        for node, buffer in homes.items():
            self.bound[node] = buffer
        for node, (buffer, target) in parts.items():
            self.bound[node], self.targets[node] = buffer, target
        needed = set(required) | {node for group in groups.groups for node in group.needs}
        for group in self._in_order(groups, edges):
            self._emit(group, needed, writes)

    # --- what must be stored

    def _require_operands(self, order: list[Node], required: dict[Node, str]) -> None:
        """Operands of library calls, scans and loops of the host are stored."""
        for node in order:
            if node in self.given:
                continue
            if node.op == "matmul":
                reason = "a matrix product reads it" if self._generated(node) else "the matrix library reads it"
                for base in self._bases(node):
                    self._require(base, reason, required)
            elif node.op == "scan":
                self._require(node.operands[0], "a scan reads it", required)
            elif self.is_host_loop(node):
                for operand in loops.stored_operands(self, node):
                    self._require(operand, "a loop starts from it or reads it", required)

    def _require(self, node: Node, reason: str, required: dict[Node, str]) -> None:
        if node not in self.given:
            required.setdefault(node, reason)

    def _generated(self, node: Node) -> bool:
        return self.products and tiles.generated(node)

    def _bases(self, node: Node) -> list[Node]:
        """What must stand in memory for a matmul: what its operands are views of."""
        return [tiles.base(o) if self._generated(node) else matrices.operand(o).base for o in node.operands]

    def is_host_loop(self, node: Node) -> bool:
        """Whether the host drives the loop, rather than a kernel running it for each element."""
        return node.op in CONTROL and not stays_within_element(node)

    # --- grouping

    def _groups(self, order: list[Node], required: dict[Node, str], alone: set[Node], written: Mapping[Node, Node]) -> Groups:
        for attempt in range(ROUNDS):
            reasons, costs = choose(order, self.given, required, fuse=self.fuse)
            groups = Groups(self._initial(order, reasons, costs, alone), costs.position, written)
            if not self.fuse:
                break
            fuse(groups)
            shared = shared_and_dear(groups, costs) if attempt + 1 < ROUNDS else []
            if not shared:
                break
            for node in shared:
                required.setdefault(node, "several kernels read it and it is dear to compute again")
        inside = {node for group in groups.groups for node in group.roots if node is not group.product}
        tell_stored(self.notes, self.depth, {n: r for n, r in reasons.items() if n in inside and n not in required})
        return groups

    def _initial(self, order: list[Node], reasons: dict[Node, str], costs: Costs, alone: set[Node]) -> list[Group]:
        stored = set(self.given) | {n for n in reasons if n.op not in ("constant", "input")}
        by_loop: dict[Node, list[Node]] = {}
        groups: list[Group] = []
        for node in order:
            if node not in reasons or node in self.given:
                continue
            if node.op == "item":
                by_loop.setdefault(node.operands[0], []).append(node)
                continue
            if node.op == "matmul":
                if self._generated(node):
                    groups.append(product_group(node, stored, costs))  # type: ignore[arg-type]
                else:
                    groups.append(Group("matmul", [node], needs=dict.fromkeys(self._bases(node))))
                continue
            groups.append(kernel_group([node], stored, costs, node in alone))
        for node, items in by_loop.items():
            if self.is_host_loop(node):
                groups.append(Group("loop", items, needs=dict.fromkeys(loops.stored_operands(self, node))))
            else:
                by_shape: dict[tuple[int, ...], list[Node]] = {}
                for item in items:
                    by_shape.setdefault(item.shape, []).append(item)
                groups += [kernel_group(part, stored, costs, False) for part in by_shape.values()]
        position = costs.position
        return sorted(groups, key=lambda g: position[g.roots[0]])

    def _in_order(self, groups: Groups, edges: Iterable[tuple[Group, Group]]) -> list[Group]:
        """Producers before consumers, otherwise the graph's order."""
        waits: dict[Group, set[Group]] = {g: set(groups.producers(g)) for g in groups.groups}
        for early, late in edges:
            waits[late].add(early)
        follows: dict[Group, list[Group]] = {g: [] for g in groups.groups}
        for group, earlier in waits.items():
            for other in earlier:
                follows[other].append(group)
        rank = {g: max(groups.position[r] for r in g.roots) for g in groups.groups}
        number = {g: k for k, g in enumerate(groups.groups)}
        ready = [(rank[g], number[g], g) for g in groups.groups if not waits[g]]
        heapq.heapify(ready)
        out: list[Group] = []
        while ready:
            _, _, group = heapq.heappop(ready)
            out.append(group)
            for later in follows[group]:
                waits[later].discard(group)
                if not waits[later]:
                    heapq.heappush(ready, (rank[later], number[later], later))
        assert len(out) == len(groups.groups), "steps in a circle"
        return out

    # --- steps

    def _emit(self, group: Group, needed: set[Node], writes: Writes | None) -> None:
        if group.kind == "loop":
            loops.emit(self, group.roots[0].operands[0], group.roots)
            return
        roots = [root for root in group.roots if root in needed]
        for root in roots:
            place = writes.destination(root) if writes is not None else None
            if place is not None:
                self.bound[root] = place[0]
                if place[1] is not None:
                    self.targets[root] = place[1]
            elif root not in self.bound:
                self.bound[root] = self.buffers.temporary(root.dtype, root.shape)
        roots = [root for root in roots if 0 not in root.shape]
        if not roots:
            return
        if group.kind == "matmul":
            node = roots[0]
            a, b = (matrices.operand(operand) for operand in node.operands)
            call = matrices.call(node, a, b)
            self.steps.append(MatmulStep(call, self.bound[a.base], self.bound[b.base], self.bound[node], a.offset, b.offset))
            return
        self.steps.append(self._kernel(group, roots))
        tell_group(self.notes, self.depth, group, roots)

    def _kernel(self, group: Group, roots: list[Node]) -> KernelStep:
        # A value written in place is stored last: its readers in the same kernel have loaded the old one.
        roots = sorted(roots, key=lambda r: self.buffers[self.bound[r]].kind == "input")
        targets = tuple(self.targets.get(root) for root in roots)
        return kernel_step(roots, group.items, group.inner, targets, self.bound, set(group.needs), group.product)


def _is_array(node: Node) -> bool:
    return node.op == "input" and not node.attr("scalar")


def kernel_step(
    roots: list[Node],
    items: tuple[int, ...],
    inner: tuple[int, ...],
    targets: tuple[Target | None, ...],
    bound: Mapping[Node, int],
    needs: set[Node],
    product: Node | None = None,
) -> KernelStep:
    """The step of a region that computes `roots` from the stored values `needs`, and rows of targets from a counter."""
    starts = [s for target in targets if target is not None for s in target.starts if isinstance(s, Node)]
    reached = topological([*roots, *starts], stop=needs)
    inputs = tuple(node for node in reached if node in needs or (_is_array(node) and node in bound))
    scalars = tuple(node for node in reached if node.op == "input" and node.attr("scalar"))
    region = Region(tuple(roots), inputs, scalars, items, inner, targets, product)
    return KernelStep(region, tuple(bound[n] for n in inputs), tuple(bound[r] for r in roots))
