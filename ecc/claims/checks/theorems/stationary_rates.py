"""Checks of the stationary rates of protocols: shares of a link, and max-min fairness."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc import fluid, packet, plot
from ecc.claims.checks.common.recurrences import law_run, random_network, settled
from ecc.claims.checks.theorems.queues_and_rates import OSCILLATES
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.contract.protocol import Protocol
from ecc.errors import LinearizationError
from ecc.models import EMKC, EMKCAVQ, PIQIRCP, RCP, XCP, JetMax, MaxNet
from ecc.network.allocation import max_min
from ecc.network.impairments import RandomLoss
from ecc.network.network import Flow, Link, Network
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario
from ecc.stability import water_filled

BAND = 0.1
"""Relative tolerance within which a stated number is confirmed."""


def late_means(run: Trajectory, of: str = "rate") -> NDArray[np.float64]:
    """Return the means over the last third of a run.

    Parameters
    ----------
    run : Trajectory
    of : str, optional
        Name of the series.
    """
    values = run.data[of].to_numpy()
    means: NDArray[np.float64] = values[-(len(values) // 3) :].mean(axis=0)
    return means


def packet_run(
    network: Network, protocol: Protocol, duration: float, seed: int = 1, start: str = "empty"
) -> Trajectory:
    """Return a packet run with 300 samples.

    Parameters
    ----------
    network, protocol, duration, seed
        Arguments of the scenario.
    start : str, optional
        Initial state, as in ecc.packet.simulate.
    """
    return packet.simulate(Scenario(network, protocol, duration, seed=seed), sample=duration / 300.0, start=start)


def fluid_run(
    network: Network, protocol: Protocol, duration: float, start: str = "empty", clocking: str = "ack"
) -> Trajectory:
    """Return a fluid run with 300 samples.

    Parameters
    ----------
    network, protocol, duration
        Arguments of the scenario.
    start, clocking : str, optional
        Options of ecc.fluid.simulate.
    """
    case = Scenario(network, protocol, duration)
    return fluid.simulate(case, sample=duration / 300.0, start=start, clocking=clocking)


def _converges(run: Trajectory) -> bool:
    """Return whether, in the last third, no rate oscillates and no flow changes its bottleneck."""
    last = -(len(run.rate) // 3)
    rates, followed = run.rate.to_numpy()[last:], run.bottleneck.to_numpy()[last:]
    return bool(np.all(rates.std(axis=0) <= OSCILLATES * rates.mean(axis=0)) and not np.ptp(followed, axis=0).any())


def _off(actual: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """Return the maximum relative difference."""
    return float(np.max(np.abs(actual / expected - 1.0)))


def _spread(values: Iterable[float]) -> str:
    items = list(values)
    return f"{min(items):.4g} to {max(items):.4g}"


# ---- XCP -------------------------------------------------------------------------------------------------

SIZES = (2, 3, 4, 5, 6)
UNFAIR_DELAY = "30 ms"


class _Shares(NamedTuple):
    """XCP's rate of the short flow over max-min, for SIZES and both orders of the links."""

    ratios: dict[str, list[float]]
    """In packet runs, by order of the links."""
    granted: list[float]
    """Relative differences of a fluid with grants once per interval from packet runs."""
    laws: list[float]
    """Maximum relative differences of a fluid with continuous grants from the equilibrium."""


def _shares_of_xcp() -> _Shares:
    """Return XCP's rates in packet runs and fluids."""
    ratios: dict[str, list[float]] = {}
    granted, laws = [], []
    for order, long_first in (("l1 first", False), ("l2 first", True)):
        for n in SIZES:
            network = Network.xcp_unfair(n, UNFAIR_DELAY, long_link_first=long_first)
            fair = max_min(network)[0]
            rate, likewise = (late_means(run(network, XCP(), 60.0))[0] for run in (packet_run, fluid_run))
            ratios.setdefault(f"XCP packets, {order}", []).append(float(rate / fair))
            granted.append(abs(float(likewise / rate) - 1.0))
            smooth = fluid_run(network, XCP(), 60.0, clocking="rate")
            laws.append(_off(late_means(smooth), XCP().equilibrium(network).rates))
    return _Shares(ratios, granted, laws)


