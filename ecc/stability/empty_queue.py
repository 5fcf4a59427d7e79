"""A periodic motion of the switched loop of `ecc.linear.empty_queue`, proven to exist for equal RTTs, the unit of time.

On a motion of period P that is busy from 0 to b, r = -beta X * q. Integrated by parts with X' = -alpha X(t - 1), this
gives for the arrivals x = q'

    x(t) = k int_0^b S(t - s) x(s) ds,   k = beta/alpha,   S(y) = sum over n >= 0 of X(y + n P),   X = 1 before 1,

with int_0^b x = 0 (the queue is empty at b) and x(0) = 0 (a busy period begins as x passes through zero). Conversely a
solution with x > 0 and then x < 0 on (0, b), and x < 0 on (b, P), is such a motion. Scaled to [0, 1] this is
G(x, P, b, k) = 0 for bounded functions x and three numbers; the size of x is the fourth condition.

The proof is that of Newton and Kantorovich. Pi replaces a function by its means on the N cells of a grid; A is the
inverse of a matrix near DG on these, and the identity on the remainder of Pi. If, with the radii r of x, P, b and k,

    |A G| + |1 - A DG| r + |A (DG' - DG)| r < r

for all DG' at points within r of the computed one, then u - A G(u) maps that box into itself as a contraction, and the
box contains a solution. All terms are bounded by sums of |X|, |X'| and |X''| over unit intervals, on each of which X is
a polynomial.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc._support.display import Displayed
from ecc.errors import ConvergenceError
from ecc.linear.empty_queue import empty_queue_boundary

__all__ = ["EmptyQueueCycle", "empty_queue_cycle"]

Real = NDArray[np.float64]

_UNIT = float(np.finfo(float).eps)
_DEGREE, _BITS = 40, 2048  # polynomials: coefficients beyond the degree are counted as error
_MARGIN = 2e-3  # margin of P and b within which the bounds on X hold: radii must stay below it
_SIZE = -0.1  # value of int_0^1 phi x(phi) that normalizes x


@dataclass(frozen=True, repr=False)
class EmptyQueueCycle(Displayed):
    """A proven periodic motion at some `beta` between two values, with its `period` and `busy` time [mean RTTs].

    At that beta not all motions die out: the switched loop is not asymptotically stable.
    """

    alpha: float
    beta: tuple[float, float]
    period: tuple[float, float]
    busy: tuple[float, float]
    _units = {"period": "mean RTTs", "busy": "mean RTTs"}


class _StepResponse:
    """X for equal RTTs: a polynomial on each unit interval, negligible from `until` on."""

    def __init__(self, alpha: float) -> None:
        from flint import ctx

        before = ctx.prec
        ctx.prec = _BITS
        try:
            pieces, sizes, error = self._pieces(alpha)
        finally:
            ctx.prec = before
        self.alpha, self.until = alpha, len(pieces)
        self.pieces = np.array([row + [0.0] * (_DEGREE - len(row)) for row in pieces])
        self.sizes = np.array(sizes)
        self.error = error + 4.0 * _DEGREE * _UNIT * float(np.abs(self.pieces).sum(axis=1).max())
        last = max(sizes[-2:])  # from `until` on |X| is bounded by this times (1 + alpha) sup |X|
        self.tail = last * (1.0 + alpha) * float(self.sizes.max())

    @staticmethod
    def _pieces(alpha: float) -> tuple[list[list[float]], list[float], float]:
        """Return the coefficients on each interval, bounds of |X| on each, and the error of the coefficients."""
        from flint import arb, arb_poly

        piece, error = arb_poly([1]), 0.0
        pieces: list[list[float]] = []
        sizes: list[float] = []
        while len(sizes) < 2 or max(sizes[-2:]) > 1e-14:
            if len(sizes) > 1000:
                raise ConvergenceError(
                    f"alpha must be well below pi/2 for the step response to die out, got {shown(alpha)}"
                )
            coefficients = piece.coeffs()
            remainder = sum((abs(c) for c in coefficients[_DEGREE:]), arb(0))
            coefficients = coefficients[:_DEGREE]
            middle = arb_poly(coefficients)(arb_poly([0.5, 1])).coeffs()
            sizes.append(float((sum((abs(c) / 2**i for i, c in enumerate(middle)), arb(0)) + remainder).upper()))
            pieces.append([float(c.mid()) for c in coefficients])
            error = max(error, float((sum((c.rad() for c in coefficients), arb(0)) + remainder).upper()))
            following = (piece.integral() * (-arb(alpha))).coeffs()
            following[0] = piece(arb(1))
            piece = arb_poly(following)
        return pieces, sizes, error

    def __call__(self, t: Real, order: int = 0) -> Real:
        """Return X, or X' for order 1."""
        if order:
            return np.where(t < 1.0, 0.0, -self.alpha * self(t - 1.0))
        k = np.clip(np.floor(t).astype(np.int64), 0, self.until - 1)
        s, value = t - k, np.zeros_like(t)
        for i in reversed(range(_DEGREE)):
            value = value * s + self.pieces[k, i]
        return np.where(t < 1.0, 1.0, np.where(t >= self.until, 0.0, value))

    def upper_bounds(self, low: Real, high: Real, order: int) -> Real:
        """Return upper bounds of |X|, |X'| or |X''| between `low` and `high`, up to `until`."""
        bounds = np.append(np.zeros(order), self.alpha**order * self.sizes)
        first, last = (np.clip(np.floor(t).astype(np.int64), 0, self.until - 1) for t in (low, high))
        upper_bounds = bounds[first]
        for i in range(1, int((last - first).max()) + 1):
            upper_bounds = np.maximum(upper_bounds, bounds[np.minimum(first + i, last)])
        return upper_bounds


