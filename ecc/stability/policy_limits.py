"""Limits of stability of the loop of a policy and a path, and the limit cycles beyond.

The model is that of `ecc.stability.policies`: log w[n+1] = log w[n] + log(4) a(last frames), with ratios r = w/(D M).

Limit. The Jacobian at the fixed point is constant within an activation pattern and jumps with it, so a root can leave
the unit circle by a jump. Loops are examined along a parameter of the path, and the first change of the certified count
is bisected.

Cycle. Beyond the limit, and for a policy that is almost a relay, windows cycle. Two descriptions are compared. Harmonic
balance assumes log w[n] = m + A cos(w n): the mean of the action over a period must be 0, and its first harmonic c must
satisfy

    A (e^(i w) - 1) = log(4) c        c = 2 mean(a e^(-i w n))

For a relay of one delayed feature this is its describing function. The other description is the orbit of the model,
which runs reach. An orbit need not have a period of whole intervals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import inf, nan, pi

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import Positive, check_arguments, shown
from ecc._support.display import Displayed, Rows, quantity_text, value_text
from ecc._support.reports import ProgressCallback, Reporter
from ecc.errors import ConvergenceError, LinearizationError
from ecc.laws.dense_network import DenseNetwork
from ecc.models.shared.policies import LOG_4
from ecc.stability.policies import PolicyPath, observation, policy_loop, policy_run

__all__ = ["PolicyCycle", "PolicyLimit", "policy_cycle", "policy_limit"]

Real = NDArray[np.float64]

_WIDTH = 1e-10  # relative width of a bisected range
_PARAMETERS = {"rtt": "s", "interval": "s", "pacing_gain": ""}
_PHASES = 128  # number of phases at which harmonic balance evaluates the policy
_AT_REST = 1e-6  # amplitude below which a run does not cycle
_UNBALANCED = 1e-6


@dataclass(frozen=True, repr=False)
class PolicyLimit(Displayed):
    """First value of a path's parameter at which the loop of a policy is not stable.

    Attributes
    ----------
    parameter : str
        "rtt", "interval" or "pacing_gain".
    lower : float
        Value just below the limit, proven stable at its fixed point.
    upper : float
        Value just above the limit, proven unstable, or without a fixed point; inf: none up to the maximum.
    radii : tuple of float
        Spectral radii at both values; nan without a fixed point. They differ if the activation pattern changes.
    frequency : float, rad/s
        Frequency of the dominant root at `upper`; nan without a fixed point.
    """

    parameter: str
    lower: float
    upper: float
    radii: tuple[float, float]
    frequency: float

    @property
    def value(self) -> float:
        """The limit, to 1e-10: the middle of `lower` and `upper`."""
        return 0.5 * (self.lower + self.upper)

    @property
    def is_proven(self) -> bool:
        """True: the counts at both values are certified."""
        return True

    def _title(self) -> str:
        return "Stability limit of a policy along its path"

    def _rows(self) -> Rows:
        unit = _PARAMETERS[self.parameter]
        return [
            (self.parameter, "no limit found" if self.upper == inf else quantity_text(self.value, unit)),
            ("spectral radius below and above", value_text(self.radii)),
            ("frequency", quantity_text(self.frequency, "rad/s")),
        ]


@check_arguments
def policy_limit(
    network: DenseNetwork,
    path: PolicyPath,
    parameter: str | None = None,
    *,
    maximum: float,
    step: float,
    progress: ProgressCallback | None = None,
) -> PolicyLimit:
    """Return the first value of a path's parameter at which a policy's loop loses stability or its fixed point.

    Parameters
    ----------
    network : DenseNetwork
        Network of the policy.
    path : PolicyPath
        Path with the first value, at which the loop must be stable.
    parameter : str, optional
        "rtt", "interval" or "pacing_gain"; None: "rtt". The loop does not depend on the capacity, since its features
        are relative to the measured maximum, and it has one flow.
    maximum : float
        Last value that is examined, in the unit of the parameter.
    step : float, > 0
        Distance of the values that are examined, at most 10,000 of them.
    progress : callable, optional
        Called with a `Progress` at most twice a second: the value that is examined, as `text`.

    Returns
    -------
    PolicyLimit

    Raises
    ------
    ValueError
        An unknown parameter, a number out of range, or a loop that is not stable at the first value.
    LinearizationError
        The path has no fixed point without a queue at the first value.

    Notes
    -----
    Both sides of the limit are certified. Below, the values examined are stable; a narrower range without stability
    between two of them can be missed. `cover_paths` proves ranges of RTTs.

    Examples
    --------
    >>> from ecc.models.shared.actors import orca_actor
    >>> limit = policy_limit(orca_actor(), PolicyPath(0.079), maximum=0.08, step=5e-4)
    >>> round(limit.value, 6), limit.is_proven
    (0.079735, True)
    """
    parameter = parameter or "rtt"
    if parameter not in _PARAMETERS:
        raise ValueError(f"parameter must be one of {', '.join(_PARAMETERS)}, got {shown(parameter)}")
    begin = float(getattr(path, parameter))
    if not begin < maximum < inf or not maximum - begin <= 1e4 * step < inf:
        raise ValueError(
            f"maximum must be > {begin:g}, in at most 10,000 steps, got {shown(maximum)} and steps of {shown(step)}"
        )

    report = Reporter(progress)

    def verdict(value: float) -> bool | None:
        report(partial("{} = {:.6g}".format, parameter, value))
        try:
            return policy_loop(network, replace(path, **{parameter: value})).is_stable
        except LinearizationError:
            return False

    if policy_loop(network, path).is_stable is not True:
        raise ValueError(f"path must have a stable loop at {parameter} {begin:g}")
    low, high = begin, inf
    for k in range(1, int(np.ceil((maximum - begin) / step)) + 1):
        value = min(begin + k * step, maximum)
        stable = verdict(value)
        if stable is False:
            high = value
            break
        low = value if stable else low
    while high - low > _WIDTH * low and high < inf:
        stable = verdict(middle := 0.5 * (low + high))
        if stable is None:
            break  # a root on the circle up to rounding
        low, high = (middle, high) if stable else (low, middle)
    radii, frequency = [], nan
    for value in (low, high):
        try:
            system = policy_loop(network, replace(path, **{parameter: value})).system if value < inf else None
        except LinearizationError:
            system = None
        radii.append(system.spectral_radius if system else nan)
        if system and value == high:
            frequency = float(abs(np.angle(system.roots(1)[0]))) / float(system.dt or nan)
    return PolicyLimit(parameter, low, high, (radii[0], radii[1]), frequency)


# ---- cycles ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class PolicyCycle(Displayed):
    """Limit cycle of the loop of a policy and a path, by harmonic balance and by the orbit of the model.

    Attributes
    ----------
    mean, amplitude, period : float
        Harmonic balance: geometric mean of w/(D M), amplitude of log w, and period [s].
    orbit_mean, orbit_amplitude, orbit_period : float
        The same of the orbit that a run reaches: geometric mean, half of the range of log w, and mean period [s].
    """

    mean: float
    amplitude: float
    period: float
    orbit_mean: float
    orbit_amplitude: float
    orbit_period: float

    def _title(self) -> str:
        return "Limit cycle of a policy's loop"

    def _rows(self) -> Rows:
        return [
            ("harmonic balance", f"amplitude {self.amplitude:.4g}, period {quantity_text(self.period, 's')}"),
            ("orbit", f"amplitude {self.orbit_amplitude:.4g}, period {quantity_text(self.orbit_period, 's')}"),
            ("throughput/maximum", value_text((self.mean, self.orbit_mean))),
        ]


@check_arguments
def policy_cycle(network: DenseNetwork, path: PolicyPath, *, ratio: float = 0.8, steps: Positive = 3000) -> PolicyCycle:
    """Return the limit cycle of the loop of a policy and a path.

    Parameters
    ----------
    network : DenseNetwork
        Network of the policy.
    path : PolicyPath
        Path.
    ratio : float, > 0, optional
        Initial w/(D M) of the run that reaches the orbit; not the fixed point.
    steps : int, optional
        Number of actions of this run; the last third is the orbit.

    Returns
    -------
    PolicyCycle

    Raises
    ------
    LinearizationError
        The run does not cycle.
    ConvergenceError
        No solution of the harmonic balance near the orbit.

    Examples
    --------
    >>> from ecc.models.shared.actors import orca_actor
    >>> cycle = policy_cycle(orca_actor(), PolicyPath(0.08), steps=1500)
    >>> round(cycle.period, 2), round(cycle.orbit_period, 2)
    (0.32, 0.32)
    """
    from scipy.optimize import root

    run = np.log(policy_run(network, path, [ratio], steps)[-(steps // 3) :])
    middle, amplitude = float(run.mean()), 0.5 * float(np.ptp(run))
    at = np.flatnonzero((run[:-1] < middle) & (run[1:] >= middle))
    if amplitude < _AT_REST or len(at) < 3:
        raise LinearizationError(
            f"no limit cycle: the run from w/(D M) = {ratio:g} is at {np.exp(middle):.4g} after {steps} actions"
        )
    crossings = at + (middle - run[at]) / (run[at + 1] - run[at])
    n_steps = float(crossings[-1] - crossings[0]) / (len(at) - 1)

    def unbalanced(unknowns: Real) -> Real:
        m, log_size, omega = unknowns
        size = np.exp(log_size)
        phases = 2.0 * pi * np.arange(_PHASES) / _PHASES
        actions = np.array([_action_in_cycle(network, path, m, size, omega, phase) for phase in phases])
        change = 2.0 * LOG_4 * np.mean(actions * np.exp(-1j * phases)) / size
        excess = change - (np.exp(1j * omega) - 1.0)
        return np.array([LOG_4 * actions.mean() / size, excess.real, excess.imag])

    found = root(unbalanced, [middle, np.log(amplitude), 2.0 * pi / n_steps], options={"eps": 1e-5})
    if not np.abs(unbalanced(found.x)).max() < _UNBALANCED:
        raise ConvergenceError(f"no harmonic balance was found near an amplitude of {amplitude:.4g}", found.x)
    m, log_size, omega = found.x
    return PolicyCycle(
        float(np.exp(m)),
        float(np.exp(log_size)),
        2.0 * pi / abs(float(omega)) * path.interval,
        float(np.exp(middle)),
        amplitude,
        n_steps * path.interval,
    )


def _action_in_cycle(
    network: DenseNetwork, path: PolicyPath, m: float, size: float, omega: float, phase: float
) -> float:
    """Return the action at a phase of a harmonic of log w."""
    ages = np.arange(network.n_in // 7 + path.delay[0] + 1)
    windows = np.exp(m + size * np.cos(phase - omega * ages))
    return float(network(observation(network, path, windows))[0])
