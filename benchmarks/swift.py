"""Swift: its cycle beside packets, where links stay busy, shares of long paths, small windows, noise, spraying.

    python benchmarks/swift.py [onset | cycles | busy | shares | small | noise | spraying]

prints the tables of docs/swift.md that are not those of claims.
"""

from __future__ import annotations

import sys
from math import inf, isfinite, nan

import numpy as np
from data_centers import late, row
from numpy.typing import NDArray

import ecc
from ecc.claims.checks.data_centers.swift import CAPACITY, PACKET, RTT, TIME, flows_of, rest, swift
from ecc.errors import EccError
from ecc.models import Swift
from ecc.network.network import Flow, Link, Network
from ecc.scenario import Scenario
from ecc.stability import target_cycle

SPLIT = 10
"""Packets of 400 bytes in the place of one of 4 kB, where granularity is to be left out."""


def onset() -> None:
    """Where the limit cycle begins over beta, and over the steepness with beta = 0.8."""
    row("kappa", "cycle from beta", "swing with 0.8", "mean", "period")
    for steepness in (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3):
        low, high = 0.3, 1.0
        while high - low > 1e-4:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if target_cycle(middle, steepness) is None else (low, middle)
        found = target_cycle(0.8, steepness)
        row(steepness, high, *([] if found is None else [found.largest - found.least, found.mean, found.period]))
    low, high = 0.2, 0.4
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if target_cycle(0.8, middle) is None else (middle, high)
    print(f"with beta = 0.8 for kappa < {low:.4f}")
    for protocol in (swift(), swift(base_target=20e-6 * (1.0 + 1.0 / 6.55), fs_range=100e-6)):
        p = protocol.namespace()
        # kappa = F/(2 (base + b + F)), F = a/sqrt(W)
        scaled = 2.0 * low * (p.base_target + p.fs_beta) / (1.0 - 2.0 * low)
        print(f"range {1e6 * p.fs_range:g} us: for windows of more than {(p.fs_alpha / scaled) ** 2:.2f} packets")


def cycles() -> None:
    """Queue at the equilibrium, in the limit cycle and in packets."""
    row(
        "RTT [us]",
        "flows",
        "split",
        "window",
        "kappa",
        "queue at rest [us]",
        "cycle: mean",
        "least",
        "largest",
        "period",
        "packets: mean",
        "least",
        "largest",
        "period",
        "Jain",
    )
    for rtt, counts, split in (
        (10e-6, (10, 20, 50, 100), SPLIT),
        (10e-6, (1, 2, 5, 10, 20, 50, 100, 200, 500), 1),
        (40e-6, (10, 20, 50, 100), 1),
    ):
        for number in counts:
            protocol, network = swift(split, base_target=rtt + 10e-6), flows_of(number, split, rtt)
            wait, steepness = rest(protocol, network)
            window, unit = (rtt + wait) / (number * TIME), number * TIME
            found = target_cycle(0.8, steepness) if window > 1.0 else None
            foretold = (
                [nan] * 4
                if found is None
                else [
                    *(1e6 * (wait + x * unit) for x in (found.mean, found.least, found.largest)),
                    1e6 * found.period * (rtt + wait),
                ]
            )
            step = 1e-6
            run = ecc.packet.simulate(Scenario(network, protocol, max(0.01, 600.0 * rtt)), sample=step)
            half = len(run.queue) // 2
            waits = 8e6 * run.queue[half:, 0].to_numpy() / CAPACITY
            got = run.goodput[half:].mean("time").to_numpy()
            index = float(got.sum() ** 2 / (number * (got**2).sum()))
            row(
                1e6 * rtt,
                number,
                split,
                window,
                steepness,
                1e6 * wait,
                *foretold,
                float(waits.mean()),
                float(waits.min()),
                float(waits.max()),
                1e6 * strongest(waits, step),
                index,
            )


def strongest(values: NDArray[np.float64], step: float) -> float:
    """Return the period of the strongest line [s].

    Parameters
    ----------
    values : ndarray, shape (n,)
    step : float, s
    """
    lines = np.abs(np.fft.rfft((values - values.mean()) * np.hanning(len(values))))
    return step * len(values) / max(int(np.argmax(lines)), 1)


def busy() -> None:
    """Goodput around the RTT at which the limit cycle would reach an empty queue, and the target itself."""
    row("flows", "target [us]", "RTT limit [us]", *(f"goodput at {share:g}" for share in (0.95, 1.0, 1.05, 1.1)))
    for number in (5, 10, 20, 50):
        wait, steepness = rest(swift(), flows_of(number))
        found = target_cycle(0.8, steepness)
        assert found is not None
        aim = RTT + wait
        limit = aim + found.least * number * TIME
        goodput = []
        for share in (0.95, 1.0, 1.05, 1.1):
            network = flows_of(number, SPLIT, share * limit)
            run = ecc.packet.simulate(Scenario(network, swift(SPLIT), 6e-3), sample=1e-4)
            goodput.append(float(run.goodput[30:].sum("flow").mean()) / CAPACITY)
        row(number, 1e6 * aim, 1e6 * limit, *goodput)


