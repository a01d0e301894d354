"""Other libraries in this process that may be recording a graph of their own.

gla's work on a stream that somebody else captures would silently become a part of that graph, or break it: it is refused, by name
where the library can be asked. Called when a stream that the user brought is used, and when memory is exchanged.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from gla.errors import CaptureError

if TYPE_CHECKING:
    from gla.device.base import Device


def capturing_library() -> str:
    """The library whose current stream is being captured in this thread, "" if none says so. Only loaded libraries are asked."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        return "PyTorch"
    if cupy is not None and cupy.cuda.get_current_stream().is_capturing():
        return "CuPy"
    return ""


def refuse_foreign_capture(device: Device, handle: Any, library: str = "") -> None:
    """CaptureError when somebody else records what is submitted to the stream `handle`: one driver call."""
    if device.captured_by(handle) == "other":
        raise capture_error(library or capturing_library() or "another library")


def capture_error(library: str) -> CaptureError:
    return CaptureError(
        "GLA0904",
        f"the stream is being captured by {library}; gla's work would be lost or break that capture",
        help=f"use gla before or after the capture of {library}, or capture with gla.capture instead",
    )
