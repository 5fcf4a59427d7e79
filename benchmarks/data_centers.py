"""Transports of data centers: critical RTTs of DCQCN, swings of TIMELY, fairness and noise in packets.

    python benchmarks/data_centers.py [dcqcn | patched | timely | dctcp | granularity | theta | fluid]

prints the tables of docs/data_centers.md that are not those of claims.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

import ecc
from ecc.contract.env import FlowEnv, Hook, Params
from ecc.errors import EccError
from ecc.linear import DelaySystem
from ecc.models import DCQCN, DCTCP, HPCC, NSCC, TIMELY, PatchedTIMELY, PowerTCP, Protocol, Swift, ThetaPowerTCP
from ecc.models.dctcp import flow_on_ack as on_ack_of_dctcp
from ecc.network.demands import permutation
from ecc.network.impairments import Jitter
from ecc.network.network import Network
from ecc.queues import RampMarking, StepMarking
from ecc.scenario import Scenario


def row(*cells: object) -> None:
    """Print a row of a Markdown table.

    Parameters
    ----------
    *cells : object
    """
    print("|", " | ".join(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells), "|", flush=True)


def late(
    protocol: Protocol | dict[str, Protocol], network: Network, duration: float, sample: float, jitter: float = 0.0
) -> tuple[float, float, float, float, float, float]:
    """Return of a packet run's second half: mean, standard deviation, least and largest queue [us], goodput, fairness.

    Parameters
    ----------
    protocol : Protocol or dict
    network : Network
        One link.
    duration, sample : float, s
    jitter : float, s, optional
        Largest delay of an ACK beside that of its path.
    """
    noise = [Jitter((0.0, jitter), acks_of="all")] if jitter > 0.0 else []
    run = ecc.packet.simulate(Scenario(network, protocol, duration, impairments=noise), sample=sample)
    half, C = len(run.queue) // 2, float(network.capacities[0])
    queue = run.queue[half:, 0].to_numpy() * 8e6 / C
    got = run.goodput[half:].mean("time").to_numpy()
    index = float(got.sum() ** 2 / (len(got) * (got**2).sum()))
    return float(queue.mean()), float(queue.std()), float(queue.min()), float(queue.max()), float(got.sum() / C), index


def dumbbell(capacity: str, rtts: Sequence[float], size: int, within: float) -> Network:
    """Return one link, whose flows start at random.

    Parameters
    ----------
    capacity : str
    rtts : sequence of float, s
    size : int, bytes
    within : float, s
        Of the start.
    """
    starts = np.random.default_rng(1).uniform(0.0, within, len(rtts))
    return Network.dumbbell(capacity, list(rtts), packet_size=size, starts=starts.tolist())


def critical(model: Callable[[float], DelaySystem], low: float, high: float) -> tuple[float, bool]:
    """Return where a model loses stability, and whether both sides are proven, 0.5 % from it.

    Parameters
    ----------
    model : callable
    low, high : float
        Stable, and unstable.
    """
    for _ in range(16):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if model(middle).is_stable else (low, middle)
    return low, model(0.995 * low).certify().stable is True and model(1.005 * low).certify().stable is False


def dcqcn() -> None:
    """Fixed points and critical RTTs of DCQCN."""
    row("flows", "p", "queue [kB]", "alpha", "target/rate", "critical RTT [us]", "proven")
    for flows in (1, 2, 5, 10, 14):

        def model(rtt: float, flows: int = flows) -> DelaySystem:
            return ecc.linearize(DCQCN(), Network.dumbbell("40 Gb/s", [rtt] * flows, packet_size=1000))  # type: ignore[return-value]

        point = DCQCN().equilibrium(Network.dumbbell("40 Gb/s", ["10 us"] * flows, packet_size=1000))
        assert point.queue is not None
        limit, proven = critical(model, 5e-6, 150e-6)
        row(
            flows,
            float(point.fair_rate[0]),
            float(point.queue[0]) / 8e3,
            float(point.states["alpha"][0]),
            float(point.states["target"][0] / point.rates[0]),
            1e6 * limit,
            proven,
        )
    row(
        "K_max [kB]",
        "R_AI [Mb/s]",
        "flows",
        "RTT [us]",
        "queue at rest [us]",
        "mean",
        "deviation",
        "least",
        "largest",
        "goodput",
        "Jain's index",
    )
    tuned = DCQCN(rate_ai="10 Mb/s", max_threshold="1 MB")
    for protocol, flows, rtt in (
        (DCQCN(), 2, 10e-6),
        (DCQCN(), 10, 4e-6),
        (DCQCN(), 10, 55e-6),
        (DCQCN(), 10, 85e-6),
        (DCQCN(), 20, 4e-6),
        (DCQCN(), 64, 85e-6),
        (tuned, 10, 4e-6),
        (tuned, 10, 85e-6),
    ):
        network = Network.dumbbell("40 Gb/s", [rtt] * flows, packet_size=1000)
        try:
            queue = protocol.equilibrium(network).queue
            assert queue is not None
            rest = float(queue[0]) / 40e3
        except EccError:
            rest = np.nan
        found = late(protocol, network, 0.2, 1e-5)
        row(protocol.max_threshold / 1000, protocol.rate_ai / 1e6, flows, 1e6 * rtt, rest, *found)


def patched() -> None:
    """Numbers of flows with which patched TIMELY is stable, over the RTT without queues; and noise."""
    row("RTT [us]", "least stable", "most stable")
    for rtt in (1e-6, 10e-6, 30e-6, 45e-6):
        stable = [n for n in range(1, 41) if _is_stable(Network.dumbbell("10 Gb/s", [rtt] * n, packet_size=16_000))]
        row(1e6 * rtt, min(stable), max(stable))
    row("flows", "jitter [us]", "mean queue [us]", "standard deviation [us]", "goodput", "Jain's index")
    for flows in (2, 10):
        for jitter in (0.0, 10e-6, 50e-6, 100e-6):
            mean, spread, _, _, used, index = late(
                PatchedTIMELY(), dumbbell("10 Gb/s", [10e-6] * flows, 16_000, 1e-3), 0.3, 1e-5, jitter
            )
            row(flows, 1e6 * jitter, mean, spread, used, index)


def _is_stable(network: Network) -> bool:
    try:
        return bool(ecc.linearize(PatchedTIMELY(), network).is_stable)
    except EccError:
        return False


def timely() -> None:
    """Swings of TIMELY."""
    row("flows", "mean queue [us]", "least", "largest", "goodput", "Jain's index")
    for flows in (2, 10, 30):
        found = late(TIMELY(), dumbbell("10 Gb/s", [10e-6] * flows, 1000, 1e-3), 0.3, 1e-5)
        row(flows, found[0], *found[2:])


def dctcp() -> None:
    """Shares of DCTCP with two RTTs."""
    row("RTTs [us]", "goodput [Gb/s]", "ratio")
    pair: dict[str, Protocol] = {
        "flows": DCTCP(transport="sack", initial=10.0),
        "links": StepMarking(threshold=40.0, packet_size=1500),
    }
    for longer in (100e-6, 200e-6, 400e-6):
        network = Network.dumbbell("10 Gb/s", [100e-6, longer], packet_size=1500, starts=[0.0, 3e-5])
        run = ecc.packet.simulate(Scenario(network, pair, 0.6), sample=1e-4)
        got = run.goodput[len(run.goodput) // 2 :].mean("time").to_numpy() / 1e9
        row(f"100, {1e6 * longer:g}", ", ".join(f"{one:.2f}" for one in got), float(got[0] / got[1]))


@dataclass(frozen=True)
class FineDCTCP(DCTCP):
    """DCTCP in congestion avoidance whose packets are parts of one: windows grow by as many parts in an RTT.

    Parameters
    ----------
    parts : float
        Of a packet.
    g, transport, initial, receiver_window, min_rto, initial_rto, L
        As of `DCTCP`.
    """

    parts: float = 1.0

    def params(self) -> dict[str, float]:
        return {"parts": self.parts, **super().params()}

    def flow_hooks(self) -> dict[str, Hook]:
        return super().flow_hooks() | {"on_ack": _on_ack_of_parts}


def _on_ack_of_parts(flow: Any, header: Any, p: Params, env: FlowEnv) -> None:
    before = env.window
    flow.ssthresh = min(flow.ssthresh, before)
    on_ack_of_dctcp(flow, header, p, env)
    if env.window > before:
        env.window = before + p.parts * (env.window - before)


def granularity() -> None:
    """DCTCP's long flow of a parking lot, from starts at random, over the size of packets, and as fluid."""
    row(
        "engine",
        "parts of a packet",
        "runs",
        "rate of the long flow [Gb/s]: least",
        "mean",
        "largest",
        "rates of all",
        "share of its time that a queue is beyond K",
    )
    for parts, engine in ((1, ecc.packet), (2, ecc.packet), (4, ecc.packet), (8, ecc.packet), (1, ecc.fluid)):
        rng, rates, beyond = np.random.default_rng(1), [], []
        for _ in range(24 if engine is ecc.packet else 8):
            starts = rng.uniform(0.0, 3e-4, 3).tolist()
            size = 1000 // parts
            network = Network.parking_lot(["10 Gb/s"] * 2, delay="5 us", starts=starts, packet_size=size)
            pair = {
                "flows": FineDCTCP(transport="sack", initial=10.0 * parts, parts=parts)
                if engine is ecc.packet
                else DCTCP(transport="sack", initial=10.0),
                "links": StepMarking(threshold=40.0 * parts, packet_size=size),
            }
            run = engine.simulate(Scenario(network, pair, 60e-3), sample=1e-5)
            third = len(run.queue) // 3
            rates.append(run.rate[third:].mean("time").to_numpy() / 1e9)
            beyond.append(float((run.queue[third:].to_numpy() > 40e3).any(axis=1).mean()))
        found = np.array(rates)
        row(
            "packets" if engine is ecc.packet else "fluid",
            parts,
            len(found),
            float(found[:, 0].min()),
            float(found[:, 0].mean()),
            float(found[:, 0].max()),
            float(found.sum(axis=1).mean()),
            float(np.mean(beyond)),
        )