def _distances_from_max_min() -> dict[str, dict[str, float]]:
    """Return the maximum relative differences of rates from max-min, by protocol and by setup of the run."""
    rivals: dict[str, dict[str, float]] = {}
    settle: dict[str, Protocol] = {"JetMax": JetMax(), "RCP": RCP(), "PIQI-RCP": PIQIRCP()}
    for name, protocol in settle.items():
        runs = rivals.setdefault(name, {})
        for long_first, n, start in product((False, True), (2, 4, 6), ("empty", "equilibrium")):
            network = Network.xcp_unfair(n, UNFAIR_DELAY, long_link_first=long_first)
            fair_rates = protocol.equilibrium(network).rates
            setup = f"n = {n}, {'l2' if long_first else 'l1'} first, from {start}"
            runs[f"{setup}, packets"] = _off(late_means(packet_run(network, protocol, 60.0, start=start)), fair_rates)
            if (
                name != "JetMax"
            ):  # JetMax chooses the maximum virtual loss in packets, but the minimum fair rate in the fluid
                runs[f"{setup}, fluid"] = _off(late_means(fluid_run(network, protocol, 60.0, start)), fair_rates)
    return rivals


@check("xcp-2", cost=14)
def xcp_2(claim: Claim) -> Finding:
    """Compare packet runs of EVAL fig. 6, for n = 2 to 6 and both orders of the links, with the equilibrium."""
    ratios, granted, laws = _shares_of_xcp()
    networks = [Network.xcp_unfair(n) for n in SIZES]
    predicted = [float(XCP().equilibrium(network).rates[0] / max_min(network)[0]) for network in networks]
    rivals = _distances_from_max_min()
    off = {order: _off(np.array(values), np.array(predicted)) for order, values in ratios.items()}
    falling = all(np.all(np.diff(values) < 0.0) for values in (predicted, *ratios.values()))
    far = {name: [setup for setup, worst in runs.items() if worst > BAND] for name, runs in rivals.items()}
    agrees = [order for order, worst in off.items() if worst <= BAND]
    if (
        not falling
        or not agrees
        or max(*granted, *laws) > BAND
        or any(len(far[name]) > len(runs) / 2 for name, runs in rivals.items())
    ):
        verdict = Verdict.REFUTED
    else:
        verdict = Verdict.CONDITIONAL if len(agrees) < len(off) or any(far.values()) else Verdict.CONFIRMED
    figure = plot.boundary_figure(
        SIZES,
        {"equilibrium (Low, Andrew, Wydrowski)": predicted},
        {"max-min": 1.0},
        {order: (SIZES, values, None) for order, values in ratios.items()},
        x_title="n",
        y_title="rate of the short flow / max-min",
        log_x=False,
    )
    return Finding(
        claim,
        verdict,
        f"At equilibrium the short flow has {predicted[0]:.2f} of its max-min rate at n = 2 and {predicted[-1]:.2f} at "
        f"n = 6; a fluid with continuous grants agrees within {max(laws):.1e}. Packet runs are within "
        + " and ".join(f"{worst:.1%} of that with {name.removeprefix('XCP packets, ')}" for name, worst in off.items())
        + f", and {'fall' if falling else 'do not fall'} with n. A fluid with grants once per interval is within "
        f"{max(granted):.1%} of packet runs in both orders. Within {BAND:.0%} of max-min are "
        + ", ".join(f"{name} in {len(runs) - len(far[name])} of {len(runs)} runs" for name, runs in rivals.items())
        + "".join(f"; not {name} at {setup} ({rivals[name][setup]:.0%})" for name in far for setup in far[name])
        + ".",
        [
            *(
                Measurement(
                    f"XCP, n = {n}: rate of the short flow / max-min, equilibrium",
                    value,
                    note="; ".join(f"{order.removeprefix('XCP ')} {values[k]:.4f}" for order, values in ratios.items()),
                )
                for k, (n, value) in enumerate(zip(SIZES, predicted, strict=True))
            ),
            Measurement(
                "XCP, fluid with continuous grants: maximum difference of rates from the equilibrium",
                max(laws),
                note="n = 2 to 6, both orders",
            ),
            Measurement(
                "XCP, fluid: maximum difference of the short flow's rate from packet runs",
                max(granted),
                note="n = 2 to 6, both orders",
            ),
            *(
                Measurement(
                    f"{name}: maximum difference of rates from max-min",
                    max(runs.values()),
                    reported="max-min fair",
                    note=f"{len(runs)} runs; at {max(runs, key=lambda setup: runs[setup])}",
                )
                for name, runs in rivals.items()
            ),
        ],
        [Picture.of(figure, "XCP's share of the short flow", "Packet runs of 60 s, means over the last third.")],
        [
            "EVAL states neither delays nor packet sizes: 30 ms per link one way, 1000 bytes. If l2 is first, packets "
            "reach l1 without a requested increase, and they use up the decrease due at l1."
        ],
    )


