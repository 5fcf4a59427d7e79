"""Real links between unnamed network namespaces of this process alone, without root where the kernel allows it.

A child of ours makes the namespaces, the pairs of devices between them, and a packet socket on each device, sends the
sockets back and ends. Nothing but these sockets keeps the namespaces: they vanish when the sockets are closed, be it by
`kill -9`, and no address, name or process is left. The process itself stays in its own namespaces.
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
"""Bytes of frames that may wait at a tap."""
_ROOM = 64
"""Sockets in one message, at most."""


def ends_of_links(links: Sequence[tuple[int, int]], mtu: int, tapped: bool = False) -> list[tuple[socket.socket, ...]]:
    """Return packet sockets, bound to both ends of new links between new namespaces: two for each link.

    Parameters
    ----------
    links : sequence of tuple of int
        The numbers of the two namespaces that each link joins, from 0.
    mtu : int, bytes
        Most that an IP packet on them has.
    tapped : bool, optional
        Whether there are two more for each link, for somebody else to read what comes.

    Raises
    ------
    EccError
        This system has no namespaces, or forbids them.
    """
    if sys.platform != "linux":
        raise EccError(f"live runs need the network namespaces of Linux, got {sys.platform}")
    if not links:
        return []
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    task = json.dumps({"links": [list(link) for link in links], "mtu": mtu, "each": 1 + tapped, "socket": its.fileno()})
    with ours:
        with its:
            command = [sys.executable, "-P", "-c", "from ecc.live.namespaces import serve; serve()"]
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                pass_fds=[its.fileno()],
            )  # fmt: skip
        try:
            assert child.stdin is not None
            with suppress(BrokenPipeError):
                child.stdin.write(task)
                child.stdin.close()
            child.stdin = None
            sockets = receive_sockets(ours, child, 2 * (1 + tapped) * len(links))
        finally:
            child.kill()
            child.communicate()
    each = 2 * (1 + tapped)
    return [tuple(sockets[k : k + each]) for k in range(0, len(sockets), each)]


def receive_sockets(ours: socket.socket, child: subprocess.Popen[str], count: int) -> list[socket.socket]:
    """Return so many sockets that a child sends.

    Parameters
    ----------
    ours : socket
        Where they come in.
    child : Popen
        With a pipe for its errors.
    count : int

    Raises
    ------
    EccError
        It sends a reason instead, or ends.
    """
    sockets: list[socket.socket] = []
    while len(sockets) < count:
        said, given, _, _ = socket.recv_fds(ours, 4096, _ROOM)
        sockets += [socket.socket(fileno=fd) for fd in given]
        if not given:
            for one in sockets:
                one.close()
            reason = said.decode() or (child.communicate()[1].strip().splitlines() or ["no reason given"])[-1]
            raise EccError(f"live runs need network namespaces, as root or in user namespaces: {reason}")
    return sockets


# ---- in the child ----------------------------------------------------------------------------------------------------


def serve() -> None:
    """Make what the standard input describes, and send the sockets."""
    task = json.loads(sys.stdin.read())
    with socket.socket(fileno=task["socket"]) as ours:
        try:
            made = _make([(a, b) for a, b in task["links"]], task["mtu"], task["each"])
        except OSError as error:
            ours.send(reason_of(error).encode())
            return
        for k in range(0, len(made), _ROOM):
            socket.send_fds(ours, [b"s"], [one.fileno() for one in made[k : k + _ROOM]])


def _make(links: Sequence[tuple[int, int]], mtu: int, each: int) -> list[socket.socket]:
    from ecc.live.netlink import new_pair, set_up

    become_root()
    spaces = []
    for _ in range(1 + max(max(link) for link in links)):
        call("unshare", NEW_NET)
        spaces.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        with suppress(OSError), open("/proc/sys/net/ipv6/conf/default/disable_ipv6", "w") as file:  # it would chatter
            file.write("1")
    for k, (a, b) in enumerate(links):
        call("setns", spaces[a], NEW_NET)
        new_pair(f"a{k}", f"b{k}", spaces[b], mtu)
    for k, (a, b) in enumerate(links):
        for node, name in ((a, f"a{k}"), (b, f"b{k}")):
            call("setns", spaces[node], NEW_NET)
            set_up(name)
    made: list[socket.socket] = []
    for k, (a, b) in enumerate(links):
        for node, name in ((a, f"a{k}"), (b, f"b{k}")) * each:
            call("setns", spaces[node], NEW_NET)
            made.append(packet_socket(name, is_tap=len(made) % (2 * each) >= 2))
    return made


def packet_socket(name: str, *, is_tap: bool = False) -> socket.socket:
    """Return a packet socket that receives the IPv4 frames arriving at a device of the namespace of this thread.

    Parameters
    ----------
    name : str
    is_tap : bool, optional
        Whether it is for a capture, which reads it with less haste and needs a larger buffer.
    """
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    out.bind((name, IPV4))
    if is_tap:
        with suppress(PermissionError):  # as root of the system only
            out.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
    return out


def reason_of(error: OSError) -> str:
    """Return the reason why namespaces or devices could not be made, on one line.

    Parameters
    ----------
    error : OSError
    """
    if error.errno == errno.ENOSPC:  # "No space left on device", which is not about disks here
        limits = "user.max_net_namespaces or user.max_user_namespaces"
        return f"the limit on namespaces is reached: raise {limits} (sysctl), or end processes that hold namespaces"
    return f"{error.strerror or error}{f' ({error.filename})' if error.filename else ''}"


def become_root() -> None:
    """Go to a new network namespace, where only the root may make them as the root of a user namespace of our own."""
    try:
        call("unshare", NEW_NET)
    except PermissionError:
        uid, gid = os.getuid(), os.getgid()
        call("unshare", NEW_USER | NEW_NET)
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)


def call(name: str, *arguments: int) -> None:
    """Call the C library for what Python has from 3.12 on.

    Parameters
    ----------
    name : str
        Of a function that returns 0, or -1 and errno.
    *arguments : int

    Raises
    ------
    OSError
        It fails.
    """
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
