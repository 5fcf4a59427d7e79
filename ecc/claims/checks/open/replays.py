"""Check that replays loops that contradict a theorem in runs, each with a control run just inside the boundary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, pi

from ecc import plot
from ecc.claims.checks.open.rtt_distributions import COUNTEREXAMPLE, UNSAFE, free_queue_growth
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.linear import DelaySystem
from ecc.loops.closed_loop import linearize
from ecc.models import PIQIRCP, RCP, XCP
from ecc.network.network import FloatArray, Network
from ecc.stability import PerturbedRun, critical_gain, perturbed_run
from ecc.stability.theorem_registry import THEOREMS

SLOW = PIQIRCP(tau1=0.001, tau2=0.0)
"""Corner of the registry's space with the largest error of Theorems 9 and 12."""
LOOPS: tuple[tuple[str, PIQIRCP, tuple[float, ...]], ...] = (
    ("piqi-9", PIQIRCP(), (1.0, 1.0)),
    ("piqi-9", SLOW, (1.0, 1.0)),
    ("piqi-10", PIQIRCP(), UNSAFE[1]),
    ("piqi-12", PIQIRCP(), (1.0, 1.0)),
    ("piqi-12", SLOW, (1.0, 1.0)),
    ("piqi-13", PIQIRCP(), UNSAFE[1]),
)
"""Theorem, protocol and RTTs [s] of each replayed loop."""
CONTROL = 0.95
"""Gain of the control run relative to the exact boundary."""
CAPACITY, GAMMA, PERIODS = 2e8, 0.8, 40.0
AGREE = {"fluid": 0.02, "packet": 0.05}
"""Maximum relative difference between growth rates of a run and its linear model."""


@dataclass(frozen=True)
class Replay:
    """A loop at one gain in one engine: the growth rate of its linear model [1/s], and the run."""

    expected: float
    run: PerturbedRun

    def agrees(self, engine: str) -> bool:
        """Return whether the run grows or decays as fast as the model.

        Parameters
        ----------
        engine : str
            "fluid" or "packet".
        """
        verdict = self.run.stability
        side = verdict.status == ("unstable" if self.expected > 0.0 else "stable")
        return side and abs(verdict.growth_rate / self.expected - 1.0) < AGREE[engine]


def replay(protocol: PIQIRCP, rtts: tuple[float, ...], time: str, period: float) -> dict[str, Replay]:
    """Return runs from a perturbed equilibrium: the fluid for a model's time, packets for the hybrid model.

    Parameters
    ----------
    protocol : PIQIRCP
    rtts : tuple of float, s
    time : str
        "continuous" or "discrete".
    period : float
        Period of the oscillation, s.
    """
    network, roomy = Network.dumbbell(CAPACITY, list(rtts)), replace(protocol, gamma=GAMMA)
    growth = {}
    for model in {time, "hybrid"}:
        system = linearize(protocol, network, model)
        if isinstance(system, DelaySystem):
            growth[model] = system.spectral_abscissa
        else:
            growth[model] = log(system.spectral_radius) / protocol.interval
    by = 0.02 if growth["hybrid"] < 0.0 else 0.004  # allows a dozen periods of growth or decay
    fluid = perturbed_run(
        roomy, network, period, PERIODS, "fluid", 1e-4, floor=1e-8, ceiling=1e-2, time=time, rtol=1e-9
    )
    packets = perturbed_run(roomy, network, period, PERIODS, "packet", by, floor=1e-3, ceiling=0.12)
    return {"fluid": Replay(growth[time], fluid), "packet": Replay(growth["hybrid"], packets)}


def _free_queue(measurements: list[Measurement]) -> bool:
    """Replay the unconstrained-queue loop of RCP and XCP; in runs of the protocols the queue is nonnegative."""
    alpha, beta, rtts = COUNTEREXAMPLE
    holds = True
    for protocol in (RCP(alpha=alpha, beta=beta), XCP(alpha=alpha, beta=beta)):
        name = type(protocol).__name__
        for label, distribution in (("RTTs 1, 133, 133, 133 ms", rtts), ("control, all RTTs 100 ms", (0.1,) * 4)):
            network = Network.dumbbell(CAPACITY, list(distribution))
            lost = critical_gain(protocol, network, "beta", certify=True)
            system = linearize(protocol, network)
            assert isinstance(system, DelaySystem) and lost.certified
            growth = free_queue_growth(system)
            packets = perturbed_run(protocol, network, 2.0 * pi / lost.frequency, PERIODS).stability
            agrees = abs(growth / system.spectral_abscissa - 1.0) < AGREE["fluid"]
            holds &= agrees and (growth > 0.0) == (lost.value < beta)
            measurements.append(
                Measurement(
                    f"{name}, beta = {beta:g}, {label}: packets; growth of the unconstrained-queue loop",
                    packets.status,
                    "1/s",
                    "stable",
                    f"linear model {system.spectral_abscissa:+.5f} 1/s; critical "
                    f"beta proven in [{lost.certified[0]:.10g}, {lost.certified[1]:.10g}]; packets keep the queue >= 0",
                    growth,
                    met=agrees,
                )
            )
    return holds


