"""Memory that another library uses too: kept until its work on it has passed.

A consumer says that it is done (`end`) when its Python object goes, while its kernels may still run. `end` only publishes; the
gate then waits, by an event on the consumer's stream, before the memory may be handed out again. A lease defers a `free()`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gla.runtime.memory.block import Storage, ordering
from gla.runtime.memory.lease import Lease

if TYPE_CHECKING:
    from gla.runtime.memory.gate import Gate
    from gla.runtime.stream import Stream


class Exported:
    """`storage` is in use by `stream` of another library (None: on the host, or without order) until after `end`."""

    __slots__ = ("gate", "lease", "storage", "stream")

    def __init__(self, gate: Gate, storage: Storage, stream: Stream | None) -> None:
        self.gate, self.stream = gate, stream
        self.storage: Storage | None = storage
        self.lease = Lease(gate, [storage.block])

    def end(self) -> None:
        """The consumer is done. On any thread, at any moment: no lock, no driver."""
        self.gate.retired.append(self)

    def let_go(self) -> None:
        if self.stream is None:
            self._drop()
        else:
            self.gate.after_use([self.stream], self._drop)

    def _drop(self) -> None:
        """The consumer's work has passed: nobody waits for its stream any more."""
        storage, self.storage = self.storage, None
        if storage is not None and self.stream is not None:
            with ordering:
                detail = storage.block.details()
                detail.readers -= {self.stream}
                if detail.writer is self.stream:
                    detail.writer = detail.written = None
        self.lease.release()
