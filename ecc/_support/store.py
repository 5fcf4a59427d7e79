"""Store of results in one SQLite file: rows with checksums, shared by several processes."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from ecc._support.cache import folders

__all__ = ["Store"]

_SCHEMA = "CREATE TABLE IF NOT EXISTS ecc_results (key TEXT PRIMARY KEY, result TEXT, checksum TEXT)"
_MAGIC, _HEAD_SIZE = b"SQLite format 3\0", 4096
_ATTEMPTS = 4  # to use a file that other processes move aside
_APPLICATION = 0x65636331
"""Application identifier in the header of the file ("ecc1")."""


class Store:
    """Results, each under a key that identifies everything it depends on; a lost store costs only time.

    If the checksum of a row is wrong, the row counts as missing. A damaged file is moved aside, and its readable rows
    are copied. If a store cannot be read or written, it is left alone, and `trouble` has the reason.

    Parameters
    ----------
    path : str or Path
        File, or a folder for the file "results.sqlite"; it is created with the first result.
    fresh : bool, optional
        True: earlier results are ignored, and replaced by new ones.
    most : int, or None
        Maximum number of results, for example 5000; older ones are deleted. None: unlimited.

    Raises
    ------
    ValueError
        If the file is not a store.

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
        """Reason why results are not kept, or None."""
        try:
            if not self.path.exists():
                return
            if not self.path.is_file():
                raise OSError("it is not a file")
            with self.path.open("rb") as file:
                head = file.read(_HEAD_SIZE)
        except OSError as error:
            self._give_up(error)
            return
        if head and not _is_ours(head):
            raise ValueError(f"store must be a file that was made as a store, got {str(path)!r}")
        self._check()

    @staticmethod
    def of_user() -> Path:
        """Return the path of the store in the user's cache directory, or in a temporary folder without a home."""
        folder = next(folders(), None)
        return (folder or Path()) / "claims" / "results.sqlite"

    def get(self, key: str) -> Any:
        """Return the result under a key, or None if it is missing or unreadable.

        Parameters
        ----------
        key : str
        """
        return self.get_all([key]).get(key)

    def get_all(self, keys: Sequence[str]) -> dict[str, Any]:
        """Return the results under several keys, without those that are missing or unreadable.

        Parameters
        ----------
        keys : sequence of str
        """
        results: dict[str, Any] = {}
        if self.fresh or not os.path.isfile(self.path):
            return results
        with suppress(sqlite3.Error, OSError), _connection(self.path) as database:
            for key in keys:
                with suppress(ValueError):
                    row = database.execute("SELECT result, checksum FROM ecc_results WHERE key = ?", (key,)).fetchone()
                    if row and (result := _result(key, *row)) is not None:
                        results[key] = result
        return results

    def put(self, key: str, result: Any) -> None:
        """Keep a result; if that fails, `trouble` has the reason, and further results are dropped.

        Parameters
        ----------
        key : str
        result : object
            Plain data and arrays of NumPy, including NaN and infinities.

        Raises
        ------
        TypeError
            If the result has other data.
        """
        self.put_all({key: result})

    def put_all(self, results: Mapping[str, Any]) -> None:
        """Keep several results by their keys, all of them or none, as `put`.

        Parameters
        ----------
        results : mapping

        Raises
        ------
        TypeError
            If a result has other data than those of `put`.
        """
        texts = {key: json.dumps(result, default=lambda value: value.tolist()) for key, result in results.items()}
        rows = [(key, text, _checksum(key, text)) for key, text in texts.items()]
        if self.trouble is None and rows:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    self._write(rows)
                except sqlite3.DatabaseError as error:
                    if not _is_damage(error):
                        raise
                    self._repair()  # damage that the check of the file does not find, for example in an index
                    if self.trouble is None:
                        self._write(rows)
            except (sqlite3.Error, OSError) as error:
                self._give_up(error)

    def merge(self, path: str | Path) -> None:
        """Add the results of another store.

        Parameters
        ----------
        path : str or Path
            Path of the other store, which is only read.

        Raises
        ------
        ValueError
            If the file does not exist or is not a store.
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
        """Return the number of results; 0 if the store cannot be read."""
        try:
            with _connection(self.path) as database:
                return int(database.execute("SELECT count(*) FROM ecc_results").fetchone()[0])
        except sqlite3.Error:
            return 0

    def _write(self, rows: list[tuple[str, str, str]]) -> None:
        """Write rows, again if another process moved the file aside meanwhile: it may have copied it before."""
        for attempts_left in reversed(range(_ATTEMPTS)):
            before = _file_number(self.path)
            try:
                self._write_once(rows)
            except sqlite3.Error as error:
                if not attempts_left or not _may_be_moved(error):
                    raise
            else:
                if before in (None, _file_number(self.path)):
                    return

    def _write_once(self, rows: list[tuple[str, str, str]]) -> None:
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
        for attempts_left in reversed(range(_ATTEMPTS)):
            try:
                if self._is_whole():
                    return
            except sqlite3.DatabaseError as error:
                if attempts_left and _may_be_moved(error):
                    continue
                if not _is_damage(error):
                    self._give_up(error)
                    return
            break
        self._repair()

    def _is_whole(self) -> bool:
        """Return True if the file is undamaged and has the table as it is declared here."""
        with _connection(self.path) as database:
            if database.execute("PRAGMA integrity_check(1)").fetchall() != [("ok",)]:
                return False
            database.execute(_SCHEMA)
            declared = database.execute("SELECT sql FROM sqlite_master WHERE name = 'ecc_results'").fetchall()
            return declared == [(_SCHEMA.replace("IF NOT EXISTS ", ""),)]  # another declaration may convert texts

    def _repair(self) -> None:
        """Move a damaged file aside, and copy the rows that are still good."""
        aside = self.path.with_name(f"{self.path.name}.damaged-{uuid4().hex[:8]}")
        try:
            os.replace(self.path, aside)  # before writing: another process may have repaired it and stored more
            self._write(list(_readable(aside)))
        except FileNotFoundError:  # another process is doing the same
            pass
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)


@contextmanager
def _connection(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a connection for one use, not shared by threads or forks; it waits for other processes."""
    with closing(sqlite3.connect(path, timeout=60.0)) as database:
        try:
            database.execute("PRAGMA synchronous = NORMAL")
            yield database
        except UnicodeDecodeError as error:  # in an error message that quotes damaged text
            raise sqlite3.DatabaseError(f"malformed: {error}") from None