def _held_elsewhere(count: int) -> Network:
    """Return a network with one flow on a link of 100 Mb/s, and `count` flows that share 50 Mb/s on a second link."""
    links = [Link("100 Mb/s", "20 ms"), Link("50 Mb/s", "20 ms")]
    return Network(links, [Flow([0]), *(Flow([0, 1]) for _ in range(count))])


@check("xcp-3", cost=0.8)
def xcp_3(claim: Claim) -> Finding:
    """Compute the minimum load of a bottleneck link: in the limit, over random networks, and in packet runs."""
    protocol = XCP()
    floor = protocol.alpha / (protocol.alpha + protocol.gamma)
    counts = (1, 3, 9, 29, 99, 299, 999, 9999)
    loads = [float(protocol.equilibrium(_held_elsewhere(n)).rates.sum() / 100e6) for n in counts]
    rng = np.random.default_rng(1)
    minimum, tried = np.inf, 0
    for _ in range(300):
        network = random_network(rng, int(rng.integers(2, 6)), int(rng.integers(3, 40)))
        try:
            point = protocol.equilibrium(network)
        except LinearizationError:
            continue
        load = point.rates @ network.incidence / network.capacities
        minimum, tried = min(minimum, float(load[np.isfinite(point.fair_rate)].min())), tried + 1
    seen = {n: float(late_means(packet_run(_held_elsewhere(n), protocol, 60.0), "arrival")[0] / 100e6) for n in (9, 49)}
    model = {n: float(protocol.equilibrium(_held_elsewhere(n)).rates.sum() / 100e6) for n in seen}
    flow = {n: float(late_means(fluid_run(_held_elsewhere(n), protocol, 60.0), "arrival")[0] / 100e6) for n in seen}
    close = max(abs(run[n] / model[n] - 1.0) for run in (seen, flow) for n in seen)
    holds = abs(loads[-1] / floor - 1.0) < 1e-2 and minimum > floor * (1.0 - 1e-9) and close <= BAND
    figure = plot.boundary_figure(
        counts,
        {"equilibrium": loads},
        {"α/(α + γ)": floor},
        {"packets": (list(seen), list(seen.values()), None)},
        x_title="flows bottlenecked at another link",
        y_title="load of the link",
    )
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"A link that is the bottleneck of one flow among many others has a load of {loads[-1]:.4f}. The limit is "
        f"alpha/(alpha + gamma) = {floor:g}, and the minimum over {tried} random networks is {minimum:.4f}. In packet "
        "runs the load is "
        + " and ".join(f"{y:.3f} with {n} others (equilibrium {model[n]:.3f})" for n, y in seen.items())
        + ".",
        [
            Measurement("load with 9999 flows bottlenecked elsewhere", loads[-1], reported=0.8),
            Measurement(
                "minimum load of a bottleneck link, random networks", minimum, reported=0.8, note=f"{tried} networks"
            ),
            *(
                Measurement(
                    f"load in packet runs, {n} flows bottlenecked elsewhere",
                    load,
                    reported=model[n],
                    note=f"reported value: the equilibrium; fluid {flow[n]:.6f}",
                )
                for n, load in seen.items()
            ),
        ],
        [
            Picture.of(
                figure,
                "Load of a bottleneck link of XCP",
                "One flow is bottlenecked at a link of 100 Mb/s, the others share 50 Mb/s downstream.",
            )
        ],
    )


# ---- EMKC and EMKC-AVQ -----------------------------------------------------------------------------------


