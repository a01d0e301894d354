"""A plan made ready for one device: kernels loaded, loops cut into pieces that are graphs and pieces driven from the host.

Nothing here knows an address: nodes name buffers, and the same `Program` serves every executable, binding and recorded
graph of a plan. `flatten` unrolls loops into nodes up to a number; what is longer becomes `Repeat` or `While` between
graphs, where the caller allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from gla.device.base import Geometry, Matmul, Parameters
from gla.errors import CaptureError, Span
from gla.plan.steps import CopyStep, KernelStep, LoopStep, MatmulStep, Plan, Step
from gla.runtime.kernels import LoadedKernel

UNROLL = 32  # nodes of a host-driven loop that go into one launch, and of a loop that is unrolled whole


@dataclass(frozen=True, slots=True, eq=False)
class KernelCall:
    """A loaded kernel and its parameters: `template` has the numbers set, `pointers` are (slot, buffer) pairs,
    `scalars` (slot, word) pairs: words of eight bytes of the packed runtime scalars. `nbytes`: the bytes of its operands and results."""

    kernel: LoadedKernel
    geometry: Geometry
    template: Parameters
    pointers: tuple[tuple[int, int], ...]
    scalars: tuple[tuple[int, int], ...]
    label: str
    nbytes: int = 0
    span: Span | None = None


@dataclass(frozen=True, slots=True, eq=False)
class KernelNode:
    call: KernelCall
    pointers: tuple[tuple[int, int], ...]
    scalars: tuple[tuple[int, int], ...]
    after: tuple[int, ...]
    kind = "kernel"

    @property
    def buffers(self) -> tuple[int, ...]:
        return tuple(buffer for _, buffer in self.pointers)


@dataclass(frozen=True, slots=True, eq=False)
class CopyNode:
    target: int
    source: int
    nbytes: int
    after: tuple[int, ...]
    kind = "copy"

    @property
    def buffers(self) -> tuple[int, ...]:
        return (self.target, self.source)


@dataclass(frozen=True, slots=True, eq=False)
class FillNode:
    target: int
    byte: int
    nbytes: int
    after: tuple[int, ...]
    kind = "fill"

    @property
    def buffers(self) -> tuple[int, ...]:
        return (self.target,)


@dataclass(frozen=True, slots=True, eq=False)
class MatmulNode:
    """Offsets in bytes. `workspace` is a buffer as well."""

    call: Matmul
    a: int
    b: int
    c: int
    workspace: int
    a_offset: int
    b_offset: int
    after: tuple[int, ...]
    kind = "library"

    @property
    def buffers(self) -> tuple[int, ...]:
        return (self.a, self.b, self.c, self.workspace)


Node = KernelNode | CopyNode | FillNode | MatmulNode


def renumbered(node: Node, buffer: Callable[[int], int], word: Callable[[int], int], after: tuple[int, ...]) -> Node:
    """The node with other numbers for its buffers and words, and other dependencies."""
    if isinstance(node, KernelNode):
        pointers = tuple((slot, buffer(b)) for slot, b in node.pointers)
        return replace(node, pointers=pointers, scalars=tuple((slot, word(w)) for slot, w in node.scalars), after=after)
    if isinstance(node, CopyNode):
        return replace(node, target=buffer(node.target), source=buffer(node.source), after=after)
    if isinstance(node, FillNode):
        return replace(node, target=buffer(node.target), after=after)
    a, b, c, workspace = (buffer(b) for b in node.buffers)
    return replace(node, a=a, b=b, c=c, workspace=workspace, after=after)


def shifted(node: Node, buffers: int, words: int, nodes: int, first: tuple[int, ...]) -> Node:
    """The node with its buffers, words and dependencies moved up; one that waits for nothing waits for `first`."""
    after = tuple(k + nodes for k in node.after) or first
    return renumbered(node, lambda b: b + buffers, lambda w: w + words, after)


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A graph: nodes with dependencies on earlier ones. `touching`: per buffer, the nodes that name it."""

    nodes: tuple[Node, ...]
    touching: Mapping[int, tuple[int, ...]] = field(init=False)

    def __post_init__(self) -> None:
        touching: dict[int, list[int]] = {}
        for k, node in enumerate(self.nodes):
            for buffer in dict.fromkeys(node.buffers):
                touching.setdefault(buffer, []).append(k)
        object.__setattr__(self, "touching", {buffer: tuple(ks) for buffer, ks in touching.items()})


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """Launch `body` `times` times."""

    times: int
    body: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, eq=False)
