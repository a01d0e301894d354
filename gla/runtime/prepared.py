"""PreparedCall: a program bound once to given inputs, scalars and outputs; each call is one launch and no look at arguments.

Unlike a recorded graph it may hold loops that the host drives. Its outputs stand at fixed addresses and are overwritten by the
next call; `Executable.run` is for results that stay.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gla.runtime.binding import Binding, Place
from gla.runtime.executable import Executable
from gla.runtime.graph import settle
from gla.runtime.memory.block import Storage
from gla.runtime.memory.lease import LastUse, Lease
from gla.runtime.stream import Stream, current_or

if TYPE_CHECKING:
    from gla.runtime.machine import Machine


class PreparedCall:
    """`executable` on these inputs, whose memory it leases. `outputs`: storages that every call overwrites."""

    __slots__ = ("__weakref__", "_binding", "_lock", "_use", "executable", "launches", "machine", "outputs")

    def __init__(self, executable: Executable, inputs: Sequence[Storage], scalars: Sequence[Any] = ()) -> None:
        self.executable, self.machine = executable, executable.machine
        machine: Machine = executable.machine
        self._use, self._lock = LastUse(), threading.Lock()
        machine.launched.add(self)
        self.launches = 0
        packed = executable.layout.pack(scalars)
        for storage in inputs:
            storage.check()
        made = settle(machine, executable.program, inputs, scalars)
        self._binding = Binding(machine.gate, executable.segments, Place(made.addresses, made.words), packed, self._use)
        for instance in self._binding.instances.values():
            instance.lease = Lease(machine.gate, [block for block in made.owners if block is not None], self._use)
        self.outputs = made.outputs
        for storage in self.outputs:
            storage.block.details().unready = self._use

    def launch(self, stream: Stream | None = None) -> list[Storage]:
        """Run on `stream` (the current one if None). Returns `outputs`."""
        machine, binding = self.machine, self._binding
        if stream is None:
            stream = current_or(machine.stream)
        with self._lock:
            use = self._use
            with machine.shared:
                if use.others or use.stream is not stream:
                    use.launch(stream)
                if binding.single is not None:
                    machine.device.launch_graph(binding.single, stream.handle)
                else:
                    binding.launch(stream)
                use.mark = stream.submitted = next(stream.ticks)
            self.launches += 1
        return self.outputs

    __call__ = launch

    def set_scalars(self, scalars: Sequence[Any]) -> None:
        """Give later calls other runtime scalars."""
        layout = self.executable.layout
        packed = layout.pack(scalars)
        with self._lock:
            if packed != self._binding.packed:
                self._binding.set_words(layout.words(scalars), packed)

    def upload(self, stream: Stream | None = None) -> None:
        """Pay for the first launch now: resources are made ready, nothing runs."""
        stream = current_or(self.machine.stream, stream)
        with self._lock:
            for instance in self._binding.instances.values():
                self.machine.device.upload(instance.handle, stream.handle)
            stream.submitted = next(stream.ticks)

    def synchronize(self) -> None:
        """Wait for the last call."""
        if self._use.stream is not None:
            self._use.stream.synchronize()
