"""Equilibria and published stability bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.display import Displayed, Rows, value_text

__all__ = ["Bound", "Equilibrium", "RelayLoop"]


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