class While:
    """At most `limit` trips, each when the bool in buffer `condition` is true; even and odd trips, and what follows an odd number of them."""

    limit: int
    condition: int
    even: tuple[Segment, ...]
    odd: tuple[Segment, ...]
    after_odd: tuple[Segment, ...]


Segment = Piece | Repeat | While


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """`calls` has the kernels of `plan`, by the identity of their step. `workspace_bytes`: what library calls work in; its buffer
    is numbered after the plan's."""

    plan: Plan
    calls: Mapping[int, KernelCall]
    workspace_bytes: int = 0

    def segments(self) -> tuple[Segment, ...]:
        """How an executable runs it: graphs, and loops driven from the host."""
        return flatten(self.plan, self.calls, UNROLL, host_loops=True)

    def piece(self, limit: int = 4096) -> Piece:
        """The whole program as one graph. CaptureError for a while loop, or when it has more than `limit` nodes."""
        segments = flatten(self.plan, self.calls, limit, host_loops=False)
        return segments[0] if segments else Piece(())  # type: ignore[return-value]


def flatten(plan: Plan, calls: Mapping[int, KernelCall], limit: int, *, host_loops: bool) -> tuple[Segment, ...]:
    """The plan's steps as segments. Steps that move no bytes are left out."""
    builder = _Flattener(plan, calls, limit, host_loops)
    builder.steps(plan.steps, {}, ())
    return builder.finish()


