"""The loop of a trained window policy and a path: fixed points, margins, and proofs for regions and families of paths.

A policy observes frames of seven features every h and multiplies its window by 4^a, a in [-1, 1] the output of its
network for the last frames (Orca, SIGCOMM 2020; `ecc.models.shared.actors.orca_actor`). The path has an RTT D = (k + f)
h, 0 <= f < 1, and a capacity of which the sender has measured the maximum M. With the window below M D there is no
queue and no loss. Data are paced at w/D. A rate that is constant over each interval is delivered over two intervals,
so no delay is rounded:

    r_n = ((1 - f) w[n-k] + f w[n-k-1])/(D M)      delivered in interval n, relative to M
    s_n = (r_n, g w[n]/(D M), 0, (h/D) (r_n D M)/w[n], h, 1, 1)
    log w[n+1] = log w[n] + log(4) a(s_{n-H+1}, ..., s_n)

g is the ratio of the pacing rate that the sender reports to w/D (1.2 in Linux's congestion avoidance). The window is
the only actor: the CUBIC below Orca, which continues between its actions, is not in the loop. The law is the one before
Orca truncates 100 4^a to whole percents.

Fixed point: a ratio r = w/(D M) with a = 0. In x = log(w/w*) the loop is x[n+1] = sum_m a_m[n] x[n-m], with a_m[n] the
mean derivative of the right-hand side between 0 and the present history. At the fixed point these are the Jacobian of
the activation pattern: a `SampledSystem`, with certified counts and margins. In a box |w/w* - 1| <= rho all patterns
that the box can reach are enclosed by `bound_derivatives`, and `IntervalRecurrence` proves stability for every
sequence of them. Intervals of D and g enter the same enclosures, so one proof holds for all paths of a family: the
fixed point of each is between two ratios at which a has proven opposite signs for all paths.

Larger boxes. If |x[n+1]| <= sigma' for all histories within |x| <= sigma, by `bound_outputs`, all later windows are in
the smaller box after one memory of the loop. A chain of boxes leads from the largest to the one with a linear proof.
Truncation adds e with -log(1 - 0.01/4^a) >= -e >= 0 (and 1/w for whole packets); the chain then ends at an ultimate
bound, the box into which all later windows are proven to fall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import floor, inf, log1p
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import Positive, check_arguments, shown
from ecc._support.display import Displayed, Rows, quantity_text, value_text
from ecc._support.reports import ProgressCallback, Reporter
from ecc.errors import LinearizationError
from ecc.laws.dense_network import DenseNetwork
from ecc.laws.elementary import exp
from ecc.linear.network_bounds import bound_derivatives, bound_outputs
from ecc.linear.sampled import SampledSystem
from ecc.linear.switching import IntervalRecurrence
from ecc.models.policy import Policy
from ecc.models.shared import policies as laws
from ecc.models.shared.policies import INTERVAL, LOG_4, MAX_PACING, MIN_WINDOW, PACING

__all__ = [
    "PathCover",
    "PolicyLoop",
    "PolicyPath",
    "PolicyRegion",
    "cover_paths",
    "paced_policy",
    "policy_loop",
    "policy_region",
    "policy_run",
]

Real = NDArray[np.float64]

N_FEATURES = 7
_SCAN = 200  # ratios between which a sign change of the action is searched
_RING, _TRUNCATED_RING = 1.25, 1.1  # ratios of the radii of successive boxes
_BOXES = 40
_SLACK = 1e-12  # added to a bound of x[n+1], for the rounding of the linear law


def _whole_intervals(rtt: float, interval: float) -> int:
    """Return the number of whole intervals of an RTT; within 1e-9 intervals of a multiple it is that multiple."""
    return floor(rtt / interval + 1e-9)


@check_arguments(constructor=True)
@dataclass(frozen=True, repr=False)
class PolicyPath(Displayed):
    """A path without queue, and how a sender reports it to its policy.

    Parameters
    ----------
    rtt : float, s, > 0
        RTT without queue, for example 0.04.
    interval : float, s, > 0
        Interval of observations and actions.
    pacing_gain : float, > 0
        Ratio of the reported pacing rate to window/RTT.

    Raises
    ------
    ValueError
        A parameter out of range, or an RTT of more than 1000 intervals.

    Examples
    --------
    >>> PolicyPath(0.05).delay
    (2, 0.5)
    """

    rtt: float
    interval: float = INTERVAL
    pacing_gain: float = PACING

    _units = {"rtt": "s", "interval": "s"}

    def __post_init__(self) -> None:
        for name, unit in (("rtt", " s"), ("interval", " s"), ("pacing_gain", "")):
            value = getattr(self, name)
            if not 0.0 < value < inf:
                raise ValueError(f"{name} must be > 0{unit} and finite, got {shown(value)}")
        if self.rtt > 1000.0 * self.interval:
            raise ValueError(f"rtt must be <= 1000 intervals of {self.interval:g} s, got {shown(self.rtt)}")

    @property
    def delay(self) -> tuple[int, float]:
        """Whole intervals of the RTT, and the remaining share of an interval, 0 within 1e-9."""
        n_intervals = _whole_intervals(self.rtt, self.interval)
        share = self.rtt / self.interval - n_intervals
        return n_intervals, 0.0 if abs(share) <= 1e-9 else round(share, 15)


class _Family(NamedTuple):
    """Paths with all RTTs and pacing gains of a box, and ratios between which the fixed points lie: centers and radii.

    `share`: of an interval, the remainder of the RTT; `feature`: interval/RTT.
    """

    n_intervals: int
    share: tuple[float, float]
    feature: tuple[float, float]
    gain: tuple[float, float]
    ratio: tuple[float, float]
    interval: float


def _n_frames(network: DenseNetwork) -> int:
    if network.n_in % N_FEATURES or network.n_out != 1:
        raise ValueError(
            f"network must have {N_FEATURES} inputs per frame and one output, got {network.n_in} and {network.n_out}"
        )
    return network.n_in // N_FEATURES


def _frame(ratio: float, gain: float, feature: float, interval: float) -> list[float]:
    return [ratio, min(MAX_PACING, gain * ratio), 0.0, feature, interval, 1.0, 1.0]


def _action(network: DenseNetwork, path: PolicyPath, ratio: float) -> float:
    frame = _frame(ratio, path.pacing_gain, path.interval / path.rtt, path.interval)
    return float(network(np.tile(frame, _n_frames(network)))[0])


def _fixed_points(network: DenseNetwork, path: PolicyPath, growth: float = 0.0) -> list[float]:
    """Return the ratios in (0, 1] at which log 4^a passes `growth`."""
    from scipy.optimize import brentq

    ratios = np.linspace(0.0, 1.0, _SCAN + 1)[1:]
    actions = [_action(network, path, float(ratio)) - growth / LOG_4 for ratio in ratios]
    places = [k for k in range(_SCAN - 1) if (actions[k] > 0.0) != (actions[k + 1] > 0.0)]

    def excess(ratio: float) -> float:
        return _action(network, path, ratio) - growth / LOG_4

    return [float(brentq(excess, ratios[k], ratios[k + 1], xtol=1e-15)) for k in places]


def _history(network: DenseNetwork, family: _Family) -> Real:
    """Return the derivatives of all features by w[n-m]/w* - 1 at the fixed point, columns m = 0, 1, ..."""
    n_frames = _n_frames(network)
    share, feature, gain, ratio = (pair[0] for pair in (family.share, family.feature, family.gain, family.ratio))
    columns = np.zeros((network.n_in, n_frames + family.n_intervals + 1))
    for age in range(n_frames):
        at = N_FEATURES * (n_frames - 1 - age)
        for m, weight in ((family.n_intervals, 1.0 - share), (family.n_intervals + 1, share)):
            columns[at, age + m] += ratio * weight
            columns[at + 3, age + m] += feature * weight
        columns[at + 1, age] += gain * ratio
        columns[at + 3, age] -= feature
    return columns


def _deviations(network: DenseNetwork, family: _Family, rho: float) -> Real:
    """Return bounds of the deviations of `_history` over the family and the box |w/w* - 1| <= rho.

    The derivatives by x are those by w/w* times w/w*.
    """
    n_frames = _n_frames(network)
    (share, d_share), (q, d_q), (g, d_g), (r, d_r) = family.share, family.feature, family.gain, family.ratio
    bounds = np.zeros((network.n_in, n_frames + family.n_intervals + 1))
    quotient = 2.0 * rho / (1.0 - rho)  # deviation of the quotient of two windows
    for age in range(n_frames):
        at = N_FEATURES * (n_frames - 1 - age)
        for m, weight in ((family.n_intervals, 1.0 - share), (family.n_intervals + 1, share)):
            bounds[at, age + m] += d_r * weight + (r + d_r) * (d_share + (weight + d_share) * rho)
            bounds[at + 3, age + m] += d_q * weight + (q + d_q) * (d_share + (weight + d_share) * quotient)
        bounds[at + 1, age] += d_g * r + g * d_r + d_g * d_r + (g + d_g) * (r + d_r) * rho
        bounds[at + 3, age] += d_q + (q + d_q) * quotient
    return bounds * (1.0 + 1e-12) + 1e-15


def _inputs(network: DenseNetwork, family: _Family, rho: float) -> tuple[Real, Real]:
    """Return center and directions of a set that contains all observations of the family within the box."""
    n_frames = _n_frames(network)
    d_share, (q, d_q), (g, d_g), (r, d_r) = family.share[1], family.feature, family.gain, family.ratio
    center = np.tile(_frame(r, g, q, family.interval), n_frames)
    if (g + d_g) * (r + d_r) * (1.0 + rho) >= MAX_PACING:
        raise ValueError(f"pacing_gain must keep the pacing feature below {MAX_PACING:g}, got {shown(g)}")
    shared = np.zeros((network.n_in, 3))
    shared[0::N_FEATURES, 0], shared[1::N_FEATURES, 0] = d_r, g * d_r
    shared[3::N_FEATURES, 1] = d_q
    shared[1::N_FEATURES, 2] = r * d_g
    rest = (
        np.array(
            [
                d_r * rho + 2.0 * (r + d_r) * d_share * rho,
                (g * d_r + r * d_g) * rho + d_g * d_r * (1.0 + rho),
                2.0 * (q * rho**2 + (d_q + q * d_share + d_q * d_share) * rho) / (1.0 - rho),
            ]
        )
        * (1.0 + 1e-12)
        + 1e-15
    )
    apart = np.zeros((network.n_in, 3 * n_frames))
    for frame in range(n_frames):
        for k, feature in enumerate((0, 1, 3)):
            apart[N_FEATURES * frame + feature, 3 * frame + k] = rest[k]
    columns = np.hstack([shared, rho * _history(network, family), apart])
    return center, columns[:, np.abs(columns).sum(axis=0) > 0.0]


def _is_below_maximum(family: _Family, rho: float) -> bool:
    """Return whether all windows of a box stay below those of a full path: otherwise there would be a queue."""
    return sum(family.ratio) * (1.0 + rho) * (1.0 + 1e-15) <= 1.0


def _contracts(recurrence: IntervalRecurrence, rho: float) -> bool:
    """Return whether |w/w* - 1| <= rho is never left, and deviations vanish: the box is not symmetric in log w."""
    return -log1p(-rho) * recurrence.coefficient_sum * (1.0 + 1e-12) <= log1p(rho)


def _rounding_of_share(n_intervals: int) -> float:
    return 2e-15 * (n_intervals + 1)


def _family_of(path: PolicyPath, ratio: float) -> _Family:
    n_intervals, share = path.delay
    exact = 4e-16
    feature = path.interval / path.rtt
    return _Family(
        n_intervals,
        (share, _rounding_of_share(n_intervals)),
        (feature, exact * feature),
        (path.pacing_gain, 0.0),
        (ratio, 0.0),
        path.interval,
    )


def _recurrence(network: DenseNetwork, family: _Family, rho: float) -> IntervalRecurrence:
    """Return the recurrence of x = log(w/w*) for all paths of a family and all histories within a box."""
    center, directions = _inputs(network, family, rho)
    history = _history(network, family)
    used = np.flatnonzero(np.isin(np.arange(network.n_in) % N_FEATURES, (0, 1, 3)))
    along = np.hstack([history, np.eye(network.n_in)[:, used]])
    low, high = bound_derivatives(network, center, directions, along)
    n = history.shape[1]
    sizes = np.maximum(np.abs(low[0, n:]), np.abs(high[0, n:]))
    extra = sizes @ _deviations(network, family, rho)[used] * (1.0 + 1e-12)
    lower, upper = LOG_4 * (low[0, :n] - extra), LOG_4 * (high[0, :n] + extra)
    lower[0] += 1.0
    upper[0] += 1.0
    rounding = 4e-15 * (1.0 + np.abs(lower) + np.abs(upper))
    return IntervalRecurrence(lower - rounding, upper + rounding)


# ---- one path --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class PolicyLoop(Displayed):
    """The loop of a policy and a path at a fixed point.

    Attributes
    ----------
    path : PolicyPath
        Path.
    ratio : float
        Fixed point: throughput relative to its measured maximum.
    system : SampledSystem
        Deviations of log w, with the loop opened at the action: roots, certificates and margins.
    """

    path: PolicyPath
    ratio: float
    system: SampledSystem

    @property
    def is_stable(self) -> bool | None:
        """True or False by the certified count of roots, None if it is undecided."""
        return self.system.certify().stable

    @cached_property
    def gain_margin(self) -> float:
        """Factor on the action at which stability is lost; inf if it is not lost."""
        return float(self.system.margins().gain_margin)

    def _title(self) -> str:
        return "Loop of a policy and a path, at a fixed point"

    def _rows(self) -> Rows:
        return [
            ("RTT", quantity_text(self.path.rtt, "s")),
            ("throughput/maximum", value_text(self.ratio)),
            ("spectral radius", value_text(self.system.spectral_radius)),
            ("verdict", {True: "stable, proven", False: "unstable, proven", None: "undecided"}[self.is_stable]),
        ]


@check_arguments
def policy_loop(network: DenseNetwork, path: PolicyPath) -> PolicyLoop:
    """Return the loop of a window policy and a path at its fixed point with the largest throughput.

    Parameters
    ----------
    network : DenseNetwork
        Network of the policy: seven inputs per frame, oldest frame first, and one output.
    path : PolicyPath
        Path.

    Returns
    -------
    PolicyLoop

    Raises
    ------
    LinearizationError
        The action keeps its sign for all throughputs up to the maximum: there is no fixed point without a queue.
    ValueError
        The network has other inputs or outputs.

    Examples
    --------
    >>> from ecc.models.shared.actors import orca_actor
    >>> loop = policy_loop(orca_actor(), PolicyPath(0.05))
    >>> round(loop.ratio, 4), loop.is_stable, round(loop.system.spectral_radius, 4)
    (0.885, True, 0.86)
    """
    roots = _fixed_points(network, path)
    if not roots:
        sign = "positive" if _action(network, path, 1.0) > 0.0 else "negative"
        raise LinearizationError(
            f"no fixed point without a queue: the action is {sign} for all throughputs up to the maximum, at an RTT of "
            f"{path.rtt:g} s"
        )
    family = _family_of(path, roots[-1])
    frame = _frame(roots[-1], path.pacing_gain, path.interval / path.rtt, path.interval)
    slopes = network.jacobian(np.tile(frame, _n_frames(network)))[0] @ _history(network, family)
    gains = LOG_4 * slopes
    delays = np.arange(len(gains))
    nonzero = gains != 0.0
    opened = SampledSystem([1.0], [0], dt=path.interval)
    system = SampledSystem([1.0, *gains[nonzero]], [0, *delays[nonzero].tolist()], dt=path.interval, opened=opened)
    return PolicyLoop(path, roots[-1], system)


@check_arguments
def policy_run(
    network: DenseNetwork,
    path: PolicyPath,
    ratios: Sequence[float],
    steps: Positive = 500,
    *,
    window: float | None = None,
) -> Real:
    """Return throughput windows of the loop in discrete time, relative to those of a full path.

    Parameters
    ----------
    network : DenseNetwork
        Network of the policy.
    path : PolicyPath
        Path.
    ratios : sequence of float
        Initial w/(D M), oldest first, > 0; the first one also stands for all earlier ones.
    steps : int, >= 1
        Number of actions.
    window : float, optional
        Window of a full path D M in packets, > 0: then 100 4^a is truncated to whole percents and the window to whole
        packets. None: neither.

    Returns
    -------
    ndarray, shape (steps + 1,)
        w/(D M) before each action, and after the last one. The maximum M does not change, and values above 1 would
        need a queue, which the model does not have.

    Raises
    ------
    ValueError
        A ratio is not > 0, or the network has other inputs or outputs.

    Examples
    --------
    >>> from ecc.models.shared.actors import orca_actor
    >>> run = policy_run(orca_actor(), PolicyPath(0.05), [0.8])
    >>> round(float(run[-1]), 3)
    0.885
    """
    n_frames = _n_frames(network)
    if not len(ratios) or not all(0.0 < ratio < inf for ratio in ratios):
        raise ValueError(f"ratios must be > 0 and at least one, got {shown(ratios)}")
    if window is not None and not 0.0 < window < inf:
        raise ValueError(f"window must be > 0 packets, got {shown(window)}")
    memory = n_frames + path.delay[0] + 1
    known = [float(ratio) for ratio in ratios]
    known = [known[0]] * max(memory - len(known), 0) + known
    start = len(known) - 1
    for _ in range(steps):
        last = known[-1]
        factor = 4.0 ** float(network(observation(network, path, np.array(known[: -memory - 1 : -1])))[0])
        if window is None:
            known.append(factor * last)
        else:
            known.append(max(floor(floor(100.0 * factor) * round(last * window) / 100.0), MIN_WINDOW) / window)
    return np.array(known[start:])


def observation(network: DenseNetwork, path: PolicyPath, windows: Real) -> Real:
    """Return the input of a network for a history of windows.

    Parameters
    ----------
    network : DenseNetwork
    path : PolicyPath
    windows : ndarray
        w/(D M), the newest first: at least one per frame and one per interval of the RTT, and one more.
    """
    n_frames = _n_frames(network)
    n_intervals, share = path.delay
    newest = windows[:n_frames]
    delivered = (1.0 - share) * windows[n_intervals:][:n_frames] + share * windows[n_intervals + 1 :][:n_frames]
    frames = np.empty((n_frames, N_FEATURES))
    frames[:] = _frame(1.0, 1.0, 1.0, path.interval)
    frames[:, 0] = delivered
    frames[:, 1] = np.minimum(MAX_PACING, path.pacing_gain * newest)
    frames[:, 3] = path.interval / path.rtt * delivered / newest
    return np.asarray(frames[::-1].ravel())


def paced_rate(a: float, x: float) -> float:
    """The rate after an action, without truncation."""
    return x * exp(LOG_4 * a)


def paced_feature(x: float, max_delivery_rate: float) -> float:
    """Orca's second feature of a paced rate."""
    return min(MAX_PACING, laws.PACING * x / max_delivery_rate) if max_delivery_rate > 0.0 else 0.0


