"""Bindings: a program instantiated for given addresses; and the ways to run, retarget and let go of one.

An `Instance` is one device graph and its executable. Its kernels' parameters stay here, so that an address or a scalar that
changes is stored in place and only the nodes that have it are set again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gla.device.base import Device, GraphNode, Handle, Parameters
from gla.runtime.program import CopyNode, FillNode, KernelCall, KernelNode, MatmulNode, Node, Piece, Repeat, Segment, While

if TYPE_CHECKING:
    from gla.runtime.memory.gate import Gate
    from gla.runtime.memory.lease import LastUse, Lease
    from gla.runtime.stream import Stream

Words = Sequence[int]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a program runs: an address per buffer id, and the words of the packed scalars."""

    addresses: list[int]
    words: Words


class Instance:
    """`piece` as a device executable at `place`. `use`: the record of its launches, which it shares with its executable."""

    __slots__ = (
        "__weakref__", "by_word", "device", "gate", "graph", "handle", "lease", "nodes", "parameters", "piece", "use",
    )  # fmt: skip

    def __init__(self, gate: Gate, piece: Piece, place: Place, use: LastUse, mode: str = "relaxed") -> None:
        self.device, self.gate, self.piece, self.use = gate.device, gate, piece, use
        self.lease: Lease | None = None
        self.handle: Handle = None
        self.graph = self.device.create_graph(mode)
        self.nodes, self.parameters = build(self.device, self.graph, piece, place)
        self.by_word = _by_word(piece)
        self.handle = self.device.instantiate(self.graph)

    def update(self, old: Place, piece: Piece, place: Place) -> int:
        """Let later launches run `piece` at `place`, whose nodes are of the same kinds and have the same edges; only those that
        differ are set. Returns how many. When it fails, what later launches run is not known."""
        kernels: dict[int, tuple[KernelCall, Parameters]] = {}
        copies: list[int] = []
        others = 0
        for k, (now, new) in enumerate(zip(self.piece.nodes, piece.nodes)):
            if isinstance(new, KernelNode):
                parameters = parameters_of(new, place)
                if not self._is_set(k, new, parameters):
                    kernels[k] = new.call, parameters
            elif _values(now, old) != _values(new, place):
                copies.append(k)
                others += not isinstance(new, CopyNode)
        if others:
            self._update_whole(piece, place)
        else:
            for k, (call, parameters) in kernels.items():
                self.device.set_kernel(self.handle, self.nodes[k], call.kernel.function, call.geometry, parameters)
            for k in copies:
                self.device.set_copy(self.handle, self.nodes[k], *_values(piece.nodes[k], place))
        for k, (_, parameters) in kernels.items():
            self.parameters[k] = parameters
        self.piece, self.by_word = piece, _by_word(piece)
        return len(kernels) + len(copies)

    def _is_set(self, k: int, node: KernelNode, parameters: Parameters) -> bool:
        now, mine = self.piece.nodes[k], self.parameters[k]
        if not isinstance(now, KernelNode) or mine is None or now.call.kernel is not node.call.kernel:
            return False
        return now.call.geometry == node.call.geometry and np.array_equal(mine.slots, parameters.slots)

    def _update_whole(self, piece: Piece, place: Place) -> None:
        """By a second graph: the only way to change a library call or a fill."""
        graph = self.device.create_graph()
        try:
            build(self.device, graph, piece, place)
            self.device.update(self.handle, graph)
        finally:
            self.device.destroy_graph(graph)

    def retarget(self, place: Place, changed: Iterable[int]) -> int:
        """Set the nodes that name one of the buffers `changed` (none of them a matmul). Returns how many."""
        touching = self.piece.touching
        again = sorted({k for buffer in changed for k in touching.get(buffer, ())})
        whole = any(isinstance(self.piece.nodes[k], FillNode) for k in again)
        for k in again:
            node = self.piece.nodes[k]
            if isinstance(node, KernelNode):
                slots = self.parameters[k].slots  # type: ignore[union-attr]
                for slot, buffer in node.pointers:
                    slots[slot] = place.addresses[buffer]
                if not whole:
                    self._set(k, node)
            elif not whole:
                assert isinstance(node, CopyNode)
                self.device.set_copy(self.handle, self.nodes[k], *_values(node, place))
        if whole:
            self._update_whole(self.piece, place)
        return len(again)

    def set_words(self, words: Words, changed: Sequence[int]) -> int:
        """Store the scalars' words `changed` and set the kernels that take them. Returns how many."""
        by_word, parameters = self.by_word, self.parameters
        again: dict[int, None] = {}
        for word in changed:
            value = words[word]
            for k, slot in by_word.get(word, ()):
                parameters[k].slots[slot] = value  # type: ignore[union-attr]
                again[k] = None
        for k in again:
            self._set(k, self.piece.nodes[k])  # type: ignore[arg-type]
        return len(again)

    def _set(self, k: int, node: KernelNode) -> None:
        call = node.call
        self.device.set_kernel(self.handle, self.nodes[k], call.kernel.function, call.geometry, self.parameters[k])  # type: ignore[arg-type]

    def __del__(self) -> None:
        if getattr(self, "graph", None) is not None:
            self.gate.retired.append(_Ended(self))

    def end(self, own: bool = False) -> None:
        """Let go of it through the gate, after its last launch; `own`: also while a capture is open, to make room."""
        if self.graph is not None:
            ended = _Ended(self)
            self.graph = self.handle = self.lease = None
            self.gate.queue(own).append(ended)


