"""The kernel's TCP as traffic of a live run: which flows it carries, and what it says of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.quantity import as_count
from ecc.errors import EccError
from ecc.live.hosts import INFO
from ecc.native import picoseconds
from ecc.packet.setup import Setup
from ecc.scenario import Scenario

__all__ = ["LIMITED", "TCP", "carried", "columns", "limits", "path_room", "silence", "socket_buffer", "tcp_info"]

LIMITED = 0.02
"""Share of the time for which hosts may limit a flow of the kernel.

Beyond it a send buffer makes a run void, and the window of a receiver gives a note.
"""
_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_UNLIMITED = 10
"""Bandwidth-delay products that an unlimited buffer counts as."""
_OVERHEAD = 1024
"""Memory that Linux reserves for a packet beyond its bytes, at least [bytes]."""
_MAX_BUFFER = 2**30
"""Bytes."""


@check_arguments
@dataclass(frozen=True)
class TCP:
    """Flows of a network that the TCP of this kernel carries, from hosts of its own.

    Parameters
    ----------
    control : str
        Its congestion control, such as "reno", "cubic" or "bbr".
    flows : sequence of int, optional
        Which flows of the network; None: all.

    Raises
    ------
    ValueError
        A flow that is no number, or is there twice.
    """

    control: str
    flows: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.flows is not None:
            if isinstance(self.flows, str) or not isinstance(self.flows, Iterable):
                raise TypeError(f"flows must be a sequence of numbers of flows, got {shown(self.flows)}")
            flows = tuple(as_count(flow, f"flows[{k}]") for k, flow in enumerate(self.flows))
            if len(set(flows)) < len(flows):
                raise ValueError(f"flows must be there once each, got {list(flows)}")
            object.__setattr__(self, "flows", flows)


def carried(traffic: Sequence[TCP], scenario: Scenario, setup: Setup) -> dict[int, str]:
    """Return the congestion control of each flow that the kernel carries.

    Parameters
    ----------
    traffic : sequence of TCP
    scenario : Scenario
    setup : Setup
        The same, prepared.

    Raises
    ------
    ValueError
        A flow that does not exist, is named twice, or cannot be carried.
    EccError
        The kernel has no such congestion control.
    """
    out: dict[int, str] = {}
    for k, one in enumerate(traffic):
        _check_available(one.control)
        for flow in range(setup.n_flows) if one.flows is None else one.flows:
            if flow >= setup.n_flows:
                raise ValueError(f"flows of traffic[{k}] must be < {setup.n_flows}, got {flow}")
            if flow in out:
                raise ValueError(f"flow {flow} must be of one TCP, got traffic of {out[flow]} and of {one.control}")
            out[flow] = one.control
    for flow in out:
        _check_flow(flow, scenario, setup)
    return out


def _check_flow(flow: int, scenario: Scenario, setup: Setup) -> None:
    given, protocol = scenario.network.flows[flow], scenario.deployment.flows[flow]
    if given.reverse:
        raise ValueError(f"flow {flow} must have no reverse links for the kernel's TCP, got {list(given.reverse)}")
    if given.size is not None:
        raise ValueError(f"flow {flow} must have no size for the kernel's TCP, got {given.size} bytes")
    if given.writes is not None:
        raise ValueError(f"flow {flow} must have no writes for the kernel's TCP, got {given.writes}")
    for k, impairment in enumerate(scenario.impairments):
        acks_of = getattr(impairment, "acks_of", None)
        if acks_of == "all" or flow in (acks_of or ()):
            raise ValueError(f"acks_of must not name flow {flow} of the kernel's TCP (impairments[{k}])")
    name = type(protocol).__name__
    if protocol.link_hooks() or "on_receive" in protocol.flow_hooks():
        raise ValueError(
            f"flow {flow} must run a protocol without hooks of links and receivers, such as NewReno, whose place the "
            f"kernel's TCP takes; got {name}"
        )
    if setup.flows["ecn"][flow] > 1:
        raise ValueError(f"ecn_echo of flow {flow} must be None or 'classic' for the kernel's TCP, got {name}'s")


def _check_available(control: str) -> None:
    try:
        available = _AVAILABLE.read_text(encoding="ascii").split()
    except OSError:
        available = []
    if control not in available:
        raise EccError(f"control must be one that this kernel has ({', '.join(available) or 'none'}), got {control!r}")


def path_room(scenario: Scenario, flow: int) -> int:
    """Return how many packets of a flow the network holds: the bandwidth-delay product and the buffers of its route.

    Parameters
    ----------
    scenario : Scenario
    flow : int
    """
    network = scenario.network
    packet = network.flows[flow].largest_packet
    links = [network.links[link] for link in network.flows[flow].route]
    product = min(link.capacity for link in links) * float(network.rtts[flow]) / 8.0
    room = product + packet * len(links)
    for link in links:
        limits = [link.buffer, None if link.buffer_packets is None else link.buffer_packets * packet]
        room += min((limit for limit in limits if limit is not None), default=_UNLIMITED * product)
    return int(np.ceil(room / packet))


def socket_buffer(room: int, packet: int) -> int:
    """Return the memory that the socket buffers of a flow need [bytes].

    Slow start doubles the window once more after the network is full, and Linux lets a send buffer grow to twice the
    memory of a window (tcp_sndbuf_expand), which counts each packet with its overhead, rounded up to a power of two.

    Parameters
    ----------
    room : int, packets
        From `path_room`.
    packet : int, bytes
    """
    return min(4 * room * 2 * (packet + _OVERHEAD), _MAX_BUFFER)


def limits(reports: Mapping[int, Mapping[str, NDArray[np.int64]]]) -> dict[str, tuple[float, int]]:
    """Return the maximum share of its time for which a flow was limited by its hosts, and that flow.

    Parameters
    ----------
    reports : mapping
        Flow -> its columns.

    Returns
    -------
    dict
        "buffer_limited" (share of the samples at which the send buffer had its maximum size, so that Linux could not
        let it grow with the window) and "receiver_limited" (share of the time with data to send during which the window
        of the receiver stopped the sender) -> share, flow.
    """
    shares: dict[str, list[tuple[float, int]]] = {"buffer_limited": [], "receiver_limited": []}
    for flow, told in reports.items():
        if len(told["busy"]):
            shares["buffer_limited"].append((float(told["full"].mean()), flow))
            busy = max(int(told["busy"][-1]), 1)
            shares["receiver_limited"].append((float(told["receiver_limited"][-1] / busy), flow))
    return {name: max(of, default=(0.0, -1)) for name, of in shares.items()}


def silence(setup: Setup, flows: Iterable[int], duration: float) -> None:
    """Make the engine's own senders of some flows start after the end.

    Parameters
    ----------
    setup : Setup
    flows : iterable of int
    duration : float, s
    """
    its = list(flows)
    setup.flows["start"][its] = picoseconds(duration) + 1
    setup.flows["stop"][its] = -1


def columns(reports: Sequence[Mapping[str, int]]) -> dict[str, NDArray[np.int64]]:
    """Return what TCP_INFO says of a flow at all samples, by name.

    Parameters
    ----------
    reports : sequence of mapping
    """
    out = {name: np.array([one[name] for one in reports], np.int64) for name in (*INFO, "full")}
    out["acked"] = np.maximum(out["acked"] - 1, 0)
    return out


def tcp_info(
    reports: Mapping[int, Mapping[str, NDArray[np.int64]]], n_samples: int, n_flows: int
) -> dict[str, tuple[tuple[str, str], NDArray[np.float64]]]:
    """Return the series that only flows of the kernel have.

    Parameters
    ----------
    reports : mapping
        Flow -> its columns.
    n_samples, n_flows : int
    """
    names = ("tcp_window", "tcp_in_flight", "tcp_pacing_rate", "tcp_rtt", "tcp_retransmissions")
    out = {name: np.full((n_samples, n_flows), np.nan) for name in names}
    for flow, told in reports.items():
        n = min(len(told["rtt"]), n_samples)
        in_flight = told["unacked"] - told["sacked"] - told["lost"] + told["sent_again"]
        out["tcp_window"][:n, flow] = (told["window"] * told["packet"])[:n]
        out["tcp_in_flight"][:n, flow] = (in_flight * told["packet"])[:n]
        out["tcp_pacing_rate"][:n, flow] = np.where(told["pacing_rate"] > 0, 8.0 * told["pacing_rate"], np.nan)[:n]
        out["tcp_rtt"][:n, flow] = told["rtt"][:n] * 1e-6
        out["tcp_retransmissions"][:n, flow] = told["retransmissions"][:n]
    return {name: (("time", "flow"), values) for name, values in out.items()}
