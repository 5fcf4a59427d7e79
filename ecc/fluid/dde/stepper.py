"""The compiled integrator of delay differential equations: steps, and the work between them.

`advance` takes steps until it needs its caller. Its arrays are the complete state of an integration: the division of a
run into slices never changes the result. A step is explicit (history_and_step.py) or implicit (radau.py), and follows
these rules:

It ends exactly on the next break (a point with a jump of some derivative), and never evaluates one side of a break from
the other. It may be longer than a delay: lags inside the step are read from the interpolant of the step itself, by
iteration. It reads a delay that is not constant from one side of the breaking points, and is shortened to end at a
passage. The run ends there if the derivatives on both sides lead the delay back to the other side.

It keeps components inside their bounds: a component that reaches a bound is held there while its derivative points
outward, and the step is shortened to end at the time of holding or release.

It becomes short at a jump or kink that is not a break. The defect of the interpolant detects it even if the error
estimate does not, and rejections with slowly decreasing errors distinguish it from smooth change. If the derivative
switches to and fro endlessly (a flow between two bottlenecks), the steps are those of a sliding mode: steps up to
`SLIDING_STEP` are accepted with any error, and counted; if `SLIDING_STEP` is 0, the run ends there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ecc.fluid.compiled import Integers, compiled, entry, shifted
from ecc.fluid.dde.history_and_step import (
    AT_POINT,
    BAD_DELAY,
    BOUNDED,
    BREAK,
    BREAKS,
    CAPACITY,
    CHATTER,
    COMPONENT,
    DELAY_OF,
    DELAYS,
    DIVERGING,
    DONE,
    END,
    EPS,
    EVENTS,
    FRESH,
    FULL,
    HINTS,
    IMPLICIT,
    INSIDE,
    KEEP,
    LOCATED,
    MAX_POINTS,
    MAX_STEP,
    NEUTRAL,
    NO_CONTINUATION,
    NONSMOOTH_UNTIL,
    NOT_FINITE,
    NOW,
    OLDEST,
    PASSING,
    PAUSED,
    PEAKED,
    POINTS,
    PREVIOUS,
    REACH,
    REJECTED,
    RELATIVE,
    ROUGH,
    SAMPLE,
    SAMPLES,
    SEGMENTS,
    SIZE,
    SLIDING,
    SLIDING_STEP,
    SLIDING_STEPS,
    SLIDING_UNTIL,
    STEP,
    STEPS,
    STORED,
    SUSPECTED_UNTIL,
    TOO_SMALL,
    UNSETTLED,
    WATCHED,
    Fields,
    attempt,
    curve_at,
    defect,
    derive,
    draw,
    draw_slopes,
    look,
    norm,
    unpack,
)
from ecc.fluid.dde.radau import attempt_implicit

__all__ = ["advance"]

_SAFETY, _SHRINK, _GROW = 0.9, 0.2, 10.0
_MEMORY = 0.08  # exponent of the previous step's error in the next step size (Hairer & Wanner 1996, IV.2)
_SUSPICIOUS = 3.0  # error of a step, in tolerances, above which a discontinuity is suspected
_NONSMOOTH = 4.0  # order of the error below which the solution has a jump or kink
_STRICTLY = 1e2  # factor by which a step across a jump or kink must be more accurate than the tolerance
_SETTLING = 200  # maximum number of iterations of a derivative that depends on itself
_PARTS = 8  # parts of a segment in the search for its peak
_ORDERS = 6  # number of derivatives with relevant jumps
_ROUNDING = 16.0  # units in the last place: rounding of the time that a delay refers to
_ROUGH = 100  # rejections, and steps near a suspected discontinuity, that start the search for a sliding solution
_AHEAD = 20.0  # steps: range of the search for a sliding solution
_ARRIVED = 1e-2  # steps: distance from the jump at which a sliding solution ends
_MAX_PASSAGES = 100  # maximum number of passages by each delay without progress in time
_SLIDING_LENGTH = 1e4  # steps during which any error is accepted, after the first such step


@compiled
def _consistent(w: Any, t: float) -> Any:
    """Write the derivative at t, the start of a step, by iteration if it depends on itself; return 0 or a status."""
    for _ in range(_SETTLING):
        w.count[INSIDE] = 0
        for i in range(w.count[SIZE]):
            w.trial[i] = w.rates[i]
        status = derive(w, t, w.y, w.rates, w.count[SEGMENTS])
        if status != 0:
            return status
        converged = True
        if w.count[NEUTRAL] != 0 and w.count[INSIDE] != 0:
            relative = max(1e-3 * w.clock[RELATIVE], 1e-14)
            for i in range(w.count[SIZE]):
                change = abs(w.rates[i] - w.trial[i])
                converged = converged and change <= relative * abs(w.rates[i]) + 1e-3 * w.absolute[i]
        if converged:
            return 0
    return UNSETTLED


@compiled
def _settle(w: Any) -> Any:
    """Write the derivative at the start of a step, holding and releasing components that are at a bound."""
    tiny = 4.0 * EPS * max(abs(w.clock[NOW]), w.clock[REACH])
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
def _out_of_bounds(w: Any, i: int, value: float) -> Any:
    """Return -1 or 1 if a value is outside the bounds of component i by more than 0.001 of the tolerance, else 0."""
    absolute = w.absolute[i] if w.absolute[i] < np.inf else 0.0
    if value < w.lower[i] - 1e-3 * (absolute + w.clock[RELATIVE] * abs(w.lower[i])):
        return -1
    if value > w.upper[i] + 1e-3 * (absolute + w.clock[RELATIVE] * abs(w.upper[i])):
        return 1
    return 0


@compiled
def _inward(w: Any, i: int, theta: float) -> Any:
    """Return (status, derivative of held component i inside the trial step, positive if it leaves its bound)."""
    j = w.count[SEGMENTS]
    for c in range(w.count[SIZE]):
        w.stage[c] = curve_at(w, j, c, theta)
    status = derive(w, w.begun[j] + theta * w.width[j], w.stage, shifted(w.rates, w.count[SIZE]), j + 1)
    return status, -w.raw[i] * w.held[i]


@compiled
def _first_event(w: Any) -> Any:
    """Return (status, theta, component) of the first bound met or left in the trial step; theta is 2 for none."""
    j = w.count[SEGMENTS]
    best, which = 2.0, -1
    for b in range(w.count[BOUNDED]):
        i = w.bounded[b]
        if w.held[i] == 0:
            below = 0.0
            for quarter in range(1, 5):
                theta = 0.25 * quarter
                if below >= best:
                    break
                if _out_of_bounds(w, i, curve_at(w, j, i, theta)) != 0:
                    low, high = below, theta
                    for _ in range(48):
                        middle = 0.5 * (low + high)
                        if _out_of_bounds(w, i, curve_at(w, j, i, middle)) != 0:
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
def _lagged_time(w: Any, k: int, theta: float) -> Any:
    """Return (status, time that delay k refers to at a point of the trial step)."""
    j = w.count[SEGMENTS]
    for c in range(w.count[SIZE]):
        w.stage[c] = curve_at(w, j, c, theta)
    t = w.begun[j] + theta * w.width[j]
    status = look(w, t, w.stage)
    return status, t - w.delays[k]


@compiled
def _first_passage(w: Any, best: float, which: int) -> Any:
    """Return the result of `_first_event` extended by delays that pass a breaking point.

    The component of delay k is n + 2k, and one more for an upward passage. Steps end at passages up to rounding and the
    tolerance, so a step may begin on the wrong side of a point that was passed just before, or at a point that a
    vanishing delay follows. Therefore a passage needs a motion by more than rounding, both past the point and away from
    the start of the step. This margin does not affect the located start of the passage.
    """
    margin = _ROUNDING * EPS * max(abs(w.clock[NOW]), w.clock[REACH])
    for k in range(w.count[DELAYS]):
        if w.above[k] < 0 and w.below[k] < 0:
            continue
        status, begin = _lagged_time(w, k, 0.0)
        if status != 0:
            return status, best, which
        upper = max(w.points[w.above[k]], begin) if w.above[k] >= 0 else np.inf
        lower = min(w.points[w.below[k]], begin) if w.below[k] >= 0 else -np.inf
        low = 0.0
        for quarter in range(1, 5):
            high = 0.25 * quarter
            if low >= best:
                break
            status, s = _lagged_time(w, k, high)
            if status != 0:
                return status, best, which
            if lower - margin <= s <= upper + margin:
                low = high
                continue
            up = s > upper
            for _ in range(48):
                middle = 0.5 * (low + high)
                status, s = _lagged_time(w, k, middle)
                if status != 0:
                    return status, best, which
                if lower <= s <= upper:
                    low = middle
                else:
                    high, up = middle, s > upper
            if high < best:
                best, which = high, w.count[SIZE] + 2 * k + (1 if up else 0)
            break
    return 0, best, which


@compiled
def _next_point(w: Any, s: float, above: bool) -> Any:
    """Return the index of the next breaking point above or below s, -1 for none."""
    nearest = -1
    margin = 4.0 * EPS * max(abs(s), w.clock[REACH])
    for point in range(w.count[POINTS]):
        if w.order[point] >= _ORDERS:
            continue
        away = w.points[point] - s if above else s - w.points[point]
        if away > margin and (nearest < 0 or (w.points[point] < w.points[nearest]) == above):
            nearest = point
    return nearest


@compiled
def _motion(w: Any, k: int) -> Any:
    """Return the direction in which the time that delay k refers to moves with the present derivative: -1, 0 or 1."""
    now, scale = w.clock[NOW], max(abs(w.clock[NOW]), w.clock[REACH])
    if look(w, now, w.y) != 0:
        return 0
    begin = now - w.delays[k]
    change = min(np.sqrt(EPS) * scale, w.clock[STEP])
    for i in range(w.count[SIZE]):
        w.stage[i] = w.y[i] + change * w.rates[i]
    if look(w, now + change, w.stage) != 0:
        return 0
    moved = now + change - w.delays[k] - begin
    if abs(moved) <= _ROUNDING * EPS * scale:
        return 0
    return 1 if moved > 0.0 else -1


@compiled
def _pass(w: Any, k: int, up: bool) -> Any:
    """Take delay k past a breaking point, and others that pass it too; return 0 or a status.

    The jump at the point occurs again now, one derivative higher. If the derivative itself jumps now, it may lead the
    delay back to the side from which it arrived. Then no solution exists from here on: NO_CONTINUATION.
    """
    point = w.above[k] if up else w.below[k]
    direction = 1 if up else -1
    jumps = w.order[point] <= w.count[NEUTRAL]
    arriving = jumps and _motion(w, k) == direction
    status = look(w, w.clock[NOW], w.y)
    if status != 0:
        return status
    reference = direction * w.delays[k]
    for m in range(w.count[DELAYS]):
        passes = m == k or direction * w.delays[m] <= reference
        if passes and (w.above[m] if up else w.below[m]) == point:
            _register(w, m, up)
    w.count[FRESH] = 1
    if not arriving:
        return 0
    status = _settle(w)
    if status == 0 and _motion(w, k) == -direction:
        w.count[COMPONENT] = k
        w.clock[AT_POINT] = w.points[point]
        return NO_CONTINUATION
    return status


@compiled
def _register(w: Any, k: int, up: bool) -> None:
    """Update the breaking points next to delay k, and add the one that its passage causes now."""
    point = w.above[k] if up else w.below[k]
    now, fresh = w.clock[NOW], w.count[POINTS]
    if up:
        w.below[k], w.above[k] = point, _next_point(w, w.points[point], True)
    else:
        w.below[k], w.above[k] = _next_point(w, w.points[point], False), point
    order = w.order[point] + (1 if w.count[NEUTRAL] == 0 else 0)
    if fresh == MAX_POINTS or order >= _ORDERS:
        return
    rounding = 4.0 * _ROUNDING * EPS * max(abs(now), w.clock[REACH])
    for known in range(fresh):  # a point added by another delay that passes now, or the same one if this delay vanishes
        if abs(w.points[known] - now) <= rounding and w.order[known] <= order:
            return
    w.points[fresh] = now
    w.order[fresh] = order
    w.count[POINTS] += 1
    for m in range(w.count[DELAYS]):
        if now - w.delays[m] < now and (w.above[m] < 0 or w.points[w.above[m]] > now):
            w.above[m] = fresh


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
    """Write out the samples inside the accepted step, the last segment; return 0 or a status."""
    j, n = w.count[SEGMENTS] - 1, w.count[SIZE]
    begun, width = w.begun[j], w.width[j]
    last = now
    while w.count[SAMPLE] < w.count[SAMPLES] and w.samples[w.count[SAMPLE]] <= reached:
        row = w.count[SAMPLE]
        t = w.samples[row]
        for i in range(w.count[SIZE]):
            w.stage[i] = w.y[i] if t == reached else curve_at(w, j, i, (t - begun) / width)
            w.sampled[row * n + i] = w.stage[i]
        _update_peaks(w, j, (last - begun) / width, (t - begun) / width)
        for m in range(w.count[PEAKED]):
            w.peaks[row * w.count[PEAKED] + m] = w.peak[m]
            w.peak[m] = w.stage[w.peaked[m]]
        if w.count[WATCHED] > 0:
            status = derive(w, t, w.stage, shifted(w.rates, n), w.count[SEGMENTS])
            if status != 0:
                return status
            for m in range(w.count[WATCHED]):
                w.seen[row * w.count[WATCHED] + m] = w.numbers[w.watched[m]]
        last = t
        w.count[SAMPLE] += 1
    _update_peaks(w, j, (last - begun) / width, 1.0)
    return 0


@compiled
def _update_peaks(w: Any, j: int, low: float, high: float) -> None:
    """Raise the peaks to the largest values between two points of a segment."""
    for m in range(w.count[PEAKED]):
        i = w.peaked[m]
        best, at = -np.inf, 0.0
        for part in range(_PARTS + 1):
            value = curve_at(w, j, i, low + part * (high - low) / _PARTS)
            if value > best:
                best, at = value, part / _PARTS
        reach = 1.0 / _PARTS
        while reach > 1e-4:  # fit a parabola through three points, with decreasing spacing
            middle = min(max(at, reach), 1.0 - reach)
            a = curve_at(w, j, i, low + (middle - reach) * (high - low))
            b = curve_at(w, j, i, low + middle * (high - low))
            c = curve_at(w, j, i, low + (middle + reach) * (high - low))
            bend = a - 2.0 * b + c
            if bend < 0.0:
                at = min(max(middle + 0.5 * reach * (a - c) / bend, 0.0), 1.0)
                best = max(best, curve_at(w, j, i, low + at * (high - low)))
            reach *= 0.1
        w.peak[m] = min(max(w.peak[m], best), w.upper[i])


@compiled
def _drop_segments(w: Any) -> None:
    """Drop segments that delays no longer reach."""
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
def _distance(w: Any, a: Any, b: Any) -> Any:
    """Return the norm of the difference of two derivatives, in units of the tolerance per second."""
    for i in range(w.count[SIZE]):
        w.stage[i] = a[i] - b[i]
    return norm(w, w.y, w.y, w.stage)


@compiled
def _derive_ahead(w: Any, ahead: float, further: float, slope: Any, out: Any) -> Any:
    """Write the derivative after a motion with the present derivative, then with another one; return 0 or a status."""
    for i in range(w.count[SIZE]):
        w.stage[i] = w.y[i] + ahead * w.rates[i] + further * slope[i]
    return derive(w, w.clock[NOW] + ahead + further, w.stage, out, w.count[SEGMENTS])


@compiled
def _time_to_sliding(w: Any, reach: float) -> Any:
    """Return the time to a jump of the derivative within `reach` that the derivative behind it leads back to, or inf.

    The jump is bisected on the line along the present derivative; the change by a steep slope becomes small on the way.
    Behind a jump at a given time, or of a lag, the derivative does not lead back.
    """
    n = w.count[SIZE]
    low, middle, high = shifted(w.rates, n), shifted(w.rates, 2 * n), shifted(w.rates, 3 * n)
    begin, end = 0.0, reach
    if _derive_ahead(w, begin, 0.0, low, low) != 0 or _derive_ahead(w, end, 0.0, high, high) != 0:
        return np.inf
    change = _distance(w, low, high)
    for _ in range(40):
        at = 0.5 * (begin + end)
        if _derive_ahead(w, at, 0.0, middle, middle) != 0:
            return np.inf
        if _distance(w, low, middle) > _distance(w, middle, high):
            end = at
            for i in range(n):
                high[i] = middle[i]
        else:
            begin = at
            for i in range(n):
                low[i] = middle[i]
    jump = _distance(w, low, high)
    if not jump > 0.5 * change or _derive_ahead(w, end, 1e-3 * reach, high, middle) != 0:
        return np.inf
    return begin if _distance(w, low, middle) < 0.5 * jump else np.inf


@compiled
def _first_step(w: Any) -> Any:
    """Return (status, first step) by the method of Hairer, Norsett, Wanner (1993), sec. II.4, as in SciPy."""
    n = w.count[SIZE]
    for i in range(n):
        if not np.isfinite(w.rates[i]):
            return NOT_FINITE, 0.0
    d0 = norm(w, w.y, w.y, w.y)
    d1 = norm(w, w.y, w.y, w.rates)
    h = 1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1
    h = min(max(h, 100.0 * EPS * abs(w.clock[NOW])), w.clock[END] - w.clock[NOW])
    for i in range(n):
        w.stage[i] = w.y[i] + h * w.rates[i]
    status = derive(w, w.clock[NOW] + h, w.stage, shifted(w.rates, n), 0)
    for i in range(n):
        w.trial[i] = w.rates[n + i] - w.rates[i]
    d2 = norm(w, w.y, w.y, w.trial) / h
    if d1 <= 1e-15 and d2 <= 1e-15:
        return status, max(1e-6, h * 1e-3)
    step = min(100.0 * h, (0.01 / max(d1, d2)) ** 0.2)
    return status if status != BAD_DELAY else 0, step if step > 0.0 else h


@entry
def advance(table: Integers, steps: int) -> Any:
    """Integrate for up to `steps` steps; return a status. FULL requests more segments.

    Parameters
    ----------
    table : Integers
        Addresses of the arrays, shape (len(Fields._fields),), i8.
    steps : int
        Maximum number of steps.
    """
    w = Fields(*unpack(table))
    clock, count = w.clock, w.count
    n = w.count[SIZE]
    final = count[STEPS] + steps
    power = -0.25 if count[IMPLICIT] != 0 else -0.2
    memory = 0.0 if count[IMPLICIT] != 0 or count[NEUTRAL] != 0 else _MEMORY
    instant = passages = 0
    while clock[NOW] < clock[END]:
        if count[STEPS] >= final:
            return PAUSED
        if count[SEGMENTS] + 1 >= count[CAPACITY]:
            if count[KEEP] == 0:
                _drop_segments(w)
            if 4 * count[SEGMENTS] > 3 * count[CAPACITY]:
                return FULL
        now = clock[NOW]
        tiny = 4.0 * EPS * max(abs(now), clock[REACH])
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
        min_step = 10.0 * EPS * max(abs(now), abs(stop) * 1e-3)
        rejections = 0
        trouble = TOO_SMALL
        landing = -1
        limit = np.inf
        tried, erred = 0.0, np.inf
        while True:
            h = min(clock[STEP], clock[MAX_STEP], limit)
            reached = now + h
            if reached >= stop - min_step:
                reached = stop
                h = stop - now
            elif landing < 0 and reached > stop - 0.5 * h:  # avoid a very short step before the break
                h = 0.5 * (stop - now)
                reached = now + h
            if landing < 0 and h < min_step and reached < stop:
                if clock[SLIDING_STEP] == 0.0 and _time_to_sliding(w, 1e3 * min_step) < np.inf:
                    return SLIDING
                if trouble == NOT_FINITE or trouble == BAD_DELAY or clock[SLIDING_STEP] == 0.0:
                    return trouble
                clock[STEP] = clock[SLIDING_STEP]
                clock[SLIDING_UNTIL] = now + _SLIDING_LENGTH * clock[SLIDING_STEP]
                continue
            if count[IMPLICIT] != 0:
                status, error = attempt_implicit(w, h, tiny if reached == stop else 0.0)
            else:
                status, error = attempt(w, h, tiny if reached == stop else 0.0)
            trouble = TOO_SMALL
            for i in range(n):
                if not (np.isfinite(w.trial[i]) and np.isfinite(w.rates[6 * n + i])):
                    trouble = NOT_FINITE
                    error = np.inf
            if trouble == TOO_SMALL and error == np.inf:
                trouble = DIVERGING
            sliding = h <= clock[SLIDING_STEP] and now < clock[SLIDING_UNTIL]
            if status == 0 and trouble != NOT_FINITE and error > 1.0 and sliding:
                count[SLIDING_STEPS] += 1
                error = 1.0
            theta, which, estimate = 2.0, -1, error
            if status == 0 and error <= 1.0:
                for b in range(count[BOUNDED]):
                    w.ends[w.bounded[b]] = w.raw[w.bounded[b]]
                anew = count[INSIDE] == 0
                if count[IMPLICIT] == 0:
                    draw(w, count[SEGMENTS], now, h, n)
                if count[NEUTRAL] != 0:
                    status, off = draw_slopes(w, count[SEGMENTS], anew)
                    error = max(error, off)
                elif count[IMPLICIT] == 0 and not sliding:
                    status, off = defect(w, count[SEGMENTS], now < clock[SUSPECTED_UNTIL])
                    error = max(error, off)
                    if now < clock[NONSMOOTH_UNTIL]:
                        error *= _STRICTLY
                if status == 0 and error <= 1.0:
                    status, theta, which = _first_event(w)
            if status == BAD_DELAY:  # a shorter step may keep the delay valid
                trouble = BAD_DELAY
                error = np.inf
            elif status != 0:
                return status
            if not error <= 1.0:
                count[REJECTED] += 1
                rejections += 1
                if 1.0 < estimate < np.inf:
                    if estimate > _SUSPICIOUS:
                        clock[SUSPECTED_UNTIL] = reached
                    if now < clock[NONSMOOTH_UNTIL] or estimate * (tried / h) ** _NONSMOOTH > erred:
                        clock[NONSMOOTH_UNTIL] = reached
                    tried, erred = h, estimate
                clock[STEP] = h * (max(_SHRINK, _SAFETY * error**power) if error < np.inf else _SHRINK)
                landing = -1
                limit = np.inf
                continue
            if which >= 0 and theta < 1.0 - 1e-9 and not (landing >= 0 and theta > 0.9):
                limit = theta * h
                landing = which
                if limit < 4.0 * min_step:
                    if which < n:
                        _switch(w, which)
                        instant += 1
                    else:
                        passages += 1
                    break
                continue
            if which >= 0 and landing < 0:
                landing = which
            remembered = clock[PREVIOUS] ** memory * error ** (power + 0.75 * memory)
            factor = _GROW if error == 0.0 else min(_GROW, _SAFETY * remembered)
            clock[PREVIOUS] = max(error, 1e-4) if reached < stop else 1.0  # the controller restarts after a break
            if rejections > 0:
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
            instant = passages = 0
            if reached == stop:
                count[FRESH] = 1
            count[ROUGH] += rejections + (1 if now < clock[NONSMOOTH_UNTIL] else 0)
            if count[ROUGH] > _ROUGH and landing < 0 and count[FRESH] == 0 and clock[SLIDING_STEP] == 0.0:
                ahead = _time_to_sliding(w, _AHEAD * h)
                if ahead < max(_ARRIVED * h, 4.0 * min_step):
                    return SLIDING
                if ahead < np.inf:
                    clock[STEP] = min(clock[STEP], ahead)
                else:
                    count[ROUGH] = 0
            break
        if instant > 100:
            return CHATTER
        if passages > _MAX_PASSAGES * count[DELAYS]:
            return PASSING
        if landing >= n:
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
                return LOCATED
    return DONE
