"""State and hooks of routers and hosts with rate feedback: what RCP, QI-RCP and PIQI-RCP share outside their laws.

A router counts the bytes that arrive, averages the RTTs that their headers carry, turns the count into an arrival rate
at every tick of its clock, and stamps the smallest fair rate of the path into data. The moving average of
RTTs by packet, the least fair rate and the probe that opens a flow are those of RCP's own router and host (Dukkipati
et al., IWQoS 2005, and the ns-2 code of its authors, which THESIS and JETMAX used). A later version of that
code averages the RTTs of an interval first (`average_interval`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecc.models.base import FlowEnv, Hook, LinkEnv, Params

__all__ = ["FlowState", "Header", "LinkState"]

NO_LINK = -1
PROBE_INTERVAL = 1.0  # s between the probes that a host sends until the first feedback
PROBE_SIZE = 40  # bytes, of a probe
AVERAGES = ("packet", "interval")  # how a router averages RTTs


@dataclass
class Header:
    """What travels with a packet and returns with its ACK."""

    rate: float = 0.0  # smallest fair rate on the path so far [bit/s]
    rtt: float = 0.0  # the sender's last RTT sample [s]; 0 before the first
    link: int = NO_LINK  # whose rate it is
    stamp: int = 0  # number of the control interval in which that link announced it
    assigned: int = NO_LINK  # the only link that may answer; NO_LINK: any


@dataclass
class LinkState:
    """A router's state at one link."""

    R: float = 0.0  # announced fair rate [bit/s]
    y: float = 0.0  # arrival rate over the last interval [bit/s]
    y_prev: float = 0.0  # ... and over the one before
    mean_rtt: float = 0.0  # moving average [s]; 0 before any sample
    max_rtt: float = 0.0  # largest RTT of the last interval that had samples [s]
    arrived: float = 0.0  # since the last tick [bytes]
    rtt_peak: float = 0.0  # largest RTT since the last tick [s]
    rtt_bytes: float = 0.0  # sum of RTT times size since the last tick [s bytes]; averages by interval only
    with_rtt: float = 0.0  # size of the packets in that sum [bytes]
    packet_size: float = 0.0  # of the last packet [bytes]
    opened: float = 0.0  # when the running interval began [s]
    ticks: int = 0  # intervals closed; 0 until the first tick begins to count


@dataclass
class FlowState:
    """A host's state for one flow."""

    x: float = 0.0  # sending rate [bit/s]; 0 before the first feedback
    R: float = 0.0  # fair rate received last [bit/s]
    bottleneck: int = NO_LINK  # link that sent it
    stamp: int = NO_LINK  # its interval
    updated: float = 0.0  # when x last moved [s]
    assigned: int = NO_LINK  # the only link to take feedback from; NO_LINK: any
    halved: float = 0.0  # when a loss halved x last, plus an RTT [s]


def link_at(R: float, y: float, mean_rtt: float, max_rtt: float) -> LinkState:
    """The state of a router in the middle of a steady run."""
    return LinkState(R=R, y=y, y_prev=y, mean_rtt=mean_rtt, max_rtt=max_rtt)


def flow_at(x: float, R: float, link: int) -> FlowState:
    """The state of a host in the middle of a steady run."""
    return FlowState(x=x, R=R, bottleneck=link, stamp=0)


def link_on_start(link: Any, header: Any, p: Params, env: LinkEnv) -> None:
    """Announce a share of the capacity until the first measurement."""
    if link.R == 0.0:
        link.R = p.initial * env.capacity
    env.next_interval = p.interval


def link_on_arrival(link: Any, header: Any, p: Params, env: LinkEnv) -> None:
    """Count a packet, and average the RTT it carries."""
    link.arrived += env.packet_size
    link.packet_size = env.packet_size
    if env.kind == 0 and header.rtt > 0.0:
        if link.mean_rtt == 0.0:
            link.mean_rtt = header.rtt
        link.mean_rtt = p.rtt_rest * link.mean_rtt + p.rtt_gain * header.rtt
        link.rtt_peak = max(link.rtt_peak, header.rtt)


def link_on_arrival_sum(link: Any, header: Any, p: Params, env: LinkEnv) -> None:
    """Count a packet, and add up the RTT it carries."""
    link.arrived += env.packet_size
    link.packet_size = env.packet_size
    if env.kind == 0 and header.rtt > 0.0:
        link.rtt_bytes += header.rtt * env.packet_size
        link.with_rtt += env.packet_size
        link.rtt_peak = max(link.rtt_peak, header.rtt)


