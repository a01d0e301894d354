"""The primitives of `Scalars` as CUDA C++ expressions: one line a primitive. Called by the CUDA printer only.

Signed arithmetic is done unsigned, since signed overflow is undefined in C++; what touches a sign bit works on the bits,
since the machine's `neg` and `abs` leave a NaN's sign open. Compiled without contraction, fast division or flushing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from gla.codegen.kernel import Compute, Value
from gla.dtypes import DType, bool_, float32, float64, int64
from gla.errors import InternalError

TYPEDEFS = """\
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef float f32; typedef double f64;"""

# Functions of the CUDA mathematics library by their double name; the float32 name has an f behind it.
FUNCTIONS = frozenset(
    """acos acosh asin asinh atan atan2 atanh cbrt cos cosh erf erfc erfcinv erfinv exp exp10 exp2 expm1 fdim fmod hypot j0 j1
    lgamma log log10 log1p log2 nextafter pow remainder sin sinh tan tanh tgamma y0 y1""".split()
)


def ctype(dtype: DType) -> str:
    """The name of a value's type."""
    return dtype.short


def memory_type(dtype: DType) -> str:
    """The name of the type that a pointer's elements have."""
    return "u8" if dtype is bool_ else dtype.short


def name(value: Value) -> str:
    return f"v{value.id}"


def constant(value: Any, dtype: DType) -> str:
    """The text of exactly this number: bits where it is not finite, decimal where that is exact, else hexadecimal."""
    number = np.asarray(value).astype(dtype.numpy)[()]
    if dtype is bool_:
        return "true" if number else "false"
    if dtype.kind in "iu":
        return _integer(int(number), dtype)
    if dtype not in (float32, float64):
        raise InternalError("GLA9961", f"a constant of dtype {dtype} has no text in a CUDA kernel")
    if not math.isfinite(number):
        bits = number.view(np.uint32 if dtype is float32 else np.uint64)
        return f"__uint_as_float({int(bits):#010x}u)" if dtype is float32 else f"__longlong_as_double({int(bits):#018x}ll)"
    real = float(number)
    text = repr(real)
    exact = len(text) <= 10 and "e" not in text and Fraction(text) == Fraction(real)
    return (text if exact else real.hex()) + ("f" if dtype is float32 else "")


def _integer(number: int, dtype: DType) -> str:
    suffix = ("u" if dtype.kind == "u" else "") + ("ll" if dtype.itemsize == 8 else "")
    if number == -(1 << (dtype.bits - 1)) and dtype.itemsize >= 4:
        return f"(-{-number - 1}{suffix} - 1)"  # its magnitude alone does not fit
    text = f"{number}{suffix}"
    return f"({dtype.short}){text}" if dtype.itemsize < 4 else text


def _unsigned(dtype: DType) -> str:
    return "u64" if dtype.itemsize == 8 else "u32"


def _wrapping(sign: str) -> Callable[..., str]:
    def text(dtype: DType, a: str, b: str) -> str:
        wide = _unsigned(dtype)
        if dtype.kind == "f" or dtype.short == wide:
            return f"{a} {sign} {b}"
        return f"({dtype.short})(({wide}){a} {sign} ({wide}){b})"

    return text


def _plain(sign: str) -> Callable[..., str]:
    return lambda dtype, a, b: f"{a} {sign} {b}"


def _narrowed(sign: str) -> Callable[..., str]:
    return lambda dtype, a, b: f"{a} {sign} {b}" if dtype.itemsize >= 4 else f"({ctype(dtype)})({a} {sign} {b})"


def _library(single: str, double: str) -> Callable[..., str]:
    return lambda dtype, *args: f"{single if dtype is float32 else double}({', '.join(args)})"


def _shift_left(dtype: DType, a: str, b: str) -> str:
    return f"({dtype.short})(({_unsigned(dtype)}){a} << (u32){b})"


def _shift_right(dtype: DType, a: str, b: str) -> str:
    return f"({dtype.short})({a} >> (u32){b})"


def _negate(dtype: DType, a: str) -> str:
    if dtype is float32:
        return f"__uint_as_float(__float_as_uint({a}) ^ 0x80000000u)"
    return f"__longlong_as_double(__double_as_longlong({a}) ^ 0x8000000000000000ll)"


def _absolute(dtype: DType, a: str) -> str:
    if dtype is float32:
        return f"__uint_as_float(__float_as_uint({a}) & 0x7fffffffu)"
    return f"__longlong_as_double(__double_as_longlong({a}) & 0x7fffffffffffffffll)"


def _copysign(dtype: DType, a: str, b: str) -> str:
    if dtype is float32:
        return f"__uint_as_float((__float_as_uint({a}) & 0x7fffffffu) | (__float_as_uint({b}) & 0x80000000u))"
    bits = "__double_as_longlong"
    return f"__longlong_as_double(({bits}({a}) & 0x7fffffffffffffffll) | ({bits}({b}) & 0x8000000000000000ll))"


