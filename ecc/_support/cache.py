"""Cache of compiled code and results between processes; losing it costs only time."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

__all__ = ["MAX_BYTES", "MAX_FILES", "folders", "keep", "kept"]

MAX_FILES = 2000
MAX_BYTES = 200_000_000
"""Maximum number and size of compiled files in a folder; the least recently used are deleted first."""
_CODE = re.compile(r"[0-9a-f]{64}")


def folders(make: bool = True) -> Iterator[Path]:
    """Yield the possible folders: the user's cache, and a private temporary one.

    If there is neither a home nor `ECC_CACHE_DIR`, only the latter is possible.

    Parameters
    ----------
    make : bool, optional
        True: the temporary folder is made if it is needed and missing.
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
        yield folder  # no other user can have written code there


def kept(name: str) -> bytes | None:
    """Return the compiled code under a name, or None if it is missing or damaged.

    Parameters
    ----------
    name : str
        Digest of everything that the code depends on.
    """
    for folder in folders(make=False):
        try:
            data = (folder / name).read_bytes()
        except OSError:
            continue
        if hashlib.sha256(data[32:]).digest() == data[:32]:  # a damaged object file would crash the process
            with suppress(OSError):
                os.utime(folder / name)  # mark as recently used
            return data[32:]
    return None


def keep(name: str, code: bytes) -> None:
    """Store compiled code, atomically. Without a writable folder it exists in this process only.

    Parameters
    ----------
    name : str
        Digest of everything that the code depends on.
    code : bytes
    """
    for folder in folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            part = folder / f"{name}.{uuid4().hex[:8]}"
            try:
                part.write_bytes(hashlib.sha256(code).digest() + code)
                os.replace(part, folder / name)
            finally:  # do not leave a part of it on a full disk
                part.unlink(missing_ok=True)
        except OSError:
            continue
        _evict(folder)
        return


def _evict(folder: Path) -> None:
    """Remove the oldest files beyond the limits; other processes may do so at the same time."""
    entries_by_age: list[tuple[float, int, str]] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _CODE.match(entry.name):
                with suppress(OSError):
                    info = entry.stat(follow_symlinks=False)
                    entries_by_age.append((info.st_mtime, info.st_size, entry.path))
    size = 0
    for number, (_, size_of, path) in enumerate(sorted(entries_by_age, reverse=True)):
        size += size_of
        if number >= MAX_FILES or size > MAX_BYTES:
            with suppress(OSError):
                os.unlink(path)
