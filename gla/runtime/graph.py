"""gla.Graph: what was captured, and GraphExecutable: an instantiated graph that is launched again and again.

A graph keeps its own record: nodes, the address of every buffer that they name, and the block that owns it. The driver's
graph is made from the record when it is instantiated. Adding is transactional: nodes are made in Python first and appended
in one go. Memory comes from the ordinary pool, once; a graph and each of its executables hold leases of their own.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gla.errors import GraphError
from gla.runtime.binding import Instance, Place
from gla.runtime.layout import Layout, check_inputs
from gla.runtime.memory.block import Block, Storage
from gla.runtime.memory.lease import LastUse, Lease
from gla.runtime.program import CopyNode, KernelNode, MatmulNode, Node, Piece, Program, renumbered, shifted
from gla.runtime.stream import Stream, current_or

if TYPE_CHECKING:
    from gla.runtime.machine import Machine


MODES = ("relaxed", "thread_local", "global")


class GraphNode:
    """A recorded operation: what later captures may depend on. It keeps its graph alive."""

    __slots__ = ("graph", "number")

    def __init__(self, graph: Graph, number: int) -> None:
        self.graph, self.number = graph, number

    @property
    def kind(self) -> str:
        """kernel, copy, fill or library."""
        return self.graph.nodes[self.number].kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GraphNode) and other.graph is self.graph and other.number == self.number

    def __hash__(self) -> int:
        return hash((id(self.graph), self.number))

    def __repr__(self) -> str:
        return f"<GraphNode {self.number}: {label(self.graph.nodes[self.number])}>".replace("\n", ", ")


class Record:
    """Nodes with the addresses, owners and scalars that they use; numbered from 0. The body of a graph, and what is added to one.
    `marks`: the records of graphs whose outputs a launch of these nodes fills."""

    __slots__ = ("addresses", "marks", "nodes", "outputs", "owners", "words")

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.addresses: list[int] = []
        self.owners: list[Block | None] = []
        self.words: list[int] = []
        self.outputs: list[Storage] = []
        self.marks: list[LastUse] = []

    def append(self, other: Record, first: tuple[int, ...]) -> list[int]:
        """Add the nodes of `other`, its first ones after the nodes `first`. Returns the numbers of those that nothing there follows."""
        buffers, words, nodes = len(self.addresses), len(self.words), len(self.nodes)
        moved = [shifted(node, buffers, words, nodes, first) for node in other.nodes]
        followed = {k for node in other.nodes for k in node.after}
        self.nodes += moved
        self.addresses += other.addresses
        self.owners += other.owners
        self.words += other.words
        self.marks += other.marks
        return [nodes + k for k in range(len(moved)) if k not in followed] or list(first)

    def sizes(self) -> tuple[int, ...]:
        """How long its lists are, for `truncate`."""
        return len(self.nodes), len(self.addresses), len(self.owners), len(self.words), len(self.marks)

    def truncate(self, sizes: tuple[int, ...]) -> None:
        """Take back what was appended since."""
        lists: tuple[list[Any], ...] = (self.nodes, self.addresses, self.owners, self.words, self.marks)
        for found, size in zip(lists, sizes):
            del found[size:]

    def copy(self) -> Record:
        """The same nodes, without outputs."""
        made = Record()
        made.append(self, ())
        return made

    def place(self) -> Place:
        """Where its nodes find their buffers and scalars."""
        return Place(self.addresses, self.words)

    def replaced(self, number: int, other: Record) -> Record:
        """A copy in which the only node of `other` stands for node `number`; it holds nothing that no node uses."""
        made = self.copy()
        (new,) = other.nodes
        buffers, words = len(made.addresses), len(made.words)
        made.nodes[number] = replace(shifted(new, buffers, words, 0, ()), after=made.nodes[number].after)
        made.addresses += other.addresses
        made.owners += other.owners
        made.words += other.words
        made.marks += other.marks
        return made._compact()

    def _compact(self) -> Record:
        used = {b: k for k, b in enumerate(dict.fromkeys(b for node in self.nodes for b in node.buffers))}
        taken = [w for node in self.nodes if isinstance(node, KernelNode) for _, w in node.scalars]
        words = {w: k for k, w in enumerate(dict.fromkeys(taken))}
        self.nodes = [renumbered(node, used.__getitem__, words.__getitem__, node.after) for node in self.nodes]
        self.addresses, self.owners = [self.addresses[b] for b in used], [self.owners[b] for b in used]
        self.words = [self.words[w] for w in words]
        return self

    def direction(self, number: int) -> str:
        """Between which memories copy `number` goes: "device to device", "host to device"..."""
        node = self.nodes[number]
        assert isinstance(node, CopyNode)
        source, target = ("host" if _is_host(self.owners[b]) else "device" for b in (node.source, node.target))
        return f"{source} to {target}"

    def blocks(self) -> list[Block]:
        """The memory that the nodes use."""
        return [b for b in dict.fromkeys(self.owners[k] for node in self.nodes for k in node.buffers) if b is not None]


def _is_host(block: Block | None) -> bool:
    return block is not None and bool(getattr(block.chunk, "pinned", False))


def settle(machine: Machine, program: Program, inputs: Sequence[Storage], scalars: Sequence[Any] = ()) -> Record:
    """Memory for `program` on these inputs, without nodes: an arena and outputs of its own from the pool, the scalars' words.
    The caller has seen to it that the inputs are not freed."""
    check_inputs(program, inputs)
    made, layout, stream = Record(), Layout(program, machine.pool), machine.current_stream()
    made.words = layout.words(scalars)
    arena = machine.pool.allocate(layout.arena_bytes, stream)
    made.outputs = [bin.take(nbytes, stream) for bin, nbytes in layout.outputs]
    boundary = [*inputs, *made.outputs]
    made.addresses = layout.addresses(arena.address, [storage.address for storage in boundary])
    made.owners = [arena.block if place < 0 else boundary[place].block for place in layout.boundary()]
    return made


def record(machine: Machine, program: Program, inputs: Sequence[Storage], scalars: Sequence[Any] = ()) -> Record:
    """`program` on these inputs as nodes. CaptureError for what one graph cannot hold."""
    nodes = program.piece().nodes
    made = settle(machine, program, inputs, scalars)
    made.nodes = list(nodes)
    return made


class Graph:
    """Operations of one device, recorded with their dependencies. `outputs`: what the last capture returned. `mode`: how the driver
    captures library calls when the graph is instantiated. `token` stands for it in executables, which do not keep it alive."""

    def __init__(self, machine: Machine, mode: str = "relaxed") -> None:
        if mode not in MODES:
            raise GraphError("GLA0912", f"{mode!r} is no capture mode", help=f"use one of {', '.join(MODES)}")
        self.machine, self.mode = machine, mode
        self.token = object()
        self._record = Record()
        self._leases: list[Lease] = []
        self._lock = threading.RLock()
        self.outputs: list[Storage] = []
        self.launched = LastUse()

    @property
    def nodes(self) -> Sequence[Node]:
        return self._record.nodes

    def add_plan(
        self, program: Program, inputs: Sequence[Storage], scalars: Sequence[Any] = (), after: Iterable[GraphNode] = ()
    ) -> tuple[list[Storage], list[GraphNode]]:
        """Record `program`; its first nodes depend on `after`. Returns its outputs, at addresses that stay, and the frontier:
        the nodes that a following operation must depend on. When it fails the graph is as it was."""
        for storage in inputs:
            storage.check()
        added = record(self.machine, program, inputs, scalars)
        return added.outputs, self.append(added, after)

    def append(self, added: Record, after: Iterable[GraphNode] = ()) -> list[GraphNode]:
        """Add what was recorded elsewhere, all of it or nothing. Returns the frontier."""
        with self._lock:
            first = tuple(dict.fromkeys(self.number_of(node) for node in after))
            lease, made = Lease(self.machine.gate, added.blocks()), self._record
            for storage in added.outputs:
                storage.block.details().unready = self.launched
            before = made.sizes()
            try:
                ends = made.append(added, first)
                self._leases.append(lease)
            except BaseException:
                made.truncate(before)
                raise
            self.outputs = added.outputs
            return [GraphNode(self, k) for k in ends]

    def number_of(self, node: GraphNode) -> int:
        if node.graph is not self:
            raise GraphError(
                "GLA0911", f"{node!r} is a node of another graph", help="pass nodes that this graph's captures returned"
            )
        return node.number

    def instantiate(self) -> GraphExecutable:
        """An executable of the graph as it is now, with leases of its own."""
        return GraphExecutable(self)

    def recorded(self) -> Record:
        """A copy of the record as it is now."""
        with self._lock:
            made = self._record.copy()
            made.marks.append(self.launched)
            return made

    def __len__(self) -> int:
        return len(self._record.nodes)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<gla.Graph on {self.machine.name}: {summary(self.nodes)}>"

    def dot(self) -> str:
        """The graph as Graphviz text: a box per node with its kernel's name, the line that asked for it, its bytes."""
        lines = ["digraph gla {", "  node [shape=box, fontname=monospace];"]
        for k, node in enumerate(self.nodes):
            text = label(node).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            lines.append(f'  n{k} [label="{text}"];')
            lines += [f"  n{before} -> n{k};" for before in node.after]
        return "\n".join([*lines, "}"]) + "\n"