def average_interval(link: Any, env: LinkEnv) -> None:
    """Move the mean RTT d to that of the interval: by T/d of the difference if up, slower if down."""
    if link.with_rtt > 0.0:
        seen = link.rtt_bytes / link.with_rtt
        d = link.mean_rtt if link.mean_rtt > 0.0 else seen
        gain = (env.now - link.opened) / d
        if seen < d:
            gain *= link.R / env.capacity * seen / d
        link.mean_rtt = d + min(gain, 1.0) * (seen - d)
        link.rtt_bytes = 0.0
        link.with_rtt = 0.0


def stamp(link: Any, header: Any, p: Params, env: LinkEnv) -> None:
    """Stamp the fair rate where it is the smallest so far; only the assigned link may answer, if there is one."""
    if env.kind == 0 and link.R < header.rate and (header.assigned == NO_LINK or header.assigned == env.link):
        header.rate = link.R
        header.link = env.link
        header.stamp = link.ticks


def close_interval(link: Any, env: LinkEnv) -> bool:
    """Turn the counts of the interval into y and the maximum RTT; False when there is nothing to control on yet.

    The first tick only opens the rate_feedback.
    """
    first = link.ticks == 0
    if link.rtt_peak > 0.0:
        link.max_rtt = link.rtt_peak
    link.y_prev = link.y
    if not first:
        link.y = 8.0 * link.arrived / (env.now - link.opened)
        if link.ticks == 1 and link.y_prev == 0.0:
            link.y_prev = link.y
    link.arrived = 0.0
    link.rtt_peak = 0.0
    link.opened = env.now
    link.ticks += 1
    return not first and link.mean_rtt > 0.0


def announce(link: Any, R: float, d: float, p: Params, env: LinkEnv) -> None:
    """Announce R, kept between one packet an RTT and the capacity."""
    link.R = min(max(R, p.floor * 8.0 * link.packet_size / d), env.capacity)


def flow_on_start(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Probe with small packets until the first feedback; a flow placed at an equilibrium starts at its rate."""
    if flow.x > 0.0:
        env.rate = flow.x
    else:
        env.rate = 8.0 * env.packet_size / PROBE_INTERVAL


def flow_on_send(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Open the header: any rate, no link, the last RTT sample."""
    header.rate = 1e300
    header.rtt = env.rtt
    header.link = NO_LINK
    header.stamp = 0
    header.assigned = flow.assigned


def receive(flow: Any, header: Any, env: FlowEnv) -> None:
    """Note the feedback of an ACK and whose it is."""
    flow.R = header.rate
    flow.bottleneck = header.link
    flow.stamp = header.stamp
    flow.updated = env.now


def least_rate(p: Params, env: FlowEnv) -> float:
    """A host sends a packet an RTT for any feedback, or it would receive none of better times."""
    least: float = p.floor * 8.0 * env.packet_size / env.rtt
    return least


def adopt_rate(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Send at the fair rate received, as RCP and QI-RCP do (THESIS (4.2))."""
    if header.link != NO_LINK:
        receive(flow, header, env)
        flow.x = max(header.rate, least_rate(p, env))
        env.rate = flow.x


def link_hooks(on_interval: Hook, stamping: str, average: str = "packet") -> dict[str, Hook]:
    """This state at a link, and what a protocol does with them at the end of an interval.

    stamping "departure": as the authors' ns-2 code does. "arrival": before the queue, as in Linux, where netfilter has
    the packet before the queue of the device (EVAL sec. 3.5): its value is older by the wait.
    """
    count = link_on_arrival if average == "packet" else link_on_arrival_sum

    def count_and_stamp(link: Any, header: Any, p: Params, env: LinkEnv) -> None:
        count(link, header, p, env)
        stamp(link, header, p, env)

    hooks = {"on_start": link_on_start, "on_interval": on_interval}
    if stamping == "arrival":
        return hooks | {"on_arrival": count_and_stamp}
    return hooks | {"on_arrival": count, "on_departure": stamp}


def halve(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    """Halve the rate at a loss, at most once an RTT."""
    if flow.x > 0.0 and env.now >= flow.halved:
        flow.x = max(0.5 * flow.x, least_rate(p, env))
        flow.halved = env.now + env.srtt
        env.rate = flow.x


def flow_hooks(on_ack: Hook, loss: str) -> dict[str, Hook]:
    """This state at a host, and what a protocol does with the feedback of an ACK.

    loss "keep": a loss changes nothing, its bytes are sent again. "halve": it halves the rate for an RTT, in which
    routers are not listened to: what they announced knew nothing of it.
    """

    def on_ack_unless_halved(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
        if env.now >= flow.halved:
            on_ack(flow, header, p, env)

    hooks = {"on_start": flow_on_start, "on_send": flow_on_send}
    return hooks | ({"on_ack": on_ack} if loss == "keep" else {"on_ack": on_ack_unless_halved, "on_loss": halve})
