"""Checks of claims on PowerTCP and theta-PowerTCP."""

from __future__ import annotations

from functools import lru_cache
from math import exp, log

import numpy as np

from ecc import packet
from ecc.claims.checks.data_centers.margins import proven
from ecc.claims.ledger import Claim, Finding, Measurement, Verdict, check
from ecc.linear import DelaySystem
from ecc.loops.closed_loop import linearize
from ecc.models import PowerTCP, ThetaPowerTCP
from ecc.network.network import Network
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario

C, T, ACK = 100e9, 10e-6, 80e-9
"""Capacity [bit/s], base RTT [s], and time between ACKs of 1 kB packets at that rate [s]."""
SETUP = "One link of 100 Gb/s, RTT 10 us without queue, packets of 1000 bytes; gamma = 0.9 unless stated."
LOOP = (
    "The paper's fluid is W' = gamma_r (W_old/Gamma + beta - W), with Gamma = C W(t - D) for the sum W of all windows. "
    "Differences of windows obey s + gamma_r = gamma_r k e^(-s D), k = C T/(C T + N beta), with the RTT D at "
    "equilibrium."
)


def _shrink(flows: int, beta: float) -> float:
    """Return k = C T/(C T + N beta)."""
    return C * T / (C * T + 8.0 * flows * beta)


def _differences(k: float, gamma_r: float, rate: float = 0.0) -> DelaySystem:
    """Return the loop of differences of windows; it is unstable if a root is right of -`rate`."""
    D = T / k
    return DelaySystem([[[rate - gamma_r]], [[gamma_r * k * exp(rate * D)]]], [0.0, D])


@lru_cache
def _run(protocol: PowerTCP, flows: int, late: float = 0.0) -> Trajectory:
    """Return a packet run of 3 ms; the last flow starts at `late` [s] if given, the others 1 us apart."""
    starts = [1e-6 * k for k in range(flows)]
    if late:
        starts[-1] = late
    return packet.simulate(Scenario(Network.dumbbell(C, [T] * flows, starts=starts), protocol, 3e-3), sample=1e-5)


