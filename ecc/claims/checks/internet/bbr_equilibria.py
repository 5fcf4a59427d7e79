"""Checks of claims on equilibria of BBR version 1 in mean rates, and on its oscillation in competition with CUBIC.

    y_i' = (z_i(t - tau_i) - y_i)/T_i           bandwidth estimate of flow i; T_i = 8 d_i, a cycle of gains

d_i is the minimum RTT of flow i, tau_i its RTT, r its rate, S the sum over flows. If the queue Q [s] is deep, windows
of 2 y d are the limit, and z is the flow's share of the capacity. If a small buffer is always full, z is the delivery
rate measured in the RTT with 5/4 y:

    deep    z_i = C r_i/S(r)      r_i = 2 y_i d_i/(d_i + Q)      Q' = S(r)/C - 1
    small   z_i = 5/4 C y_i/(S(y) + y_i/4)

With a deep buffer, an equilibrium needs Q = d_i for all flows with a positive rate. In deviations h of y and q of Q,
with g_i = 2 d_i/(d_i + Q), Q cancels in z:

    T_i h_i' = g_i h_i(t - tau_i) - y_i/C S(g h)(t - tau_i) - h_i      q' = S(g h)/C - q(t - 2 d)/(2 d)

With equal RTTs g = 1: any h with S(h) = 0 is constant, N - 1 roots are 0, and the centre manifold consists of
equilibria. The other roots satisfy T s + 1 = e^(-tau s), which only 0 solves with Re s >= 0, or T s = -1, or are those
of q: 2 d s = -e^(-2 d s), left of 0 because 1 < pi/2. If flows with the largest RTT have the link, a flow with a
smaller RTT has T s + 1 = g e^(-tau s) with g < 1. If flows with the smaller RTT have the link, a flow with the larger
RTT has g > 1 and a positive root.

With a small buffer, S(y) + y_i/4 = 5/4 C for all i, so y = 5 C/(4 N + 1). The Jacobian dz/dy = 4 N/(4 N + 1) I -
4/(4 N + 1) 11' has norm 4 N/(4 N + 1) < 1, and |T_i s + 1| >= 1 >= |e^(-tau_i s)| for Re s >= 0. The equilibrium is
stable for all RTTs; if they are equal, differences decay with a time constant of about (4 N + 1) T + 4 N tau.

CUBIC keeps a queue of up to B d full. A competing flow of share s has s (1 + B) C d bytes in flight. ProbeRTT removes
them for 0.2 s and measures d' = max(d, (1 - s)(1 + B) d). The window 2 s C d' then lets the share grow if 2 d' >
(1 + B) d; with B > 1 this holds if and only if s < 1/2. The next probe is 10 s later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc import fluid, packet
from ecc.claims.ledger import Claim, Finding, Measurement, Picture, Verdict, check
from ecc.linear import DelaySystem
from ecc.models import CUBIC, BBRv1, NewReno, Protocol
from ecc.network.network import Network
from ecc.plot.states import states_figure
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario

FloatArray = NDArray[np.float64]
ENGINES: dict[str, Callable[..., Trajectory]] = {"fluid": fluid.simulate, "packets": packet.simulate}
CAPACITY, RTT, PACKET, CYCLE = 50e6, 0.04, 1500, 8.0
NEAR, FAR = 0.01, 0.9  # real parts that separate roots at 0 from the others, over the rate of the gain cycle
NEVER = 1e4  # interval of ProbeRTT, s: longer than any run
OSCILLATES = 0.2  # minimum swing of an oscillation, share of the link
PATHS = ((10e6, 0.02), (10e6, 0.1), (50e6, 0.02))
BUFFERS = (0.5, 1.0, 2.0, 4.0, 8.0)  # bandwidth-delay products
DURATION, LEFT_OUT = 100.0, 50.0  # s


def system(slopes: FloatArray, rtts: Sequence[float], min_rtts: Sequence[float]) -> DelaySystem:
    """Return the system T_i h_i' = (slopes h)_i(t - tau_i) - h_i."""
    rates = 1.0 / (CYCLE * np.array(min_rtts))
    delays = sorted(set(rtts))
    late = [np.where(np.array(rtts)[:, None] == rtt, rates[:, None] * slopes, 0.0) for rtt in delays]
    return DelaySystem([-np.diag(rates), *late], [0.0, *delays])


