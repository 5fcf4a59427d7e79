"""Periods, sections and return maps of sampled signals; knows no protocol.

The period is the lag with the largest correlation. A section is the time at which the signal agrees best with one
period of itself (the template): the phase condition of periodic orbits, which needs no choice of a level and holds for
signals with several corners per period. Deviations of successive periods from the template are mapped to each other by
a linear map, fitted by least squares (dynamic mode decomposition).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecc.cycles.return_maps import UNKNOWN

__all__ = [
    "MIN_PERIODS",
    "NEAR",
    "ReturnMap",
    "Sections",
    "bin_means",
    "dead_beat",
    "decay_text",
    "decays",
    "fitted_map",
    "memory_maps",
    "multipliers_of",
    "period_of",
    "profiles",
    "remembered_map",
    "sections_of",
]

Real = NDArray[np.float64]

_DIP = 0.3  # a period begins and ends at peaks of the correlation between which it falls below this
_SLACK = 0.05  # peaks this much lower than the highest one count as peaks of a whole period
NEAR = 4.0 / 3.0
"""Factor around an approximate period within which the period is sought."""
MIN_PERIODS = 6
"""Periods that a signal must contain."""
_ABOVE = 4.0  # deviations below this multiple of the noise are not the first of a pair
_CERTAIN = 0.05  # standard error of a multiplier up to which a further direction may make it less certain
CERTAIN = 0.1
"""Standard error up to which a multiplier of a memory is certain."""
_PARTS = 10  # parts of a run, each of which is left out once for a standard error
_RANKS = 3  # maximum number of multipliers that a fit distinguishes


class Sections(NamedTuple):
    """Starts of periods [samples, ascending, fractional], the mean period [samples] and the template of one period."""

    starts: Real
    period: float
    template: Real


class ReturnMap(NamedTuple):
    """Multipliers of a fitted map, the standard error of the dominant one, and the number of pairs of periods."""

    multipliers: NDArray[np.complex128]
    error: float
    pairs: int


def period_of(signal: Real, threshold: float, near: float | None = None) -> float:
    """Return the period of a signal in samples; nan if it is not periodic.

    Parameters
    ----------
    signal : ndarray, shape (n,)
    threshold : float
        Minimum correlation of the signal with itself one period later, for example 0.9.
    near : float, optional
        Approximate period, samples: shorter and longer ones by more than a third are not considered. None: the
        shortest one with the largest correlation.
    """
    n = len(signal)
    centered = signal - signal.mean()
    if not centered.any():
        return float("nan")
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(centered, size)
    products = np.fft.irfft(np.abs(spectrum) ** 2, size)[: n // MIN_PERIODS]
    squares = np.concatenate([[0.0], np.cumsum(centered**2)])
    lags = np.arange(len(products))
    energy = np.sqrt(squares[n - lags] * (squares[n] - squares[lags]))
    correlation = products / np.maximum(energy, 1e-300)
    if near is not None:
        low, high = round(near / NEAR), round(near * NEAR) + 1
        lag = low + int(correlation[low:high].argmax()) if 0 < low < len(correlation) - 1 else 0
        is_peak = low < lag < min(high, len(correlation)) - 1 and correlation[lag] >= threshold
        return lag + _vertex(-correlation, lag) if is_peak else float("nan")
    below = np.flatnonzero(correlation < _DIP)
    if not len(below) or below[0] + 2 >= len(correlation):
        return float("nan")
    first = int(below[0])
    best = float(correlation[first:].max())
    if best < threshold:
        return float("nan")
    near = first + int(np.flatnonzero(correlation[first:] >= best - _SLACK)[0])
    lag = near + int(correlation[near : near + max(near // 5, 1) + 1].argmax())
    return lag + _vertex(-correlation, lag)


def sections_of(signal: Real, period: float, template: Real | None = None) -> Sections:
    """Return the sections of a signal at the end of which it is periodic.

    Parameters
    ----------
    signal : ndarray, shape (n,)
    period : float
        Period, samples.
    template : ndarray, optional
        One period; None: of the end of the signal, and then the mean of its last periods.
    """
    starts = np.empty(0)
    for chosen in (template,) if template is not None else (signal[-round(period) - 1 :], None):
        if chosen is None:
            last = starts[-max(len(starts) // 4, 2) :]
            chosen = profiles(signal[:, None], last, period, round(period)).mean(axis=0)[:, 0]
        mismatch = _mismatch(signal, chosen)
        starts = _minima(mismatch, period)
        if len(starts) > 2 * MIN_PERIODS and template is None:
            late = starts[len(starts) // 2 :]
            period = float((late[-1] - late[0]) / (len(late) - 1))
    assert chosen is not None
    return Sections(starts, period, chosen)


def _mismatch(signal: Real, template: Real) -> Real:
    """Return the sum of squared differences between the template and the signal from each sample on."""
    from scipy.signal import fftconvolve

    products = fftconvolve(signal - signal.mean(), (template - signal.mean())[::-1], mode="valid")
    squares = np.concatenate([[0.0], np.cumsum((signal - signal.mean()) ** 2)])
    energy = squares[len(template) :] - squares[: -len(template)]
    return np.asarray(energy + ((template - signal.mean()) ** 2).sum() - 2.0 * products)


def _minima(mismatch: Real, period: float) -> Real:
    """Return the best matches, one per period, from the last one back."""
    width = max(round(period / 4.0), 1)
    at = len(mismatch) - 1 - int(np.argmin(mismatch[: -round(period) - 2 : -1]))
    starts = [at + _vertex(mismatch, at)]
    while starts[-1] - period - width >= 1.0:
        center = round(starts[-1] - period)
        low = center - width
        at = low + int(np.argmin(mismatch[low : center + width + 1]))
        starts.append(at + _vertex(mismatch, at))
    return np.array(starts[::-1])


def _vertex(values: Real, at: int) -> float:
    """Return the offset from an index of the vertex of the parabola through it and its neighbors."""
    if not 0 < at < len(values) - 1:
        return 0.0
    before, here, after = (float(value) for value in values[at - 1 : at + 2])
    curvature = before - 2.0 * here + after
    return float(np.clip(0.5 * (before - after) / curvature, -0.5, 0.5)) if curvature > 0.0 else 0.0


def _interpolated(series: Real, at: Real) -> Real:
    """Return several series, (n_samples, n_series), at fractional samples, interpolated linearly."""
    at = np.clip(at, 0.0, len(series) - 1.000001)
    low = np.floor(at).astype(np.int64)
    share = (at - low)[..., None]
    return np.asarray(series[low] * (1.0 - share) + series[low + 1] * share)


def profiles(series: Real, starts: Real, period: float, points: int) -> Real:
    """Return one period of several series from each section on, interpolated linearly.

    Parameters
    ----------
    series : ndarray, shape (n_samples, n_series)
    starts : ndarray, shape (n_sections,)
        Sections, samples.
    period : float
        Period, samples.
    points : int
        Points per period.

    Returns
    -------
    ndarray, shape (n_sections, points, n_series)
    """
    return _interpolated(series, starts[:, None] + period * np.arange(points) / points)


def bin_means(series: Real, starts: Real, period: float, bins: int) -> Real:
    """Return the means of several series over equal parts of a period from each section on.

    The means are differences of cumulative sums, so that they do not depend on the places of samples.

    Parameters
    ----------
    series : ndarray, shape (n_samples, n_series)
    starts : ndarray, shape (n_sections,)
        Sections, samples.
    period : float
        Period, samples.
    bins : int

    Returns
    -------
    ndarray, shape (n_sections, bins, n_series)
    """
    sums = np.cumsum(series - series.mean(axis=0), axis=0)
    values = _interpolated(sums, starts[:, None] + period * np.arange(bins + 1) / bins)
    return np.asarray(np.diff(values, axis=1) * (bins / period) + series.mean(axis=0))


def fitted_map(sequences: list[Real], floor: float, ceiling: float) -> ReturnMap | None:
    """Return the linear map that takes the deviation of one period to that of the next.

    Parameters
    ----------
    sequences : list of ndarray, each of shape (n_periods, n)
        Deviations in successive periods, one array per run.
    floor : float
        Norm of the noise: a deviation below four times this norm, or that of the last quarter of a run, is noise.
    ceiling : float
        Norm above which a deviation is not small.

    Returns
    -------
    ReturnMap or None
        Of pairs with a first deviation between the limits; None without such a pair. The multiplier is 0 if all
        deviations are below the floor one period later; `error` is then the ratio of the floor to the deviation.
    """
    pairs = [pair for rows in sequences for pair in _pairs(rows, _floor_of(rows, floor), ceiling)]
    if not pairs:
        return _slow(sequences, floor, ceiling)
    return _fit(pairs)


def remembered_map(rows: Real) -> ReturnMap | None:
    """Return the linear map that takes the deviations of a memory in one cycle to those in the next, on average.

    Random draws and packets make a memory y deviate in each cycle. A part of the deviation is kept, and another one is
    gone in the next cycle. Hence the map is M with C_2 = M C_1, for the covariances C_k of memories k cycles apart. It
    is taken in the direction in which deviations are largest.

    Parameters
    ----------
    rows : ndarray, shape (n_cycles, n)
        Memories in successive cycles.

    Returns
    -------
    ReturnMap or None
        One multiplier. `error` is the standard error, from the values without one of ten parts of the run. The
        multiplier is 0 if the covariance of successive cycles is below four standard deviations of that of independent
        ones; `error` is then half of this limit, as a share of the variance. None: the memory does not vary, or the run
        has fewer than 20 cycles.
    """
    if len(rows) < 2 * _PARTS:
        return None
    centered = rows - rows.mean(axis=0)
    direction = np.linalg.svd(centered, full_matrices=False)[2][0]
    values = centered @ direction
    if not np.ptp(values) > 1e-9:
        return None
    products = np.column_stack([values[1:-1] * values[:-2], values[2:] * values[:-2]])
    power = float(values @ values) / len(values)
    if products[:, 0].mean() < _ABOVE * power / np.sqrt(len(values)):
        return ReturnMap(np.zeros(1, complex), 0.5 * _ABOVE / np.sqrt(len(values)), len(products))
    parts = np.array([part.sum(axis=0) for part in np.array_split(products, _PARTS)])
    one, two = parts.sum(axis=0)
    without = (two - parts[:, 1]) / (one - parts[:, 0])
    error = float(np.sqrt((_PARTS - 1) / _PARTS * np.sum((without - without.mean()) ** 2)))
    return ReturnMap(np.array([two / one], dtype=complex), error, len(products))


def memory_maps(memories: Mapping[str, Real]) -> dict[str, ReturnMap | None]:
    """Return the map of the deviations of each quantity of a memory: of the sum and of the differences of flows.

    Quantities have maps of their own, because the one with the largest deviations hides those that decay more slowly.

    Parameters
    ----------
    memories : mapping
        Quantity -> array of shape (n_cycles, n_flows). A bound that is not set yet has no map.

    Returns
    -------
    dict
        "sum of flows" and, for several flows, "differences of flows", each with the quantity -> map; None: the
        deviations do not vary, or the run is too short.
    """
    maps: dict[str, ReturnMap | None] = {}
    for quantity, rows in memories.items():
        if np.abs(rows).max() >= UNKNOWN or not rows.mean() > 0.0:
            continue
        relative = rows / rows.mean()
        means = relative.mean(axis=1, keepdims=True)
        maps[f"{quantity}, sum of flows"] = remembered_map(means)
        if rows.shape[1] > 1:
            maps[f"{quantity}, differences of flows"] = remembered_map(relative - means)
    return maps


def multipliers_of(maps: Mapping[str, ReturnMap | None]) -> NDArray[np.complex128]:
    """Return the multipliers of maps, the largest modulus first; uncertain ones only if none is certain.

    Parameters
    ----------
    maps : mapping
        Mode -> map, or None.
    """
    known = [fitted for fitted in maps.values() if fitted is not None]
    certain = [fitted for fitted in known if fitted.error <= CERTAIN]
    values = np.concatenate([np.empty(0, complex), *(fitted.multipliers for fitted in certain or known)])
    return values[np.argsort(-np.abs(values), kind="stable")]


def decays(maps: Mapping[str, ReturnMap | None]) -> bool | None:
    """Return whether deviations decay; None within two standard errors of 1, and without a multiplier.

    Parameters
    ----------
    maps : mapping
        Mode -> map, or None.
    """
    sizes = [(abs(fitted.multipliers[0]), 2.0 * fitted.error) for fitted in maps.values() if fitted is not None]
    if any(size - error > 1.0 for size, error in sizes):
        return False
    return True if sizes and all(size + error < 1.0 for size, error in sizes) else None


def decay_text(mode: str, fitted: ReturnMap | None) -> str:
    """Return the multipliers of a mode in words.

    Parameters
    ----------
    mode : str
        Name of the mode, for example "differences of flows".
    fitted : ReturnMap or None
        Map of its deviations.
    """
    if fitted is None:
        return f"{mode}: no deviation above the noise, so no multiplier"
    values = ", ".join(
        f"{value.real:.3f}{value.imag:+.3f}j" if value.imag else f"{value.real:.3f}" for value in fitted.multipliers
    )
    return f"{mode}: {values}, standard error {fitted.error:.2g} from {fitted.pairs} pairs of periods"


def dead_beat(sequences: list[Real], floor: float) -> ReturnMap | None:
    """Return the multiplier 0 if deviations are noise one period after that of the disturbance, which comes first.

    Parameters
    ----------
    sequences : list of ndarray, each of shape (n_periods, n)
        Deviations, one array per run; the first period has the disturbance.
    floor : float
        Norm of the noise.

    Returns
    -------
    ReturnMap or None
        `error` is the ratio of the deviation to that of the period with the disturbance. None: a disturbance is not
        above the noise.
    """
    ratios = list[float]()
    for rows in sequences:
        norms = np.linalg.norm(rows, axis=1)
        if len(norms) < 2 or norms[0] <= _ABOVE * _floor_of(rows, floor):
            return None
        ratios.append(float(norms[1] / norms[0]))
    return ReturnMap(np.zeros(1, complex), max(ratios), len(ratios)) if ratios else None


def _floor_of(rows: Real, floor: float) -> float:
    """Return the norm of the noise in one run: that of its last quarter, if it is larger."""
    return max(floor, float(np.median(np.linalg.norm(rows[-max(len(rows) // 4, 1) :], axis=1))))


def _pairs(rows: Real, floor: float, ceiling: float) -> list[tuple[Real, Real, float]]:
    """Return successive deviations and the noise, weighted by the norm of the first deviation."""
    norms = np.linalg.norm(rows, axis=1)
    large = np.flatnonzero(norms >= ceiling)
    first = int(large[-1]) + 1 if len(large) else 0
    usable = [k for k in range(first, len(norms) - 1) if norms[k] > _ABOVE * floor]
    weights = {k: 1.0 / np.sqrt(norms[k]) for k in usable}  # between equal relative and equal absolute errors
    return [(rows[k] * weights[k], rows[k + 1] * weights[k], floor * weights[k]) for k in usable]


def _slow(sequences: list[Real], floor: float, ceiling: float) -> ReturnMap | None:
    """Return the multiplier of deviations that hardly decay within a run; None if they are noise."""
    pairs = [pair for rows in sequences for pair in _pairs(rows, floor, ceiling)]
    if len(pairs) < 3:
        return None
    before, after = (np.array([pair[side] for pair in pairs]).T for side in (0, 1))
    is_coherent = _reduced(before, after, 1)[1] < 0.05
    return _fit(pairs) if is_coherent else None


def _fit(pairs: list[tuple[Real, Real, float]]) -> ReturnMap:
    """Return the map of minimum rank that takes the first deviations to the second ones.

    A rank is not used if it makes the dominant multiplier less certain than a lower one does: its further direction is
    then that of noise.
    """
    before, after = (np.array([pair[side] for pair in pairs]).T for side in (0, 1))
    noise = np.array([pair[2] for pair in pairs])
    if np.all(np.linalg.norm(after, axis=0) < 1.5 * noise):
        return ReturnMap(np.zeros(1, complex), float(np.median(noise / np.linalg.norm(before, axis=0))), len(pairs))
    values, residual = _reduced(before, after, 1)
    error = _spread(before, after, 1)
    for rank in range(2, _RANKS + 1):
        if residual < 0.1 or len(pairs) < 4 * rank:
            break
        more, residual = _reduced(before, after, rank)
        spread = _spread(before, after, rank)
        if not spread <= max(error, _CERTAIN):
            break
        values, error = more, spread
    return ReturnMap(values, error, len(pairs))


def _reduced(before: Real, after: Real, rank: int) -> tuple[NDArray[np.complex128], float]:
    """Return the eigenvalues of the map on the leading directions, the largest first, and its relative residual."""
    left, sizes, right = np.linalg.svd(before, full_matrices=False)
    left, sizes, right = left[:, :rank], sizes[:rank], right[:rank]
    reduced = left.T @ after @ right.T / sizes
    change = after @ right.T @ right
    residual = np.linalg.norm(after - left @ (left.T @ change)) / max(float(np.linalg.norm(after)), 1e-300)
    values = np.linalg.eigvals(reduced).astype(complex)
    return values[np.argsort(-np.abs(values))], float(residual)


def _spread(before: Real, after: Real, rank: int) -> float:
    """Return the standard error of the dominant multiplier, by leaving out one pair at a time."""
    count = before.shape[1]
    if count < rank + 2:
        return float("nan")
    leading = [_reduced(np.delete(before, k, 1), np.delete(after, k, 1), rank)[0][0] for k in range(count)]
    values = np.array([complex(value.real, abs(value.imag)) for value in leading])
    return float(np.sqrt((count - 1) / count * np.sum(np.abs(values - values.mean()) ** 2)))
