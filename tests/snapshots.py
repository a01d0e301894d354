"""Snapshots lie beside their test. `GLA_UPDATE_SNAPSHOTS=1 pytest ...` rewrites them; read the difference before you commit it."""

from __future__ import annotations

import os
from pathlib import Path

FLAG = "GLA_UPDATE_SNAPSHOTS"


def check(test_file: str, name: str, text: str) -> None:
    """Assert that `text` is what the file `name` beside `test_file` (pass __file__) holds, or rewrite it when asked to."""
    path = Path(test_file).parent / name
    if os.environ.get(FLAG, "") not in ("", "0"):
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"there is no snapshot {path}: make it with {FLAG}=1"
    assert text == path.read_text(encoding="utf-8"), f"{path.name} has changed: if that is meant, rewrite it with {FLAG}=1"
