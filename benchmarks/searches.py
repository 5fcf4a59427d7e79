"""Cost of searches for stability limits: `python benchmarks/searches.py`.

Each row is one search, with its CPU seconds and its work in counts: linear models, evaluations of all laws of hosts
over queue disciplines, and counts of unstable roots along a contour. Counts are the same on every machine.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ecc
from ecc.linear import argument_principle, black_box_family, systems
from ecc.linear.empty_queue import empty_queue_bound
from ecc.loops.marked_equations import MarkedLoop
from ecc.models import CUBIC, DCTCP, RCP, XCP
from ecc.queues import PI2, RampMarking
from ecc.stability import gains

TEN = ecc.Network.dumbbell("100 Mb/s", ["100 ms"] * 10)
COUNTED = [
    (gains, "linearize", "models"),
    (MarkedLoop, "moves", "evaluations"),
    (argument_principle, "count_right", "root counts"),
    (systems, "unstable_roots", "root counts by a border"),
    (black_box_family, "unstable_of", "root counts of members"),
]


@contextmanager
def counting() -> Iterator[dict[str, int]]:
    """Count the calls of some functions."""
    calls = dict.fromkeys((label for *_, label in COUNTED), 0)
    before = []

    def counted(function: Callable[..., Any], label: str) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            calls[label] += 1
            return function(*arguments, **keywords)

        return call

    for place, name, label in COUNTED:
        function = getattr(place, name)
        modules = [module for key, module in sys.modules.items() if key.startswith("ecc.linear.")]
        importers = [module for module in modules if module.__dict__.get(name) is function and module is not place]
        for holder in (place, *importers):
            before.append((holder, name, function))
            setattr(holder, name, counted(function, label))
    try:
        yield calls
    finally:
        for holder, name, function in before:
            setattr(holder, name, function)


def search(protocol: Any, network: ecc.Network, parameter: str, time: str = "continuous") -> Callable[[], Any]:
    """Return a search for the stability limit of a parameter."""
    return lambda: gains.critical_gain(protocol, network, parameter, time)


def spread(number: int) -> ecc.Network:
    """Return a link with flows of different RTTs from 20 to 200 ms."""
    return ecc.Network.dumbbell("1 Gb/s", [0.02 + 0.18 * i / (number - 1) for i in range(number)])


def main() -> None:
    """Print one line per search."""
    wide = {rtt: ecc.Network.dumbbell("1 Gb/s", ["100 ms", rtt]) for rtt in ("1 s", "10 s", "100 s")}
    cases = {
        "CUBIC over PI2, links.beta": search({"flows": CUBIC(), "links": PI2()}, TEN, "links.beta"),
        "DCTCP, links.max_threshold": search({"flows": DCTCP(), "links": RampMarking()}, TEN, "links.max_threshold"),
        **{
            f"RCP, RTTs 100 ms and {rtt}, discrete": search(RCP(), net, "alpha", "discrete")
            for rtt, net in wide.items()
        },
        **{f"XCP, {number:,} different RTTs": search(XCP(), spread(number), "alpha") for number in (20, 80, 320, 1000)},
        **{
            f"margins of XCP, {number:,} different RTTs": ecc.linearize(XCP(), spread(number)).margins
            for number in (10, 40, 1000)
        },
        "empty queue, RTTs 100 ms and 1000 s": lambda: empty_queue_bound(0.4, [0.1, 1000.0]),
    }
    ecc.linearize(RCP(), TEN)  # imports
    for name, run in cases.items():
        with counting() as calls:
            start = time.process_time()
            run()
            seconds = time.process_time() - start
        print(f"{name:42s}{seconds:8.2f} s   " + "   ".join(f"{label} {n:,}" for label, n in calls.items()), flush=True)


if __name__ == "__main__":
    main()
