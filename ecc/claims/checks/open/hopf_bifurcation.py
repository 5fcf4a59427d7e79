"""Check on the Hopf bifurcation at a stability boundary: supercritical or subcritical."""

from __future__ import annotations

from cmath import exp
from collections.abc import Sequence
from dataclasses import replace
from math import ceil, cos, pi
from typing import Any

import numpy as np

from ecc import fluid, packet, plot
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.contract.protocol import Protocol
from ecc.fluid import PeriodicOrbit, periodic_orbit
from ecc.models import PIQIRCP, QIRCP, RCP, Kelly, MaxNet
from ecc.network.network import Network
from ecc.scenario import Scenario
from ecc.stability import Hopf, critical_gain, hopf

RTT = 0.1
ROOMY = {"gamma": 0.5}
"""Target utilization that allows an oscillation without a queue."""
UNEQUAL = (0.05, 0.1, 0.25)
"""Heterogeneous RTTs, s, that are stable at gains far above pi/2."""
DISTANCES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02)
"""Distances of the computed orbits from the boundary, relative to the critical gain."""


def _net(rtts: Sequence[float] = (RTT, RTT)) -> Network:
    return Network.dumbbell("100 Mb/s", list(rtts))


def integral_orbit(protocol: QIRCP, bifurcation: Hopf, gain: float) -> PeriodicOrbit:
    """Return the periodic orbit of QI-RCP near its boundary, from its law with y = R one RTT ago.

    Parameters
    ----------
    protocol : QIRCP
    bifurcation : Hopf
        Hopf bifurcation at RTT.
    gain : float
        Gain alpha.
    """
    law, p, T = protocol.router_law, replace(protocol, alpha=gain).namespace(), protocol.interval

    def slope(t: float, y: Any, past: Any) -> list[float]:
        return [(law(y[0], past[0, 0], 1.0 / p.gamma, RTT, T, p) - y[0]) / T]

    size, w = bifurcation.amplitude(gain), bifurcation.frequency
    return periodic_orbit(slope, [RTT], lambda t: [1.0 + size * cos(w * t)], 2.0 * pi / w)


def proportional_orbit(protocol: PIQIRCP, bifurcation: Hopf, gain: float) -> PeriodicOrbit:
    """Return the periodic orbit (R, y) of PIQI-RCP near its boundary, from its laws.

    Parameters
    ----------
    protocol : PIQIRCP
    bifurcation : Hopf
        Hopf bifurcation at RTT.
    gain : float
        Gain alpha.
    """
    p, T = replace(protocol, alpha=gain).namespace(), protocol.interval
    router, source = protocol.router_law, protocol.source_law

    def slope(t: float, y: Any, past: Any) -> list[float]:
        before, received, earlier = past
        return [
            (router(y[0], y[1], before[1], 1.0 / p.gamma, RTT, T, p) - y[0]) / T,
            (source(before[1], received[0], earlier[0], p) - before[1]) / T,
        ]

    size, s = bifurcation.amplitude(gain), 1j * bifurcation.frequency
    rate = -(gain / RTT) * (1.0 + exp(-s * T)) / s  # linear response of R to y

    def guess(t: float) -> list[float]:
        turn = size * exp(s * t)
        return [1.0 + (rate * turn).real, 1.0 + turn.real]

    return periodic_orbit(slope, [T, RTT, RTT + T], guess, 2.0 * pi / bifurcation.frequency)


def fundamental(orbit: PeriodicOrbit, k: int) -> float:
    """Return the amplitude of the first harmonic of a component of an orbit.

    Parameters
    ----------
    orbit : PeriodicOrbit
    k : int
        Index of the component.
    """
    return float(2.0 * abs(np.fft.rfft(orbit.y[k, :-1])[1]) / (orbit.y.shape[1] - 1))


