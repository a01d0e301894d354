# ruff: noqa: B023, PLW0108, RUF012, RUF015
"""What a `gla.function` sees: semantics.md, section 2, and functions as people write them (cases g94-g145)."""

import collections
import copy
import dataclasses
import enum
import functools
import gc
import pickle
import weakref

import numpy as np
import pytest

import gla


class Log:
    """What a body notes while it is traced. A class is not looked into by guards, a list of the closure would be."""

    runs: list = []


@pytest.fixture
def runs():
    Log.runs.clear()
    return Log.runs


def A(values, dtype=None):
    return gla.asarray(np.array(values), dtype)


def N(x):
    return np.array(np.asarray(x))


# --- signatures
def test_the_body_runs_once_a_signature(runs):
    @gla.function
    def f(x):
        Log.runs.append(x.shape)
        return x + 1

    for n in (2, 2, 3, 2):
        f(A(np.zeros(n)))
    f(A(np.zeros(2), "float32"))
    assert runs == [(2,), (3,), (2,)]


def test_a_new_number_traces_and_instantiates_nothing():
    @gla.function
    def f(x, s, n):
        return x * s + n

    x = A([1.0, 2.0])
    f(x, 1.0, 1)
    for k in range(5):
        assert N(f(x, k / 3, k)).tolist() == [k / 3 + k, 2 * (k / 3) + k]
    assert f.stats().plans == 1
    assert f.stats().calls == 6


def test_int_and_float_are_two_signatures():
    @gla.function
    def f(x, s):
        return x * s

    x = A([1, 2])
    assert f(x, 2).dtype == gla.int64
    assert f(x, 2.0).dtype == gla.float64
    assert f(A([1, 2], "int8"), 2).dtype == gla.int8


@pytest.mark.parametrize("values", [(True, False), ("a", "b"), (None, 0.0), (gla.float32, gla.float64)])
def test_flags_strings_none_and_dtypes_count_by_value(values, runs):
    @gla.function
    def f(x, mode):
        Log.runs.append(mode if not isinstance(mode, gla.Array) else "number")
        return x + 1

    for mode in (*values, *values):
        f(A([1.0]), mode)
    assert len(runs) == 2


def test_enums_count_by_value():
    Mode = enum.Enum("Mode", "one two")

    @gla.function
    def f(x, mode):
        return x + 1 if mode is Mode.one else x + 2

    assert [float(f(A([0.0]), m)[0]) for m in (Mode.one, Mode.two, Mode.one)] == [1, 2, 1]


@dataclasses.dataclass(frozen=True)
class State:
    u: gla.Array
    more: list
    name: str = "s"


def test_g98_structures_are_inputs_leaf_by_leaf():
    @gla.function
    def f(items):
        return items[0] + items[1]["b"][0]

    x = A([0.0])
    assert [float(f([x, {"b": (A([float(k)]),)}])[0]) for k in range(1, 6)] == [1, 2, 3, 4, 5]
    assert f.stats().plans == 1

    Pair = collections.namedtuple("Pair", "a b")

    @gla.function
    def g(state, pair):
        return State(state.u + pair.a, [state.more[0] * pair.b], "t"), Pair(pair.b, [1, "x"])

    state, pair = g(State(A([1.0]), [A([2.0])]), Pair(A([10.0]), 3.0))
    assert isinstance(state, State) and state.name == "t"
    assert (N(state.u).tolist(), N(state.more[0]).tolist()) == ([11.0], [6.0])
    assert isinstance(pair, Pair) and float(pair.a) == 3.0 and pair.b == [1, "x"]


def test_other_lengths_and_keys_are_other_signatures_and_unknown_leaves_are_named():
    @gla.function
    def f(d):
        return sum(d.values())

    assert float(f({"a": A([1.0])})[0]) == 1
    assert float(f({"a": A([1.0]), "b": A([2.0])})[0]) == 3
    assert f.stats().plans == 2
    with pytest.raises(gla.DtypeError, match="generator"):
        f({"a": (k for k in range(3))})


