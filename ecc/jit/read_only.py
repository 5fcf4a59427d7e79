"""Record types of Numba with arrays that compiled code cannot write, for parameters, which all flows share."""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.core.datamodel import models
from numba.core.datamodel.registry import register_default

__all__ = ["read_only"]


class _ReadOnlyArray(types.NestedArray):
    """An array in a record that a hook, or a function that gets the array from a hook, can read only."""

    mutable = False

    def __init__(self, dtype: Any, shape: tuple[int, ...]) -> None:
        super().__init__(dtype, shape)
        self.name = f"readonly {self.name}"


register_default(_ReadOnlyArray)(models.NestedArrayModel)


def read_only(record: Any) -> Any:
    """Return a record type of Numba with read-only arrays; the same type, if it has no arrays.

    Parameters
    ----------
    record : numba.types.Record
    """
    if not any(isinstance(field.type, types.NestedArray) for field in record.fields.values()):
        return record
    fields = [
        (name, field._replace(type=_ReadOnlyArray(field.type.dtype, field.type.shape)))
        if isinstance(field.type, types.NestedArray)
        else (name, field)
        for name, field in record.fields.items()
    ]
    return types.Record([(name, field._asdict()) for name, field in fields], record.size, record.aligned)
