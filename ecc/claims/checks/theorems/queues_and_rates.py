"""Checks of packet runs in the papers' topologies: oscillating or settling rates, and peak queues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ecc import packet, plot
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.claims.report.pictures import side_by_side
from ecc.contract.protocol import Protocol
from ecc.linear import SampledSystem
from ecc.loops.closed_loop import linearize
from ecc.models import PIQIRCP, QIRCP, RCP
from ecc.network.network import Network
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario

FIXED = (0, *[2] * 9)
"""Fixed bottlenecks of THESIS fig. 8: l1 for x1, l3 for x2 to x10, independently of advertised rates."""
OSCILLATES = 0.1
"""Relative standard deviation over the last third of a run above which a rate counts as oscillating."""


@dataclass(frozen=True)
class Tail:
    """Last third of a run in T_u: relative standard deviations of x1 and x2, and mean queues [packets]."""

    x1: float
    x2: float
    queues: tuple[float, ...]  # mean, packets
    run: Trajectory

    @property
    def swing(self) -> float:
        return max(self.x1, self.x2)

    @property
    def state(self) -> str:
        return "oscillates" if self.swing > OSCILLATES else "settles"


@lru_cache(64)
def _in_t_u(protocol: Protocol, scale: float = 1.0, assignment: tuple[int, ...] | None = None) -> Tail:
    duration = 120.0 if scale == 1.0 else 330.0
    network = Network.T_u(scale)
    run = packet.simulate(
        Scenario(network, protocol, duration, assignment=assignment), sample=max(0.2, network.rtts[0] / 4)
    )
    rates = run.rate.to_numpy()
    tail = rates[-len(rates) // 3 :]
    swings = tail.std(axis=0) / tail.mean(axis=0)
    queues = run.queue.to_numpy()[-len(rates) // 3 :].mean(axis=0) / 1000.0
    return Tail(float(swings[0]), float(swings[1]), tuple(float(q) for q in queues), run)


def _measurement(label: str, tail: Tail, reported: str | None) -> Measurement:
    return Measurement(
        label,
        tail.state,
        reported=reported,
        note=f"standard deviation over the last third: x1 {tail.x1:.1%}, x2 {tail.x2:.1%} of the mean; "
        f"mean queues {', '.join(f'{q:.0f}' for q in tail.queues)} packets",
    )


def _picture(
    title: str, run: Trajectory, caption: str, flows: Sequence[int] = (0, 1), links: Sequence[int] = (0, 2)
) -> Picture:
    figure = plot.trajectory_figure(
        run.data["time"].to_numpy(),
        run.rate.to_numpy()[:, list(flows)],
        run.queue.to_numpy()[:, list(links)],
        title,
        flows=[f"x{k + 1}" for k in flows],
        links=[f"l{k + 1}" for k in links],
        packet_size=1000.0,
    )
    return Picture.of(figure, title, caption)


GAINS = ((0.5, 1.0, "IV.E"), (0.1, 1.0, "VI"))
"""Gains of RCP: ch. III states none; these are the two sets that THESIS lists."""
RTT_GAINS = (0.002, 0.005, 0.1)
"""Weights of an RTT sample tried in addition to the 0.02 of RCP's router."""
AVERAGES_ASSUMED = (
    "THESIS does not state how routers average. Here RTTs are averaged per packet with weight 0.02, the control "
    "interval "
    "is min(d, 10 ms) for RCP and 10 ms for QI-RCP and PIQI-RCP, and hosts start with a 40-byte probe and send at "
    "least "
    "one packet per RTT. Other choices change the results: an average per interval damps RCP in T_u, and min(d, 10 ms) "
    "makes PIQI-RCP oscillate there."
)
GAINS_ASSUMED = (
    "RCP's gains in THESIS ch. III are not stated; both sets listed elsewhere are used (IV.E: alpha = 0.5, VI: 0.1; "
    "beta = 1)."
)


