"""Checks of claims on Swift: equilibrium over the number of flows, limit cycle, fairness, and an error in htsim."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ecc import packet, plot
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.models import NSCC, Swift
from ecc.models.shared import windows
from ecc.models.swift import cut, grown, send_with, target
from ecc.network.network import Flow, Link, Network
from ecc.results.metrics import jain_index
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario
from ecc.stability import target_cycle

CAPACITY, RTT, PACKET = 100e9, 10e-6, 4000
"""Capacity [bit/s], RTT without queueing [s], packet size [bytes]."""
TIME = 8.0 * PACKET / CAPACITY
"""Transmission time of a packet [s]."""
RUNS = (
    "Packets of 4 kB at 100 Gb/s, RTTs of 10 us without queues, base target 20 us, range 50 us from 0.1 to 100 "
    "packets, ai = 1, beta = 0.8; flows start at random within 1 ms; 10 ms, the second half, one seed."
)


def swift(split: int = 1, **other: Any) -> Swift:
    """Return the protocol of these claims for smaller packets and windows of the same size in bytes.

    Parameters
    ----------
    split : int, optional
        Number of small packets that replace a packet of 4 kB.
    **other : object
        Other parameters of `Swift`, in packets of 4 kB.
    """
    chosen: dict[str, Any] = {"ai": 1.0, "fs_min_cwnd": 0.1, "fs_max_cwnd": 100.0, "min_cwnd": 0.01} | other
    scaled: dict[str, Any] = {
        name: chosen.pop(name) * split for name in ("ai", "fs_min_cwnd", "fs_max_cwnd", "min_cwnd")
    }
    return Swift(**{"base_target": "20 us", "hop_scaling": 0.0, "fs_range": "50 us", **chosen, **scaled})


def flows_of(number: int, split: int = 1, rtt: float = RTT, within: float = 1e-3) -> Network:
    """Return one link with flows that start at random times.

    Parameters
    ----------
    number, split : int
    rtt, within : float, s
    """
    starts = np.random.default_rng(1).uniform(0.0, within, number).tolist()
    return Network.dumbbell(CAPACITY, [rtt] * number, packet_size=PACKET // split, starts=starts)


def second_half(protocol: Swift, network: Network, duration: float = 10e-3) -> tuple[NDArray[np.float64], float]:
    """Return the queueing delays every 2 us [s], and Jain's index, in the second half of a packet run.

    Parameters
    ----------
    protocol : Swift
    network : Network
    duration : float, s, optional
    """
    run = packet.simulate(Scenario(network, protocol, duration), sample=2e-6)
    half = len(run.queue) // 2
    got = run.goodput[half:].mean("time").to_numpy()
    index = float(jain_index(got))
    return 8.0 * run.queue[half:, 0].to_numpy() / float(network.capacities[0]), index


@lru_cache
def _packets(number: int, fs_range: float = 50e-6) -> tuple[float, float, float, float]:
    """Return mean, minimum and maximum queueing delay [us], and Jain's index."""
    waits, index = second_half(swift(fs_range=fs_range), flows_of(number))
    return 1e6 * float(waits.mean()), 1e6 * float(waits.min()), 1e6 * float(waits.max()), index


def rest(protocol: Swift, network: Network) -> tuple[float, float]:
    """Return the queueing delay [s] at the equilibrium of equal flows, and the steepness of their targets.

    Parameters
    ----------
    protocol : Swift
    network : Network
    """
    queue = protocol.equilibrium(network).queue
    assert queue is not None
    return float(queue[0] / network.capacities[0]), float(protocol.steepness(network)[0])


