"""Runs the kernel form on NumPy buffers, one item after another, in plain Python: the meaning that the printers print.

`run(region, arrays, scalars)` lowers a region and gives its outputs. Reads and writes outside a buffer are errors.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from gla.codegen.arguments import InputPointer, Number, OutputPointer, RuntimeScalar
from gla.codegen.kernel import Compute, Constant, ForEach, If, Load, Loop, Reduce, Store
from gla.codegen.loops import lower


def _fma(a, b, c):
    if not all(math.isfinite(float(v)) for v in (a, b, c)):
        return a * b + c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return a * b + c
    if a.dtype == np.float64:
        return np.float64(exact.numerator / exact.denominator)
    wide = np.float64(exact.numerator / exact.denominator)
    near = np.float32(wide)
    for other in (np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))):
        gap, rival = abs(Fraction(float(near)) - exact), abs(Fraction(float(other)) - exact)
        if rival < gap or (rival == gap and other.view(np.uint32) % 2 == 0):
            near = other
    return near


def _idiv(a, b):
    q = abs(int(a)) // abs(int(b))
    return a.dtype.type(q if (a < 0) == (b < 0) else -q)


def _call(name, *args):
    known = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "pow": "power", "fabs": "abs"}
    if hasattr(np, known.get(name, name)):
        return getattr(np, known.get(name, name))(*args)
    return args[0].dtype.type(getattr(math, name)(*map(float, args)))


PRIMITIVES = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "fma": _fma,
    "neg": lambda a: -a,
    "abs": np.abs,
    "copysign": np.copysign,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "idiv": _idiv,
    "irem": lambda a, b: a - _idiv(a, b) * b,
    "mulhi": lambda a, b: a.dtype.type(int(a) * int(b) >> (a.dtype.itemsize * 8)),
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "band": lambda a, b: a & b,
    "bor": lambda a, b: a | b,
    "bxor": lambda a, b: a ^ b,
    "bnot": lambda a: ~a,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "select": lambda c, a, b: a if c else b,
}


class Interpreter:
    def __init__(self, kernel, memory):
        self.kernel, self.memory, self.values = kernel, memory, {}

    def get(self, value):
        return self.values[value]

    def set(self, value, number):
        dtype = value.dtype.numpy
        assert np.asarray(number).dtype == dtype, (value, np.asarray(number).dtype)
        self.values[value] = dtype.type(number)

    def execute(self, body):
        for statement in body:
            getattr(self, type(statement).__name__)(statement)

    def Constant(self, s: Constant):
        self.set(s.result, s.result.dtype.numpy.type(s.value))

    def Compute(self, s: Compute):
        args = [self.get(a) for a in s.args]
        dtype = s.result.dtype.numpy
        if s.op == "convert":
            result = args[0].astype(dtype)
        elif s.op == "bitcast":
            result = args[0].view(dtype)
        elif s.op == "call":
            result = _call(s.name, *args)
        elif s.op == "apply":
            result = self.apply(next(f for f in self.kernel.functions if f.name == s.name), args)
        else:
            assert len({a.dtype for a in args[s.op == "select" :]}) == 1, s
            result = PRIMITIVES[s.op](*args)
        self.set(s.result, result)

    def apply(self, function, args):
        outer, self.values = self.values, {}
        for parameter, arg in zip(function.parameters, args):
            self.set(parameter, arg)
        self.execute(function.body)
        result = self.get(function.result)
        self.values = outer
        return result

    def _at(self, pointer, index):
        index, buffer = int(self.get(index)), self.memory[pointer]
        assert 0 <= index < len(buffer), f"{self.kernel.parameters[pointer].name}[{index}] of {len(buffer)}"
        return buffer, index

    def Load(self, s: Load):
        buffer, index = self._at(s.pointer, s.index)
        self.set(s.result, buffer[index])

    def Store(self, s: Store):
        buffer, index = self._at(s.pointer, s.index)
        assert self.kernel.parameters[s.pointer].writable
        assert buffer.dtype == s.value.dtype.numpy
        buffer[index] = self.get(s.value)

    def If(self, s: If):
        if self.get(s.condition):
            self.execute(s.body)

    def Loop(self, s: Loop):
        current = [self.get(v) for v in s.inits]
        for k in range(int(self.get(s.count))):
            self.set(s.counter, s.counter.dtype.numpy.type(k))
            for value, number in zip(s.carried, current):
                self.set(value, number)
            self.execute(s.guard)
            if s.until is not None and not self.get(s.until):
                break
            self.execute(s.body)
            current = [self.get(v) for v in s.next]
        for value, number in zip(s.results, current):
            self.set(value, number)

    def Reduce(self, s: Reduce):
        partial = [[self.get(v) for v in s.identity] for _ in range(s.partials)]
        for k in range(int(self.get(s.count))):
            self.set(s.index, s.index.dtype.numpy.type(k))
            self.execute(s.body)
            partial[k % s.partials] = self._join(s, partial[k % s.partials], [self.get(v) for v in s.element])
        half = s.partials // 2
        while half:
            for p in range(half):
                partial[p] = self._join(s, partial[p], partial[p + half])
            half //= 2
        for value, number in zip(s.results, partial[0]):
            self.set(value, number)

    def _join(self, s, left, right):
        for value, number in zip((*s.left, *s.right), (*left, *right)):
            self.set(value, number)
        self.execute(s.combine)
        return [self.get(v) for v in s.joined]

    def ForEach(self, s: ForEach):
        for k in range(int(self.get(s.count))):
            self.set(s.index, s.index.dtype.numpy.type(k))
            self.execute(s.body)


def storage(array):
    """The flat buffer of an array: complex as pairs, 16-bit floats as bits."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.kind == "c":
        return flat.view(np.float32 if flat.dtype.itemsize == 8 else np.float64)
    return flat.view(np.uint16) if flat.dtype.kind in "fV" and flat.dtype.itemsize == 2 else flat


def run(region, arrays, scalars=(), into=None):
    """Lower and execute; `into` gives the buffers of outputs that have a target. Returns the output arrays."""
    lowered = lower(region)
    outputs = []
    for k, node in enumerate(region.outputs):
        start = np.empty(node.shape, node.dtype.numpy) if into is None or into[k] is None else into[k].copy()
        outputs.append(start)
    memory = [storage(a) for a in arrays] + [storage(o) for o in outputs]
    numbers = []
    for parameter, argument in zip(lowered.kernel.parameters, lowered.arguments, strict=True):
        match argument:
            case InputPointer() | OutputPointer():
                assert parameter.kind == "pointer"
            case Number(value=value, dtype=dtype):
                assert parameter.dtype is dtype
                numbers.append((parameter.value, dtype.numpy.type(value)))
            case RuntimeScalar(index=index, part=part):
                value = scalars[index]
                value = value if part is None else (value.imag if part else value.real)
                numbers.append((parameter.value, parameter.dtype.numpy.type(value)))
    with np.errstate(all="ignore"):
        for item in range(lowered.items):
            machine = Interpreter(lowered.kernel, memory)
            for value, number in numbers:
                machine.set(value, number)
            assert int(machine.get(lowered.kernel.items)) == lowered.items
            machine.set(lowered.kernel.item, lowered.kernel.item.dtype.numpy.type(item))
            machine.execute(lowered.kernel.body)
    return outputs