def _not(dtype: DType, a: str) -> str:
    return f"!{a}" if dtype is bool_ else f"({dtype.short})~{a}"


# primitive -> expression of (dtype of the first argument, argument names...)
PRIMITIVES: dict[str, Callable[..., str]] = {
    "add": _wrapping("+"),
    "sub": _wrapping("-"),
    "mul": _wrapping("*"),
    "div": _plain("/"),
    "fma": _library("__fmaf_rn", "__fma_rn"),
    "neg": _negate,
    "abs": _absolute,
    "copysign": _copysign,
    "sqrt": _library("__fsqrt_rn", "__dsqrt_rn"),
    "floor": _library("floorf", "floor"),
    "ceil": _library("ceilf", "ceil"),
    "trunc": _library("truncf", "trunc"),
    "rint": _library("rintf", "rint"),
    "idiv": _narrowed("/"),
    "irem": _narrowed("%"),
    "mulhi": lambda dtype, a, b: f"{'__umulhi' if dtype.itemsize == 4 else '__umul64hi'}({a}, {b})",
    "shl": _shift_left,
    "shr": _shift_right,
    "band": _narrowed("&"),
    "bor": _narrowed("|"),
    "bxor": _narrowed("^"),
    "bnot": _not,
    "eq": _plain("=="),
    "ne": _plain("!="),
    "lt": _plain("<"),
    "le": _plain("<="),
    "gt": _plain(">"),
    "ge": _plain(">="),
}


# Primitives whose arguments the machine takes negated or without sign at no cost: what they give does not tell a NaN's sign.
SIGNED = frozenset(("add", "sub", "mul", "fma", "eq", "ne", "lt", "le", "gt", "ge"))


def signed(statement: Compute) -> str | None:
    """How an argument of `SIGNED` writes a negation or an absolute value of float32; float64 arithmetic keeps NaNs as they are."""
    if statement.op not in ("neg", "abs") or statement.result.dtype is not float32:
        return None
    return f"(-{name(statement.args[0])})" if statement.op == "neg" else f"fabsf({name(statement.args[0])})"


def expression(statement: Compute, natural: bool = False, shown: dict[int, str] | None = None) -> str:
    """The C++ expression of one primitive. `natural`: no argument is negative. `shown`: `signed` texts of values, by id. Raises
    InternalError for a name that is none."""
    args = [name(v) for v in statement.args]
    if shown and statement.op in SIGNED:
        args = [shown.get(v.id, text) for v, text in zip(statement.args, args)]
    dtype = statement.args[0].dtype
    if natural and statement.op in ("idiv", "irem") and dtype.itemsize >= 4:
        wide, sign = _unsigned(dtype), "/" if statement.op == "idiv" else "%"
        return f"({dtype.short})(({wide}){args[0]} {sign} ({wide}){args[1]})"
    if statement.op == "select":
        return "{} ? {} : {}".format(*args)
    if statement.op == "convert":
        return _convert(args[0], dtype, statement.result.dtype)
    if statement.op == "bitcast":
        return _bitcast(args[0], dtype, statement.result.dtype)
    if statement.op == "call":
        if statement.name not in FUNCTIONS or dtype not in (float32, float64):
            raise InternalError("GLA9962", f"no CUDA function '{statement.name}' on {dtype}")
        return _library(statement.name + "f", statement.name)(dtype, *args)
    if statement.op == "apply":
        return f"{statement.name}({', '.join(args)})"
    if statement.op not in PRIMITIVES:
        raise InternalError("GLA9962", f"'{statement.op}' is not a primitive of kernels")
    return PRIMITIVES[statement.op](dtype, *args)


def _convert(a: str, source: DType, target: DType) -> str:
    if source is target:
        return a
    return f"{a} != 0" if target is bool_ else f"({ctype(target)}){a}"


def _bitcast(a: str, source: DType, target: DType) -> str:
    if source.itemsize != target.itemsize or bool_ in (source, target):
        raise InternalError("GLA9963", f"a bitcast from {source} to {target} changes the width")
    if source.kind == target.kind:
        return a
    if source is float32:
        return f"__float_as_int({a})" if target.kind == "i" else f"__float_as_uint({a})"
    if target is float32:
        return f"__int_as_float({a})" if source.kind == "i" else f"__uint_as_float({a})"
    if source is float64:
        return f"__double_as_longlong({a})" if target is int64 else f"(u64)__double_as_longlong({a})"
    if target is float64:
        return f"__longlong_as_double({a})" if source is int64 else f"__longlong_as_double((i64){a})"
    return f"({ctype(target)}){a}"
