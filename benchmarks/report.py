"""A run's results as a Markdown table and as JSON."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.timing import Figures


@dataclass(frozen=True)
class Row:
    """One implementation of one workload on one device. `note` says why there are no figures, when there are none. `calls`: calls
    that Python makes for one iteration (calls.py), counted for gla alone."""

    workload: str
    title: str
    device: str
    implementation: str
    error: float | None = None
    figures: Figures | None = None
    rate: str = ""
    note: str = ""
    calls: int = 0


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    found: dict[str, Any] = {"date": date.today().isoformat(), "python": platform.python_version(), "processor": processor()}
    try:
        from gla.device.cuda import open_device

        found["gpu"] = open_device(0).properties.name
    except Exception as error:
        found["gpu"] = f"none ({type(error).__name__})"
    return found


def processor() -> str:
    """The processor's name and how many cores the process may use."""
    import os

    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        name = lines[0] if lines else name
    return f"{name}, {len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()} cores"


def markdown(rows: list[Row]) -> str:
    """A table per workload and device; microseconds."""
    parts = []
    for key in dict.fromkeys((r.workload, r.device) for r in rows):
        mine = [r for r in rows if (r.workload, r.device) == key]
        parts.append(f"### {mine[0].title} ({mine[0].device})\n")
        parts.append(
            "| | submit | per iteration | latency | spread | error | Python calls | |\n|---|---|---|---|---|---|---|---|"
        )
        parts += [_line(r) for r in mine]
        parts.append("")
    return "\n".join(parts)


def _line(row: Row) -> str:
    if row.figures is None:
        return f"| {row.implementation} | | | | | {_error(row.error)} | | {row.note} |"
    f = row.figures
    times = f"{f.submit:.1f} | {f.iteration:.1f} | {f.latency:.1f} | {f.spread:.2f}"
    return f"| {row.implementation} | {times} | {_error(row.error)} | {row.calls or ''} | {row.rate} |"


def _error(error: float | None) -> str:
    return "" if error is None else f"{error:.1e}"


def write_json(path: Path, rows: list[Row]) -> None:
    """Machine, date and all rows."""
    path.write_text(json.dumps({"machine": machine(), "rows": [asdict(r) for r in rows]}, indent=1) + "\n")
