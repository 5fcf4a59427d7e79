"""The problem that a fluid model solves: the same record for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecc.contract.equilibrium import Equilibrium
from ecc.contract.protocol import Protocol
from ecc.fluid.network.groups import FluidNetwork, StepDelays

if TYPE_CHECKING:  # kernels are compiled in environments without SciPy
    from ecc.loops.marked_hosts import MarkingEquilibrium

__all__ = ["MAX_UPDATES", "Problem"]

FloatArray = NDArray[np.float64]

MAX_UPDATES = 50
"""Maximum number of actions per RTT of hosts in discrete time, each at least four steps of the grid."""


@dataclass(frozen=True)
class Problem:
    """Protocols on a network, their initial conditions, and the outputs of the run.

    Attributes
    ----------
    protocols : tuple of Protocol
        Protocol of each group; those of responsive flows declare the parts of the model.
    fluid : FluidNetwork
    samples : ndarray, s
        Ends of samples, equally far apart.
    progress : callable
        Called with the share done, from 0 to 1.
    ticks : ndarray, shape (n_links,)
        Time of the first tick of each router, in control intervals.
    point : Equilibrium or None
        Equilibrium that has held for all t < 0, or None: an empty network.
    marking : MarkingEquilibrium or None
        Equilibrium of windows over queue disciplines, with states and probabilities, if there is one.
    factor : float, > 0
        Ratio of the initial rates, windows and announcements of routers to those of the point.
    records : bool
        Whether the states of laws are recorded at the end of each sample.
    rtol : float
        Relative tolerance, if steps are not fixed.
    ack_clocked : bool
        Whether ACKs clock windows; if not, flows send at the rate w/D.
    averaged : bool
        Whether every action is spread evenly over its interval, instead of acting at ticks.
    seed : int
        Seed of random losses, if windows detect them.
    delays : StepDelays or None
        Delays of a recurrence, or None: those of the network.
    disciplines : sequence of Protocol or None
        Queue discipline of each link, for windows.
    joined : sequence of sequence of int
        Index of the queue that each group joins at each link of its route; empty if each link has one queue.
    signals : str
        How windows meet the choices of disciplines: "rate" or "random".
    updates_per_rtt : int or None
        Number of times per RTT at which a host with a window acts in discrete time; None: as its `window_clock`.
    visit : callable or None
        Called at the end of each sample with the time [s] and the recorded states, name -> array of all groups, which
        it may change, for example to perturb a run.
    shared : dict
        Objects that the runs of an ensemble share, keyed by the data that they are made from.
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
    averaged: bool = False
    seed: int = 0
    delays: StepDelays | None = None
    disciplines: Sequence[Protocol | None] = ()
    joined: Sequence[Sequence[int]] = ()
    signals: str = "rate"
    updates_per_rtt: int | None = None
    visit: Callable[[float, Mapping[str, FloatArray]], None] | None = None
    shared: dict[Any, Any] = field(default_factory=dict)

    @property
    def protocol(self) -> Protocol:
        """The protocol of all responsive flows, if they share one."""
        return self.protocols[0]
