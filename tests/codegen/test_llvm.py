"""The LLVM printer: every primitive bit for bit against NumPy, on scalars and in lanes; what is vectorised; what is linked."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest

import gla.dtypes as dt
from gla.codegen.kernel import Kernel
from gla.codegen.llvm import geometry, lanes_of, print_llvm
from gla.codegen.loops import lower
from gla.device.base import Parameters
from gla.device.host import HostDevice, jit
from gla.ir.builder import apply, cast
from gla.ir.graph import new_input
from gla.ir.ops import functions
from gla.ir.ops.table import ELEMENTWISE
from gla.ir.types import Type
from gla.plan.steps import Region
from tests import handmade
from tests.handmade import Writer

DEVICE = HostDevice(strict=False, threads=1)
STREAM = DEVICE.create_stream()
RNG = np.random.default_rng(7)
INTEGERS = [dt.int8, dt.int16, dt.int32, dt.int64, dt.uint8, dt.uint16, dt.uint32, dt.uint64]
FLOATS = [dt.float32, dt.float64]
N = 83  # whole vectors of 16 and 32, and a rest


def run(kernel: Kernel, items: int, *values: object) -> None:
    function = DEVICE.function(DEVICE.load(DEVICE.compile(print_llvm(kernel), kernel.name)), kernel.name)
    parameters = Parameters([None if p.kind == "pointer" else p.dtype for p in kernel.parameters])
    for index, value in enumerate(values):
        parameters.set(index, value.ctypes.data if isinstance(value, np.ndarray) else value)
    DEVICE.launch(function, geometry(kernel, items, DEVICE.properties), parameters, STREAM)


def computed(cases, inputs, lanes):
    """`cases`: (name, function of (writer, loaded values) -> Value). All in one kernel, inside a loop of one trip for lanes."""
    w = Writer("cases")
    pointers = [w.pointer(dt.as_dtype(x.dtype)) for x in inputs]
    n, one = w.extent(), w.scalar(dt.int64)
    w.outs = []

    def body(*_):
        values = [w.load(p, w.item) for p in pointers]
        for _, case in cases:
            result = case(w, *values)
            w.outs.append(w.pointer(result.dtype, True))
            w.store(w.outs[-1], w.item, result)
        return []

    if lanes:
        w.loop(one, [], body)
    else:
        body()
    kernel = w.kernel(n)
    assert (lanes_of(kernel) > 1) == lanes
    outs = [np.zeros(N, w.parameters[p].dtype.numpy) for p in w.outs]
    run(kernel, N, *inputs, N, 1, *outs)
    return {name: out for (name, _), out in zip(cases, outs)}


def check(cases, inputs, lanes):
    """`cases`: name -> (case, expected array)."""
    got = computed([(name, case) for name, (case, _) in cases.items()], inputs, lanes)
    for name, (_, array) in cases.items():
        expected = np.asarray(array)
        assert got[name].dtype == expected.dtype, name
        assert got[name].tobytes() == expected.tobytes(), (name, got[name], expected)


def op(name, dtype=None):
    return lambda w, *args: w.op(name, *args, dtype=dtype)


both_modes = pytest.mark.parametrize("lanes", [False, True], ids=["scalar", "lanes"])


@both_modes
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_primitives(dtype, lanes):
    low, high = dt.integer_range(dtype)
    a = RNG.integers(low, high, N, dtype.numpy, endpoint=True)
    b = RNG.integers(low, high, N, dtype.numpy, endpoint=True)
    a[:4], b[:4] = [low, high, low, high], [high, high, low, low]
    b[4:8] = a[4:8]
    count = RNG.integers(0, dtype.bits, N).astype(dtype.numpy)
    divisor = np.where((b == 0) | (b == -1 if dtype.kind == "i" else False), dtype.numpy.type(3), b)
    quotient = [abs(int(x)) // abs(int(y)) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(a, divisor)]
    remainder = [int(x) - q * int(y) for x, y, q in zip(a, divisor, quotient)]
    with np.errstate(over="ignore"):
        cases = {name: (lambda w, a, b, *_, name=name: w.op(name, a, b), expected) for name, expected in {
            "add": a + b, "sub": a - b, "mul": a * b, "band": a & b, "bor": a | b, "bxor": a ^ b,
            "eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b,
        }.items()}  # fmt: skip
    cases["bnot"] = (lambda w, a, *_: w.op("bnot", a), ~a)
    cases["idiv"] = (lambda w, a, b, c, d: w.op("idiv", a, d), np.array(quotient, object).astype(dtype.numpy))
    cases["irem"] = (lambda w, a, b, c, d: w.op("irem", a, d), np.array(remainder, object).astype(dtype.numpy))
    cases["shl"] = (lambda w, a, b, c, d: w.op("shl", a, c), a << count)
    cases["shr"] = (lambda w, a, b, c, d: w.op("shr", a, c), a >> count)
    cases["select"] = (lambda w, a, b, *_: w.op("select", w.op("lt", a, b), a, b), np.minimum(a, b))
    if dtype in (dt.uint32, dt.uint64):
        high_half = [int(x) * int(y) >> dtype.bits for x, y in zip(a, b)]
        cases["mulhi"] = (lambda w, a, b, *_: w.op("mulhi", a, b), np.array(high_half, dtype.numpy))
    for other in INTEGERS + FLOATS:
        cases[f"to {other}"] = (
            lambda w, a, *_, other=other: w.op("convert", a, dtype=other),
            a.astype(other.numpy) if other.kind != "f" else np.array([exact(int(x), other) for x in a], other.numpy),
        )
    cases["to bool"] = (lambda w, a, *_: w.op("convert", a, dtype=dt.bool_), a != 0)
    check(cases, [a, b, count, divisor], lanes)


def exact(number, dtype):
    """An integer rounded once to a float dtype: Python rounds to float64 once; float32 by way of a fraction's bits."""
    if dtype is dt.float64 or number == 0:
        return float(number)
    magnitude, sign = abs(number), 1 if number > 0 else -1
    shift = max(0, magnitude.bit_length() - 24)
    kept, rest, half = magnitude >> shift, magnitude & ((1 << shift) - 1), (1 << shift) >> 1
    kept += rest > half or (rest == half and shift > 0 and kept & 1)
    return float(sign * (kept << shift))


