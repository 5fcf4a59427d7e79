"""The history of an integration: its arrays, the lags looked up in them, and a step of Dormand-Prince 5(4).

Interpolants are quartic, of order 4 with error O(h^5), which preserves order 5 of the method (Shampine 1986; the free
interpolant of SciPy's RK45). Neutral equations need the derivative with the same accuracy. It is the quartic through
the derivative at five points of a step, three of them computed at the interpolant. (The derivative of the interpolant
would have an error of O(h^4).)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ecc.fluid.compiled import call, compiled, pointer_at, shifted, unpacker

__all__ = [
    "Fields",
    "attempt",
    "curve_at",
    "defect",
    "derive",
    "draw",
    "draw_slopes",
    "fields_at",
    "look",
    "norm",
    "segment_at",
    "slope_at",
    "unpack",
    "value_at",
]

# status of `stepper.advance`
DONE, PAUSED, FULL, LOCATED = 0, 1, 2, 3
TOO_SMALL, NOT_FINITE, FAILED, BAD_DELAY, CHATTER, UNSETTLED = -1, -2, -3, -4, -5, -6
NO_CONTINUATION, PASSING, SLIDING, DIVERGING, NO_MEMORY = -7, -8, -9, -10, -11

AT_UPPER, AT_EITHER = 1, 2  # values of Fields.stopping

# indices in Fields.clock
(
    START,
    NOW,
    END,
    STEP,
    MAX_STEP,
    REACH,
    OLDEST,
    RELATIVE,
    FAILED_AT,
    CONTRACTION,
    SLIDING_STEP,
    SLIDING_UNTIL,
    FACTORED,
    PREVIOUS,
    SUSPECTED_UNTIL,
    NONSMOOTH_UNTIL,
    MIN_DELAY,
    AT_POINT,
) = range(18)
CLOCKS = 18
# indices in Fields.count: addresses of C functions of `compiled.SIGNATURE` (0: none)
DERIVATIVE, DELAY_OF, HISTORY, HISTORY_SLOPE = range(4)
# indices in Fields.count: sizes
(
    SIZE,
    STORED,
    DELAYS,
    BOUNDED,
    MEASURED,
    BREAKS,
    SAMPLES,
    PEAKED,
    WATCHED,
    CAPACITY,
    HINTS,
    LARGEST,
    KEEP,
    NEUTRAL,
    IMPLICIT,
) = range(4, 19)
# indices in Fields.count: counters
(
    SEGMENTS,
    USABLE,
    POINTS,
    BREAK,
    SAMPLE,
    CALLS,
    STEPS,
    REJECTED,
    FRESH,
    INSIDE,
    EVENTS,
    COMPONENT,
    ITERATIONS,
    SLIDING_STEPS,
    FAILING,
    LINEARIZED,
    LINEARIZATIONS,
    FACTORIZATIONS,
    ROUGH,
) = range(19, 38)
COUNTS = 38


class Fields(NamedTuple):
    """The arrays of an integration (pointers, in compiled code): the problem and its state."""

    clock: Any  # scalars, see above
    numbers: Any  # passed to the functions
    past: Any  # (n,): the history, if it is constant
    lower: Any  # (n,)
    upper: Any  # (n,)
    absolute: Any  # (n,): absolute tolerance
    breaks: Any  # increasing
    samples: Any  # increasing: times at which y is written out
    y: Any  # (n,)
    rates: Any  # (7, n): the stages; neutral (10, n): then the derivative at three points of the step
    stage: Any  # (n,): argument of a stage
    trial: Any  # (n,): end of the trial step
    last: Any  # (n,): `trial` of the previous iteration; y at which a function failed
    raw: Any  # (n,): derivative before components were held
    ends: Any  # (n,): `raw` at the end of the trial step
    lag: Any  # (n_lags,); neutral (2, n_lags): then the derivatives there
    delays: Any  # (n_delays,)
    points: Any  # breaking points that delays may pass
    at: Any  # (1,)
    begun: Any  # (capacity,): start of a segment
    width: Any  # (capacity,)
    curve: Any  # (capacity, n_stored, 5): coefficients in (t - begun)/width; neutral: of y, then of its derivative
    sums: Any  # (n - n_stored, 5): coefficients of components without stored history, last segment only
    peak: Any  # (n_peaked,): largest values since the last sample
    sampled: Any  # (n_samples, n)
    peaks: Any  # (n_samples, n_peaked)
    seen: Any  # (n_samples, n_watched)
    above_y: Any  # (3, n): implicit: stages of the trial step, minus y
    residual: Any  # (3, n): implicit: residual of the stage equations; then the error
    jacobian: Any  # (3, n, 3, n): implicit: derivative of the rate at each stage by each stage
    newton: Any  # (3, n, 3, n): implicit: triangular factors of the matrix of the iteration
    filter: Any  # (n, n): implicit: triangular factors of the matrix that filters errors
    count: Any  # integer scalars, see above
    indices: Any  # passed to the functions
    first: Any  # (n_delays + 1,): the lags of delay k are those from first[k] to first[k + 1]
    component: Any  # (n_lags,): component of each lag
    bounded: Any  # components with a bound
    stopping: Any  # (n,): AT_UPPER, AT_EITHER: reaching the upper bound, or either bound, returns LOCATED; 0: neither
    measured: Any  # components under error control
    peaked: Any  # components with their largest value between samples written out
    watched: Any  # numbers written out with each sample, as the derivative left them
    held: Any  # (n,): -1 or 1 at a bound
    order: Any  # order of the derivative that jumps in each of `points`
    below: Any  # (n_delays,): index of the next of `points` below the time that a delay refers to, -1 for none
    above: Any  # (n_delays,): index of the next of `points` above that time, -1 for none
    pivots: Any  # (4, n): implicit: pivots of `newton`, then of `filter`
    hint: Any  # (n_hints,): segment found by the last search for a delay, or for a function that looks back by itself


_WHOLE = Fields._fields.index("count")
unpack = unpacker("f" * _WHOLE + "i" * (len(Fields._fields) - _WHOLE))


# Dormand & Prince (1980); error weights and interpolant as in SciPy's RK45
_A = np.array(
    [
        [0, 0, 0, 0, 0, 0],
        [1 / 5, 0, 0, 0, 0, 0],
        [3 / 40, 9 / 40, 0, 0, 0, 0],
        [44 / 45, -56 / 15, 32 / 9, 0, 0, 0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    ]
)
_C = np.array([0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
_E = np.array([-71 / 57600, 0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40])
_P = np.array(
    [
        [1, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432],
        [0, 0, 0, 0],
        [0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799],
        [0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072],
        [0, 127303824393 / 49829197408, -318862633887 / 49829197408, 701980252875 / 199316789632],
        [0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844],
        [0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423],
    ]
)
# coefficients of the quartic through values at 0, 1/4, 1/2, 3/4, 1
_QUARTIC = np.array(
    [
        [1, -25 / 3, 70 / 3, -80 / 3, 32 / 3],
        [0, 16, -208 / 3, 96, -128 / 3],
        [0, -12, 76, -128, 64],
        [0, 16 / 3, -112 / 3, 224 / 3, -128 / 3],
        [0, -1, 22 / 3, -16, 32 / 3],
    ]
)

EPS = 2.220446049250313e-16
_ITERATIONS = 10
MAX_POINTS = 1000
_POINTS = np.array([0.1, 0.5, 0.95])  # at one of them the defect of a jump or kink exceeds 1.5 times its error
_TRUSTED, _SUSPECTED = 10.0, 5.0  # tolerances: maximum defect of a step, and of a step that may contain a jump or kink
_RESIDUE = 0.1  # tolerances: maximum remaining change of an iteration inside a step
_MAX_CHANGE = 10.0  # tolerances: maximum change by an iteration that is not repeated


@compiled
def _coefficients(w: Any, j: int, i: int) -> Any:
    """Return a pointer to the coefficients of component i in segment j."""
    stored = w.count[STORED]
    return shifted(w.curve, (j * stored + i) * 5) if i < stored else shifted(w.sums, (i - stored) * 5)


@compiled
def curve_at(w: Any, j: int, i: int, theta: float) -> Any:
    c = _coefficients(w, j, i)
    return c[0] + theta * (c[1] + theta * (c[2] + theta * (c[3] + theta * c[4])))


@compiled
def _incline(w: Any, j: int, i: int, theta: float) -> Any:
    """Return the derivative of `curve_at` in theta."""
    c = _coefficients(w, j, i)
    return c[1] + theta * (2.0 * c[2] + theta * (3.0 * c[3] + theta * 4.0 * c[4]))


@compiled
def fields_at(address: int) -> Any:
    """Return the fields of an integration, for functions that look back by themselves.

    Parameters
    ----------
    address : int
        Address of the table of addresses.
    """
    return Fields(*unpack(pointer_at(address)))


@compiled
def segment_at(w: Any, s: float, slot: int) -> Any:
    """Return the usable segment that contains s, and store it as the hint of a slot.

    Parameters
    ----------
    w : Fields
    s : float
        Time.
    slot : int
        Place in w.hint.
    """
    segments = w.count[USABLE]
    j = min(w.hint[slot], segments - 1)
    while j > 0 and s < w.begun[j]:
        j -= 1
    while j + 1 < segments and s >= w.begun[j + 1]:
        j += 1
    w.hint[slot] = j
    return j


@compiled
def value_at(w: Any, y: Any, i: int, s: float, slot: int) -> Any:
    """Return component i at time s, with a constant history, for a function called at (w.at[0], y).

    Parameters
    ----------
    w : Fields
    y : object
        Present state.
    i : int
        Component.
    s : float
        Time.
    slot : int
        Place in w.hint.
    """
    if s >= w.at[0]:
        return y[i]
    if s <= w.clock[START]:
        return w.past[i]
    w.clock[OLDEST] = min(w.clock[OLDEST], s)
    if s > w.clock[NOW]:
        w.count[INSIDE] = 1
        if w.count[USABLE] == 0:
            return w.y[i] + (s - w.clock[NOW]) * w.rates[i]
    j = segment_at(w, s, slot)
    return curve_at(w, j, i, (s - w.begun[j]) / w.width[j])


@compiled
def slope_at(w: Any, i: int, s: float, slot: int) -> Any:
    """Return the derivative of component i at time s, 0 before the start.

    Parameters
    ----------
    w : Fields
    i : int
        Component.
    s : float
        Time.
    slot : int
        Place in w.hint.
    """
    if s <= w.clock[START]:
        return 0.0
    if s > w.clock[NOW]:
        w.count[INSIDE] = 1
        if w.count[USABLE] == 0:
            return w.rates[i]
    j = segment_at(w, s, slot)
    return _incline(w, j, i, (s - w.begun[j]) / w.width[j]) / w.width[j]


@compiled
def _failed(w: Any, which: int, y: Any) -> Any:
    """Record that a function failed, with its time and state, and return the status FAILED."""
    w.clock[FAILED_AT] = w.at[0]
    w.count[FAILING] = which
    for i in range(w.count[SIZE]):
        w.last[i] = y[i]
    return FAILED


@compiled
def look(w: Any, t: float, y: Any) -> Any:
    """Write the delays at (t, y) that are not constant; return 0 or a status."""
    w.at[0] = t
    if call(w.count[DELAY_OF], (w.at, y, w.lag, w.delays, w.numbers, w.indices, w.held)) != 0:
        return _failed(w, DELAY_OF, y)
    rounding = min(100.0 * w.clock[RELATIVE], 0.01) * (t - w.clock[START]) + 4.0 * EPS * abs(t)
    for k in range(w.count[DELAYS]):
        if -rounding <= w.delays[k] < 0.0:
            w.delays[k] = 0.0
        if not (w.delays[k] >= 0.0 and w.delays[k] < np.inf):
            w.count[COMPONENT] = k
            return BAD_DELAY
    return 0


@compiled
def _read_history(w: Any, s: float, k: int, y: Any) -> Any:
    """Fill the lags of delay k from the history at s; return 0 or a status."""
    a, b, slopes = w.first[k], w.first[k + 1], w.first[w.count[DELAYS]]
    t = w.at[0]
    w.at[0] = s
    for i in range(a, b):
        w.lag[i] = w.past[w.component[i]]
    if w.count[HISTORY] != 0:
        if call(w.count[HISTORY], (w.at, y, w.lag, w.raw, w.numbers, w.indices, w.held)) != 0:
            return _failed(w, HISTORY, y)
        for i in range(a, b):
            w.lag[i] = w.raw[w.component[i]]
    if w.count[NEUTRAL] != 0:
        for i in range(a, b):
            w.lag[slopes + i] = 0.0
        if w.count[HISTORY_SLOPE] != 0:
            if call(w.count[HISTORY_SLOPE], (w.at, y, w.lag, w.raw, w.numbers, w.indices, w.held)) != 0:
                return _failed(w, HISTORY_SLOPE, y)
            for i in range(a, b):
                w.lag[slopes + i] = w.raw[w.component[i]]
    w.at[0] = t
    return 0


@compiled
def _look_back_by(w: Any, k: int, t: float, y: Any, segments: int) -> Any:
    """Fill the lags of delay k at t from the first `segments` segments; return 0 or a status."""
    a, b, slopes = w.first[k], w.first[k + 1], w.first[w.count[DELAYS]]
    n, now, neutral = w.count[SIZE], w.clock[NOW], w.count[NEUTRAL] != 0
    if w.delays[k] == 0.0 and not neutral:
        for i in range(a, b):
            w.lag[i] = y[w.component[i]]
        return 0
    s = t - w.delays[k]
    if w.count[DELAY_OF] != 0:  # stay on the present side of the breaking points
        if w.below[k] >= 0:
            edge = w.points[w.below[k]]
            s = max(s, edge + 4.0 * EPS * max(abs(edge), w.clock[REACH]))
        if w.above[k] >= 0:
            edge = w.points[w.above[k]]
            s = min(s, edge - 4.0 * EPS * max(abs(edge), w.clock[REACH]))
    if s <= w.clock[START] and w.delays[k] > 0.0:
        return _read_history(w, s, k, y)
    if s > now:
        w.count[INSIDE] = 1
    if s > now and segments == 0:
        for i in range(a, b):
            c = w.component[i]
            w.lag[i] = w.y[c] + (s - now) * w.rates[c]
    else:
        j = segment_at(w, s, k)
        theta = (s - w.begun[j]) / w.width[j]
        for i in range(a, b):
            w.lag[i] = curve_at(w, j, w.component[i], theta)
    if neutral:
        known = s <= now or segments > w.count[SEGMENTS]
        for i in range(a, b):
            c = w.component[i]
            w.lag[slopes + i] = curve_at(w, j, n + c, theta) if known else w.rates[c]
            if w.delays[k] == 0.0:
                w.lag[i] = y[c]
    return 0


@compiled
def _look_back(w: Any, t: float, y: Any, segments: int) -> Any:
    """Fill the lags at t from the first `segments` segments; return 0 or a status."""
    start, now, last = w.clock[START], w.clock[NOW], segments - 1
    w.at[0] = t
    w.count[USABLE] = segments
    if w.count[DELAY_OF] != 0:
        status = look(w, t, y)
        if status != 0:
            return status
    # nearly all lags have constant delays and fall into known segments: these are looked up here, consecutive lags in
    # the same segment together
    delays = w.count[DELAYS]
    together = segments > 0 and w.count[DELAY_OF] == 0 and w.count[NEUTRAL] == 0
    until = t if together else -np.inf
    if together and t - w.clock[MIN_DELAY] > now:
        w.count[INSIDE] = 1
    k = 0
    while k < delays:
        s = t - w.delays[k]
        if not start < s < until:
            status = _look_back_by(w, k, t, y, segments)
            if status != 0:
                return status
            k += 1
            continue
        j = segment_at(w, s, k)
        begun, scale = w.begun[j], 1.0 / w.width[j]
        ended = min(w.begun[j + 1] if j < last else np.inf, until)
        begin = k
        shortest, longest = t - ended, t - max(begun, start)
        k += 1
        while k < delays and shortest < w.delays[k] < longest:
            w.hint[k] = j
            k += 1
        _read(w, j, begin, k, t - begun, scale)
    return 0


@compiled
def _read(w: Any, j: int, begin: int, end: int, t: float, scale: float) -> None:
    """Fill the lags of some delays that fall into segment j, at time t after its start."""
    first, stored = w.first[begin], w.count[STORED]
    if stored == 1 and w.first[end] - first == end - begin:
        c = shifted(w.curve, 5 * j)
        c0, c1, c2, c3, c4 = c[0], c[1], c[2], c[3], c[4]  # read once, so that the loop is vectorized
        for k in range(end - begin):
            theta = (t - w.delays[begin + k]) * scale
            w.lag[first + k] = c0 + theta * (c1 + theta * (c2 + theta * (c3 + theta * c4)))
        return
    for k in range(begin, end):
        theta = (t - w.delays[k]) * scale
        for i in range(w.first[k], w.first[k + 1]):
            c = shifted(w.curve, (j * stored + w.component[i]) * 5)
            w.lag[i] = c[0] + theta * (c[1] + theta * (c[2] + theta * (c[3] + theta * c[4])))


@compiled
def derive(w: Any, t: float, y: Any, out: Any, segments: int) -> Any:
    """Write the derivative at (t, y), held components fixed; return 0 or a status."""
    status = _look_back(w, t, y, segments)
    if status != 0:
        return status
    code = call(w.count[DERIVATIVE], (w.at, y, w.lag, out, w.numbers, w.indices, w.held))
    w.count[CALLS] += 1
    if code != 0:
        return _failed(w, DERIVATIVE, y)
    for b in range(w.count[BOUNDED]):
        i = w.bounded[b]
        w.raw[i] = out[i]
        if w.held[i] != 0:
            out[i] = 0.0
    return 0


@compiled
def draw(w: Any, j: int, t: float, h: float, last: int) -> None:
    """Write the interpolant of the stages as segment j, for components before `last`."""
    n = w.count[SIZE]
    w.begun[j] = t
    w.width[j] = h
    for i in range(last):
        c = _coefficients(w, j, i)
        c[0] = w.y[i]
        c[1] = h * w.rates[i]
        for m in range(1, 4):
            total = w.rates[i] * _P[0, m]
            for s in range(2, 7):  # the second stage has no weight
                total += w.rates[s * n + i] * _P[s, m]
            c[m + 1] = h * total


@compiled
def draw_slopes(w: Any, j: int, anew: bool) -> Any:
    """Write the derivative along segment j, the trial step; return (status, error norm of the interpolant's slope).

    The derivative may depend on itself: then it reads the previous one or, if `anew`, that of the interpolant.
    """
    n, t, h = w.count[SIZE], w.begun[j], w.width[j]
    if anew:
        for i in range(n):
            curve, slope = (2 * j * n + i) * 5, ((2 * j + 1) * n + i) * 5
            for m in range(4):
                w.curve[slope + m] = (m + 1) / h * w.curve[curve + m + 1]
            w.curve[slope + 4] = 0.0
    for point in range(1, 4):
        for i in range(n):
            w.stage[i] = curve_at(w, j, i, 0.25 * point)
        status = derive(w, t + 0.25 * point * h, w.stage, shifted(w.rates, (6 + point) * n), j + 1)
        if status != 0:
            return status, np.inf
    for i in range(n):
        for m in range(5):
            total = w.rates[i] * _QUARTIC[0, m] + w.rates[6 * n + i] * _QUARTIC[4, m]
            for point in range(1, 4):
                total += w.rates[(6 + point) * n + i] * _QUARTIC[point, m]
            w.curve[((2 * j + 1) * n + i) * 5 + m] = total
        w.stage[i] = 0.0
        for point in range(1, 4):
            off = h * w.rates[(6 + point) * n + i] - _incline(w, j, i, 0.25 * point)
            w.stage[i] = max(w.stage[i], abs(off))
    return 0, norm(w, w.y, w.trial, w.stage)


@compiled
def defect(w: Any, j: int, suspected: bool) -> Any:
    """Return (status, norm of the defect of segment j, the trial step, in units of its limit).

    The defect is h f - h u' of the interpolant u, and of the order of the error if f is smooth. The error estimate may
    miss a jump or kink inside a step, because no stage lies between 0.3 and 0.8. If the defect at 0.2 is checked as
    well, a step that passes both checks in a quadrature has an error of not more than 28 tolerances. Usually the second
    stage, also at 0.2, is close enough to save that evaluation.
    """
    if suspected:
        status, worst = 0, 0.0
        for point in range(len(_POINTS)):
            if status == 0:
                status, at_point = _defect_at(w, j, _POINTS[point], True)
                worst = max(worst, at_point)
        return status, worst / _SUSPECTED
    _, off = _defect_at(w, j, _C[1], False)
    if off <= _TRUSTED:
        return 0, 0.0
    status, off = _defect_at(w, j, _C[1], True)
    return status, off / _TRUSTED


@compiled
def _defect_at(w: Any, j: int, theta: float, anew: bool) -> Any:
    """Return (status, defect at a point of the step in units of the tolerance); if not `anew`, of the second stage."""
    n, h = w.count[SIZE], w.width[j]
    slope = shifted(w.rates, n)
    status = 0
    if anew:
        for i in range(n):
            w.stage[i] = curve_at(w, j, i, theta)
        status = derive(w, w.begun[j] + theta * h, w.stage, slope, j + 1)
    for i in range(n):
        w.stage[i] = h * slope[i] - _incline(w, j, i, theta)
    return status, norm(w, w.y, w.trial, w.stage)


@compiled
def norm(w: Any, a: Any, b: Any, error: Any) -> Any:
    """Return the root mean square of the error, or its largest component, in units of the tolerance."""
    total, largest = 0.0, 0.0
    for m in range(w.count[MEASURED]):
        i = w.measured[m]
        ratio = error[i] / (w.absolute[i] + w.clock[RELATIVE] * max(abs(a[i]), abs(b[i])))
        total += ratio * ratio
        if not abs(ratio) <= largest:
            largest = abs(ratio)
    if w.count[LARGEST] != 0:
        return largest
    return np.sqrt(total / max(1, w.count[MEASURED]))


@compiled
def _stages(w: Any, h: float, begin: int, segments: int, tiny: float) -> Any:
    """Compute the stages of a step of h from `begin`, its end in `trial`; return (status, first with lags inside)."""
    now = w.clock[NOW]
    latest = now + h - tiny
    n = w.count[SIZE]
    first = 7
    for s in range(begin, 7):
        y = w.trial if s == 6 else w.stage
        for i in range(n):
            total = 0.0
            for m in range(s):
                total += _A[s, m] * w.rates[m * n + i]
            y[i] = w.y[i] + h * total
        status = derive(w, min(now + _C[s] * h, latest), y, shifted(w.rates, s * n), segments)
        if status != 0:
            return status, first
        if w.count[INSIDE] != 0:
            first = min(first, s)
    return 0, first


@compiled
def attempt(w: Any, h: float, tiny: float) -> Any:
    """Try a step of h, and write its segment after the last one; return (status, error norm)."""
    j, n = w.count[SEGMENTS], w.count[SIZE]
    w.count[INSIDE] = 0
    w.clock[OLDEST] = np.inf
    status, first = _stages(w, h, 1, j, tiny)
    if status != 0:
        return status, np.inf
    turn, change = 0, 0.0
    while w.count[INSIDE] != 0:
        turn += 1
        for i in range(n):
            w.last[i] = w.trial[i]
        draw(w, j, w.clock[NOW], h, min(n, w.count[STORED]))
        if w.count[NEUTRAL] != 0:
            status, _ = draw_slopes(w, j, turn == 1)
            if status != 0:
                return status, np.inf
        status, _ = _stages(w, h, first, j + 1, tiny)  # earlier stages do not change
        if status != 0:
            return status, np.inf
        w.count[ITERATIONS] += 1
        for i in range(n):
            w.stage[i] = w.trial[i] - w.last[i]
        previous, change = change, norm(w, w.y, w.trial, w.stage)
        if turn > 1:
            w.clock[CONTRACTION] = change / previous
        rate = w.clock[CONTRACTION]
        if turn == 1:  # a rate of an earlier step, which may be zero, does not hold for a jump inside this one
            rate = max(rate, _RESIDUE / _MAX_CHANGE)
        remaining, max_iterations = _RESIDUE, _ITERATIONS
        if w.count[NEUTRAL] != 0:  # the remaining change returns undamped
            remaining, max_iterations = 9e-3 * _RESIDUE, 3 * _ITERATIONS
        if change * rate <= remaining * (1.0 - rate) or change <= 3e-4 * _RESIDUE:
            break
        if turn == max_iterations or not change < 1e6 or (turn > 2 and rate >= 1.0):
            return 0, np.inf
    for i in range(n):
        total = 0.0
        for s in range(7):
            total += _E[s] * w.rates[s * n + i]
        w.stage[i] = h * total
    return 0, norm(w, w.y, w.trial, w.stage)
