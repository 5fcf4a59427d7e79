"""The kernel's TCP as traffic of a live run: its flows, and their results."""

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

Beyond this share, a limit by the send buffer makes the run void, and one by the receiver window gives a note.
"""
_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_UNLIMITED = 10
"""Assumed size of an unlimited buffer, in bandwidth-delay products."""
_OVERHEAD = 1024
"""Minimum memory that Linux reserves for a packet in addition to its bytes [bytes]."""
_MAX_BUFFER = 2**30
"""Bytes."""


@check_arguments
@dataclass(frozen=True)
class TCP:
    """Flows of a network that the TCP of this kernel carries, between separate hosts.

    Parameters
    ----------
    control : str
        Its congestion control, for example "reno", "cubic" or "bbr".
    flows : sequence of int, optional
        Indices of the flows; None: all.

    Raises
    ------
    ValueError
        If a flow is not a valid index, or appears twice.
    """

    control: str
    flows: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.flows is not None:
            if isinstance(self.flows, str) or not isinstance(self.flows, Iterable):
                raise TypeError(f"flows must be a sequence of numbers of flows, got {shown(self.flows)}")
            flows = tuple(as_count(flow, f"flows[{k}]") for k, flow in enumerate(self.flows))
            if len(set(flows)) < len(flows):
                raise ValueError(f"flows must appear once each, got {list(flows)}")
            object.__setattr__(self, "flows", flows)


def carried(traffic: Sequence[TCP], scenario: Scenario, setup: Setup) -> dict[int, str]:
    """Return the congestion control of each flow that the kernel carries.

    Parameters
    ----------
    traffic : sequence of TCP
    scenario : Scenario
    setup : Setup
        The prepared run of this scenario.

    Raises
    ------
    ValueError
        If a flow does not exist, appears twice, or cannot be carried.
    EccError
        If the kernel does not have the congestion control.
    """
    out: dict[int, str] = {}
    for k, tcp in enumerate(traffic):
        _check_available(tcp.control)
        for flow in range(setup.n_flows) if tcp.flows is None else tcp.flows:
            if flow >= setup.n_flows:
                raise ValueError(f"flows of traffic[{k}] must be < {setup.n_flows}, got {flow}")
            if flow in out:
                raise ValueError(f"flow {flow} must be of one TCP, got traffic of {out[flow]} and of {tcp.control}")
            out[flow] = tcp.control
    for flow in out:
        _check_flow(flow, scenario, setup)
    return out


def _check_flow(flow: int, scenario: Scenario, setup: Setup) -> None:
    settings, protocol = scenario.network.flows[flow], scenario.deployment.flows[flow]
    if settings.reverse:
        raise ValueError(f"flow {flow} must have no reverse links for the kernel's TCP, got {list(settings.reverse)}")
    if settings.size is not None:
        raise ValueError(f"flow {flow} must have no size for the kernel's TCP, got {settings.size} bytes")
    if settings.writes is not None:
        raise ValueError(f"flow {flow} must have no writes for the kernel's TCP, got {settings.writes}")
    for k, impairment in enumerate(scenario.impairments):
        acks_of = getattr(impairment, "acks_of", None)
        if acks_of == "all" or flow in (acks_of or ()):
            raise ValueError(f"acks_of must not name flow {flow} of the kernel's TCP (impairments[{k}])")
    name = type(protocol).__name__
    if protocol.link_hooks() or "on_receive" in protocol.flow_hooks():
        raise ValueError(
            f"flow {flow} must run a protocol without hooks of links and receivers, such as NewReno, which the "
            f"kernel's TCP replaces; got {name}"
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
    """Return the number of a flow's packets that the network holds: bandwidth-delay product and buffers of its route.

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
        Result of `path_room`.
    packet : int, bytes
    """
    return min(4 * room * 2 * (packet + _OVERHEAD), _MAX_BUFFER)


def limits(reports: Mapping[int, Mapping[str, NDArray[np.int64]]]) -> dict[str, tuple[float, int]]:
    """Return the maximum share of time for which a flow was limited by its hosts, and this flow.

    Parameters
    ----------
    reports : mapping
        Flow -> result of `columns`.

    Returns
    -------
    dict
        "buffer_limited" (share of the samples at which the send buffer had its maximum size, so that Linux could not
        enlarge it with the window) and "receiver_limited" (share of the time with data to send during which the window
        of the receiver stopped the sender) -> share, flow.
    """
    shares: dict[str, list[tuple[float, int]]] = {"buffer_limited": [], "receiver_limited": []}
    for flow, series in reports.items():
        if len(series["busy"]):
            shares["buffer_limited"].append((float(series["full"].mean()), flow))
            busy = max(int(series["busy"][-1]), 1)
            shares["receiver_limited"].append((float(series["receiver_limited"][-1] / busy), flow))
    return {name: max(values, default=(0.0, -1)) for name, values in shares.items()}


def silence(setup: Setup, flows: Iterable[int], duration: float) -> None:
    """Postpone the engine's senders of some flows until after the end of the run.

    Parameters
    ----------
    setup : Setup
    flows : iterable of int
    duration : float, s
    """
    rows = list(flows)
    setup.flows["start"][rows] = picoseconds(duration) + 1
    setup.flows["stop"][rows] = -1


def columns(reports: Sequence[Mapping[str, int]]) -> dict[str, NDArray[np.int64]]:
    """Return the values of TCP_INFO of a flow at all samples, by name.

    Parameters
    ----------
    reports : sequence of mapping
    """
    out = {name: np.array([row[name] for row in reports], np.int64) for name in (*INFO, "full")}
    out["acked"] = np.maximum(out["acked"] - 1, 0)
    return out


def tcp_info(
    reports: Mapping[int, Mapping[str, NDArray[np.int64]]], n_samples: int, n_flows: int
) -> dict[str, tuple[tuple[str, str], NDArray[np.float64]]]:
    """Return the series that are defined only for flows of the kernel.

    Parameters
    ----------
    reports : mapping
        Flow -> result of `columns`.
    n_samples, n_flows : int
    """
    names = ("tcp_window", "tcp_in_flight", "tcp_pacing_rate", "tcp_rtt", "tcp_retransmissions")
    out = {name: np.full((n_samples, n_flows), np.nan) for name in names}
    for flow, series in reports.items():
        n = min(len(series["rtt"]), n_samples)
        in_flight = series["unacked"] - series["sacked"] - series["lost"] + series["sent_again"]
        out["tcp_window"][:n, flow] = (series["window"] * series["packet"])[:n]
        out["tcp_in_flight"][:n, flow] = (in_flight * series["packet"])[:n]
        out["tcp_pacing_rate"][:n, flow] = np.where(series["pacing_rate"] > 0, 8.0 * series["pacing_rate"], np.nan)[:n]
        out["tcp_rtt"][:n, flow] = series["rtt"][:n] * 1e-6
        out["tcp_retransmissions"][:n, flow] = series["retransmissions"][:n]
    return {name: (("time", "flow"), values) for name, values in out.items()}
