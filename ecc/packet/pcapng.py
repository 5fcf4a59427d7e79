"""Blocks of pcapng files: a section, its interfaces, and packets with times in ns."""

from __future__ import annotations

import struct

__all__ = ["ETHERNET", "PORTS", "RAW_IP", "interface", "packet", "section"]

ETHERNET, RAW_IP = 1, 101
"""Types of links."""
PORTS = (50000, 50001)
"""TCP ports of senders and receivers, not used by any dissector of Wireshark; same as in ecc/native/wire/frames.c."""


def section() -> bytes:
    """Return the first block of a file."""
    return _block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(link_type: int, name: str, description: str, speed: float) -> bytes:
    """Return the block of an interface; interfaces are numbered from 0 in the order of their blocks.

    Parameters
    ----------
    link_type : int
    name, description : str
    speed : float, bit/s
    """
    about = _option(2, name.encode()) + _option(3, description.encode())
    about += _option(8, struct.pack("<Q", int(speed))) + _option(9, bytes([9])) + _option(0, b"")
    return _block(1, struct.pack("<HHI", link_type, 0, 0) + about)


def packet(interface: int, time: int, frame: bytes, length: int) -> bytes:
    """Return the block of a packet.

    Parameters
    ----------
    interface : int
        Number of the interface.
    time : int, ns
    frame : bytes
        Captured bytes of the packet.
    length : int, bytes
        Length of the whole packet.
    """
    high, low = divmod(time, 2**32)
    return _block(6, struct.pack("<IIIII", interface, high, low, len(frame), length) + frame)


def _block(block_type: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack("<II", block_type, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)
