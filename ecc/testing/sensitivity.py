"""An opt-in check of single trajectories: does a change of delays far below any accuracy change the result?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ecc._support.arguments import check_arguments
from ecc._support.quantity import as_number
from ecc.results.trajectory import Trajectory
from ecc.scenario import Scenario

__all__ = ["check_sensitivity"]

SENSITIVE = 0.01
"""Relative change of a flow's goodput above which a run is called sensitive."""


@check_arguments
def check_sensitivity(
    scenario: Scenario, simulate: Callable[..., Trajectory], change: float = 1e-6, **options: Any
) -> Trajectory:
    """Return a run, with a note if a tiny change of all delays changes the rates of flows.

    The scenario runs twice, the second time with all delays of links longer by a relative change of 1e-6. A run is
    sensitive if the goodput of a flow, averaged over the second half of the run, then differs by more than 1 % of the
    largest goodput. Runs are sensitive if they are chaotic, if a flow may settle in one of several states, or if single
    losses decide for a long time which flow is faster. One such trajectory is not conclusive: average over several.

    Parameters
    ----------
    scenario : Scenario
    simulate : callable
        `ecc.fluid.simulate` or `ecc.packet.simulate`.
    change : float, > 0, optional
        Relative change of the delays.
    **options : object
        Options of `simulate`, for example `sample`.

    Returns
    -------
    Trajectory
        The first run. `stats["sensitivity"]` has the difference of the goodputs as a share of the largest one.

    Raises
    ------
    ValueError
        If no link has a delay > 0.

    Notes
    -----
    The distribution of a sensitive result is that of an ensemble with members that differ in unknown details, for
    example the seed, the starts of flows, or the last digits of delays (`ecc.fluid.ensemble`).

    Examples
    --------
    >>> import ecc
    >>> network = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05])
    >>> run = check_sensitivity(ecc.Scenario(network, ecc.models.RCP(), 5.0), ecc.fluid.simulate)
    >>> run.stats["sensitivity"] < 1e-6, run.notes
    (True, ())
    """
    factor = 1.0 + as_number(change, "change", positive=True)
    network = scenario.network
    if not any(link.delay > 0.0 for link in network.links):
        raise ValueError("links must have a delay > 0 s for one of them to be changed, got 0 s for all")
    links = [replace(link, delay=link.delay * factor) for link in network.links]
    run = simulate(scenario, **options)
    other = simulate(scenario.with_(network=replace(network, links=links, _rtts=None)), **options)
    means = [_late_goodput(each) for each in (run, other)]
    largest = max(float(means[0].max(initial=0.0)), 1e-9)
    difference = float(np.abs(means[1] - means[0]).max(initial=0.0)) / largest
    stats = {**run.stats, "sensitivity": difference}
    if difference > SENSITIVE:
        stats["notes"] = (
            *run.stats["notes"],
            f"the trajectory is sensitive: delays that are longer by a factor of {factor:.9g} change goodputs by "
            f"{100.0 * difference:.2g} % of the largest; it is one of many, and an ensemble gives their distribution",
        )
    return replace(run, stats=stats)


def _late_goodput(run: Trajectory) -> Any:
    """Return the goodput of each flow, averaged over the second half of a run."""
    return run.goodput.to_numpy()[len(run.goodput) // 2 :].mean(axis=0)
