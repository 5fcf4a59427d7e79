"""Cases on the IETF's criteria for new congestion controllers (RFC 9743), for any window-based protocol.

RFC 9743 has no numbers; the limits in this module are ours, and each measurement states its limit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecc.claims.checks.conformance.laboratory import PACKET, Laboratory, Trace, case
from ecc.claims.checks.conformance.paths import CAPACITY, RTT, LossesBetween, bdp, path
from ecc.contract.protocol import Protocol
from ecc.models import BBR, CUBIC, ConstantRate, NewReno
from ecc.network.impairments import CapacitySchedule
from ecc.network.network import Flow, Network
from ecc.results.metrics import jain_index

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


@case("rfc9743-collapse", "windows", cost=0.3)
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


@case("rfc9743-bufferbloat", "windows", cost=0.1)
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


@case("rfc9743-loss", "windows", cost=0.1)
def loss(lab: Laboratory) -> str:
    trace = lab.run(path(buffer=0.5, flows=4), 40.0, sample=0.01)
    lost = lost_share(trace, 10.0)
    lab.expect("share of packets that four flows lose, 10 to 40 s", lost, at_most=0.05, note="buffer of half a BDP")
    lab.draw(trace, "A shallow buffer", "The first of four flows.", volumes=("window",), rates=())
    return f"Four flows in a buffer of half a bandwidth-delay product lose {lost:.1%}"


@case("rfc9743-fairness", "windows", cost=0.2)
def fairness(lab: Laboratory) -> str:
    trace = lab.run(path(buffer=1.0, flows=4), 60.0, sample=0.02)
    rates = goodputs(trace, 20.0)
    jain = float(jain_index(rates))
    lab.expect("Jain's index of four flows, 20 to 60 s", jain, at_least=0.9)
    lab.expect("goodput of the four flows over the capacity", float(rates.sum()) / CAPACITY, at_least=0.9)
    lab.draw(trace, "Four flows", "The first of the four flows.", volumes=("window",), rates=())
    return f"Jain's index of four flows with one RTT is {jain:.3f}"


@case("rfc9743-rtt", "windows", cost=0.1)
def unequal_rtts(lab: Laboratory) -> str:
    network = Network.dumbbell(CAPACITY, rtts=[0.02, 0.1], buffer=int(bdp()), packet_size=PACKET)
    trace = lab.run(network, 60.0, sample=0.02)
    near, far = goodputs(trace, 20.0)
    share = float(far / (near + far))
    lab.expect("share of the flow with five times the RTT", share, at_least=0.05, note="a tenth of the fair half")
    lab.draw(trace, "Unequal RTTs", "The flow of 20 ms; the other one has 100 ms.", volumes=("window",), rates=())
    return f"Of two flows, that with five times the RTT has {share:.0%} of the goodput"


SHORT, EVERY, FIRST, LAST = 60_000, 1.0, 10.0, 40.0
"""Size of short flows [bytes], time between their starts, and the times of the first start and the end [s]."""


def short_flows(lab: Laboratory, short: Protocol) -> tuple[Trace, float, float]:
    """Return a run of a long flow of the controller beside short flows, and results of both.

    Parameters
    ----------
    lab : Laboratory
    short : Protocol
        Protocol of the short flows.

    Returns
    -------
    tuple of (Trace, float, float)
        Run, median completion time [s], and goodput of the long flow over the capacity. A flow that does not end
        counts as completed at the end of the run.
    """
    starts = np.arange(FIRST, LAST - 5.0 * EVERY, EVERY)
    number = 1 + len(starts)
    network = Network.dumbbell(
        CAPACITY,
        rtts=[RTT] * number,
        buffer=int(bdp()),
        starts=[0.0, *starts],
        sizes=[None, *[SHORT] * len(starts)],
        packet_size=PACKET,
    )
    trace = lab.run(network, LAST, others=dict.fromkeys(range(1, number), short), sample=0.01)
    times = np.asarray(trace.run.flows["completion_time"], dtype=float)[1:]
    median = float(np.median(np.where(np.isnan(times), LAST - starts, times)))
    return trace, median, float(goodputs(trace, FIRST)[0]) / CAPACITY


@case("rfc9743-short", "windows", cost=0.2)
def beside_short_flows(lab: Laboratory) -> str:
    trace, median, share = short_flows(lab, lab.protocol)
    lab.expect("median completion time of 60 kB", median, at_most=1.0, unit="s", note="20 RTTs of the empty path")
    lab.expect("goodput of the long flow over the capacity", share, at_least=0.7, note="short flows take 2.4 %")
    lab.draw(
        trace, "Short flows", "A long flow; one of 60 kB begins each second from 10 s on.", rates=(), marks=[FIRST]
    )
    return f"Beside a long flow 60 kB take {median:.2f} s (median), and the long flow uses {share:.0%} of the capacity"


@case("rfc9743-short-cubic", "windows", cost=0.4)
def beside_short_cubic(lab: Laboratory) -> str:
    trace, median, _ = short_flows(lab, CUBIC(transport="sack"))
    _, usual, _ = short_flows(Laboratory(CUBIC(transport="sack")), CUBIC(transport="sack"))
    lab.expect(
        "median completion time of CUBIC flows of 60 kB over that beside a long CUBIC flow", median / usual, at_most=2.0
    )
    lab.draw(trace, "Short flows of CUBIC", "A long flow; CUBIC flows begin from 10 s on.", rates=(), marks=[FIRST])
    return f"Short CUBIC flows take {median / usual:.2f} of the time that they take beside a long CUBIC flow"


@case("rfc9743-realtime", "windows", cost=0.2)
def beside_a_call(lab: Laboratory) -> str:
    call = 1e6
    network = Network(
        path(buffer=2.0).links,
        [Flow([0], access_delay=0.0, packet_size=PACKET), Flow([0], packet_size=250)],
    )
    trace = lab.run(network, 40.0, others={1: ConstantRate(call)}, sample=0.01)
    usual = Laboratory(CUBIC(transport="sack")).run(network, 40.0, others={1: ConstantRate(call)}, sample=0.01)
    delays, losses = [], []
    for run in (trace, usual):
        queue = run.run.data["queue"].to_numpy()[run.time > 10.0, 0]
        delays.append(8e3 * float(np.quantile(queue, 0.95)) / CAPACITY)
        losses.append(max(0.0, 1.0 - float(goodputs(run, 10.0)[1]) / call))
    lab.expect("95th percentile of the queueing delay over that beside CUBIC", delays[0] / delays[1], at_most=1.1)
    lab.expect(
        "share of the call's packets that are lost", losses[0], at_most=max(0.01, losses[1]), note="or as beside CUBIC"
    )
    lab.draw(
        trace, "A call of 1 Mb/s", "The examined flow, in a buffer of two products.", volumes=("window",), rates=()
    )
    return (
        f"A call waits {delays[0]:.0f} ms (95th percentile; beside CUBIC {delays[1]:.0f} ms) and loses {losses[0]:.2%}"
    )


def competition(lab: Laboratory, rival: Protocol, name: str) -> str:
    """Measure what a flow of the controller leaves to a rival, relative to what another rival leaves to it.

    Parameters
    ----------
    lab : Laboratory
    rival : Protocol
    name : str
        Name of the rival.
    """
    results = []
    for buffer in SHARES:
        both = path(buffer=buffer, flows=2)
        trace = lab.run(both, 60.0, others={1: rival}, sample=0.02)
        alike = Laboratory(rival).run(both, 60.0, sample=0.02)
        goodput, usual = float(goodputs(trace, 20.0)[1]), float(goodputs(alike, 20.0).mean())
        lab.expect(
            f"{name}'s goodput against it over that against {name}, buffer of {buffer:g} BDP",
            goodput / usual,
            at_least=0.5,
            note="at most half is lost",
        )
        results.append(f"{goodput / usual:.2f} in a buffer of {buffer:g} BDP")
    lab.draw(
        trace,
        f"Competition with {name}",
        f"The examined flow, in a buffer of {SHARES[-1]:g} bandwidth-delay products.",
        volumes=("window",),
        rates=(),
    )
    return f"{name}'s goodput relative to competition with itself is {' and '.join(results)}"


@case("rfc9743-cubic", "windows", cost=0.3)
def beside_cubic(lab: Laboratory) -> str:
    return competition(lab, CUBIC(transport="sack"), "CUBIC")


@case("rfc9743-reno", "windows", cost=0.3)
def beside_reno(lab: Laboratory) -> str:
    return competition(lab, NewReno(transport="sack"), "Reno")


@case("rfc9743-bbr", "windows", cost=0.6)
def beside_bbr(lab: Laboratory) -> str:
    return competition(lab, BBR(), "BBR")


@case("rfc9743-change", "windows", cost=0.1)
def change(lab: Laboratory) -> str:
    steps = [CapacitySchedule(0, [10.0, 25.0], [0.25 * CAPACITY, CAPACITY])]
    trace = lab.run(path(buffer=1.0), 45.0, impairments=steps, sample=0.01)
    low = trace.mean(trace.goodput, 15.0, 25.0) / (0.25 * CAPACITY)
    high = trace.mean(trace.goodput, 35.0) / CAPACITY
    lab.expect("goodput 5 to 15 s after a decrease to a quarter, over the capacity", low, at_least=0.85)
    lab.expect("goodput 10 to 20 s after the return, over the capacity", high, at_least=0.85)
    lab.draw(trace, "A capacity that changes", "From 20 to 5 Mb/s and back, at the lines.", marks=[10.0, 25.0])
    return f"It uses {low:.0%} of the capacity at a quarter of it, and {high:.0%} after the return to full capacity"
