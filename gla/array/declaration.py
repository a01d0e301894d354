"""The declaration of a CUDA C++ kernel, read from its source: name, and for each parameter pointer or number, dtype, const.

Called by kernel.py when a `gla.kernel` is made, so that a call converts its arguments by what is declared and never
reinterprets bits. It reads names of types that the source itself defines by `typedef`, `using` or an object-like `#define`.
Refuses templates, references, pointers to pointers and structs by value: it is no C++ parser.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gla import dtypes
from gla.dtypes import DType
from gla.errors import DtypeError
from gla.ir.spans import labels

_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
_NOISE = re.compile(
    r"\b(?:__restrict__|__restrict|restrict|__grid_constant__|volatile|register|struct|typename)\b|\[\[[^\]]*\]\]"
)
_LONGS = {
    "char": dtypes.int8, "signed char": dtypes.int8, "unsigned char": dtypes.uint8, "bool": dtypes.bool_,
    "short": dtypes.int16, "unsigned short": dtypes.uint16, "int": dtypes.int32, "unsigned": dtypes.uint32,
    "long": dtypes.int64, "unsigned long": dtypes.uint64, "long long": dtypes.int64, "unsigned long long": dtypes.uint64,
    "size_t": dtypes.uint64, "ptrdiff_t": dtypes.int64, "float": dtypes.float32, "double": dtypes.float64,
    "half": dtypes.float16, "__half": dtypes.float16, "nv_bfloat16": dtypes.bfloat16, "__nv_bfloat16": dtypes.bfloat16,
    "float2": dtypes.complex64, "cuComplex": dtypes.complex64, "cuFloatComplex": dtypes.complex64,
    "double2": dtypes.complex128, "cuDoubleComplex": dtypes.complex128,
    **{f"{sign}int{bits}_t": getattr(dtypes, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"{space}complex<{part}>": made for space in ("thrust::", "cuda::", "cuda::std::")
       for part, made in (("float", dtypes.complex64), ("double", dtypes.complex128))},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameter:
    """`text` as declared. A pointer's `dtype` is what it points to, None for `void`; `const`: the kernel only reads there."""

    name: str
    text: str
    pointer: bool
    const: bool
    dtype: DType | None


@dataclass(frozen=True, slots=True)
class Declaration:
    """`source` is the text to compile: the user's, with `extern "C"` before the kernel where it was missing."""

    name: str
    parameters: tuple[Parameter, ...]
    source: str


def declaration(source: str, name: str) -> Declaration:
    """The declaration of kernel `name` in `source`. DtypeError when there is none, or it has parameters that cannot be passed."""
    plain = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]) if m[0][0] == "/" else m[0], source)
    found = list(re.finditer(r"__global__[^;{}()]*?(?:__launch_bounds__\s*\([^)]*\)[^;{}()]*?)?\b(\w+)\s*\(", plain))
    ours = [m for m in found if m[1] == name]
    if not ours:
        names = ", ".join(dict.fromkeys(m[1] for m in found if m[1] != "__launch_bounds__")) or "no kernel at all"
        raise DtypeError(
            "GLA0232",
            f"the source declares no kernel {name!r}; it has {names}",
            labels=labels("here"),
            help=f'write extern "C" __global__ void {name}(...), or give the name of a kernel that is there',
        )
    start = ours[0]
    before = plain[: start.start()]
    if re.search(r"template\s*<[^;{}]*$", before):
        raise DtypeError(
            "GLA0232",
            f"kernel {name!r} is a template, which has no name that can be looked up",
            labels=labels("here"),
            help=f'write one extern "C" __global__ void {name}_float(...) that calls the template',
        )
    inside = _split(_balanced(plain, start.end()))
    parameters = tuple(_parameter(text, k, name, plain) for k, text in enumerate(inside))
    text = source if _is_extern(before) else source[: start.start()] + 'extern "C" ' + source[start.start() :]
    return Declaration(name, parameters, text)


def _is_extern(before: str) -> bool:
    """Whether what comes before `__global__` gives it C linkage: directly, or by an open `extern "C" {`."""
    if re.search(r'extern\s+"C"\s*(?:static\s+|inline\s+)*$', before):
        return True
    return any(_depth(before[m.end() :]) >= 0 for m in re.finditer(r'extern\s+"C"\s*\{', before))


