"""Checks of the theorems on QI-RCP and PIQI-RCP: integral loops over one link (THESIS ch. IV)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil, log, pi, sin
from typing import Any

import numpy as np

from ecc import packet, plot
from ecc.claims.checks.common.evidence import (
    BRACKET,
    CAPACITY,
    ROOM,
    RUN_ASSUMPTIONS,
    Tightness,
    boundary_near,
    envelope_picture,
    exact_boundaries,
    measured,
    nyquist_picture,
    period_of,
    random_distributions,
    run_evidence,
    run_network,
    sweep,
    sweep_picture,
    tightness,
)
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.claims.report.pictures import side_by_side
from ecc.contract.equilibrium import Bound
from ecc.contract.protocol import Protocol
from ecc.linear import StabilityLimit
from ecc.loops.closed_loop import linearize, linearize_laws, steps_of
from ecc.models import PIQIRCP, QIRCP
from ecc.network.network import Network
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario
from ecc.stability import THEOREMS, MeasuredBoundary, critical_gain

LIMIT_INTERVAL = 1e-6
RTTS_LIMIT_INTERVAL = 1e-5
"""Control intervals [s] that approximate T/D -> 0 and omega T << tau1, for one loop and for many RTT distributions."""
DISTRIBUTIONS = random_distributions(60)


def _equal(rtt: float, flows: int = 2) -> Network:
    return Network.dumbbell(CAPACITY, rtts=[rtt] * flows)


def _bound(protocol: Protocol, network: Network, time: str) -> Bound:
    return next(b for b in protocol.published_bounds(network) if b.time == time)


def _bound_value(protocol: Protocol, time: str) -> Any:
    return lambda network: _bound(protocol, network, time).value


def _loss_measures(exact: dict[str, StabilityLimit], reported: str, bound: Bound) -> list[Measurement]:
    out = [
        Measurement(
            f"bound of {bound.theorem.removeprefix('THESIS ')}", bound.value, reported=reported, note=bound.kind
        )
    ]
    for time, loss in exact.items():
        lo, hi = loss.certified or (float("nan"), float("nan"))
        out.append(
            Measurement(
                f"exact boundary, {time}",
                loss.value,
                note=f"proven stable at {lo:.12g}, unstable at {hi:.12g}; {loss.value / bound.value:.4f} of the bound",
            )
        )
    return out


def _packet_boundaries(protocol: Protocol, rtts: tuple[float, ...]) -> list[tuple[float, MeasuredBoundary, float]]:
    """Return (RTT, measured boundary, hybrid boundary) of packet runs with two flows of equal RTT."""
    out = []
    roomy = replace(protocol, **ROOM)
    for rtt in rtts:
        hybrid = exact_boundaries(protocol, _equal(rtt), ["hybrid"])["hybrid"]
        period = period_of(hybrid, "hybrid", protocol.params()["interval"])
        network = run_network([rtt] * 2, period)
        boundary = measured(roomy, network, "alpha", *(hybrid.value * share for share in BRACKET), period)
        out.append((rtt, boundary, hybrid.value))
    return out


def _packet_measures(boundaries: list[tuple[float, MeasuredBoundary, float]]) -> list[Measurement]:
    return [
        Measurement(
            f"boundary of packet runs, RTT {rtt * 1e3:.0f} ms",
            m.value,
            note=f"+- {m.error:.1e}; hybrid model {hybrid:.4f} ({m.value / hybrid - 1:+.2%})",
        )
        for rtt, m, hybrid in boundaries
    ]


# ---- QI-RCP ------------------------------------------------------------------------------------------------


@check("qi-3", cost=16, group="QI-RCP")
def qi_3(claim: Claim) -> Finding:
    """Check that the exact boundary of the continuous model with equal RTTs is pi/2 at every RTT."""
    protocol, network = QIRCP(), _equal(0.12)
    boundaries = sweep(protocol)
    worst = float(np.max(np.abs(boundaries.exact["continuous"] / (pi / 2) - 1.0)))
    exact = exact_boundaries(protocol, network)
    bound = _bound(protocol, network, "continuous")
    runs = run_evidence(protocol, network, bound, exact, boundary=False)
    packets = _packet_boundaries(protocol, (0.04, 0.12, 0.4))
    holds = worst < 1e-9
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"The exact boundary of the continuous model equals pi/2 within {worst:.1e} for RTTs from 20 ms to 4 s. With a "
        "router that averages and holds over 10 ms, stability is lost earlier: at 120 ms the boundary is "
        f"{exact['hybrid'].value:.4f}, and {packets[1][1].value:.4f} in packet runs.",
        [
            *_loss_measures(exact, "1.570796", bound),
            Measurement("maximum relative distance from pi/2 over RTTs", worst),
            *runs.measurements,
            *_packet_measures(packets),
        ],
        [
            sweep_picture(boundaries, "QI-RCP, equal RTTs", [(rtt, m) for rtt, m, _ in packets]),
            envelope_picture(runs),
            nyquist_picture(protocol, network, (1.5, pi / 2, 1.65), "continuous"),
        ],
        RUN_ASSUMPTIONS,
    )


def _sufficient(claim: Claim, protocol: Protocol, rtts: list[float], time: str, reported: str) -> Finding:
    """Check a sufficient bound: exact boundaries at the paper's RTTs, and a search over RTTs for a counterexample.

    Here and in `_theorem_of_limit`, a claim for T/D -> 0 is conditional if the exact boundary tends to the bound as T
    falls, but some loop with positive T is unstable below the bound.
    """
    network = Network.dumbbell(CAPACITY, rtts=rtts)
    exact = exact_boundaries(protocol, network)
    bound = _bound(protocol, network, time)
    runs = run_evidence(protocol, network, bound, exact)
    spread = tightness(protocol, time, DISTRIBUTIONS, _bound_value(protocol, time))
    verdict, reason = _verdict_of_sufficient(protocol, time, spread)
    corrected = [_corrected(protocol, network, time)] if isinstance(protocol, PIQIRCP) else []
    reason += (
        f" At RTTs of {', '.join(f'{r * 1e3:.0f}' for r in sorted(set(rtts)))} ms the bound is {bound.value:.4f} "
        "and the "
        f"{time} model loses stability at {exact[time].value:.6g}."
    )
    return Finding(
        claim,
        verdict,
        reason,
        [*_loss_measures(exact, reported, bound), *corrected, *_tightness_measures(spread), *runs.measurements],
        [
            envelope_picture(runs),
            nyquist_picture(protocol, network, (0.98 * bound.value, exact[time].value), time),
        ],
        RUN_ASSUMPTIONS,
    )


def _tightness_measures(spread: Tightness) -> list[Measurement]:
    rtts = ", ".join(f"{1e3 * r:.0f}" for r in sorted(spread.worst))
    lo, hi = spread.worst_exact.certified or (float("nan"), float("nan"))
    safe = spread.violations == 0
    case = "" if safe else "counterexample: "
    return [
        Measurement(
            "exact boundary / bound, minimum over RTT distributions",
            spread.smallest,
            note=f"{spread.count} distributions, 20 ms to 4 s",
            met=safe,
        ),
        Measurement("exact boundary / bound, maximum over RTT distributions", spread.largest),
        Measurement("RTT distributions for which the bound is not safe", float(spread.violations), met=safe),
        Measurement(
            "exact boundary at the worst RTT distribution",
            spread.worst_exact.value,
            reported=spread.worst_bound,
            note=f"{case}RTTs {rtts} ms; proven stable at {lo:.12g}, unstable at {hi:.12g}",
            met=safe,
        ),
    ]


def _verdict_of_sufficient(protocol: Protocol, time: str, spread: Tightness) -> tuple[Verdict, str]:
    if spread.violations == 0:
        return Verdict.CONFIRMED, (
            f"None of {spread.count} RTT distributions loses stability below the bound; the exact boundary is "
            f"{spread.smallest:.3f} to {spread.largest:.3f} times the bound."
        )
    fast = replace(protocol, **{"interval": RTTS_LIMIT_INTERVAL})
    limit = tightness(fast, "continuous", DISTRIBUTIONS[:20], _bound_value(fast, "continuous"))
    unsafe = (
        f"{spread.violations} of {spread.count} RTT distributions lose stability below the bound, "
        f"at {spread.smallest:.3f} of it in the worst case"
    )
    if limit.smallest >= 1.0 - 1e-3:
        return Verdict.CONDITIONAL, (
            f"The bound is safe if omega T << tau1, but not for all T << D: with tau1 = 0.01 and T = 10 ms, {unsafe}; "
            f"at T = 10 us the minimum ratio is {limit.smallest:.4f}."
        )
    return Verdict.REFUTED, f"{unsafe}, and at {limit.smallest:.3f} of it at T = 10 us."


@check("qi-4", cost=11, group="QI-RCP")
def qi_4(claim: Claim) -> Finding:
    """Check that pi d/(2 D) is sufficient for any RTTs in the continuous model."""
    return _sufficient(claim, QIRCP(), [0.1, 0.2], "continuous", "sufficient")


@check("qi-5", cost=1)
def qi_5(claim: Claim) -> Finding:
    """Check that the undelayed discrete model is stable if and only if alpha < 2."""
    protocol, network = QIRCP(), _equal(QIRCP().interval)
    exact = exact_boundaries(protocol, network)
    stable = {a: linearize(replace(protocol, alpha=a), network, "discrete").is_stable for a in (1.99, 2.01)}
    off = abs(exact["discrete"].value - 2.0)
    bound = replace(_bound(protocol, network, "discrete"), theorem="THESIS Theorem 5", hypotheses="no delay")
    runs = run_evidence(protocol, network, bound, exact)
    holds = off < 1e-9 and stable[1.99] and not stable[2.01]
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"The discrete model loses stability at {exact['discrete'].value:.9f}. No real router has this loop: a router "
        "that averages its arrivals over the interval adds one step, and loses stability at "
        f"{exact['hybrid'].value:.4f} if the RTT is one interval.",
        [
            *_loss_measures(exact, "2", bound),
            *(
                Measurement(f"alpha = {a}", "stable" if s else "unstable", reported="stable" if a < 2 else "unstable")
                for a, s in stable.items()
            ),
            *runs.measurements,
        ],
        [envelope_picture(runs), nyquist_picture(protocol, network, (1.99, 2.01), "discrete")],
        RUN_ASSUMPTIONS,
    )


@check("qi-6", cost=0.1)
def qi_6(claim: Claim) -> Finding:
    """Check that the characteristic equation of the linearized laws is (4.42)."""
    rng = np.random.default_rng(1)
    worst = 0.0
    for rtts in DISTRIBUTIONS[:30]:
        protocol = QIRCP(alpha=float(rng.uniform(0.1, 3.0)))
        steps = np.array([steps_of(rtt, protocol.interval) for rtt in rtts])
        system = linearize(protocol, Network.dumbbell(CAPACITY, rtts=rtts), "discrete")
        z = rng.uniform(0.9, 1.5, 40) * np.exp(1j * rng.uniform(-pi, pi, 40))
        paper = 1.0 - 1.0 / z + protocol.alpha / steps.sum() * np.sum((1.0 / z)[:, None] ** steps, axis=1)
        characteristic = (1.0 - 1.0 / z) * (1.0 + system.open_loop(z))
        worst = max(worst, float(np.max(np.abs(characteristic - paper) / (1.0 + np.abs(paper)))))
    return Finding(
        claim,
        Verdict.CONFIRMED if worst < 1e-11 else Verdict.REFUTED,
        f"The model derived from the laws differs from (4.42), with one step per interval, by at most {worst:.1e} at "
        "1200 points of 30 RTT distributions.",
        [Measurement("maximum relative difference", worst)],
    )


@check("qi-7", cost=6, group="QI-RCP")
def qi_7(claim: Claim) -> Finding:
    """Check that 2 D sin(pi/(2(2D-1))) is the boundary of the discrete model with equal delays."""
    protocol, network = QIRCP(), _equal(0.1)
    exact = exact_boundaries(protocol, network)
    bound = _bound(protocol, network, "discrete")
    worst, delays = 0.0, (1, 2, 3, 5, 10, 20, 50, 100, 200, 400)
    for delay in delays:
        net = _equal(delay * protocol.interval)
        published = 2.0 * delay * sin(pi / (2.0 * (2.0 * delay - 1.0)))
        worst = max(worst, abs(boundary_near(protocol, net, "discrete", published) / published - 1.0))
    stable = {a: linearize(replace(protocol, alpha=a), network, "discrete").is_stable for a in (1.64, 1.66)}
    runs = run_evidence(protocol, network, bound, exact)
    holds = worst < 1e-9 and stable[1.64] and not stable[1.66]
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"The theorem is exact within {worst:.1e} for D = 1 to 400. D = 10 gives {exact['discrete'].value:.6f}; the "
        f"paper prints 1.6523, with pi as 22/7. The boundary is {exact['hybrid'].value:.4f} in the hybrid model and "
        f"{runs.measured.value if runs.measured else float('nan'):.4f} in packet runs.",
        [
            *_loss_measures(exact, "1.6523", bound),
            Measurement("maximum relative distance from the theorem, D = 1 to 400", worst),
            *(
                Measurement(
                    f"alpha = {a}", "stable" if s else "unstable", reported="stable" if a == 1.64 else "unstable"
                )
                for a, s in stable.items()
            ),
            *runs.measurements,
        ],
        [
            sweep_picture(sweep(protocol), "QI-RCP, equal RTTs"),
            envelope_picture(runs),
            nyquist_picture(protocol, network, (1.64, 1.66), "discrete"),
        ],
        RUN_ASSUMPTIONS,
    )


@check("qi-8", cost=10, group="QI-RCP")
def qi_8(claim: Claim) -> Finding:
    """Check the sufficient bound for any delays in the discrete model, with the paper's D = {10, 20}."""
    return _sufficient(claim, QIRCP(), [0.1, 0.2], "discrete", "1.2080; unstable from 1.896")


