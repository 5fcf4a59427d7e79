"""Cases of senders at losses, timeouts and reordering, and with ACKs that acknowledge many packets."""

from __future__ import annotations

import numpy as np

from ecc.claims.checks.conformance.cubic import BETA, Epoch, K_of, cubic
from ecc.claims.checks.conformance.cubic import NEEDS as OF_CUBIC
from ecc.claims.checks.conformance.laboratory import PACKET, Laboratory, NotReached, Trace, case
from ecc.claims.checks.conformance.paths import LossesBetween
from ecc.claims.checks.conformance.senders import NEEDS, chosen, packets, path, sent_between, share
from ecc.network.impairments import Jitter

FLIGHT = 200
"""Packets in flight at the begin of an outage: the receiver's window, if the protocol has this parameter."""
AGGREGATED = 256
"""Packets per ACK of the cases on aggregation, if a window is larger."""


def _draw(lab: Laboratory, trace: Trace, title: str, caption: str, marks: list[float]) -> None:
    lab.draw(trace, title, caption, volumes=("window", "in_flight"), rates=(), marks=marks)


# ---- timeouts --------------------------------------------------------------------------------------------------------


def _outage(lab: Laboratory, begin: float, length: float, duration: float) -> Trace:
    """Run the protocol over a path on which all packets are lost for some time, with `FLIGHT` packets in flight."""
    links = {0: LossesBetween(begin=begin, end=begin + length, every=1)}
    chosen(lab, receiver_window=FLIGHT * PACKET)
    return lab.run(path(50e6, 0.1, 1e6), duration, links=links)


@case("sender-timeout-window", *NEEDS, "without transport quic", cost=0.5)
def window_after_timeout(lab: Laboratory) -> str:
    begin = 3.0
    trace = _outage(lab, begin, 3.0, 6.0)
    inside = (trace.time > begin) & (trace.time < begin + 3.0)
    lowest = float(trace["window"][inside].min() / PACKET)
    lab.expect("minimum window in the outage", lowest, at_most=1.0, unit="packets", note="loss window, sec. 3.1")
    _draw(lab, trace, "An outage", "All packets are lost for 3 s.", [begin, begin + 3.0])
    return f"A timeout leaves a window of {lowest:.0f} packet"


def _threshold(trace: Trace, after: float) -> float:
    """Return the window at which slow start ends after a time, in packets."""
    window, lag = trace["window"] / PACKET, 100
    for k in range(trace.at(after), len(window) - lag):
        if window[k] > 3.0 and window[k + lag] - window[k] < 0.2 * window[k]:
            return float(window[k + lag])
    raise NotReached("slow start does not end after the timeout")


def _slow_start_after(lab: Laboratory, length: float, duration: float, note: str, title: str) -> tuple[float, float]:
    """Examine where slow start ends after an outage; return packets in flight at the loss, and the window there."""
    begin = 3.0
    trace = _outage(lab, begin, length, duration)
    flight = float(trace["in_flight"][trace.at(begin - 0.1) : trace.at(begin)].max() / PACKET)
    end = _threshold(trace, begin + length + 0.1)
    lab.expect(
        "window at the end of slow start over packets in flight at the loss",
        end / flight,
        near=share(lab),
        band=0.08,
        note=note,
    )
    _draw(lab, trace, title, f"All packets are lost for {length:g} s.", [begin, begin + length])
    return flight, end


@case("sender-timeout-threshold", *NEEDS, "without transport quic", cost=1)
def threshold(lab: Laboratory) -> str:
    flight, end = _slow_start_after(lab, 1.8, 12.0, "reduced once, sec. 3.1 (4)", "Slow start after an outage")
    return f"After a timeout with {flight:.0f} packets in flight slow start ends at {end:.0f}"


@case("sender-timeout-repeated", *NEEDS, "without transport quic", cost=1)
def repeated(lab: Laboratory) -> str:
    note = "held constant by further timeouts, sec. 3.1"
    _, end = _slow_start_after(lab, 5.0, 20.0, note, "Several timeouts")
    return f"After several timeouts slow start ends at {end:.0f} packets"


