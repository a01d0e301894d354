"""The house: imports go down only, the driver is touched in one place, files stay small."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEVELS = [
    {"cli"},
    {"lang", "array"},
    {"compiler", "stations"},
    {"runtime"},
    {"codegen"},
    {"plan"},
    {"passes"},
    {"ir"},
    {"device"},
    {"dtypes", "errors", "config"},
]
LEVEL = {room: k for k, rooms in enumerate(LEVELS) for room in rooms}
FILES = sorted((ROOT / "gla").rglob("*.py"))


def imports(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            if node.module == "gla":
                yield from ((f"gla.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield node.module, node.lineno


def room_of(path: Path) -> str:
    return path.relative_to(ROOT / "gla").parts[0].removesuffix(".py")


def test_imports_go_down_the_house_only():
    upward = []
    for path in FILES:
        room = room_of(path)
        for name, line in imports(path):
            parts = name.split(".")
            if parts[0] == "gla" and len(parts) > 1 and parts[1] in LEVEL and room in LEVEL and LEVEL[parts[1]] < LEVEL[room]:
                upward.append(f"{path.relative_to(ROOT)}:{line} {room} -> {parts[1]}")
    assert upward == []


def test_the_two_front_ends_do_not_know_each_other():
    crossing = []
    for path in FILES:
        other = {"lang": "gla.array", "array": "gla.lang"}.get(room_of(path))
        crossing += [f"{path}:{line}" for name, line in imports(path) if other and name.startswith(other)]
    assert crossing == []


def test_the_driver_is_imported_by_the_cuda_device_alone():
    foreign = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in FILES
        for name, line in imports(path)
        if name.split(".")[0] == "cuda" and path.parts[-3:-1] != ("device", "cuda")
    ]
    assert foreign == []


def test_files_hold_one_idea():
    long = {str(path.relative_to(ROOT)): n for path in FILES if (n := len(path.read_text().splitlines())) > 500}
    assert long == {}


def test_every_file_says_what_it_is_for():
    silent = [
        str(path) for path in FILES if path.read_text().strip() and ast.get_docstring(ast.parse(path.read_text())) is None
    ]
    assert silent == []
