"""Delay differential equations, with the conventions of scipy.integrate.solve_ivp."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import Displayed, Rows
from ecc.fluid.dde.callbacks import Callback, callback

if TYPE_CHECKING:
    from ecc.fluid.dde.integration import Integration

__all__ = ["DdeResult", "DdeSolution", "solve_dde"]

FloatArray = NDArray[np.float64]

_NOTICE = 1_000_000  # steps between two warnings that report progress
_MAX_JUMPS = 5000  # maximum number of breaking points of a neutral equation


class DdeSolution:
    """A continuous solution: call it with a time or an array of times; before the start it is the history."""

    def __init__(self, segments: tuple[FloatArray, FloatArray, FloatArray], history: Callable[[float], Any]) -> None:
        self._begun, self._width, self._curve = segments
        self._history = history

    @property
    def t_min(self) -> float:
        """Start, s."""
        return float(self._begun[0])

    @property
    def t_max(self) -> float:
        """End, s."""
        return float(self._begun[-1] + self._width[-1])

    def __call__(self, t: ArrayLike) -> FloatArray:
        """Return the solution, shape (n,) for a time, (n, n_times) for an array of times.

        Parameters
        ----------
        t : array_like
            Time or times, float or shape (n_times,), up to the end of the solution.
        """
        from ecc.fluid.dde.integration import curve_values

        times = np.atleast_1d(np.asarray(t, dtype=float))
        if not np.all(times <= self.t_max * (1.0 + 1e-12) + 1e-300):
            raise ValueError(f"t must be <= {self.t_max:g}, the end of the solution, got {shown(float(times.max()))}")
        values = curve_values(self._begun, self._width, self._curve, times)
        for row in np.flatnonzero(times < self.t_min):
            values[row] = self._history(float(times[row]))
        return values[0] if np.ndim(t) == 0 else values.T


@dataclass(frozen=True, repr=False)
class DdeResult(Displayed):
    """Result of `solve_dde`: the fields of SciPy's result, and counts of steps.

    `t` (n_points,), `y` (n, n_points), `sol` (DdeSolution or None), `t_events`, `y_events` (lists of arrays or None),
    `nfev`, `njev` and `nlu` (Jacobians and factorizations of Radau), `status` (0: reached the end, 1: stopped by an
    event, -1: could not continue), `message`, `success`, `steps`, `rejected`, `compiled` (whether f was compiled).
    """

    t: FloatArray
    y: FloatArray
    sol: DdeSolution | None
    t_events: list[FloatArray] | None
    y_events: list[FloatArray] | None
    nfev: int
    njev: int
    nlu: int
    status: int
    message: str
    success: bool
    steps: int
    rejected: int
    compiled: bool

    def _title(self) -> str:
        return "Solution of a delay differential equation" + ("" if self.success else ", incomplete")

    def _rows(self) -> Rows:
        span = f"{self.t[0]:g} to {self.t[-1]:g} s, {len(self.t)} points" if len(self.t) else "no points"
        rows = [("t", span), ("y", f"{self.y.shape[0]} components"), ("message", self.message)]
        if self.t_events is not None:
            rows.append(("events", ", ".join(str(len(times)) for times in self.t_events)))
        work = f"{self.steps}, {self.rejected} rejected, {self.nfev} evaluations"
        return [*rows, ("steps", work), ("dense output", "no" if self.sol is None else "yes")]


@check_arguments
def solve_dde(
    f: Callable[..., Any],
    t_span: Sequence[float],
    history: Any,
    delays: Any,
    *,
    t_eval: ArrayLike | None = None,
    dense_output: bool = False,
    events: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None,
    rtol: float = 1e-3,
    atol: ArrayLike = 1e-6,
    max_step: float = np.inf,
    first_step: float | None = None,
    y0: ArrayLike | None = None,
    breaks: ArrayLike = (),
    jit: bool = True,
    method: str = "RK45",
    neutral: bool = False,
    history_slope: Callable[..., Any] | None = None,
    initial_slope: ArrayLike | None = None,
    args: Sequence[float] = (),
) -> DdeResult:
    """Return the solution of y'(t) = f(t, y(t), [y(t - delay) for each delay]) from its history.

    The method is Dormand-Prince 5(4) with its interpolant of order 4, with error control as in SciPy's RK45; or, for
    stiff equations, Radau IIA of order 5 (4 if lags fall between the ends of steps), as in SciPy's Radau. Steps may be
    longer than a delay, and end on the breaking points: the times at which a jump at the start or at one of `breaks`
    returns through the delays, until it is in the sixth derivative. In a neutral equation, y'(t) = f(t, y, ylag,
    dylag), the jumps return undamped, and steps end on all of them.

    Parameters
    ----------
    f : callable (t, y, ylag) -> shape (n,)
        Right-hand side. y has shape (n,), ylag (n_delays, n): ylag[k] is y(t - delays[k]). f is compiled if Numba can
        compile it (a plain function of numbers and arrays); a closure can supply fixed values. A tuple of numbers, or
        `np.array` of such a list, is returned without an array; another array is allocated at each call. If `neutral`,
        f is called as (t, y, ylag, dylag): dylag[k] is y'(t - delays[k]).
    t_span : sequence of float
        (start, end), start < end, for example (0, 100).
    history : object
        Callable t -> shape (n,) for t <= start, or an array of shape (n,) for a constant history.
    delays : object, shape (n_delays,)
        Delays >= 0 (> 0 if `neutral`); or a callable (t, y) -> shape (n_delays,). Such delays may vanish but must not
        be negative; values down to -100 rtol (not more than 1 %) of the time since the start count as 0.
    t_eval : array_like, optional
        Times of the results, increasing, within t_span; None: the ends of the steps.
    dense_output : bool, optional
        Whether to return `sol`.
    events : callable, optional
        Callable (t, y) -> float or a list of them. Their zeros are located; attributes `terminal` and `direction` as in
        SciPy.
    rtol, atol
        Relative and absolute tolerance (atol: one for all, or shape (n,)). rtol must be at least 100 machine
        precisions.
    max_step, first_step : float, > 0, optional
        Maximum step, and length of the first step.
    y0 : array_like, shape (n,), optional
        Value at the start, if it differs from the history.
    breaks : array_like, optional
        Times at which f (or, before the start, the history) or a derivative of it jumps in t.
    jit : bool, optional
        Whether to compile f. If False, f may use any Python code, but is slower.
    method : str, optional
        "RK45" or "Radau". The latter suits stiff equations, with changes in f that are much faster than the solution;
        it does not support `neutral`.
    neutral : bool, optional
        Whether f takes dylag. If a delay vanishes, y' depends on itself: f must be a contraction in that dylag.
    history_slope : callable, optional
        Callable t -> shape (n,), the derivative of `history`, needed if `history` is a callable and f is `neutral`.
    initial_slope : array_like, shape (n,), optional
        Estimate of y' just after the start, if f is `neutral` and a delay vanishes there. It selects the solution if
        y' = f(t, y, y, y') has several: the iteration for y' starts from it, and converges to a solution near which f
        is a contraction in dylag. None: the derivative of the history at the start.
    args : sequence of float, optional
        Numbers that all of these callables take after their other arguments; f is compiled once for all values.

    Returns
    -------
    DdeResult
        Solution. If the solver could not continue, `status` is -1, `message` is the reason, and the solution is short.

    Raises
    ------
    ValueError
        If the span, a delay, a tolerance or a shape is out of range. Exceptions of f are raised, too.

    Warns
    -----
    RuntimeWarning
        After each million steps, with the time reached.

    Notes
    -----
    Compiling f takes about a second the first time; equal functions are compiled once a process. Breaking points beyond
    the first 200 (5000 if `neutral`, 1000 if delays are not constant) are left to error control. A step of Radau
    factorizes a (3n, 3n) matrix unless it can reuse the previous factors; its Jacobians are differences of f, which
    `nfev` counts.

    Examples
    --------
    >>> r = solve_dde(lambda t, y, ylag: -ylag[0], (0, 1), history=[1.0], delays=[1.0], rtol=1e-8)
    >>> round(float(r.y[0, -1]), 6)
    0.0

    y' = tanh(2 y'(t/2)) has the solutions y = s t with s = tanh(2 s), of which two attract the iteration:

    >>> for s in (0.5, -0.5):
    ...     r = solve_dde(lambda t, y, ylag, dylag: np.tanh(2 * dylag[0]), (0, 1), [0.0], lambda t, y: [t / 2],
    ...                   neutral=True, initial_slope=[s])
    ...     print(round(float(r.y[0, -1]), 2))
    0.96
    -0.96
    """
    from ecc.fluid.dde import history_and_step as core
    from ecc.fluid.dde.integration import Integration

    start, end = _span(t_span)
    fixed = tuple(_vector(args, "args").tolist()) if len(args) else ()
    unbound = {core.DERIVATIVE: f, core.HISTORY: history, core.HISTORY_SLOPE: history_slope, core.DELAY_OF: delays}
    f, history, history_slope, delays = _bound(unbound.values(), fixed, neutral)
    past = history if callable(history) else None
    initial = _vector(past(start) if past else history, "history")
    n = len(initial)
    first = initial if y0 is None else _vector(y0, "y0", n)
    if not rtol >= 100.0 * np.finfo(float).eps:
        raise ValueError(f"rtol must be >= 2.3e-14, got {shown(rtol)}")
    _check_method(method, neutral)
    absolute = _absolute_tolerance(atol, n)
    _check_step_sizes(max_step, first_step, end - start)
    grid = None if t_eval is None else _grid(t_eval, start, end)
    lag_values = _vector(delays(start, first) if callable(delays) else delays, "delays")
    if not np.all(lag_values >= 0.0):
        raise ValueError(f"delays must be >= 0, got {shown(float(lag_values.min()))}")
    slope = _slope(history_slope, past is not None, neutral, start, n)
    if initial_slope is not None and not neutral:
        raise ValueError(f"initial_slope must be None unless neutral, got {shown(initial_slope)}")
    first_slope = slope if initial_slope is None else _vector(initial_slope, "initial_slope", n)
    if neutral and not callable(delays) and not np.all(lag_values > 0.0):
        raise ValueError(f"delays must be > 0 if neutral, got {shown(float(lag_values.min()))}")
    delay_of = delays if callable(delays) else None
    problem = _Problem(start, end, f, past, history_slope, delay_of, neutral, initial, first, first_slope, lag_values)
    functions = _user_functions(problem, unbound, fixed, jit)
    addresses = {index: function.callback.address for index, function in functions.items()}
    breaking_times = _breaking_times(problem, np.asarray(breaks, dtype=float))
    watch = _events(events, fixed)
    run = Integration(
        first,
        (start, end),
        addresses[core.DERIVATIVE],
        lag_values,
        [np.arange(n)] * len(lag_values),
        rtol,
        np.maximum(absolute, np.finfo(float).tiny),
        delay_of=addresses.get(core.DELAY_OF, 0),
        history=addresses.get(core.HISTORY, 0),
        past=initial,
        numbers=np.array(fixed) if fixed else None,
        breaks=breaking_times,
        samples=grid[grid > start] if grid is not None else None,
        max_step=max_step,
        first_step=first_step or 0.0,
        reach=np.inf if callable(delays) else float(lag_values.max(initial=0.0)),
        keep=grid is None or dense_output,
        first_jump=1 - problem.jumps,
        neutral=neutral,
        history_slope=addresses.get(core.HISTORY_SLOPE, 0),
        slope=first_slope,
        implicit=method == "Radau",
    )
    status, message, event_time = _integrate(run, watch, first)
    _raise_errors(run, status, functions)
    reached = event_time[0] if status == 1 and event_time else run.now
    keeps_all = grid is None or dense_output
    sol = DdeSolution(run.segments(), problem.before) if keeps_all and run.counted(core.SEGMENTS) else None
    t, y = _points(run, grid, sol, first, start, reached)
    return DdeResult(
        t=t,
        y=y,
        sol=sol if dense_output else None,
        t_events=None if watch is None else [np.array([at for at, _ in e.occurrences]) for e in watch],
        y_events=None if watch is None else [np.array([value for _, value in e.occurrences]) for e in watch],
        nfev=run.counted(core.CALLS),
        njev=run.counted(core.LINEARIZATIONS),
        nlu=run.counted(core.FACTORIZATIONS),
        status=status if status >= 0 else -1,
        message=message,
        success=status >= 0,
        steps=run.counted(core.STEPS),
        rejected=run.counted(core.REJECTED),
        compiled=functions[core.DERIVATIVE].callback.is_compiled,
    )


@dataclass(frozen=True)
class _Problem:
    """An initial value problem: its functions, which take no `args`, and its values at the start."""

    start: float
    end: float
    f: Callable[..., Any]
    past: Callable[[float], Any] | None  # the history, if it is a function
    history_slope: Callable[[float], Any] | None
    delay_of: Callable[..., Any] | None  # the delays, if they are a function
    neutral: bool
    initial: FloatArray  # history at the start
    first: FloatArray  # y at the start
    slope: FloatArray  # derivative of the history at the start, or its estimate just after it
    delays: FloatArray

    @property
    def jumps(self) -> bool:
        """Whether y jumps at the start."""
        return bool(np.any(self.first != self.initial))

    def before(self, t: float) -> FloatArray:
        """Return the history at t."""
        return _vector(self.past(t), "history", len(self.first)) if self.past else self.initial

    def arguments(self) -> list[FloatArray]:
        """Return the arguments of f at the start, without t."""
        shape = len(self.delays), len(self.first)
        if self.past:
            values = [self.before(self.start - d) if d > 0.0 else self.first for d in self.delays]
            lagged = np.array(values).reshape(shape)
        else:
            lagged = np.where(self.delays[:, None] > 0.0, self.initial, self.first)
        if not self.neutral:
            return [self.first.copy(), lagged]
        slopes = [self.history_slope(self.start - d) if self.history_slope else self.slope for d in self.delays]
        lagged_slopes = np.array([_vector(slope, "history_slope", shape[1]) for slope in slopes]).reshape(shape)
        return [self.first.copy(), lagged, lagged_slopes]


class _UserFunction(NamedTuple):
    """A function of the user, and its callback for the core."""

    name: str
    function: Callable[..., Any]  # arguments: t and arrays
    n_arrays: int
    size: int  # numbers that it returns
    callback: Callback


def _user_functions(
    problem: _Problem, unbound: dict[int, Any], args: tuple[float, ...], jit: bool
) -> dict[int, _UserFunction]:
    """Return the functions of a problem, compiled if possible from functions that take `args`, by index in `count`."""
    from ecc.fluid.dde import history_and_step as core

    arguments, n = problem.arguments(), len(problem.first)
    functions = {}
    for index, name, function, n_arrays, size in (
        (core.DERIVATIVE, "f", problem.f, len(arguments), n),
        (core.HISTORY, "history", problem.past, 0, n),
        (core.HISTORY_SLOPE, "history_slope", problem.history_slope, 0, n),
        (core.DELAY_OF, "delays", problem.delay_of, 1, len(problem.delays)),
    ):
        if function is None:
            continue
        returned = function(problem.start, *arguments[:n_arrays])
        if index == core.DERIVATIVE:
            _check_derivative(returned, n)
        shapes = tuple(array.shape for array in arguments[:n_arrays])
        compiled_or_not = callback(unbound[index], shapes, size, np.ndim(returned) == 0, jit, args)
        functions[index] = _UserFunction(name, function, n_arrays, size, compiled_or_not)
    return functions


def _check_derivative(returned: Any, n: int) -> None:
    """Raise unless f has returned n numbers: an array of them or, for n = 1, a number."""
    if returned is None:
        raise ValueError(f"f must return {n} numbers, got None")
    shape = np.asarray(returned, dtype=float).shape
    if shape != (n,) and not (n == 1 and shape == ()):
        raise ValueError(f"f must return {n} numbers, got shape {shape}")


def _breaking_times(problem: _Problem, breaks: FloatArray) -> FloatArray:
    """Return the times at which steps must end, increasing; without those that depend on the solution."""
    from ecc.fluid.dde.integration import breaking_points

    start, end = problem.start, problem.end
    roots = np.concatenate([[start], breaks[(breaks < end) & (breaks != start)]])
    if problem.delay_of is not None:
        return np.sort(roots)
    if problem.neutral:
        points = breaking_points(roots, problem.delays, end, generations=_MAX_JUMPS, max_points=_MAX_JUMPS)
    else:
        generations = 5 + (problem.jumps or bool(np.any(breaks < start)))
        points = breaking_points(roots, problem.delays, end, generations=generations)
    return np.sort(points)


def _raise_errors(run: Integration, status: int, functions: dict[int, _UserFunction]) -> None:
    """Raise the exception of a function of the user, or a ValueError for what it returned."""
    from ecc.fluid.dde import history_and_step as core
    from ecc.fluid.dde.integration import in_one_line

    for each in functions.values():
        if each.callback.error is not None:
            raise each.callback.error
    if status == core.FAILED:  # call it again in Python, to raise exceptions that compiled code cannot
        failed = functions[run.counted(core.FAILING)]
        at = float(run.work.clock[core.FAILED_AT])
        lagged = run.work.lag.reshape(len(run.work.lag), len(run.work.delays), len(run.work.y)).copy()
        value = failed.function(at, *[run.work.last.copy(), *lagged][: failed.n_arrays])
        _vector(value, f"{failed.name} at t = {at:.9g}, y = {in_one_line(run.work.last)}", failed.size)


class _Event:
    """An event function, its attributes with their meaning in SciPy, and its occurrences."""

    def __init__(self, function: Callable[..., float], args: tuple[float, ...]) -> None:
        self.function = _with_arguments(function, args)
        terminal = getattr(function, "terminal", False)
        self.stop_after = (1 if terminal is True else int(terminal)) if terminal else 0
        self.direction = float(getattr(function, "direction", 0.0))
        self.value = 0.0
        self.occurrences: list[tuple[float, FloatArray]] = []


def _check_call(name: str, function: Any, taken: tuple[str, ...]) -> None:
    """Raise if a function cannot take that number of arguments; functions without a signature pass unchecked."""
    if callable(function):
        with suppress(ValueError):
            try:
                signature(function).bind(*taken)
            except TypeError:
                listed = ", ".join(taken)
                raise TypeError(f"{name} must take {len(taken)} arguments ({listed}), got {shown(function)}") from None


def _bound(functions: Iterable[Any], args: tuple[float, ...], neutral: bool) -> list[Any]:
    """Return f, history, history_slope and delays with their last arguments bound; raise if one cannot take them."""
    with_lags = ("t", "y", "ylag", *["dylag"] * neutral)
    taken = {"f": with_lags, "history": ("t",), "history_slope": ("t",), "delays": ("t", "y")}
    functions = list(functions)
    for (name, first), function in zip(taken.items(), functions, strict=True):
        _check_call(name, function, (*first, *(f"args[{k}]" for k in range(len(args)))))
    return [_with_arguments(function, args) for function in functions]


def _with_arguments(function: Any, args: tuple[float, ...]) -> Any:
    """Return the function with its last arguments bound, or the object unchanged if it is not callable."""
    return (lambda *first: function(*first, *args)) if args and callable(function) else function


def _events(events: Any, args: tuple[float, ...]) -> list[_Event] | None:
    if events is None:
        return None
    return [_Event(function, args) for function in ([events] if callable(events) else events)]


def _integrate(run: Integration, watch: list[_Event] | None, first: FloatArray) -> tuple[int, str, tuple[float, ...]]:
    """Run to the end or a terminal event; return status, message and, for an event, its time."""
    from ecc.fluid.dde import history_and_step as core

    status = core.PAUSED
    if watch is None:
        while status == core.PAUSED:
            status = run.advance(_NOTICE)
            _report_progress(run)
    else:
        for event in watch:
            event.value = float(event.function(run.now, first))
        while status == core.PAUSED:
            before = run.now
            status = run.advance(1)
            _report_progress(run)
            if status < 0 or run.now == before:
                continue
            stopped = _step_events(run, watch, before)
            if stopped is not None:
                return 1, "A termination event occurred.", (stopped,)
    if status < 0:
        return status, run.trouble(status), ()
    return 0, "The solver successfully reached the end of the integration interval.", ()


def _report_progress(run: Integration) -> None:
    """Warn after each million steps of a run that continues."""
    from ecc.fluid.dde import history_and_step as core

    steps = run.counted(core.STEPS)
    start, end = (float(run.work.clock[index]) for index in (core.START, core.END))
    if steps > 0 and steps % _NOTICE == 0 and run.now < end:
        warnings.warn(
            f"solve_dde has taken {steps:,} steps from t = {start:.9g} to {run.now:.9g} and continues to {end:.9g}; "
            "a larger tolerance takes fewer steps, and for stiff equations method='Radau' does",
            RuntimeWarning,
            stacklevel=5,  # the caller of solve_dde: check_arguments adds a call
        )


def _step_events(run: Integration, watch: list[_Event], before: float) -> float | None:
    """Record the events of the last step; return the time of a terminal one, or None."""
    from scipy.optimize import brentq

    from ecc.fluid.dde.integration import curve_values

    now = run.now
    begun, width, curve = (part[-1:] for part in run.segments())

    def state(t: float) -> FloatArray:
        value: FloatArray = run.work.y.copy() if t == now else curve_values(begun, width, curve, np.array([t]))[0]
        return value

    crossed = []
    for event in watch:
        value = float(event.function(now, run.work.y.copy()))
        up = event.value <= 0.0 <= value and event.direction >= 0.0
        down = event.value >= 0.0 >= value and event.direction <= 0.0
        if (up or down) and event.value != 0.0:
            level = event.function

            def height(t: float, level: Any = level) -> float:
                return float(level(t, state(t)))

            root = now if value == 0.0 else float(brentq(height, before, now, xtol=4e-16 * abs(now), rtol=1e-15))
            step = float(np.spacing(root))
            while (
                root < now and height(root) * value < 0.0
            ):  # not before the root: a run that continues there would find it again
                root, step = min(root + step, now), 2.0 * step
            crossed.append((root, event))
        event.value = value
    for root, event in sorted(crossed, key=lambda pair: pair[0]):
        event.occurrences.append((root, state(root)))
        if event.stop_after and len(event.occurrences) >= event.stop_after:
            return root
    return None


def _points(
    run: Integration, grid: FloatArray | None, sol: DdeSolution | None, first: FloatArray, start: float, reached: float
) -> tuple[FloatArray, FloatArray]:
    """Return the reported times and values: t_eval as far as it was reached, or the ends of the steps."""
    from ecc.fluid.dde import history_and_step as core

    if grid is not None:
        rows = np.vstack([np.tile(first, (int((grid <= start).sum()), 1)), run.work.sampled])
        within = np.arange(len(grid)) < (grid <= start).sum() + run.counted(core.SAMPLE)
        within &= grid <= reached
        return grid[within], rows[within].T.copy()
    begun = run.segments()[0]
    t = np.append(begun[begun < reached], reached)
    y = np.vstack([run.segments()[2][: len(t) - 1, :, 0], run.work.y])
    if sol is not None and reached < run.now:
        y[-1] = sol(reached)
    return t, y.T.copy()


def _slope(
    history_slope: Callable[[float], Any] | None, moves: bool, neutral: bool, start: float, size: int
) -> FloatArray:
    """Return the derivative of the history at the start."""
    if history_slope is None and moves and neutral:
        raise ValueError("history_slope must be given if neutral and history is a callable")
    if history_slope is not None and not (moves and neutral):
        raise ValueError("history_slope must be None unless neutral and history is a callable")
    return np.zeros(size) if history_slope is None else _vector(history_slope(start), "history_slope", size)


def _span(t_span: Sequence[float]) -> tuple[float, float]:
    if len(t_span) != 2:
        raise ValueError(f"t_span must be (start, end) with start < end, got {shown(t_span)}")
    start, end = map(float, t_span)
    if not (np.isfinite(start) and np.isfinite(end) and start < end):
        raise ValueError(f"t_span must be (start, end) with start < end, got ({start!r}, {end!r})")
    return start, end


def _vector(value: Any, name: str, size: int | None = None) -> FloatArray:
    try:
        vector = np.atleast_1d(np.asarray(value, dtype=float))
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} must be numbers, got {shown(value)}") from None
    if vector.ndim != 1 or (size is not None and vector.shape != (size,)):
        wanted = "shape (n,)" if size is None else f"{size} numbers"
        raise ValueError(f"{name} must have {wanted}, got shape {vector.shape}")
    if not np.all(np.isfinite(vector)):
        raise ValueError(f"{name} must be finite, got {shown(vector[~np.isfinite(vector)][0])}")
    return vector.copy()


def _check_method(method: str, neutral: bool) -> None:
    """Raise unless the method exists and supports the equation."""
    if method not in ("RK45", "Radau"):
        raise ValueError(f"method must be 'RK45' or 'Radau', got {shown(method)}")
    if method == "Radau" and neutral:
        raise ValueError("method must be 'RK45' if neutral, got 'Radau'")


def _absolute_tolerance(atol: ArrayLike, n: int) -> FloatArray:
    """Return the absolute tolerance of each component."""
    absolute = np.full(n, atol) if np.ndim(atol) == 0 else np.asarray(atol, dtype=float)
    if absolute.shape != (n,) or not np.all((absolute >= 0.0) & np.isfinite(absolute)):
        raise ValueError(f"atol must be >= 0, one number or {n}, got {shown(atol)}")
    return absolute


def _check_step_sizes(max_step: float, first_step: float | None, length: float) -> None:
    """Raise unless the step sizes suit an integration of that length."""
    if not max_step > 0.0:
        raise ValueError(f"max_step must be > 0, got {shown(max_step)}")
    if first_step is not None and not 0.0 < first_step <= length:
        raise ValueError(f"first_step must be > 0 and <= {length:g}, got {shown(first_step)}")


def _grid(t_eval: ArrayLike, start: float, end: float) -> FloatArray:
    grid = np.asarray(t_eval, dtype=float)
    if grid.ndim != 1 or np.any(np.diff(grid) <= 0.0) or not np.all((grid >= start) & (grid <= end)):
        raise ValueError(f"t_eval must increase within ({start:g}, {end:g})")
    return grid
