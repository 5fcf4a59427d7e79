"""Checks of CoDel and FQ-CoDel with packet runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ecc import packet, plot
from ecc.claims.checks.disciplines.loops import equal_flows, pair
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.contract.protocol import Protocol
from ecc.models import ConstantRate, NewReno
from ecc.network.network import Network
from ecc.queues import CoDel, DropTail, FQCoDel
from ecc.results.metrics import jain_index
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario

CAPACITY = 1250.0
"""Capacity of the link [packets/s], 10 Mb/s."""
SACK = NewReno(transport="sack")
NEAR = 3.0
"""Maximum ratio of a standing queue to the target to count as near the target."""
LONG_RTTS = (0.02, 0.04, 0.08, 0.16) * 2
"""RTTs of the long flows that share a link [s]."""
BRIEF, BRIEF_RTT, BRIEF_BYTES = 40, 0.05, 2000
"""Brief transfers, one per second: their number, RTT [s] and size [bytes]."""


@check("codel-law", cost=1)
def codel_law(claim: Claim) -> Finding:
    """Compare the drop times under a constant overload with the law."""
    codel, step = CoDel(), 0.001
    network = equal_flows(1, CAPACITY, 0.02, "50 MB")
    run = packet.simulate(Scenario(network, pair(ConstantRate("15 Mb/s"), codel), 5.0), sample=step)
    dropped = run.drops.to_numpy()[:, 0]
    at = run.data["time"].to_numpy()[dropped > 0.0]
    law = float(codel.interval) / np.sqrt(np.arange(1, len(at)))
    sums = at[0] + np.concatenate([[0.0], np.cumsum(law)])
    off = np.abs(np.diff(at)[:40] - law[:40])
    after_a_packet = 1.0 / CAPACITY + step
    late = float(off.max())
    fits = late <= after_a_packet
    measured = [
        Measurement("drops within 5 s", float(len(at)), note=f"first drop at {1e3 * at[0]:.0f} ms"),
        Measurement(
            "maximum difference of the first 40 intervals from the law",
            1e3 * late,
            "ms",
            note=f"a packet takes {1e3 / CAPACITY:g} ms, a sample {1e3 * step:g} ms",
            met=fits,
        ),
    ]
    count = min(len(at), 60)
    title = "Drops of CoDel under a constant overload"
    figure = plot.boundary_figure(
        np.arange(1.0, count + 1.0),
        {"packets": at[:count]},
        {"law": sums[:count]},
        None,
        "drop",
        "time [s]",
        log_x=False,
        title=title,
    )
    reason = (
        f"The first 40 intervals differ from the law by at most {1e3 * late:.1f} ms; a packet and a sample are 1.8 ms."
    )
    verdict = Verdict.CONFIRMED if fits else Verdict.REFUTED
    assumption = "15 Mb/s at a constant rate over 10 Mb/s; a drop takes place when the next packet reaches the head."
    return Finding(claim, verdict, reason, measured, [Picture.of(figure, title, "Time of each drop.")], [assumption])


def _standing(flows: int, rtt: float, seed: int = 1) -> tuple[float, float]:
    """Return the median of the minimum delay in 100 ms intervals, and the utilization, from 20 to 60 s."""
    network = equal_flows(flows, CAPACITY, rtt, "1 MB")
    run = packet.simulate(Scenario(network, pair(SACK, CoDel()), 60.0, seed=seed), sample=0.01)
    delays = run.queue.to_numpy()[2000:, 0] / 1000.0 / CAPACITY
    used = run.goodput.to_numpy()[2000:].sum(axis=1).mean() / network.capacities[0]
    return float(np.median(delays.reshape(-1, 10).min(axis=1))), float(used)


@check("codel-target", cost=2)
def codel_target(claim: Claim) -> Finding:
    """Measure the standing queue over numbers of flows and RTTs."""
    counts, rtts, target = (1, 2, 5, 10, 20, 50), (0.02, 0.1), float(CoDel().target)
    measured, curves = [], {}
    good: list[tuple[float, str]] = []
    bad: list[tuple[float, str]] = []
    for rtt in rtts:
        runs = [_standing(flows, rtt) for flows in counts]
        curves[f"RTT {1e3 * rtt:g} ms"] = [1e3 * delay for delay, _ in runs]
        for flows, (delay, used) in zip(counts, runs, strict=True):
            met = delay <= NEAR * target
            (good if met else bad).append((delay, f"{flows} flows of {1e3 * rtt:g} ms"))
            measured.append(
                Measurement(
                    f"{flows} flows, RTT {1e3 * rtt:g} ms: standing delay",
                    1e3 * delay,
                    "ms",
                    1e3 * target,
                    f"utilization by goodput {used:.1%}",
                    met=met,
                )
            )
    verdict = Verdict.CONFIRMED if not bad else Verdict.CONDITIONAL if good else Verdict.REFUTED
    worst = max((delay, name) for delay, name in good + bad)
    reason = (
        f"The standing delay is at most {NEAR:g} times the target in {len(good)} of {len(good + bad)} runs. It grows "
        "with the number of flows and for RTTs shorter than the interval; its maximum is "
        f"{1e3 * worst[0]:.0f} ms with {worst[1]}."
    )
    title = "Standing delay under CoDel"
    figure = plot.boundary_figure(
        counts, curves, {"target": [1e3 * target] * len(counts)}, None, "flows", "delay [ms]", title=title
    )
    assumption = (
        "NewReno with SACK over 10 Mb/s, packets of 1000 bytes; the standing delay is the median from 20 to 60 s of "
        "the "
        "minimum in each 100 ms."
    )
    return Finding(claim, verdict, reason, measured, [Picture.of(figure, title, "Drops, no marks.")], [assumption])


def _shared(discipline: Protocol, seed: int = 1) -> tuple[float, NDArray[np.float64], Trajectory]:
    """Return Jain's index of long flows, the extra time of brief transfers over an idle network [s], and the run."""
    crowd = Network.dumbbell(
        CAPACITY * 8000.0, rtts=[*LONG_RTTS, *[BRIEF_RTT] * BRIEF], packet_size=1000, buffer="250 kB"
    )
    flows = [
        flow if k < len(LONG_RTTS) else replace(flow, start=20.37 + (k - len(LONG_RTTS)), size=BRIEF_BYTES)
        for k, flow in enumerate(crowd.flows)
    ]
    run = packet.simulate(Scenario(crowd.with_flows(flows), pair(SACK, discipline), 65.0, seed=seed), sample=0.1)
    rates = run.goodput.to_numpy()[200:, : len(LONG_RTTS)].mean(axis=0)
    brief = run.flows.iloc[len(LONG_RTTS) : len(LONG_RTTS) + BRIEF]
    alone = BRIEF_RTT + BRIEF_BYTES / 1000.0 / CAPACITY
    late = brief["completion_time"].to_numpy(dtype=float) - alone
    return float(jain_index(rates)), late, run


