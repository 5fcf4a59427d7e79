"""Files of checkpoints: an archive of arrays (.npz), then a checksum of all of it."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc import __version__
from ecc._support.files import check_regular, replacing

__all__ = ["Checkpoint", "write_checkpoint"]

FORMAT = 7
DIGEST = hashlib.sha256().digest_size
STOPPED = ("paused", "completed", "canceled", "interrupted")
OPTIONS = {"sample", "start", "perturbation", "trace", "histogram_from", "memory_limit", "record", "threads"}


def write_checkpoint(path: str | Path, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a checkpoint; it is whole or not there.

    Parameters
    ----------
    path : str or Path
        File to write.
    about : mapping
        What `Checkpoint` has beside arrays.
    arrays : mapping
        Name -> array.

    Raises
    ------
    OSError
        It cannot be written.
    """
    text = json.dumps({"format": FORMAT, "version": __version__, **about})
    with replacing(path) as part, part.open("w+b") as file:
        np.savez(file, about=np.array(text), **arrays)  # type: ignore[arg-type]
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").digest()
        file.write(digest)


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint, of the types and within the bounds that they must have.

    `scenario`: its tables (`Scenario.to_dict`) as JSON, which is read twenty times as fast as TOML; `file`: where the
    next rows of transfers go, in the folder of the checkpoint, or None; `has_file`: whether rows go to files.
    """

    scenario: str
    options: dict[str, Any]
    stopped: str
    handed: int
    hooks: list[str]
    file: Path | None
    has_file: bool
    arrays: dict[str, NDArray[Any]]

    @classmethod
    def read(cls, path: str | Path) -> Checkpoint:
        """Return a checkpoint.

        Parameters
        ----------
        path : str or Path
            File that `write_checkpoint` wrote.

        Raises
        ------
        ValueError
            It is not a checkpoint, is damaged, or is of another version.
        OSError
            It cannot be read.
        """
        none = f"{str(path)!r} is no checkpoint, or not a whole one"
        check_regular(path, "checkpoint")
        data = Path(path).read_bytes()
        if hashlib.sha256(data[:-DIGEST]).digest() != data[-DIGEST:]:
            raise ValueError(none)
        try:
            arrays = _arrays(data[:-DIGEST])
            about = json.loads(str(arrays.pop("about")))
            written = (about["format"], about["version"])
        except Exception:  # the checksum is right, and yet: somebody has made it up
            raise ValueError(none) from None
        if written != (FORMAT, __version__):
            raise ValueError(
                f"checkpoint must be of version {__version__}, got {about['version']!s:.20} ({str(path)!r})"
            )
        try:
            return cls(**_checked(about, Path(path)), arrays=arrays)
        except (KeyError, TypeError):
            raise ValueError(none) from None

    def array(self, name: str, dtype: np.dtype[Any], length: int | None = None) -> NDArray[Any]:
        """Return an array of one dimension.

        Parameters
        ----------
        name : str
            Its name.
        dtype : dtype[object]
            That it must have.
        length : int, optional
            That it must have, or None: any.

        Raises
        ------
        ValueError
            It is not there, or another one.
        """
        found = self.arrays.get(name)
        if found is None or found.dtype != dtype or found.ndim != 1 or length not in (None, len(found)):
            raise ValueError(f"{name} of a checkpoint must be as its scenario specifies")
        return found

    @property
    def engine(self) -> dict[str, NDArray[Any]]:
        """What the engine has saved."""
        return {name[7:]: array for name, array in self.arrays.items() if name.startswith("engine_")}


def _arrays(data: bytes) -> dict[str, NDArray[Any]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError("what is compressed could be of any size")
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        return dict(file)


def _is_plain(name: str) -> bool:
    """Whether this is a file of its folder, and of no other."""
    return Path(name).name == name and name not in ("", "..") and name.isprintable()


def _checked(about: Mapping[str, Any], path: Path) -> dict[str, Any]:
    name, options, handed = about["file"], about["options"], about["handed"]
    ok = isinstance(about["scenario"], str) and isinstance(options, dict) and set(options) == OPTIONS
    ok = ok and about["stopped"] in STOPPED and type(handed) is int and handed >= 0
    ok = ok and isinstance(about["hooks"], list) and isinstance(about["has_file"], bool)
    ok = ok and (name is None or (isinstance(name, str) and about["has_file"] and _is_plain(name)))
    if not ok:
        raise TypeError
    values = {key: about[key] for key in ("scenario", "options", "stopped", "handed", "hooks", "has_file")}
    return values | {"file": None if name is None else path.parent / name}
