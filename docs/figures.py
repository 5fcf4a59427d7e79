"""Draws the figures of these pages: pictures of claims, and those of examples.

    python docs/figures.py empty_queue first_example    # or all of them, without names

Plotly's `write_image` must be available (pip install kaleido). Findings are those of `ecc reproduce`, in its store, and
are computed where it has none. Other figures of runs, and those of speed, have commands of their own, which their pages
name.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import plotly.graph_objects as go

from ecc._support.store import Store
from ecc.claims.crosscheck import describe, examine
from ecc.claims.ledger import claims

FIGURES = {
    "abc_varying": ("abc-varying", "Goodput and queueing delay on links with varying capacity"),
    "bbr_fairness": ("bbr-cubic-oscillation", "Shares of BBR against CUBIC"),
    "conformance_probe_rtt": ("bbr-probe-rtt", "BBR: ProbeRTT"),
    "compound_stability": ("compound-hopf", "Fluid model of Compound on both sides of its stability limit"),
    "cubic_stability": ("cubic-stable", "Fluid model of CUBIC inside and outside its basin of attraction"),
    "data_centers_dcqcn": ("dcqcn-margin", "DCQCN's critical delay"),
    "data_centers_timely": ("patched-stable", "Phase margin of patched TIMELY"),
    "empty_queue": ("open-empty-queue", "RCP and XCP at an empty queue, equal RTTs"),
    "gain_design_cost": ("open-gains", "Settling time and peak queue"),
    "gain_design_decay": ("open-gains", "Decay over the gain"),
    "hopf_bifurcation": ("open-hopf", "Periodic orbits about the boundary, RTT 100 ms"),
    "media_two_calls": ("rfc8867-two", "NADA: Two calls"),
    "networks_cycle": ("open-tu", "RCP in T_u: limit cycle and stable equilibrium"),
    "networks_t_u": ("open-networks", "RCP in T_u: critical beta of l1"),
    "rtt_estimates_ratio": ("open-estimates", "Critical estimate of d"),
    "rtt_estimates_tiny": ("open-tiny", "RTTs below the control interval"),
    "starvation_paths": ("starvation", "Delays of two flows of Copa that starve"),
    "swift_cycle": ("swift-cut", "Swing of ten flows of Swift over beta"),
    "swift_region": ("swift-region", "RTTs for which Swift keeps a link busy"),
    "swift_scaling": ("swift-scaling", "Queue of Swift over the number of flows"),
    "bbr_cycle": ("open-bbr-cycle", "Differences of the shares of two BBR flows"),
    "tcp_sawtooth": ("open-sawtooth", "Losses of two flows of NewReno over the ratio of their RTTs"),
    "varying_loss": ("open-varying", "EMKC: minimum loss for stability under all delays"),
    "varying_ranges": ("open-jitter", "The worst sequence of RTTs found"),
    "xcp_rtt_ratio": ("open-regions", "XCP: largest RTT over mean RTT"),
}
"""File of a figure: the claim and the title of its picture."""
EXAMPLES = {
    "access_link": "docs/access_link.md",
    "access_link_knobs": "docs/access_link.md",
    "basins_map": "docs/basins.md",
    "bbr_states": "docs/bbr.md",
    "conformance_deviation": "docs/conformance.md",
    "copa_cycle": "docs/prague_and_copa.md",
    "delay_systems_chart": "docs/delay_systems.md",
    "delay_pi_region": "docs/delay_systems.md",
    "delay_pi_steps": "docs/delay_systems.md",
    "first_example": "README.md",
    "fabrics_incast": "docs/fabrics.md",
    "gallery_map": "docs/gallery.md",
    "gallery_roots": "docs/gallery.md",
    "gallery_agreement": "docs/gallery.md",
    "gallery_dde": "docs/gallery.md",
    "gallery_bbr": "docs/gallery.md",
    "gallery_dctcp": "docs/gallery.md",
    "gallery_slowdown": "docs/gallery.md",
    "gallery_capture": "docs/gallery.md",
    "gallery_ledger": "docs/gallery.md",
    "media_gcc": "docs/media.md",
    "media_ramp_up": "docs/media.md",
    "nscc_cycle": "docs/nscc.md",
    "qlog": "docs/qlog.md",
    "paths_elements": "docs/paths.md",
    "prague_cubic": "docs/prague_and_copa.md",
    "telemetry_theta": "docs/telemetry.md",
    "telemetry_paced": "docs/telemetry.md",
    "train_a_controller": "docs/train_a_controller.md",
    "tutorial_control": "docs/tutorial_control.md",
}
"""File of a figure: the page that shows it after the Python block that ends with this `figure`; README, before it."""
HEIGHTS = {"access_link": 800, "bbr_states": 590, "qlog": 590}
"""Pixels, of figures with more panels than two."""
SIZE = {"width": 900, "scale": 2}
"""Twice the pixels of the width: most screens show two or three for each pixel of a page."""


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
    for name in EXAMPLES:
        if name in names:
            example(name).write_image(folder / f"{name}.png", **SIZE, height=HEIGHTS.get(name, 480))
    of_claims = [name for name in names if name not in EXAMPLES]
    outcome = examine(
        [claims()[claim] for claim in dict.fromkeys(FIGURES[name][0] for name in of_claims)], jobs, store=store
    )
    if outcome.failures:
        raise SystemExit(describe(outcome.failures))
    pictures = {(found.claim.id, one.title): one.figure for found in outcome.findings for one in found.pictures}
    for name in of_claims:
        go.Figure(pictures[FIGURES[name]]).write_image(folder / f"{name}.png", **SIZE, height=480)


def example(name: str) -> go.Figure:
    """Return the figure of an example of a page, by running its block.

    Parameters
    ----------
    name : str
        Of the figure.
    """
    scope: dict[str, object] = {}
    exec(compile(block(name), EXAMPLES[name], "exec"), scope)
    return go.Figure(scope["figure"])


def block(name: str) -> str:
    """Return the block of Python before the picture of an example, or the first after it if there is none before.

    Parameters
    ----------
    name : str
        Of the figure.
    """
    text = (Path(__file__).parents[1] / EXAMPLES[name]).read_text(encoding="utf-8")
    before, after = (
        re.findall(r"^```python\n(.*?)^```$", part, re.MULTILINE | re.DOTALL) for part in text.split(f"{name}.png)", 1)
    )
    return before[-1] if before else after[0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = [*FIGURES, *EXAMPLES]
    parser.add_argument("names", nargs="*", choices=[[], *known], metavar="NAME", help=", ".join(known))
    parser.add_argument("--store", type=Path, help="of results; the user's if not given")
    given = parser.parse_args()
    draw(given.names or known, Path(__file__).parent, Store(given.store or Store.of_user()))
