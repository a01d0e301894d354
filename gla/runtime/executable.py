"""Executable: a program with its arena, ready to be run on any arrays and scalars of its signature.

`run` is the replay path: look at each argument once, take outputs from the pool, find the binding of these addresses, launch.
An executable keeps a few bindings, by least recent use: a loop `u = f(u)` uses two or three. When addresses keep changing,
the kernels at the boundary of the oldest binding are retargeted; a library call cannot be (the driver fixes its nodes when it
is captured), so a program with one at a changing boundary is instantiated anew a few times and then launched node by node:
that costs a few microseconds per node, needs no staging memory and moves no byte, while staging would copy every operand.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gla.errors import InternalError
from gla.runtime.binding import Binding, Place, launch_nodes
from gla.runtime.memory.block import Storage, acquire
from gla.runtime.memory.lease import LastUse, Lease
from gla.runtime.memory.pool import Pool
from gla.runtime.program import MatmulNode, Piece, Program, Repeat, Segment
from gla.runtime.scalars import Packer, words_of
from gla.runtime.stream import Stream, chosen_stream

if TYPE_CHECKING:
    from gla.runtime.machine import Machine

BINDINGS = 4
REBUILDS = 12  # instantiations for changing addresses of library calls, before nodes are launched one by one
ALIGNMENT = 256


@dataclass(slots=True)
class Stats:
    """What an executable did. `hits`: runs that found their binding."""

    runs: int = 0
    hits: int = 0
    instantiations: int = 0
    updates: int = 0
    launches: int = 0


class Layout:
    """Where a program's buffers are: inputs and outputs by position, temporaries in an arena, a workspace behind them."""

    __slots__ = ("arena_bytes", "buffers", "input_bytes", "outputs", "packer", "written")

    def __init__(self, program: Program, pool: Pool) -> None:
        plan = program.plan
        workspace = -(-plan.arena_bytes // ALIGNMENT) * ALIGNMENT
        self.buffers = (*((b.kind, b.index, b.offset) for b in plan.buffers), ("temporary", -1, workspace))
        self.input_bytes = tuple(plan.buffers[b].nbytes for b in plan.inputs)
        self.outputs = tuple((pool.bin(plan.buffers[b].nbytes), plan.buffers[b].nbytes) for b in plan.outputs)
        written = {plan.buffers[b].index for b, _ in plan.writes}
        self.written = tuple(k in written for k in range(len(plan.inputs)))
        self.arena_bytes = workspace + program.workspace_bytes
        self.packer = Packer([node.dtype for node in plan.scalars])

    def words(self, scalars: Sequence[Any]) -> list[int]:
        """The runtime scalars as words. RangeError or DtypeError for one that does not fit."""
        return list(words_of(self.pack(scalars)))

    def pack(self, scalars: Sequence[Any]) -> bytes:
        """The runtime scalars as bytes."""
        try:
            return self.packer.pack(*scalars)
        except (OverflowError, struct.error, TypeError, ValueError) as error:
            raise self.packer.explain(scalars, error) from None

    def addresses(self, arena: int, boundary: Sequence[int]) -> list[int]:
        """Per buffer its address; `boundary`: the inputs' addresses, then the outputs'."""
        inputs = len(self.input_bytes)
        found = []
        for kind, index, offset in self.buffers:
            if kind == "input":
                found.append(boundary[index])
            elif kind == "output":
                found.append(boundary[inputs + index])
            else:
                found.append(arena + offset)
        return found

    def boundary(self) -> list[int]:
        """Per buffer its place in the boundary, or -1."""
        inputs = len(self.input_bytes)
        return [index if kind == "input" else inputs + index if kind == "output" else -1 for kind, index, _ in self.buffers]


class Executable:
    """Runs `program` on `machine`. Safe to use from several threads and streams: runs of one executable follow each other."""

    __slots__ = (
        "__weakref__", "_arena", "_bindings", "_buffers_at", "_lease", "_library", "_lock", "_outputs", "_pack", "_scalars",
        "_use", "_written", "layout", "machine", "program", "segments", "stats",
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
        self._lease: Lease | None = None
        self._outputs, self._written = self.layout.outputs, self.layout.written
        self._use = LastUse()
        self._lock = threading.Lock()
        self._pack, self._scalars = self.layout.pack, bool(program.plan.scalars)

    @property
    def outputs(self) -> int:
        return len(self.layout.outputs)

    @property
    def arena_bytes(self) -> int:
        """Bytes of temporaries and library workspace that it leases."""
        return self.layout.arena_bytes

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
            if binding is None:
                stats.launches += self._launch_nodes(key, packed, stream)
            elif binding.single is not None:
                machine.device.launch_graph(binding.single, stream.handle)
                stats.launches += 1
            else:
                stats.launches += binding.launch(stream)
            stream.submitted = next(stream.ticks)
        return outputs

    # --- off the replay path
    def _acquire(self, inputs: Sequence[Storage], stream: Stream) -> None:
        """Order `stream` after whatever used the inputs before."""
        if len(inputs) != len(self._written):
            raise InternalError("GLA9905", f"{len(inputs)} inputs were given to a plan that reads {len(self._written)}")
        for storage, written in zip(inputs, self._written):
            acquire(storage.block, stream, written)

    def _bind(self, key: tuple[int, ...], binding: Binding | None, packed: bytes, stream: Stream) -> Binding | None:
        """The binding for these addresses and scalars: found and patched, made, or the oldest retargeted. None: launch the nodes."""
        words = words_of(packed)
        bindings, stats = self._bindings, self.stats
        if binding is not None:
            stats.hits += 1
            stats.updates += binding.set_words(words, packed)
            bindings.move_to_end(key)
            return binding
        if self._arena is None:
            self._take_arena(stream)
        if not self.segments:
            return Binding(self.machine.gate, (), Place([], words), packed, self._use)
        if len(bindings) >= BINDINGS:
            old_key, binding = bindings.popitem(last=False)
            changed = [k for k, (new, old) in enumerate(zip(key, old_key)) if new != old]
            if self._library.isdisjoint(changed):
                moved = {buffer: key[k] for k in changed for buffer in self._buffers_at[k]}
                stats.updates += binding.retarget(moved) + binding.set_words(words, packed)
                bindings[key] = binding
                return binding
            if stats.instantiations >= REBUILDS and len(self.segments) == 1 and isinstance(self.segments[0], Piece):
                bindings[old_key] = binding
                return None
            binding.end()
        binding = Binding(self.machine.gate, self.segments, self._place(key, packed), packed, self._use)
        stats.instantiations += len(binding.instances)
        bindings[key] = binding
        return binding

    def _launch_nodes(self, key: tuple[int, ...], packed: bytes, stream: Stream) -> int:
        piece = self.segments[0]
        assert isinstance(piece, Piece)
        return launch_nodes(self.machine.device, piece, self._place(key, packed), stream.handle)

    def _place(self, key: tuple[int, ...], packed: bytes) -> Place:
        assert self._arena is not None
        arena = self._arena.address
        return Place(self.layout.addresses(arena, key), words_of(packed))

    def _take_arena(self, stream: Stream) -> None:
        self._arena = self.machine.pool.allocate(self.layout.arena_bytes, stream)
        self._lease = Lease(self.machine.gate, [self._arena.block])

    def drop(self) -> bool:
        """Let go of bindings and arena; the next run makes them anew. False when it is in use at this moment."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            for binding in self._bindings.values():
                binding.end()
            self._bindings.clear()
            if self._lease is not None:
                self._lease.release()
            self._lease = self._arena = None
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


def check_inputs(program: Program, inputs: Sequence[Storage]) -> None:
    """A fault of gla: the number or the sizes of the inputs are not the plan's."""
    sizes = tuple(program.plan.buffers[b].nbytes for b in program.plan.inputs)
    given = tuple(storage.nbytes for storage in inputs)
    if sizes != given:
        raise InternalError("GLA9905", f"inputs of {given} bytes were given to a plan that reads {sizes}")
