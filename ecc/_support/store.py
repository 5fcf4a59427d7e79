"""Results by what made them, in one SQLite file: rows with checksums, which several processes may share."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from ecc._support.cache import folders

__all__ = ["Store"]

_SCHEMA = "CREATE TABLE IF NOT EXISTS ecc_results (key TEXT PRIMARY KEY, result TEXT, checksum TEXT)"
_MAGIC, _SEEN = b"SQLite format 3\0", 4096
_APPLICATION = 0x65636331
"""Written into the header of the file: whose it is ("ecc1")."""


class Store:
    """Results, each under a key that names everything it depends on; losing the store costs time, never a result.

    A row whose checksum is wrong counts as missing. A damaged file is moved aside, and what can still be read of it is
    taken over. A store that cannot be read or written is not touched, and `trouble` has the reason.

    Parameters
    ----------
    path : str or Path
        File, or a folder that has (or gets) the file "results.sqlite"; made when the first result is put there.
    fresh : bool, optional
        Nothing that was kept before is found: everything is done again, and replaces it.
    most : int, or None
        How many results are kept, the last ones; None: all.

    Raises
    ------
    ValueError
        The file is something else.

    Examples
    --------
    >>> store = Store("results.sqlite")
    >>> store.get("0" * 64) is None
    True
    """

    def __init__(self, path: str | Path, fresh: bool = False, most: int | None = None) -> None:
        self.path, self.fresh, self.most = Path(path), fresh, most
        if os.path.isdir(self.path):
            self.path /= "results.sqlite"
        self.trouble: str | None = None
        """Why results are not kept; None while they are."""
        try:
            if not self.path.exists():
                return
            if not self.path.is_file():
                raise OSError("it is no file")
            with self.path.open("rb") as file:
                head = file.read(_SEEN)
        except OSError as error:
            self._give_up(error)
            return
        if head and not _is_ours(head):
            raise ValueError(f"store must be a file that was made as a store, got {str(path)!r}, which is none")
        self._check()

    @staticmethod
    def of_user() -> Path:
        """Return the store in the user's cache directory, or in a temporary folder if there is no home."""
        folder = next(folders(), None)
        return (folder or Path()) / "claims" / "results.sqlite"

    def get(self, key: str) -> Any:
        """Return the result under a key; None if there is none, or none that can be read.

        Parameters
        ----------
        key : str
        """
        if self.fresh or not os.path.isfile(self.path):
            return None
        try:
            with _connection(self.path) as database:
                row = database.execute("SELECT result, checksum FROM ecc_results WHERE key = ?", (key,)).fetchone()
            return _result(key, *row) if row else None
        except (sqlite3.Error, OSError, ValueError):
            return None

    def put(self, key: str, result: Any) -> None:
        """Keep a result; where that fails, `trouble` has the reason, and nothing more is kept.

        Parameters
        ----------
        key : str
        result : object
            Plain data and NumPy's, NaN and infinities too.

        Raises
        ------
        TypeError
            No plain data.
        """
        text = json.dumps(result, default=lambda value: value.tolist())
        if self.trouble is None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    self._write([(key, text, _checksum(key, text))])
                except sqlite3.DatabaseError as error:
                    if not _is_damage(error):
                        raise
                    self._repair()  # of what the check of a whole file does not see, such as an index
                    if self.trouble is None:
                        self._write([(key, text, _checksum(key, text))])
            except (sqlite3.Error, OSError) as error:
                self._give_up(error)

    def merge(self, path: str | Path) -> None:
        """Keep the results of another store too.

        Parameters
        ----------
        path : str or Path
            As of a store; it is only read.

        Raises
        ------
        ValueError
            There is no such file, or it is something else.
        """
        other = Store(path)
        if not other.path.is_file():
            raise ValueError(f"store to merge must be a file that is there, got {str(path)!r}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._write(list(dict.fromkeys(_readable(other.path))))
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def __len__(self) -> int:
        """How many results there are; 0 if the store cannot be read."""
        try:
            with _connection(self.path) as database:
                return int(database.execute("SELECT count(*) FROM ecc_results").fetchone()[0])
        except sqlite3.Error:
            return 0

    def _write(self, rows: list[tuple[str, str, str]]) -> None:
        with _connection(self.path) as database, database:
            database.execute(f"PRAGMA application_id = {_APPLICATION}")
            database.execute(_SCHEMA)
            database.executemany("INSERT OR REPLACE INTO ecc_results VALUES (?, ?, ?)", rows)
            if self.most is not None:  # rows are numbered as they are put
                last = "SELECT rowid FROM ecc_results ORDER BY rowid DESC LIMIT 1 OFFSET ?"
                database.execute(f"DELETE FROM ecc_results WHERE rowid <= ({last})", (self.most,))

    def _give_up(self, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or error
        self.trouble = f"results are not kept: {self.path} cannot be written: {reason}"

    def _check(self) -> None:
        """Repair a damaged file."""
        try:
            with _connection(self.path) as database:
                if database.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)]:
                    database.execute(_SCHEMA)
                    declared = database.execute("SELECT sql FROM sqlite_master WHERE name = 'ecc_results'").fetchall()
                    if declared == [(_SCHEMA.replace("IF NOT EXISTS ", ""),)]:  # one letter makes numbers of texts
                        return
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                self._give_up(error)
                return
        self._repair()

    def _repair(self) -> None:
        """Move a damaged file aside, and take over the rows that are still good."""
        aside = self.path.with_name(f"{self.path.name}.damaged-{uuid4().hex[:8]}")
        try:
            os.replace(self.path, aside)  # first: another process may have repaired it already, and put more there
            self._write(list(_readable(aside)))
        except FileNotFoundError:  # another process does the same now
            pass
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)


@contextmanager
def _connection(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection for one use: neither threads nor forks share one; it waits for other processes."""
    with closing(sqlite3.connect(path, timeout=60.0)) as database:
        try:
            database.execute("PRAGMA synchronous = NORMAL")
            yield database
        except UnicodeDecodeError as error:  # of a message that quotes what is damaged
            raise sqlite3.DatabaseError(f"malformed: {error}") from None


def _readable(path: Path) -> Iterator[tuple[str, str, str]]:
    """Rows of a file that are good; from a damaged one, all that are found."""
    for order in ("", " ORDER BY rowid DESC"):  # from both ends up to a page that is damaged
        try:
            with _connection(path) as database:
                database.text_factory = lambda raw: raw.decode(errors="replace")
                for row in database.execute(f"SELECT key, result, checksum FROM ecc_results{order}"):
                    if all(isinstance(part, str) for part in row) and row[2] == _checksum(*row[:2]):
                        yield row
        except sqlite3.Error:
            pass


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether the file is wrong, and not only locked, read-only or full."""
    return not isinstance(error, sqlite3.OperationalError) or "malformed" in str(error)


def _is_ours(head: bytes) -> bool:
    """Whether a file begins like a store, some bytes of its header perhaps damaged."""
    return (head[:16] == _MAGIC and b"ecc_results" in head) or head[68:72] == _APPLICATION.to_bytes(4)


def _checksum(key: str, text: str) -> str:
    return hashlib.sha256(f"{key}\0{text}".encode()).hexdigest()[:32]


def _result(key: str, text: Any, checksum: Any) -> Any:
    if not isinstance(text, str) or checksum != _checksum(key, text):
        return None
    return json.loads(text)