def samples_feature(samples: float, x: float, srtt: float, s: float) -> float:
    """Orca's fourth feature, with the window x srtt of a paced rate."""
    return samples * s / (x * srtt)


@check_arguments
def paced_policy(network: DenseNetwork, initial_rate: float | str) -> Policy:
    """Return the protocol of this loop for packet runs: the policy alone, paced at w/RTT and without truncation.

    Parameters
    ----------
    network : DenseNetwork
        Network of the policy, with Orca's features.
    initial_rate : float or str, bit/s
        Initial rate. At the capacity of the path, the measured maximum is the capacity.

    Returns
    -------
    Policy

    Raises
    ------
    ValueError, TypeError
        A rate that is not > 0, or a network with other inputs.

    Examples
    --------
    >>> from ecc.models.shared.actors import orca_actor
    >>> paced_policy(orca_actor(), "200 Mb/s").initial_rate
    200000000.0
    """
    observe = (
        laws.relative_throughput,
        paced_feature,
        laws.relative_losses,
        samples_feature,
        laws.interval_length,
        laws.inverse_latency_ratio,
        laws.delay_metric,
    )
    return Policy(network, observe=observe, act=paced_rate, interval=INTERVAL, initial_rate=initial_rate)


# ---- a family of paths -----------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class PathCover(Displayed):
    """RTTs of an interval that are proven stable, and RTTs that are refuted.

    Attributes
    ----------
    proven : tuple of (float, float)
        Intervals of RTTs, s: every path in them has a fixed point that is stable for every sequence of activation
        patterns that the box can reach.
    refuted : tuple of float
        RTTs, s, at which the loop is proven unstable at its fixed point, or has none: the action keeps its sign at 200
        throughputs.
    undecided : tuple of (float, float)
        Remaining intervals of RTTs, s. Those around refuted RTTs are among them.
    radius : float
        Half width of the box of windows, relative to the fixed point.
    n_boxes : int
        Number of intervals that were examined.
    """

    proven: tuple[tuple[float, float], ...]
    refuted: tuple[float, ...]
    undecided: tuple[tuple[float, float], ...]
    radius: float
    n_boxes: int

    def _title(self) -> str:
        return "Stability of a policy over a family of paths"

    @property
    def is_stable(self) -> bool | None:
        """True if the whole interval is proven, False if a path is refuted, else None."""
        return False if self.refuted else (None if self.undecided else True)


