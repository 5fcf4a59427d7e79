"""Conversion of packets to frames of a real network and back: the Python interface of wire/frame.h."""

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
"""Outcomes of reading a frame, in the order of their numbers in the engine."""


@dataclass(frozen=True)
class Formats:
    """Layouts of frames: `formats` (dtype FRAME_FORMAT), their `fields` (FRAME_FIELD), and the format of each flow."""

    formats: NDArray[np.void]
    fields: NDArray[np.void]
    format_of: NDArray[np.int64]


@check_arguments
class Port:
    """One end of a real link: its MAC address and that of the other end, and counts of frames.

    Parameters
    ----------
    local, peer : bytes
        MAC addresses of this end and of the other end, six bytes each.

    Raises
    ------
    ValueError
        If an address has a different number of bytes.
    """

    @check_arguments
    def __init__(self, local: bytes, peer: bytes) -> None:
        for name, address in (("local", local), ("peer", peer)):
            if len(address) != 6:
                raise ValueError(f"{name} must be an address of 6 bytes, got {shown(address)}")
        self._port = ffi.new("ecc_frame_port_t *", {"own": local + bytes(2), "peer": peer + bytes(2)})

    @property
    def written(self) -> int:
        """Number of frames written."""
        return int(self._port.written)

    @property
    def missing(self) -> int:
        """Number of missing frames among those sent before the latest frame received."""
        return int(self._port.newest) - int(self._port.verdicts[0])

    @property
    def reordered(self) -> int:
        """Number of frames accepted after one that the other end wrote later."""
        return int(self._port.reordered)

    @property
    def verdicts(self) -> dict[str, int]:
        """Number of frames read, by outcome."""
        return dict(zip(VERDICTS, self._port.verdicts, strict=True))


@check_arguments
class Frames:
    """Writer and reader of the frames of one engine's packets.

    Parameters
    ----------
    engine : Engine
        Engine of the packets; it is used only during construction.
    layouts : Formats
    token : bytes
        Secret of 16 bytes, shared by the ends of all links of one run.
    mtu : int, optional
        Maximum size of an IP packet, bytes.
    exact : bool, optional
        Whether packets keep exact values of header fields, instead of the lower precision on the wire.

    Raises
    ------
    ValueError
        If the token has a different size.
    NativeError
        If the formats do not fit the engine's packets.
    """

    @check_arguments
    def __init__(self, engine: Engine, layouts: Formats, token: bytes, *, mtu: int = 1500, exact: bool = False) -> None:
        if len(token) != lib.ECC_FRAME_KEY:
            raise ValueError(f"token must have {lib.ECC_FRAME_KEY} bytes, got {len(token)}")
        formats, fields = np.array(layouts.formats, FRAME_FORMAT), np.array(layouts.fields, FRAME_FIELD)
        format_of = np.array(layouts.format_of, np.int64)
        if len(format_of) != engine._flows:
            raise ValueError(f"format_of must have {engine._flows} entries, got {len(format_of)}")
        config = ffi.new(
            "ecc_frames_config_t *",
            {
                "n_formats": len(formats),
                "formats": _pointer("ecc_frame_format_t *", formats),
                "n_fields": len(fields),
                "fields": _pointer("ecc_frame_field_t *", fields),
                "format_of": _pointer("int64_t *", format_of),
                "mtu": mtu,
                "exact": exact,
                "key": token,
            },
        )
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
            End of the link on which it is sent.
        crossing : bytes
            One packet, `crossing_size` bytes of the result of `Engine.take_leaving`.

        Raises
        ------
        ValueError
            If the size is different, or the bytes are not a packet of the engine.
        """
        if len(crossing) != self.crossing_size:
            raise ValueError(f"crossing must have {self.crossing_size} bytes, got {len(crossing)}")
        room = ffi.new("unsigned char[]", lib.ecc_frames_room(self._frames))
        size = lib.ecc_frames_write(self._frames, port._port, ffi.from_buffer(crossing), room)
        if size == 0:
            raise ValueError(f"crossing must be one of this engine's packets, got {shown(crossing)}")
        return bytes(ffi.buffer(room, size))

    def read(self, port: Port, frame: bytes) -> tuple[str, bytes]:
        """Return the outcome for a frame, one of VERDICTS, and its packet if it is taken, otherwise no bytes.

        Parameters
        ----------
        port : Port
            End of the link on which it was received.
        frame : bytes
            Any bytes.
        """
        crossing = ffi.new("unsigned char[]", self.crossing_size)
        data = ffi.from_buffer(frame) if frame else ffi.NULL
        verdict = VERDICTS[lib.ecc_frames_read(self._frames, port._port, data, len(frame), crossing)]
        return verdict, bytes(ffi.buffer(crossing)) if verdict == "taken" else b""
