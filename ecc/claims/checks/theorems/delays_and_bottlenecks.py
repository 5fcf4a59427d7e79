"""Checks of the influence of delays and bottleneck assignments on stability: XCP, the Kelly family, JetMax."""

from __future__ import annotations

from itertools import product
from math import pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc import packet, plot
from ecc.claims.checks.common.bisection import narrowed
from ecc.claims.checks.common.evidence import CAPACITY
from ecc.claims.checks.common.recurrences import law_run, random_network, settled
from ecc.claims.checks.theorems.queues_and_rates import OSCILLATES
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.contract.protocol import Protocol
from ecc.errors import ConvergenceError
from ecc.laws.arguments import call_law
from ecc.loops.closed_loop import linearize, linearize_laws
from ecc.models import EMKC, MKC, XCP, JetMax
from ecc.network.network import Flow, Link, Network
from ecc.scenario import Scenario
from ecc.stability import bottleneck_assignment, critical_gain, water_filled
from ecc.stability.assignment import BottleneckAssignment
from ecc.stability.varying_delays import absolute_radius, growth_of_rates

# ---- XCP -------------------------------------------------------------------------------------------------


class OnCurve(XCP):
    """XCP with beta = sqrt(2) alpha^2; the field `beta` is ignored."""

    def params(self) -> dict[str, float]:
        return super().params() | {"beta": sqrt(2.0) * self.alpha * self.alpha}


def _swing(alpha: float, rtt: float) -> float:
    """Return the relative standard deviation of arrivals averaged over RTTs, in the last third of 60 s."""
    protocol = OnCurve(alpha=alpha)
    run = packet.simulate(Scenario(Network.dumbbell("100 Mb/s", rtts=[rtt] * 5), protocol, 60.0), sample=rtt)
    tail = run.arrival.to_numpy()[-len(run.rate) // 3 :, 0]
    return float(tail.std() / tail.mean())


@check("xcp-1", cost=5)
def xcp_1(claim: Claim) -> Finding:
    """Compute the exact boundary along beta = sqrt(2) alpha^2 over RTTs and numbers of flows, and the default gains."""
    edge = pi / (4.0 * sqrt(2.0))
    worst, defaults = 0.0, True
    for rtt in (0.01, 0.2, 4.0):
        for flows in (1, 50):
            network = Network.dumbbell(CAPACITY, rtts=[rtt] * flows)
            worst = max(worst, abs(critical_gain(OnCurve(), network, "alpha").value / edge - 1.0))
            defaults &= linearize(XCP(), network, clocking="rate").is_stable
    exact = critical_gain(OnCurve(), Network.dumbbell(CAPACITY, rtts=[0.1, 0.1]), "alpha", certify=True)
    lo, hi = exact.certified or (float("nan"), float("nan"))
    swings = {alpha: max(_swing(alpha, rtt) for rtt in (0.05, 0.2)) for alpha in (0.4, 0.98 * edge, 1.2 * edge)}
    steady = [alpha for alpha, swing in swings.items() if swing <= OSCILLATES]
    holds = worst < 1e-9 and defaults and all(alpha in steady for alpha in swings if alpha < edge)
    angles = np.linspace(0.02, pi / 2, 200)
    curve = np.column_stack([angles * np.sin(angles), angles * angles * np.cos(angles)])
    along = sqrt(2.0) * curve[:, 0] ** 2
    figure = plot.boundary_figure(
        curve[:, 0],
        {"exact boundary": curve[:, 1]},
        {"β = √2 α²": np.where(along < 0.6, along, np.nan)},
        {
            "default gains": ([XCP().alpha], [XCP().beta], None),
            "end of the claimed range": ([edge], [sqrt(2.0) * edge * edge], None),
        },
        x_title="α",
        y_title="β",
        log_x=False,
    )
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"Along beta = sqrt(2) alpha^2 the exact boundary is pi/(4 sqrt(2)) within {worst:.1e} for RTTs from 10 ms to "
        f"4 s and 1 to 50 flows; alpha = 0.4 with beta = 0.226 is {'stable' if defaults else 'unstable'} in all of "
        "them. Beyond the boundary the model is unstable. Packet runs, with nonnegative queues, do not "
        "oscillate at "
        f"alpha = {', '.join(f'{alpha:.3f}' for alpha in steady) or 'none'} of "
        f"{', '.join(f'{alpha:.3f}' for alpha in swings)}.",
        [
            Measurement(
                "exact boundary, RTT 100 ms",
                exact.value,
                reported=edge,
                note=f"proven stable at {lo:.12g}, unstable at {hi:.12g}",
            ),
            Measurement("maximum relative distance from pi/(4 sqrt(2))", worst, note="6 networks"),
            Measurement("alpha = 0.4, beta = 0.226", "stable" if defaults else "unstable", reported="stable"),
            *(
                Measurement(
                    f"packets, alpha = {alpha:.4f}: standard deviation of arrivals",
                    swing,
                    note="share of the mean over RTTs, last third of 60 s; five flows of RTT 50 or 200 ms, 100 Mb/s",
                )
                for alpha, swing in swings.items()
            ),
        ],
        [
            Picture.of(
                figure, "XCP with equal RTTs", "The unconstrained-queue model is stable below the boundary at any RTT."
            )
        ],
        ["The model allows a negative queue; a queue that is empty at equilibrium switches the loop."],
    )


