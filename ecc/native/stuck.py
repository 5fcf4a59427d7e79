"""A way out of a hook that never returns.

Python handles no signal while its main thread waits for compiled code, and compiled code cannot be ended from outside:
only the process can. `ending_stuck_hooks` does that for a program of its own, such as the command line; a library must
not end the process of its user.
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
"""s. Calls of the engine end well within it, but for a hook that does not return."""


@contextmanager
def ending_stuck_hooks(code: int) -> Iterator[None]:
    """Let SIGINT (Ctrl-C) and SIGTERM end the process if the engine has not come back `GRACE_PERIOD` after them.

    Parameters
    ----------
    code : int
        Exit code of the process.

    Notes
    -----
    Does nothing in other threads than the main one, which alone gets signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    watch = threading.Thread(target=_watch, args=(reader, threading.get_ident(), code), daemon=True)
    watch.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        writer.close()  # the watch ends
        watch.join()


def _watch(reader: socket.socket, main: int, code: int) -> None:
    with reader:
        while numbers := reader.recv(64):
            if not {signal.SIGINT, signal.SIGTERM} & set(numbers):
                continue
            end = time.monotonic() + GRACE_PERIOD
            while (engine := inside(main)[0]) is not None and time.monotonic() < end:
                engine.stop()  # after its event, if hooks let it
                time.sleep(0.05)
            if inside(main)[1] > GRACE_PERIOD:
                shown = "\x1b[?25h\n" if sys.stderr.isatty() else ""  # a progress bar hides the cursor
                text = (
                    f"{shown}ecc: a hook has not returned for {GRACE_PERIOD:g} s: the process ends without a result\n"
                )
                os.write(2, text.encode())
                os._exit(code)
