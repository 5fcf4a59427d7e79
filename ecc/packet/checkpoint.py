"""Files of checkpoints: an archive of arrays (.npz) followed by its checksum."""

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

FORMAT = 8
DIGEST = hashlib.sha256().digest_size
STOPPED = ("paused", "completed", "canceled", "interrupted")
OPTIONS = {"sample", "start", "perturbation", "trace", "histogram_from", "memory_limit", "record", "observe", "threads"}


def write_checkpoint(path: str | Path, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a checkpoint; the file is never left incomplete.

    Parameters
    ----------
    path : str or Path
        File to write.
    about : mapping
        Fields of `Checkpoint` other than arrays.
    arrays : mapping
        Name -> array.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    text = json.dumps({"format": FORMAT, "version": __version__, **about})
    with replacing(path) as part, part.open("w+b") as file:
        np.savez(file, about=np.array(text), **arrays)  # type: ignore[arg-type]
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").digest()
        file.write(digest)


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint, with checked types and bounds.

    `scenario` holds its tables (`Scenario.to_dict`) as JSON, which is read twenty times faster than TOML. `file` is the
    file for further rows of transfers, in the folder of the checkpoint, or None. `has_file` is true if rows are
    written to files. `handed` is the number of transfers given to the engine.
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
            If the file is not a checkpoint, is damaged, or has a different version.
        OSError
            If the file cannot be read.
        """
        refusal = f"{str(path)!r} is not a checkpoint, or is incomplete"
        check_regular(path, "checkpoint")
        data = memoryview(Path(path).read_bytes())
        if hashlib.sha256(data[:-DIGEST]).digest() != data[-DIGEST:]:
            raise ValueError(refusal)
        try:
            arrays = _arrays(data[:-DIGEST])
            about = json.loads(str(arrays.pop("about")))
            written = (about["format"], about["version"])
        except Exception:  # a forged file: its checksum is right
            raise ValueError(refusal) from None
        if written != (FORMAT, __version__):
            raise ValueError(
                f"checkpoint must be of version {__version__}, got {about['version']!s:.20} ({str(path)!r})"
            )
        try:
            return cls(**_checked(about, Path(path)), arrays=arrays)
        except (KeyError, TypeError):
            raise ValueError(refusal) from None

    def array(self, name: str, dtype: np.dtype[Any], length: int | None = None) -> NDArray[Any]:
        """Return an array of one dimension.

        Parameters
        ----------
        name : str
            Name of the array.
        dtype : dtype[object]
            Required dtype.
        length : int, optional
            Required length; None: any.

        Raises
        ------
        ValueError
            If the array is missing or has a different dtype, length or dimension.
        """
        array = self.arrays.get(name)
        if array is None or array.dtype != dtype or array.ndim != 1 or length not in (None, len(array)):
            raise ValueError(f"{name} of a checkpoint must match its scenario")
        return array

    @property
    def engine(self) -> dict[str, NDArray[Any]]:
        """Arrays saved by the engine."""
        return {name[7:]: array for name, array in self.arrays.items() if name.startswith("engine_")}


def _arrays(data: memoryview) -> dict[str, NDArray[Any]]:
    content = io.BytesIO(data)
    with zipfile.ZipFile(content) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError("compressed arrays are refused: they could have any size")
    content.seek(0)
    with np.load(content, allow_pickle=False) as file:
        return dict(file)


def _is_plain(name: str) -> bool:
    """Return whether a name is a plain file name, without a folder."""
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