@check_arguments
def cover_paths(
    network: DenseNetwork,
    rtts: tuple[float, float],
    *,
    pacing_gains: tuple[float, float] = (PACING, PACING),
    interval: float = INTERVAL,
    radius: float = 1e-3,
    resolution: float = 1e-4,
    progress: ProgressCallback | None = None,
) -> PathCover:
    """Prove or refute that a policy is stable at its fixed point on every path of a family.

    Parameters
    ----------
    network : DenseNetwork
        Network of the policy.
    rtts : tuple of float
        Smallest and largest RTT, s, > 0.
    pacing_gains : tuple of float, optional
        Smallest and largest ratio of the reported pacing rate to window/RTT. The proof holds for all between.
    interval : float, optional
        Interval of observations and actions, s.
    radius : float, optional
        Half width of the box of windows around the fixed point, relative to it, in (0, 0.5).
    resolution : float, optional
        Interval of RTTs that is not divided further, s, > 0.
    progress : callable, optional
        Called with a `Progress` at most twice a second: the interval of RTTs that is analyzed, as `text`.

    Returns
    -------
    PathCover

    Raises
    ------
    ValueError
        A range that is empty or not > 0, or a radius or resolution out of range.

    Notes
    -----
    About 0.1 s per interval for a network 70-256-256-1; intervals of 0.1 to 1 ms are needed.

    Examples
    --------
    >>> from ecc.models.shared.actors import orca_actor
    >>> cover_paths(orca_actor(), (0.0499, 0.05), radius=5e-4).is_stable
    True
    """
    for name, (low, high) in (("rtts", rtts), ("pacing_gains", pacing_gains)):
        if not 0.0 < low <= high < inf:
            raise ValueError(f"{name} must be two increasing numbers > 0, got {shown((low, high))}")
    if not 0.0 < radius < 0.5:
        raise ValueError(f"radius must be between 0 and 0.5, got {shown(radius)}")
    if not 0.0 < resolution < inf:
        raise ValueError(f"resolution must be > 0 s, got {shown(resolution)}")
    PolicyPath(rtts[1], interval)
    first = _whole_intervals(rtts[0], interval) + 1
    inner = [k * interval for k in range(first, 1001) if k * interval < rtts[1]]
    edges = [rtts[0], *inner, rtts[1]]
    pending = list(zip(edges[:-1], edges[1:], strict=True))[::-1]
    proven: list[tuple[float, float]] = []
    undecided: list[tuple[float, float]] = []
    refuted: list[float] = []
    examined, report = 0, Reporter(progress)
    while pending:
        low, high = pending.pop()
        examined += 1
        report(partial("RTTs from {:.6g} to {:.6g} s".format, low, high))
        if _is_proven(network, (low, high), pacing_gains, interval, radius):
            proven = _joined(proven, (low, high))
        elif high - low > resolution:
            middle = 0.5 * (low + high)
            pending += [(middle, high), (low, middle)]
        else:
            undecided = _joined(undecided, (low, high))
            path = PolicyPath(0.5 * (low + high), interval, 0.5 * sum(pacing_gains))
            if not _fixed_points(network, path) or policy_loop(network, path).is_stable is False:
                refuted.append(path.rtt)
    return PathCover(tuple(proven), tuple(refuted), tuple(undecided), radius, examined)


