"""Ctrl-C: the first ends the run with what was written so far, within two seconds; the second ends it at once.

Python runs signal handlers between its own instructions, so a long call into a device would hold them back. A thread that
is woken by the signal itself waits for the handler to have run, and ends the process when it has not.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from gla.cli.exits import INTERRUPTED

PATIENCE = 1.8
LINE = b"interrupted\n"


@contextmanager
def interruptible() -> Iterator[None]:
    """While the block runs, SIGINT ends it. Does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled = threading.Event()
    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def handler(number: int, frame: FrameType | None) -> None:
        handled.set()
        raise KeyboardInterrupt

    def watch() -> None:
        first = True
        while True:
            try:
                data = reader.recv(1)
            except OSError:
                return
            if not data:
                return
            if data[0] != signal.SIGINT:
                continue
            if not first or not handled.wait(PATIENCE):
                os.write(2, LINE)
                os._exit(INTERRUPTED)
            first = False

    before = signal.signal(signal.SIGINT, handler)
    wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=watch, name="gla-interrupt", daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGINT, before)
        writer.close()
        thread.join(0.2)
        reader.close()
