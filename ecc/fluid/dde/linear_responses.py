"""Time responses of linear models with delays by `solve_dde`, and linear systems of its right-hand sides.

The channels of a model are eliminated up to the end of the response:

    x'(t) = sum_k A_k x(t - theta_k) + B_k u(t - theta_k),    with all sums theta_k of delays up to there.

A step is an additional state with the value 0 before the start and 1 after it, so that its delayed copies are lags of
the solver, which ends steps at each of them. An impulse response is the derivative of the step response, which the
equation itself gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments, shown
from ecc.errors import ConvergenceError, LinearizationError
from ecc.fluid.dde.solver import DdeSolution, solve_dde
from ecc.laws.jets import JETS, jacobian, rebind
from ecc.linear import DelayModel, DelaySystem
from ecc.linear.delay_model import real_array
from ecc.linear.elimination import delayed_terms

__all__ = ["forced_response", "impulse_response", "initial_response", "linearize_dde", "step_response"]

Real = NDArray[np.float64]
_MAX_POINTS = 10_000_000


def _times(t: ArrayLike) -> Real:
    times = real_array(t, "t")
    if times.ndim != 1 or not times.size or times.size > _MAX_POINTS:
        raise ValueError(f"t must be a sequence of times, got shape {times.shape}")
    if times[0] < 0.0 or np.any(np.diff(times) <= 0.0) or not times[-1] > 0.0:
        raise ValueError(f"t must be increasing times >= 0 s, the last > 0 s, got {shown(t)}")
    return times


class _Expanded:
    """A model as delayed matrices, and its solution for one input.

    Sums of delays are rounded to binary numbers; `theta[0]` is 0.
    """

    def __init__(self, model: DelayModel, end: float) -> None:
        terms = delayed_terms(model.channels, end)
        delays = sorted({0.0, *(float(theta) for theta in terms)})
        n, size = model.n_states, model.n_states + model.n_inputs
        matrices = np.zeros((len(delays), n + model.n_outputs, size))
        for theta, matrix in terms.items():
            matrices[delays.index(float(theta))] += matrix
        self.n, self.theta = n, np.array(delays)
        self.to_state, self.to_output = matrices[:, :n], matrices[:, n:]

    def state_delays(self) -> list[float]:
        return [float(theta) for theta in self.theta[1:]]


def _solved(f: Callable[..., Any], end: float, history: Any, delays: Sequence[float], **options: Any) -> DdeSolution:
    run = solve_dde(f, (0.0, end), history, list(delays), dense_output=True, jit=False, **options)
    if not run.success or run.sol is None:
        raise ConvergenceError(f"the response could not be computed: {run.message}", None)
    return run.sol


def _lagged(sol: DdeSolution, times: Real, theta: float, n: int) -> Real:
    """Return x at times - theta, shape (len(times), n); it is 0 before t = 0."""
    at = times - theta
    value = np.zeros((len(times), n))
    later = at >= 0.0
    if later.any():
        value[later] = np.atleast_2d(np.asarray(sol(at[later])).T)[:, :n]
    return value


def _step_of(part: _Expanded, column: int, end: float, options: dict[str, Any]) -> Callable[[Real, bool], Real]:
    """Return a function of times: states after a step of one input, or their derivatives, each with zero before 0."""
    n, theta = part.n, part.theta
    a, b = part.to_state[:, :, :n], part.to_state[:, :, n + column]
    coefficients = np.concatenate([a, b[:, :, None]], axis=2).transpose(1, 0, 2).reshape(n, len(theta) * (n + 1))
    slope = np.zeros(n + 1)

    def f(_: float, y: Real, lagged: Real) -> Real:
        slope[:n] = coefficients @ np.concatenate([y, lagged.ravel()])
        return slope.copy()

    start = np.zeros(n + 1)
    start[n] = 1.0
    sol = _solved(f, end, np.zeros(n + 1), part.state_delays(), y0=start, **options) if n else None

    def states(times: Real, derivative: bool) -> Real:
        if sol is None:
            return np.zeros((len(times), 0))
        if not derivative:
            return _lagged(sol, times, 0.0, n)
        total = np.zeros((len(times), n))
        for delay, matrix, gain in zip(theta, a, b, strict=True):
            total += _lagged(sol, times, float(delay), n) @ matrix.T
            total += np.where(times >= delay, 1.0, 0.0)[:, None] * gain
        total[times < 0.0] = 0.0
        return total

    return states


def _responses(model: DelayModel, t: ArrayLike, derivative: bool, options: dict[str, Any]) -> Real:
    times = _times(t)
    end = float(times[-1])
    part = _Expanded(model, end)
    n = part.n
    out = np.zeros((len(times), model.n_outputs, model.n_inputs))
    for column in range(model.n_inputs):
        states = _step_of(part, column, end, options)
        for theta, matrix in zip(part.theta, part.to_output, strict=True):
            out[:, :, column] += states(times - theta, derivative) @ matrix[:, :n].T
            if not derivative:
                out[:, :, column] += np.where(times >= theta, 1.0, 0.0)[:, None] * matrix[:, n + column]
    return out[:, 0, 0] if model.is_siso else out


@check_arguments
def step_response(
    model: DelayModel, t: ArrayLike, *, rtol: float = 1e-10, atol: float = 1e-13, method: str = "RK45"
) -> Real:
    """Return the outputs of a model after unit steps of its inputs at t = 0, from rest.

    Parameters
    ----------
    model : DelayModel
        Model, for example of `ecc.linear.transfer_function`.
    t : array_like, shape (T,)
        Increasing times >= 0, seconds.
    rtol, atol : float, optional
        Tolerances of `solve_dde`.
    method : str, optional
        "RK45", or "Radau" for stiff models.

    Returns
    -------
    ndarray, shape (T,)
        Outputs; with several inputs or outputs of shape (T, outputs, inputs), each input alone. At a jump, the value
        after it.

    Raises
    ------
    ValueError
        Times do not increase, or the response has more than 4000 distinct sums of delays.
    ConvergenceError
        The solver could not continue.

    Examples
    --------
    >>> from ecc.linear import transfer_function
    >>> loop = transfer_function([1.0], [1.0, 0.0], 1.0).feedback()
    >>> step_response(loop, [0.5, 1.5, 2.5]).round(9)  # 0, t - 1, then t - 1 - (t - 2)^2/2
    array([0.   , 0.5  , 1.375])
    """
    return _responses(model, t, False, {"rtol": rtol, "atol": atol, "method": method})


@check_arguments
def impulse_response(
    model: DelayModel, t: ArrayLike, *, rtol: float = 1e-10, atol: float = 1e-13, method: str = "RK45"
) -> Real:
    """Return the outputs of a model after unit impulses of its inputs at t = 0, from rest.

    Parameters
    ----------
    model : DelayModel
        Model, for example of `ecc.linear.transfer_function`.
    t : array_like, shape (T,)
        Increasing times >= 0, seconds.
    rtol, atol : float, optional
        Tolerances of `solve_dde`.
    method : str, optional
        "RK45", or "Radau" for stiff models.

    Returns
    -------
    ndarray, shape (T,)
        Outputs, as of `step_response`, without the impulses that direct gains pass on.

    Raises
    ------
    ValueError
        Times do not increase, or the response has more than 4000 distinct sums of delays.
    ConvergenceError
        The solver could not continue.

    Examples
    --------
    >>> from ecc.linear import transfer_function
    >>> impulse_response(transfer_function([1.0], [1.0, 0.0], 1.0).feedback(), [0.5, 1.5, 2.5]).round(9)
    array([0. , 1. , 0.5])
    """
    return _responses(model, t, True, {"rtol": rtol, "atol": atol, "method": method})


@check_arguments
def forced_response(
    model: DelayModel,
    t: ArrayLike,
    u: Any,
    *,
    breaks: ArrayLike = (),
    rtol: float = 1e-10,
    atol: float = 1e-13,
    method: str = "RK45",
) -> Real:
    """Return the outputs of a model for a given input, from rest; the input is 0 before t = 0.

    Parameters
    ----------
    model : DelayModel
        Model, for example of `ecc.linear.transfer_function`.
    t : array_like, shape (T,)
        Increasing times >= 0, seconds.
    u : object
        Callable t -> number, or shape (inputs,); or samples at `t`, of shape (T,) or (T, inputs), which are
        interpolated linearly.
    breaks : array_like, optional
        Times > 0 at which a callable u or a derivative of it jumps, seconds. At a jump, u must return the value after
        it.
    rtol, atol : float, optional
        Tolerances of `solve_dde`.
    method : str, optional
        "RK45", or "Radau" for stiff models.

    Returns
    -------
    ndarray, shape (T,)
        Output; with several outputs of shape (T, outputs).

    Raises
    ------
    ValueError
        Times do not increase, u has another shape, or there are more than 4000 distinct sums of delays.
    ConvergenceError
        The solver could not continue.

    Examples
    --------
    >>> from ecc.linear import transfer_function
    >>> ramp = forced_response(transfer_function([1.0], [1.0, 1.0], 1.0), [1.0, 2.0], lambda t: t)
    >>> ramp.round(9)  # 0, then exp(-1)
    array([0.        , 0.36787944])
    """
    times = _times(t)
    end, m = float(times[-1]), model.n_inputs
    part = _Expanded(model, end)
    jumps = real_array(breaks, "breaks").ravel()
    if callable(u):
        function = u
    else:
        samples = real_array(u, "u")
        if samples.shape not in ((len(times),), (len(times), m)) or (samples.ndim == 1 and m > 1):
            raise ValueError(
                f"u must have one sample of each input for each of {len(times)} times, got {samples.shape}"
            )
        samples = samples.reshape(len(times), m)
        jumps = np.concatenate([jumps, times])

        def function(at: float) -> Real:
            return np.array([np.interp(at, times, column) for column in samples.T])

    def inputs(at: float) -> Real:
        if at < 0.0:
            return np.zeros(m)
        value = np.atleast_1d(real_array(function(at), "u"))
        if value.shape != (m,):
            raise ValueError(f"u must return {m} numbers, got shape {value.shape}")
        return value

    n = part.n
    a, b = part.to_state[:, :, :n].transpose(1, 0, 2).reshape(n, n * len(part.theta)), part.to_state[:, :, n:]
    active = [i for i in range(len(part.theta)) if b[i].any()]
    ends = np.unique(part.theta[active][:, None] + np.concatenate([[0.0], jumps]))

    def f(at: float, y: Real, lagged: Real) -> Real:
        total = a @ np.concatenate([y, lagged.ravel()])
        for i in active:
            total = total + b[i] @ inputs(float(at - part.theta[i]))
        return np.asarray(total)

    options: dict[str, Any] = {
        "rtol": rtol,
        "atol": atol,
        "method": method,
        "breaks": ends[(ends > 0.0) & (ends < end)],
    }
    sol = _solved(f, end, np.zeros(n), part.state_delays(), **options) if n else None
    out = np.zeros((len(times), model.n_outputs))
    for theta, matrix in zip(part.theta, part.to_output, strict=True):
        if sol is not None:
            out += _lagged(sol, times, float(theta), n) @ matrix[:, :n].T
        if matrix[:, n:].any():
            out += np.array([inputs(float(at)) for at in times - theta]) @ matrix[:, n:].T
    return out[:, 0] if model.n_outputs == 1 else out


@check_arguments
def initial_response(
    system: DelaySystem,
    t: ArrayLike,
    history: Any,
    *,
    rtol: float = 1e-10,
    atol: float = 1e-13,
    method: str = "RK45",
) -> Real:
    """Return the states of a system that starts from a history.

    Parameters
    ----------
    system : DelaySystem
        Retarded system, for example of `ecc.linear.quasi_polynomial`, or the `system` of a DelayModel.
    t : array_like, shape (T,)
        Increasing times >= 0, seconds.
    history : object
        States before t = 0: shape (n,), or a callable t -> shape (n,).
    rtol, atol : float, optional
        Tolerances of `solve_dde`.
    method : str, optional
        "RK45", or "Radau" for stiff systems.

    Returns
    -------
    ndarray, shape (T, n)
        States.

    Raises
    ------
    ValueError
        Times do not increase, the history has another shape, or the system is neutral.
    ConvergenceError
        The solver could not continue.

    Examples
    --------
    >>> initial_response(DelaySystem([-1.0], [1.0]), [1.0, 2.0], [1.0]).round(9)  # 1 - t, then 1 - t + (t - 1)^2/2
    array([[ 0. ],
           [-0.5]])
    """
    times = _times(t)
    if len(system.neutral):
        raise ValueError("system must be retarded, got a neutral system; see `solve_dde` with neutral=True")
    n = system.size
    if not callable(history):
        start = real_array(history, "history")
        if start.shape != (n,):
            raise ValueError(f"history must have {n} numbers, got shape {start.shape}")
    a = np.concatenate([np.zeros((1, n, n)), system.matrices[system.delays > 0.0]])
    a[0] = system.matrices[system.delays == 0.0].sum(axis=0)
    coefficients = a.transpose(1, 0, 2).reshape(n, -1)

    def f(_: float, y: Real, lagged: Real) -> Real:
        return np.asarray(coefficients @ np.concatenate([y, lagged.ravel()]))

    delays = system.delays[system.delays > 0.0].tolist()
    sol = _solved(f, float(times[-1]), history, delays, rtol=rtol, atol=atol, method=method)
    return np.asarray(sol(times)).T


@check_arguments
def linearize_dde(
    f: Callable[..., Any],
    equilibrium: ArrayLike,
    delays: Sequence[float],
    *,
    neutral: bool = False,
    args: Sequence[float] = (),
) -> DelaySystem:
    """Return the linear system of y'(t) = f(t, y(t), [y(t - delay) for each delay]) at an equilibrium.

    The function is that of `solve_dde`. Derivatives are exact, by truncated Taylor numbers in place of the states.

    Parameters
    ----------
    f : callable
        Right-hand side (t, y, ylag) -> n numbers, with ylag[k, i] the lagged y_i; if `neutral`, (t, y, ylag, dylag). It
        may use + - * /, whole powers, comparisons, min, max, abs, and exp, log, sqrt and tanh of
        `ecc.laws.elementary`. It must not depend on t; it is called with t = 0.
    equilibrium : array_like, shape (n,)
        Equilibrium y.
    delays : sequence of float
        Delays >= 0, seconds, constant.
    neutral : bool, optional
        Whether f takes the lagged derivatives.
    args : sequence of float, optional
        Numbers that f takes after its other arguments.

    Returns
    -------
    DelaySystem

    Raises
    ------
    ValueError
        The point is not an equilibrium (f differs from 0 by more than 1e-6 of its terms), or shapes differ.
    LinearizationError
        f has no unique derivative at the equilibrium, or fails there.
    TypeError
        f uses other functions.

    Examples
    --------
    >>> def mackey_glass(t, y, ylag):
    ...     return [2.0 * ylag[0, 0] / (1.0 + ylag[0, 0] ** 10) - y[0]]
    >>> linearize_dde(mackey_glass, [1.0], [2.0]).matrices.ravel()
    array([-1., -4.])
    """
    point = np.atleast_1d(real_array(equilibrium, "equilibrium"))
    if point.ndim != 1:
        raise ValueError(f"equilibrium must be a sequence of numbers, got shape {point.shape}")
    n, k = len(point), len(delays)
    on_jets, more = rebind(f, JETS), tuple(float(x) for x in args)

    def law(state: Sequence[Any], _: Any) -> Sequence[Any]:
        values = np.empty(len(state), object)
        values[:] = state
        blocks = values[n : n + k * n].reshape(k, n), values[n + k * n :].reshape(-1, n)
        return list(on_jets(0.0, values[:n], *(blocks if neutral else blocks[:1]), *more))

    law.__qualname__ = getattr(f, "__qualname__", "f")  # for messages
    at = [*np.tile(point, 1 + k).tolist(), *([0.0] * (k * n if neutral else 0))]
    known = jacobian(law, at, None, list(range(len(at))))
    if len(known.values) != n:
        raise ValueError(f"f must return {n} numbers like the equilibrium, got {len(known.values)}")
    if known.kinks:
        raise LinearizationError(
            f"{law.__qualname__} has a kink at the equilibrium: its derivative depends on the side"
        )
    slopes = np.array(known.slopes).reshape(n, -1, n).transpose(1, 0, 2)
    size = np.abs(slopes).sum(axis=0) @ np.maximum(np.abs(point), 1e-300)
    residual = np.abs(known.values)
    if np.any(residual > 1e-6 * size):
        worst = int(np.argmax(residual - 1e-6 * size))
        raise ValueError(f"equilibrium must make f zero, got f = {known.values[worst]:.6g} (component {worst})")
    later = slopes[1 + k :]
    return DelaySystem(slopes[: 1 + k], [0.0, *delays], neutral=-later, neutral_delays=list(delays) if neutral else ())
