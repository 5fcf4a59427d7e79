"""An integration from Python: it allocates the arrays of the compiled core, runs it, and reads its curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.memory import free_memory
from ecc.fluid.dde import history_and_step as core
from ecc.fluid.dde import stepper

__all__ = ["Integration", "breaking_points", "curve_values", "in_one_line"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_GENERATIONS = 5  # generations after the first that affect a method of order 5
_MAX_BREAKS = 200
_SEGMENTS = 64  # initial capacity
_LARGE = 1 << 27  # bytes of a history from which on the free memory is probed before it grows


def breaking_points(
    roots: ArrayLike, delays: ArrayLike, end: float, generations: int = _GENERATIONS, max_points: int = _MAX_BREAKS
) -> FloatArray:
    """Return the points at which a derivative may jump: the roots, and repeatedly all points one delay later.

    Every delay smoothes a jump by one order. If there are more than `max_points` points, the later generations, which
    are the smoothest, are left to error control.

    Parameters
    ----------
    roots : array_like, shape (n,), s
    delays : array_like, shape (n_delays,), s
    end : float, s
        End of the integration.
    generations : int, optional
        Number of times that a delay is added.
    max_points : int, optional
        Maximum number of points.

    Returns
    -------
    points : ndarray
        Increasing times < end; points that differ by rounding only are merged.
    """
    steps = np.unique(np.asarray(delays, dtype=float))
    steps = steps[steps > 0.0]
    frontier = points = _merged(np.asarray(roots, dtype=float), end)
    for _ in range(generations):
        if len(frontier) * len(steps) > 100 * max_points:
            break
        if len(frontier) == 0:
            break
        frontier = _merged((frontier[:, None] + steps).ravel(), end)
        if len(points) + len(frontier) > max_points:
            break
        points = _merged(np.concatenate([points, frontier]), end)
    return points


def _merged(points: FloatArray, end: float) -> FloatArray:
    points = np.sort(points[points < end])
    keep = np.ones(len(points), dtype=bool)
    keep[1:] = points[1:] - points[:-1] > 1e-12 * np.maximum(1.0, np.abs(points[1:]))
    return points[keep]


def curve_values(begun: FloatArray, width: FloatArray, curve: FloatArray, times: FloatArray) -> FloatArray:
    """Return the values of interpolants at some times, shape (n_times, n).

    Parameters
    ----------
    begun, width : ndarray, shape (n_segments,), s
    curve : ndarray, shape (n_segments, n, 5)
    times : ndarray, shape (n_times,), s
    """
    j = np.clip(np.searchsorted(begun, times, side="right") - 1, 0, len(begun) - 1)
    theta = ((times - begun[j]) / width[j])[:, None]
    c = curve[j]
    value: FloatArray = c[..., 4]
    for k in (3, 2, 1, 0):
        value = c[..., k] + theta * value
    return value


def in_one_line(y: FloatArray) -> str:
    """Return the text of a state in messages.

    Parameters
    ----------
    y : ndarray, shape (n,)
    """
    return np.array2string(y, threshold=6, precision=6, max_line_width=1000)


def _zero_arrays(n: int, n_lags: int, neutral: bool, implicit: bool) -> dict[str, NDArray[Any]]:
    """Return the arrays for intermediate results and for the state of the integrator, all zero: name -> array."""
    return {
        **{name: np.zeros(n) for name in ("stage", "trial", "last", "raw", "ends")},
        "rates": np.zeros((10 if neutral else 7, n)),
        "lag": np.zeros((2 if neutral else 1, n_lags)),
        "at": np.zeros(1),
        "points": np.zeros(core.MAX_POINTS),
        "order": np.zeros(core.MAX_POINTS, dtype=np.int64),
        "held": np.zeros(n, dtype=np.int64),
        **{name: np.zeros(3 * n * implicit) for name in ("above_y", "residual")},
        **{name: np.zeros(9 * n * n * implicit) for name in ("jacobian", "newton")},
        "filter": np.zeros(n * n * implicit),
        "pivots": np.zeros(4 * n * implicit, dtype=np.int64),
    }


def _write_sizes(w: core.Fields) -> None:
    """Write the sizes of the arrays to `count`."""
    sizes = {
        core.SIZE: len(w.y),
        core.STORED: w.curve.shape[1],
        core.DELAYS: len(w.delays),
        core.BOUNDED: len(w.bounded),
        core.MEASURED: len(w.measured),
        core.BREAKS: len(w.breaks),
        core.SAMPLES: len(w.samples),
        core.PEAKED: len(w.peaked),
        core.WATCHED: len(w.watched),
        core.CAPACITY: len(w.begun),
        core.HINTS: len(w.hint),
    }
    w.count[list(sizes)] = list(sizes.values())


def _place_delays(w: core.Fields, first_jump: int) -> None:
    """Write the breaking points known at the start, and those next to the time that each delay refers to."""
    start = w.clock[core.START]
    passed = [start, *w.breaks[: core.MAX_POINTS - 1]]
    w.points[: len(passed)] = passed
    w.order[0] = first_jump
    w.count[core.POINTS] = len(passed)
    for k, s in enumerate(start - w.delays):
        away = np.array(passed) - s
        away[np.abs(away) <= 1e-15 * max(abs(s), float(w.clock[core.REACH]))] = np.nan
        if np.any(away < 0.0):
            w.below[k] = np.nanargmax(np.where(away < 0.0, away, np.nan))
        if np.any(away > 0.0):
            w.above[k] = np.nanargmin(np.where(away > 0.0, away, np.nan))


class Integration:
    """A problem and the state of its integration; `advance` continues it.

    Parameters
    ----------
    y : ndarray, shape (n,)
        State at the start.
    span : tuple of two float
        (start, end), s.
    derivative, delay_of, history
        Addresses (see `compiled.SIGNATURE`), 0 for none.
    delays : ndarray, shape (n_delays,), s
    reach : float, s, optional
        Longest delay, inf to keep the entire history.
    lags : sequence of array_like
        Components that are read at each delay.
    relative, absolute : float, ndarray
        Tolerances; absolute inf excludes a component from error control.
    keep : bool, optional
        Whether to keep all interpolants.
    hints : int, optional
        Number of hints for functions that look back by themselves.
    stored : int, optional
        Number of components with a stored history, the first ones; None: all.
    first_jump : int, optional
        Order of the derivative that jumps at the start.
    largest : bool, optional
        Whether to control the largest error of a component instead of the root mean square.
    sliding_step : float, s, optional
        Maximum step if the derivative switches to and fro; 0: end the run instead.
    neutral : bool, optional
        Whether the derivatives at the delays follow the lags. Before the start they are those of `history_slope` (an
        address, 0: zero).
    slope : ndarray, shape (n,), optional
        Derivative before the start, a first guess of that after it.
    implicit : bool, optional
        Whether to use Radau IIA instead of Dormand-Prince.
    named : callable, optional
        Function that returns the name of a component in messages; None: messages show all of y.

    Notes
    -----
    Other arguments are as in `core.Fields`.
    """

    def __init__(
        self,
        y: FloatArray,
        span: tuple[float, float],
        derivative: int,
        delays: FloatArray,
        lags: Sequence[ArrayLike],
        relative: float,
        absolute: FloatArray,
        *,
        delay_of: int = 0,
        history: int = 0,
        past: FloatArray | None = None,
        numbers: FloatArray | None = None,
        indices: IntArray | None = None,
        lower: FloatArray | None = None,
        upper: FloatArray | None = None,
        stopping: IntArray | None = None,
        breaks: FloatArray | None = None,
        samples: FloatArray | None = None,
        peaked: ArrayLike = (),
        watched: ArrayLike = (),
        max_step: float = np.inf,
        first_step: float = 0.0,
        reach: float = np.inf,
        keep: bool = False,
        hints: int = 0,
        stored: int | None = None,
        first_jump: int = 1,
        largest: bool = False,
        sliding_step: float = 0.0,
        neutral: bool = False,
        history_slope: int = 0,
        slope: FloatArray | None = None,
        implicit: bool = False,
        named: Callable[[int], str] | None = None,
    ) -> None:
        self._named = named
        n = len(y)
        initial = np.array(y, dtype=float)
        bounds = [np.full(n, fill) if bound is None else bound for bound, fill in ((lower, -np.inf), (upper, np.inf))]
        wanted = [np.array(lag, dtype=np.int64, ndmin=1) for lag in lags]
        grid = np.empty(0) if samples is None else samples
        floats: dict[str, Any] = {
            "clock": np.zeros(core.CLOCKS),
            "numbers": np.zeros(1) if numbers is None else numbers,
            "past": initial if past is None else past,
            "lower": bounds[0],
            "upper": bounds[1],
            "absolute": absolute,
            "breaks": np.empty(0) if breaks is None else breaks,
            "samples": grid,
            "y": initial,
            "delays": delays,
            "begun": np.zeros(_SEGMENTS),
            "width": np.ones(_SEGMENTS),
            "curve": np.zeros((_SEGMENTS, (2 * n if neutral else n) if stored is None else stored, 5)),
            "sums": np.zeros((0 if stored is None else n - stored, 5)),
            "peak": initial[np.asarray(peaked, dtype=np.int64)],
            "sampled": np.zeros((len(grid), n)),
            "peaks": np.zeros((len(grid), np.size(peaked))),
            "seen": np.zeros((len(grid), np.size(watched))),
        }
        integers: dict[str, Any] = {
            "count": np.zeros(core.COUNTS),
            "indices": np.zeros(1) if indices is None else indices,
            "first": np.cumsum([0, *map(len, wanted)]),
            "component": np.concatenate([*wanted, np.empty(0)]),
            "bounded": np.flatnonzero(np.isfinite(bounds[0]) | np.isfinite(bounds[1])),
            "stopping": np.zeros(n) if stopping is None else stopping,
            "measured": np.flatnonzero(np.isfinite(absolute)),
            "peaked": peaked,
            "watched": watched,
            "below": np.full(len(delays), -1),
            "above": np.full(len(delays), -1),
            "hint": np.zeros(max(hints, len(delays))),
        }
        self.work = core.Fields(
            **{name: np.array(value, dtype=np.float64, order="C") for name, value in floats.items()},
            **{name: np.array(value, dtype=np.int64, order="C") for name, value in integers.items()},
            **_zero_arrays(n, sum(map(len, wanted)), neutral, implicit),
        )
        w = self.work
        w.clock[[core.START, core.NOW]] = span[0]
        w.clock[core.END] = span[1]
        w.clock[core.STEP] = first_step
        w.clock[core.MAX_STEP] = max_step
        w.clock[core.REACH] = reach if np.isfinite(reach) else span[1] - span[0]
        w.clock[core.RELATIVE] = relative
        w.clock[core.CONTRACTION] = 0.5
        w.clock[core.PREVIOUS] = 1.0
        w.clock[[core.SLIDING_UNTIL, core.SUSPECTED_UNTIL, core.NONSMOOTH_UNTIL]] = -np.inf
        w.clock[core.SLIDING_STEP] = sliding_step
        w.clock[core.MIN_DELAY] = min((delay for delay in w.delays.tolist() if delay > 0.0), default=np.inf)
        callbacks = [core.DERIVATIVE, core.DELAY_OF, core.HISTORY, core.HISTORY_SLOPE]
        w.count[callbacks] = derivative, delay_of, history, history_slope
        w.count[core.NEUTRAL] = neutral
        w.count[core.IMPLICIT] = implicit
        if slope is not None:
            w.rates[0] = slope
        _write_sizes(w)
        w.count[core.KEEP] = keep or not np.isfinite(reach)
        w.count[core.FRESH] = 1
        w.count[core.LARGEST] = largest
        if delay_of:
            _place_delays(w, first_jump)
        self.table = np.array([array.ctypes.data for array in w], dtype=np.int64)

    def replace(self, **arrays: NDArray[Any]) -> None:
        """Replace some arrays by others; the caller must update their sizes.

        Parameters
        ----------
        **arrays : ndarray
            Field of `core.Fields` -> array.
        """
        self.work = self.work._replace(**{name: np.ascontiguousarray(array) for name, array in arrays.items()})
        self.table[:] = [array.ctypes.data for array in self.work]

    def advance(self, steps: int = 1 << 62) -> int:
        """Continue for up to `steps` steps; return a status of `core`.

        The history grows as long as the memory of the machine allows it.

        Parameters
        ----------
        steps : int, optional
        """
        final = self.counted(core.STEPS) + steps
        while True:
            status = int(stepper.advance(self.table, final - self.counted(core.STEPS)))
            if status != core.FULL:
                return status
            history = {name: getattr(self.work, name) for name in ("begun", "width", "curve")}
            size = 2 * sum(old.nbytes for old in history.values())
            if size > _LARGE and 0 < free_memory() < size:
                return int(core.NO_MEMORY)
            self.replace(**{name: np.concatenate([old, np.ones_like(old)]) for name, old in history.items()})
            self.work.count[core.CAPACITY] = len(self.work.begun)

    @property
    def now(self) -> float:
        """Time reached, s."""
        return float(self.work.clock[core.NOW])

    def counted(self, counter: int) -> int:
        """Return a counter of `core`.

        Parameters
        ----------
        counter : int
            Index, for example core.STEPS.
        """
        return int(self.work.count[counter])

    def segments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return (begun, width, curve) of the stored interpolants."""
        j = self.counted(core.SEGMENTS)
        return self.work.begun[:j], self.work.width[:j], self.work.curve[:j, : len(self.work.y)]

    def trouble(self, status: int) -> str:
        """Return a line with the reason why the core could not continue.

        Parameters
        ----------
        status : int
            Negative status from `advance`.
        """
        at = f"at t = {self.now:.9g}"
        y = f"y = {in_one_line(self.work.y)}"
        if self._named is not None:
            y = f"in the {self._named(self._worst(status))}"
        if status == core.BAD_DELAY:
            k = self.counted(core.COMPONENT)
            return f"delay {k} became {float(self.work.delays[k])!r} {at}, {y}: delays must be finite and >= 0"
        if status == core.FAILED:
            return f"the derivative failed at t = {float(self.work.clock[core.FAILED_AT]):.9g}, {y}"
        if status == core.UNSETTLED:
            return f"a delay is zero, and iterating the derivative on itself does not settle it, {at}, {y}"
        if status == core.NO_CONTINUATION:
            k, point = self.counted(core.COMPONENT), float(self.work.clock[core.AT_POINT])
            return (
                f"the solution ends {at}, {y}: delay {k} reaches the breaking point t = {point:.9g}, and from either "
                "side of it the derivative leads the delay back to the other side"
            )
        if status == core.SLIDING:
            return (
                f"the solution ends {at}, {y}: the derivative jumps there, and from either side it leads to the other"
            )
        reasons = {
            core.PASSING: "delays pass breaking points to and fro without progress in time",
            core.TOO_SMALL: "the step size that the tolerances require is below the spacing of numbers",
            core.DIVERGING: "the iteration of a step does not converge for any step size, as if the derivative jumped",
            core.NOT_FINITE: "the derivative is not finite",
            core.NO_MEMORY: "the stored solution exceeds the free memory",
            core.CHATTER: "components chatter at their bounds",
        }
        return f"{reasons[status]} {at}, {y}"

    def _worst(self, status: int) -> int:
        """Return the component that is not finite or, if all are, has the largest error in units of its tolerance."""
        w = self.work
        odd = ~np.isfinite(np.vstack([w.rates, w.trial])).all(axis=0)
        if status == core.NOT_FINITE and odd.any():
            return int(np.argmax(odd))
        ratio = np.abs(w.stage) / (w.absolute + w.clock[core.RELATIVE] * np.abs(w.y))
        return int(np.argmax(np.where(np.isfinite(ratio), ratio, 0.0)))
