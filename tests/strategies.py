"""Random typed expression graphs: the main net under the compiler.

A drawn value knows whether it is exact: made only by operations whose result IEEE arithmetic (or integer arithmetic)
fixes, which must agree with NumPy bit for bit. Elementary functions, reductions and products are compared within a
tolerance, and never decide anything (comparisons, rounding, casts to integers).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from gla import dtypes
from gla.errors import DtypeError, ShapeError
from gla.ir.builder import apply, cast
from gla.ir.functions import control, elementwise, index, linear, reduce, shape
from gla.ir.graph import Graph, new_input
from gla.ir.node import Node
from gla.ir.types import Type

REAL = (dtypes.float32, dtypes.float64)
INTEGER = (dtypes.int8, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.uint32)
ALL = (*REAL, *INTEGER, dtypes.bool_, dtypes.float16, dtypes.bfloat16, dtypes.complex64, dtypes.complex128)
SMOOTH = ("sin", "cos", "tanh", "exp", "atan", "expm1", "asinh", "cbrt")
MODES = ("periodic", "edge", "reflect", "symmetric", "constant")


@dataclass(frozen=True)
class Drawn:
    node: Node
    exact: bool


@dataclass(frozen=True)
class Program:
    """A graph, its input types, and which results are exact."""

    graph: Graph
    exact: tuple[bool, ...]

    def arguments(self, seed: int) -> list[np.ndarray]:
        """Random contents for the inputs."""
        rng = np.random.default_rng(seed)
        return [contents(i.type, rng) for i in self.graph.inputs]


def contents(type: Type, rng: np.random.Generator) -> np.ndarray:
    """Small numbers of a dtype: floats within 3 of zero, integers within 50 (at least 0 where unsigned)."""
    kind = type.dtype.kind
    if kind == "b":
        return rng.integers(0, 2, type.shape).astype(bool)
    if kind in "iu":
        return rng.integers(0 if kind == "u" else -50, 50, type.shape).astype(type.dtype.numpy)
    values = rng.uniform(-3, 3, type.shape)
    if kind == "c":
        values = values + 1j * rng.uniform(-3, 3, type.shape)
    return np.asarray(values).astype(type.dtype.numpy)


@st.composite
def programs(draw: st.DrawFn, sizes: tuple[int, ...] = (1, 2, 3, 7), steps: int = 8) -> Program:
    """A program of a few operations over up to three inputs."""
    m, n = draw(st.sampled_from(sizes)), draw(st.sampled_from(sizes))
    shapes = [(m, n), (n,), (m, 1), ()]
    inputs = [
        new_input(Type(draw(st.sampled_from(ALL)), shapes[draw(st.integers(0, 3))])) for _ in range(draw(st.integers(1, 3)))
    ]
    inputs[0] = new_input(Type(inputs[0].dtype, (m, n)))
    pool = [Drawn(i, True) for i in inputs]
    for _ in range(draw(st.integers(1, steps))):
        maker = draw(st.sampled_from(MAKERS))
        try:
            made = maker(draw, pool)
        except (ShapeError, DtypeError):  # operands that do not go together: another test's business
            continue
        if made is not None and all(extent < 200 for extent in made.node.shape):
            pool.append(made)
    results = pool[len(inputs) :][-3:] or [Drawn(apply("equal", inputs[0], inputs[0]), True)]
    return Program(Graph(tuple(inputs), tuple(r.node for r in results)), tuple(r.exact for r in results))


def pick(draw: st.DrawFn, pool: list[Drawn], kinds: str, exact: bool = False) -> Drawn | None:
    found = [d for d in pool if d.node.dtype.kind in kinds and (d.exact or not exact)]
    return draw(st.sampled_from(found)) if found else None


def tamed(x: Drawn) -> Drawn:
    """A float brought back near zero, so that long programs neither overflow nor lose all digits."""
    if x.node.dtype.kind == "f":
        return Drawn(elementwise.clip(x.node, -8.0, 8.0), x.exact)
    return x


def binary(draw: st.DrawFn, pool: list[Drawn]) -> Drawn | None:
    a, b = pick(draw, pool, "iufc"), pick(draw, pool, "iufc")
    if a is None or b is None:
        return None
    name = draw(st.sampled_from(("add", "subtract", "multiply", "maximum", "minimum", "divide")))
    if "c" in (a.node.dtype.kind, b.node.dtype.kind) and name in ("maximum", "minimum"):
        name = "add"
    if {a.node.dtype.kind, b.node.dtype.kind} == {"i", "u"} and dtypes.uint64 in (a.node.dtype, b.node.dtype):
        return None
    exact = a.exact and b.exact and not ("c" in (a.node.dtype.kind, b.node.dtype.kind) and name in ("multiply", "divide"))
    return tamed(Drawn(apply(name, a.node, b.node), exact))


def with_number(draw: st.DrawFn, pool: list[Drawn]) -> Drawn | None:
    a = pick(draw, pool, "iuf")
    if a is None:
        return None
    number = draw(st.sampled_from((1, 2, 3, 0.5, 1.25)))
    return tamed(Drawn(apply(draw(st.sampled_from(("add", "multiply", "subtract"))), a.node, number), a.exact))


def integer(draw: st.DrawFn, pool: list[Drawn]) -> Drawn | None:
    a, b = pick(draw, pool, "iu"), pick(draw, pool, "iu")
    if a is None or b is None or a.node.dtype is not b.node.dtype:
        return None
    name = draw(
        st.sampled_from(
            (
                "floor_divide",
                "remainder",
                "bitwise_and",
                "bitwise_or",
                "bitwise_xor",
                "bitwise_left_shift",
                "bitwise_right_shift",
            )
        )
    )
    return Drawn(apply(name, a.node, b.node), True)


def smooth(draw: st.DrawFn, pool: list[Drawn]) -> Drawn | None:
    a = pick(draw, pool, "f")
    return None if a is None else tamed(Drawn(apply(draw(st.sampled_from(SMOOTH)), a.node), False))


def rounding(draw: st.DrawFn, pool: list[Drawn]) -> Drawn | None:
    a = pick(draw, pool, "f", exact=True)
    return (
        None
        if a is None
        else Drawn(apply(draw(st.sampled_from(("floor", "ceil", "trunc", "round", "abs", "negative", "sign"))), a.node), True)
    )


def compare(draw: st.DrawFn, pool: list[Drawn]) -> Drawn | None:
    a, b = pick(draw, pool, "iuf", exact=True), pick(draw, pool, "iuf", exact=True)
    if a is None or b is None:
        return None
    return Drawn(apply(draw(st.sampled_from(("less", "greater_equal", "equal", "not_equal"))), a.node, b.node), True)


def choose(draw: st.DrawFn, pool: list[Drawn]) -> Drawn | None:
    c, a, b = pick(draw, pool, "b", exact=True), pick(draw, pool, "iufc"), pick(draw, pool, "iufc")
    if c is None or a is None or b is None:
        return None
    return Drawn(elementwise.where(c.node, a.node, b.node), a.exact and b.exact)


def convert(draw: st.DrawFn, pool: list[Drawn]) -> Drawn | None:
    a = draw(st.sampled_from(pool))
    target = draw(st.sampled_from(ALL))
    if (a.node.dtype.kind == "c" and target.kind != "c") or (not a.exact and target.kind in "biu"):
        return None
    return tamed(Drawn(cast(a.node, target), a.exact))


def view(draw: st.DrawFn, pool: list[Drawn]) -> Drawn | None:
    a = draw(st.sampled_from(pool))
    x = a.node
    kind = draw(st.integers(0, 5))
    if kind == 0:
        x = shape.transpose(x)
    elif kind == 1 and x.shape:
        x = shape.flip(x, draw(st.integers(0, len(x.shape) - 1)))
    elif kind == 2:
        x = shape.reshape(x, (-1,) if 0 not in x.shape else (0,))
    elif kind == 3 and x.shape and x.shape[0] > 1:
        x = index.getitem(x, slice(draw(st.integers(0, 1)), None, draw(st.integers(1, 2))))
    elif kind == 4 and x.shape:
        x = shape.roll(x, draw(st.integers(-3, 3)), draw(st.integers(0, len(x.shape) - 1)))
    elif kind == 5 and x.shape:
        mode = draw(st.sampled_from(MODES))
        offset = draw(st.integers(-1, 1)) if min(x.shape) > 1 else 0
        x = shape.shift(x, [offset] * len(x.shape), [mode] * len(x.shape), 2)
    return Drawn(x, a.exact)


def join(draw: st.DrawFn, pool: list[Drawn]) -> Drawn | None:
    a = draw(st.sampled_from(pool))
    b = draw(st.sampled_from([d for d in pool if d.node.type == a.node.type]))
    function = shape.stack if draw(st.booleans()) or not a.node.shape else shape.concat
    return Drawn(function([a.node, b.node], draw(st.integers(0, max(len(a.node.shape) - 1, 0)))), a.exact and b.exact)


def reduction(draw: st.DrawFn, pool: list[Drawn]) -> Drawn | None:
    a = pick(draw, pool, "biuf")
    if a is None or 0 in a.node.shape:
        return None
    axis = draw(st.sampled_from((None, 0, -1))) if a.node.shape else None
    keep = draw(st.booleans())
    name = draw(st.sampled_from(("sum", "mean", "max", "min", "any", "all", "argmax", "cumulative_sum", "var")))
    float_like = a.node.dtype.kind == "f"
    if name in ("any", "all") and not a.exact:
        return None
    if name in ("argmax", "argmin") and not a.exact:
        return None
    if name == "cumulative_sum":
        return tamed(Drawn(reduce.cumulative_sum(a.node, axis=axis), a.exact and not float_like))
    made = getattr(reduce, name)(a.node, axis=axis, keepdims=keep)
    exact = a.exact and (name in ("max", "min", "any", "all", "argmax") or (name == "sum" and not float_like))
    return tamed(Drawn(made, exact))


def product(draw: st.DrawFn, pool: list[Drawn]) -> Drawn | None:
    a = pick(draw, pool, "f")
    if a is None or len(a.node.shape) != 2:
        return None
    return tamed(Drawn(linear.matmul(a.node, shape.transpose(a.node)), False))


def replace(draw: st.DrawFn, pool: list[Drawn]) -> Drawn | None:
    a = draw(st.sampled_from(pool))
    if not a.node.shape or a.node.shape[0] < 2:
        return None
    key = slice(1, None) if draw(st.booleans()) else [1, 0]
    source = index.getitem(a.node, slice(None, -1)) if isinstance(key, slice) else index.getitem(a.node, [0, 1])
    return Drawn(index.setitem(a.node, key, source), a.exact)


def looped(draw: st.DrawFn, pool: list[Drawn]) -> Drawn | None:
    a = pick(draw, pool, "f")
    if a is None:
        return None
    trips = draw(st.integers(0, 5))
    crossing = draw(st.booleans()) and bool(a.node.shape)

    def body(k: Node, carries: list[Node]) -> tuple[list[Node], list[Node]]:
        x = carries[0]
        moved = shape.roll(x, 1, 0) if crossing else x
        return [
            elementwise.clip(
                apply("add", apply("multiply", moved, 0.5), apply("multiply", a.node, apply("multiply", k, 0.125))), -8.0, 8.0
            )
        ], []

    [result], _ = control.loop(trips, [a.node], body)
    return Drawn(result, a.exact)


MAKERS = (
    binary,
    binary,
    with_number,
    integer,
    smooth,
    rounding,
    compare,
    choose,
    convert,
    view,
    view,
    join,
    reduction,
    reduction,
    product,
    replace,
    looped,
)
