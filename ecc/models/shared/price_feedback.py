"""Routers that announce a price, and hosts that step from their rate one RTT ago: MKC, EMKC, EMKC-AVQ.

At every tick of its clock a router turns the bytes that arrived in an interval into an arrival rate and a price. It
marks arriving data with its price if that is the largest so far. A host writes its rate into every packet, so an ACK
returns a price together with the sending rate of the packet. From link and interval number the host knows whether it
has used that price already (JETMAX sec. 6.2, as in the MKC of Zhang, Kang, Loguinov).

A flow steps from its rate one RTT ago: the mean over the packets that returned since the previous price, which arrived
while the router measured. The rate of a single packet, the last measured or the first marked, is not enough: price and
rate then belong to different packets, and the stability under any delay is lost. For example, EMKC-AVQ with the
parameters of JETMAX and RTTs of 0.67 and 2.47 s oscillates by +-20 %.

The papers leave some choices open. A price is stamped on arrival, the moment it is measured: the queueing delay is part
of its return delay. A link announces nothing until it has measured a whole interval, and keeps its price through an
interval without arrivals. A flow starts at the rate alpha, its law's step from 0, and never sends less than `floor`
packets per RTT. It ignores the first two prices: their intervals began before the flow did. (On an idle link the price
of a single packet, for example -100, would raise its rate far beyond the capacity.) Losses of its packets change no
rate.
"""

from __future__ import annotations

from dataclasses import dataclass

from ecc.contract.env import FlowEnv, Hook, LinkEnv, Params
from ecc.models.shared import rate_feedback

__all__ = ["FlowState", "Header", "LinkState"]

SILENT = -1e300  # price of a link before its first measurement
UNANSWERED = 2  # prices that a flow ignores at its start


@dataclass
class Header:
    """Header fields that travel with a packet and return with its ACK."""

    price: float = SILENT  # largest price on the path so far
    x: float = 0.0  # sending rate when the packet was sent [bit/s]
    rtt: float = 0.0  # the sender's smoothed RTT [s]; 0 before the first
    link: int = rate_feedback.NO_LINK  # link that announced the price
    stamp: int = 0  # number of the control interval in which that link announced it
    assigned: int = rate_feedback.NO_LINK  # the only link that may write feedback; NO_LINK: any


@dataclass
class LinkState:
    """A router's state at one link."""

    price: float = SILENT
    y: float = 0.0  # arrival rate over the last interval [bit/s]
    arrived: float = 0.0  # bytes since the last tick
    opened: float = 0.0  # start of the current interval [s]
    ticks: int = 0  # intervals closed; 0 until the first tick begins to count


@dataclass
class FlowState:
    """A host's state for one flow."""

    x: float = 0.0  # sending rate [bit/s]; 0 before the start
    x_rtt: float = 0.0  # sending rate one RTT ago, which the last price refers to [bit/s]
    rates: float = 0.0  # sum of the rates in the ACKs since the last price [bit/s]
    acks: int = 0  # number of these ACKs
    prices: int = 0  # prices received
    bottleneck: int = rate_feedback.NO_LINK  # link of the last price
    stamp: int = rate_feedback.NO_LINK  # number of the interval in which it was announced
    assigned: int = rate_feedback.NO_LINK  # the only link to take feedback from; NO_LINK: any


def link_at(R: float, y: float, mean_rtt: float, max_rtt: float) -> LinkState:
    """Return the state of a router without memory in steady state; R is its price."""
    return LinkState(price=R, y=y)


def flow_at(x: float, R: float, link: int) -> FlowState:
    """Return the state of a host in steady state."""
    return FlowState(x=x, prices=UNANSWERED, bottleneck=link, stamp=0)


def link_on_start(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Start the clock."""
    env.next_interval = p.interval


def link_on_arrival(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Count a packet, and mark it with the price if that is the largest so far and this link may write feedback."""
    link.arrived += env.packet_size
    may_answer = header.assigned == rate_feedback.NO_LINK or header.assigned == env.link
    if env.kind == 0 and link.price > header.price and may_answer:
        header.price = link.price
        header.link = env.link
        header.stamp = link.ticks


def close_interval(link: LinkState, env: LinkEnv) -> bool:
    """Turn the count of the interval into y; return False at the first tick and after an interval without arrivals."""
    measured: bool = link.ticks > 0 and link.arrived > 0.0
    if measured:
        link.y = 8.0 * link.arrived / (env.now - link.opened)
    link.arrived = 0.0
    link.opened = env.now
    link.ticks += 1
    return measured


def flow_on_send(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Initialize the header: no price yet, the rate and the RTT."""
    header.price = SILENT
    header.x = flow.x
    header.rtt = env.srtt
    header.link = rate_feedback.NO_LINK
    header.stamp = 0
    header.assigned = flow.assigned


def receive(flow: FlowState, header: Header) -> bool:
    """Average the rates that ACKs return; True at a new price, for which `x_rtt` is the rate to step from."""
    is_new: bool = header.link != rate_feedback.NO_LINK and (
        header.link != flow.bottleneck or header.stamp > flow.stamp
    )
    if is_new:
        flow.x_rtt = flow.rates / flow.acks if flow.acks > 0 else header.x
        flow.rates = 0.0
        flow.acks = 0
        flow.prices += 1
        flow.bottleneck = header.link
        flow.stamp = header.stamp
    flow.rates += header.x
    flow.acks += 1
    return is_new and flow.prices > UNANSWERED


def link_hooks(on_interval: Hook) -> dict[str, Hook]:
    """Return the hooks of a router that keeps this state, with a protocol's hook for the end of an interval."""
    return {"on_start": link_on_start, "on_arrival": link_on_arrival, "on_interval": on_interval}
