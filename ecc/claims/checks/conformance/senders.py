"""Cases of senders: initial window, slow start, HyStart++, idle periods, applications and receivers that limit a flow.

They use the window and counts of packets only, so they apply to any window protocol that responds to losses. Cases of
one rule set the parameters that select the rule, if the protocol has them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc.claims.checks.conformance.laboratory import PACKET, Laboratory, NotReached, Trace, case
from ecc.claims.checks.conformance.paths import LossesBetween, each_acknowledged
from ecc.network.impairments import DelaySchedule
from ecc.network.network import Network

NEEDS = ("windows", "losses")
MAX_INITIAL = 10.0
"""Initial window of RFC 6928 sec. 2 [packets]."""
N_RTT_SAMPLE, CSS_GROWTH_DIVISOR, CSS_ROUNDS, MIN_RTT_THRESH = 8, 4.0, 5, 0.004
"""Constants of RFC 9406 sec. 4.3; the last in s."""


def path(capacity: float, rtt: float, buffer: float | None = None, **flow: Any) -> Network:
    """Return a network of one link and one flow.

    Parameters
    ----------
    capacity : float, bit/s
    rtt : float, s
    buffer : float, bytes, optional
        None: unlimited.
    **flow : Any
        Fields of the flow, for example `writes`.
    """
    size = None if buffer is None else int(buffer)
    network = Network.dumbbell(capacity, rtts=[rtt], packet_size=PACKET, buffer=size)
    return network.with_flows([replace(network.flows[0], **flow)]) if flow else network


def share(lab: Laboratory) -> float:
    """Return the share of the window that a loss leaves: the parameter beta, or a half (RFC 5681 (4)).

    Parameters
    ----------
    lab : Laboratory
    """
    return float(lab.protocol.params().get("beta", 0.5))


def chosen(lab: Laboratory, **values: Any) -> Laboratory:
    """Return the laboratory with a protocol that has other values of those parameters that it has.

    Parameters
    ----------
    lab : Laboratory
    **values : Any
    """
    known = {key: value for key, value in values.items() if key in type(lab.protocol).__dataclass_fields__}
    lab.protocol = replace(lab.protocol, **known)
    return lab


def packets(trace: Trace) -> NDArray[np.float64]:
    """Return the packets sent until the end of each sample, shape (n_times,)."""
    length = np.diff(trace.time, prepend=0.0)
    sent = np.asarray(trace.run.data["rate"].to_numpy()[:, trace.flow], dtype=float)
    total: NDArray[np.float64] = np.cumsum(np.nan_to_num(sent) * length) / (8.0 * PACKET)
    return total


def sent_between(trace: Trace, begin: float, end: float) -> float:
    """Return the number of packets sent between two times.

    Parameters
    ----------
    trace : Trace
    begin, end : float, s
    """
    total = packets(trace)
    return float(total[trace.at(end)] - (total[trace.at(begin)] if begin > 0.0 else 0.0))


def _draw(lab: Laboratory, trace: Trace, title: str, caption: str, marks: list[float]) -> None:
    lab.draw(trace, title, caption, volumes=("window", "in_flight"), rates=(), marks=marks)


# ---- start -----------------------------------------------------------------------------------------------------------


@case("sender-start-initial-window", *NEEDS, cost=0.2)
def initial_window(lab: Laboratory) -> str:
    trace = lab.run(path(1e9, 0.1), 0.09)
    first = sent_between(trace, 0.0, 0.09)
    lab.expect("packets sent before the first ACK", first, at_least=1.0, at_most=MAX_INITIAL, note="RFC 6928 sec. 2")
    _draw(lab, trace, "The initial window", "No ACK has arrived yet.", [])
    return f"{first:.0f} packets are sent before the first ACK"


@case("sender-start-doubling", *NEEDS, cost=0.3)
def doubling(lab: Laboratory) -> str:
    rtt = 0.1
    trace = lab.run(path(1e9, rtt), 0.75)
    rounds = [sent_between(trace, k * rtt + 0.02, (k + 1) * rtt + 0.02) for k in range(1, 7)]
    ratios = [b / a for a, b in zip(rounds, rounds[1:], strict=False)]
    lab.expect("maximum growth per RTT", max(ratios), at_most=2.05, note="cwnd += min(N, SMSS) per ACK, sec. 3.1 (2)")
    lab.expect("minimum growth per RTT", min(ratios), at_least=1.4, note="with delayed ACKs it is 1.5")
    _draw(lab, trace, "Slow start", "The path has 1 Gb/s.", [])
    return f"Slow start sends {min(ratios):.2f} to {max(ratios):.2f} times as many packets in each RTT"


@case("sender-start-loss", *NEEDS, cost=0.3)
def first_loss(lab: Laboratory) -> str:
    links = {0: LossesBetween(begin=0.5, end=0.6, every=1, max_losses=1)}
    trace = lab.run(path(200e6, 0.1), 1.6, links=links)
    window, recovering = trace["window"] / PACKET, trace["recovering"]
    begun = np.flatnonzero(recovering > 0)
    if not len(begun):
        raise NotReached("no recovery begins after the loss")
    before = float(max(window[: begun[0]].max(), trace["in_flight"][: begun[0]].max() / PACKET))
    ended = np.flatnonzero((recovering == 0) & (np.arange(len(window)) > begun[0]))
    if not len(ended):
        raise NotReached("the recovery does not end")
    after = float(window[ended[0]])
    lab.expect(
        "window after the loss over window before",
        after / before,
        near=share(lab),
        band=0.06,
        note="sec. 3.1 (4), sec. 3.2",
    )
    later = window[min(ended[0] + 250, len(window) - 1)]
    lab.expect(
        "growth in the 2.5 RTTs after the recovery", float(later / after), at_most=1.4, note="slow start is over"
    )
    _draw(lab, trace, "A loss in slow start", "One packet is lost.", [0.5])
    return f"After a loss in slow start the window is {after / before:.2f} of {before:.0f} packets"


HYSTART = (*NEEDS, "parameter slow_start")


def _rounds(lab: Laboratory, delays: list[float], base: float, rounds: int) -> tuple[Trace, list[float]]:
    """Run HyStart++ over a path whose RTT in each round is base plus a delay; return the window after each round.

    Bursts of a round fit into a small part of the RTT, and the delay changes while nothing is on the wire.
    """
    chosen(lab, slow_start="hystart++", initial=10.0)
    network = path(1e9, base, **each_acknowledged(lab))
    times, round_time = [], 0.5 * base
    for extra in delays:
        times.append(round_time)
        round_time += base + extra
    propagation = network.links[0].delay
    schedule = DelaySchedule(0, times, [propagation + extra for extra in delays])
    ends = np.concatenate([[0.0], np.cumsum([base, *(base + extra for extra in delays)])])
    trace = lab.run(network, float(ends[rounds]) + 0.9 * base, impairments=[schedule])
    window = trace["window"] / PACKET
    return trace, [float(window[trace.at(float(end) + 0.45 * base)]) for end in ends[: rounds + 1]]


@case("sender-start-hystart-css", *HYSTART, cost=0.5)
def conservative(lab: Laboratory) -> str:
    base = 0.1
    delays = [0.0, 0.0, *([0.02] * 10)]
    trace, windows = _rounds(lab, delays, base, 11)
    gains = [b / a - 1.0 for a, b in zip(windows, windows[1:], strict=False)]
    fast = [gain for gain in gains if gain > 0.6]
    slow = [gain for gain in gains if 0.12 < gain <= 0.6]
    lab.expect("growth per RTT before the RTT rises", max(gains), at_least=0.9, note="slow start")
    lab.expect(
        "rounds of conservative growth",
        float(len(slow)),
        near=float(CSS_ROUNDS),
        within=0.01,
        note="CSS_ROUNDS = 5, sec. 4.3; the partial round counts, sec. 4.2",
    )
    lab.expect(
        "median growth in them",
        float(np.median(slow)) if slow else 0.0,
        near=1.0 / CSS_GROWTH_DIVISOR,
        band=0.1,
        note="CSS_GROWTH_DIVISOR = 4, sec. 4.3",
    )
    lab.expect("growth per RTT at the end", gains[-1], at_most=0.12, note="congestion avoidance")
    _draw(lab, trace, "HyStart++ after the RTT has risen", "The RTT rises by a fifth in the third round.", [])
    return f"{len(fast)} rounds of slow start are followed by {len(slow)} of conservative growth"


@case("sender-start-hystart-resume", *HYSTART, cost=0.5)
def resumed(lab: Laboratory) -> str:
    # The last packets of the first burst are slow, so that the second round has slow samples only: it is conservative.
    # The third burst is fast. Few of its round's samples are from the second burst.
    base, extra, burst = 0.1, 0.02, 64.0
    chosen(lab, slow_start="hystart++", initial=burst)
    network = path(1e9, base, **each_acknowledged(lab))
    propagation = network.links[0].delay
    up = 0.9 * burst * 8.0 * PACKET / 1e9
    slow = DelaySchedule(0, [up, 2.0 * (base + extra) - 1.5 * extra], [propagation + extra, propagation])
    trace = lab.run(network, 3.6 * base, impairments=[slow])
    window = trace["window"] / PACKET
    first, second, third = (
        float(window[trace.at(t)]) for t in (base + 1.5 * extra, 2.0 * base + 2.5 * extra, 3.5 * base)
    )
    conservative = (second - (third - second)) / (1.0 - 1.0 / CSS_GROWTH_DIVISOR)
    lab.expect("growth in the slow round over window", (second - first) / first, at_most=0.45, note="conservative")
    lab.expect(
        "ACKs of the fast round with conservative growth",
        conservative,
        at_least=3.0,
        at_most=N_RTT_SAMPLE + 1.0,
        note="slow start resumes after N_RTT_SAMPLE = 8 samples of the round, sec. 4.2",
    )
    _draw(lab, trace, "HyStart++ after the RTT has fallen again", "The RTT is longer in one round.", [])
    return f"Slow start resumes after {conservative:.0f} ACKs of a round of {second:.0f} packets"


@case("sender-start-hystart-threshold", *HYSTART, cost=0.5)
def small_rises(lab: Laboratory) -> str:
    base = 0.02
    trace, windows = _rounds(lab, [0.0, *([0.75 * MIN_RTT_THRESH] * 4)], base, 5)
    ratios = [b / a for a, b in zip(windows, windows[1:], strict=False)]
    lab.expect(
        "minimum growth per RTT", min(ratios), at_least=1.9, note="a rise of 3 ms is below MIN_RTT_THRESH, sec. 4.2"
    )
    _draw(lab, trace, "HyStart++ and a small rise", "The RTT rises by 3 ms.", [])
    return "A rise of the RTT by 3 ms does not end slow start"


@case("sender-start-search", *NEEDS, "parameter search_threshold", cost=0.5)
def searches(lab: Laboratory) -> str:
    rtt = 0.1
    chosen(lab, slow_start="search", initial=10.0)
    trace = lab.run(path(10e9, rtt), 1.05)
    window = trace["window"] / PACKET
    ratios = [float(window[trace.at((k + 1) * rtt + 0.05)] / window[trace.at(k * rtt + 0.05)]) for k in range(1, 9)]
    lab.expect("minimum growth per RTT", min(ratios), at_least=1.4, note="the path delivers all that is sent")
    _draw(lab, trace, "SEARCH on an empty path", "The path has 10 Gb/s.", [])
    return f"SEARCH leaves slow start alone on an empty path: the window is {window[-1]:.0f} packets after ten RTTs"


# ---- idle periods ----------------------------------------------------------------------------------------------------


@case("sender-idle-restart", *NEEDS, cost=0.5)
def restart(lab: Laboratory) -> str:
    chosen(lab, restart="rfc5681")
    pause = 6.0
    network = path(100e6, 0.1, 1e6, writes=(3_000_000, pause))
    trace = lab.run(network, pause + 1.5)
    window = trace["window"] / PACKET
    before = float(window[trace.at(pause - 0.01)])
    burst = sent_between(trace, pause - 0.01, pause + 0.09)
    lab.expect("window before the idle period ends", before, at_least=2.0 * MAX_INITIAL, unit="packets")
    lab.expect(
        "packets sent in the first RTT after the idle period",
        burst,
        at_least=1.0,
        at_most=MAX_INITIAL,
        note="at most the restart window, sec. 4.1",
    )
    _draw(lab, trace, "An idle period of seconds", "The application has no data for seconds.", [pause])
    return f"After an idle period {burst:.0f} packets are sent in the first RTT; the window was {before:.0f}"


@case("sender-idle-short", *NEEDS, "without transport quic", cost=0.5)
def short_pause(lab: Laboratory) -> str:
    rtt, write = 0.1, 1_500_000
    trace = lab.run(path(100e6, rtt, writes=(write, 0.9)), 2.6)
    window, flight = trace["window"] / PACKET, trace["in_flight"]
    idle = [k for k in range(1, len(window)) if flight[k] > 0.0 and flight[k - 1] == 0.0 and trace.time[k] > 0.85]
    if not idle:
        raise NotReached("the flow is never idle")
    held = float(min(window[k] / window[k - 1] for k in idle))
    lab.expect("window after a pause shorter than the timeout over window before", held, at_least=0.98, note="sec. 4.1")
    _draw(lab, trace, "A pause shorter than the timeout", "The minimum timeout is 1 s.", [])
    return f"A pause shorter than the retransmission timeout leaves {held:.2f} of the window"


@case("sender-idle-timer", *NEEDS, cost=0.3)
def no_timeout(lab: Laboratory) -> str:
    trace = lab.run(path(100e6, 0.1, 1e6, writes=(30_000, 5.0)), 4.9)
    window = trace["window"] / PACKET
    done = trace.at(1.0)
    lab.expect("packets sent while nothing is outstanding", sent_between(trace, 1.0, 4.9), at_most=0.0, note="sec. 5.2")
    lab.expect(
        "minimum window in the idle period over window before",
        float(window[done:].min() / window[done]),
        at_least=0.999,
    )
    _draw(lab, trace, "Nothing outstanding", "All data is acknowledged within 0.3 s.", [1.0])
    return "The retransmission timer is off while nothing is outstanding"


@case("sender-idle-three-packets", *NEEDS, cost=0.3)
def three_packets(lab: Laboratory) -> str:
    chosen(lab, initial=10.0, restart="none")
    trace = lab.run(path(100e6, 0.05, 1e6, writes=(3 * PACKET, 0.5)), 5.0)
    window = trace["window"] / PACKET
    first, last = float(window[trace.at(0.02)]), float(window[-1])
    lab.expect(
        "window after ten bursts of three packets over initial window",
        last / first,
        at_most=1.0,
        note="RFC 9002 sec. 7.8: cwnd SHOULD NOT be increased if it is underutilized",
    )
    _draw(lab, trace, "Three packets at a time", "The window is ten packets.", [])
    return f"Bursts of three packets leave a window of {last:.0f} packets"


# ---- applications and receivers that limit a flow -------------------------------------------------------------------


@case("sender-application-burst", *NEEDS, cost=0.3)
def burst_and_four(lab: Laboratory) -> str:
    chosen(lab, initial=10.0, restart="none")  # over QUIC the pause is longer than a probe timeout
    network = path(100e6, 0.05, 1e6, size=14 * PACKET, writes=(10 * PACKET, 0.3))
    trace = lab.run(network, 0.6)
    last = float(trace["window"][-1] / PACKET)
    lab.expect(
        "window after ten packets, a pause and four packets",
        last,
        at_most=20.0,
        unit="packets",
        note="limit(maxFS) = 2 maxFS in slow start; growth without a limit gives 24, sec. 3.1",
    )
    _draw(lab, trace, "Ten packets, a pause, four packets", "The example of the draft.", [0.3])
    return f"After ten packets, a pause and four packets the window is {last:.0f} packets"


@case("sender-application-frames", *NEEDS, cost=0.5)
def frames(lab: Laboratory) -> str:
    capacity, rate = 20e6, 30.0
    size = int(0.5 * capacity / 8.0 / rate)
    trace = lab.run(path(capacity, 0.05, 1e6, writes=(size, 1.0 / rate)), 10.0)
    flight = float(trace["in_flight"].max() / PACKET)
    window = float(trace["window"].max() / PACKET)
    lab.expect(
        "maximum window over limit(maxFS)",
        window / (2.0 * max(flight, MAX_INITIAL) + 1.0),
        at_most=1.0,
        note=f"2 maxFS + 1 packet, maxFS = {flight:.0f} packets",
    )
    lab.expect(
        "goodput over rate of the application",
        trace.mean(trace.goodput, 5.0) / (8.0 * size * rate),
        near=1.0,
        band=0.02,
    )
    _draw(lab, trace, "Frames at half the capacity", "30 frames a second.", [])
    return f"Frames with up to {flight:.0f} packets in flight leave a window of {window:.0f} packets"


@case("sender-application-loss", *NEEDS, "without transport quic", cost=0.5)
def loss_below_window(lab: Laboratory) -> str:
    # a full window first, and then an application that uses a quarter of it
    rtt, loss, quarter = 0.1, 4.0, 25
    chosen(lab, initial=150.0, restart="none")
    links = {0: LossesBetween(begin=loss, end=loss + rtt, every=1, max_losses=1)}
    trace = lab.run(path(100e6, rtt, 1e6, writes=(quarter * PACKET, rtt)), loss + 1.0, links=links)
    window, flight = trace["window"] / PACKET, trace["in_flight"] / PACKET
    before, used = float(window[trace.at(loss - 0.01)]), float(flight[trace.at(loss - 0.5) : trace.at(loss)].max())
    lowest = float(window[trace.at(loss) : trace.at(loss + 0.5)].min())
    lab.expect("window before the loss over packets in flight", before / used, at_least=2.0)
    lab.expect(
        "window after the loss over packets in flight",
        lowest / used,
        at_most=share(lab) + 0.1,
        note="ssthresh follows FlightSize, not cwnd: sec. 3.1 (4), sec. 3.2",
    )
    _draw(lab, trace, "A loss of a flow that uses a part of its window", "25 packets an RTT.", [loss])
    return f"A loss with {used:.0f} packets in flight and a window of {before:.0f} leaves {lowest:.0f}"


@case("sender-application-paced", *NEEDS, cost=1)
def paced(lab: Laboratory) -> str:
    # A loss leaves a window that the path can hold. The data is bulk; a pacer may keep the flight below the window.
    rtt = 0.1
    links = {0: LossesBetween(begin=0.55, end=0.65, every=1, max_losses=1)}
    trace = lab.run(path(100e6, rtt), 12.0, links=links)
    window = trace["window"] / PACKET
    first, last = float(window[trace.at(2.0)]), float(window[trace.at(11.5)])
    lab.expect(
        "packets gained per RTT by a flow with bulk data",
        (last - first) / (9.5 / rtt),
        at_least=0.1,
        note="not application-limited if the window would be used but for pacing, sec. 7.8",
    )
    _draw(lab, trace, "Bulk data after a loss", "The application always has data.", [])
    return f"With bulk data the window grows from {first:.0f} to {last:.0f} packets"


@case("sender-application-bulk", *NEEDS, cost=0.5)
def bulk_after_little(lab: Laboratory) -> str:
    rtt, capacity, bulk = 0.05, 40e6, 3.0
    chosen(lab, restart="none")
    trace = lab.run(path(capacity, rtt, 2e6, start=0.0, writes=(int(2e6), bulk)), bulk + 1.5)
    full = np.flatnonzero((trace.time > bulk) & (trace.goodput > 0.0))
    if not len(full):
        raise NotReached("nothing is delivered after the pause")
    used = trace.mean(trace.goodput, bulk + 0.1, bulk + 0.35) / capacity
    lab.expect("utilization from the second to the seventh RTT of the bulk", used, at_least=0.3)
    _draw(lab, trace, "A bulk after a pause", "2 MB are written each 3 s.", [bulk])
    return f"After a pause a bulk uses {100.0 * used:.0f} % of the path within seven RTTs"


@case("sender-receiver-limit", *NEEDS, "parameter receiver_window", cost=0.5)
def receiver(lab: Laboratory) -> str:
    limit = 60 * PACKET
    chosen(lab, receiver_window=limit)
    trace = lab.run(path(100e6, 0.1, 4e6), 6.0)
    flight, window = float(trace["in_flight"].max()), float(trace["window"].max())
    lab.expect(
        "maximum in flight over receiver's window", flight / limit, at_most=1.0, note="sec. 3.1: min(cwnd, rwnd)"
    )
    lab.expect("maximum in flight over receiver's window, used", flight / limit, at_least=0.95)
    lab.expect(
        "maximum window over receiver's window",
        window / limit,
        at_most=2.05,
        note="limit(maxFS) = 2 maxFS in slow start, sec. 3 of the draft",
    )
    _draw(lab, trace, "A receiver with 60 packets", "The path would hold 833.", [])
    return f"With a receiver's window of 60 packets the window stops at {window / PACKET:.0f}"


# ---- resuming with a saved window ------------------------------------------------------------------------------------

RESUMES = (*NEEDS, "parameter saved_window", "parameter saved_rtt")
SAVED = 300
"""Saved window of the cases [packets]."""


def _resumed(lab: Laboratory, saved_rtt: float, links: dict[int, Any] | None = None) -> Trace:
    """Run the protocol with a saved window over a path with an RTT of 0.1 s."""
    chosen(lab, initial=10.0, saved_window=SAVED * PACKET, saved_rtt=saved_rtt)
    return lab.run(path(1e9, 0.1), 0.7, links=links)


@case("sender-resume-jump", *RESUMES, cost=0.3)
def jump(lab: Laboratory) -> str:
    trace = _resumed(lab, 0.1)
    window = trace["window"] / PACKET
    largest = float(window[trace.at(0.11) : trace.at(0.19)].max())
    lab.expect(
        "window in the second RTT",
        largest,
        at_least=2.0 * MAX_INITIAL + 1.0,
        at_most=0.5 * SAVED,
        unit="packets",
        note="at most saved_cwnd/2, sec. 3.3; slow start has 20",
    )
    sent = sent_between(trace, 0.1, 0.2)
    lab.expect("packets sent in the second RTT", sent, at_most=0.5 * SAVED + 1.0, unit="packets")
    _draw(lab, trace, "A flow that resumes", "The saved window is 300 packets.", [0.1, 0.2])
    return f"After the initial window is acknowledged the window is {largest:.0f} packets, for a saved one of {SAVED}"


@case("sender-resume-rtt", *RESUMES, cost=0.3)
def another_path(lab: Laboratory) -> str:
    trace = _resumed(lab, 0.25)
    largest = float(trace["window"][: trace.at(0.19)].max() / PACKET)
    lab.expect(
        "maximum window until the second RTT ends", largest, at_most=21.0, unit="packets", note="no jump, sec. 3.2"
    )
    _draw(lab, trace, "A flow on another path", "The saved RTT is 0.25 s, and the RTT is 0.1 s.", [0.1])
    return f"With an RTT below half of the saved one slow start is the usual one: {largest:.0f} packets"


@case("sender-resume-retreat", *RESUMES, cost=0.3)
def retreat(lab: Laboratory) -> str:
    loss = LossesBetween(begin=0.1, end=0.15, every=20, max_losses=1)
    trace = _resumed(lab, 0.1, links={0: loss})
    window = trace["window"] / PACKET
    begun = np.flatnonzero((trace["recovering"] > 0) & (trace.time > 0.15))
    if not len(begun):
        raise NotReached("no recovery begins after the loss")
    largest = float(window[begun[0] : trace.at(0.3)].max())
    lab.expect(
        "maximum window after the loss",
        largest,
        at_most=0.25 * SAVED,
        unit="packets",
        note="at most PipeSize/2, sec. 3.5",
    )
    _draw(lab, trace, "A loss in the jump", "One packet of the jump is lost.", [0.15])
    return f"A loss of a packet of the jump leaves {largest:.0f} packets"
