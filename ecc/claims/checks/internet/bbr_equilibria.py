"""Checks of claims on equilibria of BBR version 1 in mean rates, and on its oscillation beside CUBIC.

    y_i' = (z_i(t - tau_i) - y_i)/T_i           what flow i has measured; T_i = 8 d_i, a cycle of gains

d_i is its least RTT, tau_i its RTT, r its rate, S the sum over flows. Where the queue Q [s] is deep, windows of 2 y d
bind, and z is the share that a flow has of what is sent; where a small buffer is always full, z is what the RTT with
5/4 y measures:

    deep    z_i = C r_i/S(r)      r_i = 2 y_i d_i/(d_i + Q)      Q' = S(r)/C - 1
    small   z_i = 5/4 C y_i/(S(y) + y_i/4)

Deep, an equilibrium needs Q = d_i of all flows that have a rate. In deviations h of y and q of Q, with g_i = 2 d_i/(d_i
+ Q), Q cancels in z:

    T_i h_i' = g_i h_i(t - tau_i) - y_i/C S(g h)(t - tau_i) - h_i      q' = S(g h)/C - q(t - 2 d)/(2 d)

With equal RTTs g = 1: any h with S(h) = 0 stays, N - 1 roots are 0, and the centre manifold consists of equilibria.
Other roots have T s + 1 = e^(-tau s), which only 0 solves with Re s >= 0, or T s = -1, or are those of q: 2 d s =
-e^(-2 d s), left of 0 since 1 < pi/2. A flow with less than the largest RTT has T s + 1 = g e^(-tau s) beside flows
that have it, g < 1; flows of the smaller RTT alone give one of the larger g > 1, and a positive root.

Small, S(y) + y_i/4 = 5/4 C for all i, so y = 5 C/(4 N + 1). There dz/dy = 4 N/(4 N + 1) I - 4/(4 N + 1) 11', of norm
4 N/(4 N + 1) < 1, while |T_i s + 1| >= 1 >= |e^(-tau_i s)| for Re s >= 0: it is stable for all RTTs, and with equal
ones differences decay with a time constant of (4 N + 1) T + 4 N tau, about.

Beside CUBIC, which keeps a queue of up to B d full, a flow of share s has s (1 + B) C d of what is in flight. ProbeRTT
takes that out for 0.2 s, and finds d' = max(d, (1 - s)(1 + B) d). Then the window 2 s C d' lets the share grow if 2 d'
> (1 + B) d: with B > 1 if s < 1/2, and only then. The next probe is 10 s later.
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
NEAR, FAR = 0.01, 0.9  # lines right and left of roots at 0, over the cycle's rate
NEVER = 1e4  # s, until it probes for its RTT
OSCILLATES = 0.2  # of the link
PATHS = ((10e6, 0.02), (10e6, 0.1), (50e6, 0.02))
BUFFERS = (0.5, 1.0, 2.0, 4.0, 8.0)  # bandwidth-delay products
DURATION, LEFT_OUT = 100.0, 50.0  # s


def system(slopes: FloatArray, rtts: Sequence[float], least: Sequence[float]) -> DelaySystem:
    """Return T_i h_i' = (slopes h)_i(t - tau_i) - h_i."""
    rates = 1.0 / (CYCLE * np.array(least))
    delays = sorted(set(rtts))
    late = [np.where(np.array(rtts)[:, None] == rtt, rates[:, None] * slopes, 0.0) for rtt in delays]
    return DelaySystem([-np.diag(rates), *late], [0.0, *delays])


def deep(shares: Sequence[float], least: Sequence[float]) -> DelaySystem:
    """Return the linear part of rates at a split of the link over a deep buffer, of flows with these least RTTs."""
    y, d = np.array(shares), np.array(least)
    Q = float(d[y > 0.0].max())
    g = 2.0 * d / (d + Q)
    return system(np.diag(g) - np.outer(y, g), [float(one) + Q for one in d], least)


