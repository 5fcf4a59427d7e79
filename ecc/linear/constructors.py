"""Models and systems with delays from transfer functions, quasi-polynomials, kernels and descriptor systems."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce
from math import exp, inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ecc._support.arguments import check_arguments, shown
from ecc.linear.characteristic import Real, fraction
from ecc.linear.continuous import DelaySystem
from ecc.linear.delay_model import DelayModel, combined, connected, real_array, static_gain
from ecc.linear.elimination import Kernel, algebraic_system
from ecc.linear.systems import read_delays, read_matrices

__all__ = ["block", "delay", "descriptor", "distributed_delay", "quasi_polynomial", "transfer_function"]

_MAX_DEGREE = 200


def _polynomial(value: Any, label: str) -> Real:
    """Return coefficients, highest power first, without leading zeros; of the zero polynomial [0]."""
    array = np.atleast_1d(real_array(value, label))
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{label} must be real coefficients, highest power first, got {shown(value)}")
    array = np.trim_zeros(array, "f")
    if len(array) > _MAX_DEGREE + 1:
        raise ValueError(f"{label} must have degree <= {_MAX_DEGREE}, got {len(array) - 1}")
    return array if len(array) else np.zeros(1)


def _is_nested(value: Any) -> bool:
    """Return whether coefficients are given for several inputs or outputs: rows of polynomials."""
    return isinstance(value, Sequence | np.ndarray) and any(
        isinstance(row, Sequence | np.ndarray) and any(np.ndim(entry) == 1 for entry in row) for row in value
    )


@check_arguments
def transfer_function(num: Any, den: Any, delay: Any = 0.0) -> DelayModel:
    """Return the model of a transfer function num(s)/den(s) exp(-delay s), or of a matrix of such functions.

    Parameters
    ----------
    num, den : object
        Coefficients, highest power first, as in `control.tf`: a sequence of numbers, or for p outputs and m inputs
        p rows of m sequences. No numerator may have a higher degree than its denominator.
    delay : object, optional
        Dead time >= 0, seconds: a number for all entries, or shape (p, m).

    Returns
    -------
    DelayModel
        Its states are those of a companion form for each denominator of each input. Common factors are not cancelled.
        Coefficients are divided by the leading one of the denominator, and rounded once.

    Raises
    ------
    ValueError
        A denominator is 0, a transfer function is not proper, a delay is negative, or shapes differ.
    TypeError
        Coefficients or delays are not real numbers.

    Examples
    --------
    >>> plant = transfer_function([2.0], [3.0, 1.0], 0.5)
    >>> plant
    <DelayModel inputs: 1, outputs: 1, states: 1, delays: 500 ms>
    >>> plant(0.0)
    array(2.+0.j)
    """
    tops, bottoms = (value if _is_nested(value) else [[value]] for value in (num, den))
    shapes = [[len(row) for row in rows] for rows in (tops, bottoms)]
    if shapes[0] != shapes[1] or len(set(shapes[0])) != 1:
        raise ValueError(
            f"num and den must have equal rows of one length, got rows of {shapes[0]} and {shapes[1]} entries"
        )
    p, m = len(tops), len(tops[0])
    tau = real_array(delay, "delay of a transfer function")
    if tau.shape not in ((), (p, m)):
        raise ValueError(f"delay must be a number or have shape {(p, m)}, got shape {tau.shape}")
    tau = read_delays(np.broadcast_to(tau, (p, m)).ravel(), p * m, "delay of a transfer function", "s").reshape(p, m)
    blocks: dict[tuple[int, bytes], tuple[int, Real]] = {}  # input and denominator -> first state, denominator
    entries: list[tuple[int, int, int, Real, float]] = []
    n = 0
    for i in range(p):
        for j in range(m):
            top, bottom = _polynomial(tops[i][j], "num"), _polynomial(bottoms[i][j], "den")
            if not bottom.any():
                raise ValueError(f"den must not be 0, got {shown(bottoms[i][j])}")
            if len(top) > len(bottom):
                raise ValueError(
                    f"a transfer function must be proper, got degrees {len(top) - 1} over {len(bottom) - 1}"
                )
            top, bottom = np.concatenate([np.zeros(len(bottom) - len(top)), top]) / bottom[0], bottom / bottom[0]
            if not top.any():
                continue
            if (j, bottom.tobytes()) not in blocks:
                blocks[j, bottom.tobytes()] = n, bottom
                n += len(bottom) - 1
            start = blocks[j, bottom.tobytes()][0]
            entries.append((i, j, start, (top - top[0] * bottom)[:0:-1], float(top[0])))
    k = len(entries)
    a, b, c, d = np.zeros((n, n)), np.zeros((n, m + k)), np.zeros((p + k, n)), np.zeros((p + k, m + k))
    for (j, _), (start, bottom) in blocks.items():
        end = start + len(bottom) - 1
        if end > start:
            a[start : end - 1, start + 1 : end] = np.eye(end - start - 1)
            a[end - 1, start:end] = -bottom[:0:-1]
            b[end - 1, j] = 1.0
    for channel, (i, j, start, weights, direct) in enumerate(entries):
        c[p + channel, start : start + len(weights)] = weights
        d[p + channel, j] = direct
        d[i, m + channel] = 1.0
    return DelayModel(a, b, c, d, [float(tau[i, j]) for i, j, *_ in entries])


def _control_model(system: Any) -> DelayModel | None:
    """Return the model of an object of python-control, None for other objects."""
    control = sys.modules.get("control")
    if control is None or not isinstance(system, control.StateSpace | control.TransferFunction):
        return None
    if system.isdtime(strict=True):
        raise ValueError(f"system must be in continuous time, got dt = {system.dt!r}")
    if isinstance(system, control.StateSpace):
        return DelayModel(system.A, system.B, system.C, system.D)
    return transfer_function(*([list(row) for row in rows] for rows in (system.num, system.den)))


def _scipy_model(system: Any) -> DelayModel | None:
    """Return the model of a linear system of SciPy, None for other objects."""
    signal = sys.modules.get("scipy.signal")
    if signal is None or not isinstance(system, signal.lti | signal.dlti):
        return None
    if isinstance(system, signal.dlti):
        raise ValueError(f"system must be in continuous time, got dt = {system.dt!r}")
    if isinstance(system, signal.StateSpace):
        return DelayModel(system.A, system.B, system.C, system.D)
    rational = system.to_tf()
    return transfer_function(rational.num, rational.den)


@check_arguments
def delay(system: Any, tau: Any) -> DelayModel:
    """Return a model with dead times at its inputs, from an object of python-control or SciPy, a matrix, or a model.

    Parameters
    ----------
    system : object
        control.TransferFunction or control.StateSpace; scipy.signal.lti; a number or matrix of gains; or a DelayModel.
    tau : object
        Dead time >= 0, seconds: a number for all inputs, or one for each input.

    Returns
    -------
    DelayModel
        With the states and coefficients of the object. `delay(system, 0.0)` converts an object without dead time.

    Raises
    ------
    ValueError
        The system is in discrete time, or a delay is negative.
    TypeError
        The system is of another kind.

    Examples
    --------
    >>> import control
    >>> plant = delay(control.tf([1], [1, 1]), 2.0)
    >>> plant.feedback(0.5).poles(1)
    array([-0.43048904+1.03659208j])
    """
    if isinstance(system, DelayModel):
        model = system
    elif isinstance(system, int | float | np.ndarray | np.number) and np.ndim(system) in (0, 2):
        gains = np.atleast_2d(np.asarray(system))
        if gains.dtype.kind not in "iuf" or not gains.size or not np.isfinite(gains).all():
            raise ValueError(f"a matrix of gains must be finite real numbers, got {shown(system)}")
        model = static_gain(gains)
    else:
        converted = _control_model(system) or _scipy_model(system)
        if converted is None:
            kinds = "a DelayModel, a matrix of gains, or a TransferFunction or StateSpace of python-control or SciPy"
            raise TypeError(f"system must be {kinds}, got {shown(system)}")
        model = converted
    m = model.n_inputs
    delays = real_array(tau, "tau")
    if delays.shape not in ((), (m,)):
        raise ValueError(f"tau must be a number or one for each of {m} inputs, got shape {delays.shape}")
    delays = read_delays(np.broadcast_to(delays, (m,)), m, "tau", "s")
    zero, unit = np.zeros((m, m)), np.eye(m)
    return model * DelayModel([], [], [], np.block([[zero, unit], [unit, zero]]), delays.tolist())


@check_arguments
def distributed_delay(length: float | None, kernel: ArrayLike = (1.0,), rate: float = 0.0) -> DelayModel:
    """Return the model y(t) = int_0^length k(theta) u(t - theta) d theta, with k = exp(-rate theta) p(theta).

    Its transfer function has no pole if the length is finite: the roots at -rate of its equations are left out of
    poles, counts and verdicts.

    Parameters
    ----------
    length : float or None
        Length > 0 of the interval, seconds; None: infinite, as of a gamma kernel, which needs rate > 0.
    kernel : array_like, optional
        Coefficients of the polynomial p by increasing power of theta, for example [0.0, 1.0] for p(theta) = theta.
    rate : float, optional
        Rate of the exponential factor, 1/s; negative if the kernel grows.

    Returns
    -------
    DelayModel
        Model with one state for each coefficient.

    Raises
    ------
    ValueError
        The length is not positive, the kernel empty or 0, or an infinite kernel has rate <= 0.

    Notes
    -----
    A moving average over h seconds has the kernel [1/h]. The gamma kernel of shape n and rate b has length None and
    only the coefficient of theta^(n-1), which is b^n/(n-1)!. If rate < 0, the states of the model grow although its
    output does not; time responses then lose accuracy as exp(-rate t).

    Examples
    --------
    >>> average = distributed_delay(2.0, [0.5])
    >>> bool(abs(average(0.0) - 1.0) < 1e-15), bool(abs(average(1j * np.pi)) < 1e-15)
    (True, True)
    >>> (transfer_function([1.0], [1.0, 0.0]) * average).feedback(2.0).poles(1)
    array([-0.0809175+1.46898834j])
    """
    if length is not None and not length > 0.0:
        raise ValueError(f"length must be > 0 s, got {shown(length)}")
    if length is None and rate <= 0.0:
        raise ValueError(f"rate must be > 0 1/s for an infinite kernel, got {shown(rate)}")
    coefficients = np.atleast_1d(real_array(kernel, "kernel"))
    coefficients = np.trim_zeros(coefficients, "b") if coefficients.ndim == 1 else np.zeros(0)
    if not 0 < len(coefficients) <= 20:
        raise ValueError(f"kernel must have 1 to 20 coefficients that are not all 0, got {shown(kernel)}")
    n = len(coefficients)
    # z_i with the kernel exp(-rate theta) theta^i: z_i' = -rate z_i + i z_(i-1) + (u if i = 0) - what leaves
    a = -rate * np.eye(n) + np.diag(np.arange(1.0, n), -1)
    enters = np.eye(n)[:, :1]
    if length is None:
        return DelayModel(a, enters, coefficients[None], [[0.0]])
    try:
        leaves = np.array([[exp(-rate * length) * length**i] for i in range(n)])
    except OverflowError:
        leaves = np.full((n, 1), inf)
    if not np.isfinite(leaves).all():
        raise ValueError(f"the kernel must be finite up to its length, got rate {rate:g}/s and length {length:g} s")
    b = np.hstack([enters, -leaves])
    c = np.vstack([coefficients, np.zeros(n)])
    model = DelayModel(a, b, c, [[0.0, 0.0], [1.0, 0.0]], [length], [0.0 - rate] * n)
    return model._with_kernels([Kernel(0, n, rate, length)])


@check_arguments
def quasi_polynomial(coefficients: Mapping[Any, Any]) -> DelaySystem:
    """Return the system whose characteristic function is sum_k p_k(s) exp(-s tau_k).

    Parameters
    ----------
    coefficients : mapping
        Delay tau_k [s] -> coefficients of p_k, highest power first, as in `numpy.polyval`. No p_k may have a higher
        degree than that of delay 0; an equal degree makes the system neutral.

    Returns
    -------
    DelaySystem
        Companion form of the degree of p_0, coefficients exact; of degree 0, the equation without derivatives.

    Raises
    ------
    ValueError
        No polynomial of delay 0, or its degree is lower than that of another; a delay is negative.
    TypeError
        Delays or coefficients are not real numbers.

    Examples
    --------
    >>> quasi_polynomial({0.0: [1.0, 0.0], 1.0: [1.0]}).roots(1)
    array([-0.31813151+1.3372357j])
    """
    delays = read_delays(list(coefficients), len(coefficients), "delays of a quasi-polynomial", "s")
    known = {
        float(tau): _polynomial(value, "coefficients") for tau, value in zip(delays, coefficients.values(), strict=True)
    }
    lead = known.get(0.0, np.zeros(1))
    degree = max((len(p) - 1 for p in known.values()), default=0)
    if not lead.any() or len(lead) - 1 < degree:
        raise ValueError(
            f"the polynomial of delay 0 must have the highest degree, got degree {degree} at another delay"
        )
    if degree == 0:
        terms = {Fraction(tau): -p[None] for tau, p in known.items()}
        return algebraic_system(1, 0, terms, (), max(known))
    matrices, at, neutral, neutral_at = [np.eye(degree, k=1)], [0.0], list[Real](), list[float]()
    for tau, p in known.items():
        padded = np.concatenate([np.zeros(degree + 1 - len(p)), p])
        rows, slope = np.zeros((degree, degree)), np.zeros((degree, degree))
        rows[-1] = -padded[:0:-1]
        matrices.append(rows)
        at.append(tau)
        slope[-1, -1] = padded[0]
        if padded[0] and (tau > 0.0 or padded[0] != 1.0):
            neutral.append(slope)
            neutral_at.append(tau)
    if lead[0] != 1.0:
        neutral.append(-np.diag(np.eye(degree)[-1]))
        neutral_at.append(0.0)
    return DelaySystem(matrices, at, neutral=neutral, neutral_delays=neutral_at)


@check_arguments
def descriptor(lead: ArrayLike, matrices: Sequence[ArrayLike], delays: Sequence[float]) -> DelaySystem:
    """Return the system lead x'(t) = sum_k A_k x(t - tau_k), in which rows of `lead` may be dependent or 0.

    Rows of 0 are algebraic equations, for example of feedback through delays without a state. They become differential
    equations with additional roots, which the system leaves out of its roots, counts and verdicts.

    Parameters
    ----------
    lead : array_like, shape (n, n)
        Matrix at x', for example a mass matrix; regular or singular.
    matrices : sequence of array_like
        Matrices A_k of shape (n, n), 1/s.
    delays : sequence of float
        Delays tau_k >= 0, seconds.

    Returns
    -------
    DelaySystem
        Neutral if algebraic equations contain delays. Coefficients are exact unless rows of `lead` are dependent
        without being 0; then the rows are combined in rational numbers and rounded once.

    Raises
    ------
    ValueError
        Shapes differ, a delay is negative, or the equations without delay do not determine x' and the other unknowns
        (index above 1).

    Examples
    --------
    >>> now, later = [[0, 1], [0, -1]], [[0, 0], [-1, 0]]  # x' = z, 0 = -z - x(t - 1)
    >>> descriptor([[1, 0], [0, 0]], [now, later], [0.0, 1.0]).roots(1)
    array([-0.31813151+1.3372357j])
    """
    a = read_matrices(matrices, "matrices of a descriptor system")
    if not len(a):
        raise ValueError("matrices of a descriptor system must contain at least one matrix, got none")
    tau = read_delays(delays, len(a), "delays of a descriptor system", "s")
    e = read_matrices([lead], "lead of a descriptor system", a.shape[1])[0]
    rows, e, a = _independent(e, a)
    n, size = len(rows), a.shape[1]
    terms: dict[Fraction, Real] = {}
    for matrix, at in zip(a, tau.tolist(), strict=True):
        terms[Fraction(at)] = terms[Fraction(at)] + matrix if Fraction(at) in terms else matrix
    instant = np.vstack([e[:n], terms.get(Fraction(0), np.zeros((size, size)))[n:]])
    if np.linalg.cond(instant) > 1e14:
        missing = "its equations without delay do not determine x' and the other unknowns"
        raise ValueError(f"a descriptor system must have index <= 1: {missing}")
    return algebraic_system(size, n, terms, (), float(tau.max()), lead=e[:n])


def _independent(e: Real, a: Real) -> tuple[list[int], Real, Real]:
    """Return independent rows of e, and e and a with these rows first, followed by the algebraic equations."""
    from flint import fmpq, fmpq_mat

    size = len(e)
    zero = [i for i in range(size) if not e[i].any()]
    nonzero = [i for i in range(size) if i not in zero]
    exact = fmpq_mat(size, size, [fmpq(*float(x).as_integer_ratio()) for x in e.T.ravel()])
    reduced, rank = exact.rref()  # pivots are independent rows; other columns combine them
    pivots, combinations = list[int](), list[Real]()
    for column in range(size):
        if len(pivots) < rank and all(reduced[i, column] == (i == len(pivots)) for i in range(size)):
            pivots.append(column)
    for row in nonzero:
        if row in pivots:
            continue
        weights = np.zeros(size)
        weights[row] = 1.0
        for i, pivot in enumerate(pivots):
            weights[pivot] = -float(fraction(reduced[i, row]))
        combinations.append(weights)
    order = [*pivots, *zero]
    algebraic = np.array(combinations).reshape(-1, size)
    return (
        pivots,
        np.vstack([e[order], np.zeros((len(combinations), size))]),
        np.concatenate([a[:, order], algebraic @ a], axis=1),
    )


@check_arguments
def block(rows: Sequence[Sequence[Any]]) -> DelayModel:
    """Return the model of a matrix of models: outputs of a row are added, columns have their own inputs.

    Parameters
    ----------
    rows : sequence of sequence
        Rows of equal length of models, numbers, or objects that `delay` takes.

    Returns
    -------
    DelayModel
        Model with the inputs of all columns and the outputs of all rows.

    Raises
    ------
    ValueError
        No rows, rows of different lengths, or inputs and outputs that do not fit.
    TypeError
        An entry is of another kind.

    Examples
    --------
    >>> lag = transfer_function([1.0], [1.0, 1.0], 0.5)
    >>> block([[lag, 0.0], [2.0, lag]])
    <DelayModel inputs: 2, outputs: 2, states: 2, delays: 500 ms>
    """
    if not len(rows) or not len(rows[0]) or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError(f"rows must have one length >= 1, got lengths {[len(row) for row in rows]}")
    models = [[delay(entry, 0.0) for entry in row] for row in rows]
    into, out = [model.n_inputs for model in models[0]], [row[0].n_outputs for row in models]
    parts, entries, exits = list[DelayModel](), list[Real](), list[Real]()
    for i, row in enumerate(models):
        for j, model in enumerate(row):
            if (model.n_outputs, model.n_inputs) != (out[i], into[j]):
                raise ValueError(f"entry ({i}, {j}) must have {into[j]} inputs and {out[i]} outputs, got {model!r}")
            parts.append(model)
            entries.append(np.eye(sum(into))[sum(into[:j]) : sum(into[: j + 1])])
            exits.append(np.eye(sum(out))[:, sum(out[:i]) : sum(out[: i + 1])])
    return connected(reduce(combined, parts), None, np.vstack(entries), np.hstack(exits))
