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

from typing import Any, NamedTuple

import numpy as np

from ecc.fluid.compiled import Integers, compiled, entry, inlined, shifted
from ecc.fluid.dde.history_and_step import (
    AT_EITHER,
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
_MAX_SWITCHES = 100  # maximum number of times that components meet or leave bounds without progress in time
_MAX_PASSAGES = 100  # maximum number of passages by each delay without progress in time
_SLIDING_LENGTH = 1e4  # steps during which any error is accepted, after the first such step


@compiled
def _rounding(w: Any, t: float) -> Any:
    """Return the distance from a time within which it may be rounded."""
    return 4.0 * EPS * max(abs(t), w.clock[REACH])


@compiled
def _min_step(w: Any, stop: float) -> Any:
    """Return the shortest step from now on the way to `stop`."""
    return 10.0 * EPS * max(abs(w.clock[NOW]), abs(stop) * 1e-3)


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
    for _ in range(3):
        status = _consistent(w, w.clock[NOW] + _rounding(w, w.clock[NOW]))
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
    margin = _rounding(w, s)
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


class _Trial(NamedTuple):
    """A trial step and its assessment."""

    begin: Any
    h: Any
    end: Any
    status: Any  # 0, or the status with which the run ends
    error: Any  # in tolerances, of the step and its interpolant; inf: the step is not usable
    estimate: Any  # in tolerances, of the step alone
    trouble: Any  # status with which the run ends if no shorter step is possible
    theta: Any  # place of the first event in the step, 2 for none
    event: Any  # the component of `_first_event`, -1 for none


@compiled
def _make_room(w: Any) -> Any:
    """Return whether there is room for another segment, after segments out of reach were dropped if it was needed."""
    if w.count[SEGMENTS] + 1 < w.count[CAPACITY]:
        return True
    if w.count[KEEP] == 0:
        _drop_segments(w)
    return 4 * w.count[SEGMENTS] <= 3 * w.count[CAPACITY]


# The parts of a step that run at each step are inlined: passing all fields to them would take a tenth of its time.


@inlined
def _prepare_step(w: Any) -> Any:
    """Write the derivative if it may have jumped, and choose the first step of a run; return 0 or a status."""
    status = 0
    if w.count[FRESH] != 0:
        status = _settle(w)
    if status == 0 and w.clock[STEP] <= 0.0:
        status, w.clock[STEP] = _first_step(w)
    return status


@compiled
def _next_stop(w: Any) -> Any:
    """Return the next break, or the end if no break precedes it."""
    passed = w.clock[NOW] + 2.0 * _rounding(w, w.clock[NOW])
    while w.count[BREAK] < w.count[BREAKS] and w.breaks[w.count[BREAK]] <= passed:
        w.count[BREAK] += 1
    if w.count[BREAK] < w.count[BREAKS]:
        return min(w.clock[END], w.breaks[w.count[BREAK]])
    return w.clock[END]


@compiled
def _trial_size(w: Any, stop: float, min_step: float, limit: float, landing: bool) -> Any:
    """Return (size, end) of the next trial step, which may be `limit` long, at an event if `landing`."""
    now = w.clock[NOW]
    h = min(w.clock[STEP], w.clock[MAX_STEP], limit)
    if now + h >= stop - min_step:
        return stop - now, stop
    if not landing and now + h > stop - 0.5 * h:  # avoid a very short step before the break
        h = 0.5 * (stop - now)
    return h, now + h


@compiled
def _start_sliding(w: Any, min_step: float, trouble: int) -> Any:
    """Let steps of a sliding mode follow, as error control requires steps that are too short; return 0 or a status."""
    if w.clock[SLIDING_STEP] == 0.0:
        return SLIDING if _time_to_sliding(w, 1e3 * min_step) < np.inf else trouble
    if trouble == NOT_FINITE or trouble == BAD_DELAY:
        return trouble
    w.clock[STEP] = w.clock[SLIDING_STEP]
    w.clock[SLIDING_UNTIL] = w.clock[NOW] + _SLIDING_LENGTH * w.clock[SLIDING_STEP]
    return 0


@inlined
def _try_step(w: Any, h: float, end: float, stop: float) -> Any:
    """Try a step and write its segment after the last one; return the `_Trial`."""
    begin, n = w.clock[NOW], w.count[SIZE]
    tiny = _rounding(w, begin) if end == stop else 0.0
    if w.count[IMPLICIT] != 0:
        status, estimate = attempt_implicit(w, h, tiny)
    else:
        status, estimate = attempt(w, h, tiny)
    trouble = DIVERGING if estimate == np.inf else TOO_SMALL
    for i in range(n):
        if not (np.isfinite(w.trial[i]) and np.isfinite(w.rates[6 * n + i])):
            trouble = NOT_FINITE
            estimate = np.inf
    sliding = h <= w.clock[SLIDING_STEP] and begin < w.clock[SLIDING_UNTIL]
    if status == 0 and trouble != NOT_FINITE and estimate > 1.0 and sliding:
        w.count[SLIDING_STEPS] += 1
        estimate = 1.0
    error, theta, event = estimate, 2.0, -1
    if status == 0 and error <= 1.0:
        status, error = _assess(w, h, estimate, sliding)
        if status == 0 and error <= 1.0:
            status, theta, event = _first_event(w)
    if status == BAD_DELAY:  # a shorter step may keep the delay valid
        status, error, trouble = 0, np.inf, BAD_DELAY
    return _Trial(begin, h, end, status, error, estimate, trouble, theta, event)


@inlined
def _assess(w: Any, h: float, estimate: float, sliding: bool) -> Any:
    """Write the interpolant of a trial step; return (status, error of the step and its interpolant)."""
    j, begin = w.count[SEGMENTS], w.clock[NOW]
    for b in range(w.count[BOUNDED]):
        w.ends[w.bounded[b]] = w.raw[w.bounded[b]]
    if w.count[IMPLICIT] != 0:  # the interpolant belongs to the step and its error estimate
        return 0, estimate
    anew = w.count[INSIDE] == 0
    draw(w, j, begin, h, w.count[SIZE])
    if w.count[NEUTRAL] != 0:
        status, off = draw_slopes(w, j, anew)
        return status, max(estimate, off)
    if sliding:
        return 0, estimate
    status, off = defect(w, j, begin < w.clock[SUSPECTED_UNTIL])
    return status, max(estimate, off) * (_STRICTLY if begin < w.clock[NONSMOOTH_UNTIL] else 1.0)


@compiled
def _suspect_discontinuity(w: Any, trial: Any, tried: float, erred: float) -> None:
    """Record that a rejected step may contain a discontinuity.

    `tried` and `erred` are the size and the error of the previously rejected step, 0 and inf for none.
    """
    if trial.estimate > _SUSPICIOUS:
        w.clock[SUSPECTED_UNTIL] = trial.end
    if trial.begin < w.clock[NONSMOOTH_UNTIL] or trial.estimate * (tried / trial.h) ** _NONSMOOTH > erred:
        w.clock[NONSMOOTH_UNTIL] = trial.end


@compiled
def _error_exponent(w: Any) -> Any:
    """Return the exponent of the error in the size of the next step."""
    return -0.25 if w.count[IMPLICIT] != 0 else -0.2


@compiled
def _shorten(w: Any, trial: Any) -> None:
    """Choose the size of the trial step that follows a rejected one."""
    factor = _SHRINK
    if trial.error < np.inf:
        factor = max(_SHRINK, _SAFETY * trial.error ** _error_exponent(w))
    w.clock[STEP] = trial.h * factor


@inlined
def _set_next_step(w: Any, trial: Any, stop: float, rejected: bool) -> None:
    """Choose the size of the step that follows an accepted one, before which a step was `rejected` or not."""
    power = _error_exponent(w)
    memory = 0.0 if w.count[IMPLICIT] != 0 or w.count[NEUTRAL] != 0 else _MEMORY
    remembered = w.clock[PREVIOUS] ** memory * trial.error ** (power + 0.75 * memory)
    factor = _GROW if trial.error == 0.0 else min(_GROW, _SAFETY * remembered)
    if rejected:
        factor = min(1.0, factor)
    w.clock[PREVIOUS] = max(trial.error, 1e-4) if trial.end < stop else 1.0  # the controller restarts after a break
    if trial.h == w.clock[STEP] or factor < 1.0:
        w.clock[STEP] = trial.h * factor
    else:
        w.clock[STEP] = max(w.clock[STEP], trial.h * factor)


@compiled
def _move_to_end(w: Any, trial: Any) -> None:
    """Continue from the end of a trial step."""
    n = w.count[SIZE]
    w.count[SEGMENTS] += 1
    w.count[STEPS] += 1
    for i in range(n):
        w.y[i] = w.trial[i]
        w.rates[i] = w.rates[6 * n + i]
    for b in range(w.count[BOUNDED]):
        i = w.bounded[b]
        w.y[i] = min(max(w.y[i], w.lower[i]), w.upper[i])
    w.clock[NOW] = trial.end


@compiled
def _look_for_sliding(w: Any, h: float, min_step: float) -> Any:
    """Search ahead after many rejections for a jump at which the solution ends; return 0 or SLIDING."""
    ahead = _time_to_sliding(w, _AHEAD * h)
    if ahead < max(_ARRIVED * h, 4.0 * min_step):
        return SLIDING
    if ahead < np.inf:
        w.clock[STEP] = min(w.clock[STEP], ahead)
    else:
        w.count[ROUGH] = 0
    return 0


@inlined
def _accept(w: Any, trial: Any, stop: float, rejections: int, landing: int) -> Any:
    """Make a trial step the next step of the solution, at its end the event `landing`; return 0 or a status."""
    min_step = _min_step(w, stop)
    _set_next_step(w, trial, stop, rejections > 0)
    _move_to_end(w, trial)
    if 0 <= landing < w.count[SIZE]:
        _switch(w, landing)
    status = _write_samples(w, trial.begin, trial.end)
    if status != 0:
        return status
    if trial.end == stop:
        w.count[FRESH] = 1
    w.count[ROUGH] += rejections + (1 if trial.begin < w.clock[NONSMOOTH_UNTIL] else 0)
    if w.count[ROUGH] > _ROUGH and landing < 0 and w.count[FRESH] == 0 and w.clock[SLIDING_STEP] == 0.0:
        return _look_for_sliding(w, trial.h, min_step)
    return 0


@inlined
def _take_step(w: Any, stop: float) -> Any:
    """Take a step up to `stop` or to an event before; return (status, event or -1, whether time has advanced).

    An event that is closer than the shortest step occurs without a step.
    """
    min_step = _min_step(w, stop)
    rejections, trouble = 0, TOO_SMALL
    landing, limit = -1, np.inf
    tried, erred = 0.0, np.inf
    while True:
        h, end = _trial_size(w, stop, min_step, limit, landing >= 0)
        if landing < 0 and h < min_step and end < stop:
            status = _start_sliding(w, min_step, trouble)
            if status != 0:
                return status, landing, False
            continue
        trial = _try_step(w, h, end, stop)
        trouble = trial.trouble
        if trial.status != 0:
            return trial.status, landing, False
        if not trial.error <= 1.0:
            w.count[REJECTED] += 1
            rejections += 1
            if 1.0 < trial.estimate < np.inf:
                _suspect_discontinuity(w, trial, tried, erred)
                tried, erred = h, trial.estimate
            _shorten(w, trial)
            landing, limit = -1, np.inf
        elif trial.event >= 0 and trial.theta < 1.0 - 1e-9 and not (landing >= 0 and trial.theta > 0.9):
            landing, limit = trial.event, trial.theta * h
            if limit < 4.0 * min_step:
                if landing < w.count[SIZE]:
                    _switch(w, landing)
                return 0, landing, False
        else:
            if landing < 0:
                landing = trial.event
            return _accept(w, trial, stop, rejections, landing), landing, True


@compiled
def _handle_event(w: Any, event: int) -> Any:
    """Settle the derivative after a bound was met or left, or pass a breaking point; return 0 or a status."""
    n = w.count[SIZE]
    if event >= n:
        return _pass(w, (event - n) // 2, (event - n) % 2 == 1)
    w.count[EVENTS] += 1
    released = w.held[event] == 0
    status = _settle(w)
    if status != 0:
        return status
    if released and w.held[event] != 0:
        w.held[event] = 0
        w.rates[event] = w.raw[event]
    located = w.held[event] == 1 or (w.held[event] == -1 and w.stopping[event] == AT_EITHER)
    if w.stopping[event] != 0 and located:
        w.count[COMPONENT] = event
        return LOCATED
    return 0


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
    final = w.count[STEPS] + steps
    instant = passages = 0  # events since the last step
    while w.clock[NOW] < w.clock[END]:
        if w.count[STEPS] >= final:
            return PAUSED
        if not _make_room(w):
            return FULL
        status = _prepare_step(w)
        if status != 0:
            return status
        status, event, advanced = _take_step(w, _next_stop(w))
        if status != 0:
            return status
        if advanced:
            instant = passages = 0
        elif event < w.count[SIZE]:
            instant += 1
        else:
            passages += 1
        if instant > _MAX_SWITCHES:
            return CHATTER
        if passages > _MAX_PASSAGES * w.count[DELAYS]:
            return PASSING
        if event >= 0:
            status = _handle_event(w, event)
            if status != 0:
                return status
    return DONE
