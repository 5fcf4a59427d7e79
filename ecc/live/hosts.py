"""Hosts with the TCP of the kernel in network namespaces; a live run carries the frames between them.

The hosts run in a child process. For each flow it makes two namespaces, one for the sender and one for the receiver,
returns packet sockets at the far ends of their only devices, and then sends and receives according to the flows until
the time is over or the parent process has ended. At the end it returns the values of TCP_INFO (tcp(7)) at the times of
samples.

A new network namespace has the default settings of the kernel, independent of the settings of the system, with two
exceptions: it inherits the maximum sizes of socket buffers (tcp_wmem, tcp_rmem) and the default congestion control.
Both are set here.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ecc.live.namespaces import NEW_NET, become_root, call, packet_socket, reason_of, receive_sockets
from ecc.live.netlink import new_address, new_neighbor, new_pair, set_up
from ecc.packet.pcapng import PORTS

__all__ = ["INFO", "HostsFlow", "KernelHosts"]

INFO = {
    "rtt": (68, "I"),  # us, smoothed
    "window": (80, "I"),  # packets
    "retransmissions": (100, "I"),  # packets
    "acked": (120, "Q"),  # bytes, plus 1 for the SYN
    "min_rtt": (148, "I"),  # us
    "marked": (196, "I"),  # packets
    "sent": (200, "Q"),  # bytes
    "retransmitted": (208, "Q"),  # bytes
    "packet": (16, "I"),  # bytes of data in a packet
    "unacked": (24, "I"),  # packets, like the next three
    "sacked": (28, "I"),
    "lost": (32, "I"),
    "sent_again": (36, "I"),  # retransmitted and not acknowledged
    "pacing_rate": (104, "q"),  # byte/s; -1: none
    "busy": (168, "Q"),  # us with data to send, including the time of the next entry
    "receiver_limited": (176, "Q"),  # us during which the window of the receiver stopped the sender
}
"""Offsets and types of the recorded fields of struct tcp_info. A sample also has "full": 1 if the send buffer has its
maximum size, otherwise 0. (In many such runs tcpi_sndbuf_limited stays 0.)"""

BUFFERS = ("wmem", "rmem")
ADDRESSES = ("10.0.0.1", "10.0.0.2")
SENDER, RECEIVER = 0, 1
SIZE_OF_INFO = 240
WRITE, READ = 1 << 16, 1 << 20
"""Bytes per call."""
GET_ADDRESS, ETHTOOL = 0x8927, 0x8946  # ioctls of sockets
OFFLOADS = (0x17, 0x1F, 0x24)
"""Offloads to switch off: checksums, and segmentation of data larger than a packet, for TCP and in general."""
NO_WAIT = struct.pack("=ii", 1, 0)
PATIENCE = 5.0
"""s within which the child must return its samples."""


@dataclass(frozen=True)
class HostsFlow:
    """A flow of the kernel: its congestion control, times [s], maximum packet size [bytes], and whether it uses ECN.

    `buffer` is the size to which the socket buffers of its hosts must be able to grow [bytes of memory, see tcp(7)].
    """

    control: str
    start: float
    stop: float | None
    mtu: int
    has_ecn: bool
    buffer: int


class KernelHosts:
    """Hosts of flows of the kernel, in a child of this process.

    Parameters
    ----------
    flows : sequence of HostsFlow
    period : float, s
        Period of samples, for example 0.1.
    n_samples : int
        Number of samples.
    tapped : bool, optional
        Whether to add packet sockets for captures: for each flow, `taps` has sockets for the frames from and to the
        sender, and from and to the receiver, in this order.

    Raises
    ------
    EccError
        If this system forbids namespaces or lacks another requirement.
    """

    def __init__(self, flows: Sequence[HostsFlow], period: float, n_samples: int, *, tapped: bool = False) -> None:
        local, remote = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        task = {"flows": [asdict(flow) for flow in flows], "period": period, "n_samples": n_samples, "tapped": tapped}
        with local:
            with remote:
                command = [sys.executable, "-P", "-c", "from ecc.live.hosts import serve; serve()"]
                self._child = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    pass_fds=[remote.fileno()],
                )
                self._write(task | {"socket": remote.fileno()})
            try:
                sockets = receive_sockets(local, self._child, (6 if tapped else 2) * len(flows))
            except BaseException:
                self.close()
                raise
        per_flow = [
            sockets[k : k + len(sockets) // len(flows)] for k in range(0, len(sockets), len(sockets) // len(flows))
        ]
        self.ends = [(sender, receiver) for sender, receiver, *_ in per_flow]
        self.taps = [taps for _, _, *taps in per_flow]

    def _write(self, message: dict[str, Any]) -> None:
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):
            self._child.stdin.write(json.dumps(message) + "\n")
            self._child.stdin.flush()

    def begin(self) -> None:
        """Start the clock of the hosts."""
        self._write({"origin": time.monotonic()})

    def reports(self, *, is_over: bool) -> list[list[dict[str, int]]]:
        """Return the reports of each flow at each sample, starting with the first.

        Parameters
        ----------
        is_over : bool
            Whether the time is over; otherwise the hosts stop now.
        """
        child_input, self._child.stdin = (
            self._child.stdin,
            None,
        )  # closing it would end the child before its last sample
        assert child_input is not None
        if not is_over:
            child_input.close()
        try:
            output = self._child.communicate(timeout=PATIENCE)[0]
        except subprocess.TimeoutExpired:
            self.close()
            output = ""
        finally:
            child_input.close()
        return json.loads(output) if output else [[] for _ in self.ends]

    def close(self) -> None:
        """End the child process."""
        self._child.kill()
        self._child.communicate()


# ---- in the child ----------------------------------------------------------------------------------------------------


def serve() -> None:
    """Make the hosts described by a line of the standard input, send the sockets, and run the flows."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then closes the input
    task = json.loads(sys.stdin.readline())
    flows = [_Flow(HostsFlow(**fields)) for fields in task["flows"]]
    with socket.socket(fileno=task["socket"]) as parent:
        try:
            become_root()
            for flow in flows:
                ends = flow.made(tapped=task["tapped"])
                socket.send_fds(parent, [b"s"], [end.fileno() for end in ends])
        except OSError as error:
            parent.send(reason_of(error).encode())
            return
    line = sys.stdin.readline()
    if line:
        _run(flows, json.loads(line)["origin"], task["period"], task["n_samples"])
        print(json.dumps([flow.rows for flow in flows]))


