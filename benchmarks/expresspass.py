"""ExpressPass in packets: one link, chains of links, and many hosts that send to one.

    python benchmarks/expresspass.py [map | one | chain | incast]

prints the tables of docs/expresspass.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from data_centers import row

import ecc
from ecc.models import DCTCP, ExpressPass
from ecc.network.demands import incast
from ecc.network.network import Network
from ecc.queues import StepMarking
from ecc.scenario import Scenario

CAPACITY, SIZES = 10e9, (76, 92)
FOR_DATA = CAPACITY * 1538 / 1622


def apart(n: int, rtt: float) -> list[float]:
    """Starts that are no multiples of each other."""
    return [rtt * k**0.7 for k in range(n)]


def cycles() -> None:
    """What flows that move together do, by fractions, with losses that are known at once and an RTT later."""
    row("flows", "delay [RTTs]", "length [RTTs]", "low", "high", "w", "sum", "differences", "holds")
    for flows in (2, 4, 10, 40, 1000):
        for delay in (0, 1):
            found = ExpressPass().cycle(flows, delay)
            row(flows, delay, found.rtts, *(f"{float(value):.4g}" for value in found[1:6]), found.holds)


def run(network: Network, duration: float, samples: int) -> ecc.packet.Run:
    """A run with what is recorded of flows."""
    scenario = Scenario(network, ExpressPass(), duration)
    return ecc.packet.simulate(scenario, sample=duration / samples, record=["flow.w", "flow.x"])


def data(found: ecc.packet.Run) -> np.ndarray:
    """Rates of data in the second half of a run, by sample and flow [bit/s]."""
    return found.goodput[len(found.goodput) // 2 :].to_numpy() * 1538 / 84


def jain(rates: np.ndarray) -> np.ndarray:
    """Jain's index over the last axis."""
    return rates.sum(axis=-1) ** 2 / (rates.shape[-1] * (rates**2).sum(axis=-1))


def one() -> None:
    """Equal flows on one link, 5,000 RTTs, the second half."""
    row(
        "RTT [us]",
        "flows",
        "credits [bytes]",
        "of the link",
        "Jain, all",
        "Jain, 25 RTTs",
        "S",
        "w",
        "credits lost [%]",
    )
    for rtt in (40e-6, 400e-6):
        for flows in (2, 4, 10, 40):
            for sizes in (84, SIZES):
                network = Network.dumbbell(CAPACITY, [rtt] * flows, starts=apart(flows, rtt))
                found = run(ExpressPass.on(network, credit_size=sizes), 5000 * rtt, 200)
                rates, half = data(found), len(found.rate) // 2
                lost = found.flows["lost"].sum() / (found.flows["lost"].sum() + found.flows["delivered"].sum())
                total = found.data["flow.x"][half:].sum("flow").mean().item() / ExpressPass().max_rate
                row(
                    round(1e6 * rtt),
                    flows,
                    sizes,
                    f"{rates.mean(axis=0).sum() / FOR_DATA:.3f}",
                    f"{jain(rates.mean(axis=0)):.3f}",
                    f"{jain(rates).mean():.2f}",
                    f"{total:.2f}",
                    f"{found.data['flow.w'][half:].mean().item():.3f}",
                    f"{100 * lost:.0f}",
                )


def chain() -> None:
    """A flow over several links, and one over each: rates as shares of what data can have of a link."""
    row(
        "links",
        "credits [bytes]",
        "delay [us]",
        "flow over all",
        "others, least",
        "others, most",
        "its credits lost [%]",
        "theirs [%]",
    )
    for links in (1, 2, 3, 5):
        for sizes in (84, SIZES):
            for delay in (5e-6, 50e-6):
                starts = apart(links + 1, 2 * delay)
                network = Network.parking_lot([CAPACITY] * links, delay, starts=starts)
                found = run(ExpressPass.on(network, credit_size=sizes), 10_000 * delay * links, 100)
                shares = data(found).mean(axis=0) / FOR_DATA
                lost = 100 * found.flows["lost"] / (found.flows["lost"] + found.flows["delivered"])
                row(
                    links,
                    sizes,
                    1e6 * delay,
                    *(f"{x:.2f}" for x in (shares[0], shares[1:].min(), shares[1:].max())),
                    f"{lost[0]:.1f}",
                    f"{lost[1:].mean():.1f}",
                )


def many() -> None:
    """Flows of 1 MB to one host of a fat tree: the largest queue of data, what is dropped, and when all is there."""
    row("senders", "protocol", "largest queue [kB]", "dropped packets of data", "flows that end", "the last [ms]")
    for senders in (15, 60, 120):
        demands = incast([1 + k % 15 for k in range(senders)], 0, size="1 MB")
        given = Network.fat_tree(4, demands, CAPACITY, "1 us", buffer="250 kB", host_buffer="10 MB")
        cases: Sequence[tuple[str, object, Network]] = (
            ("ExpressPass", ExpressPass(), ExpressPass.on(given, credit_size=SIZES)),
            (
                "DCTCP",
                {
                    "flows": DCTCP(transport="sack", min_rto=1e-3, initial_rto=5e-3),
                    "links": StepMarking(threshold=65.0),
                },
                given,
            ),
        )
        for name, protocol, network in cases:
            found = ecc.packet.simulate(Scenario(network, protocol, 0.3), sample=1e-3)
            switches = slice(16, given.n_links)
            row(
                senders,
                name,
                f"{found.queue_max[:, switches].max().item() / 1e3:.1f}",
                int(found.drops[:, : given.n_links].sum()),
                int(found.flows["finish"].notna().sum()),
                f"{1e3 * found.flows['finish'].max():.1f}",
            )


def main(arguments: Sequence[str]) -> None:
    """Print what is asked for, or all."""
    tables = {"map": cycles, "one": one, "chain": chain, "incast": many}
    for name in arguments or tables:
        tables[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