@check("dis-con", cost=2)
def dis_con(claim: Claim) -> Finding:
    """Check that discrete and continuous boundaries agree as T/D -> 0."""
    protocol = QIRCP()
    delays = [1, 2, 5, 12, 50, 200, 1000, 5000]
    ratios = [boundary_near(protocol, _equal(d * protocol.interval), "discrete", pi / 2) / (pi / 2) for d in delays]
    mixed = [[0.1, 0.2], [0.02, 0.3, 0.3], [0.05, 0.4, 1.0]]
    spread = []
    for shape in mixed:
        fine = replace(protocol, interval=1e-4)
        net = Network.dumbbell(CAPACITY, rtts=shape)
        sampled, limit = (boundary_near(fine, net, time, pi / 2) for time in ("discrete", "continuous"))
        spread.append(sampled / limit - 1.0)
    off = max(abs(ratios[-1] - 1.0), *(abs(s) for s in spread))
    orders = [abs(r - 1.0) * d for r, d in zip(ratios, delays, strict=True)]
    figure = plot.boundary_figure(
        delays,
        {"discrete / continuous": ratios},
        x_title="delay [intervals]",
        y_title="ratio of boundaries",
        title="Discrete over continuous boundary",
    )
    return Finding(
        claim,
        Verdict.CONFIRMED if off < 0.01 else Verdict.REFUTED,
        f"The ratio of the boundaries tends to 1 like 1 + {orders[-1]:.3f} T/D; at the 12 intervals of THESIS fig. 17 "
        f"they still differ by {ratios[3] - 1.0:+.1%}.",
        [
            *(
                Measurement(f"discrete / continuous at D = {d} intervals", r)
                for d, r in zip(delays, ratios, strict=True)
            ),
            *(
                Measurement(f"relative distance for RTTs {s} s, T = 0.1 ms", v)
                for s, v in zip(mixed, spread, strict=True)
            ),
        ],
        [
            Picture.of(
                figure,
                "Discrete over continuous boundary",
                "Two flows of equal delay; the discrete model has one step per interval.",
            )
        ],
    )


