"""Checks of rules for the gains of RED, PI, REM and AVQ, which shall hold for a range of flows and RTTs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import exp, inf, sqrt
from typing import Any

import numpy as np

from ecc import packet, plot
from ecc.claims.checks.disciplines.loops import CLOCKED, HALVING, NEWRENO, decibels, equal_flows, pair, rest
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.contract.env import Params
from ecc.errors import LinearizationError
from ecc.linear import DelaySystem
from ecc.loops.closed_loop import linearize
from ecc.network.network import Network
from ecc.queues import AVQ, PI, RED, REM
from ecc.queues.discipline import QueueDiscipline
from ecc.queues.red import probability
from ecc.scenario import Scenario

CAPACITY, FLOWS, LONGEST = 3750.0, 60, 0.246
"""Of the example: packets/s, N-, and R+ [s]."""
RTTS = (0.06, 0.12, 0.18, LONGEST)
COUNTS = (FLOWS, 100, 240)
SLOPE, POLE = 1.86e-4, 0.005
"""L of RED [1/packet] and K [1/s]."""
MINIMUM, MAXIMUM = 150.0, 700.0
"""Thresholds [packets] with which p_max = 0.1 has about that slope."""
ZERO, GAIN = 0.53, 9.64e-6
"""Of PI: z [rad/s], and K_PI, such that p = K_PI (s/z + 1)/s q: a = K_PI/z + K_PI/320, b = K_PI/z - K_PI/320."""
MODELS = (
    "Their model: W' = -(2 N/(R^2 C)) W - (R C^2/(2 N^2)) p(t - R), q' = (N/R) W - q/R, without the small term in "
    "q(t) - q(t - R). Ours have every delay where it is, clocked by ACKs (a window is what is on its way) or by rates "
    "(the queue integrates window/RTT, and ACKs come apart as it grows). RTTs include the queue."
)
NO_EQUILIBRIUM = "Loads that would need p > 1, and RED's beyond its maximum threshold, are left out."


def _theirs(flows: float, rtt: float, states: list[float], out: tuple[float, float], answered: bool = True) -> Any:
    """Their linear model: the router's one state moves by (q, state), and p is that sum of q and its state."""
    falls = -rtt * CAPACITY**2 / (2.0 * flows**2) * answered
    now = [[-2.0 * flows / (rtt**2 * CAPACITY), 0.0, 0.0], [flows / rtt, -1.0 / rtt, 0.0], [0.0, *states]]
    late = [[0.0, falls * out[0], falls * out[1]], [0.0] * 3, [0.0] * 3]
    opened = _theirs(flows, rtt, states, out, False) if answered else None
    return DelaySystem([now, late], [0.0, rtt], opened=opened)


class PlainRED(RED):
    """RED that chooses each packet with p_b, as the model has it, and does not space out its choices."""

    @property
    def probability_law(self) -> Callable[..., float]:
        return _plain


def _plain(average: float, p: Params) -> float:
    return float(probability(average, p.p_max, p)) if isinstance(average, float) else probability(average, p.p_max, p)


Rule = Callable[[int, float], DelaySystem | None]
"""The linear model for a number of flows and an RTT with the queue [s]; None where there is none."""


def _ours(discipline: QueueDiscipline, clocking: str, queue: Callable[[float], float | None]) -> Rule:
    """Linear models of NewReno; `queue` [packets] at rest for a probability."""

    def model(flows: int, rtt: float) -> DelaySystem | None:
        held = queue(2.0 * (flows / (rtt * CAPACITY)) ** 2)
        if held is None or rtt - held / CAPACITY <= 0.001:
            return None
        network = equal_flows(flows, CAPACITY, rtt - held / CAPACITY)
        try:
            system = linearize(pair(NEWRENO, discipline), network, clocking=clocking)
        except LinearizationError:
            return None
        assert isinstance(system, DelaySystem)
        return system

    return model


def _level(system: DelaySystem) -> float:
    """Gain margin [dB], -inf where it is unstable."""
    return float(decibels(system.margins().gain_margin)) if system.is_stable else -inf


