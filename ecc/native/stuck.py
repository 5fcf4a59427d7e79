"""End of the process if a hook never returns.

Python handles no signal while its main thread waits for compiled code, and only the end of the process stops compiled
code from outside. `ending_stuck_hooks` does this for programs such as the command line. A library must not end the
process of its user.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ecc.native.engine import inside

__all__ = ["GRACE_PERIOD", "ending_stuck_hooks"]

GRACE_PERIOD = 3.0
"""s. Calls of the engine return well within this time unless a hook does not return."""


@contextmanager
def ending_stuck_hooks(code: int) -> Iterator[None]:
    """Make SIGINT (Ctrl-C) and SIGTERM end the process if the engine does not return within `GRACE_PERIOD`.

    Parameters
    ----------
    code : int
        Exit code of the process.

    Notes
    -----
    Has an effect only in the main thread, because only this thread gets signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    previous = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    watch = threading.Thread(target=_watch, args=(reader, threading.get_ident(), code), daemon=True)
    watch.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous)
        writer.close()  # this ends the watch
        watch.join()


def _watch(reader: socket.socket, main: int, code: int) -> None:
    with reader:
        while numbers := reader.recv(64):
            if not {signal.SIGINT, signal.SIGTERM} & set(numbers):
                continue
            end = time.monotonic() + GRACE_PERIOD
            while (engine := inside(main)[0]) is not None and time.monotonic() < end:
                engine.stop()  # takes effect after the current event, if its hook returns
                time.sleep(0.05)
            if inside(main)[1] > GRACE_PERIOD:
                shown = "\x1b[?25h\n" if sys.stderr.isatty() else ""  # a progress bar hides the cursor
                text = (
                    f"{shown}ecc: a hook has not returned for {GRACE_PERIOD:g} s: the process ends without a result\n"
                )
                os.write(2, text.encode())
                os._exit(code)