# ---- PIQI-RCP ----------------------------------------------------------------------------------------------


@check("pi-1", cost=0.1)
def pi_1(claim: Claim) -> Finding:
    """Compare K_P and K_I with the derivatives of the router laws."""
    worst = 0.0
    for rtts in DISTRIBUTIONS[:20]:
        network = Network.dumbbell(CAPACITY, rtts=rtts)
        count, mean = len(rtts), float(np.mean(rtts))
        for protocol, a1, a2 in ((QIRCP(alpha=0.7), 0.7, 0.0), (PIQIRCP(alpha1=0.5, alpha2=0.3), 0.5, 0.3)):
            laws = linearize_laws(protocol, network, protocol.interval)
            # R(n) = R(n-1) + g1 e(n) + g2 e(n-1): K_P = -g2, K_I T = g1 + g2, K_D = 0
            g1, g2 = -laws.router["y"][0], -laws.router["y_prev"][0]
            unit = 1.0 / (count * mean)
            for gain, paper in (
                (-g2, -a2 * protocol.interval * unit),
                ((g1 + g2) / protocol.interval, (a1 + a2) * unit),
                (laws.router["R"][0], 1.0),
            ):
                worst = max(worst, abs(gain - paper) / (abs(paper) + unit))
    return Finding(
        claim,
        Verdict.CONFIRMED if worst < 1e-12 else Verdict.REFUTED,
        f"The gains of the laws at equilibrium equal the paper's within {worst:.1e} for twenty sets of RTTs, and there "
        "is no derivative part. (4.9) and (4.13) count d in intervals without stating it.",
        [Measurement("maximum relative difference of K_P and K_I", worst)],
    )


