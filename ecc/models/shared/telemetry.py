"""Telemetry of links: the records that a path adds to packets, and equilibria of hosts that use the largest report.

As a packet leaves it, a link writes its capacity, the queue behind the packet, the volume sent so far including this
packet, and the time. Two packets' reports of a link give its departures and arrivals in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ecc._support.display import quantity_text
from ecc._support.quantity import QuantityField
from ecc.contract.env import FlowEnv, Hook, LinkEnv, Params
from ecc.contract.equilibrium import Equilibrium
from ecc.contract.records import per_hop
from ecc.errors import ConvergenceError
from ecc.models.shared import windows
from ecc.network.network import Network

REPORTS = 16.0  # reports that a flow receives in T, as fluid
MIN_AVERAGE = 1e-6  # minimum reported value, as fluid: laws divide by it


@dataclass
class Header:
    """Records that each link of the path adds to a packet, which return with its ACK."""

    hops: int = 0  # links that have written a record
    capacity: tuple[float, ...] = per_hop()  # bit/s
    queue: tuple[float, ...] = per_hop()  # behind the packet [bytes]
    sent: tuple[float, ...] = per_hop()  # departures so far, including this packet [bytes]
    time: tuple[float, ...] = per_hop()  # s


@dataclass
class LinkState:
    """A router's state."""

    sent: float = 0.0  # departures so far [bytes]


_TOLERANCE = 1.01  # smaller differences of rates and RTTs change no result visibly


class TelemetryProtocol(windows.WindowProtocol):
    """Base class of the protocols that respond to the largest report of a path with windows paced over T."""

    base_rtt: QuantityField  # T [s]
    line_rate: QuantityField  # rate of the hosts' interfaces [bit/s]; the initial window is its product with T

    combine = "max"
    header_bytes = (42, 42)  # records of five links, HPCC sec. 4.1
    may_use_prr: ClassVar[bool] = False
    sets_rate: ClassVar[bool] = True
    restarts = ("none",)
    phase_jitter = "line rate"
    slow_start_law = None
    loss_response_law = None
    times: ClassVar[tuple[str, ...]] = ("continuous", "discrete", "hybrid")
    main_parameter = "base_rtt"

    Header: ClassVar[type] = Header
    LinkState: ClassVar[type] = LinkState

    @property
    def paced_over(self) -> float:
        """The time T over which windows are paced [s]."""
        return self.base_rtt

    @property
    def opening_window(self) -> float | None:
        """The volume that a host sends in T at line rate, unless `initial` is set."""
        return None if self.initial is not None else self.line_rate * self.base_rtt / 8.0

    def network_notes(self, network: Network) -> tuple[str, ...]:
        """Return notes on a line rate that no host's link has, and on RTTs longer than T."""
        first = max(network.capacities[route[0]] for flow in network.flows for route in flow.routes)
        rtt, notes = float(network.rtts.max()), []
        if self.line_rate > _TOLERANCE * first:
            notes.append(
                f"line_rate ({quantity_text(self.line_rate, 'bit/s')}) does not fit hosts with links of "
                f"{quantity_text(first, 'bit/s')}: first windows are {self.line_rate / first:.3g} times too large"
            )
        if rtt > _TOLERANCE * self.base_rtt:
            notes.append(
                f"base_rtt ({quantity_text(self.base_rtt, 's')}) does not fit an RTT of {quantity_text(rtt, 's')}: it "
                "must be the longest RTT without queues"
            )
        return tuple(notes)

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_departure": link_on_departure}


def flow_on_loss(flow: Any, header: Header, p: Params, env: FlowEnv) -> None:
    """Update at the next ACK: the data sent since the last update may never be acknowledged in order."""
    flow.update_end = -1.0


def send_with(window: float, p: Params, env: FlowEnv) -> None:
    """Continue with a window, paced over T."""
    env.window = window
    env.rate = 8.0 * window / p.base_rtt


