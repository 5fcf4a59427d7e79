"""Check on the Hopf bifurcation at a stability boundary: supercritical or subcritical."""

from __future__ import annotations

from cmath import exp
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, cos, pi
from typing import Any, NamedTuple

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
    protocol: Protocol,
    by: float,
    engine: Any = fluid,
    rtts: Sequence[float] = (RTT, RTT),
    duration: float = 60.0,
    **options: Any,
) -> float:
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


class _Bifurcations(NamedTuple):
    """A supercritical and a subcritical bifurcation at equal RTTs, without a queue."""

    supercritical: QIRCP
    subcritical: PIQIRCP
    above: Hopf
    """Bifurcation of the supercritical loop, with its stable orbits above the boundary."""
    below: Hopf
    """Bifurcation of the subcritical loop, with its unstable orbits below the boundary."""


class _Orbits(NamedTuple):
    """Amplitudes of predicted and computed orbits at DISTANCES from the boundary."""

    curves: dict[str, list[float]]
    all_stable: bool
    """True if all orbits of the supercritical loop are stable."""
    all_unstable: bool
    """True if all orbits of the subcritical loop are unstable."""


class _Subcritical(NamedTuple):
    """Equal RTTs, s, with a subcritical bifurcation of PIQI-RCP."""

    first: float
    last: float


def _coefficients() -> list[Measurement]:
    """Return the first Lyapunov coefficients of all loops that have one."""
    measurements = []
    cases: list[tuple[str, Protocol, str, str]] = [
        ("QI-RCP", QIRCP(), "alpha", "continuous"),
        ("QI-RCP", QIRCP(), "alpha", "discrete"),
        ("PIQI-RCP", PIQIRCP(), "alpha", "continuous"),
        ("PIQI-RCP", PIQIRCP(), "alpha", "discrete"),
        ("RCP, unconstrained queue, alpha = 0.4", RCP(alpha=0.4), "beta", "continuous"),
        ("RCP, unconstrained queue, alpha = 1.2", RCP(alpha=1.2), "beta", "continuous"),
        ("Kelly, steepness 1", Kelly(), "kappa", "discrete"),
        ("Kelly, steepness 8", Kelly(steepness=8.0), "kappa", "discrete"),
        ("MaxNet", MaxNet(), "p2", "discrete"),
        ("MaxNet", MaxNet(), "price_scale", "discrete"),
    ]
    for label, protocol, gain, time in cases:
        bifurcation = hopf(protocol, _net(), gain, time)
        side, word = (1.01, "super") if bifurcation.is_supercritical else (0.99, "sub")
        measurements.append(
            Measurement(
                f"{label}, {time}: first Lyapunov coefficient / frequency",
                _share(bifurcation),
                note=f"{word}critical; {gain} = {bifurcation.value:.6g}, frequency "
                f"{bifurcation.frequency:.6g}; relative "
                f"amplitude {bifurcation.amplitude(side * bifurcation.value):.4f} at "
                f"{side:g} of it",
            )
        )
    measurements.append(
        Measurement(
            "QI-RCP: coefficient, 1/s",
            hopf(QIRCP(), _net()).lyapunov,
            reported=pi / 80.0 * (2.0 - 3.0 * pi) / (1.0 + pi**2 / 4.0) / RTT,
            note="reported: closed form of Hutchinson's equation, (pi/80)(2 - 3 pi)/(1 + pi^2/4)/d",
        )
    )
    return measurements


def _subcritical_ranges() -> tuple[list[Measurement], _Subcritical]:
    """Return the RTTs of PIQI-RCP and the gains of RCP with a subcritical bifurcation."""
    first, last = (
        _sign_change(*ends, lambda d: hopf(PIQIRCP(), _net([d])).lyapunov) for ends in ((0.05, 0.1), (0.15, 0.3))
    )
    change = _sign_change(0.8, 1.2, lambda a: hopf(RCP(alpha=a), _net(), "beta").lyapunov)
    measurements = [
        Measurement(
            "PIQI-RCP is subcritical for equal RTTs from", first, "s", note="T = 10 ms, tau1 = 0.01, tau2 = 0.1"
        ),
        Measurement("PIQI-RCP is subcritical for equal RTTs to", last, "s"),
        Measurement("RCP with an unconstrained queue is subcritical for alpha up to", change),
    ]
    return measurements, _Subcritical(first, last)