@check("src-2", cost=0.1)
def src_2(claim: Claim) -> Finding:
    """Iterate the source law toward a constant fair rate from 1 Mb/s to 10^100 bit/s."""
    measurements, agree = [], True
    for tau1, eps in ((0.01, 0.01), (0.1, 0.01), (0.5, 0.001)):
        p = PIQIRCP(tau1=tau1).namespace()
        expected = ceil(log(eps) / log(1.0 - tau1))
        counts = []
        for rate in (1e6, 1e9, 1e12, 1e100):
            x, steps = 0.0, 0
            while rate - x > eps * rate:
                x = PIQIRCP.source_law(x, rate, rate, p)
                steps += 1
            counts.append(steps)
        agree &= all(count == expected for count in counts)
        measurements.append(
            Measurement(
                f"steps to within {eps:g}, tau1 = {tau1:g}",
                float(counts[0]),
                "steps",
                float(expected),
                f"from 1 Mb/s to 1e100 bit/s: {sorted(set(counts))}",
            )
        )
    return Finding(
        claim,
        Verdict.CONFIRMED if agree else Verdict.REFUTED,
        "The number of steps is as stated and the same at every capacity; tau2 has no effect if the fair rate is "
        "constant.",
        measurements,
    )


def _corrected(protocol: PIQIRCP, network: Network, time: str) -> Measurement:
    """Return the bound that is proven instead of Theorems 9, 10, 12 and 13 at this T, for any RTTs of this mean."""
    theorem = THEOREMS["mean-5" if time == "continuous" else "mean-6"]
    value = theorem.bound(protocol, network)
    return Measurement(
        f"provably stable alpha, {time}, any RTTs of this mean",
        float("nan") if value is None else value,
        note="with d + k T instead of d, k = (1 - tau2)/tau1 - 1/2: docs/short_intervals.md",
    )


