"""Checks on time-varying delays: loops that are stable for every sequence, and the variation that other loops allow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ecc import packet, plot
from ecc.claims.checks.common.bisection import narrowed
from ecc.claims.checks.common.recurrences import random_network
from ecc.claims.checks.theorems.delays_and_bottlenecks import BETAS, grows_in_the_laws
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.contract.protocol import Protocol
from ecc.fluid import simulate
from ecc.loops.closed_loop import linearize
from ecc.models import EMKC, MKC, PIQIRCP, QIRCP, RCP, JetMax
from ecc.network.impairments import DelaySpikes
from ecc.network.network import Flow, Link, Network
from ecc.scenario import Scenario
from ecc.stability import bottleneck_assignment, water_filled
from ecc.stability.varying_delays import (
    Growth,
    absolute_radius,
    batched_delays,
    growth_of_rates,
    growth_under_delays,
    held_delays,
    is_stable_under_varying_delays,
    worst_delays,
    worst_sequence,
)

RTT, STEP = 0.1, 0.01
"""RTT assumed by routers and their control interval [s]; the RTT has ten steps."""
LOOPS: dict[str, Protocol] = {
    "QI-RCP": QIRCP(),
    "RCP-1": RCP(queue_term=False),
    "PIQI-RCP": PIQIRCP(),
    "XCP's gains, unconstrained queue": RCP(beta=0.226),
    "RCP, unconstrained queue": RCP(),
}
MAX_STEPS = 45
"""Maximum delay in the tested ranges [steps]."""
LONGEST_RTTS = range(2, MAX_STEPS + 1)
"""Longest RTTs for which a worst sequence is searched [steps]."""


def _jacobian(protocol: Protocol, flows: int, capacity: float = 100e6) -> tuple[np.ndarray, float]:
    """Return the Jacobian of a link, and the spectral radius of its absolute values."""
    assigned = bottleneck_assignment(Network.dumbbell(capacity, [0.1] * flows), [0] * flows)
    return assigned.jacobian(protocol), absolute_radius(protocol, assigned)


def _loss(flows: int, patterns: bool) -> float:
    """Return the stationary loss, to 1e-6, above which EMKC is stable for the delays of `worst_delays`, or for all."""

    def grows(loss: float) -> bool:
        jacobian, radius = _jacobian(EMKC(), flows, flows * EMKC().alpha / EMKC().beta * (1.0 - loss) / loss)
        return (growth_of_rates(jacobian, *worst_delays(flows)).value if patterns else radius) >= 1.0

    return narrowed(0.01, 0.9, 1e-6, grows)[1]


def _batched(beta: float, hold: float) -> float:
    """Return the relative swing of rates in the last 200 of 300 s of a packet run with ACKs held for `hold` seconds."""
    network = Network([Link("30 Mb/s", 0.4)], [Flow([0], start=0.1 * k) for k in range(3)])
    spikes = [DelaySpikes(every=(375, 375), delay=(hold, hold), between=0.0, acks_of=[k]) for k in range(3)]
    scenario = Scenario(network, EMKC(alpha=2e4, beta=beta), 300.0, impairments=spikes if hold else [])
    rates = packet.simulate(scenario, sample=0.1).rate.to_numpy()[1000:]
    return float((rates.std(axis=0) / rates.mean(axis=0)).max())


def _jetmax_distance() -> float:
    """Return the maximum distance of JetMax's radius of absolute values from |1 - tau| in 100 random networks."""
    rng = np.random.default_rng(1)
    off = 0.0
    for tau in (0.3, 0.6, 1.5, 1.9):
        for _ in range(25):
            assigned = water_filled(random_network(rng, 6, 20, 3), rng.uniform(1.0, 100.0, 6))
            off = max(off, abs(absolute_radius(JetMax(tau=tau), assigned) - abs(1.0 - tau)))
    return off


def _batching_pictures(
    growths: list[Growth], bounds: list[float], exact: dict[int, tuple[float, float]]
) -> list[Picture]:
    """Return the pictures of growth under batches of feedback, and of the minimum loss for stability."""
    flows = np.arange(3, 101)
    figures = [
        plot.boundary_figure(
            BETAS,
            {"batches of three steps, in order": [g.value for g in growths]},
            {"spectral radius of |A|, sixth root": np.array(bounds) ** (1.0 / 6.0), "stable below": 1.0},
            x_title="β",
            y_title="growth per step",
            log_x=False,
            title="EMKC, three flows, feedback in batches",
        ),
        plot.boundary_figure(
            flows,
            {"(N - 2)/(2(N - 1))": (flows - 2) / (2.0 * (flows - 1))},
            points={"exact, delays that reach it": (list(exact), [known for _, known in exact.values()], None)},
            x_title="flows",
            y_title="stationary loss",
            title="EMKC: minimum loss for stability under all delays",
        ),
    ]
    return [
        Picture.of(
            figures[0],
            "EMKC, three flows, feedback in batches",
            "Growth of a deviation per control interval, 100 Mb/s, alpha = 0.2 Mb/s.",
        ),
        Picture.of(
            figures[1],
            "EMKC: minimum loss for stability under all delays",
            "Stationary loss above which all delays are stable; below it some reordering delays are unstable.",
        ),
    ]


