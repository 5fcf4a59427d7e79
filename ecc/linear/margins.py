"""Margins of the open loop from the critical point -1, with exact delays.

If states form groups such that one group acts on the next but not back, each group is a loop with individual margins:
det Delta/det Delta_open is then the product of the (1 + L_i) of the loops, and the crossings of the product minus 1 are
meaningless. A group may contain several coupled loops. Their margins are those of one factor k exp(-j phi - s theta)
on all of them, det(I + k exp(-j phi - s theta) Q) = 0, which are those of each eigenvalue of the return ratio Q used
as L (MacFarlane, Postlethwaite 1977).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import inf, isfinite, isnan, nan, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecc._support.display import Displayed, Rows, frequency_text, quantity_text
from ecc.linear.bordered_loop import BorderedLoop, bordered_loop
from ecc.linear.characteristic import Complex, Real
from ecc.linear.coupled_loops import along_loci, loops_cut
from ecc.linear.exact_pair import MAX_STATES
from ecc.linear.frequency_response import settled_beyond
from ecc.linear.imaginary_axis import (
    MAX_NODES,
    Crossing,
    Pair,
    Real3,
    boundary_crossings,
    isolate,
    pieces_to,
    ratio,
    refine,
)
from ecc.linear.systems import LinearSystem

__all__ = ["Margins", "margins"]

_FAR = 2e4  # rad of the longest delay, up to which a first crossing is searched
_ROUNDING = 1e-12  # |L| = 1 up to rounding
_LEVEL = 1e-9  # relative distance below the smallest known |1 + L| at which smaller values are searched
_EXCESSES = (0.05, 1e-3, 1e-6, 1e-9)  # distances from 1 down to which |1 + L| < 1 is searched in turn
_MAX_LEVELS = 30
_MAX_RANGE = 1e10  # times the frequency of |L| < 1/4, up to which a first crossing is searched without delays


@dataclass(frozen=True, repr=False)
class Margins(Displayed):
    """Distances of an open loop L from the critical point -1, over all crossings; the worst of several loops.

    Attributes
    ----------
    stable : bool
        Whether the closed loop is stable; if not, the numbers are distances and not margins.
    gain_margin : float
        Smallest factor > 1 on L that puts a root on the boundary; inf without such a factor (coupled loops: below 50).
    gain_reduction : float
        Largest factor < 1 that puts a root on the boundary; 0 without such a factor.
    phase_margin : float
        Smallest |angle of -L| for |L| = 1, rad; inf if |L| is never 1. It is pi at frequency 0 if L(0) = 1.
    delay_margin : float
        Smallest additional delay of a loop that puts a root on the boundary, s (DelaySystem) or steps (SampledSystem,
        as a real number); inf without such a delay. Delays have no effect at frequency 0.
    modulus_margin : float
        Smallest |1 + L|, or of a continuous system 1 with an infinite frequency if it is larger at all finite ones
        (coupled loops: the smallest along sampled loci).
    gain_frequency, reduction_frequency, phase_frequency, delay_frequency, modulus_frequency : float
        Frequency of each, rad/s or rad/step; nan if the margin is inf or 0 for lack of a crossing.
    coupled : int
        Number of coupled loops with a common factor; 1 if each loop is alone.
    loops : tuple of Margins
        The margins of each group of loops, in the order of its states, if there are several.
    notes : tuple of str
        Limitations due to the place at which the loop is opened.
    sampled, dt : bool, float or None
        Whether frequencies and delays are in steps, and the length of a step [s], or None.
    """

    stable: bool
    gain_margin: float
    gain_reduction: float
    phase_margin: float
    delay_margin: float
    modulus_margin: float
    gain_frequency: float
    reduction_frequency: float
    phase_frequency: float
    delay_frequency: float
    modulus_frequency: float
    coupled: int = 1
    loops: tuple[Margins, ...] = ()
    notes: tuple[str, ...] = ()
    sampled: bool = False
    dt: float | None = None

    def delay_text(self) -> str:
        """Return the delay margin with its unit: seconds, and steps for a sampled loop."""
        if not self.sampled or self.delay_margin == inf:
            return quantity_text(self.delay_margin, "s" if self.delay_margin < inf else "")
        inside = "" if self.dt is None else f" ({quantity_text(self.delay_margin * self.dt, 's')})"
        return f"{self.delay_margin:.4g} steps{inside}"

    def phase_text(self) -> str:
        """Return the phase margin with its unit."""
        return "infinite" if self.phase_margin == inf else f"{np.degrees(self.phase_margin):.4g} deg"

    def _title(self) -> str:
        unstable = "Distances of an unstable loop from the critical point -1"
        title = "Margins of a stable loop" if self.stable else unstable
        return title + (f", the worst of {len(self.loops)} loops" if self.loops else "")

    def _rows(self) -> Rows:
        shown = [
            ("gain margin", quantity_text(self.gain_margin, ""), self.gain_frequency),
            ("gain reduction", quantity_text(self.gain_reduction, ""), self.reduction_frequency),
            ("phase margin", self.phase_text(), self.phase_frequency),
            ("delay margin", self.delay_text(), self.delay_frequency),
            ("modulus margin", quantity_text(self.modulus_margin, ""), self.modulus_frequency),
        ]
        rows = [
            (name, text if isnan(at) else f"{text} at {frequency_text(at, self.sampled, self.dt)}")
            for name, text, at in shown
            if name != "gain reduction" or self.gain_reduction > 0.0
        ]
        return rows if self.coupled == 1 else [*rows, ("coupled loops", f"{self.coupled}, with one factor on all")]


def _modulus(f0: Complex, d0: Complex, f1: Complex, d1: Complex) -> Real3:
    """Return |F1|^2 - |F0|^2, its derivative and its size."""
    square1, square0 = np.abs(f1) ** 2, np.abs(f0) ** 2
    return square1 - square0, 2.0 * (d1 * np.conj(f1) - d0 * np.conj(f0)).real, square1 + square0


_WORST = (
    ("gain_margin", "gain_frequency", min),
    ("gain_reduction", "reduction_frequency", max),
    ("phase_margin", "phase_frequency", min),
    ("delay_margin", "delay_frequency", min),
    ("modulus_margin", "modulus_frequency", min),
)


def margins(system: LinearSystem) -> Margins:
    """Return the margins of a closed loop over all crossings of |L| = 1 and of the negative real axis.

    Parameters
    ----------
    system : LinearSystem
        DelaySystem or SampledSystem built with `opened`.

    Returns
    -------
    Margins
        Margins. For several loops that do not form a cycle (bottlenecks, each with its flows), the worst of each; for
        loops that form a cycle, those of one factor on all of them.

    Raises
    ------
    ValueError
        The system has no `opened`.
    ConvergenceError
        The neutral part of the system keeps L from decreasing with frequency; crossings take more pieces of the
        frequency axis than allowed; the loci of coupled loops cannot be followed, or a count of roots contradicts their
        gain margin.

    Notes
    -----
    All crossings are found up to a frequency above which |L| is proven to be smaller than the gain margin allows, with
    up to 2^18 pieces of the frequency axis; so a gain margin is complete however large it is. The modulus margin is the
    minimum over all frequencies to 1e-9, by a search of the frequencies at which |1 + L| has a given value; if this
    takes more pieces, values between 0.95 and 1 may be missed. A gain margin is infinite if no
    crossing exists at frequencies at which the longest delay turns by less than 2e4 rad (without delays, below 1e10
    times the frequency of |L| < 1/4). For coupled loops crossings are found along loci sampled as in
    `characteristic_loci`, with gains up to 50 in continuous time; the gain margin of a stable loop is compared with
    counts of roots on both sides.

    With more than eight states, a single loop that is cut where flows share few signals (a link with flows of different
    RTTs) is computed by the small matrix of `ecc.linear.bordered`; crossings of |L| = 1 are then proven complete, too.

    Examples
    --------
    >>> DelaySystem([-1.0], [1.0], opened=DelaySystem([0.0], [0.0])).margins().gain_margin  # pi/2
    1.5707963267948966
    """
    results = _of_groups(system)
    total = Margins(system.is_stable, inf, 0.0, inf, inf, 1.0, nan, nan, nan, nan, nan)
    for name, frequency, worst in _WORST if results else ():
        loop_margins = worst(results, key=lambda m: getattr(m, name))  # noqa: B023
        total = replace(total, **{name: getattr(loop_margins, name), frequency: getattr(loop_margins, frequency)})
    coupled = max((result.coupled for result in results), default=1)
    loops = tuple(results) if len(results) > 1 else ()
    sampled, dt = system.sampling
    return replace(total, coupled=coupled, loops=loops, notes=system._opened().notes, sampled=sampled, dt=dt)


def _of_groups(system: LinearSystem) -> list[Margins]:
    """Return the margins of each group of states that affect each other, for groups in which a loop is opened."""
    known: dict[tuple[bytes, ...], Margins | None] = {}
    results: list[Margins] = []
    for loop in system._cut_groups():
        key = tuple(array.tobytes() for part in (loop, loop._opened()) for array in _coefficients(part))
        if key not in known:
            known[key] = _of_loop(loop)
        results += [result] if (result := known[key]) is not None else []
    return results


def _coefficients(system: LinearSystem) -> tuple[NDArray[Any], ...]:
    """Return the arrays that determine a system."""
    entries = system._entries
    if entries is not None:
        return entries.row, entries.column, entries.delay, entries.value
    terms = system.terms()
    return terms.constant, terms.delays, terms.slope, terms.slope_delays


def _of_border(system: LinearSystem, pair: BorderedLoop) -> Margins:
    """Return the margins of a loop opened in the border; the crossings of |L| = 1 are proven like those of gains."""
    low, high, *doubtful = isolate(pair, _modulus, settled_beyond(pair, 1.0), pair.modulus_errors)
    touching = 0.5 * (doubtful[0] + doubtful[1])  # |L| = 1 to rounding
    omega = np.sort(np.concatenate([refine(pair, _modulus, low, high), touching]))
    return _of_crossings(system, pair, omega)


def _of_loop(system: LinearSystem) -> Margins | None:
    """Return the margins of states that affect each other; None if no loop is opened."""
    opened = system._opened()
    if system._entries is not None and opened._entries is not None and system.size > MAX_STATES:
        bordered = bordered_loop(opened._entries, system._entries)
        if bordered is not None and bordered.number == 1:
            return _of_border(system, bordered)
    coupled = loops_cut(system)
    if coupled == 0:
        return None
    if coupled > 1:
        (above, below), (omega, response), closest = along_loci(system)
        return _of_points(system, omega, response, above, below, closest, coupled)
    weight = system._leading_determinant / opened._leading_determinant
    pair = Pair(opened.terms(), system.terms(), 1.0, weight, system._removable.count(0.0))
    return _of_crossings(system, pair, refine(pair, _modulus, *isolate(pair, _modulus, settled_beyond(pair, 1.0))))


def _of_crossings(system: LinearSystem, pair: Pair | BorderedLoop, omega: Real) -> Margins:
    """Return the margins of a single loop with |L| = 1 at frequencies, and possibly at the ends of the axis."""
    ends = np.array([0.0, pi] if pair.sampled else [0.0])
    at_ends = ends[np.abs(np.abs(ratio(pair, ends)) - 1.0) <= _ROUNDING]
    omega = np.concatenate([at_ends, omega])
    above, below = _gains(pair)
    return _of_points(system, omega, ratio(pair, omega), above, below, _closest(pair), 1)


def _of_points(
    system: LinearSystem,
    omega: Real,
    response: Complex,
    above: tuple[float, float],
    below: tuple[float, float],
    closest: tuple[float, float],
    coupled: int,
) -> Margins:
    """Return the margins from points with |L| = 1, and from gains and the smallest distance with their frequencies."""
    angle = np.angle(-response)
    lag = np.where(angle > 0.0, angle, angle + 2.0 * pi)
    with np.errstate(divide="ignore"):
        delay = np.where(omega > 0.0, lag / omega, inf)
    phase_at = int(np.argmin(np.abs(angle))) if len(omega) else -1
    delay_at = int(np.argmin(delay)) if len(omega) else -1
    sampled, dt = system.sampling
    return Margins(
        stable=system.is_stable,
        gain_margin=above[0],
        gain_reduction=below[0],
        phase_margin=float(abs(angle[phase_at])) if len(omega) else inf,
        delay_margin=float(delay[delay_at]) if len(omega) else inf,
        modulus_margin=closest[0],
        gain_frequency=above[1],
        reduction_frequency=below[1],
        phase_frequency=float(omega[phase_at]) if len(omega) else nan,
        delay_frequency=float(omega[delay_at]) if len(omega) and isfinite(delay[delay_at]) else nan,
        modulus_frequency=closest[1],
        coupled=coupled,
        sampled=sampled,
        dt=dt,
    )


def _gains(pair: Pair | BorderedLoop) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return (gain, frequency) of the smallest gain > 1 and of the largest < 1 on the boundary."""
    first, top = settled_beyond(pair, 0.25), 0.0
    required, below = first, list[Crossing]()
    while required > top:
        top = required
        crossings = boundary_crossings(pair, top)
        above = [c for c in crossings if c.gain > 1.0]
        if above:  # a smaller gain requires a larger |L| than is possible above this frequency
            required = settled_beyond(pair, (1.0 - 1e-9) / above[0].gain)
        elif not pair.sampled and (4.0 * pair.band * top <= _FAR if pair.band else top < _MAX_RANGE * first):
            required = 4.0 * top
        # A search that ends at a much higher frequency is too coarse for the lowest ones
        below = max(below, [c for c in crossings if c.gain < 1.0], key=lambda found: found[-1].gain if found else 0.0)
    smallest = (above[0].gain, above[0].frequency) if above else (inf, nan)
    largest = (below[-1].gain, below[-1].frequency) if below else (0.0, nan)
    return smallest, largest