def _joined(parts: list[tuple[float, float]], part: tuple[float, float]) -> list[tuple[float, float]]:
    """Return intervals with one more, which begins at or after the end of the last."""
    if parts and parts[-1][1] == part[0]:
        return [*parts[:-1], (parts[-1][0], part[1])]
    return [*parts, part]


def _is_proven(
    network: DenseNetwork, rtts: tuple[float, float], gains: tuple[float, float], interval: float, radius: float
) -> bool:
    """Return whether all paths of a box are proven to have a fixed point with a stable neighborhood."""
    family = _enclosed(network, rtts, gains, interval)
    if family is None or not _is_below_maximum(family, radius):
        return False
    return _recurrence(network, family, radius).is_stable is True


def _center(low: float, high: float) -> tuple[float, float]:
    """Return center and radius of an interval, rounded up."""
    middle = 0.5 * (low + high)
    return middle, max(high - middle, middle - low) * (1.0 + 1e-12) + 4e-15 * abs(middle)


def _enclosed(
    network: DenseNetwork, rtts: tuple[float, float], gains: tuple[float, float], interval: float
) -> _Family | None:
    """Return a family with ratios between which each path has a fixed point, None if the signs are not proven."""
    corners = [PolicyPath(rtt, interval, gain) for rtt in set(rtts) for gain in set(gains)]
    roots = [_fixed_points(network, path) for path in corners]
    if not all(roots):
        return None
    low, high = min(root[-1] for root in roots), max(root[-1] for root in roots)
    n_intervals = _whole_intervals(rtts[0], interval)
    middle, radius = _center(rtts[0] / interval - n_intervals, rtts[1] / interval - n_intervals)
    share = (middle, radius + _rounding_of_share(n_intervals))
    feature, gain = _center(interval / rtts[1], interval / rtts[0]), _center(*gains)
    slack = 1e-9 + 0.1 * (high - low)
    for _ in range(5):
        family = _Family(n_intervals, share, feature, gain, _center(low - slack, high + slack), interval)
        ends = [family._replace(ratio=(family.ratio[0] + sign * family.ratio[1], 0.0)) for sign in (-1.0, 1.0)]
        signs = [bound_outputs(network, *_inputs(network, end, 0.0)) for end in ends]
        if signs[0].low[0] > 0.0 > signs[1].high[0]:
            return family
        slack *= 3.0
    return None


