"""`import gla` loads little: what it does not need at once comes when it is first used."""

import subprocess
import sys

HEAVY = (
    "concurrent.futures", "cuda", "llvmlite", "lark", "logging", "ml_dtypes", "rich", "sysconfig", "urllib",
    "gla.codegen", "gla.passes", "gla.plan", "gla.compiler", "gla.stations", "gla.array.capture", "gla.array.kernel", "gla.ir.ops.arcs",
)  # fmt: skip


def said_by(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_import_loads_neither_compiler_nor_heavy_libraries():
    code = f"import numpy, sys; before = set(sys.modules); import gla; print(*[m for m in {HEAVY!r} if m in set(sys.modules) - before])"
    assert said_by(code) == ""


def test_import_loads_few_modules():
    code = "import gla, sys; print(sum(m.startswith('gla') for m in sys.modules))"
    assert int(said_by(code)) <= 70


def test_every_public_name_is_there():
    code = "import gla; print(*[n for n in gla.__all__ if getattr(gla, n, gla) is gla or n not in dir(gla)])"
    assert said_by(code) == ""


def test_a_name_that_is_none_is_an_attribute_error():
    code = "import gla\ntry: gla.captur\nexcept AttributeError as e: print(e)"
    assert said_by(code) == "module 'gla' has no attribute 'captur'"
