"""Checks of claims on DCTCP."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ecc import packet
from ecc.claims.ledger import Claim, Finding, Measurement, Verdict, check
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.cycles.switched_windows import SwitchedWindows, switched_cycle
from ecc.models import DCTCP, NewReno
from ecc.models import dctcp as law
from ecc.models.shared import windows
from ecc.network.network import Network
from ecc.queues import StepMarking
from ecc.scenario import Scenario

FloatArray = NDArray[np.float64]

SEGMENT, DCTCP_CAPACITY, DCTCP_RTT, THRESHOLD = 1500, 10e9, 100e-6, 40.0
PIPE = DCTCP_CAPACITY * DCTCP_RTT / (8.0 * SEGMENT)
"""Bandwidth-delay product [packets]."""
SAMPLE = 5e-6
"""Sampling interval of queues [s]."""


@lru_cache
def _late(flows: int, threshold: float, g: float = 1.0 / 16.0) -> tuple[FloatArray, float, float]:
    """Return the queue in the second half of 0.15 s [packets, every 5 us], the utilization, and the share marked."""
    starts = [3e-5 * k for k in range(flows)]
    network = Network.dumbbell(DCTCP_CAPACITY, [DCTCP_RTT] * flows, packet_size=SEGMENT, starts=starts)
    pair = {
        "flows": DCTCP(transport="sack", initial=10.0, g=g),
        "links": StepMarking(threshold=threshold, packet_size=SEGMENT),
    }
    run = packet.simulate(Scenario(network, pair, 0.15), sample=SAMPLE)
    half = len(run.queue) // 2
    queue, sent = run.queue[half:, 0].to_numpy() / SEGMENT, float(run.goodput[half:].sum("flow").mean())
    marked = float(run.marks[half:].sum()) * 8.0 * SEGMENT / (sent * SAMPLE * half)
    return queue, sent / DCTCP_CAPACITY, marked


def _sawtooth(flows: int, threshold: float) -> tuple[float, float, float]:
    """Return minimum and maximum queue [packets], and the utilization of the capacity."""
    queue, used, _ = _late(flows, threshold)
    return float(queue.min()), float(queue.max()), used


def _period(queue: FloatArray) -> float:
    """Return the period of the strongest line in the queue's spectrum, in RTTs that include the mean queue."""
    power = np.abs(np.fft.rfft(queue - queue.mean())) ** 2
    frequency = np.fft.rfftfreq(len(queue), SAMPLE)[int(power.argmax())]
    rtt = DCTCP_RTT * (1.0 + float(queue.mean()) / PIPE)
    return float(1.0 / (frequency * rtt))


@check("dctcp-sawtooth", cost=4)
def dctcp_sawtooth(claim: Claim) -> Finding:
    """Measure swing and maximum of the queue in packet runs."""
    measured, off = [], {}
    for flows in (1, 2, 10, 40):
        smallest, largest, _ = _sawtooth(flows, THRESHOLD)
        swing = 0.5 * sqrt(2.0 * flows * (PIPE + THRESHOLD))
        off[flows] = (largest - smallest) / swing - 1.0
        measured += [
            Measurement(
                f"swing of the queue, {flows} flows",
                largest - smallest,
                "packets",
                reported=swing,
                note=f"{off[flows]:+.0%}",
                met=abs(off[flows]) < 0.1,
            ),
            Measurement(
                f"maximum queue, {flows} flows",
                largest,
                "packets",
                reported=THRESHOLD + flows,
                met=abs(largest - THRESHOLD - flows) <= 2.0,
            ),
        ]
    good = [flows for flows, value in off.items() if abs(value) < 0.1]
    verdict = Verdict.CONFIRMED if len(good) == len(off) else Verdict.CONDITIONAL if good else Verdict.REFUTED
    return Finding(
        claim,
        verdict,
        f"The queue swings as stated with {', '.join(map(str, good))} flows. With 40 flows its swing differs by "
        f"{off[40]:+.0%} from the formula, because windows of a few packets change in whole packets. The maximum queue "
        "is K + N within two packets.",
        measured,
        (),
        ["10 Gb/s, RTT 100 us, 1500-byte packets, K = 40, g = 1/16; flows start 30 us apart; 0.15 s, the second half."],
    )


