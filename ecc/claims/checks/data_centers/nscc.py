"""Checks of claims on NSCC: equilibria, stability over flows and RTTs, cycles, shares, noise, spraying."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc import fluid, packet
from ecc.claims.ledger import Claim, Finding, Measurement, Verdict, check
from ecc.contract.assignment import read_protocol
from ecc.linear import DelaySystem
from ecc.loops.closed_loop import linearize
from ecc.loops.marked_hosts import MarkingEquilibrium, equilibrium_of_marks
from ecc.models import NSCC, ConstantRate, Protocol
from ecc.network.impairments import Jitter
from ecc.network.network import Flow, Link, Network
from ecc.queues import RampMarking, Trimming
from ecc.results.metrics import jain_index
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario

FloatArray = NDArray[np.float64]

C, T, S = 100e9, 12e-6, 4096
"""Reference rate [bit/s] and RTT [s] of the constants of NSCC, and packet size [bytes]."""
TARGET = 0.75
"""Target delay, share of T."""
LONG = 4.0 * T
SETUP = "100 Gb/s, packets of 4096 bytes, links that mark from 20 to 80 % of the bandwidth-delay product (BDP)."


def marking(rtt: float = T, low: float = 0.2, high: float = 0.8, parts: int = 1) -> RampMarking:
    """Return the marking of Ultra Ethernet with thresholds as shares of the bandwidth-delay product.

    Parameters
    ----------
    rtt : float, s, optional
    low, high : float, optional
    parts : int, optional
        Number of small packets that replace a packet of 4096 bytes.
    """
    packets = parts * C * rtt / (8 * S)
    return RampMarking(packet_size=S // parts, min_threshold=low * packets, max_threshold=high * packets)


def dumbbell(rtts: Sequence[float], parts: int = 1) -> Network:
    """Return one link of 100 Gb/s with flows that start at random times within a millisecond.

    Parameters
    ----------
    rtts : sequence of float, s
    parts : int, optional
    """
    starts = np.random.default_rng(1).uniform(0.0, 1e-3, len(rtts))
    return Network.dumbbell(C, list(rtts), packet_size=S // parts, starts=starts.tolist())


def linear(
    flows: int, rtt: float = T, high: float = 0.8, trimming: bool = True
) -> tuple[MarkingEquilibrium, DelaySystem]:
    """Return the equilibrium and the ACK-clocked linear model.

    Parameters
    ----------
    flows : int
    rtt : float, s, optional
    high : float, optional
        Queue above which all packets are marked, share of the bandwidth-delay product.
    trimming : bool, optional
        True for the target of links that trim, 3/4 of the RTT; false for the target of other links, the RTT.
    """
    network = Network.dumbbell(C, [rtt] * flows, packet_size=S)
    pair = {"flows": NSCC(C, rtt, trimming=trimming), "links": marking(rtt, 0.2, high)}
    point = equilibrium_of_marks(read_protocol(pair).deploy(network), network)  # type: ignore[union-attr]
    return point, linearize(pair, network, clocking="ack")  # type: ignore[return-value]


class Late(NamedTuple):
    """Second half of a run: queue [BDP], its period [RTTs], utilization of the link, and Jain's index."""

    mean: float
    deviation: float
    minimum: float
    largest: float
    period: float
    used: float
    fairness: float


def late(run: Trajectory, rtt: float) -> Late:
    """Return the statistics of the second half of a run.

    Parameters
    ----------
    run : Trajectory
    rtt : float, s
    """
    half = len(run.queue) // 2
    queue = run.queue[half:, 0].to_numpy() * 8 / (C * rtt)
    got = run.goodput[half:].mean("time").to_numpy()
    step = float(run.data["time"][1] - run.data["time"][0])
    power = np.abs(np.fft.rfft((queue - queue.mean()) * np.hanning(len(queue)))) ** 2
    period = len(queue) * step / rtt / max(int(power[2:].argmax()) + 2, 1)
    jain = float(jain_index(got))
    swing = (float(queue.mean()), float(queue.std()), float(queue.min()), float(queue.max()))
    return Late(*swing, period, float(got.sum() / C), jain)


