"""The entry point: runs a command, and turns errors into one line and an exit code."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import typer

from ecc._support.files import WriteError
from ecc.cli.app import BAD_INPUT, FAILED, INTERRUPTED, UNWRITTEN, app
from ecc.cli.output import complain
from ecc.errors import EccError

__all__ = ["main"]


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; bad input is one line on standard error.

    Parameters
    ----------
    arguments : sequence of str, or None
        Those of the process.
    """
    with _handlers_kept(), _faults_located():
        try:
            code = app(None if arguments is None else list(arguments), prog_name="ecc", standalone_mode=False)
            sys.stdout.flush()
            return int(code or 0)
        except (typer.Abort, KeyboardInterrupt):
            complain("interrupted")
            return INTERRUPTED
        except BrokenPipeError:  # the reader has seen enough
            _discard_output()
            return 0
        except (Exception, SystemExit) as error:
            if isinstance(error.__cause__, KeyboardInterrupt):  # Python 3.11 wraps one that comes as a class is made
                complain("interrupted")
                return INTERRUPTED
            message, code = _explained(error)
            complain(message)
            return code


def _explained(error: BaseException) -> tuple[str, int]:
    """One line on the error, and the exit code; an error that is not foreseen is raised again."""
    usage = getattr(error, "format_message", None)  # Typer refuses an option or argument
    location = _in_module_of_user(error)
    if usage:
        return str(usage()).replace("Value error, ", "", 1), BAD_INPUT  # pydantic's, after "Invalid value"
    if isinstance(error, OSError) and error.errno in _FULL and error.filename is None and not location:
        _discard_output()
        return f"standard output cannot be written: {error.strerror}", UNWRITTEN
    if isinstance(error, WriteError) or (isinstance(error, OSError) and error.errno in _FULL):
        return str(error), UNWRITTEN
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        from ecc._support.arguments import shown

        return f"{shown(error.filename)} cannot be opened: {error.strerror}", BAD_INPUT
    if isinstance(error, MemoryError):
        return f"there is not enough memory: {error or 'a smaller scenario, or a longer sample, may fit'}", FAILED
    if isinstance(error, ValueError | TypeError | EccError | OSError):
        return str(error), BAD_INPUT
    if location:
        return f"{type(error).__name__} in {location}: {error}", FAILED
    if isinstance(error, OverflowError | RecursionError):
        return f"a number or table is too large or too deep: {error}", BAD_INPUT
    raise error


def _in_module_of_user(error: BaseException) -> str:
    """File and line of an error in a module with a protocol that is not ours; empty if it is from elsewhere."""
    if "ecc.contract.protocol" not in sys.modules:
        return ""
    from traceback import walk_tb

    from ecc.models import Protocol

    for frame, line in reversed(list(walk_tb(error.__traceback__))):
        name = frame.f_globals.get("__name__", "")
        kinds = [value for value in frame.f_globals.values() if isinstance(value, type) and issubclass(value, Protocol)]
        if not name.startswith("ecc.") and any(kind.__module__ == name for kind in kinds):
            return f"{frame.f_code.co_filename}, line {line}"
    return ""


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Answer Ctrl-C even if it is ignored, as after a shell's `&`, and leave the handlers as they were at the end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if before[signal.SIGINT] is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _faults_located() -> Iterator[None]:
    """Have a fault in compiled code, such as a controller in C, print where Python was before it ends the process."""
    import faulthandler

    enabled = False
    if not faulthandler.is_enabled():
        with suppress(Exception):  # a standard error that is no file
            faulthandler.enable(all_threads=False)
            enabled = True
    try:
        yield
    finally:
        if enabled:
            faulthandler.disable()


def _discard_output() -> None:
    """Discard the buffered standard output at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