def deep(shares: Sequence[float], min_rtts: Sequence[float]) -> DelaySystem:
    """Return the linear part of rates over a deep buffer, for given shares of the link and minimum RTTs."""
    y, d = np.array(shares), np.array(min_rtts)
    Q = float(d[y > 0.0].max())
    g = 2.0 * d / (d + Q)
    return system(np.diag(g) - np.outer(y, g), [float(minimum) + Q for minimum in d], min_rtts)


def small(rtts: Sequence[float]) -> DelaySystem:
    """Return the linear part of rates at equal rates over a small buffer that is always full."""
    n = len(rtts)
    slopes = (4.0 * n * np.eye(n) - 4.0 * np.ones((n, n))) / (4.0 * n + 1.0)
    return system(slopes, rtts, rtts)


def run(
    engine: str, min_rtts: Sequence[float], products: float, late: float, duration: float, host: Protocol, seed: int = 0
) -> Trajectory:
    """Return a run of flows; the last flow starts `late` seconds after the others."""
    starts = [0.0] * (len(min_rtts) - 1) + [late]
    buffer = products * CAPACITY * max(min_rtts) / 8.0
    network = Network.dumbbell(CAPACITY, list(min_rtts), packet_size=PACKET, buffer=buffer, starts=starts)
    return ENGINES[engine](Scenario(network, host, duration, seed=seed), sample=0.5, record=["flow.bw"])


def measured_rates(found: Trajectory, begin: float, end: float) -> FloatArray:
    """Return the mean bandwidth estimates y between two times, relative to the fair share."""
    y = found.data["flow.bw"].sel(time=slice(begin, end)).mean("time").to_numpy()
    return np.asarray(y * len(y) / CAPACITY)


@check("bbr-deep-split", cost=6, main=False)
def bbr_deep_split(claim: Claim) -> Finding:
    """Compute roots for several splits, and runs with and without ProbeRTT."""
    measured, proven, stays, evens = [], [], [], {}
    for shares in ((0.5, 0.5), (0.9, 0.1), (0.6, 0.2, 0.1, 0.06, 0.04)):
        n, line = len(shares), NEAR / (CYCLE * RTT)
        linear = deep(shares, [RTT] * n)
        line_below = -FAR / (CYCLE * RTT)
        zeros, right = linear.certify(line_below).unstable, linear.certify(line).unstable
        proven.append(zeros == n - 1 and right == 0)
        measured.append(
            Measurement(
                f"roots at 0, split {' : '.join(f'{share:g}' for share in shares)}",
                str(zeros),
                reported=str(n - 1),
                met=proven[-1],
                note=f"proven by ball arithmetic; all others are left of {line_below:.3g}/s",
            )
        )
    queue = DelaySystem([np.zeros((1, 1)), np.full((1, 1), -0.5 / RTT)], [0.0, 2.0 * RTT])
    proven.append(queue.certify().stable is True)
    measured.append(
        Measurement(
            "maximum real part of roots of the queue",
            float(queue.roots(1)[0].real),
            "1/s",
            reported="< 0",
            met=proven[-1],
            note="proven by balls",
        )
    )
    for flows in (2, 5):
        for probes in (False, True):
            host = BBRv1() if probes else BBRv1(min_rtt_window=NEVER)
            for engine in ENGINES:
                trajectory = run(engine, [RTT] * flows, 8.0, 10.0, 100.0, host)
                then, now = (measured_rates(trajectory, end - 20.0, end) for end in (60.0, 100.0))
                moved = float(np.abs(now - then).max())
                name = f"{flows} flows, {engine}, " + ("with ProbeRTT" if probes else "without ProbeRTT")
                if probes:
                    evens[flows, engine] = float(now.max() / now.min())
                else:
                    stays.append(moved < 0.1)
                measured.append(
                    Measurement(
                        f"{name}: maximum change of y in 40 s",
                        moved,
                        "C/N",
                        reported="0",
                        met=moved < 0.1,
                        note=f"y from {now.min():.2f} to {now.max():.2f} C/N",
                    )
                )
    holds = all(proven) and all(stays)
    low, high = (pick(evens[n, "packets"] for n in (2, 5)) for pick in (min, max))
    return Finding(
        claim,
        Verdict.CONDITIONAL if holds else Verdict.REFUTED,
        "The claim holds between probes for the RTT: at any split, N - 1 roots are 0 and all others are left of 0, and "
        "runs without ProbeRTT keep their split to the end. ProbeRTT empties the queue and makes rates more equal: "
        f"with it the maximum rate is {low:.2f} to {high:.2f} times the minimum in packet runs, and "
        f"{evens[5, 'fluid']:.1f} times in the fluid with five flows.",
        measured,
        (),
        [f"50 Mb/s, RTT {1e3 * RTT:g} ms, a buffer of 8 products; the last flow starts 10 s later."],
    )


