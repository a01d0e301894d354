"""The primitives of `gla.ir.ops.scalars` as LLVM instructions, on scalars and on vectors of lanes alike.

Integers wrap, floats carry no fast-math flags, so that nothing is contracted or reassociated; `fma` is the intrinsic, which becomes
the machine's instruction or the C library's function, one rounding both.
"""

from __future__ import annotations

from gla.codegen.llvm_text import SUFFIXES, TYPES, Operand, Text
from gla.dtypes import DType, bool_, float32, int32
from gla.errors import InternalError

FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
INTEGER = {
    "add": ("add", "add"),
    "sub": ("sub", "sub"),
    "mul": ("mul", "mul"),
    "idiv": ("sdiv", "udiv"),
    "irem": ("srem", "urem"),
    "shl": ("shl", "shl"),
    "shr": ("ashr", "lshr"),
    "band": ("and", "and"),
    "bor": ("or", "or"),
    "bxor": ("xor", "xor"),
}
COMPARE = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
INTRINSICS = {
    "fma": "fma",
    "abs": "fabs",
    "copysign": "copysign",
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "rint": "rint",
}
PURE = "nounwind willreturn memory(none)"


class Scalars(Text):
    """Prints one primitive at a time."""

    def compute(self, op: str, args: tuple[Operand, ...], dtype: DType, name: str = "", exact: bool = False) -> Operand:
        """`exact`: an index computation of narrow indices, known not to overflow."""
        if op in ("convert", "bitcast"):
            return self._converted(op, args[0], dtype)
        if op == "select":
            return self._select(args, dtype)
        varying = any(a.varying for a in args)
        if varying:
            first = self._first(op, args)
            args = tuple(self.splat(a) for a in args)
        else:
            first = None
        kind = self.type_of(args[0])
        texts = [a.text for a in args]
        if op == "call":
            return self._call(name, args, dtype)
        if op in ("idiv", "irem") and varying and dtype is int32:
            return Operand(self._vector_division(op, kind, texts), dtype, True)
        if op in INTRINSICS:
            return Operand(self.intrinsic(INTRINSICS[op], kind, texts), dtype, varying)
        return Operand(self.emit(self._instruction(op, args[0].dtype, kind, texts, exact)), dtype, varying, first)

    def _instruction(self, op: str, dtype: DType, kind: str, texts: list[str], exact: bool) -> str:
        pair = ", ".join(texts)
        if op in COMPARE:
            if dtype.kind == "f":
                return f"fcmp {COMPARE[op]} {kind} {pair}"
            sign = "" if op in ("eq", "ne") else ("s" if dtype.kind == "i" else "u")
            return f"icmp {sign}{op} {kind} {pair}"
        if dtype.kind == "f":
            if op == "neg":
                return f"fneg {kind} {texts[0]}"
            if op in FLOAT:
                return f"{FLOAT[op]} {kind} {pair}"
        elif op in INTEGER:
            nsw = " nsw" if exact and op in ("add", "sub", "mul") else ""
            return f"{INTEGER[op][dtype.kind != 'i']}{nsw} {kind} {pair}"
        elif op == "bnot":
            return self._not(kind, texts[0])
        elif op == "mulhi":
            return self._high_product(dtype, kind, texts)
        raise InternalError("GLA9921", f"the LLVM printer has no primitive {op!r} on {dtype}")

    def _vector_division(self, op: str, kind: str, texts: list[str]) -> str:
        """Quotients of int32 by way of float64, which holds them: exact after truncation. Processors have no vector division."""
        double = self.vector("double")
        a, b = (self.emit(f"sitofp {kind} {text} to {double}") for text in texts)
        quotient = self.emit(f"fptosi {double} {self.emit(f'fdiv {double} {a}, {b}')} to {kind}")
        if op == "idiv":
            return quotient
        return self.emit(f"sub {kind} {texts[0]}, {self.emit(f'mul {kind} {quotient}, {texts[1]}')}")

    def _not(self, kind: str, text: str) -> str:
        ones = self.splat_text("-1", kind.split(" x ")[1][:-1]) if kind.startswith("<") else "-1"
        return f"xor {kind} {text}, {ones}"

    def _high_product(self, dtype: DType, kind: str, texts: list[str]) -> str:
        double = f"i{2 * dtype.bits}"
        varying = kind.startswith("<")
        wide = self.vector(double) if varying else double
        a, b = (self.emit(f"zext {kind} {text} to {wide}") for text in texts)
        product = self.emit(f"mul {wide} {a}, {b}")
        count = self.splat_text(str(dtype.bits), double) if varying else str(dtype.bits)
        return f"trunc {wide} {self.emit(f'lshr {wide} {product}, {count}')} to {kind}"

    def intrinsic(self, name: str, kind: str, texts: list[str]) -> str:
        plain = kind.split(" x ")[1][:-1] if kind.startswith("<") else kind
        suffix = (f"v{self.lanes}" if kind.startswith("<") else "") + SUFFIXES[plain]
        self.declare(f"{kind} @llvm.{name}.{suffix}({', '.join([kind] * len(texts))})")
        return self.emit(f"call {kind} @llvm.{name}.{suffix}({', '.join(f'{kind} {t}' for t in texts)})")

    def _call(self, name: str, args: tuple[Operand, ...], dtype: DType) -> Operand:
        """A function of libm, lane by lane."""
        plain = TYPES[dtype.name]
        symbol = name + "f" * (dtype is float32)
        self.declare(f"{plain} @{symbol}({', '.join([plain] * len(args))}) {PURE}")
        if not args[0].varying:
            return Operand(self.emit(f"call {plain} @{symbol}({', '.join(f'{plain} {a.text}' for a in args)}) {PURE}"), dtype)
        kind, result = self.vector(plain), "poison"
        for lane in range(self.lanes):
            parts = [self.emit(f"extractelement {kind} {a.text}, i64 {lane}") for a in args]
            one = self.emit(f"call {plain} @{symbol}({', '.join(f'{plain} {p}' for p in parts)}) {PURE}")
            result = self.emit(f"insertelement {kind} {result}, {plain} {one}, i64 {lane}")
        return Operand(result, dtype, True)

    def _select(self, args: tuple[Operand, ...], dtype: DType) -> Operand:
        condition, a, b = args
        varying = condition.varying or a.varying or b.varying
        if varying:
            a, b = self.splat(a), self.splat(b)
        kind, ask = self.type_of(a), self.type_of(condition)
        text = self.emit(f"select {ask} {condition.text}, {kind} {a.text}, {kind} {b.text}")
        return Operand(text, dtype, varying)

    def _converted(self, op: str, x: Operand, dtype: DType) -> Operand:
        to = Operand("", dtype, x.varying)
        source, target = self.type_of(x), self.type_of(to)
        if op == "bitcast":
            text = x.text if source == target else self.emit(f"bitcast {source} {x.text} to {target}")
            return Operand(text, dtype, x.varying)
        if dtype is bool_ and x.dtype is not bool_:
            zero = self.splat(Operand(zero_of(x.dtype), x.dtype)) if x.varying else Operand(zero_of(x.dtype), x.dtype)
            return self.compute("ne", (x, zero), bool_)
        cast = _cast(x.dtype, dtype)
        if not cast:
            return Operand(x.text, dtype, x.varying, x.first)
        first = None
        if x.first is not None and dtype.kind == "i":
            first = self.emit(f"{cast} {TYPES[x.dtype.name]} {x.first} to {TYPES[dtype.name]}")
        return Operand(self.emit(f"{cast} {source} {x.text} to {target}"), dtype, x.varying, first)

    def _first(self, op: str, args: tuple[Operand, ...]) -> str | None:
        """Lane 0 of a sum that stays consecutive: consecutive plus or minus what all lanes share."""
        if op not in ("add", "sub") or len(args) != 2 or args[0].dtype.kind != "i":
            return None
        a, b = args
        kind = TYPES[a.dtype.name]
        if a.first is not None and not b.varying:
            return self.emit(f"{op} {kind} {a.first}, {b.text}")
        if op == "add" and b.first is not None and not a.varying:
            return self.emit(f"add {kind} {a.text}, {b.first}")
        return None


def zero_of(dtype: DType) -> str:
    return "0x0000000000000000" if dtype.kind == "f" else "0"


def _cast(source: DType, target: DType) -> str:
    """The instruction that converts, or "" where the bits stay."""
    if source.kind == "f":
        if target.kind == "f":
            return "" if source is target else ("fpext" if target.itemsize > source.itemsize else "fptrunc")
        return "fptosi" if target.kind == "i" else "fptoui"
    if target.kind == "f":
        return "sitofp" if source.kind == "i" else "uitofp"
    if source.kind == "b":
        return "" if target.kind == "b" else "zext"
    if target.itemsize == source.itemsize:
        return ""
    if target.itemsize < source.itemsize:
        return "trunc"
    return "sext" if source.kind == "i" else "zext"
