"""From what happened to what the shell is told: exit codes, and the one place where errors of every kind end.

0 well; 1 the program is at fault; 2 what was given on the command line, or a file named there; 3 a device or library is not
there; 4 out of memory; 101 a fault of gla (a report is written); 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from gla.cli import render
from gla.config import environment
from gla.errors import DeviceError, GlaError, GlaFileError, InternalError, OutOfMemoryError

OK, PROGRAM, USAGE, DEVICE, MEMORY, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 4, 101, 130
# Outputs that could not be written are no fault of the program's text, wherever the statement stands.
OUTPUTS = ("GLA0809", "GLA0810")


class Given(Exception):
    """An error whose cause was given on the command line, so that it ends with code 2 whatever its class."""

    def __init__(self, error: GlaError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def given(flag: str = "") -> Iterator[None]:
    """Errors in the block are the command line's. `flag` is put before the message, e.g. "--n 2.5"."""
    try:
        yield
    except (DeviceError, OutOfMemoryError, InternalError):
        raise
    except GlaError as error:
        if flag:
            error = _prefixed(error, flag)
        raise Given(error) from None


def _prefixed(error: GlaError, flag: str) -> GlaError:
    old = error.diagnostic
    return type(error)(old.code, f"{flag}: {old.message}", labels=old.labels, notes=old.notes, help=old.help, source=old.source)


def usage(message: str, help: str | tuple[str, ...] = (), code: str = "GLA0820") -> Given:
    """The error for a command line that cannot be understood."""
    return Given(GlaFileError(code, message, help=help))


def code_of(error: GlaError) -> int:
    """The exit code of an error that the command line did not cause."""
    if isinstance(error, OutOfMemoryError):
        return MEMORY
    if isinstance(error, DeviceError):
        return DEVICE
    if isinstance(error, InternalError):
        return INTERNAL
    if isinstance(error, GlaFileError) and (not error.diagnostic.labels or error.code in OUTPUTS):
        return USAGE
    return PROGRAM


# ---------------------------------------------------------------- the boundary


def guarded(work: Callable[[], int]) -> int:
    """The exit code of `work`; whatever it raises has been told on stderr when this returns."""
    try:
        return _finished(work())
    except KeyboardInterrupt:
        _traceback()
        render.say("interrupted")
        return INTERRUPTED
    except Given as wrong:
        _traceback()
        render.diagnostic(wrong.error.diagnostic)
        return USAGE
    except GlaError as error:
        _traceback()
        if isinstance(error, InternalError):
            return _internal(error)
        render.diagnostic(error.diagnostic)
        return code_of(error)
    except click.exceptions.Exit as wanted:
        return _finished(wanted.exit_code)
    except click.UsageError as error:
        render.diagnostic(_click_error(error).diagnostic)
        return USAGE
    except MemoryError:
        _traceback()
        render.diagnostic(OutOfMemoryError("GLA0520", "the computer has not enough memory for this").diagnostic)
        return MEMORY
    except OSError as error:
        if error.errno in (errno.EPIPE, errno.ENOSPC, errno.EIO):
            return _stdout_failed(error)
        return _internal(error)
    except Exception as error:
        return _internal(error)


def _finished(code: int) -> int:
    sys.stdout.flush()
    return code


def _traceback() -> None:
    if environment().full_traceback:
        traceback.print_exc()


def _stdout_failed(error: OSError) -> int:
    """Standard output takes no more: said unless its reader has gone."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still buffered goes nowhere
    if error.errno != errno.EPIPE:
        reason = "no space left" if error.errno == errno.ENOSPC else error.strerror
        render.diagnostic(GlaFileError("GLA0809", f"standard output cannot be written: {reason}").diagnostic)
    return USAGE


def _click_error(error: click.UsageError) -> GlaFileError:
    """An error of the option parser, in gla's words."""
    hint = ""
    if isinstance(error, click.NoSuchOption):
        from gla.lang.io.paths import alike

        params = error.ctx.command.get_params(error.ctx) if error.ctx else []
        known = [name for param in params for name in (*param.opts, *param.secondary_opts) if name.startswith("-")]
        meant = alike(error.option_name, known)
        message = f"there is no flag {error.option_name}"
        hint = f"did you mean {meant}?" if meant else ""
    else:
        message = error.format_message().rstrip(".")
        message = message[:1].lower() + message[1:]
    command = error.ctx.command_path if error.ctx else "gla"
    return GlaFileError("GLA0820", f"{command}: {message}", help=hint or f"see {command} --help")


def _internal(error: BaseException) -> int:
    """A fault of gla: a report is written, its path is said."""
    if environment().full_traceback:
        traceback.print_exception(error)
    path = _report(error)
    text = str(error).split("\n")[0]
    render.say(f"internal error: {type(error).__name__}: {text}", "error")
    render.say(f"a report was written to {path}; please send it with the program" if path else "no report could be written")
    return INTERNAL


def _report(error: BaseException) -> Path | None:
    import platform
    import tempfile

    from gla.cli.version import version

    lines = [
        f"gla {version()}, Python {sys.version.split()[0]}, {platform.platform()}",
        f"command: {sys.argv}",
        f"folder: {os.getcwd()}",
        "",
        *traceback.format_exception(error),
    ]
    try:
        folder = Path(tempfile.gettempdir())
        path = folder / f"gla-report-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
        path.write_text("\n".join(lines), encoding="utf-8")
    except OSError:
        return None
    return path