def _closest(pair: Pair | BorderedLoop) -> tuple[float, float]:
    """Return the smallest |1 + L| and its frequency; 1 and an infinite one if it is larger at all finite frequencies.

    All frequencies with |1 + L| at a level just below the smallest known value are isolated; between two of them lies
    a smaller value, until no such frequency is left. Above the frequency at which |L| stays below one
    minus the level, |1 + L| cannot fall below the level.
    """
    best = _sampled_minimum(pair, settled_beyond(pair, 0.5))
    if not pair.sampled:
        best = min(best, (1.0, inf))
    for excess in _EXCESSES:
        for _ in range(_MAX_LEVELS):
            level = best[0] * (1.0 - _LEVEL)
            level = level if pair.sampled else min(level, 1.0 - excess)
            top = settled_beyond(pair, 1.0 - level)
            if level <= 0.0 or pieces_to(pair.band, top) > MAX_NODES:
                return best
            form = partial(_distance, level)
            ends = np.concatenate([[0.0], refine(pair, form, *isolate(pair, form, top)), [top]])
            at = int(np.argmin(value := _distances(pair, 0.5 * (ends[1:] + ends[:-1]))))
            if value[at] >= level:
                break
            best = min(best, _minimum(pair, float(ends[at]), float(ends[at + 1])))
        if pair.sampled or level < 1.0 - excess:
            break
    return best


