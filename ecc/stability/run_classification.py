"""The stability classification of a run: growth or decay of a small deviation from the equilibrium, and its rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments
from ecc._support.display import Displayed

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["StabilityClassification", "classify_stability"]


@dataclass(frozen=True, repr=False)
class StabilityClassification(Displayed):
    """The stability classification of a run: `status` is "stable", "unstable" or "undecided".

    `growth_rate` [1/s] of the envelope with its standard error `error`, fitted over the windows that end at `time` [s]
    with `amplitude` (of the oscillation in each window, as a share of the equilibrium).
    """

    status: str
    growth_rate: float
    error: float
    time: NDArray[np.float64]
    amplitude: NDArray[np.float64]
    _units = {"growth_rate": "1/s", "error": "1/s", "time": "s"}

    def plot(self) -> go.Figure:
        """Return a Plotly figure of the amplitude of the oscillation over time."""
        from ecc.plot import boundary_figure

        return boundary_figure(
            self.time,
            {"amplitude": self.amplitude},
            log_x=False,
            log_y=True,
            x_title="time [s]",
            y_title="amplitude, share of the equilibrium",
            title=self._title(),
        )

    def _title(self) -> str:
        return f"Stability of a run: {self.status}"


@check_arguments
def classify_stability(
    time: ArrayLike,
    deviation: ArrayLike,
    period: float,
    skip: float = 0.0,
    floor: float = 0.0,
    ceiling: float = np.inf,
    perturbation: tuple[float, float] | None = None,
    confidence: float = 3.0,
) -> StabilityClassification:
    """Return whether a deviation grows or decays, from a straight line through the logarithm of its envelope.

    The envelope is the amplitude of an oscillation of the given period, fitted by least squares in successive windows
    of two periods together with a mean and a trend, so that a slow drift of the operating point does not count as an
    oscillation. Only windows from the first to the one that reaches `floor` (the noise) or `ceiling` (no longer small)
    are used. If fewer than three remain, the growth from the perturbation to the first window outside decides: the rate
    is then only a bound, but its sign is right.

    Parameters
    ----------
    time : array_like, shape (n,), s
        Ends of samples, evenly spaced.
    deviation : array_like, shape (n,)
        Deviation relative to the equilibrium.
    period : float, s
        Period of the expected oscillation, to about 10 %.
    skip : float, s, optional
        Initial time to leave out.
    floor, ceiling : float, optional
        Amplitudes between which the fit is made.
    perturbation : tuple of two float, optional
        (time [s], amplitude) of the deviation at the start, for runs that leave the fitted range at once.
    confidence : float, optional
        Number of standard errors by which the growth rate must differ from zero for a decision.

    Returns
    -------
    StabilityClassification
        Classification; also "undecided" if there are fewer than three windows and no perturbation to compare with.

    Raises
    ------
    ValueError
        Arrays differ in length, time does not increase, the period is shorter than four samples, or the perturbation is
        0.

    Notes
    -----
    Cost: one least-squares fit over all windows, 0.1 s for a million samples.

    Examples
    --------
    >>> t = np.arange(0.01, 20, 0.01)
    >>> classify_stability(t, np.exp(-0.3 * t) * np.cos(9 * t), period=0.7).status
    'stable'
    """
    t, z = np.asarray(time, dtype=float), np.asarray(deviation, dtype=float)
    if t.ndim != 1 or t.shape != z.shape:
        raise ValueError(f"time and deviation must have one shape (n,), got {t.shape} and {z.shape}")
    if perturbation is not None and not (perturbation[1] > 0.0 and floor < ceiling):
        raise ValueError(
            f"perturbation must have an amplitude > 0, and floor be < ceiling, got {perturbation[1]:g}, {floor:g}, "
            f"{ceiling:g}"
        )
    if not np.all(np.diff(t) > 0.0):
        raise ValueError("time must increase")
    keep = t > skip
    t, z = t[keep], z[keep]
    step = float(np.median(np.diff(t))) if len(t) > 1 else np.inf
    per_window = int(2.0 * period / step + 0.5) if np.isfinite(step) else 0
    if per_window < 8 and len(t) > 1:
        raise ValueError(f"period must hold at least 4 samples of {step:g} s, got {period:g} s")
    count = len(t) // per_window if per_window else 0
    ends = t[: count * per_window].reshape(count, -1)[:, -1] if count else np.empty(0)
    amplitude = _amplitudes(z[: count * per_window].reshape(count, -1), period / step) if count else np.empty(0)
    usable = _usable(amplitude, floor, ceiling)
    if usable < 3 and usable < count and perturbation is not None:
        released, level = perturbation
        rate = float(np.log(max(amplitude[usable], 1e-300) / level) / (ends[usable] - released))
        status = "unstable" if amplitude[usable] >= ceiling else "stable"
        return StabilityClassification(status, rate, np.nan, ends[: usable + 1], amplitude[: usable + 1])
    ends, amplitude = ends[:usable], amplitude[:usable]
    if usable < 3:
        return StabilityClassification("undecided", np.nan, np.nan, ends, amplitude)
    x, logs = ends - ends.mean(), np.log(amplitude)
    slope = float(x @ logs / (x @ x))
    residual = logs - logs.mean() - slope * x
    error = float(np.sqrt(residual @ residual / max(1, usable - 2) / (x @ x)))
    if slope > confidence * error:
        status = "unstable"
    elif slope < -confidence * error:
        status = "stable"
    else:
        status = "undecided"
    return StabilityClassification(status, slope, error, ends, amplitude)


def _amplitudes(windows: NDArray[np.float64], samples: float) -> NDArray[np.float64]:
    """Return the amplitude of the oscillation of period `samples` in each row, fitted with a mean and a trend."""
    x = np.arange(windows.shape[1]) - (windows.shape[1] - 1) / 2.0
    phase = 2.0 * np.pi / samples * x
    basis = np.stack([np.ones_like(x), x, np.cos(phase), np.sin(phase)], axis=1)
    weights = np.linalg.lstsq(basis, windows.T, rcond=None)[0]
    amplitude: NDArray[np.float64] = np.hypot(weights[2], weights[3])
    return amplitude


def _usable(amplitude: NDArray[np.float64], floor: float, ceiling: float) -> int:
    """Return the number of windows before the envelope leaves (floor, ceiling)."""
    outside = np.flatnonzero(~((amplitude > floor) & (amplitude < ceiling)))
    return int(outside[0]) if len(outside) else len(amplitude)
