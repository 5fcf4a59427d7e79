"""What lateness alone does to a live run: its nodes, its frames, and no kernel.

    python benchmarks/live_lateness.py [PROTOCOL ...]    default: PEDN

runs the dumbbell of live_runs.py (100 Mb/s, RTTs of 40 and 60 ms, 8 s; part of the delays is on the access lines) in
virtual time: an engine for each node of a live run, and each packet from one to another is written as the bytes of its
frame and read from them, with headers of the precision of the wire. Frames are as late as said:

    never      not at all, which gives the simulation
    any        by up to 20 us, whatever came before
    first      the first of a train by 8 to 16 us, those behind it by 4 to 6 us, as in live runs at full speed
    others     the first of a train by 4 to 6 us, those behind it by 8 to 16 us

A train begins where no frame was due for 0.2 ms. Printed are goodputs from 3.2 to 8 s.
"""

import heapq
import struct
import sys

import numpy as np

import ecc
from ecc.live.nodes import links_between, nodes, prepared_for_links
from ecc.models import all_protocols
from ecc.native import Frames, Port, Team
from ecc.packet.c_engine import build_parts, joints_of
from ecc.packet.frames import formats
from ecc.packet.prepare import prepare, sample_width

IDLE = 200_000_000
"""ps before a train."""
US = 1_000_000
"""ps."""


def never(_):
    """Lateness of the next frame [ps], by whether it is the first of a train."""
    return lambda is_first: 0


def at_random(rng):
    """Whatever came before."""
    return lambda is_first: int(rng.integers(20 * US))


def first(rng):
    """The first of a train is late."""
    return lambda is_first: int(rng.uniform(8, 16) * US if is_first else rng.uniform(4, 6) * US)


def others(rng):
    """Those behind it are."""
    return lambda is_first: int(rng.uniform(4, 6) * US if is_first else rng.uniform(8, 16) * US)


class Wire:
    """Frames on their way between two nodes, in one direction, by the time at which they are due."""

    def __init__(self, source, sink, late):
        self.source, self.sink, self.late = source, sink, late
        self.ports = Port(b"\x02aaaaa", b"\x02bbbbb"), Port(b"\x02bbbbb", b"\x02aaaaa")
        self.waiting, self.number, self.due, self.came = [], 0, -IDLE, 0

    def take(self, crossings, size):
        """What has left the first node."""
        for at in range(0, len(crossings), size):
            one = crossings[at : at + size]
            self.number += 1
            heapq.heappush(self.waiting, (struct.unpack_from("<q", one)[0], self.number, one))

    def deliver(self, before):
        """Frames that are due before a time [ps] enter the second node, none before another."""
        (_, frames), (sink, reads) = self.source, self.sink
        while self.waiting and self.waiting[0][0] < before:
            due, _, crossing = heapq.heappop(self.waiting)
            verdict, read = reads.read(self.ports[1], frames.write(self.ports[0], crossing))
            assert verdict == "taken", verdict
            self.came = max(self.came, due + self.late(due - self.due > IDLE))
            self.due = due
            sink.enter(struct.pack("<q", self.came) + read[8:])


def goodput(scenario, late, settled=0.4):
    """Mean of each flow after a share of the run [Mb/s]."""
    setup, period = prepared_for_links(prepare(scenario)), scenario.sample_period(None)
    of = joints_of(setup)
    parts = nodes(of, setup)
    setups = [setup, *(prepared_for_links(prepare(scenario)) for _ in range(int(parts.max())))]
    engines, partition, _ = build_parts(
        setups, scenario, of, parts, sample=sample_width(scenario, period), n_samples=scenario.n_samples(period)
    )
    nodes_of = [(engine, Frames(engine, formats(setup), bytes(16))) for engine in engines]
    ways = [way for a, b in links_between(of, parts) for way in ((a, b), (b, a))]
    wires = {(a, b): Wire(nodes_of[a], nodes_of[b], late) for a, b in ways}
    size, now = nodes_of[0][1].crossing_size, 0
    end, step = round(scenario.duration * 1e12), round(min(engine.lookahead for engine in engines) * 1e12)
    while now < end:
        now = min(now + step, end)
        for wire in wires.values():
            wire.deliver(now)
        for engine in engines:
            engine.advance((now - 1) * 1e-12)
        for (a, b), wire in wires.items():
            wire.take(engines[a].take_leaving(b), size)
    for engine in engines:
        engine.advance(scenario.duration)
    received = Team(engines, partition).samples["received"]
    return 8e-6 * received[round(settled * len(received)) :].mean(axis=0) / period


def main(*names):
    network = ecc.Network.dumbbell("100 Mb/s", rtts=[0.04, 0.06], delay="10 ms", buffer="1.25 MB", packet_size=1500)
    for name in names or ("PEDN",):
        scenario = ecc.Scenario(network, all_protocols()[name](), duration=8.0, seed=1)
        run = ecc.packet.simulate(scenario)
        simulated = run.goodput[round(0.4 * run.data.sizes["time"]) :].mean("time").to_numpy() / 1e6
        print(f"{name}: simulated {simulated.round(2)}, sum {simulated.sum():.2f} Mb/s")
        for label, kind, seeds in (
            ("never", never, 1),
            ("any", at_random, 8),
            ("first", first, 8),
            ("others", others, 8),
        ):
            runs = np.array([goodput(scenario, kind(np.random.default_rng(seed))) for seed in range(seeds)])
            sums = runs.sum(axis=1)
            print(
                f"  late {label:6}: {runs.mean(axis=0).round(2)}, sum {sums.mean():.2f} ({sums.min():.2f} to "
                f"{sums.max():.2f}) Mb/s, {sums.mean() / simulated.sum() - 1:+.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
