"""Waiting for other processes and threads: for what they do, never for a time."""

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

HANG = 600.0
"""s. Whoever waits that long waits for ever: no machine is so busy."""

TELLING = """
import sys, threading, time
from ecc.cli import main
from ecc.native import inside

def tell(thread):  # once the engine has been in one call for a while
    while inside(thread)[1] < float(sys.argv[1]):
        time.sleep(0.01)
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


def advancing(*arguments: Any, inside: float = 0.01, **options: Any) -> subprocess.Popen[str]:
    """Start the command line, and return once the packet engine has been in one call for some seconds."""
    command = [sys.executable, "-P", "-c", TELLING, str(inside), *map(str, arguments)]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    assert run.stdout is not None and run.stdout.readline() == "inside\n"
    return run