def _theorem_of_limit(claim: Claim, time: str, reported: str) -> tuple[Finding, dict[str, StabilityLimit], Bound]:
    """Check Theorems 9 and 12 (equal RTTs, T/D -> 0) at the paper's parameters and over RTTs."""
    protocol, network = PIQIRCP(), _equal(0.12)
    boundaries = sweep(protocol)
    ratio = boundaries.exact[time] / boundaries.bounds[time]
    exact = exact_boundaries(protocol, network)
    bound = _bound(protocol, network, time)
    fast = replace(protocol, interval=LIMIT_INTERVAL)
    limit = critical_gain(fast, network, "alpha").value / (pi / 4)
    runs = run_evidence(protocol, network, bound, exact, boundary=time == "discrete")
    low, high = int(np.argmin(ratio)), int(np.argmax(ratio))
    worst = exact_boundaries(protocol, _equal(float(boundaries.rtts[low])), [time])[time]
    lo, hi = worst.certified or (float("nan"), float("nan"))
    if float(np.max(np.abs(ratio - 1.0))) < 1e-6:
        verdict = Verdict.CONFIRMED
    elif abs(limit - 1.0) < 0.01:
        verdict = Verdict.CONDITIONAL
    else:
        verdict = Verdict.REFUTED
    reason = (
        f"The theorem holds if omega T << tau1: at T = 1 us the exact boundary is {limit:.5f} of pi/4. With the "
        f"suggested tau1 = 0.01 and T = 10 ms it is {exact[time].value:.4f} at 120 ms "
        f"({exact[time].value / bound.value:.2f} of the bound) and {worst.value:.4f} at {boundaries.rtts[low]:g} s "
        f"({ratio[low]:.3f} of the bound; below 1 the bound is not safe)."
    )
    measurements = [
        *_loss_measures(exact, reported, bound),
        _corrected(protocol, network, time),
        Measurement(
            f"exact boundary, {time}, RTT {boundaries.rtts[low]:g} s",
            worst.value,
            reported=float(boundaries.bounds[time][low]),
            note=f"minimum over RTTs; proven stable at {lo:.12g}, unstable at {hi:.12g}",
        ),
        Measurement(f"exact / bound at RTT {boundaries.rtts[high]:g} s", float(ratio[high]), note="maximum over RTTs"),
        Measurement("exact / (pi/4) for T = 1 us, RTT 120 ms", limit, note="continuous"),
        *runs.measurements,
    ]
    pictures = [
        sweep_picture(boundaries, "PIQI-RCP, equal RTTs"),
        envelope_picture(runs),
        nyquist_picture(protocol, network, (bound.value, exact[time].value), time),
    ]
    return Finding(claim, verdict, reason, measurements, pictures, RUN_ASSUMPTIONS), exact, bound


