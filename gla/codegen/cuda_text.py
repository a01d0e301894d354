"""Lines of C++ with indentation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gla.codegen.cuda_scalars import name
from gla.codegen.kernel import Value


class Text:
    """Collects lines; `block` indents what is written within it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._indent = ""

    def line(self, text: str) -> None:
        self.lines.append(f"{self._indent}{text}" if text else "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(f"{head} {{".lstrip())
        self._indent += "  "
        yield
        self._indent = self._indent[:-2]
        self.line("}")

    def source(self) -> str:
        return "\n".join(self.lines) + "\n"


def declare(value: Value, text: str) -> str:
    return f"const {value.dtype.short} {name(value)} = {text};"