def _lone(trace: Trace, begin: float, end: float) -> list[float]:
    """Return the times at which packets are sent between two times, of those with a pause of 0.2 s before them."""
    total = packets(trace)
    times = [float(trace.time[k]) for k in np.flatnonzero(np.diff(total, prepend=0.0) > 0.5)]
    return [b for a, b in zip(times, times[1:], strict=False) if begin < b < end and b - a > 0.2]


@case("sender-timeout-backoff", *NEEDS, cost=1)
def backoff(lab: Laboratory) -> str:
    begin = 3.0
    trace = _outage(lab, begin, 17.0, 20.0)
    waits = np.diff(_lone(trace, begin, begin + 17.0))[-3:]
    if len(waits) < 3:
        raise NotReached("fewer than four timeouts in an outage of 17 s")
    ratios = waits[1:] / waits[:-1]
    lab.expect("minimum ratio of successive timeouts", float(ratios.min()), near=2.0, band=0.05, note="(5.5)")
    lab.expect("maximum ratio of successive timeouts", float(ratios.max()), near=2.0, band=0.05, note="(5.5)")
    _draw(lab, trace, "A dead path", "All packets are lost from 3 s on.", [begin])
    return f"The timer expires after {', '.join(f'{wait:.1f}' for wait in waits)} s"


@case("sender-timeout-first", *NEEDS, cost=0.3)
def first_timeout(lab: Laboratory) -> str:
    links = {0: LossesBetween(begin=0.0, end=0.9, every=1)}
    trace = lab.run(path(50e6, 0.1, 1e6), 2.0, links=links)
    times = _lone(trace, 0.2, 2.0)
    if not times:
        raise NotReached("nothing is retransmitted within 2 s")
    lab.expect("time of the first retransmission", times[0], at_least=0.98, unit="s", note="(2.1): 1 s, or more")
    _draw(lab, trace, "The first packets are lost", "All packets of the first 0.9 s are lost.", [0.9])
    return f"Without a sample of the RTT the timer expires after {times[0]:.2f} s"


# ---- persistent congestion -------------------------------------------------------------------------------------------


@case("sender-persistent-window", *NEEDS, "transport quic", cost=0.5)
def persistent(lab: Laboratory) -> str:
    begin, length = 3.0, 3.0
    chosen(lab, transport="quic")
    trace = _outage(lab, begin, length, 9.0)
    window = trace["window"] / PACKET
    lowest = float(window[trace.at(begin) : trace.at(begin + length + 3.0)].min())
    lab.expect(
        "minimum window", lowest, at_least=2.0, at_most=4.0, unit="packets", note="kMinimumWindow, secs. 7.2, 7.6.2"
    )
    inside = float(window[trace.at(begin + length - 0.1)] / window[trace.at(begin - 0.1)])
    lab.expect("window during probe timeouts over window before", inside, at_least=0.99, note="sec. 6.2")
    _draw(lab, trace, "Persistent congestion", "All packets are lost for 3 s.", [begin, begin + length])
    return f"Persistent congestion leaves {lowest:.0f} packets, when an ACK has declared it"


@case("sender-persistent-threshold", *NEEDS, "transport quic", cost=1)
def persistent_once(lab: Laboratory) -> str:
    begin, length = 3.0, 3.0
    chosen(lab, transport="quic")
    trace = _outage(lab, begin, length, 14.0)
    window = trace["window"] / PACKET
    before = float(window[trace.at(begin - 0.1)])
    low = np.flatnonzero((trace.time > begin) & (window <= 4.0))
    if not len(low):
        raise NotReached("no persistent congestion after an outage of 3 s")
    end = _threshold(trace, float(trace.time[low[-1]]))
    lab.expect(
        "window at the end of slow start over window before",
        end / before,
        near=share(lab),
        band=0.1,
        note="one reduction and the minimum window, secs. 7.3.2, 7.6.2, B.8; twice would be the square",
    )
    _draw(lab, trace, "Slow start after persistent congestion", "It ends at the threshold.", [begin, begin + length])
    return f"After persistent congestion slow start ends at {end:.0f} packets; the window was {before:.0f}"