@check("open-varying", cost=6, main=False)
def open_varying(claim: Claim) -> Finding:
    """Compute the radius of absolute values, and prove and replay order-preserving delays that reach it."""
    growths, bounds = [], []
    for beta in BETAS:
        jacobian, radius = _jacobian(EMKC(beta=beta), 3)
        growths.append(growth_of_rates(jacobian, *batched_delays(3), certify=True))
        bounds.append(radius)
    proven = [beta for beta, growth in zip(BETAS, growths, strict=True) if growth.proven]
    forward, backward = batched_delays(3)
    law = grows_in_the_laws(0.5, growths[0].value, backward, forward)
    exact = {flows: (_loss(flows, False), _loss(flows, True)) for flows in (3, 4, 7)}
    off = _jetmax_distance()
    steep = {s: _jacobian(MKC(steepness=s, beta=0.2), 4)[1] for s in (1.0, 1.99, 2.01, 3.0)}
    swings = {(beta, hold): _batched(beta, hold) for beta in (0.5, 1.5) for hold in (0.0, 0.3)}
    jetmax = off < 1e-9
    return Finding(
        claim,
        Verdict.REFUTED if not jetmax else Verdict.CONDITIONAL if proven else Verdict.CONFIRMED,
        "A loop is stable for all bounded delays if the spectral radius of its Jacobian's absolute values is below 1; "
        "on "
        "one link with delays that may reorder packets, the condition is also necessary. For JetMax the radius is "
        f"|1 - tau| under any consistent assignment (100 networks, within {off:.0e}), so its theorem holds. For EMKC "
        "with at least three flows the condition requires a stationary loss above (N - 2)/(2(N - 1)) for all beta. At "
        "JETMAX's gains, with a loss of 1.2 %, deviations of three flows with forward delays of 4 steps grow by "
        f"{growths[0].value - 1.0:.2%} per step ({'proven' if growths[0].proven else 'not proven'}) if feedback "
        "arrives "
        "in batches of 3 steps, shifted by one step between flows. MKC with a price (y/C)^s requires s < N/(N - 2).",
        [
            *(
                Measurement(
                    f"EMKC, three flows, beta = {b:g}: growth per step under batches",
                    g.value,
                    note=f"{'proven' if g.proven else 'not proven'} above 1; spectral radius of |A| {r:.4f}",
                )
                for b, g, r in zip(BETAS, growths, bounds, strict=True)
            ),
            Measurement("the same at beta = 0.5 in the laws", law, note=f"linear {growths[0].value:.5f}"),
            *(
                Measurement(
                    f"EMKC, {n} flows: loss above which all delays are stable",
                    for_all,
                    reported=0.0,
                    note=f"(N - 2)/(2(N - 1)) = {(n - 2) / (2 * (n - 1)):.6f}; unstable delays are known "
                    f"up to {known:.6f}",
                )
                for n, (for_all, known) in exact.items()
            ),
            *(
                Measurement(
                    f"MKC, price (y/C)^{s:g}, four flows: spectral radius of |A|",
                    radius,
                    note="below 1 if and only if the exponent is below N/(N - 2) = 2",
                )
                for s, radius in steep.items()
            ),
            Measurement("JetMax, 100 networks: maximum distance of that radius from |1 - tau|", off),
            *(
                Measurement(
                    f"packets, EMKC, beta = {b:g}, ACKs {'held for 300 ms' if hold else 'not held'}: rate swing",
                    swing,
                    note="standard deviation over mean from 100 to 300 s; three flows on 30 Mb/s, RTT 0.8 s",
                )
                for (b, hold), swing in swings.items()
            ),
        ],
        _batching_pictures(growths, bounds, exact),
        [
            "Delays are bounded, whole steps, and those of a flow to the link and back may vary independently of other "
            "flows'. Batches keep packets in order, and reach the bound for three flows (a loss of 1/4); the "
            "delays that "
            "reach it for more flows reorder packets.",
            "In packet runs ACKs are released in batches of 375, so that the batches of flows drift in phase.",
        ],
    )


