# ruff: noqa: RUF043
"""NumPy beside gla, names and dtypes: semantics.md, sections 3 and 4."""

import operator

import numpy as np
import pytest

import gla

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "complex64", "complex128"]  # fmt: skip


def A(values, dtype=None):
    return gla.asarray(np.array(values), dtype)


def N(x):
    return np.array(np.asarray(x))


OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow, operator.lt,
    operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
]  # fmt: skip


@pytest.mark.parametrize("op", OPERATORS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("other", [2, 1.5, np.float32(2), np.float64(1.5), np.array([1.0, 2.0, 3.0]), np.array(2.0)], ids=repr)
def test_numpy_and_python_operands_on_either_side(op, other):
    n = np.array([1.0, 2.5, 4.0])
    x = A(n)
    for given, expected in ((op(x, other), op(n, other)), (op(other, x), op(other, n))):
        assert isinstance(given, gla.Array)
        np.testing.assert_allclose(N(given), expected, rtol=1e-15)
        assert N(given).dtype == expected.dtype


@pytest.mark.parametrize(
    "op", [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift], ids=lambda f: f.__name__
)
def test_integer_operators(op):
    n, m = np.array([1, 2, 12]), np.array([3, 1, 2])
    assert N(op(A(n), m)).tolist() == op(n, m).tolist()
    assert N(op(m, A(n))).tolist() == op(m, n).tolist()
    assert N(op(A(n), 2)).tolist() == op(n, 2).tolist()
    assert N(~A(n)).tolist() == (~n).tolist()


def test_matmul_with_numpy_on_either_side():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    for r in (A(a) @ b, a @ A(b)):
        assert isinstance(r, gla.Array)
        np.testing.assert_allclose(N(r), a @ b)


@pytest.mark.parametrize(
    "name",
    ["sin", "exp", "sqrt", "absolute", "negative", "isnan", "floor", "square", "sign", "log1p", "arctan", "rint", "conjugate"],
)
def test_numpy_ufuncs_of_one_array(name):
    n = np.array([0.25, 1.0, 2.0])
    r = getattr(np, name)(A(n))
    assert isinstance(r, gla.Array)
    np.testing.assert_allclose(N(r), getattr(np, name)(n), rtol=1e-14)


@pytest.mark.parametrize(
    "name", ["add", "maximum", "arctan2", "power", "hypot", "less", "copysign", "fmod", "true_divide", "logaddexp"]
)
def test_numpy_ufuncs_of_two(name):
    n, m = np.array([0.25, 1.0, 2.0]), np.array([2.0, 1.0, 0.5])
    for r in (getattr(np, name)(A(n), m), getattr(np, name)(n, A(m))):
        assert isinstance(r, gla.Array)
        np.testing.assert_allclose(N(r), getattr(np, name)(n, m), rtol=1e-14)


def test_numpy_functions_and_refusals():
    x = A([[1.0, 2.0], [3.0, 4.0]])
    assert float(np.sum(x)) == 10
    assert N(np.mean(x, axis=0)).tolist() == [2.0, 3.0]
    assert N(np.concatenate([x, x])).shape == (4, 2)
    assert N(np.add.reduce(x)).tolist() == [4.0, 6.0]
    with pytest.raises(gla.DtypeError, match="np.asarray"):
        np.linalg.svd(x)


def test_asarray_gives_a_copy():
    x = A([1.0, 2.0])
    n = np.asarray(x)
    n[0] = 9
    assert N(x).tolist() == [1.0, 2.0]
    source = np.array([1.0, 2.0])
    y = gla.asarray(source)
    source[0] = 9
    assert N(y).tolist() == [1.0, 2.0]
    assert np.asarray(x, dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize(
    "values",
    [3, 2.5, True, 1j, [1, 2], [[1.0], [2.0]], [True, False], [], [[]], (1, 2.0), [np.float32(1), np.float32(2)], b"ab"[0]],
)
def test_asarray_of_python_values_is_numpys(values):
    x, n = gla.asarray(values), np.asarray(values)
    assert (x.shape, x.dtype) == (n.shape, n.dtype.name)
    assert N(x).tolist() == n.tolist()


def test_asarray_of_arrays_in_lists():
    x = A([1.0, 2.0])
    assert N(gla.asarray([x, x * 2])).tolist() == [[1, 2], [2, 4]]
    assert gla.asarray(x) is x


@pytest.mark.parametrize("bad", ["text", object(), ["a"], [[1], [1, 2]], np.array(["a"]), np.array([None])])
def test_asarray_refuses_what_is_no_number(bad):
    with pytest.raises((gla.DtypeError, gla.ShapeError)):
        gla.asarray(bad)


def test_asarray_refuses_integers_that_do_not_fit():
    with pytest.raises(gla.RangeError, match="int8"):
        gla.asarray([1, 300], "int8")
    with pytest.raises(gla.RangeError):
        gla.asarray(2**70)


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_every_dtype_is_created_cast_and_printed(dtype):
    x = gla.asarray([0, 1, 1], dtype)
    assert x.dtype == getattr(gla, dtype)
    assert f"dtype={dtype}" in repr(x)
    assert N(x.astype("complex128")).tolist() == [0, 1, 1]
    assert x.astype(x.dtype).dtype is x.dtype
    assert N(gla.ones(2, dtype=dtype).astype("complex128")).tolist() == [1, 1]


@pytest.mark.parametrize("a", DTYPES)
@pytest.mark.parametrize("b", DTYPES)
def test_result_type_is_numpys(a, b):
    if "uint64" in (a, b) and {"int8", "int16", "int32", "int64"} & {a, b}:
        with pytest.raises(gla.DtypeError):
            gla.result_type(a, b)
        return
    assert gla.result_type(a, b) == np.result_type(a, b).name
    assert gla.result_type(gla.asarray([1], a), getattr(gla, b)) == np.result_type(a, b).name


def test_weak_scalars_lose_their_weakness_when_kept():
    assert (A([1.0], "float32") * gla.asarray(2.0)).dtype == gla.float64
    assert (A([1.0], "float32") * gla.sin(2.0)).dtype == gla.float64

    @gla.function
    def f(x, dt):
        return x * gla.sin(dt) * 2, dt * 2

    x, t = f(A([1.0], "float32"), 0.5)
    assert (x.dtype, t.dtype) == (gla.float32, gla.float64)


def test_complex_to_real_is_refused():
    with pytest.raises(gla.DtypeError, match="imaginary"):
        A([1j]).astype("float64")
    z = A([3 + 4j])
    assert (float(z.real[0]), float(z.imag[0]), float(abs(z)[0])) == (3, 4, 5)


def test_namespace_of_the_array_api():
    x = A([[3.0, 1.0], [2.0, 4.0]])
    xp = x.__array_namespace__()
    assert xp is gla
    for name in (
        "concat",
        "permute_dims",
        "matrix_transpose",
        "cumulative_sum",
        "astype",
        "isdtype",
        "finfo",
        "pow",
        "bitwise_invert",
        "expand_dims",
        "tril",
        "vecdot",
        "pi",
        "newaxis",
    ):
        assert hasattr(xp, name), name
    assert N(xp.permute_dims(x, (1, 0))).tolist() == N(x).T.tolist()
    assert N(xp.stack([x, x], axis=1)).shape == (2, 2, 2)
    assert N(xp.tril(x)).tolist() == np.tril(N(x)).tolist()
    assert N(xp.take(x, [1, 0], axis=0)).tolist() == N(x)[[1, 0]].tolist()
    assert N(xp.roll(x, 1, axis=1)).tolist() == np.roll(N(x), 1, 1).tolist()
    assert [N(p).tolist() for p in xp.unstack(x)] == N(x).tolist()
    assert [N(p).tolist() for p in xp.meshgrid(A([1, 2]), A([3, 4, 5]))] == [p.tolist() for p in np.meshgrid([1, 2], [3, 4, 5])]
    assert N(xp.zeros_like(x)).tolist() == [[0, 0], [0, 0]]
    assert N(xp.full_like(x, 7)).tolist() == [[7, 7], [7, 7]]
    assert xp.finfo("float32").bits == 32 and xp.iinfo("int8").max == 127
    assert xp.isdtype(xp.float32, "real floating") and not xp.isdtype(xp.int8, ("bool", "complex floating"))


def test_methods_of_numpy():
    n = np.random.default_rng(0).random((3, 4))
    x = A(n)
    for name in ("sum", "mean", "std", "var", "max", "min", "prod"):
        np.testing.assert_allclose(float(getattr(x, name)()), getattr(n, name)(), rtol=1e-14)
        np.testing.assert_allclose(N(getattr(x, name)(0)), getattr(n, name)(0), rtol=1e-14)
        np.testing.assert_allclose(
            N(getattr(x, name)(axis=1, keepdims=True)), getattr(n, name)(axis=1, keepdims=True), rtol=1e-14
        )
    assert N(x.reshape(2, -1)).tolist() == n.reshape(2, -1).tolist()
    assert N(x.T).tolist() == n.T.tolist()
    assert N(x.transpose(1, 0)).tolist() == n.T.tolist()
    assert int(x.argmax()) == n.argmax()


KEYS = [0, -1, slice(1, None), (slice(None), 1), (Ellipsis, 0), (None, 1), (slice(None, None, -2),), ([0, 2],), ([0, 2], slice(1, 3)), (slice(None), [1, 1]), ([[0], [1]], [0, 1]), (1, [0, 2]), np.array([2, 0]), (slice(None), np.array([True, False, True, False]))]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_indexing_reads_and_writes_as_numpy(key):
    n = np.arange(12.0).reshape(3, 4)
    x = A(n)
    assert N(x[key]).tolist() == n[key].tolist()
    n[key] = -1.0
    x[key] = -1.0
    assert N(x).tolist() == n.tolist()


def test_indices_may_be_arrays_of_gla():
    x = A([10.0, 20.0, 30.0])
    i = A([2, -1, 0])
    assert N(x[i]).tolist() == [30.0, 30.0, 10.0]
    assert float(x[A(1)]) == 20.0
    f = gla.function(lambda x, i: x[i])
    assert N(f(x, i)).tolist() == [30.0, 30.0, 10.0]
    x[A([0, 1])] = [1.0, 2.0]
    assert N(x).tolist() == [1.0, 2.0, 30.0]


def test_indices_out_of_range_name_axis_and_extent():
    x = A([1.0, 2.0])
    for key in (2, [0, 5], (0, 0)):
        with pytest.raises(IndexError):
            x[key]


def test_devices():
    x = A([1.0])
    assert x.device == "host" and x.to("host") is x and x.to("cpu") is x
    with gla.device("host"):
        assert gla.zeros(1).device == "host"
    with pytest.raises(gla.DeviceError, match="nowhere"):
        gla.device("nowhere")
    gla.synchronize()


def test_operands_on_two_devices_are_refused(monkeypatch):
    x, y = A([1.0]), A([2.0])
    y._device = "cuda:0"
    with pytest.raises(gla.DeviceError, match=r"host.*cuda:0"):
        x + y
    y._device = "host"


def test_creation_functions():
    assert N(gla.arange(3)).tolist() == [0, 1, 2] and gla.arange(3).dtype == gla.int64
    assert gla.arange(3.0).dtype == gla.float64
    assert N(gla.eye(2, 3, k=1)).tolist() == np.eye(2, 3, 1).tolist()
    assert gla.full((2,), 3).dtype == gla.int64 and gla.full((2,), 3.0).dtype == gla.float64
    assert gla.zeros(2, dtype="int32").dtype == gla.int32
    assert gla.full((2, 2), A(1.5)).tolist() == [[1.5, 1.5]] * 2
    with pytest.raises(gla.ShapeError):
        gla.zeros(-1)
