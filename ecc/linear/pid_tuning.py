"""Tuning of PI and PID controllers: the largest integral gain under a bound on the maximum sensitivity.

At s = j w, |1 + L| >= 1/M excludes an ellipse of (kp, ki), for given kp the interval

    |ki - w Im R(w)| < w sqrt(|1/(M G)|^2 - (kp - Kp(w))^2),   Kp = -Re R,   R = 1/G + kd s/(tf s + 1).

Starting at a stable gain next to ki = 0, the largest ki is the smallest lower end of these intervals over all w. It is
maximized over kp. A step of the load at the input of the plant then has the smallest integrated error, 1/ki. The idea
is known as M-constrained integral gain optimization (MIGO, ascribed to Astrom, Panagopoulos and Hagglund, 1998, whose
text was not read: the equations are derived here).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import inf

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import Displayed, Rows
from ecc.errors import ConvergenceError
from ecc.linear.certificate import Certificate
from ecc.linear.characteristic import Real
from ecc.linear.delay_model import DelayModel
from ecc.linear.margins import Margins
from ecc.linear.pid_loop import PIDLoop
from ecc.linear.pid_region import PIDRegion, Span, pid, pid_region

__all__ = ["PIDTuning", "tune_pid"]

_FREQUENCIES, _GAINS = 1000, 80
_MAX_ACTIVE = 20
_ZOOMS = 12
_BACKED_OFF = 1e-6  # relative: below the largest ki of the samples, so that the bound holds between them
_ATTEMPTS = 16  # with the plants added that had the bound exceeded, each with twice the distance


@dataclass(frozen=True, repr=False)
class PIDTuning(Displayed):
    """A tuned PI or PID controller, with the margins and the proof of its loop.

    Attributes
    ----------
    kp, ki, kd, tf : float
        Gains [-, 1/s, s] and time constant of the derivative filter [s].
    max_sensitivity : float
        Maximum of |1/(1 + L)| over all frequencies for the nominal plant.
    sensitivity_bound : float
        Proven bound on this maximum for all plants in the intervals: the one requested.
    margins : Margins
        Margins of the nominal loop.
    certificate : Certificate
        Proof that the nominal loop is stable.
    gain, delay : tuple of float
        Intervals of the factor on the gain of the plant, and of the change of its dead time [s].
    is_stable : bool or None
        Whether the loop is proven stable for all plants in these intervals; None if this is undecided.
    """

    kp: float
    ki: float
    kd: float
    tf: float
    max_sensitivity: float
    sensitivity_bound: float
    margins: Margins
    certificate: Certificate
    gain: Span
    delay: Span
    is_stable: bool | None

    @property
    def controller(self) -> DelayModel:
        """The controller kp + ki/s + kd s/(tf s + 1)."""
        return pid(self.kp, self.ki, self.kd, self.tf)

    def _rows(self) -> Rows:
        proof = {True: "proven stable", False: "not stable", None: "undecided"}[self.is_stable]
        derivative = [("kd, tf", f"{self.kd:.6g} s, {self.tf:.6g} s")] if self.kd else []
        return [
            ("kp", f"{self.kp:.6g}"),
            ("ki", f"{self.ki:.6g} 1/s"),
            *derivative,
            ("maximum sensitivity", f"{self.max_sensitivity:.4g}"),
            ("gain margin", f"{self.margins.gain_margin:.4g}"),
            ("phase margin", self.margins.phase_text()),
            ("delay margin", self.margins.delay_text()),
            (
                "plants",
                f"{proof} for gain x {self.gain[0]:g} to {self.gain[1]:g}, "
                f"dead time {self.delay[0]:+g} to {self.delay[1]:+g} s",
            ),
            ("their sensitivity", f"<= {self.sensitivity_bound:g}, proven"),
        ]

    def _title(self) -> str:
        return "PID controller" if self.kd else "PI controller"


@check_arguments
def tune_pid(
    plant: DelayModel,
    max_sensitivity: float = 1.4,
    kd: float = 0.0,
    tf: float = 0.0,
    gain: Span = (1.0, 1.0),
    delay: Span = (0.0, 0.0),
) -> PIDTuning:
    """Return the PI controller, or the PID controller with a given kd, of largest ki with a maximum sensitivity.

    Parameters
    ----------
    plant : DelayModel
        Plant with one input and one output, as of `pid_region`.
    max_sensitivity : float, optional
        Bound on the maximum of |1/(1 + L)|, > 1; 1.2 to 2 are usual.
    kd : float, optional
        Derivative gain, s.
    tf : float, optional
        Time constant of the derivative filter, s; it may be 0 if kd is 0.
    gain : (low, high), optional
        Interval > 0 of a factor on the gain of the plant.
    delay : (low, high), optional
        Interval of a change of the plant's dead time, s.

    Returns
    -------
    PIDTuning
        Gains and margins. Stability and the bound on the sensitivity are proven for all plants in the intervals.

    Raises
    ------
    ValueError
        As `pid_region`; or the maximum sensitivity is <= 1.
    ConvergenceError
        No gains with a proof of this maximum sensitivity were found next to ki = 0.

    Notes
    -----
    Gains are computed for plants at the ends of the intervals. The bound is then proven over the intervals: at each
    frequency, the loop gains of all plants fill a sector of a ring. A plant at which the proof fails is added, and
    ki is reduced by a share that is doubled each time, from 1e-6 on.

    Examples
    --------
    >>> from ecc.linear import transfer_function
    >>> tuning = tune_pid(transfer_function([1.0], [1.0, 1.0], 1.0), max_sensitivity=1.4)
    >>> round(tuning.kp, 3), round(tuning.ki, 3), tuning.is_stable
    (0.36, 0.373, True)
    """
    if not max_sensitivity > 1.0:
        raise ValueError(f"max_sensitivity must be > 1, got {shown(max_sensitivity)}")
    region = pid_region(plant, kd, tf)
    region._box(0.0, 0.0, gain, delay)  # checks the intervals
    best: tuple[float, float] | None = None
    for cell in region.stable_cells:
        gains = _largest(region, cell.kp_range, max_sensitivity, gain, delay, np.sign(cell.ki))
        if gains and (best is None or abs(gains[1]) > abs(best[1])):
            best = gains
    if best is None:
        raise ConvergenceError(
            f"no gains found next to ki = 0 with max_sensitivity = {max_sensitivity:g}; "
            "try a larger one, narrower intervals of gain and delay, or another kd",
            None,
        )
    loop = region.loop(*best)
    margins = loop.margins()
    return PIDTuning(
        *best,
        kd,
        tf,
        1.0 / margins.modulus_margin,
        max_sensitivity,
        margins,
        loop.certify(),
        gain,
        delay,
        region.is_stable_in(*best, gain, delay),
    )


def _largest(
    region: PIDRegion, kp: Span, bound: float, gain: Span, delay: Span, sign: float
) -> tuple[float, float] | None:
    """Return the gains of largest |ki| next to the stable side of ki = 0; None if there are none."""
    loop = region._loop
    max_kp, max_ki, max_kd = (gain[1] * max(map(abs, x)) for x in (kp, region.ki, (loop.kd,)))
    top = loop.top(max_kp, max_ki, max_kd, 1.0 - 1.0 / bound)
    if not top < inf:
        return None
    omega = np.union1d(np.linspace(0.0, top, _FREQUENCIES)[1:], np.geomspace(1e-5 * top, top, _FREQUENCIES))
    points = list(product(dict.fromkeys(gain), dict.fromkeys(delay)))
    grid = np.linspace(*kp, _GAINS)
    for attempt in range(_ATTEMPTS):
        best = _largest_of(loop, omega, grid, bound, sign, points)
        if best is None or not region.certify(*best).stable:
            return None
        kp_best, ki_best = best[0], best[1] * (1.0 - _BACKED_OFF * 2.0**attempt)
        plant = loop.unclear_plant(kp_best, ki_best, gain, delay, bound)
        if plant is None:
            return kp_best, ki_best
        points.append(plant)
    return None


def _largest_of(
    loop: PIDLoop, omega: Real, grid: Real, bound: float, sign: float, points: Sequence[tuple[float, float]]
) -> tuple[float, float] | None:
    """Return the gains of largest |ki| at which some plants have the bound at samples; None if there are none."""
    for _ in range(_ZOOMS):
        limits = np.min([_limits(loop, omega, grid, bound, sign, *point) for point in points], axis=0)
        largest = limits.min(axis=1)
        at = int(np.argmax(largest))
        level = np.concatenate([[inf], limits[at], [inf]])
        active = (level[1:-1] <= level[:-2]) & (level[1:-1] <= level[2:]) & (level[1:-1] <= 1.05 * largest[at])
        cells = np.flatnonzero(active)[:_MAX_ACTIVE]  # finer samples about active frequencies
        low, high = omega[np.maximum(cells - 1, 0)], omega[np.minimum(cells + 1, len(omega) - 1)]
        omega = np.union1d(omega, (low + np.linspace(0.0, 1.0, 9)[:, None] * (high - low)).ravel())
        best = float(grid[at]), float(sign * largest[at])
        grid = np.linspace(grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)], 21)
    return best if 0.0 < largest[at] < inf else None


def _limits(
    loop: PIDLoop, omega: Real, kp: Real, bound: float, sign: float, factor: float, extra: float
) -> NDArray[np.float64]:
    """Return the bound on sign ki for each kp and frequency: 0 if it fails next to ki = 0, inf without a bound.

    The plant is multiplied by factor exp(-s extra).
    """
    s = 1j * omega
    plant = np.exp(s * extra) / factor * loop.d.at(omega)[0] / loop.n.at(omega)[0]
    inverse = plant + loop.kd * s / (loop.tf * s + 1.0)
    distance = np.abs(plant / bound) ** 2 - (kp[:, None] + inverse.real) ** 2
    half = omega * np.sqrt(np.maximum(distance, 0.0))
    middle = sign * omega * inverse.imag
    return np.where((distance > 0.0) & (middle + half > 0.0), np.maximum(middle - half, 0.0), inf)
