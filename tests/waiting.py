"""Waiting for other processes and threads: for what they do, never for a time."""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

HANG = 600.0
"""s. Whoever waits that long waits for ever: no machine is so busy."""

TELLING = """
import sys, threading, time
from ecc.cli import main
from ecc.native import inside

def tell(thread):  # once the engine has been in one call for a while
    while inside(thread)[1] < float(sys.argv[1]):
        time.sleep(0.0005)
    print("inside", flush=True)

threading.Thread(target=tell, args=(threading.get_ident(),), daemon=True).start()
sys.exit(main(sys.argv[2:]))
"""


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that others bring about."""
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < HANG
        time.sleep(0.05)


def without_progress(text: str) -> str:
    """Remove the progress lines that a command prints where there is no terminal and its work takes long."""
    return re.sub(r"^ecc: .*: \d+% in \d+ s, about \d+ s left\n", "", text, flags=re.MULTILINE)


@contextmanager
def advancing(*arguments: Any, inside: float = 0.001, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Start the command line, go on once the packet engine has been in one call for some seconds, and leave nothing."""
    command = [sys.executable, "-P", "-c", TELLING, str(inside), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options) as run:
        try:
            assert run.stdout is not None and run.stdout.readline() == "inside\n"
            yield run
        finally:
            run.kill()