def swing(
    protocol: Protocol, by: float, engine: Any = fluid, rtts: Sequence[float] = (RTT, RTT), duration: float = 60.0,
    **options: Any,
) -> float:  # fmt: skip
    """Return the amplitude of arrivals over their mean, in the last quarter of a run from a perturbed start.

    Parameters
    ----------
    protocol : Protocol
    by : float
        Relative perturbation of all rates.
    engine : object, optional
        Ecc.fluid or ecc.packet.
    rtts : sequence of float, optional
        RTTs of the flows, s.
    duration : float, s, optional
    **options : object
        Further arguments of the engine's simulate.
    """
    run = engine.simulate(
        Scenario(_net(rtts), protocol, duration),
        sample=RTT / 10.0,
        start="equilibrium",
        perturbation=by,
        **options,
    )
    late = run.arrival.to_numpy()[-len(run.arrival) // 4 :, 0]
    return float(np.ptp(late) / 2.0 / late.mean())


def _sign_change(low: float, high: float, coefficient: Any) -> float:
    """Return the value at which a coefficient changes its sign, within 0.1 %."""
    sign = coefficient(low) > 0.0
    while high - low > 1e-3 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if (coefficient(middle) > 0.0) == sign else (low, middle)
    return 0.5 * (low + high)


def _share(bifurcation: Hopf) -> float:
    return bifurcation.lyapunov / bifurcation.frequency


@check("open-hopf", cost=40, main=False)
def open_hopf(claim: Claim) -> Finding:
    """Compute Lyapunov coefficients of all boundaries, orbits near two of them, and runs on both sides."""
    measurements = []
    cases: list[tuple[str, Protocol, str, str]] = [
        ("QI-RCP", QIRCP(), "alpha", "continuous"), ("QI-RCP", QIRCP(), "alpha", "discrete"),
        ("PIQI-RCP", PIQIRCP(), "alpha", "continuous"), ("PIQI-RCP", PIQIRCP(), "alpha", "discrete"),
        ("RCP, unconstrained queue, alpha = 0.4", RCP(alpha=0.4), "beta", "continuous"),
        ("RCP, unconstrained queue, alpha = 1.2", RCP(alpha=1.2), "beta", "continuous"),
        ("Kelly, steepness 1", Kelly(), "kappa", "discrete"),
        ("Kelly, steepness 8", Kelly(steepness=8.0), "kappa", "discrete"), ("MaxNet", MaxNet(), "p2", "discrete"),
        ("MaxNet", MaxNet(), "price_scale", "discrete"),
    ]  # fmt: skip
    for label, protocol, gain, time in cases:
        bifurcation = hopf(protocol, _net(), gain, time)
        side, word = (1.01, "super") if bifurcation.is_supercritical else (0.99, "sub")
        measurements.append(
            Measurement(f"{label}, {time}: first Lyapunov coefficient / frequency", _share(bifurcation),
                        note=f"{word}critical; {gain} = {bifurcation.value:.6g}, frequency "
                             f"{bifurcation.frequency:.6g}; relative "
                                                f"amplitude {bifurcation.amplitude(side * bifurcation.value):.4f} at "
                                                f"{side:g} of it")
        )  # fmt: skip
    measurements.append(
        Measurement("QI-RCP: coefficient, 1/s", hopf(QIRCP(), _net()).lyapunov,
                    reported=pi / 80.0 * (2.0 - 3.0 * pi) / (1.0 + pi**2 / 4.0) / RTT,
                    note="reported: closed form of Hutchinson's equation, (pi/80)(2 - 3 pi)/(1 + pi^2/4)/d")
    )  # fmt: skip
    rtts = np.array([0.03, 0.05, 0.06, 0.07, 0.08, 0.1, 0.12, 0.15, 0.2, 0.3, 0.5, 0.8, 1.3, 2.0])
    of_rtt = [_share(hopf(PIQIRCP(), _net([d]))) for d in rtts.tolist()]
    first, last = (
        _sign_change(*ends, lambda d: hopf(PIQIRCP(), _net([d])).lyapunov) for ends in ((0.05, 0.1), (0.15, 0.3))
    )
    change = _sign_change(0.8, 1.2, lambda a: hopf(RCP(alpha=a), _net(), "beta").lyapunov)
    measurements += [
        Measurement("PIQI-RCP is subcritical for equal RTTs from", first, "s",
                    note="T = 10 ms, tau1 = 0.01, tau2 = 0.1"),
        Measurement("PIQI-RCP is subcritical for equal RTTs to", last, "s"),
        Measurement("RCP with an unconstrained queue is subcritical for alpha up to", change),
    ]  # fmt: skip
    supercritical, subcritical = QIRCP(**ROOMY), PIQIRCP(**ROOMY)  # type: ignore[arg-type]
    above, below = hopf(supercritical, _net()), hopf(subcritical, _net())
    names = ("QI-RCP, predicted", "QI-RCP, orbit above", "PIQI-RCP, predicted", "PIQI-RCP, orbit below")
    curves: dict[str, list[float]] = {name: [] for name in names}
    stable, unstable = [], []
    for far in DISTANCES:
        stable_orbit = integral_orbit(supercritical, above, (1.0 + far) * above.value)
        unstable_orbit = proportional_orbit(subcritical, below, (1.0 - far) * below.value)
        stable.append(stable_orbit.is_stable)
        unstable.append(not unstable_orbit.is_stable)
        sizes = (above.amplitude((1.0 + far) * above.value), below.amplitude((1.0 - far) * below.value))
        for name, size in zip(
            names, (sizes[0], fundamental(stable_orbit, 0), sizes[1], fundamental(unstable_orbit, 1)), strict=True
        ):
            curves[name].append(size)
    for k, name in enumerate(("QI-RCP above", "PIQI-RCP below")):
        predicted, orbit = list(curves.values())[2 * k : 2 * k + 2]
        measurements.append(
            Measurement(f"{name} its boundary by 0.1 %: amplitude of the periodic orbit", orbit[1],
                        reported=predicted[1],
                        note="reported: predicted; " + ("stable" if k == 0 else "unstable") + " by its multipliers: "
                        + str(all(stable if k == 0 else unstable)))
        )  # fmt: skip
    for share, by in ((0.99, 0.05), (1.01, 0.05)):
        at = share * above.value
        measurements.append(
            Measurement(f"QI-RCP, fluid, {share:g} of the boundary, perturbed by {by:g}: final amplitude",
                        swing(replace(supercritical, alpha=at, interval=0.001), by),
                        reported=above.amplitude(at) if share > 1.0 else 0.0)
        )  # fmt: skip
    for by in (0.05, 0.1):
        measurements.append(
            Measurement(f"PIQI-RCP, fluid, 0.99 of the boundary, perturbed by {by:g}: final amplitude",
                        swing(replace(subcritical, alpha=0.99 * below.value), by),
                        note=f"unstable cycle of {below.amplitude(0.99 * below.value):.3f} predicted")
        )  # fmt: skip
    large = {s: swing(replace(subcritical, alpha=s * below.value), 0.4) for s in (0.95, 0.9, 0.85, 0.8)}
    measurements.append(
        Measurement("PIQI-RCP, fluid, perturbed by 0.4: amplitude in the end at shares of the boundary",
                    ", ".join(f"{s:g}: {size:.4f}" for s, size in large.items()))
    )  # fmt: skip
    sampled = critical_gain(subcritical, _net(), "alpha", "hybrid").value
    parted = []
    for by in (0.02, 0.4):
        parted.append(swing(replace(subcritical, alpha=0.9 * sampled), by, packet))
        measurements.append(
            Measurement(f"PIQI-RCP, packets, 0.9 of the hybrid boundary, perturbed by {by:g}: amplitude in the end",
                        parted[-1], note=f"alpha = {0.9 * sampled:.4f}; the linear verdict is stable")
        )  # fmt: skip
    for label, protocol, gain in (
        ("QI-RCP", supercritical, "alpha"),
        ("Kelly, steepness 4", Kelly(steepness=4.0), "kappa"),
    ):
        bifurcation = hopf(protocol, _net(), gain, "discrete")
        past_boundary = replace(protocol, **{gain: 1.01 * bifurcation.value})  # type: ignore[arg-type]
        measurements.append(
            Measurement(f"{label}, recurrence, 1.01 of the boundary: amplitude in the end",
                        swing(past_boundary, 0.1, time="discrete"),
                        reported=bifurcation.amplitude(1.01 * bifurcation.value))
        )  # fmt: skip
    bifurcation = hopf(supercritical, _net(UNEQUAL), time="discrete")
    measurements += [
        Measurement("QI-RCP, RTTs of 50, 100 and 250 ms, continuous: coefficient / frequency",
                    _share(hopf(supercritical, _net(UNEQUAL))), note="subcritical if > 0"),
        Measurement("QI-RCP, RTTs of 50, 100 and 250 ms, discrete: coefficient / frequency", _share(bifurcation),
                    note=f"critical alpha {bifurcation.value:.5f}"),
    ]  # fmt: skip
    for share, by in ((0.997, 0.02), (0.997, 0.2), (1.003, 0.02)):
        at = share * bifurcation.value
        measurements.append(
            Measurement(f"the same in a recurrence, {share:g} of the boundary, perturbed by {by:g}: final amplitude",
                        swing(replace(supercritical, alpha=at), by, rtts=UNEQUAL, duration=1500.0, time="discrete"),
                        reported=bifurcation.amplitude(at) if share > 1.0 else 0.0)
        )  # fmt: skip
    percent = 100.0 * np.array(DISTANCES)
    return Finding(
        claim,
        Verdict.REFUTED if all(unstable) and parted[1] > 5.0 * parted[0] else Verdict.CONDITIONAL,
        "With equal RTTs the oscillation is small and stable for QI-RCP and Kelly's control, but not for PIQI-RCP with "
        f"RTTs of {ceil(1e3 * first)} to {int(1e3 * last)} ms: an unstable cycle exists below the boundary, for 100 ms "
        f"with an amplitude of {below.amplitude(0.99 * below.value):.1%} of the arrivals at 0.99 of it. Larger "
        f"perturbations grow to a cycle of {parted[1]:.0%}, which persists in packet runs at 0.9 of the boundary, too, "
        "although small perturbations die out.",
        measurements,
        [
            Picture.of(
                plot.boundary_figure(
                    percent, {name: curves[name] for name in curves if "predicted" in name}, {},
                    {name: (percent, curves[name], None) for name in curves if "predicted" not in name},
                    x_title="distance from the boundary [%]", y_title="amplitude of arrivals / mean", log_y=True,
                    title="Periodic orbits about the boundary, RTT 100 ms",
                ),
                "Periodic orbits about the boundary, RTT 100 ms",
                "Predicted by the first Lyapunov coefficient, and periodic orbits: QI-RCP above, PIQI-RCP below.",
            ),
            Picture.of(
                plot.boundary_figure(
                    rtts, {"PIQI-RCP": of_rtt, "QI-RCP": [_share(above)] * len(rtts)}, x_title="RTT [s]",
                    y_title="first Lyapunov coefficient / ω", title="First Lyapunov coefficient",
                ),
                "First Lyapunov coefficient",
                "Supercritical below zero, subcritical above: continuous models, equal RTTs.",
            ),
        ],
        [
            "Laws without their limits; gamma = 0.5 in runs, so that no queue forms.",
            "These boundaries have no Lyapunov coefficient: XCP's law is not smooth at its equilibrium, JetMax's laws "
            "are affine, and EMKC and MKC lose as many roots simultaneously as their RTT has steps.",
        ],
    )  # fmt: skip
