"""Executable: a program with its arena, ready to be run on any arrays and scalars of its signature.

`run` is the replay path: look at each argument once, take outputs from the pool, find the binding of these addresses, launch.
An executable keeps a few bindings, by least recent use: a loop `u = f(u)` uses two or three. When addresses keep changing,
the nodes at the boundary of the oldest binding that allows it are retargeted; a library call cannot be, and works on staging
buffers then (route.py).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gla.errors import InternalError
from gla.runtime.binding import Binding, Place
from gla.runtime.layout import Layout
from gla.runtime.memory.block import Storage, acquire
from gla.runtime.memory.lease import LastUse, Lease
from gla.runtime.program import MatmulNode, Piece, Program, Repeat, Segment
from gla.runtime.route import routed
from gla.runtime.scalars import words_of
from gla.runtime.stream import Stream, chosen_stream

if TYPE_CHECKING:
    from gla.runtime.machine import Machine

BINDINGS = 3  # of one loop `u = f(u)`: its first call, and two that take turns
GRAPH_BYTES = 64 << 10  # about what CUDA keeps for an instantiated graph


@dataclass(slots=True)
class Stats:
    """What an executable did. `hits`: runs that found their binding."""

    runs: int = 0
    hits: int = 0
    instantiations: int = 0
    updates: int = 0
    launches: int = 0


class Executable:
    """Runs `program` on `machine`. Safe to use from several threads and streams: runs of one executable follow each other."""

    __slots__ = (
        "__weakref__", "_alone", "_arena", "_bindings", "_buffers_at", "_library", "_lock", "_outputs", "_pack", "_scalars",
        "_staged_at", "_staging", "_use", "_written", "layout", "machine", "program", "segments", "stats",
    )  # fmt: skip

    def __init__(self, machine: Machine, program: Program) -> None:
        self.machine, self.program = machine, program
        self.layout = Layout(program, machine.pool)
        self.stats = Stats()
        self.segments = program.segments()
        places = self.layout.boundary()
        self._library = _library_places(self.segments, places)
        self._buffers_at = [[b for b, place in enumerate(places) if place == k] for k in range(max(places, default=-1) + 1)]
        self._bindings: OrderedDict[tuple[int, ...], Binding] = OrderedDict()
        self._arena: Storage | None = None
        self._staging: dict[int, Storage] = {}
        self._staged_at: list[int] = []
        machine.launched.add(self)
        self._outputs, self._written = self.layout.outputs, self.layout.written
        self._use = LastUse()
        self._lock, self._alone = threading.Lock(), threading.RLock()
        self._pack, self._scalars = self.layout.pack, bool(program.plan.scalars)

    @property
    def outputs(self) -> int:
        return len(self.layout.outputs)

    @property
    def arena_bytes(self) -> int:
        """Bytes of temporaries and library workspace that it leases."""
        return self.layout.arena_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes that it holds at present: arena, staging buffers, and about what the driver's graphs take."""
        arena = self._arena
        owned = 0 if arena is None else arena.nbytes + sum(s.nbytes for s in list(self._staging.values()))
        return owned + len(self._bindings) * (GRAPH_BYTES if self.machine.kind == "cuda" else 0)

    @property
    def runs(self) -> int:
        return self.stats.runs

    def run(self, inputs: Sequence[Storage], scalars: Sequence[Any] = (), stream: Stream | None = None) -> list[Storage]:
        """Run once; returns fresh outputs, in the order of the graph's results, which no later call overwrites.

        `inputs`: one storage per array input, contiguous; those that the plan writes are written in place. `scalars`: one
        number per runtime scalar. Asynchronous: the work is in the order of `stream` (the task's current stream if None).
        Raises DeviceError for freed memory, RangeError for a scalar that does not fit, OutOfMemoryError.
        """
        machine = self.machine
        if stream is None:
            stream = chosen_stream()
            if stream is None or stream.device is not machine.device:
                stream = machine.stream
        packed = self._pack(scalars) if scalars or self._scalars else b""
        with self._lock:
            use = self._use
            if use.stream is not stream:
                use.launch(stream)
            boundary = []
            plain = len(inputs) == len(self._written)
            for storage in inputs:
                if storage.block.home is not stream:
                    plain = False
                boundary.append(storage.address)
            with self._alone if plain else machine.shared:
                if not plain:
                    self._acquire(inputs, stream)
                outputs = []
                for bin, nbytes in self._outputs:
                    storage = bin.take(nbytes, stream)
                    outputs.append(storage)
                    boundary.append(storage.address)
                key = tuple(boundary)
                stats = self.stats
                stats.runs += 1
                binding = self._bindings.get(key)
                if binding is not None and binding.packed == packed:
                    stats.hits += 1
                    if len(self._bindings) > 2:
                        self._bindings.move_to_end(key)
                else:
                    binding = self._bind(key, binding, packed, stream)
                try:
                    if binding.single is not None:
                        machine.device.launch_graph(binding.single, stream.handle)
                        stats.launches += 1
                    else:
                        stats.launches += binding.launch(stream)
                finally:  # when a later launch of several fails, the earlier ones do run
                    use.mark = stream.submitted = next(stream.ticks)
        return outputs

    # --- off the replay path
    def _acquire(self, inputs: Sequence[Storage], stream: Stream) -> None:
        """Order `stream` after whatever used the inputs before."""
        if len(inputs) != len(self._written):
            raise InternalError("GLA9905", f"{len(inputs)} inputs were given to a plan that reads {len(self._written)}")
        for storage, written in zip(inputs, self._written):
            acquire(storage.block, stream, written)

    def _bind(self, key: tuple[int, ...], binding: Binding | None, packed: bytes, stream: Stream) -> Binding:
        """The binding for these addresses and scalars: found and patched, made, or another one retargeted.

        A binding that is being changed is not in `_bindings`: when the driver fails it is let go of.
        """
        words = words_of(packed)
        bindings, stats = self._bindings, self.stats
        if not self.segments:
            return Binding(self.machine.gate, (), Place([], words), packed, self._use)
        if self._arena is None:
            self._take_arena(stream)
        if binding is not None:
            stats.hits += 1
            del bindings[key]
        elif len(bindings) < BINDINGS:
            binding = self._instantiate(self.segments, key, packed)
        else:
            binding = self._retarget(key, packed, stream)
        stats.updates += binding.set_words(words, packed)
        bindings[key] = binding
        return binding

    def _instantiate(self, segments: tuple[Segment, ...], key: tuple[int, ...], packed: bytes) -> Binding:
        gate = self.machine.gate
        binding = Binding(gate, segments, self._place(key, packed), packed, self._use)
        blocks = [storage.block for storage in (self._arena, *self._staging.values()) if storage is not None]
        for instance in binding.instances.values():
            instance.lease = Lease(gate, blocks, self._use)  # ends when the driver has destroyed it
        self.stats.instantiations += len(binding.instances)
        self.machine.budget.enter(self)
        return binding

    def _retarget(self, key: tuple[int, ...], packed: bytes, stream: Stream) -> Binding:
        """The oldest binding that can be moved to these addresses, or a new one in place of the oldest."""
        for old_key, binding in self._bindings.items():
            changed = [k for k, (new, old) in enumerate(zip(key, old_key)) if new != old]
            if (self._library - binding.staged).isdisjoint(changed):
                del self._bindings[old_key]
                moved = {buffer: key[k] for k in changed for buffer in self._buffers_at[k]}
                self.stats.updates += binding.retarget(moved)
                return binding
        old_key, binding = next(iter(self._bindings.items()))
        del self._bindings[old_key]
        binding.end()
        changing = binding.staged | {k for k in self._library if key[k] != old_key[k]}
        inputs = len(self._written)
        alone = len(self.segments) == 1 and isinstance(self.segments[0], Piece)
        if not alone or any(k < inputs and self._written[k] for k in changing):
            return self._instantiate(self.segments, key, packed)
        made = self._instantiate((self._routed(changing, stream),), key, packed)
        made.staged = frozenset(changing)
        return made

    def _routed(self, places: Iterable[int], stream: Stream) -> Piece:
        """The program with staging buffers at `places` of the boundary; they are numbered after all other buffers."""
        piece, inputs, count = self.segments[0], len(self._written), len(self._buffers_at)
        assert isinstance(piece, Piece)
        first = len(self.layout.buffers)
        sizes: dict[int, int] = {}
        names: tuple[dict[int, int], dict[int, int]] = {}, {}
        for k in places:
            (buffer,) = self._buffers_at[k]
            sizes[buffer] = self.layout.nbytes[k]
            names[k >= inputs][buffer] = first + k
            if k not in self._staging:
                self._staging[k] = self._own(sizes[buffer], stream)
        self._staged_at = [self._staging[k].address if k in self._staging else 0 for k in range(count)]
        return routed(piece, sizes, *names)

    def _place(self, key: tuple[int, ...], packed: bytes) -> Place:
        assert self._arena is not None
        arena = self._arena.address
        return Place(self.layout.addresses(arena, key) + self._staged_at, words_of(packed))

    def _take_arena(self, stream: Stream) -> None:
        self._arena = self._own(self.layout.arena_bytes, stream)

    def _own(self, nbytes: int, stream: Stream) -> Storage:
        """Memory that no capture can need: it may be given up while one is open."""
        storage = self.machine.pool.allocate(nbytes, stream)
        if nbytes:
            storage.block.details().own = True
        return storage

    def drop(self) -> bool:
        """Let go of bindings and arena; the next run makes them anew. False when it is in use at this moment."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            for binding in self._bindings.values():
                binding.end(own=True)
            self._bindings.clear()
            self._arena = None
            self._staging, self._staged_at = {}, []
            return True
        finally:
            self._lock.release()

    def __repr__(self) -> str:
        pieces = sum(len(s.nodes) for s in self.segments if isinstance(s, Piece))
        return f"<Executable on {self.machine.name}: {pieces} nodes, {self.arena_bytes:,} bytes of arena, {self.stats}>"


def _library_places(segments: Sequence[Segment], places: Sequence[int]) -> frozenset[int]:
    """Places of the boundary that library calls touch."""
    found: set[int] = set()
    for segment in segments:
        if isinstance(segment, Piece):
            for node in segment.nodes:
                if isinstance(node, MatmulNode):
                    found.update(places[b] for b in node.buffers)
        elif isinstance(segment, Repeat):
            found |= _library_places(segment.body, places)
        else:
            found |= _library_places((*segment.even, *segment.odd, *segment.after_odd), places)
    return frozenset(found - {-1})
