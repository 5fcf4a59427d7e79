"""The compiled integrator of delay differential equations: Dormand-Prince 5(4) on a history of its own interpolants.

`advance` takes steps until it has to ask: its arrays are the whole state of an integration, so that slices never
change the result. A step

- ends exactly on the next break (a point where some derivative jumps) and looks at neither side of it from the other;
- may be longer than a delay: lags inside the step are read from the interpolant of the step itself, by iteration;
- reads a delay that is not constant from one side of the breaking points, and is shortened to end where it passes one;
- keeps components inside their bounds: one that reaches a bound is held there while its derivative points outward, and
  the step is shortened to end where a component is caught or released;
- may slide: where the derivative switches to and fro without end (a flow between two bottlenecks), steps no longer than
  `SLIDE` are taken whatever their error, and counted.

Interpolants are quartic, of order 4 with error O(h^5), which keeps order 5 for the whole (Shampine 1986; the free
interpolant of SciPy's RK45). Neutral equations need the derivative as exactly: it is the quartic through its values at
five places of a step, of which three are computed at the interpolant, where the derivative of the interpolant itself
would be off by O(h^4).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ecc.fluid.compiled import call, compiled, entry, pointer_at, shifted, unpacker

__all__ = ["Fields", "advance", "fields_at", "segment_at", "slope_at", "value_at"]

# status of `advance`
DONE, PAUSED, FULL, CAUGHT = 0, 1, 2, 3
TOO_SMALL, NOT_FINITE, FAILED, BAD_DELAY, CHATTER, UNSETTLED = -1, -2, -3, -4, -5, -6

# places in Fields.clock
START, NOW, END, STEP, MAX_STEP, REACH, OLDEST, RELATIVE, FAILED_AT, CONTRACTION, SLIDE, SLIDES_UNTIL = range(12)
CLOCKS = 12
# places in Fields.count: addresses of C functions of `compiled.SIGNATURE` (0: none) ...
DERIVATIVE, DELAY_OF, HISTORY, HISTORY_SLOPE = range(4)
# ... sizes ...
(
    SIZE, STORED, DELAYS, BOUNDED, MEASURED, BREAKS, SAMPLES, PEAKED, WATCHED, CAPACITY, HINTS, LARGEST, KEEP,
    NEUTRAL,
) = range(4, 18)  # fmt: skip
# ... and counters
(
    SEGMENTS, USABLE, POINTS, BREAK, SAMPLE, CALLS, STEPS, REJECTED, FRESH, INSIDE, EVENTS, COMPONENT, ITERATIONS,
    SLID, FAILING,
) = range(18, 33)  # fmt: skip
COUNTS = 33


class Fields(NamedTuple):
    """The arrays of an integration (pointers, in compiled code): what is integrated, and its state."""

    clock: Any  # scalars, see above
    numbers: Any  # handed to the functions
    past: Any  # (n,): the history, where it is constant
    lower: Any  # (n,)
    upper: Any  # (n,)
    absolute: Any  # (n,): absolute tolerance
    breaks: Any  # increasing
    samples: Any  # increasing: times at which y is written out
    y: Any  # (n,)
    rates: Any  # (7, n): the stages; neutral (10, n): then the derivative at three places of the step
    stage: Any  # (n,): argument of a stage
    trial: Any  # (n,): end of the step that is tried
    last: Any  # (n,): `trial` of the iteration before; y where a function failed
    raw: Any  # (n,): derivative before components were held
    ends: Any  # (n,): `raw` at the end of the trial step
    lag: Any  # (n_lags,); neutral (2, n_lags): then the derivatives there
    delays: Any  # (n_delays,)
    points: Any  # breaking points that such delays pass
    at: Any  # (1,)
    begun: Any  # (capacity,): where a segment begins
    width: Any  # (capacity,)
    curve: Any  # (capacity, n_stored, 5): coefficients in (t - begun)/width; neutral: of y, then of its derivative
    sums: Any  # (n - n_stored, 5): the same for components that nothing looks back to, last segment only
    peak: Any  # (n_peaked,): largest values since the last sample
    sampled: Any  # (n_samples, n)
    peaks: Any  # (n_samples, n_peaked)
    seen: Any  # (n_samples, n_watched)
    count: Any  # whole scalars, see above
    indices: Any  # handed to the functions
    first: Any  # (n_delays + 1,): the lags of delay k are those from first[k] to first[k + 1]
    component: Any  # (n_lags,): component that a lag is of
    bounded: Any  # components with a bound
    stopping: Any  # (n,): 1 where reaching the upper bound returns CAUGHT
    measured: Any  # components under error control
    peaked: Any  # components whose largest value between samples is written out
    watched: Any  # numbers written out with each sample, as the derivative left them
    held: Any  # (n,): -1 or 1 at a bound
    order: Any  # of the derivative that jumps in each of `points`
    below: Any  # (n_delays,): which of `points` is the next one below where such a delay looks to, -1 for none
    above: Any  # (n_delays,)
    hint: Any  # (n_hints,): segment where a delay, or a function that looks back by itself, was last


_WHOLE = Fields._fields.index("count")
_unpack = unpacker("f" * _WHOLE + "i" * (len(Fields._fields) - _WHOLE))


# Dormand & Prince (1980); error weights and interpolant as in SciPy's RK45
_A = np.array([
    [0, 0, 0, 0, 0, 0],
    [1 / 5, 0, 0, 0, 0, 0],
    [3 / 40, 9 / 40, 0, 0, 0, 0],
    [44 / 45, -56 / 15, 32 / 9, 0, 0, 0],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
])  # fmt: skip
_C = np.array([0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
_E = np.array([-71 / 57600, 0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40])
_P = np.array([
    [1, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432],
    [0, 0, 0, 0],
    [0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799],
    [0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072],
    [0, 127303824393 / 49829197408, -318862633887 / 49829197408, 701980252875 / 199316789632],
    [0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844],
    [0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423],
])  # fmt: skip
# coefficients of the quartic through values at 0, 1/4, 1/2, 3/4, 1
_QUARTIC = np.array([
    [1, -25 / 3, 70 / 3, -80 / 3, 32 / 3],
    [0, 16, -208 / 3, 96, -128 / 3],
    [0, -12, 76, -128, 64],
    [0, 16 / 3, -112 / 3, 224 / 3, -128 / 3],
    [0, -1, 22 / 3, -16, 32 / 3],
])  # fmt: skip

_EPS = 2.220446049250313e-16
_SAFETY, _SHRINK, _GROW = 0.9, 0.2, 10.0
_ITERATIONS = 10
_SETTLING = 200  # iterations of a derivative that depends on itself
_PARTS = 8  # of a segment, in the search for its peak
_ORDERS = 6  # derivatives whose jumps matter
MOST_POINTS = 1000
_SLIDING = 1e4  # steps that are taken in spite of their error, once one had to be
_CONTRACTED = 3e-2  # of the tolerance: what may be left of an iteration inside a step


@compiled
def _value(w: Any, j: int, i: int, theta: float) -> Any:
    stored = w.count[STORED]
    if i < stored:
        k = (j * stored + i) * 5
        c = w.curve
    else:
        k = (i - stored) * 5
        c = w.sums
    return c[k] + theta * (c[k + 1] + theta * (c[k + 2] + theta * (c[k + 3] + theta * c[k + 4])))


@compiled
def _incline(w: Any, j: int, i: int, theta: float) -> Any:
    """Derivative of `_value` in theta, of a component that is stored."""
    k = (j * w.count[STORED] + i) * 5
    c = w.curve
    return c[k + 1] + theta * (2.0 * c[k + 2] + theta * (3.0 * c[k + 3] + theta * 4.0 * c[k + 4]))


@compiled
def fields_at(address: int) -> Any:
    """Return the fields of an integration, for functions that look back by themselves.

    Parameters
        address : of the table of addresses.
    """
    return Fields(*_unpack(pointer_at(address)))


@compiled
def segment_at(w: Any, s: float, slot: int) -> Any:
    """Return the usable segment in which s lies, noting it as the hint of a slot.

    Parameters
        w : Fields. s : time. slot : place in w.hint.
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
        w : Fields. y : state now. i : component. s : time. slot : place in w.hint.
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
    return _value(w, j, i, (s - w.begun[j]) / w.width[j])