# ---- a region --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class PolicyRegion(Displayed):
    """Boxes of windows around a fixed point, |w/w* - 1| <= radius, from which all runs are proven to stay near it.

    Attributes
    ----------
    loop : PolicyLoop
        Loop at the fixed point.
    center : float
        Center of the boxes: the fixed point, or under truncation the ratio at which 4^a offsets half of the largest
        truncation. Throughput relative to its measured maximum.
    linear_radius : float
        Largest radius tried within which deviations are proven to vanish for every sequence of activation patterns;
        0 if none is, and under truncation.
    radius : float
        Radius from which all runs are proven to enter the ultimate box; 0 if none is.
    ultimate : float
        Radius of the box in which all later windows are; 0 if deviations are proven to vanish.
    truncated : bool
        Whether the truncation of the action to whole percents, and of the window to whole packets, is included.
    """

    loop: PolicyLoop
    center: float
    linear_radius: float
    radius: float
    ultimate: float
    truncated: bool

    def _title(self) -> str:
        return "Proven region of a policy's loop"

    @property
    def is_stable(self) -> bool | None:
        """True if a box of windows is proven to be entered and not left, else None."""
        return True if self.radius > 0.0 else None

    def _rows(self) -> Rows:
        names = ("center", "linear_radius", "radius", "ultimate", "truncated")
        rows = [("RTT", quantity_text(self.loop.path.rtt, "s")), ("throughput/maximum", value_text(self.loop.ratio))]
        return [*rows, *((name.replace("_", " "), value_text(getattr(self, name))) for name in names)]


