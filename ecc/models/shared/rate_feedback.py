"""State and hooks of routers and hosts with rate feedback, shared by RCP, QI-RCP and PIQI-RCP; laws are separate.

A router counts arriving bytes and averages the RTTs in their headers. At every tick of its clock it turns the count
into an arrival rate, and it stamps the smallest fair rate of the path into data. The moving average of RTTs by packet,
the minimum fair rate and the probe that opens a flow are those of RCP's own router and host (Dukkipati et al., IWQoS
2005, and the ns-2 code of its authors, which THESIS and JETMAX used). A later version of that code averages the RTTs of
an interval first (`average_interval`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ecc.contract.env import FlowEnv, Hook, LinkEnv, Params

__all__ = ["FlowState", "Header", "LinkState"]

NO_LINK = -1
PROBE_INTERVAL = 1.0  # s between the probes that a host sends until the first feedback
PROBE_SIZE = 40  # bytes of a probe: TCP and IP headers without data
AVERAGES = ("packet", "interval")  # the averages of RTTs that a router may use


@dataclass
class Header:
    """Header fields that travel with a packet and return with its ACK."""

    rate: float = 0.0  # smallest fair rate on the path so far [bit/s]
    rtt: float = 0.0  # the sender's last RTT sample [s]; 0 before the first
    link: int = NO_LINK  # link that announced the rate
    stamp: int = 0  # number of the control interval in which that link announced it
    assigned: int = NO_LINK  # the only link that may write feedback; NO_LINK: any


@dataclass
class LinkState:
    """A router's state at one link."""

    R: float = 0.0  # announced fair rate [bit/s]
    y: float = 0.0  # arrival rate over the last interval [bit/s]
    y_prev: float = 0.0  # arrival rate over the interval before [bit/s]
    mean_rtt: float = 0.0  # moving average of RTTs [s]; 0 before the first sample
    max_rtt: float = 0.0  # largest RTT of the last interval that had samples [s]
    arrived: float = 0.0  # bytes since the last tick
    rtt_peak: float = 0.0  # largest RTT since the last tick [s]
    rtt_bytes: float = 0.0  # sum of RTT times size since the last tick [s bytes]; averages by interval only
    with_rtt: float = 0.0  # size of the packets in that sum [bytes]
    packet_size: float = 0.0  # size of the last packet [bytes]
    opened: float = 0.0  # start of the current interval [s]
    ticks: int = 0  # intervals closed; 0 until the first tick begins to count


@dataclass
class FlowState:
    """A host's state for one flow."""

    x: float = 0.0  # sending rate [bit/s]; 0 before the first feedback
    R: float = 0.0  # last fair rate received [bit/s]
    bottleneck: int = NO_LINK  # link that announced it
    stamp: int = NO_LINK  # number of the interval in which it was announced
    updated: float = 0.0  # time of the last change of x [s]
    assigned: int = NO_LINK  # the only link to take feedback from; NO_LINK: any
    halved: float = 0.0  # time of the last halving of x after a loss, plus an RTT [s]


def link_at(R: float, y: float, mean_rtt: float, max_rtt: float) -> LinkState:
    """Return the state of a router in steady state."""
    return LinkState(R=R, y=y, y_prev=y, mean_rtt=mean_rtt, max_rtt=max_rtt)


def flow_at(x: float, R: float, link: int) -> FlowState:
    """Return the state of a host in steady state."""
    return FlowState(x=x, R=R, bottleneck=link, stamp=0)


