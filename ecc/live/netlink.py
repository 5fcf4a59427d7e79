"""The few messages to the kernel (rtnetlink, RFC 3549) that make pairs of virtual Ethernet devices."""

from __future__ import annotations

import os
import socket
import struct

__all__ = ["new_pair", "set_up"]

REQUEST, ACK, CREATE, EXCL = 0x1, 0x4, 0x400, 0x200
NEWLINK, ERROR = 16, 2
IFNAME, MTU, LINKINFO, NET_NS_FD = 3, 4, 18, 28
INFO_KIND, INFO_DATA, VETH_PEER = 1, 2, 1
UP = 1


def new_pair(name: str, peer: str, peer_namespace: int, mtu: int) -> None:
    """Make a pair of devices, one in the namespace of this thread, the other in another one.

    Parameters
    ----------
    name, peer : str
        What they are called.
    peer_namespace : int
        File descriptor.
    mtu : int, bytes

    Raises
    ------
    OSError
        The kernel refuses.
    """
    its = _of_link(0, 0) + _attribute(IFNAME, peer.encode() + b"\0") + _attribute(MTU, struct.pack("=I", mtu))
    its += _attribute(NET_NS_FD, struct.pack("=i", peer_namespace))
    info = _attribute(INFO_KIND, b"veth\0") + _attribute(INFO_DATA, _attribute(VETH_PEER, its))
    body = _of_link(0, 0) + _attribute(IFNAME, name.encode() + b"\0") + _attribute(MTU, struct.pack("=I", mtu))
    _request(CREATE | EXCL, body + _attribute(LINKINFO, info))


def set_up(name: str) -> None:
    """Bring a device of the namespace of this thread up.

    Parameters
    ----------
    name : str

    Raises
    ------
    OSError
        There is none, or the kernel refuses.
    """
    _request(0, _of_link(socket.if_nametoindex(name), UP))


def _of_link(index: int, flags: int) -> bytes:
    """A struct ifinfomsg, with the flags that it changes."""
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, flags)


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _request(flags: int, body: bytes) -> None:
    message = struct.pack("=IHHII", 16 + len(body), NEWLINK, REQUEST | ACK | flags, 1, 0) + body
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.send(message)
        answer = kernel.recv(65536)
    kind, code = struct.unpack_from("=H", answer, 4)[0], struct.unpack_from("=i", answer, 16)[0]
    if kind == ERROR and code != 0:
        raise OSError(-code, os.strerror(-code))
