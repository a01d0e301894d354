"""A user's own kernel: launched on a stream, or recorded as one node. Called by gla/array/kernel.py.

The kernel's memory is whatever storages it is given; parameters are copied before the call returns. In a record the node
keeps its module loaded, and the record's owners keep the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gla.device.base import Geometry, Parameters
from gla.runtime.binding import Place, parameters_of
from gla.runtime.graph import Record
from gla.runtime.kernels import LoadedKernel
from gla.runtime.memory.block import Storage, acquire
from gla.runtime.program import KernelCall, KernelNode

if TYPE_CHECKING:
    from gla.runtime.machine import Machine
    from gla.runtime.stream import Stream


def kernel_call(
    kernel: LoadedKernel, geometry: Geometry, template: Parameters, slots: Sequence[int], nbytes: int, label: str
) -> KernelCall:
    """`template` has the numbers set; `slots[k]` is where the k-th storage's address goes."""
    pointers = tuple((slot, k) for k, slot in enumerate(slots))
    return KernelCall(kernel, geometry, template, pointers, (), label, nbytes)


def recorded(call: KernelCall, storages: Sequence[Storage]) -> Record:
    """The call on these storages as a record of one node. DeviceError for freed memory."""
    for storage in storages:
        storage.check()
    made = Record()
    made.nodes = [KernelNode(call, call.pointers, call.scalars, ())]
    made.addresses = [storage.address for storage in storages]
    made.owners = [storage.block for storage in storages]
    return made


def launch(
    machine: Machine, call: KernelCall, storages: Sequence[Storage], written: Sequence[bool], stream: Stream | None = None
) -> None:
    """Run the call once, after everything that uses its memory: asynchronous, in the order of the stream."""
    stream = stream or machine.current_stream()
    with machine.shared:
        for storage, is_written in zip(storages, written):
            acquire(storage.block, stream, is_written)
        node = KernelNode(call, call.pointers, call.scalars, ())
        parameters = parameters_of(node, Place([storage.address for storage in storages], ()))
        machine.device.launch(call.kernel.function, call.geometry, parameters, stream.handle)
        stream.submitted = next(stream.ticks)
