"""Checks on stability regions under heterogeneous RTTs: the worst distribution for a mean, and other distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, pi, sin, sqrt
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from ecc import plot
from ecc.claims.checks.common.bisection import narrowed
from ecc.claims.checks.common.evidence import ROOM, random_distributions, run_network
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.contract.protocol import Protocol
from ecc.fluid import solve_dde
from ecc.linear import DelaySystem
from ecc.loops.closed_loop import linearize
from ecc.models import PIQIRCP, QIRCP, RCP, XCP
from ecc.network.network import Network
from ecc.stability import (
    WorstRttDistribution,
    critical_gain,
    critical_rtt_ratio,
    is_stable_for_all_rtts,
    is_stable_up_to_ratio,
    perturbed_run,
    worst_rtt_distribution,
)
from ecc.stability.rtt_distribution_proofs import (
    averaging_is_stable_for_all_rtts,
    boundary_is_stable_for_all_rtts,
    equal_rtts_threshold,
)
from ecc.stability.theorem_registry import THEOREMS, search

MEAN = 0.1
"""Mean RTT of the distributions of the unconstrained-queue region [s]; the region does not depend on it."""
COUNTEREXAMPLE = 0.2875, 0.2571, (0.001, 0.133, 0.133, 0.133)
"""alpha, beta and RTTs [s] with mean 0.1 s for which the region of equal RTTs is not sufficient."""
SHAPES: dict[str, list[float]] = {
    "two RTTs, 1:3": [0.05, 0.15],
    "two RTTs, 1:19": [0.01, 0.19],
    "99 of 220 ms, one of 2020 ms, scaled": [0.1 * 220 / 238] * 99 + [0.1 * 2020 / 238],
}
DRAWN_IN = ((0.994, 0.02, 1.57), (0.9999, 0.95, 1.57))
"""Scale and parts of the boundary for equal RTTs with a proof for every distribution."""
SAFE = 0.6187
"""Maximum alpha with a stability proof of continuous PIQI-RCP with THESIS's tau1, tau2, T for every distribution."""
XCP_GAINS = ((0.4, 0.226), (0.4612, 0.0791), (0.2, 0.0566), (0.55, 0.3))
"""alpha and beta of XCP for the maximum ratio of RTTs; the default gains are first."""
SHARES = (0.02, 0.1, 0.2, 0.3)
"""gamma at the default alpha and beta; at other gains gamma is the default 0.1."""
UNSAFE = 0.7, (1.0, 1.1)
"""alpha and RTTs [s] at which PIQI-RCP is unstable below the bound of Theorem 10."""


def _net(rtts: object) -> Network:
    return Network.dumbbell("1 Gb/s", list(rtts))  # type: ignore[call-overload]


def _hybrid(protocol: Protocol, rtt: float) -> float:
    return critical_gain(protocol, _net([rtt]), "alpha", "hybrid").value