class GraphExecutable:
    """An instantiated graph. `exe()` launches it on the current stream; launches of one executable follow each other.

    Safe to use from several threads: one lock covers launches and updates."""

    __slots__ = (
        "__weakref__", "_instance", "_lease", "_lock", "_marks", "_mode", "_record", "_tokens", "_use", "launches", "machine", "outputs",
    )  # fmt: skip

    def __init__(self, graph: Graph) -> None:
        self.machine, self.outputs, self._mode = graph.machine, graph.outputs, graph.mode
        self._use, self._lock = LastUse(), threading.Lock()
        self.machine.launched.add(self)
        self.launches = 0
        self._tokens = (graph.token, graph.token)
        self._record = made = graph.recorded()
        self._marks = made.marks
        self._lease = Lease(self.machine.gate, made.blocks(), self._use)
        self._instance: Instance | None = self._made()

    def _made(self) -> Instance:
        """The driver's side of the record. It holds the lease, so that memory stays when the driver fails to let go of it."""
        piece = Piece(tuple(self._record.nodes))
        instance = Instance(self.machine.gate, piece, self._record.place(), self._use, self._mode)
        instance.lease = self._lease
        return instance

    def launch(self, stream: Stream | None = None) -> None:
        """Run the recorded operations once, after everything that uses their memory. Costs the same however much is leased."""
        machine = self.machine
        stream = current_or(machine.stream, stream)
        with self._lock:
            instance = self._instance
            if instance is None:
                instance = self._instance = self._made()
            use = self._use
            with machine.shared:
                if use.others or use.stream is not stream:
                    use.launch(stream)
                machine.device.launch_graph(instance.handle, stream.handle)
                use.mark = stream.submitted = next(stream.ticks)
            self.launches += 1
            if self._marks:
                for filled in self._marks:
                    filled.stream = stream
                self._marks = []

    __call__ = launch

    # --- updates
    def update(self, graph: Graph, *, strict: bool = False) -> bool:
        """Let later launches run `graph`, when it has the same nodes, kernels and edges on other memory or numbers.

        Otherwise the executable is unchanged: False, or GraphError with `strict`. A failure of the driver is raised; the
        executable then runs what it ran before.
        """
        why = f"it is of {graph.machine.name}" if graph.machine is not self.machine else None
        if why is None:
            made = graph.recorded()
            with self._lock:
                why = difference(self._record, made) or self._exchange(made)
                if why is None:
                    self.outputs, self._tokens = graph.outputs, (self._tokens[0], graph.token)
        if why is not None and strict:
            raise GraphError(
                "GLA0915",
                f"the executable cannot be updated to this graph: {why}",
                help="instantiate the graph anew: exe = graph.instantiate()",
            )
        return why is None

    def update_node(self, node: GraphNode, other: Graph) -> None:
        """Let later launches run the one operation of `other` in place of `node`, which is of the same kind.

        GraphError for another graph's node, for more or less than one operation, and for one of another kind; nothing is
        changed then. Memory that only the replaced operation used is let go of after the last launch.
        """
        if node.graph.token not in self._tokens:
            raise GraphError(
                "GLA0911", f"{node!r} is a node of another graph", help="pass a node of the graph that was instantiated"
            )
        made = other.recorded()
        with self._lock:
            why = self._mismatch(node.number, made)
            if why is None:
                why = self._exchange(self._record.replaced(node.number, made))
            if why is not None:
                raise GraphError("GLA0916", f"{node!r} cannot be updated: {why}", help="build a graph with the new operation")

    def _mismatch(self, number: int, made: Record) -> str | None:
        if number >= len(self._record.nodes):
            return "it was added to the graph after the executable was made"
        if len(made.nodes) != 1:
            return f"the function given records {len(made.nodes)} operations, not one"
        old, new = self._record.nodes[number], made.nodes[0]
        if old.kind != new.kind:
            return f"it is a {old.kind} node, and the operation given is a {new.kind} node"
        if isinstance(old, CopyNode) and self._record.direction(number) != made.direction(0):
            return f"it copies from {self._record.direction(number)}, and the operation given from {made.direction(0)}"
        return None

    def _exchange(self, made: Record) -> str | None:
        """Take another record: its memory is leased first, the old one's let go of when the driver has succeeded. Returns why
        the driver refused, if it did."""
        lease = Lease(self.machine.gate, made.blocks(), self._use)
        try:
            if self._instance is not None:
                self._instance.update(self._record.place(), Piece(tuple(made.nodes)), made.place())
        except BaseException as error:
            lease.release()
            self._again()
            if isinstance(error, GraphError):
                return str(error)
            raise
        old, self._lease, self._record = self._lease, lease, made
        if self._instance is not None:
            self._instance.lease = lease
        old.release()
        self._marks = [*self._marks, *made.marks]
        return None

    def _again(self) -> None:
        """After an update that failed half-way: what the record says, instantiated anew. When that fails too, the next launch tries."""
        broken, self._instance = self._instance, None
        if broken is not None:
            broken.lease = None
            broken.end()
        self._instance = self._made()

    def upload(self, stream: Stream | None = None) -> None:
        """Pay for the first launch now: resources are made ready, nothing runs."""
        stream = current_or(self.machine.stream, stream)
        with self._lock:
            if self._instance is None:
                self._instance = self._made()
            self.machine.device.upload(self._instance.handle, stream.handle)
            stream.submitted = next(stream.ticks)

    def synchronize(self) -> None:
        """Wait for the last launch."""
        stream = self._use.stream
        if stream is not None:
            stream.synchronize()

    async def passed(self) -> None:
        """`synchronize` for an event loop."""
        stream = self._use.stream
        if stream is not None:
            await stream.passed()

    def recorded(self) -> Record:
        """Its operations, to be recorded into another graph."""
        with self._lock:
            return self._record.copy()

    def blocks(self) -> list[Block]:
        """The memory that it leases."""
        with self._lock:
            return self._record.blocks()

    def __len__(self) -> int:
        return len(self._record.nodes)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<gla.GraphExecutable on {self.machine.name}: {summary(self._record.nodes)}, {self.launches} launches>"


