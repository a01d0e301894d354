"""`@gla.function`: a Python function of arrays that is traced once a signature and then replayed.

What a signature is: signature.py. A call tries the entry used last (entry.py, the short path), then looks the full key up,
and traces the body on a miss. Inside a trace or a capture it is inlined.
"""

from __future__ import annotations

import functools
import inspect
import threading
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gla.array import annotations as hints
from gla.array import engine, realise
from gla.array.boundary import public, trimmed
from gla.array.create import upload
from gla.array.entry import MISS, Entry
from gla.array.guards import range_guards
from gla.array.recognise import recogniser
from gla.array.scope import current
from gla.array.signature import BoundWrapped, Walk, Wrapped, by_contents
from gla.array.trace import FunctionScope, Results, input_of, map_leaves, rebuild, strong
from gla.array.value import Array, device_of, from_node, node_of
from gla.errors import DtypeError, GlaError
from gla.ir.builder import default_float
from gla.ir.graph import Graph
from gla.ir.node import Node
from gla.ir.spans import _HOUSE, labels

KEPT = 256
"""Entries of one function; the least recently used goes first."""
RECENT = 4
"""Entries whose recognisers are tried before a call is looked at closely."""


class Call:
    """A call looked at closely: its key, and the leaves in order."""

    __slots__ = ("arrays", "bound", "device", "key", "pattern", "walk")

    def __init__(self, walk: Walk, bound: list[tuple[str, Any]], arrays: list[Array], device: str) -> None:
        self.walk, self.bound, self.arrays, self.device = walk, bound, arrays, device
        self.pattern = alias_pattern(arrays)
        self.key = (tuple(walk.key), self.pattern, device, default_float.get().name)