@check("emkc-2", cost=3)
def emkc_2(claim: Claim) -> Finding:
    """Check C + N alpha/beta for the laws with random delays, and for packet runs with random RTTs."""
    rng = np.random.default_rng(1)
    protocol, laws = EMKC(), 0.0
    added = protocol.alpha / protocol.beta
    for n in (1, 2, 5, 20):
        network = Network.dumbbell("10 Mb/s", [0.1] * n)
        ahead, back = rng.integers(0, 5, (1, n, 1)), rng.integers(1, 9, (1, n, 1))
        laws_run = law_run(protocol, network, 6000, rng.uniform(1e3, 10e6 / n, n), ahead, back, [0] * n)
        laws = max(laws, abs(float(laws_run.arrival[-1, 0]) / (10e6 + n * added) - 1.0))
    measurements, worst, as_fluid = [], 0.0, 0.0
    excess: dict[int, list[float]] = {}
    for n in (1, 2, 5, 20):
        lost = []
        for seed in (1, 2, 3):
            rtts = np.random.default_rng(seed).uniform(0.05, 0.5, n).tolist()
            network = Network.dumbbell("10 Mb/s", rtts, buffer="250 kB")
            arrived = float(late_means(fluid_run(network, protocol, 240.0), "arrival")[0])
            as_fluid = max(as_fluid, abs((arrived - 10e6) / (n * added) - 1.0))
            run = packet_run(network, protocol, 240.0, seed)
            load = float(late_means(run, "arrival")[0])
            excess.setdefault(n, []).append((load - 10e6) / (n * added))
            lost.append(8000.0 * float(late_means(run, "drops")[0]) / 0.8 / load)
        worst = max(worst, max(abs(e - 1.0) for e in excess[n]))
        measurements.append(
            Measurement(
                f"packets, {n} flows: (arrivals - C)/(N alpha/beta)",
                float(np.mean(excess[n])),
                reported=1.0,
                note=f"{_spread(excess[n])} over three seeds; loss {np.mean(lost):.2%}, the claim "
                f"{n * added / (10e6 + n * added):.2%}",
            )
        )
    holds = laws < 1e-6 and worst <= BAND and as_fluid <= BAND
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"The laws converge to C + N alpha/beta within {laws:.1e} for 1 to 20 flows with random delays. The excess of "
        f"arrivals over C is N alpha/beta within {worst:.1%} in packet runs and {as_fluid:.1e} in the fluid.",
        [
            Measurement("laws: relative distance from C + N alpha/beta", laws),
            Measurement("fluid: relative distance of arrivals - C from N alpha/beta", as_fluid),
            *measurements,
        ],
        [],
        [
            "alpha = 0.2 Mb/s, beta = 0.5, Delta = 100 ms (JETMAX sec. 3.3); 10 Mb/s, buffer of 250 kB, RTTs of "
            "50 to 500 "
            "ms. Lost packets are not retransmitted immediately: EMKC's rate counts all transmissions."
        ],
    )


class _LotRuns(NamedTuple):
    """Packet runs and fluids of EMKC-AVQ in parking lots."""

    measurements: list[Measurement]
    pictures: list[Picture]
    worst: float
    """Maximum relative difference of rates from max-min at gamma C."""
    drops: float
    """Sum of drops in the last third of packet runs."""


def _laws_in_random_networks(rng: np.random.Generator) -> tuple[float, int, int]:
    """Return the equilibrium's distance from max-min, and how many runs of the laws there are and converge to it."""
    point = 0.0
    runs = arrived = 0
    for k in range(12):
        network = random_network(rng, 3, 6)
        protocol = EMKCAVQ(alpha=1e6, gamma=(1.0, 0.9)[k % 2])
        fair = max_min(network, protocol.gamma * network.capacities)
        point = max(point, _off(protocol.equilibrium(network).rates, fair))
        ahead, back = rng.integers(0, 3, (1, 6, 3)), rng.integers(1, 4, (1, 6, 3))
        laws_run = law_run(protocol, network, 3000, fair * rng.uniform(0.2, 0.8, 6), ahead, back)
        runs += 1
        arrived += settled(laws_run, 1e-2) and _off(laws_run.rate.to_numpy()[-1], fair) < 1e-2
    return point, runs, arrived


def _runs_of_lots() -> _LotRuns:
    """Return runs with large buffers in T1 and in a parking lot of two links."""
    lot = Network.parking_lot(["97 Mb/s", "80 Mb/s"])
    lots = (
        ("T1", Network.T1(), EMKCAVQ(), 400.0),
        ("T1, gamma = 0.9", Network.T1(), EMKCAVQ(gamma=0.9), 400.0),
        ("parking lot 97/80 Mb/s, gamma = 0.9", lot, EMKCAVQ(alpha=2e6, gamma=0.9), 150.0),
    )
    measurements, pictures, worst, drops = [], [], 0.0, 0.0
    for name, network, protocol, duration in lots:
        buffered = Network([Link(link.capacity, link.delay, 4_000_000) for link in network.links], network.flows)
        run = packet_run(buffered, protocol, duration)
        fair = max_min(network, protocol.gamma * network.capacities)
        rates, lost = late_means(run), float(late_means(run, "drops").sum())
        as_fluid = _off(late_means(fluid_run(buffered, protocol, duration)), fair)
        worst, drops = max(worst, as_fluid, _off(rates, fair)), drops + lost
        measurements.append(
            Measurement(
                f"packets, {name}: maximum difference of rates from max-min at gamma C",
                _off(rates, fair),
                note=f"rates {', '.join(f'{r / 1e6:.3f}' for r in rates)} Mb/s; drops in the last third {lost:g}; "
                f"fluid {as_fluid:.1e}",
            )
        )
        if name == "T1":
            figure = plot.trajectory_figure(
                run.data["time"].to_numpy(), run.rate.to_numpy(), run.queue.to_numpy(), name
            )
            pictures.append(
                Picture.of(figure, "EMKC-AVQ in T1", "Rates and the queue of the packet run, alpha = 0.2 Mb/s.")
            )
    return _LotRuns(measurements, pictures, worst, drops)