@both_modes
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_primitives(dtype, lanes):
    real, bits = dtype.numpy.type, np.dtype(f"u{dtype.itemsize}")
    special = np.array([0.0, -0.0, 1.0, -1.5, 2.5, 0.5, -0.5, np.inf, -np.inf, np.nan, np.finfo(real).tiny / 4], real)
    a = np.concatenate(
        [special, (RNG.normal(size=N - len(special)) * 10.0 ** RNG.integers(-5, 5, N - len(special))).astype(real)]
    )
    b = RNG.permutation(a)
    c = RNG.permutation(a)
    finite = np.where(np.isfinite(a), a, real(0))
    sign = bits.type(1) << bits.type(dtype.bits - 1)
    with np.errstate(all="ignore"):
        cases = {name: (lambda w, a, b, *_, name=name: w.op(name, a, b), expected) for name, expected in {
            "eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "copysign": np.copysign(a, b),
        }.items()}  # fmt: skip
        for name, function in {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint}.items():
            cases[name] = (lambda w, a, *_, name=name: w.op(name, a), function(a))
        integer = dt.int32 if dtype is dt.float32 else dt.int64
        cases["neg"] = (lambda w, a, *_: w.op("neg", a), (a.view(bits) ^ sign).view(real))
        cases["abs"] = (lambda w, a, *_: w.op("abs", a), (a.view(bits) & ~sign).view(real))
        cases["bitcast"] = (lambda w, a, *_: w.op("bitcast", a, dtype=integer), a.view(integer.numpy))
        cases["to int64"] = (lambda w, a, b, c, f: w.op("convert", f, dtype=dt.int64), finite.astype(np.int64))
        cases["to bool"] = (lambda w, a, *_: w.op("convert", a, dtype=dt.bool_), a != 0)
        check(cases, [a, b, c, finite], lanes)
        # arithmetic may give any NaN: compared by value
        arithmetic = {"add": a + b, "sub": a - b, "mul": a * b, "div": a / b}
        other = dt.float64 if dtype is dt.float32 else dt.float32
        names = [(name, lambda w, a, b, *_, name=name: w.op(name, a, b)) for name in arithmetic]
        names += [("sqrt", lambda w, a, *_: w.op("sqrt", a)), ("other", lambda w, a, *_: w.op("convert", a, dtype=other))]
        got = computed(names, [a, b, c], lanes)
        for name, expected in {**arithmetic, "sqrt": np.sqrt(a), "other": a.astype(other.numpy)}.items():
            assert np.array_equal(got[name], expected, equal_nan=True), name
            numbers = ~np.isnan(expected)
            assert np.array_equal(np.signbit(got[name][numbers]), np.signbit(expected[numbers])), name