READINGS: Mapping[str, Mapping[str, Any]] = {
    "updates by interval": {},
    "updates by ack": {"update": "ack"},
    "updates by interval and sources that never exceed the advertised rate": {
        "capped": True,
        "rtt_average": "interval",
    },
}
"""Possible forms of the THESIS' sources in ns-2; the last one is not in its text, but figs. 21 to 24 suggest it."""


def _joining(protocol: PIQIRCP, rtts: list[float]) -> tuple[str, float, Trajectory]:
    """Run THESIS figs. 17 and 18 (100 Mb/s, a flow every 10 s) and return the state of arrivals in the last 20 s.

    Arrivals at equilibrium vary by less than 1 % of their mean because of packets and clocks; more than twice this
    counts as an oscillation.
    """
    network = Network.dumbbell(
        "100 Mb/s", rtts=rtts, delay=0.05 if min(rtts) >= 0.1 else None, starts=[10.0 * k for k in range(len(rtts))]
    )
    run = packet.simulate(Scenario(network, protocol, 10.0 * len(rtts) + 30.0), sample=0.1)
    tail = run.arrival.to_numpy()[-200:, 0]
    swing = float(tail.std() / tail.mean())
    return ("oscillates" if swing > 0.02 else "steady"), swing, run


def _figure(
    figure: int, rtts: list[float], gains: tuple[float, float]
) -> tuple[list[Measurement], list[Picture], str, bool]:
    """Return results, pictures and a summary of the paper's runs below and above its bound, in all forms of sources.

    The last value is true if some form gives the reported results.
    """
    measurements, pictures, words, as_reported = [], [], [], []
    for reading, options in READINGS.items():
        states = []
        for alpha, reported in zip(gains, ("steady", "oscillates"), strict=True):
            state, swing, run = _joining(PIQIRCP(alpha=alpha, **options), rtts)
            states.append(state)
            note = f"arrival rate over the last 20 s: standard deviation {swing:.2%} of the mean"
            measurements.append(
                Measurement(
                    f"joining flows, alpha = {alpha}, {reading}", state, "", reported, note, met=state == reported
                )
            )
            drawn = plot.trajectory_figure(
                run.data["time"].to_numpy(), run.rate.to_numpy(), run.queue.to_numpy(), packet_size=1000.0
            )
            caption = "Sending rates and bottleneck queue of packet runs in the setup of the paper's figure."
            pictures.append(Picture.of(drawn, f"alpha = {alpha}, {reading}", caption))
        as_reported += [reading] if states == ["steady", "oscillates"] else []
        words.append(f"with {reading} {states[0]} at {gains[0]} and {states[1]} at {gains[1]}")
    if as_reported:
        summary = f" Fig. {figure} is reproduced with {', and with '.join(as_reported)}."
    else:
        summary = f" Fig. {figure} is not reproduced: packet runs are {'; '.join(words)}."
    return measurements, side_by_side(pictures, "A flow every 10 s, 100 Mb/s"), summary, bool(as_reported)