def _convergence_of_crowds(rng: np.random.Generator) -> tuple[list[Measurement], dict[float, bool]]:
    """Return whether packet runs and laws converge, by the fair share over alpha."""
    measurements, crowds = [], {}
    for n in (8, 9, 11, 12):  # JETMAX fig. 5 with a larger alpha: the fair share is 0.63 to 0.42 of alpha
        crowd = Network.dumbbell("10 Mb/s", [0.22] * n, buffer="4 MB")
        run = packet_run(crowd, EMKCAVQ(alpha=2e6), 300.0)
        laws_run = law_run(EMKCAVQ(alpha=2e6), crowd, 3000, 10e6 / n * rng.uniform(0.9, 1.1, n), 0, 1, [0] * n)
        share = 10e6 / n / 2e6
        crowds[share] = _converges(run) and _off(late_means(run), max_min(crowd)) <= BAND and settled(laws_run, 1e-2)
        tail = run.rate.to_numpy()[-100:]
        measurements.append(
            Measurement(
                f"fair share {share:.3f} of alpha, {n} flows",
                "converges" if crowds[share] else "does not converge",
                note=f"packets: standard deviation of rates {_spread(tail.std(axis=0) / tail.mean(axis=0))} of the "
                f"mean; the laws {'settle' if settled(laws_run, 1e-2) else 'do not settle'}",
            )
        )
    return measurements, crowds


@check("avq-1", cost=1)
def avq_1(claim: Claim) -> Finding:
    """Check gamma C and max-min fairness for the equilibrium, the laws with delays, and packet runs."""
    rng = np.random.default_rng(1)
    point, runs, arrived = _laws_in_random_networks(rng)
    lots = _runs_of_lots()
    of_crowds, crowds = _convergence_of_crowds(rng)
    holds = point < 1e-9 and lots.worst <= BAND and lots.drops == 0.0
    converged = arrived == runs and all(crowds.values())
    return Finding(
        claim,
        Verdict.REFUTED if not holds else Verdict.CONFIRMED if converged else Verdict.CONDITIONAL,
        f"The equilibrium is max-min at gamma C within {point:.1e} in {runs} random networks, and the laws with random "
        f"delays converge to it in {arrived} of them. Packet runs and the fluid are within {lots.worst:.1%}, and "
        f"{lots.drops:g} packets are lost at equilibrium. With alpha = 2 Mb/s on 10 Mb/s, packet runs and laws "
        "converge at fair shares of "
        f"{', '.join(f'{share:.2f}' for share, ok in crowds.items() if ok) or 'none'} of alpha, but not of "
        f"{', '.join(f'{share:.2f}' for share, ok in crowds.items() if not ok) or 'any'}: differences between flows "
        "are proportional to (1 - alpha/x)^n, which decays for x > alpha/2.",
        [
            Measurement("equilibrium: maximum difference from max-min at gamma C", point),
            Measurement(
                "runs of the laws with random delays that converge to it",
                f"{arrived} of {runs}",
                note="three links, six flows, alpha = 1 Mb/s, 3000 steps",
            ),
            *lots.measurements,
            *of_crowds,
        ],
        lots.pictures,
        [
            "Equal RTTs of 220 ms for alpha = 2 Mb/s on 10 Mb/s.",
            "Buffers of 4 MB: a start may overload links for long (JETMAX fig. 5), but this is not a stationary loss.",
        ],
    )


# ---- JetMax ------------------------------------------------------------------------------------------------


