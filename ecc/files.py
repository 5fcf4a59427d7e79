"""Files that are whole or not there: written beside, and renamed when they are complete."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from uuid import uuid4

__all__ = ["WriteError", "making", "replacing"]


class WriteError(OSError):
    """A file could not be written; what was there before it is still there."""


def making(folder: str | Path) -> None:
    """Make a folder, and those above it, if it is not there.

    Parameters
    ----------
    folder : str or Path

    Raises
    ------
    ValueError
        Something else is there.
    WriteError
        It cannot be made.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"folder must not be a file, or in one, got {os.fspath(folder)!r}") from None
    except OSError as error:
        raise WriteError(f"{os.fspath(folder)} cannot be made: {error.strerror or error}") from None


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Return the name of a new file beside a file, which it replaces when the block ends; after an error it is removed.

    What a process that was killed has left there of this file is removed too.

    Parameters
    ----------
    path : str or Path
        What is no regular file, such as a device or a pipe, is written itself.

    Raises
    ------
    WriteError
        The file cannot be written, in one line with its name.

    Examples
    --------
    >>> with replacing("table.csv") as part:  # doctest: +SKIP
    ...     part.write_text("a,b")
    """
    target = Path(os.path.realpath(path))
    direct = target.exists() and not target.is_file()
    part = target
    if not direct:
        _remove_abandoned(target)
        part = target.with_name(f".{target.stem}.{_host()}-{os.getpid()}-{uuid4().hex[:8]}{target.suffix}")
    try:
        yield part
        if not direct:
            with part.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(part, target)
    except OSError as error:
        raise WriteError(f"{os.fspath(path)} cannot be written: {error.strerror or error}") from None
    finally:
        if not direct:
            with suppress(OSError):
                part.unlink()


@cache
def _host() -> str:
    """A short name of this machine: numbers of processes mean nothing on others that share the folder."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _remove_abandoned(target: Path) -> None:
    """Remove unfinished files of a target whose processes are no more."""
    if os.name != "posix":  # elsewhere no harmless call looks for a process
        return
    name = re.compile(rf"\.{re.escape(target.stem)}\.{_host()}-(\d+)-[0-9a-f]{{8}}{re.escape(target.suffix)}")
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if found := name.fullmatch(entry.name):
                try:
                    os.kill(int(found[1]), 0)
                except ProcessLookupError:
                    with suppress(OSError):
                        os.unlink(entry.path)
                except (OSError, OverflowError):  # somebody else's, or no number of a process
                    pass
