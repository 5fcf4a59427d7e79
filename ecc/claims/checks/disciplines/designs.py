"""Checks of design rules for the gains of RED, PI, REM and AVQ over a range of flows and RTTs."""

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
"""The example: capacity [packets/s], minimum number of flows N-, maximum RTT R+ [s]."""
RTTS = (0.06, 0.12, 0.18, LONGEST)
COUNTS = (FLOWS, 100, 240)
SLOPE, POLE = 1.86e-4, 0.005
"""Slope L of RED [1/packet] and its pole K [1/s]."""
MINIMUM, MAXIMUM = 150.0, 700.0
"""Thresholds [packets] for which p_max = 0.1 gives about that slope."""
ZERO, GAIN = 0.53, 9.64e-6
"""Zero z [rad/s] and gain K_PI of PI, p = K_PI (s/z + 1)/s q: a = K_PI/z + K_PI/320, b = K_PI/z - K_PI/320."""
MODELS = (
    "The paper's model: W' = -(2 N/(R^2 C)) W - (R C^2/(2 N^2)) p(t - R), q' = (N/R) W - q/R, without the small term "
    "in "
    "q(t) - q(t - R). Our models keep every delay and are clocked by ACKs (the window equals the data in flight) or by "
    "rates (the queue integrates window/RTT, and ACKs spread as it grows). RTTs include the queue."
)
NO_EQUILIBRIUM = "Loads that would need p > 1, or for RED a queue above its maximum threshold, are left out."


def _published(flows: float, rtt: float, states: list[float], out: tuple[float, float], answered: bool = True) -> Any:
    """Return the paper's linear model; p is linear in the queue and the router's state, with weights `out`."""
    falls = -rtt * CAPACITY**2 / (2.0 * flows**2) * answered
    now = [[-2.0 * flows / (rtt**2 * CAPACITY), 0.0, 0.0], [flows / rtt, -1.0 / rtt, 0.0], [0.0, *states]]
    late = [[0.0, falls * out[0], falls * out[1]], [0.0] * 3, [0.0] * 3]
    opened = _published(flows, rtt, states, out, False) if answered else None
    return DelaySystem([now, late], [0.0, rtt], opened=opened)


class PlainRED(RED):
    """RED that selects each packet independently with probability p_b, as in the model, without even spacing."""

    @property
    def probability_law(self) -> Callable[..., float]:
        return _plain


def _plain(average: float, p: Params) -> float:
    return float(probability(average, p.p_max, p)) if isinstance(average, float) else probability(average, p.p_max, p)


Rule = Callable[[int, float], DelaySystem | None]
"""Function of a number of flows and an RTT with the queue [s] that returns the linear model, or None."""


def _ours(discipline: QueueDiscipline, clocking: str, queue: Callable[[float], float | None]) -> Rule:
    """Return the rule of our models of NewReno; `queue` maps a probability to the equilibrium queue [packets]."""

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
    """Return the gain margin [dB]; -inf if the system is unstable."""
    return float(decibels(system.margins().gain_margin)) if system.is_stable else -inf


def _judge(claim: Claim, rules: Mapping[str, Rule], first: list[Measurement], title: str) -> Finding:
    """Judge margins over the range, each with a certificate, and draw the figure for the minimum number of flows."""
    measured, curves, proofs = list(first), {}, []
    for name, rule in rules.items():
        systems = {(flows, rtt): rule(flows, rtt) for flows in COUNTS for rtt in RTTS}
        levels = {at: _level(system) for at, system in systems.items() if system is not None}
        worst = min(levels, key=lambda at: levels[at])
        proven = [system.certify().stable is True for system in systems.values() if system is not None]
        proofs.append(all(proven))
        measured.append(
            Measurement(
                f"{name}: minimum gain margin for N >= {FLOWS}, R <= {1e3 * LONGEST:g} ms",
                levels[worst],
                "dB",
                note=f"at N = {worst[0]}, R = {1e3 * worst[1]:g} ms; stable, proven, in {sum(proven)} of "
                f"{len(proven)} loops",
                met=all(proven),
            )
        )
        curves[name] = [levels.get((FLOWS, rtt), np.nan) for rtt in RTTS]
    minimum = min(m.value for m in measured if m.unit == "dB" and isinstance(m.value, float))
    good = [name for name, proof in zip(rules, proofs, strict=True) if proof]
    verdict = Verdict.CONFIRMED if len(good) == len(rules) else Verdict.CONDITIONAL if good else Verdict.REFUTED
    reason = (
        f"Every loop of the range is stable in each model, with a margin of at least {minimum:.1f} dB. The worst case "
        "is the minimum number of flows with the longest RTT; loads without an equilibrium are left out."
        if verdict is Verdict.CONFIRMED
        else f"The whole range is stable only with {', '.join(good) or 'none of the models'}."
    )
    figure = plot.boundary_figure(
        1e3 * np.array(RTTS), curves, None, None, "RTT with the queue [ms]", "gain margin [dB]", title=title
    )
    pictures = [Picture.of(figure, title, "A gap: no equilibrium in the range, or no crossing at any gain.")]
    return Finding(claim, verdict, reason, measured, pictures, [MODELS, NO_EQUILIBRIUM])


