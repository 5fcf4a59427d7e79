"""Results by what made them: one file each, written whole or not at all, so that a killed run loses nothing it had."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

__all__ = ["Store"]


class Store:
    """A folder of results, each under a key that names everything it depends on.

    Parameters
        folder : str or Path; made when the first result is put there.
        fresh : nothing that was kept before is found: everything is done again, and replaces it.
    Example
        >>> store = Store("results")
        >>> store.get("0" * 64) is None
        True
    """

    def __init__(self, folder: str | Path, fresh: bool = False) -> None:
        self.folder, self.fresh = Path(folder), fresh

    @staticmethod
    def of_user() -> Path:
        """Return the folder in the user's cache directory."""
        import platformdirs

        return Path(platformdirs.user_cache_dir("ecc")) / "claims"

    def get(self, key: str) -> Any:
        """Return the result under a key; None if there is none, or none that can be read.

        Parameters
            key : str, of hexadecimal digits.
        """
        if self.fresh:
            return None
        try:
            return json.loads(self._path(key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def put(self, key: str, result: Any) -> None:
        """Keep a result.

        Parameters
            key : str, of hexadecimal digits. result : plain data and NumPy's, NaN and infinities too.
        Raises
            OSError: the folder cannot be written. TypeError: no plain data.
        """
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{uuid4().hex}")
        part.write_text(json.dumps(result, default=lambda value: value.tolist()), encoding="utf-8")
        os.replace(part, path)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"