def test_returned_structures_keep_identity_of_arrays():
    @gla.function
    def f(x):
        y = x + 1
        return y, [y, x], None

    y, (again, x2), none = f(A([1.0]))
    assert again is y and none is None
    y += 1
    assert N(x2).tolist() == [1.0]


# --- static
def test_static_arguments_count_by_value():
    @gla.function(static=("n",))
    def f(x, n):
        for _ in range(n):
            x = x + 1
        return x

    assert [float(f(A([0.0]), n)[0]) for n in (1, 3, 3, 1)] == [1, 3, 3, 1]
    assert f.stats().plans == 2


def test_g145_static_arguments_are_hashable_and_never_a_wrong_hit():
    @gla.function(static=("c",))
    def f(x, c):
        return x * c.k if hasattr(c, "k") else x * c

    with pytest.raises(gla.DtypeError, match="hashable"):
        f(A([1.0]), [1])
    with pytest.raises(gla.DtypeError, match="array"):
        f(A([1.0]), A([1.0]))

    class Config:
        def __init__(self, k):
            self.k = k

    class Hashed(Config):
        def __hash__(self):
            return 1

        def __eq__(self, other):
            return True

    for kind in (Config, Hashed):
        c = kind(2.0)
        assert float(f(A([1.0]), c)[0]) == 2
        c.k = 5.0
        assert float(f(A([1.0]), c)[0]) == 5
    assert [N(f(A([1]), c)).dtype for c in (1, 1.0, True)] == [np.int64, np.float64, np.int64]


def test_static_names_no_parameter():
    with pytest.raises(gla.DtypeError, match="no parameter"):
        gla.function(lambda x: x, static=("n",))


@pytest.mark.parametrize(
    "body",
    [
        lambda x, n: [x for _ in range(n)][0],
        lambda x, n: gla.zeros(n),
        lambda x, n: x[:n],
        lambda x, n: x if n else x + 1,
        lambda x, n: x if n > 2 else x + 1,
        lambda x, n: x.reshape(n),
        lambda x, n: x * [1.0, 2.0][n],
        lambda x, n: x * float(n),
    ],
)
def test_a_runtime_scalar_as_a_number_advises_static(body):
    f = gla.function(body)
    with pytest.raises(gla.TraceError, match=r'static=\("n",\)'):
        f(A([1.0]), 1)


def test_bool_of_a_traced_value_shows_the_rewrites():
    def f(x):
        if gla.any(x > 0):
            return x
        return -x

    with pytest.raises(gla.TraceError) as caught:
        gla.function(f)(A([1.0]))
    text = str(caught.value)
    assert all(s in text for s in ("gla.where", "gla.cond", "gla.while_loop", "if gla.any(x > 0):", "test_functions.py"))


@pytest.mark.parametrize(
    "look",
    [float, int, complex, np.asarray, lambda x: x.tolist(), lambda x: x.item(), str, lambda x: x.numpy(), gla.eval],
)
def test_other_looks_inside_a_trace_are_refused(look):
    @gla.function
    def f(x):
        look(x)
        return x

    with pytest.raises(gla.TraceError):
        f(A([1.0]))


# --- guards
def test_g94_attributes_of_self_are_guarded():
    class M:
        k = 2.0

        @gla.function
        def go(self, x):
            return x * self.k

    m = M()
    x = A([1.0])
    assert float(m.go(x)[0]) == 2
    m.k = 5.0
    assert float(m.go(x)[0]) == 5
    m.k = A([7.0])
    assert float(m.go(x)[0]) == 7
    m.k = 2.0
    assert float(m.go(x)[0]) == 2
    other = M()
    other.k = 3.0
    assert [float(o.go(x)[0]) for o in (m, other, m)] == [2, 3, 2]


def test_g96_lambdas_of_a_loop():
    fs = [gla.function(lambda x, i=i: x + i) for i in range(3)]
    assert [float(f(A([1.0]))[0]) for f in fs] == [1, 2, 3]
    late = [gla.function(lambda x: x + i) for i in range(3)]
    assert [float(f(A([1.0]))[0]) for f in late] == [3, 3, 3]


