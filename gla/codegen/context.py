"""The state of one lowering: parameters, index values, and the evaluation of nodes at indices without recursion.

Every op has a handler, a generator `handler(low, node, index, env)` that yields the (node, index, env) whose values it
needs and returns the value there: a `Value`, a pair for complex numbers, for loops a tuple of these. `Lowering.run`
drives them with an explicit stack, so that a graph may be as deep as it likes. Values are kept with the scope they
stand in: an element that is asked for twice is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gla.codegen.affine import Affine, Index, Indices, Poly, Split, fixed, number, strides
from gla.codegen.arguments import Argument, InputPointer, Number, OutputPointer, RuntimeScalar
from gla.codegen.emitter import Emitter
from gla.codegen.extents import Extents
from gla.codegen.kernel import Parameter, Value
from gla.dtypes import DType, bfloat16, float16, float32, int32, int64, real_of, uint16
from gla.errors import InternalError
from gla.ir.node import Node, topological
from gla.ir.ops.table import elementwise
from gla.ir.types import Type
from gla.plan.steps import Region

HALVES = (float16, bfloat16)
Request = tuple[Node, Index, "Env"]
Steps = Generator[Request, Any, Any]
Handler = Callable[["Lowering", Node, Index, "Env"], Steps]
Truth = bool | Value

# Half of a shifted index may pass the end of its axis by the axis' length, and complex numbers count twice.
WIDE = 1 << 29


@dataclass(frozen=True, slots=True)
class Carried:
    """An input of a nested graph that is held in values: element `prefix + trailing` for the constants in `parts`."""

    prefix: Index
    parts: dict[tuple[int, ...], Any]


class Env:
    """What the inputs of a nested graph stand for: carried values, or a node in the graph around it. `level`: its scope."""

    __slots__ = ("bindings", "level")

    def __init__(self, level: int) -> None:
        self.bindings: dict[Node, Carried | tuple[Node, Env]] = {}
        self.level = level


def storage(dtype: DType) -> DType:
    """The dtype of the values that hold (a part of) an element."""
    return uint16 if dtype in HALVES else real_of(dtype)


def accumulator(dtype: DType) -> DType:
    """The dtype that arithmetic on `dtype` is done in."""
    return float32 if dtype in HALVES else dtype


def parts_of(bits: bytes, dtype: DType) -> tuple[Any, ...]:
    """The Python numbers of an element given as bytes: one, or two for complex."""
    return tuple(x.item() for x in np.frombuffer(bits, storage(dtype).numpy))


def flat(value: Any) -> tuple[Value, ...]:
    return value if isinstance(value, tuple) else (value,)


class Lowering:
    """One region on its way to a kernel."""

    def __init__(self, region: Region, handlers: dict[str, Handler], elementwise_handler: Handler) -> None:
        self.region = region
        self.emitter = Emitter()
        self.extents = Extents(region)
        self.indices = Indices(self.emitter.level)
        self.root = Env(0)
        self.item_index: Index = ()
        self.wide = _is_wide(region)
        self.index_dtype = int64 if self.wide else int32
        self.parameters: list[Parameter] = []
        self.arguments: list[Argument | Poly] = []
        self._extent_values: dict[Poly, Value] = {}
        self._scalar_values: dict[Any, Any] = {}
        self._handlers = handlers
        self._elementwise = elementwise_handler
        self._pointers: dict[Node, int] = {}
        self._envs: dict[Any, Env] = {}
        self.reads: list[Affine] = []  # addresses, for the choice of the team
        self.reduce_groups: dict[Node, tuple[Node, ...]] = {}
        for k, node in enumerate(region.inputs):
            self._pointers.setdefault(node, k)
            self._parameter("pointer", storage(node.dtype), InputPointer(k), name=f"in{k}")
        for k, node in enumerate(region.outputs):
            self._parameter("pointer", storage(node.dtype), OutputPointer(k), name=f"out{k}", writable=True)
        self._scalars = {node: k for k, node in enumerate(region.scalars)}

    # --- parameters

    def _parameter(
        self,
        kind: str,
        dtype: DType,
        argument: Argument | Poly,
        *,
        name: str,
        value: Value | None = None,
        writable: bool = False,
    ) -> None:
        self.parameters.append(Parameter(name, kind, dtype, value, writable))
        self.arguments.append(argument)

    def extent(self, poly: Poly) -> Value:
        """The index Value of an integer: a literal, or a parameter that equal polynomials share."""
        known = poly.constant
        if known is not None:
            return self.emitter.const(known, self.index_dtype)
        found = self._extent_values.get(poly)
        if found is None:
            found = self._extent_values[poly] = self.emitter.value(self.index_dtype, 0)
            self._parameter("extent", self.index_dtype, poly, name=f"n{len(self._extent_values) - 1}", value=found)
        return found

    def extent_parameter(self, poly: Poly, name: str) -> Value:
        """Like `extent`, but a parameter even when the polynomial is a number."""
        value = self._extent_values[poly] = self.emitter.value(self.index_dtype, 0)
        self._parameter("extent", self.index_dtype, poly, name=name, value=value)
        return value

    def scalar(self, key: Any, name: str, dtype: DType, arguments: tuple[Argument, ...]) -> Any:
        """The value of a scalar parameter, of two for a complex one."""
        found = self._scalar_values.get(key)
        if found is None:
            values = []
            for part, argument in enumerate(arguments):
                value = self.emitter.value(storage(dtype), 0)
                suffix = ("", "_im")[part]
                self._parameter("scalar", value.dtype, argument, name=f"{name}{suffix}", value=value)
                values.append(value)
            found = self._scalar_values[key] = tuple(values) if dtype.kind == "c" else values[0]
        return found

    # --- evaluation

    def evaluate(self, node: Node, index: Index, env: Env) -> Any:
        """The value of the element `index` of `node`."""

        def ask() -> Steps:
            return (yield node, index, env)

        return self.run(ask())

    def run(self, steps: Steps) -> Any:
        stack: list[tuple[Steps, Request | None]] = [(steps, None)]
        answer: Any = None
        while stack:
            try:
                request = stack[-1][0].send(answer)
            except StopIteration as stop:
                answer = stop.value
                key = stack.pop()[1]
                if key is not None:
                    self.keep(key, answer)
                continue
            key = self._resolve(request)
            answer = key if not _is_request(key) else self._kept(key)
            if answer is None:
                stack.append((self._handler(key[0])(self, *key), key))
        return answer

    def _resolve(self, request: Request) -> Any:
        """The request behind captured inputs, or the value of a carried one."""
        node, index, env = request
        while node.op == "input":
            bound = env.bindings.get(node)
            if bound is None:
                break
            if isinstance(bound, Carried):
                return read_carried(node, index, bound)
            node, env = bound
        return node, index, env

    def _handler(self, node: Node) -> Handler:
        if node in self._pointers:
            return _load
        if isinstance(node.type, Type) and 0 in node.shape:
            return _nothing
        return self._handlers.get(node.op, self._elementwise)

    def _kept(self, key: Request) -> Any:
        for scope in reversed(self.emitter.scopes):
            found = scope.memo.get(key)
            if found is not None:
                return found
        return None

    def keep(self, key: Request, value: Any) -> None:
        self.emitter.scopes[_level(self.emitter, value)].memo[key] = value

    def level(self, index: Index, env: Env) -> int:
        """The scope that a statement for this element needs."""
        return max([env.level, *(self.indices.level(form) for form in index)])

    def env(self, key: Any, level: int) -> Env:
        """An environment that is the same for equal keys."""
        found = self._envs.get(key)
        if found is None:
            found = self._envs[key] = Env(level)
        return found

    # --- index values

    def index_value(self, form: Affine) -> Value:
        """Code for a form: what changes least first, so that it moves out of loops and is shared between neighbours."""
        s, indices = self.emitter, self.indices
        terms = sorted(form.terms, key=lambda term: indices.atom_level(term[0]))
        offset = form.offset if form.offset.terms else None
        total: Value | None = None
        first = indices.atom_level(terms[0][0]) if terms else 0
        for atom, c in terms:
            value = self._atom(atom)
            if offset is not None and ((c.constant == -1 and total is None) or indices.atom_level(atom) > first):
                total = self.extent(offset) if total is None else s.add(total, self.extent(offset))
                offset = None
            if c.constant == -1:
                total = s.sub(total if total is not None else s.const(0, self.index_dtype), value)
            else:
                part = value if c.constant == 1 else s.mul(value, self.extent(c))
                total = part if total is None else s.add(total, part)
        if total is None:
            return self.extent(form.offset)
        return total if offset is None else s.add(total, self.extent(offset))

    def _atom(self, atom: Value | Split) -> Value:
        if isinstance(atom, Value):
            return atom
        s = self.emitter
        whole, by = self.index_value(atom.of), self.extent(atom.by)
        quotient = s.idiv(whole, by)
        return quotient if atom.kind == "div" else s.sub(whole, s.mul(quotient, by))

    def below(self, form: Affine, limit: Poly) -> Truth:
        """form < limit; a Python bool where both are known."""
        if form.constant is not None and limit.constant is not None:
            return form.constant < limit.constant
        return self.emitter.lt(self.index_value(form), self.extent(limit))

    def both(self, a: Truth, b: Truth) -> Truth:
        if isinstance(a, bool):
            return b if a else False
        if isinstance(b, bool):
            return a if b else False
        return self.emitter.band(a, b)

    def choose_index(self, truth: Truth, a: Affine, b: Affine, bound: Poly | None = None) -> Affine:
        """a where `truth` holds, else b, as an index form."""
        if isinstance(truth, bool):
            return a if truth else b
        if a == b:
            return a
        value = self.emitter.select(truth, self.index_value(a), self.index_value(b))
        known = self.emitter.constant(value)
        return fixed(known) if known is not None else self.indices.value(value, bound)

    def choose(self, truth: Truth, a: Any, b: Any) -> Any:
        """a where `truth` holds, else b, for values and pairs."""
        if isinstance(truth, bool):
            return a if truth else b
        if isinstance(a, tuple):
            return tuple(self.emitter.select(truth, x, y) for x, y in zip(a, b))
        return self.emitter.select(truth, a, b)

    # --- elements

    def literal(self, bits: bytes, dtype: DType) -> Any:
        """The value of an element given as bytes, as text."""
        values = tuple(self.emitter.const(x, storage(dtype)) for x in parts_of(bits, dtype))
        return values if dtype.kind == "c" else values[0]

    def combine(self, name: str, dtype: DType, *values: Any) -> Any:
        """The elementwise op `name` on values of `dtype` (not a 16-bit float)."""
        return elementwise(name).expand(self.emitter, dtype, *values)

    def address(self, extents: tuple[Poly, ...], index: Index) -> Affine:
        return self.indices.dot(index, strides(extents))

    def load(self, pointer: int, dtype: DType, address: Affine) -> Any:
        s, held = self.emitter, storage(dtype)
        self.reads.append(address)
        if dtype.kind != "c":
            return s.load(pointer, self.index_value(address), held)
        base = self.index_value(self.indices.scale(address, number(2)))
        return s.load(pointer, base, held), s.load(pointer, s.add(base, s.const(1, base.dtype)), held)

    def store(self, output: int, address: Affine, value: Any) -> None:
        """Store into the buffer of region.outputs[output]."""
        s, pointer = self.emitter, len(self.region.inputs) + output
        if not isinstance(value, tuple):
            s.store(pointer, self.index_value(address), value)
            return
        base = self.index_value(self.indices.scale(address, number(2)))
        s.store(pointer, base, value[0])
        s.store(pointer, s.add(base, s.const(1, base.dtype)), value[1])

    def pointer(self, node: Node) -> int:
        return self._pointers[node]

    def input(self, node: Node) -> Any:
        """A runtime scalar."""
        k = self._scalars.get(node)
        if k is None:
            raise InternalError("GLA9910", f"{node} is read by a region that does not name it among its inputs or scalars")
        parts: tuple[Argument, ...] = (
            (RuntimeScalar(k, 0), RuntimeScalar(k, 1)) if node.dtype.kind == "c" else (RuntimeScalar(k),)
        )
        return self.scalar(node, f"s{k}", node.dtype, parts)

    def constant(self, node: Node) -> Any:
        """A constant: text when the program wrote it, else an argument."""
        if node.attr("literal"):
            return self.literal(node.attr("bits"), node.dtype)
        held = storage(node.dtype)
        numbers = tuple(Number(x, held) for x in parts_of(node.attr("bits"), node.dtype))
        return self.scalar(node, f"c{len(self._scalar_values)}", node.dtype, numbers)


def _is_request(key: Any) -> bool:
    return isinstance(key, tuple) and len(key) == 3 and isinstance(key[2], Env)


def _level(emitter: Emitter, value: Any) -> int:
    if isinstance(value, Value):
        return emitter.level(value)
    if isinstance(value, Carried):
        value = tuple(value.parts.values())
    if value is None:  # a carry that did not run
        return 0
    return max((_level(emitter, part) for part in value), default=0)


def read_carried(node: Node, index: Index, carried: Carried) -> Any:
    """The value of element `index` of a carried node; InternalError where the item does not hold it."""
    cut = len(carried.prefix)
    trailing = tuple(form.constant for form in index[cut:])
    value = carried.parts.get(trailing) if index[:cut] == carried.prefix else None  # type: ignore[arg-type]
    if value is None:
        raise InternalError(
            "GLA9911", f"the carried value {node} of a loop inside a kernel is read at another element than the item's"
        )
    return value


def _load(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    yield from ()
    return low.load(low.pointer(node), node.dtype, low.address(low.extents.of(node), index))


def _nothing(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    """An element of an empty array is never used; it must not be read."""
    yield from ()
    zero = low.emitter.const(0, storage(node.dtype))
    return (zero, zero) if node.dtype.kind == "c" else zero


def _is_wide(region: Region) -> bool:
    # Values that are only computed, never stored, are indexed too: an element of a huge constant, say.
    inside = topological(region.outputs, stop=set(region.inputs))
    shaped = [node for node in (*region.inputs, *inside) if isinstance(node.type, Type)]
    sizes = [node.type.size * (2 if node.dtype.kind == "c" else 1) for node in shaped]
    for target, output in zip(region.targets, region.outputs):
        if target is not None:
            size = 2 if output.dtype.kind == "c" else 1
            for extent in target.shape:
                size *= extent
            sizes.append(size)
    return max(sizes, default=0) >= WIDE
