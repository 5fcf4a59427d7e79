"""Checks of the convergence of protocols to efficiency and fairness, and of JetMax's measurement of N."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc import packet, plot
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.models import EMKC, JetMax
from ecc.network.network import Network
from ecc.packet.c_engine import build_engine
from ecc.packet.prepare import prepare
from ecc.scenario import Scenario

FloatArray = NDArray[np.float64]

EPS = 0.01
"""Relative distance at which efficiency and fairness are reached (JETMAX sec. 7.5)."""


# ---- EMKC ------------------------------------------------------------------------------------------------


def _emkc_steps(capacity: float, flows: int, protocol: EMKC) -> int:
    """Return the steps from one flow at C and others at 0 until all are within EPS of C/N + alpha/beta, undelayed."""
    p = protocol.namespace()
    rest = capacity / flows + protocol.alpha / protocol.beta
    first, other, steps = capacity, 0.0, 0
    while max(abs(first - rest), abs(other - rest) if flows > 1 else 0.0) > EPS * rest:
        loss = protocol.router_law(first + (flows - 1) * other, capacity)
        first, other = protocol.source_law(first, loss, p), protocol.source_law(other, loss, p)
        steps += 1
    return steps


@check("emkc-3", cost=3)
def emkc_3(claim: Claim) -> Finding:
    """Count steps of the undelayed laws to fairness over three decades of C and N, and fit their exponents."""
    protocol = EMKC()
    capacities = np.geomspace(1e8, 1e11, 7)
    by_capacity = np.array([_emkc_steps(float(C), 2, protocol) for C in capacities])
    exponent = float(np.polyfit(np.log(capacities), np.log(by_capacity), 1)[0])
    flows = np.array([2, 5, 20, 100, 1000])
    scaled = []
    for n in flows:  # N alpha = C/1000
        capacity = 1000.0 * n * protocol.alpha
        scaled.append(_emkc_steps(capacity, int(n), protocol) * n * protocol.alpha / capacity)
    slope, offset = np.polyfit(np.log(flows), scaled, 1)
    straight = float(np.abs(np.array(scaled) - slope * np.log(flows) - offset).max())
    alphas = np.geomspace(1e3, 1e6, 4)
    by_alpha = [_emkc_steps(1e9, 2, EMKC(alpha=float(a))) for a in alphas]
    falling = float(np.polyfit(np.log(alphas), np.log(by_alpha), 1)[0])
    holds = abs(exponent - 1.0) <= 0.1 and abs(slope - 1.0) <= 0.1 and abs(falling + 1.0) <= 0.1
    figure = plot.boundary_figure(
        capacities,
        {"steps": by_capacity},
        {"(C/(N α)) log(N/ε)": capacities / 0.4e6 * log(2.0 / EPS)},
        x_title="capacity [bit/s]",
        y_title="steps to fairness",
        log_y=True,
    )
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"The number of steps to fairness grows as C^{exponent:.3f} from 100 Mb/s to 100 Gb/s and as "
        f"alpha^{falling:.3f}. Multiplied by N alpha/C, it is {slope:.3f} log N + {offset:.2f} for 2 to 1000 flows "
        f"(within {straight:.2f}); log(1/eps) is {log(1.0 / EPS):.2f}. The law is C log(N/eps)/(N alpha).",
        [
            Measurement(
                "exponent of C", exponent, reported=1.0, note="two flows, alpha = 0.2 Mb/s, C = 0.1 to 100 Gb/s"
            ),
            Measurement(
                "exponent of alpha", falling, reported=-1.0, note="two flows, 1 Gb/s, alpha = 1 kb/s to 1 Mb/s"
            ),
            Measurement("slope of steps N alpha/C over log N", float(slope), reported=1.0, note="N = 2 to 1000"),
            Measurement("steps at 10 Gb/s, two flows", float(by_capacity[4]), "steps"),
        ],
        [Picture.of(figure, "EMKC's convergence to fairness", "Two flows; one flow starts with the whole capacity.")],
        [
            "Fairness within 1 %, from one flow at C and all others at 0; a step is an RTT; C = 1000 N alpha if N "
            "varies."
        ],
    )


# ---- JetMax ------------------------------------------------------------------------------------------------


def _path(tau: float, steps: int = 60) -> NDArray[np.float64]:
    p, x = JetMax(tau=tau).namespace(), [0.0]
    for _ in range(steps):
        x.append(JetMax.source_law(x[-1], 1.0, p))
    return np.array(x)


@check("jm-mono", cost=0.1)
def jm_mono(claim: Claim) -> Finding:
    """Compute the overshoot of the law over tau, and of packet runs on both sides of tau = 1."""
    taus = np.concatenate([np.linspace(0.05, 1.95, 39), [0.999, 1.001]])
    taus.sort()
    over = np.array([float(_path(float(tau)).max()) - 1.0 for tau in taus])
    monotone = np.array([bool(np.all(np.diff(_path(float(tau))) >= 0.0)) for tau in taus])
    inside, outside = taus < 1.0 - 1e-12, taus > 1.0 + 1e-12
    at_one = bool(monotone[~inside & ~outside].all())
    holds = bool(monotone[inside].all()) and not monotone[outside].any()
    measurements = []
    for tau in (0.6, 1.5):
        network = Network.dumbbell("10 Mb/s", rtts=[0.22])
        run = packet.simulate(Scenario(network, JetMax(tau=tau, proposed_rate=False), 20.0), sample=0.1)
        rates = run.rate.to_numpy()[:, 0]
        measurements.append(
            Measurement(
                f"packets, tau = {tau}: maximum rate / final rate",
                float(rates.max() / rates[-20:].mean()),
                note=f"maximum decrease {float(np.max(np.maximum.accumulate(rates) - rates)) / 1e6:.3f} Mb/s; "
                "one "
                "flow, 10 Mb/s, RTT 220 ms, rates adopted without approval",
            )
        )
    figure = plot.boundary_figure(
        taus, {"overshoot": np.maximum(over, 0.0)}, x_title="τ", y_title="overshoot / fair rate", log_x=False
    )
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"The law is monotone at {int(monotone[inside].sum())} of {int(inside.sum())} values of tau below 1 and at "
        f"{int(monotone[outside].sum())} of {int(outside.sum())} above 1 (including 0.999 and 1.001). At tau = 1 it "
        f"converges in one step and is {'also' if at_one else 'not'} monotone.",
        [
            Measurement("overshoot at tau = 0.999", float(over[taus == 0.999][0]), reported=0.0),
            Measurement("overshoot at tau = 1.001", float(over[taus == 1.001][0])),
            *measurements,
        ],
        [Picture.of(figure, "Overshoot of JetMax's source law", "From rate 0 to a constant fair rate.")],
    )


def _counted(rng: np.random.Generator, flows: int, interval: float) -> float:
    """Return (23), the sum of s/x over an interval, for flows with random rates, packet sizes and delays."""
    total = 0.0
    for _ in range(flows):
        rate = 10.0 ** rng.uniform(5.0, 7.0)
        packets = int(1.5 * (interval + 1.0) * rate / 6400.0) + 10
        gaps = 8.0 * rng.uniform(800.0, 1300.0, packets) / rate
        arrivals = (
            np.cumsum(gaps) + rng.uniform(-1.0, 0.0) * gaps[0] + np.maximum.accumulate(rng.uniform(0.0, 0.02, packets))
        )
        start = rng.uniform(0.1, 0.3)
        total += float(gaps[(arrivals >= start) & (arrivals < start + interval)].sum())
    return total / interval


def _counted_by_hooks(seed: int, interval: float, ticks: int = 5) -> FloatArray:
    """Return N'/N - 1 from the state of JetMax's router at each tick of a packet run from equilibrium."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 20))
    network = Network.dumbbell("50 Mb/s", rtts=rng.uniform(0.02, 0.1, n).tolist())
    network = network.with_flows([replace(flow, packet_size=(800, 1300)) for flow in network.flows])
    scenario = Scenario(network, JetMax(interval=interval), (ticks + 3) * interval, seed=seed)
    setup = prepare(scenario, "equilibrium")
    engine = build_engine(setup, scenario, sample=interval, n_samples=0)
    errors = []
    for tick in range(3, 3 + ticks):
        engine.advance(tick * interval)
        errors.append(float(setup.parts[0].link_states["N"][0]) / n - 1.0)
    return np.array(errors)