def test_closure_cells_are_guarded():
    k = 2.0

    @gla.function
    def f(x):
        return x * k

    x = A([1.0])
    assert float(f(x)[0]) == 2
    k = 3.0
    assert float(f(x)[0]) == 3
    k = A([4.0])
    assert float(f(x)[0]) == 4
    k = A([5.0])
    assert float(f(x)[0]) == 5
    assert f.stats().plans == 3  # 2.0, 3.0, an array


FACTOR = 2.0
TABLE = np.array([1.0, 2.0])
STATE = None


def helper(x):
    return x * FACTOR


def test_globals_of_reached_functions_are_guarded():
    global FACTOR
    f = gla.function(lambda x: helper(x) + 1)
    try:
        assert float(f(A([1.0]))[0]) == 3
        FACTOR = 10.0
        assert float(f(A([1.0]))[0]) == 11
    finally:
        FACTOR = 2.0
    assert float(f(A([1.0]))[0]) == 3
    assert f.stats().plans == 2


def test_defaults_of_reached_functions_are_guarded():
    def scale(x, k=2.0):
        return x * k

    f = gla.function(lambda x: scale(x))
    assert float(f(A([1.0]))[0]) == 2
    scale.__defaults__ = (3.0,)
    assert float(f(A([1.0]))[0]) == 3


def test_replaced_globals_and_functions_are_noticed():
    def inner(x):
        return x + 1

    f = gla.function(lambda x: inner(x))
    assert float(f(A([0.0]))[0]) == 1

    def inner(x):  # noqa: F811
        return x + 2

    assert float(f(A([0.0]))[0]) == 2


def test_g135_numpy_arrays_of_the_closure_are_read_anew():
    v = np.arange(5.0)[::-1]
    f = gla.function(lambda x: x + v)
    assert N(f(A(np.zeros(5)))).tolist() == [4, 3, 2, 1, 0]
    v[0] = 10.0
    assert N(f(A(np.zeros(5)))).tolist() == [10, 3, 2, 1, 0]
    g = gla.function(lambda x: x * TABLE.sum())
    assert float(g(A([1.0]))[0]) == 3
    TABLE[0] = 5.0
    assert float(g(A([1.0]))[0]) == 7
    TABLE[0] = 1.0


def test_lists_of_the_closure_are_guarded_by_content():
    weights = [1.0, 2.0]
    f = gla.function(lambda x: x * weights[0] + weights[1])
    assert float(f(A([1.0]))[0]) == 3
    weights[1] = 5.0
    assert float(f(A([1.0]))[0]) == 6


def test_an_array_reached_in_another_way_is_refused():
    class Box:
        pass

    box = Box

    Box.hidden = A([1.0])
    f = gla.function(lambda x: x + box.hidden)
    with pytest.raises(gla.TraceError, match="pass it as an argument"):
        f(A([1.0]))


def test_big_closures_are_no_constants():
    big = np.zeros(1_000_000)
    f = gla.function(lambda x: x + big)
    assert len(f.ir(A(np.zeros(1_000_000)))) < 1000


# --- defaults and keywords
def test_g101_defaults_given_or_not_share_one_plan():
    @gla.function
    def f(x, s=2.0):
        return x * s

    x = A([1.0])
    assert [float(r[0]) for r in (f(x), f(x, 2.0), f(x, s=2.0))] == [2, 2, 2]
    assert f.stats().plans == 1
    f.__defaults__ = (3.0,)
    assert float(f(x)[0]) == 3
    assert f.stats().plans == 1


def test_keywords_in_any_order():
    @gla.function
    def f(x, a=1.0, b=2.0):
        return x * a + b

    x = A([1.0])
    calls = [f(x, b=5.0), f(b=5.0, x=x), f(x, 3.0, b=5.0), f(x, b=5.0, a=3.0)]
    assert [float(r[0]) for r in calls] == [6, 6, 8, 8]
    assert f.stats().plans == 1
    for wrong in ({"c": 1.0}, {"x": x}):
        with pytest.raises(TypeError):
            f(x, **wrong)
    with pytest.raises(TypeError):
        f(a=1.0)