@check("piqi-9", cost=18, group="PIQI-RCP")
def piqi_9(claim: Claim) -> Finding:
    """Check equal RTTs in the continuous model, and the packet runs of fig. 17."""
    finding, exact, _ = _theorem_of_limit(claim, "continuous", "0.785398 (0.78571 with pi as 22/7)")
    packets = _packet_boundaries(PIQIRCP(), (0.08, 0.12, 0.4))
    measurements, pictures, summary, as_reported = _figure(17, [0.12] * 10, (0.77, 0.80))
    return replace(
        finding,
        verdict=finding.verdict if as_reported else Verdict.REFUTED,
        reason=f"{finding.reason}{summary} Packet runs with updates by interval lose stability at "
        f"{packets[1][1].value:.3f}.",
        measurements=[*finding.measurements, *_packet_measures(packets), *measurements],
        pictures=[
            sweep_picture(sweep(PIQIRCP()), "PIQI-RCP, equal RTTs", [(rtt, m) for rtt, m, _ in packets]),
            *finding.pictures[1:],
            *pictures,
        ],
    )


@check("piqi-10", cost=19, group="PIQI-RCP")
def piqi_10(claim: Claim) -> Finding:
    """Check any RTTs in the continuous model, and fig. 18 with d = 100 ms and D = 300 ms."""
    rtts = [(1.0 - 0.3) / 9] * 9 + [0.3]
    finding = _sufficient(claim, PIQIRCP(), rtts, "continuous", "0.261799 (0.261905 with pi as 22/7)")
    measurements, pictures, summary, as_reported = _figure(18, rtts, (0.26, 0.27))
    return replace(
        finding,
        reason=finding.reason
        + summary
        + ("" if as_reported else " Its RTTs are not stated, so it does not affect the verdict."),
        measurements=[*finding.measurements, *measurements],
        pictures=[*finding.pictures, *pictures],
        assumptions=[
            *finding.assumptions,
            "The RTTs of fig. 18 are not stated: nine flows of 77.8 ms and one of 300 ms have its mean and maximum.",
        ],
    )


@check("piqi-w", cost=0.1)
def piqi_w(claim: Claim) -> Finding:
    """Count sign changes of Im T on the axis and on the circle, for tau1 + 2 tau2 below and above 2."""
    rng = np.random.default_rng(1)
    wrong = {"continuous": 0, "discrete": 0}
    tested = crossing_beyond = 0
    for _ in range(400):
        t1, t2 = float(rng.uniform(0.005, 0.995)), float(rng.uniform(0.005, 1.2))
        if abs(t1 + 2.0 * t2 - 2.0) < 0.02:
            continue
        tested += t1 + 2.0 * t2 < 2.0
        w = np.linspace(0.0, pi, 4001)[1:-1]
        back = np.exp(-1j * w)
        circle = (t1 + t2 + t1 * back - t2 * back**2) / (1.0 - (1.0 - t1) * back)
        v = np.geomspace(1e-3, 1e3, 4001)  # w T of (4.71)
        axis = (v * v * t2 + 1j * v * (2.0 * t2 - t1) + 2.0 * t1) / (1j * v * (1.0 - t1) + t1)
        for name, values in (("discrete", circle), ("continuous", axis)):
            crosses = bool(np.any(np.diff(np.sign(values.imag)) != 0))
            if t1 + 2.0 * t2 < 2.0 and crosses:
                wrong[name] += 1
            crossing_beyond += t1 + 2.0 * t2 > 2.0 and crosses
    t1, t2 = PIQIRCP().tau1, PIQIRCP().tau2
    cosine = 1.0 + t1 * (2.0 - t1 - 2.0 * t2) / (2.0 * t2)
    return Finding(
        claim,
        Verdict.CONFIRMED if not any(wrong.values()) else Verdict.REFUTED,
        f"There are {sum(wrong.values())} crossings in {tested} pairs with tau1 + 2 tau2 < 2 and tau1 < 1 (above 2: "
        f"{crossing_beyond}). In discrete time the crossing is at cos wT = 1 + tau1 (2 - tau1 - 2 tau2)/(2 tau2), not "
        f"at (4.88); at the suggested values this is {cosine:.4f} > 1.",
        [
            Measurement("pairs with a crossing, continuous", float(wrong["continuous"]), reported=0.0),
            Measurement("pairs with a crossing, discrete", float(wrong["discrete"]), reported=0.0),
            Measurement("cos wT at tau1 = 0.01, tau2 = 0.1", cosine),
        ],
    )