@check("jm-3", cost=0.6)
def jm_3(claim: Claim) -> Finding:
    """Compare the laws under consistent assignments with random delays, and packet runs, with (gamma C - u)/N."""
    rng = np.random.default_rng(1)
    laws = 0.0
    for k in range(12):
        protocol = JetMax(tau=(0.6, 1.5)[k % 2], gamma=(1.0, 0.8)[k % 2])
        network = random_network(rng, 4, 8)
        links = water_filled(network).links
        ahead, back = rng.integers(0, 4, (1, 8, 4)), rng.integers(1, 4, (1, 8, 4))
        laws_run = law_run(protocol, network, 400, rng.uniform(1e5, 1e6, 8), ahead, back, links.tolist())
        laws = max(
            laws, _off(laws_run.rate.to_numpy()[-1], _lemma_3(protocol, network, links, laws_run.rate.to_numpy()[-1]))
        )
    measurements, packets, moving = [], 0.0, []
    two = ["97 Mb/s", "80 Mb/s"]
    setups = {
        "T_u": Network.T_u(),
        "parking lot 97/80 Mb/s, starts at 0, 15, 30 s": Network.parking_lot(two, starts=[0, 15, 30]),
        "parking lot 97/80 Mb/s, all start together": Network.parking_lot(two),
    }
    for name, network in setups.items():
        protocol = JetMax(gamma=0.9)
        run = packet_run(network, protocol, 90.0)
        rates, calm = late_means(run), _converges(run)
        off = _off(rates, _lemma_3(protocol, network, run.bottleneck.to_numpy()[-1].astype(int), rates))
        if calm:
            packets = max(packets, off)
        else:
            moving.append(name)
        measurements.append(
            Measurement(
                f"packets, {name}: maximum difference from (gamma C - u)/N",
                off,
                note=f"{'at equilibrium' if calm else 'not at equilibrium'}, rates "
                f"{', '.join(f'{r / 1e6:.3f}' for r in rates[:3])} Mb/s",
            )
        )
    holds = laws < 1e-9 and packets <= BAND and len(moving) < len(setups)
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"The laws converge to (gamma C - u)/N within {laws:.1e} in 12 random networks with random delays. Packet runs "
        f"that converge are within {packets:.2%}, with u and N from the run. "
        + (f"Not at equilibrium, and without a stationary rate: {'; '.join(moving)}." if moving else "All converge."),
        [Measurement("laws: maximum relative difference", laws), *measurements],
    )


def _lemma_3(
    protocol: JetMax, network: Network, links: NDArray[np.int64], rates: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return (gamma C - u)/N at each flow's link, with u and N from rates and links."""
    p, out = protocol.namespace(), np.zeros(network.n_flows)
    for b in np.unique(links):
        responsive = links == b
        u = float(rates[network.incidence[:, b] & ~responsive].sum())
        out[responsive] = protocol.router_law(u, float(responsive.sum()), float(network.capacities[b]), p)
    return out


def _stationary(protocol: JetMax, network: Network) -> list[NDArray[np.float64]]:
    """Return rates of all fixed points of (8)-(11): no link is overloaded, and no other link has a smaller g."""
    target = protocol.gamma * network.capacities
    solutions = []
    for links in product(*(flow.route for flow in network.flows)):
        try:
            point = protocol.equilibrium(network, np.array(links))
        except LinearizationError:  # a negative rate, or no unique solution
            continue
        if np.any(point.rates @ network.incidence > target * (1.0 + 1e-9)):
            continue
        g = np.where(network.incidence, point.fair_rate, np.inf)
        if np.all(point.rates <= g.min(axis=1) * (1.0 + 1e-9)):
            solutions.append(point.rates)
    return solutions


@check("jm-th3", cost=4)
def jm_th3(claim: Claim) -> Finding:
    """Enumerate stationary assignments of small networks, and run laws and packets with free choice."""
    rng = np.random.default_rng(1)
    protocol = JetMax(gamma=0.95)
    points, empty, enumerated = 0, 0, 0.0
    networks = 80
    for _ in range(networks):
        network = random_network(rng, int(rng.integers(2, 5)), int(rng.integers(2, 6)))
        fair = max_min(network, protocol.gamma * network.capacities)
        solutions = _stationary(protocol, network)
        points, empty = points + len(solutions), empty + (not solutions)
        enumerated = max([enumerated, *(_off(rates, fair) for rates in solutions)])
    calm, runs, laws = 0, 20, 0.0
    for _ in range(runs):
        network = random_network(rng, 3, 5)
        run = law_run(protocol, network, 600, rng.uniform(1e4, 1e5, 5))
        if settled(run):
            calm += 1
            laws = max(laws, _off(run.rate.to_numpy()[-1], max_min(network, protocol.gamma * network.capacities)))
    off: list[float] = []
    moving: list[float] = []
    fluids: list[float] = []
    for seed in range(1, 13):
        drawn = random_network(np.random.default_rng(seed), 3, 6)
        links = [Link(link.capacity, "10 ms") for link in drawn.links]
        flows = [Flow(flow.route, start=5.0 * k, access_delay="5 ms") for k, flow in enumerate(drawn.flows)]
        network = Network(links, flows)
        packets = packet_run(network, protocol, 90.0, seed)
        apart = _off(late_means(packets), max_min(network, protocol.gamma * network.capacities))
        (off if _converges(packets) else moving).append(apart)
        ideal = late_means(fluid_run(network, protocol, 90.0))
        fluids.append(_off(ideal, max_min(network, protocol.gamma * network.capacities)))
    close = sum(o <= BAND for o in off)
    holds = enumerated < 1e-9 and not empty and laws < 1e-3 and close == len(off)
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"All {points} stationary assignments of {networks} random networks have the max-min rates within "
        f"{enumerated:.1e}; {networks - empty} networks have one. The {calm} of {runs} undelayed runs of the laws that "
        f"settle also have them, within {laws:.1e}. In packet runs {len(off)} of {len(off) + len(moving)} random "
        f"networks converge, {close} of them within {BAND:.0%} of max-min (maximum difference "
        f"{max(off, default=0.0):.2%}).",
        [
            Measurement("stationary assignments: maximum difference from max-min", enumerated, note=f"{points} points"),
            Measurement("networks without a stationary assignment", float(empty), reported=0.0),
            Measurement(
                "runs of the laws that settle: maximum difference from max-min", laws, note=f"{calm} of {runs} settle"
            ),
            Measurement(
                "packet runs at equilibrium: maximum difference from max-min",
                max(off, default=0.0),
                note=f"{len(off)} networks",
            ),
            Measurement(
                "fluid, following the smallest g: networks at max-min",
                f"{sum(f <= BAND for f in fluids)} of 12",
                note="JETMAX sec. 5.1 uses virtual loss to avoid oscillation; not part of the verdict",
            ),
            Measurement(
                "networks not at equilibrium in packet runs",
                float(len(moving)),
                note=f"of {len(off) + len(moving)}; maximum differences of mean rates from max-min "
                f"{', '.join(f'{o:.0%}' for o in moving) or 'none'}",
            ),
        ],
        [],
        [
            "The theorem is on stationary rates and does not claim convergence. The laws choose links at every step, "
            "packet "
            "runs by the managed switching of JETMAX sec. 6. Packet runs: three links of 1 to 100 Mb/s, six flows that "
            "start 5 s apart; they are at equilibrium if no bottleneck changes and no rate has a standard "
            "deviation above "
            "10 % of its mean in the last third of 90 s."
        ],
    )