@check("bbr-deep-rtt", cost=4, main=False)
def bbr_deep_rtt(claim: Claim) -> Finding:
    """Compute roots at equilibria at which flows of one RTT have the whole link, and runs."""
    measured, proven, order, starved = [], [], [], []
    for min_rtts in ((0.02, 0.06), (0.02, 0.03), (0.02, 0.02, 0.06, 0.06)):
        d, long = np.array(min_rtts), np.array(min_rtts) == max(min_rtts)
        line = NEAR / (CYCLE * max(min_rtts))
        for has, name, stated in ((long, "longer", int(long.sum()) - 1), (~long, "shorter", int(long.sum()))):
            # unstable roots are those at 0 for splits among the flows with the link, and positive ones of other flows
            linear = deep(tuple(has / has.sum()), min_rtts)
            n_roots = linear.certify(-line if name == "longer" else line).unstable
            proven.append(n_roots == stated)
            times = " and ".join(f"{1e3 * minimum:g}" for minimum in min_rtts)
            place = "at 0 or right of it" if name == "longer" else "right of 0"
            measured.append(
                Measurement(
                    f"{times} ms, flows of the {name} have the link: roots {place}",
                    str(n_roots),
                    reported=str(stated),
                    met=proven[-1],
                    note="proven by ball arithmetic",
                )
            )
        for engine in ENGINES:
            goodput = run(engine, min_rtts, 8.0, 0.3, 100.0, BBRv1()).goodput.sel(time=slice(50.0, None)).mean("time")
            rates = goodput.to_numpy()
            short = float(rates[d < max(min_rtts)].sum() / rates.sum())
            order.append(short < 0.5)
            starved.append(short < 0.05)
            measured.append(
                Measurement(f"{times} ms, {engine}: share of the shorter", short, reported=0.0, met=starved[-1])
            )
    holds = all(proven) and all(order)
    verdict = Verdict.REFUTED if not holds else Verdict.CONFIRMED if all(starved) else Verdict.CONDITIONAL
    return Finding(
        claim,
        verdict,
        "The equilibria are as stated, and flows with the longer RTT have more than half of the link in all runs; "
        "flows "
        f"with the shorter RTT have less than a twentieth in {sum(starved)} of {len(starved)} runs. The model of mean "
        "rates omits ProbeRTT and the RTT with 5/4 y in each cycle, in which windows are no limit while the queue is "
        "below d.",
        measured,
        (),
        ["50 Mb/s, a buffer of 8 products of the longer RTT; 50 to 100 s."],
    )


@check("bbr-small-fair", cost=6, main=False)
def bbr_small_fair(claim: Claim) -> Finding:
    """Compute roots for equal and unequal RTTs, and runs with a late flow."""
    measured, proven, fair = [], [], {}
    for flows in (2, 5, 10):
        for rtts in ([RTT] * flows, np.geomspace(0.01, 0.2, flows).tolist()):
            linear = small(rtts)
            proven.append(linear.certify().stable is True)
            slow = -1.0 / float(linear.roots(1)[0].real)
            stated = (4 * flows + 1) * CYCLE * RTT + 4 * flows * RTT
            equal = len(set(rtts)) == 1
            measured.append(
                Measurement(
                    f"{flows} flows, {'40 ms' if equal else '10 to 200 ms'}: time constant",
                    slow,
                    "s",
                    reported=stated if equal else None,
                    met=proven[-1],
                    note="stable, proven by ball arithmetic",
                )
            )
    for flows in (2, 4, 8):
        for engine, seeds in (("fluid", 1), ("packets", 3)):
            runs = [run(engine, [RTT] * flows, 0.2, 10.0, 90.0, BBRv1(), seed) for seed in range(seeds)]
            rates = np.array(
                [trajectory.goodput.sel(time=slice(50.0, None)).mean("time").to_numpy() for trajectory in runs]
            )
            rates *= flows / rates.sum(axis=1, keepdims=True)
            jain = float(np.mean(flows / (rates**2).sum(axis=1)))
            fair[flows, engine] = jain
            measured.append(
                Measurement(
                    f"{flows} flows, {engine}: Jain's index",
                    jain,
                    reported=1.0,
                    met=jain > 0.95,
                    note=f"rates from {rates.min():.2f} to {rates.max():.2f} of the fair rate",
                )
            )
    holds = all(proven)
    verdict = Verdict.REFUTED if not holds else Verdict.CONFIRMED if min(fair.values()) > 0.95 else Verdict.CONDITIONAL
    return Finding(
        claim,
        verdict,
        "The equilibrium is stable in mean rates for all RTTs, with the stated time constant. In packet runs flows "
        "probe at random times, and Jain's index is at least "
        f"{min(v for (_, e), v in fair.items() if e == 'packets'):.3f}. In the fluid flows probe in turns, and the "
        f"index is {min(v for (_, e), v in fair.items() if e == 'fluid'):.2f} with eight flows.",
        measured,
        (),
        ["50 Mb/s, RTT 40 ms, a buffer of a fifth of a product; the last flow starts 10 s later; 50 to 90 s."],
    )


