"""Unknown names: what was meant, or which character only looks like another."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable

from gla.errors import GlaError, GlaNameError
from gla.lang import syntax as s
from gla.lang.context import Context

# Letters that look like another after NFKC: what people type from a Cyrillic or a phonetic keyboard.
TWINS = str.maketrans({
    "ɛ": "ε", "ɑ": "α", "а": "a", "е": "e", "о": "o", "р": "p", "с": "c", "х": "x", "у": "y", "і": "i", "ѕ": "s", "ԁ": "d", "ո": "n",
    "ο": "o", "ν": "v", "ρ": "p", "ι": "i", "∆": "Δ", "∑": "Σ", "∏": "Π", "Ω": "Ω", "ℎ": "h", "ɡ": "g", "ⅼ": "l",
})  # fmt: skip
ELSEWHERE = {
    "abs": "abs", "maximum": "max", "minimum": "min", "len": "x.shape[0]", "range": "0..n", "astype": "cast", "float": "cast(x, f64)",
    "int": "cast(x, i64)", "np": "a function without prefix", "math": "a function without prefix", "pow": "**", "None": "nothing at all",
    "True": "true", "False": "false", "concatenate": "concat", "amax": "max", "amin": "min", "real": "re", "imag": "im", "angle": "arg",
    "sort": "nothing: sorting is not part of the language", "axis": "axis = 0", "newaxis": "new", "null": "nothing at all",
}  # fmt: skip


def skeleton(name: str) -> str:
    """What a name looks like."""
    return unicodedata.normalize("NFKC", name).translate(TWINS)


def code_points(name: str) -> str:
    return " ".join(f"U+{ord(c):04X}" for c in name if ord(c) > 126) or "ASCII only"


def unknown_name(
    ctx: Context, name: s.Name, known: Iterable[str], message: str | None = None, code: str = "GLA0101", help: str = ""
) -> GlaError:
    """The error for a name that is not there, with the nearest one that is."""
    names = list(dict.fromkeys(known))
    twin = next((n for n in names if n != name.id and skeleton(n) == skeleton(name.id)), None)
    if twin is not None:
        return ctx.error(
            GlaNameError, "GLA0102", f"`{name.id}` ({code_points(name.id)}) only looks like `{twin}` ({code_points(twin)})", (name.span, ""),
            help=f"write the name as it was declared: `{twin}`",
        )  # fmt: skip
    near = difflib.get_close_matches(name.id, names, 1, 0.6)
    if not near and name.id in ELSEWHERE:
        help = f"write {ELSEWHERE[name.id]}"
    return ctx.error(
        GlaNameError, code, message or f"`{name.id}` is not known here", (name.span, ""),
        help=f"did you mean `{near[0]}`?" if near and not help else help or "declare it before it is used: let, var, const, param, size, or import it",
    )  # fmt: skip
