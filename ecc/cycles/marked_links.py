"""A link that marks all packets above a threshold, with equal window flows of one protocol over it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.env import Params
from ecc.contract.protocol import Protocol
from ecc.contract.values import refuse_simultaneous
from ecc.errors import LinearizationError
from ecc.laws.arguments import arguments_except, call_law, takes
from ecc.network.network import Network
from ecc.queues.discipline import QueueDiscipline

__all__ = ["MarkedLink", "MarkedWindows", "host_over_threshold", "marked_windows", "starting_windows"]

Real = NDArray[np.float64]

_ARGUMENTS = ("w", "D", "s", "a", "marked", "since", "p")


@dataclass(frozen=True)
class MarkedLink:
    """Groups of equal flows, for example the first and all others, over a link with a threshold [bit, bit/s, s]."""

    protocol: Protocol
    params: Params
    counts: Real  # flows of each group
    capacity: float
    rtt: float
    threshold: float
    packet: float

    @property
    def names(self) -> list[str]:
        """Names of the values of a group, in the order of a state: the window and the states of the host."""
        return ["w", *self.protocol.states]

    @property
    def pipe(self) -> float:
        """Bits in flight on the path without a queue."""
        return self.capacity * self.rtt

    def queue(self, bits: float) -> float:
        """Return the queue [bit] with these bits in flight."""
        return max(bits - self.pipe, 0.0)


@dataclass(frozen=True)
class MarkedWindows(MarkedLink):
    """Windows that respond to marks by a law of their protocol, at most once per RTT."""

    response: Callable[..., float]

    def in_flight(self, y: Real) -> float:
        """Return the sum of all windows [bit]; y has a row per group."""
        return float(self.counts @ y[:, 0])

    def delay(self, bits: float) -> float:
        """Return the RTT with these bits in flight [s]."""
        return max(bits / self.capacity, self.rtt)

    def is_marked(self, bits: float) -> bool:
        """Return whether packets are marked with these bits in flight."""
        return bits - self.pipe > self.threshold

    def supply(self, values: Real, D: float, marked: float) -> dict[str, Any]:
        """Return the arguments of the laws of a host."""
        known = dict(zip(self.names, map(float, values), strict=True))
        return known | {"D": D, "s": self.packet, "a": self.packet, "marked": marked, "p": self.params}

    def jumped(self, y: Real, D: float) -> Real:
        """Return the state right after all hosts respond to a mark."""
        after = y.copy()
        for row, values in enumerate(y):
            known = self.supply(values, D, 1.0)
            after[row, 0] = call_law(self.response, known)
        return after


def host_over_threshold(loop: Protocol | ProtocolAssignment, network: Network) -> tuple[Protocol, float]:
    """Return the protocol of all flows, and the threshold above which the only link marks all packets [bit].

    Parameters
    ----------
    loop : Protocol or ProtocolAssignment
    network : Network

    Raises
    ------
    LinearizationError
        There are several links, RTTs or protocols of flows, or the link has no threshold.
    """
    if not isinstance(loop, ProtocolAssignment) or network.n_links != 1:
        raise LinearizationError("it has no queue discipline with a marking threshold at a single link")
    deployment = loop.deploy(network)
    disciplines = [part for part in deployment.links[0] if not part.has_hosts()]
    hosts = list(dict.fromkeys(deployment.flows))
    is_scalable = all(host.ecn_echo == "scalable" for host in hosts)
    (discipline,) = disciplines if len(disciplines) == 1 else (None,)
    capacity = float(network.capacities[0])
    threshold = discipline.marking_threshold(capacity, is_scalable) if isinstance(discipline, QueueDiscipline) else None
    if threshold is None:
        raise LinearizationError("its queue discipline has no marking threshold")
    if len(hosts) != 1 or np.ptp(network.rtts) > 0.0:
        raise LinearizationError("over a marking threshold, flows must have one protocol and equal RTTs")
    return hosts[0], 8.0 * threshold


def marked_windows(loop: Protocol | ProtocolAssignment, network: Network) -> MarkedWindows:
    """Return the first flow and the rest of equal flows over a link with step marking.

    Parameters
    ----------
    loop, network
        As for `ecc.cycles.step_marking.step_marking_cycle`.

    Raises
    ------
    LinearizationError
        The loop or the network has another form.
    """
    host, threshold = host_over_threshold(loop, network)
    response = host.marked_round_law or host.mark_response_law
    laws = [host.source_law, response, *(state.law for state in host.states.values())]
    clocks = {state.clock for state in host.states.values()} | {host.window_clock}
    unknown = sorted({name for law in laws for name in arguments_except(law, (*_ARGUMENTS, *host.states))})
    if response is None or clocks != {"rtt"} or unknown or not takes(host.source_law, "w"):
        why = f"its laws take {', '.join(unknown)}" if unknown else "it has no window with a response to marks per RTT"
        raise LinearizationError(f"over a marking threshold, {why}")
    refuse_simultaneous(host, "map over a marking threshold")
    n = network.n_flows
    counts = np.array([1.0, n - 1.0] if n > 1 else [1.0])
    packet, capacity = 8.0 * network.flows[0].mean_packet, float(network.capacities[0])
    return MarkedWindows(host, host.namespace(), counts, capacity, float(network.rtts[0]), threshold, packet, response)


def starting_windows(parts: MarkedWindows) -> Real:
    """Return windows a little below the threshold and states of all groups, shape (n_groups, n_values).

    Parameters
    ----------
    parts : MarkedWindows

    Raises
    ------
    LinearizationError
        Windows would be two packets or less at the threshold.
    """
    width = (parts.pipe + parts.threshold) / float(parts.counts.sum())
    if width <= 2.0 * parts.packet:
        raise LinearizationError("at the marking threshold, windows would be two packets or less: no cycle")
    values = [0.9 * width, *(0.3 for _ in parts.protocol.states)]
    return np.array([values] * len(parts.counts))
