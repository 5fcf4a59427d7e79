"""Checks of claims on Copa: equilibrium, cycle, the RTT of an empty queue, and competition with loss-based flows."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc import packet
from ecc.claims.ledger import Claim, Finding, Measurement, Verdict, check
from ecc.models import CUBIC, Copa, NewReno, Protocol
from ecc.network.network import Network
from ecc.scenario import Scenario

PACKET, CAPACITY = 1500, 48e6
FloatArray = NDArray[np.float64]


class Cycle(NamedTuple):
    """Second half of a run: minimum, mean and maximum queue [1/delta packets per flow], period [RTTs], rates."""

    minimum: float
    mean: float
    maximum: float
    period: float
    rates: FloatArray


@lru_cache
def cycle(flows: int, rtt: float, delta: float, capacity: float = CAPACITY, apart: float = 0.0) -> Cycle:
    """Return the cycle of flows with equal RTTs whose starts are a time apart [s]."""
    starts = [apart * k for k in range(flows)]
    network = Network.dumbbell(capacity, [rtt] * flows, packet_size=PACKET, starts=starts)
    step = rtt / 50.0
    run = packet.simulate(Scenario(network, Copa(delta=delta), 60.0), sample=step)
    half = len(run.queue) // 2
    queue = run.queue[half:, 0].to_numpy() / PACKET
    mean_rtt = rtt + 8.0 * PACKET * float(queue.mean()) / capacity
    rises = crossings(queue) * step / mean_rtt
    period = float(np.diff(rises).mean()) if len(rises) > 1 else np.inf
    unit = flows / delta
    low, mean, high = (float(value) / unit for value in (queue.min(), queue.mean(), queue.max()))
    return Cycle(low, mean, high, period, run.goodput[half:].mean("time").to_numpy())


def crossings(series: FloatArray) -> FloatArray:
    """Return the indices at which a series rises through the middle of its swing, with a hysteresis of 30 %.

    Parameters
    ----------
    series : ndarray
    """
    low, high = (float(np.percentile(series, share)) for share in (5.0, 95.0))
    middle, width = 0.5 * (low + high), 0.15 * (high - low)
    rises, above = [], bool(series[0] > middle)
    for index, value in enumerate(series):
        if above and value < middle - width:
            above = False
        elif not above and value > middle + width:
            above = True
            rises.append(index)
    return np.array(rises, dtype=float)


@check("copa-equilibrium", cost=1)
def copa_equilibrium(claim: Claim) -> Finding:
    """Run flows with several values of delta, and with several RTTs."""
    measured, off = [], []
    for deltas, rtts in (
        ((0.5, 0.25, 0.1), (0.05, 0.05, 0.05)),
        ((0.5, 0.5, 0.5), (0.02, 0.05, 0.1)),
        ((0.5, 0.25, 0.1), (0.02, 0.05, 0.1)),
    ):
        network = Network.dumbbell(CAPACITY, list(rtts), packet_size=PACKET)
        hosts: dict[str | int, Protocol] = {k: Copa(delta=delta) for k, delta in enumerate(deltas)}
        run = packet.simulate(Scenario(network, {"flows": hosts}, 120.0), sample=0.1)
        late = run.goodput[200:].mean("time").to_numpy()
        wait = float(run.queue[200:, 0].mean()) * 8.0 / CAPACITY
        weights = 1.0 / np.array(deltas)
        stated = CAPACITY * weights / weights.sum()
        off.append(float(np.abs(late / stated - 1.0).max()))
        name = ", ".join(f"{delta:g} and {1e3 * rtt:g} ms" for delta, rtt in zip(deltas, rtts, strict=True))
        measured.append(
            Measurement(
                f"rates for delta and RTT of {name}",
                ", ".join(f"{1e-6 * x:.2f}" for x in late),
                "Mb/s",
                reported=", ".join(f"{1e-6 * x:.2f}" for x in stated),
                met=off[-1] < 0.1,
                note=f"sum of delta d rate {float((late * np.array(deltas)).mean()) * wait / (8 * PACKET):.2f}",
            )
        )
    holds = max(off) < 0.1
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.CONDITIONAL if min(off) < 0.1 else Verdict.REFUTED,
        f"Rates are proportional to 1/delta within {off[0]:.0%} if RTTs are equal. With RTTs of 20 to 100 ms they "
        "differ "
        f"by {off[1]:.0%} with one delta, and by {off[2]:.0%} with three; the flow with the longest RTT has the "
        "highest "
        "rate.",
        measured,
        (),
        ["48 Mb/s, 1500-byte packets, no loss; 20 to 120 s. Notes give the mean of delta d x."],
    )


@check("copa-cycle", cost=2)
def copa_cycle(claim: Claim) -> Finding:
    """Measure swing and period of the queue."""
    measured, periods, swings = [], [], []
    for flows, delta in ((1, 0.5), (1, 0.1), (1, 0.02), (2, 0.1), (5, 0.5), (10, 0.1)):
        for capacity in (CAPACITY, 200e6):
            measurement = cycle(flows, 0.1, delta, capacity)
            periods.append(measurement.period)
            swings.append(measurement.maximum - measurement.minimum)
            measured.append(
                Measurement(
                    f"RTTs per cycle, {flows} flows, delta {delta:g}, {capacity / 1e6:g} Mb/s",
                    measurement.period,
                    reported=5.0,
                    met=abs(measurement.period - 5.0) < 0.5,
                    note=f"queue {measurement.minimum:.2f} to {measurement.maximum:.2f}, mean "
                    f"{measurement.mean:.2f} N/delta",
                )
            )
    swing = all(1.9 < value <= 3.0 for value in swings)
    near = [period for period in periods if abs(period - 5.0) < 0.5]
    verdict = Verdict.REFUTED if not swing or not near else Verdict.CONFIRMED if len(near) == len(periods) else None
    return Finding(
        claim,
        verdict or Verdict.CONDITIONAL,
        f"Queues swing by {min(swings):.1f} to {max(swings):.1f} packets/delta per flow, with a period of "
        f"{min(periods):.1f} to {max(periods):.1f} RTTs that include the mean queue. The period is 5 RTTs if the queue "
        "is small compared with the bandwidth-delay product, and shorter otherwise.",
        measured,
        (),
        ["RTT 100 ms, 1500-byte packets; 30 to 60 s."],
    )


def drift(window: float) -> tuple[float, float]:
    """Return the mean queue of five flows of 20 ms [N/delta] from 10 to 20 s and from 110 to 120 s.

    Parameters
    ----------
    window : float, s
        Window of the minimum RTT.
    """
    network = Network.dumbbell(CAPACITY, [0.02] * 5, packet_size=PACKET)
    run = packet.simulate(Scenario(network, Copa(delta=0.1, min_rtt_window=window), 120.0), sample=0.01)
    queue = run.queue[:, 0].to_numpy() / PACKET / 50.0
    return float(queue[1000:2000].mean()), float(queue[11000:].mean())


@check("copa-base", cost=1)
def copa_base(claim: Claim) -> Finding:
    """Measure the minimum queue in Copa's cycles, for short and long target queues N/delta and several starts."""
    measured, empties = [], []
    for flows, rtt, delta, apart in (
        (2, 0.1, 0.1, 3.0),
        (5, 0.1, 0.1, 3.0),
        (10, 0.1, 0.5, 3.0),
        (5, 0.02, 0.1, 0.0),
        (10, 0.02, 0.1, 0.0),
        (10, 0.02, 0.1, 3.0),
    ):
        measurement = cycle(flows, rtt, delta, CAPACITY, apart)
        empties.append(measurement.minimum < 0.3)
        wire = CAPACITY * rtt / (8.0 * PACKET)
        measured.append(
            Measurement(
                f"minimum queue, {flows} flows, {1e3 * rtt:g} ms, delta {delta:g}, starts {apart:g} s apart",
                measurement.minimum,
                "1/delta packets per flow",
                reported=0.0,
                met=empties[-1],
                note=f"mean {measurement.mean:.2f}; N/delta is {flows / delta / wire:.2f} bandwidth-delay products",
            )
        )
    late, lasting = drift(10.0), drift(1e3)[1]
    verdict = Verdict.CONFIRMED if all(empties) else Verdict.CONDITIONAL if any(empties) else Verdict.REFUTED
    return Finding(
        claim,
        verdict,
        "The queue empties if N/delta packets are few compared with the bandwidth-delay product. If they are 0.6 of it "
        "or more, it does not empty, and every 10 s flows mistake the remaining queue for part of the path: the mean "
        f"queue of five flows grows from {late[0]:.1f} to {late[1]:.1f} N/delta between 10 and 120 s, and only to "
        f"{lasting:.1f} if the minimum RTT never expires."
        if verdict is Verdict.CONDITIONAL
        else "The queue empties in all cases or in no case.",
        measured,
        (),
        ["48 Mb/s, 1500-byte packets; 30 to 60 s."],
    )