# ---- EMKC ------------------------------------------------------------------------------------------------

BETAS = (0.5, 1.0, 1.5, 1.9, 1.998)
EDGE = 1e-6
BACK, AHEAD, PERIOD = 3, 2, 8
"""Varying delays: 1 to BACK steps backward, 0 to AHEAD steps forward, repeating after PERIOD steps."""

Pattern = tuple[float, NDArray[np.int64], NDArray[np.int64]]
"""Growth per step with varying delays, and the backward and forward delays [steps]."""


def _heterogeneous(count: int) -> list[Network]:
    """Return networks of one link with RTTs of 0.1 to 1 s, randomly split into forward and backward delays."""
    rng = np.random.default_rng(1)
    return [
        Network.dumbbell("100 Mb/s", rng.uniform(0.1, 1.0, rng.integers(2, 6)).tolist(), delay=rng.uniform(0.0, 0.05))
        for _ in range(count)
    ]


def _edge(network: Network, beta: float = 2.0, width: float = 0.1) -> tuple[float, float]:
    """Return a provably stable and a provably unstable beta, 1e-4 apart, between `beta` and `beta` + `width`."""
    stable = lambda b: linearize(EMKC(beta=b), network, "discrete").certify().stable  # noqa: E731
    return narrowed(beta - 1e-6, beta + width, 1e-4, stable)


def _loop(beta: float, flows: int, capacity: float = 100e6) -> tuple[float, float, EMKC, Network]:
    """Return the weights a, k of x_i <- a x_i - k sum x_j from the laws of EMKC on one link."""
    protocol = EMKC(beta=beta)
    network = Network.dumbbell(capacity, rtts=[0.1] * flows)
    laws = linearize_laws(protocol, network, protocol.interval, discrete=True)
    gain = -laws.source["R"][0] * laws.router["y"][0]
    return float(laws.source["x_rtt"][0]), float(gain), protocol, network


def _contraction(beta: float, flows: int, capacity: float = 100e6) -> float:
    """Return the spectral radius of |A|; below 1 the loop contracts in a weighted maximum norm for any delays."""
    link = bottleneck_assignment(Network.dumbbell(capacity, [0.1] * flows), [0] * flows)
    return absolute_radius(EMKC(beta=beta), link)


def _harmless_loss(beta: float, flows: int) -> float:
    """Return the minimum stationary loss, to 1e-4, for which no varying delays can destabilize the flows."""
    added = flows * EMKC().alpha / beta
    return narrowed(1e-3, 1.0 - 1e-3, 1e-4, lambda loss: _contraction(beta, flows, added * (1.0 - loss) / loss) >= 1.0)[
        1
    ]


def _in_order(delays: NDArray[np.int64]) -> bool:
    """Return whether packets keep their order: n - delay never falls."""
    return bool(np.all(np.roll(delays, -1, axis=0) <= delays + 1))