@both_modes
def test_fma_rounds_once_and_multiply_add_twice(lanes):
    x = np.float64(1 + 2.0**-30)
    a = np.full(N, x)
    c = np.full(N, -np.float64(x * x))
    got = computed([("fma", op("fma")), ("two", lambda w, a, b, c: w.op("add", w.op("mul", a, b), c))], [a, a.copy(), c], lanes)
    assert set(got["fma"]) == {2.0**-60}  # x * x = 1 + 2^-29 + 2^-60, of which float64 drops the last term
    assert set(got["two"]) == {0.0}


@both_modes
def test_calls_of_the_mathematics_library(lanes):
    from math import atan2, sin

    a, b = RNG.normal(size=N), RNG.normal(size=N)
    cases = [("sin", lambda w, a, b: w.op("call", a, name="sin")), ("atan2", lambda w, a, b: w.op("call", a, b, name="atan2"))]
    got = computed(cases, [a, b], lanes)
    assert np.allclose(got["sin"], [sin(v) for v in a], rtol=1e-15, atol=0)
    assert np.allclose(got["atan2"], [atan2(v, u) for v, u in zip(a, b)], rtol=1e-15, atol=0)
    single = computed([("sin", lambda w, a: w.op("call", a, name="sin"))], [a.astype(np.float32)], lanes)["sin"]
    assert np.allclose(single, np.sin(a), rtol=1e-6)


@both_modes
def test_bools_are_bytes_in_memory(lanes):
    a, b = RNG.integers(0, 2, N).astype(np.bool_), RNG.integers(0, 2, N).astype(np.bool_)
    cases = {name: (lambda w, a, b, name=name: w.op(name, a, b), expected) for name, expected in {
        "band": a & b, "bor": a | b, "bxor": a ^ b, "eq": a == b, "ne": a != b}.items()}  # fmt: skip
    cases["bnot"] = (lambda w, a, b: w.op("bnot", a), ~a)
    cases["convert"] = (lambda w, a, b: w.op("convert", a, dtype=dt.float32), a.astype(np.float32))
    cases["to int"] = (lambda w, a, b: w.op("convert", a, dtype=dt.int8), a.astype(np.int8))
    cases["select"] = (lambda w, a, b: w.op("select", a, b, a), np.where(a, b, a))
    check(cases, [a, b], lanes)


@pytest.mark.parametrize(
    "value, dtype",
    [
        (0.1, dt.float32), (0.1, dt.float64), (-0.0, dt.float32), (np.inf, dt.float32), (-np.inf, dt.float64),
        (1e-45, dt.float32), (5e-324, dt.float64), (2**63 - 1, dt.int64), (-(2**63), dt.int64), (2**64 - 1, dt.uint64),
        (-128, dt.int8), (True, dt.bool_), (False, dt.bool_),
        (np.uint32(0xFFC12345).view(np.float32), dt.float32), (np.uint64(0x7FF8000000000123).view(np.float64), dt.float64),
    ],
)  # fmt: skip
def test_constants_keep_their_bits(value, dtype):
    w = Writer("constant")
    out, n = w.pointer(dtype, True), w.extent()
    w.store(out, w.item, w.const(value, dtype))
    got = np.zeros(3, dtype.numpy)
    run(w.kernel(n), 3, got, 3)
    assert got.tobytes() == np.full(3, value, dtype.numpy).tobytes()


# --- control in lanes
def test_stores_under_a_condition_and_gathers():
    w = Writer("conditional")
    x, where, out, n, trips = (
        w.pointer(dt.float32),
        w.pointer(dt.int64),
        w.pointer(dt.float32, True),
        w.extent(),
        w.scalar(dt.int64),
    )

    def body(*_):
        index = w.op("convert", w.load(where, w.item), dtype=dt.int32)
        value = w.load(x, index)
        w.when(w.op("gt", value, w.const(0, dt.float32)), lambda: w.store(out, w.item, value))
        return []

    w.loop(trips, [], body)
    values, indices = RNG.normal(size=N).astype(np.float32), RNG.permutation(N)
    got = np.full(N, 9, np.float32)
    run(w.kernel(n), N, values, indices, got, N, 1)
    assert np.array_equal(got, np.where(values[indices] > 0, values[indices], np.float32(9)))