def small(rtts: Sequence[float]) -> DelaySystem:
    """Return the linear part at equal rates over a small buffer that is always full."""
    n = len(rtts)
    slopes = (4.0 * n * np.eye(n) - 4.0 * np.ones((n, n))) / (4.0 * n + 1.0)
    return system(slopes, rtts, rtts)


def run(
    engine: str, least: Sequence[float], products: float, late: float, duration: float, host: Protocol, seed: int = 0
) -> Trajectory:
    """Return a run of flows of which the last starts later."""
    starts = [0.0] * (len(least) - 1) + [late]
    buffer = products * CAPACITY * max(least) / 8.0
    network = Network.dumbbell(CAPACITY, list(least), packet_size=PACKET, buffer=buffer, starts=starts)
    return ENGINES[engine](Scenario(network, host, duration, seed=seed), sample=0.5, record=["flow.bw"])


def measured_rates(found: Trajectory, begin: float, end: float) -> FloatArray:
    """Return y between two times, over the fair share."""
    y = found.data["flow.bw"].sel(time=slice(begin, end)).mean("time").to_numpy()
    return np.asarray(y * len(y) / CAPACITY)


@check("bbr-deep-split", cost=6, main=False)
def bbr_deep_split(claim: Claim) -> Finding:
    """Roots at several splits, and runs with and without probes for the RTT."""
    measured, proven, stays, evens = [], [], [], {}
    for shares in ((0.5, 0.5), (0.9, 0.1), (0.6, 0.2, 0.1, 0.06, 0.04)):
        n, line = len(shares), NEAR / (CYCLE * RTT)
        linear = deep(shares, [RTT] * n)
        left = -FAR / (CYCLE * RTT)
        zeros, right = linear.certify(left).unstable, linear.certify(line).unstable
        proven.append(zeros == n - 1 and right == 0)
        measured.append(
            Measurement(f"roots at 0, split {' : '.join(f'{one:g}' for one in shares)}", str(zeros),
                        reported=str(n - 1), met=proven[-1],
                        note=f"proven by balls; all others are left of {left:.3g}/s")
        )  # fmt: skip
    queue = DelaySystem([np.zeros((1, 1)), np.full((1, 1), -0.5 / RTT)], [0.0, 2.0 * RTT])
    proven.append(queue.certify().stable is True)
    measured.append(
        Measurement("largest real part of roots of the queue", float(queue.roots(1)[0].real), "1/s", reported="< 0",
                    met=proven[-1], note="proven by balls")
    )  # fmt: skip
    for flows in (2, 5):
        for probes in (False, True):
            host = BBRv1() if probes else BBRv1(min_rtt_window=NEVER)
            for engine in ENGINES:
                found = run(engine, [RTT] * flows, 8.0, 10.0, 100.0, host)
                then, now = (measured_rates(found, end - 20.0, end) for end in (60.0, 100.0))
                moved = float(np.abs(now - then).max())
                name = f"{flows} flows, {engine}, " + ("as it is" if probes else "without ProbeRTT")
                if probes:
                    evens[flows, engine] = float(now.max() / now.min())
                else:
                    stays.append(moved < 0.1)
                measured.append(
                    Measurement(f"{name}: largest change of y in 40 s", moved, "C/N", reported="0", met=moved < 0.1,
                                note=f"y from {now.min():.2f} to {now.max():.2f} C/N")
                )  # fmt: skip
    holds = all(proven) and all(stays)
    least, most = (pick(evens[n, "packets"] for n in (2, 5)) for pick in (min, max))
    return Finding(
        claim, Verdict.CONDITIONAL if holds else Verdict.REFUTED,
        "Between probes for the RTT: N - 1 roots are 0 and all others left of it at any split, and without ProbeRTT "
        "runs keep theirs for as long as they were watched. ProbeRTT, which empties the queue, evens rates out: "
        f"with it the largest rate of packets is {least:.2f} to {most:.2f} times the least, of the fluid with five "
        f"flows {evens[5, 'fluid']:.1f} times.",
        measured, (), [f"50 Mb/s, RTT {1e3 * RTT:g} ms, a buffer of 8 products; the last flow starts 10 s later."],
    )  # fmt: skip