def _worst_pattern(weight: float, gain: float, flows: int, seed: int) -> Pattern:
    """Search order-preserving delays for maximum growth by 1500 random changes, kept if growth does not decrease."""
    rng = np.random.default_rng(seed)
    back = np.tile(rng.integers(1, BACK + 1, flows), (PERIOD, 1))
    ahead = np.tile(rng.integers(0, AHEAD + 1, flows), (PERIOD, 1))
    jacobian = weight * np.eye(flows) - gain
    growth = growth_of_rates(jacobian, ahead, back).value
    for _ in range(1500):
        b, a = back.copy(), ahead.copy()
        for _ in range(rng.integers(1, 4)):
            at = rng.integers(PERIOD), rng.integers(flows)
            if rng.random() < 0.5:
                b[at] = rng.integers(1, BACK + 1)
            else:
                a[at] = rng.integers(0, AHEAD + 1)
        if _in_order(b) and _in_order(a):
            new_growth = growth_of_rates(jacobian, a, b).value
            if new_growth >= growth:
                growth, back, ahead = new_growth, b, a
    return growth, back, ahead


def _random_growth(weight: float, gain: float, flows: int, seed: int, steps: int = 3000) -> float:
    """Return the mean growth per step with all delays drawn at every step."""
    rng = np.random.default_rng(seed)
    depth = BACK + AHEAD + 1
    past = rng.standard_normal((depth, flows))
    ahead = rng.integers(0, AHEAD + 1, (steps + depth, flows))
    back = rng.integers(1, BACK + 1, (steps + depth, flows))
    everyone, logs = np.arange(flows), 0.0
    for n in range(depth, steps + depth):
        lag = back[n][:, None] + ahead[n - back[n]]
        seen = past[lag - 1, everyone]
        past = np.vstack([weight * seen.diagonal() - gain * seen.sum(axis=1), past[:-1]])
        size = float(np.abs(past).max())
        logs, past = logs + np.log(size), past / size
    return float(np.exp(logs / steps))


class _ConstantDelays(NamedTuple):
    """Stability of EMKC with constant delays, by certificates."""

    undelayed: float
    """Maximum distance of the eigenvalue without delays from 1 - beta."""
    sharp: bool
    """Whether loops with equal RTTs are provably stable at 2 - EDGE and unstable at 2 + EDGE."""
    proven: int
    """Number of cases, of random networks with each of BETAS, that are provably stable."""
    edges: NDArray[np.float64]
    """A provably stable and a provably unstable beta of each random network."""

    @property
    def cases(self) -> int:
        """Number of random networks times the number of BETAS."""
        return len(self.edges) * len(BETAS)


class _VaryingDelays(NamedTuple):
    """Stability of EMKC with varying delays; for three flows on 100 Mb/s by beta."""

    contraction: float
    """Maximum spectral radius of |A| with one and two flows."""
    harmless: dict[int, float]
    """Minimum loss, by number of flows, for which no varying delays can destabilize them."""
    chance: dict[float, float]
    """Growth with delays drawn at every step."""
    worst: dict[float, Pattern]
    """Growth with the worst delays found, and these backward and forward delays."""
    shown: float
    """Beta of the pattern that is run in the laws: 0.5 if its pattern grows, or else that of maximum growth."""
    growth_in_laws: float
    """Growth in the laws with this pattern."""

    @property
    def unstable(self) -> list[float]:
        """BETAS for which the worst delays found make deviations grow."""
        return [b for b in BETAS if self.worst[b][0] > 1.0]


def _with_constant_delays() -> _ConstantDelays:
    """Return the stability without delays, with equal RTTs, and in 16 random networks."""
    no_delay = bottleneck_assignment(Network.dumbbell("10 Mb/s", [0.0] * 3), [0] * 3)
    undelayed = max(float(np.abs(np.linalg.eigvals(no_delay.jacobian(EMKC(beta=b))) - (1.0 - b)).min()) for b in BETAS)
    sharp = all(
        linearize(EMKC(beta=b), Network.dumbbell("100 Mb/s", [rtt] * n), "discrete").certify().stable == (b < 2.0)
        for rtt in (0.0, 0.1, 0.7)
        for n in (1, 3)
        for b in (2.0 - EDGE, 2.0 + EDGE)
    )
    networks = _heterogeneous(16)
    proven = sum(bool(linearize(EMKC(beta=b), net, "discrete").certify().stable) for net in networks for b in BETAS)
    return _ConstantDelays(undelayed, sharp, proven, np.array([_edge(net) for net in networks]))