def _distance(level: float, f0: Complex, d0: Complex, f1: Complex, d1: Complex) -> Real3:
    """Return |F0 + F1|^2 - level^2 |F0|^2, its derivative and its size."""
    f, d = f0 + f1, d0 + d1
    square0 = level**2 * np.abs(f0) ** 2
    square = np.abs(f) ** 2
    return square - square0, 2.0 * (d * np.conj(f) - level**2 * d0 * np.conj(f0)).real, square + square0


def _distances(pair: Pair | BorderedLoop, omega: Real) -> Real:
    """Return |1 + L| at frequencies."""
    distance = np.abs(1.0 + ratio(pair, omega))
    return np.where(np.isfinite(distance), distance, inf)


def _minimum(pair: Pair | BorderedLoop, low: float, high: float) -> tuple[float, float]:
    """Return a local minimum of |1 + L| between two frequencies, and its frequency."""
    from scipy.optimize import minimize_scalar

    minimum = minimize_scalar(
        lambda w: float(_distances(pair, np.array([w]))[0]),
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-12 * high},
    )
    return float(minimum.fun), float(minimum.x)


def _sampled_minimum(pair: Pair | BorderedLoop, top: float) -> tuple[float, float]:
    """Return the smallest |1 + L| next to the lowest samples up to a frequency, and its frequency."""
    uniform = np.linspace(0.0, top, min(MAX_NODES, 64 + int(8.0 * pair.band * top)))
    omega = np.union1d(uniform, np.geomspace(1e-6 * top, top, 256))
    value = _distances(pair, omega)
    inner = np.flatnonzero((value[1:-1] <= value[:-2]) & (value[1:-1] <= value[2:])) + 1
    best = [(float(value[i]), float(omega[i])) for i in (0, len(omega) - 1)]
    inner = inner[np.argsort(value[inner])][:8]
    return min(best + [_minimum(pair, float(omega[i - 1]), float(omega[i + 1])) for i in inner])
