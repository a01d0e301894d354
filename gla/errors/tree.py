"""The exceptions of gla. Each is a GlaError and keeps the Python base that a caller would expect to catch.

GlaError
    GlaSyntaxError(SyntaxError)   00xx  the text of a program
    GlaNameError(NameError)       01xx  names
    DtypeError(TypeError)         02xx  dtypes, kinds of argument
    RangeError(OverflowError, ValueError) 02xx  a number that does not fit
    ShapeError(ValueError)        03xx  shapes, ranks, axes
    GlaIndexError(IndexError)     03xx  indices
    TraceError(ValueError)        04xx  what cannot be traced or planned
    DeviceError(RuntimeError)     05xx  devices, compilers, libraries
    OutOfMemoryError(MemoryError) 05xx
    CheckError(AssertionError)    06xx  asserts and run-time checks
    AliasError(ValueError)        07xx  writes through stale or overlapping views
    GlaFileError(OSError)         08xx  files and the command line
    CaptureError(RuntimeError)    09xx  capture
    GraphError(ValueError)        09xx  graphs and their updates
    InternalError(RuntimeError)   99xx  a fault of gla itself
"""

from __future__ import annotations

from collections.abc import Iterable

from gla.errors.diagnostic import Diagnostic, Label
from gla.errors.text import render_text


class GlaError(Exception):
    """Base of every error that gla raises.

    `code` is e.g. "GLA0301"; `message` one line that names both operands and what was given;
    `labels` places in source text; `notes` further facts; `help` concrete edits.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        labels: Iterable[Label] = (),
        notes: Iterable[str] = (),
        help: Iterable[str] | str = (),
        source: str | None = None,
    ) -> None:
        helps = (help,) if isinstance(help, str) else tuple(help)
        self.diagnostic = Diagnostic(code, message, tuple(labels), tuple(notes), helps, source=source)
        super().__init__(message)

    @property
    def code(self) -> str:
        return self.diagnostic.code

    def __str__(self) -> str:
        return render_text(self.diagnostic)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.diagnostic))


def _rebuild(cls: type[GlaError], diagnostic: Diagnostic) -> GlaError:
    error = cls(diagnostic.code, diagnostic.message)
    error.diagnostic = diagnostic
    return error


class GlaSyntaxError(GlaError, SyntaxError):
    """The text of a program cannot be read."""


class GlaNameError(GlaError, NameError):
    """A name is not known, is taken, or may not be used here."""


class DtypeError(GlaError, TypeError):
    """Dtypes, or kinds of argument, that do not go together."""


class RangeError(GlaError, OverflowError, ValueError):
    """A number that does not fit where it should go."""


class ShapeError(GlaError, ValueError):
    """Shapes, ranks or axes that do not go together."""


class GlaIndexError(GlaError, IndexError):
    """An index outside its axis, or of a kind that cannot index."""


class TraceError(GlaError, ValueError):
    """A traced program asks for what only a running one has."""


class DeviceError(GlaError, RuntimeError):
    """A device, compiler or library is missing or failed."""


class OutOfMemoryError(GlaError, MemoryError):
    """A device has not enough memory."""


class CheckError(GlaError, AssertionError):
    """An assert, or a check of values at run time, failed."""


class AliasError(GlaError, ValueError):
    """A write through a view that is stale or overlaps another argument."""


class GlaFileError(GlaError, OSError):
    """A file is missing, unreadable, or not what the program needs."""


class CaptureError(GlaError, RuntimeError):
    """An operation that cannot be recorded into a graph."""


class GraphError(GlaError, ValueError):
    """A graph, its nodes, or an update of it is used wrongly."""


class InternalError(GlaError, RuntimeError):
    """A fault of gla itself; please report it."""