@check("th-f4", cost=16)
def th_f4(claim: Claim) -> Finding:
    """Run RCP in T_u, in T_u with tenfold delays, and with fixed bottlenecks."""
    measurements, pictures, states = [], [], {}
    setups = (("T_u", 1.0, None), ("tenfold delays", 10.0, None), ("fixed bottlenecks", 1.0, FIXED))
    for alpha, beta, where in GAINS:
        for name, scale, assignment in setups:
            tail = _in_t_u(RCP(alpha=alpha, beta=beta), scale, assignment)
            states[alpha, name] = tail.state
            measurements.append(_measurement(f"alpha = {alpha}, {name}", tail, "oscillates"))
            if alpha == 0.5:
                title = f"RCP in T_u, alpha = {alpha}: {name}"
                pictures.append(
                    _picture(
                        title, tail.run, f"Gains of THESIS {where}; x2 represents the nine flows that join at 30 s."
                    )
                )
            if alpha == 0.5 and name == "tenfold delays":
                measurements += _rtt_measures(tail.run)
    onset = _onset(lambda alpha: _in_t_u(RCP(alpha=alpha), 1.0, None).swing)
    onset_slow = _onset(lambda alpha: _in_t_u(RCP(alpha=alpha), 10.0, None).swing)
    measurements += [_onset_measure("T_u", onset), _onset_measure("tenfold delays", onset_slow)]
    by_gain = {alpha: [states[alpha, name] == "oscillates" for name, _, _ in setups] for alpha, _, _ in GAINS}
    if any(all(row) for row in by_gain.values()):
        oscillating = [alpha for alpha, row in by_gain.items() if all(row)]
        if len(oscillating) == len(by_gain):
            verdict = Verdict.CONFIRMED
        else:
            verdict = Verdict.CONDITIONAL
        reason = f"RCP oscillates in all three setups at alpha = {', '.join(map(str, oscillating))}"
        rest = [
            f"{name} at alpha = {alpha}"
            for alpha, row in by_gain.items()
            for (name, _, _), o in zip(setups, row, strict=True)
            if not o
        ]
        reason += f"; it settles with {', '.join(rest)}." if rest else "."
    else:
        verdict = Verdict.REFUTED
        reason = "RCP does not oscillate in all three setups with either set of gains."
    reason += " " + _onset_words(onset, onset_slow)
    pictures = side_by_side(pictures, "Packet runs in T_u")
    return Finding(claim, verdict, reason, measurements, pictures, [GAINS_ASSUMED, AVERAGES_ASSUMED])


def _rtt_measures(run: Trajectory) -> list[Measurement]:
    """Return the RTTs of x1 and x2 after 60 s: propagation plus peak queueing delays along their paths."""
    late = run.data["time"].to_numpy() > 60.0
    network = Network.T_u(10.0)
    wait = 8.0 * run.queue_max.to_numpy()[late] / network.capacities
    out = []
    for flow, name, reported in ((0, "x1", "2.02 to 4.6"), (1, "x2", "0.04 to 2.62")):
        rtt = network.rtts[flow] + wait[:, list(network.flows[flow].route)].sum(axis=1)
        name = f"RTT of {name}, tenfold delays, alpha = 0.5"
        note = "propagation plus peak queues along the path, after 60 s"
        out.append(Measurement(name, f"{rtt.min():.2f} to {rtt.max():.2f}", "s", reported, note))
    return out


def _onset(swing: Any, gains: Sequence[float] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7)) -> list[tuple[float, float]]:
    """Return (alpha, swing) over a grid of gains."""
    return [(gain, swing(gain)) for gain in gains]


def _onset_measure(name: str, onset: list[tuple[float, float]]) -> Measurement:
    return Measurement(
        f"gains with oscillation, {name}",
        ", ".join(f"{a:g}" for a, s in onset if s > OSCILLATES) or "none",
        note="alpha with beta = 1; swing: " + ", ".join(f"{a:g}: {s:.0%}" for a, s in onset),
    )


def _onset_words(*onsets: list[tuple[float, float]]) -> str:
    parts = []
    for name, onset in zip(("T_u", "T_u with tenfold delays"), onsets, strict=True):
        gains = ", ".join(f"{a:g}" for a, s in onset if s > OSCILLATES)
        parts.append(f"in {name} at alpha = {gains or 'none of the tested values'}")
    return f"With beta = 1 it oscillates {' and '.join(parts)}."


@check("th-f9", cost=6)
def th_f9(claim: Claim) -> Finding:
    """Run RCP-1 in T_u, and RCP-2 in T_u with tenfold delays."""
    measurements, pictures, settles = [], [], []
    standing = 0.0
    for alpha, beta, where in GAINS:
        first = _in_t_u(RCP(alpha=alpha, beta=beta, queue_term=False))
        second = _in_t_u(RCP(alpha=alpha, beta=beta, rtt="max"), 10.0)
        for name, tail in (("RCP-1", first), ("RCP-2, tenfold delays", second)):
            measurements.append(_measurement(f"{name}, alpha = {alpha}", tail, "settles"))
            settles.append((f"{name} at alpha = {alpha}", tail.state == "settles"))
            pictures.append(_picture(f"{name} in T_u, alpha = {alpha}", tail.run, f"Gains of THESIS {where}."))
        measurements.append(
            Measurement(
                f"standing queue at l3, RCP-1, alpha = {alpha}", float(round(first.queues[2])), "packets", "> 0"
            )
        )
        standing = max(standing, first.queues[2])
    failed = [name for name, ok in settles if not ok]
    if not failed and standing > 10.0:
        verdict, reason = Verdict.CONFIRMED, "Both settle at both sets of gains"
    elif len(failed) < len(settles):
        verdict, reason = Verdict.CONDITIONAL, f"{', '.join(failed)} does not settle; the others settle"
    else:
        verdict, reason = Verdict.REFUTED, "Neither settles"
    reason += f"; RCP-1 leaves a standing queue of up to {standing:.0f} packets at l3, because (3.2) does not drain it."
    pictures = side_by_side(pictures, "Packet runs in T_u")
    return Finding(claim, verdict, reason, measurements, pictures, [GAINS_ASSUMED, AVERAGES_ASSUMED])