@check("jm-n", cost=4)
def jm_n(claim: Claim) -> Finding:
    """Measure the error of N over the length of the interval: for (23) with random delays, and for the hooks."""
    intervals = np.array([0.05, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
    errors, bias = [], []
    for interval in intervals:
        samples = []
        for seed in range(20):
            rng = np.random.default_rng(seed)
            n = int(rng.integers(2, 20))
            samples.append(_counted(rng, n, float(interval)) / n - 1.0)
        errors.append(float(np.sqrt(np.mean(np.square(samples)))))
        bias.append(float(np.mean(samples)))
    in_packets = [
        float(np.sqrt(np.mean([np.square(_counted_by_hooks(seed, float(interval))) for seed in range(1, 11)])))
        for interval in intervals
    ]
    exponent, of_hooks = (float(np.polyfit(np.log(intervals), np.log(of), 1)[0]) for of in (errors, in_packets))
    holds = max(exponent, of_hooks) < -0.5 and max(errors[-1], in_packets[-1]) < 0.01
    figure = plot.boundary_figure(
        intervals,
        {"(23)": errors, "router in packets": in_packets},
        x_title="Δ [s]",
        y_title="error of N'/N",
        log_y=True,
    )
    return Finding(
        claim,
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        f"The relative error of N falls as Delta^{exponent:.2f}: it is {errors[1]:.2%} at JETMAX's 100 ms and "
        f"{errors[-1]:.3%} at 30 s. In packet runs the error of N in the router's state falls as Delta^{of_hooks:.2f}, "
        f"with {in_packets[1]:.2%} and {in_packets[-1]:.3%}.",
        [
            *(
                Measurement(f"error of N, Delta = {d:g} s", e, note=f"mean {b:+.3%}; 20 seeds, 2 to 19 flows")
                for d, e, b in zip(intervals, errors, bias, strict=True)
            ),
            *(
                Measurement(
                    f"error of N in packets, Delta = {d:g} s", e, note="10 seeds of 5 intervals, flows at equilibrium"
                )
                for d, e in zip(intervals, in_packets, strict=True)
            ),
            Measurement("exponent of Delta", exponent, note="(20) bounds the error by the two intervals cut: -1"),
            Measurement("exponent of Delta in packets", of_hooks),
        ],
        [Picture.of(figure, "Error of the number of flows", "Root mean square over seeds.")],
        [
            "For (23): rates of 0.1 to 10 Mb/s, packets of 800 to 1300 bytes, in-order delays of up to 20 ms.",
            "Packet runs: 50 Mb/s, RTTs of 20 to 100 ms, the same packet sizes; N is read at the end of intervals.",
        ],
    )


def _map_steps(capacity: float, flows: int, tau: float) -> tuple[int, int]:
    """Return steps of (8), (9) to efficiency from 0 and to fairness from one flow at C (JETMAX definition 2)."""
    protocol = JetMax(tau=tau)
    p, g = protocol.namespace(), JetMax.router_law(0.0, float(flows), capacity, protocol.namespace())
    y, efficient = 0.0, 0
    while y < (1.0 - EPS) * capacity:
        y = flows * JetMax.source_law(y / flows, g, p)
        efficient += 1
    first, other, fair = capacity, 0.0 if flows > 1 else g, 0  # a single flow is fair
    while max(abs(first - g), abs(other - g)) > EPS * g:
        first, other = JetMax.source_law(first, g, p), JetMax.source_law(other, g, p)
        fair += 1
    return efficient, fair


SMOOTH = 3
"""Number of 20 ms samples for averages: shorter than a step, with enough packets to distinguish 1.02 % from 1 %."""


class Pace(NamedTuple):
    """Steps to the EPS-neighborhood, their duration [s] since the proposal of the first, and the maximum load / C."""

    steps: int
    seconds: float
    peak: float


def _packet_size(capacity: float, flows: int) -> int:
    """Return a size with at least 125,000 packets per second at capacity, and 1000 per interval and flow."""
    return int(np.clip(min(capacity / 8.0 / 125e3, capacity / flows * 0.1 / 8.0 / 1000.0), 1, 8000))


def _pace(capacity: float, flows: int) -> Pace:
    """Return the pace of flows that start together on an idle link, from the rise of the load until it settles."""
    network = Network.dumbbell(capacity, rtts=[0.22] * flows, packet_size=_packet_size(capacity, flows))
    run = packet.simulate(Scenario(network, JetMax(), 6.0), sample=0.02)
    load = np.convolve(run.arrival.to_numpy()[:, 0] / capacity, np.ones(SMOOTH) / SMOOTH, mode="valid")
    time = run.data["time"].to_numpy()[SMOOTH - 1 :]
    rise = int(np.flatnonzero(load > 0.3)[0])  # the first step reaches tau = 0.6
    reached = int(np.flatnonzero(load < 1.0 - EPS)[-1]) + 1
    remaining = 1.0 - float(
        np.median(load[reached + SMOOTH : reached + 10])
    )  # before the next step, at least 16 samples later
    steps = round(log(max(remaining, 1e-9)) / log(0.4))
    between = (time[reached] - time[rise]) / (steps - 1)
    return Pace(steps, float(steps * between), float(load.max()))


def _sharing(flows: int) -> float:
    """Return the time from the first decrease of a flow with 100 Mb/s to fairness, after other flows join [s]."""
    rest, join = 100e6 / flows, 6.0
    starts = [0.0] + [join] * (flows - 1)
    network = Network.dumbbell(100e6, rtts=[0.22] * flows, starts=starts, packet_size=100)
    run = packet.simulate(Scenario(network, JetMax(), 30.0), sample=0.1)
    rates = run.rate.to_numpy()
    smooth = np.apply_along_axis(lambda rate: np.convolve(rate, np.ones(SMOOTH) / SMOOTH, mode="valid"), 0, rates)
    time = run.data["time"].to_numpy()[SMOOTH - 1 :]
    release = time[np.flatnonzero((time > join) & (smooth[:, 0] < 0.95 * 100e6))[0]]
    apart = np.flatnonzero(np.any(np.abs(smooth / rest - 1.0) > EPS, axis=1))
    return float(time[apart[-1]] - release)


def pace_of(capacities: Sequence[float], counts: Sequence[int]) -> dict[tuple[float, int], Pace]:
    """Return the pace of packet runs with one flow over capacities, and with several flows on 1 Gb/s.

    Parameters
    ----------
    capacities : sequence of float, bit/s
    counts : sequence of int
        Numbers of flows.
    """
    setups = [(C, 1) for C in capacities] + [(1e9, n) for n in counts]
    return {setup: _pace(*setup) for setup in setups}


WINDOW = (1.92, 2.52)
"""Six steps of RTT + (1 + k) Delta, 0 <= k <= 1 (JETMAX sec. 7.5) [s]."""


class _MapSteps(NamedTuple):
    """Steps of the map (8), (9) to the EPS-neighborhood, by number of flows where not stated otherwise."""

    expected: int
    """The steps of theorem 4."""
    efficient: dict[float, int]
    """By capacity with two flows [bit/s], and by number of flows on 1 Gb/s."""
    fair: dict[int, int]
    same: dict[int, bool]
    """Whether the steps to fairness are equal at all capacities."""


def _steps_over(capacities: Sequence[float], counts: Sequence[int]) -> _MapSteps:
    """Return the steps of the map over capacities [bit/s] and numbers of flows."""
    tau = JetMax().tau
    efficient = {C: _map_steps(C, 2, tau)[0] for C in capacities} | {
        n: _map_steps(1e9, n, tau)[0] for n in (1, *counts)
    }
    fair = {n: _map_steps(1e9, n, tau)[1] for n in counts}
    same = {n: len({_map_steps(C, n, tau)[1] for C in capacities}) == 1 for n in counts}
    return _MapSteps(ceil(log(EPS) / log(1.0 - tau)), efficient, fair, same)


def _measured_steps(steps: _MapSteps) -> list[Measurement]:
    """Return the steps of the map to efficiency and to fairness as measurements."""
    return [
        Measurement(
            "map: steps to efficiency",
            _few(set(steps.efficient.values())),
            "",
            float(steps.expected),
            "1 Mb/s to 1e100 bit/s with two flows, 1 to 1024 flows on 1 Gb/s",
        ),
        *(
            Measurement(
                f"map: steps to fairness, {n} flows",
                float(steps.fair[n]),
                "",
                float(steps.expected),
                "the same from 1 Mb/s to 1e100 bit/s" if steps.same[n] else "not the same at every capacity",
            )
            for n in steps.fair
        ),
    ]


def _measured_times(paces: dict[tuple[float, int], Pace], shared: dict[int, float]) -> list[Measurement]:
    """Return the times of packet runs to efficiency and to fairness as measurements."""
    return [
        *(
            Measurement(
                f"packets: time to efficiency, {C / 1e6:g} Mb/s, {n} flow{'s' * (n > 1)}",
                p.seconds,
                "s",
                "1.92 to 2.52",
                f"{p.steps} steps; maximum load {p.peak:.4f} of C",
            )
            for (C, n), p in paces.items()
        ),
        *(
            Measurement(
                f"packets: time to fairness, {n} flows on 100 Mb/s",
                s,
                "s",
                "1.92 to 2.52",
                "from the first decrease of the flow that had the whole capacity",
            )
            for n, s in shared.items()
        ),
    ]


@check("jm-th4", cost=4)
def jm_th4(claim: Claim) -> Finding:
    """Check the map by the paper's definition up to 10^100 bit/s, and packet runs over capacities and flows."""
    capacities, counts = [10.0**k for k in (6, 8, 10, 12, 20, 50, 100)], (2, 3, 4, 16, 64, 1024)
    steps = _steps_over(capacities, counts)
    expected, efficient, fair, same = steps
    timely_counts = [n for n in counts if fair[n] <= expected]
    paces = pace_of((1e6, 1e8, 16e9), (16, 64))
    timely = [WINDOW[0] <= p.seconds <= WINDOW[1] and p.steps == expected for p in paces.values()]
    times = [p.seconds for p in paces.values()]
    shared = {n: _sharing(n) for n in (2, 4, 16)}
    efficiency = set(efficient.values()) == {expected} and all(timely)
    if not efficiency or not all(same.values()):
        verdict = Verdict.REFUTED
    else:
        verdict = Verdict.CONFIRMED if len(timely_counts) == len(counts) else Verdict.CONDITIONAL
    figure = plot.boundary_figure(
        counts,
        {"to fairness": list(fair.values()), "to efficiency": [efficient[n] for n in counts]},
        {"Theorem 4": float(expected)},
        x_title="flows",
        y_title="RTT steps",
    )
    return Finding(
        claim,
        verdict,
        f"Efficiency takes {_few(set(efficient.values()))} steps in the map from 1 Mb/s to 10^100 bit/s with 1 to 1024 "
        f"flows, and {_few({p.steps for p in paces.values()})} steps in packet runs, which last "
        f"{_few({round(s, 2) for s in times})} s. Fairness from one flow with the whole capacity, initially N - 1 "
        "times "
        "C/N away from C/N, takes ceil(log(eps/(N - 1))/log(1 - tau)) steps: "
        f"{expected} for up to {max(timely_counts, default=0)} flows, "
        + ", ".join(f"{fair[n]} for {n}" for n in counts if n not in timely_counts)
        + "; packet runs take "
        + ", ".join(f"{s:.1f} s with {n}" for n, s in shared.items())
        + " flows.",
        [*_measured_steps(steps), *_measured_times(paces, shared)],
        [Picture.of(figure, "JetMax's steps to 1 %", "The map (8), (9) with tau = 0.6, by JETMAX definition 2.")],
        [
            "Times begin with the proposal of the first step, which is taken to be as long as the others: "
            "JETMAX's three "
            "RTTs to find the router are not counted. Packets are small enough to distinguish the 1.02 % that remain "
            "after "
            "five steps from 1 %."
        ],
    )


def _few(values: set[int] | set[float]) -> str:
    """Return the minimum and maximum of values as text, or the value if there is only one."""
    return " to ".join(str(v) for v in sorted({min(values), max(values)}))
