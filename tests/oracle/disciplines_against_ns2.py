"""RED, PI, REM and AVQ here and in ns-2: `python tests/oracle/disciplines_against_ns2.py [CASE ...] [--seeds N]`.

Flows of Sack, 1000-byte packets and an RTT of 100 ms, start at random within 5 s on a link of 10 Mb/s with a buffer of
300 packets; means are over 50 to 150 s. Two of ns-2's disciplines differ from the papers that `ecc.queues` follows:

- its RED chooses no packet that finds none waiting (`qlen > 1` in red.cc);
- its Vq adapts its capacity to the packets that it accepts where it drops, and not, as figure 1 of Kunniyur and Srikant
  2001, to all that come.

`REDOfNs2` and `AVQOfNs2` here do the same. ns-2 does not count the packet in service as queued: thresholds and
references are one packet higher here. It also marks with REM as packets leave.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import ns2
import numpy as np
from numpy.typing import NDArray

import ecc
from ecc.contract.env import Hook
from ecc.models import NewReno
from ecc.network.network import Network
from ecc.queues import AVQ, PI, RED, REM, avq, red

CAPACITY, RTT, PACKET, BUFFER = 1e7, 0.1, 1000, 300  # bit/s, s, bytes, packets
UNTIL, SETTLED, PERIOD = 150.0, 50, 1.0  # s; samples of a period; s


class REDOfNs2(RED):
    """RED as in ns-2: no packet is chosen that finds none waiting."""

    def link_hooks(self) -> dict[str, Hook]:
        return {**super().link_hooks(), "on_arrival": spare}


def spare(link: Any, header: Any, p: Any, env: Any) -> None:
    """Choose as RED does, but for a queue of at most the packet in service."""
    red.on_arrival(link, header, p, env)
    if env.queue <= p.packet_size:
        env.drop = env.mark = link.since = 0


class AVQOfNs2(AVQ):
    """AVQ as in ns-2: what is dropped has not come."""

    def link_hooks(self) -> dict[str, Hook]:
        return {**super().link_hooks(), "on_arrival": not_lowered}


def not_lowered(link: Any, header: Any, p: Any, env: Any) -> None:
    """Do as AVQ does, but for the virtual capacity at a drop."""
    avq.on_arrival(link, header, p, env)
    if env.drop != 0:
        link.V = min(link.V + p.alpha * env.packet_size / p.packet_size, env.capacity / (8.0 * p.packet_size))


@dataclass(frozen=True)
class Peer:
    """A discipline here and in ns-2: its class there, its settings, and the one that says to mark."""

    here: Any
    queue: str
    marks: str
    options: Mapping[str, float] = field(default_factory=dict)


_RED = {
    "thresh_": 10,
    "maxthresh_": 50,
    "q_weight_": 0.002,
    "linterm_": 10,
    "gentle_": 1,
    "mean_pktsize_": PACKET,
    "wait_": 0,
    "use_mark_p_": 0,
}
_VQ = {"mean_pktsize_": PACKET, "ecnlim_": 1.0}
PEERS = {
    "RED": Peer(REDOfNs2(min_threshold=11, max_threshold=51), "RED", "setbit_", _RED),
    "RED of 1993": Peer(RED(min_threshold=11, max_threshold=51), "RED", "setbit_", _RED),
    "PI": Peer(PI(reference=51), "PI", "setbit_", {"qref_": 50, "mean_pktsize_": PACKET}),
    "REM": Peer(REM(reference=21), "REM", "markpkts_", {"inw_": 0.02, "mean_pktsize_": PACKET}),
    "AVQ": Peer(AVQOfNs2(buffer=BUFFER), "Vq", "markpkts_", _VQ),
    "AVQ of 2001": Peer(AVQ(buffer=BUFFER), "Vq", "markpkts_", _VQ),
}
CASES = [f"{name} {flows} {signal}" for name in PEERS for flows in (10, 30) for signal in ("drop", "mark")]


@dataclass(frozen=True)
class Outcome:
    """Mean `queue` [packets], `utilization` by goodput, and the `share` of packets dropped or marked."""

    queue: float
    utilization: float
    share: float


def _network(flows: int, seed: int) -> Network:
    starts = np.random.default_rng(seed).random(flows) * 5.0
    return Network.dumbbell(CAPACITY, [RTT] * flows, BUFFER * PACKET, packet_size=PACKET, starts=list(starts))


def here(peer: Peer, flows: int, mark: bool, seed: int) -> Outcome:
    """Return the outcome of the packet engine.

    Parameters
    ----------
    peer : Peer
    flows : int
    mark : bool
    seed : int
    """
    hosts = NewReno(transport="sack", initial=2, ecn=mark)
    protocol = {"flows": {"default": hosts}, "links": {"default": replace(peer.here, mark=mark)}}
    run = ecc.packet.simulate(ecc.Scenario(_network(flows, seed), protocol, UNTIL, seed=seed), sample=PERIOD)
    chosen = run.marks.to_numpy() + run.drops.to_numpy()
    return _outcome(run.queue_mean.to_numpy(), run.goodput.to_numpy(), run.arrival.to_numpy(), chosen)


def in_ns2(peer: Peer, flows: int, mark: bool, seed: int) -> Outcome:
    """Return the outcome of ns-2.

    Parameters
    ----------
    peer : Peer
    flows : int
    mark : bool
    seed : int
    """
    options = [(f"Queue/{peer.queue}", name, value) for name, value in peer.options.items()]
    if mark:
        options += [("Agent/TCP", "ecn_", 1), (f"Queue/{peer.queue}", peer.marks, 1)]
    agents = replace(ns2.SACK, queue=peer.queue, options=(*ns2.SACK.options, *options))
    seen = ns2.run(
        _network(flows, seed), UNTIL, PERIOD, 0.01, seed=seed, tick=0.001, rto=1.0, window=10_000, agents=agents
    )
    return _outcome(seen.queue, seen.goodput, seen.arrival, seen.marks + seen.drops)


def _outcome(queue: Any, goodput: Any, arrival: Any, chosen: Any) -> Outcome:
    late = slice(SETTLED, None)
    return Outcome(
        queue=float(queue[late].mean()) / PACKET,
        utilization=float(goodput[late].sum(axis=1).mean()) / CAPACITY,
        share=float(chosen[late].sum() / (arrival[late].sum() * PERIOD / 8.0 / PACKET)),
    )


def compared(name: str, seeds: int) -> tuple[tuple[Outcome, Outcome], tuple[Outcome, Outcome]]:
    """Return (mean, standard error) of ns-2 and of the engine here.

    Parameters
    ----------
    name : str
        One of CASES.
    seeds : int
        Number of runs, at least 2.
    """
    kind, flows, signal = name.rsplit(" ", 2)
    found = []
    for run in (in_ns2, here):
        rows: NDArray[np.float64] = np.array(
            [
                (one.queue, one.utilization, one.share)
                for one in (run(PEERS[kind], int(flows), signal == "mark", seed) for seed in range(1, seeds + 1))
            ]
        )
        found.append((Outcome(*rows.mean(axis=0)), Outcome(*rows.std(axis=0, ddof=1) / np.sqrt(seeds))))
    return found[0], found[1]


def main() -> None:
    """Print a row a case: ns-2 / here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    print("| case | mean queue [packets] | utilization | share chosen |\n|---|---|---|---|")
    for name in arguments.cases or CASES:
        (theirs, their_error), (ours, our_error) = compared(name, arguments.seeds)
        print(
            f"| {name} | {theirs.queue:.2f} ± {their_error.queue:.2f} / {ours.queue:.2f} ± {our_error.queue:.2f} | "
            f"{theirs.utilization:.2%} / {ours.utilization:.2%} | {theirs.share:.5f} / {ours.share:.5f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
