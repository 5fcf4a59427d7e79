"""Lyapunov exponents of random maps: how fast two runs with the same random draws converge.

    x[n+1] = f(x[n], u[n])                   u[n]: independent draws, uniform on [0, 1)
    v[n+1] = J(x[n], u[n]) v[n]              J: derivative of f by x, exact by jets
    exponent = lim log|v[n]|/n               the same limit for almost all draws and directions (Oseledets)

If the exponent is negative, small deviations vanish although the motion remains random. Jumps of f are not part of J:
a draw that lies between the thresholds of two runs decides differently, which parts them. The probability of such a
draw is proportional to the deviation. So a deviation vanishes with a probability that tends to 1 with its size, while
larger deviations may last.

Further exponents follow from several directions, which are made orthogonal in each step (Benettin et al. 1980). The
confidence interval is that of batch means: the run is divided into batches of equal length, which are long compared
with the memory of the motion, and their means count as independent samples of a normal distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.intervals import mean_with_interval
from ecc._support.quantity import as_count
from ecc.laws.jets import directional

__all__ = ["LyapunovExponents", "lyapunov_exponents", "paired_distances"]

RandomLaw = Callable[[Sequence[Any], Sequence[float], Any], Sequence[Any]]

_CONFIDENCE = 0.95
_MIN_BATCHES = 10


@dataclass(frozen=True)
class LyapunovExponents:
    """Lyapunov exponents of a random map, per step.

    Attributes
    ----------
    exponents : ndarray, shape (count,)
        Exponents in decreasing order; -inf in directions that vanish within a few steps.
    intervals : ndarray, shape (count, 2)
        Confidence intervals, 95 %.
    states : ndarray, shape (steps, n_states)
        States before each step.
    """

    exponents: NDArray[np.float64]
    intervals: NDArray[np.float64]
    states: NDArray[np.float64]


@check_arguments
def lyapunov_exponents(
    law: Callable[..., Sequence[Any]],
    state: Sequence[Any],
    p: Any = None,
    draws: int = 1,
    *,
    count: int = 1,
    varied: Sequence[int] | None = None,
    steps: int = 20_000,
    settling: int = 1_000,
    batches: int = 30,
    seed: int = 0,
) -> LyapunovExponents:
    """Return the largest Lyapunov exponents of a random map, with confidence intervals.

    Parameters
    ----------
    law : callable
        `law(state, draws, p)`: all states after a step. A plain function in the language of laws.
    state : sequence of float and int
        Initial state. An int is a discrete state, for example a flag, which has no deviations.
    p : object, optional
        Parameters of the law.
    draws : int, >= 0, optional
        Number of uniform draws of a step; 0: the map is deterministic.
    count : int, optional
        Number of exponents, from 1 to the number of varied states.
    varied : sequence of int, optional
        Positions of the continuous states that deviate; all others are the same in both runs, for example those that
        drive a part of the map. None: all continuous states.
    steps, settling : int, optional
        Steps that are evaluated, and steps before them.
    batches : int, >= 10, optional
        Batches for the confidence interval; at most `steps`.
    seed : int, optional
        Seed of the draws. The same seed gives the same result.

    Returns
    -------
    LyapunovExponents

    Raises
    ------
    ValueError
        A number out of range, or a law that returns another number of states.
    LinearizationError, TypeError
        The law fails, or is not in the language of laws.

    Notes
    -----
    One evaluation of the law with jets for each step and direction.

    Examples
    --------
    The logistic map 4 x (1 - x) has the exponent log 2:

    >>> def logistic(state, draws, p):
    ...     return [4.0 * state[0] * (1.0 - state[0])]
    >>> result = lyapunov_exponents(logistic, [0.3], draws=0)
    >>> low, high = result.intervals[0]
    >>> bool(low < 0.6931 < high)
    True
    """
    n_draws, n_steps = as_count(draws, "draws"), as_count(steps, "steps", minimum=1)
    ignored, n_batches = as_count(settling, "settling"), as_count(batches, "batches", minimum=_MIN_BATCHES)
    if n_batches > n_steps:
        raise ValueError(f"batches must be <= steps ({n_steps}), got {n_batches}")
    continuous = [k for k, value in enumerate(state) if not isinstance(value, int)]
    places = continuous if varied is None else list(varied)
    if not set(places) <= set(continuous):
        raise ValueError(f"varied must have positions of continuous states, got {shown(varied)}")
    directions = as_count(count, "count", minimum=1)
    if directions > len(places):
        raise ValueError(f"count must be <= {len(places)}, the number of varied states, got {directions}")
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(np.random.default_rng(seed + 1).standard_normal((len(places), directions)))[0]
    current = list(state)
    growth = np.zeros((n_steps, directions))
    visited = np.zeros((n_steps, len(current)))
    for step in range(ignored + n_steps):
        u = rng.random(n_draws).tolist()
        images = np.zeros_like(basis)
        values: list[float] = []
        for column in range(directions):
            line = np.zeros(len(current))
            line[places] = basis[:, column]
            values, slopes = directional(law, current, line.tolist(), u, p)
            images[:, column] = np.array(slopes)[places]
        if len(values) != len(current):
            raise ValueError(f"law must return {len(current)} states, got {len(values)}")
        if step >= ignored:
            visited[step - ignored] = current
        basis, factors = _orthogonal(images, basis)
        if step >= ignored:
            with np.errstate(divide="ignore"):
                growth[step - ignored] = np.log(factors)
        current = [int(new) if isinstance(old, int) else new for old, new in zip(current, values, strict=True)]
    return LyapunovExponents(growth.mean(axis=0), batch_intervals(growth, n_batches), visited)


def _orthogonal(images: NDArray[np.float64], basis: NDArray[np.float64]) -> tuple[Any, Any]:
    """Return the images of directions, made orthogonal, and their lengths; a direction that vanishes is kept."""
    q, r = np.linalg.qr(images)
    factors = np.abs(np.diag(r))
    vanished = factors == 0.0
    return np.where(vanished, basis, q), factors


def batch_intervals(series: NDArray[np.float64], batches: int) -> NDArray[np.float64]:
    """Return confidence intervals, 95 %, of the means of correlated series, by batch means.

    Parameters
    ----------
    series : ndarray, shape (n_steps, n_series)
    batches : int
        Number of batches; steps that fill no batch are not used.

    Returns
    -------
    ndarray, shape (n_series, 2)
    """
    length = len(series) // batches
    means = series[: length * batches].reshape(batches, length, -1).mean(axis=1)
    center = means.mean(axis=0)
    if not np.all(np.isfinite(center)):
        return np.where(np.isfinite(center)[:, None], np.nan, -inf) * np.ones((1, 2))
    half = mean_with_interval(means, 0, _CONFIDENCE)[1]
    return np.stack([center - half, center + half], axis=1)


@check_arguments
def paired_distances(
    law: Callable[..., Sequence[Any]],
    state: Sequence[Any],
    other: Sequence[Any],
    p: Any = None,
    draws: int = 1,
    *,
    steps: int = 1_000,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Return the distances of two runs of a random map with the same draws.

    Parameters
    ----------
    law, p, draws, seed
        As for `lyapunov_exponents`.
    state, other : sequence of float and int
        Initial states of the two runs.
    steps : int, optional
        Number of steps.

    Returns
    -------
    ndarray, shape (steps + 1, n_states)
        Absolute differences of all states, from the initial ones on.

    Raises
    ------
    ValueError
        States of different length.

    Examples
    --------
    >>> def averaging(state, draws, p):
    ...     return [0.5 * state[0] + draws[0]]
    >>> distances = paired_distances(averaging, [0.0], [8.0], steps=3)
    >>> print(distances[:, 0])
    [8. 4. 2. 1.]
    """
    if len(state) != len(other):
        raise ValueError(f"other must have {len(state)} states, got {shown(other)}")
    rng = np.random.default_rng(seed)
    pair = [list(state), list(other)]
    distances = np.zeros((as_count(steps, "steps", minimum=1) + 1, len(state)))
    for step in range(len(distances)):
        distances[step] = [abs(a - b) for a, b in zip(*pair, strict=True)]
        u = rng.random(draws).tolist()
        pair = [
            [int(new) if isinstance(old, int) else new for old, new in zip(run, law(run, u, p), strict=True)]
            for run in pair
        ]
    return distances