def _with_varying_delays() -> _VaryingDelays:
    """Return the growth of deviations by contraction, with random delays, and with the worst delays found."""
    contraction = max(_contraction(b, n) for n in (1, 2) for b in BETAS)
    harmless = {n: _harmless_loss(0.5, n) for n in (3, 10, 100)}
    chance: dict[float, float] = {}
    worst: dict[float, Pattern] = {}
    for b in BETAS:
        weight, gain, _, _ = _loop(b, 3)
        chance[b] = max(_random_growth(weight, gain, 3, seed) for seed in (1, 2, 3))
        worst[b] = max((_worst_pattern(weight, gain, 3, seed) for seed in range(1, 5)), key=lambda pattern: pattern[0])
    shown = max(BETAS, key=lambda b: (worst[b][0] > 1.0 and b == 0.5, worst[b][0]))
    return _VaryingDelays(contraction, harmless, chance, worst, shown, grows_in_the_laws(shown, *worst[shown]))


def _measured_boundaries(constant: _ConstantDelays) -> list[Measurement]:
    """Return the stability with constant delays as measurements."""
    edges = constant.edges
    lo, hi = edges[int(edges[:, 1].argmax())]
    return [
        Measurement("distance of the undelayed eigenvalue from 1 - beta", constant.undelayed),
        Measurement(
            f"2 - {EDGE:g} proven stable and 2 + {EDGE:g} unstable, equal RTTs",
            "yes" if constant.sharp else "no",
            note="RTT 0 to 0.7 s, 1 and 3 flows",
        ),
        Measurement(
            "networks proven stable",
            f"{constant.proven} of {constant.cases}",
            note=f"{len(edges)} networks of 2 to 5 flows; beta = {', '.join(map(str, BETAS))}",
        ),
        Measurement("minimum boundary", float(edges.mean(axis=1).min()), reported=2.0, note="+- 5e-05"),
        Measurement(
            "maximum boundary",
            float(edges.mean(axis=1).max()),
            reported=2.0,
            note=f"proven stable at {lo:.6f}, unstable at {hi:.6f}",
        ),
    ]


def _measured_growth(varying: _VaryingDelays) -> list[Measurement]:
    """Return the stability with varying delays as measurements."""
    growth, back, ahead = varying.worst[varying.shown]
    return [
        Measurement(
            "one and two flows, any varying delays: spectral radius of |A|", varying.contraction, note="< 1 is stable"
        ),
        *(
            Measurement(
                f"{n} flows, beta = 0.5: loss above which no varying delays destabilize",
                loss,
                note=f"(N - 2)/(2 (N - 1)) = {(n - 2) / (2 * (n - 1)):.4f}",
            )
            for n, loss in varying.harmless.items()
        ),
        Measurement(
            "three flows, delays drawn at every step: maximum growth", max(varying.chance.values()), note="3 seeds"
        ),
        Measurement(
            "three flows, worst delays found: maximum growth",
            max(pattern[0] for pattern in varying.worst.values()),
            note="; ".join(f"beta {b:g}: {varying.worst[b][0]:.4f}" for b in BETAS),
        ),
        Measurement(
            f"the same at beta = {varying.shown:g}, growth in the laws",
            varying.growth_in_laws,
            note=f"linear {growth:.4f}; backward {back.T.tolist()}, forward {ahead.T.tolist()} steps, one list per "
            "flow",
        ),
    ]


def _growth_picture(varying: _VaryingDelays) -> Picture:
    """Return the picture of growth over beta."""
    figure = plot.boundary_figure(
        BETAS,
        {
            "worst pattern found": [varying.worst[b][0] for b in BETAS],
            "delays drawn at every step": list(varying.chance.values()),
            "no delay": [max(_loop(b, 3)[0], abs(1.0 - b)) for b in BETAS],
        },
        {"stable below": 1.0},
        x_title="β",
        y_title="growth of a deviation per step",
        log_x=False,
    )
    return Picture.of(
        figure,
        "EMKC, three flows on 100 Mb/s, varying delays",
        "Growth of a small deviation per control interval, alpha = 0.2 Mb/s; above 1 is unstable.",
    )


