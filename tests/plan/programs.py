"""The programs of the language's examples as IR graphs, small: what their planning should come to is tested and snapshotted."""

from __future__ import annotations

from gla import dtypes
from gla.dtypes import DType
from gla.ir.builder import apply, constant
from gla.ir.functions import random, reduce
from gla.ir.functions.control import loop, while_loop
from gla.ir.functions.create import full, zeros
from gla.ir.functions.elementwise import clip, power, where
from gla.ir.functions.index import getitem, setitem
from gla.ir.functions.linear import matmul
from gla.ir.functions.shape import expand_dims, shift, stack
from gla.ir.graph import Graph, new_input
from gla.ir.node import Node
from gla.ir.types import Type

ALL = slice(None)


def array(name: str, *shape: int, dtype: DType = dtypes.float64) -> Node:
    return new_input(Type(dtype, shape), name)


def scalar(name: str) -> Node:
    return new_input(Type(dtypes.float64, (), True), name, scalar=True)


def add(*xs: Node | float) -> Node:
    out = xs[0]
    for x in xs[1:]:
        out = apply("add", out, x)
    return out


def mul(*xs: Node | float) -> Node:
    out = xs[0]
    for x in xs[1:]:
        out = apply("multiply", out, x)
    return out


def sub(x: Node | float, y: Node | float) -> Node:
    return apply("subtract", x, y)


def rk4(f, y: Node, h: Node) -> Node:
    k1 = f(y)
    k2 = f(add(y, mul(0.5, h, k1)))
    k3 = f(add(y, mul(0.5, h, k2)))
    k4 = f(add(y, mul(h, k3)))
    return add(y, mul(apply("divide", h, 6.0), add(k1, mul(2.0, k2), mul(2.0, k3), k4)))


def lorenz_rhs(rho: Node):
    def f(s: Node) -> Node:
        x, y, z = (getitem(s, (ALL, k)) for k in range(3))
        return stack([mul(10.0, sub(y, x)), sub(mul(x, sub(rho, z)), y), sub(mul(x, y), mul(8.0 / 3.0, z))], 1)

    return f


def lorenz(n: int = 64, steps: int = 105, every: int = 10) -> Graph:
    s, dt, rho = array("s", n, 3), scalar("dt"), scalar("rho")

    def body(k: Node, carries: list[Node]) -> tuple[list[Node], list[Node]]:
        after = rk4(lorenz_rhs(rho), carries[0], dt)
        return [after], [getitem(after, 0)]

    (final,), (track,) = loop(steps, [s], body, [every])
    return Graph((s, dt, rho), (track, final))


def heat(n: int = 33, steps: int = 12) -> Graph:
    u, r = array("u", n, n), scalar("r")

    def step(k: Node, carries: list[Node]) -> tuple[list[Node], list[Node]]:
        return [_interior(carries[0], r)], []

    (after,), _ = loop(steps, [u], step)
    return Graph((u, r), (reduce.max(after),), ((u, after),))


def _neighbour(u: Node, di: int, dj: int, modes: tuple[str, str] = ("periodic", "periodic")) -> Node:
    return shift(u, (di, dj), modes)


def _laplacian(u: Node, modes: tuple[str, str] = ("periodic", "periodic")) -> Node:
    around = [_neighbour(u, *d, modes) for d in ((-1, 0), (1, 0), (0, -1), (0, 1))]
    return sub(add(*around), mul(4.0, u))


def _interior(u: Node, r: Node) -> Node:
    inner = (slice(1, -1), slice(1, -1))
    around = [
        getitem(u, p)
        for p in ((slice(0, -2), inner[1]), (slice(2, None), inner[1]), (inner[0], slice(0, -2)), (inner[0], slice(2, None)))
    ]
    middle = getitem(u, inner)
    return setitem(u, inner, add(middle, mul(r, sub(add(*around), mul(4.0, middle)))))


def heat_step(n: int = 33) -> Graph:
    u, r = array("u", n, n), scalar("r")
    return Graph((u, r), (), ((u, _interior(u, r)),))


def gray_scott_step(n: int = 32) -> Graph:
    f32 = dtypes.float32
    u, v = array("u", n, n, dtype=f32), array("v", n, n, dtype=f32)
    lu, lv, uvv = _laplacian(u), _laplacian(v), mul(u, v, v)
    feed, kill = scalar("F"), scalar("k")
    new_u = add(sub(add(u, mul(0.16, lu)), uvv), mul(feed, sub(1.0, u)))
    new_v = sub(add(v, mul(0.08, lv), uvv), mul(add(feed, kill), v))
    return Graph((u, v, feed, kill), (new_u, new_v))


