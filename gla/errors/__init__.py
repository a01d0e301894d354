"""Everything that can go wrong, as data: the exception tree, its diagnostics, and their plain text.

Importable by every package of gla; imports nothing of the rest.
"""

from gla.errors.diagnostic import Diagnostic, Label, Span
from gla.errors.text import render_text
from gla.errors.tree import (
    AliasError,
    CaptureError,
    CheckError,
    DeviceError,
    DtypeError,
    GlaError,
    GlaFileError,
    GlaIndexError,
    GlaNameError,
    GlaSyntaxError,
    GraphError,
    InternalError,
    OutOfMemoryError,
    RangeError,
    ShapeError,
    TraceError,
)

__all__ = [
    "AliasError",
    "CaptureError",
    "CheckError",
    "DeviceError",
    "Diagnostic",
    "DtypeError",
    "GlaError",
    "GlaFileError",
    "GlaIndexError",
    "GlaNameError",
    "GlaSyntaxError",
    "GraphError",
    "InternalError",
    "Label",
    "OutOfMemoryError",
    "RangeError",
    "ShapeError",
    "Span",
    "TraceError",
    "render_text",
]