def _queue(run: Trajectory) -> tuple[float, float, float]:
    """Return mean, minimum and maximum queue of the second half [bytes]."""
    queue = run.queue[len(run.queue) // 2 :, 0].to_numpy()
    return float(queue.mean()), float(queue.min()), float(queue.max())


def _used(run: Trajectory) -> float:
    """Return the goodput of the second half over the capacity."""
    return float(run.goodput[len(run.goodput) // 2 :].sum("flow").mean()) / C


def _joins(run: Trajectory, flows: int, share: float) -> float:
    """Return the time that the last flow, which joins at 1 ms, takes to reach a part of its share [s]."""
    time, rate = run.data["time"].to_numpy(), run.rate[:, -1].to_numpy() * flows / C
    return float(time[np.argmax((time > 1.02e-3) & (rate > share))]) - 1e-3


def _near(queue: float, stated: float) -> bool:
    """Return whether a mean queue is within a tenth of the stated one, or within one packet."""
    return abs(queue - stated) < max(0.1 * stated, 1000.0)


@check("power-fixed", cost=0.5)
def power_fixed(claim: Claim) -> Finding:
    """Measure the queue of packet runs with several flows and with one flow."""
    measured, near = [], []
    for flows, beta in ((2, 2500), (8, 2500), (32, 1000)):
        mean, *_ = _queue(_run(PowerTCP(base_rtt=T, line_rate=C, beta=beta), flows))
        near.append(_near(mean, flows * beta))
        measured.append(
            Measurement(
                f"mean queue, {flows} flows, beta = {beta} bytes", mean, "bytes", reported=flows * beta, met=near[-1]
            )
        )
    alone = []
    for share in (4.0, 1.0):
        mean, *_ = _queue(_run(PowerTCP(base_rtt=T, line_rate=share * C, beta=2500), 1))
        alone.append(_near(mean, 2500.0))
        measured.append(
            Measurement(
                f"mean queue, one flow of a host of {share * C / 1e9:g} Gb/s, beta = 2500 bytes",
                mean,
                "bytes",
                reported=2500.0,
                met=alone[-1],
            )
        )
    verdict = Verdict.REFUTED if not all(near) else Verdict.CONFIRMED if all(alone) else Verdict.CONDITIONAL
    return Finding(
        claim,
        verdict,
        "The law has one equilibrium, with power 1 + N beta/(C T) and equal windows. In packet runs, two or more flows "
        "have its queue within a tenth or one packet, but a single flow does not: if the host has the rate of the "
        "link, "
        "this rate limits its window, and there is no queue; if the host is faster, the queue swings."
        if all(near)
        else "Queues of packet runs differ from the equilibrium.",
        measured,
        (),
        [SETUP, "3 ms, the second half."],
    )


ALGORITHM = (
    "The algorithm's loop (ecc.loops.paced_windows): a window is sent in at least T, power is averaged over T, "
    "arrivals "
    "over T/16. On a path of length T flows are ACK-clocked; on a shorter path they send W/T, which the queue "
    "integrates."
)


@check("power-stable", cost=1)
def power_stable(claim: Claim) -> Finding:
    """Compute certificates for the fluid of the proof and for the algorithm's loop, and packet runs on both sides."""
    measured, holds = [], True
    for flows, beta in ((2, 1000), (8, 2500), (100, 12_500)):
        for gamma_r in (0.9 / T, 0.9 / ACK):
            k = _shrink(flows, beta)
            is_stable = proven(_differences(k, gamma_r))
            holds &= is_stable is True
            measured.append(
                Measurement(
                    f"fluid of the proof, differences: {flows} flows, beta = {beta}, gamma_r = {gamma_r:.3g}",
                    str(is_stable),
                    note="certified stable",
                    met=is_stable is True,
                )
            )
    sides: dict[bool, list[bool]] = {True: [], False: []}
    for flows, share, beta, gamma, speed in (
        (4, 1.0, 2500, 0.9, 4.0),
        (4, 0.05, 2500, 0.9, 4.0),
        (2, 1.0, 10_000, 0.2, 1.0),
        (1, 0.5, 2500, 0.9, 4.0),
        (4, 0.5, 2500, 0.9, 4.0),
        (2, 1.0, 10_000, 0.9, 1.0),
    ):
        protocol = PowerTCP(base_rtt=T, line_rate=speed * C, beta=beta, gamma=gamma)
        network = Network.dumbbell(C, [share * T] * flows, starts=[1.37e-7 * k for k in range(flows)])
        stable = proven(linearize(protocol, network))  # type: ignore[arg-type]
        run = packet.simulate(Scenario(network, protocol, 2e-3), sample=2e-7)
        queue = run.queue[len(run.queue) // 2 :, 0].to_numpy()
        if stable is not None:
            sides[stable].append((float(queue.std()) < 1000.0) is stable)
        measured.append(
            Measurement(
                f"{flows} flows, RTT = {share:g} T, beta = {beta}, gamma = {gamma:g}: algorithm's loop",
                str(stable),
                met=stable,
                note="certified stable or unstable; 1000-byte packets, queue "
                f"{queue.mean():.0f} bytes, standard deviation {queue.std():.0f}, "
                f"utilization {_used(run):.1%}",
            )
        )
    agrees = len(sides[True]) == 3 and len(sides[False]) == 3 and all(sides[True] + sides[False])
    return Finding(
        claim,
        Verdict.IN_MODEL if holds and agrees else Verdict.CONFIRMED if not sides[False] else Verdict.CONDITIONAL,
        "The fluid of the proof is stable for any delay, number of flows and gain; in it power is C W(t - D) without "
        "averaging, and all paths have length T. The loop of Algorithm 1, with the window of the acknowledged packet, "
        "differs: on paths shorter than T, which the theorem does not cover, windows are rates W/T, and the queue "
        "integrates their sum. The loop is then provably unstable, and queues of packet runs swing, unless N beta is "
        "large compared with the bandwidth-delay product of the path. On paths of length T the loop is stable unless "
        "gamma and beta are large."
        if holds and agrees
        else "Certificates and packet runs disagree.",
        measured,
        (),
        [SETUP, LOOP, ALGORITHM, "Packet runs: hosts of 400 or 100 Gb/s, 2 ms, the second half."],
    )


@check("power-eigenvalues", cost=0.2)
def power_eigenvalues(claim: Claim) -> Finding:
    """Compute roots of the linearized fluid for the queue, the sum of windows, and differences."""
    measured, exact = [], True
    for flows, beta in ((2, 100), (8, 2500), (100, 12_500)):
        k, gamma_r = _shrink(flows, beta), 0.9 / T
        differences = float(_differences(k, gamma_r).spectral_abscissa) * T
        late = gamma_r * k * (np.eye(flows) - 1.0 / flows)  # derivatives by all windows one RTT ago
        total = (float(np.abs(late.sum(axis=0)).max()) - gamma_r) * T
        exact &= k > 0.99
        measured += [
            Measurement(f"queue's eigenvalue, {flows} flows, beta = {beta}", -k, "1/T", reported=-1.0, met=k > 0.99),
            Measurement(
                f"eigenvalue of the sum of windows, {flows} flows, beta = {beta}",
                total,
                "1/T",
                reported=-0.9,
                met=abs(total + 0.9) < 1e-9,
            ),
            Measurement(
                f"rightmost root of differences, {flows} flows, beta = {beta}",
                differences,
                "1/T",
                reported=-0.9,
                met=differences < -0.89,
            ),
        ]
    slower = all(float(measurement.value) > -0.89 for measurement in measured[2::3])
    verdict = Verdict.CONFIRMED if exact and not slower else Verdict.CONDITIONAL
    return Finding(
        claim,
        verdict,
        "The eigenvalue of the sum of windows is exactly -gamma_r, without delay, because W_old/Gamma always adds up "
        "to "
        "C T. The eigenvalue of the queue, with q' = W/(q/C + T) - C, is -1/D, where D includes the queueing delay; it "
        "is close to -1/T only if N beta is small compared with C T. N flows have N - 1 further modes with slower "
        "roots, "
        "which are slower for smaller beta.",
        measured,
        (),
        [LOOP, "gamma_r = 0.9/T, one update per T."],
    )


@check("power-pace", cost=1)
def power_pace(claim: Claim) -> Finding:
    """Compute the decay of the aggregate window, and of differences of windows with certificates and packet runs."""
    measured, exact, slower, constants = [], True, True, []
    for flows, beta in ((2, 2500), (2, 10_000), (8, 2500)):
        k, gamma_r = _shrink(flows, beta), 0.9 / ACK
        slowest = -float(_differences(k, gamma_r).spectral_abscissa)
        constants.append(1e6 / slowest)
        sides = [proven(_differences(k, gamma_r, share * slowest)) for share in (0.99, 1.01)]
        run = _run(PowerTCP(base_rtt=T, line_rate=C, beta=beta, initial=1.0), flows, 1e-3)
        at = _joins(run, flows, 0.9)
        late = gamma_r * k * (np.eye(flows) - 1.0 / flows)  # derivatives by windows one RTT ago
        total = gamma_r - float(np.abs(late.sum(axis=0)).max())
        exact &= abs(total / gamma_r - 1.0) < 1e-9
        slower &= sides == [True, False] and 1.0 / slowest > 100.0 * ACK / 0.9
        measured += [
            Measurement(
                f"time constant of the aggregate window, {flows} flows, beta = {beta}",
                1e6 / total,
                "us",
                reported=1e6 * ACK / 0.9,
                note="in the proof's fluid",
                met=exact,
            ),
            Measurement(
                f"time constant of differences of windows, {flows} flows, beta = {beta}",
                1e6 / slowest,
                "us",
                note=f"not stated; certified at 1/0.99 and 1/1.01 of it: {sides}",
            ),
            Measurement(
                f"time until a joining flow has 90 % of its share, {flows} flows, beta = {beta}",
                1e6 * at,
                "us",
                note=f"packet run; {at * slowest:.2f} time constants of differences (ln 10 = 2.30)",
            ),
        ]
    return Finding(
        claim,
        Verdict.IN_MODEL if exact and slower else Verdict.CONFIRMED if exact else Verdict.REFUTED,
        "The aggregate window has the stated time constant in the proof's fluid, in which power is not averaged. The "
        "theorem does not cover shares of flows: differences of windows decay with the time constant D/ln(1/k) for any "
        f"gamma, here {min(constants):.0f} to {max(constants):.0f} us, and a joining flow in packet runs takes "
        "correspondingly long.",
        measured,
        (),
        [SETUP, LOOP, "Updates at each ACK: delta t = 80 ns when one flow has the link."],
    )


@check("power-simulator", cost=0.5)
def power_simulator(claim: Claim) -> Finding:
    """Measure queue, utilization and convergence with the simulator's constants on the same link."""
    measured, refuted = [], True
    for flows in (2, 8, 32):
        protocol = PowerTCP.ns3(C, T)
        point = protocol.equilibrium(Network.dumbbell(C, [T] * flows))
        run = _run(protocol, flows)
        mean, *_ = _queue(run)
        added = flows * float(protocol.beta)
        refuted &= _used(run) < 0.98
        measured += [
            Measurement(
                f"mean queue, {flows} flows",
                mean,
                "bytes",
                reported=added,
                note=f"equilibrium {point.queue[0] / 8.0:.0f}" if point.queue is not None else "",
                met=False,
            ),
            Measurement(
                f"utilization, {flows} flows",
                _used(run),
                reported=1.0,
                note=f"equilibrium {float(point.rates.sum()) / C:.3f}",
            ),
        ]
    protocol, flows = PowerTCP.ns3(C, T, initial=1.0), 8
    window = float(protocol.equilibrium(Network.dumbbell(C, [T] * flows)).rates[0]) * T / 8.0
    constant = T * window / (0.9 * float(protocol.beta))
    half = _joins(_run(protocol, flows, 1e-3), flows, 0.5)
    refuted &= half > 100.0 * ACK / 0.9 * log(2.0)
    measured += [
        Measurement(
            "time constant of differences, 8 flows",
            1e6 * constant,
            "us",
            reported=1e6 * ACK / 0.9,
            note="T W/(gamma beta): differences shrink by 1 - gamma beta/W per RTT",
            met=False,
        ),
        Measurement(
            "time until a joining flow has half of its share, 8 flows",
            1e6 * half,
            "us",
            reported=1e6 * ACK / 0.9 * log(2.0),
            note=f"{half / constant:.2f} time constants (ln 2 = 0.69)",
            met=False,
        ),
    ]
    return Finding(
        claim,
        Verdict.REFUTED if refuted else Verdict.CONDITIONAL,
        "The simulator divides power by 0.95: at equilibrium the utilization is 0.95 + N beta/(C T), and the queue is "
        "empty until this reaches 1. New rates start from the rates one RTT before, so delta t is an RTT, not the time "
        "between ACKs, and rate differences shrink by a factor 1 - gamma beta/W per RTT."
        if refuted
        else "The link is full, or a joining flow reaches its share about as fast as stated.",
        measured,
        (),
        [SETUP, "PowerTCP.ns3('100 Gb/s', '10 us'): beta = 188 bytes, 150 Mb/s."],
    )


@check("theta-stable", cost=3)
def theta_stable(claim: Claim) -> Finding:
    """Measure the queue of packet runs with and without a lower bound on the current."""
    measured, good, means = [], {}, {}
    for least_current in (0.0, 0.5, 1.0):
        for flows in (2, 8):
            protocol = ThetaPowerTCP(base_rtt=T, line_rate=C, beta=2500, least_current=least_current)
            mean, smallest, largest = _queue(_run(protocol, flows))
            means[flows, least_current] = mean
            good[flows, least_current] = _near(mean, 2500.0 * flows)
            name = f"current >= {least_current:g}" if least_current else "no bound on the current"
            measured.append(
                Measurement(
                    f"mean queue, {flows} flows, {name}",
                    mean,
                    "bytes",
                    reported=2500.0 * flows,
                    note=f"{smallest:.0f} to {largest:.0f}",
                    met=good[flows, least_current],
                )
            )
    holds = good[8, 0.5] and good[2, 0.5]
    verdict = Verdict.CONFIRMED if all(good.values()) else Verdict.CONDITIONAL if holds else Verdict.REFUTED
    return Finding(
        claim,
        verdict,
        "As printed, the queue swings with 8 flows: while a queue drains without arrivals, the RTT falls by 1 s per "
        "second, power is 0, and each flow opens its maximum window again. With a lower bound of 0.5 on the current, "
        "as "
        "in the authors' simulator, the queue is as stated. With a bound of 1, as in their kernel module of 2022, it "
        f"does not swing either, and its mean is {1e-3 * means[8, 1.0]:.1f} kB. The paper prints no bound."
        if verdict is Verdict.CONDITIONAL
        else "Packet runs settle near the stated queue, with and without a bound."
        if verdict is Verdict.CONFIRMED
        else "Packet runs do not settle at the stated queue.",
        measured,
        (),
        [SETUP, "Hosts of 100 Gb/s; flows start 1 us apart with windows of C T; 3 ms, the second half."],
    )