@check("th-f11", cost=1)
def th_f11(claim: Claim) -> Finding:
    """Run fifty flows that join one flow at 15 s."""
    network = Network.dumbbell("100 Mb/s", rtts=[0.12] * 51, delay=0.05, starts=[0.0] + [15.0] * 50)
    peaks, settled, runs = [], [], []
    for seed in range(1, 11):
        run = packet.simulate(Scenario(network, RCP(alpha=0.5, beta=1.0), 40.0, seed=seed), sample=0.02)
        time, queue = run.data["time"].to_numpy(), run.queue_max.to_numpy()[:, 0] / 1000.0
        peaks.append(float(queue.max()))
        arrival = run.arrival.to_numpy()[:, 0].reshape(-1, 10).mean(axis=1) / 100e6
        late = np.flatnonzero((np.abs(arrival - 1.0) > 0.1) | (queue.reshape(-1, 10).max(axis=1) > 1000.0))
        settled.append(float(time[10 * (late.max() + 1) - 1]) - 15.0)
        runs.append(run)
    mean, half = float(np.mean(peaks)), 2.262 * float(np.std(peaks, ddof=1)) / np.sqrt(10)
    off = mean / 80868.0 - 1.0
    overload = mean / (50 * 12_500.0)
    verdict = Verdict.CONFIRMED if abs(off) <= 0.1 else Verdict.REFUTED
    picture = _picture(
        "RCP, fifty flows join at 15 s",
        runs[0],
        "Rates of the first flow and of a joining flow, and the queue.",
        (0, 1),
        (0,),
    )
    return Finding(
        claim,
        verdict,
        f"The peak queue is {mean:.0f} packets ({off:+.1%}): fifty flows send at the old fair rate for "
        f"{1e3 * overload:.0f} ms, which is the RTT and the interval until the router reacts. The queue settles after "
        f"{np.mean(settled):.1f} s.",
        [
            Measurement("peak queue", float(round(mean)), "packets", 80868.0, f"+- {half:.0f} (95 %, ten seeds)"),
            Measurement(
                "time to settle",
                float(np.mean(settled)),
                "s",
                7.5,
                "until arrivals stay within 10 % of the capacity over 200 ms and the queue below 1000 packets",
            ),
        ],
        [picture],
        ["alpha = 0.5, beta = 1 (THESIS IV.E). With 1000-byte probes the peak is about 97,000.", AVERAGES_ASSUMED],
    )


@check("th-f16", cost=5)
def th_f16(claim: Claim) -> Finding:
    """Run QI-RCP and PIQI-RCP in T_u."""
    measurements, pictures, states = [], [], []
    for name, protocol in (("QI-RCP", QIRCP()), ("PIQI-RCP", PIQIRCP())):
        tail = _in_t_u(protocol)
        states.append(tail.state)
        measurements.append(_measurement(name, tail, "settles"))
        pictures.append(_picture(f"{name} in T_u", tail.run, "alpha = 0.5, T = 10 ms, gamma = 0.95 (THESIS IV.E)."))
        network = Network.T_u()
        rates = protocol.equilibrium(network).rates
        by_packet = [
            float(rates[through] @ network.rtts[through] / rates[through].sum()) for through in network.incidence.T
        ]
        for unit, mean_rtt in (("flow", None), ("packet", by_packet)):
            system = linearize(protocol, network, "hybrid", mean_rtt=mean_rtt)
            assert isinstance(system, SampledSystem)
            radius = system.spectral_radius
            d = network.rtts.mean() if mean_rtt is None else by_packet[0]
            note = f"{'stable' if radius < 1.0 else 'unstable'}: d at l1 {1e3 * d:.0f} ms"
            note += "" if mean_rtt is None else ", as measured by routers"
            measurements.append(
                Measurement(f"{name}, spectral radius of the hybrid model, RTTs averaged by {unit}", radius, note=note)
            )
    holds = all(state == "settles" for state in states)
    oscillate = []
    for name, build in (("QI-RCP", QIRCP), ("PIQI-RCP", PIQIRCP)):
        for gain in RTT_GAINS:
            tail = _in_t_u(build(rtt_gain=gain))
            measurements.append(_measurement(f"{name}, weight of an RTT sample {gain:g}", tail, "settles"))
            if tail.state != "settles":
                oscillate.append(f"{name} at {gain:g}")
    return Finding(
        claim,
        Verdict.REFUTED if not holds else Verdict.CONDITIONAL if oscillate else Verdict.CONFIRMED,
        f"With weight 0.02 of an RTT sample in the router's average, QI-RCP {states[0]} and PIQI-RCP {states[1]}. "
        "Among "
        f"the weights {', '.join(f'{g:g}' for g in RTT_GAINS)} these oscillate: {', '.join(oscillate) or 'none'}.",
        measurements,
        pictures,
        [
            "alpha = 0.5, T = 10 ms, gamma = 0.95, tau1 = 0.01, tau2 = 0.1 (THESIS IV.E); figs. 16 and 19 state no "
            "gains.",
            AVERAGES_ASSUMED,
        ],
    )