class _Ended:
    """An instance's driver objects, destroyed after the last launch. Its lease ends when that has succeeded; when it fails, never."""

    __slots__ = ("device", "gate", "graph", "handle", "kernels", "lease", "use")

    def __init__(self, instance: Instance) -> None:
        self.device, self.gate, self.graph, self.handle = instance.device, instance.gate, instance.graph, instance.handle
        self.lease, self.kernels, self.use = instance.lease, instance.piece, instance.use

    def let_go(self) -> None:
        if self.use.stream is None:
            self.destroy()
        else:
            self.gate.after_use([self.use.stream], self.destroy)

    def destroy(self) -> None:
        if self.handle is not None:
            self.device.destroy_executable(self.handle)
        self.device.destroy_graph(self.graph)
        if self.lease is not None:
            self.lease.release()


def build(device: Device, graph: Handle, piece: Piece, place: Place) -> tuple[list[GraphNode], list[Parameters | None]]:
    """Add the nodes of `piece` to a device graph. Returns them, and the parameters of those that are kernels."""
    nodes: list[GraphNode] = []
    parameters: list[Parameters | None] = []
    for node in piece.nodes:
        after = [nodes[k] for k in node.after]
        made = None
        if isinstance(node, KernelNode):
            made = parameters_of(node, place)
            nodes.append(device.add_kernel(graph, after, node.call.kernel.function, node.call.geometry, made))
        elif isinstance(node, CopyNode):
            nodes.append(device.add_copy(graph, after, *_values(node, place)))
        elif isinstance(node, FillNode):
            nodes.append(device.add_fill(graph, after, *_values(node, place)))
        else:
            nodes.append(device.add_matmul(graph, after, *_values(node, place)))
        parameters.append(made)
    return nodes, parameters


def _values(node: Node, place: Place) -> tuple[Any, ...]:
    """What a copy, fill or library call is made with, addresses resolved."""
    addresses = place.addresses
    if isinstance(node, CopyNode):
        return addresses[node.target], addresses[node.source], node.nbytes
    if isinstance(node, FillNode):
        return addresses[node.target], node.byte, node.nbytes
    assert isinstance(node, MatmulNode)
    a, b, c = addresses[node.a] + node.a_offset, addresses[node.b] + node.b_offset, addresses[node.c]
    return node.call, a, b, c, addresses[node.workspace]


def _by_word(piece: Piece) -> dict[int, list[tuple[int, int]]]:
    """Per word of the scalars the (node, slot) pairs that take it."""
    found: dict[int, list[tuple[int, int]]] = {}
    for k, node in enumerate(piece.nodes):
        if isinstance(node, KernelNode):
            for slot, word in node.scalars:
                found.setdefault(word, []).append((k, slot))
    return found