@check("emkc-1", cost=16)
def emkc_1(claim: Claim) -> Finding:
    """Check constant delays by certificates, and varying delays by contraction, random draws and search."""
    constant, varying = _with_constant_delays(), _with_varying_delays()
    edges, shown, unstable = constant.edges, varying.shown, varying.unstable
    holds = constant.proven == constant.cases and constant.sharp and constant.undelayed < 1e-9
    reason = (
        f"Constant delays: {constant.proven} of {constant.cases} cases with beta from {BETAS[0]} to {BETAS[-1]} are "
        f"provably stable. With equal RTTs the loop is {'provably' if constant.sharp else 'not always'} stable at "
        f"beta = 2 - {EDGE:g} and unstable at 2 + {EDGE:g}; the {len(edges)} networks lose stability between "
        f"{edges.min():.4f} and {edges.max():.4f}. Varying delays: "
    )
    if unstable:
        reason += (
            f"for three flows on 100 Mb/s, some delays of at most {BACK + AHEAD} steps, which keep the order of "
            f"packets and repeat every {PERIOD} steps, make deviations grow at beta = "
            f"{', '.join(f'{b:g}' for b in unstable)} (by {varying.worst[shown][0] - 1.0:.2%} per step at {shown:g}, "
            f"in the laws by {varying.growth_in_laws - 1.0:.2%}). One and two flows are stable under any delays "
            f"(a contraction: {varying.contraction:.4f}), and three flows under random delays."
        )
    else:
        reason += "no pattern was found that destabilizes the loop."
    return Finding(
        claim,
        Verdict.REFUTED if not holds else Verdict.CONDITIONAL if unstable else Verdict.CONFIRMED,
        reason,
        [*_measured_boundaries(constant), *_measured_growth(varying)],
        [_growth_picture(varying)],
        [
            "Backward delays of 1 to 3 steps and forward delays of 0 to 2 in the search; alpha = 0.2 Mb/s (JETMAX sec. "
            "3.3)."
        ],
    )


