"""Equilibria and published stability bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.display import Displayed, Rows, value_text

__all__ = ["Bound", "Equilibrium", "EquilibriumSet", "RelayLoop"]


RelayLoop = Callable[[Any], NDArray[np.complex128]]


@dataclass(frozen=True, repr=False)
class Equilibrium(Displayed):
    """A stationary point: `rates` (n_flows,) [bit/s], `fair_rate` (n_links,), `bottleneck` (n_flows,).

    `fair_rate` is the router's R at bottleneck links (often a fair rate [bit/s]), or the announced feedback of a router
    without memory (to a flow at equilibrium, if it differs from flow to flow); infinite at other links. `bottleneck` is
    the link at which each flow is bottlenecked, -1 if feedback is summed over the path. `queue` (n_links,) [bit]; None:
    all are empty. `notes`: remarks, one line each. `states`: state of hosts -> (n_flows,); a state that is missing is
    at its `initial` value.
    """

    rates: NDArray[np.float64]
    fair_rate: NDArray[np.float64]
    bottleneck: NDArray[np.int64]
    queue: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()
    states: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def _rows(self) -> Rows:
        paths = bool(np.all(self.bottleneck < 0))
        return [
            ("rate of each flow", value_text(self.rates, "bit/s")),
            (
                "announced by each link (unit of its protocol)",
                value_text(tuple(float(f"{R:.6g}") for R in self.fair_rate)),
            ),
            ("bottleneck of each flow", "feedback is summed over the path" if paths else value_text(self.bottleneck)),
            ("queue of each link", "empty" if self.queue is None else value_text(self.queue, "bit")),
        ]


@dataclass(frozen=True, repr=False)
class EquilibriumSet(Displayed):
    """A set of equilibria, at each of which a run may stay.

    Attributes
    ----------
    point : Equilibrium
        An equilibrium inside the set, at which laws are differentiated.
    dimension : int
        Number of independent directions along the set. The linear model at `point` has as many roots at 0 (z = 1).
    members : str
        The members of the set, as a clause: "any windows with 1 to 3 packets of each flow queued".
    outside : str
        Effect of the laws next to the set, as a clause.
    stable : bool or None
        False if runs leave the neighborhood of the set because of a law that jumps at it, so that roots of one side do
        not decide; None: the roots transverse to the set decide.
    """

    point: Equilibrium
    dimension: int
    members: str
    outside: str
    stable: bool | None = None

    def _rows(self) -> Rows:
        return [
            ("members", self.members),
            ("dimension", str(self.dimension)),
            ("outside", self.outside),
            ("rate of each flow inside", value_text(self.point.rates, "bit/s")),
        ]


@dataclass(frozen=True)
class Bound:
    """A published stability bound: stable for 0 < `parameter` < `value` under `hypotheses`, or `above` it.

    `kind` is "necessary and sufficient" or "sufficient"; `time` its model; `verdict` the proven property.
    """

    theorem: str
    parameter: str
    value: float
    kind: str
    time: str
    hypotheses: str
    verdict: str = "stable"
    above: bool = False
