"""Realising: pending values become memory, everything that is asked for together in one launch.

Called when values are looked at, passed to functions, or about to lose what they read (`write`). Numbers that are not
literals of the program are lifted out of the graph, so that equal expressions with other numbers hit the same executable.
The lock of a device is let go while compiling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gla.array import engine, pending
from gla.array.buffer import Buffer, remember, resolved, retire, storage_of
from gla.array.scope import current, outside
from gla.array.value import Array
from gla.ir.builder import constant_value
from gla.ir.graph import Graph, new_input, substitute
from gla.ir.node import Node, topological


class Request:
    """A program over leaves, as it was found: what it is run on, and `key`, equal for programs of one structure."""

    __slots__ = ("_leaves", "_numbers", "_results", "_writes", "key", "scalars", "storages")

    def __init__(self, results: Sequence[Node], writes: Sequence[tuple[Node, Node]]) -> None:
        order, known = _walk([*results, *(new for _, new in writes)])
        counts = {node.operands[0] for node in order if node.op == "loop"}
        place: dict[Node, int] = {}
        leaves: dict[Node, Node] = {}
        numbers: list[Node] = []
        rows: list[Any] = []
        for node in order:
            leaf = known.get(node) if known else None
            if leaf is not None or node.op == "input":
                leaf = leaf or node
                first = place.get(leaf)
                if first is None:
                    first = place[leaf] = len(rows)
                    rows.append(leaf.type)
                leaves[node] = leaf
                place[node] = first
                continue
            place[node] = len(rows)
            if node.op == "constant" and not node.attr("literal") and node not in counts:
                numbers.append(node)
                rows.append(("number", node.type))
            else:
                rows.append((node.op, tuple([place[o] for o in node.operands]), node.attrs, node.type))
        for leaf, _ in writes:
            if leaf not in place:
                place[leaf] = len(rows)
                rows.append(leaf.type)
                leaves[leaf] = leaf
        self.key = (tuple(rows), tuple([place[r] for r in results]), tuple([(place[i], place[v]) for i, v in writes]))
        self._results, self._writes, self._leaves, self._numbers = results, writes, leaves, numbers
        self.storages = [storage_of(leaf) for leaf in dict.fromkeys(leaves.values())]
        self.scalars = [constant_value(node) for node in numbers]

    def graph(self) -> Graph:
        """The program with leaves and loose numbers made parameters, in the order of `storages` and `scalars`."""
        inputs = {leaf: new_input(leaf.type) for leaf in dict.fromkeys(self._leaves.values())}
        numbers = {node: new_input(node.type, scalar=True) for node in self._numbers}
        new = substitute(
            (*self._results, *(value for _, value in self._writes)),
            {**{node: inputs[leaf] for node, leaf in self._leaves.items()}, **numbers},
        )
        count = len(self._results)
        writes = tuple((inputs[leaf], value) for (leaf, _), value in zip(self._writes, new[count:]))
        return Graph((*inputs.values(), *numbers.values()), new[:count], writes)


def _walk(roots: Iterable[Node]) -> tuple[list[Node], dict[Node, Node]]:
    """(nodes from operands to users, those among them whose value is in memory: node -> leaf), not looking behind the latter."""
    order: list[Node] = []
    known: dict[Node, Node] = {}
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(list(roots))]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
            continue
        if node in seen:
            continue
        seen.add(node)
        leaf = resolved(node)
        if leaf is not node:
            known[node] = leaf
            order.append(node)
            continue
        stack.append((node, True))
        stack.extend((operand, False) for operand in reversed(node.operands))
    return order, known


def count_behind(node: Node) -> int:
    """How many nodes wait behind `node`."""
    return len(_walk([node])[0])


def realise(arrays: Sequence[Array]) -> None:
    """Compute every pending value among `arrays`: one launch a device."""
    by_device: dict[str, list[Array]] = {}
    for array in arrays:
        if array._buffer is None:
            by_device.setdefault(array._device, []).append(array)
    token = current.set(None)
    try:
        for device, group in by_device.items():
            _realise_on(pending.place(device), group)
    finally:
        current.reset(token)


def _realise_on(place: pending.Place, group: Sequence[Array]) -> None:
    while True:
        with place.lock:
            waiting = [a for a in group if a._buffer is None]
            if not waiting:
                return
            nodes = list(dict.fromkeys(a._value for a in waiting if a._value is not None))
            asked = Request(nodes, ())
            executable = engine.lookup(place.device, asked.key)
            if executable is not None:
                _settle(waiting, nodes, engine.run(executable, asked.storages, asked.scalars))
                return
        engine.compile_graph(asked.graph(), place.device, asked.key)


def _settle(arrays: Sequence[Array], nodes: Sequence[Node], storages: Sequence[Any]) -> None:
    """Give each array its memory. Of several that are the same expression the first owns it; the others read it, pending."""
    storage = dict(zip(nodes, storages))
    owned: dict[Node, Node] = {}
    for array in arrays:
        node = array._value
        assert node is not None
        if node in owned:
            array._value, array._count = owned[node], 1
            continue
        owned[node] = adopt(array, storage[node])


def adopt(array: Array, storage: Any) -> Node:
    """`array` owns `storage`, which holds its value. Gives the leaf."""
    node = array._value
    buffer = Buffer(storage, array._type, array._device, origin=node.span if node is not None else None)
    leaf = buffer.leaf
    pending.discard(array)
    array._buffer, array._value, array._count = buffer, None, 0
    if node is not None:
        remember(node, leaf)
    return leaf


def own(arrays: Sequence[Array]) -> None:
    """Realise so that every one of `arrays` has memory of its own."""
    realise(arrays)
    shared = [a for a in arrays if a._buffer is None]
    while shared:
        # The value is another array's memory: a copy, one at a time since equal nodes would share again.
        _realise_on(pending.place(shared[0]._device), shared[:1])
        shared = [a for a in shared if a._buffer is None]


def readers(place: pending.Place, leaves: set[Node], but: Sequence[Array] = ()) -> list[Array]:
    """Live pending values that read one of `leaves`, without those in `but`."""
    found = []
    reads: dict[Node, bool] = {}
    passed = {id(array) for array in but}
    for array in place.arrays():
        node = array._value
        if id(array) not in passed and node is not None and _reads(node, leaves, reads):
            found.append(array)
    return found


def _reads(root: Node, leaves: set[Node], known: dict[Node, bool]) -> bool:
    for node in topological([root], stop={n for n, answer in known.items()}):
        if node not in known:
            known[node] = resolved(node) in leaves or any(known[o] for o in node.operands)
    return known[root]


def write(
    buffer: Buffer, make: Callable[[], Node], but: Sequence[Array] = (), renewed: Callable[[], Callable[[], None]] | None = None
) -> None:
    """Overwrite the contents of `buffer` by the value `make()`; live pending readers are realised in the same launch.

    `make` is called under the device's lock, as often as the write is tried: another thread's write may come between.
    `but`: readers that show the new contents afterwards. `renewed` makes them do so and gives what takes that back.
    """
    place = pending.place(buffer.device)
    with outside():
        while True:
            with place.lock:
                leaf, value = buffer.leaf, make()
                waiting, _ = _split(readers(place, {leaf}, but), value)
                nodes = list(dict.fromkeys(a._value for a in waiting if a._value is not None))
                asked = Request(nodes, [(leaf, value)])
                executable = engine.lookup(place.device, asked.key)
                if executable is not None:
                    place.begin()
                    try:
                        if _overwrite(place, buffer, leaf, value, waiting, nodes, asked, executable, but, renewed):
                            return
                    finally:
                        place.end()
                    continue
            engine.compile_graph(asked.graph(), place.device, asked.key)


def _split(waiting: list[Array], value: Node) -> tuple[list[Array], list[Array]]:
    """(readers to realise, those that are what is written: they will read it where it is)."""
    return [a for a in waiting if a._value is not value], [a for a in waiting if a._value is value]


def _overwrite(
    place: pending.Place,
    buffer: Buffer,
    leaf: Node,
    value: Node,
    waiting: list[Array],
    nodes: list[Node],
    asked: Request,
    executable: Any,
    but: Sequence[Array],
    renewed: Callable[[], Callable[[], None]] | None,
) -> bool:
    """Run the write. The leaf is renewed first, so that whoever reads it meanwhile is either among `waiting` or sees the new one."""
    buffer.renew()
    undo = renewed() if renewed is not None else None
    try:
        now, same = _split(readers(place, {leaf}, but), value)
        if {id(a) for a in now} != {id(a) for a in waiting}:
            _restore(buffer, leaf, undo)
            return False
        _settle(waiting, nodes, engine.run(executable, asked.storages, asked.scalars))
    except BaseException:
        _restore(buffer, leaf, undo)
        raise
    for array in same:
        array._value, array._count = buffer.leaf, 1
    retire(leaf)
    return True


def _restore(buffer: Buffer, leaf: Node, undo: Callable[[], None] | None) -> None:
    buffer.restore(leaf)
    if undo is not None:
        undo()


class writing:
    """Around a launch that overwrites `buffers`: pending readers are realised first, later expressions read the new contents.

    With nobody waiting it only looks. When the launch fails, all is as it was.
    """

    __slots__ = ("buffers", "old", "place")

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.buffers = buffers
        self.place = pending.place(buffers[0].device) if buffers else None
        self.old: list[Node | None] = []

    def __enter__(self) -> None:
        if self.place is None:
            return
        self.place.lock.acquire()
        self.place.begin()
        try:
            self.old = [buffer.renew() for buffer in self.buffers]
            leaves = {leaf for leaf in self.old if leaf is not None}
            if leaves and self.place.waiting:
                own(readers(self.place, leaves))
        except BaseException:
            self._undo()
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.place is None:
            return
        if kind is not None:
            self._undo()
            return
        for leaf in self.old:
            retire(leaf)
        self.place.end()
        self.place.lock.release()

    def _undo(self) -> None:
        assert self.place is not None
        for buffer, leaf in zip(reversed(self.buffers), reversed(self.old)):
            buffer.restore(leaf)
        self.place.end()
        self.place.lock.release()