def _judge(claim: Claim, rules: Mapping[str, Rule], first: list[Measurement], title: str) -> Finding:
    """Margins over the range, each verdict proven, and the figure at the fewest flows."""
    measured, curves, proofs = list(first), {}, []
    for name, rule in rules.items():
        systems = {(flows, rtt): rule(flows, rtt) for flows in COUNTS for rtt in RTTS}
        levels = {at: _level(system) for at, system in systems.items() if system is not None}
        worst = min(levels, key=lambda at: levels[at])
        proven = [system.certify().stable is True for system in systems.values() if system is not None]
        proofs.append(all(proven))
        measured.append(
            Measurement(f"{name}: least gain margin for N >= {FLOWS}, R <= {1e3 * LONGEST:g} ms", levels[worst], "dB",
                        note=f"at N = {worst[0]}, R = {1e3 * worst[1]:g} ms; stable, proven, in {sum(proven)} of "
                        f"{len(proven)} loops", met=all(proven))
        )  # fmt: skip
        curves[name] = [levels.get((FLOWS, rtt), np.nan) for rtt in RTTS]
    least = min(m.value for m in measured if m.unit == "dB" and isinstance(m.value, float))
    good = [name for name, proof in zip(rules, proofs, strict=True) if proof]
    verdict = Verdict.CONFIRMED if len(good) == len(rules) else Verdict.CONDITIONAL if good else Verdict.REFUTED
    reason = (
        f"Stable in every loop of the range in each model, with {least:.1f} dB at least; the fewest flows and the "
        "longest RTT are the worst, and loads of the range that have no equilibrium are left out."
        if verdict is Verdict.CONFIRMED
        else f"Stable throughout only with {', '.join(good) or 'none of the models'}."
    )
    figure = plot.boundary_figure(
        1e3 * np.array(RTTS), curves, None, None, "RTT with the queue [ms]", "gain margin [dB]", title=title
    )
    pictures = [Picture.of(figure, title, "A gap: no equilibrium in the range, or no crossing at any gain.")]
    return Finding(claim, verdict, reason, measured, pictures, [MODELS, NO_EQUILIBRIUM])


@check("hollot-red", cost=8, main=False)
def hollot_red(claim: Claim) -> Finding:
    """The rule for the example, and margins in their model and in ours, of RED without and with spaced choices."""
    w = 0.1 * min(2.0 * FLOWS / (LONGEST**2 * CAPACITY), 1.0 / LONGEST)
    left = SLOPE * (LONGEST * CAPACITY) ** 3 / (2.0 * FLOWS) ** 2
    right = sqrt((w / POLE) ** 2 + 1.0)
    first = [
        Measurement("left side of the rule", left, note=f"right side {right:.4g}", met=left <= right),
        Measurement("left side with the slope of RED as of 1993", 2.0 * left,
                    note="choices that are spaced evenly are 2 p_b/(1 + p_b) of the packets: the rule is "
                    f"{'met' if 2.0 * left <= right else 'not met'}"),
    ]  # fmt: skip
    options: dict[str, Any] = {
        "mark": True, "min_threshold": MINIMUM, "max_threshold": MAXIMUM, "p_max": SLOPE * (MAXIMUM - MINIMUM),
        "weight": 1.0 - exp(-POLE / CAPACITY),
    }  # fmt: skip

    def held(chosen: float, spaced: bool) -> float | None:
        """The average at which a share of packets is chosen."""
        if chosen >= 1.0:
            return None
        p_b = chosen / (2.0 - chosen) if spaced else chosen
        return MINIMUM + p_b / SLOPE if p_b < options["p_max"] else None

    rules: dict[str, Rule] = {
        "their model": lambda flows, rtt: _theirs(flows, rtt, [POLE, -POLE], (0.0, SLOPE)),
    }
    for kind, discipline, spaced in (("p_b", PlainRED(**options), False), ("RED of 1993", RED(**options), True)):
        for clocking, words in CLOCKED.items():
            rules[f"{kind}, {words}"] = _ours(discipline, clocking, lambda p, s=spaced: held(p, s))  # type: ignore[misc]
    return _judge(claim, rules, first, f"Gain margins of RED, N = {FLOWS}")


@check("hollot-pi", cost=4, main=False)
def hollot_pi(claim: Claim) -> Finding:
    """The rule for the example, and margins in their model and in ours."""
    zero = 2.0 * FLOWS / (LONGEST**2 * CAPACITY)
    crossing = abs(1j * zero * LONGEST + 1.0) * zero * (2.0 * FLOWS) ** 2 / (LONGEST * CAPACITY) ** 3
    first = [
        Measurement("zero of the rule", zero, "rad/s", note=f"{ZERO:g} rad/s is what a and b come from"),
        Measurement("a, by the bilinear transform at 160 Hz", crossing / zero + crossing / 320.0, "1/packet", 1.822e-5),
        Measurement("b", crossing / zero - crossing / 320.0, "1/packet", 1.816e-5),
    ]  # fmt: skip
    pi = PI(mark=True, interval=1.0 / 160.0)
    rules: dict[str, Rule] = {
        "their model": lambda flows, rtt: _theirs(flows, rtt, [1.0, 0.0], (GAIN / ZERO, GAIN)),
        **{words: _ours(pi, clocking, lambda p: pi.reference) for clocking, words in CLOCKED.items()},
    }
    return _judge(claim, rules, first, f"Gain margins of PI, N = {FLOWS}")