def _constant(protocol: Protocol, delay: int) -> bool:
    """Return whether the loop is provably stable under a constant delay [steps]."""
    network = Network.dumbbell("1 Gb/s", [delay * STEP])
    return bool(linearize(protocol, network, "discrete", mean_rtt=[RTT]).certify().stable)


def _largest(holds: np.ndarray) -> int:
    """Return the number of leading true values."""
    return int(np.argmin(holds)) if not holds.all() else len(holds)


def _held_packets(alpha: float, rtt: float, hold: float) -> float:
    """Return the maximum deviation of arrivals from gamma C in the last third of a 60 s packet run with held ACKs."""
    spikes = [DelaySpikes(every=(4750, 4750), delay=(hold, hold), between=0.0, acks_of="all")] if hold else []
    scenario = Scenario(Network.dumbbell("100 Mb/s", [rtt]), QIRCP(alpha=alpha), 60.0, impairments=spikes)
    run = packet.simulate(scenario, sample=0.1, start="equilibrium", perturbation=0.02)
    return float(np.abs(run.arrival.to_numpy()[-200:, 0] / 95e6 - 1.0).max())


def _held_fluid(longest: int, periods: int = 48) -> float:
    """Return the growth per step of QI-RCP's laws with held steps, over the second half of the run."""
    delays = held_delays(longest)
    protocol = QIRCP(alpha=QIRCP().alpha * longest / 10.0)  # the recurrence uses the longest delay as the RTT
    scenario = Scenario(Network.dumbbell("100 Mb/s", [RTT]), protocol, periods * len(delays) * STEP)
    back = np.array(delays)[:, None, None]
    run = simulate(scenario, sample=STEP, time="discrete", start="equilibrium", perturbation=1e-6, delays=(0, back))
    size = np.abs(run.rate.to_numpy()[:, 0] / 95e6 - 1.0).reshape(periods, -1).max(axis=1)
    half = periods // 2
    return float((size[-1] / size[half]) ** (1.0 / (len(delays) * (periods - 1 - half))))


def _onset_of_holding(longest: int) -> float:
    """Return the minimum alpha D/d, to 1e-4, at which a first-order loop with steps held up to D is unstable."""

    def dies_out(gain: float) -> bool:
        protocol = QIRCP(alpha=gain, interval=RTT / longest)
        return growth_under_delays(protocol, RTT, held_delays(longest)).value <= 1.0

    return narrowed(1.4, 1.6, 1e-4, dies_out)[1]


class _RttRanges(NamedTuple):
    """Ranges of varying RTTs for which a loop is stable or unstable [steps]."""

    constant: int
    """Maximum constant RTT for which the loop is stable."""
    safe: int
    """Maximum RTT up to which every sequence of RTTs of at least 1 step is stable."""
    unsafe: int
    """Minimum RTT up to which a sequence of RTTs of at least 1 step is proven unstable."""
    around: int
    """Maximum variation around 10 steps for which every sequence is stable."""
    growth: dict[int, float]
    """Growth per step under the worst sequence found, by the longest RTT."""

    def measurements(self, name: str) -> list[Measurement]:
        """Return the safe ranges of the loop with this name."""
        return [
            Measurement(
                f"{name}: stable for RTTs that vary from 1 step to",
                self.safe,
                "steps",
                note=f"proven; from 1 to {self.unsafe} a sequence is proven unstable, growth "
                f"{self.growth[self.unsafe]:.6f} per step; constant RTTs are stable up to {self.constant}",
            ),
            Measurement(f"{name}: stable variation around 10 steps", self.around, "steps", note="proven, of at most 9"),
        ]


def _rtt_ranges(protocol: Protocol, constant: int) -> _RttRanges:
    """Return the ranges of varying RTTs of a loop that is stable for constant RTTs up to `constant` steps."""
    safe = _largest(np.array([is_stable_under_varying_delays(protocol, RTT, 1, top) for top in range(1, constant + 2)]))
    around = _largest(np.array([is_stable_under_varying_delays(protocol, RTT, 10 - j, 10 + j) for j in range(1, 10)]))
    sequences = {top: worst_sequence(protocol, RTT, 1, top) for top in LONGEST_RTTS}
    unsafe = next(
        top
        for top in range(safe + 1, MAX_STEPS + 1)
        if growth_under_delays(protocol, RTT, sequences[top][1], True).proven
    )
    return _RttRanges(constant, safe, unsafe, around, {top: growth for top, (growth, _) in sequences.items()})