@dataclass
class _Flow:
    """A flow with both its hosts."""

    of: HostsFlow
    rows: list[dict[str, int]] = field(default_factory=list)
    sender: socket.socket | None = None
    receiver: socket.socket | None = None

    def made(self, *, tapped: bool) -> list[socket.socket]:
        """Make the hosts; return packet sockets at the far ends of the sender's and receiver's devices, then taps."""
        wire = _new_namespace()
        ends: list[socket.socket] = []
        taps: list[socket.socket] = []
        addresses: list[bytes] = []
        self._spaces: list[int] = []
        for k, name in enumerate(("sender", "receiver")):
            self._spaces.append(_new_namespace())
            for kind in ("4/tcp_ecn", "6/conf/default/disable_ipv6"):
                with suppress(OSError), open(f"/proc/sys/net/ipv{kind}", "w") as file:
                    file.write(str(int(self.of.has_ecn or kind[0] == "6")))
            maxima = [_raise_maximum(kind, self.of.buffer) for kind in BUFFERS]
            if k == SENDER:
                self._max_buffer = maxima[0]
            new_pair("host", name, wire, self.of.mtu)
            addresses.append(_prepared("host", ADDRESSES[k]))
            arriving = [packet_socket("host", is_tap=True)] if tapped else []
            call("setns", wire, NEW_NET)
            set_up(name)
            ends.append(packet_socket(name))
            taps += [packet_socket(name, is_tap=True), *arriving] if tapped else []
        for k, space in enumerate(self._spaces):
            call("setns", space, NEW_NET)
            new_neighbor("host", ADDRESSES[1 - k], addresses[1 - k])
        self.listening = socket.create_server((ADDRESSES[RECEIVER], PORTS[RECEIVER]))  # in the receiver's namespace
        self.listening.setblocking(False)
        return ends + taps

    def start(self) -> socket.socket:
        """Connect the sender to the receiver, and return its socket."""
        call("setns", self._spaces[SENDER], NEW_NET)
        self.sender = socket.socket()
        self.sender.setblocking(False)
        self.sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, self.of.control.encode())
        self.sender.bind((ADDRESSES[SENDER], PORTS[SENDER]))
        self.sender.connect_ex((ADDRESSES[RECEIVER], PORTS[RECEIVER]))
        return self.sender

    def sample(self) -> None:
        """Record the values of TCP_INFO; a flow that has ended keeps its last values."""
        if self.sender is None or self.sender.fileno() < 0:
            self.rows.append(self.rows[-1] if self.rows else dict.fromkeys((*INFO, "full"), 0))
            return
        data = self.sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, SIZE_OF_INFO).ljust(SIZE_OF_INFO, b"\0")
        row = {name: struct.unpack_from(f"={kind}", data, at)[0] for name, (at, kind) in INFO.items()}
        row["full"] = int(self.sender.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) >= self._max_buffer)
        self.rows.append(row)