@check("bbr-deep-rtt", cost=4, main=False)
def bbr_deep_rtt(claim: Claim) -> Finding:
    """Roots where one RTT has all, and runs."""
    measured, proven, order, none = [], [], [], []
    for least in ((0.02, 0.06), (0.02, 0.03), (0.02, 0.02, 0.06, 0.06)):
        d, long = np.array(least), np.array(least) == max(least)
        line = NEAR / (CYCLE * max(least))
        for has, name, stated in ((long, "longer", int(long.sum()) - 1), (~long, "shorter", int(long.sum()))):
            # right of the line: roots at 0 of splits among those that have all, and positive ones of the others
            linear = deep(tuple(has / has.sum()), least)
            found = linear.certify(-line if name == "longer" else line).unstable
            proven.append(found == stated)
            times = " and ".join(f"{1e3 * one:g}" for one in least)
            what = "at 0 or right of it" if name == "longer" else "right of 0"
            measured.append(
                Measurement(f"{times} ms, flows of the {name} have all: roots {what}", str(found),
                            reported=str(stated), met=proven[-1], note="proven by balls")
            )  # fmt: skip
        for engine in ENGINES:
            goodput = run(engine, least, 8.0, 0.3, 100.0, BBRv1()).goodput.sel(time=slice(50.0, None)).mean("time")
            rates = goodput.to_numpy()
            short = float(rates[d < max(least)].sum() / rates.sum())
            order.append(short < 0.5)
            none.append(short < 0.05)
            measured.append(
                Measurement(f"{times} ms, {engine}: share of the shorter", short, reported=0.0, met=none[-1])
            )  # fmt: skip
    holds = all(proven) and all(order)
    verdict = Verdict.REFUTED if not holds else Verdict.CONFIRMED if all(none) else Verdict.CONDITIONAL
    return Finding(
        claim, verdict,
        "The equilibria are as stated, and flows with the longer RTT have most of the link in all runs; those with the "
        f"shorter have less than a twentieth in {sum(none)} of {len(none)}. What is not in mean rates: the RTT with "
        "5/4 y in each cycle, in which windows do not bind while the queue is below d, and ProbeRTT.",
        measured, (), ["50 Mb/s, a buffer of 8 products of the longer RTT; 50 to 100 s."],
    )  # fmt: skip


@check("bbr-small-fair", cost=6, main=False)
def bbr_small_fair(claim: Claim) -> Finding:
    """Roots for equal and other RTTs, and runs with a late flow."""
    measured, proven, fair = [], [], {}
    for flows in (2, 5, 10):
        for rtts in ([RTT] * flows, np.geomspace(0.01, 0.2, flows).tolist()):
            linear = small(rtts)
            proven.append(linear.certify().stable is True)
            slow = -1.0 / float(linear.roots(1)[0].real)
            stated = (4 * flows + 1) * CYCLE * RTT + 4 * flows * RTT
            equal = len(set(rtts)) == 1
            measured.append(
                Measurement(f"{flows} flows, {'40 ms' if equal else '10 to 200 ms'}: time constant", slow, "s",
                            reported=stated if equal else None, met=proven[-1], note="stable, proven by balls")
            )  # fmt: skip
    for flows in (2, 4, 8):
        for engine, seeds in (("fluid", 1), ("packets", 3)):
            runs = [run(engine, [RTT] * flows, 0.2, 10.0, 90.0, BBRv1(), seed) for seed in range(seeds)]
            rates = np.array([one.goodput.sel(time=slice(50.0, None)).mean("time").to_numpy() for one in runs])
            rates *= flows / rates.sum(axis=1, keepdims=True)
            jain = float(np.mean(flows / (rates**2).sum(axis=1)))
            fair[flows, engine] = jain
            measured.append(
                Measurement(f"{flows} flows, {engine}: Jain's index", jain, reported=1.0, met=jain > 0.95,
                            note=f"rates from {rates.min():.2f} to {rates.max():.2f} of the fair one")
            )  # fmt: skip
    holds = all(proven)
    verdict = (
        Verdict.REFUTED if not holds else
        Verdict.CONFIRMED if min(fair.values()) > 0.95 else Verdict.CONDITIONAL
    )  # fmt: skip
    return Finding(
        claim, verdict,
        "Stable in mean rates for all RTTs, with the stated time constant. Packets, whose flows probe at random, "
        f"have Jain's indices of {min(v for (_, e), v in fair.items() if e == 'packets'):.3f} or more; the fluid, "
        f"whose flows probe in turns, {min(v for (_, e), v in fair.items() if e == 'fluid'):.2f} with eight flows.",
        measured, (),
        ["50 Mb/s, RTT 40 ms, a buffer of a fifth of a product; the last flow starts 10 s later; 50 to 90 s."],
    )  # fmt: skip


