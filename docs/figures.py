"""Draws the figures of these pages that are pictures of claims; needs plotly's `write_image` (pip install kaleido).

    python docs/figures.py empty_queue xcp_rtt_ratio    # or all of them, without names

Findings are those of `ecc reproduce`, in its store, and are computed where it has none. Figures of runs and of speed
have commands of their own, which their pages name.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import plotly.graph_objects as go

from ecc.claims.crosscheck import describe, examine
from ecc.claims.ledger import claims
from ecc.store import Store

FIGURES = {
    "empty_queue": ("open-empty-queue", "RCP and XCP at an empty queue, equal RTTs"),
    "gain_design_cost": ("open-gains", "Settle time and peak queue"),
    "gain_design_decay": ("open-gains", "Decay over the gain"),
    "hopf": ("open-hopf", "Cycles about the boundary, RTT 100 ms"),
    "networks_cycle": ("open-tu", "RCP in T_u: a cycle beside a stable equilibrium"),
    "networks_t_u": ("open-networks", "RCP in T_u: the link that loses first"),
    "rtt_estimates_ratio": ("open-estimates", "How far d may be off"),
    "rtt_estimates_tiny": ("open-tiny", "RTTs below the control interval"),
    "varying_loss": ("open-varying", "EMKC is stable for all delays only beyond this loss"),
    "varying_ranges": ("open-jitter", "The worst sequence of RTTs found"),
    "xcp_rtt_ratio": ("open-regions", "XCP: largest RTT over mean RTT"),
}
"""File of a figure: the claim and the title of its picture."""


def draw(names: Sequence[str], folder: Path, store: Store, jobs: int = 2) -> None:
    """Write figures as PNG.

    Parameters
    ----------
    names : sequence of str
        Of figures.
    folder : Path
        Where they go.
    store : Store
        Of results.
    jobs : int, optional
        Worker processes.
    """
    outcome = examine(
        [claims()[claim] for claim in dict.fromkeys(FIGURES[name][0] for name in names)], jobs, store=store
    )
    if outcome.failures:
        raise SystemExit(describe(outcome.failures))
    pictures = {(found.claim.id, one.title): one.figure for found in outcome.findings for one in found.pictures}
    for name in names:
        go.Figure(pictures[FIGURES[name]]).write_image(folder / f"{name}.png", width=900, height=480)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[[], *FIGURES], metavar="NAME", help=", ".join(FIGURES))
    parser.add_argument("--store", type=Path, help="of results; the user's if not given")
    given = parser.parse_args()
    draw(given.names or list(FIGURES), Path(__file__).parent, Store(given.store or Store.of_user()))
