"""Stabilizing gains of PI and PID controllers for plants with dead time, by D-partition with certified cells.

The loop of the plant G and the controller C = kp + ki/s + kd s/(tf s + 1) has a root at s = j w if

    kp = -Re R(w),   ki = w Im R(w),   R = 1/G(j w) + kd j w/(tf j w + 1),

and a root at 0 if ki = 0. At infinity no root crosses, as the loop is retarded. These curves divide the plane of kp and
ki into cells with a constant number of unstable roots (D-partition). The curve is sampled, cut at its
vertical tangents and at its intersections, and the parts between two cuts are ordered by ki. The number of unstable
roots of a cell is proven at one of its points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, pi
from typing import Any

import numpy as np

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import Displayed, Rows
from ecc.errors import ConvergenceError
from ecc.linear.certificate import Certificate
from ecc.linear.characteristic import Real
from ecc.linear.constructors import transfer_function
from ecc.linear.continuous import DelaySystem
from ecc.linear.delay_model import DelayModel
from ecc.linear.pid_loop import Box, PIDLoop

__all__ = ["GainCell", "PIDRegion", "pid", "pid_region"]

_MAX_POINTS = 20_000
_JOINED = 1e-3  # relative to the window: two parts of the plane with a common side shorter than it are not joined
_TINY = 1e-6  # relative to the window: a smaller part is not examined
_NEXT_TO_CUTS = np.array([1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3])  # relative to the distance between two cuts
_VISIBLE = 1e-3  # relative area of the smallest cell with a number in the figure
_MAX_BOXES = 500

Span = tuple[float, float]


@check_arguments
def pid(kp: float, ki: float, kd: float = 0.0, tf: float = 0.0) -> DelayModel:
    """Return the controller kp + ki/s + kd s/(tf s + 1).

    Parameters
    ----------
    kp : float
        Proportional gain.
    ki : float
        Integral gain, 1/s.
    kd : float, optional
        Derivative gain, s.
    tf : float, optional
        Time constant of the derivative filter, s; > 0 if kd is not 0.

    Returns
    -------
    DelayModel
        Controller with one input, the error, and one output.

    Raises
    ------
    ValueError
        tf is negative, or 0 with derivative action, which then is no state space.

    Examples
    --------
    >>> pid(2.0, 0.5)(1j)
    array(2.-0.5j)
    """
    if kd == 0.0:
        return transfer_function([kp, ki], [1.0, 0.0])
    if not tf > 0.0:
        raise ValueError(f"tf must be > 0 s if kd is not 0, got {shown(tf)} with kd = {shown(kd)}")
    return transfer_function([kp * tf + kd, kp + ki * tf, ki], [tf, 1.0, 0.0])


@dataclass(frozen=True, repr=False)
class GainCell(Displayed):
    """A cell of the plane of kp and ki, in which the number of unstable roots is constant.

    Attributes
    ----------
    unstable : int or None
        Number of unstable roots, proven at the point (`kp`, `ki`); None if it is undecided there.
    kp, ki : float
        A point inside the cell.
    area : float
        Area of the part in the window.
    polygons : tuple
        Pairs (kp, ki) of arrays: corners of the parts of which the cell is composed.
    """

    unstable: int | None
    kp: float
    ki: float
    area: float
    polygons: tuple[tuple[Real, Real], ...] = field(default=(), repr=False)

    @property
    def kp_range(self) -> Span:
        """Smallest and largest kp of the part of the cell in the window, of the sampled curve."""
        points = np.concatenate([kp for kp, _ in self.polygons])
        return float(points.min()), float(points.max())


@check_arguments
@dataclass(frozen=True, repr=False, eq=False)
class PIDRegion(Displayed):
    """The D-partition of the gains kp and ki of a loop, in a window; `pid_region` computes it.

    Attributes
    ----------
    plant : DelayModel
        The plant.
    kd : float
        Derivative gain, s.
    tf : float
        Time constant of the derivative filter, s.
    kp, ki : tuple of float
        Ends of the window.
    omega : ndarray
        Frequencies of the samples of the boundary curve, rad/s.
    boundary_kp, boundary_ki : ndarray
        Samples of the boundary curve.
    """

    plant: DelayModel
    kd: float
    tf: float
    kp: Span
    ki: Span
    omega: Real
    boundary_kp: Real
    boundary_ki: Real

    @cached_property
    def _loop(self) -> PIDLoop:
        return PIDLoop(self.plant, self.kd, self.tf)

    def controller(self, kp: float, ki: float) -> DelayModel:
        """Return the controller with these gains, and the derivative action of the region.

        Parameters
        ----------
        kp, ki : float
            Gains.
        """
        return pid(kp, ki, self.kd, self.tf)

    def loop(self, kp: float, ki: float) -> DelaySystem:
        """Return the closed loop with these gains, with its loop gain for margins.

        Parameters
        ----------
        kp, ki : float
            Gains.
        """
        return (self.plant * self.controller(kp, ki)).loop()

    def certify(self, kp: float, ki: float) -> Certificate:
        """Return a proof of the number of unstable roots with these gains.

        Parameters
        ----------
        kp, ki : float
            Gains.
        """
        return self.loop(kp, ki).certify()

    def is_stable_in(
        self,
        kp: float | Span,
        ki: float | Span,
        gain: Span = (1.0, 1.0),
        delay: Span = (0.0, 0.0),
        max_sensitivity: float | None = None,
    ) -> bool | None:
        """Return whether the loop is stable for all gains and plants of a box, by proof.

        Parameters
        ----------
        kp, ki : float or (low, high)
            Gains, or intervals of gains.
        gain : (low, high), optional
            Interval > 0 of a factor on the gain of the plant.
        delay : (low, high), optional
            Interval of a change of the plant's dead time, s.
        max_sensitivity : float, optional
            Also require that |1/(1 + L)| does not exceed this number > 1 at any frequency.

        Returns
        -------
        bool or None
            True: proven for the box. False: refuted at a point of it. None: neither within 500 parts of the box.

        Raises
        ------
        ValueError
            An interval is not increasing, a factor not positive, a dead time negative, or the sensitivity <= 1.

        Notes
        -----
        The number of unstable roots is proven to be constant over the box (`ecc.linear.pid_loop`), and to be 0 at its
        center. For fixed kp and ki the box is not divided: at each frequency, the loop gains of all plants fill a
        sector of a ring, whose distance from -1 is known. Roundings are included in the bounds; values of exponentials
        are assumed to be accurate to rounding.
        """
        box = self._box(kp, ki, gain, delay)
        bound = inf if max_sensitivity is None else max_sensitivity
        if not bound > 1.0:
            raise ValueError(f"max_sensitivity must be > 1, got {shown(bound)}")
        if (holds := self._holds_at(box.center(), bound)) is not True:
            return holds
        if box.kp[0] < box.kp[1] or box.ki[0] < box.ki[1]:
            return self._proven(box, bound)
        plant = self._loop.unclear_plant(box.kp[0], box.ki[0], box.gain, box.delay, bound)
        if plant is None:
            return True
        return False if self._holds_at((box.kp[0], box.ki[0], *plant), bound) is False else None

    def _box(self, kp: float | Span, ki: float | Span, gain: Span, delay: Span) -> Box:
        """Return intervals of gains and plants after checks."""
        intervals = [x if isinstance(x, tuple) else (x, x) for x in (kp, ki)]
        box = Box(*[_interval(x, name) for x, name in zip((*intervals, gain, delay), Box._fields, strict=True)])
        if not box.gain[0] > 0.0:
            raise ValueError(f"gain must be > 0, got {shown(gain)}")
        if box.delay[0] < 0.0 and (len(self.plant.delays) != 1 or box.delay[0] < -self.plant.delays[0]):
            raise ValueError(f"delay must not shorten the plant's dead time below 0 s, got {shown(delay)}")
        return box

    def _member(self, point: tuple[float, float, float, float]) -> DelaySystem:
        """Return the loop of a point (kp, ki, gain factor, change of the dead time)."""
        kp, ki, gain, extra = point
        plant = self.plant
        if extra < 0.0:
            plant = DelayModel(plant.a, plant.b, plant.c, plant.d, [max(float(plant.delays[0]) + extra, 0.0)])
        elif extra > 0.0:
            plant = plant * transfer_function([1.0], [1.0], extra)
        plant = plant * gain
        return (plant * self.controller(kp, ki)).loop()

    def _holds_at(self, point: tuple[float, float, float, float], bound: float) -> bool | None:
        """Return whether the loop at a point is stable with this maximum sensitivity; None if it is undecided."""
        system = self._member(point)
        stable = system.certify().stable
        if stable and bound < inf:
            return bool(system.margins().modulus_margin > 1.0 / bound)
        return stable

    def _proven(self, box: Box, bound: float) -> bool | None:
        """Divide a box until no part has a root on the boundary; refute it at corners and centers of parts."""
        scale = [1.0 / (self.kp[1] - self.kp[0]), 1.0 / (self.ki[1] - self.ki[0]), 1.0, 1.0]
        scale[3] = 1.0 / (float(self.plant.delays.sum()) or 1.0)
        pending, number = [box], 0
        while pending:
            part = pending.pop()
            number += 1
            if number > _MAX_BOXES:
                return None
            if self._loop.is_clear(part, bound):
                continue
            if number in (2, 4, 8, 16, 32, 64, 256) and self._refuted(part, bound):
                return False
            halves = part.halves(scale)
            if max(high - low for low, high in part) < 1e-9:
                return None
            pending += halves
        return True

    def _refuted(self, box: Box, bound: float) -> bool:
        """Return whether the center or a corner of a box is a counterexample."""
        points = [box.center(), *(tuple(x[i >> k & 1] for k, x in enumerate(box)) for i in range(16))]
        return any(self._holds_at(point, bound) is False for point in points)  # type: ignore[arg-type]

    # ---- cells ---------------------------------------------------------------------------------------------

    @cached_property
    def cells(self) -> tuple[GainCell, ...]:
        """The cells in the window, largest first, each with its proven number of unstable roots.

        The shape of a cell is that of the sampled curve. Parts narrower than 1e-3 of the window may be missing, or
        appear as a cell of their own.
        """
        out = []
        curve = self.boundary_kp, self.boundary_ki
        for parts in _joined(_parts(*curve, self.kp, self.ki), _walls(*curve, self.kp, self.ki)):
            widest = max(parts, key=lambda part: part.area)
            kp, ki = widest.middle()
            area = sum(part.area for part in parts)
            out.append(GainCell(self.certify(kp, ki).unstable, kp, ki, area, tuple(part.polygon() for part in parts)))
        return tuple(sorted(out, key=lambda cell: -cell.area))

    @property
    def stable_cells(self) -> tuple[GainCell, ...]:
        """The cells that are proven stable."""
        return tuple(cell for cell in self.cells if cell.unstable == 0)

    @cached_property
    def kp_range(self) -> Span | None:
        """Infimum and supremum of kp in the stable cells of the window, refined on the exact curve; None without any.

        The ends are a vertical tangent, an intersection of the curve with ki = 0, a self-intersection, or an end of
        the window. Self-intersections are those of the sampled curve.
        """
        if not self.stable_cells:
            return None
        ranges = [cell.kp_range for cell in self.stable_cells]
        low, high = min(x[0] for x in ranges), max(x[1] for x in ranges)
        return self._refined(low), self._refined(high)

    def _refined(self, kp: float) -> float:
        """Return the exact value of a critical kp of the sampled curve; an end of the window stays."""
        from scipy.optimize import brentq

        width = 1e-3 * (self.kp[1] - self.kp[0])
        candidates = [kp, float(self.boundary_kp[0])]
        low_kp, high_kp = (f(self.boundary_kp[:-1], self.boundary_kp[1:]) for f in (np.minimum, np.maximum))
        near = (low_kp - width < kp) & (kp < high_kp + width)
        slope = np.diff(self.boundary_kp, append=self.boundary_kp[-1])
        for values, level in ((self.boundary_ki, self._ki_at), (slope, self._slope_at)):
            changes = np.signbit(values[1:]) != np.signbit(values[:-1])
            for k in np.flatnonzero(changes & near).tolist():
                low, high = float(self.omega[k]), float(self.omega[min(k + 2, len(self.omega) - 1)])
                low += 1e-6 * (high - low)
                if level(low) * level(high) < 0.0:
                    root = float(brentq(level, low, high, xtol=1e-14 * high, rtol=1e-14))
                    candidates.append(float(self._loop.gains(np.array([root]))[0][0]))
        best = min(candidates[1:], key=lambda value: abs(value - kp))
        return best if abs(best - kp) < width and kp not in self.kp else kp

    def _ki_at(self, w: float) -> float:
        return float(self._loop.gains(np.array([w]))[1][0])

    def _slope_at(self, w: float) -> float:
        kp = self._loop.gains(np.array([1.0 - 1e-6, 1.0 + 1e-6]) * w)[0]
        return float(kp[1] - kp[0])

    def plot(self, points: Mapping[str, tuple[float, float]] | None = None) -> Any:
        """Return a Plotly figure of the boundary curves, with the stable cells filled and the number of each cell.

        Parameters
        ----------
        points : mapping, optional
            Name -> (kp, ki) of controllers.
        """
        from ecc.plot.gains import gain_region_figure

        visible = [cell for cell in self.cells if cell.area > _VISIBLE * self.cells[0].area]
        return gain_region_figure(
            (self.boundary_kp, self.boundary_ki),
            [(cell.kp, cell.ki, cell.unstable) for cell in visible],
            [polygon for cell in self.stable_cells for polygon in cell.polygons],
            (self.kp, self.ki),
            points,
        )

    def _title(self) -> str:
        return f"D-partition of kp and ki (kd = {self.kd:g} s)" if self.kd else "D-partition of kp and ki"

    def _rows(self) -> Rows:
        counts = [cell.unstable for cell in self.cells]
        kp = self.kp_range
        return [
            ("window", f"kp {self.kp[0]:.4g} to {self.kp[1]:.4g}, ki {self.ki[0]:.4g} to {self.ki[1]:.4g} 1/s"),
            ("cells", f"{len(counts)}, of which {counts.count(0)} stable"),
            ("stabilizing kp", "none" if kp is None else f"{kp[0]:.6g} to {kp[1]:.6g}"),
        ]


@check_arguments
def pid_region(
    plant: DelayModel, kd: float = 0.0, tf: float = 0.0, kp: Span | None = None, ki: Span | None = None
) -> PIDRegion:
    """Return the gains kp and ki of a PI controller, or of a PID controller with a given kd, that stabilize a plant.

    Parameters
    ----------
    plant : DelayModel
        Plant with one input and one output, whose gain falls to 0 at high frequencies: any order, stable or unstable.
    kd : float, optional
        Derivative gain, s.
    tf : float, optional
        Time constant of the derivative filter, s; it may be 0 if kd is 0.
    kp : (low, high), optional
        Window of kp. By default it contains those gains without integral action at which the first roots cross.
    ki : (low, high), optional
        Window of ki, 1/s. By default it contains the curve up to the second of these crossings.

    Returns
    -------
    PIDRegion
        With the boundary curve, cells with proven numbers of unstable roots, and proofs for boxes of gains.

    Raises
    ------
    ValueError
        The plant is not SISO, is not strictly proper, has a zero at 0, more than 12 states or distributed delays; tf
        is negative, or 0 with derivative action; a window is not increasing.
    ConvergenceError
        The window reaches frequencies that need more than 20,000 samples of the curve.

    Notes
    -----
    The equations are solved for any plant, without approximating the dead time. The D-partition is ascribed to Neimark
    (1949), and its use for PI and PID controllers with dead time to Silva, Datta and Bhattacharyya (2005). These texts
    were not read: the equations are derived here, and tests compare them with Hurwitz, Nyquist and counts of roots.

    Examples
    --------
    >>> region = pid_region(transfer_function([1.0], [1.0, 1.0], 1.0))
    >>> low, high = region.kp_range
    >>> round(low, 9), round(high, 9)
    (-1.0, 2.261826334)
    >>> region.is_stable_in(kp=(0.4, 0.6), ki=(0.3, 0.5), gain=(0.8, 1.25), delay=(-0.2, 0.2))
    True
    """
    if not tf >= 0.0 or (kd != 0.0 and tf == 0.0):
        raise ValueError(f"tf must be >= 0 s, and > 0 s if kd is not 0, got {shown(tf)} with kd = {shown(kd)}")
    loop = PIDLoop(plant, kd, tf)
    kp_window, ki_window = _window(loop)
    kp_window = kp_window if kp is None else _interval(kp, "kp", True)
    ki_window = ki_window if ki is None else _interval(ki, "ki", True)
    omega, boundary_kp, boundary_ki = _curve(loop, kp_window, ki_window)
    return PIDRegion(plant, kd, tf, kp_window, ki_window, omega, boundary_kp, boundary_ki)


def _interval(value: Any, name: str, strict: bool = False) -> Span:
    low, high = (float(x) for x in value)
    if not (np.isfinite([low, high]).all() and (low < high or (low == high and not strict))):
        raise ValueError(f"{name} must be an interval (low, high), got {shown(value)}")
    return low, high


def _crossings_of_axis(loop: PIDLoop) -> tuple[Real, Real]:
    """Return frequencies > 0 at which the curve crosses ki = 0, the first three, and kp there."""
    longest = max(float(loop.n.theta.max()), float(loop.d.theta.max()))
    scale = 1.0 / longest if longest > 0.0 else loop.top(1.0, 1.0, loop.kd)
    w = np.linspace(0.0, 20.0 * pi * scale, 8001)[1:]
    w = np.union1d(w, np.geomspace(1e-4 * scale, scale, 800))
    kp, ki = loop.gains(w)
    jumps = ~np.isfinite(ki) | (np.abs(ki) > 1e6 * np.nanmedian(np.abs(ki)))
    at = np.flatnonzero((np.signbit(ki[1:]) != np.signbit(ki[:-1])) & ~jumps[1:] & ~jumps[:-1])[:3]
    return w[at], kp[at]


def _window(loop: PIDLoop) -> tuple[Span, Span]:
    """Return a window with the stable gains next to ki = 0 if there are any; otherwise with the first crossings."""
    w, at_axis = _crossings_of_axis(loop)
    start = float(loop.gains(np.zeros(1))[0][0])
    ends = np.unique([start, *at_axis])
    stable = [(low, high) for low, high in zip(ends[:-1], ends[1:], strict=True) if _is_stable_at(loop, low, high, w)]
    first = [start, *at_axis[:1]]
    low, high = (stable[0][0], stable[-1][1]) if stable else (min(first), max(first))
    width = float(high - low) or 2.0 * abs(low) or 1.0
    used = w[(at_axis >= low) & (at_axis <= high)]
    top = float(used.max()) if len(used) else loop.top(abs(low) + width, 0.0, loop.kd)
    low, high = float(low) - 0.2 * width, float(high) + 0.2 * width
    curve_kp, curve_ki = loop.gains(np.linspace(0.0, top, 2001)[1:])
    inside = np.isfinite(curve_ki) & (curve_kp >= low) & (curve_kp <= high)
    height = float(np.abs(curve_ki[inside]).max(initial=0.0)) or width * top
    return (low, high), (-0.2 * height, 1.2 * height)


def _is_stable_at(loop: PIDLoop, low: float, high: float, w: Real) -> bool:
    """Return whether the loop is stable in the middle of an interval of kp, with a small ki of the stable sign."""
    kp = 0.5 * (low + high)
    ki = 1e-3 * (high - low) * float(w.min())
    return any((loop.plant * pid(kp, sign * ki, loop.kd, loop.tf)).loop().verdict == "stable" for sign in (1.0, -1.0))


def _curve(loop: PIDLoop, kp: Span, ki: Span) -> tuple[Real, Real, Real]:
    """Return frequencies and samples of the curve, dense in the window."""
    top = loop.top(max(map(abs, kp)), max(map(abs, ki)), loop.kd)
    longest = max(float(loop.n.theta.max()), float(loop.d.theta.max()))
    number = 400 + int(12.0 * top * longest)
    if not top < inf or number > _MAX_POINTS:
        raise ConvergenceError(f"the window reaches {top:.3g} rad/s, which needs too many samples of the curve", None)
    omega = np.concatenate([[0.0], np.union1d(np.linspace(0.0, top, number)[1:], np.geomspace(1e-4 * top, top, 400))])
    scale = np.array([kp[1] - kp[0], ki[1] - ki[0]])[:, None]
    center = np.array([sum(kp), sum(ki)])[:, None] / 2.0
    for _ in range(14):
        points = (np.array(loop.gains(omega)) - center) / scale
        near = (np.abs(points) < 1.0).all(axis=0)
        step = np.abs(np.diff(points)).max(axis=0)
        share = (omega[1:-1] - omega[:-2]) / (omega[2:] - omega[:-2])
        chord = np.abs(points[:, 1:-1] - points[:, :-2] - share * (points[:, 2:] - points[:, :-2])).max(axis=0)
        bend = np.zeros(len(step), bool)
        bend[1:] |= chord > 2e-5
        bend[:-1] |= chord > 2e-5
        far = (bend | ~(step < 0.05)) & (near[1:] | near[:-1])
        if not far.any() or len(omega) > _MAX_POINTS:
            break
        omega = np.union1d(omega, 0.5 * (omega[1:] + omega[:-1])[far])
    boundary_kp, boundary_ki = loop.gains(omega)
    known = np.isfinite(boundary_kp) & np.isfinite(boundary_ki)
    return omega[known], boundary_kp[known], boundary_ki[known]


# ---- arrangement of the curve -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """A part of the plane between two neighboring arcs, for kp between two cuts; arcs have ki at five values of kp."""

    slab: int
    kp: Real
    low: Real
    high: Real

    @property
    def area(self) -> float:
        return float(np.trapezoid(self.high - self.low, self.kp))

    def middle(self) -> tuple[float, float]:
        k = len(self.kp) // 2
        return float(self.kp[k]), float(0.5 * (self.low[k] + self.high[k]))

    def polygon(self) -> tuple[Real, Real]:
        return np.concatenate([self.kp, self.kp[::-1]]), np.concatenate([self.low, self.high[::-1]])


def _segments(x: Real, y: Real, kp: Span, ki: Span) -> Real:
    """Return the segments of the curve that may meet the window, shape (n, 4)."""
    rows = np.stack([x[:-1], y[:-1], x[1:], y[1:]], axis=1)
    outside = (
        (np.maximum(rows[:, 0], rows[:, 2]) < kp[0])
        | (np.minimum(rows[:, 0], rows[:, 2]) > kp[1])
        | (np.maximum(rows[:, 1], rows[:, 3]) < ki[0])
        | (np.minimum(rows[:, 1], rows[:, 3]) > ki[1])
    )
    return np.asarray(rows[~outside])


def _intersections(rows: Real) -> Real:
    """Return kp of the intersections of segments that are not neighbors."""
    out: list[Real] = []
    p, d = rows[:, :2], rows[:, 2:] - rows[:, :2]
    for i in range(len(rows) - 2):
        q, e = p[i + 2 :] - p[i], d[i + 2 :]
        with np.errstate(all="ignore"):
            cross = d[i, 0] * e[:, 1] - d[i, 1] * e[:, 0]
            t = (q[:, 0] * e[:, 1] - q[:, 1] * e[:, 0]) / cross
            u = (q[:, 0] * d[i, 1] - q[:, 1] * d[i, 0]) / cross
        hit = (t >= 0.0) & (t <= 1.0) & (u >= 0.0) & (u <= 1.0)
        out.append(p[i, 0] + t[hit] * d[i, 0])
    return np.concatenate(out) if out else np.zeros(0)


def _cuts(x: Real, y: Real, kp: Span, ki: Span) -> Real:
    """Return the values of kp at which the order of arcs may change, with the ends of the window."""
    rows = _segments(x, y, kp, ki)
    turns = x[1:-1][(np.diff(x)[1:] > 0.0) != (np.diff(x)[:-1] > 0.0)]
    candidates = [np.array(kp), x[[0, -1]], turns, _intersections(rows)]
    for level in (ki[0], 0.0, ki[1]):
        crosses = (rows[:, 1] > level) != (rows[:, 3] > level)
        share = (level - rows[crosses, 1]) / (rows[crosses, 3] - rows[crosses, 1])
        candidates.append(rows[crosses, 0] + share * (rows[crosses, 2] - rows[crosses, 0]))
    every = np.unique(np.concatenate(candidates))
    every = every[(every >= kp[0]) & (every <= kp[1])]
    new = np.diff(every, prepend=-inf) > _TINY * (kp[1] - kp[0])
    return every[new]


def _parts(x: Real, y: Real, kp: Span, ki: Span) -> list[_Part]:
    """Return the parts of the window between neighboring arcs, slab by slab."""
    cuts = _cuts(x, y, kp, ki)
    rows = _segments(x, y, kp, (-inf, inf))
    out = []
    for slab, (low, high) in enumerate(zip(cuts[:-1], cuts[1:], strict=True)):
        share = np.concatenate([_NEXT_TO_CUTS, np.linspace(0.02, 0.98, 33), 1.0 - _NEXT_TO_CUTS[::-1]])
        at = low + share * (high - low)
        middle = 0.5 * (low + high)
        over = rows[(np.minimum(rows[:, 0], rows[:, 2]) <= high) & (np.maximum(rows[:, 0], rows[:, 2]) >= low)]
        levels = []
        for value in (*at.tolist(), middle):
            hit = over[(over[:, 0] <= value) != (over[:, 2] <= value)]
            crossing = hit[:, 1] + (value - hit[:, 0]) / (hit[:, 2] - hit[:, 0]) * (hit[:, 3] - hit[:, 1])
            levels.append(np.sort(np.concatenate([crossing, [0.0] if ki[0] < 0.0 < ki[1] else [], ki])))
        count = len(levels[-1])
        arcs = np.array([level.clip(*ki) for level in levels[:-1] if len(level) == count])
        at = at[[len(level) == count for level in levels[:-1]]]
        for k in range(count - 1) if len(at) > 2 else ():
            part = _Part(slab, at, arcs[:, k], arcs[:, k + 1])
            if part.area > _TINY * (high - low) * (ki[1] - ki[0]):
                out.append(part)
    return out


def _walls(x: Real, y: Real, kp: Span, ki: Span) -> list[Real]:
    """Return the ranges of ki, shape (n, 2), in which the curve is vertical at the upper cut of each slab.

    So it is for plants like 1/(s + 1) without a delay, for which kp is the same at all frequencies.
    """
    tiny = _TINY * (kp[1] - kp[0])
    out = []
    for cut in _cuts(x, y, kp, ki)[1:]:
        vertical = (np.abs(x[1:] - cut) <= tiny) & (np.abs(x[:-1] - cut) <= tiny)
        out.append(np.sort(np.stack([y[:-1], y[1:]], axis=1)[vertical], axis=1))
    return out


def _uncovered(low: float, high: float, walls: Real) -> float:
    """Return the length of a side without the parts that walls cover."""
    length = high - low
    for bottom, top in walls[np.argsort(walls[:, 0])]:
        length -= max(min(top, high) - max(bottom, low), 0.0)
        low = max(low, top)
    return length


def _joined(parts: list[_Part], walls: list[Real]) -> list[list[_Part]]:
    """Return groups of parts that have a common side, of which walls do not count."""
    group = list(range(len(parts)))

    def root(i: int) -> int:
        while group[i] != i:
            group[i] = i = group[group[i]]
        return i

    height = max((float(part.high.max()) for part in parts), default=1.0) - min(
        (float(part.low.min()) for part in parts), default=0.0
    )
    by_slab: dict[int, list[int]] = {}
    for i, part in enumerate(parts):
        by_slab.setdefault(part.slab, []).append(i)
    for slab, members in by_slab.items():
        for i in members:
            for j in by_slab.get(slab + 1, []):
                low, high = max(parts[i].low[-1], parts[j].low[0]), min(parts[i].high[-1], parts[j].high[0])
                if _uncovered(low, high, walls[slab]) > _JOINED * height:
                    group[root(i)] = root(j)
    out: dict[int, list[_Part]] = {}
    for i, part in enumerate(parts):
        out.setdefault(root(i), []).append(part)
    return list(out.values())