def _replay_pictures(
    points: dict[str, tuple[list[float], list[float]]], envelopes: dict[str, tuple[FloatArray, FloatArray]]
) -> list[Picture]:
    """Return the pictures of predicted and measured growth rates, and of packet runs that contradict Theorem 10."""
    every = points["fluid"][0] + points["packets"][0]
    ends = [min(every), max(every)]
    figure = plot.boundary_figure(
        ends,
        {"equal": ends},
        {},
        {name: (x, y, None) for name, (x, y) in points.items()},
        x_title="growth rate of the linear model [1/s]",
        y_title="growth rate of the run [1/s]",
        log_x=False,
        title="Growth rates of runs and linear models",
    )
    return [
        Picture.of(
            figure,
            "Growth rates of runs and linear models",
            "Growth rate of each run of PIQI-RCP against its linear model: the theorem's model for the "
            "fluid, the hybrid model for packets. Points above zero are unstable below the published "
            "bound.",
        ),
        Picture.of(
            plot.envelope_figure(envelopes, title="Theorem 10: packet runs unstable below its bound"),
            "Theorem 10: packet runs unstable below its bound",
            "RTTs of 1 and 1.1 s, tau1 = 0.01, tau2 = 0.1, T = 10 ms: amplitude of the arrival rate's deviation in "
            "packet runs. Theorem 10 allows alpha < 0.7497.",
        ),
    ]


@check("open-replay", cost=40, main=False)
def open_replay(claim: Claim) -> Finding:
    """Replay each counterexample of the registry in fluid and packet runs, with a control inside the boundary."""
    measurements: list[Measurement] = []
    points: dict[str, tuple[list[float], list[float]]] = {"fluid": ([], []), "packets": ([], [])}
    envelopes: dict[str, tuple[FloatArray, FloatArray]] = {}
    agreed, count = True, 0
    for name, protocol, rtts in LOOPS:
        theorem = THEOREMS[name]
        case = theorem.evaluate(protocol, Network.dumbbell(CAPACITY, list(rtts)), certify=True)
        assert case.proof is not None and case.found.certified is not None
        step = 1.0 if theorem.time == "continuous" else protocol.interval
        period = 2.0 * pi / case.found.frequency * step
        loop = f"{theorem.source.removeprefix('THESIS ')}, RTTs {' and '.join(f'{rtt:g}' for rtt in rtts)} s, " + (
            f"tau1 = {protocol.tau1:g}, tau2 = {protocol.tau2:g}"
        )
        low, high = case.found.certified
        measurements.append(
            Measurement(
                f"{loop}: critical alpha",
                case.found.value,
                "",
                case.bound,
                f"{theorem.time}; proven stable at {low:.10g}, unstable at {high:.10g}; {case.ratio:.4f} of the bound",
            )
        )
        for side, gain in (("control", CONTROL * case.found.value), ("below the bound", case.proof[0])):
            runs = replay(replace(protocol, alpha=gain), rtts, theorem.time, period)
            fluid, packets = runs["fluid"], runs["packet"]
            good = all(engine_run.agrees(engine) for engine, engine_run in runs.items())
            agreed &= good and case.contradicts
            count += 1
            measurements.append(
                Measurement(
                    f"{loop}, alpha = {gain:.4f} ({side}): growth",
                    packets.run.stability.growth_rate,
                    "1/s",
                    "stable",
                    f"linear model {fluid.expected:+.5f}, hybrid {packets.expected:+.5f} 1/s; packets "
                    f"{packets.run.stability.status}",
                    fluid.run.stability.growth_rate,
                    met=good,
                )
            )
            for engine, engine_run in (("fluid", fluid), ("packets", packets)):
                points[engine][0].append(engine_run.expected)
                points[engine][1].append(engine_run.run.stability.growth_rate)
            if name == "piqi-10":
                envelopes[f"α = {gain:.4f}, {side}"] = (
                    packets.run.stability.time,
                    packets.run.stability.amplitude,
                )
    free = _free_queue(measurements)
    return Finding(
        claim,
        Verdict.CONFIRMED if agreed and free else Verdict.REFUTED,
        f"{len(LOOPS)} loops below the bounds of Theorems 9, 10, 12 and 13, each provably unstable, grow at the rate "
        "of "
        "their linear model in the fluid and of the hybrid model in packet runs; their controls, at "
        f"{CONTROL:g} of the exact boundary, decay at the predicted rates. The {count} pairs of runs agree within "
        f"{AGREE['fluid']:.0%} and {AGREE['packet']:.0%}. The counterexample of RCP and XCP applies to their "
        "unconstrained-queue loop and grows in the solver of delay equations; the protocols, with nonnegative queues, "
        "converge.",
        measurements,
        _replay_pictures(points, envelopes),
        [
            f"{CAPACITY / 1e6:.0f} Mb/s, 1000-byte packets, T = 10 ms, gamma = {GAMMA:g}, all rates off by 0.01 % in "
            f"the fluid and by 2 % (controls) or 0.4 % in packets, {PERIODS:g} periods.",
            "The gain below the bound is midway between the exact boundary and the bound.",
        ],
    )