def parameters_of(node: KernelNode, place: Place) -> Parameters:
    """The kernel's parameters with pointers and scalars set."""
    parameters = node.call.template.copy()
    for slot, buffer in node.pointers:
        parameters.slots[slot] = place.addresses[buffer]
    for slot, word in node.scalars:
        parameters.slots[slot] = place.words[word]
    return parameters


class Binding:
    """All graphs of a program at one tuple of boundary addresses. `single`: the only graph, when no loop is driven from the host.
    `staged`: the places of the boundary at which library calls work on staging buffers, so that these may change."""

    __slots__ = ("addresses", "device", "flag", "instances", "packed", "segments", "single", "staged", "words")

    def __init__(self, gate: Gate, segments: tuple[Segment, ...], place: Place, packed: bytes, use: LastUse) -> None:
        self.device, self.segments, self.addresses = gate.device, segments, place.addresses
        self.packed, self.words = packed, place.words
        self.instances = {id(piece): Instance(gate, piece, place, use) for piece in dict.fromkeys(_pieces(segments))}
        self.staged: frozenset[int] = frozenset()
        alone = len(segments) == 1 and isinstance(segments[0], Piece)
        self.single: Handle = self.instances[id(segments[0])].handle if alone else None
        self.flag = np.zeros(1, np.uint8)

    def retarget(self, moved: dict[int, int]) -> int:
        """Let the buffers in `moved` stand at new addresses. Returns how many nodes were set."""
        for buffer, address in moved.items():
            self.addresses[buffer] = address
        place = Place(self.addresses, self.words)
        return sum(instance.retarget(place, moved) for instance in self.instances.values())

    def set_words(self, words: Words, packed: bytes) -> int:
        """Take new scalars; only the kernels that take one that changed are set."""
        if packed == self.packed:
            return 0
        changed = [k for k, word in enumerate(words) if word != self.words[k]]
        self.packed, self.words = packed, words
        return sum([instance.set_words(words, changed) for instance in self.instances.values()])

    def launch(self, stream: Stream) -> int:
        """Run everything in order on `stream`; waits only where a while loop's test has to be looked at. Returns launches."""
        return self._run(self.segments, stream)

    def _run(self, segments: tuple[Segment, ...], stream: Stream) -> int:
        launched = 0
        for segment in segments:
            if isinstance(segment, Piece):
                self.device.launch_graph(self.instances[id(segment)].handle, stream.handle)
                launched += 1
            elif isinstance(segment, Repeat):
                launched += self._repeat(segment, stream)
            else:
                launched += self._while(segment, stream)
        return launched

    def _repeat(self, segment: Repeat, stream: Stream) -> int:
        body = segment.body
        if len(body) == 1 and isinstance(body[0], Piece):
            launch, handle, on = self.device.launch_graph, self.instances[id(body[0])].handle, stream.handle
            for _ in range(segment.times):
                launch(handle, on)
            return segment.times
        return sum(self._run(body, stream) for _ in range(segment.times))

    def _while(self, segment: While, stream: Stream) -> int:
        launched, odd = 0, False
        address, condition = self.flag.ctypes.data, self.addresses[segment.condition]
        for _ in range(segment.limit):
            self.device.copy_out(address, condition, 1, stream.handle)
            if not self.flag[0]:
                break
            launched += self._run(segment.odd if odd else segment.even, stream)
            odd = not odd
        # The last test was false, or there were as many trips as allowed: either way `condition` holds what it gave.
        return launched + (self._run(segment.after_odd, stream) if odd else 0)

    def end(self, own: bool = False) -> None:
        """Let go of all its graphs; see Instance.end."""
        for instance in self.instances.values():
            instance.end(own)


def _pieces(segments: Iterable[Segment]) -> Iterable[Piece]:
    for segment in segments:
        if isinstance(segment, Piece):
            yield segment
        elif isinstance(segment, Repeat):
            yield from _pieces(segment.body)
        else:
            yield from _pieces((*segment.even, *segment.odd, *segment.after_odd))