def difference(mine: Record, other: Record) -> str | None:
    """What keeps an executable of `mine` from being updated to `other`: None when it is only memory and numbers."""
    if len(mine.nodes) != len(other.nodes):
        return f"it has {len(other.nodes)} nodes, not {len(mine.nodes)}"
    for k, (a, b) in enumerate(zip(mine.nodes, other.nodes)):
        why = None
        if a.kind != b.kind:
            why = f"is a {b.kind} node, not a {a.kind} node"
        elif a.after != b.after:
            why = "depends on other nodes"
        elif isinstance(a, KernelNode) and isinstance(b, KernelNode):
            if a.call.kernel is not b.call.kernel:
                why = f"is {b.call.label}, not {a.call.label}"
            elif a.call.geometry != b.call.geometry:
                why = f"works on another shape than this {a.call.label}"
        elif isinstance(a, MatmulNode) and isinstance(b, MatmulNode):
            why = "is a product of other shapes or types" if a.call != b.call else None
        elif a.nbytes != b.nbytes:  # type: ignore[union-attr]
            why = f"moves {b.nbytes:,} bytes, not {a.nbytes:,}"  # type: ignore[union-attr]
        elif isinstance(a, CopyNode) and mine.direction(k) != other.direction(k):
            why = f"copies from {other.direction(k)}, not from {mine.direction(k)}"
        if why is not None:
            return f"its node {k} {why}"
    return None


def summary(nodes: Sequence[Node]) -> str:
    """Node counts by kind: `12 nodes (8 kernel, 4 copy)`."""
    counts = Counter(node.kind for node in nodes)
    text = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    return f"{len(nodes)} node{'' if len(nodes) == 1 else 's'}" + (f" ({text})" if text else "")


def label(node: Node) -> str:
    """What a person calls the node."""
    if isinstance(node, KernelNode):
        place = f"\n{node.call.span}" if node.call.span is not None else ""
        return f"{node.call.label}{place}\n{node.call.nbytes:,} bytes"
    if isinstance(node, MatmulNode):
        call = node.call
        return f"matmul {call.dtype} {call.batch} x ({call.m}, {call.k}) @ ({call.k}, {call.n})"
    return f"{node.kind}\n{node.nbytes:,} bytes"
