"""What XCP does in T1 and T2 as JETMAX states them: `python tests/oracle/xcp_in_T1_and_T2.py [--seeds N]`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
from xcp_against_ns2 import CASES, Outcome, here, in_ns2, mean

VARIANTS: dict[str, Callable[..., Outcome]] = {
    "d of all RTTs": here,
    "RTTs above 1 s count as 1 s in d": partial(here, rtt_limit=1.0),
    "the same in ns-2, no timeouts": partial(in_ns2, rto=10.0),
    "the same in ns-2, least timeout 0.2 s": partial(in_ns2, rto=0.2),
    "interval from 10 to 500 ms": partial(here, least_interval=0.01, largest_interval=0.5),
    "d the largest RTT": partial(here, rtt="max"),
    "paced": partial(here, paced=True),
}


def main() -> None:
    """Print a row a variant, means over seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4)
    seeds = range(1, parser.parse_args().seeds + 1)
    for name in ("T1", "T2"):
        case = CASES[name]
        fair = case.network.links[0].capacity / case.network.n_flows
        print(
            f"\n| {name} | {' | '.join(f'{who} / fair share' for who in case.groups)} | load | swing of the load "
            "| mean queue [kB] | fair after [s] |\n|" + "---|" * (len(case.groups) + 5)
        )
        for variant, run in VARIANTS.items():
            outcomes = [run(case, seed) for seed in seeds]
            seen = mean(outcomes)
            shares = " | ".join(f"{rate / fair:.2f}" for rate in seen.rates.values())
            after = np.array([one.fair_after for one in outcomes])
            when = "-" if np.isinf(after).any() else f"{after.min():.0f} to {after.max():.0f}"
            print(
                f"| {variant} | {shares} | {seen.load:.1%} | {seen.swing:.1%} | {seen.queue[0] / 1e3:.1f} | {when} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
