"""What `import gla` shows and loads."""

import subprocess
import sys

import gla


def test_all_is_what_is_there():
    assert len(gla.__all__) == len(set(gla.__all__))
    missing = [name for name in gla.__all__ if not hasattr(gla, name)]
    assert missing == []
    hidden = {name for name in vars(gla) if not name.startswith("_")} - set(gla.__all__)
    rooms = {
        "array",
        "cli",
        "codegen",
        "compiler",
        "config",
        "device",
        "dtypes",
        "errors",
        "ir",
        "lang",
        "passes",
        "plan",
        "runtime",
        "stations",
    }
    assert hidden - rooms == set()


def test_import_is_light():
    heavy = {"llvmlite", "cuda", "lark", "rich", "click", "ml_dtypes", "scipy", "platformdirs"}
    code = "import sys; before = set(sys.modules); import gla; print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert heavy & set(done.stdout.split()) == set()


def test_every_function_says_what_it_does():
    silent = [n for n in gla.__all__ if callable(getattr(gla, n)) and not getattr(getattr(gla, n), "__doc__", None)]
    assert silent == []