class Function(Wrapped):
    """What `@gla.function` gives: call it like the function. `stats()`, `ir(*args)`, `plan(*args)`, `kernels(*args)`, `explain(*args)`,
    `graph(*args)` and `prepare(*args)` show and prepare what runs."""

    def __init__(self, fn: Callable[..., Any], static: Iterable[str] = ()) -> None:
        self.fn = fn
        self.static = (static,) if isinstance(static, str) else tuple(static)
        self._lock = threading.RLock()
        self._entries: OrderedDict[Any, Entry] = OrderedDict()
        self._recent: tuple[Entry, ...] = ()
        self._calls = self._traces = 0
        self._inner = _innermost(fn)
        self._signature = inspect.signature(fn)
        parameters = list(self._signature.parameters.values())
        self._names = tuple(p.name for p in parameters)
        self._ours = getattr(getattr(self._inner, "__code__", None), "co_filename", "").startswith(_HOUSE)
        self._simple = (
            not self._ours and isinstance(fn, types.FunctionType) and all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
        )
        unknown = [n for n in self.static if n not in self._names]
        if unknown:
            raise DtypeError(
                "GLA0220",
                f"static names {unknown[0]!r}, which is no parameter of {self.name}",
                labels=labels("here"),
                help=f"its parameters are {', '.join(self._names) or 'none'}",
            )
        self._annotations = hints.of(fn)
        functools.update_wrapper(self, fn, updated=())

    @property
    def name(self) -> str:
        return str(getattr(self.fn, "__name__", None) or getattr(self._inner, "__name__", "function"))

    @property
    def __defaults__(self) -> Any:
        return self._inner.__defaults__

    @__defaults__.setter
    def __defaults__(self, value: Any) -> None:
        self._inner.__defaults__ = value

    @property
    def __kwdefaults__(self) -> Any:
        return self._inner.__kwdefaults__

    @__kwdefaults__.setter
    def __kwdefaults__(self, value: Any) -> None:
        self._inner.__kwdefaults__ = value

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else Bound(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        try:
            if current.get() is not None:
                return self._inline(args, kwargs)
            if kwargs and self._simple:
                args, kwargs = self._positional(args, kwargs)
            if not kwargs:
                for entry in self._recent:
                    result = entry.attempt(self.fn, args)
                    if result is not MISS:
                        self._calls += 1
                        return result
            return self._look(args, kwargs)
        except GlaError as error:
            raise trimmed(error)  # noqa: B904 - it is the same error

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments in order, defaults as they are now; unchanged when a name is missing or unknown."""
        names, defaults = self._names, self.fn.__defaults__ or ()  # type: ignore[attr-defined]
        values, taken = list(args), 0
        for k in range(len(args), len(names)):
            if names[k] in kwargs:
                values.append(kwargs[names[k]])
                taken += 1
            elif k >= len(names) - len(defaults):
                values.append(defaults[k - len(names) + len(defaults)])
            else:
                return args, kwargs
        return (tuple(values), {}) if taken == len(kwargs) else (args, kwargs)

    # --- the long path
    def _look(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = self.examine(args, kwargs)
        entry = self.entry(call)
        result = entry.run(call.arrays, call.walk.scalars)
        self._calls += 1
        return result

    def examine(self, args: tuple[Any, ...], kwargs: dict[str, Any], naming: bool = False) -> Call:
        """Bind the arguments, walk them and the surroundings, and realise the arrays."""
        bound = self._bind(args, kwargs)
        walk = Walk(naming)
        for name, value in bound:
            if name in self.static:
                self._static(walk, name, value)
            else:
                walk.visit(value, name)
        if isinstance(self.fn, functools.partial):
            walk.visit(self.fn, self.name, True)
        elif isinstance(self._inner, types.FunctionType):
            walk.surroundings(self._inner, self.name, defaults=False)
        device = device_of([a for a in walk.arrays if isinstance(a, Array)], None)
        arrays = [a if isinstance(a, Array) else upload(a, None, device) for a in walk.arrays]
        if any(a._buffer is None for a in arrays):
            realise.own(arrays)
        return Call(walk, bound, arrays, device)

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
        """(parameter, value) in order, defaults as they are now."""
        if self._simple and not kwargs:
            given, wanted = len(args), len(self._names)
            defaults = self.fn.__defaults__ or ()
            if wanted - len(defaults) <= given <= wanted:
                values = args + defaults[len(defaults) - (wanted - given) :] if given < wanted else args
                return list(zip(self._names, values))
        signature = inspect.signature(self.fn)
        bound = signature.bind(*args, **kwargs)
        if not self._ours:  # defaults of gla's own functions are options, no numbers of the program
            bound.apply_defaults()
        return list(bound.arguments.items())

    def _static(self, walk: Walk, name: str, value: Any) -> None:
        if isinstance(value, (Array, np.ndarray)):
            raise DtypeError(
                "GLA0221", f"static argument {name} of {self.name} is an array", labels=labels("called here"),
                help=f"take {name} out of static: arrays are inputs",
            )  # fmt: skip
        try:
            number = hash(value)
        except TypeError:
            raise DtypeError(
                "GLA0221",
                f"static argument {name} of {self.name} is a {type(value).__name__}, which is not hashable",
                labels=labels("called here"),
                help=f"pass a tuple for a list, or take {name} out of static",
            ) from None
        inside = by_contents(value)
        walk.key.append(("static", type(value), None if inside or number is None else _Valued(value)))
        if inside or hasattr(value, "__dict__"):
            walk.visit(value, name, True)

    def entry(self, call: Call) -> Entry:
        """The entry of a call: found, or traced now."""
        entry = self._entries.get(call.key)
        if entry is None:
            with self._lock:
                entry = self._entries.get(call.key)
                if entry is None:
                    if not engine.compiling.get():
                        given = ", ".join(
                            f"{n}: {v._type if isinstance(v, Array) else type(v).__name__}" for n, v in call.bound
                        )
                        raise engine.refuse(f"{self.name}({given})")
                    entry = self._trace(call)
                    self._traces += 1
                    self._entries[call.key] = entry
                    while len(self._entries) > KEPT:
                        self._entries.popitem(last=False)
            self._remember(entry)
        elif self._simple:
            # The second time: what is called once needs no recogniser.
            if not entry.recognises(call, entry.recogniser):
                made = recogniser(self.fn, call.bound, self.static, call.pattern, entry.written)
                entry.recogniser = made if entry.recognises(call, made) else None
            self._remember(entry)
        return entry

    def _remember(self, entry: Entry) -> None:
        """Try this entry first from now on."""
        self._recent = (entry, *(e for e in self._recent if e is not entry))[:RECENT]

    def _trace(self, call: Call) -> Entry:
        """Run the body once on stand-ins."""
        naming = Walk(True)
        for name, value in call.bound:
            if name not in self.static:
                naming.visit(value, name)
        names = naming.names + [f"array {k}" for k in range(len(naming.names), len(call.arrays))]
        walk = call.walk
        scope = FunctionScope(f"{self.name}()", call.device)
        order: list[int] = []
        leaves: list[Array] = []
        inputs: list[Node] = []
        for k, (array, original) in enumerate(zip(call.arrays, walk.arrays)):
            if call.pattern[k] == k:
                inside = scope.parameter(array._type, names[k])
                order.append(k)
                inputs.append(input_of(inside))
            else:
                inside = leaves[call.pattern[k]]
            leaves.append(inside)
            scope.stands_for(original, inside)
            scope.stands_for(array, inside)
        numbers = [scope.parameter(t, n, True) for t, n in zip(walk.scalar_types, naming.scalar_names)]
        scalar_nodes = [input_of(a) for a in numbers]
        for values in walk.surrounding:
            scope.stands_for(values, scope.constants_of(values))
        results = Results()
        with scope.open():
            stand_ins = iter(numbers)
            arguments = [(n, v if n in self.static else rebuild(v, scope.known, stand_ins)) for n, v in call.bound]
            hints.check(self._annotations, arguments, self.name)
            structure = results.gather(self._body(arguments))
            changed = [k for k in order if leaves[k]._value is not inputs[order.index(k)]]
            writes = tuple((inputs[order.index(k)], strong(node_of(leaves[k]))) for k in changed)
        graph = Graph(
            (*inputs, *(node for node, _ in scope.constants), *scalar_nodes),
            tuple(results.nodes),
            writes,
        )
        written = tuple(k for k, p in enumerate(call.pattern) if p in changed)
        constants = tuple(buffer for _, buffer in scope.constants)
        guards = range_guards(graph, scalar_nodes)
        return Entry(graph, call.device, tuple(order), constants, written, structure, names, guards, len(call.bound))

    def _body(self, arguments: list[tuple[str, Any]]) -> Any:
        if self._simple:
            return self.fn(*(value for _, value in arguments))
        bound = inspect.BoundArguments(self._signature, OrderedDict(arguments))
        return self.fn(*bound.args, **bound.kwargs)

    # --- inside a trace
    def _inline(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The body as a part of what is being recorded; what it gives is fresh, as ever."""
        if self._annotations or self.static:
            bound = self._bind(args, kwargs)
            hints.check(self._annotations, bound, self.name)
            for name, value in bound:
                if name in self.static and isinstance(value, Array):
                    raise DtypeError(
                        "GLA0221", f"static argument {name} of {self.name} is a traced value", labels=labels("called here"),
                        help=f"make it static in the function around it too, or take {name} out of static",
                    )  # fmt: skip
        scope = current.get()

        def fresh(value: Any) -> Any:
            return from_node(node_of(value), value._device, scope) if isinstance(value, Array) else value

        return map_leaves(self.fn(*args, **kwargs), fresh)

    # --- for people
    @public
    def ir(self, *args: Any, **kwargs: Any) -> str:
        """The program of these arguments as text. Computes nothing (arrays that wait are realised)."""
        from gla.array import inspection

        return inspection.ir(self.entry(self.examine(args, kwargs)))

    @public
    def plan(self, *args: Any, **kwargs: Any) -> Any:
        """What is launched for these arguments: steps, buffers, `.memory` in bytes."""
        from gla.array import inspection

        return inspection.plan(self.entry(self.examine(args, kwargs)))

    @public
    def kernels(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The generated kernels, one entry each: `.name`, `.text`."""
        from gla.array import inspection

        return inspection.kernels(self.entry(self.examine(args, kwargs)))

    @public
    def explain(self, *args: Any, **kwargs: Any) -> str:
        """In words: what was fused, what is launched, memory; and whether these arguments meet a known signature."""
        call = self.examine(args, kwargs)
        known = call.key in self._entries
        from gla.array import inspection

        return inspection.explain(self.entry(call), self.name, known, len(self._entries))

    @public
    def graph(self, *args: Any, **kwargs: Any) -> Any:
        """A `gla.Graph` of one call with these arguments."""
        from gla.array.capture import capture

        return capture(lambda: self(*args, **kwargs))

    @public
    def prepare(self, *args: Any, **kwargs: Any) -> Any:
        """Check and compile once. What it gives is called with arrays and numbers of the same kinds, without further checks of
        the surroundings."""
        call = self.examine(args, kwargs)
        from gla.array import inspection

        return inspection.Prepared(self, self.entry(call), call)

    def stats(self) -> Any:
        """Counts: calls, hits, plans, kernels, instantiations, updates."""
        from gla.array import inspection

        return inspection.stats(self._calls, self._traces, list(self._entries.values()))

    def __repr__(self) -> str:
        return f"<gla.function {self.name}{self._signature}>"

    def __copy__(self) -> Function:
        return Function(self.fn, self.static)

    def __deepcopy__(self, memo: Any) -> Function:
        return Function(self.fn, self.static)

    def __reduce__(self) -> Any:
        return (_remake, (self.fn, self.static))


class Bound(BoundWrapped):
    """A `gla.function` as a method of `instance`: called without it, and so are `ir`, `plan`, `kernels`, ..."""

    __slots__ = ()

    def __init__(self, function: Function, instance: Any) -> None:
        self.__func__, self.__self__ = function, instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return self.__func__(self.__self__, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.__func__, name)
        if name in ("ir", "plan", "kernels", "explain", "graph", "prepare"):
            return functools.partial(found, self.__self__)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bound) and other.__self__ is self.__self__ and other.__func__ is self.__func__

    def __hash__(self) -> int:
        return hash((id(self.__self__), id(self.__func__)))


class _Valued:
    """A static argument by value and type all through: 1, 1.0 and True differ."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Valued)
            and type(other.value) is type(self.value)
            and bool(other.value == self.value)
            and repr(other.value) == repr(self.value)
        )

    def __hash__(self) -> int:
        return hash(self.value)


def _remake(fn: Any, static: tuple[str, ...]) -> Function:
    return fn if isinstance(fn, Function) else Function(fn, static)


def _innermost(fn: Any) -> Any:
    while isinstance(fn, (functools.partial, types.MethodType, BoundWrapped, Function)):
        fn = fn.func if isinstance(fn, functools.partial) else fn.fn if isinstance(fn, Function) else fn.__func__
    return fn


def alias_pattern(arrays: list[Array]) -> tuple[int, ...]:
    """For each array the first one that is the same variable: the same memory, or fresh views of the same part of one root."""
    pattern: list[int] = []
    seen: dict[int, int] = {}
    for k, array in enumerate(arrays):
        same = k
        if array._base is not None and array._is_fresh():
            for j in range(k):
                other = arrays[j]
                if other._base is array._base and other._is_fresh() and other._path == array._path:
                    same = pattern[j]
                    break
        else:
            assert array._buffer is not None
            same = seen.setdefault(id(array._buffer.storage), k)
        pattern.append(same)
    return tuple(pattern)


@public
def function(fn: Any = None, *, static: Iterable[str] = ()) -> Any:
    """Make a Python function of arrays into one that is traced once a signature and replayed in one launch.

    Use it as `@gla.function` or `@gla.function(static=("order",))`; static arguments count by value and must be hashable.
    """
    if fn is None:
        return lambda actual: Function(actual, static)
    if isinstance(fn, Function):
        return fn if not static else Function(fn.fn, (*fn.static, *static))
    if not callable(fn):
        raise DtypeError("GLA0222", f"gla.function takes a function, not a {type(fn).__name__}", labels=labels("here"))
    return Function(fn, static)
