"""The packet engine for Python: arrays in, arrays out; it knows no protocol."""

from __future__ import annotations

import numpy as np

from ecc.native._engine import ffi

__all__ = ["FLOW_ENV", "LINK_ENV"]

_NUMPY = {"double": "f8", "int64_t": "i8"}


def _dtype(struct: str) -> np.dtype[np.void]:
    """Return the dtype of a struct of the engine's header: float64, int64, and addresses as uint64."""
    kind = ffi.typeof(struct)
    fields = [(name, _NUMPY.get(field.type.cname, "u8"), field.offset) for name, field in kind.fields]
    names, formats, offsets = zip(*fields, strict=True)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": ffi.sizeof(kind)})


LINK_ENV = _dtype("ecc_link_env_t")
FLOW_ENV = _dtype("ecc_flow_env_t")