@compiled
def slope_at(w: Any, i: int, s: float, slot: int) -> Any:
    """Return the derivative of component i at time s, 0 before the start.

    Parameters
        w : Fields. i : component. s : time. slot : place in w.hint.
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
    """Note that a function failed, when and where, and return the status of that."""
    w.clock[FAILED_AT] = w.at[0]
    w.count[FAILING] = which
    for i in range(w.count[SIZE]):
        w.last[i] = y[i]
    return FAILED


@compiled
def _look(w: Any, t: float, y: Any) -> Any:
    """Write the delays at (t, y) that are not constant; 0 or a status."""
    w.at[0] = t
    if call(w.count[DELAY_OF], (w.at, y, w.lag, w.delays, w.numbers, w.indices, w.held)) != 0:
        return _failed(w, DELAY_OF, y)
    rounding = min(100.0 * w.clock[RELATIVE], 0.01) * (t - w.clock[START]) + 4.0 * _EPS * abs(t)
    for k in range(w.count[DELAYS]):
        if -rounding <= w.delays[k] < 0.0:
            w.delays[k] = 0.0
        if not (w.delays[k] >= 0.0 and w.delays[k] < np.inf):
            w.count[COMPONENT] = k
            return BAD_DELAY
    return 0


@compiled
def _remember(w: Any, s: float, k: int, y: Any) -> Any:
    """Fill the lags of delay k from the history at s; 0 or a status."""
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
def _look_back(w: Any, t: float, y: Any, segments: int) -> Any:
    """Fill the lags at t from the first `segments` segments; 0 or a status."""
    start, now = w.clock[START], w.clock[NOW]
    n, slopes = w.count[SIZE], w.first[w.count[DELAYS]]
    w.at[0] = t
    w.count[USABLE] = segments
    if w.count[DELAY_OF] != 0:
        status = _look(w, t, y)
        if status != 0:
            return status
    for k in range(w.count[DELAYS]):
        a, b = w.first[k], w.first[k + 1]
        if w.delays[k] == 0.0 and w.count[NEUTRAL] == 0:
            for i in range(a, b):
                w.lag[i] = y[w.component[i]]
            continue
        s = t - w.delays[k]
        if w.count[DELAY_OF] != 0:  # on its side of the breaking points
            if w.below[k] >= 0:
                edge = w.points[w.below[k]]
                s = max(s, edge + 4.0 * _EPS * max(abs(edge), w.clock[REACH]))
            if w.above[k] >= 0:
                edge = w.points[w.above[k]]
                s = min(s, edge - 4.0 * _EPS * max(abs(edge), w.clock[REACH]))
        if s <= start and w.delays[k] > 0.0:
            status = _remember(w, s, k, y)
            if status != 0:
                return status
            continue
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
                w.lag[i] = _value(w, j, w.component[i], theta)
        if w.count[NEUTRAL] == 0:
            continue
        known = s <= now or segments > w.count[SEGMENTS]
        for i in range(a, b):
            c = w.component[i]
            w.lag[slopes + i] = _value(w, j, n + c, theta) if known else w.rates[c]
            if w.delays[k] == 0.0:
                w.lag[i] = y[c]
    return 0


@compiled
def _derive(w: Any, t: float, y: Any, out: Any, segments: int) -> Any:
    """Write the derivative at (t, y), held components at rest; 0 or a status."""
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
def _consistent(w: Any, t: float) -> Any:
    """Write the derivative at t, the beginning of a step, by iteration where it depends on itself; 0 or a status."""
    for _ in range(_SETTLING):
        w.count[INSIDE] = 0
        for i in range(w.count[SIZE]):
            w.trial[i] = w.rates[i]
        status = _derive(w, t, w.y, w.rates, w.count[SEGMENTS])
        if status != 0:
            return status
        settled = True
        if w.count[NEUTRAL] != 0 and w.count[INSIDE] != 0:
            relative = max(1e-3 * w.clock[RELATIVE], 1e-14)
            for i in range(w.count[SIZE]):
                change = abs(w.rates[i] - w.trial[i])
                settled = settled and change <= relative * abs(w.rates[i]) + 1e-3 * w.absolute[i]
        if settled:
            return 0
    return UNSETTLED


@compiled
def _settle(w: Any) -> Any:
    """Write the derivative at the beginning of a step, catching and releasing components that are at a bound."""
    tiny = 4.0 * _EPS * max(abs(w.clock[NOW]), w.clock[REACH])
    for _ in range(3):
        status = _consistent(w, w.clock[NOW] + tiny)
        if status != 0:
            return status
        changed = False
        for b in range(w.count[BOUNDED]):
            i = w.bounded[b]
            mode = 0
            if w.raw[i] < 0.0 and w.y[i] <= w.lower[i]:
                mode = -1
            elif w.raw[i] > 0.0 and w.y[i] >= w.upper[i]:
                mode = 1
            elif w.raw[i] == 0.0:
                mode = w.held[i]
            if mode != w.held[i]:
                w.held[i] = mode
                changed = True
        if not changed:
            break
    w.count[FRESH] = 0
    return 0


@compiled
def _draw(w: Any, j: int, t: float, h: float, last: int) -> None:
    """Write the interpolant of the stages as segment j, for components before `last`."""
    n, stored = w.count[SIZE], w.count[STORED]
    w.begun[j] = t
    w.width[j] = h
    for i in range(last):
        if i < stored:
            k = (j * stored + i) * 5
            c = w.curve
        else:
            k = (i - stored) * 5
            c = w.sums
        c[k] = w.y[i]
        for m in range(4):
            total = 0.0
            for s in range(7):
                total += w.rates[s * n + i] * _P[s, m]
            c[k + m + 1] = h * total


@compiled
def _draw_slopes(w: Any, j: int, anew: bool) -> Any:
    """Write the derivative along segment j, the step that is tried. (status, error norm of the interpolant's own).

    It may depend on itself: then on what was written before, or, anew, on the derivative of the interpolant.
    """
    n, t, h = w.count[SIZE], w.begun[j], w.width[j]
    if anew:
        for i in range(n):
            curve, slope = (2 * j * n + i) * 5, ((2 * j + 1) * n + i) * 5
            for m in range(4):
                w.curve[slope + m] = (m + 1) / h * w.curve[curve + m + 1]
            w.curve[slope + 4] = 0.0
    for place in range(1, 4):
        for i in range(n):
            w.stage[i] = _value(w, j, i, 0.25 * place)
        status = _derive(w, t + 0.25 * place * h, w.stage, shifted(w.rates, (6 + place) * n), j + 1)
        if status != 0:
            return status, np.inf
    for i in range(n):
        for m in range(5):
            total = w.rates[i] * _QUARTIC[0, m] + w.rates[6 * n + i] * _QUARTIC[4, m]
            for place in range(1, 4):
                total += w.rates[(6 + place) * n + i] * _QUARTIC[place, m]
            w.curve[((2 * j + 1) * n + i) * 5 + m] = total
        w.stage[i] = 0.0
        for place in range(1, 4):
            off = h * w.rates[(6 + place) * n + i] - _incline(w, j, i, 0.25 * place)
            w.stage[i] = max(w.stage[i], abs(off))
    return 0, _norm(w, w.y, w.trial, w.stage)


@compiled
def _norm(w: Any, a: Any, b: Any, error: Any) -> Any:
    """Root mean square of the error, or its largest component, in units of the tolerance."""
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
def _stages(w: Any, h: float, segments: int, tiny: float) -> Any:
    """Take the stages of a step of h and leave its end in `trial`; 0 or a status."""
    now = w.clock[NOW]
    latest = now + h - tiny
    n = w.count[SIZE]
    for s in range(1, 7):
        y = w.trial if s == 6 else w.stage
        for i in range(n):
            total = 0.0
            for m in range(s):
                total += _A[s, m] * w.rates[m * n + i]
            y[i] = w.y[i] + h * total
        status = _derive(w, min(now + _C[s] * h, latest), y, shifted(w.rates, s * n), segments)
        if status != 0:
            return status
    return 0


@compiled
def _attempt(w: Any, h: float, tiny: float) -> Any:
    """Try a step of h; its segment lies after the last one. (status, error norm)."""
    j, n = w.count[SEGMENTS], w.count[SIZE]
    w.count[INSIDE] = 0
    w.clock[OLDEST] = np.inf
    status = _stages(w, h, j, tiny)
    if status != 0:
        return status, np.inf
    turn, change = 0, 0.0
    while w.count[INSIDE] != 0:
        turn += 1
        for i in range(n):
            w.last[i] = w.trial[i]
        _draw(w, j, w.clock[NOW], h, min(n, w.count[STORED]))
        if w.count[NEUTRAL] != 0:
            status, _ = _draw_slopes(w, j, turn == 1)
            if status != 0:
                return status, np.inf
        status = _stages(w, h, j + 1, tiny)
        if status != 0:
            return status, np.inf
        w.count[ITERATIONS] += 1
        for i in range(n):
            w.stage[i] = w.trial[i] - w.last[i]
        previous, change = change, _norm(w, w.y, w.trial, w.stage)
        if turn > 1:
            w.clock[CONTRACTION] = change / previous
        rate = w.clock[CONTRACTION]
        left, most = _CONTRACTED, _ITERATIONS
        if w.count[NEUTRAL] != 0:  # what is left comes back undamped
            left, most = 0.03 * _CONTRACTED, 3 * _ITERATIONS
        if change * rate <= left * (1.0 - rate) or change <= 1e-3 * _CONTRACTED:
            break
        if turn == most or not change < 1e6 or (turn > 2 and rate >= 1.0):
            return 0, np.inf
    for i in range(n):
        total = 0.0
        for s in range(7):
            total += _E[s] * w.rates[s * n + i]
        w.stage[i] = h * total
    return 0, _norm(w, w.y, w.trial, w.stage)


@compiled
def _beyond(w: Any, i: int, value: float) -> Any:
    """Whether a value is outside the bounds of component i, by more than a thousandth of the tolerance: -1, 0 or 1."""
    absolute = w.absolute[i] if w.absolute[i] < np.inf else 0.0
    if value < w.lower[i] - 1e-3 * (absolute + w.clock[RELATIVE] * abs(w.lower[i])):
        return -1
    if value > w.upper[i] + 1e-3 * (absolute + w.clock[RELATIVE] * abs(w.upper[i])):
        return 1
    return 0


@compiled
def _inward(w: Any, i: int, theta: float) -> Any:
    """(status, derivative of held component i inside the trial step, positive where it leaves its bound)."""
    j = w.count[SEGMENTS]
    for c in range(w.count[SIZE]):
        w.stage[c] = _value(w, j, c, theta)
    status = _derive(w, w.begun[j] + theta * w.width[j], w.stage, shifted(w.rates, w.count[SIZE]), j + 1)
    return status, -w.raw[i] * w.held[i]


@compiled
def _first_event(w: Any) -> Any:
    """Earliest place in the trial step where a bound is met or left: (status, theta, component), theta 2 for none."""
    j = w.count[SEGMENTS]
    best, which = 2.0, -1
    for b in range(w.count[BOUNDED]):
        i = w.bounded[b]
        w.ends[i] = w.raw[i]
    for b in range(w.count[BOUNDED]):
        i = w.bounded[b]
        if w.held[i] == 0:
            below = 0.0
            for quarter in range(1, 5):
                theta = 0.25 * quarter
                if below >= best:
                    break
                if _beyond(w, i, _value(w, j, i, theta)) != 0:
                    low, high = below, theta
                    for _ in range(48):
                        middle = 0.5 * (low + high)
                        if _beyond(w, i, _value(w, j, i, middle)) != 0:
                            high = middle
                        else:
                            low = middle
                    if high < best:
                        best, which = high, i
                    break
                below = theta
    for b in range(w.count[BOUNDED]):
        i = w.bounded[b]
        if w.held[i] != 0 and w.ends[i] * w.held[i] < 0.0:
            low, high = 0.0, 1.0
            status, at_low = _inward(w, i, 0.0)
            if status != 0:
                return status, best, which
            status, at_high = _inward(w, i, 1.0)
            if at_low >= 0.0:
                high = 0.0
            for _ in range(40):
                if high - low < 1e-9 or status != 0:
                    break
                middle = low - at_low * (high - low) / (at_high - at_low)
                width = high - low
                middle = min(max(middle, low + 0.05 * width), high - 0.05 * width)
                status, value = _inward(w, i, middle)
                if value < 0.0:
                    low, at_low = middle, value
                else:
                    high, at_high = middle, value
            if status != 0:
                return status, best, which
            if high < best:
                best, which = high, i
    if w.count[DELAY_OF] != 0:
        return _first_passage(w, best, which)
    return 0, best, which


@compiled
def _passed(w: Any, k: int, theta: float) -> Any:
    """(status, how far delay k looks past the next breaking point at a place of the trial step, +1 above, -1 below)."""
    j = w.count[SEGMENTS]
    for c in range(w.count[SIZE]):
        w.stage[c] = _value(w, j, c, theta)
    t = w.begun[j] + theta * w.width[j]
    status = _look(w, t, w.stage)
    s = t - w.delays[k]
    if w.above[k] >= 0 and s > w.points[w.above[k]]:
        return status, s - w.points[w.above[k]], 1
    if w.below[k] >= 0 and s < w.points[w.below[k]]:
        return status, w.points[w.below[k]] - s, -1
    return status, 0.0, 0


@compiled
def _first_passage(w: Any, best: float, which: int) -> Any:
    """Like `_first_event`, of delays that pass a breaking point: which is n + 2k, and 1 more upward."""
    for k in range(w.count[DELAYS]):
        if w.above[k] < 0 and w.below[k] < 0:
            continue
        low = 0.0
        for quarter in range(1, 5):
            high = 0.25 * quarter
            if low >= best:
                break
            status, past, way = _passed(w, k, high)
            if status != 0:
                return status, best, which
            if way != 0:
                for _ in range(48):
                    middle = 0.5 * (low + high)
                    status, past, there = _passed(w, k, middle)
                    if status != 0:
                        return status, best, which
                    if there == 0:
                        low = middle
                    else:
                        high, way = middle, there
                if high < best:
                    best, which = high, w.count[SIZE] + 2 * k + (1 if way > 0 else 0)
                break
            low = high
    return 0, best, which


@compiled
def _next_point(w: Any, s: float, above: bool) -> Any:
    """Return which breaking point is the next one above or below s, -1 for none."""
    found = -1
    margin = 4.0 * _EPS * max(abs(s), w.clock[REACH])
    for point in range(w.count[POINTS]):
        if w.order[point] >= _ORDERS:
            continue
        away = w.points[point] - s if above else s - w.points[point]
        if away > margin and (found < 0 or (w.points[point] < w.points[found]) == above):
            found = point
    return found


@compiled
def _pass(w: Any, k: int, up: bool) -> Any:
    """Take delay k past a breaking point: what jumps there jumps now, one derivative later; 0 or a status."""
    point = w.above[k] if up else w.below[k]
    now, fresh = w.clock[NOW], w.count[POINTS]
    if up:
        w.below[k], w.above[k] = point, _next_point(w, w.points[point], True)
    else:
        w.below[k], w.above[k] = _next_point(w, w.points[point], False), point
    order = w.order[point] + (1 if w.count[NEUTRAL] == 0 else 0)
    if fresh == MOST_POINTS or order >= _ORDERS:
        return 0
    w.points[fresh] = now
    w.order[fresh] = order
    w.count[POINTS] += 1
    status = _look(w, now, w.y)
    for m in range(w.count[DELAYS]):
        if now - w.delays[m] < now and (w.above[m] < 0 or w.points[w.above[m]] > now):
            w.above[m] = fresh
    return status


@compiled
def _switch(w: Any, i: int) -> None:
    """Catch component i at the bound it has met, or release it."""
    if w.held[i] != 0:
        w.held[i] = 0
    elif w.y[i] - w.lower[i] < w.upper[i] - w.y[i]:
        w.y[i] = w.lower[i]
        w.held[i] = -1
    else:
        w.y[i] = w.upper[i]
        w.held[i] = 1


@compiled
def _write_samples(w: Any, now: float, reached: float) -> Any:
    """Write out the samples inside the accepted step, the last segment; 0 or a status."""
    j, n = w.count[SEGMENTS] - 1, w.count[SIZE]
    begun, width = w.begun[j], w.width[j]
    last = now
    while w.count[SAMPLE] < w.count[SAMPLES] and w.samples[w.count[SAMPLE]] <= reached:
        row = w.count[SAMPLE]
        t = w.samples[row]
        for i in range(w.count[SIZE]):
            w.stage[i] = w.y[i] if t == reached else _value(w, j, i, (t - begun) / width)
            w.sampled[row * n + i] = w.stage[i]
        _climb(w, j, (last - begun) / width, (t - begun) / width)
        for m in range(w.count[PEAKED]):
            w.peaks[row * w.count[PEAKED] + m] = w.peak[m]
            w.peak[m] = w.stage[w.peaked[m]]
        if w.count[WATCHED] > 0:
            status = _derive(w, t, w.stage, shifted(w.rates, n), w.count[SEGMENTS])
            if status != 0:
                return status
            for m in range(w.count[WATCHED]):
                w.seen[row * w.count[WATCHED] + m] = w.numbers[w.watched[m]]
        last = t
        w.count[SAMPLE] += 1
    _climb(w, j, (last - begun) / width, 1.0)
    return 0


@compiled
def _climb(w: Any, j: int, low: float, high: float) -> None:
    """Raise the peaks to what is reached between two places of a segment."""
    for m in range(w.count[PEAKED]):
        i = w.peaked[m]
        best, at = -np.inf, 0.0
        for part in range(_PARTS + 1):
            value = _value(w, j, i, low + part * (high - low) / _PARTS)
            if value > best:
                best, at = value, part / _PARTS
        reach = 1.0 / _PARTS
        while reach > 1e-4:  # a parabola through three points, again closer by
            middle = min(max(at, reach), 1.0 - reach)
            a = _value(w, j, i, low + (middle - reach) * (high - low))
            b = _value(w, j, i, low + middle * (high - low))
            c = _value(w, j, i, low + (middle + reach) * (high - low))
            bend = a - 2.0 * b + c
            if bend < 0.0:
                at = min(max(middle + 0.5 * reach * (a - c) / bend, 0.0), 1.0)
                best = max(best, _value(w, j, i, low + at * (high - low)))
            reach *= 0.1
        w.peak[m] = min(max(w.peak[m], best), w.upper[i])


@compiled
def _forget(w: Any) -> None:
    """Drop segments that no delay reaches any more."""
    segments = w.count[SEGMENTS]
    oldest = min(w.clock[OLDEST], w.clock[NOW]) - w.clock[REACH] * (1.0 + 1e-9)
    drop = 0
    while drop + 1 < segments and w.begun[drop + 1] <= oldest:
        drop += 1
    if drop == 0:
        return
    for j in range(segments - drop):
        w.begun[j] = w.begun[j + drop]
        w.width[j] = w.width[j + drop]
    row = 5 * w.count[STORED]
    for k in range((segments - drop) * row):
        w.curve[k] = w.curve[k + drop * row]
    w.count[SEGMENTS] = segments - drop
    for k in range(w.count[HINTS]):
        w.hint[k] = max(0, w.hint[k] - drop)


@compiled
def _first_step(w: Any) -> Any:
    """Hairer, Norsett, Wanner (1993), sec. II.4, as SciPy has it. (status, step)."""
    n = w.count[SIZE]
    for i in range(n):
        if not np.isfinite(w.rates[i]):
            return NOT_FINITE, 0.0
    d0 = _norm(w, w.y, w.y, w.y)
    d1 = _norm(w, w.y, w.y, w.rates)
    h = 1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1
    h = min(h, w.clock[END] - w.clock[NOW])
    for i in range(n):
        w.stage[i] = w.y[i] + h * w.rates[i]
    status = _derive(w, w.clock[NOW] + h, w.stage, shifted(w.rates, n), 0)
    for i in range(n):
        w.trial[i] = w.rates[n + i] - w.rates[i]
    d2 = _norm(w, w.y, w.y, w.trial) / h
    if d1 <= 1e-15 and d2 <= 1e-15:
        return status, max(1e-6, h * 1e-3)
    step = min(100.0 * h, (0.01 / max(d1, d2)) ** 0.2)
    return status if status != BAD_DELAY else 0, step if step > 0.0 else h


@entry
def advance(table: Any, steps: int) -> Any:
    """Integrate for at most `steps` steps; returns a status. FULL asks for more segments.

    Parameters
        table : shape (len(Fields._fields),), i8: addresses of the arrays. steps : int.
    """
    w = Fields(*_unpack(table))
    clock, count = w.clock, w.count
    n = w.count[SIZE]
    final = count[STEPS] + steps
    instant = 0
    while clock[NOW] < clock[END]:
        if count[STEPS] >= final:
            return PAUSED
        if count[SEGMENTS] + 1 >= count[CAPACITY]:
            if count[KEEP] == 0:
                _forget(w)
            if 4 * count[SEGMENTS] > 3 * count[CAPACITY]:
                return FULL
        now = clock[NOW]
        tiny = 4.0 * _EPS * max(abs(now), clock[REACH])
        if count[FRESH] != 0:
            status = _settle(w)
            if status != 0:
                return status
        if clock[STEP] <= 0.0:
            status, clock[STEP] = _first_step(w)
            if status != 0:
                return status
        while count[BREAK] < count[BREAKS] and w.breaks[count[BREAK]] <= now + 2.0 * tiny:
            count[BREAK] += 1
        stop = clock[END]
        if count[BREAK] < count[BREAKS]:
            stop = min(stop, w.breaks[count[BREAK]])
        least = 10.0 * _EPS * max(abs(now), abs(stop) * 1e-3)
        rejected = False
        trouble = TOO_SMALL
        landing = -1
        limit = np.inf
        while True:
            h = min(clock[STEP], clock[MAX_STEP], limit)
            reached = now + h
            if reached >= stop - least:
                reached = stop
                h = stop - now
            elif landing < 0 and reached > stop - 0.5 * h:  # no sliver before the break
                h = 0.5 * (stop - now)
                reached = now + h
            if landing < 0 and h < least and reached < stop:
                if trouble != TOO_SMALL or clock[SLIDE] == 0.0:
                    return trouble
                clock[STEP] = clock[SLIDE]
                clock[SLIDES_UNTIL] = now + _SLIDING * clock[SLIDE]
                continue
            status, error = _attempt(w, h, tiny if reached == stop else 0.0)
            trouble = TOO_SMALL
            for i in range(n):
                if not (np.isfinite(w.trial[i]) and np.isfinite(w.rates[6 * n + i])):
                    trouble = NOT_FINITE
                    error = np.inf
            slides = h <= clock[SLIDE] and now < clock[SLIDES_UNTIL]
            if status == 0 and trouble == TOO_SMALL and error > 1.0 and slides:
                count[SLID] += 1
                error = 1.0
            theta, which = 2.0, -1
            if status == 0 and error <= 1.0:
                anew = count[INSIDE] == 0
                _draw(w, count[SEGMENTS], now, h, n)
                if count[NEUTRAL] != 0:
                    status, off = _draw_slopes(w, count[SEGMENTS], anew)
                    error = max(error, off)
                if status == 0 and error <= 1.0:
                    status, theta, which = _first_event(w)
            if status == BAD_DELAY:  # perhaps this step alone looks so far
                trouble = BAD_DELAY
                error = np.inf
            elif status != 0:
                return status
            if not error <= 1.0:
                count[REJECTED] += 1
                rejected = True
                clock[STEP] = h * (max(_SHRINK, _SAFETY * error**-0.2) if error < np.inf else _SHRINK)
                landing = -1
                limit = np.inf
                continue
            if which >= 0 and theta < 1.0 - 1e-9 and not (landing >= 0 and theta > 0.9):
                limit = theta * h
                landing = which
                if limit < 4.0 * least:
                    if which < n:
                        _switch(w, which)
                    instant += 1
                    break
                continue
            if which >= 0 and landing < 0:
                landing = which
            factor = _GROW if error == 0.0 else min(_GROW, _SAFETY * error**-0.2)
            if rejected:
                factor = min(1.0, factor)
            clock[STEP] = h * factor if h == clock[STEP] or factor < 1.0 else max(clock[STEP], h * factor)
            count[SEGMENTS] += 1
            count[STEPS] += 1
            for i in range(n):
                w.y[i] = w.trial[i]
                w.rates[i] = w.rates[6 * n + i]
            for b in range(w.count[BOUNDED]):
                i = w.bounded[b]
                w.y[i] = min(max(w.y[i], w.lower[i]), w.upper[i])
            clock[NOW] = reached
            if landing >= 0 and landing < n:
                _switch(w, landing)
            status = _write_samples(w, now, reached)
            if status != 0:
                return status
            instant = 0
            if reached == stop:
                count[FRESH] = 1
            break
        if instant > 100:
            return CHATTER
        if landing >= n:
            count[FRESH] = 1
            status = _pass(w, (landing - n) // 2, (landing - n) % 2 == 1)
            if status != 0:
                return status
        elif landing >= 0:
            count[EVENTS] += 1
            released = w.held[landing] == 0
            status = _settle(w)
            if status != 0:
                return status
            if released and w.held[landing] != 0:
                w.held[landing] = 0
                w.rates[landing] = w.raw[landing]
            count[FRESH] = 0
            if w.stopping[landing] != 0 and w.held[landing] == 1:
                count[COMPONENT] = landing
                return CAUGHT
    return DONE