def test_variadic_and_keyword_only():
    @gla.function
    def f(x, *rest, scale=1.0, **more):
        for r in rest:
            x = x + r
        return x * scale + more.get("b", 0.0)

    assert float(f(A([1.0]), A([2.0]), 3.0, scale=2.0, b=1.0)[0]) == 13
    with pytest.raises(TypeError):
        gla.function(lambda x: x)()


# --- aliasing
def test_the_same_argument_twice_is_one_variable():
    @gla.function
    def f(a, b):
        a.assign(a + 1)
        return b * 10

    x = A([1.0])
    assert N(f(x, x)).tolist() == [20.0]
    y = A([1.0])
    assert N(f(x, y)).tolist() == [10.0]
    assert (N(x).tolist(), N(y).tolist()) == ([3.0], [1.0])


def test_an_argument_that_is_also_closed_over_is_one_variable():
    x = A([1.0])

    @gla.function
    def f(a):
        a += 1
        return x * 10

    assert N(f(x)).tolist() == [20.0]


def test_partial_overlap_with_a_written_argument_is_refused():
    @gla.function
    def f(a, b):
        a.assign(a + b)

    x = A([1.0, 2.0, 3.0])
    with pytest.raises(gla.AliasError, match=r"writes a, and b overlaps"):
        f(x[:2], x[1:])
    f(x[:1], x[2:])
    assert N(x).tolist() == [4.0, 2.0, 3.0]


def test_a_function_writes_through_a_view_argument():
    @gla.function
    def f(a):
        a += 10

    x = A([1.0, 2.0, 3.0])
    y = x[1:]
    f(y)
    assert N(x).tolist() == [1.0, 12.0, 13.0]
    assert N(y).tolist() == [12.0, 13.0]


@pytest.mark.parametrize("n", [2, 4, 65, 4097])
def test_a17_g136_reads_after_assign_see_the_new_value(n):
    @gla.function
    def f(a):
        b = a + 1
        a.assign(b)
        c = a + 2
        return a * b / c

    a = A(np.ones(n))
    assert np.all(N(f(a)) == 1.0)
    assert np.all(N(a) == 2.0)


def test_g136_values_read_before_keep_the_old_contents():
    @gla.function
    def f(a):
        b = a + 1
        a.assign(b)
        return a * b / (a + 2)

    a = A([1.0, 3.0])
    assert N(f(a)).tolist() == [1.0, 16 / 6]
    assert N(a).tolist() == [2.0, 4.0]


def test_g75_a_value_through_a_view_before_a_write():
    @gla.function
    def f(x):
        y = x[:, 2:5] * 2
        x[:, 2:5] = 2
        return y

    n = np.arange(12.0).reshape(2, 6)
    x = A(n)
    assert N(f(x)).tolist() == (n[:, 2:5] * 2).tolist()
    assert np.all(N(x)[:, 2:5] == 2)


def test_writes_realise_pending_readers():
    x = A([1.0])
    y = x * 2
    gla.function(lambda a: a.assign(a + 1) and None)
    f = gla.function(lambda a: (a.assign(a + 1), None)[1])
    f(x)
    assert (float(y[0]), float(x[0])) == (2.0, 2.0)


# --- results are fresh
@pytest.mark.parametrize(
    "give", [lambda x: x, lambda x: x + 0, lambda x: x[:], gla.copy, lambda x: x.T, lambda x: x.reshape(2)]
)
def test_a13_results_are_fresh(give):
    x = A([1.0, 2.0])
    r = gla.function(give)(x)
    r[0] = 99
    assert N(x).tolist() == [1.0, 2.0]
    assert N(r).tolist() == [99.0, 2.0]