def shares() -> None:
    """Five flows over one link beside five over five links, with and without topology scaling."""
    row("scaling of a link [us]", "base target [us]", "share of the long paths at rest", "in packets")
    for scaling, base in ((3e-6, 17e-6), (0.0, 20e-6)):
        flows = [Flow(route=[0], packet_size=PACKET, access_delay=3.5e-6, start=3e-6 * k) for k in range(5)]
        flows += [Flow(route=list(range(5)), packet_size=PACKET, access_delay=3.5e-6, start=3e-6 * k) for k in range(5)]
        network = Network(links=[Link(CAPACITY, 1.5e-6) for _ in range(5)], flows=flows)
        protocol = swift(hop_scaling=scaling, base_target=base)
        rates = protocol.equilibrium(network).rates
        run = ecc.packet.simulate(Scenario(network, protocol, 10e-3), sample=1e-5)
        got = run.goodput[500:].mean("time").to_numpy()
        row(1e6 * scaling, 1e6 * base, float(rates[5:].sum() / rates.sum()), float(got[5:].sum() / got.sum()))


def small() -> None:
    """Windows far below a packet, at 10 Gb/s."""
    row("flows", "window at rest", "queue at rest [us]", "mean", "standard deviation", "least", "largest", "Jain")
    for number in (10, 20, 50, 100, 200, 400, 1000, 2000):
        starts = np.random.default_rng(1).uniform(0.0, 2e-3, number).tolist()
        network = Network.dumbbell("10 Gb/s", [RTT] * number, packet_size=PACKET, starts=starts)
        try:
            wait, _ = rest(swift(), network)
            at_rest = [(RTT + wait) / (number * 10.0 * TIME), 1e6 * wait]
        except EccError:
            at_rest = [nan, nan]
        mean, spread, least, largest, _, index = late(swift(), network, 0.1, 1e-5)
        row(number, *at_rest, mean, spread, least, largest, index)


def noise() -> None:
    """ACKs that are late by up to a jitter, with a target that ignores it, and one that allows for its mean."""
    row(
        "jitter [us]",
        "base target [us]",
        "mean queue [us]",
        "standard deviation",
        "least",
        "largest",
        "goodput",
        "Jain",
    )
    for allowed in (0.0, 0.5, 1.0):
        for jitter in (0.0, 1e-6, 2e-6, 5e-6, 10e-6, 20e-6, 50e-6):
            if jitter > 0.0 or allowed == 0.0:
                protocol = swift(base_target=20e-6 + allowed * jitter)
                row(1e6 * jitter, 1e6 * protocol.base_target, *late(protocol, flows_of(10), 0.03, 2e-6, jitter))


def spraying() -> None:
    """A flow over several links of 100 Gb/s, one of which is longer, each ACK acting by itself beside packets."""
    row(
        "routes",
        "one is longer by [us]",
        "window if each ACK counts",
        "goodput then [Gb/s]",
        "goodput in packets [Gb/s]",
    )
    for routes in (2, 4, 8, 16):
        for longer in (0.0, 20e-6, 100e-6):
            links = [Link(CAPACITY, 2.5e-6 + longer * (k == routes - 1)) for k in range(routes)]
            flow = Flow(
                route=[0],
                alternatives=[[k] for k in range(1, routes)],
                packet_size=PACKET,
                access_delay=2.5e-6,
                reordering_threshold=255,
                spraying="random",
            )
            run = ecc.packet.simulate(Scenario(Network(links=links, flows=[flow]), swift(), 0.02), sample=1e-4)
            window, mean_rtt = _sprayed(swift(), routes, longer)
            foretold = [window, 8e-9 * PACKET * window / mean_rtt] if isfinite(window) else [nan, nan]
            row(routes, 1e6 * longer, *foretold, float(run.goodput[100:].mean()) / 1e9)


def _sprayed(protocol: Swift, routes: int, longer: float) -> tuple[float, float]:
    """Window at which what all other ACKs add between two cuts is one cut, and the mean RTT [s].

    A cut comes with the first late ACK that is an RTT of its own after the last cut.
    """
    if longer == 0.0:
        return inf, RTT
    share, slow, p = 1.0 / routes, RTT + longer, protocol.namespace()
    mean = RTT + share * longer

    def excess(window: float) -> float:
        """What is added beyond what is cut."""
        aim = ecc.models.swift.target(window, 0.0, 1.0, p)
        apart = slow + mean / (share * window)
        return (1.0 - share) * p.ai * apart / mean - window * min(p.beta * max(slow - aim, 0.0) / slow, p.max_mdf)

    low, high = 1.0, 1e4
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    return low, mean


TABLES = {
    "onset": onset,
    "cycles": cycles,
    "busy": busy,
    "shares": shares,
    "small": small,
    "noise": noise,
    "spraying": spraying,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or TABLES:
        TABLES[name]()