@case("sender-persistent-short", *NEEDS, "transport quic", cost=0.5)
def not_persistent(lab: Laboratory) -> str:
    begin, length = 3.0, 0.15
    chosen(lab, transport="quic")
    trace = _outage(lab, begin, length, 5.0)
    window = trace["window"] / PACKET
    remainder = float(window[trace.at(begin) : trace.at(begin + 1.5)].min() / window[trace.at(begin - 0.1)])
    lab.expect(
        "minimum window over window before",
        remainder,
        near=share(lab),
        band=0.06,
        note="shorter than 3 (srtt + 4 rttvar + max_ack_delay), sec. 7.6.1: one reduction",
    )
    _draw(lab, trace, "An outage of 1.5 RTTs", "All packets are lost for 0.15 s.", [begin, begin + length])
    return f"An outage of 1.5 RTTs leaves {remainder:.2f} of the window"


# ---- losses ----------------------------------------------------------------------------------------------------------


@case("sender-loss-once", *NEEDS, cost=1)
def one_reduction(lab: Laboratory) -> str:
    begin, rtt = 4.0, 0.1
    links = {0: LossesBetween(begin=0.35, end=0.45, again=begin, until=begin + 0.5 * rtt, every=8, max_losses=5)}
    trace = lab.run(path(100e6, rtt), 8.0, links=links)
    window, recovering = trace["window"] / PACKET, trace["recovering"]
    begun = np.flatnonzero((recovering > 0) & (trace.time > begin))
    if not len(begun):
        raise NotReached("no recovery begins after the losses")
    ended = np.flatnonzero((recovering == 0) & (np.arange(len(window)) > begun[0]))
    if not len(ended):
        raise NotReached("the recovery does not end")
    before, after = float(window[begun[0] - 1]), float(window[ended[0]])
    lab.expect(
        "window after five losses over window before",
        after / before,
        near=share(lab),
        band=0.06,
        note="one indication, sec. 4.3",
    )
    _draw(lab, trace, "Five losses in one window", "Each eighth packet is lost in half an RTT.", [begin])
    return f"Five losses in one window leave {after / before:.2f} of it"


@case("sender-loss-floor", *NEEDS, cost=1)
def floor(lab: Laboratory) -> str:
    links = {0: LossesBetween(begin=1.0, end=20.0, every=15)}
    trace = lab.run(path(2e6, 0.05), 20.0, links=links)
    window, recovering = trace["window"] / PACKET, trace["recovering"]
    begun = np.flatnonzero((recovering[1:] > 0) & (recovering[:-1] == 0)) + 1
    if len(begun) < 5:
        raise NotReached("fewer than five recoveries begin")
    lowest = float(window[begun].min())
    lab.expect("minimum window at the begin of a recovery", lowest, at_least=2.0, unit="packets", note="sec. 3.1 (4)")
    _draw(lab, trace, "One packet in fifteen is lost", "Windows are small.", [])
    return f"Frequent losses leave windows of {lowest:.1f} packets or more"


@case("sender-loss-retransmissions", *NEEDS, "transport sack", cost=1)
def retransmissions(lab: Laboratory) -> str:
    begin, rtt = 2.0, 0.1
    links = {0: LossesBetween(begin=begin, end=begin + rtt, every=8, max_losses=20)}
    trace = lab.run(path(50e6, rtt), 5.0, links=links, transport="sack")
    lost = 20.0
    again = float(np.asarray(trace.run.flows["retransmitted"])[0]) / PACKET
    lab.expect(
        "retransmitted packets", again, at_least=lost, at_most=lost + 1.0, unit="packets", note="one rescue at most"
    )
    _draw(lab, trace, "Twenty losses", "Each eighth packet is lost, twenty in all.", [begin])
    return f"{lost:.0f} lost packets are repaired by {again:.0f} retransmissions"


