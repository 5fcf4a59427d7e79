"""Files that are whole or not there: written beside, and renamed when they are complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

__all__ = ["WriteError", "making", "replacing"]


class WriteError(OSError):
    """A file could not be written; what was there before it is still there."""


def making(folder: str | Path) -> None:
    """Make a folder, and those above it, if it is not there.

    Parameters
        folder : str or Path.
    Raises
        ValueError: something else is there. WriteError: it cannot be made.
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

    Parameters
        path : str or Path. What is no regular file, such as a device or a pipe, is written itself.
    Raises
        WriteError: the file cannot be written, in one line with its name.
    Example
        >>> with replacing("table.csv") as part:  # doctest: +SKIP
        ...     part.write_text("a,b")
    """
    target = Path(os.path.realpath(path))
    direct = target.exists() and not target.is_file()
    part = target if direct else target.with_name(f".{target.stem}.{uuid4().hex[:8]}{target.suffix}")
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