def grows_in_the_laws(beta: float, growth: float, back: NDArray[np.int64], ahead: NDArray[np.int64]) -> float:
    """Return the growth per step of a deviation of 1e-10 in the laws, fitted over the second half of six decades.

    Parameters
    ----------
    beta : float
        Gain of EMKC with three flows.
    growth : float
        Expected growth per step, which sets the length of the run.
    back, ahead : ndarray of int, shape (period, 3), steps
    """
    _, _, protocol, network = _loop(beta, 3)
    rest = protocol.equilibrium(network).rates
    start = rest * (1.0 + 1e-10 * np.array([1.0, -0.7, 0.4]))
    periods = int(min(400.0, np.log(1e6) / np.log(growth) / PERIOD)) if growth > 1.0 else 400
    run = law_run(protocol, network, periods * PERIOD, start, ahead[:, :, None], back[:, :, None], [0] * 3)
    size = np.abs(run.rate.to_numpy() / rest - 1.0).max(axis=1)[run.rate.sizes["time"] // 2 :]
    return float(np.exp(np.polyfit(np.arange(len(size)), np.log(size), 1)[0]))


# ---- bottleneck assignments --------------------------------------------------------------------------------


def _every_assignment(network: Network) -> list[tuple[int, ...]]:
    return list(product(*(flow.route for flow in network.flows)))


def _persists(protocol: Protocol, network: Network, assignment: NDArray[np.int64]) -> bool | None:
    """Return whether no flow would change its link at the equilibrium of an assignment; None without an equilibrium."""
    try:
        point = protocol.equilibrium(network, assignment)
    except ConvergenceError:
        return None
    p = protocol.namespace()
    loads = zip(point.rates @ network.incidence, network.capacities, strict=True)
    price = [call_law(protocol.router_law, {"y": y, "C": C, "p": p}) for y, C in loads]
    received = np.where(network.incidence, price, -np.inf)
    return bool(np.all(received[np.arange(network.n_flows), assignment] >= received.max(axis=1) * (1.0 - 1e-12)))


def with_delays(network: Network, rng: np.random.Generator) -> Network:
    """Return a network with link delays of up to 0.1 s and access delays of up to 0.2 s.

    Parameters
    ----------
    network : Network
    rng : random.Generator
        Generator.
    """
    links = [Link(link.capacity, float(rng.uniform(0.0, 0.1))) for link in network.links]
    return Network(links, [Flow(flow.route, access_delay=float(rng.uniform(0.0, 0.2))) for flow in network.flows])


@check("mm-1", cost=0.9)
def mm_1(claim: Claim) -> Finding:
    """Check Lemmas 1 and 2 by enumeration, and Theorem 1 by eigenvalues of each link, without and with delays."""
    rng = np.random.default_rng(1)
    persisting = {True: 0, False: 0}
    tried = {True: 0, False: 0}
    free = without_free = 0
    for protocol in (EMKC(), MKC(steepness=2.0)):
        for _ in range(20):
            network = random_network(rng, int(rng.integers(2, 4)), int(rng.integers(2, 5)))
            for links in _every_assignment(network):
                assigned = bottleneck_assignment(network, links)
                tried[assigned.is_consistent] += 1
                persisting[assigned.is_consistent] += bool(_persists(protocol, network, assigned.links))
                if assigned.is_consistent:
                    has = any(np.all(assigned.links[network.incidence[:, b]] == b) for b in set(links))
                    free, without_free = free + has, without_free + (not has)
    agree = cases = delayed = delayed_agree = 0
    union = 0.0
    for k in range(60):
        network = random_network(rng, 6, 20, 3)
        assigned = water_filled(network, rng.uniform(1.0, 100.0, 6))
        beta = float(rng.uniform(0.5, 3.0))
        protocol = EMKC(beta=beta) if k % 2 else MKC(beta=10.0 * beta, alpha=2e6)
        alone = _link_eigenvalues(protocol, assigned)
        all_eigenvalues = np.linalg.eigvals(assigned.jacobian(protocol))
        union = max(union, float(np.abs(np.sort(np.abs(all_eigenvalues)) - np.sort(np.abs(alone))).max()))
        by_link = bool(np.abs(alone).max() < 1.0)
        agree += by_link == (np.abs(all_eigenvalues).max() < 1.0)
        cases += 1
        if by_link and delayed < 12:
            delayed += 1
            system = linearize(protocol, with_delays(network, rng), "discrete", assignment=assigned.links)
            delayed_agree += system.is_stable
    holds = not persisting[False] and not without_free and agree == cases and delayed_agree == delayed and union < 1e-6
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"In 40 networks, {persisting[False]} of {tried[False]} inconsistent assignments persist at their equilibrium, "
        f"and {persisting[True]} of {tried[True]} consistent ones. {free} of these {tried[True]} leave a router "
        "without "
        f"unresponsive flows. The eigenvalues of a network are those of its links within {union:.1e}, and stability "
        f"agrees in {agree} of {cases} networks of 6 links and 20 flows. With random delays, {delayed_agree} of "
        f"{delayed} networks that are stable without delays are stable.",
        [
            Measurement(
                "inconsistent assignments that persist",
                float(persisting[False]),
                reported=0.0,
                note=f"of {tried[False]}",
            ),
            Measurement(
                "consistent assignments that persist", float(persisting[True]), note=f"of {tried[True]}, in 40 networks"
            ),
            Measurement("consistent assignments without a free router", float(without_free), reported=0.0),
            Measurement("network and its links agree on stability", f"{agree} of {cases}"),
            Measurement("maximum difference of eigenvalue moduli, network and links", union),
            Measurement("stable links, random directional delays: networks stable", f"{delayed_agree} of {delayed}"),
        ],
        [],
        [
            "EMKC, and MKC with the price (y/C)^steepness; an assignment persists if every flow's link has the highest "
            "price on its route at the equilibrium of the assignment."
        ],
    )


def _link_eigenvalues(protocol: EMKC | MKC, assignment: BottleneckAssignment) -> NDArray[np.float64]:
    """Return the eigenvalues of each link with its responsive flows: 1 - beta p and 1 - beta (p + w p'(y))."""
    network, links = assignment.network, assignment.links
    point = protocol.equilibrium(network, links)
    out = []
    for b in np.unique(links):
        responsive = links == b
        C, y, w = (
            float(network.capacities[b]),
            float(point.rates[network.incidence[:, b]].sum()),
            float(point.rates[responsive].sum()),
        )
        p, slope = ((y - C) / y, C / (y * y)) if isinstance(protocol, EMKC) else (y / C, 1.0 / C)
        out += [1.0 - protocol.beta * p] * (int(responsive.sum()) - 1) + [1.0 - protocol.beta * (p + w * slope)]
    return np.array(out)


