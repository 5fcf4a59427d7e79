"""Cases of CUBIC: its window over time, its response to losses, and the bound on its growth (RFC 9438).

The cases use only the window, so they apply to any class with the two constants as parameters `C` and `beta`.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from ecc.claims.checks.conformance.laboratory import PACKET, Laboratory, NotReached, Trace, case
from ecc.claims.checks.conformance.paths import LossesBetween, each_acknowledged
from ecc.claims.checks.conformance.senders import path
from ecc.network.impairments import CapacitySchedule, Jitter
from ecc.network.network import Network

C, BETA = 0.4, 0.7
"""Constants of RFC 9438 secs. 4.2 and 4.6: packets/s^3, and share of the window."""
RENO = 3.0 * (1.0 - BETA) / (1.0 + BETA)
"""Growth of sec. 4.3, packets per RTT."""
BAND = 0.03
NEEDS = ("windows", "losses", "parameter C", "parameter beta")


def cubic(t: NDArray[np.float64], K: float, M: float) -> NDArray[np.float64]:
    """Return the window of sec. 4.2 [packets].

    Parameters
    ----------
    t : ndarray, s
        Time since congestion avoidance began.
    K : float, s
    M : float, packets
        Window at the last loss.
    """
    grown: NDArray[np.float64] = C * (t - K) ** 3 + M
    return grown


def K_of(M: float, W: float) -> float:
    """Return the time at which a cubic that begins at W reaches M [s].

    Parameters
    ----------
    M, W : float, packets
    """
    return float(np.cbrt((M - W) / C))


class Epoch:
    """Epoch between two losses: the window before the first, and the window over the time since its recovery ended.

    Parameters
    ----------
    trace : Trace
    after : float, s
        Earliest time of the loss.
    """

    def __init__(self, trace: Trace, after: float) -> None:
        window, time, recovering = trace["window"] / PACKET, trace.time, trace["recovering"]
        cuts = np.flatnonzero((window[1:] < 0.95 * window[:-1]) & (time[1:] >= after)) + 1
        if not len(cuts):
            raise NotReached(f"the window is not reduced after the loss at {after:g} s")
        self.cut = int(cuts[0])
        ends = np.flatnonzero((recovering[self.cut :] == 0) & (time[self.cut :] > time[self.cut] + 0.001)) + self.cut
        if not len(ends):
            raise NotReached("the recovery of a loss does not end")
        self.begin = int(ends[0])
        later = cuts[cuts > self.begin]
        self.end = int(later[0]) if len(later) else len(time)
        self.before, self.first = float(window[self.cut - 1]), float(window[self.begin])
        self.t, self.window = time[self.begin : self.end] - time[self.begin], window[self.begin : self.end]
        self.at = float(time[self.begin])

    def crosses(self, level: float) -> float:
        """Return the time at which the window first reaches a level [s since the recovery]; inf if it never does.

        Parameters
        ----------
        level : float, packets
        """
        above = np.flatnonzero(self.window >= level)
        return float(self.t[above[0]]) if len(above) else inf

    def deviation(self, M: float, until: float) -> float:
        """Return the maximum deviation from the cubic with its plateau at M, relative to M.

        Parameters
        ----------
        M : float, packets
        until : float, s
        """
        inside = self.t <= until
        law = cubic(self.t[inside], K_of(M, self.first), M)
        return float(np.abs(self.window[inside] - law).max() / M)


def _draw(
    lab: Laboratory,
    trace: Trace,
    title: str,
    caption: str,
    marks: list[float],
    specified: NDArray[np.float64] | None = None,
) -> None:
    lab.draw(trace, title, caption, volumes=("window",), rates=(), marks=marks, specified=specified)


@case("cubic-window", *NEEDS, cost=3)
def window(lab: Laboratory) -> str:
    loss, length = 0.55, 0.1
    one_loss = LossesBetween(begin=loss, end=loss + length, every=1, max_losses=1)
    trace = lab.run(path(200e6, 0.1), 20.0, links={0: one_loss}, sample=0.005)
    epoch = Epoch(trace, loss)
    K = K_of(epoch.before, BETA * epoch.before)
    lab.expect(
        "window after the loss over window before", epoch.first / epoch.before, near=BETA, band=BAND, note="sec. 4.6"
    )
    lab.expect(
        "time until the window exceeds W_max by an eighth of the cut",
        epoch.crosses(epoch.before + (epoch.before - epoch.first) / 8.0),
        near=1.5 * K,
        band=0.04,
        unit="s",
        note="1.5 K of sec. 4.2; the curve is steep again",
    )
    until = min(1.8 * K, float(epoch.t[-1]))
    lab.expect(
        "maximum deviation from W_cubic(t) over W_max",
        epoch.deviation(epoch.before, until),
        at_most=BAND,
        note=f"from 0 to {until:.1f} s",
    )
    specified = np.full(len(trace.time), np.nan)
    specified[epoch.begin : epoch.end] = PACKET * cubic(epoch.t, K_of(epoch.before, epoch.first), epoch.before)
    _draw(
        lab,
        trace,
        "Window after one loss",
        f"W_max = {epoch.before:.0f} packets. Dotted lines: the end of the recovery, and K later.",
        [epoch.at, epoch.at + K],
        specified,
    )
    return f"After a loss at {epoch.before:.0f} packets the window follows the cubic with K = {K:.1f} s"


@case("cubic-fast-convergence", *NEEDS, cost=3)
def fast_convergence(lab: Laboratory) -> str:
    loss, again, length = 0.55, 4.0, 0.1
    links = {0: LossesBetween(begin=loss, end=loss + length, again=again, until=again + length, every=1, max_losses=1)}
    trace = lab.run(path(200e6, 0.1), 20.0, links=links, sample=0.005)
    first, second = Epoch(trace, loss), Epoch(trace, again)
    reduced = 0.5 * (1.0 + BETA) * second.before
    lab.expect(
        "window at the second loss over that at the first",
        second.before / first.before,
        at_most=0.99,
        note="below the last maximum",
    )
    until = min(1.6 * K_of(reduced, BETA * second.before), float(second.t[-1]))
    lab.expect(
        "maximum deviation from the cubic with W_max = W (1 + beta)/2 over W_max",
        second.deviation(reduced, until),
        at_most=BAND,
        note="sec. 4.7",
    )
    lab.expect(
        "maximum deviation from the cubic with W_max = W", second.deviation(second.before, until), at_least=2.0 * BAND
    )
    _draw(
        lab,
        trace,
        "A loss below the last maximum",
        f"The plateau of the second cubic is at {reduced:.0f} packets, not at {second.before:.0f}.",
        [first.at, second.at],
    )
    return f"After a loss at {second.before:.0f} packets, below {first.before:.0f}, the next maximum is {reduced:.0f}"


@case("cubic-reno", *NEEDS, cost=2)
def friendly(lab: Laboratory) -> str:
    loss, length = 0.06, 0.01
    trace = lab.run(
        path(400e6, 0.01), 3.0, links={0: LossesBetween(begin=loss, end=loss + length, every=1, max_losses=1)}
    )
    epoch = Epoch(trace, loss)
    rtts = np.where(trace["srtt"] > 0.0, trace["srtt"], np.inf)
    rounds = np.cumsum(np.gradient(trace.time) / rtts)[epoch.begin : epoch.end]
    back = int(np.searchsorted(epoch.window, epoch.before))
    if back >= len(epoch.window) - 10:
        raise NotReached(f"the window is not back at {epoch.before:.0f} packets within {epoch.t[-1]:.1f} s")
    slow = (epoch.window[back] - epoch.first) / (rounds[back] - rounds[0])
    lab.expect("packets per RTT up to the window of the loss", float(slow), near=RENO, band=0.06, note="sec. 4.3")
    law = cubic(epoch.t, K_of(epoch.before, epoch.first), epoch.before)
    free = np.flatnonzero(law > epoch.window)
    stop = int(free[free > back][0]) if (free > back).any() else len(law) - 1
    half = (back + stop) // 2
    fast = (epoch.window[stop] - epoch.window[half]) / (rounds[stop] - rounds[half])
    lab.expect("packets per RTT beyond the window of the loss", float(fast), near=1.0, band=0.06)
    lab.expect(
        "minimum window over the cubic until then",
        float((epoch.window[: back + 1] / law[: back + 1]).min()),
        at_least=0.98,
    )
    _draw(
        lab,
        trace,
        "Reno-friendly region",
        "400 Mb/s, RTT 10 ms: the cubic would be slower than Reno.",
        [epoch.at, epoch.at + float(epoch.t[back])],
    )
    return (
        f"Over a short path the window grows by {slow:.2f} packets per RTT, and by {fast:.2f} beyond its last maximum"
    )


@case("cubic-growth", *NEEDS, cost=2)
def growth(lab: Laboratory) -> str:
    loss, rtt = 0.5, 1.0
    one_loss = LossesBetween(begin=loss, end=loss + 1.0, every=5, max_losses=1)
    trace = lab.run(path(200e6, rtt, **each_acknowledged(lab)), 16.0, links={0: one_loss}, sample=0.005)
    epoch = Epoch(trace, loss)
    lag = int(np.searchsorted(epoch.t, rtt))
    ratio = epoch.window[lag:] / epoch.window[:-lag]
    K = K_of(epoch.before, epoch.first)
    law = cubic(epoch.t, K, epoch.before)
    unbounded = float((law[lag:] / np.maximum(law[:-lag], 1.0)).max())
    lab.expect("maximum growth of the cubic per RTT", unbounded, at_least=1.6, note="so the bound matters")
    lab.expect(
        "maximum growth of the window per RTT",
        float(ratio.max()),
        at_least=1.4,
        at_most=1.56,
        note="sec. 4.2: the target is at most 1.5 cwnd",
    )
    _draw(
        lab, trace, "Growth over a long path", "RTT 1 s: the cubic alone would more than double the window.", [epoch.at]
    )
    return f"The window grows up to {ratio.max():.2f}-fold per RTT; the cubic alone would grow {unbounded:.2f}-fold"


@case("cubic-mean", *NEEDS, cost=5)
def mean(lab: Laboratory) -> str:
    rtt, values, laws = 0.1, [], []
    ps = (1e-3, 1e-4)
    for p in ps:
        duration = 60.0 if p > 5e-4 else 160.0
        links = {0: LossesBetween(begin=0.0, end=duration, every=1.0 / p)}
        trace = lab.run(path(400e6, rtt), duration, links=links, sample=0.02)
        values.append(trace.mean(trace["window"], 0.25 * duration) / PACKET)
        cubic_law = (C * (3.0 + BETA) / (4.0 * (1.0 - BETA))) ** 0.25 * (rtt / p) ** 0.75
        reno_law = float(np.sqrt(1.5 / p))
        laws.append(max(float(cubic_law), reno_law))
        lab.expect(
            f"mean window at a loss of {p:g}",
            values[-1],
            near=laws[-1],
            band=0.2,
            unit="packets",
            note="sec. 5.1, or Reno's law if it is larger; fast convergence lowers it",
        )
    _draw(lab, trace, "Windows under periodic losses", f"One packet in {1.0 / ps[-1]:.0f} is lost.", [])
    return f"Mean windows of {values[0]:.0f} and {values[1]:.0f} packets; the law gives {laws[0]:.0f} and {laws[1]:.0f}"


@case("cubic-timeout", *NEEDS, "without transport quic", cost=2)
def timeout(lab: Laboratory) -> str:
    loss, outage = 2.0, 1.0
    network = Network.dumbbell(100e6, rtts=[0.1], packet_size=PACKET, buffer="1 MB")
    links = {0: LossesBetween(begin=loss, end=loss + outage, every=1)}
    trace = lab.run(network, 12.0, links=links, sample=0.005)
    window, time = trace["window"] / PACKET, trace.time
    low = np.flatnonzero((time > loss) & (window <= 1.5))
    if not len(low):
        raise NotReached("no timeout after an outage of 1 s")
    before = float(window[trace.at(loss)])
    lab.expect("minimum window", float(window[low].min()), near=1.0, within=0.01, unit="packets", note="sec. 4.8")
    after = int(low[-1])
    slow = window[after:]
    knee = np.flatnonzero((slow[20:] - slow[:-20] < 0.2 * slow[:-20]) & (slow[:-20] > 0.3 * before))
    if not len(knee):
        raise NotReached("slow start does not end after the timeout")
    threshold = float(slow[knee[0] + 20])  # one RTT later
    lab.expect(
        "window at the end of slow start over that before",
        threshold / before,
        near=BETA,
        band=0.05,
        note="ssthresh is beta times the flight size, sec. 4.8",
    )
    _draw(lab, trace, "After an outage of 1 s", "All packets from 2 to 3 s are lost.", [loss, loss + outage])
    return f"After a timeout slow start grows the window from one packet to {threshold:.0f}; it was {before:.0f} before"


@case("cubic-spurious-loss", *NEEDS, "transport rack", cost=3)
def spurious_loss(lab: Laboratory) -> str:
    rtt = 0.05
    trace = lab.run(
        path(20e6, rtt), 6.0, impairments=[Jitter((0.0, 0.4 * rtt), link=0, in_order=False)], transport="rack"
    )
    window, time = trace["window"] / PACKET, trace.time
    cuts = np.flatnonzero((window[1:] < 0.95 * window[:-1]) & (time[1:] > rtt)) + 1
    lab.expect("packets dropped", float(trace.drops.sum()), at_most=0, note="so all detected losses are spurious")
    lab.expect("window reductions", len(cuts), at_least=1)
    back = [float(window[trace.at(float(time[k]) + 2.0 * rtt)] / window[k - 1]) for k in cuts if time[k] < 5.0]
    if back:
        lab.expect(
            "minimum window two RTTs after a reduction over window before", min(back), at_least=1.0, note="sec. 4.9.2"
        )
    _draw(lab, trace, "Packets overtake each other", "Each takes up to 0.4 RTTs longer; none is lost.", [])
    return f"{len(cuts)} reductions for spurious losses are undone within two RTTs"


@case("cubic-spurious-timeout", *NEEDS, "transport rack", cost=2)
def spurious_timeout(lab: Laboratory) -> str:
    begin, outage, capacity, rtt = 4.0, 2.5, 50e6, 0.1
    links = {0: LossesBetween(begin=0.35, end=0.45, every=1, max_losses=1)}
    gap = [CapacitySchedule(0, [begin, begin + outage], [0.0, capacity])]
    trace = lab.run(path(capacity, rtt), 10.0, links=links, impairments=gap, transport="rack", sample=0.005)
    window, time = trace["window"] / PACKET, trace.time
    inside = (time > begin) & (time < begin + outage)
    lab.expect(
        "minimum window in the outage",
        float(window[inside].min()),
        near=1.0,
        within=0.01,
        unit="packets",
        note="the timer has expired, and nothing was lost",
    )
    before, after = window[trace.at(begin - 0.01)], window[trace.at(begin + outage + 3.0 * rtt)]
    lab.expect(
        "window three RTTs after the outage over window before",
        float(after / before),
        at_least=0.95,
        note="sec. 4.9.1, RFC 4015",
    )
    _draw(
        lab,
        trace,
        "A spurious timeout",
        f"The link stops for {outage:g} s, between the lines.",
        [begin, begin + outage],
    )
    return (
        f"After an outage of {outage:g} s and a timeout the window is {after:.0f} packets; it was {before:.0f} before"
    )


@case("cubic-application", *NEEDS, "without transport quic", cost=3)
def application(lab: Laboratory) -> str:
    # The pause is below the minimum RTO of 1 s (RFC 6298), as a longer idle period restarts the window (RFC 5681 sec.
    # 4.1). It begins 5 s after the last maximum; a clock that kept running would be 10 % ahead after such a pause.
    loss, length, capacity, rtt, pause, ends = 0.55, 0.1, 200e6, 0.1, 0.8, 11.0
    links = {0: LossesBetween(begin=loss, end=loss + length, every=1, max_losses=1)}
    plain = lab.run(path(capacity, rtt), ends + 1.0, links=links, sample=0.005)
    epoch = Epoch(plain, loss)
    written = round(plain.mean(plain.goodput, 0.0, ends) * ends / 8.0)
    network = path(capacity, rtt)
    network = network.with_flows([replace(network.flows[0], writes=(written, ends + pause))])
    trace = lab.run(network, ends + pause + 4.0, links=links, sample=0.005)
    again = trace.at(ends + pause + 1.5 * rtt)
    window, K = trace["window"] / PACKET, K_of(epoch.before, epoch.first)
    held = float(window[again - 1] / window[trace.at(ends + 2.0 * rtt)])
    lab.expect("window at the restart over window at the pause", held, near=1.0, band=0.1)
    reached = K + float(np.cbrt((window[again] - epoch.before) / C))
    for seconds in (0.5, 2.0):
        law = float(cubic(np.array([reached + seconds]), K, epoch.before)[0])
        later_window = float(window[trace.at(float(trace.time[again]) + seconds)])
        lab.expect(
            f"window {seconds:g} s later, over that of the paused cubic",
            later_window / law,
            near=1.0,
            band=0.05,
            note="sec. 5.8",
        )
    _draw(lab, trace, "An application that pauses", f"It has no data for about {pause:g} s.", [ends, ends + pause])
    return f"After a pause of {pause:g} s the window continues on its cubic"