def link_on_departure(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Add the link's record to a packet of data."""
    link.sent += env.packet_size
    if env.kind == 0:
        k = header.hops
        header.capacity[k] = env.capacity
        header.queue[k] = env.queue
        header.sent[k] = link.sent
        header.time[k] = env.now
        header.hops = k + 1


def keep(flow: Any, header: Header) -> None:
    """Store the report of an ACK, for the comparison with the next one."""
    flow.hops = header.hops
    for k in range(header.hops):
        flow.queue[k] = header.queue[k]
        flow.sent[k] = header.sent[k]
        flow.time[k] = header.time[k]


def reports_of(T: float) -> float:
    """Return the averaging time of a report in fluid [s]; in packets it is the time between two packets of a flow.

    Parameters
    ----------
    T : float, s
        Time over which hosts average reports.
    """
    return T / REPORTS


def renewed(w: float, D: float, T: float, factor: float, added: float, factor_change: float) -> float:
    """Return the window [bit] after a window is acknowledged, for w = W_c `factor` + `added` and W_c <- w once an RTT.

    As fluid W_c' = (w - W_c)/D; `factor_change` is the derivative of the factor [1/s].
    """
    reference = (w - added) / factor  # W_c
    return w + max(D, T) * ((w - reference) * factor / D + reference * factor_change)


def equilibrium_of_windows(
    network: Network,
    T: float,
    target: float,
    added: float | NDArray[np.float64],
    most: float,
    name: str,
    state: str,
    report: Callable[[NDArray[np.float64]], NDArray[np.float64]] = np.asarray,
    paced_over: float | None = None,
) -> Equilibrium:
    """Return the equilibrium of windows W = `added`/(1 - `target`/U), with U the largest report of a path.

    It is the fixed point of W <- W target/U + added. A flow sends min(W, most)/max(T, RTT). The queue of a link is
    q = (u - 1) C T; without queue u is the load.

    Parameters
    ----------
    network : Network
    T : float, s
        Time over which windows are paced.
    target : float
        Target value of the reports, for example 0.95.
    added, most : float, bit
        Increase of a window per RTT (or shape (n_flows,)), and the maximum window.
    name : str
        Name of the protocol, for messages.
    state : str
        Name of the hosts' state that holds the largest report.
    report : callable, optional
        u of the links -> their reports, nondecreasing in u; default: u itself.
    paced_over : float, s, optional
        Time over which windows are paced, if not T.

    Returns
    -------
    Equilibrium
        `fair_rate` is the report of the links that are the largest of some flow's path.
    """
    crosses, C, over = network.incidence, network.capacities, T if paced_over is None else paced_over

    def rates(u: NDArray[np.float64]) -> Any:
        waits = T * np.maximum(u - 1.0, 0.0)
        D = np.maximum(over, network.rtts + crosses @ waits)
        largest = np.where(crosses, report(u), 0.0).max(axis=1)
        return np.minimum(added / np.maximum(1.0 - target / np.maximum(largest, target), 1e-15), most) / D

    u = np.full(network.n_links, target)
    for _ in range(1000):
        before = u.copy()
        for link in range(network.n_links):
            low, high = 0.0, 1e9
            for _ in range(200):
                u[link] = middle = 0.5 * (low + high)
                if not low < middle < high:
                    break
                load = float(rates(u) @ crosses[:, link])
                low, high = (middle, high) if load > min(middle, 1.0) * C[link] else (low, middle)
        if np.abs(u - before).max() <= 1e-12 * u.max():
            break
    else:
        raise ConvergenceError(f"no equilibrium of {name} found", u, float(np.abs(u - before).max()))
    reports = report(u)
    bottleneck = np.where(crosses, reports, -1.0).argmax(axis=1)
    used = np.isin(np.arange(network.n_links), bottleneck)
    queue = C * T * np.maximum(u - 1.0, 0.0)
    return Equilibrium(rates(u), np.where(used, reports, inf), bottleneck, queue, states={state: reports[bottleneck]})