@check("dctcp-threshold", cost=2)
def dctcp_threshold(claim: Claim) -> Finding:
    """Measure minimum queue and goodput of packet runs below and above the threshold."""
    measured, holds = [], True
    for flows in (1, 2):
        for share in (0.3, 0.6, 1.05, 2.0):
            smallest, _, used = _sawtooth(flows, share * PIPE / 7.0)
            holds &= share < 1.0 or smallest > 0.0
            measured.append(
                Measurement(
                    f"minimum queue, {flows} flows, K = {share:g} C RTT/7",
                    smallest,
                    "packets",
                    note=f"{used:.2%} of the capacity",
                    met=smallest > 0.0 if share > 1.0 else None,
                )
            )
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        "Above the threshold the queue of one or two flows never empties. It empties at 0.3 of the threshold but not "
        "at 0.6: the rule is sufficient, not necessary."
        if holds
        else "The queue empties above the threshold.",
        measured,
        (),
        ["10 Gb/s, RTT 100 us, 1500-byte packets, g = 1/16; 0.15 s, the second half."],
    )


@check("dctcp-period", cost=1)
def dctcp_period(claim: Claim) -> Finding:
    """Measure the strongest line of the queue's spectrum in packet runs."""
    measured, good = [], []
    for flows in (1, 2, 10):
        stated = 0.5 * sqrt(2.0 * (PIPE + THRESHOLD) / flows)
        period = _period(_late(flows, THRESHOLD)[0])
        near = abs(period / stated - 1.0) < 0.1
        good += [flows] if near else []
        measured.append(
            Measurement(
                f"period, {flows} flows",
                period,
                "RTTs",
                reported=stated,
                note=f"{period / stated - 1.0:+.0%}",
                met=near,
            )
        )
    verdict = Verdict.CONFIRMED if len(good) == len(measured) else Verdict.CONDITIONAL if good else Verdict.REFUTED
    return Finding(
        claim,
        verdict,
        f"The period is as stated with {' and '.join(map(str, good))} flows. With ten flows, windows are about twelve "
        "packets, and the period is longer: in the formula a window grows by one packet per RTT immediately after its "
        "cut, without the RTT of feedback delay.",
        measured,
        (),
        ["10 Gb/s, RTT 100 us, 1500-byte packets, K = 40; RTTs with the mean queue."],
    )


@check("dctcp-share", cost=1)
def dctcp_share(claim: Claim) -> Finding:
    """Measure the share of marked packets, which alpha averages, in packet runs."""
    measured, good = [], []
    for flows in (1, 2, 10, 40):
        window = (PIPE + THRESHOLD) / flows
        marked = _late(flows, THRESHOLD)[2]
        by_6 = (2.0 * window + 1.0) / (window + 1.0) ** 2
        exact = float(brentq(lambda a, by_6=by_6: a * a * (1.0 - 0.25 * a) - by_6, 0.0, 1.5))
        near = abs(marked / sqrt(2.0 / window) - 1.0) < 0.15
        good += [flows] if near else []
        measured.append(
            Measurement(
                f"share marked, {flows} flows",
                marked,
                reported=sqrt(2.0 / window),
                met=near,
                note=f"{exact:.3f} by (6) itself",
            )
        )
    verdict = Verdict.CONFIRMED if len(good) == len(measured) else Verdict.CONDITIONAL if good else Verdict.REFUTED
    return Finding(
        claim,
        verdict,
        f"The share of marked packets is within 15 % of the formula with {', '.join(map(str, good)) or 'no'} flows."
        + ("" if len(good) == len(measured) else " Windows of a few packets change in whole packets."),
        measured,
        (),
        ["10 Gb/s, RTT 100 us, 1500-byte packets, K = 40, g = 1/16; 0.15 s, the second half."],
    )