def link_on_start(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Announce a share of the capacity until the first measurement."""
    if link.R == 0.0:
        link.R = p.initial * env.capacity
    env.next_interval = p.interval


def link_on_arrival(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Count a packet and update the moving average of RTTs."""
    link.arrived += env.packet_size
    link.packet_size = env.packet_size
    if env.kind == 0 and header.rtt > 0.0:
        if link.mean_rtt == 0.0:
            link.mean_rtt = header.rtt
        link.mean_rtt = p.rtt_rest * link.mean_rtt + p.rtt_gain * header.rtt
        link.rtt_peak = max(link.rtt_peak, header.rtt)


def link_on_arrival_sum(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Count a packet and add its RTT to the sum of the interval."""
    link.arrived += env.packet_size
    link.packet_size = env.packet_size
    if env.kind == 0 and header.rtt > 0.0:
        link.rtt_bytes += header.rtt * env.packet_size
        link.with_rtt += env.packet_size
        link.rtt_peak = max(link.rtt_peak, header.rtt)


def average_interval(link: LinkState, env: LinkEnv) -> None:
    """Move the mean RTT d towards that of the interval: by T/d of the difference upwards, more slowly downwards."""
    if link.with_rtt > 0.0:
        seen = link.rtt_bytes / link.with_rtt
        d = link.mean_rtt if link.mean_rtt > 0.0 else seen
        gain = (env.now - link.opened) / d
        if seen < d:
            gain *= link.R / env.capacity * seen / d
        link.mean_rtt = d + min(gain, 1.0) * (seen - d)
        link.rtt_bytes = 0.0
        link.with_rtt = 0.0


def stamp(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
    """Stamp the fair rate if it is the smallest so far and this link may write feedback for the flow."""
    if env.kind == 0 and link.R < header.rate and (header.assigned == NO_LINK or header.assigned == env.link):
        header.rate = link.R
        header.link = env.link
        header.stamp = link.ticks


def close_interval(link: LinkState, env: LinkEnv) -> bool:
    """Turn the counts of the interval into y and the maximum RTT; return whether there is anything to control.

    The first tick only starts the measurement: the time before it is not a whole interval.
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


def announce(link: LinkState, R: float, d: float, p: Params, env: LinkEnv) -> None:
    """Announce R, limited to between `floor` packets per RTT and the capacity."""
    link.R = min(max(R, p.floor * 8.0 * link.packet_size / d), env.capacity)


def flow_on_start(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Probe with small packets until the first feedback; a flow started at an equilibrium sends at its rate."""
    if flow.x > 0.0:
        env.rate = flow.x
    else:
        env.rate = 8.0 * env.packet_size / PROBE_INTERVAL


def flow_on_send(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Initialize the header: a rate above any other, no link, the last RTT sample."""
    header.rate = 1e300
    header.rtt = env.rtt
    header.link = NO_LINK
    header.stamp = 0
    header.assigned = flow.assigned


def receive(flow: FlowState, header: Header, env: FlowEnv) -> None:
    """Record the feedback of an ACK and the link and interval of its origin."""
    flow.R = header.rate
    flow.bottleneck = header.link
    flow.stamp = header.stamp
    flow.updated = env.now


def minimum_rate(p: Params, env: FlowEnv) -> float:
    """Return the minimum rate, `floor` packets per RTT: a silent host would receive no feedback of a higher rate."""
    minimum: float = p.floor * 8.0 * env.packet_size / env.rtt
    return minimum


def adopt_rate(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Send at the fair rate received, as RCP and QI-RCP do (THESIS (4.2))."""
    if header.link != NO_LINK:
        receive(flow, header, env)
        flow.x = max(header.rate, minimum_rate(p, env))
        env.rate = flow.x


def link_hooks(on_interval: Hook, stamping: str, average: str = "packet") -> dict[str, Hook]:
    """Return the hooks of a router that keeps this state, with a protocol's hook for the end of an interval.

    stamping "departure": as in the authors' ns-2 code. "arrival": before the queue, as in Linux: netfilter sees
    the packet before the device's queue (EVAL sec. 3.5): the feedback is older by the queueing delay.
    """
    count = link_on_arrival if average == "packet" else link_on_arrival_sum

    def count_and_stamp(link: LinkState, header: Header, p: Params, env: LinkEnv) -> None:
        count(link, header, p, env)
        stamp(link, header, p, env)

    hooks = {"on_start": link_on_start, "on_interval": on_interval}
    if stamping == "arrival":
        return hooks | {"on_arrival": count_and_stamp}
    return hooks | {"on_arrival": count, "on_departure": stamp}


def halve(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
    """Halve the rate at a loss, but only once an RTT."""
    if flow.x > 0.0 and env.now >= flow.halved:
        flow.x = max(0.5 * flow.x, minimum_rate(p, env))
        flow.halved = env.now + env.srtt
        env.rate = flow.x


def flow_hooks(on_ack: Hook, loss: str) -> dict[str, Hook]:
    """Return the hooks of a host that keeps this state, with a protocol's hook for the feedback of an ACK.

    loss "keep": a loss changes no rate, its bytes are sent again. "halve": it halves the rate for an RTT. During that
    RTT feedback is ignored: routers announced it before the loss.
    """

    def on_ack_unless_halved(flow: FlowState, header: Header, p: Params, env: FlowEnv) -> None:
        if env.now >= flow.halved:
            on_ack(flow, header, p, env)

    hooks = {"on_start": flow_on_start, "on_send": flow_on_send}
    return hooks | ({"on_ack": on_ack} if loss == "keep" else {"on_ack": on_ack_unless_halved, "on_loss": halve})