def equal_flows(flows: int, rtt: float, duration: float, start: str, trimming: bool = True) -> Trajectory:
    """Return a fluid run of flows that start together, near the equilibrium or with empty queues.

    Parameters
    ----------
    flows : int
    rtt : float, s
    duration : float, RTTs
    start : str
        Initial state, "equilibrium" (1 % off) or "empty".
    trimming : bool, optional
        True for the target of links that trim.
    """
    network = Network.dumbbell(C, [rtt] * flows, packet_size=S)
    pair = {"flows": NSCC(C, rtt, trimming=trimming), "links": marking(rtt)}
    scenario = Scenario(network, pair, duration * rtt)
    perturbed = {"perturbation": 0.01} if start == "equilibrium" else {}
    return fluid.simulate(scenario, sample=rtt / 200, start=start, **perturbed)  # type: ignore[arg-type]


class Returns(NamedTuple):
    """Minimum and maximum queue of the last cycle [BDP], its period [RTTs], and the multiplier of convergence."""

    minimum: float
    largest: float
    period: float
    multiplier: float


def returns(run: Trajectory, rtt: float) -> Returns:
    """Return the convergence of a run to its cycle: (m_{k+2} - m_{k+1})/(m_{k+1} - m_k) for mean queues m_k of turns.

    Near a cycle this ratio is the largest multiplier. The median is over turns that differ by 1e-5 to 3e-3 BDP, more
    than the error of the fluid's grid, a 200th of an RTT.

    Parameters
    ----------
    run : Trajectory
        Run sampled at the grid of the fluid.
    rtt : float, s
    """
    queue = run.queue[:, 0].to_numpy() * 8 / (C * rtt)
    level = queue[len(queue) // 2 :].mean()
    rises = np.flatnonzero((queue[1:] >= level) & (queue[:-1] < level)) + 1
    turns = [queue[begin:end] for begin, end in zip(rises[:-1], rises[1:], strict=True)]
    moves = np.diff([float(turn.mean()) for turn in turns])
    near = (np.abs(moves[:-1]) < 3e-3) & (np.abs(moves[1:]) > 1e-5)
    ends = np.flatnonzero(near)[-10:]
    multiplier = float(np.median(moves[ends + 1] / moves[ends]))
    last, period = turns[-1], float(np.mean(np.diff(rises)[-20:])) / 200.0
    return Returns(float(last.min()), float(last.max()), period, multiplier)


@check("nscc-target", cost=2, main=False)
def nscc_target(claim: Claim) -> Finding:
    """Compare the queue at equilibrium and the mean queue of packet runs with the target."""
    measured, near = [], []
    for flows in (2, 8, 16, 32):
        rest = float(linear(flows)[0].queues[0] / (C * T)) / TARGET
        pair = {"flows": NSCC(C, T), "links": marking()}
        mean = late(packet.simulate(Scenario(dumbbell([T] * flows), pair, 2000 * T + 1e-3), sample=T / 4), T).mean
        near.append(abs(rest - 1.0) < 0.1 and abs(mean / TARGET - 1.0) < 0.1)
        measured += [
            Measurement(f"queue of the equilibrium, {flows} flows", rest, "D", reported=1.0, met=abs(rest - 1.0) < 0.1),
            Measurement(
                f"mean queue of packet runs, {flows} flows",
                mean / TARGET,
                "D",
                reported=1.0,
                met=abs(mean / TARGET - 1.0) < 0.1,
            ),
        ]
    return Finding(
        claim,
        Verdict.CONFIRMED if all(near) else Verdict.CONDITIONAL if any(near) else Verdict.REFUTED,
        "The queue is within 10 % of the target for few flows. With many flows it is larger, because additive steps "
        "have a fixed size but cuts shrink with the windows.",
        measured,
        (),
        [SETUP + " RTTs of 12 us without queues; one seed."],
    )


@check("nscc-equal", cost=4, main=False)
def nscc_equal(claim: Claim) -> Finding:
    """Compute shares of two groups of flows with equal and different RTTs, measured by hosts or known to them."""
    measured: list[Measurement] = []
    equal: list[bool] = []
    unequal: list[bool] = []
    for short in (12e-6, 6e-6):
        network = dumbbell([short] * 8 + [T] * 8)
        known = {"0-7": NSCC(base_rtt=short), "default": NSCC()}
        for name, engine, hosts, duration in (
            ("RTT measured", packet, NSCC(), 0.04),
            ("RTT known", packet, known, 0.04),
            ("fluid", fluid, NSCC(), 6e-3),
        ):
            scenario = Scenario(network, {"flows": hosts, "links": marking()}, duration)
            run = engine.simulate(scenario, sample=1e-4)
            got = run.goodput[len(run.goodput) // 2 :].mean("time").to_numpy()
            ratio = float(got[:8].sum() / got[8:].sum())
            near = abs(ratio - 1.0) < 0.2
            if name != "fluid":
                (equal if short == T else unequal).append(near)
            title = f"goodput of flows of {1e6 * short:g} us over that of flows of 12 us, {name}"
            measured.append(Measurement(title, ratio, reported=1.0, met=near))
    holds = all(equal)
    return Finding(
        claim,
        Verdict.CONFIRMED if holds and all(unequal) else Verdict.CONDITIONAL if holds else Verdict.REFUTED,
        "With equal RTTs shares are equal. A host that starts at a standing queue mistakes part of it for its path, "
        "measures less delay, and gets a larger share. The effect grows with the difference between its RTT and the "
        "longest RTT.",
        measured,
        (),
        [SETUP + " Eight flows of each RTT, starting at random times within 1 ms; 40 ms, the second half."],
    )


def min_stable(rtt: float, trimming: bool = True) -> int:
    """Return a number of flows between 8 and 64 at which the linear model is stable, but unstable with one flow less.

    Parameters
    ----------
    rtt : float, s
    trimming : bool, optional
        True for the target of links that trim.
    """
    low, up = 8, 64  # with 8 flows, all RTTs from 6 to 100 us are unstable
    while up - low > 1:
        middle = (low + up) // 2
        low, up = (low, middle) if linear(middle, rtt, trimming=trimming)[1].is_stable else (middle, up)
    return up


@check("nscc-stable", cost=6, main=False)
def nscc_stable(claim: Claim) -> Finding:
    """Compute the minimum number of flows for stability, with proofs for several RTTs, and runs on both sides."""
    measured, proven, limits = [], True, {}
    for rtt, trimming in (*((rtt, True) for rtt in (6e-6, 12e-6, 24e-6, 48e-6, 100e-6)), (T, False), (LONG, False)):
        flows = limits[rtt, trimming] = min_stable(rtt, trimming)
        verdicts = [linear(number, rtt, trimming=trimming)[1].certify().stable for number in (flows - 1, flows)]
        both = verdicts == [False, True]
        proven &= both
        target = "3/4 of the RTT, links that trim" if trimming else "the RTT, links that do not trim"
        measured.append(
            Measurement(
                f"minimum number of flows for stability, RTT {1e6 * rtt:g} us, target {target}",
                flows,
                reported=1.0,
                met=False,
                note="proven on both sides" if both else "not proven",
            )
        )
    few = {number: linear(number, 6e-6)[1].certify().stable for number in (3, 4, 5, 6, 7)}
    proven &= few == {3: False, 4: True, 5: True, 6: True, 7: False}
    measured.append(
        Measurement(
            "stability with 3 to 7 flows, RTT 6 us, links that trim: only 4, 5 and 6 flows are stable",
            str(list(few.values())),
            note="proven",
        )
    )
    parts, swings = 8, {}
    fine = NSCC(C, T, alpha=4.0 * parts, fair=5.0 * parts, eta=0.15 * parts, delay_gain=0.0125 / parts)
    for flows in (8, 24):
        fluids = late(equal_flows(flows, T, 500, "equilibrium"), T).deviation
        pair = {"flows": fine, "links": marking(parts=parts)}
        scenario = Scenario(dumbbell([T] * flows, parts), pair, 800 * T + 1e-3)
        grains = late(packet.simulate(scenario, sample=T / 4), T)
        swings[flows] = fluids, grains.deviation
        measured += [
            Measurement(f"deviation of the queue, fluid from near the equilibrium, {flows} flows", fluids, "BDP"),
            Measurement(
                f"deviation of the queue, packets of 512 bytes, {flows} flows",
                grains.deviation,
                "BDP",
                note=f"period {grains.period:.1f} RTTs",
            ),
        ]
    both_sides = proven and swings[8][0] > 0.01 > 1e-4 > swings[24][0]
    return Finding(
        claim,
        Verdict.CONDITIONAL if both_sides else Verdict.REFUTED,
        f"The fluid model is provably stable with at least {limits[12e-6, True]} flows at 12 us and "
        f"{limits[100e-6, True]} flows at 100 us, and at 6 us also with 4 to 6 flows. With fewer flows the queue is on "
        "the ramp of marks, which ends just above the target, and the average of 80 ACKs adds delay. If links do not "
        f"trim, the target is the RTT, and at 12 us at least {limits[T, False]} flows are stable. Packet runs also "
        f"oscillate with more flows: the queue of 24 flows has a standard deviation of {swings[24][1]:.2f} BDP for any "
        "packet size.",
        measured,
        (),
        [
            SETUP + " For small packets, steps and the weight of an ACK in the average are scaled to keep the same "
            "fluid."
        ],
    )


@check("nscc-few", cost=2, main=False)
def nscc_few(claim: Claim) -> Finding:
    """Compute the cycle around an unstable equilibrium: its size and the multiplier of convergence to it."""
    measured, cycles = [], []
    for rtt, flows, start in ((T, 8, "equilibrium"), (T, 8, "empty")):
        cycle = returns(equal_flows(flows, rtt, 600, start), rtt)
        cycles.append(cycle)
        where = f"{flows} flows, {1e6 * rtt:g} us, " + (
            "started together" if start == "empty" else "near the equilibrium"
        )
        measured += [
            Measurement(
                f"queue, {where}",
                f"{cycle.minimum:.3f} to {cycle.largest:.3f}",
                "BDP",
                reported="no cycle",
                note=f"period {cycle.period:.2f} RTTs",
                met=cycle.largest - cycle.minimum < 0.01,
            ),
            Measurement(f"largest multiplier, {where}", cycle.multiplier, note="from convergence to the cycle"),
        ]
    stable = all(abs(cycle.multiplier) < 1.0 and cycle.largest - cycle.minimum > 0.01 for cycle in cycles)
    return Finding(
        claim,
        Verdict.REFUTED if stable else Verdict.CONFIRMED,
        "A stable cycle exists: with 8 flows at 12 us its largest multiplier is "
        f"{cycles[0].multiplier:.2f}, estimated from runs that start inside, and {cycles[1].multiplier:.2f} from runs "
        "that start outside. The link stays busy.",
        measured,
        (),
        [SETUP + " Fluid; 600 RTTs."],
    )


@check("nscc-large", cost=6, main=False)
def nscc_large(claim: Claim) -> Finding:
    """Compute a certificate for 40 flows at 48 us, and runs that start near the equilibrium or with empty queues."""
    flows, rtt = 40, LONG
    certificate = linear(flows, rtt, trimming=False)[1].certify()
    near = late(equal_flows(flows, rtt, 600, "equilibrium", False), rtt)
    run = equal_flows(flows, rtt, 1000, "empty", False)
    far, cycle = late(run, rtt), returns(run, rtt)
    network = Network.dumbbell(C, [rtt] * flows, packet_size=S)
    pair = {"flows": NSCC(C, rtt, trimming=False), "links": marking(rtt)}
    packets = late(packet.simulate(Scenario(network, pair, 1000 * rtt), sample=rtt / 4), rtt)
    short = late(equal_flows(24, T, 1000, "empty", False), T)
    measured = [
        Measurement("equilibrium, 40 flows, 48 us", "stable" if certificate.stable else "not stable", note="proven"),
        Measurement(
            "deviation of the queue, fluid from near the equilibrium",
            near.deviation,
            "BDP",
            reported=0.0,
            met=near.deviation < 0.01,
        ),
        Measurement(
            "deviation of the queue, fluid started together",
            far.deviation,
            "BDP",
            reported=0.0,
            note=f"{far.minimum:.2f} to {far.largest:.2f}",
            met=far.deviation < 0.01,
        ),
        Measurement("period of that cycle", cycle.period, "RTTs"),
        Measurement("largest multiplier of that cycle", cycle.multiplier, note="from convergence to the cycle"),
        Measurement(
            "deviation of the queue, packets started together",
            packets.deviation,
            "BDP",
            reported=0.0,
            note=f"{packets.minimum:.2f} to {packets.largest:.2f}",
            met=packets.deviation < 0.2,
        ),
        Measurement(
            "deviation of the queue, fluid started together, 24 flows, 12 us",
            short.deviation,
            "BDP",
            reported=0.0,
            met=short.deviation < 0.01,
        ),
    ]
    coexist = certificate.stable is True and near.deviation < 0.01 and far.deviation > 0.5 and packets.deviation > 0.5
    return Finding(
        claim,
        Verdict.REFUTED if coexist else Verdict.CONFIRMED,
        f"At 48 us a large cycle coexists with the equilibrium, which is proven stable: the queue swings between "
        f"{far.minimum:.1f} and {far.largest:.1f} BDP. The cycle is stable, too: its largest multiplier is "
        f"{cycle.multiplier:.2f}, with a period of {cycle.period:.1f} RTTs. At 12 us no such cycle exists.",
        measured,
        (),
        [SETUP + " Unlimited queues, links that do not trim: the target is the RTT. 1000 RTTs, the second half."],
    )


@check("nscc-trim", cost=3, main=False)
def nscc_trim(claim: Claim) -> Finding:
    """Run packets over links that trim at one bandwidth-delay product, for a short and a long RTT."""
    measured, steady = [], []
    for rtt, flows in ((T, 24), (LONG, 8), (LONG, 40)):
        product = C * rtt / 8
        network = dumbbell([rtt] * flows)
        network = network.with_flows([replace(flow, trimmed_size=64) for flow in network.flows])
        pair = {"flows": NSCC(C, rtt), "links": Trimming(product, 0.2 * product, 0.8 * product)}
        run = packet.simulate(Scenario(network, pair, 1500 * rtt + 1e-3), sample=rtt / 4)
        statistics = late(run, rtt)
        steady.append(statistics.deviation < 0.15 and statistics.used > 0.99 and statistics.largest < 1.05)
        lost = float(run.flows["lost"].sum() / (run.flows["lost"] + run.flows["delivered"]).sum())
        measured.append(
            Measurement(
                f"mean queue, {flows} flows, {1e6 * rtt:g} us",
                statistics.mean,
                "BDP",
                reported=TARGET,
                met=steady[-1],
                note=f"{statistics.minimum:.2f} to {statistics.largest:.2f}; {statistics.used:.1%} used, "
                f"{lost:.1%} trimmed",
            )
        )
    return Finding(
        claim,
        Verdict.CONFIRMED if all(steady) else Verdict.CONDITIONAL if any(steady) else Verdict.REFUTED,
        "The queue stays between a half and a whole bandwidth-delay product, and the link stays busy. At the long RTT "
        "the queue swings by several products without trimming (nscc-large)."
        if all(steady)
        else "The queue exceeds one bandwidth-delay product, or the link is idle at times.",
        measured,
        (),
        [SETUP + " Flows start at random times within 1 ms; 1500 RTTs, the second half, one seed."],
    )


@check("nscc-noise", cost=3, main=False)
def nscc_noise(claim: Claim) -> Finding:
    """Measure the utilization of the link with random delays of ACKs."""
    measured, used = [], {}
    for flows in (4, 16):
        for share in (0.25, 0.75, 1.5):
            noise = [Jitter((0.0, share * T), acks_of="all")]
            scenario = Scenario(dumbbell([T] * flows), {"flows": NSCC(), "links": marking()}, 0.02, impairments=noise)
            statistics = late(packet.simulate(scenario, sample=T / 4), T)
            used[flows, share] = statistics.used
            measured.append(
                Measurement(
                    f"utilization, {flows} flows, ACKs delayed by up to {share:g} RTTs",
                    statistics.used,
                    "of C",
                    reported=1.0,
                    note=f"mean queue {statistics.mean:.2f} BDP",
                    met=statistics.used > 0.97,
                )
            )
    full = [value > 0.97 for value in used.values()]
    return Finding(
        claim,
        Verdict.CONFIRMED if all(full) else Verdict.CONDITIONAL if any(full) else Verdict.REFUTED,
        f"Utilization is at least {min(value for (_, share), value in used.items() if share < 1.0):.0%} with delays up "
        f"to 3/4 of an RTT, and at least {min(used.values()):.0%} with delays up to 3/2: a delayed ACK counts as queue "
        "in the average.",
        measured,
        (),
        [SETUP + " RTTs of 12 us, delays uniform and independent, in order; 20 ms, one seed."],
    )


class Sprayed(NamedTuple):
    """Results of a flow over several paths and of competing flows: goodputs [Gb/s], loss share, queue [BDP], m/D."""

    goodput: float
    competitors: float
    lost: float
    queue: float
    average: float


@lru_cache
def sprayed(trims: bool, paths: int, n_others: int, crowd: Protocol) -> Sprayed:
    """Return the results of one flow over several paths, the first of them filled by others; second half of 30 ms.

    Without trimming, queues hold five bandwidth-delay products, and the links of the paths mark and drop.

    Parameters
    ----------
    trims : bool
    paths, n_others : int
        Number of paths, and number of competing flows on the first path.
    crowd : Protocol
        Protocol of the competing flows.
    """
    product = C * T / 8
    buffer, size = (None, 64) if trims else (5 * product, None)
    links = [Link(C, "0.5 us"), *[Link(C, "2.5 us", buffer)] * paths, *[Link(C, "0.5 us")] * n_others]
    routes = [[0, 1 + k] for k in range(paths)]
    flow = Flow(
        routes[0],
        alternatives=routes[1:],
        spraying="random",
        reordering_threshold=255,
        packet_size=S,
        trimmed_size=size,
        access_delay="3 us",
    )
    rest = [
        Flow([1 + paths + k, 1], packet_size=S, trimmed_size=size, access_delay="3 us", start=(1 + k) * 1e-4)
        for k in range(n_others)
    ]
    at = Trimming(product, 0.2 * product, 0.8 * product) if trims else marking()
    pair = {"flows": {0: NSCC(trimming=trims), "default": crowd}, "links": {1 + k: at for k in range(paths)}}
    scenario = Scenario(Network(links, [flow, *rest]), pair, 0.03)
    run = packet.simulate(scenario, sample=1e-4, record=["flow.average"])
    got = run.goodput[150:].mean("time").to_numpy() / 1e9
    first, target = run.flows.iloc[0], (0.75 if trims else 1.0) * T
    return Sprayed(
        float(got[0]),
        float(got[1:].sum()),
        float(first["lost"] / (first["delivered"] + first["lost"])),
        float(run.queue[150:, 1].mean() / product),
        float(run["flow.average"][150:, 0].mean() / target),
    )


@check("nscc-sprayed", cost=4, main=False)
def nscc_sprayed(claim: Claim) -> Finding:
    """Run one flow over two and four paths, the first filled by responsive flows or by unresponsive traffic."""
    measured, collapsed = [], []
    crowds: tuple[tuple[str, int, Protocol], ...] = (
        ("7 flows of NSCC", 7, NSCC()),
        ("90 Gb/s unresponsive traffic", 1, ConstantRate("90 Gb/s")),
    )
    for paths in (2, 4):
        for name, n_others, crowd in crowds:
            result = sprayed(True, paths, n_others, crowd)
            collapsed.append(result.goodput < 50.0)
            measured.append(
                Measurement(
                    f"goodput over {paths} paths, {name} on the first",
                    result.goodput,
                    "Gb/s",
                    met=collapsed[-1],
                    note=f"{result.lost:.1%} lost, others {result.competitors:.0f} Gb/s; average delay "
                    f"{result.average:.2f} of the target",
                )
            )
    return Finding(
        claim,
        Verdict.CONFIRMED if all(collapsed) else Verdict.CONDITIONAL if any(collapsed) else Verdict.REFUTED,
        f"Goodput collapses over two paths with unresponsive traffic ({measured[1].value:.0f} Gb/s), but not with "
        "other "
        "flows of NSCC. Delays of free paths keep the average below the target, so only trimmed packets reduce the "
        "window, not marks.",
        measured,
        (),
        [
            "100 Gb/s, packets of 4096 bytes, RTTs of 12 us, links that trim at a BDP and mark from 20 to 80 % of it; "
            "paths at random, not by marks; 30 ms, the second half, one seed."
        ],
    )
