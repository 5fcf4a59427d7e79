"""Checks on wrong or coarse RTT estimates, and on RTTs below the control interval."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sin, sqrt
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ecc import plot
from ecc.claims.checks.common.evidence import ROOM
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.contract.env import Hook
from ecc.contract.protocol import Protocol
from ecc.loops.closed_loop import linearize
from ecc.models import EMKC, MKC, PIQIRCP, QIRCP, RCP, XCP, JetMax, Kelly, MaxNet
from ecc.models.shared import rate_feedback
from ecc.network.network import Network
from ecc.stability import critical_gain, decay_rate, perturbed_run, rtt_margin

RTT = 0.12
"""RTT of the loops with wrong estimates [s]."""
INTERVAL = 0.01
SMALL: Any = {"perturbation": 0.005, "floor": 1e-3, "ceiling": 0.025}
"""Options of runs: above its boundary PIQI-RCP has a cycle of 4 % of its rate, so growth is measured below that."""
HALF = 0.5
"""Minimum ratio of a truncated RTT to an RTT above one clock tick."""


@dataclass(frozen=True)
class Misjudging(Protocol):
    """A protocol with hosts that report wrong RTTs: scaled by `scale`, and in whole clock ticks.

    `tick` is the clock tick [s], 0 for an exact clock. If `stamps` is positive, the RTT is the difference of two clock
    readings instead of a truncated RTT.
    """

    scale: float = 1.0
    tick: float = 0.0
    stamps: float = 0.0

    def params(self) -> dict[str, float]:
        return super().params() | {"scale": self.scale, "tick": self.tick, "stamps": self.stamps}

    def flow_hooks(self) -> dict[str, Hook]:
        return super().flow_hooks() | {"on_send": report}


@dataclass(frozen=True)
class MisjudgingQIRCP(Misjudging, QIRCP):
    """QI-RCP with hosts that report wrong RTTs."""


@dataclass(frozen=True)
class MisjudgingPIQIRCP(Misjudging, PIQIRCP):
    """PIQI-RCP with hosts that report wrong RTTs."""


def report(flow: Any, header: Any, p: Any, env: Any) -> None:
    """Open the header with the RTT that the host reports; routers ignore an RTT of 0 ticks."""
    rate_feedback.flow_on_send(flow, header, p, env)
    if p.tick > 0.0:
        if p.stamps > 0.0:
            header.rtt = p.tick * (int(env.now / p.tick) - int((env.now - env.rtt) / p.tick))
        else:
            header.rtt = p.tick * int(env.rtt / p.tick)
    header.rtt *= p.scale


def critical_ratio(alpha: float, beta: float) -> float:
    """Return the critical ratio of RCP and XCP with an unconstrained queue at equal RTTs, in closed form.

    Parameters
    ----------
    alpha, beta : float
        Gains, > 0.
    """
    k = beta / alpha**2
    cosine = (sqrt(1.0 + 4.0 * k * k) - 1.0) / (2.0 * k)
    omega = float(np.arccos(cosine))
    return alpha / (omega * sin(omega))


def _net(rtt: float) -> Network:
    return Network.dumbbell("1 Gb/s", [rtt])


def _truncated(ratio: float) -> str:
    """Return the RTTs [ticks, >= 1] for which a truncating clock puts the estimate below a ratio, as text."""
    bad = [(n / ratio, n + 1.0) for n in range(1, 50) if n / (n + 1.0) < ratio] if 0.0 < ratio < 1.0 else []
    return ", ".join(f"{low:.4g} to {high:g}" for low, high in bad) or ("no" if ratio < 1.0 else "all")


def _critical_ratios(net: Network) -> tuple[list[Measurement], dict[str, float]]:
    """Return the critical ratios of estimated to true RTT with certificates, and the ratios by name of the loop."""
    loops: dict[str, tuple[Protocol, str, float | None]] = {
        "QI-RCP": (QIRCP(), "continuous", 2.0 * 0.5 / pi),
        "QI-RCP, hybrid": (QIRCP(), "hybrid", None),
        "PIQI-RCP": (PIQIRCP(), "continuous", None),
        "PIQI-RCP, hybrid": (PIQIRCP(), "hybrid", None),
        "XCP, unconstrained queue": (XCP(), "continuous", critical_ratio(0.4, 0.226)),
        "RCP, unconstrained queue": (RCP(), "continuous", critical_ratio(0.4, 1.0)),
        "RCP without queue term": (RCP(queue_term=False), "continuous", 2.0 * 0.4 / pi),
        "XCP, alpha = 0.4612, beta = 0.0791": (
            XCP(alpha=0.4612, beta=0.0791),
            "continuous",
            critical_ratio(0.4612, 0.0791),
        ),
    }
    measured, ratios = [], {}
    for name, (protocol, time, exact) in loops.items():
        margin = rtt_margin(protocol, net, time, certify=True)
        ratios[name] = margin.ratio
        low, high = margin.certified or (0.0, 0.0)
        measured.append(
            Measurement(
                f"{name}: critical ratio of estimated to true RTT",
                margin.ratio,
                reported=exact,
                note=f"proven unstable at {low:.10g}, stable at {high:.10g}; reported: the closed form. Truncating "
                f"clocks are not safe at RTTs of ticks: {_truncated(margin.ratio)}",
            )
        )
    longer = rtt_margin(PIQIRCP(), _net(1.0), "hybrid", certify=True)
    measured.append(Measurement("PIQI-RCP, hybrid, RTT 1 s: critical ratio", longer.ratio))
    free = [p for p in (MKC(), EMKC(), JetMax(), MaxNet(), Kelly()) if rtt_margin(p, net, "discrete").ratio == 0.0]
    measured.append(
        Measurement(
            "routers whose law has no RTT", ", ".join(type(p).__name__ for p in free), note="they use no RTT estimate"
        )
    )
    return measured, ratios


def _scaled_estimates(net: Network) -> tuple[list[Measurement], bool]:
    """Return packet runs with hosts that scale RTTs 10 % off the critical ratio, and whether all agree with it."""
    measured, agreed = [], True
    for name, maker in (("QI-RCP", MisjudgingQIRCP), ("PIQI-RCP", MisjudgingPIQIRCP)):
        edge = rtt_margin(maker(), net, "hybrid")
        period = 2.0 * pi / edge.frequency * INTERVAL
        for factor, expected in ((0.9, "unstable"), (1.1, "stable")):
            protocol = maker(scale=edge.ratio * factor, gamma=ROOM["gamma"])
            run = perturbed_run(protocol, _net(RTT), period, 40.0, **SMALL)
            agreed &= run.stability.status == expected
            predicted = -decay_rate(linearize(maker(), net, "hybrid", mean_rtt=[RTT * edge.ratio * factor]))
            measured.append(
                Measurement(
                    f"{name}: packets, hosts report {edge.ratio * factor:.4f} times the RTT",
                    run.stability.status,
                    reported=expected,
                    note=f"growth {run.stability.growth_rate:+.4f} 1/s; reported: the hybrid model, "
                    f"{predicted:+.4f} 1/s",
                )
            )
    return measured, agreed


def _coarse_clocks() -> tuple[list[Measurement], bool]:
    """Return packet runs with a coarse clock, truncated or by timestamps, and whether all have the expected status."""
    measured, agreed = [], True
    tick, alpha = 0.0601, 1.2  # the RTT is slightly less than two ticks
    for label, stamps, expected in (("truncated", 0.0, "unstable"), ("by timestamps", 1.0, "stable")):
        protocol = MisjudgingQIRCP(alpha=alpha, tick=tick, stamps=stamps, gamma=ROOM["gamma"])
        run = perturbed_run(protocol, _net(RTT), 0.4, 40.0, **SMALL)
        agreed &= run.stability.status == expected
        measured.append(
            Measurement(
                f"QI-RCP, alpha = {alpha:g}, RTT 120 ms on a clock of {1e3 * tick:g} ms, {label}",
                run.stability.status,
                reported=expected,
                note=f"growth {run.stability.growth_rate:+.4f} 1/s",
            )
        )
    return measured, agreed


@check("open-estimates", cost=30, main=False)
def open_estimates(claim: Claim) -> Finding:
    """Compute critical ratios of estimated to true RTT with certificates, and run packets with wrong estimates."""
    net = _net(RTT)
    of_models, ratios = _critical_ratios(net)
    of_scales, scales_agree = _scaled_estimates(net)
    of_clocks, clocks_agree = _coarse_clocks()
    agreed = scales_agree and clocks_agree
    k = np.geomspace(0.2, 20.0, 60)
    figure = plot.boundary_figure(
        k,
        {"stability limit": [critical_ratio(1.0, x) for x in k]},
        None,
        {
            "XCP": ([1.4125], [ratios["XCP, unconstrained queue"] / 0.4], None),
            "RCP": ([6.25], [ratios["RCP, unconstrained queue"] / 0.4], None),
        },
        x_title="k = β/α²",
        y_title="critical estimated RTT / (α true RTT)",
        title="RCP and XCP, unconstrained queue: critical estimate of d",
    )
    stable = [name for name, ratio in ratios.items() if ratio < HALF]
    worst = ratios["XCP, unconstrained queue"]
    return Finding(
        claim,
        Verdict.CONFIRMED if len(stable) == len(ratios) else Verdict.REFUTED,
        f"QI-RCP is stable if routers assume more than {ratios['QI-RCP']:.4f} of the true mean RTT (1/pi), and "
        "PIQI-RCP "
        f"if they assume more than {ratios['PIQI-RCP, hybrid']:.4f} at 120 ms. XCP (unconstrained queue) needs "
        f"{worst:.4f}, and RCP {ratios['RCP, unconstrained queue']:.4f}, which is an overestimate. All larger ratios "
        f"are safe. Packet runs with wrong estimates {'agree' if agreed else 'do not all agree'} with the hybrid model "
        "10 % on either side.",
        [*of_models, *of_scales, *of_clocks],
        [
            Picture.of(
                figure, "Critical estimate of d", "The critical ratio of estimated to true RTT over beta/alpha^2."
            )
        ],
        [
            "The estimates of all flows, or the routers' averages, are wrong by the same factor; delays are true.",
            "XCP also derives its control interval from its estimate; the linear model omits this.",
        ],
    )


@check("open-tiny", cost=30, main=False)
def open_tiny(claim: Claim) -> Finding:
    """Check RTTs below the control interval: closed form of the sampled loop, the model, and packet runs."""
    share = np.array([0.03, 0.05, 0.08, 0.12, 1 / 6, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.3, 1.6, 2.0, 3.0, 5.0])
    curves: dict[str, list[float]] = {}
    for name, protocol_of_curve in (("QI-RCP", QIRCP(interval=INTERVAL)), ("PIQI-RCP", PIQIRCP(interval=INTERVAL))):
        for label, min_rtt in (("d = RTT", 0.0), ("d = max(RTT, T)", INTERVAL)):
            curves[f"{name}, {label}"] = [
                critical_gain(
                    protocol_of_curve, _net(f * INTERVAL), "alpha", "hybrid", mean_rtt=[max(min_rtt, f * INTERVAL)]
                ).value
                for f in share
            ]
    closed = np.array([2.0 * f / (1.0 - 2.0 * f) if f < 0.25 else 1.0 for f in share])
    below = share <= 1.0
    off = float(np.abs(np.array(curves["QI-RCP, d = RTT"])[below] / closed[below] - 1.0).max())
    edges = {"QI-RCP": 0.5 / (2.0 * 1.5)}
    edges["PIQI-RCP"] = brentq(
        lambda f: critical_gain(PIQIRCP(interval=INTERVAL), _net(f * INTERVAL), "alpha", "hybrid").value - 0.5,
        0.02,
        0.2,
        xtol=1e-9,
    )
    safe = {name: min(values) for name, values in curves.items() if name.endswith("T)")}
    measured = [
        Measurement(
            "QI-RCP: maximum relative distance of the hybrid model from the closed form, d <= T",
            off,
            note="alpha* = 2 f/(1 - 2 f) for f = d/T < 1/4, and 1 up to f = 1",
        ),
        *(Measurement(f"{name}, alpha = 0.5: unstable for d/T below", edge) for name, edge in edges.items()),
        *(Measurement(f"{name}: minimum critical alpha, d/T from 0.03 to 5", value) for name, value in safe.items()),
    ]
    agreed = True
    for name, maker in (("QI-RCP", MisjudgingQIRCP), ("PIQI-RCP", MisjudgingPIQIRCP)):
        rtt = edges[name] * INTERVAL
        for factor, tick, expected in ((0.8, 0.0, "unstable"), (1.25, 0.0, "stable"), (0.8, INTERVAL, "stable")):
            network = Network.dumbbell("10 Gb/s", [rtt * factor])
            hybrid = critical_gain(maker(), network, "alpha", "hybrid")
            protocol = maker(gamma=ROOM["gamma"], tick=tick, stamps=1.0)
            run = perturbed_run(protocol, network, 2.0 * pi / hybrid.frequency * INTERVAL, 40.0, **SMALL)
            agreed &= run.stability.status == expected
            clock = f", clocks of {1e3 * tick:g} ms" if tick else ""
            measured.append(
                Measurement(
                    f"{name}, packets: RTT {1e3 * rtt * factor:.4g} ms, T = 10 ms{clock}",
                    run.stability.status,
                    reported=expected,
                    note=f"growth {run.stability.growth_rate:+.4g} 1/s; reported: the model",
                )
            )
    figure = plot.boundary_figure(
        share,
        curves,
        {"recommended": 0.5},
        x_title="RTT / T",
        y_title="critical α",
        log_y=True,
        title="RTTs below the control interval",
    )
    held = min(min(curves[name + ", d = RTT"]) for name in edges) > 0.5
    return Finding(
        claim,
        Verdict.CONFIRMED if held else Verdict.REFUTED,
        "Stability is lost for RTTs below a part of T: with alpha = 0.5 QI-RCP is unstable for RTTs below T alpha/(2 "
        "(1 "
        f"+ alpha)) = T/6, and PIQI-RCP below {edges['PIQI-RCP']:.4f} T. If d is at least T, as with clocks of tick T, "
        "both are stable (0.03 to 5 T), QI-RCP for alpha < 1. Packet runs "
        f"{'agree' if agreed else 'do not all agree'}.",
        measured,
        [Picture.of(figure, "RTTs below the control interval", "Critical alpha of the hybrid model over RTT/T.")],
        ["Equal RTTs, T = 10 ms; the boundaries of QI-RCP depend only on RTT/T."],
    )
