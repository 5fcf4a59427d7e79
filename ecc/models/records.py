"""The records that hooks work on: NumPy arrays of what a protocol declares."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.arguments import shown

__all__ = ["record_dtype", "records"]


def record_dtype(record: Any) -> np.dtype[np.void]:
    """Return the dtype of a record that a protocol declares: float fields are float64, int fields int64.

    Parameters
    ----------
    record : object
        Dataclass, or one of its instances, with fields that are float, int, or tuples of either: arrays, as long as the
        record's own.

    Raises
    ------
    TypeError
        A field of another type.
    """
    kinds = {"float": "f8", "int": "i8", "tuple[float, ...]": "f8", "tuple[int, ...]": "i8"}
    kinds |= {float: "f8", int: "i8", tuple[float, ...]: "f8", tuple[int, ...]: "i8"}  # type: ignore[dict-item]
    for f in fields(record):
        if f.type not in kinds:
            name = getattr(record, "__name__", type(record).__name__)
            raise TypeError(f"{name}.{f.name} must be float or int, or a tuple of either, got {shown(f.type)}")
    return np.dtype([(f.name, kinds[f.type], np.shape(getattr(record, f.name))) for f in fields(record)])  # type: ignore[index]


def records(first: Any, count: int) -> NDArray[np.void]:
    """Return `count` records like the first.

    Parameters
    ----------
    first : object
        Instance of a dataclass, as of `record_dtype`.
    count : int
    """
    out = np.zeros(count, record_dtype(first))
    for f in fields(first):
        out[f.name] = getattr(first, f.name)
    return out