@check("hollot-red", cost=8, main=False)
def hollot_red(claim: Claim) -> Finding:
    """Check the rule for the example, and margins in the paper's and our models, without and with spaced selection."""
    w = 0.1 * min(2.0 * FLOWS / (LONGEST**2 * CAPACITY), 1.0 / LONGEST)
    left_side = SLOPE * (LONGEST * CAPACITY) ** 3 / (2.0 * FLOWS) ** 2
    right = sqrt((w / POLE) ** 2 + 1.0)
    first = [
        Measurement("left side of the rule", left_side, note=f"right side {right:.4g}", met=left_side <= right),
        Measurement(
            "left side with the slope of RED as of 1993",
            2.0 * left_side,
            note="evenly spaced selection marks 2 p_b/(1 + p_b) of the packets: the rule is "
            f"{'met' if 2.0 * left_side <= right else 'not met'}",
        ),
    ]
    options: dict[str, Any] = {
        "mark": True,
        "min_threshold": MINIMUM,
        "max_threshold": MAXIMUM,
        "p_max": SLOPE * (MAXIMUM - MINIMUM),
        "weight": 1.0 - exp(-POLE / CAPACITY),
    }

    def held(chosen: float, spaced: bool) -> float | None:
        """Return the average queue at which a share of packets is selected."""
        if chosen >= 1.0:
            return None
        p_b = chosen / (2.0 - chosen) if spaced else chosen
        return MINIMUM + p_b / SLOPE if p_b < options["p_max"] else None

    rules: dict[str, Rule] = {
        "the paper's model": lambda flows, rtt: _published(flows, rtt, [POLE, -POLE], (0.0, SLOPE)),
    }
    for kind, discipline, spaced in (("p_b", PlainRED(**options), False), ("RED of 1993", RED(**options), True)):
        for clocking, words in CLOCKED.items():
            rules[f"{kind}, {words}"] = _ours(discipline, clocking, lambda p, s=spaced: held(p, s))  # type: ignore[misc]
    return _judge(claim, rules, first, f"Gain margins of RED, N = {FLOWS}")


@check("hollot-pi", cost=4, main=False)
def hollot_pi(claim: Claim) -> Finding:
    """Check the rule for the example, and margins in the paper's model and in ours."""
    zero = 2.0 * FLOWS / (LONGEST**2 * CAPACITY)
    crossing = abs(1j * zero * LONGEST + 1.0) * zero * (2.0 * FLOWS) ** 2 / (LONGEST * CAPACITY) ** 3
    first = [
        Measurement("zero of the rule", zero, "rad/s", note=f"a and b are computed from {ZERO:g} rad/s"),
        Measurement("a, by the bilinear transform at 160 Hz", crossing / zero + crossing / 320.0, "1/packet", 1.822e-5),
        Measurement("b", crossing / zero - crossing / 320.0, "1/packet", 1.816e-5),
    ]
    pi = PI(mark=True, interval=1.0 / 160.0)
    rules: dict[str, Rule] = {
        "the paper's model": lambda flows, rtt: _published(flows, rtt, [1.0, 0.0], (GAIN / ZERO, GAIN)),
        **{words: _ours(pi, clocking, lambda p: pi.reference) for clocking, words in CLOCKED.items()},
    }
    return _judge(claim, rules, first, f"Gain margins of PI, N = {FLOWS}")