def test_a_scatter_with_a_stride():
    w = Writer("stride")
    x, out, n, trips, two = w.pointer(dt.int32), w.pointer(dt.int32, True), w.extent(), w.scalar(dt.int64), w.extent()
    w.loop(trips, [], lambda _: w.store(out, w.op("mul", w.item, two), w.load(x, w.item)) or [])
    values = RNG.integers(0, 99, N).astype(np.int32)
    got = np.zeros(2 * N, np.int32)
    run(w.kernel(n), N, values, got, N, 1, 2)
    assert np.array_equal(got[::2], values)
    assert not got[1::2].any()


def test_a_finished_lane_reads_nothing_more():
    """A while loop whose guard keeps an index inside memory, with its limit right behind an unreadable place."""
    w = Writer("bounded")
    x, lengths, out, n, big, limit = (
        w.pointer(dt.int64), w.pointer(dt.int64), w.pointer(dt.int64, True), w.extent(), w.scalar(dt.int64), w.extent(),
    )  # fmt: skip
    one = w.const(1, dt.int64)
    length = w.load(lengths, w.item)

    def step(_, k, total):
        return [w.op("add", k, one), w.op("add", total, w.load(x, w.op("mul", k, w.op("convert", limit, dtype=dt.int64))))]

    _, total = w.loop(big, [w.const(0, dt.int64), w.const(0, dt.int64)], step, until=lambda k, t: w.op("lt", k, length))
    w.store(out, w.item, total)
    stride = 1 << 22  # far enough for a read past the end to leave the array
    sizes = RNG.integers(0, 2, N)
    sizes[5] = 1
    got = np.zeros(N, np.int64)
    run(w.kernel(n), N, np.array([7]), sizes, got, N, 10, stride)
    assert np.array_equal(got, sizes * 7)


@pytest.mark.parametrize("begin, end", [(0, 100), (17, 64), (33, 34), (10, 10)])
def test_a_function_runs_exactly_its_range(begin, end):
    for kernel in (handmade.transposed(), handmade.powers()):
        function = DEVICE.function(DEVICE.load(DEVICE.compile(print_llvm(kernel), kernel.name)), kernel.name)
        dtype = kernel.parameters[0].dtype.numpy
        x, out = np.arange(100).astype(dtype), np.full(100, -1, dtype)
        numbers = (100, 20, 5) if kernel.name == "transposed" else (100, 0)
        parameters = Parameters([None if p.kind == "pointer" else p.dtype for p in kernel.parameters])
        for index, value in enumerate((x.ctypes.data, out.ctypes.data, *numbers)):
            parameters.set(index, value)
        function.call(parameters.address, begin, end)
        expected = np.full(100, -1, dtype)
        expected[begin:end] = (x.reshape(5, 20).T.ravel() if kernel.name == "transposed" else x)[begin:end]
        assert np.array_equal(out, expected)


# --- what LLVM makes of it
def optimised(kernel: Kernel) -> str:
    return str(jit._optimised(print_llvm(kernel), kernel.name))


def bit_tricks() -> Kernel:
    """A chain like the start of an elementary function: scale by bits, choose, polynomial."""
    w = Writer("tricks")
    x, out, n = w.pointer(dt.float32), w.pointer(dt.float32, True), w.extent()
    v = w.load(x, w.item)
    bits = w.op("bitcast", v, dtype=dt.int32)
    exponent = w.op("sub", w.op("shr", bits, w.const(23, dt.int32)), w.const(127, dt.int32))
    mantissa = w.op(
        "bitcast", w.op("bor", w.op("band", bits, w.const(0x7FFFFF, dt.int32)), w.const(0x3F800000, dt.int32)), dtype=dt.float32
    )
    small = w.op("lt", mantissa, w.const(1.4, dt.float32))
    m = w.op("select", small, mantissa, w.op("mul", mantissa, w.const(0.5, dt.float32)))
    p = w.op("add", w.op("mul", m, m), w.op("convert", exponent, dtype=dt.float32))
    w.store(out, w.item, w.op("rint", w.op("fma", p, m, v)))
    return w.kernel(n)


