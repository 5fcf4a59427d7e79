"""Where compiled code and results may be kept between processes; losing any of it costs time, never a result."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

__all__ = ["MOST_BYTES", "MOST_FILES", "folders", "keep", "kept"]

MOST_FILES = 2000
MOST_BYTES = 200_000_000
"""Of compiled code in a folder; what has not been used for longest goes first."""
_CODE = re.compile(r"[0-9a-f]{64}")


def folders(make: bool = True) -> Iterator[Path]:
    """Yield the folders that may be there or be made: the user's cache, and a private temporary one.

    Without a home and without `ECC_CACHE_DIR` there is only the latter.

    Parameters
    ----------
    make : bool, optional
        The temporary one is made if it is needed and not there.
    """
    named = os.environ.get("ECC_CACHE_DIR")
    if named:
        yield Path(named)
    else:
        import platformdirs

        with suppress(RuntimeError):  # there is no home
            folder = Path(platformdirs.user_cache_dir("ecc"))
            if folder.is_absolute():
                yield folder
    try:
        folder = Path(tempfile.gettempdir()) / f"ecc-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
        if make:
            folder.mkdir(mode=0o700, exist_ok=True)
        info = folder.lstat()
    except OSError:
        return
    if not hasattr(os, "getuid") or (info.st_uid == os.getuid() and not info.st_mode & 0o022):
        yield folder  # no other user can have put code there


def kept(name: str) -> bytes | None:
    """Return what was kept under a name that is a digest of what made it, None if it is not there, or damaged.

    Parameters
    ----------
    name : str
    """
    for folder in folders(make=False):
        try:
            data = (folder / name).read_bytes()
        except OSError:
            continue
        if hashlib.sha256(data[32:]).digest() == data[:32]:  # a damaged object file would end the process
            with suppress(OSError):
                os.utime(folder / name)  # it is used
            return data[32:]
    return None


def keep(name: str, code: bytes) -> None:
    """Store compiled code at once or not at all; without a writable directory it lives in this process only.

    Parameters
    ----------
    name : str
    code : bytes
    """
    for folder in folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            part = folder / f"{name}.{uuid4().hex[:8]}"
            try:
                part.write_bytes(hashlib.sha256(code).digest() + code)
                os.replace(part, folder / name)
            finally:  # nothing of it stays on a full disk
                part.unlink(missing_ok=True)
        except OSError:
            continue
        _evict(folder)
        return


def _evict(folder: Path) -> None:
    """Remove what has not been used for longest, where there is more than may be; others may do so meanwhile."""
    found: list[tuple[float, int, str]] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _CODE.match(entry.name):
                with suppress(OSError):
                    info = entry.stat(follow_symlinks=False)
                    found.append((info.st_mtime, info.st_size, entry.path))
    size = 0
    for number, (_, size_of, path) in enumerate(sorted(found, reverse=True)):
        size += size_of
        if number >= MOST_FILES or size > MOST_BYTES:
            with suppress(OSError):
                os.unlink(path)
