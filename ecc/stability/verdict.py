"""The verdict on a run: does a small deviation from the equilibrium grow or decay, and how fast?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["RunVerdict", "judge"]


@dataclass(frozen=True)
class RunVerdict:
    """What a run says: `status` is "stable", "unstable" or "undecided".

    `growth_rate` [1/s] of the envelope with its standard error `error`, fitted over the windows that end at `time` [s]
    with `amplitude` (root mean square over each window, as a share of the equilibrium).
    """

    status: str
    growth_rate: float
    error: float
    time: NDArray[np.float64]
    amplitude: NDArray[np.float64]


def judge(
    time: ArrayLike,
    deviation: ArrayLike,
    window: float,
    skip: float = 0.0,
    floor: float = 0.0,
    ceiling: float = np.inf,
    push: tuple[float, float] | None = None,
    confidence: float = 3.0,
) -> RunVerdict:
    """Return whether a deviation grows or decays, from a straight line through the logarithm of its envelope.

    The envelope is the root mean square over successive windows, each freed of its own mean and trend (a slow drift of
    the operating point is no oscillation). Only windows from the first to the one that reaches `floor` (lost in the
    noise) or `ceiling` (no longer small) are fitted. Where that leaves fewer than three, the way from the push to the
    window that is outside decides: the rate is then a bound, its sign is right.

    Parameters
        time : shape (n,), s, evenly spaced ends of samples. deviation : shape (n,), relative to the equilibrium.
        window : float, s. At least a period of the slowest oscillation of interest. skip : float, s, to leave out.
        floor, ceiling : amplitudes between which the fit is made.
        push : (time [s], amplitude) at which the deviation was let go, for runs that leave the fitted range at once.
        confidence : how many standard errors the growth rate must be away from zero for a verdict.
    Returns
        RunVerdict; "undecided" also when there are fewer than three windows and no push to judge from.
    Raises
        ValueError: arrays of different length, or a window shorter than four samples.
    Example
        >>> t = np.arange(0.01, 20, 0.01)
        >>> judge(t, np.exp(-0.3 * t) * np.cos(9 * t), window=1.4).status
        'stable'
    """
    t, z = np.asarray(time, dtype=float), np.asarray(deviation, dtype=float)
    if t.ndim != 1 or t.shape != z.shape:
        raise ValueError(f"time and deviation must have one shape (n,), got {t.shape} and {z.shape}")
    keep = t > skip
    t, z = t[keep], z[keep]
    step = float(np.median(np.diff(t))) if len(t) > 1 else np.inf
    per_window = int(window / step + 0.5) if np.isfinite(step) else 0
    if per_window < 4 and len(t) > 1:
        raise ValueError(f"window must hold at least 4 samples of {step:g} s, got {window:g} s")
    count = len(t) // per_window if per_window else 0
    ends = t[: count * per_window].reshape(count, -1)[:, -1] if count else np.empty(0)
    amplitude = _detrended_rms(z[: count * per_window].reshape(count, -1)) if count else np.empty(0)
    usable = _usable(amplitude, floor, ceiling)
    if usable < 3 and usable < count and push is not None:
        released, level = push
        rate = float(np.log(amplitude[usable] / level) / (ends[usable] - released))
        status = "unstable" if amplitude[usable] >= ceiling else "stable"
        return RunVerdict(status, rate, np.nan, ends[: usable + 1], amplitude[: usable + 1])
    ends, amplitude = ends[:usable], amplitude[:usable]
    if usable < 3:
        return RunVerdict("undecided", np.nan, np.nan, ends, amplitude)
    x, level = ends - ends.mean(), np.log(amplitude)
    slope = float(x @ level / (x @ x))
    residual = level - level.mean() - slope * x
    error = float(np.sqrt(residual @ residual / max(1, usable - 2) / (x @ x)))
    if slope > confidence * error:
        status = "unstable"
    elif slope < -confidence * error:
        status = "stable"
    else:
        status = "undecided"
    return RunVerdict(status, slope, error, ends, amplitude)


def _detrended_rms(windows: NDArray[np.float64]) -> NDArray[np.float64]:
    x = np.arange(windows.shape[1]) - (windows.shape[1] - 1) / 2.0
    flat = windows - windows.mean(axis=1, keepdims=True)
    flat = flat - (flat @ x / (x @ x))[:, None] * x
    rms: NDArray[np.float64] = np.sqrt(np.mean(flat**2, axis=1))
    return rms


def _usable(amplitude: NDArray[np.float64], floor: float, ceiling: float) -> int:
    """Number of leading windows before the envelope leaves (floor, ceiling)."""
    outside = np.flatnonzero(~((amplitude > floor) & (amplitude < ceiling)))
    return int(outside[0]) if len(outside) else len(amplitude)