LOSSES = (0.1, 0.2)
"""Loss rates of x1 and x2 before the bottleneck of T1 (JETMAX sec. 7.3)."""


def _lossy(losses: tuple[float, float], acks: float, seed: int) -> Trajectory:
    """Run T1 with x2 alone until x1 joins at 60 s; each flow first crosses a fast link with losses."""
    links = [Link("10 Mb/s", "50 ms"), Link("1 Gb/s", "10 ms"), Link("1 Gb/s", "10 ms")]
    flows = [Flow([1, 0], start=60.0, access_delay="50 ms"), Flow([2, 0], access_delay="950 ms")]
    impairments = [RandomLoss(loss, link=k + 1) for k, loss in enumerate(losses) if loss > 0.0]
    if acks > 0.0:
        impairments.append(RandomLoss(acks, acks_of="all"))
    scenario = Scenario(Network(links, flows), JetMax(), 180.0, seed=seed, impairments=impairments)
    return packet.simulate(scenario, sample=1.0)


@check("jm-loss", cost=0.7)
def jm_loss(claim: Claim) -> Finding:
    """Measure rates in T1 before and after x1 joins, with losses of data and of ACKs, over five seeds."""
    survive = 1.0 - np.array(LOSSES)
    alone, both = 10.0 / survive[1], 5.0 / survive.mean()
    runs: dict[str, list[NDArray[np.float64]]] = {}
    for seed in range(1, 6):
        for name, losses, acks in (("forward", LOSSES, 0.0), ("none", (0.0, 0.0), 0.0), ("ACKs", (0.0, 0.0), 0.9)):
            run = _lossy(losses, acks, seed)
            rates = run.rate.to_numpy() / 1e6
            runs.setdefault(name, []).append(np.array([rates[30:60, 1].mean(), *rates[120:].mean(axis=0)]))
    mean = {name: np.mean(values, axis=0) for name, values in runs.items()}
    half = {name: 2.776 * np.std(values, axis=0, ddof=1) / np.sqrt(5.0) for name, values in runs.items()}
    expected = {"forward": np.array([alone, both, both]), "none": np.array([10.0, 5.0, 5.0])}
    expected["ACKs"] = expected["none"]
    off = {name: _off(mean[name], values) for name, values in expected.items()}
    changed = _off(mean["ACKs"], mean["none"])
    cases = {"forward": "10 % and 20 % of data lost", "none": "no loss", "ACKs": "90 % of ACKs lost"}
    return Finding(
        claim,
        Verdict.CONFIRMED if off["forward"] <= BAND and changed <= BAND else Verdict.REFUTED,
        f"x2 alone sends {mean['forward'][0]:.2f} Mb/s (10/0.8 = {alone:.2f}), both {mean['forward'][1]:.2f} and "
        f"{mean['forward'][2]:.2f} (5/0.85 = {both:.2f}): within {off['forward']:.1%} of (26) and (27). With 90 % of "
        f"the ACKs lost rates change by at most {changed:.2%}.",
        [
            Measurement(
                f"{cases[name]}: {who}",
                float(mean[name][k]),
                "Mb/s",
                float(expected[name][k]),
                f"+- {half[name][k]:.3f} (95 %, five seeds)",
            )
            for name in expected
            for k, who in enumerate(("x2 alone", "x1", "x2"))
        ],
        [],
        [
            "The paper does not state which flow begins; 12.5 Mb/s is the rate of the flow with 20 % loss. x1 joins at "
            "60 s; means from 30 to 60 s and from 120 s."
        ],
    )