def beside_cubic(
    engine: str, capacity: float, rtt: float, products: float, host: Protocol, duration: float, sample: float
) -> Trajectory:
    """Return a run of one flow beside one of CUBIC."""
    buffer = max(products * capacity * rtt / 8.0, 10.0 * PACKET)
    network = Network.dumbbell(capacity, [rtt] * 2, packet_size=PACKET, buffer=buffer)
    scenario = Scenario(network, {"flows": {0: host, 1: CUBIC(transport="rack")}}, duration)
    record = ["env.window", "flow.min_rtt"] if engine == "packets" and isinstance(host, BBRv1) else []
    return ENGINES[engine](scenario, sample=sample, record=record)


def share_of_first(found: Trajectory) -> FloatArray:
    """Return the share of the first flow over time."""
    rates = found.goodput.to_numpy()
    return np.asarray(rates[:, 0] / rates.sum(axis=1))


@lru_cache
def swing(engine: str, capacity: float, rtt: float, products: float, host: Protocol) -> tuple[float, float, float]:
    """Return the mean share of a host beside CUBIC, and what it is below in 5 and 95 % of seconds."""
    late = share_of_first(beside_cubic(engine, capacity, rtt, products, host, DURATION, 1.0))[round(LEFT_OUT) :]
    low, high = np.quantile(late, (0.05, 0.95))
    return float(late.mean()), float(low), float(high)


class Probe(NamedTuple):
    """A probe for the RTT: share before and 6 to 9 s after, and the least RTT that it finds, over the path's."""

    before: float
    after: float
    found: float


def probes(capacity: float, rtt: float, products: float) -> list[Probe]:
    """Return the probes of BBR beside CUBIC in packets."""
    made = beside_cubic("packets", capacity, rtt, products, BBRv1(), 150.0, 0.1)
    rates, least = made.goodput.to_numpy(), made.data["flow.min_rtt"][:, 0].to_numpy()
    least_window = made.data["env.window"][:, 0].to_numpy() < 4.5 * PACKET
    at = [i for i in range(50, 1400) if least_window[i]]
    begun = [i for k, i in enumerate(at) if k == 0 or i - at[k - 1] > 20]

    def share(begin: int, end: int) -> float:
        return float(rates[begin:end, 0].sum() / rates[begin:end].sum())

    return [Probe(share(i - 15, i), share(i + 60, i + 90), float(least[i + 10]) / rtt) for i in begun]