@check("swift-scaling", cost=2, main=False)
def swift_scaling(claim: Claim) -> Finding:
    """Compute the exponent at equilibrium, which solves a cubic in sqrt(W), and the exponent of packet runs."""
    counts = (1, 2, 5, 10, 20, 50, 100, 200, 500)
    protocol, p = swift(), swift().namespace()
    waits, exponents = [], []
    measured = []
    for number in counts:
        wait, steepness = rest(protocol, flows_of(number))
        # N W s/C = base + b + a/sqrt(W)
        root = brentq(lambda x, n=number: n * TIME * x**3 - (p.base_target + p.fs_beta) * x - p.fs_alpha, 1e-3, 1e3)
        assert abs(number * TIME * root**2 - RTT - wait) < 1e-9
        waits.append(1e6 * wait)
        exponents.append(0.5 / (1.0 + steepness))
        if number in (1, 20, 100, 500):
            measured.append(
                Measurement(
                    f"exponent of a/sqrt(W), {number} flows",
                    exponents[-1],
                    reported=0.5,
                    note=f"kappa = {steepness:.3f}; queue of {wait * 1e6:.1f} us",
                    met=exponents[-1] > 0.45,
                )
            )
    with_it, without = ([_packets(number, span)[0] for number in counts] for span in (50e-6, 0.0))
    few = [k for k, number in enumerate(counts) if number <= 20]
    slope = float(np.polyfit([counts[k] for k in few], [without[k] for k in few], 1)[0])
    measured.append(
        Measurement(
            "mean queue without scaling, 1 to 20 flows: growth per flow",
            slope / (1e6 * TIME),
            "packets",
            note="the mean of the limit cycle is 1/3",
        )
    )
    growth = log(with_it[-1] / with_it[0]) / log(counts[-1] / counts[0])
    measured.append(Measurement("exponent of the mean queue in packet runs, 1 to 500 flows", growth))
    title = "Queue of Swift over the number of flows"
    figure = plot.boundary_figure(
        np.array(counts, dtype=float),
        {"equilibrium": waits},
        {
            "scaling with the root of the number": [
                1e6 * (p.base_target + p.fs_beta - RTT) + (waits[0] - 1e6 * (p.base_target + p.fs_beta - RTT)) * sqrt(n)
                for n in counts
            ]
        },
        {"packet runs, mean": (counts, with_it, None), "packet runs without scaling, mean": (counts, without, None)},
        "flows",
        "queue [us]",
        title=title,
        log_y=True,
    )
    holds = min(exponents) > 0.45
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.CONDITIONAL,
        f"The window-dependent part of the target grows with exponent 1/(2 (1 + kappa)), kappa = a/sqrt(W)/(2 D). The "
        "exponent is 1/2 if the constant part of the target dominates and falls to 1/3; here it is "
        f"{max(exponents):.2f} to {min(exponents):.2f}. Below fs_min_cwnd the growth ends.",
        measured,
        [Picture.of(figure, title, "The base target allows for 10 us of queue.")],
        [RUNS],
    )


@check("swift-target", cost=2)
def swift_target(claim: Claim) -> Finding:
    """Compare the mean queue of packet runs with the equilibrium and with the limit cycle."""
    measured, ratios = [], {}
    for number in (1, 2, 5, 10, 20, 50, 100, 200, 500):
        wait, steepness = rest(swift(), flows_of(number))
        mean, smallest, largest, _ = _packets(number)
        ratios[number] = mean / (1e6 * wait)
        window = (RTT + wait) / (number * TIME)
        cycle = target_cycle(0.8, steepness)
        unit = 1e6 * number * TIME
        prediction = (
            ""
            if cycle is None or window < 1.0
            else (
                f"; cycle: {1e6 * wait + cycle.mean * unit:.1f}, {1e6 * wait + cycle.least * unit:.1f} to "
                f"{1e6 * wait + cycle.largest * unit:.1f}"
            )
        )
        measured.append(
            Measurement(
                f"mean queue, {number} flows",
                mean,
                "us",
                reported=1e6 * wait,
                met=abs(ratios[number] - 1.0) < 0.1,
                note=f"windows of {window:.2g} packets; {smallest:.1f} to {largest:.1f}{prediction}",
            )
        )
    good = [number for number, ratio in ratios.items() if abs(ratio - 1.0) < 0.1]
    verdict = Verdict.CONFIRMED if len(good) == len(ratios) else Verdict.CONDITIONAL if good else Verdict.REFUTED
    return Finding(
        claim,
        verdict,
        f"The mean queue is within 10 % of the target with up to {max(good)} flows. Like the mean of the limit cycle, "
        "it exceeds the target by about 0.3 packets per flow. This is "
        f"{min(r for n, r in ratios.items() if n > max(good)) - 1:.0%} to {max(ratios.values()) - 1:.0%} if windows "
        "are about a packet or less.",
        measured,
        (),
        [RUNS],
    )