@case("sender-avoidance-growth", *NEEDS, "without parameter C", cost=1)
def avoidance(lab: Laboratory) -> str:
    rtt = 0.1
    links = {0: LossesBetween(begin=0.45, end=0.55, every=1, max_losses=1)}
    trace = lab.run(path(200e6, rtt), 8.0, links=links)
    window = trace["window"] / PACKET
    begin, end = 2.0, 7.0
    gain = float(window[trace.at(end)] - window[trace.at(begin)]) / ((end - begin) / rtt)
    lab.expect(
        "packets gained per RTT", gain, at_least=0.4, at_most=1.03, note="1, or 0.5 with delayed ACKs, sec. 3.1 (3)"
    )
    _draw(lab, trace, "Congestion avoidance", "One loss ends slow start.", [begin, end])
    return f"Congestion avoidance gains {gain:.2f} packets per RTT"


@case("cubic-reduction", *OF_CUBIC, cost=3)
def reduction(lab: Laboratory) -> str:
    loss, again, length = 0.55, 4.0, 0.1
    links = {0: LossesBetween(begin=loss, end=loss + length, again=again, until=again + length, every=1, max_losses=1)}
    trace = lab.run(path(200e6, 0.1), 6.0, links=links, sample=0.005)
    first, second = Epoch(trace, loss), Epoch(trace, again)
    lab.expect("window at the second loss over that at the first", second.before / first.before, at_most=0.99)
    lab.expect(
        "window after the second loss over window before",
        second.first / second.before,
        near=BETA,
        band=0.03,
        note="secs. 4.6, 4.7: not beta (1 + beta)/2 = 0.595",
    )
    _draw(lab, trace, "A second loss below the last maximum", "Fast convergence reduces W_max only.", [loss, again])
    return f"The second loss leaves {second.first / second.before:.2f} of the window"


@case("cubic-epoch", *OF_CUBIC, cost=2)
def epoch_begins(lab: Laboratory) -> str:
    loss, rtt = 2.2, 0.4
    links = {0: LossesBetween(begin=loss, end=loss + rtt, every=1, max_losses=1)}
    trace = lab.run(path(200e6, rtt), 12.0, links=links, sample=0.005)
    epoch = Epoch(trace, loss)
    K = K_of(epoch.before, BETA * epoch.before)
    inside = (epoch.t >= 2.0 * rtt) & (epoch.t <= 6.0 * rtt)
    law, early = (cubic(epoch.t[inside] + shift, K, epoch.before) for shift in (0.0, rtt))
    ahead = float(np.mean((epoch.window[inside] - law) / (early - law)))
    lab.expect(
        "RTTs by which the window is ahead of the cubic that begins at the end of the recovery",
        ahead,
        at_least=-0.6,
        at_most=0.35,
        note="mean from 2 to 6 RTTs later; 1 if the cubic begins at the detection of the loss, sec. 4.2",
    )
    _draw(lab, trace, "The start of the cubic", "The RTT is 0.4 s. The line is the end of the recovery.", [epoch.at])
    return (
        f"The cubic begins when the recovery ends, {epoch.at - float(trace.time[epoch.cut]):.2f} s after the reduction"
    )


# ---- reordering and aggregation --------------------------------------------------------------------------------------


@case("sender-reordering-tolerated", *NEEDS, cost=1)
def displaced(lab: Laboratory) -> str:
    # packets leave the link each 1.2 ms, and a delay of up to 3.5 ms displaces a packet by at most two others
    jitter = Jitter((0.0, 0.0035), link=0, in_order=False)
    trace = lab.run(path(10e6, 0.1), 3.0, impairments=[jitter])
    lab.expect("packets dropped", float(trace.drops.sum()), at_most=0)
    recovering = trace["recovering"]
    begun = float(np.count_nonzero((recovering[1:] > 0) & (recovering[:-1] == 0)))
    lab.expect("recoveries", begun, at_most=0.0, note="below three duplicate ACKs, sec. 3.2")
    _draw(lab, trace, "Slight reordering", "Packets are displaced by up to two positions.", [])
    return "Packets displaced by two positions begin no recovery"