def _new_namespace() -> int:
    call("unshare", NEW_NET)
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _raise_maximum(kind: str, size: int) -> int:
    """Allow socket buffers of new connections in this namespace to grow to a size; return their maximum size."""
    setting = Path(f"/proc/sys/net/ipv4/tcp_{kind}")
    minimum, default, maximum = map(int, setting.read_text(encoding="ascii").split())
    if size > maximum:
        with suppress(OSError):
            setting.write_text(f"{minimum} {default} {size}", encoding="ascii")
            return size
    return maximum


def _prepared(name: str, address: str) -> bytes:
    """Bring up a device without offloads, with an IP address; return its Ethernet address."""
    set_up(name)
    new_address(name, address)
    with socket.socket() as any_socket:
        for offload in OFFLOADS:
            value = ctypes.create_string_buffer(struct.pack("=II", offload, 0))
            _ioctl(any_socket, ETHTOOL, struct.pack("16sP", name.encode(), ctypes.addressof(value)))
        return _ioctl(any_socket, GET_ADDRESS, struct.pack("16s24x", name.encode()))[18:24]


def _ioctl(any_socket: socket.socket, request: int, data: bytes) -> bytes:
    from fcntl import ioctl

    return ioctl(any_socket, request, data.ljust(40, b"\0"))


def _events(flows: Sequence[_Flow], period: float, n_samples: int) -> Iterator[tuple[float, _Flow | None, bool]]:
    """Yield the times of samples (None), starts and stops (True) of flows, in order; the last event is a sample."""
    end = period * n_samples
    events: list[tuple[float, int, _Flow | None, bool]] = []
    for flow in flows:
        events.append((flow.of.start, 0, flow, False))
        if flow.of.stop is not None:
            events.append((flow.of.stop, 1, flow, True))
    events += [(period * k, 2, None, False) for k in range(1, n_samples + 1)]
    for at, _, which, stops in sorted(events, key=lambda event: event[:2]):
        if at <= end:
            yield at, which, stops


def _run(flows: Sequence[_Flow], origin: float, period: float, n_samples: int) -> None:
    """Send and receive until the time is over or the standard input ends."""
    poll, buffer, zeros = select.epoll(), bytearray(READ), bytes(WRITE)
    by_number: dict[int, tuple[_Flow, socket.socket]] = {}

    def watch(flow: _Flow, end: socket.socket, events: int) -> None:
        by_number[end.fileno()] = flow, end
        poll.register(end.fileno(), events)

    def forget(end: socket.socket) -> None:
        by_number.pop(end.fileno(), None)
        end.close()  # this removes it from the poll

    poll.register(0, select.EPOLLIN)
    for flow in flows:
        watch(flow, flow.listening, select.EPOLLIN)
    for at, which, stops in _events(flows, period, n_samples):
        while (wait := origin + at - time.monotonic()) > 0.0:
            for number, _ in poll.poll(wait):
                if number == 0:
                    return
                if number not in by_number:
                    continue
                flow, end = by_number[number]
                try:
                    if end is flow.listening:
                        flow.receiver = end.accept()[0]
                        flow.receiver.setblocking(False)
                        watch(flow, flow.receiver, select.EPOLLIN)
                    elif end is flow.sender:
                        end.send(zeros)
                    elif end.recv_into(buffer, READ, socket.MSG_TRUNC) == 0:
                        forget(end)
                except BlockingIOError:
                    pass
                except OSError:  # the other end is closed
                    forget(end)
        if which is None:
            for flow in flows:
                flow.sample()
        elif not stops:
            watch(which, which.start(), select.EPOLLOUT)
        elif which.sender is not None and which.sender.fileno() >= 0:
            which.sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_WAIT)  # discard unsent data
            forget(which.sender)