@check("dctcp-gain", cost=2)
def dctcp_gain(claim: Claim) -> Finding:
    """Compare the rule with the property it should ensure, and run packets with gains on both sides."""
    bound = 1.386 / sqrt(2.0 * (PIPE + THRESHOLD))
    cycle = 0.5 * sqrt(2.0 * (PIPE + THRESHOLD))
    remaining = (1.0 - bound) ** cycle
    sharp = 1.0 - 0.5 ** (1.0 / cycle)
    swings = {
        share: float(np.ptp(_late(1, THRESHOLD, min(share * bound, 1.0))[0])) for share in (0.1, 0.5, 1.0, 4.0, 12.0)
    }
    measured = [
        Measurement("(1 - g)^T_C at the bound", remaining, reported=0.5, met=remaining > 0.5),
        Measurement("largest g with (1 - g)^T_C > 1/2", sharp, reported=bound, note=f"{sharp / bound - 1.0:+.1%}"),
        *(
            Measurement(
                f"swing of the queue, 1 flow, g = {min(share * bound, 1.0):.3g}",
                swing,
                "packets",
                note=f"{share:g} of the bound",
            )
            for share, swing in swings.items()
        ),
    ]
    near = abs(sharp / bound - 1.0) < 0.1
    return Finding(
        claim,
        Verdict.CONDITIONAL if near else Verdict.REFUTED,
        f"The rule is a first-order approximation: the property (1 - g)^T_C > 1/2 needs g below {sharp:.4f}, not "
        f"{bound:.4f}. In packet runs the queue of one flow swings by {swings[0.5]:.0f} packets at half the bound, by "
        f"{swings[1.0]:.0f} at the bound, by {swings[4.0]:.0f} at four times the bound, and by {swings[12.0]:.0f} with "
        "g = 1.",
        measured,
        (),
        ["10 Gb/s, RTT 100 us, 1500-byte packets, K = 40; 0.15 s, the second half."],
    )


@check("dctcp-used", cost=2, main=False)
def dctcp_used(claim: Claim) -> Finding:
    """Measure the goodput of packet runs over the threshold and the number of flows."""
    counts = (1, 2, 5, 10, 20, 40)
    minimum = {
        share: min((_late(flows, share * PIPE)[1], flows) for flows in counts) for share in (0.17, 0.1, 0.05, 0.02)
    }
    holds = minimum[0.17][0] >= 0.94
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"Utilization is at least {minimum[0.17][0]:.1%} with a threshold of 17 %, and {minimum[0.02][0]:.1%} with 2 "
        "%. "
        "It is lowest for numbers of flows with windows of four to eight packets.",
        [
            Measurement(
                f"minimum goodput, K = {share:.0%} of C RTT",
                used,
                "of C",
                note=f"{flows} of 1 to 40 flows",
                reported=0.94 if share == 0.17 else None,
                met=used >= 0.94 if share == 0.17 else None,
            )
            for share, (used, flows) in minimum.items()
        ],
        (),
        ["10 Gb/s, RTT 100 us, 1500-byte packets, g = 1/16; 0.15 s, the second half."],
    )


@lru_cache
def _joining(host: DCTCP | NewReno, capacity: float, threshold: float) -> float:
    """Return the time until the second of two flows has 90 % of its fair share, averaged over 20 ms [s]; RTT 300 us."""
    times = []
    for offset in (0.0, 0.7e-3, 1.4e-3):
        starts = [0.0, 0.3 + offset]
        network = Network.dumbbell(capacity, [300e-6] * 2, packet_size=SEGMENT, starts=starts)
        pair = {"flows": host, "links": StepMarking(threshold=threshold, packet_size=SEGMENT)}
        run = packet.simulate(Scenario(network, pair, 0.7), sample=5e-3)
        share = np.convolve(run.rate[60:, 1].to_numpy() / (0.5 * capacity), np.full(4, 0.25), "valid")
        times.append(5e-3 * (int(np.flatnonzero(share >= 0.9)[0]) + 4))
    return float(np.mean(times))