@check("rem-target", cost=4)
def rem_target(claim: Claim) -> Finding:
    """Compute equilibrium, margins and queues of packet runs over numbers of flows, with gains and target of ns-2."""
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
            Measurement(
                f"{flows} flows: queue at equilibrium",
                queue,
                "packets",
                rem.reference,
                f"margins {margins[0]:.1f} dB clocked by ACKs, {margins[1]:.1f} dB by rates; "
                f"{'' if proven else 'not '}proven stable",
                met=proven and abs(queue - rem.reference) < 1e-6,
            ),
            Measurement(
                f"{flows} flows: mean queue of the packet run, 120 to 240 s",
                mean,
                "packets",
                rem.reference,
                met=abs(mean / rem.reference - 1.0) < 0.25,
            ),
        ]
    all_met = all(m.met for m in measured)
    verdict = Verdict.CONFIRMED if all_met else Verdict.CONDITIONAL if min(levels) > 0.0 else Verdict.REFUTED
    reason = (
        f"At equilibrium the queue is at its target for each number of flows, with a gain margin of at least "
        f"{min(levels):.1f} dB; the mean queue of packet runs is {min(held):.1f} to {max(held):.1f} packets."
    )
    title = "Mean queue under REM"
    figure = plot.boundary_figure(
        counts,
        {"packets": held},
        {"target": [rem.reference] * len(counts)},
        None,
        "flows",
        "queue [packets]",
        log_x=False,
        title=title,
    )
    assumption = (
        "10 Mb/s, packets of 1000 bytes, an RTT of 100 ms without the queue; gains and target are ns-2's defaults."
    )
    return Finding(claim, verdict, reason, measured, [Picture.of(figure, title, "Equal flows.")], [assumption])


def _proven(avq: AVQ, network: Network) -> bool | None:
    """Return whether a loop is provably stable; None without a linear model or a proof."""
    try:
        return linearize(pair(HALVING, avq), network, clocking="rate").certify().stable
    except LinearizationError:
        return None


@check("avq-rule", cost=3, main=False)
def avq_rule(claim: Claim) -> Finding:
    """Compute verdicts over windows and RTTs, for gains over a decade."""
    gains, capacity, windows = (0.02, 0.05, 0.15), 1250.0, (2.5, 3.0, 3.5, 4.0, 6.0, 12.0)
    measured, stable_windows, moved, left_out = [], {}, [], 0
    for rtt in (0.05, 0.1, 0.2):
        growths = {}
        for window in windows:
            flows = round(AVQ().gamma * capacity * rtt / window)
            network = equal_flows(flows, capacity, rtt)
            stable = [_proven(AVQ(mark=True, alpha=gain), network) for gain in gains]
            left_out += stable.count(None)
            stable = [verdict_of_gain for verdict_of_gain in stable if verdict_of_gain is not None]
            growths[AVQ().gamma * capacity * rtt / flows] = stable
            if len(set(stable)) > 1:
                moved.append(f"{flows} flows, {1e3 * rtt:g} ms")
        stable_windows[rtt] = [size for size, stable in growths.items() if stable and all(stable)]
        wild = [size for size, stable in growths.items() if stable and not any(stable)]
        measured.append(
            Measurement(
                f"maximum stable window, RTT {1e3 * rtt:g} ms",
                max(stable_windows[rtt]),
                "packets",
                note=f"proven for each gain from {gains[0]:g} to {gains[-1]:g}/s; unstable for each from "
                f"{min(wild):.3g} packets, proven",
                met=not wild,
            )
        )
    reach = min(max(sizes) for sizes in stable_windows.values())
    reason = (
        f"Windows up to {reach:.2g} packets are stable with each of these gains, and windows of at least 4 packets "
        "with "
        "none of them: the probability 1 - V/y follows the rate immediately, independently of the virtual capacity. In "
        + (f"between, the gain decides ({'; '.join(moved)})." if moved else "between, the gain does not matter either.")
    )
    verdict = Verdict.CONFIRMED if all(m.met for m in measured) else Verdict.CONDITIONAL
    assumption = (
        "10 Mb/s, packets of 1000 bytes, utilization 0.98; each mark halves a window, clocked by rates; the virtual "
        "queue is full, so that packets beyond its capacity are marked. In packet runs a virtual queue of 100 "
        "packets "
        f"averages first. {left_out} loops without a regular linear model are left out."
    )
    return Finding(claim, verdict, reason, measured, [], [assumption])