def test_g10_g11_g125_no_call_overwrites_a_result():
    f = gla.function(lambda x: x + 1)
    assert N(f(A([1.1])) == f(A([1.2]))).tolist() == [False]
    rs = [f(A([float(k)])) for k in range(50)]
    assert [float(N(r)[0]) for r in rs] == [k + 1.0 for k in range(50)]
    total = gla.function(lambda v: gla.sum(v))
    assert [float(r) for r in [total(A([k, k])) for k in (1, 2, 3)]] == [2, 4, 6]


def test_g13_kept_dropped_or_rebound():
    f = gla.function(lambda a, b: a + b)
    a, b = A([1.0]), A([2.0])
    for _ in range(3):
        f(a, b)
        c = f(a, b)
        a = f(a, b)
    assert (float(a[0]), float(c[0])) == (7.0, 7.0)


def test_g137_an_output_fed_back():
    f = gla.function(lambda x: x * 0.5 + 1)
    x, kept = A([0.0]), []
    for k in range(1000):
        if k % 10 == 0:
            kept.append((x, 2 - 2 * 0.5**k))
        x = f(x)
    assert float(x[0]) == 2.0
    assert all(float(old[0]) == value for old, value in kept)
    stats = f.stats()
    assert (stats.plans, stats.kernels) == (1, 1)


def test_a_python_loop_goes_at_replay_price():
    f = gla.function(lambda u: u + 1)
    u = A([0.0])
    for _ in range(1000):
        u = f(u)
    stats = f.stats()
    assert float(u[0]) == 1000
    assert stats.plans == 1 and stats.instantiations <= 3


@pytest.mark.parametrize("keep", [False, True])
def test_loops_over_structures_go_at_replay_price(keep):
    f = gla.function(lambda pair, w: [pair[0] + w[0], pair[1] * w[1]])
    pair, w = [A([0.0]), A([1.0])], [A([1.0]), A([1.0])]
    first = pair if keep else None
    for _ in range(300):
        pair = f(pair, w)
    assert float(pair[0][0]) == 300 and (first is None or float(first[0][0]) == 0)
    assert f.stats().plans == 1 and f.stats().instantiations <= 3


# --- leaks and errors
def test_g114_a_leaked_value_names_function_and_line():
    kept = []

    def leaky(x):
        kept.append(x * 3)
        return x + 1

    f = gla.function(leaky)
    f(A([1.0]))
    for use in (lambda v: v + 1, N, float, lambda v: gla.sin(v), lambda v: gla.function(lambda y: y)(v)):
        with pytest.raises(gla.GlaError, match=r"leaky.*") as caught:
            use(kept[0])
        assert "test_functions.py" in str(caught.value)


def test_an_error_in_the_body_leaves_no_entry():
    fail = True

    @gla.function
    def f(x):
        if fail:
            raise ZeroDivisionError
        return x + 1

    with pytest.raises(ZeroDivisionError):
        f(A([1.0]))
    fail = False
    assert float(f(A([1.0]))[0]) == 2


def test_g129_an_interrupt_leaves_no_entry(runs):
    state = {"stop": True}

    class Key:
        def __hash__(self):
            if state["stop"]:
                raise KeyboardInterrupt
            return 1

    @gla.function(static=("k",))
    def f(x, k):
        return x + 1

    with pytest.raises(KeyboardInterrupt):
        f(A([1.0]), Key())
    state["stop"] = False
    assert float(f(A([1.0]), Key())[0]) == 2

    @gla.function
    def g(x):
        Log.runs.append(1)
        if len(Log.runs) == 1:
            raise KeyboardInterrupt
        return x + 1

    with pytest.raises(KeyboardInterrupt):
        g(A([1.0]))
    assert float(g(A([1.0]))[0]) == 2