def _holding_measurements() -> list[Measurement]:
    """Return the growth of QI-RCP with a step held up to 31 steps, and the gain at which holding is unstable."""
    edge = held_delays(31)
    proof = growth_under_delays(QIRCP(), RTT, edge, certify=True)
    stable_at = _constant(QIRCP(), 31)
    replay = _held_fluid(31)
    n_steps = 100
    sharp = _onset_of_holding(n_steps)
    return [
        Measurement(
            "QI-RCP, a step held up to 31 steps: growth",
            proof.value,
            note=f"{'proven' if proof.proven else 'not proven'} above 1; in the laws {replay:.6f}; a constant RTT "
            f"of 31 steps is {'proven stable' if stable_at else 'not proven stable'}",
        ),
        Measurement(
            f"first order, RTTs from 1 to {n_steps} steps: minimum alpha D/d at which holding is unstable",
            sharp,
            reported=1.5,
            note="proven stable below 3/2; constant RTTs up to pi/2 = 1.5708",
        ),
    ]


def _held_packet_measurements() -> list[Measurement]:
    """Return deviations of arrivals in packet runs of QI-RCP, with and without held ACKs."""
    packets = {
        (alpha, rtt, hold): _held_packets(alpha, rtt, hold)
        for alpha, rtt, hold in ((0.6, 0.1, 0.4), (1.2, 0.1, 0.0), (1.2, 0.3, 0.0), (1.2, 0.5, 0.0), (1.2, 0.1, 0.4))
    }
    return [
        Measurement(
            f"packets, QI-RCP, alpha = {alpha:g}, RTT {1e3 * rtt:g} ms"
            f"{', ACKs held for up to 400 ms' if hold else ''}: deviation",
            value,
            note="maximum of arrivals over 100 ms, last third of 60 s, perturbation of 2 %",
        )
        for (alpha, rtt, hold), value in packets.items()
    ]


@check("open-jitter", cost=15, main=False)
def open_jitter(claim: Claim) -> Finding:
    """Find provably safe ranges of RTTs, the smallest range with an unstable sequence, and stable constant RTTs."""
    measurements: list[Measurement] = []
    curves, costs = {}, {}
    for name, protocol in LOOPS.items():
        constant = _largest(np.array([_constant(protocol, delay) for delay in range(1, MAX_STEPS + 1)]))
        if constant < 10:
            measurements.append(
                Measurement(f"{name}: maximum stable constant RTT", constant, "steps", note="less than its RTT of 10")
            )
            continue
        ranges = _rtt_ranges(protocol, constant)
        curves[name] = list(ranges.growth.values())
        costs[name] = constant - ranges.safe
        measurements += ranges.measurements(name)
    measurements += [*_holding_measurements(), *_held_packet_measurements()]
    figure = plot.boundary_figure(
        np.array(LONGEST_RTTS),
        curves,
        {"stable below": 1.0},
        x_title="longest RTT [steps]",
        y_title="growth per step",
        log_x=False,
        title="The worst sequence of RTTs found",
    )
    stable = [f"{m.value} ({m.name.split(':')[0]})" for m in measurements if "vary from 1 step" in m.name]
    unaffected = [name for name, cost in costs.items() if cost == 0]
    lost = [name for name, cost in costs.items() if cost > 0]
    return Finding(
        claim,
        Verdict.CONDITIONAL if lost and len(lost) < len(costs) else Verdict.REFUTED if lost else Verdict.CONFIRMED,
        f"With d = 10 steps and default gains, RTTs that vary arbitrarily between 1 step and {', '.join(stable)} are "
        f"provably harmless. {' and '.join(unaffected) or 'No loops'} are stable for varying RTTs up to the limit for "
        "constant RTTs. First-order loops (QI-RCP, RCP-1) require alpha D/d < 3/2 for varying RTTs and pi/2 for "
        "constant "
        "RTTs. RCP at its default beta = 1 is unstable even at the assumed RTT, with an unconstrained queue.",
        measurements,
        [
            Picture.of(
                figure,
                "The worst sequence of RTTs found",
                "Maximum growth found with RTTs between 1 step and the longest, d = 10 steps, default gains.",
            )
        ],
        [
            "d is fixed at 100 ms, T = 10 ms, any flows on one link; XCP's loop is that of RCP with its gains, "
            "in steps "
            "of d/10. The queue of RCP and XCP may be negative.",
            "In packet runs routers measure d, which is 100 to 108 ms for an RTT of 100 ms with held ACKs.",
        ],
    )
