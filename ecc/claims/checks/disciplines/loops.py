"""Loops of many equal flows over one queue discipline, shared by the checks of several claims."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import inf
from typing import Any

import numpy as np

from ecc.contract.assignment import ProtocolAssignment, read_protocol
from ecc.contract.env import Params
from ecc.contract.protocol import Protocol
from ecc.errors import LinearizationError
from ecc.linear import DelaySystem
from ecc.loops.closed_loop import linearize
from ecc.loops.marked_hosts import MarkingEquilibrium, equilibrium_of_marks
from ecc.models import CUBIC, DCTCP, NewReno
from ecc.network.network import Network
from ecc.queues import PI2, PIE
from ecc.queues.discipline import QueueDiscipline

__all__ = [
    "CLOCKED",
    "CUBIC_HOST",
    "DCTCP_HOST",
    "DELAYED_ACKS",
    "DUALPI2_BASE",
    "FRIENDLY",
    "HALF_A_PACKET",
    "HALVING",
    "NEWRENO",
    "PACKET",
    "WINDOWS",
    "decibels",
    "equal_flows",
    "loop",
    "margin",
    "pair",
    "proven_within",
    "rest",
    "scaled",
]

PACKET = 8000.0
"""Packet size [bit]."""
CLOCKED = {"ack": "clocked by ACKs", "rate": "clocked by rates"}
"""Value of `clocking` -> description of the linear model."""
FLOWS = 10
"""Number of flows; the loop depends only on their windows."""
WINDOWS = (3.0, 5.0, 10.0, 30.0, 100.0, 1000.0)
"""Windows [packets], from heavy to light load."""


class Friendly(NewReno):
    """CUBIC in its Reno-friendly region (RFC 9438 sec. 4.3): 3 (1 - beta)/(1 + beta) packets per RTT, beta = 0.7."""

    @staticmethod
    def source_law(w: float, s: float, a: float, p: Params) -> float:
        return w + 0.9 / 1.7 * s

    @staticmethod
    def mark_response_law(w: float) -> float:
        return 0.7 * w


class Halving(NewReno):
    """NewReno as in fluid models: a mark halves the window, without a minimum window."""

    @staticmethod
    def mark_response_law(w: float) -> float:
        return 0.5 * w


class HalfAPacket(NewReno):
    """A memoryless scalable host: each mark reduces the window by half a packet."""

    ecn_echo = "scalable"

    @staticmethod
    def mark_response_law(w: float, s: float) -> float:
        return w - 0.5 * s


class Scalable(DCTCP):
    """DCTCP as an L4S flow, with the marking probability k p'."""

    ecn_echo = "scalable"


NEWRENO, DELAYED_ACKS, FRIENDLY = NewReno(ecn=True), NewReno(ecn=True, L=0), Friendly(ecn=True)
"""Hosts; DELAYED_ACKS counts ACKs, which receivers send for every second packet: growth is half a packet per RTT."""
HALF_A_PACKET, DCTCP_HOST, CUBIC_HOST = (
    HalfAPacket(ecn=True),
    Scalable(transport="sack"),
    CUBIC(transport="sack", ecn=True),
)
HALVING = Halving(ecn=True)
DUALPI2_BASE = PI2(mark=True, target=0.015, interval=0.016, alpha=41.0 / 256.0, beta=819.0 / 256.0)
"""The controller of both queues of DualPI2, with the defaults of Linux."""


def pair(host: Any, discipline: Protocol) -> dict[str, Any]:
    """Return the assignment of a host and a discipline."""
    return {"flows": host, "links": discipline}


def equal_flows(flows: float, capacity: float, base: float, buffer: str | None = None) -> Network:
    """Return a link with equal flows.

    Parameters
    ----------
    flows : float
    capacity : float, packets/s
    base : float, s
        RTT without the queue.
    buffer : str, optional
    """
    return Network.dumbbell(capacity * PACKET, rtts=[base] * int(flows), packet_size=1000, buffer=buffer)


def loaded(host: Any, discipline: Any, rtt: float, window: float) -> Network:
    """Return a link with flows of a given window [packets] and RTT [s], which includes the queue at the target."""
    network = equal_flows(FLOWS, FLOWS * window / rtt, rtt - float(discipline.target))
    if host is not DELAYED_ACKS:
        return network
    return network.with_flows([replace(flow, delayed_acks=(2, 0.2)) for flow in network.flows])


def rest(host: Any, discipline: QueueDiscipline, network: Network) -> MarkingEquilibrium:
    """Return the equilibrium of a host and a discipline on a network."""
    protocol = read_protocol(pair(host, discipline))
    assert isinstance(protocol, ProtocolAssignment)
    return equilibrium_of_marks(protocol.deploy(network), network)


@lru_cache(4096)
def loop(host: Any, discipline: Any, rtt: float, window: float, clocking: str = "ack") -> DelaySystem:
    """Return the linear model of flows with a given RTT [s], which includes the queue, and window [packets]."""
    system = linearize(pair(host, discipline), loaded(host, discipline, rtt, window), clocking=clocking)
    assert isinstance(system, DelaySystem)
    return system


def scaled(discipline: PI2 | PIE, share: float) -> Any:
    """Return the discipline with both gains scaled by a factor; the equilibrium does not depend on them."""
    return replace(discipline, alpha=share * discipline.alpha, beta=share * discipline.beta)


def margin(host: Any, discipline: Any, rtt: float, window: float, clocking: str = "ack") -> float:
    """Return the gain margin; 0 if the loop is unstable, nan without an equilibrium."""
    try:
        system = loop(host, discipline, rtt, window, clocking)
        return system.margins().gain_margin if system.is_stable else 0.0
    except LinearizationError:
        return float("nan")


def proven_within(host: Any, discipline: Any, rtt: float, window: float, gain: float, within: float = 1e-6) -> bool:
    """Return whether certificates prove stability just below `gain` times the gains and instability just above."""
    inside, outside = (loop(host, scaled(discipline, gain * f), rtt, window) for f in (1.0 - within, 1.0 + within))
    return inside.certify().stable is True and outside.certify().stable is False


def decibels(gain: Any) -> Any:
    """Return gains in dB, -inf for 0."""
    return np.where(np.asarray(gain) > 0.0, 20.0 * np.log10(np.maximum(gain, 1e-300)), -inf)