def beside_cubic(
    engine: str, capacity: float, rtt: float, products: float, host: Protocol, duration: float, sample: float
) -> Trajectory:
    """Return a run of one flow that competes with one flow of CUBIC."""
    buffer = max(products * capacity * rtt / 8.0, 10.0 * PACKET)
    network = Network.dumbbell(capacity, [rtt] * 2, packet_size=PACKET, buffer=buffer)
    scenario = Scenario(network, {"flows": {0: host, 1: CUBIC(transport="rack")}}, duration)
    record = ["env.window", "flow.min_rtt"] if engine == "packets" and isinstance(host, BBRv1) else []
    return ENGINES[engine](scenario, sample=sample, record=record)


def share_of_first(trajectory: Trajectory) -> FloatArray:
    """Return the first flow's share of the goodput over time."""
    rates = trajectory.goodput.to_numpy()
    return np.asarray(rates[:, 0] / rates.sum(axis=1))


@lru_cache
def swing(engine: str, capacity: float, rtt: float, products: float, host: Protocol) -> tuple[float, float, float]:
    """Return the mean share of a host against CUBIC, and the 5 % and 95 % quantiles of its share per second."""
    late = share_of_first(beside_cubic(engine, capacity, rtt, products, host, DURATION, 1.0))[round(LEFT_OUT) :]
    low, high = np.quantile(late, (0.05, 0.95))
    return float(late.mean()), float(low), float(high)


class Probe(NamedTuple):
    """A probe for the RTT: share before and 6 to 9 s after it, and its measured RTT over the RTT of the path."""

    before: float
    after: float
    rtt_ratio: float


def probes(capacity: float, rtt: float, products: float) -> list[Probe]:
    """Return the probes of BBR against CUBIC in a packet run."""
    made = beside_cubic("packets", capacity, rtt, products, BBRv1(), 150.0, 0.1)
    rates, min_rtt = made.goodput.to_numpy(), made.data["flow.min_rtt"][:, 0].to_numpy()
    is_probing = made.data["env.window"][:, 0].to_numpy() < 4.5 * PACKET
    at = [i for i in range(50, 1400) if is_probing[i]]
    begun = [i for k, i in enumerate(at) if k == 0 or i - at[k - 1] > 20]

    def share(begin: int, end: int) -> float:
        return float(rates[begin:end, 0].sum() / rates[begin:end].sum())

    return [Probe(share(i - 15, i), share(i + 60, i + 90), float(min_rtt[i + 10]) / rtt) for i in begun]