def _readable(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the good rows of a file, as many as can be read from a damaged one."""
    for order in ("", " ORDER BY rowid DESC"):  # from both ends up to a damaged page
        try:
            with _connection(path) as database:
                database.text_factory = lambda raw: raw.decode(errors="replace")
                for row in database.execute(f"SELECT key, result, checksum FROM ecc_results{order}"):
                    if all(isinstance(part, str) for part in row) and row[2] == _checksum(*row[:2]):
                        yield row
        except sqlite3.Error:
            pass


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Return True if the file is damaged, and not only locked, read-only or full."""
    return not isinstance(error, sqlite3.OperationalError) or "malformed" in str(error)


def _may_be_moved(error: sqlite3.Error) -> bool:
    """Return True for the errors of a file that is replaced while it is open; its journal is then not found."""
    name = getattr(error, "sqlite_errorname", "")
    return name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN")) or name == "SQLITE_READONLY_DBMOVED"


def _file_number(path: Path) -> int | None:
    """Return the number that identifies a file, or None if there is none."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def _is_ours(head: bytes) -> bool:
    """Return True if a file begins like a store, even if some bytes of its header are damaged or the rest is lost."""
    if len(head) < 72:  # too short for a database of another program
        return head[:16] == _MAGIC[: len(head)]
    return (head[:16] == _MAGIC and b"ecc_results" in head) or head[68:72] == _APPLICATION.to_bytes(4)


def _checksum(key: str, text: str) -> str:
    return hashlib.sha256(f"{key}\0{text}".encode()).hexdigest()[:32]


def _result(key: str, text: Any, checksum: Any) -> Any:
    if not isinstance(text, str) or checksum != _checksum(key, text):
        return None
    return json.loads(text)
