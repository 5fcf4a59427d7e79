"""Messages to the kernel (rtnetlink, RFC 3549) that make and configure pairs of virtual Ethernet devices."""

from __future__ import annotations

import os
import socket
import struct

__all__ = ["new_address", "new_neighbor", "new_pair", "set_up"]

REQUEST, ACK, CREATE, EXCL = 0x1, 0x4, 0x400, 0x200
NEWLINK, NEWADDR, NEWNEIGH, ERROR = 16, 20, 28, 2
IFNAME, MTU, LINKINFO, NET_NS_FD = 3, 4, 18, 28
INFO_KIND, INFO_DATA, VETH_PEER = 1, 2, 1
ADDRESS, LOCAL = 1, 2
DESTINATION, LINK_ADDRESS, PERMANENT = 1, 2, 0x80
UP = 1
PREFIX = 24
"""Length of the network prefix of addresses [bits]."""


def new_pair(name: str, peer: str, peer_namespace: int, mtu: int) -> None:
    """Make a pair of devices, one in the namespace of this thread, the other in another one.

    Parameters
    ----------
    name, peer : str
        Names of the devices.
    peer_namespace : int
        File descriptor of the namespace of the other device.
    mtu : int, bytes

    Raises
    ------
    OSError
        If the kernel refuses.
    """
    peer_info = _link_header(0, 0) + _attribute(IFNAME, peer.encode() + b"\0") + _attribute(MTU, struct.pack("=I", mtu))
    peer_info += _attribute(NET_NS_FD, struct.pack("=i", peer_namespace))
    info = _attribute(INFO_KIND, b"veth\0") + _attribute(INFO_DATA, _attribute(VETH_PEER, peer_info))
    body = _link_header(0, 0) + _attribute(IFNAME, name.encode() + b"\0") + _attribute(MTU, struct.pack("=I", mtu))
    _request(NEWLINK, CREATE | EXCL, body + _attribute(LINKINFO, info))


def set_up(name: str) -> None:
    """Bring up a device of the namespace of this thread.

    Parameters
    ----------
    name : str

    Raises
    ------
    OSError
        If there is no such device, or the kernel refuses.
    """
    _request(NEWLINK, 0, _link_header(socket.if_nametoindex(name), UP))


def new_address(name: str, address: str) -> None:
    """Assign an IP address to a device of the namespace of this thread.

    Parameters
    ----------
    name, address : str

    Raises
    ------
    OSError
        If there is no such device, or the kernel refuses.
    """
    header = struct.pack("=BBBBI", socket.AF_INET, PREFIX, 0, 0, socket.if_nametoindex(name))
    value = socket.inet_aton(address)
    _request(NEWADDR, CREATE | EXCL, header + _attribute(LOCAL, value) + _attribute(ADDRESS, value))


def new_neighbor(name: str, address: str, link_address: bytes) -> None:
    """Set the Ethernet address of another host for a device of the namespace of this thread, so that it sends no ARP.

    Parameters
    ----------
    name, address : str
    link_address : bytes

    Raises
    ------
    OSError
        If there is no such device, or the kernel refuses.
    """
    header = struct.pack("=BxxxiHBB", socket.AF_INET, socket.if_nametoindex(name), PERMANENT, 0, 0)
    attributes = _attribute(DESTINATION, socket.inet_aton(address)) + _attribute(LINK_ADDRESS, link_address)
    _request(NEWNEIGH, CREATE | EXCL, header + attributes)


def _link_header(index: int, flags: int) -> bytes:
    """Return a struct ifinfomsg, with the flags to set."""
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, flags)


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _request(kind: int, flags: int, body: bytes) -> None:
    message = struct.pack("=IHHII", 16 + len(body), kind, REQUEST | ACK | flags, 1, 0) + body
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.send(message)
        answer = kernel.recv(65536)
    answer_kind, code = struct.unpack_from("=H", answer, 4)[0], struct.unpack_from("=i", answer, 16)[0]
    if answer_kind == ERROR and code != 0:
        raise OSError(-code, os.strerror(-code))