class _Kernel:
    """S, S' and dS/dP at points y, and a bound on their error."""

    def __init__(self, response: _StepResponse, P: float, y: Real) -> None:
        self.S, self.S1, self.SP = (np.zeros_like(y) for _ in range(3))
        terms = ceil((response.until - float(y.min())) / P) + 1
        for n in range(terms):
            slope = response(y + n * P, 1)
            self.S += response(y + n * P)
            self.S1 += slope
            self.SP += n * slope
        self.error = terms**2 * (response.error + 4.0 * response.until * _UNIT) + _tail(response, P)


def _grid(b: float, N: int) -> Real:
    """Return points from -b to b at half steps of b/N."""
    return np.asarray(0.5 * b / N * np.arange(-2 * N, 2 * N + 1), dtype=float)


def _tail(response: _StepResponse, P: float) -> float:
    """Return a bound on the part beyond `until` of sums with n^2 over X, X' or X''."""
    return 5.0 * (response.until / P + 2.0) ** 3 * response.tail * max(1.0, response.alpha) ** 2


def _bounds(response: _StepResponse, P: float, span: float) -> dict[str, float]:
    """Return bounds of sum n^p |X^(j)(y + n P)| over |y| <= span, for P and span within _MARGIN, with keys "jp"."""
    edges = np.linspace(-span - _MARGIN, span + _MARGIN, 801)
    out = {}
    for j, p in ((0, 0), (1, 0), (2, 0), (1, 1), (2, 1), (2, 2)):
        total = np.zeros(len(edges) - 1)
        for n in range(ceil((response.until + span) / (P - _MARGIN)) + 1):
            low, high = edges[:-1] + n * (P - _MARGIN), edges[1:] + n * (P + _MARGIN)
            total += n**p * response.upper_bounds(low, high, j)
        out[f"{j}{p}"] = float(total.max()) + _tail(response, P - _MARGIN)
    return out


