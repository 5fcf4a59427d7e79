"""NSCC of Ultra Ethernet over marks: equilibria, stability over flows and RTTs, cycles, shares, noise, spraying.

    python benchmarks/nscc.py [equilibria | region | cycles | basins | trimmed | shares | noise | spraying]

prints the tables of docs/nscc.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

import ecc
from ecc.impairments import Jitter
from ecc.linear import DelaySystem
from ecc.marking_loop import MarkingEquilibrium, equilibrium_of_marks
from ecc.models import NSCC, ConstantRate, Protocol
from ecc.models.protocol_assignment import read_protocol
from ecc.network import Flow, Link, Network
from ecc.queues import RampMarking, Trimming
from ecc.scenario import Scenario

C, T, S = 100e9, 12e-6, 4096
"""Rate [bit/s] and RTT [s] to which the constants of NSCC refer, and packets [bytes]."""


def row(*cells: object) -> None:
    """Print a row of a Markdown table.

    Parameters
    ----------
    *cells : object
    """
    print("|", " | ".join(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in cells), "|", flush=True)


def marking(rtt: float = T, low: float = 0.2, high: float = 0.8) -> RampMarking:
    """Return the thresholds of Ultra Ethernet, shares of the bandwidth-delay product.

    Parameters
    ----------
    rtt : float, s, optional
    low, high : float, optional
    """
    packets = C * rtt / (8 * S)
    return RampMarking(packet_size=S, min_threshold=low * packets, max_threshold=high * packets)


def dumbbell(rtts: Sequence[float]) -> Network:
    """Return one link of 100 Gb/s, whose flows start at random within a millisecond.

    Parameters
    ----------
    rtts : sequence of float, s
    """
    starts = np.random.default_rng(1).uniform(0.0, 1e-3, len(rtts))
    return Network.dumbbell(C, list(rtts), packet_size=S, starts=starts.tolist())


def linear(flows: int, rtt: float = T, high: float = 0.8) -> tuple[MarkingEquilibrium, DelaySystem]:
    """Return the equilibrium and the linear model, ACK-clocked.

    Parameters
    ----------
    flows : int
    rtt : float, s, optional
    high : float, optional
        Threshold from which on all packets are marked, a share of the product.
    """
    network = Network.dumbbell(C, [rtt] * flows, packet_size=S)
    pair = {"flows": NSCC(C, rtt), "links": marking(rtt, 0.2, high)}
    point = equilibrium_of_marks(read_protocol(pair).deploy(network), network)  # type: ignore[union-attr]
    return point, ecc.linearize(pair, network, clocking="ack")  # type: ignore[return-value]


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
                flows, high, float(point.queues[0] / (C * T)), float(point.probabilities[0]),
                float(point.windows[0] / (8 * S)), point.host_states[0]["average"] / (0.75 * T), root.real,
                2 * np.pi / abs(root.imag) if root.imag else np.inf,
                "-" if stable is None else "stable" if stable else "unstable",
            )  # fmt: skip


def least_stable(rtt: float, high: float = 0.8) -> int:
    """Return from how many flows on the linear model is stable, of 2 to 1024.

    Parameters
    ----------
    rtt : float, s
    high : float, optional
    """
    low, up = 1, 1024
    while up - low > 1:
        middle = (low + up) // 2
        low, up = (low, middle) if linear(middle, rtt, high)[1].is_stable else (middle, up)
    return up


def region() -> None:
    """From how many flows on the loop is stable, over the RTT of the network."""
    row("RTT [us]", "stable from flows", "window there, packets", "queue/BDP there", "below it", "proven on both sides")
    for rtt in (6e-6, 12e-6, 24e-6, 48e-6, 100e-6):
        flows = least_stable(rtt)
        point, model = linear(flows, rtt)
        below = linear(flows - 1, rtt)
        proven = model.certify().stable is True and below[1].certify().stable is False
        row(
            1e6 * rtt, flows, float(point.windows[0] / (8 * S)), float(point.queues[0] / (C * rtt)),
            float(below[0].queues[0] / (C * rtt)), proven,
        )  # fmt: skip


def late(run: ecc.Trajectory, rtt: float) -> tuple[float, ...]:
    """Return of the second half: mean, standard deviation, least and largest queue (BDP), period (RTTs), use, Jain.

    Parameters
    ----------
    run : Trajectory
    rtt : float, s
    """
    half = len(run.queue) // 2
    queue = run.queue[half:, 0].to_numpy() * 8 / (C * rtt)
    got = run.goodput[half:].mean("time").to_numpy()
    step = float(run.data["time"][1] - run.data["time"][0])
    power = np.abs(np.fft.rfft((queue - queue.mean()) * np.hanning(len(queue)))) ** 2
    period = len(queue) * step / rtt / max(int(power[2:].argmax()) + 2, 1)
    jain = float(got.sum() ** 2 / (len(got) * (got**2).sum()))
    return (
        float(queue.mean()), float(queue.std()), float(queue.min()), float(queue.max()), period,
        float(got.sum() / C), jain,
    )  # fmt: skip


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
        (12e-6, 2, 0.8), (12e-6, 4, 0.8), (12e-6, 8, 0.8), (12e-6, 16, 0.8), (12e-6, 32, 0.8), (48e-6, 8, 0.8),
        (48e-6, 64, 0.8), (12e-6, 4, 0.7), (12e-6, 8, 0.7), (48e-6, 64, 0.7),
    ):  # fmt: skip
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
        ("none", 0, NSCC()), ("7 flows of NSCC", 7, NSCC()), ("50 Gb/s", 1, ConstantRate("50 Gb/s")),
        ("90 Gb/s", 1, ConstantRate("90 Gb/s")),
    )  # fmt: skip
    for trims in (True, False):
        for paths in (2, 4, 8):
            for name, others, crowd in crowds if trims else crowds[:2]:
                _spray(trims, paths, name, others, crowd if isinstance(crowd, ConstantRate) else NSCC(trimming=trims))


def _spray(trims: bool, paths: int, name: str, others: int, crowd: Protocol) -> None:
    """Without trimming, queues hold five products, and links of the paths mark and drop."""
    product = C * T / 8
    buffer, size = (None, 64) if trims else (5 * product, None)
    links = [Link(C, "0.5 us"), *[Link(C, "2.5 us", buffer)] * paths, *[Link(C, "0.5 us")] * others]
    routes = [[0, 1 + k] for k in range(paths)]
    sprayed = Flow(routes[0], alternatives=routes[1:], spraying="random", reordering_threshold=255, packet_size=S,
                   trimmed_size=size, access_delay="3 us")  # fmt: skip
    rest = [Flow([1 + paths + k, 1], packet_size=S, trimmed_size=size, access_delay="3 us", start=(1 + k) * 1e-4)
            for k in range(others)]  # fmt: skip
    at = Trimming(product, 0.2 * product, 0.8 * product) if trims else marking()
    pair = {"flows": {0: NSCC(trimming=trims), "default": crowd}, "links": {1 + k: at for k in range(paths)}}
    scenario = Scenario(Network(links, [sprayed, *rest]), pair, 0.03)
    run = ecc.packet.simulate(scenario, sample=1e-4, record=["flow.average"])
    got = run.goodput[150:].mean("time").to_numpy() / 1e9
    first, target = run.flows.iloc[0], (0.75 if trims else 1.0) * T
    row(
        "yes" if trims else "no", paths, name, float(got[0]), float(got[1:].sum()),
        float(100 * first["lost"] / (first["delivered"] + first["lost"])),
        float(run.queue[150:, 1].mean() / product), float(run["flow.average"][150:, 0].mean() / target),
    )  # fmt: skip


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
    for rtt, flows in ((12e-6, 8), (12e-6, 24), (48e-6, 24), (48e-6, 40), (48e-6, 64)):
        growth = float(linear(flows, rtt)[1].spectral_abscissa) * rtt
        network = Network.dumbbell(C, [rtt] * flows, packet_size=S)
        for fast in (0.25, 0.0):
            pair = {"flows": NSCC(C, rtt, fast=fast), "links": marking(rtt)}
            for start in ("equilibrium", "empty"):
                scenario = Scenario(network, pair, 1500 * rtt)
                pushed = {"perturbation": 0.01} if start == "equilibrium" else {}
                run = ecc.fluid.simulate(scenario, sample=rtt / 4, start=start, **pushed)  # type: ignore[arg-type]
                row(1e6 * rtt, flows, fast, growth, start, *late(run, rtt)[:4])


TABLES = {
    "equilibria": equilibria, "region": region, "cycles": cycles, "basins": basins, "trimmed": trimmed,
    "shares": shares, "noise": noise, "spraying": spraying,
}  # fmt: skip

if __name__ == "__main__":
    for name in sys.argv[1:] or TABLES:
        TABLES[name]()