def free_queue_growth(system: DelaySystem, periods: float = 120.0) -> float:
    """Return the growth rate of a linear loop in the solver of delay equations, from the last 2/3 of its envelope.

    Parameters
    ----------
    system : DelaySystem
    periods : float, optional
        Duration in periods of the dominant root.

    Returns
    -------
    growth : float, 1/s
    """
    matrices, delays = system.matrices, [float(tau) for tau in system.delays if tau > 0.0]
    now = sum((a for a, tau in zip(matrices, system.delays, strict=True) if tau == 0.0), np.zeros((system.size,) * 2))
    lagged = [a for a, tau in zip(matrices, system.delays, strict=True) if tau > 0.0]
    omega = abs(system.roots(1)[0].imag)

    def slope(t: float, x: np.ndarray, past: np.ndarray) -> np.ndarray:
        del t
        return np.asarray(now @ x + sum(a @ past[k] for k, a in enumerate(lagged)))

    end = periods * 2.0 * pi / omega
    start = np.zeros(system.size)
    start[0] = 1.0
    t = np.linspace(0.0, end, int(40 * periods))
    run = solve_dde(slope, (0.0, end), start, delays=delays, t_eval=t, rtol=1e-8, atol=1e-12, jit=False)
    size = np.abs(run.y[0]).reshape(int(periods), 40).max(axis=1)
    middle = (np.arange(len(size)) + 0.5) * 2.0 * pi / omega
    late = slice(len(size) // 3, None)
    return float(np.polyfit(middle[late], np.log(size[late]), 1)[0])


ALPHAS = np.array([0.05, 0.1, 0.15, 0.2, 0.25, 0.2875, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.2])
"""Gains alpha of RCP at which regions of beta are compared."""


def _counterexample() -> tuple[list[Measurement], bool]:
    """Return proofs and runs at the gains of COUNTEREXAMPLE, and whether the proofs contradict the equal-RTT region."""
    alpha, beta, rtts = COUNTEREXAMPLE
    measurements, proofs = [], {}
    for protocol in (RCP(alpha=alpha, beta=beta), XCP(alpha=alpha, beta=beta)):
        name = type(protocol).__name__
        for label, distribution in (("all RTTs 100 ms", (MEAN,) * 4), ("RTTs 1, 133, 133, 133 ms", rtts)):
            system = linearize(protocol, _net(distribution))
            assert isinstance(system, DelaySystem)
            proofs[name, label] = system.certify()
            lost = critical_gain(protocol, _net(distribution), "beta", certify=True)
            measurements.append(
                Measurement(
                    f"{name}, alpha = {alpha:g}, {label}: critical beta",
                    lost.value,
                    note=f"proven stable at {lost.certified[0]:.12g}, unstable at {lost.certified[1]:.12g}; at beta = "
                    f"{beta:g} {proofs[name, label].at_least} unstable roots, proven"
                    if lost.certified
                    else "",
                )
            )
            if name == "RCP":
                measurements.append(
                    Measurement(
                        f"the same loop in the solver of delay equations, {label}: growth",
                        free_queue_growth(system),
                        "1/s",
                        note=f"spectral abscissa {system.spectral_abscissa:.6g} 1/s",
                    )
                )
            for engine in ("fluid", "packet"):
                run = perturbed_run(protocol, run_network(distribution, 1.2), 1.2, 40.0, engine=engine)
                measurements.append(
                    Measurement(
                        f"{name} with its queue >= 0 in a {engine} run, {label}",
                        run.stability.status,
                        note=f"growth {run.stability.growth_rate:+.4f} 1/s; empty at equilibrium: see assumptions",
                    )
                )
    contradicted = all(not p.stable for (_, label), p in proofs.items() if label.startswith("RTTs")) and all(
        p.stable for (_, label), p in proofs.items() if label.startswith("all")
    )
    return measurements, contradicted


def _all_distributions(below: float, high: float, max_loss: float, at: float) -> tuple[list[Measurement], float]:
    """Return measurements on the worst of all distributions, and XCP's critical ratio of maximum to mean RTT.

    Equal RTTs are the worst distribution for alpha above `high`, and not at `below`. The maximum loss of beta by
    heterogeneity is at the gain `at`.
    """
    default_gains = is_stable_for_all_rtts(0.4, 0.226)
    shuffled = critical_rtt_ratio(XCP())
    proven = is_stable_up_to_ratio(XCP(), 0.99 * shuffled.value)
    measurements = [
        Measurement("maximum loss of beta by heterogeneity", max_loss, note=f"alpha = {at:.4f}"),
        Measurement(
            "RCP: minimum alpha for which equal RTTs are the worst distribution",
            high,
            note=f"proven, above {below:.13g}",
        ),
        Measurement(
            "RCP with 0.4, 0.226, or XCP without shuffling",
            "stable for all RTTs" if default_gains else "not proven",
            note="ball arithmetic",
        ),
        Measurement(
            "XCP's default gains, gamma = 0.1: critical ratio of maximum to mean RTT for flows of that RTT "
            "and flows of RTT 0",
            shuffled.value,
            note=f"every distribution up to 0.99 of it is {'proven' if proven else 'not proven'} stable",
        ),
    ]
    return measurements, shuffled.value


def _shapes(equal: Sequence[float]) -> tuple[list[Measurement], dict[str, list[float]]]:
    """Return the critical beta at alpha = 0.4, compared with `equal` RTTs, and at ALPHAS, of each shape."""
    measurements, curves = [], {}
    for label, shape in SHAPES.items():
        curves[label] = [critical_gain(RCP(alpha=a), _net(shape), "beta").value for a in ALPHAS]
        at = int(np.argmin(np.abs(ALPHAS - 0.4)))
        measurements.append(
            Measurement(
                f"critical beta at alpha = 0.4, {label}",
                curves[label][at],
                reported=equal[at],
                note="reported: equal RTTs",
            )
        )
    return measurements, curves


def _region_pictures(worst: Sequence[WorstRttDistribution], of_shapes: Mapping[str, Sequence[float]]) -> list[Picture]:
    """Return the pictures of critical beta, of XCP's ratios, and of the effect of the worst distribution."""
    curves = {"worst distribution": [w.value for w in worst], **of_shapes}
    loss = np.array([1.0 - w.value / w.equal for w in worst])
    return [
        Picture.of(
            plot.boundary_figure(
                ALPHAS,
                curves,
                {"equal RTTs": [w.equal for w in worst]},
                x_title="α",
                y_title="critical β",
                log_x=False,
                title="Unconstrained-queue region of RCP",
            ),
            "Unconstrained-queue region of RCP",
            "Critical beta for equal RTTs, for the worst distribution with the same mean, and for single "
            "distributions.",
        ),
        _ratios(),
        Picture.of(
            plot.boundary_figure(
                ALPHAS,
                {"decrease": 100.0 * loss},
                x_title="α",
                log_x=False,
                y_title="decrease of critical β [%]",
                title="Effect of the worst distribution",
            ),
            "Effect of the worst distribution",
            "Decrease of the critical beta from equal RTTs to the worst distribution with the same mean.",
        ),
    ]


@check("open-regions", cost=60, main=False)
def open_regions(claim: Claim) -> Finding:
    """Check that equal RTTs are nearly the worst distribution of a mean: exact loss, counterexample, and regions."""
    worst = [worst_rtt_distribution(RCP(alpha=a), MEAN, "beta") for a in ALPHAS]
    deepest = minimize_scalar(
        lambda a: (w := worst_rtt_distribution(RCP(alpha=a), MEAN, "beta")).value / w.equal,
        bounds=(0.2, 0.4),
        method="bounded",
        options={"xatol": 1e-4},
    )
    below, high = equal_rtts_threshold()
    alpha, beta, _ = COUNTEREXAMPLE
    of_counterexample, contradicted = _counterexample()
    of_distributions, ratio = _all_distributions(below, high, 1.0 - deepest.fun, deepest.x)
    of_shapes, curves = _shapes([w.equal for w in worst])
    return Finding(
        claim,
        Verdict.REFUTED if contradicted else Verdict.CONFIRMED,
        f"For RCP equal RTTs are nearly the worst distribution. For alpha >= {ceil(1e6 * high) / 1e6:.6f} they "
        "provably "
        "are the worst, and their region is sufficient. For smaller alpha {0, about 1.3 d} is worse, by at most "
        f"{1.0 - deepest.fun:.2%} of beta (alpha = {deepest.x:.3f}): alpha = {alpha:g}, beta = {beta:g} is provably "
        "stable if all RTTs are 100 ms and provably unstable for RTTs of 1, 133, 133 and 133 ms. Paced XCP, which "
        "shuffles, is never stable for every distribution: with its default gains it loses stability at a maximum RTT "
        "of "
        f"{ratio:.2f} times the mean.",
        [*of_counterexample, *of_distributions, *of_shapes],
        _region_pictures(worst, curves),
        [
            "The loop has an unconstrained queue, which may be negative, and the router's d is the mean over flows.",
            "Runs keep the queue >= 0. It is empty at the equilibrium, at which the loop switches, so their verdicts "
            "are not those of the unconstrained-queue loop; the solver of delay equations replays that loop.",
        ],
    )


def _ratios() -> Picture:
    """Return the picture of XCP's critical ratio of RTTs over the shuffled share."""
    gamma = np.geomspace(0.02, 1.0, 60)
    curves = {
        f"α = {a:g}, β = {b:g}": [g * critical_rtt_ratio(XCP(alpha=a, beta=b, gamma=g)).value for g in gamma.tolist()]
        for a, b in XCP_GAINS
    }
    return Picture.of(
        plot.boundary_figure(
            gamma,
            curves,
            {"shuffling alone: π/2": pi / 2.0},
            x_title="γ",
            y_title="critical γ D_max/d",
            title="XCP: largest RTT over mean RTT",
        ),
        "XCP: largest RTT over mean RTT",
        "Minimum ratio at which a share d/D_max of flows at D_max and all others at RTT 0 is unstable (numerical).",
    )


@check("open-proofs", cost=70, main=False)
def open_proofs(claim: Claim) -> Finding:
    """Prove stability by ball arithmetic over ranges of gains and all distributions."""
    limit = pi / (4.0 * sqrt(2.0))  # alpha on the curve at which equal RTTs lose stability
    low, high = narrowed(0.5, limit, 1e-6, lambda a: is_stable_for_all_rtts(a, sqrt(2.0) * a * a))
    drawn = {part: boundary_is_stable_for_all_rtts(*part) for part in DRAWN_IN}
    averaging = averaging_is_stable_for_all_rtts(PIQIRCP(alpha=SAFE), 2.0 * PIQIRCP().interval)
    lost = critical_gain(PIQIRCP(), _net([0.984]), "alpha", certify=True)
    every = search(THEOREMS["mean-4"])
    shuffling = [XCP(gamma=g) for g in SHARES] + [XCP(alpha=a, beta=b) for a, b in XCP_GAINS[1:]]
    ratios = [critical_rtt_ratio(xcp).value for xcp in shuffling]
    up_to = [is_stable_up_to_ratio(xcp, 0.99 * ratio) for xcp, ratio in zip(shuffling, ratios, strict=True)]
    proofs = [*drawn.values(), averaging, *up_to]
    word = {True: "proven", False: "undecided"}
    measurements = [
        Measurement(
            "RCP: maximum alpha with a proof for every distribution at beta = sqrt(2) alpha^2",
            low,
            reported=pi / (4.0 * sqrt(2.0)),
            note=f"proven, undecided at {high:.7g}; smaller alpha by scaling; reported for equal RTTs",
        ),
        *(
            Measurement(
                f"(s alpha, s^2 beta), s <= {s:g}, of the equal-RTT boundary v = {v0:g} to {v1:g}, every distribution",
                word[holds],
                note=f"alpha = v sin v from {v0 * sin(v0):.4g} to {v1 * sin(v1):.4g}",
            )
            for (s, v0, v1), holds in drawn.items()
        ),
        Measurement(
            f"continuous PIQI-RCP, tau1 = 0.01, tau2 = 0.1, T = 10 ms: alpha <= {SAFE:g}, all RTTs, d >= 20 ms",
            word[averaging],
            reported="pi d/(4 D)",
            note=f"equal RTTs of 0.984 s: lost at {lost.value:.6f}",
        ),
        Measurement(
            "discrete PIQI-RCP, tau1 + tau2 <= 1: minimum critical alpha over d/(2d - 1) found",
            every.least.ratio,
            note=f"in {every.loops} loops; the bound is proven by hand, and the limit of tau1 -> 0 with tau2 = 0",
        ),
        *(
            Measurement(
                f"XCP, alpha = {xcp.alpha:g}, beta = {xcp.beta:g}, gamma = {xcp.gamma:g}: critical D_max/d",
                ratio,
                note=f"numerical; every distribution of RTTs up to 0.99 of it: {word[held]}",
            )
            for xcp, ratio, held in zip(shuffling, ratios, up_to, strict=True)
        ),
    ]
    return Finding(
        claim,
        Verdict.CONFIRMED if all(proofs) and every.holds else Verdict.CONDITIONAL,
        "Stability for every RTT distribution is proven for RCP with beta = sqrt(2) alpha^2 up to alpha = "
        f"{low - 5e-7:.6f}; for RCP in the region of equal RTTs scaled by {DRAWN_IN[0][0]:g}; for continuous PIQI-RCP "
        f"with alpha <= {SAFE:g} and a mean RTT of at least 20 ms; and, by hand, for discrete PIQI-RCP with tau1 + "
        "tau2 "
        "<= 1 and alpha <= 1/2, which includes the gains of THESIS IV.E. For paced XCP with its default gains it is "
        f"proven for maximum RTTs up to {0.99 * ratios[1]:.2f} times the mean.",
        measurements,
        [],
        [
            "Unconstrained queue for RCP; d is the mean over flows; one link; constant RTTs. XCP has this loop only "
            "with gamma = 0: see open-regions.",
            "Along beta = k alpha^2 and along 1/alpha of PIQI-RCP, a smaller gain has the same moments of a "
            "distribution "
            "with a smaller mean, so one proof covers all smaller gains.",
        ],
    )


MEANS = [0.02, 0.05, 0.1, 0.12, 0.2, 0.3, 0.5, 0.8, 1.0, 1.3, 2.0, 4.0]
"""Mean RTTs of the distributions of QI-RCP and PIQI-RCP [s]."""


class _UnsafeRtts(NamedTuple):
    """PIQI-RCP at the RTTs of UNSAFE."""

    bound: float
    """Bound of alpha by Theorem 10."""
    limit: float
    """Critical alpha."""
    is_unstable: bool
    """True if the loop is proven unstable at the alpha of UNSAFE."""


def _worst_distributions() -> tuple[list[Measurement], dict[tuple[str, str], list[float]], bool]:
    """Return losses by the worst distribution, the critical alpha over MEANS, and whether equal RTTs are the worst."""
    measurements, tables, equal_is_worst = [], {}, True
    for protocol, gain in ((QIRCP(), 1.0), (PIQIRCP(), 2.0)):
        name = "QI-RCP" if gain == 1.0 else "PIQI-RCP"
        for time in ("continuous", "discrete"):
            worst = [worst_rtt_distribution(protocol, d, time=time) for d in MEANS]
            tables[name, time] = [w.value for w in worst]
            off = max(1.0 - w.value / w.equal for w in worst)
            equal_is_worst &= off < 1e-8
            measurements.append(
                Measurement(
                    f"{name}, {time}: maximum loss by the worst distribution of a mean RTT, 20 ms to 4 s",
                    off,
                    note="relative to the critical alpha for equal RTTs",
                )
            )
        measurements.append(
            Measurement(
                f"{name}, hybrid: critical alpha at equal RTTs of 0.12 and 1 s",
                ", ".join(f"{_hybrid(protocol, d):.4f}" for d in (0.12, 1.0)),
            )
        )
    return measurements, tables, equal_is_worst


def _drawn_distributions(safe_alpha: float) -> list[Measurement]:
    """Return the minimum critical alpha of random distributions over the alpha that is safe for all of them."""
    measurements = []
    drawn = random_distributions(30, seed=7)
    for protocol, floor in ((QIRCP(), pi / 2.0), (PIQIRCP(), safe_alpha)):
        ratios = [critical_gain(protocol, _net(m), "alpha").value / floor for m in drawn]
        measurements.append(
            Measurement(
                f"{type(protocol).__name__}: minimum critical alpha of 30 random distributions over the safe alpha",
                min(ratios),
                note=f"maximum {max(ratios):.4f}",
            )
        )
    return measurements


def _unsafe_rtts() -> tuple[list[Measurement], _UnsafeRtts]:
    """Return proofs and runs at the RTTs of UNSAFE, for which Theorem 10 allows an unstable alpha."""
    alpha, rtts = UNSAFE
    network = _net(rtts)
    case = THEOREMS["piqi-10"].evaluate(PIQIRCP(), network, certify=True)
    proven = linearize(PIQIRCP(alpha=alpha), network).certify()
    lo, hi = case.found.certified or (0.0, 0.0)
    measurements = [
        Measurement(
            "PIQI-RCP, RTTs 1 and 1.1 s: critical alpha",
            case.found.value,
            reported=case.bound,
            note=f"Theorem 10 has {case.bound:.4f}; proven stable at {lo:.12g}, unstable at {hi:.12g}; "
            f"{proven.at_least} unstable roots at {alpha:g}, proven",
        )
    ]
    period = 2.0 * pi / case.found.frequency
    for engine in ("fluid", "packet"):
        for gain in (0.55, alpha):
            roomy = PIQIRCP(alpha=gain, gamma=ROOM["gamma"])
            run = perturbed_run(roomy, run_network(rtts, period), period, 40.0, engine=engine)
            measurements.append(
                Measurement(
                    f"{engine} run, RTTs 1 and 1.1 s, alpha = {gain:g}",
                    run.stability.status,
                    reported="stable",
                    note=f"growth {run.stability.growth_rate:+.4f} 1/s",
                )
            )
    return measurements, _UnsafeRtts(case.bound, case.found.value, proven.stable is False)


def _limit_pictures(tables: Mapping[tuple[str, str], list[float]]) -> list[Picture]:
    """Return the pictures of QI-RCP's bound and limit, and of PIQI-RCP's limit over the mean RTT."""
    ratio = np.linspace(1.0, 10.0, 91)
    figure = plot.boundary_figure(
        ratio,
        {"exact, worst distribution of a mean": np.full(len(ratio), pi / 2.0)},
        {"Theorem 4": pi / (2.0 * ratio)},
        x_title="largest RTT / mean RTT",
        y_title="α",
        log_x=False,
        title="QI-RCP: published bound and exact limit",
    )
    safe_figure = plot.boundary_figure(
        MEANS,
        {f"worst distribution, {time}": tables["PIQI-RCP", time] for time in ("continuous", "discrete")},
        {"π/4": pi / 4.0},
        x_title="mean RTT [s]",
        y_title="critical α",
        title="PIQI-RCP: α stable for every distribution",
    )
    return [
        Picture.of(
            figure,
            "QI-RCP: published bound and exact limit",
            "Continuous QI-RCP: pi d/(2 D), and pi/2, which is safe for every distribution.",
        ),
        Picture.of(
            safe_figure,
            "PIQI-RCP: alpha stable for every distribution",
            "Critical alpha over the mean RTT, tau1 = 0.01, tau2 = 0.1, T = 10 ms: exact for the worst "
            "distribution of the mean.",
        ),
    ]


@check("open-rtt-distributions", cost=60, main=False)
def open_rtt_distributions(claim: Claim) -> Finding:
    """Check that equal RTTs are the worst distribution of QI-RCP and PIQI-RCP, and compare published bounds."""
    of_means, tables, equal_is_worst = _worst_distributions()
    lead, spread = PIQIRCP(tau1=0.999, tau2=3.0), (0.0, 0.045, 0.045)
    equal, spread_out = (critical_gain(lead, _net(m), "alpha", certify=True) for m in ((0.03,) * 3, spread))
    safe = minimize_scalar(
        lambda d: worst_rtt_distribution(PIQIRCP(), d).value,
        bounds=(0.5, 2.0),
        method="bounded",
        options={"xatol": 1e-4},
    )
    of_unsafe_rtts, unsafe = _unsafe_rtts()
    return Finding(
        claim,
        Verdict.REFUTED if equal_is_worst and unsafe.is_unstable else Verdict.CONDITIONAL,
        "At THESIS's gains the bound need not shrink: among all distributions with the same mean RTT, equal RTTs lose "
        "stability first, in QI-RCP and in PIQI-RCP with tau1 = 0.01, tau2 = 0.1, in both models. The factor d/D of "
        "Theorems 4, 8, 10 and 13 is unnecessary. This does not hold for tau = (0.999, 3): the critical alpha is "
        f"{spread_out.value:.4f} with RTTs of 0, 45, 45 ms and {equal.value:.4f} with equal RTTs. QI-RCP is stable for "
        f"alpha < pi/2 for any RTTs. PIQI-RCP is stable for alpha < {safe.fun:.4f}, but not for all alpha < pi d/(4 "
        "D): "
        f"with RTTs of 1 and 1.1 s Theorem 10 allows {unsafe.bound:.4f}, and the exact limit is {unsafe.limit:.4f}.",
        [
            *of_means,
            Measurement(
                "PIQI-RCP, tau = (0.999, 3): critical alpha with RTTs of 0, 45, 45 ms",
                spread_out.value,
                reported=equal.value,
                note="reported: equal RTTs of 30 ms; certified: equal RTTs are not the worst",
            ),
            *_drawn_distributions(float(safe.fun)),
            *of_unsafe_rtts,
            Measurement(
                "PIQI-RCP with tau1 = 0.01, tau2 = 0.1, T = 10 ms: alpha safe for all RTTs",
                float(safe.fun),
                reported="pi d/(4 D)",
                note=f"minimum over mean RTTs, at {safe.x:.3f} s",
            ),
        ],
        _limit_pictures(tables),
        ["Control interval 10 ms, tau1 = 0.01, tau2 = 0.1 (THESIS IV.E); d is the mean over flows."],
    )
