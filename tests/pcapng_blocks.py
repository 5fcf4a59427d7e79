"""The blocks of a pcapng file, read by code that shares nothing with its writer."""

import struct
from pathlib import Path


def blocks(path: Path) -> list[tuple[int, bytes]]:
    """Return the type and body of each block; the file must be complete."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        assert size % 4 == 0 and at + size <= len(data)
        assert struct.unpack_from("<I", data, at + size - 4) == (size,)
        found.append((kind, data[at + 8 : at + size - 4]))
        at += size
    return found