@check("copa-competitive", cost=2)
def copa_competitive(claim: Claim) -> Finding:
    """Run two flows against two loss-based flows, by mode and buffer."""
    measured, shares = [], {}
    rivals: dict[str, Protocol] = {"CUBIC": CUBIC(transport="sack"), "NewReno": NewReno(transport="sack")}
    for name, other in rivals.items():
        for products in (0.5, 1.0, 2.0, 4.0):
            buffer = products * CAPACITY * 0.05 / 8.0
            network = Network.dumbbell(
                CAPACITY, [0.05] * 4, packet_size=PACKET, buffer=buffer, starts=[0.0, 0.1, 0.2, 0.3]
            )
            both = {}
            for mode in ("default", "auto"):
                hosts: dict[str, Protocol] = {"0-1": Copa(mode=mode), "default": other}
                run = packet.simulate(Scenario(network, {"flows": hosts}, 120.0), sample=1.0)
                both[mode] = float(run.goodput[20:, :2].sum("flow").mean()) / CAPACITY
            shares[name, products] = both["auto"]
            measured.append(
                Measurement(
                    f"share against {name}, buffer of {products:g} C RTT",
                    both["auto"],
                    reported=0.5,
                    met=abs(both["auto"] - 0.5) < 0.15,
                    note=f"{both['default']:.2f} without switching",
                )
            )
    good = [key for key, share in shares.items() if abs(share - 0.5) < 0.15]
    verdict = Verdict.CONFIRMED if len(good) == len(shares) else Verdict.CONDITIONAL if good else Verdict.REFUTED
    return Finding(
        claim,
        verdict,
        f"Copa's half of the flows has {min(shares.values()):.2f} to {max(shares.values()):.2f} of the link. The share "
        f"is fair within 0.15 in {len(good)} of {len(shares)} cases and decreases with the buffer, above all against "
        "CUBIC.",
        measured,
        (),
        ["48 Mb/s, RTT 50 ms, 1500-byte packets, starts 0.1 s apart, drop-tail; 20 to 120 s."],
    )