@check("dctcp-converge", cost=4, main=False)
def dctcp_converge(claim: Claim) -> Finding:
    """Measure the convergence of a flow that joins another flow, for DCTCP and NewReno with the same marks."""
    measured, ratios = [], []
    for capacity, threshold, reported in ((1e9, 20.0, "20 to 30"), (10e9, 65.0, "80 to 150")):
        duration = _joining(DCTCP(transport="sack", initial=10.0), capacity, threshold)
        tcp = _joining(NewReno(initial=10.0, ecn=True), capacity, threshold)
        ratios.append(duration / tcp)
        measured.append(
            Measurement(
                f"{capacity / 1e9:g} Gb/s, time to 90 % of the fair share",
                1e3 * duration,
                "ms",
                reported=reported,
                note=f"NewReno {1e3 * tcp:.0f} ms",
                met=duration < 3.0 * tcp,
            )
        )
    holds = max(ratios) < 3.0
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"DCTCP takes {ratios[0]:.1f} times as long as NewReno at 1 Gb/s, and {ratios[1]:.1f} times at 10 Gb/s.",
        measured,
        (),
        [
            "RTTs of 300 us, 1500-byte packets, K = 20 and 65, the same for both; the second flow starts 0.3 s "
            "after the first, mean of three starts 0.7 ms apart; averages of 20 ms. Published times are from a testbed."
        ],
    )


# ---- the limit cycle ---------------------------------------------------------------------------------------


class Cycle(NamedTuple):
    """A cycle of the fluid: period [s], minimum and maximum queue [packets], multipliers of the return map."""

    period: float
    minimum: float
    largest: float
    multipliers: NDArray[np.complex128]


def limit_cycle(flows: int, threshold: float, g: float, increase: float = 1.0) -> Cycle:
    """Return the cycle of W' = a/R - W alpha p/(2R), alpha' = g (p - alpha)/R, q' = N W/R - C, R = RTT + q/C.

    p is 1 if the queue exceeded K at the time RTT + K/C earlier (`ecc.cycles.switched_windows`). The multipliers are
    those of the return map for deviations of all flows at once.

    Parameters
    ----------
    flows : int
    threshold : float, packets
        Marking threshold K.
    g : float
    increase : float, packets per RTT, optional
        Additive increase a.
    """

    def slope(values: FloatArray, D: float, marked: float) -> FloatArray:
        W, alpha = values
        return np.array([increase - 0.5 * W * alpha * marked, g * (marked - alpha)])

    together = np.array([float(flows)])
    windows = SwitchedWindows(slope, None, lambda D: D, together, PIPE / DCTCP_RTT, DCTCP_RTT, threshold)
    cycle = switched_cycle(windows, np.array([[1.02 * (PIPE + threshold) / flows, 0.3]]))
    queue, multipliers = cycle.queue, cycle.multipliers
    return Cycle(cycle.period, float(queue.min()), float(queue.max()), multipliers)