def jacobi(n: int = 17) -> Graph:
    tol = scalar("tol")
    p = setitem(zeros((n, n)), (0, ALL), 1.0)

    def test(c: list[Node]) -> Node:
        return apply("greater", c[1], tol)

    def body(c: list[Node]) -> list[Node]:
        inner = (slice(1, -1), slice(1, -1))
        parts = [
            getitem(c[0], q)
            for q in (
                (slice(0, -2), inner[1]),
                (slice(2, None), inner[1]),
                (inner[0], slice(0, -2)),
                (inner[0], slice(2, None)),
            )
        ]
        q = setitem(c[0], inner, mul(0.25, add(*parts)))
        return [q, reduce.max(apply("abs", sub(q, c[0]))), add(c[2], 1)]

    (field, error, count), trips, _ = while_loop(test, body, [p, constant(float("inf")), constant(0)], 2000)
    return Graph((tol,), (field, error, count, trips))


def accel(pos: Node, mass: Node, eps: Node) -> Node:
    d = sub(expand_dims(pos, 0), expand_dims(pos, 1))
    r2 = add(reduce.sum(mul(d, d), axis=-1), mul(eps, eps))
    weight = apply("divide", mass, mul(r2, apply("sqrt", r2)))
    return reduce.sum(mul(expand_dims(weight, -1), d), axis=1)


def nbody_step(n: int = 24) -> Graph:
    pos, vel, mass, eps, h = array("pos", n, 3), array("vel", n, 3), array("mass", n), scalar("eps"), scalar("h")
    half = add(vel, mul(0.5, h, accel(pos, mass, eps)))
    after = add(pos, mul(h, half))
    return Graph((pos, vel, mass, eps, h), (after, add(half, mul(0.5, h, accel(after, mass, eps)))))


def mlp(batch: int = 8) -> Graph:
    f32 = dtypes.float32
    shapes = {"x": (batch, 20), "w1": (20, 16), "b1": (16,), "w2": (16, 16), "b2": (16,), "w3": (16, 10), "b3": (10,)}
    x, w1, b1, w2, b2, w3, b3 = (array(name, *shape, dtype=f32) for name, shape in shapes.items())
    h = apply("maximum", add(matmul(x, w1), b1), 0.0)
    h = apply("maximum", add(matmul(h, w2), b2), 0.0)
    p = add(matmul(h, w3), b3)
    e = apply("exp", sub(p, reduce.max(p, axis=-1, keepdims=True)))
    prob = apply("divide", e, reduce.sum(e, axis=-1, keepdims=True))
    return Graph((x, w1, b1, w2, b2, w3, b3), (reduce.argmax(p, axis=-1), prob))


def pi(batch: int = 1000, rounds: int = 5) -> Graph:
    seed = new_input(Type(dtypes.uint64), "seed", scalar=True)
    key = random.key(seed)

    def body(r: Node, carries: list[Node]) -> tuple[list[Node], list[Node]]:
        p = random.uniform(random.fold(key, r), (batch, 2))
        return [], [mul(4.0, reduce.mean(apply("less", reduce.sum(mul(p, p), axis=1), 1.0)))]

    _, (means,) = loop(rounds, [], body, [1])
    return Graph((seed,), (means, reduce.mean(means), reduce.std(means)))


def van_der_pol(limit: int = 200) -> Graph:
    """An adaptive method: everything scalar but the state of two, which is taken apart."""
    mu, t1 = scalar("mu"), scalar("t1")

    def f(y: Node) -> Node:
        a, b = getitem(y, 0), getitem(y, 1)
        return stack([b, sub(mul(mu, sub(1.0, mul(a, a)), b), a)], 0)

    def test(c: list[Node]) -> Node:
        return apply("less", c[0], t1)

    def body(c: list[Node]) -> list[Node]:
        t, h, y = c
        h = apply("minimum", h, sub(t1, t))
        k1 = f(y)
        k2 = f(add(y, mul(h, k1)))
        e = mul(0.5, h, sub(k2, k1))
        scale = add(1e-6, mul(1e-4, apply("maximum", apply("abs", y), 1.0)))
        ratio = apply("divide", e, scale)
        error = apply("sqrt", reduce.mean(mul(ratio, ratio)))
        ok = apply("less_equal", error, 1.0)
        following = where(ok, add(y, mul(0.5, h, add(k1, k2))), y)
        return [where(ok, add(t, h), t), mul(h, clip(mul(0.9, power(add(error, 1e-12), -0.5)), 0.2, 5.0)), following]

    start = stack([full((), 2.0), full((), 0.0)], 0)
    (t, _, y), trips, going = while_loop(test, body, [constant(0.0), constant(0.01), start], limit)
    return Graph((mu, t1), (t, y, trips, going))


def decay(steps: int = 40) -> Graph:
    """A scalar equation, every step kept."""
    h = scalar("h")

    def body(k: Node, carries: list[Node]) -> tuple[list[Node], list[Node]]:
        after = rk4(lambda v: apply("negative", v), carries[0], h)
        return [after], [after]

    (last,), (track,) = loop(steps, [constant(1.0)], body, [1])
    return Graph((h,), (track, last))
