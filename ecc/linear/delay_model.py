"""Linear models with inputs, outputs and exact delays, and their algebra.

A model is a state space whose last inputs are delayed copies of its last outputs (the channels):

    x'(t) = A x + B1 u + B2 w,   y = C1 x + D11 u + D12 w,   z = C2 x + D21 u + D22 w,   w_i(t) = z_i(t - tau_i).

Sums, products and feedback of such models are such models: every delay stays a number. The poles are those of a
`DelaySystem`, obtained by elimination of the channels (`ecc.linear.elimination`).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import html_table, quantity_text
from ecc.linear.characteristic import Complex, Real
from ecc.linear.continuous import DelaySystem
from ecc.linear.elimination import Channels, Kernel, closed_and_opened, is_singular, poles_of
from ecc.linear.systems import read_delays

__all__ = ["DelayModel", "combined", "connected", "real_array", "static_gain"]

_POINTS = 96  # on a circle about a removable singularity
_RADII = (0.5, 0.05, 0.005)  # radii of the circles in 1/(sum of the delays)
_MAX_SIZE = 4000  # states, inputs and channels together


def real_array(value: Any, label: str) -> Real:
    """Return finite real numbers as an array of any shape; errors have one line.

    Parameters
    ----------
    value : object
        Number, or nested sequences of numbers.
    label : str
        Name of the argument, for messages.
    """
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{label} must be an array, got rows of different lengths") from None
    if array.size and array.dtype.kind not in "biuf":
        raise TypeError(f"{label} must be real numbers, got {shown(value)}")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{label} must be finite, got {array[~np.isfinite(array)][0]}")
    return array


def _matrix(value: Any, label: str, rows: int | None, columns: int | None) -> Real:
    """Return a finite real matrix of a given shape; an empty one may have any shape without entries."""
    array = real_array(value, label)
    if array.size == 0 and array.ndim <= 2:
        array = np.zeros((rows or 0, columns or 0)) if rows == 0 or columns == 0 or rows is None else array
    if array.ndim < 2 and array.size == 1:
        array = array.reshape(1, 1)
    if array.ndim != 2 or (rows not in (None, array.shape[0])) or (columns not in (None, array.shape[1])):
        shape = f"({'any' if rows is None else rows}, {'any' if columns is None else columns})"
        raise ValueError(f"{label} must have shape {shape}, got {array.shape}")
    return array


@check_arguments
@dataclass(frozen=True, eq=False, repr=False, init=False)
class DelayModel:
    """A linear model with inputs u, outputs y and k exact delays.

    x' = A x + B (u, w), (y, z) = C x + D (u, w), w_i(t) = z_i(t - delays[i]): the last k columns of B and D belong to
    w, the last k rows of C and D to z. `ecc.linear.transfer_function` and `ecc.linear.delay` construct models from
    transfer functions and from objects of python-control or SciPy.

    Models are added, multiplied (`second * first`) and closed by `feedback` and `lft`. Delays of 0 are eliminated,
    unused channels removed, equal ones merged, and chains of channels added up if the sum is exact in binary numbers.

    Parameters
    ----------
    a : array_like, shape (n, n)
        State matrix, 1/s; empty if the model has no states.
    b : array_like, shape (n, m + k)
        Input matrix.
    c : array_like, shape (p + k, n)
        Output matrix.
    d : array_like, shape (p + k, m + k)
        Direct gains.
    delays : sequence of float
        Delays >= 0 of the channels, seconds; empty for a model without delays.
    removable : sequence of float
        Eigenvalues of A, 1/s, at which no pole is left because the delayed inputs cancel it, as in
        `distributed_delay`. Each is repeated by its multiplicity.

    Raises
    ------
    ValueError
        Shapes do not fit, an entry is not finite, a delay is negative, or a loop without delay has gain 1.
    TypeError
        An entry is not real.

    Examples
    --------
    >>> lag = DelayModel([[-1.0]], [[1.0]], [[1.0]], [[0.0]])
    >>> dead_time = DelayModel([], [], [], [[0.0, 1.0], [1.0, 0.0]], [0.5])
    >>> (lag * dead_time).feedback(2.0).system.roots(1)
    array([-1.42460361+1.60985196j])
    """

    a: Real
    b: Real
    c: Real
    d: Real
    delays: Real
    removable: tuple[float, ...]
    _kernels: ClassVar[tuple[Kernel, ...]] = ()

    def __init__(
        self,
        a: ArrayLike,
        b: ArrayLike,
        c: ArrayLike,
        d: ArrayLike,
        delays: Sequence[float] = (),
        removable: Sequence[float] = (),
    ) -> None:
        direct = _matrix(d, "d of a DelayModel", None, None)
        state = _matrix(a, "a of a DelayModel", None, None)
        if state.shape[0] != state.shape[1]:
            raise ValueError(f"a of a DelayModel must be square, got shape {state.shape}")
        if len(state) + direct.shape[1] > _MAX_SIZE:
            raise ValueError(
                f"a DelayModel must have <= {_MAX_SIZE} states and inputs, got {state.shape}, {direct.shape}"
            )
        entry = _matrix(b, "b of a DelayModel", len(state), direct.shape[1])
        exit_ = _matrix(c, "c of a DelayModel", direct.shape[0], len(state))
        count = len(delays) if isinstance(delays, Sequence | np.ndarray) else 0
        tau = read_delays(delays, count, "delays of a DelayModel", "s")
        if count >= min(direct.shape):
            raise ValueError(f"d of a DelayModel must be larger than {count} x {count} delays, got {direct.shape}")
        roots = tuple(sorted(real_array(removable, "removable of a DelayModel").ravel().tolist()))
        self._fill(*_reduced(state, entry, exit_, direct, tau), roots)

    def _fill(self, a: Real, b: Real, c: Real, d: Real, tau: Real, removable: tuple[float, ...]) -> None:
        for name, value in zip(("a", "b", "c", "d", "delays"), (a, b, c, d, tau), strict=True):
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        object.__setattr__(self, "removable", removable)

    def _with_kernels(self, kernels: Sequence[Kernel]) -> DelayModel:
        """Return the same model with the states of its distributed delays, from which exact factors are computed."""
        other = copy(self)
        object.__setattr__(other, "_kernels", tuple(kernels))
        return other

    @property
    def channels(self) -> Channels:
        """The matrices and delays of the model as a tuple."""
        return Channels(self.a, self.b, self.c, self.d, self.delays, self.removable, self._kernels)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.a)

    @property
    def n_inputs(self) -> int:
        """Number of inputs."""
        return int(self.d.shape[1]) - len(self.delays)

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return int(self.d.shape[0]) - len(self.delays)

    @property
    def is_siso(self) -> bool:
        """True if the model has one input and one output."""
        return self.n_inputs == self.n_outputs == 1

    # ---- responses ----------------------------------------------------------------------------------------

    def __call__(self, s: ArrayLike) -> Complex:
        """Return the transfer function at complex points, delays exact.

        Parameters
        ----------
        s : array_like
            Complex points of any shape, rad/s.

        Returns
        -------
        ndarray
            Complex, of the shape of s; with several inputs or outputs, with two more axes (output, input). Infinite or
            not a number at poles.
        """
        points = np.asarray(s, np.complex128)
        flat = points.ravel()
        value = self._response(flat)
        scale = float(self.delays.sum())
        for root in set(self.removable) if scale > 0.0 else ():
            for i in np.flatnonzero(np.abs(flat - root) < 0.5 * _RADII[0] / scale):
                value[i] = self._near_removable(complex(flat[i]), scale)
        if self.is_siso:
            return np.asarray(value.reshape(points.shape))
        return np.asarray(value.reshape(*points.shape, self.n_outputs, self.n_inputs))

    def _matrices(self, s: Complex) -> tuple[Complex, Complex]:
        """Return the matrix of the equations for (x, w), and their right-hand side, at points s."""
        n, m, k = self.n_states, self.n_inputs, len(self.delays)
        shift = np.exp(-s[:, None] * self.delays)[:, :, None]
        p = self.n_outputs
        equations = np.zeros((len(s), n + k, n + k), complex)
        equations[:, :n, :n] = s[:, None, None] * np.eye(n) - self.a
        equations[:, :n, n:] = -self.b[:, m:]
        equations[:, n:, :n] = -shift * self.c[p:]
        equations[:, n:, n:] = np.eye(k) - shift * self.d[p:, m:]
        right = np.zeros((len(s), n + k, m), complex)
        right[:, :n] = self.b[:, :m]
        right[:, n:] = shift * self.d[p:, :m]
        return equations, right

    def _response(self, s: Complex) -> Complex:
        p, m = self.n_outputs, self.n_inputs
        with np.errstate(all="ignore"):
            equations, right = self._matrices(s)
            try:
                inside = np.linalg.solve(equations, right)
            except np.linalg.LinAlgError:
                inside = np.stack([_solution(matrix, vector) for matrix, vector in zip(equations, right, strict=True)])
            return np.asarray(np.concatenate([self.c[:p], self.d[:p, m:]], axis=1) @ inside + self.d[:p, :m])

    def _near_removable(self, s: complex, scale: float) -> Complex:
        """Return the response at a point near a removable singularity, as the mean over a circle without a pole."""
        turn = np.exp(2j * np.pi * (np.arange(_POINTS) + 0.5) / _POINTS)
        for radius in (r / scale for r in _RADII):
            circles = [s + factor * radius * turn for factor in (1.0, 1.5)]
            inside = [sum(abs(s - root) < factor * radius for root in self.removable) for factor in (1.0, 1.5)]
            if [self._zeros_inside(circle) for circle in circles] == inside:
                return np.asarray(self._response(circles[0]).mean(axis=0))
        return np.asarray(self._response(np.array([s]))[0])

    def _zeros_inside(self, circle: Complex) -> int:
        values = np.linalg.det(self._matrices(circle)[0])
        with np.errstate(all="ignore"):
            turns = np.angle(np.roll(values, -1) / values).sum() / (2.0 * np.pi)
        return round(float(turns)) if np.isfinite(turns) else -1

    # ---- algebra ------------------------------------------------------------------------------------------

    def _of(self, other: Any, square: bool = False) -> DelayModel | None:
        """Return another operand as a model: a number for one input and output, or for `square`, of each input."""
        if isinstance(other, DelayModel):
            return other
        if isinstance(other, bool | np.bool_) or not isinstance(other, int | float | np.integer | np.floating):
            return None
        if not np.isfinite(other):
            raise ValueError(f"a gain must be finite, got {shown(other)}")
        size = self.n_inputs if square else 1
        return static_gain(float(other) * np.eye(size))

    def __add__(self, other: DelayModel | float) -> DelayModel:
        """Return the parallel connection: the sum of both outputs, for the same input."""
        term = self._of(other)
        if term is None:
            return NotImplemented
        if (term.n_outputs, term.n_inputs) != (self.n_outputs, self.n_inputs):
            raise ValueError(f"models must have equal inputs and outputs to be added, got {_sizes(self, term)}")
        unit_in, unit_out = np.eye(self.n_inputs), np.eye(self.n_outputs)
        return connected(combined(self, term), None, np.vstack([unit_in, unit_in]), np.hstack([unit_out, unit_out]))

    def __radd__(self, other: float) -> DelayModel:
        return self.__add__(other)

    def __neg__(self) -> DelayModel:
        return connected(self, None, np.eye(self.n_inputs), -np.eye(self.n_outputs))

    def __sub__(self, other: DelayModel | float) -> DelayModel:
        term = self._of(other)
        return NotImplemented if term is None else self + (-term)

    def __rsub__(self, other: float) -> DelayModel:
        return (-self).__add__(other)

    def __mul__(self, other: DelayModel | float) -> DelayModel:
        """Return the series connection of two models, the right one first; a number is a gain."""
        if isinstance(other, DelayModel):
            if other.n_outputs != self.n_inputs:
                raise ValueError(
                    f"the first model must have as many outputs as the second inputs, got {_sizes(self, other)}"
                )
            back = np.zeros((self.n_inputs + other.n_inputs, self.n_outputs + other.n_outputs))
            back[: self.n_inputs, self.n_outputs :] = np.eye(self.n_inputs)
            entry = np.vstack([np.zeros((self.n_inputs, other.n_inputs)), np.eye(other.n_inputs)])
            exit_ = np.hstack([np.eye(self.n_outputs), np.zeros((self.n_outputs, other.n_outputs))])
            return connected(combined(self, other), back, entry, exit_)
        gain = self._of(other)
        if gain is None:
            return NotImplemented
        return connected(self, None, np.eye(self.n_inputs), float(gain.d[0, 0]) * np.eye(self.n_outputs))

    def __rmul__(self, other: float) -> DelayModel:
        return self.__mul__(other)

    def __truediv__(self, other: float) -> DelayModel:
        gain = self._of(other)
        if gain is None or isinstance(other, DelayModel):
            return NotImplemented
        if other == 0.0:
            raise ValueError("a model must not be divided by 0")
        return connected(self, None, np.eye(self.n_inputs), np.eye(self.n_outputs) / float(other))

    def __getitem__(self, key: tuple[int | slice, int | slice]) -> DelayModel:
        """Return the model of some outputs and inputs: `model[outputs, inputs]`."""
        if not isinstance(key, tuple) or len(key) != 2:
            raise TypeError(f"a DelayModel takes two indices, of outputs and inputs, got {shown(key)}")
        out, into = (np.arange(n)[part] for n, part in zip((self.n_outputs, self.n_inputs), key, strict=True))
        out, into = np.atleast_1d(out), np.atleast_1d(into)
        return connected(self, None, np.eye(self.n_inputs)[:, into], np.eye(self.n_outputs)[out])

    def feedback(self, other: DelayModel | float = 1.0, sign: int = -1) -> DelayModel:
        """Return the closed loop y = self (u + sign other y).

        Parameters
        ----------
        other : DelayModel or float, optional
            Model in the feedback path; a number is the same gain for each output.
        sign : int, optional
            -1 for negative feedback, 1 for positive feedback.

        Raises
        ------
        ValueError
            Inputs and outputs do not fit, or the loop without delays has gain 1 (it determines no output).
        """
        if sign not in (-1, 1):
            raise ValueError(f"sign must be -1 or 1, got {shown(sign)}")
        back_model = self._of(other, square=True)
        if back_model is None:  # refused by check_arguments before
            raise TypeError(f"other must be a DelayModel or a number, got {shown(other)}")
        p, m = self.n_outputs, self.n_inputs
        if (back_model.n_outputs, back_model.n_inputs) != (m, p):
            raise ValueError(f"a model in feedback must have {p} inputs and {m} outputs, got {_sizes(back_model)}")
        back = np.zeros((m + p, p + m))
        back[:m, p:] = sign * np.eye(m)
        back[m:, :p] = np.eye(p)
        entry = np.vstack([np.eye(m), np.zeros((p, m))])
        return connected(combined(self, back_model), back, entry, np.hstack([np.eye(p), np.zeros((p, m))]))

    def lft(self, other: DelayModel) -> DelayModel:
        """Return the lower linear fractional transformation: the last outputs and inputs closed through another model.

        Parameters
        ----------
        other : DelayModel
            Model from the last outputs of this model to its last inputs.

        Raises
        ------
        ValueError
            The other model has more inputs than this model has outputs, or more outputs than it has inputs.
        """
        p, m = self.n_outputs - other.n_inputs, self.n_inputs - other.n_outputs
        if p < 0 or m < 0 or (p, m) == (0, 0):
            raise ValueError(f"other must leave inputs and outputs of the model open, got {_sizes(self, other)}")
        if p == 0 or m == 0:
            raise ValueError(f"other must leave an input and an output of the model open, got {_sizes(self, other)}")
        back = np.zeros((self.n_inputs + other.n_inputs, self.n_outputs + other.n_outputs))
        back[m : self.n_inputs, self.n_outputs :] = np.eye(other.n_outputs)
        back[self.n_inputs :, p : self.n_outputs] = np.eye(other.n_inputs)
        entry, exit_ = np.eye(len(back), m), np.eye(p, back.shape[1])
        return connected(combined(self, other), back, entry, exit_)

    # ---- systems ------------------------------------------------------------------------------------------

    @cached_property
    def system(self) -> DelaySystem:
        """The system without inputs, whose roots are the poles of the model.

        Raises ValueError if the model has neither a state nor a feedback through delays, and therefore no poles.
        """
        return poles_of(self.channels)

    def loop(self) -> DelaySystem:
        """Return the closed loop of unit negative feedback, with the loop gain L = this model for margins and figures.

        Returns
        -------
        DelaySystem
            Its characteristic equation is det(I + L) = 0; for one input, `open_loop` is L.

        Raises
        ------
        ValueError
            The numbers of inputs and outputs differ, the loop determines no output, or it has no states.

        Notes
        -----
        If |L| does not fall to 0 at high frequencies, the loop is neutral. Its roots and verdicts are available, but
        not its `margins` and its default Nyquist curve, which need a frequency beyond which |L| is small.

        Examples
        --------
        >>> from ecc.linear import transfer_function
        >>> transfer_function([1.0], [1.0, 0.0], 1.0).loop().margins().gain_margin
        1.5707963267948966
        """
        if self.n_inputs != self.n_outputs:
            raise ValueError(f"a loop must have as many outputs as inputs, got {_sizes(self)}")
        return closed_and_opened(self.channels)

    def poles(self, k: int) -> Complex:
        """Return the k rightmost poles, as `DelaySystem.roots` of `system`.

        Parameters
        ----------
        k : int, >= 1
            Number of poles.
        """
        return self.system.roots(k)

    @property
    def is_stable(self) -> bool:
        """True if all poles lie in Re s < 0, by proof, as `DelaySystem.is_stable` of `system`."""
        return self.system.is_stable

    def to_control(self, omega: ArrayLike | None = None) -> Any:
        """Return the object of python-control, without any approximation of delays.

        Parameters
        ----------
        omega : array_like, shape (m,), optional
            Frequencies > 0 of the samples, rad/s, increasing; by default 600 from 1e-3 to 1e3 in 1/(sum of the delays).

        Returns
        -------
        object
            StateSpace if the model has no delays, otherwise FrequencyResponseData: exact samples of the response.

        Raises
        ------
        ValueError
            A frequency is not positive, or they do not increase.
        ImportError
            python-control is not installed.
        """
        import control

        if not len(self.delays):
            return control.ss(self.a, self.b, self.c, self.d)
        unit = 1.0 / float(self.delays.sum())
        w = np.geomspace(1e-3 * unit, 1e3 * unit, 600) if omega is None else real_array(omega, "omega")
        if w.ndim != 1 or not len(w) or w[0] <= 0.0 or np.any(np.diff(w) <= 0.0):
            raise ValueError(f"omega must be increasing frequencies > 0 rad/s, got {shown(omega)}")
        response = self(1j * w).reshape(len(w), self.n_outputs, self.n_inputs)
        return control.frd(np.moveaxis(response, 0, -1), w)

    def _describe(self) -> list[tuple[str, str]]:
        delays = ", ".join(quantity_text(float(tau), "s") for tau in np.unique(self.delays)[:4]) or "none"
        more = "" if len(np.unique(self.delays)) <= 4 else ", ..."
        sizes = [("inputs", self.n_inputs), ("outputs", self.n_outputs), ("states", self.n_states)]
        return [*((name, str(size)) for name, size in sizes), ("delays", delays + more)]

    def __repr__(self) -> str:
        return f"<DelayModel {', '.join(f'{name}: {value}' for name, value in self._describe())}>"

    def _repr_html_(self) -> str:
        return html_table("DelayModel", self._describe(), ())


def _sizes(*models: DelayModel) -> str:
    return " and ".join(f"{model.n_inputs} -> {model.n_outputs}" for model in models)


def _solution(equations: Complex, right: Complex) -> Complex:
    try:
        return np.asarray(np.linalg.solve(equations, right))
    except np.linalg.LinAlgError:
        return np.full_like(right, np.inf)


def static_gain(matrix: ArrayLike) -> DelayModel:
    """Return the model of a matrix of gains.

    Parameters
    ----------
    matrix : array_like, shape (p, m)
        Gains from inputs to outputs.
    """
    gains = np.atleast_2d(np.asarray(matrix, np.float64))
    return DelayModel([], [], [], gains)


def _made(
    a: Real, b: Real, c: Real, d: Real, tau: Real, removable: tuple[float, ...], kernels: Sequence[Kernel]
) -> DelayModel:
    model = object.__new__(DelayModel)
    model._fill(*_reduced(a, b, c, d, tau), tuple(sorted(removable)))
    return model._with_kernels(kernels)


def _diagonal(*blocks: Real) -> Real:
    out = np.zeros((sum(len(block) for block in blocks), sum(block.shape[1] for block in blocks)))
    row = column = 0
    for block in blocks:
        out[row : row + len(block), column : column + block.shape[1]] = block
        row, column = row + len(block), column + block.shape[1]
    return out


def combined(first: DelayModel, second: DelayModel) -> DelayModel:
    """Return both models as one, with the inputs and outputs of the first before those of the second.

    Parameters
    ----------
    first, second : DelayModel
        Models, which do not affect each other.
    """
    parts = (first, second)
    m, k = [part.n_inputs for part in parts], [len(part.delays) for part in parts]
    p = [part.n_outputs for part in parts]

    def order(sizes: list[int]) -> NDArray[np.int64]:
        """Return the order with the channels of both models last."""
        start = sizes[0] + k[0]
        ports = [*range(sizes[0]), *range(start, start + sizes[1])]
        return np.array([*ports, *range(sizes[0], start), *range(start + sizes[1], start + sizes[1] + k[1])], np.int64)

    rows, columns = order(p), order(m)
    d = _diagonal(first.d, second.d)[rows][:, columns]
    model = object.__new__(DelayModel)
    model._fill(
        _diagonal(first.a, second.a),
        _diagonal(first.b, second.b)[:, columns],
        _diagonal(first.c, second.c)[rows],
        d,
        np.concatenate([first.delays, second.delays]),
        tuple(sorted(first.removable + second.removable)),
    )
    later = [kernel._replace(state=kernel.state + first.n_states) for kernel in second._kernels]
    return model._with_kernels([*first._kernels, *later])


def connected(model: DelayModel, back: Real | None, entry: Real, exit_: Real) -> DelayModel:
    """Return the model with u = back y + entry v, and outputs exit y.

    Parameters
    ----------
    model : DelayModel
        Model with inputs u and outputs y.
    back : ndarray, shape (m, p), or None
        Gains from outputs to inputs; None: no feedback.
    entry : ndarray, shape (m, q)
        Gains from the new inputs v.
    exit_ : ndarray, shape (l, p)
        Gains to the new outputs.

    Raises
    ------
    ValueError
        The feedback without delays has gain 1.
    """
    m, p = model.n_inputs, model.n_outputs
    b1, b2, c1, c2 = model.b[:, :m], model.b[:, m:], model.c[:p], model.c[p:]
    (d11, d12), (d21, d22) = ((rows[:, :m], rows[:, m:]) for rows in (model.d[:p], model.d[p:]))
    back = np.zeros((m, p)) if back is None else back
    through: list[Real] = [back @ c1, back @ d12, entry]
    if np.any(back @ d11):
        gain = np.eye(m) - back @ d11
        if is_singular(gain):
            raise ValueError("the feedback without delays must not have gain 1, which determines no output")
        through = [np.asarray(np.linalg.solve(gain, part)) for part in through]
    through_x, through_w, through_v = through
    y_x, y_w, y_v = c1 + d11 @ through_x, d12 + d11 @ through_w, d11 @ through_v
    return _made(
        model.a + b1 @ through_x,
        np.hstack([b1 @ through_v, b2 + b1 @ through_w]),
        np.vstack([exit_ @ y_x, c2 + d21 @ through_x]),
        np.block([[exit_ @ y_v, exit_ @ y_w], [d21 @ through_v, d22 + d21 @ through_w]]),
        model.delays,
        model.removable,
        model._kernels,
    )


# ---- minimal channels -------------------------------------------------------------------------------------


def _reduced(a: Real, b: Real, c: Real, d: Real, tau: Real) -> tuple[Real, Real, Real, Real, Real]:
    """Return an equal model without channels of delay 0, unused, equal, or in a chain with an exact sum of delays."""
    instant = tau == 0.0
    if instant.any():
        a, b, c, d, tau = _without_instant(a, b, c, d, tau)
    while len(tau):
        step = _merged(b, c, d, tau)
        if step is None:
            break
        b, c, d, tau = step
    return a.copy(), b.copy(), c.copy(), d.copy(), tau.copy()


def _without_instant(a: Real, b: Real, c: Real, d: Real, tau: Real) -> tuple[Real, Real, Real, Real, Real]:
    """Return the model with channels of delay 0 closed: w = z."""
    k, p, m = len(tau), len(c) - len(tau), b.shape[1] - len(tau)
    rows, columns = p + np.flatnonzero(tau == 0.0), m + np.flatnonzero(tau == 0.0)
    keep_rows = np.concatenate([np.arange(p), p + np.flatnonzero(tau > 0.0)])
    keep_columns = np.concatenate([np.arange(m), m + np.flatnonzero(tau > 0.0)])
    gain = np.eye(len(rows)) - d[np.ix_(rows, columns)]
    if k and is_singular(gain):
        raise ValueError("the feedback without delays must not have gain 1, which determines no output")
    from_x, from_u = np.linalg.solve(gain, c[rows]), np.linalg.solve(gain, d[np.ix_(rows, keep_columns)])
    into, out = b[:, columns], d[np.ix_(keep_rows, columns)]
    return (
        a + into @ from_x,
        b[:, keep_columns] + into @ from_u,
        c[keep_rows] + out @ from_x,
        d[np.ix_(keep_rows, keep_columns)] + out @ from_u,
        tau[tau > 0.0],
    )


def _merged(b: Real, c: Real, d: Real, tau: Real) -> tuple[Real, Real, Real, Real] | None:
    """Return the matrices with a channel less, None if none can be removed."""
    p, m = len(c) - len(tau), b.shape[1] - len(tau)
    rows, columns = np.hstack([c, d])[p:], np.vstack([b, d])[:, m:]
    for i in range(len(tau)):
        if not rows[i].any() or not columns[:, i].any():
            return _dropped(b, c, d, tau, i)
        for j in range(i):
            if tau[i] != tau[j]:
                continue
            if np.array_equal(rows[i], rows[j]):  # the same signal: both effects from channel j
                b, d = b.copy(), d.copy()
                b[:, m + j] += b[:, m + i]
                d[:, m + j] += d[:, m + i]
                return _dropped(b, c, d, tau, i)
            if np.array_equal(columns[:, i], columns[:, j]):  # the same effect: the sum of both signals
                c, d = c.copy(), d.copy()
                c[p + j] += c[p + i]
                d[p + j] += d[p + i]
                return _dropped(b, c, d, tau, i)
        step = _chained(b, c, d, tau, i)
        if step is not None:
            return step
    return None


def _chained(b: Real, c: Real, d: Real, tau: Real, i: int) -> tuple[Real, Real, Real, Real] | None:
    """Return the matrices with channel i joined to the one that it alone feeds, if the sum of delays is exact."""
    p, m = len(c) - len(tau), b.shape[1] - len(tau)
    targets = np.flatnonzero(d[:, m + i])
    if b[:, m + i].any() or len(targets) != 1 or targets[0] < p or targets[0] == p + i:
        return None
    j = int(targets[0]) - p
    if c[p + j].any() or np.count_nonzero(d[p + j]) != 1:
        return None
    total = float(tau[i] + tau[j])
    if Fraction(total) != Fraction(float(tau[i])) + Fraction(float(tau[j])):
        return None
    gain = float(d[p + j, m + i])
    b, d, tau = b.copy(), d.copy(), tau.copy()
    b[:, m + i], d[:, m + i], tau[i] = gain * b[:, m + j], gain * d[:, m + j], total
    d[p + j] = 0.0
    return _dropped(b, c, d, tau, j)


def _dropped(b: Real, c: Real, d: Real, tau: Real, i: int) -> tuple[Real, Real, Real, Real]:
    p, m = len(c) - len(tau), b.shape[1] - len(tau)
    d = np.delete(np.delete(d, p + i, axis=0), m + i, axis=1)
    return np.delete(b, m + i, axis=1), np.delete(c, p + i, axis=0), d, np.delete(tau, i)
