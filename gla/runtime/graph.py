"""gla.Graph: what was captured, and GraphExecutable: an instantiated graph that is launched again and again.

A graph keeps its own record: nodes, the address of every buffer that they name, and the block that owns it. The driver's
graph is made from the record when it is instantiated. Adding is transactional: nodes are made in Python first and appended
in one go. Memory comes from the ordinary pool, once; a graph and each of its executables hold leases of their own.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from gla.errors import CaptureError, GraphError
from gla.runtime.binding import Instance, Place
from gla.runtime.layout import Layout, check_inputs
from gla.runtime.memory.block import Block, Storage
from gla.runtime.memory.lease import LastUse, Lease
from gla.runtime.program import KernelNode, MatmulNode, Node, Piece, Program, shifted
from gla.runtime.stream import Stream, current_or

if TYPE_CHECKING:
    from gla.runtime.machine import Machine


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
        return f"<GraphNode {self.number}: {label(self.graph.nodes[self.number])}>"


class Record:
    """Nodes with the addresses, owners and scalars that they use; numbered from 0. The body of a graph, and what is added to one."""

    __slots__ = ("addresses", "nodes", "outputs", "owners", "words")

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.addresses: list[int] = []
        self.owners: list[Block | None] = []
        self.words: list[int] = []
        self.outputs: list[Storage] = []

    def append(self, other: Record, first: tuple[int, ...]) -> list[int]:
        """Add the nodes of `other`, its first ones after the nodes `first`. Returns the numbers of those that nothing there follows."""
        buffers, words, nodes = len(self.addresses), len(self.words), len(self.nodes)
        moved = [shifted(node, buffers, words, nodes, first) for node in other.nodes]
        followed = {k for node in other.nodes for k in node.after}
        self.nodes += moved
        self.addresses += other.addresses
        self.owners += other.owners
        self.words += other.words
        return [nodes + k for k in range(len(moved)) if k not in followed] or list(first)

    def copy(self) -> Record:
        """The same nodes, without outputs."""
        made = Record()
        made.append(self, ())
        return made

    def blocks(self) -> list[Block]:
        """The memory that the nodes use."""
        return [b for b in dict.fromkeys(self.owners[k] for node in self.nodes for k in node.buffers) if b is not None]


def settle(machine: Machine, program: Program, inputs: Sequence[Storage], scalars: Sequence[Any] = ()) -> Record:
    """Memory for `program` on these inputs, without nodes: an arena and outputs of its own from the pool, the scalars' words."""
    check_inputs(program, inputs)
    for storage in inputs:
        storage.check()
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
    """Operations of one device, recorded with their dependencies. `outputs`: what the last capture returned."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
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
        added = record(self.machine, program, inputs, scalars)
        return added.outputs, self.append(added, after)

    def append(self, added: Record, after: Iterable[GraphNode] = ()) -> list[GraphNode]:
        """Add what was recorded elsewhere, all of it or nothing. Returns the frontier."""
        with self._lock:
            first = tuple(dict.fromkeys(self.number_of(node) for node in after))
            lease = Lease(self.machine.gate, added.blocks())
            for storage in added.outputs:
                storage.block.details().unready = self.launched
            self._leases.append(lease)
            ends = self._record.append(added, first)
            self.outputs = added.outputs
            return [GraphNode(self, k) for k in ends]

    def append_graph(self, other: Graph, after: Iterable[GraphNode] = ()) -> list[GraphNode]:
        """Add the operations of another graph of the device: how an executable called in a capture is recorded."""
        if other.machine is not self.machine:
            raise CaptureError("GLA0910", f"a graph of {other.machine.name} is launched in a capture on {self.machine.name}")
        with other._lock:
            added = other._record.copy()
        return self.append(added, after)

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
            return self._record.copy()

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
    """An instantiated graph. `exe()` launches it on the current stream; launches of one executable follow each other."""

    __slots__ = ("__weakref__", "_graph_launched", "_instance", "_lock", "_record", "_use", "launches", "machine", "outputs")

    def __init__(self, graph: Graph) -> None:
        self.machine, self.outputs, self._graph_launched = graph.machine, graph.outputs, graph.launched
        self._use, self._lock = LastUse(), threading.Lock()
        self.machine.launched.add(self)
        self.launches = 0
        self._record = made = graph.recorded()
        place = Place(made.addresses, made.words)
        self._instance = Instance(self.machine.gate, Piece(tuple(made.nodes)), place, self._use)
        self._instance.lease = Lease(self.machine.gate, made.blocks(), self._use)

    def launch(self, stream: Stream | None = None) -> None:
        """Run the recorded operations once, after everything that uses their memory. Costs the same however much is leased."""
        machine = self.machine
        if stream is None:
            stream = current_or(machine.stream)
        with self._lock:
            use = self._use
            if use.others or use.stream is not stream:
                use.launch(stream)
            machine.device.launch_graph(self._instance.handle, stream.handle)
            use.mark = stream.submitted = next(stream.ticks)
            self._graph_launched.stream = stream
            self.launches += 1

    __call__ = launch

    def upload(self, stream: Stream | None = None) -> None:
        """Pay for the first launch now: resources are made ready, nothing runs."""
        stream = current_or(self.machine.stream, stream)
        with self._lock:
            self.machine.device.upload(self._instance.handle, stream.handle)
            stream.submitted = next(stream.ticks)

    def synchronize(self) -> None:
        """Wait for the last launch."""
        stream = self._use.stream
        if stream is not None:
            stream.synchronize()

    def recorded(self) -> Record:
        """Its operations, to be recorded into another graph."""
        return self._record.copy()

    def __len__(self) -> int:
        return len(self._record.nodes)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<gla.GraphExecutable on {self.machine.name}: {summary(self._record.nodes)}, {self.launches} launches>"


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