def _depth(text: str) -> int:
    """The least nesting that braces reach in `text`, or -1 as soon as the outer one closes."""
    depth = 0
    for letter in text:
        depth += (letter == "{") - (letter == "}")
        if depth < 0:
            return -1
    return depth


def _balanced(text: str, start: int) -> str:
    """From just after an opening parenthesis to its partner."""
    depth = 1
    for k in range(start, len(text)):
        depth += (text[k] == "(") - (text[k] == ")")
        if depth == 0:
            return text[start:k]
    return text[start:]


def _split(text: str) -> list[str]:
    """Parameters, split at commas outside of brackets."""
    parts, depth, last = [], 0, 0
    for k, letter in enumerate(text):
        depth += (letter in "(<[{") - (letter in ")>]}")
        if letter == "," and depth == 0:
            parts.append(text[last:k])
            last = k + 1
    parts.append(text[last:])
    cleaned = [" ".join(part.split()) for part in parts]
    return [] if cleaned in ([""], ["void"]) else cleaned


def _parameter(text: str, index: int, kernel: str, source: str) -> Parameter:
    """One declared parameter: `const float* __restrict__ x`, `int n`, `double out[]`."""
    declared = _NOISE.sub(" ", text.split("=", maxsplit=1)[0]).strip()
    array = re.search(r"\[[^\]]*\]\s*$", declared)
    if array:
        declared = declared[: array.start()].strip()
    named = re.match(r"(.*[\s*&>])(\w+)$", declared)
    name = named[2] if named and not _is_type(named[2]) and named[1].strip() != "const" else f"parameter {index}"
    type_text = named[1].strip() if named and name == named[2] else declared
    stars = type_text.count("*") + bool(array)
    if "&" in type_text or stars > 1:
        what = "a reference" if "&" in type_text else "a pointer to pointers"
        raise _refusal(text, kernel, what, "take a pointer to numbers, or a number")
    base = type_text.split("*")[0]
    const = "const" in base.split()
    words = [w for w in base.split() if w != "const"]
    dtype = _resolve(" ".join(words), source)
    if stars:
        if dtype is None and " ".join(words) != "void":
            raise _refusal(
                text, kernel, f"a pointer to {' '.join(words)!r}, which is no type of numbers that gla has", "use void*"
            )
        return Parameter(name, text, True, const, dtype)
    if dtype is None or dtype is dtypes.complex128:
        what = f"{' '.join(words)!r} by value" if words else "a parameter without a type"
        raise _refusal(text, kernel, what, "pass numbers one by one, or an array by pointer")
    return Parameter(name, text, False, True, dtype)


def _is_type(word: str) -> bool:
    return word in _LONGS or word in ("signed", "unsigned", "long", "const", "void")


def _resolve(words: str, source: str) -> DType | None:
    """The dtype of a C++ type; names that the source defines are looked up, a few levels deep."""
    for _ in range(8):
        found = _LONGS.get(_ordered(words))
        if found is not None:
            return found
        name = re.escape(words)
        defined = (
            re.search(rf"\busing\s+{name}\s*=\s*([^;]+);", source)
            or re.search(rf"\btypedef\s+([^;{{}}]+?)\s+{name}\s*;", source)
            or re.search(rf"^[ \t]*#[ \t]*define[ \t]+{name}[ \t]+([^\n(]+)$", source, re.MULTILINE)
        )
        if defined is None or not re.fullmatch(r"\w+", words):
            return None
        words = " ".join(defined[1].split())
    return None


def _ordered(words: str) -> str:
    """`int unsigned long` as `unsigned long`: the way the table spells it."""
    parts = re.sub(r"\s*([<>])\s*", r"\1", words).split()
    if not parts or not set(parts) <= {"signed", "unsigned", "long", "short", "int", "char"}:
        return " ".join(parts).removeprefix("::").removeprefix("std::")
    sign = "unsigned" if "unsigned" in parts else "signed" if "signed" in parts and "char" in parts else ""
    core = "char" if "char" in parts else "short" if "short" in parts else " ".join(["long"] * parts.count("long"))
    return " ".join(p for p in (sign, core) if p) or "int"


def _refusal(text: str, kernel: str, what: str, advice: str) -> DtypeError:
    return DtypeError(
        "GLA0232", f"kernel {kernel!r} takes {what} ({text}), which cannot be passed", labels=labels("here"), help=advice
    )