@check("piqi-D", cost=11)
def piqi_D(claim: Claim) -> Finding:
    """Compare exact boundaries over RTT distributions with pi/4 if the router uses the maximum RTT."""

    def ratios(protocol: PIQIRCP, distributions: list[list[float]]) -> np.ndarray:
        out = []
        for rtts in distributions:
            network = Network.dumbbell(CAPACITY, rtts=rtts)
            out.append(boundary_near(protocol, network, "continuous", pi / 4, mean_rtt=[max(rtts)]) / (pi / 4))
        return np.array(out)

    ratios_of_paper = ratios(PIQIRCP(), DISTRIBUTIONS)
    limit = ratios(PIQIRCP(interval=RTTS_LIMIT_INTERVAL), DISTRIBUTIONS[:20])
    worst = DISTRIBUTIONS[int(np.argmin(ratios_of_paper))]
    exact = critical_gain(
        PIQIRCP(), Network.dumbbell(CAPACITY, rtts=worst), "alpha", certify=True, mean_rtt=[max(worst)]
    )
    lo, hi = exact.certified or (float("nan"), float("nan"))
    if ratios_of_paper.min() >= 1.0 - 1e-9:
        verdict = Verdict.CONFIRMED
    elif limit.min() >= 1.0 - 1e-3:
        verdict = Verdict.CONDITIONAL
    else:
        verdict = Verdict.REFUTED
    return Finding(
        claim,
        verdict,
        f"The minimum exact boundary over all RTTs is {limit.min():.4f} of pi/4 at T = 10 us. With tau1 = 0.01 and "
        f"T = 10 ms it is {exact.value:.4f}, {ratios_of_paper.min():.3f} of pi/4.",
        [
            Measurement(
                "exact boundary / (pi/4), minimum over RTT distributions",
                float(ratios_of_paper.min()),
                note=f"{len(DISTRIBUTIONS)} distributions",
            ),
            Measurement("exact boundary / (pi/4), maximum over RTT distributions", float(ratios_of_paper.max())),
            Measurement("minimum for T = 10 us", float(limit.min()), note="20 distributions"),
            Measurement(
                "exact boundary at the worst RTT distribution",
                exact.value,
                reported=pi / 4,
                note=f"RTTs {', '.join(f'{1e3 * r:.0f}' for r in sorted(worst))} ms; "
                f"proven stable at {lo:.12g}, unstable at {hi:.12g}",
            ),
        ],
    )


@check("piqi-11", cost=0.1)
def piqi_11(claim: Claim) -> Finding:
    """Compute the roots without delay for capacities from 1 Mb/s to 1 Tb/s and 1 to 1000 flows."""
    protocol = PIQIRCP()
    reference = np.sort_complex(linearize(protocol, Network.dumbbell(1e6, rtts=[0.0]), "discrete").roots(3))
    worst = 0.0
    for capacity in (1e6, 1e9, 1e12):
        for flows in (1, 10, 1000):
            network = Network.dumbbell(capacity, rtts=[0.0] * flows)
            roots = np.sort_complex(linearize(protocol, network, "discrete").roots(3))
            worst = max(worst, float(np.max(np.abs(roots - reference))))
    return Finding(
        claim,
        Verdict.CONFIRMED if worst < 1e-9 else Verdict.REFUTED,
        f"The three roots differ by at most {worst:.1e} between 1 Mb/s and 1 Tb/s, and between 1 and 1000 flows.",
        [
            Measurement("maximum change of a root", worst),
            *(Measurement(f"root {k + 1}", f"{root:.6f}") for k, root in enumerate(reference)),
        ],
    )


@check("piqi-12", cost=1, group="PIQI-RCP")
def piqi_12(claim: Claim) -> Finding:
    """Check equal delays in the discrete model."""
    return _theorem_of_limit(claim, "discrete", "necessary and sufficient")[0]


@check("piqi-13", cost=15, group="PIQI-RCP")
def piqi_13(claim: Claim) -> Finding:
    """Check any delays in the discrete model."""
    return _sufficient(claim, PIQIRCP(), [0.1, 0.2], "discrete", "sufficient")