@check("bbr-cubic-half", cost=8, main=False)
def bbr_cubic_half(claim: Claim) -> Finding:
    """Each probe of packets: what it finds, and where the share goes."""
    measured, agree, near, far = [], [], [], []
    for capacity, rtt in PATHS:
        for products in (2.0, 4.0, 8.0):
            found = probes(capacity, rtt, products)
            right = [(one.before < 0.5) == (one.after > one.before) for one in found]
            stated = [max((1.0 - one.before) * (1.0 + products), 1.0) for one in found]
            close = [abs(one.found / it - 1.0) < 0.3 for one, it in zip(found, stated, strict=True)]
            agree += right
            near += close
            far += [one for one, of in zip(right, found, strict=True) if abs(of.before - 0.5) > 0.1]
            last = found[-6:]
            measured.append(
                Measurement(f"{capacity / 1e6:g} Mb/s, {1e3 * rtt:g} ms, {products:g} products: probes as stated",
                            f"{sum(right)} of {len(right)}", met=sum(right) > 0.8 * len(right),
                            note="shares before the last ones " + ", ".join(f"{one.before:.2f}" for one in last))
            )  # fmt: skip
    return Finding(
        claim, Verdict.CONFIRMED if np.mean(agree) > 0.95 else
        Verdict.CONDITIONAL if np.mean(agree) > 0.75 else Verdict.REFUTED,
        f"After {sum(agree)} of {len(agree)} probes, and after {sum(far)} of {len(far)} at shares at least a tenth "
        f"from a half; what they find is within 30 % of what is stated in {np.mean(near):.0%}. With RTTs of 20 ms the "
        "share has time to cross a half between two probes, and swings with every other probe; with 100 ms it comes "
        "close to a half in steps.",
        measured, (),
        ["One flow beside one of CUBIC, packets, RACK-TLP, drop-tail, 150 s; shares in 1.5 s before a probe, and 6 to "
         "9 s after it."],
    )  # fmt: skip


@check("bbr-cubic-oscillation", cost=12, main=False)
def bbr_cubic_oscillation(claim: Claim) -> Finding:
    """Shares of one flow beside one of CUBIC, a second each, over capacities, RTTs and buffers."""
    measured = []
    found: dict[str, dict[tuple[float, float, float], float]] = {}
    hosts: dict[str, tuple[str, Protocol]] = {
        "fluid": ("fluid", BBRv1()), "packets": ("packets", BBRv1()),
        "packets without ProbeRTT": ("packets", BBRv1(min_rtt_window=NEVER)),
        "packets of NewReno": ("packets", NewReno(transport="rack")),
    }  # fmt: skip
    for capacity, rtt in PATHS:
        for products in BUFFERS:
            for name, (engine, host) in hosts.items():
                mean, low, high = swing(engine, capacity, rtt, products, host)
                found.setdefault(name, {})[capacity, rtt, products] = high - low
                measured.append(
                    Measurement(f"{capacity / 1e6:g} Mb/s, {1e3 * rtt:g} ms, {products:g} products, {name}: swing",
                                high - low, "of the link", met=high - low > OSCILLATES if name == "packets" else None,
                                note=f"share {mean:.2f}, {low:.2f} to {high:.2f}")
                )  # fmt: skip
    often = {name: sum(one > OSCILLATES for one in of.values()) for name, of in found.items()}
    total = len(PATHS) * len(BUFFERS)
    times = np.arange(round(DURATION)) + 1.0
    series = {
        name: share_of_first(beside_cubic(engine, *PATHS[2], 4.0, host, DURATION, 1.0))
        for name, (engine, host) in hosts.items()
    }
    picture = Picture.of(
        states_figure(times, {"share beside CUBIC": series}), "Shares of BBR beside CUBIC",
        "50 Mb/s, RTT 20 ms, 4 bandwidth-delay products.",
    )  # fmt: skip
    large = [one > OSCILLATES for (_, _, products), one in found["packets"].items() if products >= 2.0]
    shallow = [one > OSCILLATES for (_, _, products), one in found["packets"].items() if products < 2.0]
    return Finding(
        claim, Verdict.CONDITIONAL if often["packets"] > total / 2 else Verdict.REFUTED,
        f"In packets the share swings by more than a fifth of the link in {often['packets']} of {total} networks: in "
        f"{sum(large)} of {len(large)} with buffers of 2 products or more, by up to "
        f"{max(found['packets'].values()):.2f}, and in {sum(shallow)} of {len(shallow)} with smaller ones. Without "
        f"ProbeRTT it does in {often['packets without ProbeRTT']}, NewReno in BBR's place in "
        f"{often['packets of NewReno']}, the fluid in {often['fluid']}.",
        measured, [picture],
        ["One flow beside one of CUBIC, RACK-TLP, drop-tail, 1500-byte packets; shares of goodput in a second each, 50 "
         "to 100 s; a swing is from the 5 % to the 95 % quantile. Of the paper its abstract was read; its conditions "
         "and bounds are not known here."],
    )  # fmt: skip
