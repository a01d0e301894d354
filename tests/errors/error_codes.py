"""The index of error codes, docs/errors.md, made from the places where codes are raised.

`python -m tests.errors.error_codes` brings the page up to date: classes come from the source, the line of a known code is kept
from the page, that of a new one is its first message. Whoever adds a code runs it and puts the line into words.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "errors.md"
CODE = re.compile(r"GLA\d{4}")
ROW = re.compile(r"^\| (GLA\d{4}) \| ([^|]*) \| (.*) \|$", re.M)
WARNING = "warning"
GROUPS = {
    "00": "The text of a program",
    "01": "Names",
    "02": "Types, kinds of argument, numbers that do not fit",
    "03": "Shapes and indices",
    "04": "Tracing and planning",
    "05": "Devices, compilers, libraries, memory",
    "06": "Checks while a program runs",
    "07": "Aliases",
    "08": "Files and the command line",
    "09": "Captures, graphs, updates, streams, threads",
    "99": "Faults of gla itself: please report them",
}
HEAD = """# Error codes

Every error of gla is a `gla.GlaError` with a `code`, and one of Python's own kinds too (`ShapeError` is a `ValueError`, `DtypeError`
a `TypeError`, `GlaIndexError` an `IndexError`, ...), so `except ValueError` works. Its message names what was given, its help says what to
change.

```python
import gla

try:
    gla.ones(3) + gla.ones(4)
except ValueError as error:
    code = error.code
code                        # -> GLA0301
```

This page is made by `python -m tests.errors.error_codes`, and a test holds it to the source.
"""


@dataclass
class Use:
    """What the source says of a code."""

    classes: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    message: str = ""


def text_of(node: ast.AST | None) -> str:
    """The literal text of a message, its holes as `..`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(p.value if isinstance(p, ast.Constant) else ".." for p in node.values)
    return ""


def class_of(names: list[str], path: Path) -> str:
    """The class among the names of a call; what else raises in that place."""
    for given in names:
        if given.endswith("Error"):
            return given
    called = names[0] if names else ""
    if called == "warn" or path.name == "lints.py":
        return WARNING
    if called == "unknown_name":
        return "GlaNameError"
    if called in ("usage", "_usage"):
        return "GlaFileError"
    if path.parts[-2] == "cli":
        return "GlaFileError"
    return "CheckError" if called in ("Check", "check") else "GlaSyntaxError" if "lang" in path.parts else ""


def uses() -> dict[str, Use]:
    """Every code in the source of gla that is raised, warned of, or handed to what does."""
    found: dict[str, Use] = {}
    for path in sorted((ROOT / "gla").rglob("*.py")):
        tree = ast.parse(path.read_text())
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value)):
                continue
            place = node
            while place in parents and not isinstance(place, (ast.Call, ast.stmt, ast.Compare)):
                place = parents[place]
            if isinstance(place, ast.Compare):  # looked at, not raised
                continue
            use = found.setdefault(node.value, Use())
            use.files.add(str(path.relative_to(ROOT)))
            if not isinstance(place, ast.Call):
                continue
            called = place.func.attr if isinstance(place.func, ast.Attribute) else getattr(place.func, "id", "")
            use.classes.add(class_of([called, *(a.id for a in place.args if isinstance(a, ast.Name))], path))
            texts = [text_of(a) for a in place.args]
            use.message = use.message or next((t for t in texts if t and not CODE.fullmatch(t)), "")
    for use in found.values():
        use.classes.discard("")
    return found


def lines_of_page() -> dict[str, tuple[str, str]]:
    """code -> (classes, line) as the page has them."""
    return {m[1]: (m[2], m[3]) for m in ROW.finditer(PAGE.read_text())} if PAGE.exists() else {}


def page() -> str:
    """What docs/errors.md should be."""
    known, found = lines_of_page(), uses()
    parts = [HEAD]
    for group, title in GROUPS.items():
        rows = []
        for code in sorted(c for c in found if c[3:5] == group):
            classes, line = known.get(code, ("", found[code].message.replace("|", "\\|")))
            rows.append(f"| {code} | {', '.join(sorted(found[code].classes)) or classes} | {line} |")
        parts.append("\n".join([f"## {group}xx: {title}\n", "| code | class | when |", "|---|---|---|", *rows, ""]))
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