@check("swift-cut", cost=1)
def swift_cut(claim: Claim) -> Finding:
    """Compare the limit cycle of many flows over beta with packet runs, and with one flow of the same fluid."""
    split, number = 10, 10
    wait, steepness = rest(swift(split), flows_of(number, split))
    unit = number * TIME
    betas = (0.2, 0.3, 0.4, 0.5, 0.7, 0.8, 0.9, 1.0)
    measured, swings = [], {}
    for beta in betas:
        waits, _ = second_half(swift(split, beta=beta), flows_of(number, split), 6e-3)
        swings[beta] = ((waits.min() - wait) / unit, (waits.max() - wait) / unit)
    alone, _ = second_half(swift(split * number), Network.dumbbell(CAPACITY, [RTT], packet_size=PACKET // split), 6e-3)
    swing_of_one = float(np.ptp(alone)) / unit
    cycle = target_cycle(0.8, steepness)
    assert cycle is not None
    lowest, largest = swings[0.8]
    measured += [
        Measurement(
            "swing of 10 flows, beta = 0.8",
            largest - lowest,
            "packets per flow",
            reported=0.0,
            note=f"limit cycle {cycle.largest - cycle.least:.2f}",
            met=largest - lowest < 0.25,
        ),
        Measurement(
            "swing of one flow of the same fluid",
            swing_of_one,
            "packets per flow",
            reported=0.0,
            met=swing_of_one < 0.25,
        ),
        Measurement(
            "swing of 10 flows, beta = 0.3",
            swings[0.3][1] - swings[0.3][0],
            "packets per flow",
            reported=0.0,
            note="no limit cycle",
            met=swings[0.3][1] - swings[0.3][0] < 0.25,
        ),
    ]
    grid = np.linspace(0.2, 1.0, 81)
    cycles = [target_cycle(float(beta), steepness) for beta in grid]
    limit = float(next(beta for beta, target_swing in zip(grid, cycles, strict=True) if target_swing is not None))
    title = "Swing of ten flows of Swift over beta"
    figure = plot.boundary_figure(
        grid,
        {
            "limit cycle, maximum": [target_swing.largest if target_swing else np.nan for target_swing in cycles],
            "limit cycle, minimum": [target_swing.least if target_swing else np.nan for target_swing in cycles],
        },
        None,
        {
            "packet runs, maximum": (betas, [swings[b][1] for b in betas], None),
            "packet runs, minimum": (betas, [swings[b][0] for b in betas], None),
        },
        "beta",
        "queue - q* [packets per flow]",
        title=title,
        log_x=False,
    )
    swings_of_many, steady_alone = largest - lowest > 0.5, swing_of_one < 0.25
    verdict = Verdict.CONDITIONAL if swings_of_many and steady_alone else Verdict.CONFIRMED
    return Finding(
        claim,
        verdict,
        f"One flow does not overreact, but ten flows do: each cuts once per RTT, at a different time, for a delay that "
        f"other flows have already reduced. The queue swings by {largest - lowest:.1f} packets per flow, like the "
        f"limit cycle, which exists for beta above {limit:.2f}.",
        measured,
        [Picture.of(figure, title, f"RTT {1e6 * (RTT + wait):.1f} us with the queue, kappa {steepness:.2f}")],
        ["Packets of 400 bytes and ai = 10, so that granularity is a tenth of the measured swings; " + RUNS],
    )


@check("swift-fair", cost=2, main=False)
def swift_fair(claim: Claim) -> Finding:
    """Measure convergence to fair shares with and without scaling, and shares for small windows and for two RTTs."""
    measured, pace = [], {}
    for name, span in (("with", 50e-6), ("without", 0.0)):
        starts = [3e-6 * k + 5e-4 * (k // 5) for k in range(10)]
        network = Network.dumbbell(CAPACITY, [RTT] * 10, packet_size=PACKET, starts=starts)
        run = packet.simulate(Scenario(network, swift(fs_range=span), 4e-3), sample=5e-5)
        pace[name] = _pace(run)
        if span > 0.0:
            wait, steepness = rest(swift(), network)
            base = RTT + wait
        else:
            base, steepness = 20e-6, 0.0
        cycle = target_cycle(0.8, steepness)
        assert cycle is not None
        gained = (cycle.largest - cycle.least) / (base / (10 * TIME))  # relative to the window
        falling = cycle.period - (cycle.largest - cycle.least)
        prediction = cycle.period * base / (gained + 0.8 * steepness * falling)
        measured.append(
            Measurement(
                f"time constant of convergence of 5 early and 5 late flows {name} scaling",
                1e3 * pace[name],
                "ms",
                note=f"limit cycle: {1e3 * prediction:.2f} ms",
            )
        )
    for number in (20, 500):
        both = _packets(number)[3], _packets(number, 0.0)[3]
        measured.append(
            Measurement(
                f"Jain's index, {number} flows",
                both[0],
                reported=1.0,
                note=f"without scaling {both[1]:.2f}",
                met=both[0] > 0.9,
            )
        )
    shares = []
    for longer in (15e-6, 40e-6):
        network = Network.dumbbell(CAPACITY, [RTT, longer], packet_size=PACKET, starts=[0.0, 3e-6])
        run = packet.simulate(Scenario(network, swift(), 0.02), sample=1e-4)
        got = run.goodput[100:].mean("time").to_numpy()
        point = swift().equilibrium(network)
        shares.append(float(got[1] / got.sum()))
        measured.append(
            Measurement(
                f"share of a flow with an RTT of {1e6 * longer:g} us against a flow of 10 us",
                shares[-1],
                reported=0.5,
                note=f"at equilibrium {point.rates[1] / point.rates.sum():.3f}",
                met=shares[-1] > 0.25,
            )
        )
    equal = _packets(20)[3] > 0.99 and _packets(500)[3] > 0.9 > _packets(500, 0.0)[3] and pace["with"] < pace["without"]
    return Finding(
        claim,
        Verdict.REFUTED if not equal else Verdict.CONDITIONAL if min(shares) < 0.25 else Verdict.CONFIRMED,
        f"On equal paths, flow scaling makes shares fair {pace['without'] / pace['with']:.1f} times as fast as the "
        "limit cycle alone, and windows below a packet need it. With equal targets on paths of different length it "
        "disadvantages the longer path: 5 us more leave a share of a twentieth.",
        measured,
        (),
        [RUNS],
    )


def _pace(run: Trajectory) -> float:
    """Return the time constant of the difference between early and late flows while it falls from 0.7 to 0.1 [s]."""
    rates, time = run.rate.to_numpy(), run.rate.time.to_numpy()
    apart = (rates[:, :5].sum(axis=1) - rates[:, 5:].sum(axis=1)) / rates.sum(axis=1)
    begin = int(np.flatnonzero((apart < 0.7) & (time > 5.5e-4))[0])
    end = begin + int(np.flatnonzero(apart[begin:] < 0.1)[0])
    return float(-1.0 / np.polyfit(time[begin:end], np.log(apart[begin:end]), 1)[0])


# ---- the integer division ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class WholePackets(Swift):
    """Swift with a target computed from the window rounded down to whole packets."""

    def flow_hooks(self) -> dict[str, Hook]:
        return super().flow_hooks() | {"on_ack": _on_ack_in_whole_packets}


def _on_ack_in_whole_packets(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    if windows.opens(flow, env):
        s = 1.0 * env.packet_size
        flow.timeouts = 0
        rounded = float(int(env.window / s))  # for 0 the inverse of the root is infinite; it is clipped
        hops = p.hop_scaling * header.links
        aim = target(rounded * s, hops, s, p) if rounded > 0.0 else p.base_target + hops + p.fs_range
        if env.rtt < aim:
            send_with(env.window + grown(env.acked, env.window, s, p), p, env)
        elif env.now - flow.decreased >= env.rtt:
            flow.decreased = env.now
            send_with(cut(env.window, env.rtt, aim, p), p, env)


@check("swift-integer", cost=2, main=False)
def swift_integer(claim: Claim) -> Finding:
    """Compare queues and shares with htsim's parameters for the law and for its version with whole packets."""
    parameters: dict[str, Any] = {
        "base_target": 20e-6,
        "hop_scaling": 20e-6 / 6.55,
        "fs_range": 100e-6,
        "fs_min_cwnd": 0.1,
        "fs_max_cwnd": 100.0,
        "min_cwnd": 0.1,
    }
    measured, off = [], {}
    for number in (20, 100, 200, 300):
        network = flows_of(number)
        (law, law_index), (rounded, whole_index) = (
            second_half(kind(**parameters), network) for kind in (Swift, WholePackets)
        )
        wait, _ = rest(Swift(**parameters), network)
        off[number] = float(rounded.mean() / law.mean()) - 1.0
        measured.append(
            Measurement(
                f"mean queue with whole packets, {number} flows",
                1e6 * float(rounded.mean()),
                "us",
                reported=1e6 * float(law.mean()),
                met=abs(off[number]) < 0.1,
                note=f"Jain's index {whole_index:.2f}, with the law {law_index:.2f}; equilibrium of the law "
                f"{1e6 * wait:.1f} us",
            )
        )
    wrong = max(off.values(), key=abs)
    p = Swift(**parameters).namespace()
    window_target = p.base_target + p.hop_scaling + p.fs_alpha + p.fs_beta
    max_target = p.base_target + p.hop_scaling + p.fs_range
    measured += [
        Measurement(
            "target of a window just below one packet, whole packets",
            1e6 * max_target,
            "us",
            reported=1e6 * window_target,
        ),
        Measurement(
            "numbers of flows with windows stuck at one packet",
            f"{window_target / TIME:.0f} to {max_target / TIME:.0f}",
            note="the queue grows with the number of flows, not its root",
        ),
    ]
    return Finding(
        claim,
        Verdict.REFUTED if abs(wrong) > 0.1 else Verdict.CONFIRMED,
        f"With whole packets the mean queue changes by {wrong:+.0%} for {max(off, key=lambda n: abs(off[n]))} flows: "
        "below one packet the target jumps to its maximum, and between whole packets it is constant.",
        measured,
        (),
        [
            "htsim's parameters: base 20 us, 20/6.55 us per link, range 100 us, windows from 0.1 to 100 packets. "
            "Packets "
            "of "
            "4 kB at 100 Gb/s, RTTs of 10 us without queues, 10 ms, the second half, one seed."
        ],
    )


# ---- the median of several delays ----------------------------------------------------------------------------

MAX_DELAYS = 33
"""Maximum number of delays for the median."""


@dataclass
class _MedianState:
    delivered: float = 0.0  # [bytes]
    decreased: float = 0.0  # time of the last cut [s]
    at: int = 0
    delays: tuple[float, ...] = (0.0,) * MAX_DELAYS


@dataclass(frozen=True)
class MedianSwift(NSCC):
    """Swift's law with NSCC's per-packet ACKs; the law compares the median of recent delays with the target.

    Parameters
    ----------
    last : int, odd
        Number of delays for the median, for example 9.
    line_rate, network_rtt, base_rtt, trimming, target, alpha, fair, eta, gamma, delay_gain, fast, quick_adapt
        Parameters of `NSCC`, without effect here.
    """

    last: int = 1

    FlowState = _MedianState  # type: ignore[assignment]
    ecn_echo = None  # type: ignore[assignment]  # the law uses only delays

    def params(self) -> dict[str, float]:
        return {"last": float(self.last), **swift().params()}

    def flow_hooks(self) -> dict[str, Hook]:
        return {"on_start": _on_start, "on_ack": _on_ack_of_each}


def _median(delays: Any, last: int) -> float:
    """Return the median of the last delays."""
    for k in range(last):
        below, same = 0, 0
        for m in range(last):
            if delays[m] < delays[k]:
                below += 1
            elif delays[m] == delays[k]:
                same += 1
        if below <= last // 2 < below + same:
            return float(delays[k])
    return float(delays[0])


def _on_start(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    env.window = 10.0 * env.packet_size


def _on_ack_of_each(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    acked = env.delivered - flow.delivered
    flow.delivered = 1.0 * env.delivered
    last = int(p.last)
    flow.delays[flow.at] = env.rtt
    flow.at = (flow.at + 1) % last
    delay = _median(flow.delays, last)
    s = 1.0 * env.packet_size
    aim = target(env.window, 0.0, s, p)
    if delay < aim:
        env.window += grown(acked, env.window, s, p)
    elif env.now - flow.decreased >= delay:
        flow.decreased = env.now
        env.window = max(cut(env.window, delay, aim, p), s)


@check("swift-median", cost=3, main=False)
def swift_median(claim: Claim) -> Finding:
    """Run a flow over several links, some of them longer, with the last delay and with medians of delays."""
    measured, used = [], {}
    for routes, long, lasts in ((4, 1, (1, 9, 33)), (4, 2, (1, 33)), (16, 1, (1, 9))):
        links = [Link(CAPACITY, 2.5e-6 + 20e-6 * (k >= routes - long)) for k in range(routes)]
        flow = Flow(
            route=[0],
            alternatives=[[k] for k in range(1, routes)],
            packet_size=PACKET,
            access_delay=2.5e-6,
            reordering_threshold=255,
            spraying="random",
        )
        for last in lasts:
            scenario = Scenario(Network(links=links, flows=[flow]), MedianSwift(last=last), 0.01)
            run = packet.simulate(scenario, sample=1e-4)
            got, capacity = float(run.goodput[50:].mean()) / 1e9, routes * CAPACITY / 1e9
            used[routes, long, last] = got / capacity
            measured.append(
                Measurement(
                    f"goodput, {long} of {routes} paths 20 us longer, median of {last}",
                    got,
                    "Gb/s",
                    reported=capacity if last > 1 else None,
                    met=got > 0.5 * capacity if last > 1 else None,
                )
            )
    medians = {key: share > 0.5 for key, share in used.items() if key[2] > 1}
    helps = list(medians.values())
    return Finding(
        claim,
        Verdict.CONFIRMED if all(helps) else Verdict.CONDITIONAL if any(helps) else Verdict.REFUTED,
        f"If one of 16 paths is longer, a median of 9 delays raises utilization from {used[16, 1, 1]:.0%} to "
        f"{used[16, 1, 9]:.0%}. If one of four is longer, a median of 9 raises it from {used[4, 1, 1]:.0%} to only "
        f"{used[4, 1, 9]:.0%}, because 5 of 9 delays are late one time in 20; a median of 33 raises it to "
        f"{used[4, 1, 33]:.0%}. If two of four are longer, utilization with a median of 33 is {used[4, 2, 33]:.0%}.",
        measured,
        (),
        [
            "Links of 100 Gb/s, routes at random, RTTs of 10 us, packets of 4 kB, each acknowledged separately; 10 ms, "
            "the "
            "second half, one seed."
        ],
    )


# ---- the map over RTT and flows ------------------------------------------------------------------------------


@check("swift-region", cost=4)
def swift_region(claim: Claim) -> Finding:
    """Compute the RTTs at which the limit cycle empties the queue, and packet runs on both sides."""
    counts = (2, 5, 10, 20, 50, 100)
    split, protocol = 10, swift()
    targets, limits, measured, busy, idle = [], [], [], [], []
    inside: tuple[list[float], list[float]] = ([], [])
    outside: tuple[list[float], list[float]] = ([], [])
    for number in counts:
        wait, steepness = rest(protocol, flows_of(number))
        cycle = target_cycle(0.8, steepness)
        assert cycle is not None
        targets.append(1e6 * (RTT + wait))
        limits.append(targets[-1] + 1e6 * cycle.least * number * TIME)
        for share in (0.5, 0.95, 1.25):
            rtt = share * limits[-1]
            run = packet.simulate(Scenario(flows_of(number, split, 1e-6 * rtt), swift(split), 6e-3), sample=1e-4)
            used = float(run.goodput[30:].sum("flow").mean()) / CAPACITY
            for values, value in zip(inside if used > 0.99 else outside, (float(number), rtt), strict=True):
                values.append(value)
            if share < 1.0:
                busy.append(used > 0.99)
            elif rtt > targets[-1]:
                idle.append(used < 0.99)
            measured.append(
                Measurement(
                    f"use of the link, {number} flows, RTT {rtt:.1f} us",
                    used,
                    "of C",
                    note=f"{share:g} of the RTT at which the cycle empties the queue; target {targets[-1]:.1f} us",
                    reported=1.0 if rtt < targets[-1] else None,
                    met=used > 0.99 if rtt < targets[-1] else None,
                )
            )
    title = "RTTs for which Swift keeps a link busy"
    x = np.array(counts, dtype=float)
    figure = plot.boundary_figure(
        x,
        {"limit cycle empties the queue": limits, "target": targets},
        None,
        {"packet runs, link busy": (*inside, None), "packet runs, link idle at times": (*outside, None)},
        "flows",
        "RTT without queue [us]",
        title=title,
        log_y=False,
    )
    holds = all(busy) and all(idle)
    return Finding(
        claim,
        Verdict.CONDITIONAL if holds else Verdict.REFUTED,
        "Packet runs keep the link busy if the RTT is below the target by the downward swing of the limit cycle, here "
        f"{targets[0] - limits[0]:.1f} to {targets[-1] - limits[-1]:.1f} us, and leave it idle at times for RTTs above "
        "the target. The cycle exists at any RTT.",
        measured,
        [Picture.of(figure, title, "beta = 0.8, base target 20 us, range 50 us")],
        ["Packets of 400 bytes and ai = 10; " + RUNS],
    )