@check("dctcp-cycle", cost=5, main=False)
def dctcp_cycle(claim: Claim) -> Finding:
    """Compute multipliers of the return map over N and g, and compare the cycle with packet runs."""
    threshold, measured, moduli = 65.0, [], []
    for flows in (1, 2, 10, 40, 60):
        for g in (1.0 / 64.0, 1.0 / 16.0, 0.5):
            cycle = limit_cycle(flows, threshold, g)
            moduli.append(float(np.abs(cycle.multipliers).max()))
            if g == 1.0 / 16.0:
                queue = _late(flows, threshold)[0]
                measured.append(
                    Measurement(
                        f"largest multiplier, {flows} flows, g = 1/16",
                        moduli[-1],
                        met=moduli[-1] < 1.0,
                        note=f"queue from {cycle.minimum:.0f} to {cycle.largest:.0f} packets, in packet runs "
                        f"{queue.min():.0f} to {queue.max():.0f}; period {1e3 * cycle.period:.2f} ms",
                    )
                )
    max_flows = int((PIPE + threshold) / 2.0)
    queue = _late(100, threshold)[0]
    rest = 200.0 - PIPE
    measured += [
        Measurement("maximum of all multipliers, g from 1/64 to 1/2", max(moduli), met=max(moduli) < 1.0),
        Measurement("maximum number of flows with a cycle", max_flows, note="(C RTT + K)/N > 2"),
        Measurement(
            "100 flows, packet runs: queue",
            float(queue.mean()),
            "packets",
            note=f"2 N - C RTT = {rest:.0f}; it varies by {np.ptp(queue):.0f} packet",
        ),
    ]
    stable = max(moduli) < 1.0
    return Finding(
        claim,
        Verdict.CONDITIONAL if stable else Verdict.REFUTED,
        f"Every cycle is stable: the largest multiplier is {max(moduli):.2f}. A cycle exists if (C RTT + K)/N > 2, "
        "here "
        f"with up to {max_flows} flows. With more flows, windows of two packets are a fixed point with all packets "
        "marked and alpha = 1, and packet runs converge to it.",
        measured,
        (),
        [
            "C = 10 Gb/s, d = 100 us, K = 65 packets of 1500 bytes. Between switches the fluid has no delay: the "
            "return map of (W, alpha) is exact; its Jacobian is by central differences."
        ],
    )


# ---- variants ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Variant(DCTCP):
    """DCTCP with an increase of `packets` per RTT.

    If `freezes` is true, windows do not grow until a window of data after a cut (CWR in Linux). `cuts` selects the
    response to marks: 0 for one cut by alpha/2 per window, 1 for alpha/2 packets per ACK with a mark, 2 for a third of
    the packets acknowledged with a mark (uet-htsim).
    """

    packets: float = 1.0
    freezes: bool = False
    cuts: int = 0

    def params(self) -> dict[str, float]:
        variant = {"packets": self.packets, "freezes": float(self.freezes), "cuts": float(self.cuts)}
        return {**variant, **super().params()}

    def flow_hooks(self) -> dict[str, Hook]:
        return super().flow_hooks() | {"on_ack": _on_ack}