@check("rem-target", cost=4)
def rem_target(claim: Claim) -> Finding:
    """The equilibrium and its margins, and queues of packet runs, over numbers of flows; gains and target of ns-2."""
    rem, base, capacity = REM(mark=True), 0.1, 1250.0
    counts, measured, held, levels = (5, 10, 20, 30), [], [], []
    for flows in counts:
        network: Network = equal_flows(flows, capacity, base, buffer="125 kB")
        queue = float(rest(NEWRENO, rem, network).queues[0]) / 8000.0
        systems = [linearize(pair(NEWRENO, rem), network, clocking=clocking) for clocking in ("ack", "rate")]
        margins = [_level(system) for system in systems if isinstance(system, DelaySystem)]
        run = packet.simulate(Scenario(network, pair(NEWRENO, rem), 240.0, seed=1), sample=0.1)
        mean = float(run.queue.to_numpy()[1200:, 0].mean()) / 1000.0
        held.append(mean)
        levels += margins
        proven = all(system.certify().stable is True for system in systems)
        measured += [
            Measurement(f"{flows} flows: queue at rest", queue, "packets", rem.reference,
                        f"margins {margins[0]:.1f} dB clocked by ACKs, {margins[1]:.1f} dB by rates; "
                        f"{'' if proven else 'not '}proven stable", met=proven and abs(queue - rem.reference) < 1e-6),
            Measurement(f"{flows} flows: mean queue of packets, 120 to 240 s", mean, "packets", rem.reference,
                        met=abs(mean / rem.reference - 1.0) < 0.25),
        ]  # fmt: skip
    calm = all(m.met for m in measured)
    verdict = Verdict.CONFIRMED if calm else Verdict.CONDITIONAL if min(levels) > 0.0 else Verdict.REFUTED
    reason = (
        f"At rest the queue is at its target for each number of flows, stable with {min(levels):.1f} dB or more; "
        f"packets hold {min(held):.1f} to {max(held):.1f} packets on the average."
    )
    title = "Mean queue under REM"
    figure = plot.boundary_figure(
        counts, {"packets": held}, {"target": [rem.reference] * len(counts)}, None, "flows", "queue [packets]",
        log_x=False, title=title,
    )  # fmt: skip
    told = "10 Mb/s, packets of 1000 bytes, an RTT of 100 ms without the queue; gains and target are ns-2's defaults."
    return Finding(claim, verdict, reason, measured, [Picture.of(figure, title, "Equal flows.")], [told])


def _proven(avq: AVQ, network: Network) -> bool | None:
    """Whether a loop is stable; None where there is no linear model or no proof."""
    try:
        return linearize(pair(HALVING, avq), network, clocking="rate").certify().stable
    except LinearizationError:
        return None


@check("avq-rule", cost=3, main=False)
def avq_rule(claim: Claim) -> Finding:
    """Verdicts over windows and RTTs, for gains over a decade."""
    gains, capacity, windows = (0.02, 0.05, 0.15), 1250.0, (2.5, 3.0, 3.5, 4.0, 6.0, 12.0)
    measured, calm, moved, left_out = [], {}, [], 0
    for rtt in (0.05, 0.1, 0.2):
        growths = {}
        for window in windows:
            flows = round(AVQ().gamma * capacity * rtt / window)
            network = equal_flows(flows, capacity, rtt)
            stable = [_proven(AVQ(mark=True, alpha=gain), network) for gain in gains]
            left_out += stable.count(None)
            stable = [one for one in stable if one is not None]
            growths[AVQ().gamma * capacity * rtt / flows] = stable
            if len(set(stable)) > 1:
                moved.append(f"{flows} flows, {1e3 * rtt:g} ms")
        calm[rtt] = [size for size, stable in growths.items() if stable and all(stable)]
        wild = [size for size, stable in growths.items() if stable and not any(stable)]
        measured.append(
            Measurement(f"largest window with which it is stable, RTT {1e3 * rtt:g} ms", max(calm[rtt]), "packets",
                        note=f"proven for each gain from {gains[0]:g} to {gains[-1]:g}/s; unstable for each from "
                        f"{min(wild):.3g} packets on, proven", met=not wild)
        )  # fmt: skip
    reach = min(max(sizes) for sizes in calm.values())
    reason = (
        f"Windows up to {reach:.2g} packets are stable with each of these gains, and those of 4 and more with none: "
        "the probability 1 - V/y answers the rate at once, whatever the virtual capacity does. Between, "
        + (f"the gain decides ({'; '.join(moved)})." if moved else "it does not depend on the gain either.")
    )
    verdict = Verdict.CONFIRMED if all(m.met for m in measured) else Verdict.CONDITIONAL
    told = (
        "10 Mb/s, packets of 1000 bytes, utilization 0.98; each mark halves a window, clocked by rates; the virtual "
        "queue is full, so that what its capacity does not take is marked. One in "
        f"packets that can hold 100 averages first. {left_out} loops, whose linear model was taken for "
        "singular, are left out."
    )
    return Finding(claim, verdict, reason, measured, [], [told])
