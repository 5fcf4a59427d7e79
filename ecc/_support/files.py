"""Reading files of limited size, and writing files so that they are complete or absent.

A file is written under another name in the same folder, and renamed when it is complete.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from uuid import uuid4

__all__ = ["WriteError", "check_regular", "checked_digest", "make_folder", "read_bytes", "replacing", "unfinished"]

_MIB = 2**20


class WriteError(OSError):
    """A file could not be written; its previous content is unchanged."""


def check_regular(path: str | Path, name: str) -> int:
    """Return the size of a regular file [bytes]; refuse devices and pipes, which can block or have no end.

    Parameters
    ----------
    path : str or Path
    name : str
        Name of the argument in a message.

    Raises
    ------
    ValueError
        The path is a device, a pipe or a socket.
    OSError
        The file does not exist.
    """
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):  # not folders
        raise ValueError(f"{name} must be a regular file, got {os.fspath(path)!r}, a device or pipe")
    return status.st_size


def read_bytes(path: str | Path, name: str, limit: int) -> bytes:
    """Return the content of a regular file.

    Parameters
    ----------
    path : str or Path
    name : str
        Name of the argument in a message.
    limit : int, bytes
        Maximum size.

    Raises
    ------
    ValueError
        A device or a pipe, or a file that is too large.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> read_bytes("trace.sqlog", "file", 2**29)  # doctest: +SKIP
    """
    size = check_regular(path, name)
    if size > limit:
        raise ValueError(f"{name} must have <= {limit // _MIB} MiB, got {size / _MIB:.6g} MiB ({os.fspath(path)!r})")
    with Path(path).open("rb") as file:
        return file.read(limit)


def checked_digest(path: str | Path, name: str, digest: object = None) -> str:
    """Return the SHA-256 of the content of a regular file, as 64 hexadecimal digits; refuse other content.

    Parameters
    ----------
    path : str or Path
    name : str
        Name of the argument in a message.
    digest : str, optional
        Expected digest. None: any.

    Raises
    ------
    ValueError
        A device or a pipe, or a file with another digest.
    OSError
        The file cannot be read.
    """
    check_regular(path, name)
    with Path(path).open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if digest not in (None, actual):
        wanted = f"{os.fspath(path)!r} with the SHA-256 {str(digest)[:64]!r}"
        raise ValueError(f"{name} must be the file {wanted}, got other content: {actual}")
    return actual


def make_folder(folder: str | Path) -> None:
    """Make a folder, and its parents, if it does not exist.

    Parameters
    ----------
    folder : str or Path

    Raises
    ------
    ValueError
        The path, or a parent, is a file.
    WriteError
        The folder cannot be made.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"folder must not be a file, or in one, got {os.fspath(folder)!r}") from None
    except OSError as error:
        raise WriteError(f"{os.fspath(folder)} cannot be made: {error.strerror or error}") from None


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Return the name of a temporary file, which replaces a file when the block ends; after an error it is removed.

    It is in the same folder. Temporary files of this file that a killed process has left there are removed too.

    Parameters
    ----------
    path : str or Path
        File to replace. A device or a pipe is written directly.

    Raises
    ------
    WriteError
        The file cannot be written; the message is one line with its name.

    Examples
    --------
    >>> with replacing("table.csv") as part:  # doctest: +SKIP
    ...     part.write_text("a,b")
    """
    target = Path(os.path.realpath(path))
    direct = target.exists() and not target.is_file()
    part = target if direct else unfinished(target)
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


def unfinished(target: Path) -> Path:
    """Return a temporary name in the folder of a file, for its content until it is complete.

    Unfinished files of the same target that killed processes have left there are removed.

    Parameters
    ----------
    target : Path
    """
    _remove_abandoned(target)
    return target.with_name(f".{target.stem}.{_host()}-{os.getpid()}-{uuid4().hex[:8]}{target.suffix}")


@cache
def _host() -> str:
    """Return a short name of this machine, as other machines that share the folder have other process numbers."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _remove_abandoned(target: Path) -> None:
    """Remove unfinished files of a target if their processes have ended."""
    if os.name != "posix":  # other systems have no harmless call to look for a process
        return
    name = re.compile(rf"\.{re.escape(target.stem)}\.{_host()}-(\d+)-[0-9a-f]{{8}}{re.escape(target.suffix)}")
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if match := name.fullmatch(entry.name):
                try:
                    os.kill(int(match[1]), 0)
                except ProcessLookupError:
                    with suppress(OSError):
                        os.unlink(entry.path)
                except (OSError, OverflowError):  # a process of another user, or an invalid number
                    pass