def theta() -> None:
    """theta-PowerTCP's rates and largest mean queue on the fat tree over the size of packets, and as fluid."""
    protocol = ThetaPowerTCP(base_rtt="40 us", line_rate="10 Gb/s", least_current=0.5)
    row("engine", "packet [bytes]", "rates of all [Gb/s]", "queue [us]")
    for size, engine in (
        (1000, ecc.packet),
        (500, ecc.packet),
        (250, ecc.packet),
        (125, ecc.packet),
        (1000, ecc.fluid),
    ):
        run = engine.simulate(Scenario(fat_tree(size), protocol, 4e-3), sample=1e-5)
        half = len(run.queue) // 2
        queue = float(run.queue[half:].mean("time").max()) * 8e6 / 10e9
        name = "packets" if engine is ecc.packet else "fluid"
        row(name, size, float(run.rate[half:].mean("time").sum()) / 1e9, queue)


def fat_tree(packet_size: int) -> Network:
    """Return a fat tree of 16 hosts with a permutation, ACKs over pure delays.

    Parameters
    ----------
    packet_size : int, bytes
    """
    demands = permutation(16, seed=3, packet_size=packet_size)
    return Network.fat_tree(4, demands, "10 Gb/s", "3 us", buffer="1 MB", host_buffer="8 MB", ack_links=False)