def _orbits(pair: _Bifurcations) -> tuple[list[Measurement], _Orbits]:
    """Return the periodic orbits near both boundaries, compared with the predicted amplitudes."""
    names = ("QI-RCP, predicted", "QI-RCP, orbit above", "PIQI-RCP, predicted", "PIQI-RCP, orbit below")
    curves: dict[str, list[float]] = {name: [] for name in names}
    stable, unstable = [], []
    above, below = pair.above, pair.below
    for far in DISTANCES:
        stable_orbit = integral_orbit(pair.supercritical, above, (1.0 + far) * above.value)
        unstable_orbit = proportional_orbit(pair.subcritical, below, (1.0 - far) * below.value)
        stable.append(stable_orbit.is_stable)
        unstable.append(not unstable_orbit.is_stable)
        sizes = (above.amplitude((1.0 + far) * above.value), below.amplitude((1.0 - far) * below.value))
        for name, size in zip(
            names, (sizes[0], fundamental(stable_orbit, 0), sizes[1], fundamental(unstable_orbit, 1)), strict=True
        ):
            curves[name].append(size)
    orbits = _Orbits(curves, all(stable), all(unstable))
    measurements = []
    for k, name in enumerate(("QI-RCP above", "PIQI-RCP below")):
        predicted, orbit = list(curves.values())[2 * k : 2 * k + 2]
        measurements.append(
            Measurement(
                f"{name} its boundary by 0.1 %: amplitude of the periodic orbit",
                orbit[1],
                reported=predicted[1],
                note="reported: predicted; "
                + ("stable" if k == 0 else "unstable")
                + " by its multipliers: "
                + str(orbits.all_stable if k == 0 else orbits.all_unstable),
            )
        )
    return measurements, orbits


def _fluid_runs(pair: _Bifurcations) -> list[Measurement]:
    """Return amplitudes at the end of perturbed fluid runs on both sides of the boundaries."""
    measurements = []
    above, below = pair.above, pair.below
    for share, by in ((0.99, 0.05), (1.01, 0.05)):
        at = share * above.value
        measurements.append(
            Measurement(
                f"QI-RCP, fluid, {share:g} of the boundary, perturbed by {by:g}: final amplitude",
                swing(replace(pair.supercritical, alpha=at, interval=0.001), by),
                reported=above.amplitude(at) if share > 1.0 else 0.0,
            )
        )
    for by in (0.05, 0.1):
        measurements.append(
            Measurement(
                f"PIQI-RCP, fluid, 0.99 of the boundary, perturbed by {by:g}: final amplitude",
                swing(replace(pair.subcritical, alpha=0.99 * below.value), by),
                note=f"unstable cycle of {below.amplitude(0.99 * below.value):.3f} predicted",
            )
        )
    large = {s: swing(replace(pair.subcritical, alpha=s * below.value), 0.4) for s in (0.95, 0.9, 0.85, 0.8)}
    measurements.append(
        Measurement(
            "PIQI-RCP, fluid, perturbed by 0.4: amplitude in the end at shares of the boundary",
            ", ".join(f"{s:g}: {size:.4f}" for s, size in large.items()),
        )
    )
    return measurements


def _packet_runs(subcritical: PIQIRCP) -> tuple[list[Measurement], list[float]]:
    """Return amplitudes of packet runs below the boundary, after a small and after a large perturbation."""
    sampled = critical_gain(subcritical, _net(), "alpha", "hybrid").value
    measurements, amplitudes = [], []
    for by in (0.02, 0.4):
        amplitudes.append(swing(replace(subcritical, alpha=0.9 * sampled), by, packet))
        measurements.append(
            Measurement(
                f"PIQI-RCP, packets, 0.9 of the hybrid boundary, perturbed by {by:g}: amplitude in the end",
                amplitudes[-1],
                note=f"alpha = {0.9 * sampled:.4f}; the linear verdict is stable",
            )
        )
    return measurements, amplitudes


