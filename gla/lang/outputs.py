"""What a run writes: arrays under file names in the output folder.

Rows of a path whose holes do not change are gathered in memory and written once, by `flush`: at the end or when the run is
interrupted. Files are written whole (gla/lang/io); one of an earlier run is replaced, and that is said once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gla.lang.report import Reporter

LOG = "run_log.csv"


class Outputs:
    """`folder` None: nothing is written, `values` keeps everything (tests, notebooks)."""

    def __init__(self, folder: Path | None, reporter: Reporter) -> None:
        self.folder, self.reporter = folder, reporter
        self.values: dict[str, dict[str, np.ndarray]] = {}
        self._rows: dict[str, dict[str, list[np.ndarray]]] = {}
        self._written: set[str] = set()
        self._late: dict[str, dict[str, np.ndarray]] = {}

    def write(self, path: str, arrays: Mapping[str, Any]) -> None:
        """One file, now. A second one of that name replaces the first."""
        if path in self._written:
            self.reporter.note(f"{path} is written more than once in this run: the last one stays")
        self._put(path, {name: np.asarray(value) for name, value in arrays.items()})

    def keep(self, path: str, arrays: Mapping[str, Any]) -> None:
        """The last values given are written by `flush`."""
        self._late[path] = {name: np.asarray(value) for name, value in arrays.items()}

    def gather(self, path: str, arrays: Mapping[str, Any]) -> None:
        """One more row of each array."""
        rows = self._rows.setdefault(path, {})
        for name, value in arrays.items():
            rows.setdefault(name, []).append(np.array(value))

    def flush(self) -> None:
        """Write what was gathered."""
        gathered, self._rows = self._rows, {}
        late, self._late = self._late, {}
        for path, rows in gathered.items():
            self._put(path, {name: np.stack(values) for name, values in rows.items()})
        for path, arrays in late.items():
            self._put(path, arrays)

    def _put(self, path: str, arrays: dict[str, np.ndarray]) -> None:
        self.values[path] = arrays
        if self.folder is None:
            self._written.add(path)
            return
        from gla.lang.io.arrays import check_ending, write_arrays

        target = self.folder / path
        check_ending(target, len(arrays))
        if path not in self._written and target.exists():
            self.reporter.note(f"{path} of an earlier run is replaced")
        self._written.add(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(target, arrays)
        self.reporter.wrote(target)