def _on_ack(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    before = env.window
    frozen = p.freezes > 0.0 and env.delivered <= flow.reduced_until
    if p.cuts > 0.0:
        flow.reduced_until = 1.0 * env.delivered  # the law makes no further cut
    law.flow_on_ack(flow, header, p, env)
    if env.window > before and before >= flow.ssthresh:
        env.window = before if frozen else before + p.packets * (env.window - before)
    elif env.marked > 0 and p.cuts > 0.0:
        marked = 1.0 * env.marked
        windows.cut(flow, before - (0.5 * flow.alpha * marked if p.cuts < 2.0 else marked / 3.0), env)


def _pair(host: DCTCP, threshold: float) -> dict[str, Any]:
    return {"flows": host, "links": StepMarking(threshold=threshold, packet_size=SEGMENT)}


@check("dctcp-rtt", cost=2, main=False)
def dctcp_rtt(claim: Claim) -> Finding:
    """Measure shares of two groups of flows, with RTTs of 100 us and longer, with and without the change."""
    measured, better = [], []
    for longer in (200e-6, 400e-6):
        ratios = {}
        for cuts in (0, 1):
            starts = [3.1e-5 * k for k in range(6)]
            network = Network.dumbbell(
                DCTCP_CAPACITY, [DCTCP_RTT] * 3 + [longer] * 3, packet_size=SEGMENT, starts=starts
            )
            run = packet.simulate(
                Scenario(network, _pair(_Variant(transport="sack", initial=10.0, cuts=cuts), 65.0), 0.4), sample=1e-3
            )
            got = run.goodput[200:].mean("time").to_numpy()
            ratios[cuts] = float(got[:3].sum() / got[3:].sum())
        better.append(ratios[1] < 0.8 * ratios[0])
        title = f"goodput of flows of 100 us over that of flows of {1e6 * longer:g} us"
        measured += [
            Measurement(title, ratios[0]),
            Measurement(f"{title}, with the change", ratios[1], reported=f"< {ratios[0]:.2f}", met=better[-1]),
        ]
    return Finding(
        claim,
        Verdict.CONFIRMED if all(better) else Verdict.CONDITIONAL if any(better) else Verdict.REFUTED,
        f"The ratio of shares falls from {measured[2].value:.1f} to {measured[3].value:.1f} with RTTs of 400 us, and "
        f"from {measured[0].value:.1f} to {measured[1].value:.1f} with 200 us. A significant change is taken to be a "
        "fifth.",
        measured,
        (),
        ["10 Gb/s, three flows of each RTT, 1500-byte packets, K = 65, g = 1/16; 0.4 s, the second half, one seed."],
    )


@check("dctcp-three", cost=2, main=False)
def dctcp_three(claim: Claim) -> Finding:
    """Measure queue and goodput of four algorithms named DCTCP on the same link."""
    hpcc = 615e6 * DCTCP_RTT / (8.0 * SEGMENT)
    hosts = {
        "RFC 8257": _Variant(transport="sack", initial=10.0),
        "Linux: no growth during the response to a cut": _Variant(transport="sack", initial=10.0, freezes=True),
        f"HPCC's simulator: {hpcc:.1f} packets per RTT": _Variant(transport="sack", initial=10.0, packets=hpcc),
        "uet-htsim: no alpha": _Variant(transport="sack", initial=10.0, cuts=2),
    }
    measured, swings = [], {}
    for flows in (2, 10):
        for name, host in hosts.items():
            starts = [3e-5 * k for k in range(flows)]
            network = Network.dumbbell(DCTCP_CAPACITY, [DCTCP_RTT] * flows, packet_size=SEGMENT, starts=starts)
            run = packet.simulate(Scenario(network, _pair(host, 65.0), 0.15), sample=SAMPLE)
            half = len(run.queue) // 2
            queue = run.queue[half:, 0].to_numpy() / SEGMENT
            swings[flows, name] = float(np.ptp(queue))
            used = float(run.goodput[half:].sum("flow").mean()) / DCTCP_CAPACITY
            measured.append(
                Measurement(
                    f"swing of the queue, {flows} flows, {name}",
                    swings[flows, name],
                    "packets",
                    note=f"mean {queue.mean():.0f}, minimum {queue.min():.0f}; {used:.1%} of the link",
                )
            )
    names = list(hosts)
    same = [0.8 < swings[flows, name] / swings[flows, names[0]] < 1.25 for flows in (2, 10) for name in names[1:]]
    far = max(swings[10, name] for name in names) / min(swings[10, name] for name in names)
    return Finding(
        claim,
        Verdict.CONFIRMED if all(same) else Verdict.REFUTED,
        f"Swings of the queue on the same link differ {far:.1f}-fold with 10 flows. The simulator's increase of 615 "
        "Mb/s per RTT is one packet at its RTT of 13 us, but more at longer RTTs; the rule of uet-htsim has no average "
        "of marks. The RFC and Linux behave alike here, because marks continue through the window of data after a cut.",
        measured,
        (),
        ["10 Gb/s, RTT 100 us, 1500-byte packets, K = 65, windows in all four; 0.15 s, the second half, one seed."],
    )