@check_arguments
def policy_region(
    network: DenseNetwork,
    path: PolicyPath,
    *,
    max_radius: float = 0.05,
    truncated: bool = False,
    window: float | None = None,
    max_sets: Positive = 64,
) -> PolicyRegion:
    """Return boxes of windows in which a policy's loop is proven stable, and an ultimate bound under truncation.

    Parameters
    ----------
    network : DenseNetwork
        Network of the policy.
    path : PolicyPath
        Path.
    max_radius : float, optional
        Largest radius tried, relative to the window at the fixed point, in (0, 0.5).
    truncated : bool, optional
        True: the factor 4^a is truncated to whole percents.
    window : float, optional
        Window at the center of the boxes in packets, > 2; with `truncated`, windows are truncated to whole packets too.
        None: not.
    max_sets : int, >= 1
        Sets of inputs for each bound (`bound_outputs`).

    Returns
    -------
    PolicyRegion

    Raises
    ------
    LinearizationError
        The path has no fixed point without a queue.
    ValueError
        A number out of range.

    Notes
    -----
    Without truncation the chain of boxes ends in one with a linear proof, so runs converge to the fixed point. No box
    has windows above those of a full path.

    Examples
    --------
    >>> from ecc.models.shared.actors import orca_actor
    >>> region = policy_region(orca_actor(), PolicyPath(0.05), max_radius=0.002)
    >>> region.is_stable, region.ultimate
    (True, 0.0)
    """
    if not 0.0 < max_radius < 0.5:
        raise ValueError(f"max_radius must be between 0 and 0.5, got {shown(max_radius)}")
    if window is not None and not MIN_WINDOW < window < inf:
        raise ValueError(f"window must be > {MIN_WINDOW:g} packets, the minimum window, got {shown(window)}")
    loop = policy_loop(network, path)
    offset = 0.5 * (0.01 + (0.0 if window is None else 1.0 / window)) if truncated else 0.0
    centers = _fixed_points(network, path, offset)
    if not centers:
        raise LinearizationError(f"no fixed point without a queue under truncation, at an RTT of {path.rtt:g} s")
    if truncated:
        family: _Family | None = _family_of(path, centers[-1])
    else:
        family = _enclosed(network, (path.rtt, path.rtt), (path.pacing_gain, path.pacing_gain), path.interval)
    if family is None:
        return PolicyRegion(loop, centers[-1], 0.0, 0.0, 0.0, truncated)
    ring = _TRUNCATED_RING if truncated else _RING
    radii = [max_radius / ring**k for k in range(_BOXES)]
    radii = [rho for rho in radii if _is_below_maximum(family, rho)]
    linear = 0.0
    if not truncated:
        linear = next((rho for rho in radii if _contracts(_recurrence(network, family, rho), rho)), 0.0)
    rings = list(zip(radii[:-1], radii[1:], strict=True))
    if truncated:
        rings = [ring for ring in rings if log1p(ring[1]) > offset]
        inner, outer = 0.0, 0.0
    else:
        rings = [ring for ring in reversed(rings) if 0.0 < linear < ring[0]]
        inner, outer = 0.0, linear
    for rho, smaller in rings:
        if _reach(network, family, rho, max_sets, window, truncated) <= log1p(smaller):
            inner, outer = smaller, max(rho, outer)
        elif outer:
            break
    return PolicyRegion(loop, centers[-1], linear, outer, inner if truncated else 0.0, truncated)


