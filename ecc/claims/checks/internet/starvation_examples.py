"""Checks of claims on starvation: two flows, one with an additional delay, and two flows with different RTTs.

Packets of the first flow pass a second link. Unresponsive traffic keeps its queue at a constant level, which delays
each packet by D. The traffic pauses briefly from time to time, and a few packets pass without delay. From these the
flow estimates its RTT without queueing, and mistakes D for a queue. With rates s/(delta d) for a queueing delay d,

    1/u + 1/(u + v) = 1      u = d C delta/s, v = D C delta/s: delays in units of the queue of a single flow

and the other flow has (u + v)/u times its rate, which is 1 for v = 0 and approaches 1 + v for large v.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc import packet
from ecc.claims.ledger import Claim, Finding, Measurement, Verdict, check
from ecc.contract.env import Hook, Params
from ecc.models import BBR, FAST, BBRv1, ConstantRate, Copa, Protocol, Vegas, Vivace
from ecc.network.impairments import Aggregation, Jitter
from ecc.network.network import Flow, Link, Network
from ecc.queues.discipline import QueueDiscipline
from ecc.scenario import Scenario

PACKET = 1500
BITS = 8.0 * PACKET
BAND = 0.3
DURATION, SKIPPED = 40.0, 100  # s, samples of 0.1 s
BEGINS, EVERY, PAUSE = 0.5, 5.0, 0.005  # s, traffic that fills the second link


@dataclass(frozen=True)
class Level(QueueDiscipline):
    """Drops packets of all flows except the first two if the queue would exceed `level` bytes."""

    level: float = 0.0

    def link_hooks(self) -> dict[str, Hook]:
        return {"on_arrival": keep_level}

    def params(self) -> dict[str, float]:
        return {"level": self.level, **super().params()}


def keep_level(link: Any, header: Any, p: Params, env: Any) -> None:
    """Drop a packet of the filling traffic that would exceed the level."""
    if env.flow > 1 and env.queue + env.packet_size > p.level:
        env.drop = 1


@lru_cache
def rates(host: Protocol, capacity: float, rtt: float, wait: float, alone: bool = False) -> tuple[float, float, float]:
    """Return the goodput of two flows [bit/s] and the mean additional delay of the first flow [s].

    Parameters
    ----------
    host : Protocol
    capacity : float, bit/s
        Capacity of the shared link.
    rtt, wait : float, s
        RTT and additional delay.
    alone : bool
        If true, the second flow does not start.
    """
    side = 4.0 * capacity
    flows = [
        Flow([0, 1], access_delay=rtt / 2.0, packet_size=PACKET),
        Flow([0], access_delay=rtt / 2.0, packet_size=PACKET, start=2.0 * DURATION if alone else 0.0),
    ]
    edges = [BEGINS, *np.arange(EVERY, DURATION, EVERY)]
    if wait > 0.0:
        flows += [Flow([1], packet_size=PACKET, start=t, stop=EVERY * (t // EVERY + 1.0) - PAUSE) for t in edges]
    network = Network([Link(capacity, 0.0), Link(side, 0.0)], flows)
    hosts: dict[str, Any] = {"flows": {"0-1": host}}
    if wait > 0.0:
        hosts = {"flows": {"0-1": host, "default": ConstantRate(side)}, "links": {1: Level(level=wait * side / 8.0)}}
    run = packet.simulate(Scenario(network, hosts, DURATION), sample=0.1)
    first, second = run.goodput[SKIPPED:, :2].mean("time").to_numpy()
    return float(first), float(second), 8.0 * float(run.queue[SKIPPED:, 1].mean()) / side


def stated_ratio(single: float, wait: float) -> float:
    """Return the ratio of rates for an additional delay and the queueing delay of a single flow [s]."""
    v = wait / single
    u = 0.5 * (2.0 - v + sqrt(v * v + 4.0))
    return 1.0 + v / u


@check("starvation-bias", cost=6, main=False)
def starvation_bias(claim: Claim) -> Finding:
    """Run three hosts with a constant queue per flow, and BBR, with delays on both sides of twice the range."""
    capacity, rtt = 24e6, 0.04
    unit = BITS / capacity
    # host, queue per flow [packets], and range of delays without other flows [s]
    hosts: dict[str, tuple[Protocol, float, float]] = {
        "FAST": (FAST(alpha=10.0), 10.0, unit),
        "Vegas": (Vegas(alpha=3.0, beta=3.0), 3.0, 3.0 * unit),
        "Copa": (Copa(min_rtt_window=1e3), 2.0, 4.0 * unit),
    }
    measured, off, ratios = [], [], []
    for name, (host, packets, delta) in hosts.items():
        for share in (0.25, 1.0, 4.0, 16.0):
            first, second, waited = rates(host, capacity, rtt, 2.0 * share * delta)
            stated = stated_ratio(packets * unit, waited)
            ratios.append(second / first)
            off.append(abs(ratios[-1] / stated - 1.0))
            measured.append(
                Measurement(
                    f"{name}: ratio of rates, D = {share:g} (2 delta) = {2e3 * share * delta:.3g} ms",
                    ratios[-1],
                    reported=stated,
                    met=off[-1] < BAND,
                )
            )
    of_bbr = []
    for wait in (0.25 * rtt, 0.5 * rtt):
        first, second, _ = rates(BBRv1(), capacity, rtt, wait)
        of_bbr.append(second / first)
        measured.append(
            Measurement(
                f"BBRv1: ratio of rates, D = {wait / rtt:g} RTT", of_bbr[-1], reported=1.0, met=0.5 < of_bbr[-1] < 2.0
            )
        )
    moves = [ratio for ratio in of_bbr if not 0.5 < ratio < 2.0]
    verdict = Verdict.REFUTED if max(off) > 2.0 * BAND else Verdict.CONDITIONAL if max(off) > BAND or moves else None
    return Finding(
        claim,
        verdict or Verdict.CONFIRMED,
        f"Ratios of {min(ratios):.1f} to {max(ratios):.0f} are within {max(off):.0%} of the formula. They depend on D "
        "relative to the queueing delay of a single flow: FAST, with 10 packets in its queue, is hardly affected by "
        f"twice its range. With BBR the other flow has {min(of_bbr):.2f} to {max(of_bbr):.2f} times the rate of the "
        "delayed flow.",
        measured,
        (),
        [
            f"24 Mb/s, RTT 40 ms, 1500-byte packets, no loss; all packets of a flow are delayed except some every "
            f"{EVERY:g} s; 10 to {DURATION:g} s. Copa's minimum RTT does not expire."
        ],
    )


@check("starvation-copa", cost=1)
def starvation_copa(claim: Claim) -> Finding:
    """Run two flows, one of them delayed, and one delayed flow alone."""
    capacity, rtt, wait = 120e6, 0.059, 1e-3
    host = Copa(min_rtt_window=1e3)
    fair = rates(host, capacity, rtt, 0.0)
    first, second, waited = rates(host, capacity, rtt, wait)
    single = rates(host, capacity, rtt, wait, alone=True)[0]
    forgets = rates(Copa(), capacity, rtt, wait)
    stated = stated_ratio(2.0 * BITS / capacity, waited)
    measured = [
        Measurement("rate of the delayed flow", 1e-6 * first, "Mb/s", met=first < second / 3.0),
        Measurement("rate of the other flow", 1e-6 * second, "Mb/s", met=first < second / 3.0),
        Measurement("ratio", second / first, note=f"{stated:.2f} by rates of s/(delta d)"),
        Measurement("ratio with a minimum RTT over 10 s", forgets[1] / forgets[0]),
        Measurement("ratio without delays", fair[1] / fair[0], reported=1.0, met=0.8 < fair[1] / fair[0] < 1.25),
        Measurement(
            "rate of a delayed flow alone",
            1e-6 * single,
            "Mb/s",
            note=f"{1e-6 * 2.0 * BITS / waited:.1f} by s/(delta D), of 120",
        ),
    ]
    starves = first < second / 3.0 and 0.8 < fair[1] / fair[0] < 1.25
    return Finding(
        claim,
        Verdict.CONFIRMED if starves else Verdict.REFUTED,
        f"The delayed flow has {1e-6 * first:.1f} Mb/s and the other flow {1e-6 * second:.1f} Mb/s, a ratio of "
        f"{second / first:.1f}; rates of s/(delta d) predict {stated:.1f}. Alone it has {1e-6 * single:.0f} of 120 "
        "Mb/s.",
        measured,
        (),
        [
            f"RTTs of 59 ms, for the first flow 60 ms except some packets every {EVERY:g} s; 1500-byte packets, "
            "no loss; "
            "10 to 40 s."
        ],
    )


def by_rtt(host: Protocol, jitter: float) -> NDArray[np.float64]:
    """Return the goodput of flows of 40 and 80 ms at 120 Mb/s, mean of two seeds [bit/s]."""
    network = Network.dumbbell(120e6, [0.04, 0.08], packet_size=PACKET)
    elements = [Jitter((0.0, jitter), acks_of=[0, 1])] if jitter > 0.0 else []
    return goodputs(Scenario(network, host, DURATION, impairments=elements))


def goodputs(scenario: Scenario) -> NDArray[np.float64]:
    """Return the goodput of each flow after the first samples, mean of two seeds [bit/s]."""
    runs = packet.ensemble(scenario, seeds=[1, 2], series=["goodput"], sample=0.1)
    means: NDArray[np.float64] = runs.goodput[:, SKIPPED:].mean("time").mean("seed").to_numpy()
    return means


@check("starvation-bbr", cost=3)
def starvation_bbr(claim: Claim) -> Finding:
    """Run two flows of versions 1 and 3 with different RTTs, for several jitters of ACKs."""
    measured, ratios = [], []
    for host, jitter in ((BBRv1(), 0.0), (BBRv1(), 0.001), (BBRv1(), 0.01), (BBR(), 0.001)):
        name = type(host).__name__
        short, long = by_rtt(host, jitter)
        ratios.append(float(long / short))
        measured.append(
            Measurement(
                f"{name}, jitter of up to {1e3 * jitter:g} ms: rates at 40 and 80 ms",
                f"{1e-6 * short:.1f} and {1e-6 * long:.1f}",
                "Mb/s",
                met=ratios[-1] > 5.0,
                note=f"ratio {ratios[-1]:.1f}",
            )
        )
    starve, (*first, third) = [ratio > 5.0 for ratio in ratios], ratios
    return Finding(
        claim,
        Verdict.CONFIRMED if all(starve) else Verdict.CONDITIONAL if any(starve) else Verdict.REFUTED,
        f"With BBRv1 the flow at 80 ms has {min(first):.1f} to {max(first):.1f} times the rate of the other, with and "
        "without jitter: both flows overestimate their bandwidth, and windows of twice the estimate times their RTT "
        f"limit them. With version 3 the ratio is {third:.1f}.",
        measured,
        (),
        ["120 Mb/s, 1500-byte packets, no loss, ACKs delayed at random in order; 10 to 40 s, mean of two seeds."],
    )


@check("starvation-vivace", cost=3, main=False)
def starvation_vivace(claim: Claim) -> Finding:
    """Run two flows of both forms with and without bursts of ACKs."""
    network = Network.dumbbell(120e6, [0.06, 0.06], packet_size=PACKET)
    measured, ratios = [], {}
    for form in ("paper", "pcc-uspace"):
        for wait in (0.0, 0.03, 0.06):
            bursts = [Aggregation((wait, wait), acks_of=[0])] if wait > 0.0 else []
            goodput = goodputs(Scenario(network, Vivace(form=form), DURATION, impairments=bursts))
            ratio = ratios[form, wait] = float(goodput[1] / goodput[0])
            measured.append(
                Measurement(
                    f"form {form}, ACKs {1e3 * wait:g} ms apart: rates",
                    f"{1e-6 * goodput[0]:.1f} and {1e-6 * goodput[1]:.1f}",
                    "Mb/s",
                    met=ratio > 5.0 if wait > 0.0 else 0.5 < ratio < 2.0,
                    note=f"ratio {ratio:.2g}",
                )
            )
    starves = [ratio > 5.0 for (_, wait), ratio in ratios.items() if wait > 0.0]
    return Finding(
        claim,
        Verdict.CONFIRMED if all(starves) else Verdict.CONDITIONAL if any(starves) else Verdict.REFUTED,
        f'In the form "paper" the other flow has {ratios["paper", 0.06]:.0f} times the rate of the flow with bursts, '
        f"and {ratios['paper', 0.03]:.0f} times if bursts are 30 ms apart. In the program's form the flow with bursts "
        f"has more: the other flow has {ratios['pcc-uspace', 0.06]:.2f} times its rate.",
        measured,
        (),
        ["1500-byte packets, no loss; 10 to 40 s, mean of two seeds."],
    )
