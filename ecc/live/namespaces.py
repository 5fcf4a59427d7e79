"""Real links between unnamed network namespaces, private to this process, without root if the kernel allows it.

A child process makes the namespaces, the pairs of devices between them, and a packet socket on each device, sends the
sockets back and ends. Only these sockets keep the namespaces alive: they vanish when the sockets are closed, even by
`kill -9`, and no address, name or process remains. This process stays in its namespaces.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

from ecc.errors import EccError

__all__ = ["NEW_NET", "become_root", "call", "ends_of_links", "packet_socket", "reason_of", "receive_sockets"]

NEW_USER, NEW_NET = 0x10000000, 0x40000000
IPV4 = 0x0800
SO_RCVBUFFORCE = 33
BUFFER = 1 << 25
"""Buffer of a tap for waiting frames [bytes]."""
_ROOM = 64
"""Maximum number of sockets in one message."""


def ends_of_links(links: Sequence[tuple[int, int]], mtu: int, tapped: bool = False) -> list[tuple[socket.socket, ...]]:
    """Return packet sockets bound to both ends of new links between new namespaces: two for each link.

    Parameters
    ----------
    links : sequence of tuple of int
        Numbers of the two namespaces that each link joins, from 0. For example [(0, 1), (1, 2)].
    mtu : int, bytes
        Maximum size of an IP packet on the links.
    tapped : bool, optional
        Whether to add two sockets for each link, for a capture of the arriving frames.

    Raises
    ------
    EccError
        If this system has no namespaces or forbids them.
    """
    if sys.platform != "linux":
        raise EccError(f"live runs need the network namespaces of Linux, got {sys.platform}")
    if not links:
        return []
    local, remote = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    task = json.dumps(
        {"links": [list(link) for link in links], "mtu": mtu, "each": 1 + tapped, "socket": remote.fileno()}
    )
    with local:
        with remote:
            command = [sys.executable, "-P", "-c", "from ecc.live.namespaces import serve; serve()"]
            child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=[remote.fileno()],
            )
        try:
            assert child.stdin is not None
            with suppress(BrokenPipeError):
                child.stdin.write(task)
                child.stdin.close()
            child.stdin = None
            sockets = receive_sockets(local, child, 2 * (1 + tapped) * len(links))
        finally:
            child.kill()
            child.communicate()
    each = 2 * (1 + tapped)
    return [tuple(sockets[k : k + each]) for k in range(0, len(sockets), each)]


def receive_sockets(channel: socket.socket, child: subprocess.Popen[str], count: int) -> list[socket.socket]:
    """Return a number of sockets sent by a child process.

    Parameters
    ----------
    channel : socket
        Unix socket connected to the child.
    child : Popen
        Child process with a pipe for its errors.
    count : int
        Number of sockets.

    Raises
    ------
    EccError
        If the child sends a reason instead, or ends.
    """
    sockets: list[socket.socket] = []
    while len(sockets) < count:
        message, descriptors, _, _ = socket.recv_fds(channel, 4096, _ROOM)
        sockets += [socket.socket(fileno=fd) for fd in descriptors]
        if not descriptors:
            for received in sockets:
                received.close()
            reason = message.decode() or (child.communicate()[1].strip().splitlines() or ["no reason given"])[-1]
            raise EccError(f"live runs need network namespaces, as root or in user namespaces: {reason}")
    return sockets


# ---- in the child ----------------------------------------------------------------------------------------------------


def serve() -> None:
    """Make the links described by the standard input, and send the sockets."""
    task = json.loads(sys.stdin.read())
    with socket.socket(fileno=task["socket"]) as parent:
        try:
            sockets = _make([(a, b) for a, b in task["links"]], task["mtu"], task["each"])
        except OSError as error:
            parent.send(reason_of(error).encode())
            return
        for k in range(0, len(sockets), _ROOM):
            socket.send_fds(parent, [b"s"], [end.fileno() for end in sockets[k : k + _ROOM]])


def _make(links: Sequence[tuple[int, int]], mtu: int, each: int) -> list[socket.socket]:
    from ecc.live.netlink import new_pair, set_up

    become_root()
    spaces = []
    for _ in range(1 + max(max(link) for link in links)):
        call("unshare", NEW_NET)
        spaces.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        with (
            suppress(OSError),
            open("/proc/sys/net/ipv6/conf/default/disable_ipv6", "w") as file,
        ):  # it would send frames
            file.write("1")
    for k, (a, b) in enumerate(links):
        call("setns", spaces[a], NEW_NET)
        new_pair(f"a{k}", f"b{k}", spaces[b], mtu)
    for k, (a, b) in enumerate(links):
        for node, name in ((a, f"a{k}"), (b, f"b{k}")):
            call("setns", spaces[node], NEW_NET)
            set_up(name)
    sockets: list[socket.socket] = []
    for k, (a, b) in enumerate(links):
        for node, name in ((a, f"a{k}"), (b, f"b{k}")) * each:
            call("setns", spaces[node], NEW_NET)
            sockets.append(packet_socket(name, is_tap=len(sockets) % (2 * each) >= 2))
    return sockets


def packet_socket(name: str, *, is_tap: bool = False) -> socket.socket:
    """Return a packet socket that receives the IPv4 frames arriving at a device of the namespace of this thread.

    Parameters
    ----------
    name : str
        Name of the device.
    is_tap : bool, optional
        Whether the socket is for a capture, which reads it later and needs a larger buffer.
    """
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    out.bind((name, IPV4))
    if is_tap:
        with suppress(PermissionError):  # needs root of the system
            out.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
    return out


def reason_of(error: OSError) -> str:
    """Return the reason why namespaces or devices could not be made, on one line.

    Parameters
    ----------
    error : OSError
    """
    if error.errno == errno.ENOSPC:  # its usual text, "No space left on device", is misleading here
        limits = "user.max_net_namespaces or user.max_user_namespaces"
        return f"the limit on namespaces is reached: raise {limits} (sysctl), or end processes that hold namespaces"
    return f"{error.strerror or error}{f' ({error.filename})' if error.filename else ''}"


def become_root() -> None:
    """Enter a new network namespace; if only root may make it, first become root of a new user namespace."""
    try:
        call("unshare", NEW_NET)
    except PermissionError:
        uid, gid = os.getuid(), os.getgid()
        call("unshare", NEW_USER | NEW_NET)
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)


def call(name: str, *arguments: int) -> None:
    """Call a function of the C library that Python has only from version 3.12 on.

    Parameters
    ----------
    name : str
        Name of a function that returns 0, or -1 and sets errno, for example "unshare".
    *arguments : int

    Raises
    ------
    OSError
        If the call fails.
    """
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