def _feedback(protocol: Protocol, network: Network, start: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
    """Return prices of undelayed laws under every assignment, shape (assignments, steps, links); JetMax: (10)."""
    links = np.array(_every_assignment(network))
    bottlenecked = links[:, :, None] == np.arange(network.n_links)
    crosses, C, p = network.incidence.astype(float), network.capacities, protocol.namespace()
    count, away = bottlenecked.sum(axis=1), crosses * ~bottlenecked
    x = np.tile(start, (len(links), 1))
    prices = np.empty((len(links), steps, network.n_links))
    for n in range(steps):
        y = x @ crosses
        if isinstance(protocol, JetMax):
            router_law: Any = protocol.router_law  # all assignments together
            feedback = router_law(np.einsum("ai,ail->al", x, away), np.maximum(count, 1), C, p)
            prices[:, n] = 1.0 - protocol.gamma * C / y  # not clipped: it must be monotone below the capacity, too
        else:
            feedback = prices[:, n] = protocol.router_law(y, C)
        x = np.maximum(1.0, protocol.source_law(x, np.take_along_axis(feedback, links, 1), p))
    return prices


def _monotone(prices: NDArray[np.float64]) -> bool:
    moves = np.diff(prices, axis=1)
    one_way = np.all(moves >= -1e-9, axis=1) | np.all(moves <= 1e-9, axis=1)
    return bool(np.all(one_way & (np.abs(moves[:, -1]) < 1e-7)))


@check("mm-2", cost=5)
def mm_2(claim: Claim) -> Finding:
    """Find networks with monotone feedback of every link under every assignment, and check if they settle."""
    measurements, settling, failing, other_networks = [], 0, 0, []
    for protocol in (EMKC(alpha=1e6, beta=0.5), EMKC(alpha=1e6, beta=1.9), JetMax(tau=0.3), JetMax(), JetMax(tau=1.5)):
        rng = np.random.default_rng(1)
        outcomes: dict[bool, list[bool]] = {True: [], False: []}
        for _ in range(40):
            network = random_network(rng, int(rng.integers(2, 4)), int(rng.integers(2, 6)))
            start = rng.uniform(1e4, 1e6, network.n_flows)
            monotone = _monotone(_feedback(protocol, network, start, 600))
            outcomes[monotone].append(settled(law_run(protocol, network, 600, start), 1e-3))
        gain = f"beta = {protocol.beta:g}" if isinstance(protocol, EMKC) else f"tau = {protocol.tau:g}"
        name = f"{type(protocol).__name__}, {gain}"
        settling, failing = settling + sum(outcomes[True]), failing + len(outcomes[True]) - sum(outcomes[True])
        other_networks.append(f"{name}: {len(outcomes[False]) - sum(outcomes[False])} of {len(outcomes[False])}")
        measurements.append(
            Measurement(
                f"{name}: networks with monotone feedback that settle",
                f"{sum(outcomes[True])} of {len(outcomes[True])}",
                note=f"without: {sum(outcomes[False])} of {len(outcomes[False])} settle",
            )
        )
    if settling + failing == 0:
        verdict = Verdict.NOT_COMPARABLE
    else:
        verdict = Verdict.REFUTED if failing else Verdict.CONFIRMED
    return Finding(
        claim,
        verdict,
        f"{settling} of {settling + failing} networks in which all links converge monotonically under every fixed "
        "assignment settle with free choice of bottlenecks. Among the other networks, the numbers that do not converge "
        f"are: {'; '.join(other_networks)}.",
        measurements,
        [],
        [
            "Random networks of 2 or 3 links and 2 to 5 flows, no delays, low initial rates; all assignments are "
            "tested "
            "from this start. JetMax chooses links by JETMAX (10) and (11) at every step, without the router's "
            "managed "
            "switching."
        ],
    )


# ---- JetMax ------------------------------------------------------------------------------------------------

ASSIGNMENTS = 2000


@check("jm-th2", cost=11)
def jm_th2(claim: Claim) -> Finding:
    """Check fig. 9 with 2000 random assignments, and tau near 2 with constant and varying random delays."""
    rng = np.random.default_rng(1)
    protocol = JetMax(tau=0.6)
    filled: list[float] = []
    drawn: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(ASSIGNMENTS):
        network = random_network(rng, 10, 50, int(rng.integers(2, 11)))
        filled.append(water_filled(network, rng.uniform(1.0, 100.0, 10)).spectral_radius(protocol))
        other = bottleneck_assignment(network, [int(rng.choice(flow.route)) for flow in network.flows])
        drawn[other.is_consistent].append(other.spectral_radius(protocol))
    consistent = np.array([*filled, *drawn[True]])
    off = float(np.abs(consistent - 0.4).max())
    above = int(np.sum(np.array(drawn[False]) > 1.0))
    inside = outside = certified = 0
    for _ in range(6):
        network = with_delays(random_network(rng, 3, 4), rng)
        for tau in (0.01, 0.6, 1.5, 1.998):
            certified += 1
            inside += bool(linearize(JetMax(tau=tau), network, "discrete").certify().stable)
        outside += not linearize(JetMax(tau=2.002), network, "discrete").is_stable
    worst = _varying_jetmax(rng)
    holds = off < 1e-9 and inside == certified and outside == 6 and worst < 1e-3
    index = np.arange(ASSIGNMENTS)
    thin = slice(None, None, 4)
    figure = plot.boundary_figure(
        index[thin],
        {},
        {"|1 − τ|": 0.4, "1": 1.0},
        {
            "inconsistent, drawn": (np.arange(len(drawn[False]))[thin], drawn[False][thin], None),
            "consistent, by water-filling": (index[thin], filled[thin], None),
        },
        x_title="assignment",
        y_title="spectral radius",
        log_x=False,
    )
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"{len(consistent)} consistent assignments have a spectral radius of 0.4 within {off:.1e}, and {above} of "
        f"{len(drawn[False])} inconsistent ones exceed 1 ({min(drawn[False]):.3f} to {max(drawn[False]):.3f}). With "
        f"random directional delays, tau up to 1.998 is provably stable in {inside} of {certified} cases, and 2.002 is "
        f"unstable in {outside} of 6 networks. If delays change at every step, deviations shrink to at most "
        f"{worst:.1e} "
        "of their initial size after 1000 steps.",
        [
            Measurement("consistent assignments", float(len(consistent)), note=f"{len(drawn[True])} of them drawn"),
            Measurement("maximum distance of their spectral radius from 0.4", off, reported=0.0),
            Measurement(
                "inconsistent assignments, maximum spectral radius",
                max(drawn[False]),
                reported="may exceed 1",
                note=f"{above} of {len(drawn[False])} above 1; minimum {min(drawn[False]):.4f}",
            ),
            Measurement("tau = 0.01 to 1.998, random delays, proven stable", f"{inside} of {certified}"),
            Measurement("tau = 2.002, random delays, unstable", f"{outside} of 6"),
            Measurement(
                "remaining deviation after 1000 steps with varying delays", worst, note="tau = 0.6 and 1.9, two seeds"
            ),
        ],
        [
            Picture.of(
                figure,
                "Spectral radius of JetMax under bottleneck assignments",
                "10 routers, 50 flows over 1 to 10 hops, tau = 0.6, no delays (every fourth of 2000 is drawn).",
            )
        ],
        ["Routes have up to 2 to 10 hops, drawn for each network; JETMAX does not state how its routes were drawn."],
    )


def _varying_jetmax(rng: np.random.Generator) -> float:
    """Return the deviation after 1000 steps relative to the initial one, with delays drawn at every step."""
    worst = 0.0
    for tau in (0.6, 1.9):
        for _ in range(2):
            protocol, network = JetMax(tau=tau), random_network(rng, 3, 6, 2)
            assigned = water_filled(network)
            rest = protocol.equilibrium(network).rates
            ahead, back = rng.integers(0, 3, (1000, 6, 3)), rng.integers(1, 4, (1000, 6, 3))
            run = law_run(
                protocol, network, 1000, rest * rng.uniform(0.99, 1.01, 6), ahead, back, assigned.links.tolist()
            )
            deviation: NDArray[Any] = np.abs(run.rate.to_numpy() / rest - 1.0).max(axis=1)
            worst = max(worst, float(deviation[-20:].max() / deviation[0]))
    return worst