def fluid() -> None:
    """Fluid runs beside packets, at 10 Gb/s: rates of all flows together, and the longest mean queue of a link."""
    starts = [0.0, 31.7e-6, 57.41e-6, 101.93e-6]
    networks = {
        "dumbbell": Network.dumbbell("10 Gb/s", [40e-6] * 4, packet_size=1000, buffer="1 MB", starts=starts),
        "parking lot": Network.parking_lot(["10 Gb/s"] * 2, delay="5 us", starts=starts[:3]),
        "fat tree": fat_tree(1000),
    }
    ramp = RampMarking(packet_size=1000, min_threshold=10.0, max_threshold=40.0)
    swift = Swift(base_target="60 us", hop_scaling="2 us", fs_range="50 us")
    protocols: dict[str, tuple[Protocol | dict[str, Protocol], float]] = {
        "DCTCP": ({"flows": DCTCP(transport="sack", initial=10.0), "links": StepMarking(threshold=40.0)}, 8e-3),
        "DCQCN": (DCQCN(line_rate="10 Gb/s"), 20e-3),
        "TIMELY": (TIMELY(delta="50 Mb/s", floor=1.0), 20e-3),
        "patched TIMELY": (PatchedTIMELY(delta="50 Mb/s", floor=1.0), 40e-3),
        "Swift": (swift, 8e-3),
        "HPCC": (HPCC(base_rtt="40 us", line_rate="10 Gb/s", w_ai=300), 20e-3),
        "PowerTCP": (PowerTCP(base_rtt="40 us", line_rate="10 Gb/s"), 20e-3),
        "theta-PowerTCP": (ThetaPowerTCP(base_rtt="40 us", line_rate="10 Gb/s", least_current=0.5), 20e-3),
        "NSCC": ({"flows": NSCC("10.1 Gb/s", "40 us", trimming=False), "links": ramp}, 8e-3),
    }
    row(
        "network",
        "protocol",
        "rate, fluid [Gb/s]",
        "packets",
        "difference",
        "queue, fluid [us]",
        "packets",
        "difference",
        "RTT, difference",
        "a flow's rate, largest difference [Gb/s]",
    )
    for (place, network), (name, (protocol, duration)) in product(networks.items(), protocols.items()):
        found = []
        for engine in (ecc.fluid, ecc.packet):
            run = engine.simulate(Scenario(network, protocol, duration), sample=1e-5)
            assert run.is_complete, run.stats["stopped"]
            half = len(run.queue) // 2
            queues = run.queue[half:].mean("time").to_numpy() * 8e6 / network.capacities
            found.append((run.rate[half:].mean("time").to_numpy() / 1e9, float(queues.max())))
        (x, waits), (y, packets) = found
        rtt = 1e6 * float(network.rtts.mean())
        row(
            place,
            name,
            float(x.sum()),
            float(y.sum()),
            f"{x.sum() / y.sum() - 1.0:+.1%}",
            waits,
            packets,
            f"{waits / packets - 1.0:+.0%}",
            f"{(waits + rtt) / (packets + rtt) - 1.0:+.1%}",
            float(np.abs(x - y).max()),
        )


TABLES = {
    "dcqcn": dcqcn,
    "patched": patched,
    "timely": timely,
    "dctcp": dctcp,
    "granularity": granularity,
    "theta": theta,
    "fluid": fluid,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or TABLES:
        TABLES[name]()