@pytest.mark.parametrize("wide", [False, True])
def test_straight_line_kernels_are_vectorised(wide):
    assert re.search(r"fmul <\d+ x float>", optimised(handmade.multiply_add(wide=wide)))


def test_bit_tricks_and_choices_are_vectorised():
    text = optimised(bit_tricks())
    assert re.search(r"select <\d+ x i1>", text)
    assert re.search(r"@llvm.fma.v\d+f32", text)


@pytest.mark.parametrize(
    "kernel", [handmade.row_sums(32), handmade.row_sums(256, across=True), handmade.powers()], ids=lambda k: k.name
)
def test_reductions_and_loops_are_vectorised(kernel):
    assert re.search(r"f(add|mul) <\d+ x (float|double)>", optimised(kernel))


@pytest.mark.parametrize("kernel", [handmade.multiply_add(), handmade.powers(), handmade.row_sums(32)], ids=lambda k: k.name)
def test_nothing_is_contracted(kernel):
    assert not re.search(r"fn?madd|fmla|fmsub", jit.emit_assembly(print_llvm(kernel)))


def undefined_symbols(image: bytes) -> set[str]:
    """The symbols that an ELF64 object leaves open."""
    assert image[:5] == b"\x7fELF\x02"
    (offset,) = struct.unpack_from("<Q", image, 0x28)
    size, count = struct.unpack_from("<HH", image, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, offset + k * size) for k in range(count)]
    found = set()
    for _, kind, _, _, start, length, link, *_ in sections:
        if kind == 2:
            names = sections[link][4]
            for at in range(start + 24, start + length, 24):
                name, _, _, section = struct.unpack_from("<IBBH", image, at)
                if section == 0:
                    found.add(image[names + name : image.index(b"\0", names + name)].decode())
    return found


def test_objects_need_the_mathematics_library_and_no_more():
    w = Writer("many")
    x, out, n = w.pointer(dt.float64), w.pointer(dt.float64, True), w.extent()
    v = w.load(x, w.item)
    for name in ("sin", "cos", "exp", "log", "tanh", "cbrt", "erf"):
        v = w.op("call", v, name=name)
    v = w.op("call", v, v, name="fmod")
    v = w.op("rint", w.op("fma", v, v, v))
    v = w.op("add", v, w.op("convert", w.op("convert", v, dtype=dt.uint64), dtype=dt.float64))
    w.store(out, w.item, v)
    kernels = [w.kernel(n), handmade.row_sums(256), handmade.row_sums(32, across=True), handmade.collatz(), bit_tricks()]
    for kernel in kernels:
        image = jit.emit_object(print_llvm(kernel), kernel.name)
        if image[:4] != b"\x7fELF":
            pytest.skip("reads ELF objects only")
        assert undefined_symbols(image) <= jit.SYMBOLS, kernel.name


def test_a_text_is_the_same_every_time():
    assert print_llvm(handmade.row_sums(32)) == print_llvm(handmade.row_sums(32))


def test_the_geometry_counts_items_and_weighs_them():
    light = geometry(handmade.multiply_add(), 100, DEVICE.properties)
    heavy = geometry(handmade.row_sums(256), 100, DEVICE.properties)
    assert light.items == heavy.items == 100
    assert heavy.block[0] > 100 * light.block[0]


@pytest.mark.parametrize("dtype", [dt.float64, dt.float16, dt.uint64, dt.int8], ids=str)
def test_no_op_needs_helpers_of_a_compiler(dtype):
    """Divisions, conversions of narrow floats and products of wide integers are all there in the object."""
    inputs = [new_input(Type(dtype, (64,)), f"x{k}") for k in range(3)]
    nodes = [cast(inputs[0], target) for target in dt.ALL if target is not dtype]
    for name, row in ELEMENTWISE.items():
        if name not in ("cast", "philox", "where") and dtype.kind in row.kinds and row not in functions.ROWS:
            nodes.append(apply(name, *inputs[: row.arity]))
    kernel = lower(Region(tuple(nodes), tuple(inputs), (), (64,))).kernel
    image = jit.emit_object(print_llvm(kernel), kernel.name)
    if image[:4] != b"\x7fELF":
        pytest.skip("reads ELF objects only")
    assert undefined_symbols(image) <= jit.SYMBOLS