# ---- MaxNet ------------------------------------------------------------------------------------------------


@check("mx-1", cost=3)
def mx_1(claim: Claim) -> Finding:
    """Compare loads and shares of packet runs with mu C and water-filling, for two scales of the price."""

    def bottleneck(*rtts: float) -> Network:
        return Network.dumbbell("10 Mb/s", rtts, packet_size=1500)

    setups = {
        "one flow": bottleneck(0.028),
        "four equal flows": bottleneck(*[0.028] * 4),
        "RTTs of 57 and 29 ms": bottleneck(0.057, 0.029),
        "RTTs of 20 to 200 ms": bottleneck(0.02, 0.05, 0.1, 0.2),
        "the same on 100 Mb/s": Network.dumbbell("100 Mb/s", [0.02, 0.05, 0.1, 0.2], packet_size=1500),
        "parking lot 9.7/8 Mb/s": Network.parking_lot(["9.7 Mb/s", "8 Mb/s"], "10 ms", packet_size=1500),
    }
    measurements, holds = [], {}
    for scale in (0.05, 1.0):
        protocol = MaxNet(price_scale=scale)
        for name, network in setups.items():
            fair = max_min(network, protocol.mu * network.capacities)
            run = packet_run(network, protocol, 120.0)
            rates = late_means(run)
            followed = np.isfinite(protocol.equilibrium(network).fair_rate)
            loads = (late_means(run, "arrival") / (protocol.mu * network.capacities))[followed]
            apart, share = float(np.abs(loads - 1.0).max()), _off(rates, fair)
            holds[scale, name] = apart <= BAND and share <= BAND
            ideal = fluid_run(network, protocol, 120.0)
            measurements.append(
                Measurement(
                    f"{name}, price scale {scale:g}: maximum difference of rates from max-min at mu C",
                    share,
                    note=f"loads {', '.join(f'{load:.3f}' for load in loads)} of mu C; rates "
                    f"{', '.join(f'{r / 1e6:.3f}' for r in rates)} Mb/s; fluid {_off(late_means(ideal), fair):.1e} "
                    f"off, {'at equilibrium' if _converges(ideal) else 'not at equilibrium'}",
                )
            )
    fulfilled = {scale: [name for (s, name), ok in holds.items() if s == scale and ok] for scale in (0.05, 1.0)}
    complete = [scale for scale, names in fulfilled.items() if len(names) == len(setups)]
    if len(complete) == len(fulfilled):
        verdict = Verdict.CONFIRMED
    else:
        verdict = Verdict.CONDITIONAL if any(fulfilled.values()) else Verdict.REFUTED
    return Finding(
        claim,
        verdict,
        "Loads are within 10 % of mu C, and rates within 10 % of max-min at mu C, "
        + "; ".join(
            f"in {len(k)} of {len(setups)} setups with prices scaled by {scale:g}" for scale, k in fulfilled.items()
        )
        + ".",
        measurements,
        [],
        [
            "MAXNET's units of price and base RTT are not stated. In seconds (scale 1) its printed gains exceed the "
            "stability bounds; the default scale 0.05 is our choice. Unlimited buffers."
        ],
    )
