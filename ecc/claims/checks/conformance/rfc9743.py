"""Cases on the IETF's criteria for new congestion controllers (RFC 9743), for any window-based protocol.

RFC 9743 has no numbers; the limits in this module are ours, and each measurement states its limit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecc.claims.checks.conformance.laboratory import PACKET, Laboratory, Trace, case
from ecc.claims.checks.conformance.paths import CAPACITY, RTT, LossesBetween, bdp, path
from ecc.models import CUBIC
from ecc.network.impairments import CapacitySchedule

SHARES = (1.0, 4.0)
"""Buffers of the competition with CUBIC, in bandwidth-delay products."""


def goodputs(trace: Trace, begin: float) -> NDArray[np.float64]:
    """Return the mean goodput of each flow after a time [bit/s].

    Parameters
    ----------
    trace : Trace
    begin : float, s
    """
    late = trace.run.data["goodput"].to_numpy()[trace.time > begin]
    return np.asarray(late.mean(axis=0))


def lost_share(trace: Trace, begin: float) -> float:
    """Return the share of packets that the first link drops after a time.

    Parameters
    ----------
    trace : Trace
    begin : float, s
    """
    late = trace.time > begin
    sent = trace.run.data["arrival"].to_numpy()[late, 0].mean() * (trace.time[-1] - begin) / 8.0 / PACKET
    return float(trace.drops[late].sum() / max(sent, 1.0))


@case("rfc9743-collapse", "windows", cost=3)
def collapse(lab: Laboratory) -> str:
    flows = 20
    trace = lab.run(path(5e6, RTT, buffer=2.0, flows=flows), 40.0, sample=0.01)
    used = float(goodputs(trace, 10.0).sum() / 5e6)
    lab.expect(f"goodput of {flows} flows over the capacity", used, at_least=0.85)
    lost = lost_share(trace, 10.0)
    lab.expect("share of packets that are dropped", lost, at_most=0.25, note="the fair share is 1 packet an RTT")
    begin, outage = 5.0, 6.0
    dead = lab.run(
        path(), begin + outage, links={0: LossesBetween(begin=begin, end=begin + outage, every=1)}, sample=0.01
    )
    late = dead.time > begin + 1.0
    packets = float(dead.run.data["arrival"].to_numpy()[late, 0].mean() * (outage - 1.0) / 8.0 / PACKET)
    lab.expect(
        "packets sent into a dead path, second 1 to 6",
        packets,
        at_most=8.0,
        note="the timer doubles (RFC 6298), starting at 0.2 to 1 s",
    )
    lab.draw(trace, "Many flows over a slow link", "The first of 20 flows over 5 Mb/s.", volumes=("window",), rates=())
    return f"20 flows use {used:.0%} of 5 Mb/s and lose {lost:.1%}; {packets:.0f} packets enter a dead path in 5 s"


@case("rfc9743-bufferbloat", "windows", cost=2)
def bufferbloat(lab: Laboratory) -> str:
    trace = lab.run(path(buffer=10.0), 30.0, sample=0.01)
    queue = trace.run.data["queue"].to_numpy()[trace.time > 10.0, 0]
    standing = float(np.median(queue)) / bdp()
    lab.expect(
        "median queue over the bandwidth-delay product",
        standing,
        at_most=1.0,
        note="buffer of 10; the standing delay must not exceed the path's",
    )
    lab.expect("goodput over the capacity", float(goodputs(trace, 10.0)[0]) / CAPACITY, at_least=0.9)
    lab.draw(trace, "A deep buffer", "Window and bytes in flight; ten bandwidth-delay products are 1.25 MB.", rates=())
    return f"The standing queue is {standing:.2f} bandwidth-delay products in a buffer of ten"


@case("rfc9743-fairness", "windows", cost=4)
def fairness(lab: Laboratory) -> str:
    trace = lab.run(path(buffer=1.0, flows=4), 60.0, sample=0.02)
    rates = goodputs(trace, 20.0)
    jain = float(rates.sum() ** 2 / (len(rates) * (rates**2).sum()))
    lab.expect("Jain's index of four flows, 20 to 60 s", jain, at_least=0.9)
    lab.expect("goodput of the four flows over the capacity", float(rates.sum()) / CAPACITY, at_least=0.9)
    lab.draw(trace, "Four flows", "The first of the four flows.", volumes=("window",), rates=())
    return f"Jain's index of four flows with one RTT is {jain:.3f}"


@case("rfc9743-cubic", "windows", cost=6)
def beside_cubic(lab: Laboratory) -> str:
    results = []
    trace = None
    for buffer in SHARES:
        both = path(buffer=buffer, flows=2)
        trace = lab.run(both, 60.0, others={1: CUBIC(transport="sack")}, sample=0.02)
        alike = Laboratory(CUBIC(transport="sack")).run(both, 60.0, sample=0.02)
        goodput, usual = float(goodputs(trace, 20.0)[1]), float(goodputs(alike, 20.0).mean())
        lab.expect(
            f"CUBIC's goodput against it over that against CUBIC, buffer of {buffer:g} BDP",
            goodput / usual,
            at_least=0.5,
            note="at most half is lost",
        )
        results.append(f"{goodput / usual:.2f} in a buffer of {buffer:g} BDP")
    assert trace is not None
    lab.draw(
        trace,
        "Competition with CUBIC",
        f"The examined flow, in a buffer of {SHARES[-1]:g} bandwidth-delay products.",
        volumes=("window",),
        rates=(),
    )
    return f"CUBIC's goodput relative to competition with itself is {' and '.join(results)}"


@case("rfc9743-change", "windows", cost=2)
def change(lab: Laboratory) -> str:
    steps = [CapacitySchedule(0, [10.0, 25.0], [0.25 * CAPACITY, CAPACITY])]
    trace = lab.run(path(buffer=1.0), 45.0, impairments=steps, sample=0.01)
    low = trace.mean(trace.goodput, 15.0, 25.0) / (0.25 * CAPACITY)
    high = trace.mean(trace.goodput, 35.0) / CAPACITY
    lab.expect("goodput 5 to 15 s after a decrease to a quarter, over the capacity", low, at_least=0.85)
    lab.expect("goodput 10 to 20 s after the return, over the capacity", high, at_least=0.85)
    lab.draw(trace, "A capacity that changes", "From 20 to 5 Mb/s and back, at the lines.", marks=[10.0, 25.0])
    return f"It uses {low:.0%} of the capacity at a quarter of it, and {high:.0%} after the return to full capacity"