def test_a_weak_integer_that_does_not_fit_is_refused_before_anything_runs():
    @gla.function
    def f(x, n):
        x += n
        return x * (n + 100)

    x = A([1, 2], "int8")
    assert N(f(x, 3)).tolist() == [412 - 512 + 0, 515 - 512]  # 4 * 103 and 5 * 103, wrapped
    for bad in (300, -129, 50):
        with pytest.raises(gla.RangeError, match="int8"):
            f(x, bad)
    with pytest.raises(OverflowError):
        f(x, 2**70)
    assert N(x).tolist() == [4, 5]


# --- nesting
def test_nested_functions_inline():
    inner = gla.function(lambda x: x * 2)
    outer = gla.function(lambda x: inner(x) + inner(x + 1))
    assert float(outer(A([1.0]))[0]) == 6
    assert inner.stats().calls == 0


def test_a_nested_result_is_fresh():
    inner = gla.function(lambda x: x)

    @gla.function
    def outer(x):
        r = inner(x)
        r[0] = 99
        return x + 0

    assert N(outer(A([1.0]))).tolist() == [1.0]


def test_g89_recursion_while_tracing():
    @gla.function(static=("n",))
    def power(x, n):
        return x if n == 0 else power(x, n - 1) + 1.0

    assert float(power(A([0.0]), 200)[0]) == 200


def test_numpy_inside_a_body():
    f = gla.function(lambda x: x + np.array([1.0, 2.0]) * np.float64(2.0) + np.sin(x) * 0)
    assert N(f(A([1.0, 2.0]))).tolist() == [3.0, 6.0]
    assert N(f(A([2.0, 2.0]))).tolist() == [4.0, 6.0]


def test_numpy_arguments_and_scalars():
    f = gla.function(lambda x, s: x * s)
    r = f(np.array([1.0, 2.0], np.float32), np.float64(2.0))
    assert isinstance(r, gla.Array) and r.dtype == gla.float64
    assert N(f(np.array([3.0, 4.0], np.float32), np.float64(3.0))).tolist() == [9.0, 12.0]
    assert f.stats().plans == 1


# --- objects
def test_g100_partials_made_again_compile_once():
    def g(k, x):
        return x * k + 41.0

    results, names = [], set()
    for _ in range(20):
        f = gla.function(functools.partial(g, 3))
        results.append(float(f(A([1.0]))[0]))
        names |= {id(e.executable) for e in f._entries.values()}
    assert results == [44.0] * 20
    assert len(names) == 1
    gone = weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None


def test_g119_copies_work_and_lambdas_refuse_pickling_as_python_does():
    f = gla.function(lambda x: x + 1)
    for c in (copy.copy(f), copy.deepcopy(f)):
        assert float(c(A([1.0]))[0]) == 2
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(f)


def test_g146_instances_leave_nothing_behind():
    class M:
        def __init__(self, k):
            self.k = k

        @gla.function
        def go(self, x):
            return x * self.k

    x = A([1.0])
    refs = []
    for k in range(50):
        m = M(float(k))
        assert float(m.go(x)[0]) == k
        refs.append(weakref.ref(m))
    del m
    gc.collect()
    assert not any(r() is not None for r in refs)


def test_threads_trace_once(runs):
    from concurrent.futures import ThreadPoolExecutor

    @gla.function
    def f(x):
        Log.runs.append(1)
        return x * 2

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda k: float(f(A([float(k)]))[0]), range(16))) == [2.0 * k for k in range(16)]
    assert len(runs) == 1


def test_inspection():
    @gla.function
    def f(x, s):
        return gla.sum(x * s)

    x = A(np.ones(100))
    assert "multiply" in f.ir(x, 2.0)
    assert f.plan(x, 2.0).memory["inputs"] == 800
    assert str(f.plan(x, 2.0))
    kernels = f.kernels(x, 2.0)
    assert len(kernels) == 1 and kernels[0].name in kernels[0].text
    assert "known" in f.explain(x, 2.0)
    assert f.stats().calls == 0
    prepared = f.prepare(x, 2.0)
    assert float(prepared()) == 200
    assert float(prepared(A(np.full(100, 2.0)), 3.0)) == 600
    with pytest.raises(gla.DtypeError):
        prepared(A(np.ones(3)), 3.0)
