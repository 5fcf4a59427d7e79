"""The size of perturbations of an equilibrium that die out in the fluid model.

A linear model decides about infinitely small perturbations. If the bifurcation at the stability limit is subcritical,
an unstable cycle surrounds the stable equilibrium, and a perturbation larger than the cycle ends in a lasting
oscillation. Fluid runs from the perturbed equilibrium measure the size at which that begins.

Each size is tried twice: all rates (for windows: all windows) above the equilibrium by that share, and below it. A run
lasts ten time constants of the slowest root of the linear model. A perturbation has died out if the deviation in the
last quarter of its run is a tenth of that in the second quarter, or is negligible. Slower decay counts as not safe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc import fluid
from ecc._support.arguments import check_arguments, given
from ecc._support.display import Displayed, Rows, quantity_text
from ecc._support.reports import ProgressCallback, Step
from ecc.contract.assignment import ProtocolAssignment, read_protocol
from ecc.contract.protocol import Protocol
from ecc.linear.systems import LinearSystem
from ecc.loops.closed_loop import has_granted_windows, linearize
from ecc.network.network import Network
from ecc.scenario import Scenario

__all__ = ["SafePerturbation", "safe_perturbation"]

_RATIO = sqrt(10.0)  # ratio of the sizes that are tried first
_ALWAYS = 3  # number of sizes tried even if the largest dies out, since smaller ones may not
_SMALLEST = 0.9e-3  # size below which the search ends
_BISECTIONS = 2  # between the safe and the unsafe size: their ratio is then 1.33
_TIME_CONSTANTS, _PERIODS = 10.0, (20.0, 2000.0)  # length of a run, and its limits in periods
_RTTS, _PATTERN_RTTS = 20.0, 100.0  # shortest run, in longest RTTs; the same for ACK-clocked windows set by routers
_SAMPLES = 16  # samples per period
_ROOTS = 8  # number of roots computed; the first one that oscillates gives the period
_DECAY = 0.1  # maximum ratio of the deviation in the last quarter of a run to that in the second
_NEGLIGIBLE = 1e-3, 0.02  # negligible deviation at the end, relative to the equilibrium, and to the perturbation


@dataclass(frozen=True, repr=False)
class SafePerturbation(Displayed):
    """The largest perturbation of an equilibrium that dies out in fluid runs, among the sizes tried.

    Attributes
    ----------
        Largest share of the rates (for windows: of the windows) up to which every perturbation tried, upward and
        downward, died out; 0 if none did or the equilibrium is unstable.
    unsafe : float
        Smallest share tried that did not die out in one of the directions; inf if all did.
    oscillation : float
        Half of peak to peak of the queue at the end of that run [bytes], at the link with the largest value; 0 if all
        died out.
    duration : float
        Length of each run [s].
    clocking : str
        Clocking of the windows in these runs, "ack" or "rate".
    tried : tuple of pairs
        (share with its sign, whether it died out) of all runs, by increasing share.
    """

    value: float
    unsafe: float
    oscillation: float
    duration: float
    clocking: str
    tried: tuple[tuple[float, bool], ...]
    _units = {"oscillation": "bytes", "duration": "s"}

    def _title(self) -> str:
        return "Perturbations that die out in the fluid"

    def _rows(self) -> Rows:
        return [
            ("safe", f"{self.value:.3g} of the equilibrium"),
            ("not safe", "none of those tried" if self.unsafe == inf else f"{self.unsafe:.3g}"),
            ("oscillation then", quantity_text(self.oscillation, "bytes")),
            ("tried", ", ".join(f"{size:+.3g}" for size, _ in self.tried) or "none: the equilibrium is unstable"),
            ("length of each run", quantity_text(self.duration, "s")),
            ("clocking", self.clocking),
        ]

    def text(self) -> str:
        """Return the result in one sentence."""
        if not self.tried:
            return "no perturbation dies out: the equilibrium is unstable"
        runs = f"fluid runs of {quantity_text(self.duration, 's')}, all rates or windows off by that share at the start"
        if self.unsafe == inf:
            return f"perturbations up to {self.value:.3g} of the equilibrium, the largest tried, die out ({runs})"
        swing = quantity_text(self.oscillation, "bytes")
        failure = f"{self.unsafe:.3g} does not and leaves a queue that oscillates by +-{swing}"
        if self.value == 0.0:
            return f"no perturbation tried dies out: {failure} ({runs})"
        return f"perturbations up to {self.value:.3g} of the equilibrium die out, {failure} ({runs})"


@check_arguments
def safe_perturbation(
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any],
    network: Network,
    largest: float = 0.3,
    *,
    clocking: str = "ack",
    assignment: Sequence[int] | NDArray[np.int64] | None = None,
    progress: ProgressCallback | None = None,
) -> SafePerturbation:
    """Return the largest perturbation of the equilibrium that dies out in fluid runs.

    Parameters
    ----------
    protocol : Protocol, ProtocolAssignment or mapping
        Protocol with a linear model in continuous time and a fluid model.
    network : Network
    largest : float, > 0 and < 1, optional
        Largest share to be tried.
    clocking : str, optional
        Clocking of windows, "ack" or "rate", as for `ecc.fluid.simulate`.
    assignment : sequence of int or ndarray of int, shape (n_flows,), optional
        As for `ecc.linearize`.
    progress : callable, optional
        Called with a `Progress` before each run: the perturbation, as `text`.

    Returns
    -------
    SafePerturbation

    Raises
    ------
    ValueError
        The share is out of range, or the protocol has no such model.
    LinearizationError
        The linear model, which is needed for the length of the runs, does not exist.

    Notes
    -----
    Sizes decrease from `largest` by sqrt(10) until one and all smaller ones tried die out; two bisections follow.
    Safety is therefore known at these sizes only, for these two directions, and for the length of a run. Fluid windows
    are not whole packets and have no noise: the same perturbation in packet runs may not be safe. Cost: 6 to 16 runs.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("100 Mb/s", [0.1])
    >>> safe_perturbation(ecc.models.QIRCP(alpha=1.0), net).unsafe
    inf
    """
    if not 0.0 < largest < 1.0:
        raise ValueError(f"largest must be > 0 and < 1, got {largest:g}")
    runs = read_protocol(protocol)
    granted = has_granted_windows(runs)  # only their paced model is linear
    options = given(assignment=assignment, clocking="rate" if granted else clocking)
    system = linearize(runs, network, **options)
    if system.verdict != "stable":
        return SafePerturbation(0.0, inf, 0.0, 0.0, clocking, ())
    rtts = _PATTERN_RTTS if granted and clocking == "ack" else _RTTS
    return _search(_Runs(runs, network, system, clocking, assignment, rtts, progress), largest)


class _Runs:
    """Fluid runs from one equilibrium; each lasts `rtts` times the longest RTT or longer."""

    def __init__(
        self,
        protocol: Any,
        network: Network,
        system: LinearSystem,
        clocking: str,
        assignment: Any,
        rtts: float,
        progress: ProgressCallback | None,
    ) -> None:
        roots, longest = system.roots(_ROOTS), float(network.rtts.max())
        omega = np.abs(roots.imag[roots.imag != 0.0])
        period = 2.0 * np.pi / (float(omega[0]) if len(omega) else max(-float(roots[0].real), 1e-3 / longest))
        shortest, limit = (periods * period for periods in _PERIODS)
        decay = max(-float(roots[0].real), 1e-9 / longest)
        self.duration = max(min(max(_TIME_CONSTANTS / decay, shortest), limit), rtts * longest)
        self.sample = min(period / _SAMPLES, self.duration / 200.0)
        self.clocking, self.progress = clocking, progress
        self._options: dict[str, Any] = {} if clocking == "ack" else {"clocking": clocking}
        self._scenario = Scenario(network, protocol, self.duration, assignment=assignment)
        self._scale = network.capacities[None, :], network.capacities[None, :] * float(network.rtts.min()) / 8.0
        self._rest = self._deviations(0.0, 2.0 * self.sample)[0]

    def _deviations(self, perturbation: float, duration: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return arrivals and queues of all links over their scales, a row for each sample; and the queues [bytes]."""
        run = fluid.simulate(
            self._scenario.with_(duration=duration),
            sample=self.sample,
            start="equilibrium",
            perturbation=perturbation,
            **self._options,
        )
        run.raise_if_incomplete(samples=1)
        queue = run.queue.to_numpy()
        return np.hstack([run.arrival.to_numpy() / self._scale[0], queue / self._scale[1]]), queue

    def ended(self, perturbation: float) -> tuple[bool, float]:
        """Return whether a perturbation dies out, and the oscillation of the queue at the end [bytes]."""
        if self.progress is not None:
            self.progress(Step(f"perturbation of {perturbation:+.3g}, a fluid run of {self.duration:.4g} s"))
        deviations, queue = self._deviations(perturbation, self.duration)
        size = np.abs(deviations - self._rest[-1]).max(axis=1)
        quarter = len(size) // 4
        early, late = size[quarter : 2 * quarter].max(), size[-quarter:].max()
        negligible = min(_NEGLIGIBLE[0], _NEGLIGIBLE[1] * abs(perturbation))
        return bool(late <= max(_DECAY * early, negligible)), float(np.ptp(queue[-quarter:], axis=0).max()) / 2.0


def _search(runs: _Runs, largest: float) -> SafePerturbation:
    """Try sizes from the largest downward."""
    tried: dict[float, bool] = {}
    swings: dict[float, float] = {}

    def is_safe(size: float) -> bool:
        for signed in (size, -size):
            tried[signed], swing = runs.ended(signed)
            if not tried[signed]:
                swings[size] = swing
                return False
        return True

    size, count, safe, unsafe = largest, 0, 0.0, inf
    while size > _SMALLEST and (safe == 0.0 or count < _ALWAYS):
        if not is_safe(size):
            safe, unsafe = 0.0, size
        elif safe == 0.0:
            safe = size
        size, count = size / _RATIO, count + 1
    for _ in range(_BISECTIONS if 0.0 < safe < unsafe < inf else 0):
        middle = sqrt(safe * unsafe)
        safe, unsafe = (middle, unsafe) if is_safe(middle) else (safe, middle)
    every = tuple(sorted(tried.items(), key=lambda item: (abs(item[0]), item[0])))
    return SafePerturbation(safe, unsafe, swings.get(unsafe, 0.0), runs.duration, runs.clocking, every)
