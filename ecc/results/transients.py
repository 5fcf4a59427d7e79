"""Transients of runs: settling time, overshoot, rate of decay, and limit cycles.

All functions take plain arrays, from fluid runs, packet runs, recurrences or solutions of `solve_dde`. `response`
applies them to every flow of a trajectory. `ecc.stability.classify_stability` classifies noisy runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import Displayed
from ecc.results.trajectory import SERIES, Trajectory

if TYPE_CHECKING:
    import xarray as xr

__all__ = [
    "Decay",
    "LimitCycle",
    "decay",
    "limit_cycle",
    "overshoot",
    "response",
    "settling_time",
    "why_no_limit_cycle",
]

FloatArray = NDArray[np.float64]

_REGULAR = 1e-2  # maximum relative difference between the cycles of a limit cycle


def _signal(time: ArrayLike, signal: ArrayLike) -> tuple[FloatArray, FloatArray]:
    t, x = np.asarray(time, dtype=float), np.asarray(signal, dtype=float)
    if t.ndim != 1 or t.shape != x.shape or len(t) < 2:
        raise ValueError(f"time and signal must have one shape (n,) with n >= 2, got {t.shape} and {x.shape}")
    if not np.all(np.diff(t) > 0.0):
        raise ValueError("time must increase")
    return t, x


@check_arguments
def settling_time(
    time: ArrayLike, signal: ArrayLike, final: float, band: float = 0.02, scale: float | None = None
) -> float:
    """Return the time after which a signal stays within a band around its final value.

    It is the settling time of control engineering (Ogata, Modern Control Engineering, 5-3), measured from `time[0]`.

    Parameters
    ----------
    time : array_like, shape (n,), s, increasing
    signal : array_like, shape (n,)
    final : float
        Final value of the signal.
    band : float, > 0, optional
        Half the width of the band, as a share of `scale`.
    scale : float, > 0, optional
        Scale of the band. None: the absolute value of `final`, which then must not be 0.

    Returns
    -------
    settling_time : float, s
        0 if the signal never leaves the band, inf if it is outside at the end. Samples are interpolated linearly.

    Raises
    ------
    ValueError
        Arrays of different length, time that does not increase, `final` = 0 without a scale, band <= 0, scale <= 0.

    Examples
    --------
    >>> t = np.linspace(0, 10, 1001)
    >>> round(settling_time(t, 1 - np.exp(-t), 1.0), 3)  # log 50
    3.912
    """
    t, x = _signal(time, signal)
    if not (np.isfinite(final) and (final != 0.0 or scale is not None)):
        raise ValueError(f"final must be finite and not 0, got {shown(final)}")
    if not band > 0.0:
        raise ValueError(f"band must be > 0, got {shown(band)}")
    if scale is not None and not scale > 0.0:
        raise ValueError(f"scale must be > 0, got {shown(scale)}")
    off, half_width = x - final, band * (abs(final) if scale is None else scale)
    outside = np.flatnonzero(np.abs(off) > half_width)
    if len(outside) == 0:
        return 0.0
    k = int(outside[-1])
    if k == len(t) - 1:
        return float(np.inf)
    share = (np.copysign(half_width, off[k]) - off[k]) / (off[k + 1] - off[k])
    return float(t[k] + share * (t[k + 1] - t[k]) - t[0])


@check_arguments
def overshoot(signal: ArrayLike, final: float) -> float:
    """Return the overshoot of a signal beyond its final value, as a share of it; 0 without overshoot.

    Parameters
    ----------
    signal : array_like, shape (n,)
        Signal; overshoot is on the side of `final` away from signal[0].
    final : float
        Final value, not 0.

    Returns
    -------
    overshoot : float
        max(signal) / final - 1 if the signal starts below `final`, 1 - min(signal) / final if above.

    Raises
    ------
    ValueError
        An empty signal or one that is not finite, `final` = 0.

    Examples
    --------
    >>> overshoot([0.0, 0.8, 1.25, 0.95, 1.0], 1.0)
    0.25
    """
    x = np.asarray(signal, dtype=float)
    if x.ndim != 1 or len(x) == 0:
        raise ValueError(f"signal must be of shape (n,) with n >= 1, got shape {x.shape}")
    if not (np.isfinite(final) and final != 0.0):
        raise ValueError(f"final must be finite and not 0, got {shown(final)}")
    relative = x / final
    excess = relative.max() - 1.0 if relative[0] <= 1.0 else 1.0 - relative.min()
    return float(max(0.0, excess))


@dataclass(frozen=True, repr=False)
class Decay(Displayed):
    """The slowest mode of a signal, exp(`rate` t) cos(`frequency` t + phase).

    `rate` [1/s] is negative if the mode decays; `frequency` [rad/s] is 0 if it does not oscillate. `share` is the part
    of the signal that the fitted modes leave unexplained (root mean square).
    """

    rate: float
    frequency: float
    share: float
    _units = {"rate": "1/s", "frequency": "rad/s"}

    @property
    def period(self) -> float:
        """Period of the oscillation, s; inf without oscillation."""
        return 2.0 * np.pi / self.frequency if self.frequency else float(np.inf)


@check_arguments
def decay(time: ArrayLike, deviation: ArrayLike, modes: int = 6, least: float = 1e-3) -> Decay:
    """Return the slowest mode of a sum of few exponentials, for example of a smooth run near its equilibrium.

    It uses the matrix pencil method (Hua and Sarkar, "Matrix pencil method for estimating parameters of exponentially
    damped/undamped sinusoids in noise", IEEE Trans. ASSP 38(5), 1990). Near an equilibrium `rate` is the spectral
    abscissa of the linear model, or log(spectral radius) / T of a recurrence.

    Parameters
    ----------
    time : array_like, shape (n,), s
        Evenly spaced, n >= 4 modes.
    deviation : array_like, shape (n,)
        Deviation from the equilibrium.
    modes : int, >= 1, optional
        Maximum number of exponentials; an oscillation has two. Singular values below 1e-12 of the largest count as
        rounding.
    least : float, optional
        Minimum share of the signal (root mean square) of a mode; weaker modes are ignored.

    Returns
    -------
    Decay
        Slowest mode; its rate is nan if the deviation is 0 throughout.

    Raises
    ------
    ValueError
        Arrays of different length, uneven or too few samples.

    Notes
    -----
    If a signal has noise or an unknown number of modes, use `ecc.stability.classify_stability` instead. Leave out the
    start, which still contains fast modes.

    Examples
    --------
    >>> t = np.arange(0, 10, 0.05)
    >>> mode = decay(t, np.exp(-0.3 * t) * np.cos(2 * t) + np.exp(-t))
    >>> round(mode.rate, 6), round(mode.frequency, 6)
    (-0.3, 2.0)
    """
    t, z = _signal(time, deviation)
    gaps = np.diff(t)
    step = float(t[-1] - t[0]) / (len(t) - 1)
    if not np.all(np.abs(gaps - step) <= 1e-6 * step):
        raise ValueError("time must be evenly spaced")
    if modes < 1 or len(t) < 4 * modes:
        raise ValueError(f"modes must be >= 1 and at most a quarter of the {len(t)} samples, got {modes}")
    size = float(np.abs(z).max())
    if size == 0.0:
        return Decay(float("nan"), 0.0, 0.0)
    z = z / size
    width = min(len(z) // 2, 100)
    windows = np.lib.stride_tricks.sliding_window_view(z, width + 1)
    _, values, right = np.linalg.svd(windows, full_matrices=False)
    basis = right[: min(modes, int(np.sum(values > 1e-12 * values[0])))]
    roots = np.linalg.eigvals(np.linalg.lstsq(basis[:, :-1].T, basis[:, 1:].T, rcond=None)[0])
    roots = roots[np.abs(roots) > 0.0]
    powers = np.exp(np.outer(np.arange(len(z)), np.log(roots.astype(complex))))
    scale = np.abs(powers).max(axis=0)
    weights = np.linalg.lstsq(powers / scale, z.astype(complex), rcond=None)[0]
    parts = np.sqrt(np.mean(np.abs(powers / scale * weights) ** 2, axis=0))
    rest = z - (powers / scale @ weights).real
    if not 0.0 < least < 1.0:
        raise ValueError(f"least must be > 0 and < 1, got {shown(least)}")
    seen = parts > least * np.sqrt(np.mean(z * z))
    exponents = np.log(roots[seen].astype(complex)) / step
    slow = exponents[exponents.real >= exponents.real.max() - 1e-6 * np.abs(exponents.real).max()]
    slowest = slow[np.argmin(np.abs(slow.imag))]
    return Decay(float(slowest.real), abs(float(slowest.imag)), float(np.sqrt(np.mean(rest * rest) / np.mean(z * z))))


@dataclass(frozen=True, repr=False)
class LimitCycle(Displayed):
    """A limit cycle of a signal.

    `period` [s] and `amplitude` (half of peak to peak) are means over `cycles` whole cycles about `level`; `spread` is
    the maximum relative difference of the period or amplitude of a cycle from these. `multiplier` is the factor per
    cycle by which the distance from the limit cycle shrinks, from the amplitudes before it: the absolute value of the
    largest Floquet multiplier other than 1; nan if the signal is on the limit cycle from the start.
    """

    period: float
    amplitude: float
    level: float
    cycles: int
    spread: float
    multiplier: float
    _units = {"period": "s"}


@check_arguments
def limit_cycle(time: ArrayLike, signal: ArrayLike, skip: float = 0.0, regular: float = _REGULAR) -> LimitCycle | None:
    """Return the limit cycle of a signal, or None if it has none: it converges, grows, or is not periodic.

    Parameters
    ----------
    time : array_like, shape (n,), s, increasing
    signal : array_like, shape (n,)
    skip : float, s, optional
        Time at the start that is left out.
    regular : float, > 0, optional
        Maximum relative difference between the last third of the cycles, which are three or more.

    Returns
    -------
    LimitCycle or None
        Limit cycle, or None: `why_no_limit_cycle` returns the reason. A cycle begins when the signal rises through the
        middle between the peak and the trough of its second half. Peaks are those of parabolas through three samples,
        for the sake of coarse samples.

    Raises
    ------
    ValueError
        Arrays of different length, time that does not increase.

    Examples
    --------
    >>> t = np.arange(0, 60, 0.05)
    >>> cycle = limit_cycle(t, 3 + (2 - np.exp(-0.2 * t)) * np.sin(t))
    >>> round(cycle.period, 2), round(cycle.amplitude, 2), round(float(np.log(cycle.multiplier)) / cycle.period, 2)
    (6.28, 2.0, -0.2)
    """
    cycle = _cycle(*_signal(time, signal), skip, regular)
    return cycle if isinstance(cycle, LimitCycle) else None


@check_arguments
def why_no_limit_cycle(time: ArrayLike, signal: ArrayLike, skip: float = 0.0, regular: float = _REGULAR) -> str | None:
    """Return in one line the reason why a signal has no limit cycle, or None if `limit_cycle` finds one.

    Parameters
    ----------
    time, signal, skip, regular
        See `limit_cycle`.

    Returns
    -------
    str or None
        Reason in one line, for example "there are 2 samples after skip, and 8 are needed".

    Examples
    --------
    >>> why_no_limit_cycle([0.0, 1.0, 2.0], [1.0, 0.0, 1.0])
    'there are 2 samples after skip, and 8 are needed'
    """
    cycle = _cycle(*_signal(time, signal), skip, regular)
    return cycle if isinstance(cycle, str) else None


def _cycle(t: FloatArray, x: FloatArray, skip: float, regular: float) -> LimitCycle | str:
    """Return the limit cycle of a signal, or the reason why it has none."""
    if not regular > 0.0:
        raise ValueError(f"regular must be > 0, got {regular!r}")
    t, x = t[t > t[0] + skip], x[t > t[0] + skip]
    if len(x) < 8:
        return f"there are {len(x)} samples after skip, and 8 are needed"
    late = x[len(x) // 2 :]
    if np.ptp(late) <= 1e-9 * max(float(np.abs(late).max()), 1e-300):
        return f"it has converged: its second half is {late[-1]:g}, but for rounding"
    level = 0.5 * float(late.max() + late.min())
    y = x - level
    rising = np.flatnonzero((y[:-1] < 0.0) & (y[1:] >= 0.0))
    at = t[rising] - y[rising] * (t[rising + 1] - t[rising]) / (y[rising + 1] - y[rising])
    if len(at) < 4:
        return f"it rises through the middle of its second half, {level:g}, {len(at)} times, and 4 are needed"
    periods = np.diff(at)
    heights = np.array(
        [0.5 * (_peak(y[a : b + 2]) + _peak(-y[a : b + 2])) for a, b in zip(rising[:-1], rising[1:], strict=True)]
    )
    last = max(3, len(periods) // 3)
    period, amplitude = float(periods[-last:].mean()), float(heights[-last:].mean())
    spread = max(
        float(np.abs(periods[-last:] / period - 1.0).max()), float(np.abs(heights[-last:] / amplitude - 1.0).max())
    )
    if spread > regular:
        return (
            f"the last {last} cycles differ by {spread:.2g} of their mean, and at most {regular:g} (regular) is allowed"
        )
    return LimitCycle(period, amplitude, level, last, spread, _approach(heights))


def _peak(values: FloatArray) -> float:
    """Return the maximum of the parabola through the largest value and its neighbors."""
    k = int(np.argmax(values))
    if k == 0 or k == len(values) - 1:
        return float(values[k])
    before, top, after = values[k - 1 : k + 2]
    bend = before - 2.0 * top + after
    return float(top - (before - after) ** 2 / (8.0 * bend)) if bend < 0.0 else float(top)


def _approach(heights: FloatArray) -> float:
    """Return the factor by which differences between successive amplitudes shrink, while they exceed rounding."""
    steps = np.abs(np.diff(heights))
    near = steps < 0.03 * heights[-1]
    floor = max(float(steps[-1]) * 3.0, 1e-9 * float(heights[-1]))
    usable = near & (steps > floor)
    first = int(np.argmax(usable)) if usable.any() else 0
    run = usable[first:]
    count = len(run) if run.all() else int(np.argmin(run))
    if count < 3:
        return float("nan")
    slope = np.polyfit(np.arange(count), np.log(steps[first : first + count]), 1)[0]
    return float(np.exp(slope))


@check_arguments
def response(
    run: Trajectory, final: ArrayLike, series: str = "rate", band: float = 0.02, since: float = 0.0
) -> xr.Dataset:
    """Return settling time, overshoot and limit cycle of each flow (or link) of a run.

    Parameters
    ----------
    run : Trajectory
        Run of any engine.
    final : array_like
        Expected final values: one for all, or shape (n,).
    series : str, optional
        Name in `ecc.results.trajectory.SERIES`, for example "rate" [bit/s] or "arrival" [bit/s].
    band : float, > 0, optional
        Half the width of the band, as a share of the final value: see `settling_time`.
    since : float, s, optional
        Time before which samples are left out.

    Returns
    -------
    Dataset
        Dataset over flow or link: `settling_time` [s, from `since`; inf: it does not settle], `overshoot`, `status`
        ("settled", "cycles", "moves"), and `period` [s] and `amplitude` of the limit cycle (nan without one).

    Raises
    ------
    ValueError
        A series that the run does not have, `final` of another shape or 0, no samples after `since`.

    Examples
    --------
    >>> net = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05])
    >>> run = ecc.simulate(ecc.Scenario(net, ecc.models.QIRCP(), 10.0), "fluid")
    >>> bool(response(run, [9.5e6]).settling_time[0] < 5.0)
    True
    """
    import xarray as xr

    if series not in run.data:
        raise ValueError(f"series must be one of {', '.join(map(str, run.data))}, got {shown(series)}")
    data = run.data[series].sel(time=slice(since, None))
    if data.sizes["time"] < 2:
        run.raise_if_incomplete(samples=2)
        raise ValueError(f"since must be before the last two samples, got {shown(since)} s")
    over = SERIES[series][0]
    values, time = data.to_numpy(), data["time"].to_numpy()
    finals = np.asarray(final, dtype=float)
    if finals.ndim > 1 or finals.shape not in ((), (values.shape[1],)):
        raise ValueError(f"final must be one value or {values.shape[1]}, got shape {finals.shape}")
    table: dict[str, list[float]] = {name: [] for name in ("settling_time", "overshoot", "period", "amplitude")}
    status = []
    for column, level in zip(values.T, np.broadcast_to(finals, values.shape[1]), strict=True):
        settled = settling_time(time, column, float(level), band) + float(time[0]) - since
        cycle = limit_cycle(time, column) if not np.isfinite(settled) else None
        table["settling_time"].append(settled)
        table["overshoot"].append(overshoot(column, float(level)))
        table["period"].append(cycle.period if cycle else np.nan)
        table["amplitude"].append(cycle.amplitude if cycle else np.nan)
        status.append("settled" if np.isfinite(settled) else "cycles" if cycle else "moves")
    variables = {name: (over, np.array(column_values)) for name, column_values in table.items()}
    return xr.Dataset({**variables, "status": (over, status)}, coords={over: data[over]})
