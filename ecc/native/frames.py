"""Packets that leave an engine as frames of a real network, and back: the Python face of wire/frame.h."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc.errors import NativeError
from ecc.native._engine import ffi, lib
from ecc.native.engine import Engine, _dtype, _pointer

__all__ = ["FRAME_FIELD", "FRAME_FORMAT", "VERDICTS", "Formats", "Frames", "Port"]

FRAME_FIELD = _dtype("ecc_frame_field_t")
FRAME_FORMAT = _dtype("ecc_frame_format_t")
VERDICTS = ("taken", "foreign", "truncated", "forged", "replayed", "wrong")
"""What becomes of a frame that is read, as the engine numbers it."""


@dataclass(frozen=True)
class Formats:
    """What frames look like: `formats` (dtype FRAME_FORMAT), their `fields` (FRAME_FIELD), the format of each flow."""

    formats: NDArray[np.void]
    fields: NDArray[np.void]
    format_of: NDArray[np.int64]


@check_arguments
class Port:
    """One end of a real link: its MAC address and that of the other end, and which frames came and went.

    Parameters
    ----------
    own, peer : bytes
        Six each.

    Raises
    ------
    ValueError
        Another number of bytes.
    """

    @check_arguments
    def __init__(self, own: bytes, peer: bytes) -> None:
        for name, address in (("own", own), ("peer", peer)):
            if len(address) != 6:
                raise ValueError(f"{name} must be an address of 6 bytes, got {shown(address)}")
        self._port = ffi.new("ecc_frame_port_t *", {"own": own + bytes(2), "peer": peer + bytes(2)})

    @property
    def written(self) -> int:
        """Number of frames written."""
        return int(self._port.written)

    @property
    def missing(self) -> int:
        """Frames of the other end that have not come, of those up to the last that has."""
        return int(self._port.newest) - int(self._port.verdicts[0])

    @property
    def reordered(self) -> int:
        """Frames taken after one that the other end wrote later."""
        return int(self._port.reordered)

    @property
    def verdicts(self) -> dict[str, int]:
        """Frames read, by what became of them."""
        return dict(zip(VERDICTS, self._port.verdicts, strict=True))


@check_arguments
class Frames:
    """Writer and reader of the frames of one engine's packets.

    Parameters
    ----------
    engine : Engine
        Looked at here only.
    given : Formats
    token : bytes
        Sixteen that the ends of all links of one run have, and nobody else.
    mtu : int, optional
        Most bytes of an IP packet.
    exact : bool, optional
        Whether packets keep what their headers have on the wire in a lower precision.

    Raises
    ------
    ValueError
        A token of another size.
    NativeError
        Formats that do not fit the engine's packets.
    """

    @check_arguments
    def __init__(self, engine: Engine, given: Formats, token: bytes, *, mtu: int = 1500, exact: bool = False) -> None:
        if len(token) != lib.ECC_FRAME_KEY:
            raise ValueError(f"token must have {lib.ECC_FRAME_KEY} bytes, got {len(token)}")
        formats, fields = np.array(given.formats, FRAME_FORMAT), np.array(given.fields, FRAME_FIELD)
        format_of = np.array(given.format_of, np.int64)
        if len(format_of) != engine._flows:
            raise ValueError(f"format_of must have {engine._flows} entries, got {len(format_of)}")
        config = ffi.new(
            "ecc_frames_config_t *",
            {
                "n_formats": len(formats), "formats": _pointer("ecc_frame_format_t *", formats),
                "n_fields": len(fields), "fields": _pointer("ecc_frame_field_t *", fields),
                "format_of": _pointer("int64_t *", format_of), "mtu": mtu, "exact": exact, "key": token,
            },
        )  # fmt: skip
        frames = ffi.new("ecc_frames_t **")
        code = lib.ecc_frames_new(engine._engine, config, frames)
        if code != 0:
            raise NativeError(ffi.string(lib.ecc_engine_error_text(code)).decode(), code)
        self._frames = ffi.gc(frames[0], lib.ecc_frames_free)
        self.crossing_size = int(lib.ecc_frames_crossing_size(self._frames))

    def write(self, port: Port, crossing: bytes) -> bytes:
        """Return the frame of one packet.

        Parameters
        ----------
        port : Port
            Where it leaves.
        crossing : bytes
            `crossing_size` of what `Engine.take_leaving` returned.

        Raises
        ------
        ValueError
            Another size, or nothing that an engine returns.
        """
        if len(crossing) != self.crossing_size:
            raise ValueError(f"crossing must have {self.crossing_size} bytes, got {len(crossing)}")
        room = ffi.new("unsigned char[]", lib.ecc_frames_room(self._frames))
        size = lib.ecc_frames_write(self._frames, port._port, ffi.from_buffer(crossing), room)
        if size == 0:
            raise ValueError(f"crossing must be one of this engine's packets, got {shown(crossing)}")
        return bytes(ffi.buffer(room, size))

    def read(self, port: Port, frame: bytes) -> tuple[str, bytes]:
        """Return what becomes of a frame, one of VERDICTS, and the packet if it is taken, else nothing.

        Parameters
        ----------
        port : Port
            Where it came in.
        frame : bytes
            From anywhere.
        """
        crossing = ffi.new("unsigned char[]", self.crossing_size)
        data = ffi.from_buffer(frame) if frame else ffi.NULL
        verdict = VERDICTS[lib.ecc_frames_read(self._frames, port._port, data, len(frame), crossing)]
        return verdict, bytes(ffi.buffer(crossing)) if verdict == "taken" else b""