class _Flattener:
    def __init__(self, plan: Plan, calls: Mapping[int, KernelCall], limit: int, host_loops: bool) -> None:
        self.plan, self.calls, self.limit, self.host_loops = plan, calls, limit, host_loops
        self.done: list[Segment] = []
        self.nodes: list[Node] = []
        self.library: int | None = None  # the last library call: they share one workspace, one after the other

    def finish(self) -> tuple[Segment, ...]:
        self._close()
        return tuple(self.done)

    def _close(self) -> None:
        if self.nodes:
            self.done.append(Piece(tuple(self.nodes)))
        self.nodes, self.library = [], None

    def _child(self) -> _Flattener:
        return _Flattener(self.plan, self.calls, self.limit, self.host_loops)

    def _nbytes(self, buffer: int) -> int:
        return self.plan.buffers[buffer].nbytes

    def _add(self, node: Node) -> tuple[int, ...]:
        self.nodes.append(node)
        if not self.host_loops and len(self.nodes) > self.limit:
            raise CaptureError(
                "GLA0906",
                f"a recorded loop needs more than {self.limit:,} nodes",
                help="record one trip, and launch the graph in a loop",
            )
        return (len(self.nodes) - 1,)

    def steps(self, steps: tuple[Step, ...], roles: Mapping[int, int], first: tuple[int, ...]) -> tuple[int, ...]:
        """Append `steps`, buffers renamed by `roles`; those that wait for nothing wait for the nodes `first`. Returns the last nodes."""
        made: list[tuple[int, ...]] = []
        for step in steps:
            before = len(self.done)
            after = tuple(dict.fromkeys(k for i in step.after for k in made[i])) or first
            nodes = self._loop(step, roles, after) if isinstance(step, LoopStep) else self._step(step, roles, after)
            if len(self.done) != before:  # a host-driven part lies between: order is given
                made, first = [() for _ in made], ()
            made.append(nodes)
        followed = {k for node in self.nodes for k in node.after}
        return tuple(dict.fromkeys(k for nodes in made for k in nodes if k not in followed)) or first

    def _step(self, step: Step, roles: Mapping[int, int], after: tuple[int, ...]) -> tuple[int, ...]:
        if isinstance(step, KernelStep):
            call = self.calls[id(step)]
            if call.geometry.items == 0:
                return after
            return self._add(KernelNode(call, tuple((s, roles.get(b, b)) for s, b in call.pointers), call.scalars, after))
        if isinstance(step, CopyStep):
            return self._copy(roles.get(step.target, step.target), roles.get(step.source, step.source), after)
        assert isinstance(step, MatmulStep)
        if step.call.batch * step.call.m * step.call.n == 0:
            return after
        size = step.call.dtype.itemsize
        a, b, c = (roles.get(x, x) for x in (step.a, step.b, step.c))
        if self.library is not None and self.library not in after:
            after = (*after, self.library)
        made = self._add(
            MatmulNode(step.call, a, b, c, len(self.plan.buffers), step.a_offset * size, step.b_offset * size, after)
        )
        self.library = made[0]
        return made

    def _copy(self, target: int, source: int, after: tuple[int, ...]) -> tuple[int, ...]:
        nbytes = self._nbytes(target)
        if nbytes == 0 or target == source:
            return after
        return self._add(CopyNode(target, source, nbytes, after))

    # --- loops
    def _loop(self, step: LoopStep, roles: Mapping[int, int], after: tuple[int, ...]) -> tuple[int, ...]:
        loop = _Loop(step, roles)
        if step.condition >= 0:
            return self._while(loop, after)
        # An odd number of trips starts in `next`, so that the last one ends in `current` without a copy.
        odd = step.count % 2 == 1 and all(start != current for start, current, _ in loop.carries)
        last = self._start(loop, after, odd)
        body = _count(step.body)
        if not self.host_loops or body * step.count <= self.limit:
            last = self._trips(loop, step.count, odd, last)
        else:
            last = self._repeat(loop, odd, body)
        if step.count % 2 == 1 and not odd:
            last = self._carry_back(loop, last)
        return last

    def _start(self, loop: _Loop, after: tuple[int, ...], odd: bool) -> tuple[int, ...]:
        """Zero the counter, copy the carries' first values."""
        made: list[int] = []
        if loop.step.counter >= 0:
            counter = loop.renamed(loop.step.counter)
            made += self._add(FillNode(counter, 0, self._nbytes(counter), after))
        for start, current, following in loop.carries:
            made += self._copy(following if odd else current, start, after)
        return tuple(dict.fromkeys(made)) or after

    def _carry_back(self, loop: _Loop, after: tuple[int, ...]) -> tuple[int, ...]:
        made: list[int] = []
        for _, current, following in loop.carries:
            made += self._copy(current, following, after)
        return tuple(dict.fromkeys(made)) or after

    def _trips(self, loop: _Loop, trips: int, odd: bool, last: tuple[int, ...]) -> tuple[int, ...]:
        """`trips` bodies in a row; the roles of current and next change after each."""
        for _ in range(trips):
            last = self.steps(loop.step.body, loop.roles(odd), last)
            odd = not odd
        return last

    def _repeat(self, loop: _Loop, odd: bool, body: int) -> tuple[int, ...]:
        trips = max(2, self.limit // max(body, 1) // 2 * 2)
        self._close()
        if loop.step.count >= trips:
            chunk = self._child()
            chunk._trips(loop, trips, odd, ())
            self.done.append(Repeat(loop.step.count // trips, chunk.finish()))
        return self._trips(loop, loop.step.count % trips, odd, ())

    def _while(self, loop: _Loop, after: tuple[int, ...]) -> tuple[int, ...]:
        step = loop.step
        if not self.host_loops:
            raise CaptureError(
                "GLA0907",
                "a while loop whose test is computed on the device cannot be recorded",
                help="call the function outside the capture, or use a fixed number of trips",
            )
        last = self._start(loop, after, odd=False)
        self.steps(step.test, loop.roles(False), last)
        self._close()
        trips = []
        for odd in (False, True):  # a trip's body and the next trip's test are one launch
            part = self._child()
            ended = part.steps(step.body, loop.roles(odd), ())
            part.steps(step.test, loop.roles(not odd), ended)
            trips.append(part.finish())
        end = self._child()
        end._carry_back(loop, ())
        self.done.append(While(step.count, loop.renamed(step.condition), trips[0], trips[1], end.finish()))
        return ()


class _Loop:
    """A loop step whose buffers are renamed by the roles of the loop around it."""

    def __init__(self, step: LoopStep, outer: Mapping[int, int]) -> None:
        self.step, self.outer = step, outer
        self.carries = [
            (self.renamed(start), self.renamed(current), self.renamed(following)) for start, current, following in step.carries
        ]
        swap = {current: following for _, current, following in self.carries}
        swap |= {following: current for _, current, following in self.carries}
        self._odd = {buffer: swap.get(self.renamed(buffer), self.renamed(buffer)) for buffer in {*outer, *swap}}

    def renamed(self, buffer: int) -> int:
        return self.outer.get(buffer, buffer)

    def roles(self, odd: bool) -> Mapping[int, int]:
        """Buffers renamed inside a trip: in odd trips current and next change places."""
        return self._odd if odd else self.outer


def _count(steps: tuple[Step, ...]) -> int:
    """About how many nodes the steps become; a nested while loop, which stays on the host, counts as very many."""
    total = 0
    for step in steps:
        if not isinstance(step, LoopStep):
            total += 1
        elif step.condition >= 0:
            return 1 << 40
        else:
            total += len(step.carries) + 1 + step.count * _count(step.body)
    return total
