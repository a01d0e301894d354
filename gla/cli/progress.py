"""What a run says while it runs: printed lines on stdout, a progress line and notes on stderr.

The progress line is drawn on a terminal only; elsewhere nothing but warnings goes to stderr.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gla.cli import render

CELLS = 12
EIGHTHS = " ▏▎▍▌▋▊▉█"
EVERY = 0.1
LISTED = 6
REPLACED = " of an earlier run is replaced"


class Terminal:
    """The reporter of `gla run`. `name` heads the progress line; `quiet` keeps progress, notes and warnings away."""

    def __init__(self, name: str, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self.quiet, self.clock = name, quiet, clock
        self.live = not quiet and render.cursor_moves(sys.stderr)
        self.written: list[Path] = []
        self.steps = 0
        self._replaced: list[str] = []
        self._drawn = False
        self._last = 0.0
        self._loop: tuple[int, int, float] | None = None  # the last step, the total, when the loop began
        self._first = 0

    def print_line(self, text: str) -> None:
        self._wipe()
        sys.stdout.write(text + "\n")
        if render.is_terminal(sys.stdout):
            sys.stdout.flush()

    def note(self, text: str) -> None:
        if text.endswith(REPLACED):  # said once, for all files
            self._replaced.append(text.removesuffix(REPLACED))
        elif not self.quiet:
            self._wipe()
            if text.startswith("warning["):  # a whole diagnostic
                print(render.coloured(text, "warning") if render.colours(sys.stderr) else text, file=sys.stderr, flush=True)
            else:
                render.say(f"warning: {text}", "warning")

    def wrote(self, path: Path) -> None:
        self.written.append(path)

    def progress(self, step: int, total: int, fields: Mapping[str, Any]) -> None:
        now = self.clock()
        if self._loop is None or total != self._loop[1] or step < self._loop[0]:
            self._loop, self._first = (step, total, now), step
        self.steps += max(0, step - self._loop[0])
        self._loop = (step, total, self._loop[2])
        if self.live and (now - self._last >= EVERY or step >= total):
            self._last = now
            self._draw(progress_line(self.name, step, total, step - self._first, now - self._loop[2], fields))

    def stop(self, line: str) -> None:
        """The run was interrupted: one line, whoever looks."""
        self._wipe()
        self.written.clear()
        self._replaced.clear()
        render.say(line)

    def tell(self, line: str) -> None:
        """A line that was asked for."""
        self._wipe()
        render.say(line)

    def position(self) -> tuple[int, int] | None:
        """(steps done, steps in all) of the loop at hand."""
        return self._loop[:2] if self._loop else None

    def close(self) -> None:
        """The run is over: take the progress line away, say what was written."""
        self._wipe()
        sys.stdout.flush()
        if self._replaced and not self.quiet:
            render.say(f"warning: files of an earlier run were replaced: {files(self._replaced)}", "warning")
        if self.live and self.written:
            render.say(f"wrote {files(self.written)}")

    def _draw(self, line: str) -> None:
        columns = shutil.get_terminal_size().columns
        sys.stderr.write(f"\r{line[: columns - 1]}\x1b[K")
        sys.stderr.flush()
        self._drawn = True

    def _wipe(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._drawn = False


def progress_line(name: str, step: int, total: int, done: int, seconds: float, fields: Mapping[str, Any]) -> str:
    """`heat  ███████▌ 62%  step 6200/10000  412 k steps/s  eta 9 s`; `done` steps took `seconds`."""
    share = min(1.0, step / total) if total else 1.0
    parts = [f"{name}  {bar(share)} {int(share * 100):2d}%", f"step {step}/{total}"]
    if done > 0 and seconds > 0:
        rate = done / seconds
        parts += [f"{per_second(rate)} steps/s", f"eta {duration((total - step) / rate)}"]
    parts += [f"{key}={_short(value)}" for key, value in fields.items() if key != "name"]
    return "  ".join(parts)


def bar(share: float) -> str:
    """A bar of CELLS cells, in eighths where the terminal has them."""
    encoding = getattr(sys.stderr, "encoding", None) or "ascii"
    try:
        EIGHTHS.encode(encoding)
    except UnicodeEncodeError:
        full = int(share * CELLS)
        return "#" * full + "." * (CELLS - full)
    full, part = divmod(int(share * CELLS * 8), 8)
    return ("█" * full + (EIGHTHS[part] if part else "")).ljust(CELLS)


def per_second(rate: float) -> str:
    for factor, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if rate >= factor:
            return f"{rate / factor:.3g}{unit}"
    return f"{rate:.3g}"


def duration(seconds: float) -> str:
    """Seconds for people: 9 s, 2 min 05 s, 1 h 10 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _short(value: Any) -> str:
    number = getattr(value, "item", lambda: value)() if getattr(value, "size", 1) == 1 else value
    return f"{number:.4g}" if isinstance(number, float) else str(number)


def files(paths: Sequence[object]) -> str:
    """`a.npy, b.npy, ..., l.npy (12 files)`, or the one."""
    names = list(dict.fromkeys(map(str, paths)))
    if len(names) == 1:
        return names[0]
    shown = names if len(names) <= LISTED else [*names[:2], "...", names[-1]]
    return f"{', '.join(shown)} ({len(names)} files)"


def stopped_line(reporter: Terminal) -> str:
    """`interrupted at step 6200/10000; wrote 3 files: ...`."""
    at = reporter.position()
    where = f" at step {at[0]}/{at[1]}" if at else ""
    return f"interrupted{where}" + (f"; wrote {files(reporter.written)}" if reporter.written else "")


def run_times(planning: float, running: float, steps: int, device: str) -> str:
    """What `--time` says."""
    rate = f", {per_second(steps / running)} steps/s" if steps and running > 0 else ""
    return f"time: read and checked in {planning:.3f} s, planned and ran in {running:.3f} s on {device}{rate}"