@check_arguments
def empty_queue_cycle(alpha: float, cells: int = 1000) -> EmptyQueueCycle:
    """Return a proven periodic motion of RCP's loop at its empty queue, at the beta at which motions cease to die out.

    Parameters
    ----------
    alpha : float
        Gain alpha, from about 0.7 to 1.5.
    cells : int, optional
        Cells of the busy period, for equal RTTs; more cells give narrower intervals.

    Returns
    -------
    EmptyQueueCycle

    Raises
    ------
    ValueError
        Alpha is not > 0.
    ConvergenceError
        No such motion was found, or the proof needs more cells.
    ImportError
        python-flint is not installed.

    Notes
    -----
    Nothing is stated about other beta: neither that motions die out below, nor that they grow above.
    Cost: 2 s with 1000 cells.

    Examples
    --------
    >>> low, high = empty_queue_cycle(1.0).beta
    >>> bool(0.9510 < low < high < 0.9513)
    True
    """
    if not alpha > 0.0:
        raise ValueError(f"alpha must be > 0, got {shown(alpha)}")
    response = _StepResponse(alpha)
    start = _observed(alpha)
    for count in (cells // 8, cells):
        start = _newton(response, *start, count)
    x, P, b, k = start
    r = _radii(response, x, P, b, k)
    _check_signs(response, x, P, b, k, r)
    rP, rb, rk = (float(radius) * (1.0 + 1e-9) for radius in r[1:])
    return EmptyQueueCycle(alpha, (alpha * (k - rk), alpha * (k + rk)), (P - rP, P + rP), (b - rb, b + rb))


def _observed(alpha: float, steps: int = 200) -> tuple[Real, float, float, float]:
    """Return a start for Newton: arrivals over the last busy period of a run at the boundary, its period and length."""
    beta, h = float(empty_queue_boundary([alpha], steps=steps // 10)[0]), 1.0 / steps
    if not 0.0 < beta < np.inf:
        raise ConvergenceError(f"alpha must have a critical beta, got {shown(alpha)}, for which it is {beta:g}")
    r, q = [1.0] * (steps + 1), 0.0
    begins, ends, arrivals = [0], [0], []
    for n in range(100 * steps):
        x, next_x = r[n], r[n + 1]
        full = max(0.0, q + 0.5 * h * (x + next_x))
        if q == 0.0 < full:
            begins.append(n)
        if q > 0.0 == full:
            ends.append(n)
        r.append(r[-1] - h * (0.5 * alpha * (x + next_x) + 0.5 * beta * (q + full)))
        q = full
        arrivals.append(x)
    if len(begins) < 4 or len(ends) < 4:
        raise ConvergenceError(f"no busy periods that return were found at alpha = {alpha:g}, beta = {beta:g}")
    begin = begins[-2]
    end = next(n for n in ends if n > begin)
    return np.array(arrivals[begin:end]), (begins[-1] - begin) * h, (end - begin) * h, beta / alpha


def _newton(response: _StepResponse, x: Real, P: float, b: float, k: float, N: int) -> tuple[Real, float, float, float]:
    """Solve G = 0 with x linear between N + 1 points, and integrals by the trapezoidal rule."""
    phi = np.linspace(0.0, 1.0, N + 1)
    w = np.full(N + 1, 1.0 / N)
    w[[0, -1]] *= 0.5
    x = np.interp(phi, np.linspace(0.0, 1.0, len(x)), x)
    x = x * (_SIZE / (w @ (phi * x)))
    i = np.arange(N + 1)
    differences = 2 * (i[:, None] - i[None, :]) + 2 * N
    for _ in range(30):
        kernel = _Kernel(response, P, _grid(b, N))
        S, S1, SP = kernel.S[differences] * w, kernel.S1[differences] * w, kernel.SP[differences] * w
        J = np.zeros((N + 4, N + 4))
        J[:-3, :-3] = np.eye(N + 1) - k * b * S
        J[:-3, -3] = -k * b * (SP @ x)
        J[:-3, -2] = -k * ((S + b * (phi[:, None] - phi) * S1) @ x)
        J[:-3, -1] = -b * (S @ x)
        J[-3, :-3], J[-2, 0], J[-1, :-3] = w, 1.0, w * phi
        residual = np.concatenate([x - k * b * (S @ x), [w @ x, x[0], w @ (phi * x) - _SIZE]])
        step = np.linalg.solve(J, residual)
        x, P, b, k = x - step[:-3], P - float(step[-3]), b - float(step[-2]), k - float(step[-1])
        if not (0.0 < b < P < 20.0 and k > 0.0):
            break
        if np.abs(step).max() < 1e-11:
            return x, P, b, k
    raise ConvergenceError(f"no periodic motion was found at alpha = {response.alpha:g} from its busy periods")


def _radii(response: _StepResponse, x: Real, P: float, b: float, k: float) -> Real:
    """Return radii of x, P, b and k within which a solution is proven to lie."""
    contraction = _Contraction(response, x, P, b, k)
    r = contraction.image(np.zeros(4))
    for _ in range(60):
        r = 1.02 * contraction.image(r)
        if not np.all(r < [1.0, _MARGIN, _MARGIN, 1.0]):
            break
        if np.all(contraction.image(r) < r):
            return r
    raise ConvergenceError(
        f"the periodic motion at alpha = {response.alpha:g} is not proven with {contraction.N} cells: use more"
    )


class _Contraction:
    """Bounds of the map u - A G(u) near a computed point u = (x, P, b, k).

    Rows are G as a function, then the conditions on the mean, x(0) and the size; columns are x, then P, b, k. Note that
    |theta - phi| b <= b. `kinks`: the n for which a kink of X(y + n P) may lie in the busy time. `size`, `slope`,
    `ends`: maximum of |x| and of |x'|, and the total variation of x with its ends. `rate`: bound of d(y S)/dy.
    """

    def __init__(self, response: _StepResponse, x: Real, P: float, b: float, k: float) -> None:
        self.N = N = len(x) - 1
        self.x, self.b, self.k, self.alpha = x, b, k, response.alpha
        self.h = 1.0 / N
        self.kernel, self.bounds = _Kernel(response, P, _grid(b, N)), _bounds(response, P, b)
        self.kinks = [n for n in range(ceil((response.until + b) / P)) if abs(1.0 - n * P) <= b + (n + 2) * _MARGIN]
        self.size, self.slope = float(np.abs(x).max()), float(np.abs(np.diff(x)).max()) * N
        self.ends = float(np.abs(np.diff(x)).sum() + abs(x[0]) + abs(x[-1]))
        self.rate = self.bounds["00"] + b * self.bounds["10"]
        self.residual = self._residual()
        self.inverse, self.identity_error = self._inverse()
        L, ends = self.bounds, self.ends
        self.of_mean = np.array(  # d/dtheta
            [k * b * b * L["10"], k * b * L["11"] * ends, k * self.rate * ends, b * L["00"] * ends]
        )
        self.matrix_error = self._matrix_error()

    def _residual(self) -> Real:
        """Return bounds of G at the point: integrals by the trapezoidal rule; all are linear between points."""
        x, b, k, h, N, L, size, slope = self.x, self.b, self.k, self.h, self.N, self.bounds, self.size, self.slope
        kernel, i = self.kernel, np.arange(N + 1)
        w = np.full(N + 1, h)
        w[[0, -1]] *= 0.5
        wx = w * x
        at_points = np.array([float(kernel.S[2 * (j - i) + 2 * N] @ wx) for j in range(N + 1)])
        rule = h * h / 12.0 * (b * b * L["20"] * size + 2.0 * b * L["10"] * slope)
        rule += h * h / 8.0 * len(self.kinks) * self.alpha * b * size
        rule += (kernel.error + 4.0 * N * _UNIT * L["00"]) * size
        return np.array(
            [
                np.abs(x - k * b * at_points).max() + k * b * rule + h * h / 8.0 * k * b * b * L["10"] * self.ends,
                abs(float(wx.sum())) + N * _UNIT * size,
                abs(k * b * float(at_points[0])) + k * b * rule,
                abs(float(wx @ (i * h)) - _SIZE) + h * h / 6.0 * slope + N * _UNIT * size,
            ]
        )

    def _inverse(self) -> tuple[Real, Real]:
        """Return bounds of A, the inverse of a matrix J near DG on the cells, and of 1 - A J."""
        b, k, h, N, kernel = self.b, self.k, self.h, self.N, self.kernel
        centers, i = 0.5 * (self.x[:-1] + self.x[1:]), np.arange(N)
        differences = 2 * (i[:, None] - i[None, :]) + 2 * N
        first = 2 * N - 1 - 2 * i  # from 0 to the centers
        J = np.zeros((N + 3, N + 3))
        J[:N, :N] = np.eye(N) - k * b * h * kernel.S[differences]
        J[N, :N], J[N + 1, :N], J[N + 2, :N] = h, k * b * h * kernel.S[first], h * (i + 0.5) * h
        theta_phi = (i[:, None] - i[None, :]) * h
        for at, rows, y, sign in (
            (differences, slice(N), b * theta_phi, -1.0),
            (first, N + 1, -b * (i + 0.5) * h, 1.0),
        ):
            J[rows, N] = sign * k * b * h * (kernel.SP[at] @ centers)
            J[rows, N + 1] = sign * k * h * ((kernel.S[at] + y * kernel.S1[at]) @ centers)
            J[rows, N + 2] = sign * b * h * (kernel.S[at] @ centers)
        A = np.linalg.inv(J)
        rounding = 2.0 * (N + 3) * _UNIT * (np.abs(A) @ np.abs(J))
        return _by_blocks(np.abs(A), N), _by_blocks(np.abs(np.eye(N + 3) - A @ J) + rounding, N)

    def _matrix_error(self) -> Real:
        """Return a bound of DG - J: midpoint rule for integrals and means, and Pi's remainder for x and the result."""
        b, k, h, alpha, L, size, slope = self.b, self.k, self.h, self.alpha, self.bounds, self.size, self.slope
        kinks, rate = self.kinks, self.rate
        error = np.zeros((4, 4))
        sums = np.array(
            [
                0.0,
                k * b * (0.25 * h * (b * L["21"] * size + L["11"] * slope) + h * alpha * size * sum(kinks)),
                k
                * (
                    0.25 * h * (b * (2.0 * L["10"] + b * L["20"]) * size + rate * slope)
                    + h * alpha * b * size * len(kinks)
                ),
                b * 0.25 * h * (b * L["10"] * size + L["00"] * slope),
            ]
        )
        rounding = self.kernel.error + self.N * _UNIT * (L["00"] + b * L["10"] + L["11"])
        sums += 2.0 * rounding * (1.0 + k * b + k + b) * (1.0 + size)
        error[0] = sums + self.of_mean * h * np.array([7.0 / 12.0, 0.25, 0.25, 0.25])
        error[2] = sums + self.of_mean * h * np.array([0.5, 0.0, 0.0, 0.0])
        error[3, 0] = 0.25 * h
        return error

    def _change(self, r: Real) -> Real:
        """Return a bound of DG' - DG within the radii."""
        L, alpha, b = self.bounds, self.alpha, self.b
        rx, rP, rb, rk = r.tolist()
        K, B, X = self.k + rk, b + rb, self.size + rx
        of_kb = rk * B + K * rb
        shifts = [n * rP + rb for n in self.kinks]  # shift of each kink of S
        in_S, in_both = (
            L["11"] * rP + L["10"] * rb,
            L["11"] * rP + 2.0 * L["10"] * rb + B * (L["21"] * rP + L["20"] * rb),
        )
        weighted = sum(n * m for n, m in zip(self.kinks, shifts, strict=True))
        at_P = L["22"] * rP + L["21"] * rb + alpha * weighted / (b - rb)
        at_b = in_both + alpha * B * sum(shifts) / (b - rb)
        row = [
            of_kb * L["00"] + K * B * in_S,
            of_kb * L["11"] * X + K * B * (L["11"] * rx + at_P * X),
            rk * (L["00"] + B * L["10"]) * X + K * ((L["00"] + B * L["10"]) * rx + at_b * X),
            rb * L["00"] * X + B * (in_S * X + L["00"] * rx),
        ]
        return np.array([row, [0.0] * 4, row, [0.0] * 4])

    def image(self, r: Real) -> Real:
        """Return the radii of the image under the contraction."""
        change = self._change(r)
        of_rows = self.residual + (self.matrix_error + change) @ r
        out = self.inverse @ of_rows + self.identity_error @ r
        out[0] += 2.0 * self.residual[0] + 0.5 * self.h * float(self.of_mean @ r) + 2.0 * float(change[0] @ r)
        return out * (1.0 + 1e-9)


def _by_blocks(matrix: Real, N: int) -> Real:
    """Return norms of the blocks of a matrix >= 0 on N values and 3 numbers, with maximum norms for functions."""
    out = np.zeros((4, 4))
    out[0, 0], out[0, 1:] = matrix[:N, :N].sum(axis=1).max(), matrix[:N, N:].max(axis=0)
    out[1:, 0], out[1:, 1:] = matrix[N:, :N].sum(axis=1), matrix[N:, N:]
    return out


def _check_signs(response: _StepResponse, x: Real, P: float, b: float, k: float, r: Real) -> None:
    """Raise unless arrivals are proven > 0, then < 0 while the queue is busy, and < 0 until it is busy again.

    x(t) on (b, P) is k b int S(t - P - b phi) x dphi: S(y + P) = S(y) - 1 for y <= 0, and x has mean 0.
    """
    N, alpha = len(x) - 1, response.alpha
    h, (rx, rP, rb, rk) = 1.0 / N, r.tolist()
    idle = ceil((P - b + rP + rb) / (b * h))
    L = _bounds(response, P, max(b, P))
    kernel = _Kernel(response, P, b * h * np.arange(-N - idle, N + 1))
    kinks = ceil((response.until + P) / P)  # upper bound on their number; each counts with the size of the first
    size, slope = float(np.abs(x).max()) + rx, float(np.abs(np.diff(x)).max()) * N
    K, B = k + rk, b + rb
    of_kb = rk * B + K * rb
    shifts = sum(n * rP + rb for n in range(kinks)) / (b - rb)
    rule = 0.25 * h * (B * L["10"] * size + L["00"] * slope) + kernel.error * size
    off = of_kb * L["00"] * size + K * B * ((L["11"] * rP + L["10"] * 2.0 * rb) * size + L["00"] * rx + rule)
    off += K * B * L["10"] * size * (b * h + rP + rb)
    rule = 0.25 * h * (B * L["20"] * size + L["10"] * slope) + kinks * alpha * h * size + kernel.error * size
    in_S1 = (L["21"] * rP + L["20"] * 2.0 * rb + alpha * shifts) * size + L["10"] * rx
    off_slope = of_kb * L["10"] * size + K * B * (in_S1 + rule + (L["20"] + alpha * kinks) * size * (b * h + rP + rb))

    w = np.full(N + 1, h)
    w[[0, -1]] *= 0.5
    # at t = (m - idle) b/N, from one period before the end of the busy time to that end
    values, slopes = (k * b * np.convolve(f, w * x, "valid") for f in (kernel.S, kernel.S1))

    def passes(values: Real, slopes: Real, *stages: tuple[int, int]) -> bool:
        """Return whether the signs of x, or of x' if that of x is 0, hold in this order."""
        at = 0
        for value, change in zip(values, slopes, strict=True):
            while not (stages[at][0] * value > off or stages[at][1] * change > off_slope):
                at += 1
                if at == len(stages):
                    return False
        return bool(stages[-1][0] * values[-1] > off)

    busy = passes(values[idle:], slopes[idle:], (0, 1), (1, 0), (0, -1), (-1, 0))
    if not (busy and passes(values[idle::-1], slopes[idle::-1], (0, 1), (-1, 0))):
        raise ConvergenceError(
            f"signs of the periodic motion at alpha = {alpha:g} are not proven with {N} cells: use more"
        )