def _recurrence_runs(supercritical: QIRCP) -> list[Measurement]:
    """Return amplitudes of recurrences beyond the boundary, and those of QI-RCP at heterogeneous RTTs."""
    measurements = []
    protocols: list[tuple[str, Any, str]] = [
        ("QI-RCP", supercritical, "alpha"),
        ("Kelly, steepness 4", Kelly(steepness=4.0), "kappa"),
    ]
    for label, protocol, gain in protocols:
        bifurcation = hopf(protocol, _net(), gain, "discrete")
        past_boundary = replace(protocol, **{gain: 1.01 * bifurcation.value})
        measurements.append(
            Measurement(
                f"{label}, recurrence, 1.01 of the boundary: amplitude in the end",
                swing(past_boundary, 0.1, time="discrete"),
                reported=bifurcation.amplitude(1.01 * bifurcation.value),
            )
        )
    bifurcation = hopf(supercritical, _net(UNEQUAL), time="discrete")
    measurements += [
        Measurement(
            "QI-RCP, RTTs of 50, 100 and 250 ms, continuous: coefficient / frequency",
            _share(hopf(supercritical, _net(UNEQUAL))),
            note="subcritical if > 0",
        ),
        Measurement(
            "QI-RCP, RTTs of 50, 100 and 250 ms, discrete: coefficient / frequency",
            _share(bifurcation),
            note=f"critical alpha {bifurcation.value:.5f}",
        ),
    ]
    for share, by in ((0.997, 0.02), (0.997, 0.2), (1.003, 0.02)):
        at = share * bifurcation.value
        measurements.append(
            Measurement(
                f"the same in a recurrence, {share:g} of the boundary, perturbed by {by:g}: final amplitude",
                swing(replace(supercritical, alpha=at), by, rtts=UNEQUAL, duration=1500.0, time="discrete"),
                reported=bifurcation.amplitude(at) if share > 1.0 else 0.0,
            )
        )
    return measurements


def _pictures(curves: Mapping[str, list[float]], above: Hopf) -> list[Picture]:
    """Return the pictures of the orbits about the boundary and of the coefficients over the RTT."""
    rtts = np.array([0.03, 0.05, 0.06, 0.07, 0.08, 0.1, 0.12, 0.15, 0.2, 0.3, 0.5, 0.8, 1.3, 2.0])
    of_rtt = [_share(hopf(PIQIRCP(), _net([d]))) for d in rtts.tolist()]
    percent = 100.0 * np.array(DISTANCES)
    return [
        Picture.of(
            plot.boundary_figure(
                percent,
                {name: curves[name] for name in curves if "predicted" in name},
                {},
                {name: (percent, curves[name], None) for name in curves if "predicted" not in name},
                x_title="distance from the boundary [%]",
                y_title="amplitude of arrivals / mean",
                log_y=True,
                title="Periodic orbits about the boundary, RTT 100 ms",
            ),
            "Periodic orbits about the boundary, RTT 100 ms",
            "Predicted by the first Lyapunov coefficient, and periodic orbits: QI-RCP above, PIQI-RCP below.",
        ),
        Picture.of(
            plot.boundary_figure(
                rtts,
                {"PIQI-RCP": of_rtt, "QI-RCP": [_share(above)] * len(rtts)},
                x_title="RTT [s]",
                y_title="first Lyapunov coefficient / ω",
                title="First Lyapunov coefficient",
            ),
            "First Lyapunov coefficient",
            "Supercritical below zero, subcritical above: continuous models, equal RTTs.",
        ),
    ]


@check("open-hopf", cost=40, main=False)
def open_hopf(claim: Claim) -> Finding:
    """Compute Lyapunov coefficients of all boundaries, orbits near two of them, and runs on both sides."""
    supercritical, subcritical = QIRCP(**ROOMY), PIQIRCP(**ROOMY)  # type: ignore[arg-type]
    pair = _Bifurcations(supercritical, subcritical, hopf(supercritical, _net()), hopf(subcritical, _net()))
    of_ranges, rtts = _subcritical_ranges()
    of_orbits, orbits = _orbits(pair)
    of_packets, (small, large) = _packet_runs(subcritical)
    return Finding(
        claim,
        Verdict.REFUTED if orbits.all_unstable and large > 5.0 * small else Verdict.CONDITIONAL,
        "With equal RTTs the oscillation is small and stable for QI-RCP and Kelly's control, but not for PIQI-RCP with "
        f"RTTs of {ceil(1e3 * rtts.first)} to {int(1e3 * rtts.last)} ms: an unstable cycle exists below the boundary, "
        f"for 100 ms with an amplitude of {pair.below.amplitude(0.99 * pair.below.value):.1%} of the arrivals at 0.99 "
        f"of it. Larger perturbations grow to a cycle of {large:.0%}, which persists in packet runs at 0.9 of the "
        "boundary, too, although small perturbations die out.",
        [
            *_coefficients(),
            *of_ranges,
            *of_orbits,
            *_fluid_runs(pair),
            *of_packets,
            *_recurrence_runs(supercritical),
        ],
        _pictures(orbits.curves, pair.above),
        [
            "Laws without their limits; gamma = 0.5 in runs, so that no queue forms.",
            "These boundaries have no Lyapunov coefficient: XCP's law is not smooth at its equilibrium, JetMax's laws "
            "are affine, and EMKC and MKC lose as many roots simultaneously as their RTT has steps.",
        ],
    )