@case("sender-reordering-rack", *NEEDS, "transport rack", cost=2)
def rack(lab: Laboratory) -> str:
    rtt = 0.1
    jitter = Jitter((0.0, 0.2 * rtt), link=0, in_order=False)
    trace = lab.run(path(20e6, rtt), 12.0, impairments=[jitter], transport="rack")
    total, again = packets(trace)[-1], float(np.asarray(trace.run.flows["retransmitted"])[0]) / PACKET
    lab.expect("packets dropped", float(trace.drops.sum()), at_most=0)
    lab.expect(
        "retransmitted packets over packets sent",
        again / total,
        at_most=0.02,
        note="sec. 6.2: the window for reordering grows",
    )
    used = trace.mean(trace.goodput, 6.0) / 20e6
    lab.expect("utilization from 6 s on", used, at_least=0.9)
    _draw(lab, trace, "Strong reordering", "Packets are delayed by up to a fifth of the RTT each.", [])
    return f"Reordering over a fifth of the RTT causes {again:.0f} retransmissions of {total:.0f} packets"


@case("sender-aggregation-slow-start", *NEEDS, cost=0.5)
def stretched_start(lab: Laboratory) -> str:
    rtt = 0.1
    trace = lab.run(path(1e9, rtt, delayed_acks=(16, 0.005)), 1.2)
    rounds = [sent_between(trace, k * (rtt + 0.005) + 0.02, (k + 1) * (rtt + 0.005) + 0.02) for k in range(1, 9)]
    ratios = [b / a for a, b in zip(rounds, rounds[1:], strict=False) if a > 0.5]
    lab.expect("maximum growth per RTT", max(ratios), at_most=2.1, note="sec. 2.2; ACKs of up to 16 packets")
    _draw(lab, trace, "Slow start with aggregated ACKs", "An ACK acknowledges up to 16 packets.", [])
    return f"ACKs of 16 packets grow the window up to {max(ratios):.2f}-fold in an RTT"


@case("sender-aggregation-avoidance", *NEEDS, "without parameter C", cost=1)
def stretched_avoidance(lab: Laboratory) -> str:
    rtt = 0.1
    links = {0: LossesBetween(begin=0.85, end=0.95, every=1, max_losses=1)}
    trace = lab.run(path(200e6, rtt, delayed_acks=(16, 0.005)), 8.0, links=links)
    window = trace["window"] / PACKET
    begin, end = 3.0, 7.5
    rounds = (end - begin) / float(np.median(trace["srtt"][trace.at(begin) : trace.at(end)]))
    gain = float(window[trace.at(end)] - window[trace.at(begin)]) / rounds
    lab.expect("packets gained per RTT", gain, near=1.0, band=0.06, note="sec. 2.1: bytes count, and not ACKs")
    _draw(lab, trace, "Congestion avoidance with aggregated ACKs", "An ACK acknowledges up to 16 packets.", [])
    return f"With ACKs of 16 packets the window gains {gain:.2f} packets per RTT"


@case("cubic-aggregation", *OF_CUBIC, cost=3)
def stretched_cubic(lab: Laboratory) -> str:
    loss, length = 1.5, 0.1
    links = {0: LossesBetween(begin=loss, end=loss + length, every=1, max_losses=1)}
    chosen(lab, initial=3.0 * AGGREGATED)
    trace = lab.run(path(400e6, 0.1, delayed_acks=(AGGREGATED, 0.05)), 20.0, links=links, sample=0.005)
    epoch = Epoch(trace, loss)
    until = min(1.5 * K_of(epoch.before, epoch.first), float(epoch.t[-1]))
    lab.expect("window at the loss", epoch.before, at_least=2.0 * AGGREGATED, unit="packets")
    lab.expect(
        "maximum deviation from W_cubic(t) over W_max",
        epoch.deviation(epoch.before, until),
        at_most=0.04,
        note=f"sec. 4.2; an ACK acknowledges up to {AGGREGATED} packets",
    )
    _draw(lab, trace, "The cubic with aggregated ACKs", f"An ACK acknowledges up to {AGGREGATED} packets.", [epoch.at])
    return f"With ACKs of {AGGREGATED} packets the window follows the cubic from {epoch.first:.0f} packets on"
