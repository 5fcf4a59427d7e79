"""RCP and XCP at their equilibrium, an empty queue, at which their loop switches.

Time is in units of the mean RTT d; r is the relative deviation of the announced rate (for XCP, of the sum advertised to
sources), x that of the arrivals, q the queue over C d, and the RTTs D_i have mean 1 (equal RTTs for XCP, since its
shuffling cancels from the sum only then). Both are

    r'(t) = -alpha x(t) - beta q(t),   x(t) = mean r(t - D_i),   q' = x if q > 0 or x > 0, else 0

to first order, also of the delay in the queue. Unconstrained queues, q' = x everywhere, give s^2 + (alpha s + beta)
mean exp(-s D_i) = 0. The switched loop is positively homogeneous: c > 0 times a motion is a motion, so rays move among
rays, and from a history the norm grows or falls by a number per time. Let X be the response to a unit step of r while
q = 0: X' = -alpha mean X(t - D_i), X(0) = 1, X = 0 before.

Theorem. If X dies out, beta > 0 and beta G < 1, every motion of the switched loop dies out exponentially, with

    alpha G = max over v > 0 of [integral of max(0, X(u + v) - X(u)) over u > 0] + integral of max(0, X - 1).

Proof. r = h - beta X * q, h a motion without queue. On (s, t), with the queue busy since s, q(t) is the integral of x,
that is, as alpha times the integral of mean X(u - D_i) is X(0) - X,

    q(t) = int h_x - (beta/alpha) [int_0^s q(z) (X(s - z) - X(t - z)) dz + int_s^t q(z) (1 - X(t - z)) dz]
         <= int h_x + beta G sup q,

so q is bounded; and from busy periods that begin late, lim sup q <= beta G lim sup q: q dies out, and r. A busy period
without end is a bounded motion of the unconstrained queue, almost periodic of mean 0 (0 is not a root) and >= 0: it
dies out too. Rays are compact after the longest RTT, and the motion is continuous, so the decay is uniform:
exponential.

G = 0 if and only if X falls all the time; this holds if alpha mean exp(z D_i) <= z for a z > 0 (X' >= -z X is
preserved, since then X(t - D_i) <= exp(z D_i) X(t)). For equal RTTs the condition is alpha <= 1/e: then no beta is too
large. At beta = 0 nothing empties the queue.

The loop is that of small deviations, and of routers that act continuously (T -> 0): the theorem is limited to these.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import e, inf, nan, pi

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import Positive, Seed, check_arguments, shown
from ecc.linear.certificate import decide
from ecc.linear.characteristic import Terms, align

__all__ = ["empty_queue_bound", "empty_queue_boundary", "empty_queue_growth", "empty_queue_proves"]

Real = NDArray[np.float64]

_QUIET, _MAX_POINTS = 1e-7, 3_000_000  # size at which the step response counts as died out; maximum number of points
_STEPS = 1000  # points per mean RTT
_SHORT_BLOCK = 64  # points per pass below which a band matrix is solved
_LONG_BLOCK = 4096  # points per pass if all delays are short
_HALVINGS = 40  # steps of a bisection for the minimum of a ratio
_TIGHT = 1e-3  # relative width to which the maximum over v is enclosed, or a step of v
_DECIDED = 1e-6  # relative distance of the maximum from a value above which it is decided on which side it is


@check_arguments
def empty_queue_bound(alpha: float, rtts: ArrayLike = (1.0,), steps: int = _STEPS) -> float:
    """Return a beta > 0 below which RCP, or XCP with equal RTTs, is proven stable at its empty queue: 1/G.

    Parameters
    ----------
    alpha : float, > 0
        Gain alpha, for example 0.4.
    rtts : array_like, shape (n_flows,), > 0, optional
        RTTs of flows with equal rates, in any unit.
    steps : int, > 0, optional
        Number of steps per mean RTT in the enclosure of G; with more steps the bound approaches 1/G.

    Returns
    -------
    float
        Bound; inf if no beta is too large, 0 if the loop without a queue is not proven stable.

    Raises
    ------
    ValueError
        alpha or an RTT is not > 0.
    ImportError
        python-flint is not installed.

    Notes
    -----
    G is enclosed from above, rounding included, so that the bound errs to the safe side (`_area_above`).

    Examples
    --------
    >>> empty_queue_bound(0.36), int(empty_queue_bound(0.4))  # RCP's own gains are 0.4, 1.0
    (inf, 225)
    """
    return _bound(alpha, rtts, steps)


def empty_queue_proves(alpha: float, beta: float, rtts: ArrayLike) -> bool:
    """Return whether beta is below `empty_queue_bound`, whose value is then enclosed only as far as that takes.

    Parameters
    ----------
    alpha, beta : float
        Gains, in units of the mean RTT.
    rtts : array_like, shape (n_flows,), > 0
        RTTs of flows with equal rates, in any unit.
    """
    return 0.0 < beta < _bound(alpha, rtts, _STEPS, beta)


def _bound(alpha: float, rtts: ArrayLike, steps: int, compared: float | None = None) -> float:
    """Return the bound, or one on the same side of a beta with which it is compared."""
    delays = np.asarray(rtts, dtype=float)
    if not alpha > 0.0:
        raise ValueError(f"alpha must be > 0, got {shown(alpha)}")
    if delays.ndim != 1 or not len(delays) or not np.all((delays > 0.0) & np.isfinite(delays)):
        raise ValueError(f"rtts must be > 0, one or more, got {shown(rtts)}")
    values, counts = np.unique(delays / delays.mean(), return_counts=True)
    if _falls(alpha, values, counts):
        return inf
    weights = (alpha * counts / len(delays)).reshape(-1, 1, 1)
    without_queue = align(Terms(weights, values, np.zeros((0, 1, 1)), np.zeros(0), sampled=False))[0]
    if decide([without_queue])[0] != "stable":
        return 0.0
    return alpha / _area_above(alpha, values, counts / len(delays), steps, compared) * (1.0 - 1e-9)


def _falls(alpha: float, delays: Real, counts: NDArray[np.int64]) -> bool:
    """Return whether alpha mean exp(z D) <= z for a z > 0: by ball arithmetic, at 1 and at the minimum of the ratio."""
    from flint import arb

    low, minimizer = 0.0, e  # the slope of the ratio has the sign of mean (z D - 1) exp(z D), which increases with z
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + minimizer)
        falls = counts @ ((middle * delays - 1.0) * np.exp(middle * delays)) < 0.0
        low, minimizer = (middle, minimizer) if falls else (low, middle)

    def holds(z: float) -> bool:
        terms = (int(n) * (arb(z) * arb(D)).exp() for n, D in zip(counts, delays.tolist(), strict=True))
        return bool(arb(alpha) * sum(terms, arb(0)) <= arb(z) * int(counts.sum()))

    return holds(1.0) or holds(minimizer)


def _area_above(alpha: float, delays: Real, shares: Real, steps: int, beta: float | None = None) -> float:
    """Return an upper bound of alpha G; inf if the step response does not die out on the grid.

    With beta it may be a coarser bound, on the same side of the value that decides about this beta.

    x is the piecewise linear function through the values of X computed on a grid of step h, from 0 to T, with variation
    V and int |x| <= J. It satisfies its equation, X = 1 - alpha mean int_0^(t - D_i) X, up to a residual r with

        int |r| <= R = T rho + alpha h^2 (V/6 + 1/8):

    rho for rounding, with the largest difference of both sides at points of the grid; V/6 for the linear interpolation
    of a function with derivative -alpha mean x(t - D_i); 1/8 for its kinks at D_i. X - x = -r + alpha mean X(. - D_i) *
    r, so that int_0^T |X - x| <= R (1 + alpha int_0^T |X|). If
    |X| <= eta on the longest RTT before T, the integral of |X| from T to any later time is bounded by eta (1 + alpha)
    times that from 0, as X(T + .) = X(T) X - alpha mean int_0^(D_i) X(T - s) X(. + s - D_i) ds: X is integrable.

    For x the two integrals of alpha G are bounded by trapezoidal sums, since positive parts are convex. The first grows
    with v by no more than the ascent of x beyond v; its maximum is found by halving intervals of v.
    """
    h = 1.0 / steps
    x = _step_response(alpha, delays, shares, h)
    n, rises = len(x), np.diff(x)
    J = float(np.abs(x).sum()) * h
    rho = _residual(alpha, delays, shares, h, x)
    rho += 2.0 * float(np.finfo(float).eps) * ((n + 20) * alpha * J + 4.0)  # double that of a cumulative sum of n terms
    R = n * h * rho + alpha * h * h * (float(np.abs(rises).sum()) / 6.0 + 0.125)
    error = R * (1.0 + alpha * J) / (1.0 - alpha * R)
    off = rho + alpha * h * float(np.abs(rises).max()) + 2.0 * alpha * R * float(np.abs(x).max() + 1.0)
    eta = (1.0 + alpha) * (float(np.abs(x[-int(delays[-1] * steps) - 2 :]).max()) + off)  # |X - x| <= off past kinks
    if not (alpha * R < 0.25 and eta < 0.5):
        return inf
    tail = eta * (J + error) / (1.0 - eta) + h * eta

    padded = np.append(x, np.zeros(n))
    ascent = np.append(np.cumsum(np.maximum(rises, 0.0)[::-1])[::-1], 0.0)

    ascents = np.empty(n)

    def rise(v: int) -> float:
        np.subtract(padded[v : v + n], x, out=ascents)
        return float(np.maximum(ascents, 0.0, out=ascents).sum()) * h

    above = float(np.maximum(x - 1.0, 0.0).sum()) * h + 3.0 * (error + tail)
    needed = nan if beta is None else alpha / beta / (1.0 + n * 1e-15) - above

    top, at_zero = rise(n - 1), rise(0)
    largest = max(top, at_zero)
    intervals = [(-at_zero - float(ascent[0]) * n * h, at_zero, 0, n - 1)]  # ordered by the largest possible value
    while intervals and -intervals[0][0] > largest * (1.0 + _TIGHT):
        if max(top, -intervals[0][0]) < needed * (1.0 - _DECIDED) or largest > needed * (1.0 + _DECIDED):
            break
        negated_bound, at_low, low, high = heappop(intervals)
        if high - low == 1:
            top = max(top, -negated_bound)
            continue
        middle = (low + high) // 2
        for value, start, end in ((at_low, low, middle), (rise(middle), middle, high)):
            largest = max(largest, value)
            heappush(intervals, (-value - float(ascent[start]) * (end - start) * h, value, start, end))
    top = max(top, -intervals[0][0] if intervals else 0.0)
    return (top + above) * (1.0 + n * 1e-15)


def _step_response(alpha: float, delays: Real, shares: Real, h: float) -> Real:
    """Return X on a grid of step h until it has died out: 1 - alpha mean int_0^(t - D_i) x, x linear between values."""
    rows = _rows(alpha, delays, shares, h)
    block, quiet = min(m for m, *_ in rows) - 1, 2 * max(m for m, *_ in rows)
    if block < _SHORT_BLOCK:
        return _by_bands(rows, h, quiet)
    x, area, n, end = np.ones(1), np.zeros(1), 1, 0  # `end`: one more than the last place at which X is not small
    while n <= quiet or n - end < quiet:
        if n > _MAX_POINTS:
            break
        if n + block > len(x):
            x, area = (_longer(values, block) for values in (x, area))
        new = np.ones(block)
        for m, s, gain in rows:
            skipped, first = max(0, m - n), max(0, n - m)
            if skipped < block:
                new[skipped:] -= gain * _area_before(x, area, first, n - m + block, s, h)
        x[n : n + block] = new
        area[n : n + block] = area[n - 1] + np.cumsum(0.5 * h * (x[n - 1 : n + block - 1] + new))
        large = np.flatnonzero(np.abs(new) > _QUIET)
        end, n = (n + int(large[-1]) + 1 if len(large) else end), n + block
    return x[:n]


def _longer(values: Real, block: int) -> Real:
    """Return an array with its values, and room for as many again and a block."""
    return np.concatenate([values, np.zeros(len(values) + block)])


def _area_before(x: Real, area: Real, begin: int, end: int, s: float, h: float) -> Real:
    """Return the integral of x up to `s` of a step behind each point from `begin` to before `end`."""
    at, following = x[begin:end], x[begin + 1 : end + 1]
    return np.asarray(area[begin:end] + h * s * (at + 0.5 * s * (following - at)))


def _by_bands(rows: list[tuple[int, float, float]], h: float, quiet: int) -> Real:
    """Return the step response if one of the delays (`rows`: back, part, gain) is so short that blocks would be short.

    Differences of the equation between two steps are a recurrence in x, of an order that the short delays determine;
    a block as long as the shortest of the other delays then solves a band matrix. A delay below h reaches into the step
    that ends at t: part of its area is due to the new value itself. The recurrence begins after the longest of the
    short delays.
    """
    from scipy.linalg import solve_banded

    short = [row for row in rows if row[0] - 1 < _SHORT_BLOCK]
    late = [row for row in rows if row[0] - 1 >= _SHORT_BLOCK]
    order = max(m for m, *_ in short) + 1
    factors = np.zeros(order + 1)
    factors[:2] = 1.0, -1.0
    for m, s, gain in short:
        ahead, step = 0.5 * h * s * s, h * s * (1.0 - 0.5 * s)
        factors[m - 1] += gain * ahead
        factors[m] += gain * (step - ahead + 0.5 * h)
        factors[m + 1] += gain * (0.5 * h - step)
    x, area = np.array(_first_values(short, h, order + 1)), np.zeros(order + 1)
    block = min([m - 1 for m, *_ in late], default=_LONG_BLOCK)
    bands = np.repeat(factors[:, None], block, axis=1)
    n, summed, end = len(x), 1, 0  # `summed`: number of areas
    while n <= quiet or n - end < quiet:
        if n > _MAX_POINTS:
            break
        if n + block > len(x):
            x, area = (_longer(values, block) for values in (x, area))
        area[summed:n] = area[summed - 1] + np.cumsum(0.5 * h * (x[summed - 1 : n - 1] + x[summed:n]))
        push = np.zeros(block + 1)
        for m, s, gain in late:
            skipped, first = max(0, m - n + 1), max(0, n - 1 - m)
            if skipped <= block:
                push[skipped:] -= gain * _area_before(x, area, first, n + block - m, s, h)
        change = np.diff(push)
        before = np.convolve(factors, x[n - order : n])[order:]
        change[: min(order, block)] -= before[:block]
        x[n : n + block] = new = solve_banded((order, 0), bands, change)
        large = np.flatnonzero(np.abs(new) > _QUIET)
        end, n, summed = (n + int(large[-1]) + 1 if len(large) else end), n + block, n
    return x[: min(n, max(quiet + 1, end + quiet))]


def _first_values(rows: list[tuple[int, float, float]], h: float, number: int) -> list[float]:
    """Return the first values of the step response, during which no delay but these has passed."""
    implicit = 1.0 + 0.5 * h * sum(gain * s * s for m, s, gain in rows if m == 1)
    x, area = [1.0], [0.0]
    for k in range(1, number):
        new = 1.0
        for m, s, gain in rows:
            j = k - m
            if j >= 0:
                ahead = x[j + 1] if m > 1 else 0.0
                new -= gain * (area[j] + h * s * (x[j] + 0.5 * s * (ahead - x[j])))
        x.append(new / implicit)
        area.append(area[-1] + 0.5 * h * (x[-2] + x[-1]))
    return x


def _residual(alpha: float, delays: Real, shares: Real, h: float, x: Real) -> float:
    """Return the largest difference between values of a step response and the right side of its equation."""
    area = np.concatenate([np.zeros(1), np.cumsum(0.5 * h * (x[:-1] + x[1:]))])
    right = np.ones(len(x))
    for m, s, gain in _rows(alpha, delays, shares, h):
        right[m:] -= gain * _area_before(x, area, 0, len(x) - m, s, h)
    return float(np.abs(x - right).max())


def _rows(alpha: float, delays: Real, shares: Real, h: float) -> list[tuple[int, float, float]]:
    """Return (back, part, gain) for each delay: t - D_i lies `part` of a step before the point `back` before t."""
    back = np.floor(delays / h).astype(np.int64) + 1
    return list(zip(back.tolist(), (back - delays / h).tolist(), (alpha * shares).tolist(), strict=True))


@check_arguments
def empty_queue_growth(
    alpha: ArrayLike,
    beta: ArrayLike,
    steps: Positive = 40,
    span: float = 300.0,
    seed: Seed = 0,
    history: ArrayLike | None = None,
    queue: ArrayLike | None = None,
) -> Real:
    """Return the growth rate of motions of the switched loop with equal RTTs, each from one history.

    Parameters
    ----------
    alpha, beta : array_like
        Gains; arrays that broadcast to shape (m,), > 0 and >= 0.
    steps : int, optional
        Steps per mean RTT.
    span : float, optional
        Length of the motion in mean RTTs; growth is measured from 0.4 of it on.
    seed : int, optional
        Seed of random histories (Brownian, from a random level) and queues (half of them empty).
    history : array_like, shape (steps + 1, m), optional
        r over the RTT before the start; None: random.
    queue : array_like, shape (m,), >= 0, optional
        Queue at the start; None: random.

    Returns
    -------
    ndarray, shape (m,)
        Growth per mean RTT: between the first and the last busy period, by the peaks of the queue; or growth of the
        norm of the state if the queue does not return.

    Raises
    ------
    ValueError
        A gain, history or queue is out of range.

    Notes
    -----
    Trapezoidal rule, with the exact reflection of an x that is linear in a step: second order.

    Examples
    --------
    >>> empty_queue_growth([0.4, 1.0], [1.0, 1.2]).round(3).tolist()  # an unconstrained queue is unstable at either
    [-0.569, 0.035]
    """
    a, b = (np.atleast_1d(z).astype(float) for z in np.broadcast_arrays(alpha, beta))
    m, h, n = len(a), 1.0 / steps, int(steps)
    if not span > 0.0:
        raise ValueError(f"span must be > 0, got {shown(span)}")
    if not (np.all(a > 0.0) and np.all(b >= 0.0)):
        raise ValueError(f"alpha must be > 0 and beta >= 0, got minimum values {a.min():g} and {b.min():g}")
    rng = np.random.default_rng(seed)
    random = np.cumsum(rng.standard_normal((n + 1, m)), axis=0) * np.sqrt(h) + rng.standard_normal(m)
    random_queue = np.abs(rng.standard_normal(m)) * rng.integers(0, 2, m)
    ring = np.array(random if history is None else history, dtype=float)
    q = np.array(random_queue if queue is None else queue, dtype=float)
    if ring.shape != (n + 1, m) or q.shape != (m,) or not np.all(q >= 0.0):
        raise ValueError(f"history and queue must have shapes ({n + 1}, {m}) and ({m},), queue >= 0")
    scale, peak, since = np.zeros(m), np.zeros(m), np.zeros(m)
    periods = np.full((2, 2, m), np.nan)  # first and last busy period: its start, log of its peak
    norms = np.zeros((2, m))
    x, r = ring[0].copy(), ring[n].copy()
    total = n * int(np.ceil(span))
    with np.errstate(all="ignore"):
        for k in range(total):
            previous, x = x, ring[(k + 1) % (n + 1)].copy()
            free = q + 0.5 * h * (previous + x)
            rises = (previous < 0.0) & (x > 0.0)
            full = np.where(rises, 0.5 * h * x * x / (x - previous), np.where(x <= 0.0, 0.0, -inf))
            begins = rises & (full >= free)
            if begins.any():  # the previous busy period has ended
                if k > 0.4 * total:
                    ended = begins & (peak > 0.0)
                    note = np.stack([since, np.log(peak) + scale])
                    periods[0] = np.where(ended & np.isnan(periods[0]), note, periods[0])
                    periods[1] = np.where(ended, note, periods[1])
                since = np.where(begins, (k - previous / (x - previous)) * h, since)
                peak = np.where(begins, 0.0, peak)
            next_queue = np.maximum(free, full)
            r = r - h * (0.5 * a * (previous + x) + 0.5 * b * (q + next_queue))
            q = next_queue
            peak = np.maximum(peak, q)
            ring[k % (n + 1)] = r
            if (k + 1) % n == 0:
                size = np.sqrt(np.mean(ring * ring, axis=0) + q * q)
                norms[int(k >= total // 2 + n)] = np.log(size) + scale
                scale += np.log(size)
                ring, q, r, x, peak = ring / size, q / size, r / size, x / size, peak / size
        half = (total - 1) // n * n + n - (total // 2 // n * n + n)
        by_norm = (norms[1] - norms[0]) / (half * h)
        by_peak = (periods[1, 1] - periods[0, 1]) / (periods[1, 0] - periods[0, 0])
    growth: Real = np.where(np.isfinite(by_peak), by_peak, by_norm)
    return growth


@check_arguments
def empty_queue_boundary(alpha: ArrayLike, steps: Positive = 40, span: float = 400.0, seed: Seed = 0) -> Real:
    """Return the beta above which motions of the switched loop with equal RTTs grow.

    Parameters
    ----------
    alpha : array_like, shape (m,), > 0
        Gains alpha.
    steps, span, seed
        As for `empty_queue_growth`; steps is even.

    Returns
    -------
    ndarray, shape (m,)
        Boundary; inf if no beta is too large (alpha <= 1/e), 0 for alpha >= pi/2.

    Raises
    ------
    ValueError
        A gain is not > 0, steps is odd, or no motion grows within the span, for any beta.

    Notes
    -----
    Numerical evidence, above the proven `empty_queue_bound`: bisection between that bound and a beta with growth, from
    random histories, then linear, and extrapolated from steps/2 and steps (about 1e-4 of the value).
    Cost: 1.6 s for four values of alpha.

    Examples
    --------
    >>> empty_queue_boundary([0.36, 1.0]).round(3).tolist()
    [inf, 0.951]
    """
    if steps % 2:
        raise ValueError(f"steps must be even, got {steps}")
    a = np.atleast_1d(np.asarray(alpha, dtype=float))
    boundary = np.where(a < pi / 2.0, inf, 0.0)
    bounds = np.array([empty_queue_bound(value) for value in a.tolist()])
    busy = np.isfinite(bounds) & (a < pi / 2.0)
    if not busy.any():
        return boundary
    at, low, high = a[busy], bounds[busy], 2.0 * bounds[busy]
    half = steps // 2
    while np.any(decays := ~(empty_queue_growth(at, high, half, span, seed) > 0.0)):
        if np.any(unbounded := high > 1e6 * bounds[busy]):
            raise ValueError(
                f"span must be longer at alpha = {at[unbounded][0]:g}, got {span:g} RTTs, in which no motion grows"
            )
        low, high = np.where(decays, high, low), np.where(decays, 2.0 * high, high)
    while np.any(high > 1.01 * low):
        middle = np.sqrt(low * high)
        grows = empty_queue_growth(at, middle, half, span, seed) > 0.0
        low, high = np.where(grows, low, middle), np.where(grows, middle, high)
    values = []
    for n in (half, steps):
        below, above = (empty_queue_growth(at, beta, n, span, seed) for beta in (low, high))
        values.append(low - below * (high - low) / (above - below))
    boundary[busy] = (4.0 * values[1] - values[0]) / 3.0
    return boundary
