"""Routers that announce a price, and hosts that step from their rate one RTT ago: MKC, EMKC, EMKC-AVQ.

A router turns the bytes that arrived in an interval into an arrival rate and a price at every tick of its clock, and
marks arriving data with its price where that is the largest so far. A host writes its rate into every packet, so an ACK
brings back a price together with the rate that it answers; from link and number of the interval the host knows whether
it has answered that price already (JETMAX sec. 6.2, as in the MKC of Zhang, Kang, Loguinov).

The rate one RTT ago, from which a flow steps, is the mean over the packets that came back since the price before: those
that arrived while the router measured. The rate of a single packet, the last that was measured or the first that was
marked, does not do: price and rate then speak of different packets, and with them goes the stability under any delay
(EMKC-AVQ with the parameters of JETMAX and RTTs of 0.67 and 2.47 s oscillates, a fifth up and down).

What the papers leave open: a price is stamped on arrival, the moment that it is of: the time in the queue
is part of its return delay; a link is silent until it has measured a whole interval, and keeps its price through an
interval without arrivals; a flow starts at what its law makes of rate 0, alpha, and never sends less than `floor`
packets an RTT; it leaves the first two prices unanswered, of intervals that it joined midway at best (on an idle link
the price of a single packet, for instance -100, would send it far beyond the capacity); losses of its packets change no
rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecc.models.base import FlowEnv, Hook, LinkEnv, Params
from ecc.models.shared import rate_feedback

__all__ = ["FlowState", "Header", "LinkState"]

SILENT = -1e300  # the price of a link that has measured nothing
UNANSWERED = 2  # prices at the start of a flow


@dataclass
class Header:
    """What travels with a packet and returns with its ACK."""

    price: float = SILENT  # largest on the path so far
    x: float = 0.0  # the rate at which the packet was sent [bit/s]
    rtt: float = 0.0  # the sender's smoothed RTT [s]; 0 before the first
    link: int = rate_feedback.NO_LINK  # whose price it is
    stamp: int = 0  # number of the control interval in which that link announced it
    assigned: int = rate_feedback.NO_LINK  # the only link that may answer; NO_LINK: any


@dataclass
class LinkState:
    """A router's state at one link."""

    price: float = SILENT
    y: float = 0.0  # arrival rate over the last interval [bit/s]
    arrived: float = 0.0  # since the last tick [bytes]
    opened: float = 0.0  # when the running interval began [s]
    ticks: int = 0  # intervals closed; 0 until the first tick begins to count


@dataclass
class FlowState:
    """A host's state for one flow."""

    x: float = 0.0  # sending rate [bit/s]; 0 before the start
    x_rtt: float = 0.0  # that one RTT ago, to which the price received last speaks [bit/s]
    rates: float = 0.0  # of the ACKs since then, added up [bit/s]
    acks: int = 0  # how many they were
    prices: int = 0  # received
    bottleneck: int = rate_feedback.NO_LINK  # link that spoke last
    stamp: int = rate_feedback.NO_LINK  # its interval
    assigned: int = rate_feedback.NO_LINK  # the only link to take feedback from; NO_LINK: any


def link_at(R: float, y: float, mean_rtt: float, max_rtt: float) -> LinkState:
    """The state of a router without memory, whose R is its price, in the middle of a steady run."""
    return LinkState(price=R, y=y)


def flow_at(x: float, R: float, link: int) -> FlowState:
    """The state of a host in the middle of a steady run."""
    return FlowState(x=x, prices=UNANSWERED, bottleneck=link, stamp=0)


def link_on_start(link: Any, header: Any, p: Params, env: LinkEnv) -> None:
    """Set the clock."""
    env.next_interval = p.interval


def link_on_arrival(link: Any, header: Any, p: Params, env: LinkEnv) -> None:
    """Count a packet, and mark it with the price if that is the largest so far and the link may answer."""
    link.arrived += env.packet_size
    may_answer = header.assigned == rate_feedback.NO_LINK or header.assigned == env.link
    if env.kind == 0 and link.price > header.price and may_answer:
        header.price = link.price
        header.link = env.link
        header.stamp = link.ticks


def close_interval(link: Any, env: LinkEnv) -> bool:
    """Turn the count of the interval into y; False when there is nothing to price: no arrivals, or the first tick."""
    measured: bool = link.ticks > 0 and link.arrived > 0.0
    if measured:
        link.y = 8.0 * link.arrived / (env.now - link.opened)
    link.arrived = 0.0
    link.opened = env.now
    link.ticks += 1
    return measured


def flow_on_send(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Open the header: no price yet, the rate and the RTT."""
    header.price = SILENT
    header.x = flow.x
    header.rtt = env.srtt
    header.link = rate_feedback.NO_LINK
    header.stamp = 0
    header.assigned = flow.assigned


def receive(flow: Any, header: Any) -> bool:
    """Gather the rates that ACKs bring back; True for a price to answer, `x_rtt` being the rate it speaks of."""
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
    """This state at a link, and what a protocol does with them at the end of an interval."""
    return {"on_start": link_on_start, "on_arrival": link_on_arrival, "on_interval": on_interval}
