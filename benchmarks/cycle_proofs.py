"""Cycles in rounds that interval arithmetic proves: on single networks, and their share of ranges of networks.

    python benchmarks/cycle_proofs.py [networks] [ranges]

Prints the tables of docs/cycle_proofs.md. Networks take a minute of CPU time, ranges about five.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import ecc
from ecc.cycles.cycle_proofs import rounds_of
from ecc.cycles.orbit_proofs import prove_rounds
from ecc.cycles.reference_cases import cycle_case
from ecc.errors import ConvergenceError
from ecc.stability import cover_cycles

SMALL = ("1 Mb/s", "80 ms", "8 kB")
LARGE = ("10 Mb/s", "100 ms", "125 kB")


def cases() -> Iterator[tuple[str, Any, ecc.Network]]:
    """Yield a text, a loop and its network."""
    for name in ("SPERC", "ExpressPass", "Vivace", "DCTCP", "Prague"):
        loop, network = cycle_case(getattr(ecc.models, name)())
        yield f"{name}, reference network", loop, network
    for capacity, rtt, buffer in (SMALL, LARGE):
        for name in ("NewReno", "CUBIC", "BIC", "Compound"):
            for flows in (1, 2):
                network = ecc.Network.dumbbell(capacity, rtts=[rtt] * flows, buffer=buffer)
                yield f"{name}, {flows} flow{'s'[: flows - 1]}, {capacity}", getattr(ecc.models, name)(), network


def networks() -> None:
    """Print the proofs on single networks."""
    print("| protocol and network | rounds | proven | largest multiplier | CPU time |\n|---|---|---|---|---|")
    for text, loop, network in cases():
        began = time.process_time()
        try:
            form = rounds_of(loop, network)
        except ConvergenceError:
            print(f"| {text} | – | no cycle | – | {time.process_time() - began:.1f} s |")
            continue
        proof = prove_rounds(form)
        verdict = {True: "stable", False: "unstable", None: "undecided"}[proof.multipliers_inside]
        size = "–" if not proof.exists else "0 (dead beat)" if proof.dead_beat else f"{abs(proof.multipliers[0]):.4f}"
        print(f"| {text} | {form.rounds} | {verdict} | {size} | {time.process_time() - began:.1f} s |", flush=True)
        if proof.reason:
            print(f"  {proof.reason}")


def ranges(boxes: int = 250) -> None:
    """Print shares of ranges at 1 Mb/s: of RTTs with a buffer of 8 packets, and of RTTs and buffers."""
    print("| protocol | RTT | buffer | proven stable | boxes with a proof | largest multiplier | CPU time |")
    print("|---|---|---|---|---|---|---|")
    names = ("NewReno", "Compound", "CUBIC")
    rows: list[tuple[str, int, tuple[str, str], Any, int]] = [
        (name, flows, ("40 ms", "80 ms"), "8 kB", boxes) for name in names for flows in (1, 2)
    ]
    rows += [("NewReno", flows, ("40 ms", "50 ms"), ("4 kB", "5 kB"), 4 * boxes) for flows in (1, 2)]
    for name, flows, rtt, buffer, number in rows:
        began = time.process_time()
        cover = cover_cycles(name, "1 Mb/s", rtt, buffer, flows, max_boxes=number)
        spent = time.process_time() - began
        extent = buffer if isinstance(buffer, str) else " to ".join(buffer)
        place = f"{name}, {flows} flow{'s'[: flows - 1]} | {' to '.join(rtt)} | {extent}"
        share = f"{100.0 * cover.stable:.1f} % | {len(cover.proofs)} | {cover.max_multiplier:.4f}"
        print(f"| {place} | {share} | {spent:.0f} s |", flush=True)


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["networks", "ranges"]
    for part in chosen:
        {"networks": networks, "ranges": ranges}[part]()