@check("bbr-cubic-half", cost=8, main=False)
def bbr_cubic_half(claim: Claim) -> Finding:
    """Compare the result of each probe in packet runs, and the change of the share, with the claim."""
    measured, agree, near, far = [], [], [], []
    for capacity, rtt in PATHS:
        for products in (2.0, 4.0, 8.0):
            made = probes(capacity, rtt, products)
            right = [(probe.before < 0.5) == (probe.after > probe.before) for probe in made]
            stated = [max((1.0 - probe.before) * (1.0 + products), 1.0) for probe in made]
            close = [abs(probe.rtt_ratio / it - 1.0) < 0.3 for probe, it in zip(made, stated, strict=True)]
            agree += right
            near += close
            far += [is_right for is_right, probe in zip(right, made, strict=True) if abs(probe.before - 0.5) > 0.1]
            last = made[-6:]
            measured.append(
                Measurement(
                    f"{capacity / 1e6:g} Mb/s, {1e3 * rtt:g} ms, {products:g} products: probes as stated",
                    f"{sum(right)} of {len(right)}",
                    met=sum(right) > 0.8 * len(right),
                    note="shares before the last probes " + ", ".join(f"{probe.before:.2f}" for probe in last),
                )
            )
    return Finding(
        claim,
        Verdict.CONFIRMED
        if np.mean(agree) > 0.95
        else Verdict.CONDITIONAL
        if np.mean(agree) > 0.75
        else Verdict.REFUTED,
        f"The share changes as stated after {sum(agree)} of {len(agree)} probes, and after {sum(far)} of {len(far)} "
        f"probes at shares more than a tenth from a half. The measured RTT is within 30 % of the stated one in "
        f"{np.mean(near):.0%} of the probes. With RTTs of 20 ms the share can cross a half between two probes and "
        "swings with every other probe; with 100 ms it approaches a half in steps.",
        measured,
        (),
        [
            "One flow against one of CUBIC, packet runs, RACK-TLP, drop-tail, 150 s; shares in the 1.5 s before "
            "a probe, "
            "and 6 to 9 s after it."
        ],
    )


@check("bbr-cubic-oscillation", cost=12, main=False)
def bbr_cubic_oscillation(claim: Claim) -> Finding:
    """Compute shares per second of one flow against one of CUBIC, for several capacities, RTTs and buffers."""
    measured = []
    swings: dict[str, dict[tuple[float, float, float], float]] = {}
    hosts: dict[str, tuple[str, Protocol]] = {
        "fluid": ("fluid", BBRv1()),
        "packets": ("packets", BBRv1()),
        "packets without ProbeRTT": ("packets", BBRv1(min_rtt_window=NEVER)),
        "packets of NewReno": ("packets", NewReno(transport="rack")),
    }
    for capacity, rtt in PATHS:
        for products in BUFFERS:
            for name, (engine, host) in hosts.items():
                mean, low, high = swing(engine, capacity, rtt, products, host)
                swings.setdefault(name, {})[capacity, rtt, products] = high - low
                measured.append(
                    Measurement(
                        f"{capacity / 1e6:g} Mb/s, {1e3 * rtt:g} ms, {products:g} products, {name}: swing",
                        high - low,
                        "of the link",
                        met=high - low > OSCILLATES if name == "packets" else None,
                        note=f"share {mean:.2f}, {low:.2f} to {high:.2f}",
                    )
                )
    often = {name: sum(size > OSCILLATES for size in of.values()) for name, of in swings.items()}
    total = len(PATHS) * len(BUFFERS)
    times = np.arange(round(DURATION)) + 1.0
    series = {
        name: share_of_first(beside_cubic(engine, *PATHS[2], 4.0, host, DURATION, 1.0))
        for name, (engine, host) in hosts.items()
    }
    picture = Picture.of(
        states_figure(times, {"share against CUBIC": series}),
        "Shares of BBR against CUBIC",
        "50 Mb/s, RTT 20 ms, 4 bandwidth-delay products.",
    )
    large = [size > OSCILLATES for (_, _, products), size in swings["packets"].items() if products >= 2.0]
    shallow = [size > OSCILLATES for (_, _, products), size in swings["packets"].items() if products < 2.0]
    return Finding(
        claim,
        Verdict.CONDITIONAL if often["packets"] > total / 2 else Verdict.REFUTED,
        f"In packet runs the share swings by more than a fifth of the link in {often['packets']} of {total} networks: "
        f"in {sum(large)} of {len(large)} with buffers of at least 2 products, by up to "
        f"{max(swings['packets'].values()):.2f}, and in {sum(shallow)} of {len(shallow)} with smaller buffers. Without "
        f"ProbeRTT it swings in {often['packets without ProbeRTT']} networks, with NewReno instead of BBR in "
        f"{often['packets of NewReno']}, and in the fluid in {often['fluid']}.",
        measured,
        [picture],
        [
            "One flow against one of CUBIC, RACK-TLP, drop-tail, 1500-byte packets; shares of goodput per "
            "second, 50 to "
            "100 s; a swing is from the 5 % to the 95 % quantile. The abstract of the paper was read; its conditions "
            "and bounds are not known here."
        ],
    )
