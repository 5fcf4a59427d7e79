"""The problem that a fluid model solves: the same record for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.equilibrium import Equilibrium
from ecc.contract.protocol import Protocol
from ecc.fluid.network.groups import FluidNetwork, StepDelays

if TYPE_CHECKING:  # kernels are compiled where there is no SciPy
    from ecc.loops.marked_hosts import MarkingEquilibrium

__all__ = ["Problem"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """Protocols on a network, their initial conditions, and the outputs of the run.

    Attributes
    ----------
    protocols : tuple of Protocol
        Of each group; those of responsive flows declare what the model has.
    fluid : FluidNetwork
    samples : ndarray, s
        Ends of samples, equally far apart.
    progress : callable
        Called with the share done.
    ticks : ndarray, shape (n_links,)
        When routers first tick, in control intervals.
    point : Equilibrium or None
        Equilibrium that has held for all t < 0, or None: an empty network.
    marking : MarkingEquilibrium or None
        The same, of windows over queue disciplines, with states and probabilities.
    factor : float, > 0
        By which rates, windows and what routers announce differ from those of the point.
    records : bool
        Whether the states of laws are recorded at the end of each sample.
    rtol : float
        Relative tolerance, where steps are not fixed.
    ack_clocked : bool
        Whether ACKs clock windows; else flows send at the rate w/D.
    seed : int
        Of random losses, where windows detect them.
    delays : StepDelays or None
        Of a recurrence, or None: those of the network.
    disciplines : sequence of Protocol or None
        The queue discipline of each link, of windows.
    joined : sequence of sequence of int
        For each group, the index of the queue that it joins at each link of its route; empty: links have one each.
    signals : str
        How windows meet what disciplines choose: "rate" or "random".
    shared : dict
        What runs of one ensemble have in common, by what it is made of.
    """

    protocols: tuple[Protocol, ...]
    fluid: FluidNetwork
    samples: FloatArray
    progress: Callable[[float], None]
    ticks: FloatArray
    point: Equilibrium | None = None
    marking: MarkingEquilibrium | None = None
    factor: float = 1.0
    records: bool = False
    rtol: float = 1e-6
    ack_clocked: bool = True
    seed: int = 0
    delays: StepDelays | None = None
    disciplines: Sequence[Protocol | None] = ()
    joined: Sequence[Sequence[int]] = ()
    signals: str = "rate"
    shared: dict[Any, Any] = field(default_factory=dict)

    @property
    def protocol(self) -> Protocol:
        """The protocol of all responsive flows, where they have one."""
        return self.protocols[0]