@check("fq-fair", cost=2)
def fq_fair(claim: Claim) -> Finding:
    """Measure shares of flows with RTTs of 20 to 160 ms, and times of brief transfers, under three disciplines."""
    measured, drawn = [], {}
    results = {name: _shared(q) for name, q in (("FQ-CoDel", FQCoDel()), ("CoDel", CoDel()), ("drop-tail", DropTail()))}
    for name, (jain, late, run) in results.items():
        rates = run.goodput.to_numpy()[200:, : len(LONG_RTTS)].mean(axis=0)
        drawn[name] = (1e3 * np.array(LONG_RTTS), rates / 1e6, None)
        fair = jain >= 0.95 if name == "FQ-CoDel" else None
        quick = float(np.median(late)) <= 0.003 if name == "FQ-CoDel" else None
        measured += [
            Measurement(f"{name}: Jain's index of the long flows", jain, met=fair),
            Measurement(
                f"{name}: brief transfers, median extra time over an idle network",
                1e3 * float(np.median(late)),
                "ms",
                note=f"maximum {1e3 * np.nanmax(late):.1f} ms; {int(np.isnan(late).sum())} unfinished",
                met=quick,
            ),
        ]
    jain, late, _ = results["FQ-CoDel"]
    other, wait, _ = results["CoDel"]
    met = [m.met for m in measured if m.met is not None]
    verdict = Verdict.CONFIRMED if all(met) else Verdict.CONDITIONAL if any(met) else Verdict.REFUTED
    reason = (
        f"Jain's index for RTTs of 20 to 160 ms is {jain:.3f}, and {other:.3f} with CoDel in one queue. Brief "
        "transfers "
        f"take {1e3 * np.median(late):.1f} ms longer than alone, and {1e3 * np.median(wait):.1f} ms longer with CoDel."
    )
    title = "Shares under FQ-CoDel, CoDel and drop-tail"
    figure = plot.boundary_figure([20.0, 160.0], {}, None, drawn, "RTT [ms]", "goodput [Mb/s]", title=title)
    assumption = (
        "Eight long NewReno flows with SACK over 10 Mb/s and a buffer of 250 kB, and a transfer of two packets every "
        "second."
    )
    return Finding(
        claim, verdict, reason, measured, [Picture.of(figure, title, "Means over 20 to 65 s.")], [assumption]
    )