def _reach(
    network: DenseNetwork, family: _Family, rho: float, max_sets: int, window: float | None, truncated: bool
) -> float:
    """Return a bound of |x[n+1]| over all histories |w/w* - 1| <= rho."""
    center, directions = _inputs(network, family, rho)
    row = np.zeros((1, network.n_in))
    newest = network.n_in - N_FEATURES + 1
    row[0, newest] = 1.0 / (LOG_4 * center[newest])  # (1 + y)/log 4, y = w/w* - 1
    bounds = bound_outputs(network, center, directions, linear=row, steps=0, max_sets=max_sets)
    low, high = LOG_4 * float(bounds.low[0]) - 1.0, LOG_4 * float(bounds.high[0]) - 1.0
    low -= rho**2 / (2.0 * (1.0 - rho))  # y - y^2/(2 (1 - |y|)) <= log(1 + y) <= y
    if truncated:
        min_growth = low - log1p(rho)  # lower bound of log 4^a
        lost = 0.01 * float(np.exp(-min_growth))
        if lost >= 1.0:
            return inf
        low += log1p(-lost)
        if window is not None:
            after = window * float(np.exp(low))
            if after <= 1.0:
                return inf
            low += log1p(-1.0 / after)
    center_error = sum(error / value for value, error in (family.ratio, family.gain))  # error of the newest window
    return max(-low, high) * (1.0 + 1e-12) + _SLACK + 2.0 * (1.0 + rho) * center_error
