"""The command `ecc`, also as `python -m ecc`: Ctrl-C and SIGTERM have an answer from its first moment on.

Whatever a command imports and reads before its work begins takes a second or more, and an interruption in an import may
vanish in a library, or come out as a traceback of it. There is nothing to keep yet, so the process ends where it is.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

__all__ = ["main"]


def main() -> int:
    """Run the command line on the arguments of the process, and return its exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave)
    gc.set_threshold(_YOUNG)
    if not hasattr(sys.modules["ecc"], "_HOMES"):
        os.write(2, _REPLACED)
        return 2
    from ecc.cli import main as run

    code = run()
    for number in (signal.SIGINT, signal.SIGTERM):  # all is done
        signal.signal(number, signal.SIG_IGN)
    # An interruption in a text that an import executed is remembered, and Python would end by the signal: forgotten.
    exec("")
    return code


_YOUNG = 10_000
"""New objects before a collection of garbage. With the default of 700, collections of the objects that imports make,
which live to the end, take a seventh of the start-up of a command."""

_REPLACED = (
    b"ecc: another project's package `ecc` has replaced files of congestion-control: run `pip uninstall ecc`, then "
    b"`pip install --force-reinstall --no-deps congestion-control`, or the path of its wheel or checkout instead\n"
)
"""The message if `import ecc` is another project, which the public index has under the name `ecc`."""


def _leave(number: int, frame: object) -> None:
    os.write(2, b"ecc: interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
