"""Telemetry of links: what each of a path adds to a packet, and where hosts rest that answer the largest report.

As a packet leaves it, a link writes its capacity, the queue behind the packet, what it has sent so far with this
packet, and the time. Two packets' reports of a link give what it sent, and what came to it, in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ecc._support.quantity import QuantityField
from ecc.errors import ConvergenceError
from ecc.models.base import Equilibrium, FlowEnv, Hook, LinkEnv, Params
from ecc.models.records import per_hop
from ecc.models.shared import windows
from ecc.network.network import Network

REPORTS = 16.0  # that a flow gets in T, as fluid
LEAST_AVERAGE = 1e-6  # of what is reported, as fluid: laws divide by it


@dataclass
class Header:
    """What each link of the path adds to a packet, which returns with its ACK."""

    hops: int = 0  # links that have
    capacity: tuple[float, ...] = per_hop()  # bit/s
    queue: tuple[float, ...] = per_hop()  # behind the packet [bytes]
    sent: tuple[float, ...] = per_hop()  # so far, with this packet [bytes]
    time: tuple[float, ...] = per_hop()  # s


@dataclass
class LinkState:
    """A router's state."""

    sent: float = 0.0  # so far [bytes]


class TelemetryProtocol(windows.WindowProtocol):
    """Base of the protocols whose hosts answer the largest report of a path with windows that are paced over T."""

    base_rtt: QuantityField  # T [s]
    line_rate: QuantityField  # of hosts, whose first window is its product with T [bit/s]

    combine = "max"
    header_bytes = (42, 42)  # of five links, HPCC sec. 4.1
    may_use_prr: ClassVar[bool] = False
    restarts = ("none",)
    phase_jitter = "line rate"
    slow_start_law = None
    loss_response_law = None
    times: ClassVar[tuple[str, ...]] = ("continuous",)
    main_parameter = "base_rtt"

    Header: ClassVar[type] = Header
    LinkState: ClassVar[type] = LinkState

    @property
    def paced_over(self) -> float:
        """T."""
        return self.base_rtt

    @property
    def opening_window(self) -> float | None:
        """What the host sends in T."""
        return None if self.initial is not None else self.line_rate * self.base_rtt / 8.0

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_departure": link_on_departure}


def flow_on_loss(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """What was sent since the last update may never be acknowledged in order: the next ACK updates again."""
    flow.update_end = -1.0


def send_with(window: float, p: Params, env: FlowEnv) -> None:
    """Go on with a window, paced over T."""
    env.window = window
    env.rate = 8.0 * window / p.base_rtt


def link_on_departure(link: Any, header: Any, p: Params, env: LinkEnv) -> None:
    """Add what the link knows to a packet of data."""
    link.sent += env.packet_size
    if env.kind == 0:
        k = header.hops
        header.capacity[k] = env.capacity
        header.queue[k] = env.queue
        header.sent[k] = link.sent
        header.time[k] = env.now
        header.hops = k + 1


def keep(flow: Any, header: Any) -> None:
    """Keep what an ACK reports, for the next one."""
    flow.hops = header.hops
    for k in range(header.hops):
        flow.queue[k] = header.queue[k]
        flow.sent[k] = header.sent[k]
        flow.time[k] = header.time[k]


def reports_of(T: float) -> float:
    """Return the time over which a report averages in fluid [s]; in packets it is that between two packets of a flow.

    Parameters
    ----------
    T : float, s
        Over which hosts average reports.
    """
    return T / REPORTS


def renewed(w: float, D: float, T: float, factor: float, added: float, factor_change: float) -> float:
    """Return what w = W_c `factor` + `added` [bit] is once a window is acknowledged; W_c <- w once an RTT D.

    As fluid W_c' = (w - W_c)/D, and `factor_change` is the derivative of the factor [1/s].
    """
    kept = (w - added) / factor
    return w + max(D, T) * ((w - kept) * factor / D + kept * factor_change)


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
    """Return where windows W = `added`/(1 - `target`/U) fill links, U the largest report of a path, q = (u - 1) C T.

    Windows that W <- W target/U + added keeps; a flow sends min(W, most)/max(T, RTT). Without queue u is the load.

    Parameters
    ----------
    network : Network
    T : float, s
        For which windows are paced.
    target : float
    added, most : float, bit
        Added to a window (or shape (n_flows,)), and the largest one.
    name : str
        Of the protocol, for messages.
    state : str
        What hosts call the largest report.
    report : callable, optional
        u of the links -> what they report, not less for a larger one; default: u itself.
    paced_over : float, s, optional
        For which windows are paced, if not T.

    Returns
    -------
    Equilibrium
        `fair_rate` is what links report that are the largest of some flow.
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
                load = float(rates(u) @ crosses[:, link])
                low, high = (middle, high) if load > min(middle, 1.0) * C[link] else (low, middle)
        if np.abs(u - before).max() <= 1e-12 * u.max():
            break
    else:
        raise ConvergenceError(f"no equilibrium of {name} found", u, float(np.abs(u - before).max()))
    told = report(u)
    bottleneck = np.where(crosses, told, -1.0).argmax(axis=1)
    used = np.isin(np.arange(network.n_links), bottleneck)
    queue = C * T * np.maximum(u - 1.0, 0.0)
    return Equilibrium(rates(u), np.where(used, told, inf), bottleneck, queue, states={state: told[bottleneck]})
