"""Capture of the real links of a live run as a pcapng file: all frames with the timestamps of the kernel."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ecc._support.arguments import shown
from ecc.packet import pcapng
from ecc.packet.capture import description
from ecc.packet.setup import Setup

__all__ = ["Tap", "WireCapture"]

SUFFIX = ".pcapng"
SOL_PACKET, PACKET_STATISTICS = 263, 6
SO_TIMESTAMPNS = 35
_TIMESPEC, _STATISTICS = struct.Struct("@qq"), struct.Struct("@II")
_FLOW = struct.Struct("!I")


@dataclass(frozen=True)
class Tap:
    """A packet socket that receives the frames of a link in one direction.

    `name` is the name of the interface in a capture. `control` is the congestion control of the kernel's TCP if the
    frames are those of a host of the kernel, otherwise "".
    """

    socket: socket.socket
    name: str
    control: str = ""


class WireCapture:
    """A file to which a thread writes the frames that arrive at the ends of links.

    It has an interface for each end and each protocol, for example "node 0 to node 1", and one for each direction of a
    link to a host of the kernel, for example "sender of flow 0 to node 1". Times are those of the machine, not of the
    scenario. `missing` is the number of frames that the kernel discarded because the buffer was full.

    Parameters
    ----------
    path : str or Path
        File to write.
    setup : Setup
    taps : sequence of Tap
    speed : float, bit/s
        Speed in the descriptions of the interfaces.

    Raises
    ------
    ValueError
        If the suffix is not .pcapng.
    OSError
        If the file cannot be written.
    """

    def __init__(self, path: str | Path, setup: Setup, taps: Sequence[Tap], speed: float) -> None:
        self.missing = 0
        self._taps = [tap.socket for tap in taps]
        self._part_of = np.zeros(setup.n_flows, np.int64)
        for k, part in enumerate(setup.parts):
            self._part_of[part.flows[part.flows < setup.n_flows]] = k
        self._ends = threading.Event()
        self._error: OSError | None = None
        head, n_interfaces = pcapng.section(), 0
        self._first: list[int] = []  # first interface of each tap
        self._has_parts = [not tap.control for tap in taps]
        for tap in taps:
            self._first.append(n_interfaces)
            about = [f"Linux TCP {tap.control}"] if tap.control else [description(part) for part in setup.parts]
            for text in about:
                head += pcapng.interface(pcapng.ETHERNET, tap.name, text, speed)
            n_interfaces += len(about)
            tap.socket.setblocking(False)
            tap.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._file = Path(path).open("wb")
        self._file.write(head)
        self._thread = threading.Thread(target=self._fill, name="ecc capture", daemon=True)
        self._thread.start()

    @staticmethod
    def check(path: str | Path) -> None:
        """Refuse a path that is not suitable for a capture.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        ValueError, TypeError
            If the suffix is different, or the value is not a path.
        """
        if not isinstance(path, str | Path):
            raise TypeError(f"capture must be a path, got {shown(path)}")
        if Path(path).suffix != SUFFIX:
            raise ValueError(f"capture must be a {SUFFIX} file, got {shown(str(path))}")

    def close(self) -> None:
        """Write the remaining frames and finish the file.

        Raises
        ------
        OSError
            If the file could not be written.
        """
        self._ends.set()
        self._thread.join()
        for tap in self._taps:
            self.missing += _STATISTICS.unpack(tap.getsockopt(SOL_PACKET, PACKET_STATISTICS, _STATISTICS.size))[1]
        self._file.close()
        if self._error is not None:
            raise self._error

    def _fill(self) -> None:
        with ExitStack() as stack:
            waiting = stack.enter_context(selectors.DefaultSelector())
            for k, tap in enumerate(self._taps):
                waiting.register(tap, selectors.EVENT_READ, k)
            try:
                while True:
                    is_last = self._ends.is_set()  # frames that arrived before are still read
                    ready = waiting.select(0.0 if is_last else 0.05)
                    for key, _ in ready:
                        self._drain(key.data)
                    if is_last and not ready:
                        return
            except OSError as error:
                self._error = error

    def _drain(self, index: int) -> None:
        tap = self._taps[index]
        for _ in range(256):
            try:
                frame, about, _, _ = tap.recvmsg(65600, 64)
            except BlockingIOError:
                return
            seconds, ns = _TIMESPEC.unpack(about[0][2][: _TIMESPEC.size]) if about else (0, 0)
            number = self._first[index] + (self._part(frame) if self._has_parts[index] else 0)
            self._file.write(pcapng.packet(number, seconds * 10**9 + ns, frame, len(frame)))

    def _part(self, frame: bytes) -> int:
        """Return the part of the flow given by the addresses of a frame; the first part for foreign frames."""
        flow = _FLOW.unpack_from(frame, 26)[0] % 2**23 if len(frame) >= 34 else 0
        return int(self._part_of[flow]) if flow < len(self._part_of) else 0
