"""NSCC of Ultra Ethernet over marks: equilibria, stability over flows and RTTs, cycles, shares, noise, spraying.

    python benchmarks/nscc.py [equilibria | region | cycles | basins | trimmed | shares | noise | spraying |
        multipliers | small_packets]

prints the tables of docs/nscc.md.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

import ecc
from ecc.claims.checks.data_centers.nscc import (
    C,
    S,
    T,
    dumbbell,
    equal_flows,
    late,
    linear,
    marking,
    returns,
    sprayed,
)
from ecc.models import NSCC, ConstantRate, Protocol
from ecc.network.impairments import Jitter
from ecc.network.network import Network
from ecc.queues import Trimming
from ecc.scenario import Scenario

CASES = ((12e-6, 8), (12e-6, 24), (48e-6, 24), (48e-6, 40), (48e-6, 64))
"""RTT [s] and flows of the table of basins."""


def row(*cells: object) -> None:
    """Print a row of a Markdown table.

    Parameters
    ----------
    *cells : object
    """
    print("|", " | ".join(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in cells), "|", flush=True)


def equilibria() -> None:
    """Of equal flows, with what is proven of their stability."""
    row(
        "flows",
        "K_max",
        "queue/BDP",
        "share marked",
        "window, packets",
        "average/D",
        "growth, 1/RTT",
        "period, RTTs",
        "proven",
    )
    for high in (0.8, 0.7):
        for flows in (2, 4, 8, 12, 16, 24, 32):
            point, model = linear(flows, high=high)
            root = complex(model.roots(1)[0]) * T
            stable = model.certify().stable
            row(
                flows,
                high,
                float(point.queues[0] / (C * T)),
                float(point.probabilities[0]),
                float(point.windows[0] / (8 * S)),
                point.host_states[0]["average"] / (0.75 * T),
                root.real,
                2 * np.pi / abs(root.imag) if root.imag else np.inf,
                "-" if stable is None else "stable" if stable else "unstable",
            )


def region() -> None:
    """With how many flows, of 2 to 64, the loop is stable, over the RTT of the network and for both targets."""
    row(
        "target/RTT",
        "RTT [us]",
        "stable with flows",
        "window there, packets",
        "queue/BDP there",
        "proven on both sides",
    )
    for trimming in (True, False):
        for rtt in (6e-6, 12e-6, 24e-6, 48e-6, 100e-6):
            stable = [flows for flows in range(2, 65) if linear(flows, rtt, trimming=trimming)[1].is_stable]
            flows = max(one for one in stable if one - 1 not in stable)
            point, model = linear(flows, rtt, trimming=trimming)
            below = linear(flows - 1, rtt, trimming=trimming)[1]
            proven = model.certify().stable is True and below.certify().stable is False
            island = [one for one in stable if one < flows]
            row(
                0.75 if trimming else 1.0,
                1e6 * rtt,
                f"{island or ''} {flows} to {max(stable)}",
                float(point.windows[0] / (8 * S)),
                float(point.queues[0] / (C * rtt)),
                proven,
            )


def cycles() -> None:
    """Of packets, and of fluid, beside the equilibrium."""
    row(
        "RTT [us]",
        "flows",
        "K_max",
        "engine",
        "rest",
        "mean",
        "deviation",
        "least",
        "largest",
        "period",
        "goodput",
        "Jain",
    )
    for rtt, flows, high in (
        (12e-6, 2, 0.8),
        (12e-6, 4, 0.8),
        (12e-6, 8, 0.8),
        (12e-6, 16, 0.8),
        (12e-6, 32, 0.8),
        (48e-6, 8, 0.8),
        (48e-6, 64, 0.8),
        (12e-6, 4, 0.7),
        (12e-6, 8, 0.7),
        (48e-6, 64, 0.7),
    ):
        rest = float(linear(flows, rtt, high)[0].queues[0] / (C * rtt))
        pair = {"flows": NSCC(C, rtt), "links": marking(rtt, 0.2, high)}
        for name, engine, times in (("packets", ecc.packet, 3000), ("fluid", ecc.fluid, 500)):
            run = engine.simulate(Scenario(dumbbell([rtt] * flows), pair, times * rtt + 1e-3), sample=rtt / 4)
            row(1e6 * rtt, flows, high, name, rest, *late(run, rtt))


def shares() -> None:
    """Of two groups of flows with different RTTs: packets that measure their RTT, or know it, and fluid."""
    row("RTTs [us]", "flows of each", "ratio of goodputs, RTT measured", "RTT known", "fluid")
    for short in (12e-6, 9e-6, 6e-6, 3e-6):
        for flows in (1, 4, 8):
            network = dumbbell([short] * flows + [T] * flows)
            hosts = {f"0-{flows - 1}" if flows > 1 else 0: NSCC(base_rtt=short), "default": NSCC()}
            found = []
            for engine, given, times in (
                (ecc.packet, NSCC(), 0.06),
                (ecc.packet, hosts, 0.06),
                (ecc.fluid, NSCC(), 6e-3),
            ):
                run = engine.simulate(Scenario(network, {"flows": given, "links": marking()}, times), sample=1e-4)
                got = run.goodput[len(run.goodput) // 2 :].mean("time").to_numpy()
                found.append(float(got[:flows].sum() / got[flows:].sum()))
            row(f"{1e6 * short:g} and 12", flows, *found)


def noise() -> None:
    """ACKs that are late by up to some time, in packets."""
    row("flows", "jitter [us]", "mean", "deviation", "least", "largest", "goodput", "Jain")
    for flows in (4, 16):
        for jitter in (0.0, 1e-6, 3e-6, 9e-6, 18e-6):
            late_acks = [Jitter((0.0, jitter), acks_of="all")] if jitter > 0.0 else []
            pair = {"flows": NSCC(), "links": marking()}
            run = ecc.packet.simulate(Scenario(dumbbell([T] * flows), pair, 0.03, impairments=late_acks), sample=T / 4)
            found = late(run, T)
            row(flows, 1e6 * jitter, *found[:4], *found[5:])


def spraying() -> None:
    """A flow that sprays over several paths, of which one is congested by others."""
    row(
        "trimming",
        "paths",
        "on the first path",
        "goodput sprayed [Gb/s]",
        "of the others",
        "lost [%]",
        "queue there/BDP",
        "m/D",
    )
    crowds: tuple[tuple[str, int, Protocol], ...] = (
        ("none", 0, NSCC()),
        ("7 flows of NSCC", 7, NSCC()),
        ("50 Gb/s", 1, ConstantRate("50 Gb/s")),
        ("90 Gb/s", 1, ConstantRate("90 Gb/s")),
    )
    for trims in (True, False):
        for paths in (2, 4, 8):
            for name, others, crowd in crowds if trims else crowds[:2]:
                at_others = crowd if isinstance(crowd, ConstantRate) else NSCC(trimming=trims)
                found = sprayed(trims, paths, others, at_others)
                row("yes" if trims else "no", paths, name, found.goodput, found.others, 100 * found.lost, *found[3:])


def trimmed() -> None:
    """Cycles in packets over links that trim at a product, and mark what leaves."""
    row("RTT [us]", "flows", "mean", "deviation", "least", "largest", "period", "goodput", "Jain", "lost [%]")
    for rtt, flows in ((12e-6, 8), (12e-6, 24), (48e-6, 8), (48e-6, 40)):
        product = C * rtt / 8
        network = dumbbell([rtt] * flows)
        network = network.with_flows([replace(flow, trimmed_size=64) for flow in network.flows])
        pair = {"flows": NSCC(C, rtt), "links": Trimming(product, 0.2 * product, 0.8 * product)}
        run = ecc.packet.simulate(Scenario(network, pair, 2000 * rtt + 1e-3), sample=rtt / 4)
        lost = 100 * run.flows["lost"].sum() / (run.flows["lost"] + run.flows["delivered"]).sum()
        row(1e6 * rtt, flows, *late(run, rtt), float(lost))


def basins() -> None:
    """Fluid from near the equilibrium and from empty queues; with and without fast increase."""
    row(
        "target/RTT",
        "RTT [us]",
        "flows",
        "fast",
        "growth of the linear model, 1/RTT",
        "from",
        "mean",
        "deviation",
        "least",
        "largest",
    )
    for trimming, rtt, flows, fast in (
        *((True, rtt, flows, fast) for rtt, flows in CASES for fast in (0.25, 0.0)),
        *((False, rtt, flows, 0.25) for rtt, flows in CASES),
    ):
        growth = float(linear(flows, rtt, trimming=trimming)[1].spectral_abscissa) * rtt
        network = Network.dumbbell(C, [rtt] * flows, packet_size=S)
        pair = {"flows": NSCC(C, rtt, trimming=trimming, fast=fast), "links": marking(rtt)}
        for start in ("equilibrium", "empty"):
            scenario = Scenario(network, pair, 1500 * rtt)
            pushed = {"perturbation": 0.01} if start == "equilibrium" else {}
            run = ecc.fluid.simulate(scenario, sample=rtt / 4, start=start, **pushed)  # type: ignore[arg-type]
            row(0.75 if trimming else 1.0, 1e6 * rtt, flows, fast, growth, start, *late(run, rtt)[:4])


def multipliers() -> None:
    """Of cycles, by the convergence of fluid runs."""
    row("target/RTT", "RTT [us]", "flows", "from", "least", "largest", "period", "largest multiplier")
    for trimming, rtt, flows, start in (
        (True, 12e-6, 8, "equilibrium"),
        (True, 12e-6, 8, "empty"),
        (True, 48e-6, 40, "empty"),
        (False, 48e-6, 40, "empty"),
    ):
        run = equal_flows(flows, rtt, 1000, start, trimming)
        row(0.75 if trimming else 1.0, 1e6 * rtt, flows, start, *returns(run, rtt))


def small_packets() -> None:
    """Cycles in packets, of parts of the size and steps that leave the fluid as it is."""
    row("flows", "parts of a packet", "mean", "deviation", "least", "largest", "period")
    for flows in (8, 24, 48):
        for parts in (1, 8, 32):
            host = NSCC(alpha=4.0 * parts, fair=5.0 * parts, eta=0.15 * parts, delay_gain=0.0125 / parts)
            pair = {"flows": host, "links": marking(parts=parts)}
            run = ecc.packet.simulate(Scenario(dumbbell([T] * flows, parts), pair, 1600 * T + 1e-3), sample=T / 4)
            row(flows, parts, *late(run, T)[:5])


TABLES = {
    "equilibria": equilibria,
    "region": region,
    "cycles": cycles,
    "basins": basins,
    "trimmed": trimmed,
    "shares": shares,
    "noise": noise,
    "spraying": spraying,
    "multipliers": multipliers,
    "small_packets": small_packets,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or TABLES:
        TABLES[name]()
